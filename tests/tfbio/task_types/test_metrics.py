"""The official scores, against other implementations and cases worked by hand."""

import gzip
import random
import re
import string
import subprocess
import sys
import warnings

import numpy as np
import pytest
import seqeval.metrics
import seqeval.scheme
import sklearn.metrics
from scipy import stats
from seqeval.metrics import sequence_labeling as seqeval_default
from seqeval.metrics import v1 as strict_seqeval

from tests import reference
from tfbio.task_types import answer_scores, bootstraps, metrics, tag_schemes
from tfbio.task_types.scores import ScoreError


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
        scores = metrics.entity_scores(truth, predicted)

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
        scores = metrics.entity_scores(truth, predicted)
        for name in ("f1", "precision", "recall"):
            assert scores[f"strict_{name}"] == scores[name]


def test_a_stray_i_by_both_rules():
    # conlleval: both predicted entities are right. Strict: I without B is none, so 1 of 2 found.
    truth = [["B", "I", "O", "B"]]
    scores = metrics.entity_scores(truth, [["B", "I", "O", "I"]])
    assert scores == pytest.approx(
        {"f1": 1, "precision": 1, "recall": 1}
        | {"strict_f1": 2 / 3, "strict_precision": 1, "strict_recall": 1 / 2}
    )
    # Strict can be the higher: [0, 0] is right, and the stray I is one wrong entity less.
    scores = metrics.entity_scores([["B", "O", "O"]], [["B", "O", "I"]])
    assert (scores["f1"], scores["strict_f1"]) == (pytest.approx(2 / 3), 1)


def test_entities_of_a_sentence():
    tags = ["I-a", "I-a", "O", "B-a", "I-b", "B-b", "I-b"]
    assert tag_schemes.entities(tags) == {("a", 0, 1), ("a", 3, 3), ("b", 4, 4), ("b", 5, 6)}
    assert tag_schemes.entities(tags, strict=True) == {("a", 3, 3), ("b", 5, 6)}
    assert tag_schemes.entities(("B", "I", "B")) == {("_", 0, 1), ("_", 2, 2)}
    assert tag_schemes.entities([]) == set()


def test_items_that_overlap_are_scored_by_type():
    truth = [{("a", 0, 3), ("b", 1, 1)}, set(), {("a", 2, 2)}]
    found = [{("a", 0, 3), ("a", 1, 1)}, {("b", 0, 0)}, {("a", 2, 2)}]
    scores = metrics.item_scores(truth, found, ("a", "b", "c"))
    assert scores == {
        "f1": pytest.approx(4 / 7),
        "precision": 0.5,
        "recall": pytest.approx(2 / 3),
        "f1_a": pytest.approx(0.8),
        "f1_b": 0.0,
        "f1_c": 0.0,
    }
    assert next(iter(scores)) == "f1"
    assert scores.drawn("f1", np.array([0.0, 0.0, 1.0])) == 1.0
    assert "f1_a" not in metrics.item_scores([{("a", 0)}], [set()], ("a",))
    with pytest.raises(ScoreError, match="unknown label 'd'"):
        metrics.item_scores([{("d", 0)}], [set()], ("a",))


def test_f1_of_each_type_is_given_where_there_are_several():
    generator = random.Random(2)
    truth, predicted = random_pair(generator, SCHEMES["three types"], 50)
    scores = metrics.entity_scores(truth, predicted)
    report = seqeval.metrics.classification_report(truth, predicted, output_dict=True)
    for name in ("a", "b", "cell-line"):
        assert scores[f"f1_{name}"] == pytest.approx(report[name]["f1-score"])
    # A type that is only predicted is one too.
    scores = metrics.entity_scores([["B-a", "O"]], [["B-a", "B-b"]])
    assert (scores["f1_a"], scores["f1_b"]) == (1, 0)
    assert not [x for x in metrics.entity_scores([["B-a"]], [["B-a"]]) if x.startswith("f1_")]


def test_sentences_without_entities_score_0():
    scores = metrics.entity_scores([["O", "O"], ["O"]], [["O", "O"], ["O"]])
    assert set(scores.values()) == {0.0}


@pytest.mark.parametrize("tag", ["E-a", "B-", "b", "", "S", "Chemical", "B-a\nI"])
def test_a_tag_that_is_not_bio_is_named(tag):
    with pytest.raises(ScoreError, match=re.escape(f"{tag!r} is no BIO tag")):
        metrics.entity_scores([["B-a", "O"]], [["B-a", tag]])


def test_word_scores_of_a_hand_worked_case():
    # PAR: 2 true, 3 predicted, 2 right: 4/5. INT: 1 true, 1 predicted, 0 right: 0.
    # OUT: 1 true, 2 predicted (one in the second sentence), 1 right: 2/3.
    truth = [["I-PAR", "I-PAR", "O", "I-INT"], ["I-OUT", "O"]]
    predicted = [["I-PAR", "I-PAR", "I-PAR", "O"], ["I-OUT", "I-OUT"]]
    predicted[0][2] = {"PAR", "INT"}
    scores = metrics.word_scores(truth, predicted)
    expected = {"f1_PAR": 4 / 5, "f1_INT": 0, "f1_OUT": 2 / 3, "macro_f1": (4 / 5 + 2 / 3) / 3}
    # Of six words the first two and the fifth are right.
    assert scores == pytest.approx({**expected, "accuracy": 3 / 6})
    assert next(iter(scores)) == "macro_f1"


def test_word_scores_of_overlapping_elements():
    # The second word is a participant and an intervention; one tag can find only one of them.
    # PAR: 2 true, 2 found: 1. INT: 1 true, none found: 0. OUT: 1 true, 1 found: 1.
    truth = [[{"PAR"}, {"PAR", "INT"}, set(), frozenset({"OUT"})]]
    scores = metrics.word_scores(truth, [["I-PAR", "I-PAR", "O", "I-OUT"]])
    assert scores == pytest.approx(
        {"f1_PAR": 1, "f1_INT": 0, "f1_OUT": 1, "macro_f1": 2 / 3, "accuracy": 3 / 4}
    )
    assert set(metrics.word_scores(truth, truth).values()) == {1.0}


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
        scores = metrics.word_scores(truth, predicted)
        assert [scores[f"f1_{x[2:]}"] for x in labels] == pytest.approx(expected)
        assert scores["macro_f1"] == pytest.approx(expected.mean())
        pairs = list(zip(sum(truth, []), sum(predicted, []), strict=True))
        assert scores["accuracy"] == pytest.approx(np.mean([a == b for a, b in pairs]))


def test_an_unknown_element_is_named():
    with pytest.raises(ScoreError, match="example 1: unknown label 'COM'.*PAR, INT, OUT"):
        metrics.word_scores([["O"], ["I-COM"]], [["O"], ["O"]])


def test_relation_scores_equal_sklearn():
    generator = random.Random(4)
    labels = ["CPR:3", "CPR:4", "CPR:9"]
    for size in (1, 5, 60) * 15:
        truth, predicted = (
            [generator.choice([*labels, "false", "false"]) for _ in range(size)] for _ in "ab"
        )
        scores = metrics.relation_scores(truth, predicted, negative="false")
        expected = sklearn.metrics.precision_recall_fscore_support(
            truth, predicted, labels=labels, average="micro", zero_division=0
        )
        assert [scores[x] for x in ("precision", "recall", "f1")] == pytest.approx(expected[:3])
        found = sorted((set(truth) | set(predicted)) - {"false"})
        if found:
            expected = sklearn.metrics.f1_score(
                truth, predicted, labels=found, average="macro", zero_division=0
            )
        assert scores["macro_f1"] == pytest.approx(expected if found else 0)


def test_relation_scores_of_two_classes_are_of_the_positive_one():
    # GAD: 2 right of 3 predicted and 4 true.
    truth, predicted = list("1111000"), list("1100100")
    scores = metrics.relation_scores(truth, predicted, negative="0")
    assert scores["f1"] == pytest.approx(4 / 7)
    assert scores["f1"] == pytest.approx(sklearn.metrics.f1_score(truth, predicted, pos_label="1"))


def test_relations_may_have_several_negative_labels():
    scores = metrics.relation_scores(["x", "no", "none"], ["x", "none", "x"], {"no", "none"})
    expected = {"f1": 2 / 3, "precision": 1 / 2, "recall": 1, "macro_f1": 2 / 3}
    assert scores == pytest.approx(expected)


def test_classification_scores_of_a_hand_worked_case():
    # F1: methods 2*1/(2+1) = 2/3 with one right of two found, one true; results 1*2/(1+2) = 2/3.
    truth = ["methods", "results", "results"]
    predicted = ["methods", "methods", "results"]
    scores = metrics.accuracy_and_macro_f1(truth, predicted)
    assert scores == pytest.approx({"accuracy": 2 / 3, "macro_f1": 2 / 3})
    # A label that is only predicted counts as an F1 of 0.
    scores = metrics.accuracy_and_macro_f1(["methods", "methods"], ["methods", "results"])
    assert scores == pytest.approx({"accuracy": 1 / 2, "macro_f1": 1 / 3})


def test_bioasq_yes_no_averages_over_both_answers():
    assert metrics.accuracy_and_macro_f1(["yes"] * 3, ["yes"] * 3)["macro_f1"] == 1
    scores = metrics.accuracy_and_macro_f1(["yes"] * 3, ["yes"] * 3, labels=("yes", "no"))
    assert scores == {"accuracy": 1, "macro_f1": 1 / 2}


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
    scores = metrics.hoc_scores(*zip(*rows, strict=True), HALLMARKS)
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
    figures = metrics.hoc_scores(["1", "2"], [set(), set()], [{"a"}, set()], HALLMARKS)
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
        scores = metrics.hoc_scores(ids, truth, predicted, HALLMARKS)
        pair = [
            indicators([set().union(*(y for i, y in zip(ids, x, strict=True) if i == document))
                        for document in dict.fromkeys(ids)])
            for x in (truth, predicted)
        ]  # fmt: skip
        for average in ("micro", "macro"):
            expected = sklearn.metrics.f1_score(*pair, average=average, zero_division=0)
            assert scores[f"{average}_f1"] == pytest.approx(expected)

        def f_of_means(pair, average):
            prf = sklearn.metrics.precision_recall_fscore_support(
                *pair, average=average, zero_division=0
            )
            precision, recall = np.mean(prf[0]), np.mean(prf[1])
            return 2 * precision * recall / (precision + recall) if precision + recall else 0

        assert scores["bioelectra_f1"] == pytest.approx(f_of_means(pair, "macro"))
        labelled = pair[0].any(axis=1)
        if labelled.any():
            expected = f_of_means([x[labelled] for x in pair], "samples")
        assert scores["blue_f1"] == pytest.approx(expected if labelled.any() else 0)
        sentences = [indicators(x) for x in (truth, predicted)]
        both = [np.concatenate([x, 1 - x], axis=1) for x in sentences]
        assert scores["bioelectra_code_f1"] == pytest.approx(f_of_means(both, "macro"))


def test_absence_may_be_predicted_beside_presence():
    """BioELECTRA's code has an output for each; its scorer is sklearn's, column by column."""
    generator = np.random.default_rng(7)
    for size in (3, 10, 40) * 5:
        truth, present, absent = generator.random([3, size, 4]) < 0.4
        sets = [
            [{HALLMARKS[i] for i in np.flatnonzero(row)} for row in x] for x in (truth, present)
        ]
        scores = metrics.bioelectra_label_scores(*sets, HALLMARKS, absent)
        pair = np.hstack([truth, ~truth]), np.hstack([present, absent])
        precision, recall = (
            np.mean([own(*pair, average="micro", labels=[i], zero_division=0) for i in range(8)])
            for own in (sklearn.metrics.precision_score, sklearn.metrics.recall_score)
        )
        expected = {"precision": precision, "recall": recall}
        expected["f1"] = 2 * precision * recall / (precision + recall)
        assert scores == pytest.approx(expected)


def test_the_truth_of_hoc_scores_1():
    """BLURB's test set; of its documents 53 have no label, and no sentence may fall out."""
    with gzip.open(reference.corpus("hoc/blurb/test.tsv.gz"), "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    ids = [row[-1].split("_")[0] for row in rows]
    truth = [{x[:-2] for x in row[0].split(",") if x.endswith("_1")} for row in rows]
    assert len(rows) == 3547
    documents = metrics.by_document(ids, truth)
    assert len(documents) == 371 and sum(not labels for labels in documents.values()) == 53
    scores = metrics.hoc_scores(ids, truth, truth, [str(i) for i in range(10)])
    assert set(scores.values()) == {1.0}


def test_an_unknown_hallmark_is_named():
    with pytest.raises(ScoreError, match="example 0: unknown label 'x'.*a, b, c, d"):
        metrics.hoc_scores(["1"], [{"a"}], [{"x"}], HALLMARKS)


def test_correlation_scores():
    # Deviations from the means: -2 -1 0 1 2 and -1 -2 0 2 1; the products sum to 8, the squares to
    # 10 and 10: Pearson 8/10. The ranks are the same numbers, so Spearman is as much.
    scores = metrics.correlation_scores([1, 2, 3, 4, 5], [2.0, 1.0, 3.0, 5.0, 4.0])
    assert scores == pytest.approx({"pearson": 0.8, "spearman": 0.8})
    # One far value changes Pearson, not the ranks.
    scores = metrics.correlation_scores([1, 2, 3, 4], [1, 2, 3, 1000])
    assert scores["pearson"] < 0.8 and scores["spearman"] == pytest.approx(1)
    assert metrics.correlation_scores([1, 2], [3, 2])["pearson"] == pytest.approx(-1)


@pytest.mark.parametrize("truth, predicted", [([1, 2, 3], [2, 2, 2]), ([1, 1], [1, 2]), ([1], [2])])
def test_an_undefined_correlation_is_0(truth, predicted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = metrics.correlation_scores(truth, predicted)
    assert scores == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_no_number_is_named(value):
    with pytest.raises(ScoreError, match=f"example 2: the prediction is {value}"):
        metrics.correlation_scores([1, 2, 3, 4], np.array([1, 2, value, value], np.float32))
    with pytest.raises(ValueError, match="example 0: the true value is"):
        metrics.correlation_scores([value, 2], [1, 2])


@pytest.mark.parametrize(
    "answers, predicted, f1, exact_match",
    [
        (["The cat"], "cat", 1, 1),
        (["cat"], "  A  CAT. ", 1, 1),
        (["cats"], "cat", 0, 0),
        # Punctuation goes without a blank, before articles: "a.m." is "am", "a." an article.
        (["10 a.m."], "10 am", 1, 1),
        (["vitamin a."], "vitamin", 1, 1),
        (["IL-2"], "IL2", 1, 1),
        (["IL-2"], "IL 2", 0, 0),
        # Only whole words are articles, and each leaves a blank.
        (["theta"], "ta", 0, 0),
        (["lithe"], "li", 0, 0),
        (["1–the–2"], "1– –2", 1, 1),
        # Only ASCII punctuation goes: a dash of two bytes stays.
        (["1–2"], "12", 0, 0),
        (["“IL2”"], "IL2", 0, 0),
        (["naïve T cells"], "naïve t-cells", 2 / 5, 0),
        (["ＤＮＡ"], "ｄｎａ", 1, 1),
        # 2 words in common of 3 and 4: 2 * 2 / 7. A word counts as often as it is in both.
        (["one two three"], "two three four five", 4 / 7, 0),
        (["x x"], "x x x", 4 / 5, 0),
        (["x y"], "y x", 1, 0),
        # The best answer counts, for each figure by itself.
        (["x y z", "x"], "x y", 4 / 5, 0),
        (["wrong", "right"], "right", 1, 1),
        # No answer is right only where there is none.
        (["x"], "", 0, 0),
        ([], "", 1, 1),
        ([], "x", 0, 0),
        ([], "the", 1, 1),
        # An answer of which nothing is left does not count beside another.
        (["The", "cat"], "a", 0, 0),
        (["The"], "a", 1, 1),
    ],
)
def test_squad_scores_of_one_question(answers, predicted, f1, exact_match):
    scores = answer_scores.squad_scores([answers], [predicted])
    assert scores["f1"] == pytest.approx(f1)
    assert scores["exact_match"] == exact_match


def test_squad_scores_by_the_steps_of_the_official_script():
    """A second implementation, letter by letter, on random words of awkward texts."""

    def words(text):
        kept = "".join(x for x in text.lower() if x not in set(string.punctuation))
        kept = "".join(x if x.isalnum() or x == "_" else f" {x} " for x in kept)
        return [x for x in kept.split() if x not in ("a", "an", "the")]

    def f1(answer, predicted):
        left, common = words(predicted), 0
        for word in words(answer):
            if word in left:
                left.remove(word)
                common += 1
        if common == 0:
            return 0.0
        precision, recall = common / len(words(predicted)), common / len(words(answer))
        return 2 * precision * recall / (precision + recall)

    generator = random.Random(6)
    pieces = ["the", "A", "an", "x.", "x", "Y", "y-z", "(yz)", "'s", "thé", "\t", "the-a", "a,"]
    for _ in range(1000):
        texts = [" ".join(generator.choices(pieces, k=generator.randint(1, 5))) for _ in range(4)]
        answers = [text for text in texts[:3] if words(text)]
        if not answers:
            continue
        scores = answer_scores.squad_scores([answers], [texts[3]])
        assert scores["f1"] == pytest.approx(max(f1(x, texts[3]) for x in answers))
        assert scores["exact_match"] == any(words(x) == words(texts[3]) for x in answers)


def test_squad_scores_of_questions_with_and_without_answers():
    answers = [["x y"], ["z"], [], []]
    # F1 of the four: 2 * 1 / (2 + 1) = 2/3, 1, 1, 0; exact: 0, 1, 1, 0.
    scores = answer_scores.squad_scores(answers, ["x", "z", "", "x"])
    assert scores == pytest.approx(
        {"f1": 2 / 3, "exact_match": 1 / 2}
        | {"has_answer_f1": 5 / 6, "has_answer_exact_match": 1 / 2}
        | {"no_answer_f1": 1 / 2, "no_answer_exact_match": 1 / 2}
    )
    assert set(answer_scores.squad_scores(answers[:2], ["x", "z"])) == {"f1", "exact_match"}
    assert "has_answer_f1" not in answer_scores.squad_scores([[]], [""])


def test_bioasq_factoid_scores_of_a_hand_worked_case():
    synonyms = [["TP53", "p53"], ["insulin"], ["BRCA1"], ["MDM2"], ["EGFR"], ["x"]]
    predicted = [
        ["P53", "mdm2"],  # right at once, but for case
        ["glucagon", "leptin", "Insulin"],  # third
        ["BRCA-1", " brca1", "BRCA1."],  # nothing but case is ignored
        ["a", "b", "c", "d", "MDM2"],  # the fifth still counts
        ["a", "b", "c", "d", "e", "EGFR"],  # the sixth does not
        [],
    ]
    scores = answer_scores.bioasq_factoid_scores(synonyms, predicted)
    assert scores == pytest.approx(
        {"mrr": (1 + 1 / 3 + 1 / 5) / 6, "strict_accuracy": 1 / 6, "lenient_accuracy": 3 / 6}
    )


def test_a_right_answer_given_twice_counts_where_it_comes_first():
    scores = answer_scores.bioasq_factoid_scores([["x", "y"]], [["z", "y", "x"]])
    assert scores == {"mrr": 1 / 2, "strict_accuracy": 0, "lenient_accuracy": 1}


@pytest.mark.parametrize(
    "score",
    [
        metrics.entity_scores,
        metrics.word_scores,
        lambda truth, predicted: metrics.relation_scores(truth, predicted, "O"),
        metrics.accuracy_and_macro_f1,
        metrics.correlation_scores,
        answer_scores.squad_scores,
        answer_scores.bioasq_factoid_scores,
    ],
)
def test_lengths_that_differ_or_are_0_are_refused(score):
    with pytest.raises(ScoreError, match="2 examples and 1 predictions"):
        score(["O", "O"], ["O"])
    with pytest.raises(ScoreError, match="no example"):
        score([], [])


@pytest.mark.parametrize("score", [metrics.entity_scores, metrics.word_scores])
def test_a_sentence_with_tags_missing_is_named(score):
    with pytest.raises(ScoreError, match="sentence 1: there are 2 words and 1 predictions"):
        score([["O"], ["O", "O"]], [["O"], ["O"]])


def test_figures_are_python_floats():
    tags = [["B-a", "O"], ["B-b", "I-b"]]
    for scores in (
        metrics.entity_scores(tags, tags),
        metrics.word_scores([["I-PAR"]], [["I-PAR"]]),
        metrics.relation_scores(["x"], ["x"], "false"),
        metrics.accuracy_and_macro_f1(["x"], ["x"]),
        metrics.hoc_scores(["1"], [{"a"}], [{"a"}], HALLMARKS),
        metrics.correlation_scores([1, 2], [1, 2]),
        answer_scores.squad_scores([["x"], []], ["x", ""]),
        answer_scores.bioasq_factoid_scores([["x"]], [["x"]]),
    ):
        assert {type(figure) for figure in scores.values()} == {float}


def test_a_draws_figures_are_those_of_the_drawn_sentences():
    generator = random.Random(7)
    truth, predicted = random_pair(generator, SCHEMES["three types"], 30)
    scores = metrics.entity_scores(truth, predicted)
    assert scores.size == 30 and scores.drawable == {"f1", "precision", "recall"}
    rows = np.random.default_rng(0).integers(30, size=30)
    pair = [[tags[i] for i in rows] for tags in (truth, predicted)]
    expected = seqeval_default.precision_recall_fscore_support(*pair, average="micro")
    times = np.bincount(rows, minlength=30)
    found = [scores.drawn(name, times) for name in ("precision", "recall", "f1")]
    assert found == pytest.approx(expected[:3])


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    values = np.random.default_rng(0).normal(size=400)
    error = values.std() / np.sqrt(400)
    for confidence, sigmas in ((0.95, 1.960), (0.8, 1.282)):
        low, high = bootstraps.bootstrap(
            lambda rows: values[rows].mean(), 400, seed=1, samples=4000, confidence=confidence
        )
        assert low == pytest.approx(values.mean() - sigmas * error, abs=0.08 * error)
        assert high == pytest.approx(values.mean() + sigmas * error, abs=0.08 * error)


def test_the_interval_covers_the_true_score_as_often_as_it_says():
    generator = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        right = generator.random(200) < 0.8
        low, high = bootstraps.bootstrap(
            lambda rows, right=right: right[rows].mean(), 200, trial, samples=200, confidence=0.9
        )
        covered += low <= 0.8 <= high
    # 180 +- 3 * 4.2 of 200 at 90 %.
    assert 168 <= covered <= 192


def test_draws_depend_on_the_seed_alone():
    values = np.arange(50.0)

    def interval(seed):
        return bootstraps.bootstrap(lambda rows: values[rows].mean(), 50, seed, samples=50)

    assert interval(1) == interval(1) != interval(2)


def test_the_p_value_of_a_difference_is_that_of_a_paired_t_test():
    generator = np.random.default_rng(0)
    baseline = generator.normal(size=300)
    for gain in (-0.02, 0.0, 0.03, 0.06, 0.1):
        better = baseline + gain + generator.normal(scale=0.6, size=300)
        p = bootstraps.paired_bootstrap(
            lambda rows, better=better: better[rows].mean(),
            lambda rows: baseline[rows].mean(),
            300,
            seed=0,
            samples=4000,
        )
        expected = stats.ttest_rel(better, baseline, alternative="greater").pvalue
        assert p == pytest.approx(expected, abs=0.03)


def test_equal_systems_do_not_differ_and_no_p_value_is_0():
    right = np.arange(100) % 10 < 7

    def score(rows):
        return right[rows].mean()

    assert bootstraps.paired_bootstrap(score, score, 100, seed=0, samples=99) == 1
    p = bootstraps.paired_bootstrap(lambda rows: 1.0, lambda rows: 0.0, 100, seed=0, samples=99)
    assert p == 1 / 100


def test_tensorflow_is_not_imported():
    code = "import sys, tfbio.task_types.metrics; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
