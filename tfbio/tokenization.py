"""Vocabulary files of four kinds, and the encoder that turns text into their ids.

`load_encoder` reads WordPiece (`vocab.txt`), SentencePiece unigram or BPE (`*.model`) and
byte-level BPE (`vocab.json` with `merges.txt`), which `python -m data_prep.vocabulary` makes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import string
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfbio import cli, storage, word_table

if TYPE_CHECKING:
    import tokenizers

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


# The names of the same five in the other kinds: fairseq's in RoBERTa, and Google's in ALBERT.
BYTE_BPE_SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
SENTENCEPIECE_SPECIAL_TOKENS = ("<pad>", "<unk>", CLS, SEP, MASK)
# How they write the space before a word, which is the first character of its first token.
BYTE_BPE_SPACE = "\u0120"
SENTENCEPIECE_SPACE = "\u2581"

# The ids of some texts and where each one's begin and end: see `Encoder.__call__`.
Encoded = tuple[np.ndarray, np.ndarray]


class VocabularyError(cli.UserError):
    """A vocabulary file that is missing or cannot be used."""


def read_vocab(path: str | os.PathLike) -> dict[str, int]:
    """Reads a BERT `vocab.txt`: one token a line, the line's number from 0 is the token's id.

    Raises:
      VocabularyError: no such file, not UTF-8 text, a token twice, or a special token missing.
    """
    try:
        with storage.at(path).open(encoding="utf-8") as stream:
            # Not `splitlines`, which also splits at characters that are tokens of their own.
            tokens = [line.rstrip("\n") for line in stream]
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary {path} cannot be read ({storage.reason(error)}): give a vocab.txt, or "
            "make one with `python -m data_prep.vocabulary`."
        ) from error
    except UnicodeDecodeError as error:
        raise VocabularyError(
            f"{path} is not a vocabulary: it is not text in UTF-8 ({error.reason})."
        ) from error
    vocab: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if token in vocab:
            raise VocabularyError(
                f"the vocabulary {path} has {token!r} twice, on lines {vocab[token] + 1} and "
                f"{index + 1}: every line must hold one token of its own."
            )
        vocab[token] = index
    missing = [token for token in SPECIAL_TOKENS if token not in vocab]
    if missing:
        raise VocabularyError(
            f"the vocabulary {path} has no {', '.join(missing)}: give a BERT vocab.txt with all of "
            f"{' '.join(SPECIAL_TOKENS)}, or make one with `python -m data_prep.vocabulary`."
        )
    return vocab


def wordpiece(vocab: dict[str, int], lower_case: bool = True) -> tokenizers.Tokenizer:
    """BERT's tokenizer over a vocabulary; `encode` adds no special tokens.

    Args:
      vocab: as `read_vocab` returns it.
      lower_case: whether text is lower-cased and stripped of accents first ("uncased").

    Returns:
      A Hugging Face `tokenizers.Tokenizer`, whose `encode_batch` is the fast way to use it.
    """
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers

    # A word of more than 100 characters becomes [UNK], as in Hugging Face's BertTokenizer.
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=UNK))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


@dataclasses.dataclass(frozen=True)
class Encoder:
    """Turns texts into ids, without special tokens; `load_encoder` makes one.

    What looks like a special token in a text ("[MASK]", "<s>") is text like any other.

    Attributes:
      kind: "wordpiece", "unigram", "bpe" (both SentencePiece's) or "byte_bpe".
      vocab_size: number of ids.
      pad_id: the id of [PAD], or of <pad>.
      unk_id: of [UNK], or <unk>.
      cls_id: of [CLS], or <s>.
      sep_id: of [SEP], or </s>.
      mask_id: of [MASK], or <mask>.
      begins_word: bool [vocab_size], the tokens that begin a word; the others go on with one.
      encode: what a call does, with texts in UTF-8.
    """

    kind: str
    vocab_size: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    begins_word: np.ndarray = dataclasses.field(repr=False, compare=False)
    encode: Callable[[list[bytes]], Encoded] = dataclasses.field(repr=False)

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids that stand for no text, in order."""
        return tuple(sorted((self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id)))

    def __call__(self, texts: Iterable[str | bytes]) -> Encoded:
        """Encodes texts, which may be in UTF-8 already; those of many documents at once are best.

        Returns:
          The ids of all texts, one after the other, int32 [ids]; and where each text begins and
          ends among them, int64 [len(texts) + 1]: text i is `ids[offsets[i] : offsets[i + 1]]`.
        """
        return self.encode([t if isinstance(t, bytes) else t.encode() for t in texts])


def load_encoder(path: str | os.PathLike, lower_case: bool = True) -> Encoder:
    """Makes the encoder of a vocabulary file; what kind it is, its name says.

    Args:
      path: WordPiece's `vocab.txt` (any `*.txt`), SentencePiece's `*.model`, or byte-level BPE's
        `vocab.json` (any `*.json`), with `merges.txt` in the same folder.
      lower_case: WordPiece: whether text is lower-cased and stripped of accents first. The other
        kinds do not look at it: a SentencePiece model knows by itself what to do with text before
        it is cut, and byte-level BPE changes nothing.

    Raises:
      VocabularyError: the file is missing, damaged, of no known kind, or lacks a special token.
    """
    suffix = storage.at(path).suffix
    if suffix == ".txt":
        return _wordpiece_encoder(read_vocab(path), lower_case)
    if suffix == ".model":
        return _sentencepiece_encoder(path)
    if suffix == ".json":
        return _byte_bpe_encoder(path)
    raise VocabularyError(
        f"{path} is no vocabulary: give WordPiece's vocab.txt, SentencePiece's *.model, or "
        "byte-level BPE's vocab.json with merges.txt beside it."
    )


def vocabulary_files(path: str | os.PathLike) -> list[Path]:
    """The files of a vocabulary: byte-level BPE has a second one."""
    path = storage.at(path)
    return [path, path.with_name("merges.txt")] if path.suffix == ".json" else [path]


def find_vocabulary(folder: str | os.PathLike) -> Path:
    """The vocabulary in a folder of examples or of a run: `vocab.txt`, `.model` or `.json`.

    Raises:
      VocabularyError: there is none, or more than one.
    """
    names = ("vocab.txt", "vocab.model", "vocab.json")
    found = [path for name in names if (path := storage.at(folder, name)).is_file()]
    if len(found) > 1:
        raise VocabularyError(
            f"{folder} has {' and '.join(path.name for path in found)}: remove those that it was "
            "not made with."
        )
    if not found:
        raise VocabularyError(f"{folder} has no {', '.join(names[:-1])} or {names[-1]}.")
    return found[0]


def copy_vocabulary(path: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Puts a vocabulary into a folder, as `vocab.txt`, `.model` or `.json` with `merges.txt`."""
    for file in vocabulary_files(path):
        name = file.name if file.name == "merges.txt" else f"vocab{file.suffix}"
        with storage.written_whole(storage.at(folder, name)) as stream:
            stream.write(file.read_bytes())


def _wordpiece_encoder(vocab: dict[str, int], lower_case: bool) -> Encoder:
    """BERT's ids, word by word.

    All that BERT does to text before WordPiece, it does to one character at a time, or (when it
    decomposes them, to strip accents) to a character with the marks that follow it. The space and
    ASCII punctuation take no marks, and BERT cuts at them: what stands between can be encoded on
    its own.
    """
    tokenizer = wordpiece(vocab, lower_case)

    def encode(word: str) -> list[int]:
        word = word.lstrip(" ")
        if word.isascii() and word.isprintable():
            # Nothing to normalize but case: half of the time saved.
            tokens = tokenizer.model.tokenize(word.lower() if lower_case else word)
            return [token.id for token in tokens]
        return tokenizer.encode(word, add_special_tokens=False).ids

    special = (vocab[token] for token in SPECIAL_TOKENS)
    table = word_table.WordTable(encode, string.punctuation)
    begins_word = np.array([not token.startswith("##") for token in vocab])
    return Encoder("wordpiece", len(vocab), *special, begins_word, table)


def _sentencepiece_encoder(path: str | os.PathLike) -> Encoder:
    """The ids of the sentencepiece library."""
    import sentencepiece

    try:
        model = storage.at(path).read_bytes()
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary {path} cannot be read ({storage.reason(error)}): give a SentencePiece "
            "*.model, or make one with `python -m data_prep.vocabulary`."
        ) from error
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise VocabularyError(
            f"{path} is not a SentencePiece model: make one with `python -m data_prep.vocabulary`."
        ) from error
    special = [processor.piece_to_id(token) for token in SENTENCEPIECE_SPECIAL_TOKENS]
    known = map(processor.id_to_piece, special)
    _check_special(path, SENTENCEPIECE_SPECIAL_TOKENS, set(known))

    def encode(texts: list[bytes]) -> Encoded:
        found = processor.encode([text.decode() for text in texts], num_threads=1)
        ids = np.fromiter(chain.from_iterable(found), np.int32)
        return ids, np.cumsum([0, *map(len, found)])

    ids = range(processor.get_piece_size())
    pieces = [processor.id_to_piece(i) for i in ids]
    # The scores of BPE are the order of its merges, 0, -1, -2; a unigram model's are logarithms of
    # probabilities.
    kind = "bpe" if all(processor.get_score(i).is_integer() for i in ids) else "unigram"
    # What BPE merges never reaches over whitespace, unless it was trained to. Nor do the pieces of
    # a unigram model, but it adds up probabilities over the whole text, and which of two equally
    # likely ways to cut a word wins ("66" + "6" or "6" + "66") may turn on the last bit of the sum.
    if kind == "bpe" and not any(SENTENCEPIECE_SPACE in piece[1:] for piece in pieces):
        encode = word_table.WordTable(
            lambda word: processor.encode(word.strip(" ")), is_plain=str.isprintable
        )
    begins_word = np.array([piece.startswith(SENTENCEPIECE_SPACE) for piece in pieces])
    return Encoder(kind, len(pieces), *special, begins_word, encode)


def _byte_bpe_encoder(path: str | os.PathLike) -> Encoder:
    """RoBERTa's ids: no space is put before the first word of a text."""
    path, merges = vocabulary_files(path)
    try:
        vocab = json.loads(path.read_text(encoding="utf-8"))
        lines = merges.read_text(encoding="utf-8").splitlines()
        # The first line may say which version of the format it is.
        pairs = [tuple(line.split(" ")) for line in lines if not line.startswith("#version")]
        for number, pair in enumerate(pairs, 1):
            if len(pair) != 2:
                raise ValueError(f"merge {number} is not two tokens")
        tokenizer = byte_bpe(vocab, pairs)
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary {path} with {merges.name} cannot be read ({storage.reason(error)}): "
            "give vocab.json with merges.txt beside it, or make them with "
            "`python -m data_prep.vocabulary`."
        ) from error
    except Exception as error:  # the tokenizers library raises nothing more exact
        raise VocabularyError(
            f"{path} with {merges.name} is not byte-level BPE: {error}."
        ) from error
    _check_special(path, BYTE_BPE_SPECIAL_TOKENS, vocab)

    def encode(word: str) -> list[int]:
        return tokenizer.encode(word, add_special_tokens=False).ids

    def is_plain(text: str) -> bool:
        # A word carries the space before it. Other whitespace is a word of its own.
        return text.isprintable() and "  " not in text

    special = (vocab[token] for token in BYTE_BPE_SPECIAL_TOKENS)
    table = word_table.WordTable(encode, is_plain=is_plain)
    tokens = sorted(vocab, key=vocab.__getitem__)
    begins_word = np.array([token.startswith(BYTE_BPE_SPACE) for token in tokens])
    return Encoder("byte_bpe", len(vocab), *special, begins_word, table)


def byte_bpe(
    vocab: dict[str, int] | None = None, merges: list[tuple[str, str]] | None = None
) -> tokenizers.Tokenizer:
    """RoBERTa's tokenizer, or one that is still to learn; `encode` adds no special tokens."""
    import tokenizers
    from tokenizers import models, pre_tokenizers

    model = models.BPE(vocab, merges)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def _check_special(
    path: str | os.PathLike, tokens: Sequence[str], known: set[str] | dict[str, int]
) -> None:
    missing = [token for token in tokens if token not in known]
    if missing:
        raise VocabularyError(
            f"the vocabulary {path} has no {', '.join(missing)}: give one with all of "
            f"{' '.join(tokens)}, or make one with `python -m data_prep.vocabulary`."
        )
