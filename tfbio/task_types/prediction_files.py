"""Writes and reads the files of predictions in a trial's folder."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from tfbio.base import json_files, messages, storage
from tfbio.formats.annotated_documents import Entity
from tfbio.formats.task_examples import LabelledText, Question, TaggedSentence
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.task_types import answers, tag_schemes

_Line = TypeVar("_Line")


@dataclasses.dataclass(frozen=True)
class EntitiesLine:
    """A line of the prediction file `SPLIT_entities.jsonl`: a sentence with its entities.

    Attributes:
      id: the number of the sentence's first line in the task's file, as text.
      document: the id of its document; "" where the task's files do not say it.
      text: its words, joined by blanks.
      gold, predicted: the true and the predicted entities, each {"type": text, "start": int, "end":
        int}: its first character in the text, and the one behind its last.
    """

    id: str
    document: str
    text: str
    gold: list[dict[str, Any]]
    predicted: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class _Answer:
    """A predicted answer of `_AnswersLine`: its text, and its probability among the best."""

    text: str
    probability: float


@dataclasses.dataclass(frozen=True)
class _AnswersLine:
    """A line of `SPLIT_answers.jsonl`, see `write_answers`."""

    id: str
    question_id: str
    question: str
    gold: list[str]
    predicted: list[_Answer]
    null_odds: float


def entities(
    tags: Sequence[str],
    spans: Sequence[tuple[int, int]],
    entity_type: str,
    probabilities: Sequence[float] | None = None,
) -> list[Entity]:
    """Turns a sentence's predicted tags into entities with scores, as prediction files have them.

    The rule is that of `tag_schemes.entities`.

    Args:
      tags: the BIO tag of each word.
      spans: the span [start, end) of each word in a text, in characters.
      entity_type: the type of entities whose tags name none.
      probabilities: of each word's tag; an entity's score is their product, rounded to 6 digits.
        Without them entities have no score.

    Returns:
      A list of `Entity`, in the order of the words.

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


def write_entities(
    folder: str,
    split: str,
    sentences: Sequence[TaggedSentence],
    predicted: Sequence[Sequence[str]],
    entity_type: str,
) -> None:
    """Writes the prediction file `SPLIT_entities.jsonl`, an `EntitiesLine` for each sentence.

    Args:
      folder, split: the folder of the file, and the split in its name.
      sentences, predicted: the sentences with the gold tags, and the predicted BIO tags of each.
      entity_type: the type of entities whose tags name none.

    Raises:
      ScoreError: a tag is not of the BIO scheme.
      ValueError: the lengths differ.
      OSError: the file cannot be written.
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
    """Reads the prediction file `SPLIT_entities.jsonl` at `path`, which `write_entities` wrote.

    Raises:
      TaskFileError: it cannot be read, or a line is not as it was written.
    """
    return _read_lines(path, EntitiesLine)


def write_words(
    folder: str,
    split: str,
    sentences: Sequence[TaggedSentence],
    predicted: Sequence[Sequence[str]],
) -> None:
    """Writes the prediction file of tagged words, `SPLIT_predictions.tsv`: a line for each word.

    A line has the word, its tag and its predicted tag, with tabs between them. An empty line
    follows each sentence, as the CoNLL shared tasks' `conlleval -d '\\t'` reads them.

    Args:
      folder, split: the folder of the file, and the split in its name.
      sentences, predicted: the sentences with the gold tags, and the predicted tags of each.

    Raises:
      ValueError: the lengths differ.
      OSError: the file cannot be written.
    """
    lines: list[str] = []
    for sentence, tags in zip(sentences, predicted, strict=True):
        lines += map("\t".join, zip(sentence.words, sentence.tags, tags, strict=True))
        lines.append("")
    path = os.path.join(folder, f"{split}_predictions.tsv")
    storage.write_text(path, "\n".join(lines) + "\n")


def read_words(path: str) -> tuple[list[TaggedSentence], list[tuple[str, ...]]]:
    """Reads the prediction file of tagged words, `SPLIT_predictions.tsv`, that `write_words` wrote.

    Returns:
      The sentences, with the number of their first line as their id, and each one's predicted tags.

    Raises:
      TaskFileError: it cannot be read, or a line is not as it was written.
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
    """Writes the prediction file of texts, `SPLIT_predictions.tsv`: a line for each below a header.

    The columns are id, label, predicted and text, and where some text has them pair and document.

    Args:
      folder, split: the folder of the file, and the split in its name.
      texts: the texts, with their labels.
      predicted: the label, score or labels of each.
      cell: label -> the text of its cell.

    Raises:
      ValueError: the lengths differ.
      OSError: the file cannot be written.
    """
    optional = [x for x in ("pair", "document") if any(getattr(y, x) for y in texts)]
    lines = ["\t".join(["id", "label", "predicted", "text", *optional])]
    for text, label in zip(texts, predicted, strict=True):
        columns = [text.id, cell(text.label), cell(label), text.text]
        lines.append("\t".join(columns + [getattr(text, name) for name in optional]))
    path = os.path.join(folder, f"{split}_predictions.tsv")
    storage.write_text(path, "\n".join(lines) + "\n")


def read_texts(path: str, label_in: Callable[[str], Any]) -> tuple[list[LabelledText], list]:
    """Reads the prediction file of texts, `SPLIT_predictions.tsv`, that `write_texts` wrote.

    Args:
      path: the path of the file.
      label_in: reads what `cell` of `write_texts` wrote, or raises ValueError.

    Returns:
      The texts, numbered from 1 by their ids, and the predicted label of each. Without a column
      "document" they have their ids in the file as documents.

    Raises:
      TaskFileError: it cannot be read, or a line is not as it was written.
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


def write_answers(
    folder: str, split: str, questions: Sequence[Question], predicted: Sequence[answers.Answers]
) -> None:
    """Writes the prediction files of question answering, for the official scripts and for tfbio.

    `SPLIT_predictions.json` is SQuAD's {id: answer}, with `SPLIT_null_odds.json`, {id: null odds},
    where some questions have no answer; or, for BioASQ's factoid questions, {"questions": [{"id",
    "type", "exact_answer": [[best], [second], ...]}]}. `SPLIT_answers.jsonl` has a line for each
    question on each context: "id", "question_id" ("" but for BioASQ), "question", "gold" (the
    accepted answers, none without one), "predicted" (the best answers, each {"text",
    "probability"}, none for no answer) and "null_odds" (see `answers.Answers`).

    Args:
      folder, split: the folder of the files, and the split in their names.
      questions, predicted: one question at least with its answers, and the predicted answers.

    Raises:
      ValueError: the lengths differ.
      OSError: a file cannot be written.
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

    def lines() -> Iterator[_AnswersLine]:
        for question, own in zip(questions, predicted, strict=True):
            best = list(map(_Answer, own.texts, own.probabilities))
            gold = list(question.answers)
            yield _AnswersLine(
                question.id, question.question_id, question.question, gold, best, own.null_odds
            )

    _write_lines(path, lines())


def _write_lines(path: str, lines: Iterable[Any]) -> None:
    """Writes dataclasses as lines of JSON."""
    records = (json.dumps(dataclasses.asdict(line), ensure_ascii=False) for line in lines)
    storage.write_text(path, "".join(f"{record}\n" for record in records))


def _read_lines(path: str, line_type: type[_Line]) -> list[_Line]:
    """Reads what `_write_lines` wrote, or raises a TaskFileError; `line_type` is a dataclass."""
    read = []
    for number, line in enumerate(_lines(path)):
        with _naming(path, number, line):
            read.append(json_files.parse(line_type, json.loads(line), path, "run the run again"))
    return read


def _write_json(folder: str, name: str, content: dict) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    storage.write_text(os.path.join(folder, name), text + "\n")


def read_answers(path: str) -> tuple[list[Question], list[answers.Answers]]:
    """Reads the prediction file of answers, `SPLIT_answers.jsonl`, that `write_answers` wrote.

    Returns:
      The questions, with "" as their context, and the predicted `Answers` to each.

    Raises:
      TaskFileError: it cannot be read, or a line is not as it was written.
    """
    lines = _read_lines(path, _AnswersLine)
    return [_question_of(line) for line in lines], [_answers_of(line) for line in lines]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_bytes().decode().split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise TaskFileError(f"{path} cannot be read: {messages.reason(error)}.") from error


@contextlib.contextmanager
def _naming(path: str, number: int, line: str) -> Iterator[None]:
    """Names the line, counted from 0, that cannot be read."""
    try:
        yield
    except (ValueError, KeyError, TypeError, RecursionError, json_files.SchemaError) as error:
        raise TaskFileError(
            f"{path}, line {number + 1}: expected predictions as run_finetuning.py writes them, "
            f"found {line!r:.60}: run the run again."
        ) from error


def read_ids(path: str) -> list[str]:
    """Reads the ids alone from a prediction file of texts, `SPLIT_predictions.tsv`, in its order.

    Raises:
      TaskFileError: the file cannot be read.
    """
    return [row.partition("\t")[0] for row in _lines(path)[1:]]


def _question_of(line: _AnswersLine) -> Question:
    """Returns the question of a line, without its context."""
    unknown = (-1,) * len(line.gold)
    return Question(line.id, line.question, "", tuple(line.gold), unknown, line.question_id)


def _answers_of(line: _AnswersLine) -> answers.Answers:
    """Returns the predicted answers of a line."""
    texts, shares = ([getattr(x, y) for x in line.predicted] for y in ("text", "probability"))
    return answers.Answers(tuple(texts), tuple(shares), line.null_odds)
