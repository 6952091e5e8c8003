"""Predictions as files, in the data's own form."""

from __future__ import annotations

from collections.abc import Sequence

from tfbio import records
from tfbio.task_files import LabelledText, TaggedSentence


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


def _text(label: str | float | Sequence[str]) -> str:
    if isinstance(label, (str, float)):
        return str(label)
    return "|".join(label)
