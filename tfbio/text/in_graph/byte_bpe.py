r"""Encodes text by byte-level BPE (GPT-2's and RoBERTa's tokenizer) in a TensorFlow graph.

GPT-2's regular expression divides text into words (`encoder.py` of openai/gpt-2):

  's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

TensorFlow's regular expressions have no look-ahead, so the neighbours of a character tell whether a
word begins there. Then, again and again, the pair of a word's symbols (bytes at first) that comes
first in the list of merges is merged, until no pair is in the list.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import tensorflow as tf
import tokenizers

from tfbio.text import special_tokens, tokenization
from tfbio.text.in_graph import characters as chars

_LETTER, _NUMBER, _OTHER, _SPACE = range(4)
_NONE = np.iinfo(np.int32).max
_NO_PAIR = -1


class ByteBpe(tf.Module):
    """A byte-level BPE tokenizer, RoBERTa's (`byte_bpe.make_tokenizer`), as a module for a graph.

    A call takes texts, string [texts] in UTF-8, and returns their ids without special tokens, int32
    ragged [texts, tokens].

    Args:
      vocab_file: `vocab.json`, with `merges.txt` beside it.

    Attributes:
      size: the number of tokens in the vocabulary.
      bytes: the id of each byte's token, int64 [256].
      ranks: a hash table from a pair of ids, left * size + right (int64), to the number of its
        merge (int32; 2**31 - 1 if there is none).
      merged: the id that each merge makes, int64 [merges].
      at_once: whether each merge can be made at all its places at once, bool [merges].
      kinds: a function from code points to their classes in the regular expression, int32
        [characters] both: 0 letter, 1 number, 2 other, 3 space.
      leading: the number of spaces that each token begins with, int32 [size].
      trailing: the number of spaces that each token ends with, int32 [size].

    Raises:
      VocabularyError: the vocabulary is missing or damaged, or lacks a token for a byte.
    """

    def __init__(self, vocab_file: Path):
        super().__init__()
        model = json.loads(tokenization.load_tokenizer(vocab_file).backend.to_str())["model"]
        vocab, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]
        names = _byte_names()
        lacking = [name for name in names if name not in vocab]
        if lacking:
            raise special_tokens.VocabularyError(
                f"{vocab_file} has no token for the byte {names.index(lacking[0])}, "
                f"{lacking[0]!r}, and no graph can be made of it: make a vocabulary with "
                "`python -m data_prep.vocabulary`."
            )
        self.size = len(vocab)
        self.bytes = tf.constant([vocab[name] for name in names], tf.int64)
        pairs = [vocab[left] * self.size + vocab[right] for left, right in merges] or [_NO_PAIR]
        self.ranks = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(pairs, range(len(pairs)), tf.int64, tf.int32), _NONE
        )
        self.merged = tf.constant([vocab[left + right] for left, right in merges] or [0], tf.int64)
        # A merge can be made at all places at once if no earlier merge takes its result.
        used: dict[str, int] = {}
        for rank, pair in enumerate(merges):
            for part in pair:
                used.setdefault(part, rank)
        at_once = [
            used.get(left + right, _NONE) > rank for rank, (left, right) in enumerate(merges)
        ]
        self.at_once = tf.constant(at_once or [True])
        self.kinds = chars.table(_kinds())
        space = special_tokens.BYTE_BPE_SPACE
        tokens = sorted(vocab, key=vocab.__getitem__)
        leading = [len(token) - len(token.lstrip(space)) for token in tokens]
        trailing = [len(token) - len(token.rstrip(space)) for token in tokens]
        self.leading, self.trailing = tf.constant(leading), tf.constant(trailing)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes texts: string [texts] -> int32 ragged [texts, tokens]."""
        return self.with_places(texts)[0]

    def with_places(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Encodes texts by byte-level BPE in the graph, with the offsets of tokens.

        Args:
          texts: string [texts], in UTF-8.

        Returns:
          Three tensors int32 ragged [texts, tokens]: the ids, the offset of each token's first
          character in its text, and the offset after its last one, without the spaces around a
          word. Offsets count characters.
        """
        characters = chars.decode(texts)
        text = characters.value_rowids()
        begins = self._begins(characters.values, text)
        words = tf.RaggedTensor.from_row_starts(characters.values, tf.where(begins)[:, 0])
        # Each word is encoded once.
        words, number = tf.unique(tf.strings.unicode_encode(words, "UTF-8"))
        ids, sizes = (tf.gather(x, number).values for x in self._tokens(words))
        ends = tf.cumsum(sizes)  # in bytes of all texts, as these:
        limits = tf.cumsum(chars.sizes(characters.values))
        first, last = (
            tf.searchsorted(limits, place, side="right") for place in (ends - sizes, ends - 1)
        )
        place = chars.place_in_row(characters)
        start, end = tf.gather(place, first), tf.gather(place, last) + 1
        # Offsets exclude the spaces around a word, as in `process_offsets` of `tokenizers`.
        leading, trailing = tf.gather(self.leading, ids), tf.gather(self.trailing, ids)
        start = tf.minimum(start + leading, end)
        end = tf.where(end >= trailing, tf.maximum(end - trailing, start), end)
        rows, count = tf.gather(text, first), characters.nrows()
        values = tf.cast(ids, tf.int32), start, end
        return tuple(tf.RaggedTensor.from_value_rowids(x, rows, count) for x in values)

    def _begins(self, codes: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
        """Returns whether a word begins at each character; bool [characters]."""
        before, after, one_of = chars.before, chars.after, chars.one_of
        first = before(text, -1) != text
        last = after(text, -1) != text
        kinds = self.kinds(codes)
        kind_before, kind_after = before(kinds, _SPACE), after(kinds, _SPACE)
        begins = first | (kinds != kind_before) & (before(codes, 0) != ord(" "))
        # The last of several blanks belongs to the word that follows.
        is_blank = kinds == _SPACE
        begins |= is_blank & ((kind_before != _SPACE) | ~last & (kind_after != _SPACE))

        # 's, 't, 'm, 'd, 're, 've and 'll, where a word begins with the apostrophe.
        following = tf.where(last, 0, after(codes, 0))
        third = tf.where(last, 0, after(following, 0))
        apostrophe = one_of(codes, "'") & begins
        of_two = apostrophe & one_of(following, "stmd")
        of_three = one_of(following, "rv") & one_of(third, "e")
        of_three = apostrophe & (of_three | one_of(following, "l") & one_of(third, "l"))
        begins &= ~before(of_two | of_three, False)
        behind = before(before(of_two | before(of_three, False), False), False)
        return begins | behind

    def _tokens(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Encodes words; each round merges the pair of lowest rank in every word.

        Args:
          words: string [words].

        Returns:
          The ids of the tokens and their sizes in bytes, int64 ragged [words, tokens] each.
        """
        count = tf.size(words, tf.int64)
        lengths = tf.strings.length(words)
        data = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8), tf.int32)
        total = tf.size(data, tf.int64)

        def merge(ids: tf.Tensor, starts: tf.Tensor, word: tf.Tensor, _: tf.Tensor) -> tuple:
            ranks = self.ranks.lookup(ids[:-1] * self.size + ids[1:])
            ranks = tf.where(word[:-1] == word[1:], ranks, _NONE)
            best = tf.math.unsorted_segment_min(ranks, word[:-1], count)
            merges = (ranks < _NONE) & (ranks == tf.gather(best, word[:-1]))
            ranks = tf.where(merges, ranks, 0)
            place = tf.range(tf.size(merges))
            first = tf.math.unsorted_segment_min(tf.where(merges, place, _NONE), word[:-1], count)
            merges &= tf.gather(self.at_once, ranks) | (place == tf.gather(first, word[:-1]))
            merges = chars.every_second(merges)  # "aaa" is "aa" and "a"
            new = tf.gather(self.merged, ranks)
            ids = tf.concat([tf.where(merges, new, ids[:-1]), ids[-1:]], axis=0)
            kept = tf.concat([tf.ones_like(ids[:1], tf.bool), ~merges], axis=0)
            values = (tf.boolean_mask(x, kept[: tf.size(ids)]) for x in (ids, starts, word))
            return *values, tf.reduce_any(merges)

        word = tf.repeat(tf.range(count), lengths)
        start = tf.gather(self.bytes, data), tf.range(total), word, tf.constant(True)
        shapes = (*[tf.TensorShape([None])] * 3, tf.TensorShape([]))
        ids, starts, word, _ = tf.while_loop(lambda *x: x[-1], merge, start, shapes)
        sizes = chars.after(starts, total) - starts
        return tuple(tf.RaggedTensor.from_value_rowids(x, word, count) for x in (ids, sizes))


def _byte_names() -> list[str]:
    """Returns the character for each byte, [256], as `bytes_to_unicode` of openai/gpt-2."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(0x100)]


@functools.cache
def _kinds() -> np.ndarray:
    """Returns the class of each character in the regular expression, int32 [CODES]."""
    split = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    # All characters; another blank replaces the space, which belongs to the word that follows.
    codes = [code for code in range(chars.CODES) if code not in chars.SURROGATES]
    text = "".join(map(chr, codes)).replace(" ", "\n")
    kinds = np.full(chars.CODES, _SPACE, np.int32)
    for _, (start, end) in split(text):
        # A word has characters of one class, and "ab", "12" and "!?" are one word each.
        alike = [len(split(other + text[start])) == 1 for other in "a1!"]
        if any(alike):
            kinds[codes[start:end]] = alike.index(True)
    return kinds
