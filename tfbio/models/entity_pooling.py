"""The vectors of a relation's two entities, from those of their tokens."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfbio.models.layers import shape_of

# How far from the maximum a value may be that is the maximum but for rounding, as a share of it.
_ROUNDING = 1e-5


def pool(vectors: tf.Tensor, batch: dict[str, tf.Tensor], mean: bool) -> tf.Tensor:
    """Takes the maximum or the mean over the tokens of each entity, and puts both side by side.

    Gu et al. (2021) pool mentions by "max or average" (section 5.2).

    Args:
      vectors: float32 [tokens, size], the rows end to end.
      batch: with `entities`, or with `entities_of_tokens` and `real`, see `TaskModel.call`.
      mean: True for the mean.

    Returns:
      float32 [texts, 2 * size]; 0 for padding.
    """
    if "entities_of_tokens" in batch:
        return _pool_by_number(vectors, batch, mean)
    places = batch["entities"]  # [texts, 2, most]
    tokens = tf.gather(vectors, places)
    if mean:
        # They ascend, and the last one fills up what is left: it counts once.
        begins = tf.ones_like(places[:, :, :1], tf.bool)
        own = tf.concat([begins, places[:, :, 1:] > places[:, :, :-1]], axis=2)
        weights = tf.cast(own, vectors.dtype)[..., tf.newaxis]
        entities = tf.reduce_sum(tokens * weights, axis=2) / tf.reduce_sum(weights, axis=2)
    else:
        entities = tf.reduce_max(tokens, axis=2)
    return tf.reshape(entities, [shape_of(entities)[0], 2 * vectors.shape[-1]])


def _pool_by_number(vectors: tf.Tensor, batch: dict[str, tf.Tensor], mean: bool) -> tf.Tensor:
    """Does what `pool` does, where tokens have the numbers of texts; see `FixedShapePacker`."""
    (texts,) = shape_of(batch["real"])
    over = tf.math.unsorted_segment_mean if mean else _segment_max
    first, second = (
        over(vectors, tf.reshape(ids, [-1]) - 1, texts)
        for ids in tf.unstack(batch["entities_of_tokens"], axis=-1)
    )
    # The maximum over no token is none.
    real = batch["real"][:, tf.newaxis] > 0
    return tf.where(real, tf.concat([first, second], axis=1), 0.0)


def _segment_max(vectors: tf.Tensor, segments: tf.Tensor, count: int) -> tf.Tensor:
    """Does what `tf.math.unsorted_segment_max` does, with a gradient that XLA does not lose.

    TensorFlow's gradient goes to the values that equal the maximum. A program of XLA may compute
    the values twice, and round them in another way: then none equals the maximum, and the tokens
    get no gradient.

    Args:
      vectors: float32 [tokens, size].
      segments: int32 [tokens], the segment of each; those below 0 are left out.
      count: the number of segments.

    Returns:
      float32 [count, size].
    """

    @tf.custom_gradient
    def maximum(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        largest = tf.math.unsorted_segment_max(values, segments, count)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            places = tf.maximum(segments, 0)
            of_segment = tf.gather(largest, places)
            near = values >= of_segment - _ROUNDING * (1 + tf.abs(of_segment))
            chosen = tf.cast(near & (segments >= 0)[:, tf.newaxis], values.dtype)
            numbers = tf.math.unsorted_segment_sum(chosen, segments, count)
            return chosen * tf.gather(tf.math.divide_no_nan(upstream, numbers), places)

        return largest, gradient

    return maximum(vectors)
