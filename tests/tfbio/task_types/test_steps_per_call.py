"""Batches of several steps in one call."""

import numpy as np

from tests.tfbio.task_types.made_features import make_features
from tfbio.task_types import fixed_shapes, steps_per_call
from tfbio.task_types.fixed_shapes import Shape


def test_calls_have_one_shape_and_the_last_is_filled_with_zeros():
    features = make_features([5, 30, 17, 3, 12])
    packer = fixed_shapes.FixedShapePacker(features, [Shape(1, 32)], 1, 0, 1)
    batches = [packer.train_batch(np.array([number])) for number in range(5)]
    made = list(steps_per_call.calls(batches, [1, 3, 3, 3], 3))
    assert [len(call.batches) for call in made] == [1, 3, 1]
    for call, first in zip(made, (0, 1, 4), strict=True):
        ids = call.arrays["input_ids"]
        assert ids.shape == (3, 1, 1, 32) and not ids[len(call.batches) :].any()
        np.testing.assert_array_equal(ids[0], batches[first].arrays["input_ids"])
