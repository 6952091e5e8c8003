"""Reads and writes the tokenizer of a model in the format of `transformers`."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tfbio.base import file_paths, json_files, messages, storage
from tfbio.base.errors import UserError
from tfbio.text import (
    sentencepiece_model,
    special_tokens,
    tokenization,
    tokenizer_checks,
    vocabularies,
)
from tfbio.text.special_tokens import VocabularyError
from tfbio.text.tokenizer_checks import TokenizerError

if TYPE_CHECKING:
    import tokenizers

# The roles of special tokens, in the order of `special_tokens.SPECIAL_TOKENS`.
_ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
# The end of the names of classes for tags, whose texts come as words.
TAGGER = "ForTokenClassification"
# Those of all fine-tuned models.
_FINE_TUNED = (TAGGER, "ForSequenceClassification", "ForQuestionAnswering")


# --- Reading -------------------------------------------------------------------------------------


def read_lower_case(folder: str | os.PathLike) -> bool:
    """Reads from the files of a Hugging Face tokenizer whether it lower-cases text.

    The files are `tokenizer_config.json` and `tokenizer.json`. If neither says so, the tokens do: a
    vocabulary of text in lower case has no capital letters.

    Several fine-tuned models learnt on lower-cased text with a vocabulary of cased text, as their
    files say. So they are read, and a line on stderr says so once.

    Args:
      folder: the folder of a model in the format of `transformers`.

    Returns:
      True if text must be lower-cased; False for byte-level BPE.

    Raises:
      TokenizerError: there is no vocabulary or more than one, it is damaged, the settings
        contradict it, tokens were added to it, or the tokenizer gives other ids than tfbio.
      VocabularyError: a `tokenizer.json` that is used as it is cannot be compared, since the
        vocabulary lacks a special token or has features that tfbio lacks.
      UserError: `config.json` has `architectures` in another form than in `transformers`.
    """
    vocabulary, name, content = _read_vocabulary(folder)
    settings = _settings(file_paths.at(folder, "tokenizer_config.json"))
    tokenizer_checks.check_added_tokens(folder)
    lower_case, of_words = False, False
    if name == "vocab.json":
        # The words of taggers have a space before them here, too.
        of_words = read_architecture(folder).endswith(TAGGER)
        tokenizer_checks.check_byte_bpe(folder, settings, of_words)
    else:
        lower_case = _lower_case(folder, settings, vocabulary, name, content)
        tokenizer_checks.check_wordpiece(folder, settings, lower_case)
    if name == "vocab.model":
        model = sentencepiece_model.ModelProto.FromString(content)
        tokenizer_checks.check_sentencepiece(folder, settings, model, lower_case)
    tokenizer_checks.check_ids(folder, settings, vocabulary, lower_case, of_words)
    return lower_case


def _lower_case(
    folder: str | os.PathLike, settings: dict, vocabulary: Path, name: str, content: bytes
) -> bool:
    """Returns whether text is lower-cased.

    Args:
      folder: see `read_lower_case`.
      settings: the content of `tokenizer_config.json`.
      vocabulary: the vocabulary's file.
      name: `vocab.model` or `vocab.txt`.
      content: its content.

    Raises:
      TokenizerError: see `read_lower_case`.
    """
    tokens, folds = _tokens_of_text(vocabulary, name, content)
    path = file_paths.at(folder, "tokenizer_config.json")
    lower_case = settings.get("do_lower_case")
    if lower_case is None:
        path = file_paths.at(folder, vocabularies.TOKENIZER_JSON)
        lower_case = _lower_cases(_settings(path))
    if not isinstance(lower_case, bool | None):
        raise TokenizerError(
            f"{path} lower-cases text or not by {json.dumps(lower_case)}: it must be true or false."
        )
    if lower_case is None:
        return not vocabularies.is_cased(tokens)
    problem = vocabularies.case_contradiction(vocabulary, tokens, lower_case, folds)
    is_fine_tuned = read_architecture(folder).endswith(_FINE_TUNED)
    # A SentencePiece model with capital letters would get its text as it is.
    if problem and lower_case and is_fine_tuned and name == "vocab.txt":
        _say_once(f"{folder}: do_lower_case is true in {path}, so text is lower-cased: {problem}.")
    elif problem:
        told = str(not lower_case).lower()
        raise TokenizerError(
            f"{folder}: do_lower_case is {str(lower_case).lower()}, but {problem}: set it to "
            f"{told} in {path}, as the encoder was pretrained with such a vocabulary."
        )
    return lower_case


@functools.cache
def _say_once(line: str) -> None:
    """Prints a line on stderr, unless this process did before: settings are read several times."""
    messages.print_last(line)


def _read_vocabulary(folder: str | os.PathLike) -> tuple[Path, str, bytes]:
    """Finds the vocabulary in a folder.

    Returns:
      The file, and the name and the content that it has in a run's folder.

    Raises:
      TokenizerError: there is none, or it cannot be used.
    """
    try:
        vocabulary = vocabularies.find_vocabulary(folder)
        contents = vocabularies.contents(vocabulary)
    except VocabularyError as error:
        raise TokenizerError(
            f"{error} Save the tokenizer with save_pretrained(folder), which writes it."
        ) from error
    return vocabulary, *next(iter(contents.items()))


def _tokens_of_text(vocabulary: Path, name: str, content: bytes) -> tuple[list[str], bool]:
    """Reads the tokens that text can give.

    Args:
      vocabulary: the file, for the message.
      name: `vocab.model` or `vocab.txt`.
      content: its content.

    Returns:
      The tokens; and whether the vocabulary itself takes capital letters for small ones.

    Raises:
      TokenizerError: the file is no vocabulary.
    """
    try:
        if name == "vocab.model":
            model = sentencepiece_model.ModelProto.FromString(content)
            folds = sentencepiece_model.folds_case(model)
            return [x.piece for x in model.pieces if x.type == sentencepiece_model.NORMAL], folds
        return vocabularies.wordpiece_tokens(content), False
    except Exception as error:  # the tokenizers library raises nothing more exact
        raise TokenizerError(f"{vocabulary} is no vocabulary ({error}): get it again.") from error


def _lower_cases(tokenizer: dict) -> bool | None:
    """Returns whether a `tokenizer.json` lower-cases text, or None if it does not say."""
    try:
        normalizer = tokenizer.get("normalizer") or {}
        if normalizer.get("type") == "BertNormalizer":
            return normalizer.get("lowercase")
        parts = normalizer.get("normalizers", [normalizer])
        return True if any(part.get("type") == "Lowercase" for part in parts) else None
    except (AttributeError, TypeError):  # an unknown form does not say
        return None


def _settings(path: Path) -> dict:
    """Reads one of the tokenizer's files; returns {} if there is none.

    Raises:
      TokenizerError: it is no JSON object.
    """
    content = json_files.read_object_or_empty(path)
    if not content and path.is_file() and path.read_bytes().strip() != b"{}":
        raise TokenizerError(f"{path} is no JSON object: get it again, or remove it.")
    return content


def read_architecture(folder: str | os.PathLike) -> str:
    """Reads the class of the model beside a Hugging Face tokenizer from its `config.json`.

    The class tells whether the tokenizer is a tagger's, whose texts come as words.

    Args:
      folder: the folder of a model in the format of `transformers`.

    Returns:
      The first name in `architectures`, such as "ElectraForTokenClassification"; "" if there is no
      such file or no name in it.

    Raises:
      UserError: `architectures` has another form than in `transformers`.
    """
    path = file_paths.at(folder, "config.json")
    names = json_files.read_object_or_empty(path).get("architectures") or [""]
    if not isinstance(names, list) or not isinstance(names[0], str):
        raise UserError(
            f"{path} has architectures = {json.dumps(names)}: it must be a list with the name of "
            "the model's class."
        )
    return names[0]


def read_max_length(folder: str | os.PathLike) -> float:
    """Reads the most tokens of a text that a Hugging Face tokenizer gives its model.

    Args:
      folder: the folder of a model in the format of `transformers`.

    Returns:
      `model_max_length` of `tokenizer_config.json`; infinity if there is no such number above 0.
    """
    length = _settings(file_paths.at(folder, "tokenizer_config.json")).get("model_max_length")
    return length if isinstance(length, int | float) and length > 0 else math.inf


# --- Writing -------------------------------------------------------------------------------------


def write(
    folder: str | os.PathLike,
    vocab_file: str | os.PathLike,
    lower_case: bool,
    segments: int,
    max_length: int,
    of_words: bool = False,
) -> None:
    """Writes a Hugging Face tokenizer for `transformers.AutoTokenizer` into the folder of a model.

    It gives the ids of `Tokenizer.join`. Writes `tokenizer.json`, which holds all of it,
    `tokenizer_config.json`, and the vocabulary's files (`vocab.txt`, `vocab.json` and `merges.txt`,
    or `spiece.model`), and returns nothing. Its class is the one of `transformers` that gives the
    same ids, or, where there is none, the class that takes `tokenizer.json` as it is.

    Args:
      folder: the folder of the model; is made if it does not exist.
      vocab_file: the vocabulary's file.
      lower_case: whether to lower-case text first; byte-level BPE ignores it.
      segments: the number of segments that the model distinguishes.
      max_length: the longest input, in tokens.
      of_words: whether texts come as words, each with a space before it, as a tagger's do.

    Raises:
      VocabularyError: the vocabulary is missing, damaged or cannot be used.
      OSError: a file cannot be written.
    """
    own = tokenization.load_tokenizer(vocab_file, lower_case, segments=segments)
    contents = vocabularies.contents(vocab_file)
    if own.kind == "wordpiece":
        form = _wordpiece(own)
    elif own.kind == "byte_bpe":
        form = _byte_bpe(own, of_words)
    else:
        contents = {"spiece.model": contents["vocab.model"]}
        form = _sentencepiece(own, contents["spiece.model"], lower_case)
    _add_special_tokens(form, own, of_words)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    storage.write_text(folder / vocabularies.TOKENIZER_JSON, form.backend.to_str(pretty=True))
    for name, content in contents.items():
        with storage.written_whole(folder / name) as stream:
            stream.write(content)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    if own.kind == "byte_bpe" or own.segments == 1:
        inputs.remove("token_type_ids")
    settings = form.settings | dict(zip(_ROLES, form.special_names, strict=True))
    if own.kind == "byte_bpe":
        settings["mask_token"] = {
            "__type": "AddedToken",
            "content": form.special_names[-1],
            "lstrip": True,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
    settings |= {
        "tokenizer_class": form.class_name,
        "do_lower_case": settings.get("do_lower_case", lower_case),
        "model_max_length": max_length,
        "model_input_names": inputs,
    }
    path = folder / "tokenizer_config.json"
    storage.write_text(path, json.dumps(settings, indent=2) + "\n")


class _Form(NamedTuple):
    """A tokenizer as `transformers` has it.

    Attributes:
      class_name: its class there.
      backend: the tokenizer of the library `tokenizers`.
      special_names: the special tokens, in the order of `_ROLES`.
      settings: settings of the class, for `tokenizer_config.json`.
    """

    class_name: str
    backend: tokenizers.Tokenizer
    special_names: Sequence[str]
    settings: dict


def _wordpiece(own: tokenization.Tokenizer) -> _Form:
    """Returns a WordPiece tokenizer as BERT's."""
    from tokenizers import decoders

    own.backend.decoder = decoders.WordPiece()
    # Accents are stripped as do_lower_case says.
    settings = {"strip_accents": None, "tokenize_chinese_chars": True}
    return _Form("BertTokenizer", own.backend, special_tokens.SPECIAL_TOKENS, settings)


def _byte_bpe(own: tokenization.Tokenizer, of_words: bool) -> _Form:
    """Returns a byte-level BPE tokenizer as RoBERTa's."""
    from tokenizers import decoders, pre_tokenizers

    names = special_tokens.BYTE_BPE_SPECIAL_TOKENS
    own.backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=of_words)
    own.backend.decoder = decoders.ByteLevel()
    settings = {"add_prefix_space": of_words, "bos_token": names[2], "eos_token": names[3]}
    return _Form("RobertaTokenizer", own.backend, names, settings)


def _sentencepiece(own: tokenization.Tokenizer, content: bytes, lower_case: bool) -> _Form:
    """Returns a SentencePiece tokenizer as ALBERT's, or as one without a class of its own."""
    from tokenizers import decoders

    model = sentencepiece_model.ModelProto.FromString(content)
    backend = sentencepiece_model.tokenizer(model, lower_case, special_names=True)
    backend.decoder = decoders.Metaspace()
    names = special_tokens.SENTENCEPIECE_SPECIAL_TOKENS
    is_alberts = own.kind == "unigram" and own.unk_id == 1
    lower_cases_first = sentencepiece_model.lower_cases_first(model, lower_case)
    # Not what the settings say: they are of no effect on a model with capital letters.
    folds = lower_case and sentencepiece_model.folds_case(model)
    settings = {"do_lower_case": lower_cases_first or folds}
    if is_alberts and lower_cases_first:
        return _Form("AlbertTokenizer", backend, names, settings | {"keep_accents": False})
    return _Form("PreTrainedTokenizerFast", backend, names, settings)


def _add_special_tokens(form: _Form, own: tokenization.Tokenizer, of_words: bool) -> None:
    """Adds the special tokens to a tokenizer, and to each text or pair that it encodes."""
    import tokenizers
    from tokenizers import processors

    names, backend = form.special_names, form.backend
    # The space before <mask> belongs to it, as the masked word had one.
    lstrip = own.kind == "byte_bpe"
    mask = tokenizers.AddedToken(names[-1], lstrip=lstrip, special=True, normalized=False)
    backend.add_special_tokens([*names[:-1], mask])
    sep, cls = (names[3], own.sep_id), (names[2], own.cls_id)
    if own.kind == "byte_bpe":
        backend.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=of_words)
    else:
        backend.post_processor = processors.BertProcessing(sep, cls)
