"""The learning rate and the optimizer against their formulas, written out in NumPy."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models import target
from tfbio.training import optimization
from tfbio.training.gradients import apply_clipped
from tfbio.training.optimization import (
    Adam,
    GeneratorWarmup,
    SlantedTriangular,
    Triangular,
    WarmupLinearDecay,
)


def test_warmup_and_decay():
    rate = WarmupLinearDecay(peak=2e-4, num_steps=1000, num_warmup_steps=100)
    done_before = np.array([0, 49, 99, 499, 999])
    expected = [2e-4 * (1 - s / 1000) * min(1, s / 100) for s in done_before + 1]
    computed = [rate(tf.constant(s, tf.int64)).numpy() for s in done_before]
    np.testing.assert_allclose(computed, expected, rtol=1e-5)
    assert computed[-1] == 0.0


def test_triangular_is_the_schedule_of_hugging_face():
    """Theirs begins at 0: its rate of step k is that of update k here."""
    import torch
    import transformers

    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=3e-3)
    for warmup in (0, 1, 7, 20):
        theirs = transformers.get_linear_schedule_with_warmup(optimizer, warmup, 20)
        expected = [3e-3 * theirs.lr_lambdas[0](step) for step in range(1, 22)]
        schedule = Triangular(3e-3, 20, warmup)
        np.testing.assert_allclose(rates(schedule, range(1, 22)), expected, rtol=1e-5, atol=1e-12)


def rates(schedule, steps):
    return [float(schedule(tf.constant(step - 1, tf.int64))) for step in steps]


def test_after_the_generator_alone_the_rate_begins_anew():
    both = WarmupLinearDecay(peak=1e-3, num_steps=20, num_warmup_steps=4)
    schedule = GeneratorWarmup(10, both)
    alone = [1e-3 * share for share in (0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1)]
    np.testing.assert_allclose(rates(schedule, range(1, 11)), alone, rtol=1e-6)
    assert rates(schedule, range(11, 31)) == rates(both, range(1, 21))


def test_slanted_triangular():
    # Howard & Ruder (2018), equation 3, by hand: T = 1000, cut = 100; p = 0.01, 0.5, 1, 0.5 and 0.
    schedule = SlantedTriangular(peak=0.01, num_steps=1000, num_warmup_steps=100)
    expected = [0.000409375, 0.00515625, 0.01, 0.00515625, 0.0003125]
    np.testing.assert_allclose(rates(schedule, [1, 50, 100, 550, 1000]), expected, rtol=1e-5)


def test_slanted_triangular_at_every_step_of_the_papers_formula():
    num_steps, cut_frac, ratio, peak = 200, 0.1, 32, 0.01
    cut = int(num_steps * cut_frac)
    expected = []
    for t in range(1, num_steps + 1):
        p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / cut_frac - 1))
        expected.append(peak * (1 + p * (ratio - 1)) / ratio)
    schedule = SlantedTriangular(peak, num_steps, cut)
    computed = rates(schedule, range(1, num_steps + 1))
    np.testing.assert_allclose(computed, expected, rtol=1e-4)


def test_slanted_triangular_of_a_short_run_ends_at_the_lowest_rate():
    # As the formula stands, rounding down 1.9 steps of warm-up makes the last rates negative.
    for num_steps, cut in ((19, 1), (5, 0)):
        computed = rates(SlantedTriangular(1.0, num_steps, cut), range(1, num_steps + 1))
        assert computed[-1] == 1 / 32 == min(computed)
        assert computed == sorted(computed, reverse=True)


def test_adam_without_bias_correction_with_decay_and_multipliers():
    random = np.random.default_rng(0)
    kernel = tf.Variable(random.normal(size=[4, 3]).astype(np.float32), name="dense/kernel")
    bias = tf.Variable(random.normal(size=[3]).astype(np.float32), name="dense/bias")
    norm = tf.Variable(np.ones([3], np.float32), name="LayerNorm/gamma")
    variables = [kernel, bias, norm]
    multipliers = {
        variable.ref(): m for variable, m in zip(variables, (0.5, 1.0, 2.0), strict=True)
    }
    optimizer = Adam(
        0.01, epsilon=1e-6, weight_decay_rate=0.1, lr_multiplier=lambda v: multipliers[v.ref()]
    )
    expected = [variable.numpy().astype(np.float64) for variable in variables]
    first = [np.zeros_like(value) for value in expected]
    second = [np.zeros_like(value) for value in expected]
    for _ in range(5):
        gradients = [random.normal(size=value.shape).astype(np.float32) for value in expected]
        apply_clipped(optimizer, [tf.constant(g) for g in gradients], variables, max_norm=1e9)
        for i, gradient in enumerate(gradients):
            first[i] = 0.9 * first[i] + 0.1 * gradient
            second[i] = 0.999 * second[i] + 0.001 * gradient**2
            update = first[i] / (np.sqrt(second[i]) + 1e-6)
            if i == 0:  # biases and LayerNorms do not decay
                update += 0.1 * expected[i]
            expected[i] -= 0.01 * (0.5, 1.0, 2.0)[i] * update
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable, value, rtol=1e-5, atol=1e-6)


def test_the_first_updates_have_no_rounding_of_the_betas():
    """1 - beta of float32 numbers is 1.3e-5 off, which made each update 6e-6 too large."""
    variable, optimizer = tf.Variable(np.zeros([5], np.float32)), Adam(1.0)
    moved, first, second = np.zeros([5]), np.zeros([5]), np.zeros([5])
    for scale in (1e-6, 1e-3, 1.0):
        gradient = (scale * np.array([0.5, 1.0, 2.0, 3.0, -7.0])).astype(np.float32)
        optimizer.apply_gradients([(tf.constant(gradient), variable)])
        first = 0.9 * first + 0.1 * np.float64(gradient)
        second = 0.999 * second + 0.001 * np.float64(gradient) ** 2
        moved -= first / (np.sqrt(second) + 1e-6)
        np.testing.assert_allclose(variable, moved, rtol=5e-7)


@pytest.mark.parametrize("beta_2", [0.999, 0.98])
def test_bias_correction_is_that_of_pytorch(beta_2):
    """Decays all parameters, or those alone that BERT decays: torch's two groups."""
    import torch

    rng = np.random.default_rng(0)
    names = ("kernel", "bias", "LayerNorm/gamma")
    start = [rng.normal(size=[3, 4]).astype(np.float32) for _ in names]
    gradients = rng.normal(size=[10, 3, 3, 4]).astype(np.float32)
    for decay_all in (False, True):
        variables = [tf.Variable(x, name=name) for x, name in zip(start, names, strict=True)]
        parameters = [torch.nn.Parameter(torch.tensor(x.copy())) for x in start]
        # An epsilon so large that it matters where it is added.
        settings = {"eps": 0.1, "betas": (0.9, beta_2), "lr": 0.01}
        rates = [0.1, *[0.1 * decay_all] * 2]
        theirs = torch.optim.AdamW(
            [{"params": p, "weight_decay": x} for p, x in zip(parameters, rates, strict=True)],
            **settings,
        )
        optimizer = Adam(
            0.01,
            betas=(0.9, beta_2),
            epsilon=0.1,
            weight_decay_rate=0.1,
            bias_correction=True,
            decay_all=decay_all,
        )
        for step in gradients:
            apply_clipped(optimizer, [tf.constant(g) for g in step], variables, max_norm=0)
            for parameter, gradient in zip(parameters, step, strict=True):
                parameter.grad = torch.tensor(gradient)
            theirs.step()
            for variable, parameter in zip(variables, parameters, strict=True):
                expected = parameter.detach().numpy()
                np.testing.assert_allclose(variable, expected, rtol=1e-5, atol=1e-7)


def test_clips_the_global_norm_and_returns_it():
    variables = [tf.Variable([3.0, 0.0]), tf.Variable([0.0])]
    gradients = [tf.constant([3.0, 0.0]), tf.constant([4.0])]
    optimizer = Adam(1.0, betas=(0.0, 0.0), epsilon=1e6)  # update = gradient / 1e6
    norm = apply_clipped(optimizer, gradients, variables, max_norm=1.0)
    assert float(norm) == 5.0
    np.testing.assert_allclose(variables[1], [-0.8e-6], rtol=1e-5)


# Of a step: on one device, and on a mesh.
FORMS = pytest.mark.parametrize("form", [contextlib.nullcontext, target.mesh])


@FORMS
def test_a_norm_of_0_clips_nothing(form):
    variable, optimizer = tf.Variable([5.0, 7.0]), Adam(1.0, betas=(0.0, 0.0), epsilon=1e6)
    with form():
        norm = apply_clipped(optimizer, [tf.constant([3e3, 4e3])], [variable], max_norm=0)
    assert float(norm) == 5e3
    # The update is gradient / (|gradient| + 1e6).
    np.testing.assert_allclose(variable - [5.0, 7.0], [-3 / 1003, -4 / 1004], rtol=1e-3)


def test_gradients_of_a_table_move_every_row():
    """An embedding's gradient is sparse; Adam's momentum moves rows that were not looked up."""
    table = tf.Variable(tf.ones([5, 2]))
    optimizer = Adam(0.1)
    for rows in ([0, 1, 1], [2, 2, 2]):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows) * 2.0)
        gradient = tape.gradient(loss, table)
        assert isinstance(gradient, tf.IndexedSlices)
        before = table.numpy()
        apply_clipped(optimizer, [gradient], [table], max_norm=0)
    moved = (table.numpy() != before).any(axis=1)
    np.testing.assert_array_equal(moved, [True, True, True, False, False])


@FORMS
@pytest.mark.parametrize("max_norm", [1.0, 0])
def test_a_gradient_that_is_not_finite_changes_nothing(max_norm, form):
    start = np.array([1.0, -2.0, 3.0], np.float32)
    good = np.array([0.1, 0.2, -0.3], np.float32)
    ends = []
    for gradients in ([good, good], [good, None, good], [None, good, None, good]):
        variables = [tf.Variable(start, name="kernel"), tf.Variable(1.0, name="bias")]
        optimizer = Adam(0.1, weight_decay_rate=0.01)
        for gradient in gradients:
            # One element of one of them is enough.
            bad = tf.constant([0.1, np.inf, 0.2])
            pair = [bad if gradient is None else tf.constant(gradient), tf.constant(0.5)]
            with form():
                norm = apply_clipped(optimizer, pair, variables, max_norm)
            assert bool(tf.math.is_finite(norm)) == (gradient is not None)
        assert optimizer.iterations == len(gradients)
        slots = [optimizer.get_slot(variable, s) for variable in variables for s in ("m", "v")]
        ends.append([v.numpy() for v in (*variables, *slots)])
    for other in ends[1:]:
        for one, two in zip(ends[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
    assert (ends[0][0] != start).all()


def test_the_papers_learning_rate_of_the_embeddings():
    # BioELECTRA, section 4.2: 1e-4 with decay 0.8 and 12 layers is 5.5e-6 at the embeddings.
    assert 1e-4 * optimization.layer_multiplier(0, 12, 0.8, "bioelectra") == pytest.approx(
        5.5e-6, abs=5e-8
    )


def test_both_conventions_at_the_ends():
    for exponent, embeddings, lowest, top in (("electra", 14, 13, 2), ("bioelectra", 13, 12, 1)):
        for depth, power in ((0, embeddings), (1, lowest), (12, top)):
            share = optimization.layer_multiplier(depth, 12, 0.8, exponent)
            assert share == pytest.approx(0.8**power)


@pytest.mark.parametrize("bias_correction", [False, True])
def test_a_variable_adds_few_operations_to_the_step(bias_correction):
    """A large model has hundreds of variables, and each operation takes time at the start."""
    operations = []
    for count in (1, 5):
        variables = [tf.Variable([1.0], name="kernel") for _ in range(count)]
        optimizer = Adam(1e-3, weight_decay_rate=0.01, bias_correction=bias_correction)
        optimizer._create_all_weights(variables)

        @tf.function
        def step(own=variables, optimizer=optimizer):
            optimizer.apply_gradients([(tf.constant([1.0]), variable) for variable in own])

        operations.append(len(step.get_concrete_function().graph.get_operations()))
    # Ten: the kernel, its three variables, the gradient with its guard, and the decay.
    assert (operations[1] - operations[0]) / 4 <= 12, operations


@pytest.mark.parametrize("bias_correction", [False, True])
def test_the_form_for_a_mesh_takes_the_steps_of_the_kernel(bias_correction):
    random, ends = np.random.default_rng(0), []
    gradients = random.normal(size=[3, 5]).astype(np.float32)
    for form in (contextlib.nullcontext, target.mesh):
        variable = tf.Variable(np.ones([5], np.float32), name="kernel")
        # An epsilon so large that it matters where it is added.
        optimizer = Adam(0.1, epsilon=0.1, bias_correction=bias_correction)
        for gradient in gradients:
            with form():
                optimizer.apply_gradients([(tf.constant(gradient), variable)])
        ends.append(variable.numpy())
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-5)
