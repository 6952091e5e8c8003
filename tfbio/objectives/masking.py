"""Dynamic masking: every step draws in the graph which tokens it masks.

`pretrainer.Pretrainer` calls it in training and in evaluation.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfbio.models import randomness, target
from tfbio.objectives.pretraining_config import PretrainingConfig

# How likely are 1, 2, 3 ... words in a row, up to a factor. SpanBERT (Joshi et al., 2020), section
# 3.1: a geometric distribution with p = 0.2, at most 10 words. ALBERT (Lan et al., 2020), section
# 4.1: 1 / n, at most 3 words, which is 6/11, 3/11 and 2/11.
_SHARES_OF_LENGTHS = {"span": (1 - 0.2) ** np.arange(10), "ngram": 1 / np.arange(1, 4)}


class MaskedBatch(NamedTuple):
    """A batch of pretraining examples after masking; B examples, L tokens, N masked at most.

    Attributes:
      input_ids: int32 [B, L], with [MASK] at (most of) the masked positions.
      positions: int32 [B, N], the masked positions; 0 where the weight is 0.
      ids: int32 [B, N], the tokens that stood there.
      weights: float32 [B, N], 1, or 0 where an example has fewer than N masked positions.
    """

    input_ids: tf.Tensor
    positions: tf.Tensor
    ids: tf.Tensor
    weights: tf.Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Masking:
    """The settings of masking, in pretraining, that are the same at every step.

    Attributes:
      mask_id: the [MASK] token.
      special_ids: tokens that are never masked, [CLS], [SEP] and [PAD] (BERT's
        create_pretraining_data.py; pretrain/pretrain_helpers.py of the original ELECTRA code).
      mask_token_prob: the share of the masked tokens that becomes [MASK]. ELECTRA: 0.85
        (pretrain/pretrain_helpers.py); BERT: 0.8 (Devlin et al., 2019, section 3.1).
      random_token_prob: the share that becomes any word of the vocabulary; the others stay as they
        are. ELECTRA: 0; BERT: 0.1 (the same places).
      vocab_size: V, the words of the vocabulary; for `random_token_prob`.
      unit: what is masked together: "token", "word" (a token with all that continue its word),
        "span" (some words in a row, the last of them in part) or "ngram" (one to three whole words
        in a row).
      begins_word: bool [V], True for the tokens that begin a word; for all units but "token".
      with_replacement: draw positions as the original ELECTRA code does (`mask` of
        pretrain/pretrain_helpers.py), which draws some twice and so masks fewer in all. Its paper
        (Clark et al., 2020, section 2) describes drawing without replacement.
    """

    mask_id: int
    special_ids: Sequence[int]
    mask_token_prob: float
    random_token_prob: float = 0.0
    vocab_size: int = 0
    unit: str = "token"
    begins_word: np.ndarray | None = None
    with_replacement: bool = False


def scheduled_prob(config: PretrainingConfig, step: tf.Tensor) -> tf.Tensor:
    """Computes the share of tokens that masking takes in a step of pretraining, which may grow.

    It grows from `mask_prob` to `final_mask_prob` in `mask_prob_stages` equal steps, each on an
    equal part of the run, as Gu et al. (2020, section 2.3) describe it of ALUM. Where
    `final_mask_prob` is 0, it is always `mask_prob`, as in their PubMedBERT (section 6.1).

    Args:
      config: all settings.
      step: int64 [], the steps done before.

    Returns:
      float32 [], in (0, 1].
    """
    first, last, stages = config.mask_prob, config.final_mask_prob, config.mask_prob_stages
    if not last:
        return tf.constant(first, tf.float32)
    stage = tf.cast(step, tf.int64) * stages // config.num_train_steps
    return first + (last - first) * tf.cast(stage, tf.float32) / (stages - 1)


def mask_tokens(
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    masking: Masking,
    *,
    limit: int,
    mask_prob: float | tf.Tensor,
    seed: tf.Tensor,
) -> MaskedBatch:
    """Masks a share of each pretraining example's tokens, and returns them beside the masked batch.

    The count is the original ELECTRA code's: round(tokens * mask_prob), at least 1, at most
    `limit`, which is less for some short examples (9 of 64 tokens at 0.15, and not 10); [CLS] and
    [SEP] are counted, padding is not. With the units "word" and "ngram" it is the most that is
    masked: as in BERT's and ALBERT's code, a word that is too long for what is left is passed over.
    Call it in a replica's context.

    Args:
      input_ids: int32 [B, L], of static shape.
      input_mask: int32 [B, L], 1 for tokens, 0 for padding.
      masking: the settings that are the same at every step.
      limit: N, the most tokens of an example that are masked, see
        `PretrainingConfig.max_predictions`.
      mask_prob: the share of the tokens that is masked, a float, or float32 [] where it changes
        with the step.
      seed: int32 [2], keys the draw. It covers the global batch, of which each replica takes its
        part, so the masks do not depend on the number of replicas.

    Returns:
      A `MaskedBatch`: `input_ids`, int32 [B, L], masked; the masked `positions` and the `ids` that
      stood there, int32 [B, N] each; and `weights`, float32 [B, N], 1, or 0 where an example has
      fewer than N masked positions.
    """
    position_seed, token_seed, word_seed = randomness.split(seed, 3)
    maskable = tf.cast(input_mask, tf.bool)
    for special in masking.special_ids:
        maskable &= input_ids != special
    tokens = tf.cast(tf.reduce_sum(input_mask, axis=1), tf.float32)
    count = tf.clip_by_value(tf.cast(tf.round(tokens * mask_prob), tf.int32), 1, limit)
    count = tf.minimum(count, _count(maskable))
    if masking.with_replacement:
        positions = _draw_with_replacement(maskable, limit, position_seed)
    else:
        scores = randomness.global_uniform(input_ids.shape, position_seed)
        if masking.unit != "token":
            starts = tf.gather(tf.constant(masking.begins_word), input_ids)
            masked = _mask_words(
                maskable, starts, scores, count, limit, masking.unit, position_seed
            )
            scores, count = tf.cast(masked, tf.float32), _count(masked)
        positions = tf.math.top_k(tf.where(maskable, scores, -1.0), limit).indices
    is_masked = tf.range(limit) < count[:, tf.newaxis]
    positions = tf.where(is_masked, positions, 0)

    draw = randomness.global_uniform(positions.shape, token_seed)
    if masking.unit == "span":
        draw = tf.gather(draw, _runs(positions), batch_dims=1)
    becomes_mask = is_masked & (draw < masking.mask_token_prob)
    changed = is_masked & (draw < masking.mask_token_prob + masking.random_token_prob)
    shown = tf.fill(positions.shape, masking.mask_id)
    if masking.random_token_prob:
        words = randomness.global_uniform(positions.shape, word_seed) * masking.vocab_size
        shown = tf.where(becomes_mask, shown, tf.cast(words, tf.int32))
    return MaskedBatch(
        input_ids=replace_tokens(input_ids, positions, shown, changed),
        positions=positions,
        ids=tf.gather(input_ids, positions, batch_dims=1),
        weights=tf.cast(is_masked, tf.float32),
    )


def _runs(positions: tf.Tensor) -> tf.Tensor:
    """Numbers the spans of masked positions, each of which has neighbours only.

    All tokens of a span are replaced in the same way (Joshi et al., 2020, section 3.1).

    Args:
      positions: int32 [B, N], ascending; those behind the masked ones are 0.

    Returns:
      int32 [B, N], the number of each position's span, from 0.
    """
    begins = tf.pad(positions[:, 1:] != positions[:, :-1] + 1, [[0, 0], [1, 0]])
    return tf.cumsum(tf.cast(begins, tf.int32), axis=1)


def replace_tokens(
    input_ids: tf.Tensor, positions: tf.Tensor, ids: tf.Tensor, changed: tf.Tensor
) -> tf.Tensor:
    """Writes other tokens, such as [MASK], at masked positions of a batch.

    Where a position occurs twice, the mean of its ids is written, rounded down, as the original
    ELECTRA code does (`scatter_update`): for [MASK] that is [MASK].

    Args:
      input_ids: int32 [B, L], the tokens before.
      positions: int32 [B, N], where to write.
      ids: int32 [B, N], the tokens to write.
      changed: bool [B, N], which of them are written.

    Returns:
      int32 [B, L], the tokens after.
    """
    if target.is_mesh():  # DTensor does not divide a scatter
        own = tf.expand_dims(positions, 2) == tf.range(input_ids.shape[1])
        own = tf.cast(own & tf.expand_dims(changed, 2), tf.int32)
        times = tf.reduce_sum(own, axis=1)
        sums = tf.reduce_sum(own * tf.expand_dims(ids, 2), axis=1)
    else:
        rows = tf.broadcast_to(tf.range(positions.shape[0])[:, tf.newaxis], positions.shape)
        places = tf.stack([rows, positions], axis=-1)
        times = tf.scatter_nd(places, tf.cast(changed, tf.int32), input_ids.shape)
        sums = tf.scatter_nd(places, tf.where(changed, ids, 0), input_ids.shape)
    return tf.where(times > 0, sums // tf.maximum(times, 1), input_ids)


def _count(marked: tf.Tensor) -> tf.Tensor:
    """Counts the True values of each row; bool [B, L] -> int32 [B]."""
    return tf.reduce_sum(tf.cast(marked, tf.int32), axis=1)


def _draw_with_replacement(maskable: tf.Tensor, limit: int, seed: tf.Tensor) -> tf.Tensor:
    """Draws positions of each row's maskable tokens, each from all of them.

    Args:
      maskable: bool [B, L].
      limit: N, how many are drawn.
      seed: int32 [2].

    Returns:
      int32 [B, N].
    """
    upto = tf.cumsum(tf.cast(maskable, tf.int32), axis=1)
    draw = randomness.global_uniform([maskable.shape[0], limit], seed)
    nth = 1 + tf.cast(draw * tf.cast(upto[:, -1:], tf.float32), tf.int32)
    return tf.searchsorted(upto, tf.minimum(nth, upto[:, -1:]), side="left")


def _mask_words(
    maskable: tf.Tensor,
    starts: tf.Tensor,
    scores: tf.Tensor,
    count: tf.Tensor,
    limit: int,
    unit: str,
    seed: tf.Tensor,
) -> tf.Tensor:
    """Masks one word, or some words in a row, after the other, until `count` tokens are masked.

    "word": words are drawn uniformly, and one that is too long for what is left is passed over
    (BERT's create_pretraining_data.py). "ngram": the same with one to three words from the drawn
    one on. They are as many of them as fit in what is left, and are passed over if one of them is
    masked already (ALBERT's create_pretraining_data.py, whose n-grams may go on after a [SEP], as
    these do not). "span": a span begins with the word of a token that is drawn from those not yet
    masked, and the last one is cut short (SpanBERT's code).

    Args:
      maskable: bool [B, L], True for the tokens that may be masked.
      starts: bool [B, L], True where a word begins.
      scores: float32 [B, L], random; the highest is drawn first.
      count: int32 [B].
      limit: the most that `count` can be.
      unit: "word", "span" or "ngram".
      seed: int32 [2], keys the numbers of words in a row.

    Returns:
      bool [B, L], True for the masked tokens.
    """
    batch, length = maskable.shape
    # The token after a special one begins a word, too: the word's beginning may have been cut off.
    starts |= tf.pad(~maskable[:, :-1], [[0, 0], [1, 0]], constant_values=True)
    word = tf.cumsum(tf.cast(starts & maskable, tf.int32), axis=1)
    # No span goes beyond a special token: each of these raises the number of what follows.
    text = tf.cumsum(tf.cast(~maskable, tf.int32), axis=1)
    # Twice as many as are needed if each masks one token, as some are passed over.
    drawn = maskable if unit == "span" else maskable & starts
    draws = min(length, 2 * limit)
    anchors = tf.math.top_k(tf.where(drawn, scores, -1.0), draws).indices
    words_in_a_row = tf.ones([batch, draws], tf.int32)
    if unit != "word":
        draw = randomness.global_uniform([batch, draws], randomness.fold_in(seed, 1))
        words_in_a_row = _lengths(draw, unit)

    def add(masked: tf.Tensor, proposal: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        anchor, words = (values[:, tf.newaxis] for values in proposal)
        first = tf.gather(word, anchor, batch_dims=1)
        within = (word >= first) & (word < first + words) & maskable
        within &= text == tf.gather(text, anchor, batch_dims=1)
        within &= tf.gather(drawn & ~masked, anchor, batch_dims=1)
        room = (count - _count(masked))[:, tf.newaxis]
        if unit == "span":
            new = within & ~masked
            return masked | (new & (tf.cumsum(tf.cast(new, tf.int32), axis=1) <= room))
        whole = _whole_words(within, word - first, room, unit)
        free = ~tf.reduce_any(whole & masked, axis=1, keepdims=True)
        return masked | (whole & free)

    proposals = tf.transpose(anchors), tf.transpose(words_in_a_row)
    return tf.foldl(add, proposals, initializer=tf.zeros([batch, length], tf.bool))


def _whole_words(within: tf.Tensor, nth: tf.Tensor, room: tf.Tensor, unit: str) -> tf.Tensor:
    """Keeps of some words in a row as many as there is room for, from the first one on.

    Args:
      within: bool [B, L], True for the tokens of these words.
      nth: int32 [B, L], the number of each token's word, 0 for the first of these.
      room: int32 [B, 1], the most tokens that are kept.
      unit: "word" or "ngram".

    Returns:
      bool [B, L], True for the tokens of the words that are kept.
    """
    longest = len(_SHARES_OF_LENGTHS[unit]) if unit == "ngram" else 1
    kept = tf.zeros_like(within)
    for n in range(1, longest + 1):
        words = within & (nth < n)
        kept |= words & (_count(words)[:, tf.newaxis] <= room)
    return kept


def _lengths(draw: tf.Tensor, unit: str) -> tf.Tensor:
    """Turns uniform numbers into numbers of words in a row; see `_SHARES_OF_LENGTHS`.

    Args:
      draw: float32 [...] in [0, 1).
      unit: "span" or "ngram".

    Returns:
      int32 [...].
    """
    share = _SHARES_OF_LENGTHS[unit]
    ends = np.cumsum(share / share.sum()).astype(np.float32)[:-1]
    return 1 + tf.reduce_sum(tf.cast(draw[..., tf.newaxis] >= ends, tf.int32), axis=-1)
