"""Cuts texts into the words of `words.spans` in a TensorFlow graph, and encodes words."""

from __future__ import annotations

import functools
import unicodedata
from typing import NamedTuple

import numpy as np

from tfbio.base.lazy import tensorflow as tf
from tfbio.text.in_graph import characters as chars
from tfbio.text.word_cutters import CUTTERS

# The class of a character: part of a word, a separate word, or between words.
LETTER, OWN, SPACE = 0, 1, 2


class Words(NamedTuple):
    """The words of texts in a graph, one after the other, with their offsets in characters.

    Attributes:
      words: string [words].
      text: the number of each word's text, from 0, int64 [words].
      start: the offset of its first character in the text, int32 [words].
      end: the offset after its last character, int32 [words].
    """

    words: tf.Tensor
    text: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor


def of_texts(texts: tf.Tensor, rule: str) -> Words:
    """Cuts texts into words in a graph by a rule of `words.spans`.

    Args:
      texts: string [texts], in UTF-8, each a sentence.
      rule: "symbols" (at spaces, and each mark and symbol is a word), "punctuation" (BERT's: the
        same but for symbols beyond ASCII) or "blanks" (at spaces, and some marks and "'s" are
        words). Any other text counts as "blanks".

    Returns:
      The words of all texts, string [words], with the numbers of their texts, int64 [words], and
      their offsets, int32 [words]; see `Words`.
    """
    characters = chars.decode(texts)
    begins, inside = _by_marks(characters, rule) if rule in CUTTERS else _by_blanks(characters)
    numbers = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    count = tf.reduce_sum(tf.cast(begins, tf.int64))
    own = tf.boolean_mask(numbers, inside)
    codes = tf.boolean_mask(characters.values, inside)
    words = tf.strings.unicode_encode(tf.RaggedTensor.from_value_rowids(codes, own, count), "UTF-8")
    place = chars.place_in_row(characters)
    ends = tf.math.segment_max(tf.boolean_mask(place, inside), own) + 1
    text = characters.value_rowids()
    return Words(words, tf.boolean_mask(text, begins), tf.boolean_mask(place, begins), ends)


def tokens(tokenizer: tf.Module, words: tf.Tensor, unk_id: int) -> tf.RaggedTensor:
    """Encodes words in the graph, with a space before each as within a text.

    Args:
      tokenizer: a module that `in_graph.tokenization.load` made: string [texts] -> int32 ragged
        [texts, tokens].
      words: string [words].
      unk_id: the id of [UNK].

    Returns:
      The ids, int32 ragged [words, tokens]; a word without tokens gets `unk_id`.
    """
    # Tokenizers other than byte-level BPE ignore the space.
    ids = tokenizer(tf.strings.join([" ", words]))
    lacking = tf.cast(ids.row_lengths() == 0, tf.int64)
    unknown = tf.fill([tf.reduce_sum(lacking)], unk_id)
    return tf.concat([ids, tf.RaggedTensor.from_row_lengths(unknown, lacking)], axis=1)


def marks_after(texts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Counts the accents that follow the end of a word, or another offset, in each text in a graph.

    Args:
      texts: string [texts], in UTF-8.
      ends: int32 [texts], an offset in each text, in characters.

    Returns:
      int32 [texts], the number of separate accents (Unicode category Mn) in a row from the offset
      on.
    """
    characters = chars.decode(texts)
    others = tf.where(chars.table(_marks())(characters.values) == 0)[:, 0]
    borders = tf.sort(tf.concat([others, characters.row_limits()], axis=0))
    here = characters.row_starts() + tf.cast(ends, tf.int64)
    return tf.cast(tf.gather(borders, tf.searchsorted(borders, here)) - here, tf.int32)


def _by_marks(characters: tf.RaggedTensor, rule: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns whether a word begins at each character, and whether it is in a word.

    Args:
      characters: int32 ragged [texts, characters].
      rule: one of `CUTTERS`.

    Returns:
      bool [characters] each.
    """
    kinds, text = chars.table(kinds_by(rule))(characters.values), characters.value_rowids()
    inside = kinds != SPACE
    apart = (kinds == OWN) | (chars.before(kinds, SPACE) != LETTER)
    return (apart | (chars.before(text, -1) != text)) & inside, inside


def _by_blanks(characters: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Does what `_by_marks` does, by the regular expression `words._BLANKS`."""
    before, after, one_of = chars.before, chars.after, chars.one_of
    codes, text = characters.values, characters.value_rowids()
    kinds = chars.table(_kinds_for_blanks())(codes)
    blank, alphanumeric = kinds == SPACE, kinds == LETTER
    last = after(text, -1) != text
    own = one_of(codes, '()[]{}"%')
    own |= one_of(codes, ",;:?!") & (after(blank, True) | last)
    # The period that only blanks, quotes and brackets follow.
    place = tf.range(tf.size(codes))
    trailing = blank | one_of(codes, "\"')]")
    period = tf.math.unsorted_segment_max(tf.where(trailing, -1, place), text, characters.nrows())
    own |= one_of(codes, ".") & (place == tf.gather(period, text))
    # 's that no letter follows.
    no_letter = ~after(alphanumeric, False) | last
    s = one_of(codes, "s") & no_letter & (before(text, -1) == text)
    genitive = one_of(codes, "'") & after(s, False)
    s &= before(genitive, False)
    inside = ~blank
    first = before(text, -1) != text
    apart = first | own | genitive | before(blank | own | s, True)
    return apart & inside & ~s, inside


# --- Classes of all characters, computed once, which takes a second -------------------------------


@functools.cache
def kinds_by(rule: str) -> np.ndarray:
    """Computes the classes of characters by which a rule cuts words in a graph, int32 [0x110000].

    The classes of code points are LETTER (0, a part of a word), OWN (1, a separate word) and SPACE
    (2, between words). The array is computed once and shared: callers must not change it.

    Args:
      rule: "punctuation", which is BERT's, or "symbols".
    """
    codes = [code for code in range(chars.CODES) if code not in chars.SURROGATES]
    # A letter follows each character. The rule makes a separate word of those that stay alone.
    text = "".join(f"{chr(code)}a" for code in codes)
    classes = np.full(len(text), SPACE, np.int32)
    for _, (start, end) in CUTTERS[rule].pre_tokenize_str(text):
        classes[start:end] = LETTER if end - start > 1 else OWN
    kinds = np.full(chars.CODES, SPACE, np.int32)
    kinds[codes] = classes[::2]
    return kinds


@functools.cache
def _kinds_for_blanks() -> np.ndarray:
    r"""Returns the class of each character by Python's \s and \w, int32 [CODES]."""
    is_letter = chars.of_characters(lambda c: c.isalnum() or c == "_")
    return np.where(chars.of_characters(str.isspace), SPACE, np.where(is_letter, LETTER, OWN))


@functools.cache
def _marks() -> np.ndarray:
    """Returns whether each character is an accent, int32 [CODES]."""
    return chars.of_characters(lambda c: unicodedata.category(c) == "Mn")
