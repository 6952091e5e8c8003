"""A fine-tuned model as a graph from strings to predictions, and the check of what it gives."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from tfbio.base.cli import UserError
from tfbio.base.lazy import tensorflow as tf
from tfbio.task_types import packing
from tfbio.task_types.finetuning_files import TrainedOn
from tfbio.text import tokenization

if TYPE_CHECKING:
    from tfbio.models.task_model import TaskModel

# By how much outputs may differ after loading.
TOLERANCE = 1e-5
# Long and short ones, with what tokenizers trip over.
TEXTS = (
    "IL-2 works.",
    "No",
    "Aspirin (0.5 mg/kg) inhibits COX-1 in Crohn's disease, p < 10\u207b\u00b2.",
    "Na\u00efve \u03b2-cells\u2014\u65e5\u672c\u8a9e; e\u0301 [MASK] \x07 \U0001d6fc.",
    "It was not significant. " * 200,
)

# A graph whose inputs and outputs have names.
Function = Callable[..., "dict[str, tf.Tensor]"]


class SavedModelError(UserError):
    """The `UserError` for a model that cannot be written as a SavedModel."""


class SpecialTokens(Protocol):
    """The part of a tokenizer that `rows` needs.

    Attributes:
      kind: the kind of the vocabulary, such as "byte_bpe".
      cls_id, sep_id, pad_id: the ids of [CLS], [SEP] and [PAD].
    """

    @property
    def kind(self) -> str: ...

    @property
    def cls_id(self) -> int: ...

    @property
    def sep_id(self) -> int: ...

    @property
    def pad_id(self) -> int: ...


@dataclasses.dataclass(eq=False)
class ServedTask(abc.ABC):
    """A fine-tuned model as a graph, for one form of input.

    Attributes:
      task_type: a `TaskType`.
      model: with its weights.
      known: `trained_on` in the model's `config.json`.
      calibration: what `TaskType.calibrate` returned; None for nothing.
      tokenizer: in the graph, from `text.in_graph.tokenization.load`.
      encode: the same tokenizer outside of the graph.
      length: the most tokens of a text.
      folder: of the model, for messages.
    """

    task_type: Any
    model: TaskModel
    known: TrainedOn
    calibration: float | None
    tokenizer: tf.Module
    encode: tokenization.Tokenizer
    length: int
    folder: str

    @abc.abstractmethod
    def functions(self) -> dict[str, Function]:
        """Returns the signatures, name -> graph, "serving_default" first.

        Each takes strings [batch] by name and returns tensors by name.

        Raises:
          SavedModelError: the model sees texts in a way that the graph cannot.
        """

    @abc.abstractmethod
    def compare(self, signature: Function) -> bool:
        """Returns True if a signature gives for `TEXTS` what the model does without the graph.

        Floats may differ by `TOLERANCE`.

        Args:
          signature: the "serving_default" of a model that was loaded.
        """

    def outputs(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Runs the model on a batch.

        Args:
          batch: the arrays that `rows` returns.

        Returns:
          The outputs of the task type, [batch * length, ...] of tokens or [batch, outputs] of
          texts.
        """
        return self.task_type.outputs(self.model(batch), batch)

    def tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts texts, string [texts], into tokens as fine-tuning does: int32 [texts, (tokens)]."""
        return self.tokenizer.with_places(texts)[0]

    def expected(self, examples: list) -> tuple[list, list]:
        """Computes predictions without the graph.

        Args:
          examples: of the task type.

        Returns:
          The prediction for each example, and for each window the outputs, [tokens, ...] or
          [outputs].
        """
        features = self.task_type.features(examples, self.encode, self.length)
        number = len(features.input_ids)
        packer = packing.Packer(features, number, 1, self.encode.pad_id, self.length)
        (part,) = packer.batch(np.arange(number))
        batch = {name: tf.constant(array) for name, array in part.arrays.items()}
        outputs = self.outputs(batch).numpy()
        if self.task_type.of_tokens:
            rows = outputs.reshape(number, self.length, *outputs.shape[1:])
            outputs = [row[:n] for row, n in zip(rows, features.lengths, strict=True)]
        return self.task_type.predictions(list(outputs), features, examples), list(outputs)


def serving_function(function: Function, names: Sequence[str]) -> Function:
    """Returns a graph that takes strings [batch] of these names.

    Args:
      function: takes a string tensor [batch] for each name and returns tensors by name.
      names: of its arguments, in order.
    """
    specs = [tf.TensorSpec([None], tf.string, name) for name in names]
    return tf.function(function, input_signature=specs, autograph=False)


def rows(encode: SpecialTokens, *parts: tf.RaggedTensor) -> dict[str, tf.Tensor]:
    """Joins texts or pairs as `tokenization.Tokenizer.join` does, padded to the longest.

    Args:
      encode: knows the special tokens; of pairs a `Tokenizer`.
      parts: int32 ragged [batch, tokens], one or two.

    Returns:
      By name, as `packing.fill` makes them: int32 `input_ids`, `segment_ids`, `position_ids` and
      `document_ids` (the text's number from 1; 0 for padding), [batch, length] each, and `first`,
      int32 [batch], the place of each [CLS] when the rows are laid end to end.
    """
    count = tf.cast(parts[0].nrows(), tf.int32)

    def column(token: int) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_tensor(tf.fill([count, 1], token))

    sep = column(encode.sep_id)
    columns, has_segments = [column(encode.cls_id), parts[0], sep], False
    if len(parts) == 2:
        tokenizer = cast(tokenization.Tokenizer, encode)
        columns += [sep] * (tokenizer.special_tokens(pair=True) - 3) + [parts[1], sep]
        has_segments = tokenizer.kind != "byte_bpe" and tokenizer.segments > 1
    ids = tf.concat(columns, axis=1)
    input_ids = ids.to_tensor(encode.pad_id)
    length = tf.shape(input_ids)[1]
    mask = tf.sequence_mask(ids.row_lengths(), length, tf.int32)
    place = tf.range(length)[tf.newaxis]
    in_second = place >= tf.cast(parts[0].row_lengths(), tf.int32)[:, tf.newaxis] + 2
    return {
        "input_ids": input_ids,
        "segment_ids": mask * tf.cast(in_second & has_segments, tf.int32),
        "position_ids": mask * place,
        "document_ids": mask * tf.range(1, count + 1)[:, tf.newaxis],
        "first": length * tf.range(count),
    }


def cut(tokens: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Returns the first tokens of each text, ragged [texts, tokens].

    Args:
      tokens: ragged [texts, tokens].
      lengths: int64 [texts], the most tokens of each.
    """
    place = tf.ragged.range(tokens.row_lengths()).values
    kept = place < tf.gather(lengths, tokens.value_rowids())
    values = tf.boolean_mask(tokens.values, kept)
    return tf.RaggedTensor.from_row_lengths(values, tf.minimum(tokens.row_lengths(), lengths))


def close(one: np.ndarray, other: np.ndarray) -> bool:
    """Returns True if two arrays of one shape differ by no more than `TOLERANCE` (1e-5).

    The tolerance is absolute and relative: 1e-5 + 1e-5 * |other|.
    """
    return np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)
