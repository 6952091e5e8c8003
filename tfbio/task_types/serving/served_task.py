"""A fine-tuned model as a graph from strings to predictions, and the check of what it gives."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbio.base.errors import UserError
from tfbio.base.lazy import tensorflow as tf
from tfbio.task_types import packing
from tfbio.task_types.trained_on import TrainedOn
from tfbio.text import tokenization

if TYPE_CHECKING:
    from tfbio.models.task_model import TaskModel

# By how much outputs may differ after loading.
_TOLERANCE = 1e-5
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
    """The `UserError` for a fine-tuned model whose task cannot be served as a SavedModel."""


@dataclasses.dataclass(eq=False)
class ServedTask(abc.ABC):
    """The base class of served tasks: a fine-tuned model as a graph from strings to predictions.

    Each form of input, such as texts or questions, has a class.

    Attributes:
      task_type: a `TaskType`.
      model: with its weights.
      known: `trained_on` in the model's `config.json`.
      calibration: what `TaskType.calibrate` returned; None for nothing.
      tokenizer: in the graph, from `text.in_graph.tokenization.load`.
      encode: the same tokenizer outside of the graph.
      length: the most tokens of a window, with [CLS] and [SEP].
      folder: the path of the model, for messages.
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
        """Returns the signatures of the served task, name -> graph, "serving_default" first.

        Each takes strings [batch] by name and returns tensors [batch, ...] by name.

        Raises:
          SavedModelError: the model sees texts in a way that the graph cannot.
        """

    @abc.abstractmethod
    def compare(self, signature: Function) -> bool:
        """Returns True if a served task gives for `TEXTS` what the model does without the graph.

        Floats may differ as `close` allows.

        Args:
          signature: the "serving_default" of a model that was loaded.
        """

    def outputs(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes the outputs of the task type for a batch of a served task.

        Args:
          batch: name -> int32 array, as `input_rows.rows` returns them.

        Returns:
          [batch * length, ...] for types of tokens, else [batch, outputs].
        """
        return self.task_type.outputs(self.model(batch), batch)

    def tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cuts the served task's texts into tokens in the graph, as fine-tuning does outside of it.

        Args:
          texts: string [texts], in UTF-8.

        Returns:
          The ids, int32 ragged [texts, tokens], without special tokens.
        """
        return self.tokenizer.with_places(texts)[0]

    def expected(self, examples: list) -> tuple[list, list]:
        """Computes the predictions without the graph, for the check of a served task.

        Args:
          examples: of the task type.

        Returns:
          A list of the prediction for each example, in the form of its label; and a list of the
          outputs for each window, arrays [tokens, ...] or [outputs].
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
    """Makes a `tf.function` of a served task, which takes strings [batch] of these names.

    Args:
      function: takes a string tensor [batch] for each name and returns tensors by name.
      names: of its arguments, in order.

    Returns:
      The graph, which takes and returns the same.
    """
    specs = [tf.TensorSpec([None], tf.string, name) for name in names]
    return tf.function(function, input_signature=specs, autograph=False)


def close(one: np.ndarray, other: np.ndarray) -> bool:
    """Returns True if outputs of a served task equal the expected ones but for rounding.

    Two arrays of one shape may differ by 1e-5 + 1e-5 * |other| at most; NaN equals nothing.
    """
    return np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE)
