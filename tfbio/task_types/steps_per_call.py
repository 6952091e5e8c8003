"""Stacks batches, so that one call of a function takes several steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tfbio.task_types.fixed_shapes import Batch


class Call(NamedTuple):
    """The batches of the steps that one call of a compiled function takes.

    Attributes:
      batches: the batches, in their order.
      arrays: theirs by name, [steps, replicas, ...] with the most steps of a call, of their dtypes;
        zeros for the steps that are missing.
    """

    batches: list[Batch]
    arrays: dict[str, np.ndarray]


def calls(batches: Iterable[Batch], sizes: Iterable[int], steps: int) -> Iterator[Call]:
    """Groups batches into calls of several steps, and yields a `Call` for each with stacked arrays.

    Args:
      batches: in their order, all with arrays of the same shapes.
      sizes: how many steps each call takes; the last one takes fewer if the batches end.
      steps: the most of a call.

    Raises:
      IndexError: a call takes more than `steps`.
    """
    batches = iter(batches)
    for size in sizes:
        group = [batch for _, batch in zip(range(size), batches, strict=False)]
        if not group:
            return
        arrays = {}
        for name, like in group[0].arrays.items():
            arrays[name] = np.zeros([steps, *like.shape], like.dtype)
            for number, batch in enumerate(group):
                arrays[name][number] = batch.arrays[name]
        yield Call(group, arrays)
