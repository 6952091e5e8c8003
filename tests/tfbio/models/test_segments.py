"""The largest value of each segment, in the form for a mesh, too."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models import target
from tfbio.models.segments import segment_max


@pytest.mark.parametrize("form", [contextlib.nullcontext, target.mesh])
@pytest.mark.parametrize("shape", [(7,), (7, 2)])
def test_each_segment_has_its_largest(form, shape):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    segments = np.array([2, 0, 2, -1, 0, 2, 4])
    with form():
        found = segment_max(tf.constant(values), tf.constant(segments, tf.int32), 5).numpy()
    for segment in range(5):
        own = values[segments == segment]
        expected = own.max(0) if len(own) else np.full(shape[1:], np.finfo(np.float32).min)
        np.testing.assert_array_equal(found[segment], expected)
