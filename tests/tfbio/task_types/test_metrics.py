"""Tests what all official scores have in common."""

import pytest

from tfbio.task_types import answer_metrics, entity_metrics, label_metrics, similarity_metrics
from tfbio.task_types.metrics import ScoreError

HALLMARKS = tuple("abcd")


@pytest.mark.parametrize(
    "score",
    [
        entity_metrics.entity_scores,
        entity_metrics.word_scores,
        lambda truth, predicted: label_metrics.relation_scores(truth, predicted, "O"),
        label_metrics.accuracy_and_macro_f1,
        similarity_metrics.correlation_scores,
        answer_metrics.squad_scores,
        answer_metrics.bioasq_factoid_scores,
    ],
)
def test_lengths_that_differ_or_are_0_are_refused(score):
    with pytest.raises(ScoreError, match="2 examples and 1 predictions"):
        score(["O", "O"], ["O"])
    with pytest.raises(ScoreError, match="no example"):
        score([], [])


def test_figures_are_python_floats():
    tags = [["B-a", "O"], ["B-b", "I-b"]]
    for scores in (
        entity_metrics.entity_scores(tags, tags),
        entity_metrics.word_scores([["I-PAR"]], [["I-PAR"]]),
        label_metrics.relation_scores(["x"], ["x"], "false"),
        label_metrics.accuracy_and_macro_f1(["x"], ["x"]),
        label_metrics.hoc_scores(["1"], [{"a"}], [{"a"}], HALLMARKS),
        similarity_metrics.correlation_scores([1, 2], [1, 2]),
        answer_metrics.squad_scores([["x"], []], ["x", ""]),
        answer_metrics.bioasq_factoid_scores([["x"]], [["x"]]),
    ):
        assert {type(figure) for figure in scores.values()} == {float}
