"""Texts in rows: none lies on another, and little is padding."""

import numpy as np

from tfbio.task_types import row_placement


def test_places_do_not_overlap_and_are_few():
    rng = np.random.default_rng(1)
    for _ in range(50):
        lengths = rng.integers(3, 65, rng.integers(1, 60))
        places = row_placement.first_fit(lengths, 128)
        used = np.zeros([places.rows, 128], int)
        for row, start, length in zip(places.row, places.start, lengths, strict=True):
            assert start + length <= 128
            used[row, start : start + length] += 1
        assert used.max() == 1 and used.sum() == lengths.sum()
        # Yue (1991): first-fit decreasing takes at most 11/9 of the fewest, and one more.
        assert places.rows <= 11 / 9 * np.ceil(lengths.sum() / 128) + 1


def check_no_overlap(places, lengths, rows, row_length):
    used = np.zeros([rows, row_length], int)
    for row, start, length in zip(places.row, places.start, lengths, strict=True):
        assert start + length <= row_length
        used[row, start : start + length] += 1
    assert used.max() == 1 and used.sum() == lengths.sum()


def test_rows_that_are_dealt_are_nearly_even():
    rng = np.random.default_rng(1)
    for _ in range(50):
        lengths, rows = rng.integers(3, 65, rng.integers(8, 60)), int(rng.integers(1, 9))
        places = row_placement.deal(lengths, rows)
        check_no_overlap(places, lengths, rows, places.row_length)
        # Graham (1969), against a bound from below of what the best division needs.
        best = max(lengths.max(), lengths.sum() / rows)
        pairs = np.sort(lengths)[::-1]
        if len(lengths) > rows:
            best = max(best, pairs[rows - 1] + pairs[rows])
        assert places.row_length <= 4 / 3 * best


def test_rows_that_are_filled_are_nearly_full():
    lengths = np.random.default_rng(2).integers(3, 65, 2000)
    places = row_placement.best_fit(lengths, 128, most=64)
    check_no_overlap(places, lengths, places.rows, 128)
    assert lengths.sum() / (places.rows * 128) > 0.98
    few = row_placement.best_fit(np.full(10, 4), 128, most=4)
    assert np.bincount(few.row).tolist() == [4, 4, 2]


def test_short_windows_lie_in_short_rows():
    rng = np.random.default_rng(3)
    lengths = rng.permutation([*rng.integers(10, 65, 1000), *rng.integers(65, 129, 50)])
    batches = row_placement.batches_of_short_rows(lengths, 2000, 64)
    found = np.concatenate([windows for windows, _ in batches])
    np.testing.assert_array_equal(np.sort(found), np.arange(1050))
    for windows, places in batches:
        check_no_overlap(places, lengths[windows], places.rows, places.row_length)
    row_lengths = [places.row_length for _, places in batches]
    assert row_lengths == sorted(row_lengths, reverse=True) and {*row_lengths} == {64, 128}
    # Each long window opens a row of 128, which short ones fill up; all others are of 64.
    assert sum(places.rows for _, places in batches if places.row_length == 128) == 50
    tokens = np.array([places.rows * places.row_length for _, places in batches])
    assert tokens.max() < 1.1 * 2000
    assert lengths.sum() / tokens.sum() > 0.97


def test_rows_of_a_length_that_fill_no_batch_are_longer():
    lengths = np.array([20] * 10 + [100] * 30 + [150])
    # Windows of up to 64 tokens have 200, those of up to 128 have 3,000, the last one 150.
    (longest, own), *others = row_placement.batches_of_short_rows(lengths, 1000, 64)
    assert own.row_length == 192 and 40 in longest
    assert {places.row_length for _, places in others} == {128}
    ((windows, places),) = row_placement.batches_of_short_rows(lengths, 4000, 64)
    assert len(windows) == 41 and places.row_length == 192


def test_no_batch_is_empty():
    """Also where a batch is to have fewer tokens than a row."""
    rng = np.random.default_rng(4)
    cases = [([100, 20], 60), ([30] * 200 + [512, 400], 275), ([10] * 99 + [512], 489), ([7], 1)]
    cases += [(rng.integers(3, 513, 40), int(rng.integers(1, 600))) for _ in range(50)]
    for lengths, tokens in cases:
        lengths = np.array(lengths)
        batches = row_placement.batches_of_short_rows(lengths, tokens, 64)
        found = np.concatenate([windows for windows, _ in batches])
        np.testing.assert_array_equal(np.sort(found), np.arange(len(lengths)))
        for windows, places in batches:
            assert len(windows) and places.rows, (lengths, tokens)
            check_no_overlap(places, lengths[windows], places.rows, places.row_length)


def test_a_batch_with_room_for_all_is_one():
    for lengths in ([5], [65, 65, 65], [64] * 30, [3, 500]):
        total = sum(lengths)
        ((windows, places),) = row_placement.batches_of_short_rows(np.array(lengths), total, 64)
        assert len(windows) == len(lengths)
        assert places.row_length == -(-max(lengths) // 64) * 64
