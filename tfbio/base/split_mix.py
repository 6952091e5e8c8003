"""SplitMix64's random numbers, which are the same on every machine and in every NumPy."""

from __future__ import annotations

import numpy as np


def numbers(key: int, count: int, skip: int = 0) -> np.ndarray:
    """Computes numbers of SplitMix64 (Steele, Lea and Flood, 2014), which depend on a key alone.

    Args:
      key: where the generator starts, an int from 0 to 2^64 - 1.
      count: how many numbers.
      skip: how many of the generator's numbers come before them, less than 2^63.

    Returns:
      uint64 [count].
    """
    with np.errstate(over="ignore"):
        places = np.uint64(skip) + np.arange(1, count + 1, dtype=np.uint64)
        mixed = np.uint64(key) + places * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
