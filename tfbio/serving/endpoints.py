"""The path at which a server answers for its model: /annotate, /label or /answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pydantic

from tfbio.api.results import Answer, Entity, Label


# The schema names these classes, so their names are without underscores.
class Entities(pydantic.BaseModel):
    """The answer of /annotate."""

    entities: list[list[Entity]] = pydantic.Field(
        description="For each text, in the order of the request, its entities by their starts."
    )


class LabelOrScore(pydantic.BaseModel):
    """The label or score of a text or pair."""

    label: str | list[str] | float = pydantic.Field(
        description="The label; a list, of a model that gives any number; or the score."
    )
    probabilities: dict[str, float] = pydantic.Field(
        description="The probability of each label; empty beside a score."
    )


class Labels(pydantic.BaseModel):
    """The answer of /label."""

    labels: list[LabelOrScore] = pydantic.Field(
        description="For each text or pair, in the order of the request, its label or score."
    )


class Answers(pydantic.BaseModel):
    """The answer of /answer."""

    answers: list[Answer] = pydantic.Field(
        description="For each question, in the order of the request, its answer."
    )


class Endpoint(NamedTuple):
    """A path to which texts are sent.

    Attributes:
      path: such as "/annotate".
      summary: what it does, for the schema.
      fields: the field of a request's body, or those of which it has one; see `request_body`.
      answer: the schema of the answer.
      content: returns the answer, for JSON, from the list of the model's results.
    """

    path: str
    summary: str
    fields: tuple[str, ...]
    answer: type[pydantic.BaseModel]
    content: Callable[[Sequence], dict[str, Any]]


def _entities(results: Sequence[Sequence[Entity]]) -> dict[str, Any]:
    return {"entities": [[dataclasses.asdict(entity) for entity in each] for each in results]}


def _labels(results: Sequence[Label | float]) -> dict[str, Any]:
    return {
        "labels": [
            {"label": each, "probabilities": {}}
            if isinstance(each, float)
            else dataclasses.asdict(each)
            for each in results
        ]
    }


def _answers(results: Sequence[Answer]) -> dict[str, Any]:
    return {"answers": [dataclasses.asdict(each) for each in results]}


ANNOTATE = Endpoint("/annotate", "Find the entities of texts", ("texts",), Entities, _entities)
_LABEL = Endpoint("/label", "Label texts or pairs of texts", ("texts",), Labels, _labels)
_ANSWER = Endpoint(
    "/answer", "Answer questions from their contexts", ("questions",), Answers, _answers
)


def for_model(predicts: str, pairs: bool | None) -> Endpoint:
    """Returns the endpoint of a model.

    Args:
      predicts: what the model's calls return, see `tfbio.api.loading.Model.predicts`.
      pairs: True if it labels pairs, False if it labels texts, and None if that is not known, as of
        a model from elsewhere: its endpoint takes both.

    Raises:
      KeyError: the model has no head.
    """
    endpoint = {"entities": ANNOTATE, "labels": _LABEL, "answers": _ANSWER}[predicts]
    if predicts != "labels" or pairs is False:
        return endpoint
    return endpoint._replace(fields=("pairs",) if pairs else ("texts", "pairs"))
