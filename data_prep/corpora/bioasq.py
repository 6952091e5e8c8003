"""Makes BLURB's files of BioASQ 7b: a question and the snippets that answer it, yes or no.

`tfbio data bioasq` reads with this module the release for registered users of <http://bioasq.org>:
BioASQ-training7b.zip and Task7BGoldenEnriched.zip in one folder, or the files in them. An example
is the question's id, the question, all of its snippets joined by a blank, and the label. Questions
of other types are left out. The splits are lists of ids, BLURB's
`indexing/BioASQ/{train,dev,test}_id.tsv`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from data_prep.corpora import corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError, File

_LABELS = ("yes", "no")


def read_examples(
    source: str | os.PathLike, index: str | os.PathLike, left: corpus_splits.LeftOut
) -> dict[str, list[tuple[str, str, str, str]]]:
    """Reads the yes/no questions of BioASQ's release, as the rows of BLURB's splits.

    Args:
      source: the release: the path of a folder, an archive or a file.
      index: the folder of BLURB's lists, `{train,dev,test}_id.tsv`.
      left: a list that gets `(id, path of its file, reason)`, all str, for each question that is of
        another type ("other_type") or that no list names ("not_listed").

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows `(id, question,
      snippets joined by a blank, "yes" or "no")`, all str, in the order of the split's list.

    Raises:
      CorpusError: the release or a list cannot be read, a question lacks a part, two files differ
        on a question, or a list names a question that the release does not have.
    """
    rows: dict[str, tuple[str, str, str, str]] = {}
    paths: dict[str, str] = {}
    for file in released_files.find(source, r"[^/]+\.json").values():
        for row in _read_file(file, left):
            paths.setdefault(row[0], file.path)
            if rows.setdefault(row[0], row) != row:
                raise CorpusError(
                    f"{file.path} has the question {row[0]}, and another file has it otherwise: "
                    "give one year's files only."
                )
    splits = {}
    for split in corpus_splits.SPLITS:
        ids = corpus_splits.read_index(index, f"{split}_id.tsv")
        missing = [id_ for id_ in ids if id_ not in rows]
        if missing:
            raise CorpusError(
                f"{split}_id.tsv in {index} lists {missing[0]}, which is no yes/no question in "
                f"{source}: give both the training and the golden files."
            )
        splits[split] = [rows[id_] for id_ in ids]
    listed = {row[0] for of_split in splits.values() for row in of_split}
    left += [(id_, paths[id_], "not_listed") for id_ in rows if id_ not in listed]
    return splits


def _read_file(file: File, left: corpus_splits.LeftOut) -> Iterator[tuple[str, str, str, str]]:
    """Yields the yes/no questions of one file of BioASQ's release.

    Args:
      file: a file of the release, in JSON.
      left: a list that gets `(id, path of its file, "other_type")` for each of the other questions.

    Yields:
      Rows `(id, question, snippets joined by a blank, "yes" or "no")`, all str.

    Raises:
      CorpusError: the file is no JSON or has no list of questions, or a question lacks a part.
    """
    content = file.json()
    if not isinstance(content, dict) or not isinstance(content.get("questions"), list):
        raise CorpusError(f"{file.path} has no list of questions.")
    for number, question in enumerate(content["questions"], start=1):
        match question:
            case {"type": str(kind)} if kind != "yesno":
                id_ = question.get("id")
                name = id_ if isinstance(id_, str) else f"question {number}"
                left.append((name, file.path, "other_type"))
            case {
                "type": "yesno",
                "id": str(id_),
                "body": str(body),
                "snippets": [*snippets],
                "exact_answer": label,
            } if label in _LABELS and all(_has_text(snippet) for snippet in snippets):
                yield id_, body, " ".join(snippet["text"] for snippet in snippets), label
            case _:
                raise CorpusError(
                    f"{file.path}: question {number} lacks a type, or an id, body, snippets of "
                    "text, and an exact_answer of yes or no."
                )


def _has_text(snippet: Any) -> bool:
    return isinstance(snippet, dict) and isinstance(snippet.get("text"), str)
