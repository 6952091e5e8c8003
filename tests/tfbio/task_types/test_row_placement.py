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
