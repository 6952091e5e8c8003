"""Names the special tokens of vocabularies, and checks that a vocabulary has them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tfbio.base import errors

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# The same five tokens in the other kinds: fairseq's names in RoBERTa, and Google's in ALBERT.
BYTE_BPE_SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
SENTENCEPIECE_SPECIAL_TOKENS = ("<pad>", "<unk>", CLS, SEP, MASK)
# The character for the space before a word, the first one of the word's first token.
BYTE_BPE_SPACE = "\u0120"


class VocabularyError(errors.UserError):
    """An error of a vocabulary: missing, unusable or without special tokens; exit code 1."""


def check_special(
    path: str | os.PathLike, tokens: Sequence[str], known: set[str] | dict[str, int]
) -> None:
    """Checks that a vocabulary has all special tokens, and returns nothing.

    Args:
      path: the file, for the message.
      tokens: the special tokens, such as "[CLS]".
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
