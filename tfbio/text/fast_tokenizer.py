"""Encodes much text fast, for pretraining, without the offsets of tokens.

`load_fast_tokenizer` makes a `FastTokenizer`. The tokenizer of `tokenization` knows the offsets.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import string
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np

from tfbio.base import file_paths
from tfbio.text import byte_bpe, sentencepiece_model, wordpiece
from tfbio.text.special_tokens import (
    BYTE_BPE_SPACE,
    BYTE_BPE_SPECIAL_TOKENS,
    SENTENCEPIECE_SPECIAL_TOKENS,
    SPECIAL_TOKENS,
)
from tfbio.text.vocabularies import SENTENCEPIECE_SPACE, TOKENIZER_JSON, suffix_of, unpacked

# The ids of texts and the borders between the texts: see `FastTokenizer.__call__`.
_Encoded = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class FastTokenizer:
    """The fast tokenizer of pretraining, without offsets; `load_fast_tokenizer` makes one.

    A call takes texts, str or bytes in UTF-8 (else a UnicodeDecodeError), and encodes them without
    special tokens. The name of a special token in a text ("[MASK]", "<s>") is text like any other.

    Attributes:
      kind: "wordpiece", "unigram", "bpe" (both SentencePiece's) or "byte_bpe".
      vocab_size: the number of ids, an int as each of the following ids.
      pad_id: the id of [PAD] or <pad>.
      unk_id: the id of [UNK] or <unk>.
      cls_id: the id of [CLS] or <s>.
      sep_id: the id of [SEP] or </s>.
      mask_id: the id of [MASK] or <mask>.
      begins_word: bool [vocab_size], True for tokens that begin a word, and not continue one.
      encode: takes a list of texts in UTF-8 and returns the ids of all of them, int32 [ids], and
        the borders between the texts, int64 [texts + 1], so that text i has the ids from border i
        to border i + 1; a call of the object does the same, and also takes strings.
    """

    kind: str
    vocab_size: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    begins_word: np.ndarray = dataclasses.field(repr=False, compare=False)
    encode: Callable[[list[bytes]], _Encoded] = dataclasses.field(repr=False)

    def __call__(self, texts: Iterable[str | bytes]) -> _Encoded:
        """Encodes texts; those of many documents at once are fastest.

        Args:
          texts: strings, or bytes in UTF-8.

        Returns:
          The ids of all texts, one after the other, int32 [ids]; and the borders between the texts,
          int64 [len(texts) + 1]: the ids of text i are `ids[borders[i] : borders[i + 1]]`.
        """
        return self.encode([t if isinstance(t, bytes) else t.encode() for t in texts])


def load_fast_tokenizer(path: str | os.PathLike, lower_case: bool = True) -> FastTokenizer:
    """Makes the fast tokenizer of a vocabulary file, whose name tells its kind.

    Args:
      path: WordPiece's `vocab.txt` (any `*.txt`), SentencePiece's `*.model`, byte-level BPE's
        `vocab.json` (any `*.json`), with `merges.txt` in the same folder, or Hugging Face's
        `tokenizer.json`, which may hold any of them.
      lower_case: for WordPiece, whether to lower-case text and strip its accents first. A
        SentencePiece model itself tells how to normalize text, except one like ALBERT's, whose
        pieces have no capital letters and whose normalizer keeps them
        (`sentencepiece_model.lower_cases_first`). Byte-level BPE ignores it.

    Returns:
      The `FastTokenizer`, which called with texts returns their ids and the borders between them.

    Raises:
      VocabularyError: the file is missing, damaged or of an unknown kind, or lacks a special token.
    """
    if file_paths.at(path).name == TOKENIZER_JSON:
        with unpacked(path) as own:
            return load_fast_tokenizer(own, lower_case)
    suffix = suffix_of(path)
    if suffix == ".txt":
        return _wordpiece(wordpiece.read_vocab(path), lower_case)
    if suffix == ".model":
        return _sentencepiece(path, lower_case)
    return _byte_bpe(path)


def _word_cache(*arguments: Any, **options: Any) -> Callable[[list[bytes]], _Encoded]:
    """Makes a `WordCache` when it first encodes.

    It needs numba, whose import takes half a second, and pretraining encodes nothing.
    """

    @functools.cache
    def cache() -> Callable[[list[bytes]], _Encoded]:
        from tfbio.text.word_cache import WordCache

        return WordCache(*arguments, **options)

    return lambda texts: cache()(texts)


def _wordpiece(vocab: dict[str, int], lower_case: bool) -> FastTokenizer:
    """Makes a tokenizer with BERT's ids, which encodes word by word.

    Before WordPiece BERT changes one character at a time or, when it strips accents, a character
    with the marks that follow it. The space and ASCII punctuation take no marks, and BERT cuts at
    them, so the text between two of them can be encoded alone.
    """
    tokenizer = wordpiece.make_tokenizer(vocab, lower_case)

    def encode(word: str) -> list[int]:
        word = word.lstrip(" ")
        if word.isascii() and word.isprintable():
            # Only case needs to be normalized, which saves half of the time.
            tokens = tokenizer.model.tokenize(word.lower() if lower_case else word)
            return [token.id for token in tokens]
        return tokenizer.encode(word, add_special_tokens=False).ids

    pad, unk, cls, sep, mask = (vocab[token] for token in SPECIAL_TOKENS)
    table = _word_cache(encode, string.punctuation)
    begins_word = np.array([not token.startswith("##") for token in vocab])
    return FastTokenizer("wordpiece", len(vocab), pad, unk, cls, sep, mask, begins_word, table)


def _sentencepiece(path: str | os.PathLike, lower_case: bool) -> FastTokenizer:
    """Makes a tokenizer with the ids of the sentencepiece library."""
    model, processor = sentencepiece_model.read(path)
    before = None
    if sentencepiece_model.lower_cases_first(model, lower_case):
        from tokenizers import normalizers

        before = normalizers.Sequence(sentencepiece_model.albert_normalizers())

    def prepared(text: str) -> str:
        return before.normalize_str(text) if before else text

    def encode(texts: list[bytes]) -> _Encoded:
        encoded = processor.encode([prepared(text.decode()) for text in texts], num_threads=1)
        ids = np.fromiter(chain.from_iterable(encoded), np.int32)
        return ids, np.cumsum([0, *map(len, encoded)])

    kind, pieces = sentencepiece_model.kind_of(processor), [piece.piece for piece in model.pieces]
    # What BPE merges never reaches over whitespace, unless it was trained to. Nor do the pieces of
    # a unigram model, but it adds up probabilities over the whole text, and which of two equally
    # likely ways to cut a word wins ("66" + "6" or "6" + "66") may turn on the last bit of the sum.
    if kind == "bpe" and not any(SENTENCEPIECE_SPACE in piece[1:] for piece in pieces):
        table = _word_cache(
            lambda word: processor.encode(prepared(word).strip(" ")), is_plain=str.isprintable
        )
    else:
        table = encode
    pad, unk, cls, sep, mask = map(processor.piece_to_id, SENTENCEPIECE_SPECIAL_TOKENS)
    begins_word = np.array([piece.startswith(SENTENCEPIECE_SPACE) for piece in pieces])
    return FastTokenizer(kind, len(pieces), pad, unk, cls, sep, mask, begins_word, table)


def _byte_bpe(path: str | os.PathLike) -> FastTokenizer:
    """Makes a tokenizer with RoBERTa's ids; the first word of a text gets no space before it."""
    vocab, tokenizer = byte_bpe.read(path)

    def encode(word: str) -> list[int]:
        return tokenizer.encode(word, add_special_tokens=False).ids

    def is_plain(text: str) -> bool:
        # A word includes the space before it. Other whitespace is a separate word.
        return text.isprintable() and "  " not in text

    pad, unk, cls, sep, mask = (vocab[token] for token in BYTE_BPE_SPECIAL_TOKENS)
    table = _word_cache(encode, is_plain=is_plain)
    tokens = sorted(vocab, key=vocab.__getitem__)
    begins_word = np.array([token.startswith(BYTE_BPE_SPACE) for token in tokens])
    return FastTokenizer("byte_bpe", len(vocab), pad, unk, cls, sep, mask, begins_word, table)
