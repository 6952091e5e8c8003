"""The tokenizers of `tokenization` as parts of a TensorFlow graph, with strings in.

WordPiece is tensorflow-text's, and so is SentencePiece. What BERT does to a text before WordPiece
is not: thousands of characters give other tokens in tensorflow-text's `BertTokenizer` and
`FastBertTokenizer` when uncased, and hundreds when cased. They fold case as NFKC does, so that
"10\u00b2" is "102" and "\u2460" is "1", and put a blank where BERT drops a control character. So
that is a table here: BERT treats one character at a time (see `tokenization._wordpiece_encoder`),
and what becomes of each is asked of the tokenizer that trained the model.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text
import tokenizers

from tfbio import records, tokenization

# What a character is among others: part of a word, a word of its own, or between words.
LETTER, OWN, SPACE = 0, 1, 2
_NOTHING = -1
_CODES = 0x110000
_SURROGATES = range(0xD800, 0xE000)
# A word of more characters is [UNK]; see `tokenization.wordpiece`. Each has at most 4 bytes.
_LONGEST = 100
_PAGE = 256


class Words(NamedTuple):
    """The words of texts, one after the other.

    Attributes:
      ids: of their tokens, int32 ragged [words, tokens], at least one of each.
      text: the number of the text, int64 [words].
      start: the first character of each in its text, int32 [words].
      end: the one behind its last, int32 [words].
    """

    ids: tf.RaggedTensor
    text: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor


class SentencePiece(tf.Module):
    """`tokenization.Encoder` of a SentencePiece model.

    Args:
      vocab_file: the `*.model`.
    """

    def __init__(self, vocab_file: Path):
        super().__init__()
        self.tokenizer = tensorflow_text.SentencepieceTokenizer(vocab_file.read_bytes())

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string [texts] -> int32 ragged [texts, tokens]."""
        return self.tokenizer.tokenize(texts)


class WordPiece(tf.Module):
    """`tokenization.wordpiece`.

    Args:
      vocab_file: a text file, each line a token; it becomes an asset of the graph.
      lower_case: see `tokenization.wordpiece`.
      unk_id: the id of [UNK].
    """

    def __init__(self, vocab_file: str, lower_case: bool, unk_id: int):
        super().__init__()
        self.unk_id = unk_id
        self.wordpiece = tensorflow_text.WordpieceTokenizer(
            tf.lookup.StaticHashTable(_Lines(vocab_file), unk_id),
            max_bytes_per_word=4 * _LONGEST,
            unknown_token=tokenization.UNK,
        )
        kinds = _pre_tokenizer_kinds()
        changed, apart = _normalized(lower_case)
        self.kinds, self.changed = _table(kinds), _table(changed)
        self.kinds_inside = _table(np.where(apart, OWN, kinds))

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string [texts] -> int32 ragged [texts, tokens]."""
        return self.with_places(texts)[0]

    def with_places(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """The tokens of texts, the first character of each and the one behind its last.

        Args:
          texts: string [texts], UTF-8.

        Returns:
          int32 ragged [texts, tokens], three.
        """
        characters = _characters(texts)
        text = characters.value_rowids()
        ids, first, last = self._tokens(characters.values, text)
        place = _place_in_row(characters)
        values = ids, tf.gather(place, first), tf.gather(place, last) + 1
        rows, count = tf.gather(text, first), characters.nrows()
        return tuple(tf.RaggedTensor.from_value_rowids(x, rows, count) for x in values)

    def words(self, texts: tf.Tensor, rule: str) -> Words:
        """The words of texts by a rule of `words.spans`, and their tokens.

        Args:
          texts: string [texts], UTF-8; each one sentence.
          rule: "punctuation" or "blanks".
        """
        characters = _characters(texts)
        codes, text = characters.values, characters.value_rowids()
        split = self._by_punctuation if rule == "punctuation" else self._by_blanks
        begins, inside = split(characters)
        numbers = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        count = tf.reduce_sum(tf.cast(begins, tf.int64))
        places = tf.boolean_mask(tf.range(tf.size(codes)), inside)
        own = tf.boolean_mask(numbers, inside)
        ids, first, _ = self._tokens(tf.gather(codes, places), own)
        ids = tf.RaggedTensor.from_value_rowids(ids, tf.gather(own, first), count)
        # A word of characters that BERT drops; see `tagging.Tagging.pieces`.
        lacking = tf.cast(ids.row_lengths() == 0, tf.int64)
        unknown = tf.fill([tf.reduce_sum(lacking)], self.unk_id)
        ids = tf.concat([ids, tf.RaggedTensor.from_row_lengths(unknown, lacking)], axis=1)
        place = tf.gather(_place_in_row(characters), places)
        starts = tf.boolean_mask(place, tf.gather(begins, places))
        ends = tf.math.segment_max(place, own) + 1
        return Words(ids, tf.boolean_mask(text, begins), starts, ends)

    def marks_after(self, texts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """How many accents that are characters of their own follow a place in each text.

        Args:
          texts: string [texts].
          ends: int32 [texts].

        Returns:
          int32 [texts].
        """
        characters = _characters(texts)
        is_mark = _table(_of_characters(lambda c: unicodedata.category(c) == "Mn"))
        others = tf.where(is_mark(characters.values) == 0)[:, 0]
        borders = tf.sort(tf.concat([others, characters.row_limits()], axis=0))
        here = characters.row_starts() + tf.cast(ends, tf.int64)
        return tf.cast(tf.gather(borders, tf.searchsorted(borders, here)) - here, tf.int32)

    def _by_punctuation(self, characters: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Whether a word begins at a character, and whether one has it; bool [characters] each."""
        kinds, text = self.kinds(characters.values), characters.value_rowids()
        inside = kinds != SPACE
        apart = (kinds == OWN) | (_before(kinds, SPACE) != LETTER) | (_before(text, -1) != text)
        return apart & inside, inside

    def _by_blanks(self, characters: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The regular expression `words._BLANKS`, as `_by_punctuation`."""
        codes, text = characters.values, characters.value_rowids()
        blank = _table(_of_characters(str.isspace))(codes) == 1
        last = _after(text, -1) != text
        own = _one_of(codes, '()[]{}"%')
        own |= _one_of(codes, ",;:?!") & (_after(blank, True) | last)
        # The period behind which there is nothing but blanks, quotes and brackets.
        place = tf.range(tf.size(codes))
        trailing = blank | _one_of(codes, "\"')]")
        period = tf.math.unsorted_segment_max(
            tf.where(trailing, -1, place), text, characters.nrows()
        )
        own |= _one_of(codes, ".") & (place == tf.gather(period, text))
        # 's, behind which no letter goes on.
        alphanumeric = _table(_of_characters(lambda c: c.isalnum() or c == "_"))(codes) == 1
        no_letter = ~_after(alphanumeric, False) | last
        s = _one_of(codes, "s") & no_letter & (_before(text, -1) == text)
        genitive = _one_of(codes, "'") & _after(s, False)
        s &= _before(genitive, False)
        inside = ~blank
        first = _before(text, -1) != text
        apart = first | own | genitive | _before(blank | own | s, True)
        return apart & inside & ~s, inside

    def _tokens(
        self, codes: tf.Tensor, groups: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The tokens of characters.

        Args:
          codes: int32 [characters].
          groups: int64 [characters], not decreasing; no token reaches from one to another.

        Returns:
          The ids, int32 [tokens]; the first and the last character of each, int64 [tokens].
        """
        changed = self.changed(codes)
        # The first is stored as the difference, so that most pages are the same one.
        first = tf.where(
            changed[:, :1] == _NOTHING_FIRST, _NOTHING, changed[:, :1] + codes[:, None]
        )
        changed = tf.concat([first, changed[:, 1:]], axis=1)
        there = tf.where(changed != _NOTHING)
        codes, source = tf.gather_nd(changed, there), there[:, 0]
        kinds, groups = self.kinds_inside(codes), tf.gather(groups, source)
        apart = (kinds == OWN) | (_before(kinds, SPACE) != LETTER) | (_before(groups, -1) != groups)
        inside = kinds != SPACE
        codes, source, apart = (tf.boolean_mask(x, inside) for x in (codes, source, apart))
        numbers = tf.cumsum(tf.cast(apart, tf.int64)) - 1
        count = tf.reduce_sum(tf.cast(apart, tf.int64))
        words = tf.RaggedTensor.from_value_rowids(codes, numbers, count)
        texts = tf.strings.unicode_encode(words, "UTF-8")
        too_long = words.row_lengths() > _LONGEST
        # Of more bytes than the limit, whatever the characters are.
        longer = tf.where(too_long, "x" * (4 * _LONGEST), "")
        ids, begins, ends = self.wordpiece.tokenize_with_offsets(texts + longer)

        sizes = sum(tf.cast(codes >= least, tf.int64) for least in (0, 0x80, 0x800, 0x10000))
        limits = tf.cumsum(sizes)  # in bytes, behind each character
        before = tf.gather(limits - sizes, words.row_starts())  # each word
        number = ids.value_rowids()
        begins = tf.gather(before, number) + begins.values
        # Of a word that is too long, WordPiece's end is that of "[UNK]".
        whole = tf.gather(tf.gather(limits, words.row_limits() - 1), number)
        ends = tf.where(tf.gather(too_long, number), whole, tf.gather(before, number) + ends.values)
        first, last = (
            tf.gather(source, tf.searchsorted(limits, place, side="right"))
            for place in (begins, ends - 1)
        )
        return tf.cast(ids.values, tf.int32), first, last


class _Lines(tf.lookup.TextFileInitializer):
    """The lines of a file and their numbers, from 0."""

    def __init__(self, path: str):
        index = tf.lookup.TextFileIndex
        self.sha256 = records.sha256_of(path)
        super().__init__(path, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)

    @property
    def _shared_name(self) -> str:
        # The name of the table, which models in one process may share. It would have the path.
        return f"lines_{self.sha256}"


# --- Characters ----------------------------------------------------------------------------------


def _characters(texts: tf.Tensor) -> tf.RaggedTensor:
    """Code points, int32 ragged [texts, characters]."""
    return tf.strings.unicode_decode(texts, "UTF-8")


def _place_in_row(characters: tf.RaggedTensor) -> tf.Tensor:
    """int32 [characters], from 0 in each text."""
    place = tf.range(characters.row_splits[-1])
    place -= tf.gather(characters.row_starts(), characters.value_rowids())
    return tf.cast(place, tf.int32)


def _before(values: tf.Tensor, first) -> tf.Tensor:
    """What stands before each value."""
    return tf.concat([[tf.cast(first, values.dtype)], values], axis=0)[:-1]


def _after(values: tf.Tensor, last) -> tf.Tensor:
    """What stands behind each value."""
    return tf.concat([values, [tf.cast(last, values.dtype)]], axis=0)[1:]


def _one_of(codes: tf.Tensor, characters: str) -> tf.Tensor:
    """bool, of the shape of `codes`."""
    return tf.reduce_any(codes[:, None] == [ord(c) for c in characters], axis=1)


# --- Tables of all characters --------------------------------------------------------------------

# Stands for `_NOTHING` where a difference is stored.
_NOTHING_FIRST = np.iinfo(np.int32).max


def _table(values: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    """A look-up in a table of all characters, in pages of which equal ones are there once.

    Args:
      values: int32 [_CODES] or [_CODES, columns].

    Returns:
      A function int32 [characters] -> int32 [characters] or [characters, columns].
    """
    columns = values.shape[1:]
    pages, numbers = np.unique(values.reshape(_CODES // _PAGE, -1), axis=0, return_inverse=True)
    pages = tf.constant(pages.reshape(-1, *columns), tf.int32)
    numbers = tf.constant(numbers.reshape(-1), tf.int32)

    def look_up(codes: tf.Tensor) -> tf.Tensor:
        return tf.gather(pages, tf.gather(numbers, codes // _PAGE) * _PAGE + codes % _PAGE)

    return look_up


def _of_characters(function: Callable[[str], bool]) -> np.ndarray:
    """int32 [_CODES], 1 or 0."""
    return np.array([function(chr(code)) for code in range(_CODES)], np.int32)


@functools.cache
def _pre_tokenizer_kinds() -> np.ndarray:
    """What each character is for BERT's pre-tokenizer, int32 [_CODES]."""
    codes = [code for code in range(_CODES) if code not in _SURROGATES]
    # A letter behind each: of what is alone then, BERT makes a word of its own.
    text = "".join(f"{chr(code)}a" for code in codes)
    found = np.full(len(text), SPACE, np.int32)
    for _, (start, end) in tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text):
        found[start:end] = LETTER if end - start > 1 else OWN
    kinds = np.full(_CODES, SPACE, np.int32)
    kinds[codes] = found[::2]
    return kinds


@functools.cache
def _normalized(lower_case: bool) -> tuple[np.ndarray, np.ndarray]:
    """What BERT makes of each character.

    Returns:
      int32 [_CODES, most], the code points that it becomes, the first as the difference to it; and
      bool [_CODES], whether it is set apart by blanks, as CJK is.
    """
    normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lower_case)
    found = [""] * _CODES
    for first in range(0, _CODES, _PAGE):
        codes = [code for code in range(first, first + _PAGE) if code not in _SURROGATES]
        # What parts them is not changed, and no character becomes it.
        texts = normalizer.normalize_str("<#>".join(map(chr, codes))).split("<#>")
        for code, text in zip(codes, texts, strict=bool(codes)):
            found[code] = text
    apart = np.array([len(text) > 2 and text[0] == text[-1] == " " for text in found])
    found = [text.strip(" ") or text[:1] for text in found]
    changed = np.full([_CODES, max(map(len, found))], _NOTHING, np.int32)
    changed[:, 0] = _NOTHING_FIRST
    for code, text in enumerate(found):
        if text:
            changed[code, : len(text)] = [ord(text[0]) - code, *map(ord, text[1:])]
    return changed, apart
