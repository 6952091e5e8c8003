"""Any number of labels for each text, or pair of texts, such as the hallmarks of cancer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbio.base.config import setting
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.label_sets import labels_between_bars
from tfbio.formats.task_examples import LabelledText
from tfbio.task_types import label_metrics, trivial
from tfbio.task_types.features import Features
from tfbio.task_types.label_metrics import score_label_sets
from tfbio.task_types.metrics import Scores
from tfbio.task_types.own_task import OwnTask, own_table
from tfbio.task_types.task_type import Score
from tfbio.task_types.texts import TextSettings, TextType, encode
from tfbio.text.tokenization import Tokenizer

if TYPE_CHECKING:
    from tfbio.models.task_model import TaskModel


class MultiLabel(TextType):
    """The task type "multilabel", which gives each text or pair of texts any number of labels.

    With `absent_outputs` each label has two outputs, of its absence and its presence, both learnt
    by themselves; predictions look at the second.

    Args:
      labels: all labels, in the order of the model's outputs.
      settings: a `MultiLabel.Settings`; None for its defaults.

    Attributes:
      labels: the labels, a tuple of strings.
      settings: the settings in use.
      num_outputs: the number of logits of a text, one or with `absent_outputs` two for each label.
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
        """The settings of the task type "multilabel".

        Attributes:
          pooling: "first" or "mean", the vector of a text.
          text_head, mlp_layers, mlp_size: the layers below the last one, see `TextSettings`.
          absent_outputs: True to give the absence of a label an output of its own.

        Raises:
          ConfigError: a value is out of its limits, or `text_head` does not go with the others.
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
        """Encodes texts for multi-label classification, each example as one window.

        Args:
          examples: the texts or pairs, `LabelledText`.
          tokenizer: the tokenizer of the encoder.
          length: the most tokens of a window; longer texts are cut.

        Returns:
          `Features` in the order of the examples; `per_window["targets"]` is float32 [labels] for
          each window, 1 for the labels of its example, else 0.
        """
        targets = [
            np.array([label in example.label for label in self.labels], np.float32)
            for example in examples
        ]
        return encode(examples, targets, tokenizer, length)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the loss of multi-label classification, each text's cross-entropy over outputs.

        It is the sum over the labels; with outputs of absence the mean over all outputs
        (`finetune/classification/classification_tasks.py:HOC` of BioELECTRA's code).

        Args:
          logits: float32 [texts, outputs].
          batch: the arrays of `packing.fill`, with `targets`, float32 [texts, labels].

        Returns:
          The losses, and weights of 1, float32 [texts] each.
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
        """Computes the probability of each multi-label output, float32 [texts, outputs].

        Args:
          logits: float32 [texts, outputs].
          batch: not used.
        """
        return tf.sigmoid(logits)

    def present(self, outputs: np.ndarray | tf.Tensor) -> np.ndarray | tf.Tensor:
        """Returns the multi-label outputs of presence, with `absent_outputs` every second one.

        Args:
          outputs: [..., outputs], probabilities or weights of them.

        Returns:
          [..., labels], of the same dtype.
        """
        return outputs[..., 1::2] if self.settings.absent_outputs else outputs

    def absent(self, outputs: np.ndarray) -> np.ndarray:
        """Returns which labels the multi-label outputs predict as absent, bool [texts, labels].

        With outputs of absence they decide, and may contradict those of presence.

        Args:
          outputs: float32 [texts, outputs], probabilities.
        """
        return outputs[:, ::2] > 0.5 if self.settings.absent_outputs else outputs <= 0.5

    def predictions(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence
    ) -> list[tuple[str, ...]]:
        """Returns the labels of each text that are more probable than 0.5, a tuple of strings.

        Args:
          outputs: the probabilities for each example, float32 [outputs].
          features: not used.
          examples: not used.
        """
        return [
            tuple(label for label, p in zip(self.labels, self.present(row), strict=True) if p > 0.5)
            for row in outputs
        ]

    def record(self, label: tuple[str, ...], output: np.ndarray) -> dict[str, Any]:
        """Returns the fields of a multi-label text that `--mode=predict` writes beside its id.

        Args:
          label: the predicted labels.
          output: float32 [outputs], the probabilities.

        Returns:
          "label", the labels, and "probabilities", a dict of each label's probability of presence,
          rounded to 6 digits.
        """
        return super().record(label, self.present(output))

    def served_outputs(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the tensors that a SavedModel of the type "multilabel" gives, by name.

        Args:
          outputs: float32 [texts, outputs], the probabilities.

        Returns:
          `probabilities` of presence, float32 [texts, labels]; `labels`, their names, strings
          [texts, labels]; and `predicted`, bool [texts, labels], True above 0.5.
        """
        present = self.present(outputs)
        return {**super().served_outputs(present), "predicted": present > 0.5}

    @classmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        """Scores, for "multilabel", the single label for all texts that does best on dev.

        Args:
          score: `Task.score`, (examples, predictions) -> `Scores`.
          dev: the development examples.
          test: the test examples.

        Returns:
          "LABEL for every text", or "no label" if dev has none, and its `Scores` on the test set.

        Raises:
          ScoreError: there are no test examples.
        """
        labels = [label for example in dev for label in example.label]
        if not labels:
            return "no label", score(test, [()] * len(test))
        best = trivial.best_label(labels, lambda label: score(dev, [(label,)] * len(dev)))
        return f"{best} for every text", score(test, [(best,)] * len(test))

    def more_scores(
        self,
        score: Score,
        examples: Sequence[LabelledText],
        predicted: Sequence[tuple[str, ...]],
        features: Features,
        outputs: Sequence[np.ndarray],
    ) -> dict[str, float]:
        """Scores multi-label predictions as BioELECTRA's code does, by the outputs of absence, too.

        Args:
          score: not used.
          examples: the examples, with their labels.
          predicted: the predicted labels of each.
          features: not used.
          outputs: the probabilities for each example, float32 [outputs].

        Returns:
          "bioelectra_code_f1", "bioelectra_code_precision" and "bioelectra_code_recall", floats in
          [0, 1], see `label_metrics.bioelectra_label_scores`; no figures without `absent_outputs`.

        Raises:
          ScoreError: a label is unknown, or the lengths differ.
        """
        if not self.settings.absent_outputs:
            return {}
        labels: list[Any] = [example.label for example in examples]
        absent = self.absent(np.stack(outputs))
        scores = label_metrics.bioelectra_label_scores(labels, predicted, self.labels, absent)
        return {f"bioelectra_code_{name}": value for name, value in scores.items()}

    def portable_settings(self) -> Settings:
        """Returns the settings of multi-label classification without the outputs of absence."""
        return dataclasses.replace(self.settings, absent_outputs=False)

    def copy_head(self, model: TaskModel, portable: TaskModel) -> None:
        """Gives a portable multi-label model the weights of the last layer but those of absence.

        Args:
          model: a model with the settings in use.
          portable: a model with `portable_settings`, which is changed in place.
        """
        portable.head.set_weights([self.present(x) for x in model.head.get_weights()])

    @classmethod
    def cell(cls, label: Sequence[str]) -> str:
        """Returns the labels of a multi-label text with bars between them, `a|b`; "" for none."""
        return "|".join(label)

    @classmethod
    def label_in(cls, cell: str) -> tuple[str, ...]:
        """Returns the labels between the bars of a multi-label cell, `a|b`; () for an empty one."""
        return labels_between_bars(cell)

    @classmethod
    def names_of(cls, label: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the labels of a multi-label text as they are, names to count."""
        return label
