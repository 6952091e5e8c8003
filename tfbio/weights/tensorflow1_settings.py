"""Reads the settings of the models in checkpoints of TensorFlow 1.

They are those that google-research's electra, bert and albert wrote: some files with one prefix,
such as `bert_model.ckpt.index` and `bert_model.ckpt.data-00000-of-00001`. `tensorflow1_weights`
reads and writes the weights.

A BERT's activation is read as the exact gelu, x Phi(x). Its first code (2018-10) computed that one;
the code since then computes the approximation with tanh, under the same name in `bert_config.json`.
Nothing says with which of the two a checkpoint was trained, and `transformers` reads all of them as
exact. The two differ by 0.0005 at most, at x = 2.7 and at -2.7. ELECTRA's code is exact, ALBERT's
has always had the approximation.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from tfbio.base import file_paths, json_files, messages
from tfbio.base.config import ConfigError, build
from tfbio.models.encoder_config import HIDDEN_ACTS, TRAINING_ONLY, EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text import hugging_face_tokenizer
from tfbio.weights import tensorflow1_checkpoint
from tfbio.weights.tensorflow1_checkpoint import SHARED_LAYER, TensorFlow1Error

# The files with the model's shape, of BERT and ALBERT; ELECTRA's code writes none.
_SHAPE_FILES = ("bert_config.json", "albert_config.json", "config.json")
# The settings in those files of which an `Encoder` supports some values only.
_REQUIRED = {"hidden_act": HIDDEN_ACTS, "num_hidden_groups": (1,), "inner_group_num": (1,)}
# The size of an attention head, of which there are hidden_size / 64: that holds for all published
# BERTs and ELECTRAs, and ELECTRA's code computes the generator's heads by it
# (`get_generator_config` in run_pretraining.py).
_HEAD_SIZE = 64
# The scopes of the heads, which tell what a checkpoint holds beside an encoder.
GENERATOR_SCOPE, DISCRIMINATOR_SCOPE = "generator_predictions", "discriminator_predictions"
WORD_HEAD = "cls/predictions"
PAIR_HEAD = "cls/seq_relationship"


def read_settings(path: str) -> dict:
    """Reads the settings of a TensorFlow 1 checkpoint's model, in `checkpoint_settings`' form.

    The encoder's shape is that of the tensors. A `bert_config.json`, `albert_config.json` or
    `config.json` beside them overrides it; without one, there is an attention head for every 64 of
    hidden_size.

    Args:
      path: the prefix of a checkpoint, or its folder.

    Returns:
      Name -> value. `encoder`: a dict of the fields of `EncoderConfig`; `lower_case`: True if text
      is lower-cased; `family`: "albert", "bert" or "electra". If the model has a head of
      pretraining, also `objective` ("electra" or "mlm"), `sequence_length`, an int, and the
      settings of `PretrainingConfig` that the tensors tell: of the generator, or
      `sentence_pair_head`.

    Raises:
      TensorFlow1Error: there is no checkpoint, it cannot be read, or the model is no BERT, ELECTRA
        or ALBERT that an `Encoder` can hold.
      TokenizerError: there is no vocabulary beside the checkpoint that can be used.
    """
    prefix = tensorflow1_checkpoint.find_one(path)
    folder, shapes = os.path.dirname(prefix), tensorflow1_checkpoint.shapes_in(prefix)
    scope = tensorflow1_checkpoint.scope_of(prefix, shapes)
    shape = _encoder_shape(prefix, shapes, scope)
    heads, rest = divmod(shape["hidden_size"], _HEAD_SIZE)
    is_albert = f"{SHARED_LAYER}/LayerNorm/gamma" in shapes
    stated = _stated_shape(folder, is_albert)
    if is_albert and "num_hidden_layers" not in stated:
        raise TensorFlow1Error(
            f"{prefix} does not tell how often its one layer is used: put its albert_config.json "
            "beside it."
        )
    if rest and "num_attention_heads" not in stated:
        raise TensorFlow1Error(
            f"{prefix} does not tell its attention heads, as its hidden_size "
            f"{shape['hidden_size']} is no multiple of {_HEAD_SIZE}: put a bert_config.json "
            "with num_attention_heads beside it."
        )
    shape |= {"num_attention_heads": heads, **stated}
    try:
        shape = dataclasses.asdict(build(EncoderConfig, shape, _shape_file(folder) or prefix))
    except ConfigError as error:
        raise TensorFlow1Error(str(error)) from error
    lower_case = hugging_face_tokenizer.read_lower_case(folder)
    family = "albert" if is_albert else scope
    settings = {"encoder": shape, "lower_case": lower_case, "family": family}
    if f"{DISCRIMINATOR_SCOPE}/dense/kernel" in shapes:
        settings |= {"objective": "electra", **_generator_settings(prefix, shapes, shape)}
    elif f"{WORD_HEAD}/output_bias" in shapes:
        has_pair_head = f"{PAIR_HEAD}/output_weights" in shapes
        settings |= {"objective": "mlm", "sentence_pair_head": has_pair_head}
    if "objective" in settings:
        # The default may be above the number of positions.
        length = min(PretrainingConfig.sequence_length, shape["max_position_embeddings"])
        settings["sequence_length"] = length
    return settings


def read_generator(path: str) -> EncoderConfig | None:
    """Reads the shape of the generator in a TensorFlow 1 checkpoint of an ELECTRA.

    Args:
      path: the prefix of a checkpoint, or its folder.

    Returns:
      An `EncoderConfig`, or None if there is no generator.

    Raises:
      TensorFlow1Error: there is no checkpoint, it cannot be read, or the model is no BERT, ELECTRA
        or ALBERT that an `Encoder` can hold.
      TokenizerError: there is no vocabulary beside the checkpoint that can be used.
    """
    settings = read_settings(path)
    if settings.get("uniform_generator", True):
        return None
    return build(PretrainingConfig, _values(settings), path).generator


def read_run(path: str) -> dict[str, Any]:
    """Reads the settings of the pretraining run that a TensorFlow 1 checkpoint is of.

    Args:
      path: the prefix of a checkpoint, or its folder.

    Returns:
      Name -> value, those of a `PretrainingConfig` that the checkpoint tells.

    Raises:
      TensorFlow1Error: the model has no head of pretraining, or see `read_settings`.
      TokenizerError: see `read_settings`.
    """
    settings = read_settings(path)
    if "objective" not in settings:
        prefix = tensorflow1_checkpoint.find_one(path)
        raise TensorFlow1Error(f"{prefix} has no head of pretraining, only an encoder.")
    return _values(settings)


def _values(settings: dict) -> dict[str, Any]:
    """Returns those of a checkpoint's settings that a `PretrainingConfig` has."""
    others = ("lower_case", "family")
    return {name: value for name, value in settings.items() if name not in others}


def _encoder_shape(
    prefix: str, shapes: dict[str, list[int]], scope: str, embeddings: str = ""
) -> dict[str, int]:
    """Returns the settings of an `EncoderConfig` that tensors tell: all but the number of heads.

    Args:
      prefix: the checkpoint, for the message.
      shapes: see `shapes_in`.
      scope: the scope of the layers.
      embeddings: the scope of the embeddings, if it is another one.

    Raises:
      TensorFlow1Error: a tensor is missing.
    """
    embeddings = f"{embeddings or scope}/embeddings"
    layers = {name.split("/")[2] for name in shapes if name.startswith(f"{scope}/encoder/layer_")}
    is_albert = f"{SHARED_LAYER}/LayerNorm/gamma" in shapes
    last = f"{scope}/encoder/layer_0/output/dense/kernel"
    if is_albert:
        last = f"{SHARED_LAYER}/ffn_1/intermediate/output/dense/kernel"
    try:
        vocab_size, embedding_size = shapes[f"{embeddings}/word_embeddings"]
        return {
            "vocab_size": vocab_size,
            "embedding_size": embedding_size,
            "hidden_size": shapes[last][1],
            **({} if is_albert else {"num_hidden_layers": len(layers)}),
            "intermediate_size": shapes[last][0],
            "max_position_embeddings": shapes[f"{embeddings}/position_embeddings"][0],
            "type_vocab_size": shapes[f"{embeddings}/token_type_embeddings"][0],
        }
    except KeyError as error:
        raise TensorFlow1Error(
            f"{prefix} holds no {error.args[0]}: it is of another model, or not complete."
        ) from error


def _shape_file(folder: str) -> Path | None:
    """Returns the path of the settings beside a checkpoint, or None if there are none.

    Raises:
      TensorFlow1Error: the file is no JSON object.
    """
    for name in _SHAPE_FILES:
        path = file_paths.at(folder, name)
        if not path.is_file():
            continue
        stated = json_files.read_object_or_empty(path)
        if not stated:
            raise TensorFlow1Error(
                f"{path} is no JSON object: mend it, or remove it to have the shape from the "
                "tensors."
            )
        if name != "config.json" or "hidden_size" in stated:  # else it is another program's
            return path
    return None


def _stated_shape(folder: str, is_albert: bool) -> dict:
    """Returns the encoder's settings in the file beside a checkpoint, which may be missing.

    Raises:
      TensorFlow1Error: a setting has a value that an `Encoder` does not support.
    """
    shape = {"share_layers": True, "hidden_act": "gelu_new"} if is_albert else {}
    path = _shape_file(folder)
    if path is None:
        return shape
    stated = json_files.read_object_or_empty(path)
    for name, values in _REQUIRED.items():
        value = stated.get(name, values[0])
        if value not in values:
            raise TensorFlow1Error(
                f"{path} has {name} = {json.dumps(value)}: only "
                f"{' and '.join(map(json.dumps, values))} can be used."
            )
    shape.setdefault("hidden_act", stated.get("hidden_act", "gelu"))
    # A released file may round the vocabulary's size up; the tensors have the real one.
    ignored = {"vocab_size", "hidden_act", "layer_norm_first"}
    known = EncoderConfig.__dataclass_fields__.keys() - ignored
    return shape | {name: value for name, value in stated.items() if name in known}


def _generator_settings(prefix: str, shapes: dict[str, list[int]], encoder: dict) -> dict:
    """Returns the settings of `PretrainingConfig` that describe ELECTRA's generator."""
    if f"{GENERATOR_SCOPE}/dense/kernel" not in shapes:
        return {"uniform_generator": True}
    if not any(name.startswith("generator/encoder/") for name in shapes):
        return {
            "uniform_generator": False,
            "untied_generator": False,
            "untied_generator_embeddings": False,
        }
    own = "generator/embeddings/word_embeddings" in shapes
    shape = _encoder_shape(prefix, shapes, "generator", "" if own else "electra")
    return {
        "uniform_generator": False,
        "untied_generator": True,
        "generator_hidden_fraction": shape["hidden_size"] / encoder["hidden_size"],
        "generator_layers_fraction": shape["num_hidden_layers"] / encoder["num_hidden_layers"],
        "untied_generator_embeddings": own,
    }


def require_adam(path: str, optimizer: str) -> None:
    """Checks that settings name the optimizer of a TensorFlow 1 checkpoint; returns nothing.

    Args:
      path: the prefix of a checkpoint of BERT or ELECTRA with the averages of Adam, or its folder.
      optimizer: the setting.

    Raises:
      TensorFlow1Error: it is another one.
    """
    if optimizer != "adamw":
        raise TensorFlow1Error(
            f"{path} holds the averages of Adam, with which no run goes on that has "
            f"optimizer={optimizer}: give --set optimizer=adamw, or give the checkpoint to "
            "run_pretraining.py as --init_checkpoint, for its weights alone."
        )


def require_encoder(path: str, encoder: EncoderConfig) -> None:
    """Checks that settings describe the encoder in a TensorFlow 1 checkpoint; returns nothing.

    Args:
      path: the prefix of a checkpoint of BERT or ELECTRA, or its folder.
      encoder: the shape that the settings describe; settings of training alone, such as dropout,
        are not compared.

    Raises:
      TensorFlow1Error: the encoder there has another shape, or the checkpoint cannot be read.
    """
    prefix = tensorflow1_checkpoint.find_one(path)
    shapes = tensorflow1_checkpoint.shapes_in(prefix)
    known = _encoder_shape(prefix, shapes, tensorflow1_checkpoint.scope_of(prefix, shapes))
    known |= _stated_shape(os.path.dirname(prefix), is_albert=False)
    known["layer_norm_first"] = False
    heads = encoder.num_attention_heads
    if "num_attention_heads" not in known and heads * _HEAD_SIZE != encoder.hidden_size:
        messages.say(
            f"{prefix} does not tell how many attention heads it has: {heads}, by these settings."
        )
    for name, value in known.items():
        given = getattr(encoder, name)
        if name not in TRAINING_ONLY and given != value:
            raise TensorFlow1Error(
                f"{prefix} is of a model with encoder.{name} = {value}, not {given}: give the "
                "settings that it was trained with."
            )
