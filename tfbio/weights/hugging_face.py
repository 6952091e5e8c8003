"""Models in Hugging Face's form: `config.json`, weights (see `weight_files`) and a tokenizer."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.base import storage
from tfbio.base.cli import UserError
from tfbio.base.config import ConfigError, build
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import HIDDEN_ACTS, EncoderConfig
from tfbio.models.task_model import TaskModel
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text import hugging_face_tokenizer, tokenization
from tfbio.weights import weight_files, weight_names

# The folder in that of an ELECTRA model in which its generator is.
GENERATOR = "generator"
# What only a model with ELECTRA's discriminator has.
DISCRIMINATOR_HEAD = "discriminator_predictions.dense_prediction.weight"
# Of the settings in config.json, those that an `Encoder` can have in few ways.
REQUIRED = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "num_hidden_groups": (1,),
    "inner_group_num": (1,),
    "hidden_act": HIDDEN_ACTS,
}
# Those that have no default.
SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)


class Family(NamedTuple):
    """What a family has of its own; names of weights are as in `weight_names`."""

    word_head: str  # the scope of what scores the words,
    word_norm: str  # the name of its LayerNorm there,
    word_bias: str  # its bias,
    decoder: str  # and its weights, the token embeddings, in files that keep them twice
    pooler: str = ""  # the two layers of the sentence-pair head
    sentence_pair: str = ""
    has_embedding_size: bool = False  # or it is hidden_size
    always_gelu: bool = False  # in the head that scores the words, whatever hidden_act is
    hidden_act: str = "gelu"  # where config.json says nothing


# By `model_type`, with which the names of the encoder's weights begin.
FAMILIES = {
    "bert": Family(
        "cls/predictions/transform",
        "LayerNorm",
        "cls/predictions/output_bias",
        "cls.predictions.decoder",
        pooler="bert/pooler/dense",
        sentence_pair="cls/seq_relationship",
    ),
    "electra": Family(
        "generator_predictions",
        "LayerNorm",
        "generator_predictions/output_bias",
        "generator_lm_head",
        has_embedding_size=True,
        always_gelu=True,
    ),
    "roberta": Family("lm_head", "layer_norm", "lm_head/bias", "lm_head.decoder", always_gelu=True),
    "albert": Family(
        "predictions",
        "LayerNorm",
        "predictions/bias",
        "predictions.decoder",
        pooler="albert/pooler",
        sentence_pair="sop_classifier/classifier",
        has_embedding_size=True,
        hidden_act="gelu_new",
    ),
}


class HuggingFaceError(UserError):
    """A folder of Hugging Face's that cannot be used, or is not one."""


def is_one(folder: str) -> bool:
    """Whether `folder` has a model of Hugging Face's, of whatever type."""
    return read_config(folder).get("model_type") is not None


def read_config(folder: str) -> dict:
    """The `config.json` in a folder; nothing, if there is none."""
    return storage.read_json(storage.at(folder, "config.json"))


def read_settings(folder: str) -> dict:
    """What `checkpoints.read_settings` gives of our runs.

    Raises:
      HuggingFaceError: it is of a model that no `Encoder` can be.
    """
    shape = dataclasses.asdict(read_shape(folder))
    lower_case = hugging_face_tokenizer.read_lower_case(folder)
    return {"encoder": shape, "lower_case": lower_case, "family": _kind(folder)}


def read_shape(folder: str) -> EncoderConfig:
    """The shape of the encoder that `config.json` describes.

    Raises:
      HuggingFaceError: it is of a model that no `Encoder` can be.
    """
    path, settings = storage.at(folder, "config.json"), read_config(folder)
    kind = settings.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise HuggingFaceError(
            f"{path} has model_type = {json.dumps(kind)}: give a model of one of the types "
            f"{', '.join(FAMILIES)}."
        )
    family = FAMILIES[kind]
    for name in SIZES + ("embedding_size",) * family.has_embedding_size:
        if name not in settings:
            raise HuggingFaceError(f"{path} lacks {name}: it is not complete.")
    shape = {"hidden_act": family.hidden_act}
    shape |= {x: settings[x] for x in EncoderConfig.__dataclass_fields__ if x in settings}
    for name, values in REQUIRED.items():
        value = settings.get(name, values[0])
        if value not in values:
            raise HuggingFaceError(
                f"{path} has {name} = {json.dumps(value)}: only "
                f"{' and '.join(map(json.dumps, values))} can be used."
            )
    if not family.has_embedding_size:
        shape["embedding_size"] = shape["hidden_size"]
    # What the family alone says. RoBERTa counts positions from after the id of padding.
    pad_id = settings.get("pad_token_id", 1)
    if kind == "roberta" and (type(pad_id) is not int or pad_id < 0):
        raise HuggingFaceError(
            f"{path} has pad_token_id = {json.dumps(pad_id)}: a RoBERTa's is a number from 0."
        )
    shape["position_offset"] = pad_id + 1 if kind == "roberta" else 0
    shape["share_layers"] = kind == "albert"
    try:
        return build(EncoderConfig, shape, path)
    except ConfigError as error:
        said = str(error).removeprefix(f"{path}: ").replace("encoder.", "")  # it has no groups
        raise HuggingFaceError(f"{path}: {said}") from error


def read_pretraining_settings(folder: str) -> dict:
    """What `config.json` would say of a run that made the model in `folder`, as far as it can.

    Args:
      folder: of a model with a head of pretraining; a discriminator's has its generator in the
        folder `generator`, or there is none.

    Returns:
      Settings of `PretrainingConfig`, `lower_case`, and `family`, the model's `model_type`.

    Raises:
      HuggingFaceError: the model has another head or none, or is no `Electra` and no
        `MaskedLanguageModel`.
    """
    encoder, kind = read_shape(folder), _kind(folder)
    family, tensors = FAMILIES[kind], weight_files.open_all(folder)
    settings = {
        **read_settings(folder),
        "sequence_length": min(encoder.max_sequence_length, PretrainingConfig.sequence_length),
    }
    if kind == "electra" and DISCRIMINATOR_HEAD in tensors:
        return {**settings, "objective": "electra", **_generator_settings(folder, encoder, tensors)}
    bias, _ = weight_names.hugging_face_name(family.word_bias)
    if not {bias, f"{family.decoder}.bias"} & tensors.keys():
        # A model that was fine-tuned has a head of another kind.
        name = hugging_face_tokenizer.read_architecture(folder)
        name = name or "model without a class, as its config.json has no architectures"
        raise HuggingFaceError(
            f"{folder} holds a {name}, and has no head of pretraining: give one with such a head, "
            "as ...ForPreTraining and ...ForMaskedLM have, or one that was fine-tuned."
        )
    settings["objective"] = "mlm"
    if family.sentence_pair:
        name, _ = weight_names.hugging_face_name(f"{family.sentence_pair}/kernel")
        settings["sentence_pair_head"] = name in tensors
    return settings


def _generator_settings(folder: str, encoder: EncoderConfig, tensors: dict) -> dict:
    """Of the generator of the discriminator with this encoder and these tensors."""
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
        if not np.array_equal(theirs[name].read(), tensors[name].read())
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


def _kind(folder: str) -> str:
    return read_config(folder)["model_type"]


def restore_encoder(folder: str, encoder: Encoder) -> None:
    """Gives `encoder` the weights in `folder`.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape; the encoder is then unchanged.
      WeightFileError: see `weight_files`; likewise.
    """
    tensors = weight_files.open_all(folder)
    _assign(_values_of_encoder(folder, tensors, encoder))


def _values_of_encoder(
    folder: str, tensors: dict[str, weight_files.Tensor], encoder: Encoder
) -> list[tuple[tf.Variable, np.ndarray]]:
    kind = _kind(folder)
    # A model without a head has no prefix.
    has_prefix = f"{kind}.embeddings.word_embeddings.weight" in tensors
    named = weight_names.of_encoder(encoder, kind)
    return _values(folder, tensors, named, "" if has_prefix else f"{kind}.")


def read_generator(folder: str) -> EncoderConfig | None:
    """The generator in the folder of a discriminator; None: there is none.

    Raises:
      HuggingFaceError: see `read_shape`.
    """
    inner = os.path.join(folder, GENERATOR)
    return read_shape(inner) if is_one(inner) else None


def restore_electra(folder: str, model: Electra) -> None:
    """Gives `model` an `ElectraForPreTraining`, and as its generator an `ElectraForMaskedLM`.

    Of a discriminator alone the encoder is enough, BERT's too: the generator stays as it is, and so
    does the discriminator's head if the folder has none.

    Args:
      folder: of the first; that of the second is in it and is called `generator`.
      model: of the same shape.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape, or generator and discriminator have
        embeddings of their own, but not the model; the model is then unchanged.
      WeightFileError: see `weight_files`; likewise.
    """
    tensors = weight_files.open_all(folder)
    values = _values_of_encoder(folder, tensors, model.encoder)
    has_generator = model.generator_head is not None and read_generator(folder) is not None
    if has_generator or DISCRIMINATOR_HEAD in tensors:
        values += _values(folder, tensors, weight_names.of_discriminator_head(model))
    if has_generator:
        folder = os.path.join(folder, GENERATOR)
        tensors = _read_with_word_head(folder, "electra")
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
    kind, tensors = _kind(folder), weight_files.open_all(folder)
    if not FAMILIES[kind].pooler:
        return
    named = weight_names.of_pooler(pooler, kind)
    name, _ = weight_names.hugging_face_name(named[0].names[0])
    # A model without a head has no prefix.
    for lacking in ("", f"{kind}."):
        if name.removeprefix(lacking) in tensors:
            _assign(_values(folder, tensors, named, lacking))
            return


def restore_task_model(folder: str, model: TaskModel, head: str) -> None:
    """Gives `model` the fine-tuned model in `folder`.

    Args:
      folder: of one of the classes of `weight_names.of_task_model`.
      model: of the same shape.
      head: see `TaskType.hugging_face_head`.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape; the model is then unchanged.
    """
    named = weight_names.of_task_model(model, head, _kind(folder))
    _assign(_values(folder, weight_files.open_all(folder), named))


def restore_masked_language_model(folder: str, model: MaskedLanguageModel) -> None:
    """Gives `model` what is in `folder`: a model with a head that scores words.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape; the model is then unchanged.
      WeightFileError: see `weight_files`; likewise.
    """
    kind = _kind(folder)
    tensors = _read_with_word_head(folder, kind)
    _assign(_values(folder, tensors, of_masked_language_model(model, kind)))


def of_masked_language_model(model: MaskedLanguageModel, kind: str) -> list[weight_names.Named]:
    """The weights of `model` and their names in a family that can hold it."""
    family = FAMILIES[kind]
    names = weight_names.of_encoder(model.encoder, kind)
    names += weight_names.of_word_head(
        model.head, family.word_head, family.word_bias, family.word_norm
    )
    if model.sentence_pair_head is not None:
        names += weight_names.of_sentence_pair_head(
            model.sentence_pair_head, family.pooler, family.sentence_pair
        )
    return names


def check_family(kind: str, encoder: EncoderConfig, with_word_head: bool) -> None:
    """Checks that a family's models can have this encoder.

    Raises:
      HuggingFaceError: they cannot, or their head that scores words would compute something else.
    """
    family, has = FAMILIES[kind], dataclasses.asdict(encoder)
    wanted = {"share_layers": kind == "albert"}
    if kind != "roberta":
        wanted["position_offset"] = 0
    if not family.has_embedding_size:
        wanted["embedding_size"] = encoder.hidden_size
    if family.always_gelu and with_word_head:
        wanted["hidden_act"] = "gelu"
    for name, value in wanted.items():
        if has[name] != value:
            raise HuggingFaceError(
                f"a model of type {kind} with this head has {name} = {value}, not {has[name]}: "
                "transformers has no class for it."
            )


def _read_with_word_head(folder: str, kind: str) -> dict[str, weight_files.Tensor]:
    """The tensors of a model that scores words with its token embeddings."""
    check_family(kind, read_shape(folder), with_word_head=True)
    family, tensors = FAMILIES[kind], weight_files.open_all(folder)
    bias, _ = weight_names.hugging_face_name(family.word_bias)
    # Where a file has both, they are one to `transformers`, unless the model was made otherwise.
    for name, same in (
        (f"{kind}.embeddings.word_embeddings.weight", f"{family.decoder}.weight"),
        (bias, f"{family.decoder}.bias"),
    ):
        if same in tensors and not np.array_equal(
            tensors.setdefault(name, tensors[same]).read(), tensors[same].read()
        ):
            raise HuggingFaceError(
                f"{tensors[same].path} has other numbers in {same} than in {name}: only a model "
                "in which they are the same can be used."
            )
    return tensors


def _values(
    folder: str,
    tensors: Mapping[str, weight_files.Tensor],
    named: list[weight_names.Named],
    lacking: str = "",
) -> list[tuple[tf.Variable, np.ndarray]]:
    """Each variable with what it is to be; `lacking` is what names here do not begin with."""
    path, values = weight_files.find(folder), []
    for variable, names in named:
        shape = (*variable.shape[:-1], variable.shape[-1] // len(names))
        found = []
        for original in names:
            name, transposed = weight_names.hugging_face_name(original)
            name = name.removeprefix(lacking)
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
      vocab_file: the vocabulary.
      lower_case: whether text is lower-cased.
      settings: others for config.json.

    Raises:
      HuggingFaceError: the class cannot hold the model.
    """
    import safetensors.numpy

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for variable, names in weights:
        parts = np.split(variable.numpy(), len(names), axis=-1)
        for original, part in zip(names, parts, strict=True):
            name, transposed = weight_names.hugging_face_name(original)
            tensors[name] = np.ascontiguousarray(part.T if transposed else part)
    kind = next(kind for kind in FAMILIES if architecture.lower().startswith(kind))
    tokenizer = tokenization.load_tokenizer(vocab_file, lower_case)
    if kind == "roberta" and encoder.position_offset != tokenizer.pad_id + 1:
        raise HuggingFaceError(
            f"{vocab_file} has padding at {tokenizer.pad_id}, after which RoBERTa's positions "
            f"begin: a model with encoder.position_offset = {encoder.position_offset} has no place "
            "there."
        )
    shape = dataclasses.asdict(encoder)
    del shape["position_offset"], shape["share_layers"]
    if not FAMILIES[kind].has_embedding_size:
        del shape["embedding_size"]
    shape |= {"pad_token_id": tokenizer.pad_id, "dtype": "float32"}
    if kind in ("roberta", "albert"):
        shape |= {"bos_token_id": tokenizer.cls_id, "eos_token_id": tokenizer.sep_id}
    shape |= {"model_type": kind, "architectures": [architecture], **settings}
    # `transformers` asks for the framework that the tensors are of.
    content = safetensors.numpy.save(tensors, metadata={"format": "pt"})
    with storage.written_whole(folder / "model.safetensors") as stream:
        stream.write(content)
    length = encoder.max_sequence_length
    of_words = architecture.endswith(hugging_face_tokenizer.TAGGER)
    hugging_face_tokenizer.write(
        folder, vocab_file, lower_case, encoder.type_vocab_size, length, of_words
    )
    # Last: without it the folder is none.
    _write_json(folder / "config.json", shape)


def _write_json(path: Path, settings: dict) -> None:
    storage.write_text(path, json.dumps(settings, indent=2) + "\n")
