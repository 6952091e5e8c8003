"""Tagged words in a graph: a sentence's words, their tags, and the entities that these make."""

from __future__ import annotations

import tensorflow as tf

from tfbio.formats.task_examples import TaggedSentence
from tfbio.models.batches import NO_TARGET
from tfbio.task_types import words
from tfbio.task_types.serving.served_task import (
    TEXTS,
    Function,
    ServedTask,
    rows,
    serving_function,
)
from tfbio.text.in_graph import words as graph_words


class ServedWords(ServedTask):
    """A model that tags the words of a sentence, the `text`."""

    def functions(self) -> dict[str, Function]:
        return {"serving_default": serving_function(self._tag, ["text"])}

    def _tag(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        found, room = graph_words.of_texts(text, self.known["words"]), self.length - 2
        count = tf.size(text, tf.int64)
        ids = graph_words.tokens(self.tokens, found.words, self.encode.unk_id)
        # By text; a word that alone is too long is cut.
        ids = tf.RaggedTensor.from_value_rowids(ids[:, :room], found.text, count)
        tokens = ids.merge_dims(1, 2)
        batch = rows(self.encode, tokens[:, :room])
        lengths = ids.values.row_lengths()
        starts = tf.cumsum(lengths) - lengths - tf.gather(tokens.row_starts(), found.text)
        seen = starts < room
        width = tf.shape(batch["input_ids"], tf.int64)[1]
        places = found.text * width + 1 + tf.where(seen, starts, 0)
        batch["targets"] = self._targets(batch, tf.boolean_mask(places, seen))
        letters, types, names = self._bio()
        best = tf.gather(self.outputs(batch), places)
        inside = seen & (tf.gather(letters, best) != "O")
        kind = tf.where(inside, tf.gather(types, best), "")
        # The rule of `tag_schemes.entities`, by which an I goes on with its type or begins.
        before = tf.concat([[""], kind], axis=0)[:-1]
        same = tf.concat([[-1], found.text], axis=0)[:-1] == found.text
        in_before = tf.concat([[False], inside], axis=0)[:-1]
        goes_on = inside & in_before & same & (before == kind)
        goes_on &= tf.gather(letters, best) == "I"
        begins = inside & ~goes_on
        tags = tf.gather(letters, best)
        if self.task_type.settings.scheme == "IO":
            tags = tf.where(begins, "B", tags)
        tags = tf.where(seen, tags + tf.where(inside, kind, ""), "")

        number = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        own = tf.boolean_mask(number, inside)
        entity_end = tf.math.segment_max(tf.boolean_mask(found.end, inside), own)
        entity_text = tf.boolean_mask(found.text, begins)
        entity_start = tf.boolean_mask(found.start, begins)
        names = tf.gather(names, tf.boolean_mask(best, begins))
        mentions = tf.strings.substr(
            tf.gather(text, entity_text), entity_start, entity_end - entity_start, "UTF8_CHAR"
        )

        def listed(values: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
            ragged = tf.RaggedTensor.from_value_rowids(values, texts, count)
            return ragged.to_tensor("" if values.dtype == tf.string else -1)

        def counted(texts: tf.Tensor) -> tf.Tensor:
            return tf.math.bincount(tf.cast(texts, tf.int32), minlength=tf.size(text))

        return {
            "tags": listed(tags, found.text),
            "word_start": listed(found.start, found.text),
            "word_end": listed(found.end, found.text),
            "word_count": counted(found.text),
            "entity_start": listed(entity_start, entity_text),
            "entity_end": listed(entity_end, entity_text),
            "entity_type": listed(names, entity_text),
            "entity_text": listed(mentions, entity_text),
            "entity_count": counted(entity_text),
            "truncated": tokens.row_lengths() > room,
        }

    def _targets(self, batch: dict[str, tf.Tensor], places: tf.Tensor) -> tf.Tensor:
        """Returns int32 [batch, length]: 0 where tokens have tags, for a CRF; else NO_TARGET."""
        shape = tf.shape(batch["input_ids"])
        if self.task_type.settings.label_all_tokens:
            ids = batch["input_ids"]
            has = (batch["position_ids"] > 0) & (ids != self.encode.sep_id)
        else:
            size = tf.cast(tf.reduce_prod(shape), tf.int64)
            ones = tf.ones_like(places, tf.int32)
            has = tf.reshape(tf.scatter_nd(places[:, tf.newaxis], ones, [size]), shape) > 0
        return tf.where(has, 0, NO_TARGET)

    def _bio(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns for each label O, B or I; the rest of it, "-Chemical"; and the entity's type."""
        labels = self.task_type.labels
        letters = [{"U": "B", "L": "I"}.get(label[0], label[0]) for label in labels]
        names = [label[2:] or self.known.get("entity_type") or "Entity" for label in labels]
        types = [label[1:] for label in labels]
        return tf.constant(letters), tf.constant(types), tf.constant(names)

    def compare(self, signature: Function) -> bool:
        examples, texts = [], []
        for text in TEXTS:
            own = tuple(text[start:end] for start, end in words.spans(text, self.known["words"]))
            examples.append(TaggedSentence("", own, ("O",) * len(own)))
            texts.append(text)
        found = signature(text=tf.constant(texts))
        tags, counts = found["tags"].numpy(), found["word_count"].numpy()
        same = True
        for row, example in enumerate(examples):
            same &= counts[row] == len(example.words)
            if not found["truncated"][row]:
                (expected,), _ = self.expected([example])
                same &= [tag.decode() for tag in tags[row, : counts[row]]] == list(expected)
        return bool(same)
