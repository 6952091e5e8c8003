"""Pretraining runs as checkpoints that the original ELECTRA code trains on."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.run_files import write_run
from tfbio.base.errors import UserError
from tfbio.export import conversion
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives import electra
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training import optimization
from tfbio.weights import tensorflow1_weights


def test_the_original_code_gets_optimizer_and_step(pretrained, tmp_path):
    path = conversion.to_original_electra(pretrained, str(tmp_path / "original"))
    assert path.endswith("model.ckpt-2")
    _, model = conversion.read_model(pretrained)
    other, optimizer = electra.Electra(model.config), optimization.Adam(0.0)
    tensorflow1_weights.load(path, other, optimizer)
    assert int(optimizer.iterations) == 2
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    saved = tf.train.load_checkpoint(tf.train.latest_checkpoint(pretrained))
    slots = [name for name in saved.get_variable_to_shape_map() if "OPTIMIZER_SLOT" in name]
    written = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    assert sum(name.endswith(("adam_m", "adam_v")) for name in written) > len(slots)
    moved = optimizer.get_slot(other.trainable_variables[0], "m").numpy()
    assert np.abs(moved).max() > 0


def test_the_number_of_heads_comes_back(vocab_file, tmp_path):
    """No tensor tells it: a reader would take 2 of 64 units each."""
    settings = PretrainingConfig(
        sequence_length=8, encoder=EncoderConfig(60, 16, 128, 1, 8, 64, 16), learning_rate=1e-3
    )
    run = write_run(tmp_path / "run", settings, electra.Electra(settings), vocab_file)
    conversion.to_hugging_face(run, str(tmp_path / "hugging_face"))
    source, folder = str(tmp_path / "source"), tmp_path / "original"
    conversion.to_tfbio(str(tmp_path / "hugging_face"), source)
    conversion.to_original_electra(source, str(folder))
    config, _ = conversion.read_model(str(folder))
    assert config.encoder == settings.encoder
    assert (config.generator.num_attention_heads, config.encoder.num_attention_heads) == (
        settings.generator.num_attention_heads,
        8,
    )
    conversion.to_tfbio(str(folder), str(tmp_path / "back"))


def test_the_original_code_gets_what_came_from_transformers(pretrained, tmp_path):
    source, run = str(tmp_path / "source"), str(tmp_path / "run")
    conversion.to_hugging_face(pretrained, source)
    conversion.to_tfbio(source, run)
    _, model = conversion.read_model(pretrained)
    for number, folder in enumerate((source, run)):
        path = conversion.to_original_electra(folder, str(tmp_path / f"original_{number}"))
        assert path.endswith("model.ckpt-0"), (number, folder)
        other = electra.Electra(model.config)
        tensorflow1_weights.load(path, other)
        for one, two in zip(model.variables, other.variables, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("of_encoders", "others"),
    [
        ({"layer_norm_eps": 1e-5}, {}),
        ({"hidden_act": "gelu_new"}, {}),
        ({"position_offset": 2}, {}),
        ({"share_layers": True}, {}),
        ({"layer_norm_first": True}, {}),
        ({}, {"generator_intermediate_size": 40}),
        ({}, {"generator_num_attention_heads": 2}),
        ({}, {"generator_embedding_size": 8, "untied_generator_embeddings": True}),
        # That code would take LAMB's averages for Adam's.
        ({}, {"optimizer": "lamb"}),
    ],
)
def test_what_the_original_code_lacks_is_refused(of_encoders, others, vocab_file, tmp_path):
    encoder = dataclasses.replace(EncoderConfig(60, 12, 24, 1, 4, 48, 16), **of_encoders)
    settings = PretrainingConfig(sequence_length=8, encoder=encoder, **others)
    source = write_run(tmp_path / "run", settings, electra.Electra(settings), vocab_file)
    with pytest.raises(UserError, match="encoders or an optimizer that the original code has"):
        conversion.to_original_electra(source, str(tmp_path / "original"))
    assert not list(tmp_path.glob("original*"))


def test_a_checkpoint_of_the_original_code_that_differs_is_refused(
    pretrained, tmp_path, monkeypatch
):
    true_write = tensorflow1_weights.write

    def wrong(prefix, model, optimizer):
        kernel = model.encoder.transformer_layers[1].attention_output.kernel
        before = kernel.numpy()
        kernel.assign(1.001 * kernel)
        true_write(prefix, model, optimizer)
        kernel.assign(before)

    monkeypatch.setattr(tensorflow1_weights, "write", wrong)
    with pytest.raises(conversion.ConversionError, match="gives other outputs, by"):
        conversion.to_original_electra(pretrained, str(tmp_path / "converted"))
    assert not (tmp_path / "converted").exists()
