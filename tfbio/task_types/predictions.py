"""Writes and reads the files of predictions in a trial's folder."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from tfbio.base import schema, storage
from tfbio.formats.entities import Entity
from tfbio.formats.task_examples import (
    LabelledText,
    Question,
    TaggedSentence,
    TaskFileError,
)
from tfbio.formats.task_files import HOC_HEADER, hoc_labels
from tfbio.task_types import answers, tag_schemes

Line = TypeVar("Line")


@dataclasses.dataclass(frozen=True)
class EntitiesLine:
    """A line of `SPLIT_entities.jsonl`: a sentence with its entities.

    Attributes:
      id: the number of the sentence's first line in the task's file.
      document: the id of its document; "" where the task's files do not say it.
      text: its words, joined by blanks.
      gold: the true entities, each {"type", "start", "end"}, in characters of the text.
      predicted: the predicted entities, in the same form.
    """

    id: str
    document: str
    text: str
    gold: list[dict[str, Any]]
    predicted: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Answer:
    """A predicted answer.

    Attributes:
      text: the answer.
      probability: its probability among the best answers.
    """

    text: str
    probability: float


@dataclasses.dataclass(frozen=True)
class AnswersLine:
    """A line of `SPLIT_answers.jsonl`: a question on a context.

    Attributes:
      id: the id of the example.
      question_id: the id of the question where it has several contexts (BioASQ), else "".
      question: the question.
      gold: the accepted answers; none if the context has no answer.
      predicted: the best answers; none if the model says that there is no answer.
      null_odds: by how much "no answer" scores higher than the best answer, in logits.
    """

    id: str
    question_id: str
    question: str
    gold: list[str]
    predicted: list[Answer]
    null_odds: float


def entities(
    tags: Sequence[str],
    spans: Sequence[tuple[int, int]],
    entity_type: str,
    probabilities: Sequence[float] | None = None,
) -> list[Entity]:
    """Returns the entities of a sentence by the rule of `tag_schemes.entities`, in order.

    Args:
      tags: the BIO tag of each word.
      spans: the first character of each word in a text, and the one behind its last.
      entity_type: the type of entities whose tags name none.
      probabilities: of each word's tag, of which an entity's score is the product, rounded to 6
        digits; without them entities have no score.

    Raises:
      ScoreError: a tag is not of the BIO scheme.
    """

    def score(first: int, last: int) -> float | None:
        if probabilities is None:
            return None
        return round(math.prod(probabilities[first : last + 1]), 6)

    tagged = sorted(tag_schemes.entities(tags), key=lambda entity: entity[1:])
    return [
        Entity(
            entity_type if named == "_" else named,
            spans[first][0],
            spans[last][1],
            score(first, last),
        )
        for named, first, last in tagged
    ]


def listed(counts: Counter[str]) -> str:
    """Returns "120 false, 9 '1'": how often each name is there, the most frequent first."""
    # GAD's labels are 0 and 1, and "293 1" would be read as one number.
    names = {name: f"'{name}'" if name[:1].isdigit() else name for name in counts}
    return ", ".join(f"{count:,} {names[name]}" for name, count in counts.most_common())


def write_entities(
    folder: str,
    split: str,
    sentences: Sequence[TaggedSentence],
    predicted: Sequence[Sequence[str]],
    entity_type: str,
) -> None:
    """Writes `SPLIT_entities.jsonl`, an `EntitiesLine` for each sentence.

    The files of the tasks have no text: it is the words, joined by blanks.

    Args:
      folder: where the file goes.
      split: in its name.
      sentences: with the gold tags.
      predicted: tags of each sentence.
      entity_type: what tags without a type stand for.
    """

    def lines() -> Iterator[EntitiesLine]:
        for sentence, tags in zip(sentences, predicted, strict=True):
            ends = accumulate(map(len, sentence.words), lambda end, length: end + 1 + length)
            spans = [(end - len(word), end) for word, end in zip(sentence.words, ends, strict=True)]
            gold, ours = (
                [entity.as_dict() for entity in entities(own, spans, entity_type)]
                for own in (sentence.tags, tags)
            )
            text = " ".join(sentence.words)
            yield EntitiesLine(sentence.id, sentence.document, text, gold, ours)

    _write_lines(os.path.join(folder, f"{split}_entities.jsonl"), lines())


def read_entities(path: str) -> list[EntitiesLine]:
    """Reads the `SPLIT_entities.jsonl` that `write_entities` wrote, an `EntitiesLine` a line.

    Raises:
      TaskFileError: it cannot be read, or a line is not so.
    """
    return _read_lines(path, EntitiesLine)


def write_words(
    folder: str,
    split: str,
    sentences: Sequence[TaggedSentence],
    predicted: Sequence[Sequence[str]],
) -> None:
    """Writes `SPLIT_predictions.tsv`: a line of word, tag and predicted tag for each word.

    An empty line follows each sentence, as the CoNLL shared tasks' `conlleval -d '\\t'` reads them.

    Args:
      folder: where the file goes.
      split: in its name.
      sentences: with the gold tags.
      predicted: tags of each sentence.
    """
    lines: list[str] = []
    for sentence, tags in zip(sentences, predicted, strict=True):
        lines += map("\t".join, zip(sentence.words, sentence.tags, tags, strict=True))
        lines.append("")
    path = os.path.join(folder, f"{split}_predictions.tsv")
    storage.write_text(path, "\n".join(lines) + "\n")


def read_words(path: str) -> tuple[list[TaggedSentence], list[tuple[str, ...]]]:
    """Reads the file of `write_words`.

    Returns:
      The sentences, with the number of their first line as their id, and each one's predicted tags.

    Raises:
      TaskFileError: it cannot be read, or a line is not so.
    """
    sentences, predicted = [], []
    lines, first = _lines(path), 0
    for number, line in enumerate(lines):
        if line:
            continue
        with _naming(path, number, line):
            rows = (row.split("\t") for row in lines[first:number])
            words, tags, ours = zip(*rows, strict=True)
            sentences.append(TaggedSentence(str(first + 1), words, tags))
            predicted.append(ours)
        first = number + 1
    return sentences, predicted


def write_texts(
    folder: str,
    split: str,
    texts: Sequence[LabelledText],
    predicted: Sequence,
    cell: Callable[[Any], str],
) -> None:
    """Writes `SPLIT_predictions.tsv`: a line for each text, below a header.

    The columns are id, label, predicted and text, and where some text has them pair and document.

    Args:
      folder: where the file goes.
      split: in its name.
      texts: with their labels.
      predicted: the label, score or labels of each.
      cell: label -> how it is written.
    """
    optional = [x for x in ("pair", "document") if any(getattr(y, x) for y in texts)]
    lines = ["\t".join(["id", "label", "predicted", "text", *optional])]
    for text, label in zip(texts, predicted, strict=True):
        columns = [text.id, cell(text.label), cell(label), text.text]
        lines.append("\t".join(columns + [getattr(text, name) for name in optional]))
    path = os.path.join(folder, f"{split}_predictions.tsv")
    storage.write_text(path, "\n".join(lines) + "\n")


def read_texts(path: str, label_in: Callable[[str], Any]) -> tuple[list[LabelledText], list]:
    """Reads the file of `write_texts`.

    Args:
      path: of the file.
      label_in: reads what `cell` of `write_texts` wrote, or raises ValueError.

    Returns:
      The texts, with the number of their line as their id, and the predicted label of each.

    Raises:
      TaskFileError: it cannot be read, or a line is not so.
    """
    texts, predicted = [], []
    lines = _lines(path)
    header = lines[0].split("\t") if lines else []
    for number, line in enumerate(lines[1:], start=1):
        with _naming(path, number, line):
            row = dict(zip(header, line.split("\t"), strict=True))
            label, ours = (label_in(row[name]) for name in ("label", "predicted"))
            document = row.get("document", row["id"])
            pair = row.get("pair", "")
            texts.append(LabelledText(str(number), row["text"], label, pair, document))
            predicted.append(ours)
    return texts, predicted


def write_hallmarks(
    path: str, sentences: Sequence[LabelledText], predicted: Sequence[Sequence[str]]
) -> None:
    """Writes the predicted hallmarks to `path` in the form of HoC's own files, for `read_hoc`."""
    rows = [(hoc_labels(own), x.text, x.id) for x, own in zip(sentences, predicted, strict=True)]
    storage.write_text(path, "".join("\t".join(row) + "\n" for row in (HOC_HEADER, *rows)))


def write_answers(
    folder: str, split: str, questions: Sequence[Question], predicted: Sequence[answers.Answers]
) -> None:
    """Writes the answers as the official scripts read them, and beside the gold answers.

    `SPLIT_predictions.json` is SQuAD's {id: answer}, with `SPLIT_null_odds.json`, {id: null odds},
    where some questions have no answer; or, for BioASQ's factoid questions, {"questions": [{"id",
    "type", "exact_answer": [[best], [second], ...]}]}. `SPLIT_answers.jsonl` has an `AnswersLine`
    for each question on each context.

    Args:
      folder: where the files go.
      split: in their names.
      questions: with their answers.
      predicted: for each.
    """
    path = os.path.join(folder, f"{split}_answers.jsonl")
    _write_gold_answers(path, questions, predicted)
    best: dict[str, object] = {x.id: own.best for x, own in zip(questions, predicted, strict=True)}
    if questions[0].question_id:
        best = {
            "questions": [
                {"id": name, "type": "factoid", "exact_answer": [[text] for text in texts]}
                for name, texts in answers.merged(questions, predicted).items()
            ]
        }
    elif not all(question.answers for question in questions):
        odds = {x.id: own.null_odds for x, own in zip(questions, predicted, strict=True)}
        _write_json(folder, f"{split}_null_odds.json", odds)
    _write_json(folder, f"{split}_predictions.json", best)


def _write_gold_answers(
    path: str, questions: Sequence[Question], predicted: Sequence[answers.Answers]
) -> None:
    """Writes `SPLIT_answers.jsonl`, see `write_answers`."""

    def lines() -> Iterator[AnswersLine]:
        for question, own in zip(questions, predicted, strict=True):
            best = list(map(Answer, own.texts, own.probabilities))
            gold = list(question.answers)
            yield AnswersLine(
                question.id, question.question_id, question.question, gold, best, own.null_odds
            )

    _write_lines(path, lines())


def _write_lines(path: str, lines: Iterable[Any]) -> None:
    """Writes dataclasses as lines of JSON."""
    records = (json.dumps(dataclasses.asdict(line), ensure_ascii=False) for line in lines)
    storage.write_text(path, "".join(f"{record}\n" for record in records))


def _read_lines(path: str, line_type: type[Line]) -> list[Line]:
    """Reads what `_write_lines` wrote, or raises a TaskFileError; `line_type` is a dataclass."""
    read = []
    for number, line in enumerate(_lines(path)):
        with _naming(path, number, line):
            read.append(schema.parse(line_type, json.loads(line), path, "run the run again"))
    return read


def _write_json(folder: str, name: str, content: dict) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    storage.write_text(os.path.join(folder, name), text + "\n")


def read_answers(path: str) -> tuple[list[Question], list[answers.Answers]]:
    """Reads the `SPLIT_answers.jsonl` that `write_answers` wrote.

    Returns:
      The questions, with "" as their context, and the predicted answers to each.

    Raises:
      TaskFileError: it cannot be read, or a line is not so.
    """
    lines = _read_lines(path, AnswersLine)
    return [_question_of(line) for line in lines], [_answers_of(line) for line in lines]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_bytes().decode().split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise TaskFileError(f"{path} cannot be read: {storage.reason(error)}.") from error


@contextlib.contextmanager
def _naming(path: str, number: int, line: str) -> Iterator[None]:
    """Names the line, counted from 0, that cannot be read."""
    try:
        yield
    except (ValueError, KeyError, TypeError, RecursionError, schema.SchemaError) as error:
        raise TaskFileError(
            f"{path}, line {number + 1}: expected predictions as run_finetuning.py writes them, "
            f"found {line!r:.60}: run the run again."
        ) from error


def read_ids(path: str) -> list[str]:
    """Returns the ids of the texts in a file that `write_texts` wrote, in its order.

    Raises:
      OSError: the file cannot be read.
    """
    rows = Path(path).read_bytes().decode().split("\n")[1:-1]
    return [row.partition("\t")[0] for row in rows]


def _question_of(line: AnswersLine) -> Question:
    """Returns the question of a line, without its context."""
    unknown = (-1,) * len(line.gold)
    return Question(line.id, line.question, "", tuple(line.gold), unknown, line.question_id)


def _answers_of(line: AnswersLine) -> answers.Answers:
    """Returns the predicted answers of a line."""
    texts, shares = ([getattr(x, y) for x in line.predicted] for y in ("text", "probability"))
    return answers.Answers(tuple(texts), tuple(shares), line.null_odds)
