"""The examples of tasks: tagged sentences, labelled texts and questions, with their labels."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator

from tfbio.formats.task_file_errors import Where


class Example(abc.ABC):
    """The base class of a task's examples: one row of a data set, with its labels.

    Attributes:
      id: str that tells it from the other examples of its split.
      where: its place in the task's files, for messages: a tuple of the path, and the number of a
        line from 1 or a str.
    """

    id: str
    where: Where

    @abc.abstractmethod
    def numbered_labels(self) -> Iterator[tuple[int, str]]:
        """Yields a task example's labels, which "train" must also have, with their places.

        Each is a pair: the number of the word that has the label, counted from 0 (0 if no word has
        it), and the label.
        """


@dataclasses.dataclass(frozen=True)
class TaggedSentence(Example):
    """An example of a tagging task: a sentence as words, with a tag for each.

    Attributes:
      id: the number of its first line, as a str.
      words: its words, a tuple of str.
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
        """Yields a pair for each tag of a task's example: the word's number, from 0, and the type.

        A tag O is passed over; the type of a tag without one is "".
        """
        tags = enumerate(self.tags)
        yield from ((i, tag.partition("-")[2]) for i, tag in tags if tag != "O")


@dataclasses.dataclass(frozen=True)
class LabelledText(Example):
    """A task's example with a text or a pair of texts, and a class, a score or several labels.

    Attributes:
      id: tells it from the other examples of its split.
      text: the text, or the first one of a pair.
      label: the class (a str), the score (a float), or the labels (a tuple of str).
      pair: the second text of a pair; "" for a single text.
      document: the id of the document that the text is a part of, where scores are by document
        (HoC); else "".
      where: its place in the task's files, for messages: the path, and the number of a line from 1.
    """

    id: str
    text: str
    label: str | float | tuple[str, ...]
    pair: str = ""
    document: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)

    def numbered_labels(self) -> Iterator[tuple[int, str]]:
        """Yields `(0, label)` for a task example's class or labels, and nothing for a score."""
        if not isinstance(self.label, float):
            names = (self.label,) if isinstance(self.label, str) else self.label
            yield from ((0, name) for name in names)


@dataclasses.dataclass(frozen=True)
class Question(Example):
    """A task's example for question answering in any format: a question, context and answers.

    Attributes:
      id: tells it from the other examples of its split.
      question: the text of the question.
      context: the text that has the answer, or has none.
      answers: the accepted answers, a tuple of str; () where the context has no answer (SQuAD
        v2.0), or where the file does not tell them (a test file).
      answer_starts: for each answer the offset of its first character in the context, or -1 if it
        is not known.
      question_id: the id of the question where it has several contexts (BioASQ); else "".
      where: its place in the task's files, for messages: the path, and a str.
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...]
    answer_starts: tuple[int, ...]
    question_id: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)

    def numbered_labels(self) -> Iterator[tuple[int, str]]:
        """Yields nothing: a task's example that is a question has answers, and no labels."""
        return iter(())
