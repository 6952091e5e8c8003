"""Tagging: no tag is lost in windows. (Of all corpora: see test_every_task.py.)"""

import numpy as np
import pytest
import tensorflow as tf

from tfbio import packing, tagging, task_files, tokenization


@pytest.fixture(scope="module")
def vocab(shared):
    return tokenization.read_vocab(shared / "vocab" / "pubmedbert_uncased.txt")


def test_windows_own_every_word_once_and_overlap():
    rng = np.random.default_rng(0)
    for _ in range(300):
        room = int(rng.integers(4, 60))
        counts = rng.integers(1, min(room, 9) + 1, rng.integers(1, 200))
        found = tagging.windows(counts, room)
        if counts.sum() <= room:
            assert found == [(0, len(counts), 0, len(counts))]
        owned = [word for w in found for word in range(w.own, w.own_end)]
        assert owned == list(range(len(counts)))
        for window in found:
            assert window.first <= window.own < window.own_end <= window.end
            assert counts[window.first : window.end].sum() <= room
        for one, other in zip(found, found[1:], strict=False):
            assert one.first < other.first <= one.end < other.end


def test_a_word_is_owned_where_it_has_more_around_it():
    found = tagging.windows([1] * 20, 8)
    assert found[0] == (0, 8, 0, 7)  # words 6 and 7 are in both windows
    assert found[1][:3] == (6, 14, 7)


def test_the_first_token_of_a_word_has_its_tag(shared, vocab):
    kind = tagging.Tagging(("O", "B", "I"))
    sentence = task_files.TaggedSentence("s", ("Naloxone", "\u200b", "reverses"), ("B", "O", "I"))
    tokenizer = tokenization.wordpiece(vocab)
    pieces = kind.pieces([sentence], tokenizer, vocab, 32)
    tokens = [tokenizer.encode(word).tokens for word in sentence.words]
    assert tokens[1] == []  # a word of nothing that is printed is [UNK]
    names = {number: token for token, number in vocab.items()}
    expected = ["[CLS]", *tokens[0], "[UNK]", *tokens[2], "[SEP]"]
    assert [names[number] for number in pieces.input_ids[0]] == expected
    rest = [[packing.NO_TARGET] * (len(own) - 1) for own in (tokens[0], tokens[2])]
    assert pieces.targets[0].tolist() == [-1, 1, *rest[0], 0, 2, *rest[1], -1]


def test_the_loss_is_that_of_the_tokens_with_targets():
    kind = tagging.Tagging(("O", "B", "I"))
    logits = tf.random.stateless_normal([6, 3], [0, 1])
    targets = tf.constant([[-1, 0, 2], [1, -1, -1]])
    losses, weights = kind.losses(logits, {"targets": targets})
    assert weights.numpy().tolist() == [0, 1, 1, 1, 0, 0]
    probabilities = tf.nn.softmax(logits).numpy()
    expected = -np.log([probabilities[1, 0], probabilities[2, 2], probabilities[3, 1]])
    np.testing.assert_allclose(losses.numpy()[1:4], expected, rtol=1e-5)
    assert losses.numpy()[[0, 4, 5]].tolist() == [0, 0, 0]
