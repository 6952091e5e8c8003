"""Predictions as files, in the data's own form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tfbio import records
from tfbio.task_files import Example, LabelledText, TaggedSentence, TaskFileError


def write(
    path: str,
    examples: Sequence[TaggedSentence] | Sequence[LabelledText],
    predicted: Sequence,
) -> None:
    """Writes what was predicted beside what is true.

    Of words, lines `word, tag, predicted tag` with an empty line after each sentence, as the CoNLL
    shared tasks' `conlleval -d '\\t'` reads them; of texts, lines `id, label, predicted, text,
    pair` below a header that says so. The id is that of the document, if it has one; several labels
    are joined by "|". Columns are separated by tabs.

    Args:
      path: of the file.
      examples: of one kind.
      predicted: for each of them tags, a label, a score or labels.
    """
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
    records.write_text(path, "\n".join(lines) + "\n")


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
