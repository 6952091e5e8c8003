"""Tests of the loop over layers; `test_tpu_layers` has those of its numbers."""

import tensorflow as tf

from tfbio.models import layer_loop


def test_what_a_layer_keeps_is_known_before_it_runs():
    specs = layer_loop._kept_specs(
        lambda weights, hidden, bias, seeds, keep: keep(tf.matmul, hidden, weights[0]),
        lambda kernel: (kernel,),
        tf.zeros([6, 4]),
        tf.zeros([1, 1, 1, 6]),
        [tf.TensorSpec([4, 8])],
    )
    assert specs == [tf.TensorSpec([6, 8])]
