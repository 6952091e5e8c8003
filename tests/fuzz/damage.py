"""Damage that files of every kind suffer: on the way, by editors, and by those who mean it."""

from __future__ import annotations

import functools
import gzip
import zlib

from hypothesis import strategies as st

# Bytes that are no UTF-8, that few programs expect in text, and half of a pair of surrogates.
ODD_BYTES = (
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x1a",
    b"\x85",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n\n",
)
ODD_TEXTS = (
    *("", " ", "0", "-1", "1e5", "1e30", "NaN", "inf", "27114x", "N/A", "1_000", "+7", "\u0663"),
    *("9" * 20, "x" * 400, "\u2028", "\ufeff", "\x7f", "e\u0301", "\U0001d6fc", "\u200d", "a\tb"),
)


def _encoded(encoding: str) -> st.SearchStrategy:
    return st.just(lambda data: data.decode("utf-8", "replace").encode(encoding, "replace"))


@functools.cache
def bomb(megabytes: int = 1200, byte: bytes = b" ") -> bytes:
    """A gzip file that unpacks to so much, in members of 50 MB."""
    return gzip.compress(byte * (50_000_000 // len(byte)), 1) * (megabytes // 50)


def ways() -> st.SearchStrategy:
    """A function from bytes to damaged bytes."""
    place = st.floats(0, 1)

    def put(at: float, what: bytes):
        return lambda data: data[: int(at * len(data))] + what + data[int(at * len(data)) :]

    def moved(start: float, stop: float, to: float):
        def move(data: bytes) -> bytes:
            first, last = sorted((int(start * len(data)), int(stop * len(data))))
            rest = data[:first] + data[last:]
            return rest[: int(to * len(rest))] + data[first:last] + rest[int(to * len(rest)) :]

        return move

    def flipped(at: float, bit: int):
        def flip(data: bytes) -> bytes:
            changed = bytearray(data)
            if changed:
                changed[min(int(at * len(changed)), len(changed) - 1)] ^= 1 << bit
            return bytes(changed)

        return flip

    return st.one_of(
        st.builds(put, place, st.sampled_from(ODD_BYTES)),
        st.builds(lambda at: lambda data: data[: int(at * len(data))], place),
        st.builds(moved, place, place, place),
        st.builds(flipped, place, st.integers(0, 7)),
        st.just(lambda data: b"\xef\xbb\xbf" + data),
        st.just(lambda data: data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")),
        st.just(lambda data: data.replace(b"\n", b"\r")),
        _encoded("utf-16"),
        _encoded("latin-1"),
        st.just(lambda data: gzip.compress(data, mtime=0)),
        st.builds(lambda at: lambda data: gzip.compress(data)[: int(at * 200)], place),
        st.just(lambda data: gzip.compress(data)[:-8] + bytes(8)),
        st.just(lambda data: zlib.compress(data)),
        st.just(lambda data: b""),
        st.just(lambda data: data + data),
    )


def damaged(contents: st.SearchStrategy) -> st.SearchStrategy:
    """Files with one or two damages."""
    return st.builds(
        lambda data, damages: functools.reduce(lambda result, way: way(result), damages, data),
        contents,
        st.lists(ways(), min_size=1, max_size=2),
    )
