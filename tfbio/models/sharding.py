"""Says how a mesh of devices divides each weight of a model.

Megatron-LM's way (Shoeybi et al., 2019, section 3): of the first product of attention and of the
feed-forward network the columns, of the second the rows, so that one sum over the devices follows
each pair. Heads of attention are so divided, too. Of the token embeddings the rows are divided,
which are the words, and so are the scores of all words. All else is small, and whole on each
device.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tfbio.base.errors import UsageError
from tfbio.models.encoder_config import EncoderConfig

# The end of a weight's name, and which of its axes is divided. The kernel and bias of query, key
# and value have an axis for these three on a mesh, so that a part of each is whole heads.
_DIVIDED = (
    ("attention/query_key_value/kernel", 2),
    ("attention/query_key_value/bias", 1),
    ("attention/output/kernel", 0),
    ("intermediate/kernel", 1),
    ("intermediate/bias", 0),
    ("(?<!attention/)output/kernel", 0),
    ("word_embeddings", 0),
    ("generator_predictions/output_bias", 0),
)
_AXES = tuple((re.compile(f"(?:^|/){name}$"), axis) for name, axis in _DIVIDED)
_THREE = re.compile(r"(?:^|/)attention/query_key_value/(kernel|bias)$")


def divided_axis(name: str) -> int | None:
    """Returns the axis of a weight that a mesh divides over its devices; None for none.

    Args:
      name: the name of the weight, or of an average that an optimizer keeps of it without the
        average's own name, such as "layer_0/intermediate/kernel".
    """
    return next((axis for pattern, axis in _AXES if pattern.search(name)), None)


def check(encoder: EncoderConfig, parts: int, prefix: str = "encoder.") -> None:
    """Checks that an encoder can be divided into so many parts, and returns nothing.

    The vocabulary need not divide: see `padded_words`.

    Args:
      encoder: the shape of the encoder.
      parts: the devices that share a model.
      prefix: how the names of the encoder's settings begin, "encoder." or "generator_".

    Raises:
      UsageError: its heads or its feed-forward units do not divide by them.
    """
    for setting in ("num_attention_heads", "intermediate_size"):
        number = getattr(encoder, setting)
        if number % parts:
            raise UsageError(
                f"{prefix}{setting} {number} does not divide by the {parts} devices of --mesh that "
                f"share a model: give DATAx{math.gcd(number, parts)}, or another divisor of "
                f"{number}."
            )


def padded_words(vocab_size: int, parts: int) -> int:
    """Returns the rows of the token embeddings on a mesh: as many on each of its devices.

    The rows beyond the vocabulary are no words: `padding` says what is in them.

    Args:
      vocab_size: the number of words.
      parts: the devices that share a model.
    """
    return math.ceil(vocab_size / parts) * parts


def padding(name: str) -> float:
    """Returns what a mesh has for words that there are not: a score that gives the probability 0.

    Args:
      name: the name of a weight whose rows are words, or of an average that an optimizer keeps.
    """
    return -1e9 if name.endswith("output_bias:0") else 0.0


def shape_on_mesh(name: str, shape: Sequence[int]) -> list[int]:
    """Returns the shape that a weight has on a mesh; its numbers are in the same order.

    Args:
      name: see `divided_axis`.
      shape: the shape that it has elsewhere.
    """
    if _THREE.search(name):
        return [*shape[:-1], 3, shape[-1] // 3]
    return list(shape)
