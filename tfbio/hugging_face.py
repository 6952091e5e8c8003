"""Encoders in Hugging Face's form: `config.json`, `model.safetensors` and `vocab.txt`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tfbio import storage
from tfbio.cli import UserError
from tfbio.config import EncoderConfig
from tfbio.encoder import LAYER_NORM_EPSILON, Dense, Encoder, LayerNorm

# What the tensors of the encoder are called in a model with a head, and in one without.
PREFIXES = ("bert.", "electra.", "")
# Of the settings in config.json, those that an `Encoder` can have in one way only.
REQUIRED = {
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "layer_norm_eps": LAYER_NORM_EPSILON,
}


class HuggingFaceError(UserError):
    """A folder of Hugging Face's that cannot be used, or is not one."""


def read_settings(folder: str) -> dict | None:
    """What `checkpoints.read_settings` gives of our runs; None: the folder is not Hugging Face's.

    Raises:
      HuggingFaceError: it is of a model that is no BERT or ELECTRA encoder.
    """
    settings = _read_json(storage.at(folder, "config.json"))
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
    return {"encoder": shape, "lower_case": lower_case}


def _read_json(path: Path) -> dict:
    """What a file of settings holds; nothing, if there is none or it is no JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_uncased(path: Path) -> bool:
    """Whether no token of a vocabulary has a capital letter, but for such as [CLS]."""
    if not path.is_file():
        raise HuggingFaceError(
            f"{path} is missing: save the tokenizer with save_vocabulary(folder), which writes it."
        )
    tokens = path.read_text(encoding="utf-8").split("\n")
    return all(token == token.lower() for token in tokens if not token.startswith("["))


def weights_file(folder: str) -> Path:
    """The file with the weights.

    Raises:
      HuggingFaceError: there is none.
    """
    path = storage.at(folder, "model.safetensors")
    if not path.is_file():
        raise HuggingFaceError(
            f"{path} is missing: save the model with save_pretrained(folder), which writes it."
        )
    return path


def restore_encoder(folder: str, encoder: Encoder) -> None:
    """Gives `encoder` the weights in `folder`.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape; the encoder is then unchanged.
    """
    import safetensors
    from safetensors.numpy import load_file

    path = weights_file(folder)
    try:
        tensors = load_file(path)
    except (OSError, KeyError, safetensors.SafetensorError) as error:
        raise HuggingFaceError(
            f"{path} cannot be read ({error}): save the model again, in float32."
        ) from error
    # Checkpoints that were made from TensorFlow's call a LayerNorm's weight and bias so.
    tensors = {
        name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
            "LayerNorm.beta", "LayerNorm.bias"
        ): tensor
        for name, tensor in tensors.items()
    }
    prefix = next(
        p for p in PREFIXES if f"{p}embeddings.word_embeddings.weight" in tensors or not p
    )
    values = []
    for variable, names, transposed in _names(encoder):
        found = [tensors.get(prefix + name) for name in names]
        missing = [name for name, value in zip(names, found, strict=True) if value is None]
        if missing:
            raise HuggingFaceError(f"{path} lacks {prefix}{missing[0]}: it is of another model.")
        value = np.concatenate([value.T if transposed else value for value in found], axis=-1)
        if value.shape != tuple(variable.shape):
            raise HuggingFaceError(
                f"{path}: {prefix}{names[0]} has shape {found[0].shape}, which does not make "
                f"{tuple(variable.shape)}."
            )
        values.append((variable, value))
    for variable, value in values:
        variable.assign(value)


def _names(encoder: Encoder) -> list[tuple]:
    """Each variable, the tensors that are joined to make it, and whether those are transposed."""
    embeddings = encoder.embeddings
    names = [
        (embeddings.word, ["embeddings.word_embeddings.weight"], False),
        (embeddings.position, ["embeddings.position_embeddings.weight"], False),
        (embeddings.segment, ["embeddings.token_type_embeddings.weight"], False),
        *_norm(embeddings.layer_norm, "embeddings.LayerNorm"),
    ]
    if encoder.projection is not None:
        names += _dense(encoder.projection, "embeddings_project")
    for number, layer in enumerate(encoder.transformer_layers):
        prefix = f"encoder.layer.{number}"
        attention = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        names += _dense(layer.query_key_value, *attention)
        names += _dense(layer.attention_output, f"{prefix}.attention.output.dense")
        names += _norm(layer.attention_norm, f"{prefix}.attention.output.LayerNorm")
        names += _dense(layer.intermediate, f"{prefix}.intermediate.dense")
        names += _dense(layer.output_dense, f"{prefix}.output.dense")
        names += _norm(layer.output_norm, f"{prefix}.output.LayerNorm")
    return names


def _dense(dense: Dense, *scopes: str) -> list[tuple]:
    return [
        (dense.kernel, [f"{scope}.weight" for scope in scopes], True),
        (dense.bias, [f"{scope}.bias" for scope in scopes], False),
    ]


def _norm(norm: LayerNorm, scope: str) -> list[tuple]:
    return [(norm.gamma, [f"{scope}.weight"], False), (norm.beta, [f"{scope}.bias"], False)]
