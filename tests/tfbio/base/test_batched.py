"""Streams are divided by number or by size, and read no further than the list that is asked for."""

import pytest

from tfbio.base import batched


@pytest.mark.parametrize("number, sizes", [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_lists_have_so_many_items_and_the_last_one_the_rest(number, sizes):
    lists = list(batched.by_number(range(5), number))
    assert list(map(len, lists)) == sizes
    assert sum(lists, []) == [0, 1, 2, 3, 4]


def test_a_list_ends_with_the_item_that_takes_it_to_the_size():
    words = ["a", "bb", "ccc", "", "dddd", "e"]
    expected = [["a", "bb"], ["ccc"], ["", "dddd"], ["e"]]
    assert list(batched.by_size(words, len, 3)) == expected


@pytest.mark.parametrize(
    "divide", [lambda x: batched.by_number(x, 3), lambda x: batched.by_size(x, lambda _: 1, 3)]
)
def test_no_more_is_read_than_is_asked_for(divide):
    assert list(divide([])) == []
    stream = iter(range(10))
    assert next(divide(stream)) == [0, 1, 2]
    assert next(stream) == 3
