"""Reads WordPiece's `vocab.txt`, and makes BERT's tokenizer of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tfbio.base import file_paths, messages
from tfbio.text.special_tokens import SPECIAL_TOKENS, UNK, VocabularyError

if TYPE_CHECKING:
    import tokenizers


def read_vocab(path: str | os.PathLike) -> dict[str, int]:
    """Reads a WordPiece vocabulary, BERT's `vocab.txt`, which has a token on each line.

    Args:
      path: the file.

    Returns:
      For each token its id, the number of its line from 0.

    Raises:
      VocabularyError: the file is missing or no text in UTF-8, has a token twice, or lacks a
        special token.
    """
    try:
        with file_paths.at(path).open(encoding="utf-8") as stream:
            # Not `splitlines`, which also splits at characters that are tokens.
            tokens = [line.rstrip("\n") for line in stream]
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary {path} cannot be read ({messages.reason(error)}): give a vocab.txt, "
            "or make one with `python -m data_prep.vocabulary`."
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


def make_tokenizer(vocab: dict[str, int], lower_case: bool = True) -> tokenizers.Tokenizer:
    """Makes BERT's tokenizer, WordPiece in the library `tokenizers`, of a vocabulary.

    Args:
      vocab: the id of each token, as `read_vocab` returns; it has [UNK].
      lower_case: whether to lower-case text and strip its accents first ("uncased").

    Returns:
      A `tokenizers.Tokenizer` without special tokens around a text; its `encode_batch` is faster
      than its `encode`.
    """
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers

    # A word of more than 100 characters becomes [UNK], as in Hugging Face's BertTokenizer.
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=UNK))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
