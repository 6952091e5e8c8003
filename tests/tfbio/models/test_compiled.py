"""Tests of the loops that XLA makes of chains of operations."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests import forked
from tfbio.models import compiled, target


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float64])
def test_a_compiled_function_is_the_plain_one(dtype):
    def difference(one, other, factor):
        return factor * (tf.cast(one, tf.float32) - tf.cast(other, tf.float32)), one

    one, other = (tf.cast(tf.random.stateless_normal([3, 5], [0, i]), dtype) for i in range(2))
    found = compiled.compiled(difference)(one, other, 3.0)
    for mine, expected in zip(found, difference(one, other, 3.0), strict=True):
        np.testing.assert_array_equal(mine.numpy(), expected.numpy())


def test_it_is_compiled_on_one_cpu_device_alone(monkeypatch):
    assert compiled.is_for(tf.float32) and compiled.is_for(tf.bfloat16)
    assert not compiled.is_for(tf.float64)
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        assert not compiled.is_for(tf.float32)
    with target.mesh():
        assert not compiled.is_for(tf.float32)
    monkeypatch.setattr(compiled.sys, "platform", "darwin")
    assert not compiled.is_for(tf.float32)


def test_what_is_compiled_makes_one_pass_over_memory():
    """XLA has one loop of four operations."""

    @tf.function(jit_compile=True)
    def chain(one, other):
        return tf.exp(tf.square(one + other) * 0.5)

    values = tf.ones([64, 64])
    program = chain.experimental_get_compiler_ir(values, values)(stage="optimized_hlo")
    assert program.count(" fusion(") == 1


PROGRAM = """
import tensorflow as tf
from tfbio.models.activations import gelu
print(tf.function(lambda x: gelu(x, in_training=True))(tf.ones([2, 2])).shape)
"""


@pytest.mark.parametrize("level", ["3", "0"])
def test_a_compilation_is_told_only_where_logs_are_wanted(level, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = forked.run(
        [sys.executable, tmp_path / "program.py"],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": level},
    )
    assert done.stdout == "(2, 2)\n", done.stderr
    assert ("XLA" in done.stderr) == (level == "0"), done.stderr
