"""WordPiece: vocabulary files, and the encoder made from one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tfbio import cli

if TYPE_CHECKING:
    import tokenizers

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class VocabularyError(cli.UserError):
    """A vocabulary file that is missing or cannot be used."""


def read_vocab(path: str | os.PathLike) -> dict[str, int]:
    """Reads a BERT `vocab.txt`: one token a line, the line's number from 0 is the token's id.

    Raises:
      VocabularyError: no such file, not UTF-8 text, a token twice, or a special token missing.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            # Not `splitlines`, which also splits at characters that are tokens of their own.
            tokens = [line.rstrip("\n") for line in stream]
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary {path} cannot be read ({error.strerror}): give a vocab.txt, or make "
            "one with `python -m data_prep.vocabulary`."
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
