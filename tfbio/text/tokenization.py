"""Vocabulary files of four kinds, and what turns text into their ids.

WordPiece (`vocab.txt`), SentencePiece unigram or BPE (`*.model`) and byte-level BPE (`vocab.json`
with `merges.txt`), which `python -m data_prep.vocabulary` makes. `load_encoder` is for pretraining,
where much text is encoded fast; `load_tokenizer` for fine-tuning and prediction, which need to know
the characters of each token.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import string
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfbio.base import storage
from tfbio.text import sentencepiece_model, word_table
from tfbio.text.vocabularies import (
    BYTE_BPE_SPACE,
    BYTE_BPE_SPECIAL_TOKENS,
    SENTENCEPIECE_SPACE,
    SENTENCEPIECE_SPECIAL_TOKENS,
    SPECIAL_TOKENS,
    TOKENIZER_JSON,
    UNK,
    VocabularyError,
    copy_vocabulary,
    vocabulary_files,
)

if TYPE_CHECKING:
    import tokenizers

# The ids of some texts and where each one's begin and end: see `Encoder.__call__`.
Encoded = tuple[np.ndarray, np.ndarray]


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
      path: WordPiece's `vocab.txt` (any `*.txt`), SentencePiece's `*.model`, byte-level BPE's
        `vocab.json` (any `*.json`), with `merges.txt` in the same folder, or Hugging Face's
        `tokenizer.json`, which may hold any of them.
      lower_case: WordPiece: whether text is lower-cased and stripped of accents first. A
        SentencePiece model knows by itself what to do with text before it is cut, but for those
        of `sentencepiece_model.lower_cases_first`, such as ALBERT's. Byte-level BPE changes
        nothing.

    Raises:
      VocabularyError: the file is missing, damaged, of no known kind, or lacks a special token.
    """
    if storage.at(path).name == TOKENIZER_JSON:
        with _unpacked(path) as own:
            return load_encoder(own, lower_case)
    suffix = _suffix(path)
    if suffix == ".txt":
        return _wordpiece_encoder(read_vocab(path), lower_case)
    if suffix == ".model":
        return _sentencepiece_encoder(path, lower_case)
    return _byte_bpe_encoder(path)


def _suffix(path: str | os.PathLike) -> str:
    suffix = storage.at(path).suffix
    if suffix in (".txt", ".model", ".json"):
        return suffix
    raise VocabularyError(
        f"{path} is no vocabulary: give WordPiece's vocab.txt, SentencePiece's *.model, or "
        "byte-level BPE's vocab.json with merges.txt beside it."
    )


@contextmanager
def _unpacked(path: str | os.PathLike) -> Iterator[Path]:
    """The vocabulary in a `tokenizer.json` as a file for a while, by whose name no error goes."""
    with tempfile.TemporaryDirectory() as folder:
        own = copy_vocabulary(path, folder)
        try:
            yield own
        except VocabularyError as error:
            raise VocabularyError(str(error).replace(str(own), str(path))) from error


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """Turns texts and words into tokens that know their characters; `load_tokenizer` makes one.

    What looks like a special token in a text is text like any other.

    Attributes:
      kind: see `Encoder`.
      vocab_size: number of tokens in the vocabulary, without those that were added to it.
      rows: number of embeddings that a model must have for all tokens.
      pad_id: the id of [PAD], or of <pad>.
      unk_id: of [UNK], or <unk>.
      cls_id: of [CLS], or <s>.
      sep_id: of [SEP], or </s>.
      mask_id: of [MASK], or <mask>.
      backend: Hugging Face's tokenizer.
      segments: how many segments the model tells apart; where it is 1, all tokens are of that.
    """

    kind: str
    vocab_size: int
    rows: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    backend: tokenizers.Tokenizer = dataclasses.field(repr=False)
    segments: int = 2

    def encode(self, texts: Sequence[str]) -> list[tokenizers.Encoding]:
        """Encodes texts, without special tokens.

        Returns:
          Of each its `ids`, and as `offsets` the first character of each token, and the one after
          its last. The space before a word is never among them.
        """
        return self.backend.encode_batch(list(texts), add_special_tokens=False)

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """The ids of each word, as it is encoded within a text: with a space before it.

        A word of characters that are dropped is still a word, of the token for what is unknown.
        """
        space = " " * (self.kind == "byte_bpe")
        return [e.ids or [self.unk_id] for e in self.encode([space + word for word in words])]

    def special_tokens(self, pair: bool) -> int:
        """How many `join` adds to a text, or to a pair of texts."""
        return (4 if self.kind == "byte_bpe" else 3) if pair else 2

    def join(
        self, first: Sequence[int], second: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What a model sees of a text or a pair, as BERT and ALBERT, or RoBERTa, have it.

        [CLS] A [SEP] and [CLS] A [SEP] B [SEP], where B with its [SEP] is segment 1 (Devlin et al.,
        2019, section 4); <s> A </s> and <s> A </s></s> B </s>, all of segment 0 (fairseq's
        `RobertaHubInterface.encode`).

        Returns:
          The ids and the segments, int32 [tokens] each.
        """
        parts = [[self.cls_id], first, [self.sep_id]]
        if second is not None:
            parts += [[self.sep_id] * (self.special_tokens(pair=True) - 3), second, [self.sep_id]]
        ids = np.concatenate([np.asarray(part, np.int32) for part in parts])
        segments = np.zeros(len(ids), np.int32)
        if self.kind != "byte_bpe" and self.segments > 1:
            segments[len(first) + 2 :] = 1
        return ids, segments


def load_tokenizer(
    path: str | os.PathLike,
    lower_case: bool = True,
    new_tokens: Sequence[str] = (),
    segments: int = 2,
) -> Tokenizer:
    """Makes the tokenizer of a vocabulary, whose ids are those of `load_encoder`.

    Args:
      path: as for `load_encoder`.
      lower_case: as for `load_encoder`.
      new_tokens: tokens that a text may hold and the vocabulary does not, whose embeddings mean
        nothing yet. They take the ids of WordPiece's first [unused] tokens, or else those after the
        vocabulary's last.
      segments: how many segments the model tells apart.

    Raises:
      VocabularyError: as for `load_encoder`, or a SentencePiece model has what
        `sentencepiece_model.tokenizer` refuses.
    """
    if storage.at(path).name == TOKENIZER_JSON:
        with _unpacked(path) as own:
            return load_tokenizer(own, lower_case, new_tokens, segments)
    suffix = _suffix(path)
    if suffix == ".txt":
        kind, names, vocab = "wordpiece", SPECIAL_TOKENS, read_vocab(path)
        unused = [token for token in vocab if re.fullmatch(r"\[unused\d+\]", token)]
        renamed = dict(zip(unused, new_tokens, strict=False))
        backend = wordpiece({renamed.get(x, x): number for x, number in vocab.items()}, lower_case)
    elif suffix == ".model":
        model, processor = _read_sentencepiece(path)
        kind, names = _sentencepiece_kind(processor), SENTENCEPIECE_SPECIAL_TOKENS
        vocab = {piece.piece: number for number, piece in enumerate(model.pieces)}
        try:
            backend = sentencepiece_model.tokenizer(model, lower_case)
        except ValueError as error:
            raise VocabularyError(
                f"the SentencePiece model {path} {error}, which cannot be used: give another."
            ) from error
    else:
        kind, names = "byte_bpe", BYTE_BPE_SPECIAL_TOKENS
        vocab, backend = _read_byte_bpe(path)
    # The space before a marker belongs to it, or byte-level BPE has a token for it.
    added = [_added(token, lstrip=kind == "byte_bpe") for token in new_tokens]
    backend.add_special_tokens(added)
    special = (vocab[name] for name in names)
    return Tokenizer(kind, len(vocab), backend.get_vocab_size(), *special, backend, segments)


def _added(token: str, lstrip: bool) -> tokenizers.AddedToken:
    import tokenizers

    return tokenizers.AddedToken(token, lstrip=lstrip, special=True, normalized=False)


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


def _read_sentencepiece(path: str | os.PathLike):
    """The model as it is written, and the library's processor of it."""
    import sentencepiece
    from google.protobuf.message import DecodeError

    try:
        model = storage.at(path).read_bytes()
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary {path} cannot be read ({storage.reason(error)}): give a SentencePiece "
            "*.model, or make one with `python -m data_prep.vocabulary`."
        ) from error
    try:
        processor = sentencepiece.SentencePieceProcessor()
        # Given to the constructor, an empty file would be none, and what it makes no model.
        processor.LoadFromSerializedProto(model)
        found = sentencepiece_model.ModelProto.FromString(model)
        sentencepiece_model.folds_case(found)  # whose normalizer may be damaged
    except (RuntimeError, DecodeError, ValueError) as error:
        raise VocabularyError(
            f"{path} is not a SentencePiece model: make one with `python -m data_prep.vocabulary`."
        ) from error
    special = [processor.piece_to_id(token) for token in SENTENCEPIECE_SPECIAL_TOKENS]
    known = map(processor.id_to_piece, special)
    _check_special(path, SENTENCEPIECE_SPECIAL_TOKENS, set(known))
    return found, processor


def _sentencepiece_kind(processor) -> str:
    # The scores of BPE are the order of its merges, 0, -1, -2; a unigram model's are logarithms of
    # probabilities.
    scores = map(processor.get_score, range(processor.get_piece_size()))
    return "bpe" if all(score.is_integer() for score in scores) else "unigram"


def _sentencepiece_encoder(path: str | os.PathLike, lower_case: bool) -> Encoder:
    """The ids of the sentencepiece library."""
    model, processor = _read_sentencepiece(path)
    before = None
    if sentencepiece_model.lower_cases_first(model, lower_case):
        from tokenizers import normalizers

        before = normalizers.Sequence(sentencepiece_model.albert_normalizers())

    def prepared(text: str) -> str:
        return before.normalize_str(text) if before else text

    def encode(texts: list[bytes]) -> Encoded:
        found = processor.encode([prepared(text.decode()) for text in texts], num_threads=1)
        ids = np.fromiter(chain.from_iterable(found), np.int32)
        return ids, np.cumsum([0, *map(len, found)])

    kind, pieces = _sentencepiece_kind(processor), [piece.piece for piece in model.pieces]
    # What BPE merges never reaches over whitespace, unless it was trained to. Nor do the pieces of
    # a unigram model, but it adds up probabilities over the whole text, and which of two equally
    # likely ways to cut a word wins ("66" + "6" or "6" + "66") may turn on the last bit of the sum.
    if kind == "bpe" and not any(SENTENCEPIECE_SPACE in piece[1:] for piece in pieces):
        encode = word_table.WordTable(
            lambda word: processor.encode(prepared(word).strip(" ")), is_plain=str.isprintable
        )
    special = (processor.piece_to_id(token) for token in SENTENCEPIECE_SPECIAL_TOKENS)
    begins_word = np.array([piece.startswith(SENTENCEPIECE_SPACE) for piece in pieces])
    return Encoder(kind, len(pieces), *special, begins_word, encode)


def _read_byte_bpe(path: str | os.PathLike) -> tuple[dict[str, int], tokenizers.Tokenizer]:
    """The vocabulary, token -> id, and the tokenizer."""
    path, merges = vocabulary_files(path)
    try:
        vocab = json.loads(path.read_text(encoding="utf-8"))
        lines = merges.read_text(encoding="utf-8").splitlines()
        # The first line may say which version of the format it is.
        pairs = [tuple(line.split(" ")) for line in lines if not line.startswith("#version")]
        for number, pair in enumerate(pairs, 1):
            if len(pair) != 2:
                raise ValueError(f"merge {number} is not two tokens")
        if sorted(vocab.values()) != list(range(len(vocab))):
            raise ValueError("its ids are not 0, 1, 2 and so on")
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
    return vocab, tokenizer


def _byte_bpe_encoder(path: str | os.PathLike) -> Encoder:
    """RoBERTa's ids: no space is put before the first word of a text."""
    vocab, tokenizer = _read_byte_bpe(path)

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
    from tokenizers import models, pre_tokenizers, processors

    model = models.BPE(vocab, merges)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # The space before a word, which its first token has, is none of the word's characters.
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
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
