"""The contract of a task type: everything that training, scoring and prediction ask of it.

A task type is one file with a subclass of `TaskType`, and one line in `types.py`. Training packs
its `features`, adds up its `losses`, and turns its `outputs` into `predictions`. Nothing outside of
this room asks which type it has.

A type's settings are a dataclass in its file, and a group of that name for `--set` and in JSON.
`--help` lists them, and mistakes in them are named at once: so the file of a type takes TensorFlow
from `base.lazy`, and imports layers in the methods that use them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from tfbio.base.config import BaseSettings
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.annotated_documents import Entity
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import HeadConfig
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.features import Features
from tfbio.task_types.label_balance import LabelBalance
from tfbio.task_types.metrics import Scores
from tfbio.task_types.outcomes import LabelOutcomes
from tfbio.task_types.own_task import OwnTask
from tfbio.task_types.serving.served_task import ServedTask
from tfbio.task_types.trained_on import TrainedOn
from tfbio.task_types.transformers_form import TransformersForm
from tfbio.text.tokenization import Tokenizer

# Scores predictions: (examples, predictions) -> figures by name, see `Task.score`.
Score = Callable[[Sequence, Sequence], Scores]


class TaskType(LabelBalance, LabelOutcomes, TransformersForm):
    """The base class of task types: how a model learns from examples and what it then predicts.

    Args:
      labels: all labels, in the order of the model's outputs; none for scores and answers.
      settings: a `Settings` of the type; None for its defaults.

    Attributes:
      labels: all labels, a tuple of strings in the order of the model's outputs.
      settings: the `Settings` in use.
      name: the type's name in `config.json`, in messages, and as the group of its settings.
      Settings: the dataclass of the settings that this type alone has.
      of_tokens: True if the model gives logits for each token, False if for each text.
      placeholder: the label of an example whose label is not known.
      has_one_label: see `LabelBalance`.
      has_probabilities: True if `probabilities` says how probable each output is.
      num_outputs: logits of each token or text.
      calibration_name: the name in `scores.json` of what `calibrate` returns; "" for nothing.
      new_text: what the model takes in prediction, "documents", "texts" or "questions"; see
        `runs.prediction_io`.
      served: the `ServedTask` that is the form of the model in a SavedModel.
      own_tasks: how it learns from data of the user's own, for each `--task` that it has for them.
      hugging_face_class, hugging_face_head, problem_type: see `TransformersForm`.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[BaseSettings]] = BaseSettings
    of_tokens: ClassVar[bool] = False
    has_probabilities: ClassVar[bool] = False
    calibration_name: ClassVar[str] = ""
    new_text: ClassVar[str]
    served: ClassVar[type[ServedTask]]
    own_tasks: ClassVar[tuple[OwnTask, ...]] = ()

    placeholder: Any = None
    num_outputs: int = 1

    def __init__(self, labels: Sequence[str] = (), settings: Any = None):
        self.labels = tuple(labels)
        self.settings = self.Settings() if settings is None else settings

    @classmethod
    def from_settings(cls, labels: Sequence[str], config: CommonSettings) -> Self:
        """Makes a task type of this class from the settings of a run.

        Args:
          labels: all labels, in the order of the model's outputs.
          config: all settings, a `FinetuningConfig`, with a group of the name of each type.

        Raises:
          ConfigError: a setting does not go with the labels or with the other settings.
        """
        cls.check_balance(config)
        return cls(labels, getattr(config, cls.name))

    def check_encoder(self, encoder_config: EncoderConfig, folder: str) -> None:
        """Checks that an encoder has what the task type's settings need; returns nothing.

        Args:
          encoder_config: the shape of the encoder.
          folder: the path of the encoder, for messages.

        Raises:
          ConfigError: it has not.
        """
        return

    def new_tokens(self, known: TrainedOn) -> tuple[str, ...]:
        """Returns texts that the task type adds to the vocabulary as tokens; by default none.

        Args:
          known: `trained_on` in `config.json`.
        """
        return ()

    # The model.

    def head_config(self, dropout_prob: float) -> HeadConfig:
        """Returns the shape of the task type's head: its outputs, layers, pooling and dropout.

        Args:
          dropout_prob: the probability of dropout before its last layer.
        """
        return HeadConfig(self.num_outputs, self.of_tokens, dropout_prob)

    # Training.

    @abc.abstractmethod
    def features(self, examples: Sequence, tokenizer: Tokenizer, length: int) -> Features:
        """Encodes the task type's examples for the model; a long one may become several windows.

        Args:
          examples: of this type.
          tokenizer: the tokenizer of the encoder.
          length: the most tokens of a window, with the special ones.

        Returns:
          The windows, in the order of the examples: int32 [tokens] of ids and segments for each,
          and its "targets", in `per_token` or `per_window`, whose shape and dtype the type chooses.

        Raises:
          TaskFileError: a text lacks the entities that a setting needs.
          ConfigError: a setting does not go with the tokenizer.
        """

    @abc.abstractmethod
    def losses(self, logits: Any, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the losses of the task type and their weights.

        The loss of a step is the sum of the losses, which `loss_reduction` "mean" divides by the
        sum of the weights.

        Args:
          logits: float32 [tokens, outputs] or [texts, outputs], as `TaskModel.call` returns them.
          batch: the arrays of `packing.fill`, with `targets`.

        Returns:
          The losses and the weights, float32 [tokens] or [windows] each; a CRF's are by row.
        """

    # Prediction.

    @abc.abstractmethod
    def outputs(self, logits: Any, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes the task type's outputs, which leave the device in prediction.

        Args:
          logits: float32 [tokens, outputs] or [windows, outputs], as `TaskModel.call` returns them.
          batch: the arrays of `packing.fill`.

        Returns:
          [tokens, ...] or [windows, outputs], float32; int32 [tokens] for tags.
        """

    def probabilities(self, logits: Any, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes how probable a type's outputs are, float32 [tokens]; arguments as of `outputs`.

        Raises:
          TypeError: the type has no probabilities, by `has_probabilities`.
        """
        raise TypeError(f"{self.name} has no probabilities beside its outputs.")

    @abc.abstractmethod
    def predictions(
        self, outputs: Sequence[np.ndarray], features: Any, examples: Sequence
    ) -> list[Any]:
        """Turns the task type's outputs for each window into one prediction for each example.

        Args:
          outputs: for each window [tokens, ...] or [outputs].
          features: of the examples, as `features` returns them.
          examples: the examples.

        Returns:
          One for each example, in the form of its label: a class, a number, labels, a tag for each
          word, or `answers.Answers`.
        """

    def calibrate(self, examples: Sequence, predicted: Sequence) -> float | None:
        """Computes what the type's predictions need beside the weights, a threshold; default None.

        Args:
          examples: of the development set.
          predicted: the prediction for each of the examples, before calibration.
        """
        return None

    def calibrated(self, predicted: Sequence, calibration: float | None) -> list[Any]:
        """Returns a type's predictions as its calibration changes them; by default as they are.

        Args:
          predicted: the prediction for each example.
          calibration: what `calibrate` returned.
        """
        return list(predicted)

    # Scores.

    @classmethod
    @abc.abstractmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        """Scores the task type's one answer to all test examples, which a model must exceed.

        Args:
          score: `Task.score`, (examples, predictions) -> `Scores`.
          dev: development examples, by which the answer is chosen.
          test: test examples.

        Returns:
          Which answer it is, such as "yes for every text", and its scores.

        Raises:
          ScoreError: there is no test example, or the answer cannot be scored.
          ValueError: there is no development example to choose by.
        """

    def more_scores(
        self,
        score: Score,
        examples: Sequence,
        predicted: Sequence,
        features: Any,
        outputs: Sequence[np.ndarray],
    ) -> dict[str, float]:
        """Returns further scores by name, where a setting of the task type asks for some; {} here.

        Args:
          score: `Task.score`, (examples, predictions) -> `Scores`.
          examples, predicted, features: the examples, a prediction for each, and their windows.
          outputs: for each window [tokens, ...] or [outputs].
        """
        return {}

    # Files.

    def describe_lengths(self, features: Sequence[Features], count: int, length: int) -> str:
        """Describes how many windows the task type sees long texts in, as one sentence.

        Args:
          features: of each split.
          count: the examples of all splits.
          length: the most tokens of a window.

        Returns:
          The sentence; "" if no text is longer than a window.
        """
        windows = sum(len(own.input_ids) for own in features)
        if windows == count:
            return ""
        return f"{count} texts are seen in {windows} windows of at most {length} tokens."

    @classmethod
    @abc.abstractmethod
    def content(cls, example: Any) -> tuple[list[str], list[str]]:
        """Returns an example's texts and labels in the task type's one form, to compare test sets.

        Two examples have the same content if they differ only in ids, in whitespace around texts,
        or in what stands for the entities of a relation.

        Args:
          example: of this type, as its file or `read_predictions` gives it.

        Returns:
          The texts, and the labels in an order that does not depend on the file.
        """

    @classmethod
    @abc.abstractmethod
    def describe(cls, examples: Sequence, predicted: Sequence) -> str:
        """Returns a line with the type's counts of examples, true labels and predicted ones."""

    @classmethod
    @abc.abstractmethod
    def write_predictions(
        cls, folder: str, split: str, examples: Sequence, predicted: Sequence, entity_type: str
    ) -> None:
        """Writes a split's predictions, with the true labels, in the files that the task type has.

        One is `predictions_file(split)`, which `read_predictions` reads; there may be others.

        Args:
          folder: the path of a trial's folder, where the files go.
          split: in their names.
          examples: with their labels.
          predicted: one for each.
          entity_type: the type of entities whose tags name none.

        Raises:
          OSError: a file cannot be written.
        """

    @classmethod
    def predictions_file(cls, split: str) -> str:
        """Returns the name in a trial's folder of the task type's file for `read_predictions`."""
        return f"{split}_predictions.tsv"

    @classmethod
    @abc.abstractmethod
    def read_predictions(cls, path: str) -> tuple[list[Any], list[Any]]:
        """Reads back what the same task type's `write_predictions` wrote.

        Args:
          path: of the file `predictions_file` in a trial's folder.

        Returns:
          The examples, without what the file does not hold, and the prediction for each.

        Raises:
          TaskFileError: the file cannot be read, or a line is not as it was written.
        """

    # What a model must know of its task when the task's files are not at hand.

    @classmethod
    def learnt_from(cls, examples: Sequence, entity_type: str) -> dict[str, Any]:
        """Returns fields of `TrainedOn`, name -> value, that a type takes from training examples.

        By default these are "pairs", True if an example has a second text, and "markers", False.

        Args:
          examples: of the training set.
          entity_type: the type of entities whose tags name none.
        """
        return {"pairs": any(getattr(x, "pair", "") for x in examples), "markers": False}

    def continues_head(self, before: dict[str, Any]) -> bool:
        """Returns True if a task of this type may start from the head that another task trained.

        By default no: outputs stand for labels, which differ from task to task.

        Args:
          before: the settings of the run that trained the head, as `config.json` has them.
        """
        return False

    # New text: of these a type has the one that goes with `new_text`.

    @classmethod
    def settings_for_new_text(cls, settings: Any) -> Any:
        """Returns the type's `Settings` for new text; by default those of training.

        Args:
          settings: those of training.
        """
        return settings

    def entities(
        self,
        outputs: Sequence[np.ndarray],
        features: Any,
        sentences: Sequence,
        places: Sequence[Sequence[tuple[int, int]]],
        entity_type: str,
    ) -> list[list[Entity]]:
        """Returns the entities of each sentence, in their order, if the task type has entities.

        Args:
          outputs: for each window what `outputs` gives, such as tagging's float32 [tokens, 2], the
            number of each token's tag and its probability.
          features: of the sentences.
          sentences: sentences without tags.
          places: for each word of each sentence its first character in the document, and the one
            behind its last; so are those of the entities.
          entity_type: the type of entities whose tags name none.

        Raises:
          TypeError: the type has no entities.
        """
        raise TypeError(f"{self.name} finds no entities.")

    def record(self, prediction: Any, output: np.ndarray) -> dict[str, Any]:
        """Returns the fields that `--mode=predict` writes of a text beside its id, name -> value.

        Args:
          prediction: for the text.
          output: [outputs], the outputs for the text.

        Raises:
          TypeError: the task type labels no texts.
        """
        raise TypeError(f"{self.name} labels no texts.")
