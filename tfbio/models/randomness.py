"""Draws random numbers that depend on a seed alone, and are the same on every device.

All come from integers that are drawn over their full range by Philox (Salmon et al., 2011), which
is named outright: these agree between TensorFlow's kernels and XLA's. Floating point draws do not
agree, nor do draws by the algorithm that TensorFlow selects, for a seed with a negative number
(tested).
"""

import math
from collections.abc import Callable

import tensorflow as tf

from tfbio.models import target

_ALGORITHM = "philox"
_PHILOX = tf.random.Algorithm.PHILOX.value  # its number, for TensorFlow's raw operations


def split(seed: tf.Tensor, count: int) -> list[tf.Tensor]:
    """Splits a random seed into independent seeds.

    Args:
      seed: int32 [2].
      count: the number of seeds.

    Returns:
      A list of `count` seeds, int32 [2] each.
    """
    return tf.unstack(tf.random.split(seed, count, alg=_ALGORITHM))


def fold_in(seed: tf.Tensor | list[int], number: tf.Tensor) -> tf.Tensor:
    """Derives the random seed for a number, such as that of a step or a replica, from another seed.

    Args:
      seed: int32 [2].
      number: any integer dtype, [].

    Returns:
      int32 [2].
    """
    return tf.random.fold_in(seed, tf.cast(number, tf.int32), alg=_ALGORITHM)


def uniform(shape: list[int], seed: tf.Tensor) -> tf.Tensor:
    """Draws uniform random numbers of 24 bits each, the same on every device.

    Args:
      shape: the shape of the result, a list of ints.
      seed: int32 [2].

    Returns:
      float32 `shape`, in [0, 1).
    """
    return _of_24_bits(_bits(shape, seed))


def global_uniform(
    shape: list[int], seed: tf.Tensor, part: tf.Tensor | int = 0, parts: int = 1
) -> tf.Tensor:
    """Draws uniform random numbers: this replica's rows of one draw for the global batch.

    So the numbers for an example do not depend on the number of replicas, nor on the number of
    parts that a replica's examples are divided into. Call it in a replica's context.

    Args:
      shape: the shape of the result, a list of ints.
      seed: int32 [2].
      part: int32 [], the number, from 0, of the part of the replica's examples that the rows belong
        to.
      parts: the number of parts that a replica has.

    Returns:
      float32 `shape`, in [0, 1).
    """
    replica = tf.distribute.get_replica_context()
    count = replica.num_replicas_in_sync * parts
    draw = uniform([shape[0] * count, *shape[1:]], seed)
    if count == 1:
        return draw
    if target.is_mesh():  # where a part has every n-th row
        return tf.gather(tf.reshape(draw, [shape[0], parts, *shape[1:]]), part, axis=1)
    first = (replica.replica_id_in_sync_group * parts + part) * shape[0]
    return tf.slice(draw, [first] + [0] * (len(shape) - 1), shape)


def global_normal(
    shape: list[int], seed: tf.Tensor, part: tf.Tensor | int = 0, parts: int = 1
) -> tf.Tensor:
    """Draws standard normal random numbers: this replica's rows of one draw for the global batch.

    So the numbers for an example do not depend on the number of replicas or parts, as those of
    `global_uniform`. Here the integers are hashes of an element's index in the global batch: a
    replica makes those of its rows only, for a draw of embeddings may be too large to make the
    global batch's. The method is that of Box and Muller (1958). Its logarithm and cosine
    may round otherwise in an array of another size, or under XLA, so that these numbers are the
    same to rounding. A step that is run again gives the same bits. Call it in a replica's context.

    Args:
      shape: the shape of the result, a list of ints.
      seed: int32 [2].
      part: int32 [], the number, from 0, of the part of the replica's examples that the rows belong
        to.
      parts: the number of parts that a replica has.

    Returns:
      float32 `shape`, within 5.8 of 0.
    """
    replica = tf.distribute.get_replica_context()
    several = replica.num_replicas_in_sync > 1
    number = replica.replica_id_in_sync_group if several else 0
    size = math.prod(shape[1:]) % 2**32
    # On a mesh a part has every n-th row.
    first_row, apart = (number * parts + part) * shape[0], size
    if target.is_mesh():
        first_row, apart = part, parts * size
    offset = tf.cast(first_row, tf.uint32) * tf.constant(size, tf.uint32)

    def draw(seed: tf.Tensor) -> tf.Tensor:
        first, second = tf.unstack(tf.bitcast(seed, tf.uint32))
        bits = hashed_bits(tf.TensorShape(shape), first + offset, second, apart=apart)
        return _of_24_bits(bits)

    radii, angles = (draw(own) for own in split(seed, 2))
    # 1 - u is in (0, 1], and so has a logarithm.
    return tf.sqrt(-2.0 * tf.math.log(1.0 - radii)) * tf.cos(2.0 * math.pi * angles)


def dropout(inputs: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Zeroes a share of the inputs and scales the others up (Srivastava et al., 2014).

    On CPUs and GPUs the share is that of `dropout_mask`. On a TPU and a mesh it is `rate`, rounded
    to a multiple of 2^-16. Replicas draw different masks.

    Args:
      inputs: any static shape, any float dtype.
      rate: in [0, 1).
      seed: int32 [2]; None for no dropout.

    Returns:
      A tensor of the shape and dtype of `inputs`.
    """
    if target.is_mesh() or target.is_tpu():
        dropped = round(rate * 2**16)
        if seed is None or dropped == 0:
            return inputs
        replica = 0 if target.is_mesh() else _replica()
        return _hashed_dropout(inputs, dropped, seed, 0 if replica is None else replica)
    mask, scale = dropout_mask(inputs.shape, inputs.dtype, rate, seed)
    return inputs if mask is None else inputs * (mask * scale)


def dropout_mask(
    shape: tf.TensorShape, dtype: tf.DType, rate: float, seed: tf.Tensor | None
) -> tuple[tf.Tensor | None, float]:
    """Draws which elements dropout keeps, on CPUs and GPUs, and computes the scale of those.

    Args:
      shape, dtype, rate, seed: see `dropout_draws`.

    Returns:
      A pair of the mask, `dtype` `shape`, 1 for the elements that are kept and 0 for the others, or
      None if all are; and the scale of the kept ones, a float, 1 / (1 - share).
    """
    draws, least, scale = dropout_draws(shape, dtype, rate, seed)
    if draws is None:
        return None, 1.0
    return tf.cast(draws >= tf.constant(least, draws.dtype), dtype), scale


def dropout_draws(
    shape: tf.TensorShape, dtype: tf.DType, rate: float, seed: tf.Tensor | None
) -> tuple[tf.Tensor | None, int, float]:
    """Draws the numbers that decide which elements dropout keeps, on CPUs and GPUs.

    8 random bits decide on an element, for the draws take more time than the rest of a dropout: the
    share that is dropped is a multiple of 1/256, which is 26/256 = 0.1016 for a rate of 0.1, and
    the scale is that of this share. Where no multiple is within 2 % of the rate, as for 0.01, and
    in float64, in which rounding is judged, 16 bits decide.

    Args:
      shape: the shape of the elements, static.
      dtype: the dtype of the elements, any float dtype.
      rate: in [0, 1).
      seed: int32 [2]; None for no dropout.

    Returns:
      Three values. The draws, uint8 or uint16 `shape`, or None if all elements are kept; the least
      draw of an element that is kept, an int; the scale of the kept ones, a float, 1 / (1 - share).
    """
    bits, share = tf.uint8, round(rate * 2**8) * 2.0**-8
    if dtype == tf.float64 or abs(share - rate) > 0.02 * rate or share == 1:
        bits = tf.uint16
    values = 2 ** (8 * bits.size)
    dropped = round(rate * values)
    if seed is None or dropped == 0:
        return None, 0, 1.0
    replica = _replica()
    if replica is not None:
        seed = fold_in(seed, replica)
    size = shape.num_elements()
    draws = _bits([math.ceil(size * bits.size / 4)], seed)
    draws = tf.bitcast(draws, bits)
    if size * bits.size % 4:
        draws = tf.reshape(draws, [-1])[:size]
    return tf.reshape(draws, shape), dropped, 1.0 / (1.0 - dropped / values)


def _replica() -> tf.Tensor | None:
    """Returns the number of the replica whose context it is, int32 []; None if it is the only one.

    None, too, outside of a replica's context.
    """
    replica = tf.distribute.get_replica_context()
    several = replica is not None and replica.num_replicas_in_sync > 1
    return replica.replica_id_in_sync_group if several else None


def _of_24_bits(bits: tf.Tensor) -> tf.Tensor:
    """Turns uint32 numbers into float32 numbers in [0, 1), by their higher 24 bits."""
    return tf.cast(tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32)), tf.float32) * 2.0**-24


def _bits(shape: list[int], seed: tf.Tensor) -> tf.Tensor:
    """Draws uint32 numbers of this shape over their full range, by a seed, int32 [2].

    They are those of `tf.random.stateless_uniform`, which makes 46 operations of a draw. An encoder
    of 12 layers draws 37 times, and TensorFlow's time to trace and to optimize a step grows with
    its operations. Here it takes 13.
    """
    if target.is_tpu() or target.is_mesh():
        return tf.random.stateless_uniform(
            shape, seed, minval=None, maxval=None, dtype=tf.uint32, alg=_ALGORITHM
        )
    # Two draws of 64 bits with a fixed key make the key and the counter (`_philox_scramble_seed` of
    # tensorflow/python/ops/random_ops_util.py, which puts them together of four draws of 32).
    scrambled = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[2],
        key=tf.constant([0x02461E293EC8F720], tf.uint64),
        counter=tf.cast(seed, tf.uint64),
        dtype=tf.uint64,
        alg=_PHILOX,
    )
    key, last = tf.raw_ops.Split(axis=0, value=scrambled, num_split=2)
    counter = tf.concat([tf.constant([0], tf.uint64), last], axis=0)
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=key, counter=counter, dtype=tf.uint32, alg=_PHILOX
    )


def _hashed_dropout(
    inputs: tf.Tensor, dropped: int, seed: tf.Tensor, replica: tf.Tensor | int
) -> tf.Tensor:
    """Computes `dropout` for a TPU, where memory is what takes time, and for a mesh of devices.

    The bits are a hash of the element's index, a few operations that XLA makes part of those that
    read the result. So they are never stored, and the backward pass computes them again. On a mesh
    each device hashes the indices of its own elements.
    """
    scale = 1.0 / (1.0 - dropped * 2.0**-16)
    first, second = tf.unstack(tf.bitcast(seed, tf.uint32))
    second += tf.cast(replica, tf.uint32) * tf.constant(0x9E3779B9, tf.uint32)

    def scaled(values: tf.Tensor, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        bits = hashed_bits(values.shape, first, second, _zeros_like(values))
        keep = bits >= tf.constant(dropped * 2**16, tf.uint32)
        return tf.where(keep, values * tf.cast(scale, values.dtype), tf.zeros([], values.dtype))

    @tf.custom_gradient
    def drop(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return scaled(values, first, second), lambda upstream: scaled(upstream, first, second)

    return drop(inputs)


def _zeros_like(values: tf.Tensor) -> tf.Tensor | None:
    """Returns zeros that a mesh divides as it does the values; None elsewhere."""
    return tf.zeros_like(values, tf.uint32) if target.is_mesh() else None


def hashed_bits(
    shape: tf.TensorShape,
    first: tf.Tensor,
    second: tf.Tensor,
    zeros: tf.Tensor | None = None,
    apart: int | None = None,
) -> tf.Tensor:
    """Makes 32 random bits for each element of an array, by hashing its index with a key.

    A dropout on a TPU and `global_normal` draw so: the bits need not be stored.

    Args:
      shape: the shape of the elements, static.
      first, second: uint32 [], the key.
      zeros: uint32 `shape`, zeros that are divided over devices as the result is to be; None: the
        result is not divided.
      apart: the difference of the indices of two rows that follow each other; None: the numbers of
        a row.

    Returns:
      uint32 `shape`.
    """
    index, stride = tf.fill([1] * len(shape), first) if zeros is None else zeros + first, 1
    for axis in reversed(range(len(shape))):
        if axis == 0 and apart is not None:
            stride = apart
        own = tf.cast(tf.range(shape[axis]), tf.uint32) * tf.constant(stride % 2**32, tf.uint32)
        index += tf.reshape(own, [-1] + [1] * (len(shape) - 1 - axis))
        stride *= shape[axis]
    return _mix(tf.bitwise.bitwise_xor(_mix(index), second))


def _mix(bits: tf.Tensor) -> tf.Tensor:
    """Permutes uint32 numbers with the finalizer of MurmurHash3 (Appleby, fmix32)."""
    right, xor = tf.bitwise.right_shift, tf.bitwise.bitwise_xor
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = xor(bits, right(bits, tf.constant(shift, tf.uint32)))
        bits *= tf.constant(factor, tf.uint32)
    return xor(bits, right(bits, tf.constant(16, tf.uint32)))
