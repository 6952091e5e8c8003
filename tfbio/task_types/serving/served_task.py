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
    """A model that cannot be written as a SavedModel."""


class SpecialTokens(Protocol):
    """Declares what `rows` needs of a tokenizer."""

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
      calibration: see `TaskType.calibrate`.
      tokenizer: see `text.in_graph.tokenization.load`.
      encode: the same tokenizer outside of the graph.
      length: the most tokens of a text.
      folder: of the model, for messages.

    Raises:
      SavedModelError: the model sees texts in a way that the graph cannot.
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
        """Returns the signatures, "serving_default" first."""

    @abc.abstractmethod
    def compare(self, signature: Function) -> bool:
        """Returns whether a signature gives what the model does, with the tokenizer outside."""

    def outputs(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Runs the model on a batch, see `TaskType.outputs`."""
        return self.task_type.outputs(self.model(batch), batch)

    def tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts texts into tokens as fine-tuning does: string [texts] -> int32 [texts, (tokens)]."""
        return self.tokenizer.with_places(texts)[0]

    def expected(self, examples: list) -> tuple[list, list]:
        """Returns predictions and the outputs of the windows, without the graph."""
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
    """Makes a graph that takes strings [batch] of these names."""
    specs = [tf.TensorSpec([None], tf.string, name) for name in names]
    return tf.function(function, input_signature=specs, autograph=False)


def rows(encode: SpecialTokens, *parts: tf.RaggedTensor) -> dict[str, tf.Tensor]:
    """Joins texts or pairs as `tokenization.Tokenizer.join` does, padded to the longest.

    Args:
      encode: knows the special tokens; of pairs a `Tokenizer`.
      parts: int32 ragged [batch, tokens], one or two.

    Returns:
      What `packing.fill` makes of such rows, but for targets.
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
    """Returns the first tokens of each text, at most `lengths`, int64 [texts], of them."""
    place = tf.ragged.range(tokens.row_lengths()).values
    kept = place < tf.gather(lengths, tokens.value_rowids())
    values = tf.boolean_mask(tokens.values, kept)
    return tf.RaggedTensor.from_row_lengths(values, tf.minimum(tokens.row_lengths(), lengths))


def close(one: np.ndarray, other: np.ndarray) -> bool:
    """Returns whether two arrays differ by no more than `TOLERANCE`."""
    return np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)
