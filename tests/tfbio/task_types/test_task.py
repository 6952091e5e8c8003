"""Tests what a task says of its splits when it reads them."""

from tfbio.formats.task_examples import Question
from tfbio.task_types.task import SPLITS, Task


def question(number, context, *answers):
    where = ("b.json", "")
    starts = (-1,) * len(answers)
    return Question(f"{number}_{context}", "?", "a", answers, starts, str(number), where)


def test_questions_of_bioasq_without_answers_are_counted(tmp_path, capsys):
    for split in SPLITS:
        (tmp_path / f"{split}.json").write_text("")
    answered = [question(1, 0, "a"), question(1, 1, "a")]
    read = {"train": [question(3, 0)], "dev": answered, "test": answered}

    def of_path(path):
        return next(read[split] for split in SPLITS if path.endswith(f"{split}.json"))

    task = Task("x", "question_answering", (), of_path, len, {})
    task.examples(str(tmp_path))
    assert capsys.readouterr().out == ""
    read["test"] = [*answered, question(2, 0), question(2, 1)]
    task.examples(str(tmp_path))
    assert "b.json: 1 of 2 questions have no exact_answer, and count as" in capsys.readouterr().out
