"""Counts an encoder's parameters and FLOPs from its settings alone.

TensorFlow is not imported here, as that alone takes longer than the answer.

FLOPs are those of a step's matrix products, a multiplication with its addition as two. The backward
pass counts as twice the forward one, for each product has two gradients. Words are scored at the
masked positions only, padding counts like other tokens, and look-ups and element-wise operations
count as nothing. The last layer counts whole, though CPUs and GPUs leave out of it what is not read
(see `target.leaves_rows_out`). A test holds the count equal to PyTorch's for Hugging Face's
ELECTRA.
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from tfbio.models.encoder_config import EncoderConfig

# An int gives an int, a float, such as a mean number of positions, a float.
_Number = TypeVar("_Number", int, float)


def encoder_parameters(shape: EncoderConfig) -> int:
    """Counts an encoder's parameters, of embeddings, projection and layers; returns an int."""
    return embedding_parameters(shape) + body_parameters(shape)


def layer_parameters(shape: EncoderConfig) -> int:
    """Counts the parameters of an encoder's layers and projection; returns an int.

    Layers that share their weights count as if each had its own.
    """
    return body_parameters(dataclasses.replace(shape, share_layers=False))


def encoder_flops(shape: EncoderConfig, length: int) -> int:
    """Counts the FLOPs of an encoder's forward pass on one example.

    Attention has two products: the scores, and the sums that they weight.

    Args:
      shape: the settings of the encoder.
      length: the length of the example in tokens.

    Returns:
      The FLOPs of all matrix products, an int.
    """
    layers = shape.num_hidden_layers * product_flops(_layer(shape), length)
    return product_flops(_projection(shape), length) + layers + attention_flops(shape, length)


def attention_flops(shape: EncoderConfig, length: int) -> int:
    """Counts the FLOPs of attention's two products in an encoder's forward pass on one example.

    They are a part of `encoder_flops`. Neither product has weights: both have two gradients even
    where no weight learns.

    Args:
      shape: the settings of the encoder.
      length: the length of the example in tokens.

    Returns:
      The FLOPs over all layers, an int.
    """
    return shape.num_hidden_layers * 2 * 2 * length * length * shape.hidden_size


def first_product_flops(shape: EncoderConfig, length: int) -> int:
    """Counts the FLOPs of the first product on the embeddings in an encoder's forward pass.

    That is the projection, or the first layer's queries, keys and values. So many FLOPs has the
    gradient of the embeddings, which adversarial pretraining leaves out.

    Args:
      shape: the settings of the encoder.
      length: the length of the example in tokens.

    Returns:
      The FLOPs on one example, an int.
    """
    return product_flops([*_projection(shape), *_layer(shape)][:1], length)


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


def product_flops(dense: list[tuple[int, int]], rows: _Number) -> _Number:
    """Counts the FLOPs of dense layers of an encoder or a head, in a forward pass.

    They are 2 for each weight of a matrix and each row.

    Args:
      dense: (inputs, outputs) of each layer, the sizes of its matrix.
      rows: the number of vectors that each layer multiplies.

    Returns:
      The FLOPs of all layers together, an int or a float, as `rows` is.
    """
    return sum(2 * rows * inputs * outputs for inputs, outputs in dense)


def word_flops(shape: EncoderConfig, positions: _Number) -> _Number:
    """Counts, from an encoder's settings, the FLOPs of scoring all words at some positions.

    The forward pass alone, without the encoder's: a dense layer from hidden_size to embedding_size,
    and the product with the embeddings of all tokens. `objective_cost` adds them to an objective's.

    Args:
      shape: the settings of the encoder.
      positions: the number of positions.

    Returns:
      The FLOPs, an int or a float, as `positions` is.
    """
    dense = [(shape.hidden_size, shape.embedding_size), (shape.embedding_size, shape.vocab_size)]
    return product_flops(dense, positions)


def embedding_parameters(shape: EncoderConfig) -> int:
    """Counts the parameters of an encoder's embeddings; returns an int.

    Their LayerNorm, if they have one, has two for each dimension.
    """
    rows = shape.vocab_size + shape.max_position_embeddings + shape.type_vocab_size
    norm = 0 if shape.layer_norm_first else 2
    return (rows + norm) * shape.embedding_size


def body_parameters(shape: EncoderConfig) -> int:
    """Counts the parameters of an encoder without its embeddings; returns an int.

    They are those of the layers, of the projection, and of the LayerNorm after the last layer, if
    there is one. Layers that share their weights count once.
    """
    layer = sum((inputs + 1) * outputs for inputs, outputs in _layer(shape))
    projection = sum((inputs + 1) * outputs for inputs, outputs in _projection(shape))
    norms = 2 * 2 * shape.hidden_size
    layers = 1 if shape.share_layers else shape.num_hidden_layers
    final_norm = 2 * shape.hidden_size if shape.layer_norm_first else 0
    return projection + layers * (layer + norms) + final_norm


def word_head_parameters(shape: EncoderConfig) -> int:
    """Counts, from an encoder's settings, the parameters of a head that scores words.

    Returns an int. The head's output weights are the encoder's embeddings and do not count.
    `objective_cost` adds the result to an objective's parameters.
    """
    return (shape.hidden_size + 1 + 2) * shape.embedding_size + shape.vocab_size
