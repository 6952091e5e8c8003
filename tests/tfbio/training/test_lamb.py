"""LAMB against its paper's formulas, written out in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio.training.gradients import apply_clipped
from tfbio.training.lamb import Lamb
from tfbio.training.optimization import WarmupLinearDecay

SHAPES = {"dense/kernel": [4, 3], "dense/bias": [3], "LayerNorm/gamma": [3]}
FUSED = "layer_0/attention/query_key_value/kernel"


@pytest.fixture
def variables():
    random = np.random.default_rng(0)
    return [
        tf.Variable(random.normal(size=shape).astype(np.float32), name=name)
        for name, shape in SHAPES.items()
    ]


@pytest.mark.parametrize("decay_all", [False, True])
@pytest.mark.parametrize("correction", [True, False], ids=["paper", "albert"])
def test_updates_are_those_of_the_paper_and_of_albert(variables, correction, decay_all):
    """You et al. (2020), algorithm 2, with phi(z) = z; float64.

    ALBERT's lamb_optimizer.py, LAMBOptimizer, is the same without the division of m and v.
    """
    random = np.random.default_rng(1)
    rate, decay, epsilon = WarmupLinearDecay(0.02, 20, 4), 0.1, 1e-3
    optimizer = Lamb(
        rate,
        betas=(0.8, 0.9),
        epsilon=epsilon,
        weight_decay_rate=decay,
        bias_correction=correction,
        decay_all=decay_all,
    )
    expected = [variable.numpy().astype(np.float64) for variable in variables]
    m = [np.zeros_like(value) for value in expected]
    v = [np.zeros_like(value) for value in expected]
    for t in range(1, 11):
        gradients = [random.normal(size=value.shape).astype(np.float32) for value in expected]
        apply_clipped(optimizer, [tf.constant(g) for g in gradients], variables, max_norm=1e9)
        eta = 0.02 * (1 - t / 20) * min(1, t / 4)
        for i, g in enumerate(gradients):
            m[i] = 0.8 * m[i] + 0.2 * g
            v[i] = 0.9 * v[i] + 0.1 * np.square(g, dtype=np.float64)
            of_m, of_v = (1 - 0.8**t, 1 - 0.9**t) if correction else (1.0, 1.0)
            r = m[i] / of_m / (np.sqrt(v[i] / of_v) + epsilon)
            ratio = 1.0
            if i == 0 or decay_all:  # else biases and LayerNorms do not decay
                r = r + decay * expected[i]
            if i == 0:  # biases and LayerNorms are not scaled
                ratio = np.sqrt((expected[i] ** 2).sum()) / np.sqrt((r**2).sum())
            expected[i] = expected[i] - eta * ratio * r
        for variable, value in zip(variables, expected, strict=True):
            np.testing.assert_allclose(variable, value, rtol=1e-5, atol=1e-6)


def test_query_key_and_value_are_scaled_each_for_itself():
    """As ALBERT's code scales them, whose variables are three."""
    random = np.random.default_rng(0)
    three = [random.normal(scale=scale, size=[4, 4]) for scale in (0.01, 1.0, 0.0)]
    three = [value.astype(np.float32) for value in three]
    fused = tf.Variable(np.concatenate(three, axis=1), name=FUSED)
    alone = [tf.Variable(value, name=f"{part}/kernel") for part, value in enumerate(three)]
    optimizers = [Lamb(0.1, weight_decay_rate=0.01) for _ in range(2)]
    for _ in range(3):
        gradients = [random.normal(size=[4, 4]).astype(np.float32) for _ in three]
        apply_clipped(optimizers[0], [tf.concat(gradients, axis=1)], [fused], max_norm=1e9)
        apply_clipped(optimizers[1], [tf.constant(g) for g in gradients], alone, max_norm=1e9)
        expected = np.concatenate([variable.numpy() for variable in alone], axis=1)
        np.testing.assert_allclose(fused, expected, rtol=1e-6, atol=1e-9)
    assert np.abs(expected[:, :4]).max() < 0.1 < np.abs(expected[:, 4:8]).max()
    # A kernel of zeros has no norm to scale to: it moves by the rate at first.
    assert np.abs(expected[:, 8:]).min() > 0.05


def test_the_first_step_without_correction_moves_norms_3_2_times_as_far(variables):
    """(1 - 0.9) / sqrt(1 - 0.999) is 3.16; a kernel moves as far, as its scale is that of r."""
    start = [variable.numpy() for variable in variables]
    moved = []
    for correction in (False, True):
        for variable, value in zip(variables, start, strict=True):
            variable.assign(value)
        gradients = [tf.ones_like(variable) for variable in variables]
        apply_clipped(Lamb(0.01, bias_correction=correction), gradients, variables, max_norm=1e9)
        moved.append(
            [variable.numpy() - value for variable, value in zip(variables, start, strict=True)]
        )
    ratios = [np.mean(plain / corrected) for plain, corrected in zip(*moved, strict=True)]
    np.testing.assert_allclose(ratios, [1.0, 3.1623, 3.1623], rtol=1e-3)


@pytest.mark.parametrize(("correction", "max_norm"), [(True, 1.0), (False, 0)])
def test_a_gradient_that_is_not_finite_changes_nothing(variables, correction, max_norm):
    start = [variable.numpy() for variable in variables]
    good = [np.full(shape, 0.1, np.float32) for shape in SHAPES.values()]
    bad = [good[0], np.array([0.1, np.inf, np.nan], np.float32), good[2]]
    ends = []
    # The bias correction counts skipped steps, so the good ones are the same in all.
    for gradients in ([None, good, None, None, good], [bad, good, bad, bad, good]):
        for variable, value in zip(variables, start, strict=True):
            variable.assign(value)
        optimizer = Lamb(0.1, weight_decay_rate=0.01, bias_correction=correction)
        for each in gradients:
            if each is None:
                optimizer._create_all_weights(variables)
                optimizer.iterations.assign_add(1)
                continue
            before = [variable.numpy() for variable in variables]
            norm = apply_clipped(optimizer, [tf.constant(g) for g in each], variables, max_norm)
            assert bool(tf.math.is_finite(norm)) == (each is good)
            for variable, value in zip(variables, before, strict=True):
                assert (variable.numpy() == value).all() == (each is bad)
        assert optimizer.iterations == len(gradients)
        slots = [optimizer.get_slot(variable, name) for variable in variables for name in "mv"]
        ends.append([value.numpy() for value in (*variables, *slots)])
    for one, two in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, two)
