"""Packed rows: nothing lost, nothing mixed, and the same model outputs as padded ones."""

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import NO_TARGET, HeadConfig
from tfbio.models.task_model import TaskModel
from tfbio.task_types import packing
from tfbio.task_types.features import Features, PerToken
from tfbio.task_types.tagging import Tagging

SHAPE = EncoderConfig(
    vocab_size=200,
    embedding_size=16,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=160,
)


def make_features(lengths, of_tokens=True, seed=0):
    """Windows with targets for each token, or each window; and two groups of positions."""
    rng = np.random.default_rng(seed)
    ids = [rng.integers(5, 200, length).astype(np.int32) for length in lengths]
    segments = [rng.integers(0, 2, length).astype(np.int32) for length in lengths]
    numbers = np.arange(len(lengths))
    if not of_tokens:
        targets = [np.array(number, np.int32) for number in numbers]
        groups = [rng.integers(0, length, [2, 3]) for length in lengths]
        return Features(
            ids, segments, numbers, per_window={"targets": targets}, positions={"groups": groups}
        )
    targets = [rng.integers(-1, 3, length).astype(np.int32) for length in lengths]
    scores = [rng.random([length, 3]).astype(np.float32) for length in lengths]
    arrays = {"targets": PerToken(targets, NO_TARGET), "scores": PerToken(scores, 0.5)}
    return Features(ids, segments, numbers, arrays)


@pytest.mark.parametrize("padded_length", [0, 144])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("of_tokens", [True, False])
def test_a_batch_holds_its_windows_and_nothing_else(of_tokens, replicas, padded_length):
    features = make_features([5, 130, 40, 17, 3, 90, 60, 8], of_tokens)
    chosen = np.array([7, 1, 1, 0, 5, 4, 3, 6])  # one twice
    packer = packing.Packer(features, 8, replicas, pad_id=0, padded_length=padded_length)
    parts = packer.batch(chosen)
    assert len(parts) == replicas
    assert len({part.arrays["input_ids"].shape for part in parts}) == 1
    np.testing.assert_array_equal(np.concatenate([part.windows for part in parts]), chosen)
    for part in parts:
        arrays = part.arrays
        of_each = {"document_ids", "input_ids", "segment_ids", "position_ids", *features.per_token}
        flat = {name: arrays[name].reshape(-1, *arrays[name].shape[2:]) for name in of_each}
        for number, window in enumerate(part.windows, start=1):
            here = np.flatnonzero(flat["document_ids"] == number)
            np.testing.assert_array_equal(flat["input_ids"][here], features.input_ids[window])
            np.testing.assert_array_equal(flat["segment_ids"][here], features.segment_ids[window])
            for name, (values, _) in features.per_token.items():
                np.testing.assert_array_equal(flat[name][here], values[window])
                assert flat[name].dtype == values[window].dtype
            for name, values in features.per_window.items():
                np.testing.assert_array_equal(arrays[name][number - 1], values[window])
            for name, values in features.positions.items():
                np.testing.assert_array_equal(arrays[name][number - 1], here[values[window]])
            np.testing.assert_array_equal(flat["position_ids"][here], np.arange(len(here)))
            assert arrays["first"][number - 1] == here[0]
            assert np.ptp(here) == len(here) - 1, (part, number)
        padding = flat["document_ids"] == 0
        assert not flat["input_ids"][padding].any(), part
        if of_tokens:
            assert (flat["targets"][padding] == NO_TARGET).all(), part
            assert (flat["scores"][padding] == 0.5).all(), part
        if padded_length:
            assert arrays["input_ids"].shape == (8 // replicas, 144), part
        else:
            assert arrays["input_ids"].shape[1] == 256, part  # 130 do not fit 128


def test_shapes_are_few():
    rng = np.random.default_rng(0)
    features = make_features(rng.integers(5, 120, 1000))
    packer = packing.Packer(features, 64, 1, pad_id=0)
    shapes = [
        packer.batch(rng.choice(1000, 64, replace=False))[0].arrays["input_ids"].shape
        for _ in range(200)
    ]
    assert 1 < len(set(shapes)) <= packing.NUM_SHAPES
    # Padded to their longest text, these batches would be half empty.
    filled = features.lengths.mean() * 64 / np.mean([rows * length for rows, length in shapes])
    assert filled > 0.85


def test_batches_of_short_rows_hold_every_window_once():
    lengths = np.random.default_rng(0).integers(5, 120, 300)
    features = make_features(lengths)
    packer = packing.Packer(features, 64, 1, pad_id=0)
    seen = []
    for make in packer.short_row_batches():
        (part,) = make()
        ids = part.arrays["input_ids"].reshape(-1)
        for number, window in enumerate(part.windows):
            first = part.arrays["first"][number]
            own = slice(first, first + lengths[window])
            np.testing.assert_array_equal(ids[own], features.input_ids[window])
            assert (part.arrays["document_ids"].reshape(-1)[own] == number + 1).all()
        seen += part.windows.tolist()
        assert part.arrays["input_ids"].shape[1] in (64, 128)
        assert part.arrays["input_ids"].size < 1.2 * packer.usual_tokens
    assert sorted(seen) == [*range(300)]


@pytest.mark.parametrize(
    ("of_tokens", "pooling", "head"),
    [
        (True, "first", "linear"),
        (True, "first", "lstm"),
        (False, "first", "linear"),
        (False, "mean", "linear"),
        (False, "first", "lstm"),
    ],
)
def test_a_packed_text_comes_out_as_when_it_is_alone(of_tokens, pooling, head):
    features = make_features([5, 70, 40, 17, 3, 90, 60, 8], of_tokens)
    model = TaskModel(SHAPE, HeadConfig(3, of_tokens, 0.1, pooling, token_layer=head))
    (part,) = packing.Packer(features, 8, 1, pad_id=0).batch(np.arange(8))
    assert part.arrays["input_ids"].shape[0] < 8
    packed = model({name: tf.constant(values) for name, values in part.arrays.items()}).numpy()
    for window in range(8):
        (alone,) = packing.Packer(features, 1, 1, 0, len(features.input_ids[window])).batch(
            np.array([window])
        )
        assert (alone.arrays["document_ids"] == 1).all()
        logits = model({name: tf.constant(values) for name, values in alone.arrays.items()}).numpy()
        if of_tokens:
            first = part.arrays["first"][window]
            found = packed[first : first + len(features.input_ids[window])]
        else:
            found = packed[window : window + 1]
        assert np.abs(logits).max() > 1e-2
        np.testing.assert_allclose(found, logits, atol=1e-5)


@pytest.mark.parametrize("head", ["linear", "lstm", "crf"])
def test_heads_compute_in_float32_where_the_encoder_does_not(head, bfloat16):
    features, task_type = make_features([5, 40, 17]), Tagging("OBI", Tagging.Settings(head=head))
    (part,) = packing.Packer(features, 3, 1, pad_id=0).batch(np.arange(3))
    batch = {name: tf.constant(values) for name, values in part.arrays.items()}
    model = TaskModel(SHAPE, HeadConfig(3, True, 0.1, token_layer=head))
    with tf.GradientTape() as tape:
        logits = model(batch)
        losses, _ = task_type.losses(logits, batch)
    own = [*model.head.variables, *(model.lstm.variables if head == "lstm" else ())]
    own += [model.transitions] if head == "crf" else []
    gradients = tape.gradient(losses, own)
    for value in (*tf.nest.flatten(logits), losses, *own, *gradients):
        assert value.dtype == tf.float32
    assert all(np.abs(gradient).max() > 0 for gradient in gradients)
    assert task_type.outputs(logits, batch).shape == [128]
