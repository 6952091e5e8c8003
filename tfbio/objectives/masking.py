"""Dynamic masking: which tokens a step hides is drawn in the graph, anew at every step."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfbio.models import randomness
from tfbio.objectives.pretraining_config import PretrainingConfig

# SpanBERT (Joshi et al., 2020), section 3.1: a span has l words, l drawn from a geometric
# distribution with p = 0.2, at most 10.
SPAN_GEOMETRIC_P = 0.2
LONGEST_SPAN = 10


class MaskedBatch(NamedTuple):
    """A batch with tokens hidden; B examples, L tokens each, at most N of them hidden."""

    input_ids: tf.Tensor  # int32 [B, L], with [MASK] at (most of) the positions
    positions: tf.Tensor  # int32 [B, N]; 0 where the weight is 0
    ids: tf.Tensor  # int32 [B, N]: the tokens that stood there
    weights: tf.Tensor  # float32 [B, N]: 1, or 0 where an example hides fewer than N


def scheduled_prob(config: PretrainingConfig, step: tf.Tensor) -> tf.Tensor:
    """The share of tokens to hide after so many steps, int64 [] -> float32 [].

    From `mask_prob` to `final_mask_prob` in `mask_prob_stages` equal steps, each on an equal part
    of the run, as PubMedBERT's authors describe it (Gu et al., 2020, section 2.3).
    """
    first, last, stages = config.mask_prob, config.final_mask_prob, config.mask_prob_stages
    if not last:
        return tf.constant(first, tf.float32)
    stage = tf.cast(step, tf.int64) * stages // config.num_train_steps
    return first + (last - first) * tf.cast(stage, tf.float32) / (stages - 1)


def mask_tokens(
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    *,
    special_ids: Sequence[int],
    mask_id: int,
    limit: int,
    mask_prob: float | tf.Tensor,
    mask_token_prob: float,
    random_token_prob: float = 0.0,
    vocab_size: int = 0,
    unit: str = "token",
    begins_word: np.ndarray | None = None,
    with_replacement: bool = False,
    seed: tf.Tensor,
) -> MaskedBatch:
    """Hides a share of each example's tokens, and says what they were.

    The count is the original ELECTRA code's: round(tokens * mask_prob), at least 1, at most
    `limit`; padding is no token, [CLS] and [SEP] are. With `unit="word"` it is the most that is
    hidden: as in BERT's code, a word that is too long for what is left is passed over.

    Args:
      input_ids: int32 [B, L], static shape.
      input_mask: int32 [B, L], 1 for tokens, 0 for padding.
      special_ids: tokens that are never hidden, such as [CLS], [SEP] and [PAD].
      mask_id: the [MASK] token.
      limit: N, the most tokens of an example that are hidden, see
        `PretrainingConfig.max_predictions`.
      mask_prob: share of the tokens that is hidden; float32 [] where it changes with the step.
      mask_token_prob: share of the hidden tokens that becomes [MASK].
      random_token_prob: share that becomes any word of the vocabulary; the others stay as they
        are. ELECTRA has 0.85 and 0; BERT (Devlin et al., 2019, section 3.1) 0.8 and 0.1.
      vocab_size: V; for `random_token_prob`.
      unit: what is hidden together, see `pretraining_config.MASK_UNITS`.
      begins_word: bool [V], the tokens that begin a word; for "word" and "span".
      with_replacement: draw tokens as the original ELECTRA code does, which draws some twice and
        so hides fewer in all. Its paper (section 2) describes drawing without.
      seed: int32 [2], keys the draw. It covers the global batch, of which each replica takes its
        part, so the masks do not depend on the number of replicas.
    """
    position_seed, token_seed, word_seed = randomness.split(seed, 3)
    hideable = tf.cast(input_mask, tf.bool)
    for special in special_ids:
        hideable &= input_ids != special
    tokens = tf.cast(tf.reduce_sum(input_mask, axis=1), tf.float32)
    count = tf.clip_by_value(tf.cast(tf.round(tokens * mask_prob), tf.int32), 1, limit)
    count = tf.minimum(count, _count(hideable))
    if with_replacement:
        positions = _draw_with_replacement(hideable, limit, position_seed)
    else:
        scores = randomness.global_uniform(input_ids.shape, position_seed)
        if unit != "token":
            starts = tf.gather(tf.constant(begins_word), input_ids)
            hidden = _hide_words(hideable, starts, scores, count, limit, unit, position_seed)
            scores, count = tf.cast(hidden, tf.float32), _count(hidden)
        positions = tf.math.top_k(tf.where(hideable, scores, -1.0), limit).indices
    hidden = tf.range(limit) < count[:, tf.newaxis]
    positions = tf.where(hidden, positions, 0)

    draw = randomness.global_uniform(positions.shape, token_seed)
    becomes_mask = hidden & (draw < mask_token_prob)
    changed = hidden & (draw < mask_token_prob + random_token_prob)
    shown = tf.fill(positions.shape, mask_id)
    if random_token_prob:
        words = randomness.global_uniform(positions.shape, word_seed) * vocab_size
        shown = tf.where(becomes_mask, shown, tf.cast(words, tf.int32))
    return MaskedBatch(
        input_ids=replace_tokens(input_ids, positions, shown, changed),
        positions=positions,
        ids=tf.gather(input_ids, positions, batch_dims=1),
        weights=tf.cast(hidden, tf.float32),
    )


def replace_tokens(
    input_ids: tf.Tensor, positions: tf.Tensor, ids: tf.Tensor, changed: tf.Tensor
) -> tf.Tensor:
    """Writes some of `ids` at their positions.

    Where a position occurs twice, the mean of its ids is written, rounded down, as the original
    ELECTRA code does (`scatter_update`): for [MASK] that is [MASK].

    Args:
      input_ids: int32 [B, L].
      positions: int32 [B, N].
      ids: int32 [B, N].
      changed: bool [B, N], which of them are written.

    Returns:
      int32 [B, L].
    """
    rows = tf.broadcast_to(tf.range(positions.shape[0])[:, tf.newaxis], positions.shape)
    places = tf.stack([rows, positions], axis=-1)
    times = tf.scatter_nd(places, tf.cast(changed, tf.int32), input_ids.shape)
    sums = tf.scatter_nd(places, tf.where(changed, ids, 0), input_ids.shape)
    return tf.where(times > 0, sums // tf.maximum(times, 1), input_ids)


def _count(marked: tf.Tensor) -> tf.Tensor:
    """bool [B, L] -> int32 [B]."""
    return tf.reduce_sum(tf.cast(marked, tf.int32), axis=1)


def _draw_with_replacement(hideable: tf.Tensor, limit: int, seed: tf.Tensor) -> tf.Tensor:
    """`limit` of each row's positions that can be hidden, each drawn from all; int32 [B, limit]."""
    upto = tf.cumsum(tf.cast(hideable, tf.int32), axis=1)
    draw = randomness.global_uniform([hideable.shape[0], limit], seed)
    nth = 1 + tf.cast(draw * tf.cast(upto[:, -1:], tf.float32), tf.int32)
    return tf.searchsorted(upto, tf.minimum(nth, upto[:, -1:]), side="left")


def _hide_words(
    hideable: tf.Tensor,
    starts: tf.Tensor,
    scores: tf.Tensor,
    count: tf.Tensor,
    limit: int,
    unit: str,
    seed: tf.Tensor,
) -> tf.Tensor:
    """Hides one word, or one span of words, after the other, until `count` tokens are hidden.

    "word": words are drawn uniformly, and one that is too long for what is left is passed over
    (BERT's create_pretraining_data.py). "span": a span begins with the word of a token that is
    drawn from those not yet hidden, and the last one is cut short (SpanBERT's code).

    Args:
      hideable, starts: bool [B, L]: what may be hidden; where a word begins.
      scores: float32 [B, L], random; the highest is drawn first.
      count: int32 [B].
      limit: the most that `count` can be.
      unit: "word" or "span".
      seed: keys the lengths of the spans.

    Returns:
      bool [B, L].
    """
    batch, length = hideable.shape
    # What follows a special token begins a word, too: its own beginning may have been cut off.
    starts |= tf.pad(~hideable[:, :-1], [[0, 0], [1, 0]], constant_values=True)
    word = tf.cumsum(tf.cast(starts & hideable, tf.int32), axis=1)
    # No span goes beyond a special token: each of these raises the number of what follows.
    text = tf.cumsum(tf.cast(~hideable, tf.int32), axis=1)
    # Twice as many as are needed if each hides one token, as some are passed over.
    drawn = hideable & starts if unit == "word" else hideable
    draws = min(length, 2 * limit)
    anchors = tf.math.top_k(tf.where(drawn, scores, -1.0), draws).indices
    words_in_span = tf.ones([batch, draws], tf.int32)
    if unit == "span":
        draw = randomness.global_uniform([batch, draws], randomness.fold_in(seed, 1))
        words_in_span = _span_lengths(draw)

    def hide(hidden: tf.Tensor, proposal: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        anchor, words = (values[:, tf.newaxis] for values in proposal)
        first = tf.gather(word, anchor, batch_dims=1)
        within = (word >= first) & (word < first + words) & hideable
        within &= text == tf.gather(text, anchor, batch_dims=1)
        within &= tf.gather(drawn & ~hidden, anchor, batch_dims=1)
        new = within & ~hidden
        room = (count - _count(hidden))[:, tf.newaxis]
        place = tf.cumsum(tf.cast(new, tf.int32), axis=1)
        return hidden | (new & ((place[:, -1:] if unit == "word" else place) <= room))

    proposals = tf.transpose(anchors), tf.transpose(words_in_span)
    return tf.foldl(hide, proposals, initializer=tf.zeros([batch, length], tf.bool))


def _span_lengths(draw: tf.Tensor) -> tf.Tensor:
    """Words in a span (SpanBERT, section 3.1): uniform float32 [...] in [0, 1) -> int32 [...]."""
    share = (1 - SPAN_GEOMETRIC_P) ** np.arange(LONGEST_SPAN)
    ends = np.cumsum(share / share.sum()).astype(np.float32)[:-1]
    return 1 + tf.reduce_sum(tf.cast(draw[..., tf.newaxis] >= ends, tf.int32), axis=-1)
