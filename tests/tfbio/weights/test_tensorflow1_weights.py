"""Weights of TensorFlow 1 checkpoints: of a recording, and against `transformers`."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.hugging_face import SHAPE
from tests.parity import FOLDER, Recording, recorded_config
from tests.tensorflow1 import (
    PAIR_KERNEL,
    TINY_BERT,
    bert_with_averages_of_pairs,
    hugging_face_bert,
    make,
    save_original,
    tensors,
    train,
)
from tfbio.base import storage
from tfbio.base.errors import UserError
from tfbio.export import conversion
from tfbio.models.encoder import Encoder
from tfbio.models.head_config import HeadConfig
from tfbio.models.task_model import TaskModel
from tfbio.objectives import electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training import optimization
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_source,
    checkpoint_weights,
    hugging_face_settings,
    same_model,
    tensorflow1_weights,
)
from tfbio.weights.tensorflow1_checkpoint import TensorFlow1Error


def test_what_is_written_back_is_the_same_bit_for_bit(tmp_path):
    model, optimizer = make()
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-4"), model, optimizer)
    assert int(optimizer.iterations) == 4
    tensorflow1_weights.write(str(tmp_path / "model.ckpt-4"), model, optimizer)
    expected, found = tensors(str(FOLDER / "model.ckpt-4")), tensors(str(tmp_path / "model.ckpt-4"))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value, name)


def test_training_that_the_original_code_began_goes_on():
    """Eight steps, of which the original code did the first four, or none."""
    recording = Recording()
    model, optimizer = make()
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-0"), model, optimizer)
    for step in range(4):
        train(model, optimizer, recording, step, step)
    other, its_optimizer = make()
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-4"), other, its_optimizer)
    for step in range(4, 8):
        mine = train(model, optimizer, recording, step, step - 4)
        assert train(other, its_optimizer, recording, step, step - 4) == pytest.approx(mine, 1e-5)
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def test_without_an_optimizer_there_are_the_weights_alone(tmp_path):
    model, _ = make()
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-4"), model)
    tensorflow1_weights.write(str(tmp_path / "weights"), model)
    everything, written = tensors(str(FOLDER / "model.ckpt-4")), tensors(str(tmp_path / "weights"))
    left_out = everything.keys() - written.keys()
    assert not [
        name
        for name in left_out
        if not (name.endswith(("/adam_m", "/adam_v")) or name == "global_step")
    ]
    assert len(left_out) == 2 * len(written) + 1
    with pytest.raises(TensorFlow1Error, match="weights holds no .*/adam_m"):
        tensorflow1_weights.load(str(tmp_path / "weights"), *make())


def test_a_checkpoint_of_another_shape_is_refused_and_changes_nothing():
    config = recorded_config()
    config = dataclasses.replace(
        config, encoder=dataclasses.replace(config.encoder, intermediate_size=64)
    )
    model = electra.Electra(config)
    before = [variable.numpy() for variable in model.variables]
    with pytest.raises(TensorFlow1Error, match=r"intermediate.*shape \[48, 96\].*\[48, 64\]"):
        tensorflow1_weights.load(str(FOLDER / "model.ckpt-0"), model)
    for variable, old in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable, old)


def test_a_tied_generator_has_no_layers_of_its_own(tmp_path):
    """In the original code its layers are those of the scope electra."""
    model = electra.Electra(dataclasses.replace(recorded_config(), untied_generator=False))
    tensorflow1_weights.write(str(tmp_path / "tied"), model)
    written = tensors(str(tmp_path / "tied"))
    assert not any(name.startswith("generator/") for name in written)
    other = electra.Electra(model.config)
    tensorflow1_weights.load(str(tmp_path / "tied"), other)
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_names_are_those_of_the_original_bert(tmp_path):
    """For what the other tests write are the names of a checkpoint of that code."""
    prefix = str(TINY_BERT / "bert_model.ckpt")
    shape = json.loads((TINY_BERT / "bert_config.json").read_text())
    shape = {name: value for name, value in shape.items() if name in SHAPE}
    written = save_original(hugging_face_bert(shape), tmp_path / "written")
    theirs = tensors(prefix)
    assert {n for n in theirs if not n.endswith(("adam_m", "adam_v", "global_step"))} == written
    # It says more than the weights: training goes on, but for the next sentence.
    settings = checkpoint_settings.pretraining_config(
        checkpoint_settings.read_settings(str(TINY_BERT))
    )
    assert settings.objective == "mlm" and settings.encoder.num_attention_heads == 4
    model, optimizer = MaskedLanguageModel(settings), optimization.Adam(0.0)
    checkpoint_weights.restore_model(str(TINY_BERT), model, optimizer)
    assert int(optimizer.iterations) == theirs["global_step"]
    key = model.encoder.transformer_layers[1].query_key_value.kernel
    name = "bert/encoder/layer_1/attention/self/key/kernel"
    np.testing.assert_array_equal(key[:, 4:8], theirs[name])
    np.testing.assert_array_equal(optimizer.get_slot(key, "v")[:, 4:8], theirs[f"{name}/adam_v"])


@pytest.mark.parametrize("trained", [False, True])
def test_the_averages_of_the_pair_head_are_turned_as_its_weights(trained, tmp_path, capsys):
    """They have names and shapes of google-research/bert, or a line says that they are left out."""
    prefix, theirs = bert_with_averages_of_pairs(tmp_path)
    read = checkpoint_settings.read_settings(str(TINY_BERT))
    settings = checkpoint_settings.pretraining_config(read)
    model = MaskedLanguageModel(dataclasses.replace(settings, sentence_pair_loss=trained))
    optimizer = optimization.Adam(0.0)
    tensorflow1_weights.load(prefix, model, optimizer)
    said = capsys.readouterr().out
    left_out = "averages of the classifier of sentence pairs are left out"
    assert (left_out in said and "--set sentence_pair_loss=true" in said) == (not trained)
    kernel = next(x for x in model.sentence_pair_head.variables if x.shape[1:] == [2])
    np.testing.assert_array_equal(kernel, theirs[PAIR_KERNEL].T)
    if trained:
        expected = theirs[f"{PAIR_KERNEL}/adam_m"].T
        np.testing.assert_array_equal(optimizer.get_slot(kernel, "m"), expected)
    tensorflow1_weights.load(prefix, model)
    assert not capsys.readouterr().out


def restored(path):
    model = MaskedLanguageModel(
        checkpoint_settings.pretraining_config(checkpoint_settings.read_settings(path))
    )
    checkpoint_weights.restore_model(path, model)
    return model


def word_logits(model, theirs):
    """Returns the outputs of our model and of one of `transformers` for random ids."""
    import torch

    ids = np.random.default_rng(0).integers(0, model.config.encoder.vocab_size, [3, 16])
    batch = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": ids % 2}
    batch = {name: tf.constant(values, tf.int32) for name, values in batch.items()}
    positions = tf.tile(tf.range(16)[tf.newaxis], [3, 1])
    masked = MaskedBatch(batch["input_ids"], positions, positions, tf.ones([3, 16]))
    ours = model(batch, masked, tf.constant([0, 0])).logits.numpy()
    with torch.no_grad():
        inputs = torch.tensor(ids), torch.ones(3, 16), torch.tensor(ids % 2)
        return ours, theirs(*inputs).prediction_logits.numpy()


@pytest.mark.parametrize("as_prefix", [False, True])
def test_a_bert_gives_what_transformers_gives(bert, as_prefix):
    """Compares with the exact gelu: the tanh form would give other outputs."""
    theirs, folder = bert
    path = str(folder / "bert_model.ckpt" if as_prefix else folder)
    model = restored(path)
    np.testing.assert_allclose(*word_logits(model, theirs), atol=2e-5)
    other = hugging_face_bert(SHAPE, hidden_act="gelu_new")
    other.load_state_dict(theirs.state_dict())
    ours, expected = word_logits(model, other)
    assert np.abs(ours - expected).max() > 1e-3

    encoder = Encoder(checkpoint_settings.read_encoder_config(path))
    checkpoint_weights.restore_encoder(path, encoder)
    for one, two in zip(encoder.variables, model.encoder.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    assert checkpoint_source.run_of(path) == str(folder)
    assert checkpoint_source.newest_weights(path) == str(folder / "bert_model.ckpt")


def test_a_bert_goes_out_and_is_fine_tuned(bert, tmp_path):
    """With the tensors of all heads, and by an encoder alone as by a model to pretrain."""
    import transformers

    theirs, folder = bert
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{i}" for i in range(55))]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    prefix = str(folder / "bert_model.ckpt")
    assert hugging_face_settings.family_of(checkpoint_settings.read_settings(prefix)) == "bert"
    conversion.to_hugging_face(prefix, str(tmp_path / "out"))
    again = transformers.BertForPreTraining.from_pretrained(tmp_path / "out")
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name], tensor, name)
    # The pooler, too, comes from there, and from a run that was made of it.
    conversion.to_tfbio(prefix, str(tmp_path / "run"))
    expected = theirs.bert.pooler.dense.weight.detach().numpy().T
    for place in (str(folder), prefix, str(tmp_path / "run")):
        pooler = TaskModel(
            checkpoint_settings.read_encoder_config(place), HeadConfig(2, False, text_layer="tanh")
        )
        checkpoint_weights.restore_pooler(place, pooler.pooler)
        np.testing.assert_array_equal(pooler.pooler.kernel, expected)


def test_a_bert_is_a_discriminator_alone(bert):
    """Its encoder becomes the discriminator's; all else stays as it was made."""
    _, folder = bert
    shape = checkpoint_settings.read_encoder_config(str(folder))
    settings = PretrainingConfig(
        encoder=shape, sequence_length=16, generator_hidden_fraction=0.5, generator_warmup_steps=5
    )
    known = {
        **dataclasses.asdict(settings),
        "lower_case": True,
        "vocab_sha256": storage.sha256_of(folder / "vocab.txt"),
    }
    same_model.require_same_model(str(folder), known)
    with pytest.raises(UserError, match="holds no generator: give --set generator_warmup_steps=N"):
        same_model.require_same_model(str(folder), known | {"generator_warmup_steps": 0})
    model, encoder = electra.Electra(settings), Encoder(shape)
    before = {id(variable): variable.numpy() for variable in model.variables}
    checkpoint_weights.restore_model(str(folder), model)
    checkpoint_weights.restore_encoder(str(folder), encoder)
    for one, two in zip(model.encoder.variables, encoder.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    head = [*model.discriminator_dense.variables, *model.discriminator_output.variables]
    for variable in model.generator_variables + head:
        np.testing.assert_array_equal(variable, before[id(variable)])


def test_an_albert_gives_what_transformers_gives(albert, tmp_path):
    import transformers

    theirs, folder = albert
    settings = checkpoint_settings.read_settings(str(folder))
    assert settings["lower_case"] and settings["sentence_pair_head"]
    conversion.to_tfbio(str(folder), str(tmp_path / "run"))
    conversion.to_hugging_face(str(folder), str(tmp_path / "out"))
    again = transformers.AlbertForPreTraining.from_pretrained(tmp_path / "out").eval()
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name], tensor, name)

    np.testing.assert_allclose(*word_logits(restored(str(tmp_path / "run")), theirs), atol=2e-5)


def test_a_damaged_checkpoint_is_named(tmp_path):
    folder = tmp_path / "bert"
    shutil.copytree(TINY_BERT, folder)
    data = folder / "bert_model.ckpt.data-00000-of-00001"
    whole = data.read_bytes()
    settings = checkpoint_settings.pretraining_config(
        checkpoint_settings.read_settings(str(folder))
    )
    for damaged in (whole[: len(whole) // 2], b"", whole[:100] + b"\0" * 50 + whole[150:]):
        data.write_bytes(damaged)
        model = MaskedLanguageModel(settings)
        before = [variable.numpy() for variable in model.variables]
        with pytest.raises(TensorFlow1Error, match="is damaged or not complete"):
            checkpoint_weights.restore_model(str(folder), model)
        for variable, value in zip(model.variables, before, strict=True):
            np.testing.assert_array_equal(variable, value)
