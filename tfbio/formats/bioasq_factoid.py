"""Reads the factoid questions of BioASQ's task B as they are released."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfbio.formats.task_examples import Question
from tfbio.formats.task_file_errors import TaskFileError, Where, mistake
from tfbio.formats.task_files import field_of, not_empty, parse_json, texts_only


def read(path: str) -> list[Question]:
    """Reads the factoid questions of a BioASQ file, task B, in the format of its release.

    As BioBERT and BioM have it, each snippet of a question is a context with the id `QUESTION_000`
    and so on, and an answer begins where the context has it first; here as whole words, in upper or
    lower case.

    Args:
      path: the file, in JSON.

    Returns:
      A list of at least one `Question`, one for each snippet (with the context "" where there is
      none), with the question's id as its `question_id`. An answer that the context does not have
      starts at -1.

    Raises:
      TaskFileError: the file cannot be read or has no factoid question, a question is incomplete,
        or an id stands twice.
    """
    questions = []
    for name, text, snippets, record, where in _factoids(path):
        # A list of answers, or of lists of synonyms; a test file may have none.
        gold = record.get("exact_answer") or []
        gold = [gold] if isinstance(gold, str) else gold
        answers: list[str] = []
        for answer in field_of({"exact_answer": gold}, "exact_answer", where, list):
            answers += texts_only(answer if isinstance(answer, list) else [answer], where)
        answers = list(dict.fromkeys(answers))
        patterns = [rf"(?<!\w){re.escape(answer)}(?!\w)" for answer in answers]
        # A question without snippets cannot be answered, but counts.
        for i, context in enumerate(snippets or [""]):
            matches = [re.search(pattern, context, re.IGNORECASE) for pattern in patterns]
            starts = tuple(match.start() if match else -1 for match in matches)
            context_id = f"{name}_{i:03}"
            questions.append(
                Question(context_id, text, context, tuple(answers), starts, name, where)
            )
    return not_empty(path, questions)


def _factoids(path: str) -> Iterator[tuple[str, str, list[str], dict, Where]]:
    """Yields id, question, snippets, record and place of each factoid question."""
    factoids: dict[str, dict] = {}
    for i, record in enumerate(
        field_of(parse_json(path), "questions", (path, "the file"), list), 1
    ):
        where = (path, f"question {i} of the file")
        name = field_of(record, "id", where, str)
        if name in factoids:
            raise mistake(where, f"the id {name!r} stands there twice: give another")
        if record.get("type") == "factoid":
            factoids[name] = record
    for name, record in factoids.items():
        where = (path, f"question {name}")
        snippets = [
            field_of(snippet, "text", where, str).replace("\n", " ")
            for snippet in field_of(record, "snippets", where, list)
        ]
        text = field_of(record, "body", where, str).replace("\n", " ")
        yield name, text, snippets, record, where


def with_known_places(questions: list[Question]) -> list[Question]:
    """Selects the questions whose answers have a known place in the context, to train on them.

    The function prints how many are left out.

    Args:
      questions: the training questions of BioASQ, one at least.

    Returns:
      Those with an `answer_starts` of 0 or more, in their order.

    Raises:
      TaskFileError: no question has such an answer.
    """
    placed = [x for x in questions if max(x.answer_starts, default=-1) >= 0]
    if len(placed) < len(questions):
        print(
            f"{len(questions) - len(placed)} of {len(questions)} contexts to train on do not have "
            "the answer word for word, and are left out."
        )
    if not placed:
        raise TaskFileError(
            f"{questions[0].where[0]}: no context has the answer to its question word for word."
        )
    return placed
