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


Example = TaggedSentence | LabelledText | Question


def labels_of(examples: Iterable[Example]) -> tuple[str, ...]:
    """The labels in use, sorted: of tags the types ("" where B has none), of scores nothing."""
    return tuple(sorted({label for example in examples for _, label in labels_in(example)}))


def labels_in(example: Example) -> Iterator[tuple[int, str]]:
    """(number of the word or 0, label) for each label of an example."""
    if isinstance(example, TaggedSentence):
        tags = enumerate(example.tags)
        yield from ((i, tag.partition("-")[2]) for i, tag in tags if tag != "O")
    elif isinstance(example, LabelledText) and not isinstance(example.label, float):
        labels = (example.label,) if isinstance(example.label, str) else example.label
        yield from ((0, label) for label in labels)


def mistake(where: Where, message: str) -> TaskFileError:
    """Returns the error that names a file, a place in it, and what is wrong there."""
    return TaskFileError(f"{where[0]}, {place_of(where)}: {message}.")


def place_of(where: Where) -> str:
    """Returns the place in a file as messages name it."""
    return f"line {where[1]}" if isinstance(where[1], int) else where[1]


def listed(names: Collection[str]) -> str:
    """Returns the first 20 names, quoted, for a message."""
    return ", ".join([repr(name) for name in names][:20]) + ", ..." * (len(names) > 20)
