"""Predictions as files, in the data's own form."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from tfbio.base import storage
from tfbio.formats.entities import Entity
from tfbio.formats.tables import labels_between_bars
from tfbio.formats.task_examples import (
    Example,
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
            entity_type if kind == "_" else kind,
            spans[first][0],
            spans[last][1],
            score(first, last),
        )
        for kind, first, last in found
    ]


def describe(examples: Sequence[Example], predicted: Sequence) -> str:
    """Says how many examples there are, and what they have and are predicted to have.

    Args:
      examples: of one kind, with what is true.
      predicted: see `write`.
    """
    count = f"{len(examples):,}"
    if isinstance(examples[0], TaggedSentence):
        true, found = (
            sum(len(tag_schemes.entities(tags)) for tags in own)
            for own in ((sentence.tags for sentence in examples), predicted)
        )
        documents = len({sentence.document for sentence in examples} - {""})
        place = f" of {documents:,} documents" if documents else ""
        return f"{count} sentences{place} with {true:,} entities, {found:,} predicted"
    if isinstance(examples[0], Question):
        true = sum(bool(question.answers) for question in examples)
        found = sum(bool(own.best) for own in predicted)
        return f"{count} questions, {true:,} with an answer, {found:,} predicted to have one"
    if isinstance(examples[0].label, float):
        return f"{count} texts"
    both = [[x.label for x in examples], predicted]
    true, found = (
        listed(Counter(x for own in labels for x in ([own] if isinstance(own, str) else own)))
        for labels in both
    )
    return f"{count} texts: {true or 'no label'}; predicted: {found or 'no label'}"


def listed(counts: Counter[str]) -> str:
    """Says how often each name is there, the most frequent first."""
    # GAD's labels are 0 and 1, and "293 1" would be read as one number.
    names = {name: f"'{name}'" if name[:1].isdigit() else name for name in counts}
    return ", ".join(f"{count:,} {names[name]}" for name, count in counts.most_common())


def write_entities(
    path: str,
    sentences: Sequence[TaggedSentence],
    predicted: Sequence[Sequence[str]],
    entity_type: str,
) -> None:
    """Writes JSON lines: id, text, and the gold and predicted entities with their characters in it.

    The files of the tasks have no text: it is the words, joined by blanks. Where they say of which
    document a sentence is, so does "document".

    Args:
      path: of the file.
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

    storage.write_text(path, "".join(lines()))


def write(
    folder: str,
    split: str,
    examples: Sequence[TaggedSentence] | Sequence[LabelledText] | Sequence[Question],
    predicted: Sequence,
) -> None:
    """Writes what was predicted, as `SPLIT_predictions.tsv` or `.json`.

    Beside it stands what is true: of words, lines `word, tag, predicted tag` with an empty line
    after each sentence, as the CoNLL shared tasks' `conlleval -d '\\t'` reads them; of texts, lines
    `id, label, predicted, text, pair, document` below a header that says so, without the last two
    where no text has them; several labels are joined by "|". Columns are separated by tabs.

    Answers to questions are JSON alone, as the official scripts read it: SQuAD's {id: answer}, and
    `SPLIT_null_odds.json` with {id: null odds} where some questions have no answer; of BioASQ's
    factoid questions {"questions": [{"id", "type", "exact_answer": [[best], [second], ...]}]}. What
    is true stands in `SPLIT_answers.jsonl`, a line for each question on each context: id, question,
    "gold", its answers; "predicted", the best with their probabilities, none where there is no
    answer; null_odds; and question_id where a question has several contexts.

    Args:
      folder: where the file goes.
      split: in its name.
      examples: of one kind.
      predicted: for each of them tags, a label, a score, labels or `answers.Answers`.
    """
    if isinstance(examples[0], Question):
        _write_answers(folder, split, examples, predicted)
        _write_gold_answers(os.path.join(folder, f"{split}_answers.jsonl"), examples, predicted)
        return
    lines = []
    if isinstance(examples[0], TaggedSentence):
        for sentence, tags in zip(examples, predicted, strict=True):
            lines += map("\t".join, zip(sentence.words, sentence.tags, tags, strict=True))
            lines.append("")
    else:
        optional = [x for x in ("pair", "document") if any(getattr(y, x) for y in examples)]
        lines.append("\t".join(["id", "label", "predicted", "text", *optional]))
        for example, label in zip(examples, predicted, strict=True):
            columns = [example.id, _text(example.label), _text(label), example.text]
            lines.append("\t".join(columns + [getattr(example, name) for name in optional]))
    path = os.path.join(folder, f"{split}_predictions.tsv")
    storage.write_text(path, "\n".join(lines) + "\n")


def write_hallmarks(
    path: str, sentences: Sequence[LabelledText], predicted: Sequence[Sequence[str]]
) -> None:
    """Writes what was predicted of HoC as its files have what is true, for `read_hoc`."""
    rows = [(hoc_labels(own), x.text, x.id) for x, own in zip(sentences, predicted, strict=True)]
    storage.write_text(path, "".join("\t".join(row) + "\n" for row in (HOC_HEADER, *rows)))


def _write_answers(
    folder: str, split: str, questions: Sequence[Question], predicted: Sequence[answers.Answers]
) -> None:
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
    """Writes `SPLIT_answers.jsonl`, see `write`."""

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


def read(path: str, kind: str) -> tuple[list[Example], list]:
    """Reads what `write` wrote.

    Args:
      path: of the file.
      kind: see `Task.kind`; of "spans" the file is `SPLIT_answers.jsonl`.

    Returns:
      The examples, with their number as their id and, where there is no column of documents, as
      in files of earlier versions, with their id as their document; questions with their own id and
      no context; and what was predicted for each of them.

    Raises:
      TaskFileError: it cannot be read, or a line is not so.
    """
    try:
        lines = Path(path).read_bytes().decode().split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise TaskFileError(f"{path} cannot be read: {storage.reason(error)}.") from error
    examples, predicted = [], []
    header = lines[0].split("\t") if lines else []
    first = 0
    for number, line in enumerate(lines):
        cells = line.split("\t")
        try:
            if kind == "spans":
                question, found = _answered(json.loads(line))
                examples.append(question)
                predicted.append(found)
            elif kind != "tagging" and number > 0:
                row = dict(zip(header, cells, strict=True))
                label, found = (_label(row[name], kind) for name in ("label", "predicted"))
                document = row.get("document", row["id"])
                pair = row.get("pair", "")
                examples.append(LabelledText(str(number), row["text"], label, pair, document))
                predicted.append(found)
            elif kind == "tagging" and not line:
                rows = (row.split("\t") for row in lines[first:number])
                words, tags, found = zip(*rows, strict=True)
                examples.append(TaggedSentence(str(first + 1), words, tags))
                predicted.append(found)
                first = number + 1
        except (ValueError, KeyError, TypeError) as error:
            raise TaskFileError(
                f"{path}, line {number + 1}: expected predictions as run_finetuning.py writes "
                f"them, found {line!r:.60}: run the run again."
            ) from error
    return examples, predicted


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


def _label(cell: str, kind: str) -> str | float | tuple[str, ...]:
    if kind == "multilabel":
        return labels_between_bars(cell)
    return float(cell) if kind == "regression" else cell


def _text(label: str | float | Sequence[str]) -> str:
    if isinstance(label, (str, float)):
        return str(label)
    return "|".join(label)
