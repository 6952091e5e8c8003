"""Scores of tagged words, against other implementations and cases worked by hand."""

import random
import re

import numpy as np
import pytest
import seqeval.metrics
import seqeval.scheme
import sklearn.metrics
from seqeval.metrics import sequence_labeling as seqeval_default
from seqeval.metrics import v1 as strict_seqeval

from tfbio.task_types import entity_metrics
from tfbio.task_types.metrics import ScoreError


def random_tags(generator, types, lengths, valid=False):
    """BIO tags of sentences of these lengths; `valid`: every I continues an entity of its type."""
    names = ["O"] + [prefix + kind for prefix in "BI" for kind in types]

    def sentence(length):
        tags = ["O"]
        for tag in generator.choices(names, k=length):
            stray = tag[0] == "I" and tags[-1] not in ("B" + tag[1:], tag)
            tags.append("B" + tag[1:] if valid and stray else tag)
        return tags[1:]

    return [sentence(length) for length in lengths]


def random_pair(generator, types, sentences, valid_truth=False, valid_prediction=False):
    """Truth, and predictions of which every second sentence differs from it in some words."""
    lengths = [generator.randint(1, 8) for _ in range(sentences)]
    truth = random_tags(generator, types, lengths, valid_truth)
    other = random_tags(generator, types, lengths, valid_prediction)
    cuts = [generator.choice([0, generator.randint(0, length)]) for length in lengths]
    predicted = [[*b[:cut], *a[cut:]] for a, b, cut in zip(truth, other, cuts, strict=True)]
    return truth, other if valid_prediction else predicted


def conlleval(truth, predicted):
    """CoNLL's counts (right, predicted, true) by its published rules, word by word.

    From the description of `conlleval`: startOfChunk and endOfChunk look at two tags, and a chunk
    is right if it starts and ends in both at the same words with one type throughout.
    """

    def split(tag):
        return (tag[0], tag[2:])

    def ends(before, now):
        (tag, kind), (next_tag, next_kind) = before, now
        pairs = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")}
        return (tag, next_tag) in pairs or (tag != "O" and kind != next_kind)

    def starts(before, now):
        (tag, kind), (next_tag, next_kind) = before, now
        pairs = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I")}
        return (tag, next_tag) in pairs or (next_tag != "O" and kind != next_kind)

    right = n_predicted = n_true = 0
    for true_tags, found_tags in zip(truth, predicted, strict=True):
        inside = False
        last_true = last_found = ("O", "")
        for true, found in zip([*true_tags, "O"], [*found_tags, "O"], strict=True):
            true, found = split(true), split(found)
            if inside:
                true_ends, found_ends = ends(last_true, true), ends(last_found, found)
                if true_ends and found_ends and last_true[1] == last_found[1]:
                    right += 1
                    inside = False
                elif true_ends != found_ends or true[1] != found[1]:
                    inside = False
            true_starts, found_starts = starts(last_true, true), starts(last_found, found)
            inside = inside or (true_starts and found_starts and true[1] == found[1])
            n_true += true_starts
            n_predicted += found_starts
            last_true, last_found = true, found
    return right, n_predicted, n_true


SCHEMES = {"bare": [""], "one type": ["-Chemical"], "three types": ["-a", "-b", "-cell-line"]}


@pytest.mark.parametrize("types", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("valid", [True, False], ids=["valid truth", "any truth"])
def test_entity_scores_equal_conlleval_and_seqeval(types, valid):
    generator = random.Random(0)
    for sentences in [1] * 200 + [20] * 40:
        truth, predicted = random_pair(generator, types, sentences, valid)
        scores = entity_metrics.entity_scores(truth, predicted)

        right, n_predicted, n_true = conlleval(truth, predicted)
        assert scores["precision"] == pytest.approx(right / max(n_predicted, 1))
        assert scores["recall"] == pytest.approx(right / max(n_true, 1))
        assert scores["f1"] == pytest.approx(2 * right / max(n_predicted + n_true, 1))

        expected = seqeval_default.precision_recall_fscore_support(
            truth, predicted, average="micro", zero_division=0
        )
        assert [scores[x] for x in ("precision", "recall", "f1")] == pytest.approx(expected[:3])

        expected = strict_seqeval.precision_recall_fscore_support(
            truth, predicted, average="micro", scheme=seqeval.scheme.IOB2, zero_division=0
        )
        names = ("strict_precision", "strict_recall", "strict_f1")
        assert [scores[name] for name in names] == pytest.approx(expected[:3])
        if valid:
            assert scores["strict_recall"] <= scores["recall"]


def test_both_rules_agree_where_no_i_lacks_its_b():
    generator = random.Random(1)
    for _ in range(500):
        truth, predicted = random_pair(generator, ["-a", "-b"], 2, True, True)
        scores = entity_metrics.entity_scores(truth, predicted)
        for name in ("f1", "precision", "recall"):
            assert scores[f"strict_{name}"] == scores[name]


def test_a_stray_i_by_both_rules():
    # conlleval: both predicted entities are right. Strict: I without B is none, so 1 of 2 found.
    truth = [["B", "I", "O", "B"]]
    scores = entity_metrics.entity_scores(truth, [["B", "I", "O", "I"]])
    assert scores == pytest.approx(
        {"f1": 1, "precision": 1, "recall": 1}
        | {"strict_f1": 2 / 3, "strict_precision": 1, "strict_recall": 1 / 2}
    )
    # Strict can be the higher: [0, 0] is right, and the stray I is one wrong entity less.
    scores = entity_metrics.entity_scores([["B", "O", "O"]], [["B", "O", "I"]])
    assert (scores["f1"], scores["strict_f1"]) == (pytest.approx(2 / 3), 1)


def test_items_that_overlap_are_scored_by_type():
    truth = [{("a", 0, 3), ("b", 1, 1)}, set(), {("a", 2, 2)}]
    found = [{("a", 0, 3), ("a", 1, 1)}, {("b", 0, 0)}, {("a", 2, 2)}]
    scores = entity_metrics.item_scores(truth, found, ("a", "b", "c"))
    assert scores == {
        "f1": pytest.approx(4 / 7),
        "precision": 0.5,
        "recall": pytest.approx(2 / 3),
        "f1_a": pytest.approx(0.8),
        "precision_a": pytest.approx(2 / 3),
        "recall_a": 1.0,
        **dict.fromkeys(("f1_b", "precision_b", "recall_b"), 0.0),
        **dict.fromkeys(("f1_c", "precision_c", "recall_c"), 0.0),
    }
    assert next(iter(scores)) == "f1"
    assert scores.drawn("f1", np.array([0.0, 0.0, 1.0])) == 1.0
    assert len(entity_metrics.item_scores([{("a", 0)}], [set()], ("a",))) == 3
    with pytest.raises(ScoreError, match="unknown label 'd'"):
        entity_metrics.item_scores([{("d", 0)}], [set()], ("a",))


def test_scores_of_each_type_are_given_where_there_are_several():
    generator = random.Random(2)
    truth, predicted = random_pair(generator, SCHEMES["three types"], 50)
    scores = entity_metrics.entity_scores(truth, predicted)
    report = seqeval.metrics.classification_report(truth, predicted, output_dict=True)
    for name in ("a", "b", "cell-line"):
        for metric, theirs in (("f1", "f1-score"), ("precision",) * 2, ("recall",) * 2):
            assert scores[f"{metric}_{name}"] == pytest.approx(report[name][theirs])
    # A type that is only predicted is one too.
    scores = entity_metrics.entity_scores([["B-a", "O"]], [["B-a", "B-b"]])
    assert (scores["f1_a"], scores["f1_b"]) == (1, 0)
    assert (scores["precision_b"], scores["recall_b"]) == (0, 0)
    assert not [x for x in entity_metrics.entity_scores([["B-a"]], [["B-a"]]) if x.endswith("_a")]


def test_sentences_without_entities_score_0():
    scores = entity_metrics.entity_scores([["O", "O"], ["O"]], [["O", "O"], ["O"]])
    assert set(scores.values()) == {0.0}


@pytest.mark.parametrize("tag", ["E-a", "B-", "b", "", "S", "Chemical", "B-a\nI"])
def test_a_tag_that_is_not_bio_is_named(tag):
    with pytest.raises(ScoreError, match=re.escape(f"{tag!r} is no BIO tag")):
        entity_metrics.entity_scores([["B-a", "O"]], [["B-a", tag]])


def test_word_scores_of_a_hand_worked_case():
    # PAR: 2 true, 3 predicted, 2 right: 4/5. INT: 1 true, none predicted: 0.
    # OUT: 1 true, 2 predicted (one in the second sentence), 1 right: 2/3.
    truth = [["I-PAR", "I-PAR", "O", "I-INT"], ["I-OUT", "O"]]
    predicted = [["I-PAR", "I-PAR", "I-PAR", "O"], ["I-OUT", "I-OUT"]]
    scores = entity_metrics.word_scores(truth, predicted)
    expected = {"f1_PAR": 4 / 5, "f1_INT": 0, "f1_OUT": 2 / 3, "macro_f1": (4 / 5 + 2 / 3) / 3}
    # Of six words the first two and the fifth are right.
    expected |= {"precision_PAR": 2 / 3, "recall_PAR": 1, "precision_INT": 0, "recall_INT": 0}
    expected |= {"precision_OUT": 1 / 2, "recall_OUT": 1}
    assert scores == pytest.approx({**expected, "accuracy": 3 / 6})
    assert next(iter(scores)) == "macro_f1"


def test_word_scores_equal_sklearn():
    generator = random.Random(3)
    labels = ["I-PAR", "I-INT", "I-OUT"]
    for _ in range(100):
        lengths = [generator.randint(1, 9) for _ in range(5)]
        truth, predicted = (
            [[generator.choice(["O", *labels]) for _ in range(n)] for n in lengths] for _ in "ab"
        )
        expected = sklearn.metrics.f1_score(
            sum(truth, []), sum(predicted, []), labels=labels, average=None, zero_division=0
        )
        scores = entity_metrics.word_scores(truth, predicted)
        assert [scores[f"f1_{x[2:]}"] for x in labels] == pytest.approx(expected)
        assert scores["macro_f1"] == pytest.approx(expected.mean())
        pairs = list(zip(sum(truth, []), sum(predicted, []), strict=True))
        assert scores["accuracy"] == pytest.approx(np.mean([a == b for a, b in pairs]))


def test_an_unknown_element_is_named():
    with pytest.raises(ScoreError, match="example 1: unknown label 'COM'.*PAR, INT, OUT"):
        entity_metrics.word_scores([["O"], ["I-COM"]], [["O"], ["O"]])


@pytest.mark.parametrize("score", [entity_metrics.entity_scores, entity_metrics.word_scores])
def test_a_sentence_with_tags_missing_is_named(score):
    with pytest.raises(ScoreError, match="sentence 1: there are 2 words and 1 predictions"):
        score([["O"], ["O", "O"]], [["O"], ["O"]])


def test_a_draws_figures_are_those_of_the_drawn_sentences():
    generator = random.Random(7)
    truth, predicted = random_pair(generator, SCHEMES["three types"], 30)
    scores = entity_metrics.entity_scores(truth, predicted)
    assert scores.size == 30 and scores.drawable == {"f1", "precision", "recall"}
    rows = np.random.default_rng(0).integers(30, size=30)
    pair = [[tags[i] for i in rows] for tags in (truth, predicted)]
    expected = seqeval_default.precision_recall_fscore_support(*pair, average="micro")
    times = np.bincount(rows, minlength=30)
    found = [scores.drawn(name, times) for name in ("precision", "recall", "f1")]
    assert found == pytest.approx(expected[:3])
