"""SplitMix64 against the numbers that the authors' code in C prints for a seed."""

import numpy as np

from tfbio.base import split_mix

# Of https://prng.di.unimi.it/splitmix64.c, begun with the seed 1234567.
PRINTED = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def test_the_numbers_are_those_of_the_authors_code():
    found = split_mix.numbers(1234567, 5)
    assert found.dtype == np.uint64 and found.tolist() == PRINTED
    assert split_mix.numbers(1234567, 2, skip=3).tolist() == PRINTED[3:]


def test_no_number_and_the_largest_key():
    assert split_mix.numbers(2**64 - 1, 0).tolist() == []
    # One number on, the generator stands where it starts with a key larger by its step.
    step = 0x9E3779B97F4A7C15
    found = split_mix.numbers(2**64 - 1, 3)
    assert found[1:].tolist() == split_mix.numbers((2**64 - 1 + step) % 2**64, 2).tolist()
