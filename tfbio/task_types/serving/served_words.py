"""Words with labels in a graph: a sentence's words, their tokens, and lists of entities."""

from __future__ import annotations

import abc
from typing import NamedTuple

from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.task_examples import TaggedSentence
from tfbio.task_types import words
from tfbio.task_types.serving.served_task import (
    TEXTS,
    Function,
    ServedTask,
    rows,
    serving_function,
)
from tfbio.text.in_graph import words as graph_words


class SeenWords(NamedTuple):
    """The words of texts, and the batch that the model sees of them.

    Attributes:
      text: string [texts].
      words: of the texts, one after the other, with their texts' numbers and their places.
      batch: name -> array, from `served_task.rows`.
      places: int64 [words], the place of each word's first token when the rows of the batch are
        laid end to end; for a word that is cut off, of a token that is not its own.
      seen: bool [words], False for a word that is cut off.
      truncated: bool [texts], True if words of a text are cut off.
    """

    text: tf.Tensor
    words: graph_words.Words
    batch: dict[str, tf.Tensor]
    places: tf.Tensor
    seen: tf.Tensor
    truncated: tf.Tensor

    def listed(self, values: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
        """Returns a list of values for each text, [texts, most values, ...], padded with "" or -1.

        Args:
          values: [n, ...], those of one text after those of another.
          texts: int64 [n], the number of the text that each is of.
        """
        count = tf.size(self.text, tf.int64)
        ragged = tf.RaggedTensor.from_value_rowids(values, texts, count)
        return ragged.to_tensor("" if values.dtype == tf.string else -1)

    def counted(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns how often each text is among `texts`, int64 [n], as int32 [texts]."""
        return tf.math.bincount(tf.cast(texts, tf.int32), minlength=tf.size(self.text))

    def entities(
        self, first: tf.Tensor, last: tf.Tensor, entity_types: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns lists of entities for each text.

        Args:
          first: int64 [entities], the number of the first word of each, in their order.
          last: int64 [entities], the number of the last word.
          entity_types: string [entities].

        Returns:
          `entity_start` and `entity_end`, int32 [texts, most entities], the first character in the
          text and the one behind the last, -1 for padding; `entity_type` and `entity_text`, strings
          of that shape, "" for padding; and `entity_count`, int32 [texts].
        """
        texts = tf.gather(self.words.text, first)
        start, end = tf.gather(self.words.start, first), tf.gather(self.words.end, last)
        mentions = tf.strings.substr(tf.gather(self.text, texts), start, end - start, "UTF8_CHAR")
        return {
            "entity_start": self.listed(start, texts),
            "entity_end": self.listed(end, texts),
            "entity_type": self.listed(entity_types, texts),
            "entity_text": self.listed(mentions, texts),
            "entity_count": self.counted(texts),
        }


class ServedWords(ServedTask):
    """A model that labels the words of a sentence, the `text`.

    Attributes:
      task_type, model, known, calibration, tokenizer, encode, length, folder: see `ServedTask`.
    """

    def functions(self) -> dict[str, Function]:
        """Returns "serving_default" alone, from strings `text` [batch] to tensors by name.

        These are what `labels` returns, `word_start` and `word_end`, int32 [batch, words] in
        characters, -1 for padding, `word_count`, int32 [batch], and `truncated`, bool [batch].
        """
        return {"serving_default": serving_function(self._label, ["text"])}

    @abc.abstractmethod
    def labels(self, seen: SeenWords) -> dict[str, tf.Tensor]:
        """Returns the labels of the words, and the entities, as tensors [batch, ...] by name.

        Args:
          seen: the words of the texts, and their batch.
        """

    @abc.abstractmethod
    def same(self, served: dict[str, tf.Tensor], row: int, example: TaggedSentence) -> bool:
        """Returns True if the graph gives an example what the model does without the graph.

        Args:
          served: the outputs of the graph, tensors [batch, ...] by name.
          row: the number of the example's text in the batch.
          example: its words, with O for each.
        """

    def _label(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        seen = self._see(text)
        own = seen.words
        return {
            **self.labels(seen),
            "word_start": seen.listed(own.start, own.text),
            "word_end": seen.listed(own.end, own.text),
            "word_count": seen.counted(own.text),
            "truncated": seen.truncated,
        }

    def _see(self, text: tf.Tensor) -> SeenWords:
        """Cuts texts into words and tokens."""
        found, room = graph_words.of_texts(text, self.known.words), self.length - 2
        ids = graph_words.tokens(self.tokens, found.words, self.encode.unk_id)
        # By text; a word that alone is too long is cut.
        count = tf.size(text, tf.int64)
        ids = tf.RaggedTensor.from_value_rowids(ids[:, :room], found.text, count)
        tokens = ids.merge_dims(1, 2)
        batch = rows(self.encode, tokens[:, :room])
        lengths = ids.values.row_lengths()
        starts = tf.cumsum(lengths) - lengths - tf.gather(tokens.row_starts(), found.text)
        seen = starts < room
        width = tf.shape(batch["input_ids"], tf.int64)[1]
        places = found.text * width + 1 + tf.where(seen, starts, 0)
        return SeenWords(text, found, batch, places, seen, tokens.row_lengths() > room)

    def compare(self, signature: Function) -> bool:
        """Returns True if the words of `TEXTS` and the labels of uncut ones are the model's."""
        served = signature(text=tf.constant(TEXTS))
        same = True
        for row, text in enumerate(TEXTS):
            own = tuple(text[start:end] for start, end in words.spans(text, self.known.words))
            same &= bool(served["word_count"][row] == len(own))
            if not served["truncated"][row]:
                same &= self.same(served, row, TaggedSentence("", own, ("O",) * len(own)))
        return same
