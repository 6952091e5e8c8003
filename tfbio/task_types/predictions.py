"""Predictions as files, in the data's own form."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from tfbio.base import storage
from tfbio.formats.entities import Entity
from tfbio.formats.task_examples import (
    LabelledText,
    Question,
    TaggedSentence,
    TaskFileError,
)
from tfbio.formats.task_files import HOC_HEADER, hoc_labels
from tfbio.task_types import answers, tag_schemes


def entities(
    tags: Sequence[str],
    spans: Sequence[tuple[int, int]],
    entity_type: str,
    probabilities: Sequence[float] | None = None,
) -> list[Entity]:
    """The entities of a sentence by the rule of `tag_schemes.entities`, in order.

    Args:
      tags: of each word.
      spans: the first character of each word in a text, and the one behind its last.
      entity_type: what tags without a type stand for.
      probabilities: of the tags; without them entities have no score.
    """

    def score(first: int, last: int) -> float | None:
        if probabilities is None:
            return None
        return round(math.prod(probabilities[first : last + 1]), 6)

    found = sorted(tag_schemes.entities(tags), key=lambda entity: entity[1:])
    return [
        Entity(
            entity_type if named == "_" else named,
            spans[first][0],
            spans[last][1],
            score(first, last),
        )
        for named, first, last in found
    ]


def listed(counts: Counter[str]) -> str:
    """Says how often each name is there, the most frequent first."""
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
    """Writes `SPLIT_entities.jsonl`: lines of id, text, and its gold and predicted entities.

    The files of the tasks have no text: it is the words, joined by blanks. Where they say of which
    document a sentence is, so does "document".

    Args:
      folder: where the file goes.
      split: in its name.
      sentences: with the gold tags.
      predicted: tags of each sentence.
      entity_type: what tags without a type stand for.
    """

    def lines() -> Iterator[str]:
        for sentence, tags in zip(sentences, predicted, strict=True):
            ends = accumulate(map(len, sentence.words), lambda end, length: end + 1 + length)
            spans = [(end - len(word), end) for word, end in zip(sentence.words, ends, strict=True)]
            gold, found = (
                [entity.as_dict() for entity in entities(own, spans, entity_type)]
                for own in (sentence.tags, tags)
            )
            text = " ".join(sentence.words)
            place = {"document": sentence.document} if sentence.document else {}
            record = {"id": sentence.id, **place, "text": text, "gold": gold, "predicted": found}
            yield json.dumps(record, ensure_ascii=False) + "\n"

    path = os.path.join(folder, f"{split}_entities.jsonl")
    storage.write_text(path, "".join(lines()))


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
    """Reads what `write_words` wrote; sentences have the number of their first line as their id.

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
            words, tags, found = zip(*rows, strict=True)
            sentences.append(TaggedSentence(str(first + 1), words, tags))
            predicted.append(found)
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
    """Reads what `write_texts` wrote; texts have the number of their line as their id.

    Args:
      path: of the file.
      label_in: reads what `cell` of `write_texts` wrote, or raises ValueError.

    Raises:
      TaskFileError: it cannot be read, or a line is not so.
    """
    texts, predicted = [], []
    lines = _lines(path)
    header = lines[0].split("\t") if lines else []
    for number, line in enumerate(lines[1:], start=1):
        with _naming(path, number, line):
            row = dict(zip(header, line.split("\t"), strict=True))
            label, found = (label_in(row[name]) for name in ("label", "predicted"))
            document = row.get("document", row["id"])
            pair = row.get("pair", "")
            texts.append(LabelledText(str(number), row["text"], label, pair, document))
            predicted.append(found)
    return texts, predicted


def write_hallmarks(
    path: str, sentences: Sequence[LabelledText], predicted: Sequence[Sequence[str]]
) -> None:
    """Writes what was predicted of HoC as its files have what is true, for `read_hoc`."""
    rows = [(hoc_labels(own), x.text, x.id) for x, own in zip(sentences, predicted, strict=True)]
    storage.write_text(path, "".join("\t".join(row) + "\n" for row in (HOC_HEADER, *rows)))


def write_answers(
    folder: str, split: str, questions: Sequence[Question], predicted: Sequence[answers.Answers]
) -> None:
    """Writes the answers as the official scripts read them, and with what is true.

    `SPLIT_predictions.json` is SQuAD's {id: answer}, with `SPLIT_null_odds.json`, {id: null odds},
    where some questions have no answer; or, for BioASQ's factoid questions, {"questions": [{"id",
    "type", "exact_answer": [[best], [second], ...]}]}. `SPLIT_answers.jsonl` has a line for each
    question on each context: id, question; "gold", its answers; "predicted", the best with their
    probabilities, none where there is no answer; null_odds; and question_id where a question has
    several contexts.

    Args:
      folder: where the files go.
      split: in their names.
      questions: with their answers.
      predicted: for each.
    """
    path = os.path.join(folder, f"{split}_answers.jsonl")
    _write_gold_answers(path, questions, predicted)
    found: dict[str, object] = {x.id: own.best for x, own in zip(questions, predicted, strict=True)}
    if questions[0].question_id:
        found = {
            "questions": [
                {"id": name, "type": "factoid", "exact_answer": [[text] for text in texts]}
                for name, texts in answers.merged(questions, predicted).items()
            ]
        }
    elif not all(question.answers for question in questions):
        odds = {x.id: own.null_odds for x, own in zip(questions, predicted, strict=True)}
        _write_json(folder, f"{split}_null_odds.json", odds)
    _write_json(folder, f"{split}_predictions.json", found)


def _write_gold_answers(
    path: str, questions: Sequence[Question], predicted: Sequence[answers.Answers]
) -> None:
    """Writes `SPLIT_answers.jsonl`, see `write_answers`."""

    def lines() -> Iterator[str]:
        for question, own in zip(questions, predicted, strict=True):
            pairs = zip(own.texts, own.probabilities, strict=True)
            record = {
                "id": question.id,
                **({"question_id": question.question_id} if question.question_id else {}),
                "question": question.question,
                "gold": question.answers,
                "predicted": [{"text": text, "probability": share} for text, share in pairs],
                "null_odds": own.null_odds,
            }
            yield json.dumps(record, ensure_ascii=False) + "\n"

    storage.write_text(path, "".join(lines()))


def _write_json(folder: str, name: str, content: dict) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    storage.write_text(os.path.join(folder, name), text + "\n")


def read_answers(path: str) -> tuple[list[Question], list[answers.Answers]]:
    """Reads the `SPLIT_answers.jsonl` that `write_answers` wrote; questions have no context.

    Raises:
      TaskFileError: it cannot be read, or a line is not so.
    """
    questions, predicted = [], []
    for number, line in enumerate(_lines(path)):
        with _naming(path, number, line):
            question, found = _answered(json.loads(line))
            questions.append(question)
            predicted.append(found)
    return questions, predicted


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
    except (ValueError, KeyError, TypeError) as error:
        raise TaskFileError(
            f"{path}, line {number + 1}: expected predictions as run_finetuning.py writes them, "
            f"found {line!r:.60}: run the run again."
        ) from error


def read_ids(path: str) -> list[str]:
    """The ids of the texts in a file that `read` reads."""
    rows = Path(path).read_bytes().decode().split("\n")[1:-1]
    return [row.partition("\t")[0] for row in rows]


def _answered(record: dict) -> tuple[Question, answers.Answers]:
    """A line of `SPLIT_answers.jsonl`."""
    gold, question_id = tuple(record["gold"]), record.get("question_id", "")
    question = Question(record["id"], record["question"], "", gold, (-1,) * len(gold), question_id)
    texts = tuple(answer["text"] for answer in record["predicted"])
    shares = tuple(answer["probability"] for answer in record["predicted"])
    return question, answers.Answers(texts, shares, record["null_odds"])
