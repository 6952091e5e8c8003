"""Reads questions on contexts in the format of SQuAD 1.1 and 2.0."""

from __future__ import annotations

from tfbio.formats.task_examples import Question
from tfbio.formats.task_file_errors import mistake
from tfbio.formats.task_files import field_of, not_empty, parse_json


def read(path: str, known: bool = False) -> list[Question]:
    """Reads questions from a JSON file in the format of SQuAD v1.1 or v2.0.

    BioBERT's BioASQ files are in this format, too.

    Args:
      path: the file.
      known: True if each question must list its answers, "[]" where its context has none; False
        for new questions, too.

    Returns:
      A list of at least one `Question`, in the order of the file, with its answers (none where the
      question has none) and the offset of each in the context, in characters.

    Raises:
      TaskFileError: the file cannot be read, a question is incomplete, an answer does not stand
        where the file says, or `known` answers are missing.
    """
    questions = []
    for i, article in enumerate(field_of(parse_json(path), "data", (path, "the file"), list), 1):
        paragraphs = field_of(article, "paragraphs", (path, f"article {i}"), list)
        for j, paragraph in enumerate(paragraphs, 1):
            where = (path, f"article {i}, paragraph {j}")
            context = field_of(paragraph, "context", where, str)
            for record in field_of(paragraph, "qas", where, list):
                name = field_of(record, "id", (path, f"a question of article {i}"), str)
                where = (path, f"question {name}")
                if known and "answers" not in record:
                    message = 'expected the answers to score with, "answers": [] if there is none'
                    raise mistake(where, f"{message}; `tfbio predict` answers new questions")
                answers = field_of({"answers": record.get("answers") or []}, "answers", where, list)
                texts = tuple(field_of(answer, "text", where, str) for answer in answers)
                starts = tuple(field_of(answer, "answer_start", where, int) for answer in answers)
                for text, start in zip(texts, starts, strict=True):
                    stands = context[start : start + len(text)] if start >= 0 else ""
                    if not text or stands.lower() != text.lower():
                        message = f"expected {text!r} at character {start} of the context"
                        raise mistake(where, f"{message}, found {stands!r}")
                text = field_of(record, "question", where, str)
                questions.append(Question(name, text, context, texts, starts, where=where))
    return not_empty(path, questions)


def read_answered(path: str) -> list[Question]:
    """Reads questions as `read` does, all of which have an answer, as in SQuAD v1.1.

    Args:
      path: the file.

    Returns:
      A list of at least one `Question`, in the order of the file.

    Raises:
      TaskFileError: a question has no answer, or the file cannot be used, see `read`.
    """
    questions = read(path)
    for question in questions:
        if not question.answers:
            message = "expected an answer, as all questions of SQuAD v1.1 have, found none"
            raise mistake(question.where, f"{message}: give --task=squad_v2")
    return questions
