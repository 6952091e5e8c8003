"""The examples of tasks: tagged sentences, labelled texts and questions, with their labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator

from tfbio.base.cli import UserError

# A file, and the number of a line or what else tells the place in it.
Where = tuple[str, int | str]


class TaskFileError(UserError):
    """A task's file that is missing or not as its format says."""


@dataclasses.dataclass(frozen=True)
class TaggedSentence:
    """The words of a sentence and the tag of each; the number of its first line is its id.

    `document` is what the sentence is a part of, where the file says it.
    """

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    document: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)

    def labels_by_line(self) -> Iterator[tuple[int, str]]:
        """Yields the line after the first, and the type, of each tag ("" where it has none)."""
        tags = enumerate(self.tags)
        yield from ((i, tag.partition("-")[2]) for i, tag in tags if tag != "O")


@dataclasses.dataclass(frozen=True)
class LabelledText:
    """A text, or a pair of texts, with a class, a score, or all labels that hold.

    `document` is what the text is a part of, where the score is by document (HoC).
    """

    id: str
    text: str
    label: str | float | tuple[str, ...]
    pair: str = ""
    document: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)

    def labels_by_line(self) -> Iterator[tuple[int, str]]:
        """Yields 0 and the label, for each label; a score is none."""
        if not isinstance(self.label, float):
            labels = (self.label,) if isinstance(self.label, str) else self.label
            yield from ((0, label) for label in labels)


@dataclasses.dataclass(frozen=True)
class Question:
    """A question on a context, the accepted answers and the first character of each in it.

    There are no answers where the context holds none (SQuAD v2.0) or where they are to be found (a
    test file). The first character is -1 where it is not known. `question_id` is the question's
    where it has several contexts (BioASQ).
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...]
    answer_starts: tuple[int, ...]
    question_id: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)

    def labels_by_line(self) -> Iterator[tuple[int, str]]:
        """Yields nothing: answers are no labels."""
        return iter(())


Example = TaggedSentence | LabelledText | Question


def labels_of(examples: Iterable[Example]) -> tuple[str, ...]:
    """Returns the labels in use, sorted."""
    return tuple(sorted({label for x in examples for _, label in x.labels_by_line()}))


def mistake(where: Where, message: str) -> TaskFileError:
    """Returns the error that names a file, a place in it, and what is wrong there."""
    return TaskFileError(f"{where[0]}, {place_of(where)}: {message}.")


def place_of(where: Where) -> str:
    """Returns the place in a file as messages name it."""
    return f"line {where[1]}" if isinstance(where[1], int) else where[1]


def listed(names: Collection[str]) -> str:
    """Returns the first 20 names, quoted, for a message."""
    return ", ".join([repr(name) for name in names][:20]) + ", ..." * (len(names) > 20)
