"""The tokenizer in a folder of Hugging Face's: what `transformers` wrote, and what it loads."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tfbio.base import storage
from tfbio.base.cli import UserError
from tfbio.text import sentencepiece_model, tokenization, vocabularies
from tfbio.text.vocabularies import VocabularyError

# The roles of special tokens, in the order of `vocabularies.SPECIAL_TOKENS`.
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
# What the names of classes for tags end in, whose texts come as words.
TAGGER = "ForTokenClassification"
# Of a vocabulary with capital letters so many tokens have some, at least. Of BERT's cased one it is
# a third; one without may still have a few that somebody added.
_CASED = 0.01


class TokenizerError(UserError):
    """A tokenizer that cannot be used."""


# --- In ------------------------------------------------------------------------------------------


def read_lower_case(folder: str | os.PathLike) -> bool:
    """Whether the model in a folder is of text in lower case, by its tokenizer's files.

    Where they do not say it, the tokens do: a vocabulary of text in lower case has no capitals.

    Raises:
      TokenizerError: there is no vocabulary, or the settings contradict it, or are such as cannot
        be used.
    """
    try:
        vocabulary = vocabularies.find_vocabulary(folder)
        contents = vocabularies.contents(vocabulary)
    except VocabularyError as error:
        raise TokenizerError(
            f"{error} Save the tokenizer with save_pretrained(folder), which writes it."
        ) from error
    name, content = next(iter(contents.items()))
    path = storage.at(folder, "tokenizer_config.json")
    settings = _settings(path)
    if name == "vocab.json":
        # Words of taggers have a space before them here, too.
        if settings.get("add_prefix_space") and not read_architecture(folder).endswith(TAGGER):
            raise TokenizerError(
                f"{path} has add_prefix_space = true: a text can only be without a space before it."
            )
        return False  # bytes are taken as they are
    folds = False
    try:
        if name == "vocab.model":
            model = sentencepiece_model.ModelProto.FromString(content)
            folds = sentencepiece_model.folds_case(model)
            tokens = [x.piece for x in model.pieces if x.type == sentencepiece_model.NORMAL]
        else:
            lines = content.decode("utf-8").split("\n")
            tokens = [token for token in lines if not token.startswith("[")]
    except Exception as error:  # the tokenizers library raises nothing more exact
        raise TokenizerError(f"{vocabulary} is no vocabulary ({error}): get it again.") from error
    with_capitals = sum(token != token.lower() for token in tokens)
    lower_case = settings.get("do_lower_case")
    if lower_case is None:
        path = storage.at(folder, vocabularies.TOKENIZER_JSON)
        lower_case = _lower_cases(_settings(path))
    if not isinstance(lower_case, bool | None):
        raise TokenizerError(
            f"{path} lower-cases text or not by {json.dumps(lower_case)}: it must be true or false."
        )
    if lower_case is None:
        return with_capitals == 0
    # Each would lose much in silence: tokens that no text has, or text that no token is for.
    problem = ""
    if lower_case and with_capitals > _CASED * len(tokens):
        share = f"{with_capitals} of {len(tokens)}"
        problem = f"{share} tokens in {vocabulary} have capital letters"
    if not lower_case and not with_capitals and not folds:
        problem = f"no token in {vocabulary} has a capital letter"
    if problem:
        raise TokenizerError(
            f"{folder}: do_lower_case is {str(lower_case).lower()}, but {problem}: set it to "
            f"{str(not lower_case).lower()} in {path}."
        )
    strips = settings.get("strip_accents")
    if strips not in (None, lower_case):
        raise TokenizerError(
            f"{path} has strip_accents = {strips}: it can only be as do_lower_case is."
        )
    if lower_case and name == "vocab.model" and not folds and settings.get("keep_accents"):
        raise TokenizerError(
            f"{path} has keep_accents = true: text in lower case can only be without accents."
        )
    return lower_case


def _lower_cases(tokenizer: dict) -> bool | None:
    """Whether a `tokenizer.json` lower-cases; None where there is none, or it says nothing."""
    try:
        normalizer = tokenizer.get("normalizer") or {}
        if normalizer.get("type") == "BertNormalizer":
            return normalizer.get("lowercase")
        parts = normalizer.get("normalizers", [normalizer])
        return True if any(part.get("type") == "Lowercase" for part in parts) else None
    except (AttributeError, TypeError):  # a form that is not known says nothing
        return None


def _settings(path: Path) -> dict:
    """What a file of the tokenizer holds; nothing, if there is none.

    Raises:
      TokenizerError: it is no JSON object, so that what it says is not known.
    """
    found = storage.read_json(path)
    if not found and path.is_file() and path.read_bytes().strip() != b"{}":
        raise TokenizerError(f"{path} is no JSON object: get it again, or remove it.")
    return found


def read_architecture(folder: str | os.PathLike) -> str:
    """The class of `transformers` that `config.json` names, or "".

    Raises:
      UserError: it names it in another way than `transformers` does.
    """
    path = storage.at(folder, "config.json")
    names = storage.read_json(path).get("architectures") or [""]
    if not isinstance(names, list) or not isinstance(names[0], str):
        raise UserError(
            f"{path} has architectures = {json.dumps(names)}: it must be a list with the name of "
            "the model's class."
        )
    return names[0]


# --- Out -----------------------------------------------------------------------------------------


def write(
    folder: str | os.PathLike,
    vocab_file: str | os.PathLike,
    lower_case: bool,
    segments: int,
    max_length: int,
    of_words: bool = False,
) -> None:
    """Writes what `transformers.AutoTokenizer` loads, which gives the ids of `Tokenizer.join`.

    `tokenizer.json` has all of it. The class is the one of `transformers` that gives the same ids,
    and where there is none, the one that takes `tokenizer.json` as it is.

    Args:
      folder: where the model is, or is to be.
      vocab_file: the vocabulary.
      lower_case: whether text is wanted in lower case; see `fast_tokenizer.load_fast_tokenizer`.
      segments: how many the model tells apart.
      max_length: the longest input, in tokens.
      of_words: whether texts come as words, each with a space before it, as a tagger's do.
    """
    import tokenizers
    from tokenizers import decoders, pre_tokenizers, processors

    own = tokenization.load_tokenizer(vocab_file, lower_case, segments=segments)
    contents, backend, settings = vocabularies.contents(vocab_file), own.backend, {}
    names = vocabularies.SPECIAL_TOKENS
    if own.kind == "wordpiece":
        kind, decoder = "BertTokenizer", decoders.WordPiece()
        settings = {
            "strip_accents": None,  # as do_lower_case says
            "tokenize_chinese_chars": True,
        }
    elif own.kind == "byte_bpe":
        kind, decoder = "RobertaTokenizer", decoders.ByteLevel()
        names = vocabularies.BYTE_BPE_SPECIAL_TOKENS
        settings = {"add_prefix_space": of_words, "bos_token": names[2], "eos_token": names[3]}
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=of_words)
    else:
        kind, decoder = "PreTrainedTokenizerFast", decoders.Metaspace()
        names = vocabularies.SENTENCEPIECE_SPECIAL_TOKENS
        contents = {"spiece.model": contents["vocab.model"]}
        model = sentencepiece_model.ModelProto.FromString(contents["spiece.model"])
        backend = sentencepiece_model.tokenizer(model, lower_case, special_names=True)
        is_alberts = own.kind == "unigram" and own.unk_id == 1
        if is_alberts and sentencepiece_model.lower_cases_first(model, lower_case):
            kind, settings = "AlbertTokenizer", {"keep_accents": False}
    # The space before <mask> belongs to it: what it stands for had one.
    lstrip = own.kind == "byte_bpe"
    mask = tokenizers.AddedToken(names[-1], lstrip=lstrip, special=True, normalized=False)
    backend.add_special_tokens([*names[:-1], mask])
    sep, cls = (names[3], own.sep_id), (names[2], own.cls_id)
    backend.post_processor = processors.BertProcessing(sep, cls)
    if own.kind == "byte_bpe":
        backend.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=of_words)
    backend.decoder = decoder
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    storage.write_text(folder / vocabularies.TOKENIZER_JSON, backend.to_str(pretty=True))
    for name, content in contents.items():
        with storage.written_whole(folder / name) as stream:
            stream.write(content)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    if own.kind == "byte_bpe" or own.segments == 1:
        inputs.remove("token_type_ids")
    settings |= dict(zip(ROLES, names, strict=True))
    if lstrip:
        settings["mask_token"] = {
            "__type": "AddedToken",
            "content": names[-1],
            "lstrip": True,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
    settings |= {
        "tokenizer_class": kind,
        "do_lower_case": lower_case,
        "model_max_length": max_length,
        "model_input_names": inputs,
    }
    path = folder / "tokenizer_config.json"
    storage.write_text(path, json.dumps(settings, indent=2) + "\n")
