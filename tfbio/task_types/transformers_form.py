"""How a task type appears in `transformers`: the class, its head, and what its settings become."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tfbio.task_types.finetuning_files import TrainedOn

if TYPE_CHECKING:
    from tfbio.models.task_model import TaskModel


class TransformersForm(abc.ABC):
    """The part of a task type that models from and for `transformers` need.

    Attributes:
      hugging_face_class: what follows the family's name in the name of the `transformers` class.
      hugging_face_head: the name of the head in that class where tokens have logits; "" where texts
        have, whose head each family names in its own way.
      problem_type: the `problem_type` in the `config.json` of `transformers`; "" for none.
    """

    hugging_face_class: ClassVar[str]
    hugging_face_head: ClassVar[str] = "classifier"
    problem_type: ClassVar[str] = ""

    # As in `TaskType`.
    labels: tuple[str, ...]
    settings: Any

    def portable_settings(self) -> Any:
        """Returns the settings without those of inputs and outputs that other programs lack."""
        return self.settings

    def copy_head(self, model: TaskModel, portable: TaskModel) -> None:
        """Gives the last layer of a model with `portable_settings` the weights of this type's.

        Args:
          model: of this type, with its settings; its other weights are already in the other.
          portable: the other, which is to give the same predictions.
        """
        portable.head.set_weights(model.head.get_weights())

    @classmethod
    def fits_hugging_face(cls, said: dict[str, Any], labels: Sequence[str]) -> bool:
        """Returns whether a model of `hugging_face_class` is of this type.

        By default it is where its `problem_type` is this type's. A type without one takes all that
        are of no other type with the same class.

        Args:
          said: its `config.json`.
          labels: its labels, in the order of the outputs.
        """
        return not cls.problem_type or said.get("problem_type") == cls.problem_type

    @classmethod
    @abc.abstractmethod
    def read_hugging_face(
        cls, folder: str, labels: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns fields of `TrainedOn` for a model from elsewhere, and the type's settings for it.

        Args:
          folder: of the model, for messages.
          labels: its labels, in the order of the outputs.

        Raises:
          UserError: these cannot be labels of this type.
        """

    @classmethod
    def settings_of_family(cls, text_head: str) -> dict[str, Any]:
        """Returns the settings that the family of a model of `hugging_face_class` implies.

        Args:
          text_head: the family's layer on the vector of a text, see `FinetuningConfig.text_head`.
        """
        return {}

    @classmethod
    def calibration_in(cls, said: dict[str, Any], folder: str) -> float | None:
        """Returns what a model's `config.json` says in place of `calibrate`.

        Args:
          said: the content of that file.
          folder: of the model, for messages.

        Raises:
          UserError: it is not of the right type.
        """
        return None

    def hugging_face_labels(self, known: TrainedOn) -> list[str]:
        """Returns the names of the outputs for `id2label`.

        Args:
          known: `trained_on` in `config.json`.
        """
        return list(self.labels)
