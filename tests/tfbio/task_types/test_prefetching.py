"""Tests that items are made ahead in another thread."""

import threading

import pytest

from tfbio.task_types import prefetching


@pytest.mark.parametrize("most", [1, 3, 9])
def test_what_is_made_ahead_is_all_in_order_and_errors_come_through(most):
    assert list(prefetching.ahead(iter(range(1, 6)), most)) == [1, 2, 3, 4, 5]

    def breaks():
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(prefetching.ahead(breaks(), most))


def test_items_are_made_in_another_thread():
    threads = []

    def items():
        for number in range(3):
            threads.append(threading.get_ident())
            yield number

    assert list(prefetching.ahead(items())) == [0, 1, 2]
    assert len(threads) == 3 and threading.get_ident() not in threads
