"""Words with labels in a graph: a sentence's words, their tokens, and lists of entities."""

from __future__ import annotations

import abc
from typing import NamedTuple

from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.task_examples import TaggedSentence
from tfbio.task_types import words
from tfbio.task_types.serving.input_rows import rows
from tfbio.task_types.serving.served_task import TEXTS, Function, ServedTask, serving_function
from tfbio.text.in_graph import words as graph_words


class SeenWords(NamedTuple):
    """The words of texts in a served model's graph, and the batch that the model sees of them.

    Attributes:
      text: string [texts].
      words: of the texts, one after the other: string `words`, int64 `text` (the number of the
        word's text), int32 `start` and `end` (its first character and the one behind its last),
        [words] each.
      batch: name -> int32 array, from `input_rows.rows`.
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
        """Makes, in the graph, a list for each text of values of its words or entities.

        Args:
          values: [n, ...], those of one text after those of another.
          texts: int64 [n], the number of the text that each is of.

        Returns:
          [texts, most values, ...], padded with "" if the values are strings, else -1.
        """
        count = tf.size(self.text, tf.int64)
        ragged = tf.RaggedTensor.from_value_rowids(values, texts, count)
        return ragged.to_tensor("" if values.dtype == tf.string else -1)

    def counted(self, texts: tf.Tensor) -> tf.Tensor:
        """Counts, in the graph, the words or entities of each served text.

        Args:
          texts: int64 [n], the number of the text that each is of.

        Returns:
          int32 [texts].
        """
        return tf.math.bincount(tf.cast(texts, tf.int32), minlength=tf.size(self.text))

    def entities(
        self, first: tf.Tensor, last: tf.Tensor, entity_types: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Makes, in the graph, the lists of entities of each text, from their first and last words.

        Args:
          first: int64 [entities], the first word of each, counted over all texts; not descending.
          last: int64 [entities], the number of the last word.
          entity_types: string [entities].

        Returns:
          By name: `entity_start` and `entity_end`, int32 [texts, most entities], the first
          character in the text and the one behind the last, -1 for padding; `entity_type` and
          `entity_text`, strings of that shape, "" for padding; and `entity_count`, int32 [texts].
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
    """The base class of the served forms (SavedModels) of models that label a sentence's words.

    Attributes:
      task_type, model, known, calibration, tokenizer, encode, length, folder: see `ServedTask`.
    """

    def functions(self) -> dict[str, Function]:
        """Returns the graph that labels words, by the name "serving_default".

        It takes strings `text` [batch], each a sentence, and returns by name what `labels` returns,
        `word_start` and `word_end`, int32 [batch, words] in characters, -1 for padding,
        `word_count`, int32 [batch], and `truncated`, bool [batch], True if words are cut off.
        """
        return {"serving_default": serving_function(self._label, ["text"])}

    @abc.abstractmethod
    def labels(self, seen: SeenWords) -> dict[str, tf.Tensor]:
        """Computes, in the graph, the labels of the served words, and the entities that they make.

        Args:
          seen: the words of the texts, and their batch.

        Returns:
          Tensors [batch, ...] by name, among them those of `SeenWords.entities`.
        """

    @abc.abstractmethod
    def same(self, served: dict[str, tf.Tensor], row: int, example: TaggedSentence) -> bool:
        """Returns True if a sentence's served words have the labels that they have without graph.

        Subclasses say what is compared.

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
        """Checks the served words of `TEXTS` and their labels against the model without the graph.

        Args:
          signature: the "serving_default" of a model that was loaded.

        Returns:
          True if each text has as many words as `words.spans` gives, and if those that are not cut
          have the `same` labels.
        """
        served = signature(text=tf.constant(TEXTS))
        same = True
        for row, text in enumerate(TEXTS):
            own = tuple(text[start:end] for start, end in words.spans(text, self.known.words))
            same &= bool(served["word_count"][row] == len(own))
            if not served["truncated"][row]:
                same &= self.same(served, row, TaggedSentence("", own, ("O",) * len(own)))
        return same
