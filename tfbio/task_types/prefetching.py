"""Makes the next items in another thread, while the current one is worked on."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from concurrent import futures
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterable[Item], most: int = 1) -> Iterator[Item]:
    """Prefetches items: another thread makes the next ones while the current one is worked on.

    Args:
      items: the items; none of them is None.
      most: how many are made ahead.

    Yields:
      The items in their order. An error that making one of them raises is raised in its place.
    """
    items = iter(items)
    with futures.ThreadPoolExecutor(1) as pool:
        coming = collections.deque(pool.submit(next, items, None) for _ in range(most))
        while (item := coming.popleft().result()) is not None:
            coming.append(pool.submit(next, items, None))
            yield item
