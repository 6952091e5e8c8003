"""Finds, reads, hashes and copies the files of vocabularies, and tells whether they are cased.

WordPiece has `vocab.txt`, SentencePiece `*.model`, byte-level BPE `vocab.json` with `merges.txt`.
The `tokenizer.json` of `transformers` may hold any of them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tfbio.base import file_paths, storage
from tfbio.text import sentencepiece_model, tokenizer_json
from tfbio.text.special_tokens import VocabularyError

SENTENCEPIECE_SPACE = sentencepiece_model.SPACE
# The names of vocabularies in a run's folder; the names elsewhere, of ALBERT, of XLM-RoBERTa and
# others, and of ALBERT again; and the file that may be there instead.
NAMES = ("vocab.txt", "vocab.model", "vocab.json")
_OTHER_NAMES = ("spiece.model", "sentencepiece.bpe.model", "30k-clean.model")
TOKENIZER_JSON = "tokenizer.json"
# The least share of tokens with capital letters in a cased vocabulary. In BERT's it is a third; an
# uncased one may have a few that somebody added.
_CASED = 0.01


def count_capitals(tokens: Sequence[str]) -> int:
    """Counts the tokens of a vocabulary, its special ones left out, that have a capital letter."""
    return sum(token != token.lower() for token in tokens)


def is_cased(tokens: Sequence[str]) -> bool:
    """Returns True if the tokens of a vocabulary, its special ones left out, are of cased text."""
    return count_capitals(tokens) > _CASED * len(tokens)


def wordpiece_tokens(content: bytes) -> list[str]:
    """Returns the tokens of a `vocab.txt` in their order, without the special ones in brackets.

    Args:
      content: the content of the file.

    Raises:
      UnicodeDecodeError: it is no UTF-8.
    """
    return [token for token in content.decode().split("\n") if not token.startswith("[")]


def case_contradiction(
    path: str | os.PathLike, tokens: Sequence[str], lower_case: bool, folds: bool = False
) -> str | None:
    """Returns why a vocabulary cannot be one of text in lower case, or of text as it is, or None.

    Either mistake would lose much without a word: tokens that no text gives, or text that has no
    token.

    Args:
      path: the vocabulary's file, for the message.
      tokens: the tokens that text can give, without special ones.
      lower_case: whether text is to be lower-cased.
      folds: whether the vocabulary itself takes capital letters for small ones.
    """
    with_capitals = count_capitals(tokens)
    if lower_case and is_cased(tokens):
        return f"{with_capitals} of {len(tokens)} tokens in {path} have capital letters"
    if not lower_case and not with_capitals and not folds:
        return f"no token in {path} has a capital letter"
    return None


def vocabulary_files(path: str | os.PathLike) -> list[Path]:
    """Returns the paths of a vocabulary's files, without looking whether they exist.

    Args:
      path: the vocabulary's file.

    Returns:
      [path]; for byte-level BPE (a `*.json` that is not `tokenizer.json`) also `merges.txt` in the
      same folder.
    """
    path = file_paths.at(path)
    is_byte_bpe = path.suffix == ".json" and path.name != TOKENIZER_JSON
    return [path, path.with_name("merges.txt")] if is_byte_bpe else [path]


def find_vocabulary(folder: str | os.PathLike) -> Path:
    """Finds the vocabulary in a folder of examples, of a run, or of a model from elsewhere.

    Args:
      folder: the folder.

    Returns:
      The path of the file: `vocab.txt`, `vocab.model` or `vocab.json`; for a model from elsewhere
      also `spiece.model`, `sentencepiece.bpe.model` or `30k-clean.model`, or, where none of these
      is, `tokenizer.json`, which `copy_vocabulary` turns into another one.

    Raises:
      VocabularyError: there is no vocabulary, or more than one.
    """
    names = (*NAMES, *_OTHER_NAMES)
    paths = [path for name in names if (path := file_paths.at(folder, name)).is_file()]
    if len(paths) > 1:
        raise VocabularyError(
            f"{folder} has {' and '.join(path.name for path in paths)}: remove those that it was "
            "not made with."
        )
    if not paths:
        path = file_paths.at(folder, TOKENIZER_JSON)
        if path.is_file():
            return path
        raise VocabularyError(f"{folder} has no {', '.join(names)} or {TOKENIZER_JSON}.")
    return paths[0]


def copy_vocabulary(path: str | os.PathLike, folder: str | os.PathLike) -> Path:
    """Copies a vocabulary to `vocab.txt`, `vocab.model`, or `vocab.json` with `merges.txt`.

    Args:
      path: the vocabulary's file, which may be a `tokenizer.json`.
      folder: the folder for the copy, which must exist.

    Returns:
      The path of the copy that tokenizers are loaded from: `vocab.txt`, `vocab.model` or
      `vocab.json` in `folder`.

    Raises:
      VocabularyError: `path` is a `tokenizer.json` without a usable vocabulary.
      OSError: a file is missing, or cannot be read or written.
    """
    files = contents(path)
    for name, content in files.items():
        with storage.written_whole(file_paths.at(folder, name)) as stream:
            stream.write(content)
    return file_paths.at(folder, next(iter(files)))


def contents(path: str | os.PathLike) -> dict[str, bytes]:
    """Reads the contents of a vocabulary's files.

    Args:
      path: the vocabulary's file, which may be a `tokenizer.json`.

    Returns:
      The content of each file by its name in a run's folder: of `vocab.txt`, of `vocab.model`, or
      of `vocab.json` and then `merges.txt`. Loaders take the first file.

    Raises:
      VocabularyError: `path` is a `tokenizer.json` without a usable vocabulary.
      OSError: a file is missing or cannot be read.
    """
    if file_paths.at(path).name == TOKENIZER_JSON:
        return tokenizer_json.vocabulary_files(path)
    first, *others = vocabulary_files(path)
    content = {f"vocab{first.suffix}": first.read_bytes()}
    return content | {file.name: file.read_bytes() for file in others}


def sha256_of(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a vocabulary, 64 hexadecimal digits.

    That is the hash of its file, or, for byte-level BPE, of the joined hashes of its two files.

    Args:
      path: the vocabulary's file. A `tokenizer.json` has the hash of the vocabulary in it.

    Raises:
      VocabularyError: `path` is a `tokenizer.json` without a usable vocabulary.
      OSError: a file is missing or cannot be read.
    """
    hashes = [hashlib.sha256(content).hexdigest() for content in contents(path).values()]
    return storage.joined_sha256(hashes)


def suffix_of(path: str | os.PathLike) -> str:
    """Returns the suffix of a vocabulary file, which tells its kind: ".txt", ".model" or ".json".

    Raises:
      VocabularyError: the file has another suffix.
    """
    suffix = file_paths.at(path).suffix
    if suffix in (".txt", ".model", ".json"):
        return suffix
    raise VocabularyError(
        f"{path} is no vocabulary: give WordPiece's vocab.txt, SentencePiece's *.model, or "
        "byte-level BPE's vocab.json with merges.txt beside it."
    )


@contextmanager
def unpacked(path: str | os.PathLike) -> Iterator[Path]:
    """Copies a vocabulary, given as a `tokenizer.json`, to temporary files for a `with` block.

    The files are removed after the block. `copy_vocabulary` copies one that stays.

    Args:
      path: the `tokenizer.json`, which errors name in place of the temporary file.

    Yields:
      The path of `vocab.txt`, `vocab.model` or `vocab.json` (with `merges.txt` beside it).

    Raises:
      VocabularyError: it holds no vocabulary that can be used, or the block raises one.
    """
    with tempfile.TemporaryDirectory() as folder:
        own = copy_vocabulary(path, folder)
        try:
            yield own
        except VocabularyError as error:
            raise VocabularyError(str(error).replace(str(own), str(path))) from error
