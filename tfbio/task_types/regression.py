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
from tfbio.task_types.features import Features
from tfbio.task_types.metrics import Scores
from tfbio.task_types.own_task import OwnTask, own_table
from tfbio.task_types.similarity_metrics import score_similarity
from tfbio.task_types.task_type import Score
from tfbio.task_types.texts import TextSettings, TextType, encode
from tfbio.task_types.trained_on import TrainedOn
from tfbio.text.tokenization import Tokenizer

if TYPE_CHECKING:
    from tfbio.models.task_model import TaskModel


class Regression(TextType):
    """The regression task type, which gives each text or pair of texts a score, a float.

    Args:
      labels: ignored; there are none.
      settings: a `Regression.Settings`; None for its defaults.

    Attributes:
      labels: ().
      settings: the settings in use.
      num_outputs: logits of a text, 1; for the other attributes see `TaskType`.
    """

    name = "regression"
    problem_type = "regression"
    own_tasks = (OwnTask("regression", own_table("text", "score"), lambda _: score_similarity),)
    placeholder = 0.0

    @dataclasses.dataclass(frozen=True)
    class Settings(TextSettings):
        """The settings of the regression task type.

        Attributes:
          pooling: "first" or "mean", the vector of a text: the output for [CLS], or the mean over
            tokens.
          text_head, mlp_layers, mlp_size: the layers below the last one, see `TextSettings`.
          scale: the model learns the score divided by this, which is above 0.

        Raises:
          ConfigError: a value is out of its limits, or `text_head` does not go with the others.
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
        """Encodes each example as one window, with its score / `scale` as the target of regression.

        Args:
          examples: `LabelledText`, with a float as label.
          tokenizer: the tokenizer of the encoder.
          length: the most tokens of a window, with [CLS] and [SEP].

        Returns:
          Features with int32 [tokens] of ids and of segments for each example, and its target,
          float32 [], in `per_window["targets"]`.
        """
        targets = [
            np.array(example.label / self.settings.scale, np.float32) for example in examples
        ]
        return encode(examples, targets, tokenizer, length)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the squared errors of regression, as ELECTRA's code does.

        Args:
          logits: float32 [texts, 1].
          batch: with `targets`, float32 [texts], the scores / `scale`.

        Returns:
          The losses, and their weights, all 1; float32 [texts] each.
        """
        losses = tf.square(tf.squeeze(logits, -1) - tf.cast(batch["targets"], logits.dtype))
        return losses, tf.ones_like(losses)

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes the scores of regression, logits * `scale`.

        Args:
          logits: float32 [texts, 1].
          batch: ignored.

        Returns:
          float32 [texts, 1].
        """
        return logits * self.settings.scale

    def predictions(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[LabelledText]
    ) -> list[float]:
        """Returns the predicted score of each example of regression, a float.

        Args:
          outputs: float32 [1] for each example, its score.
          features: ignored.
          examples: ignored.
        """
        return [float(output[0]) for output in outputs]

    def record(self, label: float, output: np.ndarray) -> dict[str, Any]:
        """Returns {"label": score}, all that `--mode=predict` writes of a text beside its id.

        Args:
          label: the predicted score, a float.
          output: ignored.
        """
        return {"label": label}

    def served_outputs(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what a regression model gives in a SavedModel: {"score": float32 [texts]}.

        Args:
          outputs: float32 [texts, 1], the scores.
        """
        return {"score": outputs[:, 0]}

    @classmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        """Scores on the test set a regression that gives every text the mean score of dev.

        Args:
          score: `Task.score`, (examples, predictions) -> `Scores`.
          dev: development examples.
          test: test examples.

        Returns:
          "the same score for every pair", and its scores.

        Raises:
          ValueError: there are no development examples.
          ScoreError: there are no test examples, or a score is NaN or infinite.
        """
        mean = statistics.fmean(example.label for example in dev)
        return "the same score for every pair", score(test, [mean] * len(test))

    @classmethod
    def label_in(cls, cell: str) -> float:
        """Reads the score, a float, in a cell of a table of regression's predictions.

        Raises:
          ValueError: the cell is no number.
        """
        return float(cell)

    @classmethod
    def names_of(cls, label: float) -> tuple[str, ...]:
        """Returns regression's score as the only name, a text: 3 and 3.0 are both "3"."""
        return (f"{label:g}",)

    @classmethod
    def describe(cls, examples: Sequence[LabelledText], predicted: Sequence) -> str:
        """Returns "N texts", the line that describes the predictions of regression."""
        return f"{len(examples):,} texts"

    @classmethod
    def fits_hugging_face(cls, said: dict[str, Any], labels: Sequence[str]) -> bool:
        """Returns True if a `transformers` model that labels texts is one of regression.

        It is by its `problem_type` "regression"; without one, if it has a single label, as in
        `transformers`.

        Args:
          said: its `config.json`, name -> value.
          labels: its labels, in the order of the outputs.
        """
        if said.get("problem_type") is None:
            return len(labels) == 1
        return super().fits_hugging_face(said, labels)

    def portable_settings(self) -> Settings:
        """Returns the settings of regression for `transformers`, which has no `scale`: it is 1."""
        return dataclasses.replace(self.settings, scale=1.0)

    def copy_head(self, model: TaskModel, portable: TaskModel) -> None:
        """Copies regression's last layer, weights multiplied by `scale`, into the portable model.

        Args:
          model: of this type, with its settings.
          portable: the model with `portable_settings`, which is changed in place.
        """
        portable.head.set_weights([self.settings.scale * x for x in model.head.get_weights()])

    def hugging_face_labels(self, known: TrainedOn) -> list[str]:
        """Returns the name of regression's output for `id2label`: ["score"], or `known.labels`.

        Args:
          known: `trained_on` in `config.json`; its labels are used if there are any.
        """
        return known.labels or ["score"]
