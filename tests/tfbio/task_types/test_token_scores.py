"""Scores of tokens: written down by hand, and of a real corpus against seqeval."""

import numpy as np
import pytest
from seqeval.metrics import f1_score, precision_score, recall_score

from tests import reference
from tfbio.formats import tagged_words
from tfbio.formats.splits import find_split
from tfbio.formats.task_examples import TaggedSentence
from tfbio.models.head_config import NO_TARGET
from tfbio.task_types import entity_metrics
from tfbio.task_types.tagging import Tagging
from tfbio.text import tokenization

LABELS = ("O", "B", "I")


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.load_tokenizer(reference.PUBMEDBERT)


def tagger(**changes):
    return Tagging(LABELS, Tagging.Settings(label_all_tokens=True, **changes))


@pytest.mark.parametrize("length", [32, 10])
def test_an_entity_of_tokens_ends_where_they_do(tokenizer, length):
    """Words that are right may have wrong tokens. In windows, too, no token counts twice."""
    words = ("xylazolid", "of", "zzqx", "qqz", "and", "naloxone")
    counts = [len(e.tokens) for e in tokenizer.encode(words)]
    assert counts == [3, 1, 3, 3, 1, 1]
    sentence = TaggedSentence("s", words, ("B", "O", "B", "I", "O", "B"))
    task_type = tagger()
    features = task_type.features([sentence], tokenizer, length)
    assert len(features.words) == (1 if length == 32 else 2)
    predicted = ["B", "I", "O", "O", "B", "I", "I", "I", "I", "I", "O", "B"]
    outputs, left = [], [LABELS.index(tag) for tag in predicted]
    for targets in features.per_token["targets"].values:
        own = targets != NO_TARGET
        outputs.append(np.zeros_like(targets) + 1)  # what has no target does not count
        outputs[-1][own], left = left[: own.sum()], left[own.sum() :]
    assert not left
    found = task_type.predictions(outputs, features, [sentence])
    score = entity_metrics.score_entities
    assert score([sentence], found)["f1"] == 1
    more = task_type.more_scores(score, [sentence], found, features, outputs)
    # The first of three entities is a token too short.
    assert {more[f"token_{name}"] for name in ("f1", "precision", "recall")} == {2 / 3}
    assert set(more) == {f"token_{name}" for name in score([sentence], found)}


@pytest.mark.parametrize("scheme", ["BIO", "IO", "BIOUL"])
def test_scores_of_a_corpus_are_seqevals(tokenizer, scheme):
    folder = reference.corpus("ncbi_disease/blurb")
    sentences = tagged_words.read(find_split(str(folder), "dev"))[:300]
    task_type = tagger(scheme=scheme)
    features = task_type.features(sentences, tokenizer, 32)
    targets = features.per_token["targets"].values
    assert len(targets) > len(sentences)
    rng = np.random.default_rng(0)
    outputs = [np.where(rng.random(x.shape) < 0.03, 0, np.maximum(x, 0)) for x in targets]
    found = task_type.predictions(outputs, features, sentences)
    more = task_type.more_scores(entity_metrics.score_entities, sentences, found, features, outputs)

    # The tokens of each sentence from the tokenizer itself, word by word.
    gold, seen = [], []
    for number, sentence in enumerate(sentences):
        tags = []
        for tag, ids in zip(sentence.tags, tokenizer.encode_words(sentence.words), strict=True):
            tags += [tag] + [tag.replace("B", "I")] * (len(ids) - 1)
        gold.append(tags)
        own = [
            task_type.labels[label]
            for window in np.flatnonzero(features.example == number)
            for label in outputs[window][targets[window] != NO_TARGET]
        ]
        seen.append([{"U": "B", "L": "I"}.get(tag, tag) for tag in own])
    theirs = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
    for name, score in theirs.items():
        assert more[f"token_{name}"] == pytest.approx(score(gold, seen))
    assert 0.5 < more["token_f1"] < 1


def test_words_behind_an_early_cut_have_no_tokens(tokenizer):
    task_type = tagger(early_cut=True)
    sentence = TaggedSentence("s", ("naloxone",) * 12, ("B",) * 12)
    features = task_type.features([sentence], tokenizer, 18)
    (kept,) = task_type.kept(features, 1)
    assert 0 < kept < 12
    outputs = features.per_token["targets"].values
    found = task_type.predictions(outputs, features, [sentence])
    score = entity_metrics.score_entities
    more = task_type.more_scores(score, [sentence], found, features, outputs)
    assert more["token_f1"] == more["bioelectra_code_f1"] == 1 > score([sentence], found)["f1"]


def test_labels_of_first_tokens_have_no_score_of_tokens(tokenizer):
    sentence = TaggedSentence("s", ("naloxone",), ("B",))
    task_type = Tagging(LABELS)
    features = task_type.features([sentence], tokenizer, 18)
    outputs = features.per_token["targets"].values
    score = entity_metrics.score_entities
    assert task_type.more_scores(score, [sentence], [("B",)], features, outputs) == {}
