"""Tagging the words of sentences: named entities, and the elements of PICO.

The first token of a word has the word's tag as its target, the others have none (Devlin et al.,
2019, section 5.3). A sentence that is longer than the limit is seen in windows that overlap; each
of its words has its target in one of them, in that where it has more words on its nearer side. So
no tag is lost, in training or in the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfbio import tokenization
from tfbio.packing import NO_TARGET, Pieces
from tfbio.task_files import TaggedSentence


class Window(NamedTuple):
    """Words `first` to `end` of a sentence, of which those from `own` to `own_end` have targets."""

    first: int
    end: int
    own: int
    own_end: int


def windows(counts: Sequence[int], room: int) -> list[Window]:
    """The windows of a sentence: one, if it fits; else each has a quarter or so of the one before.

    Args:
      counts: the tokens of each word, at least 1 and at most `room`.
      room: tokens that a window holds.
    """
    ends = np.cumsum(counts)  # tokens up to and with each word

    def last_that_fits(first: int) -> int:
        before = ends[first] - counts[first]
        return int(np.searchsorted(ends, before + room, side="right"))

    spans = [(0, last_that_fits(0))]
    while spans[-1][1] < len(counts):
        first, end = spans[-1]
        # Back by a quarter of the room, and on by one word at least.
        back = ends[end - 1] - room // 4
        next_first = max(first + 1, int(np.searchsorted(ends, back, side="right")))
        # At the next word, where that is so long that nothing would be gained.
        while last_that_fits(next_first) <= end:
            next_first += 1
        spans.append((next_first, last_that_fits(next_first)))
    found, own = [], 0
    for number, (first, end) in enumerate(spans):
        own_end = len(counts)
        if number + 1 < len(spans):
            own_end = (spans[number + 1][0] + end + 1) // 2  # the middle of what both have
        found.append(Window(first, end, own, own_end))
        own = own_end
    return found


class Tagging:
    """What the fine-tuning loop asks of a kind of task.

    Args:
      labels: all tags, in the order of the model's outputs.
    """

    of_tokens = True

    def __init__(self, labels: Sequence[str]):
        self.labels = tuple(labels)
        self.num_outputs = len(self.labels)

    def pieces(
        self, sentences: Sequence[TaggedSentence], tokenizer, vocab: dict[str, int], length: int
    ) -> Pieces:
        """The windows of the sentences, in order, each as [CLS] tokens [SEP].

        Args:
          sentences: examples.
          tokenizer: see `tokenization.wordpiece`.
          vocab: token -> id.
          length: the most tokens of a window, with [CLS] and [SEP].
        """
        room = length - 2
        words = list({word for sentence in sentences for word in sentence.words})
        encoded = tokenizer.encode_batch(words, add_special_tokens=False)
        # A word of characters that the tokenizer drops is still a word that has a tag; and one
        # that alone fills a window is cut.
        unknown = [vocab[tokenization.UNK]]
        tokens = {word: (e.ids or unknown)[:room] for word, e in zip(words, encoded, strict=True)}
        tag_ids = {tag: number for number, tag in enumerate(self.labels)}
        cls_id, sep_id = vocab[tokenization.CLS], vocab[tokenization.SEP]
        input_ids, targets, example = [], [], []
        for number, sentence in enumerate(sentences):
            counts = [len(tokens[word]) for word in sentence.words]
            for window in windows(counts, room):
                ids, tags = [cls_id], [NO_TARGET]
                for place in range(window.first, window.end):
                    own = window.own <= place < window.own_end
                    tag = tag_ids[sentence.tags[place]] if own else NO_TARGET
                    ids += tokens[sentence.words[place]]
                    tags += [tag] + [NO_TARGET] * (counts[place] - 1)
                input_ids.append(np.array([*ids, sep_id], np.int32))
                targets.append(np.array([*tags, NO_TARGET], np.int32))
                example.append(number)
        segment_ids = [np.zeros_like(ids) for ids in input_ids]
        numbers = np.array(example, np.int64)
        return Pieces(input_ids, segment_ids, targets, numbers, of_tokens=True)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Cross-entropy at the tokens that have targets.

        Args:
          logits: float32 [tokens, tags].
          batch: see `packing.fill`.

        Returns:
          The losses and their weights, 0 or 1; float32 [tokens] each.
        """
        targets = tf.reshape(batch["targets"], [-1])
        weights = tf.cast(tf.not_equal(targets, NO_TARGET), tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(targets, 0), logits)
        return losses * weights, weights

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """What leaves the device: the best tag of each token, int32 [tokens]."""
        return tf.argmax(logits, axis=-1, output_type=tf.int32)

    def predictions(
        self, outputs: list[np.ndarray], pieces: Pieces, sentences: Sequence[TaggedSentence]
    ) -> list[tuple[str, ...]]:
        """The tags of each sentence.

        Args:
          outputs: int32 [tokens] for each piece.
          pieces: of the sentences.
          sentences: examples.
        """
        tags: list[list[str]] = [[] for _ in sentences]
        for best, targets, number in zip(outputs, pieces.targets, pieces.example, strict=True):
            tags[number] += [self.labels[label] for label in best[targets != NO_TARGET]]
        return [tuple(own) for own in tags]
