"""Tagged words in a graph: the tags of a sentence's words, and the entities that these make."""

from __future__ import annotations

from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.task_examples import TaggedSentence
from tfbio.models.head_config import NO_TARGET
from tfbio.task_types.serving.served_words import SeenWords, ServedWords


class ServedTags(ServedWords):
    """The served form (SavedModel) of a tagging model, which gives each word of `text` one tag.

    Attributes:
      task_type, model, known, calibration, tokenizer, encode, length, folder: see `ServedTask`.
    """

    def labels(self, seen: SeenWords) -> dict[str, tf.Tensor]:
        """Computes, in the graph, the served tags of words, and the entities that the tags make.

        Args:
          seen: the words of the texts, and their batch.

        Returns:
          By name: `tags`, strings [batch, words], in BIO whichever scheme the model learnt; "" for
          words that are cut off and for padding. `entity_start` and `entity_end`, int32,
          `entity_type` and `entity_text`, strings, [batch, entities] each, and `entity_count`,
          int32 [batch], as `SeenWords.entities` returns them. `entity_score`, float32 [batch,
          entities], the product of the probabilities of the words' tags; -1 for padding.
        """
        batch = {**seen.batch, "targets": self._targets(seen)}
        letters, types, names = self._bio()
        logits = self.model(batch)
        best = tf.gather(self.task_type.outputs(logits, batch), seen.places)
        shares = tf.gather(self.task_type.probabilities(logits, batch), seen.places)
        inside = seen.seen & (tf.gather(letters, best) != "O")
        kind = tf.where(inside, tf.gather(types, best), "")
        # The rule of `tag_schemes.entities`, by which an I goes on with its type or begins.
        before = tf.concat([[""], kind], axis=0)[:-1]
        same = tf.concat([[-1], seen.words.text], axis=0)[:-1] == seen.words.text
        in_before = tf.concat([[False], inside], axis=0)[:-1]
        goes_on = inside & in_before & same & (before == kind)
        goes_on &= tf.gather(letters, best) == "I"
        begins = inside & ~goes_on
        tags = tf.gather(letters, best)
        if self.task_type.settings.scheme == "IO":
            tags = tf.where(begins, "B", tags)
        tags = tf.where(seen.seen, tags + tf.where(inside, kind, ""), "")

        number = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        own = tf.boolean_mask(number, inside)
        last = tf.math.segment_max(tf.squeeze(tf.where(inside), 1), own)
        first = tf.squeeze(tf.where(begins), 1)
        scores = tf.math.segment_prod(tf.boolean_mask(shares, inside), own)
        return {
            "tags": seen.listed(tags, seen.words.text),
            **seen.entities(first, last, tf.gather(names, tf.boolean_mask(best, begins))),
            "entity_score": seen.listed(scores, tf.gather(seen.words.text, first)),
        }

    def _targets(self, seen: SeenWords) -> tf.Tensor:
        """Returns int32 [batch, length]: 0 where tokens have tags, for a CRF; else NO_TARGET."""
        ids = seen.batch["input_ids"]
        if self.task_type.settings.label_all_tokens:
            has = (seen.batch["position_ids"] > 0) & (ids != self.encode.sep_id)
        else:
            places = tf.boolean_mask(seen.places, seen.seen)
            size = tf.cast(tf.size(ids), tf.int64)
            ones = tf.ones_like(places, tf.int32)
            has = tf.scatter_nd(places[:, tf.newaxis], ones, [size]) > 0
            has = tf.reshape(has, tf.shape(ids))
        return tf.where(has, 0, NO_TARGET)

    def _bio(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns for each label O, B or I; the rest of it, "-Chemical"; and the entity's type."""
        labels = self.task_type.labels
        letters = [{"U": "B", "L": "I"}.get(label[0], label[0]) for label in labels]
        names = [label[2:] or self.known.entity_type or "Entity" for label in labels]
        types = [label[1:] for label in labels]
        return tf.constant(letters), tf.constant(types), tf.constant(names)

    def same(self, served: dict[str, tf.Tensor], row: int, example: TaggedSentence) -> bool:
        """Returns True if a sentence's served tags are those that the model predicts without graph.

        Args:
          served: the outputs of the graph by name, of which `tags`, strings [batch, words], count.
          row: the number of the sentence in the batch.
          example: the words of the sentence, none of them cut off.
        """
        (expected,), _ = self.expected([example])
        tags = served["tags"][row, : len(example.words)].numpy()
        return [tag.decode() for tag in tags] == list(expected)
