"""Refuses what a Hugging Face tokenizer may do to text and tfbio's does not.

Other ids than the model was trained with would be no error, and its predictions worse.
"""

from __future__ import annotations

import os
import re
from typing import Any

from tfbio.base import file_paths, json_files
from tfbio.base.errors import UserError
from tfbio.text import special_tokens, vocabularies

_UNUSED = re.compile(r"\[unused\d+\]")
_SPECIAL = {
    *special_tokens.SPECIAL_TOKENS,
    *special_tokens.BYTE_BPE_SPECIAL_TOKENS,
    *special_tokens.SENTENCEPIECE_SPECIAL_TOKENS,
}


class TokenizerError(UserError):
    """An error of a Hugging Face tokenizer that is missing or cannot be used; exit code 1."""


def check_added_tokens(folder: str | os.PathLike) -> None:
    """Refuses a Hugging Face tokenizer with tokens that were added to its vocabulary.

    The original finds them in a text before it splits the text into words. It returns nothing.

    Args:
      folder: the folder of a model in the format of `transformers`.

    Raises:
      TokenizerError: there are such tokens, beside special and unused ones.
    """
    found: dict[str, str] = {}
    for name, entries in (
        (vocabularies.TOKENIZER_JSON, "added_tokens"),
        ("tokenizer_config.json", "added_tokens_decoder"),
        ("added_tokens.json", ""),
    ):
        content: Any = json_files.read_object_or_empty(file_paths.at(folder, name))
        added = content.get(entries) or {} if entries else content
        if entries:
            items = added.values() if isinstance(added, dict) else added
            added = [item["content"] for item in items if isinstance(item, dict)]
        for token in added:
            if token not in _SPECIAL and not _UNUSED.fullmatch(token):
                found.setdefault(token, name)
    if found:
        shown = ", ".join(list(found)[:5]) + (" and more" if len(found) > 5 else "")
        raise TokenizerError(
            f"{file_paths.at(folder, next(iter(found.values())))} adds tokens to the vocabulary "
            f"({shown}), which tfbio would split like other text: use a model without added tokens."
        )


def check_wordpiece(folder: str | os.PathLike, settings: dict, lower_case: bool) -> None:
    """Refuses a treatment of accents and Chinese characters that is not BERT's; returns nothing.

    Args:
      folder: the folder of a model in the format of `transformers`.
      settings: the content of `tokenizer_config.json`, which prevails over `tokenizer.json`.
      lower_case: whether text is lower-cased.

    Raises:
      TokenizerError: accents are not removed exactly if text is lower-cased, or words of Chinese
        characters are not split.
    """
    normalizer = _part(folder, "normalizer")
    if normalizer.get("type") != "BertNormalizer":
        normalizer = {}
    strips = settings.get("strip_accents", normalizer.get("strip_accents"))
    splits = settings.get("tokenize_chinese_chars", normalizer.get("handle_chinese_chars"))
    if strips not in (None, lower_case):
        raise TokenizerError(
            f"{folder}: strip_accents is {str(strips).lower()} in the settings of the tokenizer: "
            "it can only be as do_lower_case is."
        )
    if splits is False:
        raise TokenizerError(
            f"{folder}: tokenize_chinese_chars is false in the settings of the tokenizer: Chinese "
            "characters can only be words of their own."
        )


def check_byte_bpe(folder: str | os.PathLike, settings: dict, of_words: bool) -> None:
    """Refuses byte-level BPE that changes a text before it encodes it; returns nothing.

    Args:
      folder: the folder of a model in the format of `transformers`.
      settings: the content of `tokenizer_config.json`, which prevails over `tokenizer.json`.
      of_words: whether texts come as words, each with a space before it, as a tagger's do.

    Raises:
      TokenizerError: a space is put before a text, or the text is normalized.
    """
    splitter = _part(folder, "pre_tokenizer")
    parts = [splitter, *splitter.get("pretokenizers", [])]
    spaced = any(part.get("add_prefix_space") for part in parts if part.get("type") == "ByteLevel")
    if settings.get("add_prefix_space", spaced) and not of_words:
        raise TokenizerError(
            f"{folder}: add_prefix_space is true in the settings of the tokenizer: a text can only "
            "be without a space before it."
        )
    normalizer = _part(folder, "normalizer")
    if normalizer:
        raise TokenizerError(
            f"{file_paths.at(folder, vocabularies.TOKENIZER_JSON)} normalizes text by "
            f"{normalizer.get('type')}: text for byte-level BPE can only be as it is."
        )


def _part(folder: str | os.PathLike, name: str) -> dict:
    """Returns a part of `tokenizer.json`; {} if there is none, or of an unknown form."""
    path = file_paths.at(folder, vocabularies.TOKENIZER_JSON)
    part = json_files.read_object_or_empty(path).get(name)
    return part if isinstance(part, dict) else {}
