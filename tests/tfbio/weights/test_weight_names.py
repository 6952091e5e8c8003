"""Names of weights elsewhere, and layers that other programs write as two."""

import numpy as np
import pytest

from tfbio.models import task_model
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import HeadConfig
from tfbio.weights import weight_names


@pytest.mark.parametrize("outputs", [1, 3, 32])
def test_one_layer_is_the_same_as_two_with_gelu_between(outputs):
    import torch

    shape = EncoderConfig(9, 8, 64, 1, 4, 16, 8)
    model = task_model.TaskModel(shape, HeadConfig(outputs, False))
    rng = np.random.default_rng(0)
    model.head.bias.assign(rng.normal(0, 1, outputs))
    hidden = rng.normal(0, 3, [500, 64]).astype(np.float32)
    kernel, bias, last, shift = (value.numpy() for value, _ in weight_names.of_text_head(model))
    between = torch.nn.functional.gelu(torch.tensor(hidden @ kernel + bias)).numpy()
    expected = hidden @ model.head.kernel.numpy() + model.head.bias.numpy()
    assert kernel.shape == (64, 64) and last.shape == (64, outputs) and np.abs(expected).max() > 9
    np.testing.assert_allclose(between @ last + shift, expected, atol=1e-5)
