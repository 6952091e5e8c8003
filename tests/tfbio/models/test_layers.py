"""An encoder's layers: gradients in bfloat16 against float32, and what TensorFlow fuses."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from tensorflow.python.framework import test_util

from benchmarks import step_profile
from tfbio.models import layers, target
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.training import cpu_bfloat16

ROWS, LENGTH = 256, 128
# Four documents in a row, as they are packed.
POSITIONS = np.tile(np.arange(LENGTH) % 32, [ROWS, 1]).astype(np.int32)
DOCUMENTS = np.tile(np.arange(LENGTH) // 32 + 1, [ROWS, 1]).astype(np.int32)


@pytest.fixture
def policy_after():
    """Puts Keras' policy back."""
    before = keras.mixed_precision.global_policy()
    yield
    keras.mixed_precision.set_global_policy(before)


def make(policy):
    """Returns an encoder, and ids of tokens for it."""
    keras.mixed_precision.set_global_policy(policy)
    config = EncoderConfig(
        vocab_size=300,
        embedding_size=32,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    keras.utils.set_random_seed(0)
    ids = np.random.default_rng(0).integers(5, 300, [ROWS, LENGTH]).astype(np.int32)
    return Encoder(config), ids


def gradients(policy, packed, seed=None):
    """Returns the gradients of all weights, by their numbers and names."""
    encoder, ids = make(policy)
    variables = encoder.trainable_variables
    random = np.random.default_rng(1)
    upstream = random.normal(0.2, 1.0, [ROWS * LENGTH, 64]).astype(np.float32)
    places = {"document_ids": DOCUMENTS, "position_ids": POSITIONS} if packed else {}

    @tf.function
    def computed():
        with tf.GradientTape() as tape:
            ones = tf.ones_like(ids)
            hidden = encoder(ids, ones, 1 - ones, **places, seed=seed)
            hidden = tf.reshape(tf.cast(hidden, tf.float32), upstream.shape)
            loss = tf.reduce_sum(hidden * upstream)
        return [tf.convert_to_tensor(x) for x in tape.gradient(loss, variables)]

    # The layers' variables have the same names.
    found = {
        (number, each.name): gradient.numpy()
        for number, (each, gradient) in enumerate(zip(variables, computed(), strict=True))
    }
    # Keys' biases have none but for rounding: softmax does not see what all keys have in common.
    return {
        name: np.delete(gradient, np.s_[64:128]) if "query_key_value/bias" in name[1] else gradient
        for name, gradient in found.items()
    }


def distances(one, other):
    """Returns how far the gradients of all weights are from others, as a share of these."""
    assert one.keys() == other.keys()
    return {
        name: np.linalg.norm(one[name] - other[name]) / np.linalg.norm(other[name]) for name in one
    }


@pytest.mark.parametrize("packed", [False, True])
def test_gradients_in_bfloat16_are_added_up_in_float32(policy_after, packed):
    """TensorFlow's own gradient of `bias_add` is up to 20 times too small on a CPU."""
    found = gradients("mixed_bfloat16", packed, seed=[1, 2])
    far = {
        name: x for name, x in distances(found, gradients("float32", packed)).items() if x > 0.02
    }
    assert not far


def test_layer_norm_in_bfloat16_has_the_weights_in_float32(policy_after):
    """Near 1 bfloat16 has steps of 1/128, which a scale of 1.003 would not reach."""
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    norm = layers.LayerNorm(8, 1e-12)
    norm.gamma.assign(np.linspace(1.0, 1.003, 8))
    norm.beta.assign(np.linspace(4.0, 4.01, 8))
    inputs = tf.cast(tf.random.normal([300, 8], seed=3), tf.bfloat16)
    rows = inputs.numpy().astype(np.float32)
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= rows.std(axis=1, keepdims=True)
    with tf.GradientTape() as tape:
        found = norm(inputs)
        total = tf.reduce_sum(tf.cast(found, tf.float32))
    of_gamma, of_beta = tape.gradient(total, [norm.gamma, norm.beta])
    expected = tf.cast(rows * norm.gamma.numpy() + norm.beta.numpy(), tf.bfloat16)
    # Where the order of a sum decides about a rounding, it may differ.
    assert np.mean(found.numpy() != expected.numpy()) < 0.01
    np.testing.assert_allclose(of_gamma, rows.sum(axis=0), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(of_beta, np.full(8, 300.0))


def test_training_on_a_cpu_has_a_form_of_its_own(policy_after, monkeypatch):
    """A seed tells that a backward pass follows. In bfloat16 this form is nearer to float32."""
    expected = {}
    for policy in ("float32", "mixed_bfloat16"):
        found = []
        for on_cpu in (True, False):
            monkeypatch.setattr(target, "is_cpu", lambda is_it=on_cpu: is_it)
            found.append(gradients(policy, False, seed=[1, 2]))
        monkeypatch.setattr(target, "is_cpu", lambda: True)
        without_seed = gradients(policy, False)
        if policy == "float32":
            assert max(distances(*found).values()) < 1e-5
            assert max(distances(found[0], without_seed).values()) < 1e-5
            expected = found[1]
        else:
            own, other = (np.mean([*distances(x, expected).values()]) for x in found)
            without = np.mean([*distances(without_seed, expected).values()])
            assert own < min(other, without)


def skip_without_onednn(policy):
    """Skips a test of what TensorFlow hands over to oneDNN, where it does not."""
    if not test_util.IsMklEnabled():
        pytest.skip("TensorFlow computes without oneDNN here")
    if policy != "float32" and cpu_bfloat16.cuts_off_products():
        pytest.skip("oneDNN has no bfloat16 on this CPU")


def profile(call):
    """Returns the seconds of a call's operations by their kind, and its result."""
    with tf.device("/cpu:0"):
        result = call()
        return step_profile.seconds_by_kind(call), result


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_prediction_computes_gelu_in_its_product(policy_after, policy):
    """TensorFlow fuses one form of a bias and of GELU; any other takes passes of its own.

    It does not in a step of training, whose backward pass needs what is between.
    """
    skip_without_onednn(policy)
    encoder, ids = make(policy)
    variables, ones = encoder.trainable_variables, tf.ones_like(ids)

    @tf.function
    def predict():
        return encoder(ids, ones, 1 - ones)

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(ids, ones, 1 - ones, seed=[1, 2]))
        return [tf.convert_to_tensor(x) for x in tape.gradient(loss, variables)]

    for call, is_fused in ((predict, True), (train, False)):
        seconds, _ = profile(call)
        assert not seconds["erf, exp and tanh (GELU)"]
        assert (seconds[step_profile.COMPILED] == 0) == is_fused


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_prediction_with_onednn_has_one_operation_for_layer_norm(policy_after, policy):
    """The numbers are the same as without, but for rounding."""
    skip_without_onednn(policy)
    encoder, ids = make(policy)
    random = np.random.default_rng(2)
    for each in encoder.trainable_variables:  # biases and LayerNorms start at 0 and 1
        each.assign_add(random.normal(0, 0.1, each.shape))

    def graph(form):
        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
        def predict(ids):
            ones = tf.ones_like(ids)
            with form:
                return tf.cast(encoder(ids, ones, 1 - ones), tf.float32)

        return predict

    means, one = "sums and means", "LayerNorm as one operation"
    seconds, expected = profile(lambda: graph(contextlib.nullcontext())(ids))
    assert seconds[means] > 0 and seconds[one] == 0
    predict = graph(target.onednn_prediction())
    seconds, found = profile(lambda: predict(ids))
    assert seconds[means] == 0 and seconds[one] > 0
    distance = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert distance < (1e-6 if policy == "float32" else 0.02)
