"""How a task type appears in `transformers`: the class, its head, and what its settings become."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tfbio.task_types.trained_on import TrainedOn

if TYPE_CHECKING:
    from tfbio.models.task_model import TaskModel


class TransformersForm(abc.ABC):
    """The form of a task type in Hugging Face's `transformers`, for models from and for it.

    Attributes:
      hugging_face_class: the end of the name of the `transformers` class, behind the family's name,
        such as "ForTokenClassification".
      hugging_face_head: the name of the head in that class where tokens have logits; "" where texts
        have, whose head each family names in its own way.
      problem_type: the `problem_type` in the `config.json` of `transformers`; "" for none.
      output_names: the names of the class's outputs: "logits" for all; or one for each logit.
      kept_settings: settings of the type that tfbio keeps in a converted model's `config.json`, and
        reads there, since predictions depend on them; `transformers` ignores them.
      labels: all labels, in the order of the model's outputs.
      settings: the type's `Settings` in use.
    """

    hugging_face_class: ClassVar[str]
    hugging_face_head: ClassVar[str] = "classifier"
    problem_type: ClassVar[str] = ""
    output_names: ClassVar[tuple[str, ...]] = ("logits",)
    kept_settings: ClassVar[tuple[str, ...]] = ()

    # As in `TaskType`.
    labels: tuple[str, ...]
    settings: Any

    def portable_settings(self) -> Any:
        """Returns the `Settings` of a model for `transformers`, without those that it lacks.

        They are about inputs and outputs. By default the result is `settings` as they are.
        """
        return self.settings

    def copy_head(self, model: TaskModel, portable: TaskModel) -> None:
        """Copies the last layer of a model into one for `transformers`, with `portable_settings`.

        Args:
          model: of this type, with its settings; its other weights are already in the other.
          portable: the other, which is changed in place and is to give the same predictions.
        """
        portable.head.set_weights(model.head.get_weights())

    @classmethod
    def fits_hugging_face(cls, said: dict[str, Any], labels: Sequence[str]) -> bool:
        """Returns True if a `transformers` model of `hugging_face_class` is of this task type.

        By default it is where its `problem_type` is this type's. A type without one takes all that
        are of no other type with the same class.

        Args:
          said: its `config.json`, name -> value.
          labels: its labels, in the order of the outputs.
        """
        return not cls.problem_type or said.get("problem_type") == cls.problem_type

    @classmethod
    @abc.abstractmethod
    def read_hugging_face(
        cls, folder: str, labels: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns what a model's `transformers` form tells of its task, and of the type's settings.

        Args:
          folder: the path of the model, for messages.
          labels: its labels, in the order of the outputs.

        Returns:
          Fields of `TrainedOn` (such as "labels", "pairs", "words"), and settings of the type that
          differ from the defaults, both by name.

        Raises:
          UserError: these cannot be labels of this type.
        """

    @classmethod
    def settings_of_family(cls, text_head: str) -> dict[str, Any]:
        """Returns the type's settings that the family of a `transformers` model implies.

        Args:
          text_head: the family's layer on the vector of a text: "linear", "tanh" or "gelu".

        Returns:
          name -> value; by default none.
        """
        return {}

    @classmethod
    def calibration_in(cls, said: dict[str, Any], folder: str) -> float | None:
        """Returns the calibration in the `config.json` of a model in `transformers` form.

        Args:
          said: the content of that file, name -> value.
          folder: the path of the model, for messages.

        Returns:
          The calibration, as `TaskType.calibrate` returns it; by default None, for nothing.

        Raises:
          UserError: it is not of the right type.
        """
        return None

    def hugging_face_labels(self, known: TrainedOn) -> list[str]:
        """Returns the names of the outputs for the `id2label` of a model in `transformers` form.

        Args:
          known: `trained_on` in `config.json`.

        Returns:
          The names, in the order of the outputs; by default the labels.
        """
        return list(self.labels)

    def pipeline_warning(self) -> str:
        """Returns a sentence (str) if the pipeline of `transformers` misreads outputs; else ""."""
        return ""
