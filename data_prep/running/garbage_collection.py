"""Slows down Python's garbage collector while many small objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Makes Python's garbage collection rare: once for a million new objects, not once for 700.

    Use it as a `with` block, which yields nothing, or as a decorator. The old thresholds are
    restored at the end.

    Parts of texts are many small objects and hardly any cycles: the search for them took from 6 %
    (making documents) to a quarter (making examples) of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
