"""Counts an encoder's parameters and FLOPs from its settings alone.

TensorFlow is not imported here, as that alone takes longer than the answer.

FLOPs are those of a step's matrix products, a multiplication with its addition as two. The backward
pass counts as twice the forward one, for each product has two gradients. Words are scored at the
masked positions only, padding counts like other tokens, and look-ups and element-wise operations
count as nothing. A test holds the count equal to PyTorch's for Hugging Face's ELECTRA.
"""

from __future__ import annotations

import dataclasses

from tfbio.models.encoder_config import EncoderConfig


def encoder_parameters(shape: EncoderConfig) -> int:
    """Returns the number of parameters of embeddings, projection and layers."""
    return embedding_parameters(shape) + body_parameters(shape)


def layer_parameters(shape: EncoderConfig) -> int:
    """Returns the number of parameters of all layers and the projection.

    Layers that share their weights count as if each had its own.
    """
    return body_parameters(dataclasses.replace(shape, share_layers=False))


def encoder_flops(shape: EncoderConfig, length: int) -> int:
    """Returns the number of FLOPs of an encoder's forward pass on one example.

    Attention has two products: the scores, and the sums that they weight.

    Args:
      shape: the settings of the encoder.
      length: tokens of the example.
    """
    attention = 2 * 2 * length * length * shape.hidden_size
    layer = product_flops(_layer(shape), length) + attention
    return product_flops(_projection(shape), length) + shape.num_hidden_layers * layer


def _projection(shape: EncoderConfig) -> list[tuple[int, int]]:
    sizes = shape.embedding_size, shape.hidden_size
    return [sizes] if shape.has_projection else []


def _layer(shape: EncoderConfig) -> list[tuple[int, int]]:
    size = shape.hidden_size
    return [
        (size, 3 * size),
        (size, size),
        (size, shape.intermediate_size),
        (shape.intermediate_size, size),
    ]


def product_flops(dense: list[tuple[int, int]], rows: float) -> float:
    """Returns the number of FLOPs of dense layers on so many rows.

    Args:
      dense: (inputs, outputs) of each layer.
      rows: vectors that each layer multiplies.
    """
    return sum(2 * rows * inputs * outputs for inputs, outputs in dense)


def word_flops(shape: EncoderConfig, positions: float) -> float:
    """Returns the number of FLOPs of the forward pass that scores all words at some positions.

    Args:
      shape: the settings of the encoder.
      positions: the number of positions.
    """
    dense = [(shape.hidden_size, shape.embedding_size), (shape.embedding_size, shape.vocab_size)]
    return product_flops(dense, positions)


def embedding_parameters(shape: EncoderConfig) -> int:
    """Returns the number of parameters of the embeddings.

    Their LayerNorm has two for each dimension.
    """
    rows = shape.vocab_size + shape.max_position_embeddings + shape.type_vocab_size
    return (rows + 2) * shape.embedding_size


def body_parameters(shape: EncoderConfig) -> int:
    """Returns the number of parameters of an encoder without its embeddings.

    Layers that share their weights count once.
    """
    layer = sum((inputs + 1) * outputs for inputs, outputs in _layer(shape))
    projection = sum((inputs + 1) * outputs for inputs, outputs in _projection(shape))
    norms = 2 * 2 * shape.hidden_size
    layers = 1 if shape.share_layers else shape.num_hidden_layers
    return projection + layers * (layer + norms)


def word_head_parameters(shape: EncoderConfig) -> int:
    """Returns the number of parameters of the head that scores words.

    Its output weights are the embeddings and do not count.
    """
    return (shape.hidden_size + 1 + 2) * shape.embedding_size + shape.vocab_size
