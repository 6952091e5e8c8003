"""Computes the cross entropy of words with few passes over the logits, which have the vocabulary.

TensorFlow's own operation is slow on a CPU, and its probabilities cannot be read. Here they are
those of `tf.nn.softmax`, which ELECTRA's generator samples from: one operation serves both.
"""

from collections.abc import Callable

import tensorflow as tf

from tfbio.models import target


def most_likely(logits: tf.Tensor) -> tf.Tensor:
    """Finds the word with a masked language model's highest score at each masked position.

    Args:
      logits: float32 [B, N, V].

    Returns:
      int32 [B, N], the numbers of the words.
    """
    # In the shape that the product has: another would be a copy on a TPU.
    rows = tf.reshape(logits, [-1, logits.shape[-1]])
    return tf.reshape(tf.argmax(rows, axis=-1, output_type=tf.int32), logits.shape[:-1])


def cross_entropy(ids: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Computes the cross entropy of words: -log softmax(logits), at each position's word.

    With the most likely word m and its probability p_m, the logarithm of the sum of exp(logits) is
    logits_m - log p_m. As p_m is 1 / V at least, no digits are lost. The derivative is the
    probabilities less 1 at the word.

    Args:
      ids: int32 [B, N], the words.
      logits: float32 [B, N, V], of static shape.

    Returns:
      float32 [B, N].
    """
    if target.is_tpu() or target.is_mesh():
        return tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)

    @tf.custom_gradient
    def losses(logits: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        probabilities, likely = tf.nn.softmax(logits), most_likely(logits)
        highest = tf.gather(logits, likely, axis=-1, batch_dims=2)
        share = tf.gather(probabilities, likely, axis=-1, batch_dims=2)
        own = tf.gather(logits, ids, axis=-1, batch_dims=2)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            rows = tf.reshape(probabilities, [-1, logits.shape[-1]])
            weights, words = tf.reshape(upstream, [-1]), tf.reshape(ids, [-1])
            places = tf.stack([tf.range(rows.shape[0]), words], axis=-1)
            weighted = rows * weights[:, tf.newaxis]
            return tf.reshape(tf.tensor_scatter_nd_sub(weighted, places, weights), logits.shape)

        return highest - tf.math.log(share) - own, gradient

    return losses(logits)
