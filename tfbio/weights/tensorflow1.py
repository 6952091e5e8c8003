"""Checkpoints of TensorFlow 1, as google-research's electra, bert and albert wrote them.

Those of ELECTRA are also written.

A checkpoint is some files with one prefix, such as `bert_model.ckpt.index` and
`bert_model.ckpt.data-00000-of-00001`. With the optimizer's averages, training goes on there, or
here, where it was left.

Of a BERT the activation is taken for the exact gelu, x Phi(x). Its first code (2018-10) computed
that one; the code since then has the approximation with tanh, under the same name in
`bert_config.json`. Nothing says with which a checkpoint was trained, and `transformers` reads them
all as exact. The two differ by 0.0005 at most, at x = 2.7 and at -2.7. ELECTRA's code is exact,
ALBERT's has always had the approximation.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.base import schema, storage
from tfbio.base.cli import UserError
from tfbio.base.config import ConfigError, build
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import HIDDEN_ACTS, TRAINING_ONLY, EncoderConfig
from tfbio.objectives import pretraining_files
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_files import PretrainingSettings
from tfbio.text import hugging_face_tokenizer, vocabularies
from tfbio.training import optimization
from tfbio.training.checkpointing import Checkpointer
from tfbio.weights import weight_files, weight_names

# What that code's optimizer calls its averages, behind the name of the variable -> what ours does.
SLOTS = {"adam_m": "m", "adam_v": "v"}
STEP = "global_step"
# Where BERT's and ALBERT's code has the model's shape; ELECTRA's has it in no file.
SHAPE_FILES = ("bert_config.json", "albert_config.json", "config.json")
# Of the settings there, those that an `Encoder` can have in few ways.
REQUIRED = {"hidden_act": HIDDEN_ACTS, "num_hidden_groups": (1,), "inner_group_num": (1,)}
# What only ALBERT's have; one group of one layer is all that was published.
SHARED_LAYER = "bert/encoder/transformer/group_0/inner_group_0"
# The size of an attention head, of which there are hidden_size / 64: so it is in all that was
# published of BERT and ELECTRA, and ELECTRA's code has the generator's from it
# (`get_generator_config` in run_pretraining.py).
HEAD_SIZE = 64
# What tells what a checkpoint has beside an encoder.
GENERATOR, DISCRIMINATOR = "generator_predictions", "discriminator_predictions"
WORD_HEAD = "cls/predictions"
PAIR_HEAD = "cls/seq_relationship"


class TensorFlow1Error(UserError):
    """A checkpoint that is none, or of another model."""


def find(path: str) -> str | None:
    """The prefix of a TensorFlow 1 checkpoint.

    Args:
      path: the prefix itself, or a folder: of the checkpoints in it that differ in their number,
        such as `model.ckpt-0` and `model.ckpt-1000`, the one with the highest counts.

    Returns:
      None, if there is none, or only such as TensorFlow 2 writes; or if the folder has the same
      weights in Hugging Face's form.

    Raises:
      TensorFlow1Error: the file is none, or there are several and it is not clear which is wanted.
    """
    prefix = path
    if not storage.at(f"{path}.index").is_file():
        stated = storage.read_json(storage.at(path, "config.json"))
        is_hugging_faces = "model_type" in stated and any(
            storage.at(path, name).is_file() for name in weight_files.NAMES
        )
        if "encoder" in stated or is_hugging_faces:  # or a run's of ours
            return None
        names = [file.name.removesuffix(".index") for file in storage.at(path).glob("*.index")]
        if not names:
            return None
        stems = sorted({re.sub(r"-\d+$", "", name) for name in names})
        if len(stems) > 1:
            raise TensorFlow1Error(
                f"{path} holds several checkpoints, {' and '.join(stems)}: give one of them, such "
                f"as {os.path.join(path, stems[0])}."
            )
        prefix = os.path.join(path, max(names, key=lambda name: (len(name), name)))
    # Which only TensorFlow 2 writes.
    return None if "_CHECKPOINTABLE_OBJECT_GRAPH" in _shapes(_open(prefix)) else prefix


def read_settings(path: str) -> dict:
    """What `checkpoints.read_settings` gives of our runs.

    The encoder's shape is that of the tensors, changed by what is said in a `bert_config.json` or
    `config.json` beside them; without, there is a head for every 64 of hidden_size.

    Args:
      path: see `find`.

    Returns:
      `encoder`, `lower_case` and `family`; and what else of `PretrainingConfig` says of which kind
      the model is, if it has what pretraining needs beside the encoder.

    Raises:
      TensorFlow1Error: it is of no BERT, ELECTRA or ALBERT that an `Encoder` can be.
      TokenizerError: there is no vocabulary beside it.
    """
    prefix = find(path)
    folder, shapes = os.path.dirname(prefix), _shapes(_open(prefix))
    scope = _scope(prefix, shapes)
    shape = _encoder_shape(prefix, shapes, scope)
    heads, rest = divmod(shape["hidden_size"], HEAD_SIZE)
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
            f"{shape['hidden_size']} is no multiple of {HEAD_SIZE}: put a bert_config.json "
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
    if f"{DISCRIMINATOR}/dense/kernel" in shapes:
        settings |= {"objective": "electra", **_generator_settings(prefix, shapes, shape)}
    elif f"{WORD_HEAD}/output_bias" in shapes:
        has_pair_head = f"{PAIR_HEAD}/output_weights" in shapes
        settings |= {"objective": "mlm", "sentence_pair_head": has_pair_head}
    if "objective" in settings:
        # The default may be longer than there are positions.
        length = min(PretrainingConfig.sequence_length, shape["max_position_embeddings"])
        settings["sequence_length"] = length
    return settings


def read_generator(path: str) -> EncoderConfig | None:
    """The generator of an ELECTRA checkpoint; None: it has none.

    Raises:
      TensorFlow1Error: see `read_settings`.
    """
    settings = read_settings(path)
    return None if settings.get("uniform_generator", True) else _config(settings).generator


def _config(settings: dict) -> PretrainingConfig:
    """What `read_settings` gave, as a configuration."""
    others = ("lower_case", "family")
    values = {name: value for name, value in settings.items() if name not in others}
    return PretrainingConfig(**values | {"encoder": EncoderConfig(**settings["encoder"])})


def _open(prefix: str) -> tf.train.CheckpointReader:
    try:
        reader = tf.train.load_checkpoint(prefix)
        _shapes(reader)  # whose names may be no text
        return reader
    except (tf.errors.OpError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise TensorFlow1Error(f"{prefix} is no checkpoint: {reason}") from error


def _shapes(reader: tf.train.CheckpointReader) -> dict[str, list[int]]:
    return reader.get_variable_to_shape_map()


def _scope(prefix: str, shapes: dict[str, list[int]]) -> str:
    """How the names of the encoder's tensors begin: with "bert" or "electra"."""
    for scope in ("bert", "electra"):
        if f"{scope}/embeddings/word_embeddings" in shapes:
            return scope
    raise TensorFlow1Error(
        f"{prefix} holds no bert/embeddings/word_embeddings, nor electra's: it is of another model."
    )


def _encoder_shape(
    prefix: str, shapes: dict[str, list[int]], scope: str, embeddings: str = ""
) -> dict[str, int]:
    """What tensors tell of an `EncoderConfig`: all but the heads.

    Args:
      prefix: to name the checkpoint by.
      shapes: of its tensors.
      scope: of the layers.
      embeddings: the scope of the embeddings, if it is another.
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
    """The file of settings beside a checkpoint; None: there is none."""
    for name in SHAPE_FILES:
        path = storage.at(folder, name)
        if not path.is_file():
            continue
        stated = storage.read_json(path)
        if not stated:  # what it says is not guessed
            raise TensorFlow1Error(
                f"{path} is no JSON object: mend it, or remove it to have the shape from the "
                "tensors."
            )
        if name != "config.json" or "hidden_size" in stated:  # or of something else
            return path
    return None


def _stated_shape(folder: str, is_albert: bool) -> dict:
    """What the file of settings beside a checkpoint says of the encoder; nothing, without one."""
    shape = {"share_layers": True, "hidden_act": "gelu_new"} if is_albert else {}
    path = _shape_file(folder)
    if path is None:
        return shape
    stated = storage.read_json(path)
    for name, values in REQUIRED.items():
        value = stated.get(name, values[0])
        if value not in values:
            raise TensorFlow1Error(
                f"{path} has {name} = {json.dumps(value)}: only "
                f"{' and '.join(map(json.dumps, values))} can be used."
            )
    shape.setdefault("hidden_act", stated.get("hidden_act", "gelu"))
    # A released one can have the vocabulary rounded up: the tensors know its size.
    known = EncoderConfig.__dataclass_fields__.keys() - {"vocab_size", "hidden_act"}
    return shape | {name: value for name, value in stated.items() if name in known}


def _generator_settings(prefix: str, shapes: dict[str, list[int]], encoder: dict) -> dict:
    """How ELECTRA's generator is: settings of `PretrainingConfig`."""
    if f"{GENERATOR}/dense/kernel" not in shapes:
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


def load(
    prefix: str,
    model: Electra | MaskedLanguageModel,
    optimizer: optimization.Adam | None = None,
) -> None:
    """Gives `model` all the weights of a checkpoint, and `optimizer` its averages and its step.

    Args:
      prefix: the checkpoint's, such as `electra/model.ckpt-1000`.
      model: of the same shape.
      optimizer: of the model, if training is to go on.

    Raises:
      TensorFlow1Error: a tensor is missing or of another shape; nothing is then changed.
    """
    _assign(prefix, _tensors(model, optimizer))


def restore_encoder(path: str, encoder: Encoder) -> None:
    """Gives `encoder` the weights of a checkpoint (see `find`).

    Raises:
      TensorFlow1Error: a tensor is missing or of another shape; the encoder is then unchanged.
    """
    prefix = find(path)
    scope = _scope(prefix, _shapes(_open(prefix)))
    _assign(prefix, _of_encoder(encoder, scope))


def restore_pooler(path: str, pooler: keras.layers.Dense) -> None:
    """Gives `pooler` BERT's or ALBERT's; where there is none, it stays as it is."""
    prefix, named = find(path), weight_names.of_pooler(pooler, "bert")
    if named[0].names[0] in _shapes(_open(prefix)):
        _assign(prefix, named)


def restore_electra(path: str, model: Electra) -> None:
    """Gives `model` a checkpoint of ELECTRA or, as its discriminator alone, of BERT (see `find`).

    What the checkpoint lacks altogether, the generator or the discriminator's head, stays as it is.

    Args:
      path: see `find`.
      model: of the same shape.

    Raises:
      TensorFlow1Error: a tensor is missing or of another shape; nothing is then changed.
    """
    prefix = find(path)
    shapes = _shapes(_open(prefix))
    if f"{GENERATOR}/dense/kernel" in shapes:
        load(prefix, model)
        return
    named = _of_encoder(model.encoder, _scope(prefix, shapes))
    if f"{DISCRIMINATOR}/dense/kernel" in shapes:
        named += weight_names.of_discriminator_head(model)
    _assign(prefix, named)


def restore_masked_language_model(path: str, model: MaskedLanguageModel) -> None:
    """Gives `model` a checkpoint of BERT or ALBERT; as `restore_electra`."""
    load(find(path), model)


def _assign(prefix: str, named: list[weight_names.Named]) -> None:
    """Gives variables the values of the tensors, which are joined along the last axis."""
    reader = _open(prefix)
    shapes = _shapes(reader)
    values = []
    for variable, names in named:
        for name in names:
            if name not in shapes:
                raise TensorFlow1Error(
                    f"{prefix} holds no {name}: it is of another model, or smaller."
                )
        try:
            parts = [reader.get_tensor(name) for name in names]
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            raise TensorFlow1Error(
                f"{prefix} is damaged or not complete ({str(error).strip().splitlines()[0]}): get "
                "it again."
            ) from error
        value = np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
        if names == [f"{PAIR_HEAD}/output_weights"]:
            value = value.T  # of all its weights this alone is [outputs, inputs] there
        if value.shape != tuple(variable.shape):
            raise TensorFlow1Error(
                f"{prefix}: {' + '.join(names)} has shape {list(value.shape)}, the model's is "
                f"{variable.shape.as_list()}."
            )
        values.append((variable, value))
    for variable, value in values:
        variable.assign(value)


def write(prefix: str, model: Electra, optimizer: optimization.Adam | None = None) -> None:
    """Writes a checkpoint that the original code reads.

    Args:
      prefix: the checkpoint's; its folder must be there.
      model: whose weights.
      optimizer: of the model; without, that code can fine-tune the weights, not pretrain on.
    """
    tensors = {}
    for variable, names in _tensors(model, optimizer):
        parts = [variable.numpy()]
        if len(names) > 1:
            parts = np.split(variable.numpy(), len(names), axis=-1)
        tensors |= zip(names, parts, strict=True)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(value) for value in tensors.values()],
    )


def has_state(path: str) -> bool:
    """Whether there is a checkpoint with which training can go on.

    Released ones have no step or no averages; ALBERT's are of another optimizer, LAMB.
    """
    prefix = find(path)
    if prefix is None:
        return False
    names = _shapes(_open(prefix))
    has_averages = any(name.endswith("/adam_m") for name in names)
    return STEP in names and has_averages and f"{SHARED_LAYER}/LayerNorm/gamma" not in names


def write_run(path: str, model_dir: str, settings: PretrainingConfig | None = None) -> int:
    """Makes of a checkpoint the `--model_dir` of a run, with which training goes on as it was.

    Args:
      path: see `find`; of what `has_state`.
      model_dir: a new folder.
      settings: what the run is to go on with; None: of the checkpoint's shape, and the
        defaults.

    Returns:
      The step that the run is at.

    Raises:
      TensorFlow1Error: it is of another model, or has no head of pretraining.
    """
    prefix = find(path)
    vocab_file = vocabularies.find_vocabulary(os.path.dirname(prefix))
    if settings is None:
        found = read_settings(path)
        if "objective" not in found:
            raise TensorFlow1Error(f"{prefix} has no head of pretraining, only an encoder.")
        settings = _config(found)
    shapes = _shapes(_open(prefix))
    known = _encoder_shape(prefix, shapes, _scope(prefix, shapes))
    known |= _stated_shape(os.path.dirname(prefix), is_albert=False)
    for name, value in known.items():
        given = getattr(settings.encoder, name)
        if name not in TRAINING_ONLY and given != value:
            raise TensorFlow1Error(
                f"{prefix} is of a model with encoder.{name} = {value}, not {given}: give the "
                "settings that it was trained with."
            )
    kind = Electra if settings.objective == "electra" else MaskedLanguageModel
    # With a schedule, as runs have it: a single rate would be a variable that is not saved.
    model, optimizer = kind(settings), optimization.Adam(optimization.WarmupLinearDecay(0.0, 1, 0))
    load(prefix, model, optimizer)
    unfinished = f"{model_dir.rstrip('/')}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    Checkpointer(model, optimizer, unfinished, settings.run.keep_checkpoint_max).save()
    vocabularies.copy_vocabulary(vocab_file, unfinished)
    written = schema.extended(
        PretrainingSettings,
        settings,
        lower_case=hugging_face_tokenizer.read_lower_case(os.path.dirname(prefix)),
        vocab_sha256=vocabularies.sha256_of(vocab_file),
    )
    schema.write(os.path.join(unfinished, pretraining_files.CONFIG), written)
    os.rename(unfinished, model_dir)
    return int(optimizer.iterations)


def _of_encoder(encoder: Encoder, scope: str) -> list[weight_names.Named]:
    if not encoder.config.share_layers:
        return weight_names.of_encoder(encoder, scope)
    return [
        weight_names.Named(variable, [weight_names.original_albert_name(name) for name in names])
        for variable, names in weight_names.of_encoder(encoder, "albert")
    ]


def _of_masked_language_model(model: MaskedLanguageModel) -> list[weight_names.Named]:
    """The same names in BERT and ALBERT, but for the layers."""
    names = _of_encoder(model.encoder, "bert")
    names += weight_names.of_word_head(
        model.head, f"{WORD_HEAD}/transform", f"{WORD_HEAD}/output_bias"
    )
    if model.sentence_pair_head is not None:
        pooler = weight_names.of_sentence_pair_head(
            model.sentence_pair_head, "bert/pooler/dense", PAIR_HEAD
        )
        for variable, (name,) in pooler:
            name = name.replace(f"{PAIR_HEAD}/kernel", f"{PAIR_HEAD}/output_weights")
            name = name.replace(f"{PAIR_HEAD}/bias", f"{PAIR_HEAD}/output_bias")
            names.append(weight_names.Named(variable, [name]))
    return names


def _tensors(
    model: Electra | MaskedLanguageModel, optimizer: optimization.Adam | None
) -> list[weight_names.Named]:
    """Each variable, and the tensors that are joined along its last axis."""
    if isinstance(model, Electra):
        weights = weight_names.of_electra(model)
    else:
        weights = _of_masked_language_model(model)
    if optimizer is None:
        return weights
    trainable = {id(variable) for variable in model.trainable_variables}
    optimizer._create_all_weights(model.trainable_variables)
    averages = [
        weight_names.Named(
            optimizer.get_slot(variable, ours), [f"{name}/{theirs}" for name in names]
        )
        for variable, names in weights
        if id(variable) in trainable
        for theirs, ours in SLOTS.items()
    ]
    return [*weights, *averages, weight_names.Named(optimizer.iterations, [STEP])]
