"""Loads a tokenizer for whole corpora, and refuses one whose vocabulary has the other case."""

from __future__ import annotations

import os

from tfbio.base import errors
from tfbio.text import vocabularies
from tfbio.text.fast_tokenizer import FastTokenizer, load_fast_tokenizer


def load(path: str | os.PathLike, lower_case: bool) -> FastTokenizer:
    """Loads the tokenizer of a vocabulary for a command of data preparation, and checks its case.

    Args:
      path: the vocabulary's file, of any kind.
      lower_case: for a WordPiece vocabulary, True to lower-case text and strip accents first.

    Returns:
      The `FastTokenizer`, which called with texts returns their ids and the borders between them.

    Raises:
      VocabularyError: `path` is no vocabulary.
      UsageError: text in lower case is asked of a WordPiece vocabulary of cased text, or the other
        way round.
    """
    tokenizer = load_fast_tokenizer(path, lower_case)
    if tokenizer.kind == "wordpiece":
        tokens = vocabularies.wordpiece_tokens(vocabularies.contents(path)["vocab.txt"])
        if problem := vocabularies.case_contradiction(path, tokens, lower_case):
            given, remedy = ("true", "no") if lower_case else ("false", "")
            raise errors.UsageError(
                f"--lower_case={given}, but {problem}: give --{remedy}lower_case."
            )
    return tokenizer
