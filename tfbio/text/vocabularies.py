"""Finds, reads and copies the files of vocabularies, and names their special tokens.

WordPiece has `vocab.txt`, SentencePiece `*.model`, byte-level BPE `vocab.json` with `merges.txt`.
The `tokenizer.json` of `transformers` may hold any of them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path

from tfbio.base import cli, storage
from tfbio.text import sentencepiece_model

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


# The same five tokens in the other kinds: fairseq's names in RoBERTa, and Google's in ALBERT.
BYTE_BPE_SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
SENTENCEPIECE_SPECIAL_TOKENS = ("<pad>", "<unk>", CLS, SEP, MASK)
# The character for the space before a word, the first one of the word's first token.
BYTE_BPE_SPACE = "\u0120"
SENTENCEPIECE_SPACE = sentencepiece_model.SPACE
# The names of vocabularies in a run's folder; the names elsewhere, of ALBERT, of XLM-RoBERTa and
# others, and of ALBERT again; and the file that may be there instead.
NAMES = ("vocab.txt", "vocab.model", "vocab.json")
OTHER_NAMES = ("spiece.model", "sentencepiece.bpe.model", "30k-clean.model")
TOKENIZER_JSON = "tokenizer.json"


class VocabularyError(cli.UserError):
    """A vocabulary file that is missing or cannot be used; exit code 1."""


def vocabulary_files(path: str | os.PathLike) -> list[Path]:
    """Returns the paths of a vocabulary's files, without looking whether they exist.

    Args:
      path: the vocabulary's file.

    Returns:
      [path]; for byte-level BPE (a `*.json` that is not `tokenizer.json`) also `merges.txt` in the
      same folder.
    """
    path = storage.at(path)
    is_byte_bpe = path.suffix == ".json" and path.name != TOKENIZER_JSON
    return [path, path.with_name("merges.txt")] if is_byte_bpe else [path]


def find_vocabulary(folder: str | os.PathLike) -> Path:
    """Finds the vocabulary in a folder of examples, of a run, or of a model from elsewhere.

    Args:
      folder: the folder.

    Returns:
      The path of the file, one of `NAMES` or `OTHER_NAMES`. For a model from elsewhere it may be
      `tokenizer.json`, which `copy_vocabulary` turns into another one.

    Raises:
      VocabularyError: there is no vocabulary, or more than one.
    """
    names = (*NAMES, *OTHER_NAMES)
    paths = [path for name in names if (path := storage.at(folder, name)).is_file()]
    if len(paths) > 1:
        raise VocabularyError(
            f"{folder} has {' and '.join(path.name for path in paths)}: remove those that it was "
            "not made with."
        )
    if not paths:
        path = storage.at(folder, TOKENIZER_JSON)
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
        with storage.written_whole(storage.at(folder, name)) as stream:
            stream.write(content)
    return storage.at(folder, next(iter(files)))


def contents(path: str | os.PathLike) -> dict[str, bytes]:
    """Reads the files of a vocabulary.

    Args:
      path: the vocabulary's file, which may be a `tokenizer.json`.

    Returns:
      The content of each file by its name in a run's folder: of `vocab.txt`, of `vocab.model`, or
      of `vocab.json` and then `merges.txt`. Loaders take the first file.

    Raises:
      VocabularyError: `path` is a `tokenizer.json` without a usable vocabulary.
      OSError: a file is missing or cannot be read.
    """
    if storage.at(path).name == TOKENIZER_JSON:
        return vocabulary_in(path)
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
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def vocabulary_in(path: str | os.PathLike) -> dict[str, bytes]:
    """Reads the vocabulary in a `tokenizer.json`, the only file that `transformers` 5 saves.

    Returns:
      The content of files by their names: of `vocab.txt` (WordPiece), of `vocab.json` and
      `merges.txt` (byte-level BPE), or of `vocab.model` (a unigram model).

    Raises:
      VocabularyError: it is missing or no JSON object, or holds none of these.
    """
    tokenizer = storage.read_json(storage.at(path))
    model, added = tokenizer.get("model", {}), tokenizer.get("added_tokens", [])
    try:
        if isinstance(model.get("vocab"), list):
            return {"vocab.model": _sentencepiece(tokenizer)}
        vocab = model["vocab"] | {token["content"]: token["id"] for token in added}
        tokens = sorted(vocab, key=vocab.__getitem__)
        if [vocab[token] for token in tokens] != list(range(len(tokens))):
            raise ValueError("its ids are not 0, 1, 2 and so on")
        if model.get("continuing_subword_prefix") == "##":
            return {"vocab.txt": "".join(f"{token}\n" for token in tokens).encode()}
        if "ByteLevel" not in json.dumps(tokenizer["pre_tokenizer"]):
            raise ValueError("it is neither WordPiece, nor byte-level BPE, nor Unigram")
        # A merge is "a b", or in newer files ["a", "b"].
        merges = (x if isinstance(x, str) else " ".join(x) for x in model["merges"])
        lines = "".join(f"{merge}\n" for merge in ("#version: 0.2", *merges))
        return {
            "vocab.json": json.dumps(vocab, ensure_ascii=False).encode(),
            "merges.txt": lines.encode(),
        }
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise VocabularyError(
            f"{path} holds no vocabulary that can be used ({reason}): give a folder with "
            "vocab.txt, with vocab.json and merges.txt, or with spiece.model."
        ) from error


def _sentencepiece(tokenizer: dict) -> bytes:
    """Returns a serialized SentencePiece model with the pieces and the normalizer of a tokenizer.

    Args:
      tokenizer: the content of a `tokenizer.json`.
    """
    own, unknown = tokenizer["model"], tokenizer["model"]["unk_id"]
    special = {token["content"] for token in tokenizer["added_tokens"] if token["special"]}
    model = sentencepiece_model.ModelProto()
    for number, (piece, score) in enumerate(own["vocab"]):
        piece_type = sentencepiece_model.NORMAL
        if number == unknown:
            piece_type = sentencepiece_model.UNKNOWN
        elif piece in special:
            piece_type = sentencepiece_model.CONTROL
        model.pieces.add(piece=piece, score=score, type=piece_type)
    names = [piece.piece for piece in model.pieces]
    spec = model.trainer_spec
    spec.model_type, spec.vocab_size = sentencepiece_model.UNIGRAM, len(names)
    spec.unk_id, spec.unk_piece, spec.bos_id, spec.eos_id = unknown, names[unknown], -1, -1
    pad = SENTENCEPIECE_SPECIAL_TOKENS[0]
    spec.pad_id = names.index(pad) if pad in names else -1
    normalizer = tokenizer.get("normalizer") or {}
    for part in normalizer.get("normalizers", [normalizer]):
        if part.get("type") == "Precompiled":
            charsmap = base64.b64decode(part["precompiled_charsmap"])
            model.normalizer_spec.precompiled_charsmap = charsmap
    return model.SerializeToString()
