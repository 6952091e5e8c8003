"""Measures how unequal the labels of a training set are, and says what learning does about it.

Biomedical data have few examples of the labels that matter. Shin et al. (2020), section 5.5,
measure that as a ratio, and name weighted cross-entropy and oversampling as remedies. The minority
labels are here, as there, all but the most frequent one, the majority label.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tfbio.base.config import require
from tfbio.models.head_config import NO_TARGET
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.features import Features, PerToken


class LabelBalance:
    """The part of a task type that counts its labels and gives the rare ones more weight.

    Attributes:
      has_one_label: True if the targets are the number of one label for each text or token.
      name, labels, of_tokens: as in `TaskType`.
    """

    has_one_label: ClassVar[bool] = False

    name: ClassVar[str]
    of_tokens: ClassVar[bool]
    labels: tuple[str, ...]

    @classmethod
    def check_balance(cls, config: CommonSettings) -> None:
        """Checks that the settings for minority labels go with the task type; returns nothing.

        Args:
          config: all settings.

        Raises:
          ConfigError: `minority_weight` or `minority_copies` is not 1, and there may be several
            labels, or none.
        """
        require(
            cls.has_one_label or (config.minority_weight == 1 and config.minority_copies == 1),
            "minority_weight and minority_copies are for tasks with one label for each text or "
            f"word, and this is one of {cls.name}: leave them at 1.",
        )

    def _label_numbers(self, features: Features) -> list[np.ndarray]:
        """Returns the numbers of the labels of each window, int32 [n]; NO_TARGET (-1) for none."""
        if self.of_tokens:
            return features.per_token["targets"].values
        return [np.atleast_1d(own) for own in features.per_window["targets"]]

    def _label_counts(self, features: Features) -> np.ndarray:
        """Counts the targets with each label, int64 [labels]."""
        every = np.concatenate(self._label_numbers(features))
        return np.bincount(every[every != NO_TARGET], minlength=len(self.labels))

    def describe_bias(self, examples: Sequence, features: Features) -> str:
        """Describes the label bias of a task's training set (Shin et al., 2020, Table 8) in a line.

        It is the number of targets with a minority label over that of those with the majority
        label. By default there is none.

        Args:
          examples: of the training set, without those that `Task.augment` makes.
          features: of the examples.

        Returns:
          The line, with the ratio as a number; "" for a type without one label for each target.
        """
        if not self.has_one_label:
            return ""
        counts = self._label_counts(features)
        if not (most := int(counts.max())):
            return "label bias: none, as no target is left of sequence_length"
        return (
            f"label bias: {(counts.sum() - most) / most:.4f} ({counts.sum() - most:,} of other "
            f"labels to {most:,} of {self.labels[counts.argmax()]})"
        )

    def balanced(self, trained: Features, config: CommonSettings) -> Features:
        """Returns the windows to train on with more weight on those with a minority label.

        Args:
          trained: the windows.
          config: all settings. Each window with a minority label is there `minority_copies` times
            in a row; and with a `minority_weight` other than 1 there are "weights", float32, of the
            targets: that of a minority label has this weight, and another 1.

        Returns:
          `trained` itself where both are 1.
        """
        weight, copies = config.minority_weight, config.minority_copies
        if weight == 1 and copies == 1:
            return trained
        majority = self._label_counts(trained).argmax()
        is_minority = [(x != majority) & (x != NO_TARGET) for x in self._label_numbers(trained)]
        if weight != 1:
            weights = [np.where(own, weight, 1).astype(np.float32) for own in is_minority]
            if self.of_tokens:
                of_tokens = {**trained.per_token, "weights": PerToken(weights, padding=1)}
                trained = dataclasses.replace(trained, per_token=of_tokens)
            else:
                of_windows = {**trained.per_window, "weights": [own[0] for own in weights]}
                trained = dataclasses.replace(trained, per_window=of_windows)
        times = [copies if own.any() else 1 for own in is_minority]
        return trained.take(np.repeat(np.arange(len(times)), times))
