"""Reads byte-level BPE's `vocab.json` with `merges.txt`, and makes RoBERTa's tokenizer of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tfbio.base import messages
from tfbio.text.special_tokens import BYTE_BPE_SPECIAL_TOKENS, VocabularyError
from tfbio.text.vocabularies import vocabulary_files

if TYPE_CHECKING:
    import tokenizers


def read(path: str | os.PathLike) -> tuple[dict[str, int], tokenizers.Tokenizer]:
    """Reads a byte-level BPE vocabulary, RoBERTa's kind, from `vocab.json` and `merges.txt`.

    Args:
      path: `vocab.json`, with `merges.txt` in the same folder.

    Returns:
      The id of each token by its text, and the `tokenizers.Tokenizer` that `make_tokenizer` makes
      of both files.

    Raises:
      VocabularyError: a file is missing or damaged, or a special token is missing.
    """
    path, merges = vocabulary_files(path)
    try:
        vocab = json.loads(path.read_text(encoding="utf-8"))
        lines = merges.read_text(encoding="utf-8").splitlines()
        # The first line may name the version of the format.
        pairs = [line.split(" ") for line in lines if not line.startswith("#version")]
        for number, pair in enumerate(pairs, 1):
            if len(pair) != 2:
                raise ValueError(f"merge {number} is not two tokens")
        if sorted(vocab.values()) != list(range(len(vocab))):
            raise ValueError("its ids are not 0, 1, 2 and so on")
        tokenizer = make_tokenizer(vocab, [(left, right) for left, right in pairs])
    except OSError as error:
        raise VocabularyError(
            f"the vocabulary {path} with {merges.name} cannot be read ({messages.reason(error)}): "
            "give vocab.json with merges.txt beside it, or make them with "
            "`python -m data_prep.vocabulary`."
        ) from error
    except Exception as error:  # the tokenizers library raises nothing more exact
        raise VocabularyError(
            f"{path} with {merges.name} is not byte-level BPE: {error}."
        ) from error
    _check_special(path, vocab)
    return vocab, tokenizer


def _check_special(path: Path, vocab: dict[str, int]) -> None:
    """Checks that a vocabulary has all special tokens.

    Raises:
      VocabularyError: one is missing. A new vocabulary would not go with a model from elsewhere, so
        the message says how to add the token to this one.
    """
    missing = [token for token in BYTE_BPE_SPECIAL_TOKENS if token not in vocab]
    if missing:
        added = ", ".join(f'"{token}": {x}' for x, token in enumerate(missing, len(vocab)))
        raise VocabularyError(
            f"the vocabulary {path} has no {', '.join(missing)}: if it is of a model from "
            f"elsewhere, add {added} at its end, if the model has rows for them; for a new "
            "model make one with `python -m data_prep.vocabulary`."
        )


def make_tokenizer(
    vocab: dict[str, int] | None = None, merges: list[tuple[str, str]] | None = None
) -> tokenizers.Tokenizer:
    """Makes RoBERTa's tokenizer, byte-level BPE in the library `tokenizers`.

    Args:
      vocab: the id of each token by its text; None: the tokenizer is still to be trained.
      merges: the pairs of tokens to merge, in their order; None with `vocab`.

    Returns:
      A `tokenizers.Tokenizer`, without special tokens around a text.

    Raises:
      Exception: `tokenizers` raises one if a merge is of tokens that `vocab` lacks.
    """
    import tokenizers
    from tokenizers import models, pre_tokenizers, processors

    model = models.BPE(vocab, merges)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # The first token of a word includes the space before it, but its offsets do not.
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
    return tokenizer
