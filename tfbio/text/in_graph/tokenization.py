"""Makes the tokenizers of `text.tokenization` as parts of a TensorFlow graph.

WordPiece is here, SentencePiece in `sentencepiece` and byte-level BPE in `byte_bpe`.

WordPiece itself is tensorflow-text's, but BERT's normalization before it is a table here, since
BERT changes one character at a time (see `fast_tokenizer`). In tensorflow-text's `BertTokenizer`
and `FastBertTokenizer` thousands of characters give other tokens when uncased, and hundreds when
cased: they fold case as NFKC does, so that "10\u00b2" is "102" and "\u2460" is "1", and put a
blank where BERT drops a control character.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text
import tokenizers

from tfbio.base import storage
from tfbio.text import special_tokens, wordpiece
from tfbio.text.in_graph import byte_bpe as graph_byte_bpe
from tfbio.text.in_graph import characters as chars
from tfbio.text.in_graph import sentencepiece as graph_sentencepiece
from tfbio.text.in_graph import words as graph_words
from tfbio.text.in_graph.words import LETTER, OWN, SPACE

# A longer word, in characters of at most 4 bytes, is [UNK]; see `wordpiece.make_tokenizer`.
_LONGEST = 100


def load(vocab_file: Path, lower_case: bool) -> tf.Module:
    """Makes the tokenizer of a vocabulary, of any kind, as a module for a TensorFlow graph.

    Args:
      vocab_file: a file that `vocabularies.copy_vocabulary` wrote: `vocab.txt`, `vocab.model` or
        `vocab.json`. A text file becomes an asset of the graph, and is written again with the line
        ends that TensorFlow reads.
      lower_case: whether to lower-case text first; byte-level BPE ignores it.

    Returns:
      A module that takes string [texts] in UTF-8 and returns their ids, int32 ragged [texts,
      tokens], without special tokens. Its method `with_places` returns three tensors of that shape:
      the ids, the offset of each token's first character, and that after its last.

    Raises:
      VocabularyError: a `vocab.txt` or `vocab.json` is missing or damaged, lacks a special token
        or, in byte-level BPE, a token for a byte.
      OSError: a SentencePiece model is missing, or a text file cannot be written.
      google.protobuf.message.DecodeError: a SentencePiece model is damaged.
      ValueError: the normalizer of a SentencePiece model is damaged.
    """
    if vocab_file.suffix == ".model":
        return graph_sentencepiece.SentencePiece(vocab_file, lower_case)
    if vocab_file.suffix == ".json":
        return graph_byte_bpe.ByteBpe(vocab_file)
    vocab = wordpiece.read_vocab(vocab_file)
    storage.write_text(vocab_file, "\n".join(vocab) + "\n")
    return WordPiece(str(vocab_file), lower_case, vocab[special_tokens.UNK])


class WordPiece(tf.Module):
    """A WordPiece tokenizer, BERT's (`wordpiece.make_tokenizer`), as a module for a graph.

    A call takes texts, string [texts] in UTF-8, and returns their ids without special tokens, int32
    ragged [texts, tokens].

    Args:
      vocab_file: a text file with a token on each line; it becomes an asset of the graph.
      lower_case: whether to lower-case text and strip its accents first ("uncased").
      unk_id: the id of [UNK].

    Attributes:
      wordpiece: tensorflow-text's tokenizer of words.
      replace: BERT's normalization of characters, a function that `characters.replacer` made.
      kinds: a function from code points to their classes, int32 [characters] both: `words.LETTER`
        (0), `words.OWN` (1, a separate word) or `words.SPACE` (2).

    Raises:
      OSError: the file is missing or cannot be read.
    """

    def __init__(self, vocab_file: str, lower_case: bool, unk_id: int):
        super().__init__()
        self.wordpiece = tensorflow_text.WordpieceTokenizer(
            tf.lookup.StaticHashTable(_Lines(vocab_file), unk_id),
            max_bytes_per_word=4 * _LONGEST,
            unknown_token=special_tokens.UNK,
        )
        changed, apart = _normalized(lower_case)
        self.replace = chars.replacer(changed)
        self.kinds = chars.table(np.where(apart, OWN, graph_words.kinds_by("punctuation")))

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Encodes texts: string [texts] -> int32 ragged [texts, tokens]."""
        return self.with_places(texts)[0]

    def with_places(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Encodes texts by WordPiece in the graph, with the offsets of tokens.

        Args:
          texts: string [texts], in UTF-8.

        Returns:
          Three tensors int32 ragged [texts, tokens]: the ids, the offset of each token's first
          character in its text, and the offset after its last one. Offsets count characters.
        """
        characters = chars.decode(texts)
        text = characters.value_rowids()
        ids, first, last = self._tokens(characters.values, text)
        place = chars.place_in_row(characters)
        values = ids, tf.gather(place, first), tf.gather(place, last) + 1
        rows, count = tf.gather(text, first), characters.nrows()
        return tuple(tf.RaggedTensor.from_value_rowids(x, rows, count) for x in values)

    def _tokens(self, codes: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Encodes the characters of all texts.

        Args:
          codes: the code points, int32 [characters].
          texts: the number of each character's text, int64 [characters].

        Returns:
          The ids, int32 [tokens]; the numbers of each token's first and last character, int64
          [tokens] each.
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
        # Longer than the limit in bytes, whatever the characters are.
        longer = tf.where(too_long, "x" * (4 * _LONGEST), "")
        words_as_text = tf.strings.unicode_encode(words, "UTF-8")
        ids, begins, ends = self.wordpiece.tokenize_with_offsets(words_as_text + longer)

        sizes = chars.sizes(codes)
        limits = tf.cumsum(sizes)  # in bytes, after each character
        before = tf.gather(limits - sizes, words.row_starts())  # of each word
        number = ids.value_rowids()
        begins = tf.gather(before, number) + begins.values
        # For a word that is too long, WordPiece returns the end of "[UNK]".
        whole = tf.gather(tf.gather(limits, words.row_limits() - 1), number)
        ends = tf.where(tf.gather(too_long, number), whole, tf.gather(before, number) + ends.values)
        first, last = (
            tf.gather(source, tf.searchsorted(limits, place, side="right"))
            for place in (begins, ends - 1)
        )
        return tf.cast(ids.values, tf.int32), first, last


class _Lines(tf.lookup.TextFileInitializer):
    """Initializes a table with the lines of a file and their numbers, from 0."""

    def __init__(self, path: str):
        index = tf.lookup.TextFileIndex
        self.sha256 = storage.sha256_of(path)
        super().__init__(path, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)

    @property
    def _shared_name(self) -> str:
        # The table's name, which models in one process may share. By default it has the path.
        return f"lines_{self.sha256}"


@functools.cache
def _normalized(lower_case: bool) -> tuple[list[str], np.ndarray]:
    """Returns what BERT makes of each character, and whether it puts blanks around it, as for CJK.

    Returns:
      The texts, [CODES]; bool [CODES].
    """
    texts = chars.normalized(tokenizers.normalizers.BertNormalizer(lowercase=lower_case))
    apart = np.array([len(text) > 2 and text[0] == text[-1] == " " for text in texts])
    return [text.strip(" ") or text[:1] for text in texts], apart
