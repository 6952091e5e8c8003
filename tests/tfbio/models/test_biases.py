"""Tests of the addition of biases to rows."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port

from benchmarks import step_profile
from tfbio.models.biases import add_bias, sum_of_rows
from tfbio.training import cpu_bfloat16

ROWS, BIAS = (tf.random.stateless_normal(shape, [0, 1]) for shape in ([6, 4], [4]))


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_sum_and_gradients_are_those_of_an_addition(dtype, apart):
    rows, bias = tf.cast(ROWS, dtype), tf.cast(BIAS, dtype)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([rows, bias])
        found, expected = add_bias(rows, bias, apart), rows + bias
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    ours, plain = (tape.gradient(each, [rows, bias], rows) for each in (found, expected))
    for mine, other in zip(ours, plain, strict=True):
        assert mine.dtype == dtype
        np.testing.assert_allclose(*(tf.cast(x, tf.float32) for x in (mine, other)), rtol=1e-2)


def test_a_bias_apart_is_not_fused_into_its_product():
    """One that is not apart is, where TensorFlow computes with oneDNN."""
    if not _pywrap_util_port.IsMklEnabled() or cpu_bfloat16.cuts_off_products():
        pytest.skip("oneDNN multiplies no bfloat16 here")
    inputs, kernel = tf.ones([64, 64], tf.bfloat16), tf.ones([64, 64], tf.bfloat16)
    bias = tf.ones([64], tf.bfloat16)
    for apart in (False, True):
        layer = tf.function(lambda x, apart=apart: add_bias(tf.matmul(x, kernel), bias, apart))
        layer(inputs)
        names = [name for name, _ in step_profile.events(lambda: layer(inputs))]  # noqa: B023
        assert any(":_Mkl" in name for name in names)
        assert any("FusedMatMul" in name for name in names) != apart


def test_a_sum_of_many_bfloat16_rows_loses_none():
    """A sum that is kept in bfloat16 ends at 256 ones."""
    assert sum_of_rows(tf.ones([1024, 2], tf.bfloat16)).numpy().tolist() == [1024, 1024]
