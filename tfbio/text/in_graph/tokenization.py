"""The tokenizers of `tokenization` as parts of a TensorFlow graph, with strings in.

WordPiece is here, SentencePiece in `graph_sentencepiece` and byte-level BPE in `graph_byte_bpe`.

WordPiece itself is tensorflow-text's. What BERT does to a text before that is not: thousands of
characters give other tokens in tensorflow-text's `BertTokenizer` and `FastBertTokenizer` when
uncased, and hundreds when cased. They fold case as NFKC does, so that "10\u00b2" is "102" and
"\u2460" is "1", and put a blank where BERT drops a control character. So that is a table here: BERT
treats one character at a time (see `fast_tokenizer.load_fast_tokenizer`).
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text
import tokenizers

from tfbio.base import storage
from tfbio.text import tokenization, vocabularies
from tfbio.text.in_graph import (
    byte_bpe as graph_byte_bpe,
)
from tfbio.text.in_graph import characters as chars
from tfbio.text.in_graph import (
    sentencepiece as graph_sentencepiece,
)
from tfbio.text.in_graph import (
    words as graph_words,
)
from tfbio.text.in_graph.words import LETTER, OWN, SPACE

# A word of more characters is [UNK]; see `tokenization.wordpiece`. Each has at most 4 bytes.
_LONGEST = 100


def load(vocab_file: Path, lower_case: bool) -> tf.Module:
    """The tokenizer of a vocabulary.

    It takes string [texts], UTF-8, and gives their tokens, int32 ragged [texts, tokens]. Its method
    `with_places` gives three of that form: the tokens, the first character of each, and the one
    behind its last.

    Args:
      vocab_file: as `vocabularies.copy_vocabulary` writes it. A text file becomes an asset of the
        graph, and its line ends are made those that TensorFlow reads.
      lower_case: see `tokenization.load_tokenizer`.

    Raises:
      VocabularyError: the vocabulary cannot be used.
    """
    if vocab_file.suffix == ".model":
        return graph_sentencepiece.SentencePiece(vocab_file, lower_case)
    if vocab_file.suffix == ".json":
        return graph_byte_bpe.ByteBpe(vocab_file)
    vocab = tokenization.read_vocab(vocab_file)
    storage.write_text(vocab_file, "\n".join(vocab) + "\n")
    return WordPiece(str(vocab_file), lower_case, vocab[vocabularies.UNK])


class WordPiece(tf.Module):
    """`tokenization.wordpiece`.

    Args:
      vocab_file: a text file, each line a token; it becomes an asset of the graph.
      lower_case: see `tokenization.wordpiece`.
      unk_id: the id of [UNK].
    """

    def __init__(self, vocab_file: str, lower_case: bool, unk_id: int):
        super().__init__()
        self.wordpiece = tensorflow_text.WordpieceTokenizer(
            tf.lookup.StaticHashTable(_Lines(vocab_file), unk_id),
            max_bytes_per_word=4 * _LONGEST,
            unknown_token=vocabularies.UNK,
        )
        changed, apart = _normalized(lower_case)
        self.replace = chars.replacer(changed)
        self.kinds = chars.table(np.where(apart, OWN, graph_words.bert_kinds()))

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string [texts] -> int32 ragged [texts, tokens]."""
        return self.with_places(texts)[0]

    def with_places(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """See `load`."""
        characters = chars.decode(texts)
        text = characters.value_rowids()
        ids, first, last = self._tokens(characters.values, text)
        place = chars.place_in_row(characters)
        values = ids, tf.gather(place, first), tf.gather(place, last) + 1
        rows, count = tf.gather(text, first), characters.nrows()
        return tuple(tf.RaggedTensor.from_value_rowids(x, rows, count) for x in values)

    def _tokens(self, codes: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The tokens of characters.

        Args:
          codes: int32 [characters].
          texts: the text of each, int64 [characters].

        Returns:
          The ids, int32 [tokens]; the first and the last character of each, int64 [tokens].
        """
        codes, source = self.replace(codes)
        kinds, texts = self.kinds(codes), tf.gather(texts, source)
        apart = (kinds == OWN) | (chars.before(kinds, SPACE) != LETTER)
        apart |= chars.before(texts, -1) != texts
        inside = kinds != SPACE
        codes, source, apart = (tf.boolean_mask(x, inside) for x in (codes, source, apart))
        numbers = tf.cumsum(tf.cast(apart, tf.int64)) - 1
        count = tf.reduce_sum(tf.cast(apart, tf.int64))
        words = tf.RaggedTensor.from_value_rowids(codes, numbers, count)
        too_long = words.row_lengths() > _LONGEST
        # Of more bytes than the limit, whatever the characters are.
        longer = tf.where(too_long, "x" * (4 * _LONGEST), "")
        words_as_text = tf.strings.unicode_encode(words, "UTF-8")
        ids, begins, ends = self.wordpiece.tokenize_with_offsets(words_as_text + longer)

        sizes = chars.sizes(codes)
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
        self.sha256 = storage.sha256_of(path)
        super().__init__(path, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)

    @property
    def _shared_name(self) -> str:
        # The name of the table, which models in one process may share. It would have the path.
        return f"lines_{self.sha256}"


@functools.cache
def _normalized(lower_case: bool) -> tuple[list[str], np.ndarray]:
    """What BERT makes of each character, and bool [CODES], whether blanks set it apart, as CJK."""
    found = chars.normalized(tokenizers.normalizers.BertNormalizer(lowercase=lower_case))
    apart = np.array([len(text) > 2 and text[0] == text[-1] == " " for text in found])
    return [text.strip(" ") or text[:1] for text in found], apart
