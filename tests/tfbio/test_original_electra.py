"""Checkpoints of the original ELECTRA code, against those that it wrote."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.parity import FOLDER, Recording, needs_recording, recorded_config
from tfbio import electra, optimization, original_electra
from tfbio.original_electra import OriginalElectraError


def make():
    """A model and its optimizer, as the recorded run had them."""
    config = recorded_config()
    rate = optimization.WarmupLinearDecay(
        config.learning_rate, config.num_train_steps, config.num_warmup_steps
    )
    optimizer = optimization.Adam(rate, weight_decay_rate=config.weight_decay_rate)
    return electra.Electra(config), optimizer


def tensors(path):
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def train(model, optimizer, recording, step, seen):
    """One step on the recorded batch; returns the loss."""
    with tf.GradientTape() as tape:
        output = model(
            recording.batch,
            recording.masked(seen),
            tf.constant([0, 0]),
            corrupted_ids=recording.corrupted(seen),
        )
    assert int(optimizer.iterations) == step
    gradients = tape.gradient(output.loss, model.trainable_variables)
    optimization.apply_clipped(optimizer, gradients, model.trainable_variables, 1.0)
    return float(output.loss)


@needs_recording
def test_what_is_written_back_is_the_same_bit_for_bit(tmp_path):
    model, optimizer = make()
    original_electra.load(str(FOLDER / "model.ckpt-4"), model, optimizer)
    assert int(optimizer.iterations) == 4
    original_electra.write(str(tmp_path / "model.ckpt-4"), model, optimizer)
    expected, found = tensors(str(FOLDER / "model.ckpt-4")), tensors(str(tmp_path / "model.ckpt-4"))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value, name)


@needs_recording
def test_training_that_the_original_code_began_goes_on():
    """Eight steps, of which the original code did the first four, or none."""
    recording = Recording()
    model, optimizer = make()
    original_electra.load(str(FOLDER / "model.ckpt-0"), model, optimizer)
    for step in range(4):
        train(model, optimizer, recording, step, step)
    other, its_optimizer = make()
    original_electra.load(str(FOLDER / "model.ckpt-4"), other, its_optimizer)
    for step in range(4, 8):
        mine = train(model, optimizer, recording, step, step - 4)
        assert train(other, its_optimizer, recording, step, step - 4) == pytest.approx(mine, 1e-5)
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


@needs_recording
def test_without_an_optimizer_there_are_the_weights_alone(tmp_path):
    model, _ = make()
    original_electra.load(str(FOLDER / "model.ckpt-4"), model)
    original_electra.write(str(tmp_path / "weights"), model)
    everything, written = tensors(str(FOLDER / "model.ckpt-4")), tensors(str(tmp_path / "weights"))
    left_out = everything.keys() - written.keys()
    assert all(name.endswith(("/adam_m", "/adam_v")) or name == "global_step" for name in left_out)
    assert len(left_out) == 2 * len(written) + 1
    with pytest.raises(OriginalElectraError, match="weights holds no .*/adam_m"):
        original_electra.load(str(tmp_path / "weights"), *make())


@needs_recording
def test_a_file_that_is_no_checkpoint_is_named(tmp_path):
    model, _ = make()
    path = tmp_path / "model.ckpt"
    path.write_text("no checkpoint")
    with pytest.raises(OriginalElectraError, match="model.ckpt is no checkpoint"):
        original_electra.load(str(path), model)
    tf.train.Checkpoint(model=model).write(str(path))
    with pytest.raises(OriginalElectraError, match="holds no electra/embeddings/word_embeddings"):
        original_electra.load(str(path), model)


@needs_recording
def test_a_checkpoint_of_another_shape_is_refused_and_changes_nothing():
    config = recorded_config()
    config = dataclasses.replace(
        config, encoder=dataclasses.replace(config.encoder, intermediate_size=64)
    )
    model = electra.Electra(config)
    before = [variable.numpy() for variable in model.variables]
    with pytest.raises(OriginalElectraError, match=r"intermediate.*shape \[48, 96\].*\[48, 64\]"):
        original_electra.load(str(FOLDER / "model.ckpt-0"), model)
    for variable, old in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable, old)


@needs_recording
def test_a_tied_generator_has_no_layers_of_its_own(tmp_path):
    """In the original code its layers are those of the scope electra."""
    model = electra.Electra(dataclasses.replace(recorded_config(), untied_generator=False))
    original_electra.write(str(tmp_path / "tied"), model)
    written = tensors(str(tmp_path / "tied"))
    assert not any(name.startswith("generator/") for name in written)
    other = electra.Electra(model.config)
    original_electra.load(str(tmp_path / "tied"), other)
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one, two)
