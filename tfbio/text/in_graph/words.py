"""The words of `words.spans` as a part of a TensorFlow graph, and their tokens."""

from __future__ import annotations

import functools
import unicodedata
from typing import NamedTuple

import numpy as np
import tokenizers

from tfbio.base.lazy import tensorflow as tf
from tfbio.text.in_graph import characters as chars

# What a character is among others: part of a word, a word of its own, or between words.
LETTER, OWN, SPACE = 0, 1, 2


class Words(NamedTuple):
    """The words of texts, one after the other.

    Attributes:
      words: string [words].
      text: the number of the text, int64 [words].
      start: the first character of each in its text, int32 [words].
      end: the one behind its last, int32 [words].
    """

    words: tf.Tensor
    text: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor


def of_texts(texts: tf.Tensor, rule: str) -> Words:
    """The words of texts by a rule of `words.spans`.

    Args:
      texts: string [texts], UTF-8; each one sentence.
      rule: "punctuation" or "blanks".
    """
    characters = chars.decode(texts)
    begins, inside = (_by_punctuation if rule == "punctuation" else _by_blanks)(characters)
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
    """`tokenization.Tokenizer.encode_words` in the graph.

    Args:
      tokenizer: string [texts] -> int32 ragged [texts, tokens].
      words: string [words].
      unk_id: of [UNK].

    Returns:
      int32 ragged [words, tokens], of each word one at least.
    """
    # To those that are not byte-level BPE the space is none.
    ids = tokenizer(tf.strings.join([" ", words]))
    lacking = tf.cast(ids.row_lengths() == 0, tf.int64)
    unknown = tf.fill([tf.reduce_sum(lacking)], unk_id)
    return tf.concat([ids, tf.RaggedTensor.from_row_lengths(unknown, lacking)], axis=1)


def marks_after(texts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """How many accents that are characters of their own follow a place in each text.

    Args:
      texts: string [texts].
      ends: int32 [texts].

    Returns:
      int32 [texts].
    """
    characters = chars.decode(texts)
    others = tf.where(chars.table(_marks())(characters.values) == 0)[:, 0]
    borders = tf.sort(tf.concat([others, characters.row_limits()], axis=0))
    here = characters.row_starts() + tf.cast(ends, tf.int64)
    return tf.cast(tf.gather(borders, tf.searchsorted(borders, here)) - here, tf.int32)


def _by_punctuation(characters: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Whether a word begins at a character, and whether one has it; bool [characters] each."""
    kinds, text = chars.table(bert_kinds())(characters.values), characters.value_rowids()
    inside = kinds != SPACE
    apart = (kinds == OWN) | (chars.before(kinds, SPACE) != LETTER)
    return (apart | (chars.before(text, -1) != text)) & inside, inside


def _by_blanks(characters: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The regular expression `words._BLANKS`, as `_by_punctuation`."""
    before, after, one_of = chars.before, chars.after, chars.one_of
    codes, text = characters.values, characters.value_rowids()
    kinds = chars.table(_kinds_for_blanks())(codes)
    blank, alphanumeric = kinds == SPACE, kinds == LETTER
    last = after(text, -1) != text
    own = one_of(codes, '()[]{}"%')
    own |= one_of(codes, ",;:?!") & (after(blank, True) | last)
    # The period behind which there is nothing but blanks, quotes and brackets.
    place = tf.range(tf.size(codes))
    trailing = blank | one_of(codes, "\"')]")
    period = tf.math.unsorted_segment_max(tf.where(trailing, -1, place), text, characters.nrows())
    own |= one_of(codes, ".") & (place == tf.gather(period, text))
    # 's, behind which no letter goes on.
    no_letter = ~after(alphanumeric, False) | last
    s = one_of(codes, "s") & no_letter & (before(text, -1) == text)
    genitive = one_of(codes, "'") & after(s, False)
    s &= before(genitive, False)
    inside = ~blank
    first = before(text, -1) != text
    apart = first | own | genitive | before(blank | own | s, True)
    return apart & inside & ~s, inside


# --- What characters are; asked of all of them once, which takes a second ------------------------


@functools.cache
def bert_kinds() -> np.ndarray:
    """What each character is for BERT's pre-tokenizer, int32 [CODES]."""
    codes = [code for code in range(chars.CODES) if code not in chars.SURROGATES]
    # A letter behind each: of what is alone then, BERT makes a word of its own.
    text = "".join(f"{chr(code)}a" for code in codes)
    found = np.full(len(text), SPACE, np.int32)
    for _, (start, end) in tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text):
        found[start:end] = LETTER if end - start > 1 else OWN
    kinds = np.full(chars.CODES, SPACE, np.int32)
    kinds[codes] = found[::2]
    return kinds


@functools.cache
def _kinds_for_blanks() -> np.ndarray:
    r"""Python's \s and \w, and what is neither, int32 [CODES]."""
    is_letter = chars.of_characters(lambda c: c.isalnum() or c == "_")
    return np.where(chars.of_characters(str.isspace), SPACE, np.where(is_letter, LETTER, OWN))


@functools.cache
def _marks() -> np.ndarray:
    """Whether each character is an accent, int32 [CODES]."""
    return chars.of_characters(lambda c: unicodedata.category(c) == "Mn")
