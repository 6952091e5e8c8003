"""Models in Hugging Face's form: `config.json`, weights (see `weight_files`) and a tokenizer."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio import records, storage, tokenization, weight_files, weight_names
from tfbio.cli import UserError
from tfbio.config import EncoderConfig
from tfbio.electra import Electra
from tfbio.encoder import Encoder
from tfbio.masked_language_model import MaskedLanguageModel

# The folder in that of an ELECTRA model in which its generator is.
GENERATOR = "generator"
# What the tensors of the encoder are called in a model with a head, and in one without.
PREFIXES = ("bert.", "electra.", "")
# Of the settings in config.json, those that an `Encoder` can have in one way only.
REQUIRED = {
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "layer_norm_eps": EncoderConfig.layer_norm_eps,
}


class HuggingFaceError(UserError):
    """A folder of Hugging Face's that cannot be used, or is not one."""


def read_settings(folder: str) -> dict | None:
    """What `checkpoints.read_settings` gives of our runs; None: the folder is not Hugging Face's.

    Raises:
      HuggingFaceError: it is of a model that is no BERT or ELECTRA encoder.
    """
    settings = read_config(folder)
    kind = settings.get("model_type")
    if kind is None:
        return None
    if kind not in ("bert", "electra"):
        raise HuggingFaceError(f"{folder} holds a model of type {kind}: give a bert or electra.")
    for name, value in REQUIRED.items():
        if settings.get(name, value) != value:
            raise HuggingFaceError(
                f"{folder}/config.json has {name} = {settings[name]}: only {value} can be used."
            )
    names = EncoderConfig.__dataclass_fields__.keys() - {"embedding_size"}
    shape = {name: settings[name] for name in names if name in settings}
    if "hidden_size" not in shape:
        raise HuggingFaceError(f"{folder}/config.json lacks hidden_size: it is not complete.")
    shape["embedding_size"] = settings.get("embedding_size", shape["hidden_size"])
    tokenizer = _read_json(storage.at(folder, "tokenizer_config.json"))
    lower_case = tokenizer.get("do_lower_case")
    if lower_case is None:
        lower_case = _is_uncased(storage.at(folder, "vocab.txt"))
    if tokenizer.get("strip_accents") not in (None, lower_case):
        raise HuggingFaceError(
            f"{folder}/tokenizer_config.json has strip_accents = {tokenizer['strip_accents']}: it "
            "can only be as do_lower_case is."
        )
    return {"encoder": shape, "lower_case": lower_case, "family": kind}


def read_config(folder: str) -> dict:
    """The `config.json` in a folder; nothing, if there is none."""
    return _read_json(storage.at(folder, "config.json"))


def _read_json(path: Path) -> dict:
    """What a file of settings holds; nothing, if there is none or it is no JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_uncased(path: Path) -> bool:
    """Whether no token of a vocabulary has a capital letter, but for such as [CLS]."""
    if not path.is_file():
        raise HuggingFaceError(
            f"{path} is missing: save the tokenizer with save_vocabulary(folder), which writes it."
        )
    # What is not UTF-8 is named by `tokenization.read_vocab`.
    tokens = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return all(token == token.lower() for token in tokens if not token.startswith("["))


def restore_encoder(folder: str, encoder: Encoder) -> None:
    """Gives `encoder` the weights in `folder`.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape; the encoder is then unchanged.
      WeightFileError: see `weight_files`; likewise.
    """
    tensors = weight_files.open_all(folder)
    named = weight_names.of_encoder(encoder, "encoder")
    _assign(_values(folder, tensors, named, {"encoder.": _prefix(tensors)}))


def _prefix(tensors: Mapping[str, weight_files.Tensor]) -> str:
    """How the names of the encoder's tensors begin."""
    word_embeddings = "embeddings.word_embeddings.weight"
    return next(p for p in PREFIXES if p + word_embeddings in tensors or not p)


def restore_electra(folder: str, model: Electra) -> None:
    """Gives `model` an `ElectraForPreTraining`, and as its generator an `ElectraForMaskedLM`.

    Args:
      folder: of the first; that of the second is in it and is called `generator`.
      model: of the same shape.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape, or generator and discriminator have
        embeddings of their own, but not the model; the model is then unchanged.
      WeightFileError: see `weight_files`; likewise.
    """
    tensors = weight_files.open_all(folder)
    named = weight_names.of_encoder(model.encoder, "electra")
    values = _values(folder, tensors, named + weight_names.of_discriminator_head(model))
    if model.generator_head is not None:
        folder = os.path.join(folder, GENERATOR)
        tensors = weight_files.open_all(folder)
        named = weight_names.of_encoder(model.generator, "electra")
        known = {variable.ref(): value for variable, value in values}
        for variable, value in _values(
            folder, tensors, named + weight_names.of_generator_head(model)
        ):
            if variable.ref() not in known:
                values.append((variable, value))
            elif not np.array_equal(known[variable.ref()], value):
                raise HuggingFaceError(
                    f"{folder} has embeddings of its own: give --set "
                    "untied_generator_embeddings=true."
                )
    _assign(values)


def restore_pooler(folder: str, pooler: keras.layers.Dense) -> None:
    """Gives `pooler` BERT's or ALBERT's in `folder`; where there is none, it stays as it is."""
    tensors, family = weight_files.open_all(folder), read_config(folder)["model_type"]
    named = weight_names.of_pooler(pooler, family)
    first, _ = weight_names.hugging_face_name(named[0].names[0])
    begins = f"{family}."
    # RoBERTa's and ELECTRA's, which begin with `classifier`, belong to a task.
    if first.startswith(begins):
        for prefix in (begins, ""):
            if first.replace(begins, prefix, 1) in tensors:
                _assign(_values(folder, tensors, named, {begins: prefix}))
                return


def restore_masked_language_model(folder: str, model: MaskedLanguageModel) -> None:
    """Gives `model` a `BertForMaskedLM` in `folder`.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape; the model is then unchanged.
      WeightFileError: see `weight_files`; likewise.
    """
    named = weight_names.of_masked_language_model(model)
    _assign(_values(folder, weight_files.open_all(folder), named))


def _values(
    folder: str,
    tensors: Mapping[str, weight_files.Tensor],
    named: list[weight_names.Named],
    scopes: Mapping[str, str] | None = None,
) -> list[tuple[tf.Variable, np.ndarray]]:
    """Each variable with what it is to be; `scopes` tells how names begin in another way."""
    path, values = weight_files.find(folder), []
    for variable, names in named:
        shape = (*variable.shape[:-1], variable.shape[-1] // len(names))
        found = []
        for original in names:
            name, transposed = weight_names.hugging_face_name(original)
            for ours, theirs in (scopes or {}).items():
                name = theirs + name.removeprefix(ours)
            if name not in tensors:
                raise HuggingFaceError(f"{path} lacks {name}: it is of another model.")
            expected = shape[::-1] if transposed else shape
            if tensors[name].shape != expected:
                raise HuggingFaceError(
                    f"{path}: {name} has shape {tensors[name].shape}, the model's is {expected}."
                )
            value = tensors[name].read()
            found.append(value.T if transposed else value)
        values.append((variable, np.concatenate(found, axis=-1)))
    return values


def _assign(values: list[tuple[tf.Variable, np.ndarray]]) -> None:
    for variable, value in values:
        variable.assign(value)


def write(
    folder: str | os.PathLike,
    architecture: str,
    encoder: EncoderConfig,
    weights: list[weight_names.Named],
    vocab_file: str | os.PathLike,
    lower_case: bool,
    **settings: object,
) -> None:
    """Writes a folder that `transformers` loads: settings, weights and tokenizer.

    Args:
      folder: made if need be.
      architecture: the class that is to load it, such as "ElectraForPreTraining".
      encoder: the encoder's shape.
      weights: of all that the class has, by their original names.
      vocab_file: WordPiece's vocab.txt.
      lower_case: whether text is lower-cased.
      settings: others for config.json.
    """
    from safetensors.numpy import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for variable, names in weights:
        parts = np.split(variable.numpy(), len(names), axis=-1)
        for original, part in zip(names, parts, strict=True):
            name, transposed = weight_names.hugging_face_name(original)
            tensors[name] = np.ascontiguousarray(part.T if transposed else part)
    vocab = tokenization.read_vocab(vocab_file)
    shape = dataclasses.asdict(encoder)
    if architecture.startswith("Bert"):
        del shape["embedding_size"]  # which is hidden_size in BERT
    shape |= REQUIRED | {"pad_token_id": vocab[tokenization.PAD], "dtype": "float32"}
    kind = "bert" if architecture.startswith("Bert") else "electra"
    shape |= {"model_type": kind, "architectures": [architecture], **settings}
    # `transformers` asks for the framework that the tensors are of.
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_tokenizer(folder, vocab, lower_case, encoder.max_position_embeddings)
    # Last: without it the folder is none.
    _write_json(folder / "config.json", shape)


def _write_tokenizer(folder: Path, vocab: dict[str, int], lower_case: bool, length: int) -> None:
    from tokenizers import decoders, processors

    tokenizer = tokenization.wordpiece(vocab, lower_case)
    tokenizer.add_special_tokens(list(tokenization.SPECIAL_TOKENS))
    tokenizer.post_processor = processors.BertProcessing(
        (tokenization.SEP, vocab[tokenization.SEP]), (tokenization.CLS, vocab[tokenization.CLS])
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.save(str(folder / "tokenizer.json"))
    tokens = sorted(vocab, key=vocab.get)
    records.write_text(folder / "vocab.txt", "\n".join(tokens) + "\n")
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": lower_case,
        "strip_accents": None,  # as do_lower_case says
        "tokenize_chinese_chars": True,
        "model_max_length": length,
        **dict(zip(names, tokenization.SPECIAL_TOKENS, strict=True)),
    }
    _write_json(folder / "tokenizer_config.json", settings)


def _write_json(path: Path, settings: dict) -> None:
    records.write_text(path, json.dumps(settings, indent=2) + "\n")
