"""Keeps the weights that did best in an evaluation, and tells when evaluations get no better."""

import json
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tf_keras as keras


class BestWeights:
    """The weights of the best evaluation in a fine-tuning trial, the first of equals.

    The first figure of an evaluation decides; the higher, the better. What is kept goes into the
    trial's checkpoints with `state`, so a trial that goes on keeps the same weights.

    Args:
      model: the model, whose variables must all exist.
      patience: after how many evaluations in a row that were no better to give up; 0: never.

    Attributes:
      state: a `tf.train.Checkpoint` of the kept weights and the evaluations, for `Checkpointer`.
    """

    def __init__(self, model: keras.layers.Layer, patience: int = 0):
        self._model, self._patience = model, patience
        self._evaluations = _Evaluations()
        # In the memory of the machine, not of its devices: looked at once, at the end.
        with tf.device("CPU:0"):
            self._weights = [
                tf.Variable(np.zeros(weights.shape, weights.dtype.name), trainable=False)
                for weights in model.variables
            ]
        self.state = tf.train.Checkpoint(weights=self._weights, evaluations=self._evaluations)

    @property
    def evaluations(self) -> list[dict]:
        """The evaluations so far, in order: dicts of `step` (an int) and the figures (floats)."""
        return self._evaluations.all

    @property
    def step(self) -> int:
        """The step of the best weights, which are kept; an int.

        Raises:
          IndexError: there was no evaluation.
        """
        return self.evaluations[self._best()]["step"]

    @property
    def gave_up(self) -> bool:
        """True if the last `patience` evaluations or more were no better than the best one.

        It is False if `patience` is 0 or there was no evaluation.
        """
        not_better = len(self.evaluations) - 1 - self._best()
        return 0 < self._patience <= not_better

    def update(self, step: int, figures: Mapping[str, float]) -> None:
        """Notes an evaluation, and keeps the current weights if they are the best; returns nothing.

        Args:
          step: the steps done so far.
          figures: the figures by name, at least one. The first decides, and the higher is the
            better.

        Raises:
          StopIteration: there is no figure.
        """
        self.evaluations.append({"step": step, **figures})
        if self._best() == len(self.evaluations) - 1:
            for kept, weights in zip(self._weights, self._model.get_weights(), strict=True):
                kept.assign(weights)

    def restore(self) -> None:
        """Gives the model the best weights (zeros if there was no evaluation); returns nothing."""
        self._model.set_weights([weights.numpy() for weights in self._weights])

    def _best(self) -> int:
        """Returns the number of the best evaluation; -1 if there was none."""
        values = [figures[next(n for n in figures if n != "step")] for figures in self.evaluations]
        return int(np.argmax(values)) if values else -1


class _Evaluations(tf.train.experimental.PythonState):
    """Evaluations, which a checkpoint holds as JSON."""

    def __init__(self) -> None:
        self.all: list[dict] = []

    def serialize(self) -> str:
        return json.dumps(self.all)

    def deserialize(self, string_value: bytes) -> None:
        self.all = json.loads(string_value)
