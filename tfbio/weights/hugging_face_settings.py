"""Reads the settings of models in the format of `transformers`: `config.json` and what it implies.

`hugging_face_weights` reads and writes the weights.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, NamedTuple

import numpy as np

from tfbio.base import file_paths, json_files
from tfbio.base.config import ConfigError, build
from tfbio.base.errors import UserError
from tfbio.models.encoder_config import HIDDEN_ACTS, EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text import hugging_face_tokenizer
from tfbio.weights import weight_files, weight_names

# The folder of an ELECTRA's generator, inside that of its discriminator.
GENERATOR = "generator"
# A weight that only models with the discriminator's head have.
DISCRIMINATOR_HEAD = "discriminator_predictions.dense_prediction.weight"
# The settings in config.json of which an `Encoder` supports some values only.
_REQUIRED = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "num_hidden_groups": (1,),
    "inner_group_num": (1,),
    "hidden_act": HIDDEN_ACTS,
}
# The settings without a default.
_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)


class _Family(NamedTuple):
    """The traits of the models of one of Hugging Face's families, in their settings and weights.

    Names of weights are as in `weight_names`.

    Attributes:
      word_head: the scope of the head that scores words.
      word_norm: the name of its LayerNorm, in that scope.
      word_bias: the name of its bias.
      decoder: the scope of its weights, which are the token embeddings, in files that hold both.
      pooler: the scope of the sentence-pair head's first layer; "" if there is no such head.
      sentence_pair: the scope of its second layer; "" if there is none.
      has_embedding_size: True if the embeddings may be smaller than hidden_size.
      always_gelu: True if the head that scores words has gelu, whatever hidden_act is.
      hidden_act, dropout_prob: the activation and the dropout if config.json names none.
    """

    word_head: str
    word_norm: str
    word_bias: str
    decoder: str
    pooler: str = ""
    sentence_pair: str = ""
    has_embedding_size: bool = False
    always_gelu: bool = False
    hidden_act: str = "gelu"
    dropout_prob: float = 0.1


_BERT = _Family(
    "cls/predictions/transform",
    "LayerNorm",
    "cls/predictions/output_bias",
    "cls.predictions.decoder",
    pooler="bert/pooler/dense",
    sentence_pair="cls/seq_relationship",
)
# By `model_type`. `weight_names.scope_of` tells how the names of the encoder's weights begin.
FAMILIES = {
    "bert": _BERT,
    "electra": _Family(
        "generator_predictions",
        "LayerNorm",
        "generator_predictions/output_bias",
        "generator_lm_head",
        has_embedding_size=True,
        always_gelu=True,
    ),
    "roberta": _Family(
        "lm_head", "layer_norm", "lm_head/bias", "lm_head.decoder", always_gelu=True
    ),
    "albert": _Family(
        "predictions",
        "LayerNorm",
        "predictions/bias",
        "predictions.decoder",
        pooler="albert/pooler",
        sentence_pair="sop_classifier/classifier",
        has_embedding_size=True,
        hidden_act="gelu_new",
        dropout_prob=0.0,
    ),
    "megatron-bert": _BERT,
}


class HuggingFaceError(UserError):
    """An error for a model that is not in the format of `transformers`, or that cannot be used."""


def is_one(folder: str) -> bool:
    """Returns True if `folder` holds a model in Hugging Face's format, of any type.

    The sign is settings, a `config.json`, with a model_type; the weights are not looked at.
    """
    return read_config(folder).get("model_type") is not None


def read_config(folder: str) -> dict:
    """Reads the `config.json` of a Hugging Face model, its settings, without a check.

    Args:
      folder: the folder of the model.

    Returns:
      The JSON object, name -> value; {} if there is no such file, or it holds no object.
    """
    return json_files.read_object_or_empty(file_paths.at(folder, "config.json"))


def read_settings(folder: str) -> dict:
    """Reads the settings of a Hugging Face model, in the form of `checkpoint_settings`.

    Args:
      folder: the folder of the model.

    Returns:
      Name -> value. `encoder`: a dict of the fields of `EncoderConfig`; `lower_case`: True if text
      is lower-cased; `family`: the model's `model_type`, such as "bert".

    Raises:
      HuggingFaceError: the model is one that no `Encoder` can hold.
      TokenizerError: the tokenizer's files are missing, or of a kind that cannot be used.
    """
    shape = dataclasses.asdict(read_shape(folder))
    lower_case = hugging_face_tokenizer.read_lower_case(folder)
    return {"encoder": shape, "lower_case": lower_case, "family": family_in(folder)}


def read_shape(folder: str) -> EncoderConfig:
    """Reads the shape of a Hugging Face model's encoder from its settings, an `EncoderConfig`.

    Args:
      folder: the folder of the model, whose `config.json` is read.

    Raises:
      HuggingFaceError: the model is one that no `Encoder` can hold, or the file lacks a setting.
    """
    path, settings = file_paths.at(folder, "config.json"), read_config(folder)
    family = settings.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise HuggingFaceError(
            f"{path} has model_type = {json.dumps(family)}: give a model of one of the types "
            f"{', '.join(FAMILIES)}."
        )
    traits = FAMILIES[family]
    for name in _SIZES + ("embedding_size",) * traits.has_embedding_size:
        if name not in settings:
            raise HuggingFaceError(f"{path} lacks {name}: it is not complete.")
    shape: dict[str, Any] = {
        "hidden_act": traits.hidden_act,
        "hidden_dropout_prob": traits.dropout_prob,
        "attention_probs_dropout_prob": traits.dropout_prob,
    }
    shape |= {x: settings[x] for x in EncoderConfig.__dataclass_fields__ if x in settings}
    for name, values in _REQUIRED.items():
        value = settings.get(name, values[0])
        if value not in values:
            raise HuggingFaceError(
                f"{path} has {name} = {json.dumps(value)}: only "
                f"{' and '.join(map(json.dumps, values))} can be used."
            )
    if not traits.has_embedding_size:
        shape["embedding_size"] = shape["hidden_size"]
    # The family implies the rest. RoBERTa's positions begin after the id of padding.
    pad_id = settings.get("pad_token_id", 1)
    if family == "roberta" and (type(pad_id) is not int or pad_id < 0):
        raise HuggingFaceError(
            f"{path} has pad_token_id = {json.dumps(pad_id)}: a RoBERTa's is a number from 0."
        )
    shape["position_offset"] = pad_id + 1 if family == "roberta" else 0
    shape["share_layers"] = family == "albert"
    shape["layer_norm_first"] = family == "megatron-bert"
    try:
        return build(EncoderConfig, shape, path)
    except ConfigError as error:
        # config.json has no group "encoder".
        problem = str(error).removeprefix(f"{path}: ").replace("encoder.", "")
        if not traits.has_embedding_size:  # nor an embedding_size
            problem = problem.replace("embedding_size", "hidden_size")
        raise HuggingFaceError(f"{path}: {problem}") from error


def read_pretraining_settings(folder: str) -> dict:
    """Reads, for a Hugging Face model, the settings of a pretraining run that could have made it.

    Args:
      folder: the folder of a model with a head of pretraining. The generator of a discriminator, if
        there is one, is in the folder `generator` in it.

    Returns:
      Name -> value, all but `lower_case` and `family` fields of `PretrainingConfig`: `encoder`, a
      dict, `lower_case`, a bool, `family`, such as "bert", `objective`, "electra" or "mlm", and
      `sequence_length`, an int; for an ELECTRA those of its generator (`uniform_generator`, True,
      if it has none; `untied_generator`, False, if it is the encoder; else
      `untied_generator_embeddings`, a bool, and the numbers `generator_*`), and for a masked
      language model, where its family may have one, `sentence_pair_head`, a bool.

    Raises:
      HuggingFaceError: the model has another head or none, or neither `Electra` nor
        `MaskedLanguageModel` can hold it.
      TokenizerError: the tokenizer's files are missing, or of a kind that cannot be used.
      WeightFileError: a file of weights is missing or damaged.
    """
    encoder, family = read_shape(folder), family_in(folder)
    traits, tensors = FAMILIES[family], weight_files.open_all(folder)
    settings = {
        **read_settings(folder),
        "sequence_length": min(encoder.max_sequence_length, PretrainingConfig.sequence_length),
    }
    if family == "electra" and DISCRIMINATOR_HEAD in tensors:
        return {**settings, "objective": "electra", **_generator_settings(folder, encoder, tensors)}
    bias, _ = weight_names.hugging_face_name(traits.word_bias)
    if not {bias, f"{traits.decoder}.bias"} & tensors.keys():
        # A model that was fine-tuned has a different head.
        name = hugging_face_tokenizer.read_architecture(folder)
        name = name or "model without a class, as its config.json has no architectures"
        raise HuggingFaceError(
            f"{folder} holds a {name}, and has no head of pretraining: give one with such a head, "
            "as ...ForPreTraining and ...ForMaskedLM have, or one that was fine-tuned."
        )
    settings["objective"] = "mlm"
    if traits.sentence_pair:
        name, _ = weight_names.hugging_face_name(f"{traits.sentence_pair}/kernel")
        settings["sentence_pair_head"] = name in tensors
    return settings


def _generator_settings(folder: str, encoder: EncoderConfig, tensors: dict) -> dict:
    """Returns the settings of `PretrainingConfig` that describe a discriminator's generator.

    Args:
      folder: of the discriminator.
      encoder: the discriminator's shape.
      tensors: the discriminator's tensors, by name.

    Raises:
      HuggingFaceError: the generator is larger, or differs in a setting that both must share.
    """
    inner = os.path.join(folder, GENERATOR)
    generator = read_generator(folder)
    if generator is None:
        return {"uniform_generator": True}
    own = ("embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    for name, value in dataclasses.asdict(generator).items():
        if name not in (*own, "intermediate_size") and value != getattr(encoder, name):
            raise HuggingFaceError(
                f"{inner}/config.json has {name} = {value}: a generator's is its "
                f"discriminator's, which is {getattr(encoder, name)}."
            )
    theirs = weight_files.open_all(inner)
    differing = {
        name
        for name in theirs.keys() & tensors.keys()
        if not name.endswith("position_ids")  # a buffer of older versions of `transformers`
        and not np.array_equal(theirs[name].read(), tensors[name].read())
    }
    if generator == encoder and not differing:
        return {"untied_generator": False}
    for name in ("hidden_size", "num_hidden_layers"):
        if getattr(generator, name) > getattr(encoder, name):
            raise HuggingFaceError(f"{inner} holds a generator that is larger than {folder}.")
    untied = generator.embedding_size != encoder.embedding_size
    untied |= any(name.startswith("electra.embeddings.") for name in differing)
    return {
        "untied_generator_embeddings": untied,
        "generator_embedding_size": generator.embedding_size if untied else 0,
        "generator_hidden_fraction": generator.hidden_size / encoder.hidden_size,
        "generator_layers_fraction": generator.num_hidden_layers / encoder.num_hidden_layers,
        "generator_intermediate_size": generator.intermediate_size,
        "generator_num_attention_heads": generator.num_attention_heads,
    }


def read_generator(folder: str) -> EncoderConfig | None:
    """Reads the shape of the generator in the folder of a Hugging Face discriminator.

    Args:
      folder: the folder of the discriminator; the generator is in the folder `generator` in it.

    Returns:
      An `EncoderConfig`, or None if there is no generator.

    Raises:
      HuggingFaceError: no `Encoder` can hold the generator, or its `config.json` lacks a setting.
    """
    inner = os.path.join(folder, GENERATOR)
    return read_shape(inner) if is_one(inner) else None


def check_family(family: str, encoder: EncoderConfig, with_word_head: bool) -> None:
    """Checks that the models of a Hugging Face family can have an encoder; returns nothing.

    Args:
      family: a key of `FAMILIES`.
      encoder: the encoder's shape.
      with_word_head: True if the model has the head that scores words.

    Raises:
      HuggingFaceError: they cannot have it, or the head that scores words would compute something
        else.
    """
    traits, has = FAMILIES[family], dataclasses.asdict(encoder)
    wanted: dict[str, object] = {
        "share_layers": family == "albert",
        "layer_norm_first": family == "megatron-bert",
    }
    if family != "roberta":
        wanted["position_offset"] = 0
    if not traits.has_embedding_size:
        wanted["embedding_size"] = encoder.hidden_size
    if traits.always_gelu and with_word_head:
        wanted["hidden_act"] = "gelu"
    for name, value in wanted.items():
        if has[name] != value:
            raise HuggingFaceError(
                f"a model of type {family} with this head has {name} = {value}, not {has[name]}: "
                "transformers has no class for it."
            )


def family_in(folder: str) -> str:
    """Returns the family of the Hugging Face model in a folder, such as "bert".

    Args:
      folder: the folder of a model that `read_shape` can read.

    Returns:
      A key of `FAMILIES`.

    Raises:
      KeyError: the model's `config.json` is missing or has no model_type.
    """
    return read_config(folder)["model_type"]


def class_name(family: str, head: str = "") -> str:
    """Names a class of `transformers`.

    Args:
      family: a key of `FAMILIES`.
      head: the end of the name, such as "ForMaskedLM".

    Returns:
      The name, such as "MegatronBertForMaskedLM".
    """
    return family.title().replace("-", "") + head


def family_of(settings: dict) -> str:
    """Tells which of Hugging Face's families the settings of an encoder belong to.

    A family is a `model_type` of `transformers`. A model from elsewhere keeps its family. Of the
    encoders that were made here, one with `layer_norm_first` is a Megatron-LM's. Any other ELECTRA
    is of that family. A masked language model is of the only family that can hold it, or of BERT's.

    Args:
      settings: the result of `checkpoint_settings.read_settings`, name -> value; `encoder`,
        `family` and `objective` are read.

    Returns:
      A key of `FAMILIES`.
    """
    encoder = settings["encoder"]
    if settings.get("family"):
        return settings["family"]
    if encoder["share_layers"]:
        return "albert"
    if encoder["position_offset"]:
        return "roberta"
    if encoder["layer_norm_first"]:
        return "megatron-bert"
    is_bert = settings.get("objective") == "mlm"
    return "bert" if is_bert and encoder["embedding_size"] == encoder["hidden_size"] else "electra"
