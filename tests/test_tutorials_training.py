"""The tutorials that pretrain an encoder, continue one, and train on a task of one's own."""

import pandas
import pytest

from tests import notebooks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return notebooks.make_folder(tmp_path_factory.mktemp("training"))


@pytest.fixture(scope="module")
def pretrained(folder):
    """The first tutorial, whose encoder the next one continues."""
    return notebooks.execute("corpus_to_encoder", folder, shape="list(vectors.shape)")


def test_an_encoder_is_made_of_a_corpus(pretrained, folder):
    losses = pretrained.losses()
    assert len(losses) == 10 and losses[-1] < losses[0] - 0.3
    assert pretrained.values["shape"] == [2, 64]
    assert len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines()) == 2000


def test_pretraining_continues_from_an_encoder(pretrained, folder):
    own = notebooks.execute(
        "continue_pretraining", folder, sizes="[len(before), len(after)]", cosine="float(cosine)"
    )
    first, last = own.losses()[0], pretrained.losses()[-1]
    # Nearer to the end of the other run than to its beginning, where the weights were random.
    assert abs(first - last) < abs(first - pretrained.losses()[0])
    assert own.values["sizes"] == [64, 64] and own.values["cosine"] < 0.9999


def test_a_task_of_ones_own_is_learnt(folder):
    own = notebooks.execute(
        "own_task", folder, accuracy="scores['test']['accuracy']", label="model(text).label"
    ).values
    test = pandas.read_csv(folder / "own" / "test.tsv", sep="\t")
    most_frequent = test["label"].value_counts(normalize=True).max()
    assert own["accuracy"] > most_frequent + 0.05 and own["label"] in set(test["label"])
