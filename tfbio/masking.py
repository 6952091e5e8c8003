"""Dynamic masking: which tokens a step hides is drawn in the graph, anew at every step."""

from typing import NamedTuple

import tensorflow as tf

from tfbio import randomness


class MaskedBatch(NamedTuple):
    """A batch with tokens hidden; B examples, L tokens each, at most N of them hidden."""

    input_ids: tf.Tensor  # int32 [B, L], with [MASK] at (most of) the positions
    positions: tf.Tensor  # int32 [B, N]; 0 where the weight is 0
    ids: tf.Tensor  # int32 [B, N]: the tokens that stood there
    weights: tf.Tensor  # float32 [B, N]: 1, or 0 where an example hides fewer than N


def max_predictions(sequence_length: int, mask_prob: float) -> int:
    """N, as the original ELECTRA code computes `max_predictions_per_seq`."""
    return int((mask_prob + 0.005) * sequence_length)


def mask_tokens(
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    *,
    special_ids: list[int],
    mask_id: int,
    mask_prob: float,
    mask_token_prob: float,
    seed: tf.Tensor,
) -> MaskedBatch:
    """Hides `mask_prob` of each example's tokens, without replacement.

    The count is the original ELECTRA code's: round(tokens * mask_prob), at least 1, at most
    `max_predictions`. That code draws positions with replacement and so hides some twice and
    fewer in all; drawing without is what its paper (section 2) describes.

    Args:
      input_ids: int32 [B, L], static shape.
      input_mask: int32 [B, L], 1 for tokens, 0 for padding.
      special_ids: tokens that are never hidden, such as [CLS], [SEP] and [PAD].
      mask_id: the [MASK] token.
      mask_prob: share of the tokens that is hidden.
      mask_token_prob: share of the hidden tokens that becomes [MASK]; the others stay as they are.
      seed: int32 [2], keys the draw. It covers the global batch, of which each replica takes its
        part, so the masks do not depend on the number of replicas.
    """
    batch, length = input_ids.shape
    limit = max_predictions(length, mask_prob)
    position_seed, token_seed = randomness.split(seed, 2)

    hideable = tf.cast(input_mask, tf.bool)
    for special in special_ids:
        hideable &= input_ids != special
    scores = tf.where(hideable, randomness.global_uniform([batch, length], position_seed), -1.0)
    top_scores, positions = tf.math.top_k(scores, limit)

    tokens = tf.cast(tf.reduce_sum(input_mask, axis=1), tf.float32)
    count = tf.clip_by_value(tf.cast(tf.round(tokens * mask_prob), tf.int32), 1, limit)
    hidden = (tf.range(limit) < count[:, tf.newaxis]) & (top_scores >= 0.0)
    positions = tf.where(hidden, positions, 0)
    ids = tf.gather(input_ids, positions, batch_dims=1)

    becomes_mask = hidden & (
        randomness.global_uniform([batch, limit], token_seed) < mask_token_prob
    )
    return MaskedBatch(
        input_ids=replace_tokens(input_ids, positions, tf.where(becomes_mask, mask_id, ids)),
        positions=positions,
        ids=ids,
        weights=tf.cast(hidden, tf.float32),
    )


def replace_tokens(input_ids: tf.Tensor, positions: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """int32 [B, L] with `ids` [B, N] written at `positions` [B, N].

    Unused positions are 0 and must carry the token that stands there, so that it does not matter
    which of several writes to the same place is the last.
    """
    rows = tf.broadcast_to(tf.range(positions.shape[0])[:, tf.newaxis], positions.shape)
    return tf.tensor_scatter_nd_update(input_ids, tf.stack([rows, positions], axis=-1), ids)
