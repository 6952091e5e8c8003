"""Tests when a question has no answer, by hand and against SQuAD's official evaluation."""

import numpy as np
import pytest

from tfbio.formats.task_examples import Question
from tfbio.task_types import answer_metrics, answers, null_threshold

CONTEXT = "one two three four"


def asked(*gold):
    return [
        Question(f"q{i}", "?", CONTEXT, (text,) if text else (), (0,) if text else ())
        for i, text in enumerate(gold)
    ]


def given(*pairs):
    return [answers.Answers((text,), (1.0,), odds) for text, odds in pairs]


def test_the_threshold_gives_the_best_f1():
    questions = asked("one", "", "two", "", "four")
    predicted = given(("one", -4), ("two", 3), ("two", 0.5), ("one", 2), ("three", 1))
    # Answered up to odds of: -4: 3 right; 0.5: 4; 1: 4 (wrong anyway); 2: 3; 3: 2.
    assert null_threshold.null_threshold(questions, predicted) == 0.5
    kept = null_threshold.with_threshold(predicted, 0.5)
    assert [found.best for found in kept] == ["one", "", "two", "", ""]
    assert [found.null_odds for found in kept] == [-4, 3, 0.5, 2, 1]


def test_half_an_answer_is_worth_its_f1():
    questions = asked("", "one two three", "")
    # "one" has F1 1/2: more than the nothing that it is without an answer.
    predicted = given(("one", 5), ("one", 1), ("one", 4))
    assert null_threshold.null_threshold(questions, predicted) == 1


def test_where_no_answer_is_best_none_is_given():
    predicted = given(("two", -8), ("one", -3))
    threshold = null_threshold.null_threshold(asked("", "four"), predicted)
    assert [found.best for found in null_threshold.with_threshold(predicted, threshold)] == ["", ""]


def test_where_all_have_answers_one_is_always_given():
    predicted = given(("two", 80.0), ("one", -3.0))
    assert null_threshold.null_threshold(asked("one", "one"), predicted) is None
    assert null_threshold.with_threshold(predicted, None) == predicted
    # Nor is BioASQ's to be left without, if its answer is not in the file.
    factoids = [Question("a_000", "?", CONTEXT, (), (), "a"), asked("one")[0]]
    assert null_threshold.null_threshold(factoids, predicted) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_threshold_is_the_official_scripts(seed):
    from official.nlp.tools import squad_evaluate_v2_0 as official

    rng = np.random.default_rng(seed)
    words = CONTEXT.split()
    questions = asked(*[rng.choice(["", "one two", "three", "two three"]) for _ in range(40)])
    # Wrong and right answers; no answer is likelier where there is none.
    predicted = given(
        *[
            (" ".join(words[first : first + 2]), float(rng.normal() - 2 * bool(x.answers)))
            for x, first in zip(questions, rng.integers(0, 4, 40), strict=True)
        ]
    )
    qas = [{"id": x.id, "answers": [{"text": text} for text in x.answers]} for x in questions]
    theirs = official.evaluate(
        [{"paragraphs": [{"qas": qas}]}],
        {x.id: found.best for x, found in zip(questions, predicted, strict=True)},
        {x.id: found.null_odds for x, found in zip(questions, predicted, strict=True)},
    )
    threshold = null_threshold.null_threshold(questions, predicted)
    assert threshold == theirs["final_f1_thresh"]
    kept = [found.best for found in null_threshold.with_threshold(predicted, threshold)]
    scores = answer_metrics.squad_scores([x.answers for x in questions], kept)
    assert 100 * scores["f1"] == pytest.approx(theirs["final_f1"])


def test_where_answers_gain_nothing_none_is_given():
    predicted = given(("two", -8), ("one", -3))
    threshold = null_threshold.null_threshold(asked("", "one"), predicted)
    found = null_threshold.with_threshold(predicted, threshold)
    assert [each.best for each in found] == ["", ""]
