"""Any number of labels for each text, or pair of texts, such as the hallmarks of cancer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbio.base.config import setting
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.tables import labels_between_bars
from tfbio.formats.task_examples import LabelledText
from tfbio.task_types import metrics, trivial
from tfbio.task_types.packing import Features
from tfbio.task_types.scores import Scores
from tfbio.task_types.task import OwnTask, score_label_sets
from tfbio.task_types.task_type import Score
from tfbio.task_types.texts import TextSettings, TextType, encode, own_table
from tfbio.text.tokenization import Tokenizer

if TYPE_CHECKING:
    from tfbio.models.task_model import TaskModel


class MultiLabel(TextType):
    """A task type that gives each text any number of labels.

    With `absent_outputs` each label has two outputs, of its absence and its presence, both learnt
    by themselves; predictions look at the second.

    Args:
      labels: all labels, in the order of the model's outputs.
      settings: a `MultiLabel.Settings`; None for its defaults.

    Attributes:
      labels: the labels, a tuple.
      settings: the settings in use.
      num_outputs: logits of a text, one or with `absent_outputs` two for each label.
    """

    name = "multilabel"
    problem_type = "multi_label_classification"
    own_tasks = (
        OwnTask(
            "multilabel",
            own_table("text", "labels"),
            lambda labels: partial(score_label_sets, labels=labels),
            fewest=1,
        ),
    )
    placeholder = ()

    @dataclasses.dataclass(frozen=True)
    class Settings(TextSettings):
        """Settings of any number of labels.

        Attributes:
          pooling: "first" or "mean", the vector of a text.
          text_head: "linear", "tanh" or "gelu", the layer between that and the last layer.
          absent_outputs: True to give the absence of a label an output of its own.
        """

        group = "multilabel."

        absent_outputs: bool = setting(
            False,
            "Give the absence of a label an output of its own, and take the mean over all outputs "
            "as the loss, as in BioELECTRA's code. Else a label has one, and the loss is their "
            "sum.",
        )

    settings: Settings

    def __init__(self, labels: Sequence[str], settings: Settings | None = None):
        super().__init__(labels, settings)
        self.num_outputs = len(self.labels) * (2 if self.settings.absent_outputs else 1)

    def features(self, examples: Sequence, tokenizer: Tokenizer, length: int) -> Features:
        """Encodes each example as one window; targets: float32 [labels], 1 for its labels."""
        targets = [
            np.array([label in example.label for label in self.labels], np.float32)
            for example in examples
        ]
        return encode(examples, targets, tokenizer, length)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes each output's cross-entropy, and weights of 1, float32 [texts] both.

        The sum over the labels; with outputs of absence the mean over all outputs
        (`finetune/classification/classification_tasks.py:HOC` of BioELECTRA's code).

        Args:
          logits: float32 [texts, outputs].
          batch: with `targets`, float32 [texts, labels].
        """
        targets = tf.cast(batch["targets"], logits.dtype)
        if self.settings.absent_outputs:
            targets = tf.reshape(tf.stack([1.0 - targets, targets], axis=-1), tf.shape(logits))
            # Rounded as there: where an output is sure, and wrong, a loss of 20 is the most.
            present = tf.sigmoid(logits)
            losses = -targets * tf.math.log(present + 1e-9)
            losses -= (1.0 - targets) * tf.math.log(1.0 - present + 1e-9)
            losses = tf.reduce_mean(losses, axis=-1)
        else:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(targets, logits)
            losses = tf.reduce_sum(losses, axis=-1)
        return losses, tf.ones_like(losses)

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes the probability of each output, float32 [texts, outputs]."""
        return tf.sigmoid(logits)

    def present(self, outputs: np.ndarray | tf.Tensor) -> np.ndarray | tf.Tensor:
        """Returns the probabilities of presence, float32 [..., labels], from [..., outputs]."""
        return outputs[..., 1::2] if self.settings.absent_outputs else outputs

    def absent(self, outputs: np.ndarray) -> np.ndarray:
        """Returns which labels are predicted absent, bool [texts, labels], from [texts, outputs].

        With outputs of absence they decide, and may contradict those of presence.
        """
        return outputs[:, ::2] > 0.5 if self.settings.absent_outputs else outputs <= 0.5

    def predictions(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence
    ) -> list[tuple[str, ...]]:
        """Returns the labels of each example that are more probable than 0.5, as a tuple.

        The `outputs` are float32 [outputs] for each example.
        """
        return [
            tuple(label for label, p in zip(self.labels, self.present(row), strict=True) if p > 0.5)
            for row in outputs
        ]

    def record(self, label: tuple[str, ...], output: np.ndarray) -> dict[str, Any]:
        """Returns "label", the labels, and "probabilities", label -> that of its presence."""
        return super().record(label, self.present(output))

    def served_outputs(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns those of `TextType`, of presence, and `predicted`, bool [texts, labels]."""
        present = self.present(outputs)
        return {**super().served_outputs(present), "predicted": present > 0.5}

    @classmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        """Returns "LABEL for every text", the best on dev, and its scores on the test set.

        If dev has no label, it is "no label".
        """
        labels = [label for example in dev for label in example.label]
        if not labels:
            return "no label", score(test, [()] * len(test))
        best = trivial.best_label(labels, lambda label: score(dev, [(label,)] * len(dev)))
        return f"{best} for every text", score(test, [(best,)] * len(test))

    def authors_scores(
        self,
        score: Score,
        examples: Sequence[LabelledText],
        predicted: Sequence[tuple[str, ...]],
        features: Features,
        outputs: Sequence[np.ndarray],
    ) -> dict[str, float]:
        """Returns "f1", "precision" and "recall" with outputs of absence scored by themselves.

        It returns no figures without `absent_outputs`. See `metrics.bioelectra_label_scores`.
        """
        if not self.settings.absent_outputs:
            return {}
        labels: list[Any] = [example.label for example in examples]
        absent = self.absent(np.stack(outputs))
        return metrics.bioelectra_label_scores(labels, predicted, self.labels, absent)

    def portable_settings(self) -> Settings:
        """Returns the settings without outputs of absence."""
        return dataclasses.replace(self.settings, absent_outputs=False)

    def copy_head(self, model: TaskModel, portable: TaskModel) -> None:
        """Gives the portable model the weights of the last layer, without those of absence."""
        portable.head.set_weights([self.present(x) for x in model.head.get_weights()])

    @classmethod
    def cell(cls, label: Sequence[str]) -> str:
        """Returns the labels with bars between them, `a|b`; "" for none."""
        return "|".join(label)

    @classmethod
    def label_in(cls, cell: str) -> tuple[str, ...]:
        """Returns the labels between the bars of a cell; () for an empty one."""
        return labels_between_bars(cell)

    @classmethod
    def names_of(cls, label: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the labels as they are."""
        return label
