import numpy as np

from tfbio.text import ragged


def test_ranges_stand_one_after_the_other():
    numbers = ragged.ranges(np.array([5, 0, 7, -2]), np.array([3, 0, 1, 2]))
    assert numbers.dtype == np.int64 and numbers.tolist() == [5, 6, 7, 7, -2, -1]
    assert ragged.ranges(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
