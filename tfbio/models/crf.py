"""Trains and decodes a conditional random field over the words of packed texts.

Lafferty et al. (2001). The score of a sequence of tags is the sum of each word's emission and of
the transition between each word and the next, as in Lample et al. (2016), but without their scores
of the first and the last tag: a window of a long sentence begins and ends anywhere.
"""

from __future__ import annotations

from collections.abc import Callable

from tfbio.base.lazy import tensorflow as tf
from tfbio.models.head_config import NO_TARGET

_IMPOSSIBLE = -1e9


def losses(
    emissions: tf.Tensor, transitions: tf.Tensor, targets: tf.Tensor, documents: tf.Tensor
) -> tf.Tensor:
    """Computes the loss of a CRF: the negative log-likelihood of the true tags of each row's texts.

    Args:
      emissions: float32 [rows, tokens, tags], the logits of each token's tags.
      transitions: float32 [tags, tags], the scores from a tag to the next.
      targets: int32 [rows, tokens], the numbers of the true tags, and `NO_TARGET` (-1) for tokens
        that have none; the chain goes over the tokens that have one.
      documents: int32 [rows, tokens], the number of each token's text, from 1; 0 for padding.

    Returns:
      float32 [rows], the sum over the texts of a row, in nats.
    """
    # This changes all sequences alike, and keeps the sums small.
    emissions = tf.nn.log_softmax(emissions)
    right = tf.one_hot(targets, emissions.shape[-1], on_value=True, off_value=False)
    # The score of the targets is the sum over all sequences that have no other tags.
    both = tf.concat([emissions, tf.where(right, emissions, _IMPOSSIBLE)], axis=0)
    words = tf.tile(_words(targets, documents), [2, 1])
    everything, target = tf.split(_total(both, transitions, words, tf.reduce_logsumexp), 2)
    return everything - target


def decode(
    emissions: tf.Tensor, transitions: tf.Tensor, targets: tf.Tensor, documents: tf.Tensor
) -> tf.Tensor:
    """Decodes a CRF: returns the sequence of tags with the highest score for each text's words.

    The derivative of the best score by the emissions is 1 for the best tags, else 0, so that the
    way back of Viterbi's algorithm is backpropagation (Eisner, 2016).

    Args:
      emissions: float32 [rows, tokens, tags], the logits of each token's tags.
      transitions: float32 [tags, tags], the scores from a tag to the next.
      targets: int32 [rows, tokens], `NO_TARGET` (-1) where there is no word; other values do not
        matter.
      documents: int32 [rows, tokens], the number of each token's text, from 1; 0 for padding.

    Returns:
      int32 [rows, tokens], the number of the tag; 0 where there is no word.
    """
    emissions = tf.nn.log_softmax(emissions)
    with tf.GradientTape() as tape:
        tape.watch(emissions)
        best = _total(emissions, transitions, _words(targets, documents), tf.reduce_max)
    return tf.argmax(tape.gradient(best, emissions), axis=-1, output_type=tf.int32)


def marginals(
    emissions: tf.Tensor, transitions: tf.Tensor, targets: tf.Tensor, documents: tf.Tensor
) -> tf.Tensor:
    """Computes a CRF's marginal probability of each tag of each word, over all sequences of tags.

    It is the derivative of the combined score by the emissions, as in `decode`.

    Args:
      emissions: float32 [rows, tokens, tags], the logits of each token's tags.
      transitions: float32 [tags, tags], the scores from a tag to the next.
      targets: int32 [rows, tokens], `NO_TARGET` (-1) where there is no word; other values do not
        matter.
      documents: int32 [rows, tokens], the number of each token's text, from 1; 0 for padding.

    Returns:
      float32 [rows, tokens, tags]: the tags of a word sum to 1; all are 0 where there is no word.
    """
    emissions = tf.nn.log_softmax(emissions)
    with tf.GradientTape() as tape:
        tape.watch(emissions)
        words = _words(targets, documents)
        everything = _total(emissions, transitions, words, tf.reduce_logsumexp)
    return tape.gradient(everything, emissions)


def _words(targets: tf.Tensor, documents: tf.Tensor) -> tf.Tensor:
    """Returns the number of the text where there is a word, else 0; int32 [rows, tokens]."""
    return tf.where(targets == NO_TARGET, 0, documents)


def _total(
    emissions: tf.Tensor, transitions: tf.Tensor, words: tf.Tensor, combine: Callable
) -> tf.Tensor:
    """Combines the scores of all sequences of tags of each row; float32 [rows].

    A row is one chain without transitions between texts, so its total is the sum of the texts'.
    """

    def step(
        state: tuple[tf.Tensor, tf.Tensor], word: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        scores, before = state  # of the sequences up to the last word, by its tag; its text
        emission, document = word
        same = tf.cast(document == before, tf.float32)[:, None, None]
        further = combine(scores[:, :, None] + same * transitions, axis=1) + emission
        is_word = document > 0
        return tf.where(is_word[:, None], further, scores), tf.where(is_word, document, before)

    start = tf.zeros_like(emissions[:, 0]), tf.zeros_like(words[:, 0])
    by_token = tf.transpose(emissions, [1, 0, 2]), tf.transpose(words)
    scores, _ = tf.foldl(step, by_token, start)
    return combine(scores, axis=1)
