"""Counts the numbers of weights that each device of a mesh has, as `models.sharding` divides them.

Only masked language models are counted. A mesh pretrains ELECTRA, too (`objectives.mesh_limits`),
for which there is no estimate yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UsageError
from tfbio.models import sharding
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig


class Weight(NamedTuple):
    """A weight of a model, or several of one name and shape.

    Attributes:
      name: the end of its name, such as "intermediate/kernel".
      shape: its shape, undivided, without the rows that a mesh adds to the vocabulary.
      number: the number of such weights.
    """

    name: str
    shape: tuple[int, ...]
    number: int = 1


class Numbers(NamedTuple):
    """The numbers of float32 that each device of a mesh has of a model.

    Attributes:
      parameters: numbers of the weights that are learnt.
      slots: numbers of the averages that Adam keeps of them.
    """

    parameters: int
    slots: int


def weights(config: PretrainingConfig) -> list[Weight]:
    """Lists the weights that a masked language model learns, without making one.

    Args:
      config: all settings; the objective is "mlm".

    Returns:
      A list of `Weight`; the names and shapes are those of the model's variables.

    Raises:
      UsageError: the objective is another one.
    """
    if config.objective != "mlm":
        raise UsageError(
            "--dry_run with --mesh estimates masked language models only (objective=mlm): "
            f"a run with objective={config.objective} works on the mesh, but has no estimate."
        )
    shape = config.encoder
    found = [*_embeddings(shape), *_layers(shape), *_head(shape)]
    if config.sentence_pair_loss:
        size = shape.hidden_size
        found += [*_dense("pooler", size, size), *_dense("classifier", size, 2)]
    return found


def _embeddings(shape: EncoderConfig) -> Iterator[Weight]:
    size = shape.embedding_size
    yield Weight("word_embeddings", (shape.vocab_size, size))
    yield Weight("position_embeddings", (shape.max_position_embeddings, size))
    yield Weight("token_type_embeddings", (shape.type_vocab_size, size))
    if not shape.layer_norm_first:
        yield from _layer_norm("LayerNorm", size)
    if shape.has_projection:
        yield from _dense("embeddings_project", size, shape.hidden_size)


def _layers(shape: EncoderConfig) -> Iterator[Weight]:
    size, count = shape.hidden_size, 1 if shape.share_layers else shape.num_hidden_layers
    yield from _dense("attention/query_key_value", size, 3 * size, count)
    yield from _dense("attention/output", size, size, count)
    yield from _layer_norm("attention/output/LayerNorm", size, count)
    yield from _dense("intermediate", size, shape.intermediate_size, count)
    yield from _dense("output", shape.intermediate_size, size, count)
    yield from _layer_norm("output/LayerNorm", size, count)
    if shape.layer_norm_first:
        yield from _layer_norm("final/LayerNorm", size)


def _head(shape: EncoderConfig) -> Iterator[Weight]:
    yield from _dense("generator_predictions/dense", shape.hidden_size, shape.embedding_size)
    yield from _layer_norm("generator_predictions/LayerNorm", shape.embedding_size)
    yield Weight("generator_predictions/output_bias", (shape.vocab_size,))


def _dense(name: str, inputs: int, outputs: int, count: int = 1) -> Iterator[Weight]:
    yield Weight(f"{name}/kernel", (inputs, outputs), count)
    yield Weight(f"{name}/bias", (outputs,), count)


def _layer_norm(name: str, size: int, count: int = 1) -> Iterator[Weight]:
    yield from (Weight(f"{name}/{each}", (size,), count) for each in ("gamma", "beta"))


def numbers(config: PretrainingConfig, mesh: MeshShape) -> Numbers:
    """Counts the numbers of a masked language model that each device of a mesh has.

    A weight whose axis `sharding.divided_axis` names is divided over the devices that share a
    model; others are whole on each. Adam's averages are divided as their weights, and over the
    parts of the examples besides, along the first axis that is whole and divides by them (ZeRO's
    first stage: Rajbhandari et al., 2020, section 5.1). The rows of the vocabulary are padded to a
    multiple of the devices.

    Args:
      config: all settings; the objective is "mlm".
      mesh: the shape of the mesh, which divides the encoder's heads and feed-forward units.

    Returns:
      A named tuple of ints: `parameters`, numbers of weights; `slots`, numbers of averages.

    Raises:
      UsageError: the objective is another one.
    """
    parameters = slots = 0
    for weight in weights(config):
        own, average = _numbers_of(weight, mesh)
        parameters += weight.number * own
        slots += weight.number * 2 * average
    return Numbers(parameters, slots)


def _numbers_of(weight: Weight, mesh: MeshShape) -> tuple[int, int]:
    """Returns the numbers of one weight on a device, and those of one average of it."""
    shape = sharding.shape_on_mesh(weight.name, weight.shape)
    axis = sharding.divided_axis(weight.name)
    if axis is not None:
        shape[axis] = math.ceil(shape[axis] / mesh.model)
    own = math.prod(shape)
    return own, own // _parts_of_average(shape, axis, mesh.data)


def _parts_of_average(shape: Sequence[int], divided: int | None, data: int) -> int:
    """Returns the parts into which an average is divided over the parts of the examples."""
    whole = (size for axis, size in enumerate(shape) if axis != divided)
    return data if any(size % data == 0 for size in whole) else 1
