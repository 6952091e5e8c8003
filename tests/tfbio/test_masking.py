"""What is hidden, how much of it, and that it depends on the seed alone."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio import masking

PAD, CLS, SEP, MASK, WORDS, VOCABULARY = 0, 2, 3, 4, 5, 1000
LENGTH, ROWS = 128, 512


@pytest.fixture(scope="module")
def batch():
    """[CLS] words [SEP] words [SEP] padding, of 5 to 128 tokens; int32 [512, 128] twice."""
    random = np.random.default_rng(0)
    ids = np.full([ROWS, LENGTH], PAD, np.int32)
    mask = np.zeros_like(ids)
    for row in range(ROWS):
        tokens = 5 + row % (LENGTH - 4)
        ids[row, :tokens] = random.integers(WORDS, VOCABULARY, tokens)
        ids[row, [0, tokens // 2, tokens - 1]] = CLS, SEP, SEP
        mask[row, :tokens] = 1
    return tf.constant(ids), tf.constant(mask)


def hide(batch, seed=(0, 1), mask_prob=0.15, mask_token_prob=0.85):
    return masking.mask_tokens(
        *batch,
        special_ids=[CLS, SEP, PAD],
        mask_id=MASK,
        mask_prob=mask_prob,
        mask_token_prob=mask_token_prob,
        seed=tf.constant(seed),
    )


def test_counts_are_exact_and_no_token_is_hidden_twice(batch):
    masked = hide(batch)
    limit = masking.max_predictions(LENGTH, 0.15)
    assert limit == 19 and masked.positions.shape == [ROWS, limit]
    tokens = batch[1].numpy().sum(axis=1)
    expected = np.clip(np.round(tokens.astype(np.float32) * np.float32(0.15)), 1, limit)
    np.testing.assert_array_equal(masked.weights.numpy().sum(axis=1), expected)
    for positions, weights in zip(masked.positions.numpy(), masked.weights.numpy(), strict=True):
        hidden = positions[weights > 0]
        assert len(set(hidden)) == len(hidden)
        assert (positions[weights == 0] == 0).all()


def test_special_tokens_are_never_hidden_and_nothing_else_changes(batch):
    ids = batch[0].numpy()
    for seed in range(5):
        masked = hide(batch, (7, seed), mask_prob=0.5, mask_token_prob=1.0)
        changed = masked.input_ids.numpy() != ids
        assert (ids[changed] >= WORDS).all()
        assert (masked.input_ids.numpy()[changed] == MASK).all()
        assert changed.sum() == masked.weights.numpy().sum()
        expected = np.take_along_axis(ids, masked.positions.numpy(), axis=1)
        np.testing.assert_array_equal(masked.ids, expected)


def test_every_word_is_hidden_equally_often(batch):
    """A chi-squared test over the positions of one row, over 4,000 draws."""
    from scipy import stats

    words = 60
    ids = np.full([500, LENGTH], PAD, np.int32)
    ids[:, : words + 2] = [CLS, *range(WORDS, WORDS + words), SEP]
    row = tf.constant(ids), tf.constant((ids != PAD).astype(np.int32))
    counts = np.zeros(LENGTH)
    for seed in range(8):
        masked = hide(row, (3, seed))
        hidden = masked.positions.numpy()[masked.weights.numpy() > 0]
        counts += np.bincount(hidden, minlength=LENGTH)
    assert counts[words + 1 :].sum() == counts[0] == 0
    assert stats.chisquare(counts[1 : words + 1]).pvalue > 1e-4


def test_the_share_that_becomes_mask(batch):
    masked = hide(batch)
    hidden = masked.weights.numpy() > 0
    now = np.take_along_axis(masked.input_ids.numpy(), masked.positions.numpy(), axis=1)
    became, kept = now[hidden] == MASK, now[hidden] == masked.ids.numpy()[hidden]
    assert (became | kept).all()
    assert abs(became.mean() - 0.85) < 4 * np.sqrt(0.85 * 0.15 / hidden.sum())


def test_a_function_of_the_seed(batch):
    np.testing.assert_array_equal(hide(batch).positions, hide(batch).positions)
    first, second = hide(batch), hide(batch, (0, 2))
    differ = first.positions.numpy() != second.positions.numpy()
    assert differ[first.weights.numpy() > 0].mean() > 0.9


def test_the_same_masks_on_any_number_of_replicas(batch, two_devices):
    single = hide(batch)
    dataset = tf.data.Dataset.from_tensors(batch).unbatch().batch(ROWS)
    distributed = two_devices.experimental_distribute_dataset(dataset)
    both = two_devices.run(lambda *parts: hide(parts), args=next(iter(distributed)))
    for name, whole in single._asdict().items():
        joined = tf.concat(two_devices.experimental_local_results(getattr(both, name)), axis=0)
        np.testing.assert_array_equal(joined, whole, err_msg=name)


def test_special_tokens_are_not_hidden_within_a_packed_example():
    random = np.random.default_rng(1)
    ids = random.integers(WORDS, VOCABULARY, [ROWS, LENGTH]).astype(np.int32)
    ids[:, [0, 40, 77]] = CLS
    ids[:, [20, 39, 60, 76, LENGTH - 1]] = SEP
    masked = hide((tf.constant(ids), tf.ones_like(ids)))
    real = masked.weights.numpy() > 0
    assert real.sum() == 19 * ROWS
    assert not np.isin(masked.ids.numpy()[real], [CLS, SEP]).any()
    kept = masked.input_ids.numpy()
    for special in (CLS, SEP):
        np.testing.assert_array_equal(kept == special, ids == special)
