"""A score for each text, or pair of texts, such as how similar two sentences are."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbio.base.config import setting
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.task_examples import LabelledText
from tfbio.task_types.finetuning_files import TrainedOn
from tfbio.task_types.packing import Features
from tfbio.task_types.scores import Scores
from tfbio.task_types.task import OwnTask, score_similarity
from tfbio.task_types.task_type import Score
from tfbio.task_types.texts import TextSettings, TextType, encode, own_table
from tfbio.text.tokenization import Tokenizer

if TYPE_CHECKING:
    from tfbio.models.task_model import TaskModel


class Regression(TextType):
    """A task type that gives each text a score, a float.

    Args:
      labels: ignored; there are none.
      settings: a `Regression.Settings`; None for its defaults.

    Attributes:
      labels: ().
      settings: the settings in use.
      num_outputs: logits of a text, 1.
    """

    name = "regression"
    problem_type = "regression"
    own_tasks = (OwnTask("regression", own_table("text", "score"), lambda _: score_similarity),)
    placeholder = 0.0

    @dataclasses.dataclass(frozen=True)
    class Settings(TextSettings):
        """Settings of regression.

        Attributes:
          pooling: "first" or "mean", the vector of a text.
          text_head: "linear", "tanh" or "gelu", the layer between that and the last layer.
          scale: the model learns the score divided by this.
        """

        group = "regression."

        scale: float = setting(
            1.0,
            "The model learns the score divided by this; by the highest, in BioELECTRA's code.",
            above=0,
        )

    settings: Settings

    def __init__(self, labels: Sequence[str] = (), settings: Settings | None = None):
        super().__init__((), settings)

    def features(self, examples: Sequence, tokenizer: Tokenizer, length: int) -> Features:
        """Encodes each example as one window; its target is its score / `scale`, float32 []."""
        targets = [
            np.array(example.label / self.settings.scale, np.float32) for example in examples
        ]
        return encode(examples, targets, tokenizer, length)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the squared error, as in ELECTRA's code, and weights of 1, float32 [texts] both.

        Args:
          logits: float32 [texts, 1].
          batch: with `targets`, float32 [texts].
        """
        losses = tf.square(tf.squeeze(logits, -1) - tf.cast(batch["targets"], logits.dtype))
        return losses, tf.ones_like(losses)

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes the scores, logits * `scale`, float32 [texts, 1]."""
        return logits * self.settings.scale

    def predictions(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[LabelledText]
    ) -> list[float]:
        """Returns the score of each example, a float; `outputs` are float32 [1] of each."""
        return [float(output[0]) for output in outputs]

    def record(self, label: float, output: np.ndarray) -> dict[str, Any]:
        """Returns {"label": score}."""
        return {"label": label}

    def served_outputs(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns {"score": float32 [texts]}, from outputs float32 [texts, 1]."""
        return {"score": outputs[:, 0]}

    @classmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        """Returns "the same score for every pair", and the test scores of dev's mean.

        Raises:
          ValueError: there are no development examples.
        """
        mean = statistics.fmean(example.label for example in dev)
        return "the same score for every pair", score(test, [mean] * len(test))

    @classmethod
    def label_in(cls, cell: str) -> float:
        """Returns the number in a cell.

        Raises:
          ValueError: it is no number.
        """
        return float(cell)

    @classmethod
    def names_of(cls, label: float) -> tuple[str, ...]:
        """Returns the score as the only name, in a form in which 3 and 3.0 are one label."""
        return (f"{label:g}",)

    @classmethod
    def describe(cls, examples: Sequence[LabelledText], predicted: Sequence) -> str:
        """Returns "N texts"."""
        return f"{len(examples):,} texts"

    @classmethod
    def fits_hugging_face(cls, said: dict[str, Any], labels: Sequence[str]) -> bool:
        """Returns True for the `problem_type` of scores; without one, for a single label.

        `transformers` does so, too.
        """
        if said.get("problem_type") is None:
            return len(labels) == 1
        return super().fits_hugging_face(said, labels)

    def portable_settings(self) -> Settings:
        """Returns the settings with a scale of 1."""
        return dataclasses.replace(self.settings, scale=1.0)

    def copy_head(self, model: TaskModel, portable: TaskModel) -> None:
        """Gives the portable model the weights of the last layer, multiplied by `scale`."""
        portable.head.set_weights([self.settings.scale * x for x in model.head.get_weights()])

    def hugging_face_labels(self, known: TrainedOn) -> list[str]:
        """Returns the labels of `known`; ["score"] if it has none."""
        return known.labels or ["score"]
