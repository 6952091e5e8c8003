"""Encodes text as tokens with their offsets, by vocabularies of four kinds.

The kinds are WordPiece (`vocab.txt`), SentencePiece unigram or BPE (`*.model`) and byte-level BPE
(`vocab.json` with `merges.txt`); `python -m data_prep.vocabulary` makes them. Fine-tuning and
prediction use `load_tokenizer`; pretraining, which encodes much text, uses `fast_tokenizer`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfbio.base import storage
from tfbio.text import sentencepiece_model
from tfbio.text.vocabularies import (
    BYTE_BPE_SPECIAL_TOKENS,
    SENTENCEPIECE_SPECIAL_TOKENS,
    SPECIAL_TOKENS,
    TOKENIZER_JSON,
    UNK,
    VocabularyError,
    copy_vocabulary,
    vocabulary_files,
)

if TYPE_CHECKING:
    import sentencepiece
    import tokenizers


def read_vocab(path: str | os.PathLike) -> dict[str, int]:
    """Reads a BERT `vocab.txt`, which has a token on each line.

    Returns:
      For each token its id, the number of its line from 0.

    Raises:
      VocabularyError: the file is missing or no text in UTF-8, has a token twice, or lacks a
        special token.
    """
    try:
        with storage.at(path).open(encoding="utf-8") as stream:
            # Not `splitlines`, which also splits at characters that are tokens.
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
    """Makes BERT's tokenizer, without special tokens around a text.

    Args:
      vocab: the id of each token, as `read_vocab` returns; it has [UNK].
      lower_case: whether to lower-case text and strip its accents first ("uncased").

    Returns:
      A `tokenizers.Tokenizer`; its `encode_batch` is faster than its `encode`.
    """
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers

    # A word of more than 100 characters becomes [UNK], as in Hugging Face's BertTokenizer.
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=UNK))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def suffix_of(path: str | os.PathLike) -> str:
    """Returns the suffix of a vocabulary file: ".txt", ".model" or ".json".

    Raises:
      VocabularyError: the file has another suffix.
    """
    suffix = storage.at(path).suffix
    if suffix in (".txt", ".model", ".json"):
        return suffix
    raise VocabularyError(
        f"{path} is no vocabulary: give WordPiece's vocab.txt, SentencePiece's *.model, or "
        "byte-level BPE's vocab.json with merges.txt beside it."
    )


@contextmanager
def unpacked(path: str | os.PathLike) -> Iterator[Path]:
    """Writes the vocabulary in a `tokenizer.json` to temporary files, removed after the block.

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


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """A tokenizer that encodes texts and words, with offsets; `load_tokenizer` makes one.

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
        """Encodes texts, without special tokens.

        Returns:
          For each text an object with `ids` (list of int) and `offsets`, the character range
          (start, end) of each token, end exclusive. The space before a word is in no range.
        """
        return self.backend.encode_batch(list(texts), add_special_tokens=False)

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Encodes words as they are encoded within a text, with a space before each.

        Returns:
          The ids of each word, at least one: a word whose characters are all dropped gets [UNK]'s.
        """
        space = " " * (self.kind == "byte_bpe")
        return [e.ids or [self.unk_id] for e in self.encode([space + word for word in words])]

    def special_tokens(self, pair: bool) -> int:
        """Returns how many special tokens `join` adds: 2, or to a pair 3 (byte-level BPE: 4)."""
        return (4 if self.kind == "byte_bpe" else 3) if pair else 2

    def join(
        self, first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Joins a text or a pair with the special tokens of BERT and ALBERT, or of RoBERTa.

        BERT's are [CLS] A [SEP] and [CLS] A [SEP] B [SEP], where B with its [SEP] is segment 1
        (Devlin et al., 2019, section 4). RoBERTa's are <s> A </s> and <s> A </s></s> B </s>, all in
        segment 0 (fairseq's `RobertaHubInterface.encode`).

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
    """Makes the tokenizer of a vocabulary, with the ids of `load_fast_tokenizer`.

    Args:
      path: `*.txt`, `*.model`, `*.json` (with `merges.txt` beside it) or `tokenizer.json`.
      lower_case: whether to lower-case text first, as in `load_fast_tokenizer`; byte-level BPE
        ignores it.
      new_tokens: tokens in texts that the vocabulary lacks, and that have no trained embedding.
        They get the ids of WordPiece's first [unused] tokens, or else those after the last token.
      segments: the number of segments that the model distinguishes.

    Raises:
      VocabularyError: the file is missing, damaged or of an unknown kind, lacks a special token, or
        is a SentencePiece model with features that `tokenizers` lacks.
    """
    if storage.at(path).name == TOKENIZER_JSON:
        with unpacked(path) as own:
            return load_tokenizer(own, lower_case, new_tokens, segments)
    suffix = suffix_of(path)
    if suffix == ".txt":
        kind, names, vocab = "wordpiece", SPECIAL_TOKENS, read_vocab(path)
        unused = [token for token in vocab if re.fullmatch(r"\[unused\d+\]", token)]
        renamed = dict(zip(unused, new_tokens, strict=False))
        backend = wordpiece({renamed.get(x, x): number for x, number in vocab.items()}, lower_case)
    elif suffix == ".model":
        model, processor = read_sentencepiece(path)
        kind, names = sentencepiece_kind(processor), SENTENCEPIECE_SPECIAL_TOKENS
        vocab = {piece.piece: number for number, piece in enumerate(model.pieces)}
        try:
            backend = sentencepiece_model.tokenizer(model, lower_case)
        except ValueError as error:
            raise VocabularyError(
                f"the SentencePiece model {path} {error}, which cannot be used: give another."
            ) from error
    else:
        kind, names = "byte_bpe", BYTE_BPE_SPECIAL_TOKENS
        vocab, backend = read_byte_bpe(path)
    # The space before a marker belongs to it, or byte-level BPE would make a token of it.
    added = [_added(token, lstrip=kind == "byte_bpe") for token in new_tokens]
    backend.add_special_tokens(added)
    special = (vocab[name] for name in names)
    return Tokenizer(kind, len(vocab), backend.get_vocab_size(), *special, backend, segments)


def _added(token: str, lstrip: bool) -> tokenizers.AddedToken:
    """Returns a new token, which includes the space before it if `lstrip` is true."""
    import tokenizers

    return tokenizers.AddedToken(token, lstrip=lstrip, special=True, normalized=False)


def read_sentencepiece(
    path: str | os.PathLike,
) -> tuple[sentencepiece_model.ModelProto, sentencepiece.SentencePieceProcessor]:
    """Reads a SentencePiece model.

    Returns:
      Its content, a `sentencepiece_model.ModelProto`, and the library's processor.

    Raises:
      VocabularyError: the file is missing or damaged, or lacks a special token.
    """
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
        # The constructor would accept an empty file and make no model of it.
        processor.LoadFromSerializedProto(model)
        content = sentencepiece_model.ModelProto.FromString(model)
        sentencepiece_model.folds_case(content)  # fails if the normalizer is damaged
    except (RuntimeError, DecodeError, ValueError) as error:
        raise VocabularyError(
            f"{path} is not a SentencePiece model: make one with `python -m data_prep.vocabulary`."
        ) from error
    special = [processor.piece_to_id(token) for token in SENTENCEPIECE_SPECIAL_TOKENS]
    known = map(processor.id_to_piece, special)
    check_special(path, SENTENCEPIECE_SPECIAL_TOKENS, set(known))
    return content, processor


def sentencepiece_kind(processor: sentencepiece.SentencePieceProcessor) -> str:
    """Returns the kind of a SentencePiece model: "unigram" or "bpe"."""
    # BPE's scores are the order of its merges, 0, -1, -2; a unigram model's are logarithms of
    # probabilities.
    scores = map(processor.get_score, range(processor.get_piece_size()))
    return "bpe" if all(score.is_integer() for score in scores) else "unigram"


def read_byte_bpe(path: str | os.PathLike) -> tuple[dict[str, int], tokenizers.Tokenizer]:
    """Reads a byte-level BPE vocabulary.

    Args:
      path: `vocab.json`, with `merges.txt` in the same folder.

    Returns:
      The id of each token, and the `tokenizers.Tokenizer` of RoBERTa that `byte_bpe` makes.

    Raises:
      VocabularyError: a file is missing or damaged, or a special token is missing.
    """
    path, merges = vocabulary_files(path)
    try:
        vocab = json.loads(path.read_text(encoding="utf-8"))
        lines = merges.read_text(encoding="utf-8").splitlines()
        # The first line may name the version of the format.
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
    check_special(path, BYTE_BPE_SPECIAL_TOKENS, vocab)
    return vocab, tokenizer


def byte_bpe(
    vocab: dict[str, int] | None = None, merges: list[tuple[str, str]] | None = None
) -> tokenizers.Tokenizer:
    """Makes RoBERTa's `tokenizers.Tokenizer`, without special tokens around a text.

    Args:
      vocab: the id of each token; None: the tokenizer is still to be trained.
      merges: the pairs of tokens to merge, in their order; None with `vocab`.

    Raises:
      Exception: `tokenizers` raises one if a merge is of tokens that `vocab` lacks.
    """
    import tokenizers
    from tokenizers import models, pre_tokenizers, processors

    model = models.BPE(vocab, merges)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # The first token of a word includes the space before it, but its offsets do not.
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer


def check_special(
    path: str | os.PathLike, tokens: Sequence[str], known: set[str] | dict[str, int]
) -> None:
    """Checks that a vocabulary has all special tokens, and returns nothing.

    Args:
      path: the file, for the message.
      tokens: the special tokens.
      known: the tokens of the vocabulary.

    Raises:
      VocabularyError: one is missing.
    """
    missing = [token for token in tokens if token not in known]
    if missing:
        raise VocabularyError(
            f"the vocabulary {path} has no {', '.join(missing)}: give one with all of "
            f"{' '.join(tokens)}, or make one with `python -m data_prep.vocabulary`."
        )
