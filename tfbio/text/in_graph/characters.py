"""Characters of texts in a TensorFlow graph: code points, and tables of all of them.

A tokenizer does most things to one character at a time. What becomes of each is asked of the
tokenizer that trained the model, and is a table in the graph.
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
PAGE = 256
# Stand for no character, and for the same where a difference to a character is stored.
NOTHING, NOTHING_FIRST = -1, np.iinfo(np.int32).max


def decode(texts: tf.Tensor) -> tf.RaggedTensor:
    """Code points, int32 ragged [texts, characters]."""
    return tf.strings.unicode_decode(texts, "UTF-8")


def place_in_row(characters: tf.RaggedTensor) -> tf.Tensor:
    """int32 [characters], from 0 in each text."""
    place = tf.range(characters.row_splits[-1])
    place -= tf.gather(characters.row_starts(), characters.value_rowids())
    return tf.cast(place, tf.int32)


def before(values: tf.Tensor, first) -> tf.Tensor:
    """What stands before each value."""
    return tf.concat([[tf.cast(first, values.dtype)], values], axis=0)[:-1]


def after(values: tf.Tensor, last) -> tf.Tensor:
    """What stands behind each value."""
    return tf.concat([values, [tf.cast(last, values.dtype)]], axis=0)[1:]


def one_of(codes: tf.Tensor, characters: str) -> tf.Tensor:
    """bool, of the shape of `codes`."""
    return tf.reduce_any(codes[:, None] == [ord(c) for c in characters], axis=1)


def every_second(flags: tf.Tensor) -> tf.Tensor:
    """Of each run of True the first, the third and so on; bool [values] both."""
    begins = flags & ~before(flags, False)
    run = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32)) - 1, 0)
    starts = tf.concat([tf.where(begins)[:, 0], [0]], axis=0)  # of one at least
    place = tf.range(tf.size(flags, tf.int64)) - tf.gather(starts, run)
    return flags & (place % 2 == 0)


def sizes(codes: tf.Tensor) -> tf.Tensor:
    """The bytes of each character in UTF-8, int64, of the shape of `codes`."""
    return sum(tf.cast(codes >= least, tf.int64) for least in (0, 0x80, 0x800, 0x10000))


# --- Tables of all characters --------------------------------------------------------------------


def table(values: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    """A look-up in a table of all characters, in pages of which equal ones are there once.

    Args:
      values: int32 [CODES] or [CODES, columns].

    Returns:
      A function int32 [characters] -> int32 [characters] or [characters, columns].
    """
    known: dict[bytes, int] = {}
    values = np.asarray(values, np.int32).reshape(CODES // PAGE, PAGE, *values.shape[1:])
    numbers = tf.constant([known.setdefault(page.tobytes(), len(known)) for page in values])
    pages = np.frombuffer(b"".join(known), np.int32).reshape(-1, *values.shape[2:])
    pages = tf.constant(pages)

    def look_up(codes: tf.Tensor) -> tf.Tensor:
        return tf.gather(pages, tf.gather(numbers, codes // PAGE) * PAGE + codes % PAGE)

    return look_up


def of_characters(function: Callable[[str], bool]) -> np.ndarray:
    """int32 [CODES], 1 or 0."""
    return np.array([function(chr(code)) for code in range(CODES)], np.int32)


def normalized(normalizer: tokenizers.normalizers.Normalizer) -> list[str]:
    """What each character becomes where it is alone, [CODES]; of surrogates nothing."""
    found = [""] * CODES
    for first in range(0, CODES, PAGE):
        codes = [code for code in range(first, first + PAGE) if code not in SURROGATES]
        # What parts them is not changed, and no character becomes it.
        texts = normalizer.normalize_str("<#>".join(map(chr, codes))).split("<#>")
        for code, text in zip(codes, texts, strict=bool(codes)):
            found[code] = text
    return found


def replacer(found: Sequence[str]) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Puts for each character what it becomes.

    Args:
      found: for each of all characters what is put in its place.

    Returns:
      A function int32 [characters] -> int32 [new characters], and the number of the character that
      each comes from, int64 [new characters].
    """
    changed = np.full([CODES, max(map(len, found))], NOTHING, np.int32)
    # The first is stored as the difference, so that most pages are the same one.
    changed[:, 0] = 0
    for code, text in enumerate(found):
        if not text:
            changed[code, 0] = NOTHING_FIRST
        elif text != chr(code):
            changed[code, : len(text)] = [ord(text[0]) - code, *map(ord, text[1:])]
    look_up = table(changed)

    def replace(codes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        new = look_up(codes)
        first = tf.where(new[:, :1] == NOTHING_FIRST, NOTHING, new[:, :1] + codes[:, None])
        new = tf.concat([first, new[:, 1:]], axis=1)
        there = tf.where(new != NOTHING)
        return tf.gather_nd(new, there), there[:, 0]

    return replace
