"""The entities, labels and answers that a model called from Python returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfbio.api import streams
from tfbio.formats.annotated_documents import Document
from tfbio.formats.task_examples import LabelledText, Question

if TYPE_CHECKING:
    from tfbio.runs.predictor import Predictor


@dataclasses.dataclass(frozen=True)
class Entity:
    """An entity in a text, as a model called from Python returns it.

    Attributes:
      text: its characters, `text[start:end]` of the whole text.
      label: its type, such as "Chemical".
      start: the offset of its first character, counted from 0.
      end: the offset of the character behind its last.
      score: the product of the probabilities of its words' tags, from 0 to 1.

    Examples:
      >>> dataclasses.asdict(Entity("Imatinib", "Chemical", 0, 8, 0.99))
      {'text': 'Imatinib', 'label': 'Chemical', 'start': 0, 'end': 8, 'score': 0.99}
    """

    text: str
    label: str
    start: int
    end: int
    score: float | None


@dataclasses.dataclass(frozen=True)
class Label:
    """The label of a text or pair, as a model called from Python returns it.

    Attributes:
      label: the class with the highest probability; of a model that gives a text any number of
        labels, the tuple of those whose probability is above 0.5.
      probabilities: a dict of each label -> its probability.

    Examples:
      >>> found = Label("yes", {"no": 0.2, "yes": 0.8})
      >>> found.probabilities[found.label]
      0.8
    """

    label: str | tuple[str, ...]
    probabilities: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer to a question in a context, as a model called from Python returns it.

    Attributes:
      text: the best answer, a part of the context; "" if the context has none.
      score: the probability of `text` among the best answers; None if there is none.
      null_odds: the score of "no answer" less that of the best answer, in logits.
      best: pairs of a text and its probability, the best first.

    Examples:
      >>> found = Answer("BCR-ABL", 0.9, -4.0, (("BCR-ABL", 0.9), ("ABL", 0.1)))
      >>> [text for text, probability in found.best]
      ['BCR-ABL', 'ABL']
    """

    text: str
    score: float | None
    null_odds: float
    best: tuple[tuple[str, float], ...]


def annotate(predictor: Predictor, documents: Iterable[Document]) -> list[tuple[Document, list]]:
    """Returns pairs of a document and its entities, as files have them."""
    return list(predictor.annotate(documents))


def _entities(predictor: Predictor, items: Sequence) -> list[list[Entity]]:
    """Returns the entities of each text or document."""
    return [
        [Entity(document.text[x.start : x.end], *x) for x in entities]
        for document, entities in annotate(predictor, [streams.document_of(x) for x in items])
    ]


def _labels(predictor: Predictor, items: Sequence) -> list[Label | float]:
    """Returns the label or the score of each text or pair."""
    pairs = predictor.known.pairs
    examples = []
    for item in items:
        is_pair = isinstance(item, tuple)
        if pairs not in (None, is_pair):
            wanted = "tuples (text, text)" if pairs else "a text each"
            raise TypeError(f"this model needs {wanted}, and this is {streams.shown(item)}.")
        text, pair = streams.two_texts(item) if is_pair else (streams.text_of(item), "")
        examples.append(LabelledText("", text, "", pair))
    return [
        _label_of(record["label"], record.get("probabilities", {}))
        for record in predictor.label(examples)
    ]


def _label_of(label: Any, probabilities: Mapping[str, float]) -> Label | float:
    """Returns the `Label`, or the score where it is one."""
    if isinstance(label, float):
        return label
    return Label(label if isinstance(label, str) else tuple(label), probabilities)


def _answers(predictor: Predictor, items: Sequence) -> list[Answer]:
    """Returns the answer to each pair of a question and a context."""
    # Their ids tell the questions from each other.
    questions = [
        Question(str(number), *streams.two_texts(item), (), ()) for number, item in enumerate(items)
    ]
    return [
        Answer(
            own.best,
            own.probabilities[0] if own.texts else None,
            own.null_odds,
            tuple(zip(own.texts, own.probabilities, strict=True)),
        )
        for own in predictor.answer(questions)
    ]


# By the form of new text, see `TrainedOn.new_text`: what a model predicts, and how.
PREDICTIONS = {"documents": "entities", "texts": "labels", "questions": "answers"}
PREDICT = {"documents": _entities, "texts": _labels, "questions": _answers}
