"""Predictions as files, in the data's own form."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from tfbio import answers, records
from tfbio.task_files import Example, LabelledText, Question, TaggedSentence, TaskFileError


def write(
    folder: str,
    split: str,
    examples: Sequence[TaggedSentence] | Sequence[LabelledText] | Sequence[Question],
    predicted: Sequence,
) -> None:
    """Writes what was predicted, as `SPLIT_predictions.tsv` or `.json`.

    Beside it stands what is true: of words, lines `word, tag, predicted tag` with an empty line
    after each sentence, as the CoNLL shared tasks' `conlleval -d '\\t'` reads them; of texts, lines
    `id, label, predicted, text, pair` below a header that says so. The id is that of the document,
    if it has one; several labels are joined by "|". Columns are separated by tabs.

    Answers to questions are JSON alone, as the official scripts read it: SQuAD's {id: answer}, and
    `SPLIT_null_odds.json` with {id: null odds} where some questions have no answer; of BioASQ's
    factoid questions {"questions": [{"id", "type", "exact_answer": [[best], [second], ...]}]}.

    Args:
      folder: where the file goes.
      split: in its name.
      examples: of one kind.
      predicted: for each of them tags, a label, a score, labels or `answers.Answers`.
    """
    if isinstance(examples[0], Question):
        _write_answers(folder, split, examples, predicted)
        return
    lines = []
    if isinstance(examples[0], TaggedSentence):
        for sentence, tags in zip(examples, predicted, strict=True):
            lines += map("\t".join, zip(sentence.words, sentence.tags, tags, strict=True))
            lines.append("")
    else:
        with_pair = any(example.pair for example in examples)
        lines.append("id\tlabel\tpredicted\ttext" + "\tpair" * with_pair)
        for example, label in zip(examples, predicted, strict=True):
            columns = [
                example.document or example.id,
                _text(example.label),
                _text(label),
                example.text,
            ]
            lines.append("\t".join(columns + [example.pair] * with_pair))
    path = os.path.join(folder, f"{split}_predictions.tsv")
    records.write_text(path, "\n".join(lines) + "\n")


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


def _write_json(folder: str, name: str, content: dict) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    records.write_text(os.path.join(folder, name), text + "\n")


def read(path: str, kind: str) -> tuple[list[Example], list]:
    """Reads what `write` wrote.

    Args:
      path: of the file.
      kind: "tagging", "classification", "regression" or "multilabel" (`Task.kind`).

    Returns:
      The examples, their id also as their document, and what was predicted for each of them.

    Raises:
      TaskFileError: it cannot be read, or a line is not so.
    """
    try:
        lines = Path(path).read_bytes().decode().split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise TaskFileError(f"{path} cannot be read: {error}.") from error
    examples, predicted = [], []
    first = 0
    for number, line in enumerate(lines):
        cells = line.split("\t")
        try:
            if kind != "tagging" and number > 0:
                name, label, found, text, pair = cells if len(cells) == 5 else (*cells, "")
                label, found = (_label(cell, kind) for cell in (label, found))
                examples.append(LabelledText(str(number), text, label, pair, document=name))
                predicted.append(found)
            elif kind == "tagging" and not line:
                rows = (row.split("\t") for row in lines[first:number])
                words, tags, found = zip(*rows, strict=True)
                examples.append(TaggedSentence(str(first + 1), words, tags))
                predicted.append(found)
                first = number + 1
        except ValueError as error:
            raise TaskFileError(
                f"{path}, line {number + 1}: expected predictions as run_finetuning.py writes "
                f"them, found {line!r:.60}: run the run again."
            ) from error
    return examples, predicted


def _label(cell: str, kind: str) -> str | float | tuple[str, ...]:
    if kind == "multilabel":
        return tuple(cell.split("|")) if cell else ()
    return float(cell) if kind == "regression" else cell


def _text(label: str | float | Sequence[str]) -> str:
    if isinstance(label, (str, float)):
        return str(label)
    return "|".join(label)
