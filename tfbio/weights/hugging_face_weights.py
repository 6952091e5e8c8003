"""Restores and writes the weights of models in the format of `transformers`.

`hugging_face_settings` reads the models' settings, `weight_files` opens the files.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.base import storage
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.task_model import TaskModel
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.text import hugging_face_tokenizer, tokenization
from tfbio.weights import weight_files, weight_names
from tfbio.weights.hugging_face_settings import (
    DISCRIMINATOR_HEAD,
    FAMILIES,
    GENERATOR,
    HuggingFaceError,
    check_family,
    class_name,
    family_in,
    read_generator,
    read_shape,
)


def restore_encoder(folder: str, encoder: Encoder) -> None:
    """Restores an encoder's weights from those of a Hugging Face model; returns nothing.

    Args:
      folder: the folder of the model.
      encoder: an encoder of the same shape, whose variables are assigned.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape. Nothing is changed then.
      WeightFileError: a file of weights is missing or damaged. Nothing is changed then.
    """
    tensors = weight_files.open_all(folder)
    _assign(_values_of_encoder(folder, tensors, encoder))


def _values_of_encoder(
    folder: str, tensors: dict[str, weight_files.Tensor], encoder: Encoder
) -> list[tuple[tf.Variable, np.ndarray]]:
    """Returns each variable of an encoder with its value."""
    scope = weight_names.scope_of(family_in(folder))
    # The names of a model without a head have no prefix.
    has_prefix = f"{scope}.embeddings.word_embeddings.weight" in tensors
    named = weight_names.of_encoder(encoder, scope)
    return _values(folder, tensors, named, "" if has_prefix else f"{scope}.")


def restore_electra(folder: str, model: Electra) -> None:
    """Restores an ELECTRA's weights from Hugging Face's two models; returns nothing.

    They are an `ElectraForPreTraining` and an `ElectraForMaskedLM`. If there is no generator, that
    of `model` stays as it is. So does the discriminator's head if the folder holds only an encoder,
    which may be BERT's.

    Args:
      folder: the folder of the discriminator; the generator is in the folder `generator` in it.
      model: a model of the same shape, whose variables are assigned.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape, or generator and discriminator have
        different embeddings, but share them in `model`. Nothing is changed then.
      WeightFileError: a file of weights is missing or damaged. Nothing is changed then.
    """
    tensors = weight_files.open_all(folder)
    values = _values_of_encoder(folder, tensors, model.encoder)
    generator = model.generator
    if generator is not None and read_generator(folder) is None:
        generator = None  # it stays as it is
    if generator is not None or DISCRIMINATOR_HEAD in tensors:
        values += _values(folder, tensors, weight_names.of_discriminator_head(model))
    if generator is not None:
        folder = os.path.join(folder, GENERATOR)
        tensors = _read_with_word_head(folder, "electra")
        named = weight_names.of_encoder(generator, "electra")
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
    """Restores the weights of BERT's or ALBERT's pooler from a Hugging Face model.

    Returns nothing. Leaves `pooler` as it is if the folder has none.

    Args:
      folder: the folder of the model.
      pooler: a layer of the same shape: kernel float32 [hidden, hidden], bias float32 [hidden].

    Raises:
      HuggingFaceError: a tensor is missing or of another shape.
      WeightFileError: a file of weights is missing or damaged.
    """
    family, tensors = family_in(folder), weight_files.open_all(folder)
    if not FAMILIES[family].pooler:
        return
    named = weight_names.of_pooler(pooler, family)
    name, _ = weight_names.hugging_face_name(named[0].names[0])
    # The names of a model without a head have no prefix.
    for lacking in ("", f"{weight_names.scope_of(family)}."):
        if name.removeprefix(lacking) in tensors:
            _assign(_values(folder, tensors, named, lacking))
            return


def restore_task_model(folder: str, model: TaskModel, head: str) -> None:
    """Restores a fine-tuned model's weights from those of a Hugging Face model; returns nothing.

    Args:
      folder: the folder of a model of one of the classes of `weight_names.of_task_model`.
      model: a model of the same shape, whose variables are assigned.
      head: the name in `transformers` of the layer that computes the logits of tokens; "" for a
        model of texts.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape. Nothing is changed then.
      WeightFileError: a file of weights is missing or damaged. Nothing is changed then.
    """
    named = weight_names.of_task_model(model, head, family_in(folder))
    _assign(_values(folder, weight_files.open_all(folder), named))


def restore_masked_language_model(folder: str, model: MaskedLanguageModel) -> None:
    """Restores a masked language model's weights from a Hugging Face model; returns nothing.

    Args:
      folder: the folder of a model with a head that scores words.
      model: a model of the same shape, whose variables are assigned.

    Raises:
      HuggingFaceError: a tensor or the head is missing, a tensor is of another shape, or the head
        has other weights than the token embeddings. Nothing is changed then.
      WeightFileError: a file of weights is missing or damaged. Nothing is changed then.
    """
    family = family_in(folder)
    tensors = _read_with_word_head(folder, family)
    _assign(_values(folder, tensors, of_masked_language_model(model, family)))


def of_masked_language_model(model: MaskedLanguageModel, family: str) -> list[weight_names.Named]:
    """Names a masked language model's weights for `write`, for one of Hugging Face's families.

    Args:
      model: the model.
      family: one for which `hugging_face_settings.check_family` passes.

    Returns:
      A list of `Named`, the variables with their original names: those of the encoder, of the head
      that scores words, and of the sentence-pair head if the model has one.
    """
    traits = FAMILIES[family]
    names = weight_names.of_encoder(model.encoder, weight_names.scope_of(family))
    names += weight_names.of_word_head(
        model.head, traits.word_head, traits.word_bias, traits.word_norm
    )
    if model.sentence_pair_head is not None:
        names += weight_names.of_sentence_pair_head(
            model.sentence_pair_head, traits.pooler, traits.sentence_pair
        )
    return names


def _read_with_word_head(folder: str, family: str) -> dict[str, weight_files.Tensor]:
    """Opens the tensors of a model that scores words with its token embeddings.

    Raises:
      HuggingFaceError: the model cannot be used, lacks the head that scores words, or has other
        weights than its token embeddings.
    """
    check_family(family, read_shape(folder), with_word_head=True)
    traits, tensors = FAMILIES[family], weight_files.open_all(folder)
    bias, _ = weight_names.hugging_face_name(traits.word_bias)
    if not {bias, f"{traits.decoder}.bias"} & tensors.keys():
        raise HuggingFaceError(
            f"{folder} holds no head that predicts masked words: give a model that has one, a "
            "...ForMaskedLM or ...ForPreTraining. An encoder alone can be trained on with --set "
            "objective=electra --set generator_warmup_steps=N."
        )
    scope = weight_names.scope_of(family)
    # Where a file has both, they are one to `transformers`, unless the model was made otherwise.
    for name, same in (
        (f"{scope}.embeddings.word_embeddings.weight", f"{traits.decoder}.weight"),
        (bias, f"{traits.decoder}.bias"),
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
    """Returns each variable with its value.

    Args:
      folder: of the model, for the message.
      tensors: its tensors, by name.
      named: the variables with their original names.
      lacking: the prefix that the names in `tensors` lack.

    Raises:
      HuggingFaceError: a tensor is missing or of another shape.
    """
    path, values = weight_files.find(folder), []
    for variable, names in named:
        shape = (*variable.shape[:-1], variable.shape[-1] // len(names))
        parts = []
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
            parts.append(value.T if transposed else value)
        values.append((variable, np.concatenate(parts, axis=-1)))
    return values


def _assign(values: list[tuple[tf.Variable, np.ndarray]]) -> None:
    """Assigns each value to its variable."""
    for variable, value in values:
        variable.assign(value)


def write(
    folder: str | os.PathLike,
    architecture: str,
    encoder: EncoderConfig,
    weights: list[weight_names.Named],
    vocab_file: str | os.PathLike,
    lower_case: bool,
    length: int = 0,
    **settings: object,
) -> None:
    """Writes a Hugging Face model, which `transformers` loads: settings, weights and tokenizer.

    Returns nothing. The weights are float32 in `model.safetensors`; `config.json` is written last.

    Args:
      folder: the path of the folder to write; is made if it does not exist.
      architecture: the class that loads it, such as "ElectraForPreTraining"; it begins with a
        family's name.
      encoder: the encoder's shape.
      weights: all variables of the class with their original names, see `weight_names`.
      vocab_file: the path of the vocabulary.
      lower_case: True if text is lower-cased.
      length: at how many tokens the tokenizer cuts a text off; 0: as many as there are positions.
      **settings: more settings for config.json, values that JSON can hold.

    Raises:
      HuggingFaceError: the class cannot hold the model, as RoBERTa's positions must begin after the
        id of padding.
      VocabularyError: the vocabulary cannot be used.
      OSError: a file cannot be written.
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
    family = next(family for family in FAMILIES if architecture.startswith(class_name(family)))
    tokenizer = tokenization.load_tokenizer(vocab_file, lower_case)
    if family == "roberta" and encoder.position_offset != tokenizer.pad_id + 1:
        raise HuggingFaceError(
            f"{vocab_file} has padding at {tokenizer.pad_id}, after which RoBERTa's positions "
            f"begin: a model with encoder.position_offset = {encoder.position_offset} has no place "
            "there."
        )
    content = {
        **config_of(family, encoder, tokenizer),
        "architectures": [architecture],
        **settings,
    }
    # `transformers` asks for the framework of the tensors.
    saved = safetensors.numpy.save(tensors, metadata={"format": "pt"})
    with storage.written_whole(folder / "model.safetensors") as stream:
        stream.write(saved)
    length = length or encoder.max_sequence_length
    of_words = architecture.endswith(hugging_face_tokenizer.TAGGER)
    hugging_face_tokenizer.write(
        folder, vocab_file, lower_case, encoder.type_vocab_size, length, of_words
    )
    # Last: a folder without it is not taken for a model.
    storage.write_text(folder / "config.json", json.dumps(content, indent=2) + "\n")


def config_of(
    family: str, encoder: EncoderConfig, tokenizer: tokenization.Tokenizer
) -> dict[str, object]:
    """Describes an encoder as the `config.json` of a Hugging Face model does.

    Args:
      family: a key of `FAMILIES`.
      encoder: the encoder's shape.
      tokenizer: the tokenizer of the encoder, for the ids of special tokens.

    Returns:
      Name -> value, that JSON can hold; without the class of the model.
    """
    shape: dict[str, object] = dataclasses.asdict(encoder)
    for implied in ("position_offset", "share_layers", "layer_norm_first"):  # by the family
        del shape[implied]
    del shape["scaled_initializer"]  # `transformers` has no such setting
    if not FAMILIES[family].has_embedding_size:
        del shape["embedding_size"]
    shape |= {"pad_token_id": tokenizer.pad_id, "dtype": "float32"}
    if family in ("roberta", "albert"):
        shape |= {"bos_token_id": tokenizer.cls_id, "eos_token_id": tokenizer.sep_id}
    return {**shape, "model_type": family}
