"""Encodes text as tokens with their offsets, by vocabularies of four kinds.

The kinds are WordPiece (`vocab.txt`), SentencePiece unigram or BPE (`*.model`) and byte-level BPE
(`vocab.json` with `merges.txt`); `python -m data_prep.vocabulary` makes them. Fine-tuning and
prediction use `load_tokenizer`; pretraining, which encodes much text, uses `fast_tokenizer`.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfbio.base import file_paths
from tfbio.text import byte_bpe, sentencepiece_model, vocabularies, wordpiece
from tfbio.text.special_tokens import (
    BYTE_BPE_SPECIAL_TOKENS,
    SENTENCEPIECE_SPECIAL_TOKENS,
    SPECIAL_TOKENS,
    VocabularyError,
)
from tfbio.text.vocabularies import TOKENIZER_JSON

if TYPE_CHECKING:
    import tokenizers


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """The tokenizer of fine-tuning and prediction, with offsets; `load_tokenizer` makes one.

    The name of a special token in a text is text like any other.

    Attributes:
      kind: "wordpiece", "unigram", "bpe" (both SentencePiece's) or "byte_bpe".
      vocab_size: the number of tokens in the vocabulary, without those that were added to it; an
        int, as the ids are.
      rows: the number of embeddings that a model needs for all tokens.
      pad_id: the id of [PAD] or <pad>.
      unk_id: the id of [UNK] or <unk>.
      cls_id: the id of [CLS] or <s>.
      sep_id: the id of [SEP] or </s>.
      mask_id: the id of [MASK] or <mask>.
      backend: the tokenizer of the library `tokenizers`.
      segments: the number of segments that the model distinguishes; with 1, all tokens are in it.
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
        """Encodes texts as tokens with offsets, without special tokens.

        Args:
          texts: strings.

        Returns:
          For each text an object with `ids` (list of int) and `offsets`, the character range
          (start, end) of each token, end exclusive. The space before a word is in no range.
        """
        return self.backend.encode_batch(list(texts), add_special_tokens=False)

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Encodes words with the tokenizer, each as within a text, with a space before it.

        Args:
          words: strings; the tokenizer adds the space.

        Returns:
          The ids of each word, at least one: a word whose characters are all dropped gets [UNK]'s.
        """
        space = " " * (self.kind == "byte_bpe")
        return [e.ids or [self.unk_id] for e in self.encode([space + word for word in words])]

    def special_tokens(self, pair: bool) -> int:
        """Returns how many special tokens `join` adds: 2, or to a pair 3 (byte-level BPE: 4).

        Args:
          pair: True for a pair of texts.
        """
        return (4 if self.kind == "byte_bpe" else 3) if pair else 2

    def join(
        self, first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Joins a text or a pair, after tokenization, to a model's input, with special tokens.

        The inputs of BERT and ALBERT are [CLS] A [SEP] and [CLS] A [SEP] B [SEP], where B with its
        [SEP] is segment 1 (Devlin et al., 2019, section 4). RoBERTa's are <s> A </s> and
        <s> A </s></s> B </s>, all in segment 0 (fairseq's `RobertaHubInterface.encode`).

        Args:
          first: the ids of A.
          second: the ids of B, if there is one.

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
    """Makes the tokenizer with offsets of a vocabulary file, with the ids of `load_fast_tokenizer`.

    With SentencePiece a few characters have others: see `sentencepiece_model.tokenizer`.

    Args:
      path: `*.txt`, `*.model`, `*.json` (with `merges.txt` beside it) or `tokenizer.json`.
      lower_case: whether to lower-case text first, as in `load_fast_tokenizer`; byte-level BPE
        ignores it.
      new_tokens: tokens in texts that the vocabulary lacks, and that have no trained embedding.
        They get the ids of WordPiece's first [unused] tokens, or else those after the last token.
      segments: the number of segments that the model distinguishes.

    Returns:
      The `Tokenizer`.

    Raises:
      VocabularyError: the file is missing, damaged or of an unknown kind, lacks a special token, or
        is a SentencePiece model with features that `tokenizers` lacks.
    """
    if file_paths.at(path).name == TOKENIZER_JSON:
        with vocabularies.unpacked(path) as own:
            return load_tokenizer(own, lower_case, new_tokens, segments)
    suffix = vocabularies.suffix_of(path)
    if suffix == ".txt":
        kind, names, vocab = "wordpiece", SPECIAL_TOKENS, wordpiece.read_vocab(path)
        unused = [token for token in vocab if re.fullmatch(r"\[unused\d+\]", token)]
        renamed = dict(zip(unused, new_tokens, strict=False))
        backend = wordpiece.make_tokenizer(
            {renamed.get(x, x): number for x, number in vocab.items()}, lower_case
        )
    elif suffix == ".model":
        model, processor = sentencepiece_model.read(path)
        kind, names = sentencepiece_model.kind_of(processor), SENTENCEPIECE_SPECIAL_TOKENS
        vocab = {piece.piece: number for number, piece in enumerate(model.pieces)}
        try:
            backend = sentencepiece_model.tokenizer(model, lower_case)
        except ValueError as error:
            raise VocabularyError(
                f"the SentencePiece model {path} {error}, which cannot be used: give another."
            ) from error
    else:
        kind, names = "byte_bpe", BYTE_BPE_SPECIAL_TOKENS
        vocab, backend = byte_bpe.read(path)
    # The space before a marker belongs to it, or byte-level BPE would make a token of it.
    added = [_added(token, lstrip=kind == "byte_bpe") for token in new_tokens]
    backend.add_special_tokens(added)
    pad, unk, cls, sep, mask = (vocab[name] for name in names)
    size, rows = len(vocab), backend.get_vocab_size()
    return Tokenizer(kind, size, rows, pad, unk, cls, sep, mask, backend, segments)


def _added(token: str, lstrip: bool) -> tokenizers.AddedToken:
    """Returns a new token, which includes the space before it if `lstrip` is true."""
    import tokenizers

    return tokenizers.AddedToken(token, lstrip=lstrip, special=True, normalized=False)
