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
      hugging_face_class: the end of the name of the `transformers` class, behind the family's name,
        such as "ForTokenClassification".
      hugging_face_head: the name of the head in that class where tokens have logits; "" where texts
        have, whose head each family names in its own way.
      problem_type: the `problem_type` in the `config.json` of `transformers`; "" for none.
      labels: all labels, in the order of the model's outputs.
      settings: the type's `Settings` in use.
    """

    hugging_face_class: ClassVar[str]
    hugging_face_head: ClassVar[str] = "classifier"
    problem_type: ClassVar[str] = ""

    # As in `TaskType`.
    labels: tuple[str, ...]
    settings: Any

    def portable_settings(self) -> Any:
        """Returns the `Settings` without those of inputs and outputs that other programs lack.

        By default these are `settings` as they are.
        """
        return self.settings

    def copy_head(self, model: TaskModel, portable: TaskModel) -> None:
        """Gives the last layer of a model with `portable_settings` this type's weights, in place.

        Args:
          model: of this type, with its settings; its other weights are already in the other.
          portable: the other, which is to give the same predictions.
        """
        portable.head.set_weights(model.head.get_weights())

    @classmethod
    def fits_hugging_face(cls, said: dict[str, Any], labels: Sequence[str]) -> bool:
        """Returns True if a model of `hugging_face_class` is of this type.

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
        """Returns what a model from elsewhere knows of its task, and the type's settings for it.

        Args:
          folder: of the model, for messages.
          labels: its labels, in the order of the outputs.

        Returns:
          Fields of `TrainedOn` (such as "labels", "pairs", "words"), and settings of the type that
          differ from the defaults, both by name.

        Raises:
          UserError: these cannot be labels of this type.
        """

    @classmethod
    def settings_of_family(cls, text_head: str) -> dict[str, Any]:
        """Returns the settings, name -> value, that the family of a model implies; by default none.

        Args:
          text_head: the family's layer on the vector of a text: "linear", "tanh" or "gelu".
        """
        return {}

    @classmethod
    def calibration_in(cls, said: dict[str, Any], folder: str) -> float | None:
        """Returns the calibration in a model's `config.json`; by default None, for nothing.

        Args:
          said: the content of that file.
          folder: of the model, for messages.

        Raises:
          UserError: it is not of the right type.
        """
        return None

    def hugging_face_labels(self, known: TrainedOn) -> list[str]:
        """Returns the names of the outputs for `id2label`, in their order; by default the labels.

        Args:
          known: `trained_on` in `config.json`.
        """
        return list(self.labels)
