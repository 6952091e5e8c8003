"""Questions on a context in a graph: the answer, its place and its score."""

from __future__ import annotations

import numpy as np

from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.task_examples import Question
from tfbio.task_types.serving.input_rows import cut, rows
from tfbio.task_types.serving.served_task import (
    TEXTS,
    Function,
    ServedTask,
    close,
    serving_function,
)
from tfbio.text.in_graph import words as graph_words


class ServedQuestions(ServedTask):
    """The served form (SavedModel) of a model that answers a `question` from a `context`.

    Attributes:
      task_type, model, known, calibration, tokenizer, encode, length, folder: see `ServedTask`.
    """

    def functions(self) -> dict[str, Function]:
        """Returns the graph that answers questions, by the name "serving_default".

        It takes strings `question` and `context`, [batch] each. Its outputs are [batch] each:
        `answer`, a string, "" for none; `start` and `end`, int32, its first character in the
        context and the one behind its last, -1 for none; `score`, float32, the sum of the logits of
        start and end, of ELECTRA's head of the logarithms of their probabilities, 0 without a span;
        `null_odds`, float32, see `answers.Answers`; `truncated`, bool, True if the context is cut.
        """
        return {"serving_default": serving_function(self._answer, ["question", "context"])}

    def _answer(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        special = self.encode.special_tokens(pair=True)
        asked = self.tokens(question)[:, : self.task_type.question_room(self.length, special)]
        ids, starts, ends = self.tokenizer.with_places(context)
        room = self.length - special - asked.row_lengths()
        shown = cut(ids, room)
        batch = rows(self.encode, asked, shown)
        count, length = tf.unstack(tf.shape(batch["input_ids"]))
        logits = self.outputs(batch)
        logits = tf.reshape(logits, [count, length, logits.shape[-1]])
        there = batch["document_ids"][:, :, tf.newaxis] > 0
        # `answers._spans`, of one window: starts [count, starts, 1], and ends, of BERT's head
        # [count, 1, ends], of ELECTRA's [count, starts, ends].
        rules = self.task_type.rules
        by_side = tf.transpose(tf.where(there, logits, -np.inf), [0, 2, 1])
        width = tf.minimum(rules.beam_size or rules.n_best, length)
        start_scores, starts_at = tf.math.top_k(by_side[:, 0], width)
        of_ends = by_side[:, 2 : 2 + width] if rules.beam_size else by_side[:, 1:2]
        end_scores, ends_at = tf.math.top_k(of_ends, width)
        if rules.beam_size:
            start_scores -= tf.reduce_logsumexp(by_side[:, 0], axis=-1, keepdims=True)
        before = tf.cast(asked.row_lengths(), tf.int32)[:, tf.newaxis, tf.newaxis] + special - 1
        start, end = starts_at[:, :, tf.newaxis] - before, ends_at - before
        limit = tf.cast(shown.row_lengths(), tf.int32)[:, tf.newaxis, tf.newaxis]
        limit = tf.minimum(start + rules.max_tokens, limit)
        fits = (start >= 0) & (end >= start) & (end < limit)
        scores = tf.where(fits, start_scores[:, :, tf.newaxis] + end_scores, -np.inf)
        pairs = tf.stack([start + tf.zeros_like(end), end + tf.zeros_like(start)], axis=-1)
        scores, pairs = tf.reshape(scores, [count, -1]), tf.reshape(pairs, [count, -1, 2])
        best, score = tf.argmax(scores, axis=1), tf.reduce_max(scores, axis=1)
        has_one = score > -np.inf
        start, end = tf.unstack(tf.gather(pairs, best, batch_dims=1), axis=-1)

        def place(ragged: tf.RaggedTensor, token: tf.Tensor) -> tf.Tensor:
            padded = tf.pad(ragged.to_tensor(), [[0, 0], [0, 1]])
            return tf.gather(padded, tf.where(has_one, token, 0), batch_dims=1)

        start, end = place(starts, start), place(ends, end)
        end += graph_words.marks_after(context, end)
        score = tf.where(has_one, score, 0.0)
        if rules.beam_size:
            null_odds = logits[:, 0, 1]
        else:
            null_odds = tf.where(has_one, tf.reduce_sum(logits[:, 0], axis=-1) - score, 0.0)
        if self.calibration is not None:
            has_one &= null_odds <= self.calibration
        # As `answers._cut`: a token of byte-level BPE may be a blank, or begin with one.
        text = tf.strings.substr(context, start, end - start, "UTF8_CHAR")
        from_first = tf.strings.regex_replace(text, r"^[ \t\n\v\f\r]+", "")
        start += tf.strings.length(text) - tf.strings.length(from_first)
        text = tf.strings.strip(text)
        end = start + tf.strings.length(text, "UTF8_CHAR")
        has_one &= text != ""
        return {
            "answer": tf.where(has_one, text, ""),
            "start": tf.where(has_one, start, -1),
            "end": tf.where(has_one, end, -1),
            "score": score,
            "null_odds": null_odds,
            "truncated": ids.row_lengths() > room,
        }

    def compare(self, signature: Function) -> bool:
        """Checks the served answers to a question on each of `TEXTS` against those without graph.

        Args:
          signature: the "serving_default" of a model that was loaded.

        Returns:
          True if the answers on contexts that are not cut are the same, and the null odds `close`.
        """
        found = signature(question=tf.constant([TEXTS[1]] * len(TEXTS)), context=TEXTS)
        same = True
        for row, context in enumerate(TEXTS):
            if not found["truncated"][row]:
                question = Question("", TEXTS[1], context, (), ())
                predicted, _ = self.expected([question])
                (expected,) = self.task_type.calibrated(predicted, self.calibration)
                same &= found["answer"][row].numpy().decode() == expected.best
                same &= close(found["null_odds"][row].numpy(), expected.null_odds)
        return bool(same)
