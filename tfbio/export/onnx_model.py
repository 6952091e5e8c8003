r"""Writes a model as ONNX, which onnxruntime runs without TensorFlow and without tfbio.

  python -m tfbio.convert --from=out/bc5cdr_chem --to=out/onnx --format=onnx

The folder gets `model.onnx`, the tokenizer (`tokenizer.json` and the files beside it), and
`config.json`, which names the labels. Inputs and outputs have the names that `transformers` uses:

- in: `input_ids`, `attention_mask` and, unless the encoder has one segment (RoBERTa),
  `token_type_ids`, int64 [batch, tokens];
- out: of an encoder `last_hidden_state`, float32 [batch, tokens, hidden]; of a model that tags
  words `logits` [batch, tokens, labels]; of one that labels or scores texts `logits` [batch,
  labels]; of one that answers questions `start_logits` and `end_logits` [batch, tokens].

Batch and length are free. Padding must come after a text's tokens. All weights are float32: none is
quantised, since dynamic int8 changed a third of the entity labels of a MiniLM.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

import tfbio
from tfbio.base import extras, messages, storage
from tfbio.base.errors import UserError
from tfbio.export import comparison, onnx_graph
from tfbio.models import row_logits
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import ENTITY_POOLINGS, HeadConfig
from tfbio.models.initial_weights import restored_weights
from tfbio.models.task_model import TaskModel
from tfbio.task_types.trained_on import TrainedOn
from tfbio.text import hugging_face_tokenizer, tokenization, vocabularies
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_source,
    checkpoint_weights,
    fine_tuned,
    fine_tuned_writer,
    hugging_face_settings,
    hugging_face_weights,
)

if TYPE_CHECKING:
    import onnx

# The name of the model in its folder, as in the exports for `transformers`.
_MODEL = "model.onnx"
# The version of ONNX's operations: the one that tf2onnx 1.17 prefers (its PREFERRED_OPSET), and for
# which its own tests are most complete. onnxruntime reads it since version 1.10, of 2021.
_OPSET = 15
# The largest difference of an output to TensorFlow's; and as a share of the largest output, since
# float32 rounds large numbers by more.
_TOLERANCE = 1e-4
_RELATIVE_TOLERANCE = 1e-5
# One file of protocol buffers holds so many bytes; some are for the graph.
_MOST_BYTES = 2**31 - 2**24


class OnnxError(UserError):
    """An error of a model that ONNX cannot hold, or that gives other outputs as ONNX."""


class _Source(NamedTuple):
    """A model with what its folder tells.

    Attributes:
      folder: the folder or prefix of the weights, for messages.
      model: an encoder or a fine-tuned model, with its weights.
      family: its family in `transformers`.
      lower_case: True if text is lower-cased.
      length: the most tokens of a text.
      outputs: the names of the outputs.
      settings: more settings for `config.json`.
    """

    folder: str
    model: Encoder | TaskModel
    family: str
    lower_case: bool
    length: int
    outputs: tuple[str, ...]
    settings: dict[str, object]

    @property
    def encoder(self) -> EncoderConfig:
        """The shape of the encoder."""
        return self.model.config if isinstance(self.model, Encoder) else self.model.encoder.config


def write(source: str, target: str) -> str:
    """Writes a model as ONNX, runs it with onnxruntime, and compares the outputs with TensorFlow's.

    Args:
      source: the path of a run, a trial, a model of `transformers` or a TensorFlow 1 checkpoint, as
        `--from` of `tfbio.convert`. Of a pretraining run the encoder is written.
      target: a new folder, for `model.onnx`, `config.json` and the tokenizer.

    Returns:
      The path of the model, `target`/model.onnx. The module lists its inputs and outputs.

    Raises:
      CheckpointError: there is no model in `source`.
      OnnxError: ONNX cannot hold the model, or it gives other outputs.
      UserError: the extra `onnx` is not installed; or the settings, the vocabulary or the weights
        of `source` cannot be read.
      OSError: the folder cannot be written.
    """
    extras.require("tf2onnx", "onnxruntime")
    read = _read_fine_tuned if fine_tuned.is_one(source) else _read_encoder
    known = read(source)
    size = sum(4 * int(np.prod(variable.shape)) for variable in known.model.variables)
    if size > _MOST_BYTES:
        raise OnnxError(
            f"{source} has {size:,} bytes of weights, and a file of ONNX holds 2 GB: give "
            "--format=saved_model."
        )
    unfinished = storage.unfinished_folder(target)
    _write_tokenizer(unfinished, known)
    path = os.path.join(unfinished, _MODEL)
    content = _converted(known).SerializeToString()
    with storage.written_whole(Path(path)) as stream:
        stream.write(content)
    _check(path, known)
    os.rename(unfinished, target)
    return os.path.join(target, _MODEL)


def _read_encoder(source: str) -> _Source:
    """Reads an encoder without a head."""
    settings = checkpoint_settings.read_settings(source)
    config = checkpoint_settings.read_encoder_config(source)
    with restored_weights():
        model = Encoder(config)
    checkpoint_weights.restore_encoder(source, model)
    return _Source(
        source,
        model,
        hugging_face_settings.family_of(settings),
        settings["lower_case"],
        config.max_sequence_length,
        ("last_hidden_state",),
        {},
    )


def _read_fine_tuned(source: str) -> _Source:
    """Reads a fine-tuned model.

    Raises:
      OnnxError: its head cannot be written.
    """
    tuned = fine_tuned.read(source)
    settings = tuned.settings
    _check_head(tuned.folder, tuned.model.head_config, settings.trained_on)
    return _Source(
        tuned.folder,
        tuned.model,
        settings.family,
        settings.lower_case,
        settings.sequence_length,
        fine_tuned.type_of(settings).output_names,
        fine_tuned_writer.label_settings(tuned),
    )


def _check_head(folder: str, head: HeadConfig, known: TrainedOn) -> None:
    """Checks that the head needs nothing but tokens, and that its logits are all that it gives.

    Raises:
      OnnxError: it does not.
    """
    reason = ""
    if head.token_layer == "crf":
        reason = "a CRF, whose tags are the best sequence of all and no one token's highest logit"
    elif head.beam_size:
        reason = "head electra, whose ends depend on their starts"
    elif known.markers or head.pooling in ENTITY_POOLINGS:
        reason = "the entities of a relation to see, which are no input of an ONNX model"
    if reason:
        raise OnnxError(
            f"{folder} has {reason}: --format=onnx cannot write it, --mode=predict can."
        )


def _write_tokenizer(folder: str, known: _Source) -> None:
    """Writes the tokenizer and `config.json`."""
    encoder, segments = known.encoder, known.encoder.type_vocab_size
    vocab_file = vocabularies.find_vocabulary(checkpoint_source.run_of(known.folder))
    tokenizer = tokenization.load_tokenizer(vocab_file, known.lower_case, segments=segments)
    of_words = "words" in known.settings
    hugging_face_tokenizer.write(
        folder, vocab_file, known.lower_case, segments, known.length, of_words
    )
    content = hugging_face_weights.config_of(known.family, encoder, tokenizer)
    content |= known.settings
    storage.write_text(Path(folder, "config.json"), json.dumps(content, indent=2) + "\n")


def _converted(known: _Source) -> onnx.ModelProto:
    """Returns the model as ONNX, with names for its dimensions."""
    import onnx

    names = ["input_ids", "attention_mask", "token_type_ids"]
    if known.encoder.type_vocab_size == 1:
        names.pop()
    specs = [tf.TensorSpec([None, None], tf.int64, name) for name in names]
    function = tf.function(_outputs_of(known), input_signature=specs, autograph=False)
    converted = onnx_graph.convert(function, names, known.outputs, _OPSET)
    for value in (*converted.graph.input, *converted.graph.output):
        dimensions = value.type.tensor_type.shape.dim
        dimensions[0].dim_param = "batch"
        if len(dimensions) == 3 or not dimensions[1].dim_value:
            dimensions[1].dim_param = "tokens"
    onnx.helper.set_model_props(
        converted, {"tfbio_version": tfbio.__version__, "opset": str(_OPSET), "dtype": "float32"}
    )
    return converted


def _outputs_of(known: _Source) -> Callable[..., dict[str, tf.Tensor]]:
    """Returns a function of ids, mask and perhaps segments, int64 [batch, tokens], to outputs."""
    model, names = known.model, known.outputs

    def outputs(ids: tf.Tensor, mask: tf.Tensor, *segments: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, mask = tf.cast(ids, tf.int32), tf.cast(mask, tf.int32)
        segment_ids = tf.cast(segments[0], tf.int32) if segments else tf.zeros_like(ids)
        if isinstance(model, Encoder):
            return {names[0]: model(ids, mask, segment_ids)}
        logits = row_logits.compute(model, ids, mask, segment_ids)
        if len(names) == 1:
            return {names[0]: logits}
        return dict(zip(names, tf.unstack(logits, axis=-1), strict=True))

    return outputs


def _check(path: str, known: _Source) -> None:
    """Checks that onnxruntime gives the outputs of TensorFlow.

    Raises:
      OnnxError: it does not, or it cannot load the file.
    """
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no class in common
        reason = messages.first_line(error)
        raise OnnxError(f"onnxruntime cannot run {known.folder} as ONNX: {reason}") from error
    difference, largest = comparison.onnx_difference(session, known.model)
    if not difference <= _TOLERANCE + _RELATIVE_TOLERANCE * largest:
        shutil.rmtree(os.path.dirname(path))
        raise OnnxError(
            f"{known.folder} gives other outputs as ONNX, by {difference}: nothing is kept."
        )
