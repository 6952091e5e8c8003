"""Scores of labels, against other implementations and cases worked by hand."""

import gzip
import random
import subprocess
import sys

import numpy as np
import pytest
import sklearn.metrics

from tests import reference
from tfbio.formats.task_examples import LabelledText
from tfbio.task_types import label_metrics
from tfbio.task_types.metrics import ScoreError


def test_relation_scores_equal_sklearn():
    generator = random.Random(4)
    labels = ["CPR:3", "CPR:4", "CPR:9"]
    for size in (1, 5, 60) * 15:
        truth, predicted = (
            [generator.choice([*labels, "false", "false"]) for _ in range(size)] for _ in "ab"
        )
        scores = label_metrics.relation_scores(truth, predicted, negative="false")
        expected = sklearn.metrics.precision_recall_fscore_support(
            truth, predicted, labels=labels, average="micro", zero_division=0
        )
        assert [scores[x] for x in ("precision", "recall", "f1")] == pytest.approx(expected[:3]), (
            size
        )
        found = sorted((set(truth) | set(predicted)) - {"false"})
        if found:
            expected = sklearn.metrics.f1_score(
                truth, predicted, labels=found, average="macro", zero_division=0
            )
        assert scores["macro_f1"] == pytest.approx(expected if found else 0), size


def test_relation_scores_of_two_classes_are_of_the_positive_one():
    # GAD: 2 right of 3 predicted and 4 true.
    truth, predicted = list("1111000"), list("1100100")
    scores = label_metrics.relation_scores(truth, predicted, negative="0")
    assert scores["f1"] == pytest.approx(4 / 7)
    assert scores["f1"] == pytest.approx(sklearn.metrics.f1_score(truth, predicted, pos_label="1"))


def test_several_labels_have_scores_of_each():
    # a: 1 of 2 predicted, 1 true. b: none of 1 predicted, 1 true. c: nowhere.
    labels = (("a",), ("b",), ()), (("a", "b"), ("a",), ())
    examples = [LabelledText(str(i), "", label) for i, label in enumerate(labels[0])]
    scores = label_metrics.score_label_sets(examples, labels[1], ("a", "b", "c"))
    expected = {"f1_a": 2 / 3, "precision_a": 1 / 2, "recall_a": 1}
    expected |= {f"{metric}_{x}": 0 for metric in ("f1", "precision", "recall") for x in "bc"}
    expected |= {"f1": 2 / 5, "precision": 1 / 3, "recall": 1 / 2, "macro_f1": 2 / 9}
    assert scores == pytest.approx(expected) and next(iter(scores)) == "f1"
    one = label_metrics.score_label_sets(examples[:1], [("a",)], ("a",))
    assert not [name for name in one if name.endswith("_a")]


def test_classification_scores_of_a_hand_worked_case():
    # F1: methods 2*1/(2+1) = 2/3 with one right of two found, one true; results 1*2/(1+2) = 2/3.
    truth = ["methods", "results", "results"]
    predicted = ["methods", "methods", "results"]
    scores = label_metrics.accuracy_and_macro_f1(truth, predicted)
    assert scores == pytest.approx({"accuracy": 2 / 3, "macro_f1": 2 / 3})
    # A label that is only predicted counts as an F1 of 0.
    scores = label_metrics.accuracy_and_macro_f1(["methods", "methods"], ["methods", "results"])
    assert scores == pytest.approx({"accuracy": 1 / 2, "macro_f1": 1 / 3})


def test_a_label_that_does_not_occur_is_not_averaged_over():
    assert label_metrics.accuracy_and_macro_f1(["yes"] * 3, ["yes"] * 3)["macro_f1"] == 1
    scores = label_metrics.accuracy_and_macro_f1(["yes"] * 3, ["yes", "yes", "no"])
    assert scores == pytest.approx({"accuracy": 2 / 3, "macro_f1": (4 / 5 + 0) / 2})


HALLMARKS = tuple("abcd")


def test_hoc_scores_of_a_hand_worked_case():
    # Documents: 1 has a, b and is said to have a; 2 has b and is said to have b, c; 3 has none and
    # is said to have a; 4 has c and is said to have none. d is nowhere.
    # The second document's label stands in its first sentence, and is found in its second.
    rows = [
        ("1", {"a"}, {"a"}),
        ("2", {"b"}, set()),
        ("1", {"b"}, {"a"}),
        ("2", set(), {"b", "c"}),
        ("3", [], ["a"]),
        ("4", ["c"], []),
    ]
    scores = label_metrics.hoc_scores(*zip(*rows, strict=True), HALLMARKS)
    # Over documents x labels: 2 right (1a, 2b), 4 predicted, 4 true.
    assert scores["micro_f1"] == pytest.approx(1 / 2)
    # Labels over documents: a 1 right, 2 predicted, 1 true; b 1, 1, 2; c 0, 1, 1; d 0, 0, 0.
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 0 + 0) / 4)
    # Precision 1/2, 1, 0, 0: mean 3/8. Recall 1, 1/2, 0, 0: mean 3/8.
    assert scores["bioelectra_f1"] == pytest.approx(3 / 8)
    # Documents 1, 2 and 4 (3 has no label): precision 1, 1/2, 0; recall 1/2, 1, 0. Means 1/2, 1/2.
    assert scores["blue_f1"] == pytest.approx(1 / 2)
    # Sentences: a 1 right, 3 predicted, 1 true; b 0, 1, 2; c 0, 1, 1; d 0, 0, 0.
    # Absences, of 6 sentences: a 3 right, 3 predicted, 5 true; b 3, 5, 4; c 4, 5, 5; d 6, 6, 6.
    precision = (1 / 3 + 3 / 3 + 3 / 5 + 4 / 5 + 6 / 6) / 8
    recall = (1 / 1 + 3 / 5 + 3 / 4 + 4 / 5 + 6 / 6) / 8
    assert scores["bioelectra_code_f1"] == pytest.approx(
        2 * precision * recall / (precision + recall)
    )
    assert next(iter(scores)) == "micro_f1"


def test_hoc_scores_of_documents_without_labels_are_0():
    figures = label_metrics.hoc_scores(["1", "2"], [set(), set()], [{"a"}, set()], HALLMARKS)
    # But in the 8 of BioELECTRA's code 4 absences are all right, and a's is found once of twice.
    assert figures.pop("bioelectra_code_f1") == pytest.approx(2 * 4 * 3.5 / 7.5 / 8)
    assert set(figures.values()) == {0.0}


def indicators(sets):
    return np.array([[int(label in labels) for label in HALLMARKS] for labels in sets])


def test_hoc_scores_equal_sklearn():
    generator = random.Random(5)
    for size in (4, 12, 60) * 8:
        ids = sorted(generator.choice("123456") for _ in range(size))
        truth, predicted = (
            [{x for x in HALLMARKS if generator.random() < 0.3} for _ in ids] for _ in "ab"
        )
        scores = label_metrics.hoc_scores(ids, truth, predicted, HALLMARKS)
        pair = [
            indicators([set().union(*(y for i, y in zip(ids, x, strict=True) if i == document))
                        for document in dict.fromkeys(ids)])
            for x in (truth, predicted)
        ]  # fmt: skip
        for average in ("micro", "macro"):
            expected = sklearn.metrics.f1_score(*pair, average=average, zero_division=0)
            assert scores[f"{average}_f1"] == pytest.approx(expected), size

        def f_of_means(pair, average):
            prf = sklearn.metrics.precision_recall_fscore_support(
                *pair, average=average, zero_division=0
            )
            precision, recall = np.mean(prf[0]), np.mean(prf[1])
            return 2 * precision * recall / (precision + recall) if precision + recall else 0

        each = sklearn.metrics.precision_recall_fscore_support(*pair, zero_division=0)
        for metric, values in zip(("precision", "recall", "f1"), each, strict=False):
            assert [scores[f"{metric}_{x}"] for x in HALLMARKS] == pytest.approx(values), size
        assert scores["bioelectra_f1"] == pytest.approx(f_of_means(pair, "macro")), size
        labelled = pair[0].any(axis=1)
        if labelled.any():
            expected = f_of_means([x[labelled] for x in pair], "samples")
        assert scores["blue_f1"] == pytest.approx(expected if labelled.any() else 0), size
        sentences = [indicators(x) for x in (truth, predicted)]
        both = [np.concatenate([x, 1 - x], axis=1) for x in sentences]
        assert scores["bioelectra_code_f1"] == pytest.approx(f_of_means(both, "macro")), size


def test_absence_may_be_predicted_beside_presence():
    """BioELECTRA's code has an output for each; its scorer is sklearn's, column by column."""
    generator = np.random.default_rng(7)
    for size in (3, 10, 40) * 5:
        truth, present, absent = generator.random([3, size, 4]) < 0.4
        sets = [
            [{HALLMARKS[i] for i in np.flatnonzero(row)} for row in x] for x in (truth, present)
        ]
        scores = label_metrics.bioelectra_label_scores(*sets, HALLMARKS, absent)
        pair = np.hstack([truth, ~truth]), np.hstack([present, absent])
        precision, recall = (
            np.mean([own(*pair, average="micro", labels=[i], zero_division=0) for i in range(8)])
            for own in (sklearn.metrics.precision_score, sklearn.metrics.recall_score)
        )
        expected = {"precision": precision, "recall": recall}
        expected["f1"] = 2 * precision * recall / (precision + recall)
        assert scores == pytest.approx(expected), size


def test_the_truth_of_hoc_scores_1():
    """BLURB's test set; of its documents 53 have no label, and no sentence may fall out."""
    with gzip.open(reference.corpus("hoc/blurb/test.tsv.gz"), "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    ids = [row[-1].split("_")[0] for row in rows]
    truth = [{x[:-2] for x in row[0].split(",") if x.endswith("_1")} for row in rows]
    assert len(rows) == 3547
    documents = label_metrics.by_document(ids, truth)
    assert len(documents) == 371 and sum(not labels for labels in documents.values()) == 53
    scores = label_metrics.hoc_scores(ids, truth, truth, [str(i) for i in range(10)])
    assert set(scores.values()) == {1.0}


def test_an_unknown_hallmark_is_named():
    with pytest.raises(ScoreError, match="example 0: unknown label 'x'.*a, b, c, d"):
        label_metrics.hoc_scores(["1"], [{"a"}], [{"x"}], HALLMARKS)


def test_tensorflow_is_not_imported():
    code = "import sys, tfbio.task_types.label_metrics; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
