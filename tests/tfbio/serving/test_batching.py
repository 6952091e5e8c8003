"""Requests share batches: each gets its own results, and a bad one fails alone."""

import threading
import weakref

import pytest

from tfbio.serving.batching import Batcher


class Held:
    """Computes lengths; the first batch waits until it is released."""

    def __init__(self):
        self.batches, self.begun, self.released = [], threading.Event(), threading.Event()

    def __call__(self, texts):
        self.batches.append(list(texts))
        self.begun.set()
        assert self.released.wait(30)
        if "bad" in texts:
            raise ZeroDivisionError("of this text")
        return [len(text) for text in texts]


@pytest.fixture
def held():
    """A batcher that computes its first batch, and what it computes with."""
    compute, sizes = Held(), []
    batcher = Batcher(compute, sizes.append)
    first = batcher.submit(["first"])
    assert compute.begun.wait(30)
    yield batcher, compute, sizes, first
    compute.released.set()
    batcher.close()
    assert not batcher.is_alive


def test_requests_that_wait_share_a_batch_and_get_their_own_results(held):
    batcher, compute, sizes, first = held
    others = [batcher.submit(texts) for texts in (["a", "bb"], ["ccc"], ["", "dddd", "e"])]
    compute.released.set()
    assert first.result(30) == [5]
    assert [x.result(30) for x in others] == [[1, 2], [3], [0, 4, 1]]
    assert compute.batches == [["first"], ["a", "bb", "ccc", "", "dddd", "e"]]
    assert sizes == [1, 6]


def test_a_request_that_fails_fails_alone(held):
    batcher, compute, _, _ = held
    good, bad, other = (batcher.submit(texts) for texts in (["aa"], ["bad", "x"], ["bbb"]))
    compute.released.set()
    assert good.result(30) == [2] and other.result(30) == [3]
    with pytest.raises(ZeroDivisionError, match="of this text"):
        bad.result(30)
    assert batcher.submit(["again"]).result(30) == [5]


def test_a_request_that_is_given_up_is_not_computed(held):
    batcher, compute, _, _ = held
    given_up, other = batcher.submit(["given up"]), batcher.submit(["other"])
    assert given_up.cancel()
    compute.released.set()
    assert other.result(30) == [5]
    assert compute.batches == [["first"], ["other"]]


class Texts(list):
    """A list that a weak reference can be had of."""


def test_the_texts_of_a_request_that_is_given_up_take_no_memory(held):
    """They wait behind the batch that is computed, uncounted, for as long as it takes."""
    batcher, compute, _, _ = held
    texts = Texts(["a" * 1_000_000])
    left, given_up = weakref.ref(texts), batcher.submit(texts)
    del texts
    assert left() is not None
    given_up.cancel()
    assert left() is None
    compute.released.set()
    assert batcher.submit(["other"]).result(30) == [5]


def test_a_batch_ends_with_32000_characters(held):
    batcher, compute, _, _ = held
    texts = ["a" * 20_000, "b" * 11_999, "c", "d"]
    waiting = [batcher.submit([text]) for text in texts]
    compute.released.set()
    assert [x.result(30) for x in waiting] == [[len(text)] for text in texts]
    assert compute.batches[1:] == [texts[:3], texts[3:]]


def test_what_was_queued_is_computed_before_it_ends():
    batcher = Batcher(lambda texts: [text.upper() for text in texts])
    queued = [batcher.submit([text]) for text in "abc"]
    batcher.close()
    assert [x.result(0) for x in queued] == [["A"], ["B"], ["C"]]
