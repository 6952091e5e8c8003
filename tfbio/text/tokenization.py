"""Turns text into tokens that know their characters, by vocabularies of four kinds.

WordPiece (`vocab.txt`), SentencePiece unigram or BPE (`*.model`) and byte-level BPE (`vocab.json`
with `merges.txt`), which `python -m data_prep.vocabulary` makes.
Fine-tuning and prediction use `load_tokenizer`; pretraining, which encodes much text, the
`fast_tokenizer`.
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
    import tokenizers


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


def suffix_of(path: str | os.PathLike) -> str:
    suffix = storage.at(path).suffix
    if suffix in (".txt", ".model", ".json"):
        return suffix
    raise VocabularyError(
        f"{path} is no vocabulary: give WordPiece's vocab.txt, SentencePiece's *.model, or "
        "byte-level BPE's vocab.json with merges.txt beside it."
    )


@contextmanager
def unpacked(path: str | os.PathLike) -> Iterator[Path]:
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
      kind: see `fast_tokenizer.FastTokenizer`.
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
        self, first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray | None = None
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
    """Makes the tokenizer of a vocabulary, whose ids are those of `load_fast_tokenizer`.

    Args:
      path: as for `load_fast_tokenizer`.
      lower_case: as for `load_fast_tokenizer`.
      new_tokens: tokens that a text may hold and the vocabulary does not, whose embeddings mean
        nothing yet. They take the ids of WordPiece's first [unused] tokens, or else those after the
        vocabulary's last.
      segments: how many segments the model tells apart.

    Raises:
      VocabularyError: as for `load_fast_tokenizer`, or a SentencePiece model has what
        `sentencepiece_model.tokenizer` refuses.
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
    # The space before a marker belongs to it, or byte-level BPE has a token for it.
    added = [_added(token, lstrip=kind == "byte_bpe") for token in new_tokens]
    backend.add_special_tokens(added)
    special = (vocab[name] for name in names)
    return Tokenizer(kind, len(vocab), backend.get_vocab_size(), *special, backend, segments)


def _added(token: str, lstrip: bool) -> tokenizers.AddedToken:
    import tokenizers

    return tokenizers.AddedToken(token, lstrip=lstrip, special=True, normalized=False)


def read_sentencepiece(path: str | os.PathLike):
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
    check_special(path, SENTENCEPIECE_SPECIAL_TOKENS, set(known))
    return found, processor


def sentencepiece_kind(processor) -> str:
    # The scores of BPE are the order of its merges, 0, -1, -2; a unigram model's are logarithms of
    # probabilities.
    scores = map(processor.get_score, range(processor.get_piece_size()))
    return "bpe" if all(score.is_integer() for score in scores) else "unigram"


def read_byte_bpe(path: str | os.PathLike) -> tuple[dict[str, int], tokenizers.Tokenizer]:
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
    check_special(path, BYTE_BPE_SPECIAL_TOKENS, vocab)
    return vocab, tokenizer


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


def check_special(
    path: str | os.PathLike, tokens: Sequence[str], known: set[str] | dict[str, int]
) -> None:
    missing = [token for token in tokens if token not in known]
    if missing:
        raise VocabularyError(
            f"the vocabulary {path} has no {', '.join(missing)}: give one with all of "
            f"{' '.join(tokens)}, or make one with `python -m data_prep.vocabulary`."
        )
