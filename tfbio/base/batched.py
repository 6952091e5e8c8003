"""Divides streams of items into lists, by their number or by their sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def by_number(items: Iterable[Item], number: int) -> Iterator[list[Item]]:
    """Divides a stream into lists of `number` items, the last one perhaps of fewer.

    Args:
      items: the stream, of which no more is read than the list that is asked for.
      number: how many items a list has, 1 or more.

    Yields:
      The items in their order, in lists that are not empty.
    """
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, number)):
        yield batch


def by_size(
    items: Iterable[Item], size_of: Callable[[Item], int], least: int
) -> Iterator[list[Item]]:
    """Divides a stream into lists, each of which ends with the item that takes it to a size.

    Args:
      items: the stream, of which no more is read than the list that is asked for.
      size_of: an item -> its size, in any unit.
      least: the size that the items of each list have together at least, but for the last list.

    Yields:
      The items in their order, in lists that are not empty.
    """
    batch: list[Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if size >= least:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
