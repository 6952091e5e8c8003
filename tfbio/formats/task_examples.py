"""The examples of tasks: tagged sentences, labelled texts and questions, with their labels."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection, Iterable, Iterator

from tfbio.base.cli import UserError

# A file, and the number of a line or what else tells the place in it.
Where = tuple[str, int | str]


class TaskFileError(UserError):
    """An error of a task's file that is missing or not as its format says."""


class Example(abc.ABC):
    """One row of a data set, with its labels.

    Attributes:
      id: tells it from the other examples of its split.
      where: its place in the task's files, for messages: the path, and the number of a line from 1
        or a text.
    """

    id: str
    where: Where

    @abc.abstractmethod
    def numbered_labels(self) -> Iterator[tuple[int, str]]:
        """Yields each label that must also stand in the training set, with its place before it.

        The place is the number of the word that has the label, counted from 0; or 0.
        """


@dataclasses.dataclass(frozen=True)
class TaggedSentence(Example):
    """A sentence as words, with a tag for each.

    Attributes:
      id: the number of its first line.
      words: its words, a tuple of texts.
      tags: a tag for each word, such as "B-Chemical" or "O".
      document: the id of the document that it is a part of; "" where the file does not say it.
      where: its place in the task's files, for messages: the path, and the number of a line from 1.
    """

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    document: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)

    def numbered_labels(self) -> Iterator[tuple[int, str]]:
        """Yields the word's number, from 0, and the type ("" without one) of each tag but O."""
        tags = enumerate(self.tags)
        yield from ((i, tag.partition("-")[2]) for i, tag in tags if tag != "O")


@dataclasses.dataclass(frozen=True)
class LabelledText(Example):
    """A text, or a pair of texts, with a class, a score, or all labels that hold.

    Attributes:
      id: its id.
      text: the text, or the first one of a pair.
      label: the class (a text), the score (a float), or the labels (a tuple of texts).
      pair: the second text of a pair; "" for a single text.
      document: the id of the document that the text is a part of, where scores are by document
        (HoC).
      where: its place in the task's files, for messages: the path, and the number of a line from 1.
    """

    id: str
    text: str
    label: str | float | tuple[str, ...]
    pair: str = ""
    document: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)

    def numbered_labels(self) -> Iterator[tuple[int, str]]:
        """Yields `(0, name)` for the class or for each of the labels; nothing for a score."""
        if not isinstance(self.label, float):
            names = (self.label,) if isinstance(self.label, str) else self.label
            yield from ((0, name) for name in names)


@dataclasses.dataclass(frozen=True)
class Question(Example):
    """A question on a context, with its accepted answers.

    Attributes:
      id: its id.
      question: the text of the question.
      context: the text that has the answer, or has none.
      answers: the accepted answers, a tuple of texts; () where the context has no answer (SQuAD
        v2.0), or where the file does not tell them (a test file).
      answer_starts: for each answer its first character in the context; -1 where it is not known.
      question_id: the id of the question where it has several contexts (BioASQ).
      where: its place in the task's files, for messages: the path, and a text.
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...]
    answer_starts: tuple[int, ...]
    question_id: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)

    def numbered_labels(self) -> Iterator[tuple[int, str]]:
        """Yields nothing: answers differ from question to question."""
        return iter(())


def labels_of(examples: Iterable[Example]) -> tuple[str, ...]:
    """Returns the labels of examples as a sorted tuple, each once.

    They are the types of tags, the classes or the labels; scores and answers are no labels.
    """
    return tuple(sorted({name for example in examples for _, name in example.numbered_labels()}))


def mistake(where: Where, message: str) -> TaskFileError:
    """Returns (does not raise) the `TaskFileError` "PATH, PLACE: MESSAGE." for a place in a file.

    Args:
      where: the path, and the number of a line or a text.
      message: the fault, without a full stop.
    """
    return TaskFileError(f"{where[0]}, {place_of(where)}: {message}.")


def place_of(where: Where) -> str:
    """Returns the place in a file as messages name it: "line 3", or the text that tells it."""
    return f"line {where[1]}" if isinstance(where[1], int) else where[1]


def listed(names: Collection[str]) -> str:
    """Returns the first 20 names as one text for a message: quoted, with commas between."""
    return ", ".join([repr(name) for name in names][:20]) + ", ..." * (len(names) > 20)
