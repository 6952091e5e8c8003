"""Refuses what a Hugging Face tokenizer may do to text and tfbio's does not.

Other ids than the model was trained with would be no error, and its predictions worse.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from tfbio.base import file_paths, json_files, messages
from tfbio.base.errors import UserError
from tfbio.text import sentencepiece_model, special_tokens, tokenization, vocabularies

if TYPE_CHECKING:
    import tokenizers
    from google.protobuf.message import Message as ModelProto

_UNUSED = re.compile(r"\[unused\d+\]")
_SPECIAL = {
    *special_tokens.SPECIAL_TOKENS,
    *special_tokens.BYTE_BPE_SPECIAL_TOKENS,
    *special_tokens.SENTENCEPIECE_SPECIAL_TOKENS,
}
# The tokenizer's class of models whose files name none, by their `model_type`.
_CLASSES = {
    "albert": "AlbertTokenizer",
    "bert": "BertTokenizer",
    "electra": "BertTokenizer",
    "megatron-bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
}
# Classes that take the vocabulary alone from `tokenizer.json`, and have rules of their own.
_WITH_RULES = {*_CLASSES.values(), "DistilBertTokenizer", "ElectraTokenizer"}
# Texts that tokenizers treat differently. Names of special tokens are text to tfbio alone.
_TEXTS = (
    "(IL-2), p53-/- mice",
    "10mg in 2023, 3.5%",
    "H2O2 Ca2+ a_b x^2 [3H]",
    "p<0.05; a=b|c~d$e`f\\g",
    "caf\u00e9 na\u00efve M\u00fcller",
    "cafe\u0301 e\u0327\u0301",
    "The DNA of \u0130stanbul, stra\u00dfe",
    "\u65e5\u672c drug\u4e2d\u6587a",
    "\uac00\ub098 \u3042\u3044",
    "``quoted'' 5'-end isn't we'll",
    "\u201cquoted\u201d \u2018x\u2019 \u2013 \u2014 \u2026",
    "10\u00b2 H\u2082O \u00bd \u2122",
    "\uff21spirin \uff11\uff12 \ufb01n",
    "\u03b1-helix \u00b5g \u03a3\u03c3\u03c2 \u212b",
    "a\u0000b\u0007c\u200bd\u00ade\ufffdf",
    "  two  blanks   three ",
    "tab\tnew\nline\r\nend",
    "a\u00a0b\u2009c\u3000d",
    "\U0001f600\U0001d6fd x",
    "a" * 101,
)


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
      folder: the folder of a model in the format of `transformers`, for the message.
      settings: the content of `tokenizer_config.json`.
      lower_case: whether text is lower-cased.

    Raises:
      TokenizerError: accents are not removed exactly if text is lower-cased, or words of Chinese
        characters are not split.
    """
    strips = settings.get("strip_accents")
    if strips not in (None, lower_case):
        raise TokenizerError(
            f"{folder}: strip_accents is {str(strips).lower()} in the settings of the tokenizer: "
            "it can only be as do_lower_case is."
        )
    if settings.get("tokenize_chinese_chars") is False:
        raise TokenizerError(
            f"{folder}: tokenize_chinese_chars is false in the settings of the tokenizer: Chinese "
            "characters can only be words of their own."
        )


def check_byte_bpe(folder: str | os.PathLike, settings: dict, of_words: bool) -> None:
    """Refuses byte-level BPE that changes a text before it encodes it; returns nothing.

    Args:
      folder: the folder of a model in the format of `transformers`.
      settings: the content of `tokenizer_config.json`.
      of_words: whether texts come as words, each with a space before it, as a tagger's do.

    Raises:
      TokenizerError: a space is put before a text, or the text is normalized.
    """
    if settings.get("add_prefix_space") and not of_words:
        raise TokenizerError(
            f"{folder}: add_prefix_space is true in the settings of the tokenizer: a text can only "
            "be without a space before it."
        )
    path = file_paths.at(folder, vocabularies.TOKENIZER_JSON)
    normalizer = json_files.read_object_or_empty(path).get("normalizer")
    if isinstance(normalizer, dict) and normalizer:
        raise TokenizerError(
            f"{path} normalizes text by {normalizer.get('type')}: text for byte-level BPE can only "
            "be as it is."
        )


def check_sentencepiece(
    folder: str | os.PathLike, settings: dict, model: ModelProto, lower_case: bool
) -> None:
    """Refuses other rules before SentencePiece than tfbio's; returns nothing.

    Args:
      folder: the folder of a model in the format of `transformers`.
      settings: the content of `tokenizer_config.json`.
      model: the SentencePiece model.
      lower_case: whether text is lower-cased.

    Raises:
      TokenizerError: accents are kept in text that ALBERT's rules lower-case; or the class is
        ALBERT's, and the vocabulary has capital letters or lower-cases text itself.
    """
    if sentencepiece_model.lower_cases_first(model, lower_case):
        if settings.get("keep_accents"):
            path = file_paths.at(folder, "tokenizer_config.json")
            raise TokenizerError(
                f"{path} has keep_accents = true: text in lower case can only be without accents."
            )
    elif _class_of(folder, settings) == "AlbertTokenizer":
        raise TokenizerError(
            f"{folder} has an AlbertTokenizer, which changes quotation marks and accents, and "
            "tfbio does so only if the vocabulary is of text in lower case: use another model."
        )


def check_ids(
    folder: str | os.PathLike,
    settings: dict,
    vocabulary: str | os.PathLike,
    lower_case: bool,
    of_words: bool,
) -> None:
    """Refuses a tokenizer whose ids are other than tfbio's, or not known; returns nothing.

    `tokenizer.json` and tfbio cut and encode a few odd texts. Folders whose class has rules of its
    own are not compared, since `transformers` takes only the vocabulary from the file. Where no
    file names a class, its rules are taken to be those of the vocabulary's kind.

    Args:
      folder: the folder of a model in the format of `transformers`.
      settings: the content of `tokenizer_config.json`.
      vocabulary: the vocabulary's file.
      lower_case: whether tfbio lower-cases text.
      of_words: whether texts come as words, each with a space before it.

    Raises:
      TokenizerError: the words or ids of a text differ, the library `tokenizers` cannot read the
        file, or there is none and the class has other rules than BERT, RoBERTa and ALBERT.
      VocabularyError: the vocabulary cannot be used.
    """
    import tokenizers

    path = file_paths.at(folder, vocabularies.TOKENIZER_JSON)
    class_name = _class_of(folder, settings)
    if class_name in _WITH_RULES or not (class_name or path.is_file()):
        return
    if not path.is_file():
        raise TokenizerError(
            f"{folder} has a {messages.cut(class_name)} and no {path.name}, so its rules are not "
            "known: add the file, if AutoTokenizer.from_pretrained(folder).save_pretrained(folder) "
            "writes it, or use a model with the tokenizer of BERT, RoBERTa or ALBERT."
        )
    own = tokenization.load_tokenizer(vocabulary, lower_case)
    try:
        theirs = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises nothing more exact
        raise TokenizerError(f"{path} is no tokenizer ({error}): get it again.") from error
    theirs.no_truncation()
    theirs.no_padding()
    for text in (" " * of_words + text for text in _TEXTS):
        for view in (_words, _tokens):  # a small vocabulary has [UNK] for many words
            our, their = view(own.backend, text), view(theirs, text)
            if our != their:
                raise TokenizerError(
                    f"{path} makes {messages.cut(ascii(their))} of {ascii(text)}, and tfbio "
                    f"{messages.cut(ascii(our))}: use a model with the tokenizer of BERT, RoBERTa "
                    "or ALBERT."
                )


def _words(tokenizer: tokenizers.Tokenizer, text: str) -> list[str]:
    """Returns the words of a text that a tokenizer cuts into tokens, one by one."""
    if tokenizer.normalizer is not None:
        text = tokenizer.normalizer.normalize_str(text)
    if tokenizer.pre_tokenizer is None:
        return [text]
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


def _tokens(tokenizer: tokenizers.Tokenizer, text: str) -> list[tuple[int, str]]:
    """Returns the ids and names of a text's tokens."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    return list(zip(encoding.ids, encoding.tokens, strict=True))


def _class_of(folder: str | os.PathLike, settings: dict) -> str:
    """Returns the class of a tokenizer in `transformers` 5, or "" if no file tells it."""
    config = json_files.read_object_or_empty(file_paths.at(folder, "config.json"))
    name = settings.get("tokenizer_class") or config.get("tokenizer_class")
    return str(name or _CLASSES.get(str(config.get("model_type")), "")).removesuffix("Fast")
