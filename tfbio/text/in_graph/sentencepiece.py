"""Encodes text by SentencePiece in a TensorFlow graph, with ALBERT's normalization before it.

tensorflow-text has the library, which normalizes texts by a model's rules and cuts them. ALBERT's
normalization is a table of characters. If two ways to cut a word are equally likely ("i" + "ii" and
"ii" + "i"), tensorflow-text may take another one than `tokenizers`.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text
import tokenizers

from tfbio.text import sentencepiece_model
from tfbio.text.in_graph import characters as chars


class SentencePiece(tf.Module):
    """A SentencePiece tokenizer as a module for a graph.

    A call takes texts, string [texts] in UTF-8, and returns their ids without special tokens, int32
    ragged [texts, tokens].

    Args:
      vocab_file: the `*.model` file.
      lower_case: whether to lower-case text by ALBERT's rules, if the model does not do so itself
        and has no capital letters (`sentencepiece_model.lower_cases_first`).

    Attributes:
      prepares: True if texts are normalized as ALBERT does before the model cuts them.
      replace: ALBERT's normalization of characters, a function that `characters.replacer` made
        (only if `prepares`).
      is_blank: a function from code points to 1 (a word ends there) or 0, int32 [characters] both.
      whole: tensorflow-text's tokenizer of the model.
      normalizer: its tokenizer that gives the bytes b of the normalized text, as ids b + 1.
      normalized: its tokenizer of the model without the normalization.

    Raises:
      OSError: the file is missing or cannot be read.
      google.protobuf.message.DecodeError: it is no SentencePiece model.
      ValueError: the model's normalizer is damaged.
    """

    def __init__(self, vocab_file: Path, lower_case: bool):
        super().__init__()
        content = vocab_file.read_bytes()
        model = sentencepiece_model.ModelProto.FromString(content)
        self.prepares = sentencepiece_model.lower_cases_first(model, lower_case)
        if self.prepares:
            self.replace = chars.replacer(_of_albert())
        self.is_blank = chars.table(_blanks())
        self.whole = _library(content)
        self.normalizer = _library(sentencepiece_model.normalizer_to_bytes(model))
        model.normalizer_spec.precompiled_charsmap = b""
        self.normalized = _library(model.SerializeToString())

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes whole texts by the library: string [texts] -> int32 ragged [texts, tokens]."""
        return self.whole.tokenize(self._prepared(texts)[0] if self.prepares else texts)

    def with_places(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Encodes texts by SentencePiece in the graph, word by word, with the offsets of tokens.

        Args:
          texts: string [texts], in UTF-8.

        Returns:
          Three tensors int32 ragged [texts, tokens]: the ids, the offset of each token's first
          character in its text, and the offset after its last one. Offsets count characters.
        """
        codes, source, text = self._normalized(texts)
        inside = self.is_blank(codes) == 0
        begins = inside & (chars.before(~inside, True) | (chars.before(text, -1) != text))
        codes, source, text, begins = (
            tf.boolean_mask(x, inside) for x in (codes, source, text, begins)
        )
        words = tf.RaggedTensor.from_row_starts(codes, tf.where(begins)[:, 0])
        words_as_text = tf.strings.unicode_encode(words, "UTF-8")
        tokens = self.normalized.tokenize_with_offsets(words_as_text)
        number = tokens[0].value_rowids()
        ids, begins, ends = (x.values for x in tokens)
        # In bytes of all words. The space before a word has none, and goes with the first of them.
        limits = tf.cumsum(chars.sizes(codes))
        before = tf.gather(limits - chars.sizes(codes), words.row_starts())
        before = tf.gather(before, number)
        first, last = (
            tf.searchsorted(limits, before + tf.cast(place, tf.int64), side="right")
            for place in (begins, tf.maximum(ends - 1, begins))
        )
        rows, count = tf.gather(text, first), tf.size(texts, tf.int64)
        values = ids, tf.gather(source, first), tf.gather(source, last) + 1
        return tuple(tf.RaggedTensor.from_value_rowids(x, rows, count) for x in values)

    def _prepared(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Normalizes texts as ALBERT does, if the model needs it (`lower_cases_first`).

        Returns:
          The texts, string [texts]; for each character its size in bytes, int64 [characters], and
          the offset of the character that it was made of, int32 [characters].
        """
        characters = chars.decode(texts)
        codes, text, count = characters.values, characters.value_rowids(), characters.nrows()
        source = tf.range(tf.size(codes))
        if self.prepares:
            last = chars.after(text, -1) != text
            for quote in "`'":
                is_one = codes == ord(quote)
                pairs = chars.every_second(is_one & chars.after(is_one, False) & ~last)
                codes = tf.where(chars.before(pairs, False), ord('"'), codes)
                source = tf.where(pairs, -1, source)
            codes, source = (tf.boolean_mask(x, source >= 0) for x in (codes, source))
            codes, own = self.replace(codes)
            source = tf.gather(source, own)
        rows = tf.RaggedTensor.from_value_rowids(codes, tf.gather(text, source), count)
        place = tf.gather(chars.place_in_row(characters), source)
        return tf.strings.unicode_encode(rows, "UTF-8"), chars.sizes(codes), place

    def _normalized(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Normalizes texts as the model does before it cuts them.

        Returns:
          The code points, int32 [characters]; for each the offset of the first character that it
          was made of, int32 [characters], and the number of its text, int64 [characters].
        """
        prepared, sizes, source = self._prepared(texts)
        data, begins, _ = self.normalizer.tokenize_with_offsets(prepared)
        data = data.with_values(data.values - 1)
        lengths = tf.cast(tf.strings.length(prepared), tf.int64)
        begins = tf.cast(begins.values, tf.int64)
        begins += tf.gather(tf.cumsum(lengths, exclusive=True), data.value_rowids())
        begins = tf.boolean_mask(begins, data.values & 0xC0 != 0x80)  # of characters
        character = tf.searchsorted(tf.cumsum(sizes), begins, side="right")
        as_bytes = tf.gather([bytes([byte]) for byte in range(256)], data)
        normalized = chars.decode(tf.strings.reduce_join(as_bytes, axis=-1))
        return normalized.values, tf.gather(source, character), normalized.value_rowids()


def _library(model: bytes) -> tensorflow_text.SentencepieceTokenizer:
    """Makes the library's tokenizer of a serialized model."""
    # A process that loads SavedModels takes models of the same name to be the same one.
    name = f"sentencepiece_{hashlib.sha256(model).hexdigest()}"
    return tensorflow_text.SentencepieceTokenizer(model, name=name)


@functools.cache
def _of_albert() -> list[str]:
    """Returns what ALBERT makes of each character, [CODES], except quotation marks."""
    normalizers = sentencepiece_model.albert_normalizers()
    return chars.normalized(tokenizers.normalizers.Sequence(normalizers))


@functools.cache
def _blanks() -> np.ndarray:
    """Returns whether a word ends before each character, int32 [CODES], 1 or 0."""
    codes = [code for code in range(chars.CODES) if code not in chars.SURROGATES]
    text, blanks = "".join(map(chr, codes)), np.ones(chars.CODES, np.int32)
    for _, (start, end) in tokenizers.pre_tokenizers.WhitespaceSplit().pre_tokenize_str(text):
        blanks[codes[start:end]] = 0
    return blanks
