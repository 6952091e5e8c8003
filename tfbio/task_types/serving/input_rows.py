"""Joins tokens to the rows that an exported model reads, in the graph."""

from __future__ import annotations

from typing import cast

from tfbio.base.lazy import tensorflow as tf
from tfbio.text.fast_tokenizer import FastTokenizer
from tfbio.text.tokenization import Tokenizer


def rows(encode: Tokenizer | FastTokenizer, *parts: tf.RaggedTensor) -> dict[str, tf.Tensor]:
    """Joins tokens to the input rows of a served model, in the graph: each text or pair is a row.

    The special tokens are those of `tokenization.Tokenizer.join`, the padding is to the longest.

    Args:
      encode: the tokenizer, which knows the special tokens; for pairs a `Tokenizer`.
      parts: int32 ragged [batch, tokens], the texts; for pairs also the second texts.

    Returns:
      By name, as `packing.fill` makes them: int32 `input_ids`, `segment_ids`, `position_ids` and
      `document_ids` (the text's number from 1; 0 for padding), [batch, length] each, and `first`,
      int32 [batch], the place of each [CLS] when the rows are laid end to end.
    """
    count = tf.cast(parts[0].nrows(), tf.int32)

    def column(token: int) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_tensor(tf.fill([count, 1], token))

    sep = column(encode.sep_id)
    columns, has_segments = [column(encode.cls_id), parts[0], sep], False
    if len(parts) == 2:
        tokenizer = cast(Tokenizer, encode)
        columns += [sep] * (tokenizer.special_tokens(pair=True) - 3) + [parts[1], sep]
        has_segments = tokenizer.kind != "byte_bpe" and tokenizer.segments > 1
    ids = tf.concat(columns, axis=1)
    input_ids = ids.to_tensor(encode.pad_id)
    length = tf.shape(input_ids)[1]
    mask = tf.sequence_mask(ids.row_lengths(), length, tf.int32)
    place = tf.range(length)[tf.newaxis]
    in_second = place >= tf.cast(parts[0].row_lengths(), tf.int32)[:, tf.newaxis] + 2
    return {
        "input_ids": input_ids,
        "segment_ids": mask * tf.cast(in_second & has_segments, tf.int32),
        "position_ids": mask * place,
        "document_ids": mask * tf.range(1, count + 1)[:, tf.newaxis],
        "first": length * tf.range(count),
    }


def cut(tokens: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Cuts the tokens of a served model's texts, before `rows` joins them, to a length for each.

    Args:
      tokens: ragged [texts, tokens], of any dtype.
      lengths: int64 [texts], the most tokens of each, 0 or more.

    Returns:
      The first tokens of each text, ragged [texts, tokens] of the same dtype.
    """
    place = tf.ragged.range(tokens.row_lengths()).values
    kept = place < tf.gather(lengths, tokens.value_rowids())
    values = tf.boolean_mask(tokens.values, kept)
    return tf.RaggedTensor.from_row_lengths(values, tf.minimum(tokens.row_lengths(), lengths))
