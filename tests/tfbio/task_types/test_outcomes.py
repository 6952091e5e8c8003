"""Outcomes of labels and mentions, against scikit-learn, seqeval and cases worked out by hand."""

import random
from collections import Counter

import pytest
from seqeval.metrics.sequence_labeling import get_entities
from sklearn.metrics import multilabel_confusion_matrix
from sklearn.preprocessing import MultiLabelBinarizer

from tfbio.formats.task_examples import LabelledText, TaggedSentence
from tfbio.task_types import types
from tfbio.task_types.outcomes import (
    BOTH,
    BOUNDARIES,
    KINDS,
    LABEL,
    MISSED,
    RIGHT,
    SPURIOUS,
    Outcome,
    of_labels,
    of_mentions,
)


@pytest.mark.parametrize(
    ("true", "found", "expected"),
    [
        ({("A", 0, 1)}, {("A", 0, 1)}, [("A", "A", RIGHT, 2)]),
        ({("A", 0, 1)}, {("B", 0, 1)}, [("A", "B", LABEL, 2)]),
        ({("A", 0, 1)}, {("A", 1, 1)}, [("A", "A", BOUNDARIES, 2)]),
        ({("A", 0, 1)}, {("B", 1, 4)}, [("A", "B", BOTH, 2)]),
        ({("A", 0, 1)}, {("A", 2, 4)}, [("A", "", MISSED, 2), ("", "A", SPURIOUS, 3)]),
        # One true mention in two parts: the longer one counts as it.
        (
            {("A", 0, 4)},
            {("A", 0, 0), ("A", 2, 4)},
            [("A", "A", BOUNDARIES, 5), ("", "A", SPURIOUS, 1)],
        ),
        # Of its type comes before of more words.
        (
            {("A", 0, 4)},
            {("B", 0, 2), ("A", 4, 4)},
            [("A", "A", BOUNDARIES, 5), ("", "B", SPURIOUS, 3)],
        ),
        # A right one takes no part in the errors beside it.
        (
            {("A", 0, 0), ("A", 1, 3)},
            {("A", 0, 0), ("B", 1, 1)},
            [("A", "A", RIGHT, 1), ("A", "B", BOTH, 3)],
        ),
        ({("_", 0, 0)}, {("_", 0, 0)}, [("Drug", "Drug", RIGHT, 1)]),
    ],
)
def test_mentions_by_hand(true, found, expected):
    counted = of_mentions([true], [found], "Drug")
    assert sorted(counted.elements()) == sorted(Outcome(*one) for one in expected)


def tagged(generator, count=200):
    """Sentences of random tags in BIO, valid or not."""
    tags = ["O", "O", "B-A", "I-A", "B-B", "I-B"]
    return [[generator.choice(tags) for _ in range(12)] for _ in range(count)]


def counted_right(counted, label):
    return sum(times for x, times in counted.items() if x.true == label and x.is_right)


@pytest.mark.parametrize("name", ["tagging", "token_multilabel"])
def test_each_mention_is_counted_once(name):
    """As often as seqeval counts it: true, predicted and right ones."""
    generator = random.Random(0)
    truth, found = tagged(generator), tagged(generator)
    if name == "token_multilabel":
        # Entities of one type that touch are one there: labels without B and I.
        truth, found = ([[tag[2:] or "O" for tag in x] for x in of] for of in (truth, found))
    words = tuple("abcdefghijkl")
    examples = [TaggedSentence("1", words, tuple(tags)) for tags in truth]
    counted = types.TYPES[name].outcomes(examples, [tuple(tags) for tags in found], "Entity")
    true, predicted = (
        [
            set(get_entities([tag if "-" in tag or tag == "O" else f"I-{tag}" for tag in tags]))
            for tags in of
        ]
        for of in (truth, found)
    )
    right = sum(
        (Counter(x[0] for x in a & b) for a, b in zip(true, predicted, strict=True)), Counter()
    )
    for label in "AB":
        of_true, of_predicted = (
            sum(x[0] == label for own in of for x in own) for of in (true, predicted)
        )
        assert sum(times for x, times in counted.items() if x.true == label) == of_true
        assert sum(times for x, times in counted.items() if x.predicted == label) == of_predicted
        assert counted_right(counted, label) == right[label] > 0
    assert {x.kind for x in counted} == set(KINDS)


def test_labels_of_texts_are_those_of_scikit_learn():
    generator = random.Random(1)
    names = ["a", "b", "c"]
    truth, found = (
        [tuple(x for x in names if generator.random() < 0.4) for _ in range(300)] for _ in range(2)
    )
    examples = [LabelledText("1", "text", label) for label in truth]
    counted = types.TYPES["multilabel"].outcomes(examples, found, "")
    binary = MultiLabelBinarizer(classes=names)
    expected = multilabel_confusion_matrix(binary.fit_transform(truth), binary.transform(found))
    for name, ((_, spurious), (missed, right)) in zip(names, expected, strict=True):
        assert counted[Outcome(name, name, RIGHT)] == right
        assert counted[Outcome(name, "", MISSED)] == missed
        assert counted[Outcome("", name, SPURIOUS)] == spurious
    assert sum(counted.values()) == expected.sum() - expected[:, 0, 0].sum()


def test_one_label_a_text_and_scores():
    assert of_labels(["a", "a", "b"], ["a", "b", "b"]) == {
        Outcome("a", "a", RIGHT): 1,
        Outcome("a", "b", LABEL): 1,
        Outcome("b", "b", RIGHT): 1,
    }
    examples = [LabelledText("1", "text", 0.5)]
    assert not types.TYPES["regression"].outcomes(examples, [0.25], "")
    assert not types.TYPES["question_answering"].outcomes([], [], "")
