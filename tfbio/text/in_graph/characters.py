"""Operations on the characters of texts in a TensorFlow graph, and tables of all characters.

A tokenizer changes most characters one at a time. Tables in the graph hold the result for each
character, as the tokenizer that trained the model gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfbio.base.lazy import tensorflow as tf

if TYPE_CHECKING:
    import tokenizers

CODES = 0x110000
SURROGATES = range(0xD800, 0xE000)
_PAGE = 256
# The value for no character; and the same where differences between characters are stored.
_NOTHING, _NOTHING_FIRST = -1, np.iinfo(np.int32).max


def decode(texts: tf.Tensor) -> tf.RaggedTensor:
    """Decodes texts in the graph into the code points of their characters.

    Args:
      texts: string [texts], in UTF-8; wrong bytes become U+FFFD.

    Returns:
      int32 ragged [texts, characters].
    """
    return tf.strings.unicode_decode(texts, "UTF-8")


def place_in_row(characters: tf.RaggedTensor) -> tf.Tensor:
    """Returns the position of each character in its text, from 0.

    Args:
      characters: int32 ragged [texts, characters], as `decode` returns.

    Returns:
      int32 [characters of all texts].
    """
    place = tf.range(characters.row_splits[-1])
    place -= tf.gather(characters.row_starts(), characters.value_rowids())
    return tf.cast(place, tf.int32)


def before(values: tf.Tensor, first: float) -> tf.Tensor:
    """Returns for each character the value of the one before it: shifts `values` right by one.

    Args:
      values: [characters], of any dtype.
      first: the value for the first character, a number or a bool.

    Returns:
      [characters], of the dtype of `values`.
    """
    return tf.concat([[tf.cast(first, values.dtype)], values], axis=0)[:-1]


def after(values: tf.Tensor, last: float) -> tf.Tensor:
    """Returns for each character the value of the one after it: shifts `values` left by one.

    Args:
      values: [characters], of any dtype.
      last: the value for the last character, a number or a bool.

    Returns:
      [characters], of the dtype of `values`.
    """
    return tf.concat([values, [tf.cast(last, values.dtype)]], axis=0)[1:]


def one_of(codes: tf.Tensor, characters: str) -> tf.Tensor:
    """Returns whether each character, given by its code point, is one of some characters.

    Args:
      codes: int32 [characters].
      characters: the characters, a str.

    Returns:
      bool [characters].
    """
    return tf.reduce_any(codes[:, None] == [ord(c) for c in characters], axis=1)


def every_second(flags: tf.Tensor) -> tf.Tensor:
    """Marks the first, third and so on of neighbouring characters that are all marked.

    Args:
      flags: bool [characters], True for the marked ones.

    Returns:
      bool [characters], True for every other element of each run of True, the first included.
    """
    begins = flags & ~before(flags, False)
    run = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32)) - 1, 0)
    starts = tf.concat([tf.where(begins)[:, 0], [0]], axis=0)  # never empty
    place = tf.range(tf.size(flags, tf.int64)) - tf.gather(starts, run)
    return flags & (place % 2 == 0)


def sizes(codes: tf.Tensor) -> tf.Tensor:
    """Returns the size of each character in UTF-8, 1 to 4 bytes.

    Args:
      codes: int32 [characters], code points.

    Returns:
      int64 [characters].
    """
    return sum(tf.cast(codes >= least, tf.int64) for least in (0, 0x80, 0x800, 0x10000))


# --- Tables of all characters --------------------------------------------------------------------


def table(values: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    """Makes a look-up in a table of all characters for a graph, which stores equal pages once.

    Args:
      values: int32 [CODES] or [CODES, columns], a row for each of the 0x110000 code points.

    Returns:
      A function from code points, int32 [characters], to their rows, int32 [characters] or
      [characters, columns].
    """
    known: dict[bytes, int] = {}
    values = np.asarray(values, np.int32).reshape(CODES // _PAGE, _PAGE, *values.shape[1:])
    numbers = tf.constant([known.setdefault(page.tobytes(), len(known)) for page in values])
    pages = np.frombuffer(b"".join(known), np.int32).reshape(-1, *values.shape[2:])
    pages = tf.constant(pages)

    def look_up(codes: tf.Tensor) -> tf.Tensor:
        return tf.gather(pages, tf.gather(numbers, codes // _PAGE) * _PAGE + codes % _PAGE)

    return look_up


def of_characters(function: Callable[[str], bool]) -> np.ndarray:
    """Computes `function` of each Unicode character: 1 or 0 for its result, int32 [0x110000]."""
    return np.array([function(chr(code)) for code in range(CODES)], np.int32)


def normalized(normalizer: tokenizers.normalizers.Normalizer) -> list[str]:
    """Applies a normalizer to each Unicode character alone.

    Args:
      normalizer: a normalizer of the library `tokenizers`.

    Returns:
      A list of CODES (0x110000) texts: the text that each code point becomes; "" for surrogates and
      for characters that are dropped.
    """
    results = [""] * CODES
    for first in range(0, CODES, _PAGE):
        codes = [code for code in range(first, first + _PAGE) if code not in SURROGATES]
        # The separator is not changed, and no character becomes one.
        texts = normalizer.normalize_str("<#>".join(map(chr, codes))).split("<#>")
        for code, text in zip(codes, texts, strict=bool(codes)):
            results[code] = text
    return results


def replacer(results: Sequence[str]) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Makes a function for a graph that replaces each character by the text that it becomes.

    Args:
      results: the text for each code point, a sequence of CODES (0x110000); "" drops it.

    Returns:
      A function from code points, int32 [characters], to two tensors: the new code points, int32
      [new characters], and the index of the character that each comes from, int64 [new characters].
    """
    changed = np.full([CODES, max(map(len, results))], _NOTHING, np.int32)
    # The first new character is stored as a difference, so that most pages are equal.
    changed[:, 0] = 0
    for code, text in enumerate(results):
        if not text:
            changed[code, 0] = _NOTHING_FIRST
        elif text != chr(code):
            changed[code, : len(text)] = [ord(text[0]) - code, *map(ord, text[1:])]
    look_up = table(changed)

    def replace(codes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        new = look_up(codes)
        first = tf.where(new[:, :1] == _NOTHING_FIRST, _NOTHING, new[:, :1] + codes[:, None])
        new = tf.concat([first, new[:, 1:]], axis=1)
        places = tf.where(new != _NOTHING)
        return tf.gather_nd(new, places), places[:, 0]

    return replace
