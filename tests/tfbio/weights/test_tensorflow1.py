"""Checkpoints of TensorFlow 1, against those that the original code wrote, and `transformers`."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from data_prep import examples
from tests import reference
from tests.conftest import ROOT
from tests.hugging_face import SHAPE
from tests.parity import FOLDER, Recording, recorded_config
from tfbio import convert
from tfbio.base import storage
from tfbio.base.cli import UserError
from tfbio.base.manifests import read_manifest
from tfbio.models.encoder import Encoder
from tfbio.models.head_config import HeadConfig
from tfbio.models.task_model import TaskModel
from tfbio.objectives import electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig, PretrainingRun
from tfbio.runs import pretraining, pretraining_data
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.training import distribution, optimization
from tfbio.weights import checkpoints, hugging_face, tensorflow1
from tfbio.weights.tensorflow1 import TensorFlow1Error


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


def test_what_is_written_back_is_the_same_bit_for_bit(tmp_path):
    model, optimizer = make()
    tensorflow1.load(str(FOLDER / "model.ckpt-4"), model, optimizer)
    assert int(optimizer.iterations) == 4
    tensorflow1.write(str(tmp_path / "model.ckpt-4"), model, optimizer)
    expected, found = tensors(str(FOLDER / "model.ckpt-4")), tensors(str(tmp_path / "model.ckpt-4"))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value, name)


def test_training_that_the_original_code_began_goes_on():
    """Eight steps, of which the original code did the first four, or none."""
    recording = Recording()
    model, optimizer = make()
    tensorflow1.load(str(FOLDER / "model.ckpt-0"), model, optimizer)
    for step in range(4):
        train(model, optimizer, recording, step, step)
    other, its_optimizer = make()
    tensorflow1.load(str(FOLDER / "model.ckpt-4"), other, its_optimizer)
    for step in range(4, 8):
        mine = train(model, optimizer, recording, step, step - 4)
        assert train(other, its_optimizer, recording, step, step - 4) == pytest.approx(mine, 1e-5)
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def test_without_an_optimizer_there_are_the_weights_alone(tmp_path):
    model, _ = make()
    tensorflow1.load(str(FOLDER / "model.ckpt-4"), model)
    tensorflow1.write(str(tmp_path / "weights"), model)
    everything, written = tensors(str(FOLDER / "model.ckpt-4")), tensors(str(tmp_path / "weights"))
    left_out = everything.keys() - written.keys()
    assert all(name.endswith(("/adam_m", "/adam_v")) or name == "global_step" for name in left_out)
    assert len(left_out) == 2 * len(written) + 1
    with pytest.raises(TensorFlow1Error, match="weights holds no .*/adam_m"):
        tensorflow1.load(str(tmp_path / "weights"), *make())


def test_a_file_that_is_no_checkpoint_is_named(tmp_path):
    model, _ = make()
    path = tmp_path / "model.ckpt"
    path.write_text("no checkpoint")
    with pytest.raises(TensorFlow1Error, match="model.ckpt is no checkpoint"):
        tensorflow1.load(str(path), model)
    tf.train.Checkpoint(model=model).write(str(path))
    with pytest.raises(TensorFlow1Error, match="holds no electra/embeddings/word_embeddings"):
        tensorflow1.load(str(path), model)


def test_a_checkpoint_of_another_shape_is_refused_and_changes_nothing():
    config = recorded_config()
    config = dataclasses.replace(
        config, encoder=dataclasses.replace(config.encoder, intermediate_size=64)
    )
    model = electra.Electra(config)
    before = [variable.numpy() for variable in model.variables]
    with pytest.raises(TensorFlow1Error, match=r"intermediate.*shape \[48, 96\].*\[48, 64\]"):
        tensorflow1.load(str(FOLDER / "model.ckpt-0"), model)
    for variable, old in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable, old)


def test_a_tied_generator_has_no_layers_of_its_own(tmp_path):
    """In the original code its layers are those of the scope electra."""
    model = electra.Electra(dataclasses.replace(recorded_config(), untied_generator=False))
    tensorflow1.write(str(tmp_path / "tied"), model)
    written = tensors(str(tmp_path / "tied"))
    assert not any(name.startswith("generator/") for name in written)
    other = electra.Electra(model.config)
    tensorflow1.load(str(tmp_path / "tied"), other)
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one, two)


# --- Found, and told what it is ------------------------------------------------------------------

TINY_BERT = reference.corpus("tiny_checkpoints/keras_bert_tf1")


def original_name(name):
    """What google-research/bert calls a tensor of Hugging Face's, and how it is turned."""
    turned = name.endswith((".dense.weight", "query.weight", "key.weight", "value.weight"))
    name = re.sub(r"layer\.(\d+)", r"layer_\1", name).replace("cls.seq_relationship.", "cls.seq.")
    for theirs, original in {
        "cls.predictions.bias": "cls.predictions.output_bias",
        "cls.seq.weight": "cls.seq_relationship.output_weights",
        "cls.seq.bias": "cls.seq_relationship.output_bias",
        "LayerNorm.weight": "LayerNorm.gamma",
        "LayerNorm.bias": "LayerNorm.beta",
        "_embeddings.weight": "_embeddings",
    }.items():
        name = re.sub(f"{re.escape(theirs)}$", original, name)
    if turned:
        name = name.removesuffix("weight") + "kernel"
    return name.replace(".", "/"), turned


def hugging_face_bert(shape, **options):
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.BertForPreTraining(transformers.BertConfig(**shape, **options))
    with torch.no_grad():
        for parameter in model.parameters():  # large, that activations may tell themselves apart
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def save_original(model, prefix):
    """Writes the tensors of a `BertForPreTraining` as the original code does."""
    named = {}
    for name, tensor in model.state_dict().items():
        if "decoder" not in name and "position_ids" not in name:  # the word embeddings again
            original, turned = original_name(name)
            named[original] = tf.constant(tensor.numpy().T if turned else tensor.numpy())
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(named),
        shape_and_slices=[""] * len(named),
        tensors=list(named.values()),
    )
    return named.keys()


@pytest.fixture
def bert(tmp_path):
    """A BERT of Hugging Face's, and a folder as google-research/bert releases them."""
    model, folder = hugging_face_bert(SHAPE), tmp_path / "bert"
    folder.mkdir()
    save_original(model, folder / "bert_model.ckpt")
    (folder / "bert_config.json").write_text(json.dumps({**SHAPE, "hidden_act": "gelu"}))
    (folder / "vocab.txt").write_text("[PAD]\nthe\n")
    return model, folder


def test_the_names_are_those_of_the_original_bert(tmp_path):
    """For what the other tests write are the names of a checkpoint of that code."""
    prefix = str(TINY_BERT / "bert_model.ckpt")
    shape = json.loads((TINY_BERT / "bert_config.json").read_text())
    shape = {name: value for name, value in shape.items() if name in SHAPE}
    written = save_original(hugging_face_bert(shape), tmp_path / "written")
    theirs = tensors(prefix)
    assert {n for n in theirs if not n.endswith(("adam_m", "adam_v", "global_step"))} == written
    # It says more than the weights: training goes on, but for the next sentence.
    settings = checkpoints.pretraining_config(checkpoints.read_settings(str(TINY_BERT)))
    assert settings.objective == "mlm" and settings.encoder.num_attention_heads == 4
    model, optimizer = MaskedLanguageModel(settings), optimization.Adam(0.0)
    checkpoints.restore_model(str(TINY_BERT), model, optimizer)
    assert int(optimizer.iterations) == theirs["global_step"]
    key = model.encoder.transformer_layers[1].query_key_value.kernel
    name = "bert/encoder/layer_1/attention/self/key/kernel"
    np.testing.assert_array_equal(key[:, 4:8], theirs[name])
    np.testing.assert_array_equal(optimizer.get_slot(key, "v")[:, 4:8], theirs[f"{name}/adam_v"])


def restored(path):
    model = MaskedLanguageModel(checkpoints.pretraining_config(checkpoints.read_settings(path)))
    checkpoints.restore_model(path, model)
    return model


def word_logits(model, theirs):
    """Of random ids, by a model of ours and one of `transformers`."""
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
    """With the exact gelu: with the one of tanh, outputs would be others."""
    theirs, folder = bert
    path = str(folder / "bert_model.ckpt" if as_prefix else folder)
    model = restored(path)
    np.testing.assert_allclose(*word_logits(model, theirs), atol=2e-5)
    other = hugging_face_bert(SHAPE, hidden_act="gelu_new")
    other.load_state_dict(theirs.state_dict())
    ours, expected = word_logits(model, other)
    assert np.abs(ours - expected).max() > 1e-3

    encoder = Encoder(checkpoints.read_encoder_config(path))
    checkpoints.restore_encoder(path, encoder)
    for one, two in zip(encoder.variables, model.encoder.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    assert checkpoints.run_of(path) == str(folder)
    assert checkpoints.newest_weights(path) == str(folder / "bert_model.ckpt")


def test_a_bert_goes_out_and_is_fine_tuned(bert, tmp_path):
    """With the tensors of all heads, and by an encoder alone as by a model to pretrain."""
    import transformers

    theirs, folder = bert
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{i}" for i in range(55))]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    prefix = str(folder / "bert_model.ckpt")
    assert checkpoints.family_of(checkpoints.read_settings(prefix)) == "bert"
    convert.to_hugging_face(prefix, str(tmp_path / "out"))
    again = transformers.BertForPreTraining.from_pretrained(tmp_path / "out")
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name], tensor, name)
    # The pooler, too, comes from there, and from a run that was made of it.
    convert.to_tfbio(prefix, str(tmp_path / "run"))
    expected = theirs.bert.pooler.dense.weight.detach().numpy().T
    for place in (str(folder), prefix, str(tmp_path / "run")):
        pooler = TaskModel(
            checkpoints.read_encoder_config(place), HeadConfig(2, False, text_layer="tanh")
        )
        checkpoints.restore_pooler(place, pooler.pooler)
        np.testing.assert_array_equal(pooler.pooler.kernel, expected)


def test_a_bert_is_a_discriminator_alone(bert):
    """Its encoder becomes the discriminator's; all else stays as it was made."""
    _, folder = bert
    shape = checkpoints.read_encoder_config(str(folder))
    settings = PretrainingConfig(
        encoder=shape, sequence_length=16, generator_hidden_fraction=0.5, generator_warmup_steps=5
    )
    known = {
        **dataclasses.asdict(settings),
        "lower_case": True,
        "vocab_sha256": storage.sha256_of(folder / "vocab.txt"),
    }
    checkpoints.require_same_model(str(folder), known)
    with pytest.raises(UserError, match="holds no generator: give --set generator_warmup_steps=N"):
        checkpoints.require_same_model(str(folder), known | {"generator_warmup_steps": 0})
    model, encoder = electra.Electra(settings), Encoder(shape)
    before = {id(variable): variable.numpy() for variable in model.variables}
    checkpoints.restore_model(str(folder), model)
    checkpoints.restore_encoder(str(folder), encoder)
    for one, two in zip(model.encoder.variables, encoder.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    head = [*model.discriminator_dense.variables, *model.discriminator_output.variables]
    for variable in model.generator_variables + head:
        np.testing.assert_array_equal(variable, before[id(variable)])


def copy_recording(folder, *steps, heads=4):
    """A folder as ELECTRA's code leaves it, and the heads that no tensor tells."""
    folder.mkdir()
    for step in steps:
        for path in FOLDER.glob(f"model.ckpt-{step}.*"):
            shutil.copy(path, folder)
    shutil.copy(FOLDER / "vocab.txt", folder)
    if heads:
        text = json.dumps({"hidden_size": 48, "num_attention_heads": heads})
        (folder / "config.json").write_text(text)
    return folder


def test_an_electra_is_known_by_its_tensors(tmp_path):
    folder = str(copy_recording(tmp_path / "electra", 0, 4))
    expected = recorded_config()
    found = checkpoints.pretraining_config(checkpoints.read_settings(folder))
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    assert dataclasses.replace(found.encoder, **no_dropout) == expected.encoder
    assert dataclasses.replace(found.generator, **no_dropout) == expected.generator
    assert tensorflow1.read_generator(folder) == found.generator
    assert checkpoints.newest_weights(folder) == f"{folder}/model.ckpt-4"
    model, other = electra.Electra(found), electra.Electra(found)
    checkpoints.restore_model(folder, model)
    tensorflow1.load(str(FOLDER / "model.ckpt-4"), other)
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    # Of generator and discriminator, as `transformers` loads them, with the same outputs.
    convert.to_hugging_face(f"{folder}/model.ckpt-0", str(tmp_path / "converted"))
    assert hugging_face.read_generator(str(tmp_path / "converted")).hidden_size == 24


def test_what_cannot_be_known_is_asked_for(tmp_path, bert):
    folder = copy_recording(tmp_path / "electra", 4, heads=0)
    with pytest.raises(TensorFlow1Error, match="48 is no multiple of 64: put a bert_config.json"):
        checkpoints.read_settings(str(folder))
    for path in FOLDER.glob("model.ckpt-4.*"):
        shutil.copy(path, folder / path.name.replace("model", "other"))
    with pytest.raises(TensorFlow1Error, match=r"several checkpoints, model.ckpt and other.ckpt:"):
        checkpoints.read_settings(str(folder))
    _, folder = bert
    for broken in ('{"num_attention_heads": 4', "[]", ""):
        (folder / "bert_config.json").write_text(broken)
        with pytest.raises(TensorFlow1Error, match="bert_config.json is no JSON object: mend it"):
            checkpoints.read_settings(str(folder))
    (folder / "bert_config.json").write_text('{"num_attention_heads": 3}')
    assert checkpoints.read_settings(str(folder))["encoder"]["num_attention_heads"] == 3
    (folder / "bert_config.json").write_text('{"hidden_size": 24, "hidden_act": "relu"}')
    with pytest.raises(TensorFlow1Error, match='has hidden_act = "relu": only "gelu" and'):
        checkpoints.read_settings(str(folder))
    (folder / "vocab.txt").unlink()
    (folder / "bert_config.json").write_text('{"hidden_size": 24, "num_attention_heads": 4}')
    with pytest.raises(UserError, match=r"bert has no vocab.txt,"):
        checkpoints.read_settings(str(folder))
    # Without the step there is nothing to go on with exactly.
    assert not tensorflow1.has_state(str(folder))
    assert tensorflow1.has_state(str(tmp_path / "electra" / "model.ckpt-4"))
    # What TensorFlow 2 wrote is another's.
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "ckpt-1"))
    assert tensorflow1.find(str(tmp_path)) is None and tensorflow1.find(str(tmp_path / "x")) is None


# --- ALBERT --------------------------------------------------------------------------------------

# As google-research/albert's modeling.py and run_pretraining.py name them, by Hugging Face's.
ALBERT_LAYER = {
    "attention.query": "attention_1/self/query",
    "attention.key": "attention_1/self/key",
    "attention.value": "attention_1/self/value",
    "attention.dense": "attention_1/output/dense",
    "attention.LayerNorm": "LayerNorm",
    "ffn": "ffn_1/intermediate/dense",
    "ffn_output": "ffn_1/intermediate/output/dense",
    "full_layer_layer_norm": "LayerNorm_1",
}
ALBERT_REST = {
    "albert.embeddings.word_embeddings": "bert/embeddings/word_embeddings",
    "albert.embeddings.position_embeddings": "bert/embeddings/position_embeddings",
    "albert.embeddings.token_type_embeddings": "bert/embeddings/token_type_embeddings",
    "albert.embeddings.LayerNorm": "bert/embeddings/LayerNorm",
    "albert.encoder.embedding_hidden_mapping_in": "bert/encoder/embedding_hidden_mapping_in",
    "albert.pooler": "bert/pooler/dense",
    "predictions.dense": "cls/predictions/transform/dense",
    "predictions.LayerNorm": "cls/predictions/transform/LayerNorm",
    "sop_classifier.classifier": "cls/seq_relationship",
}


@pytest.fixture
def albert(tmp_path, vocabulary_of_kind):
    """A small model of `transformers`, and its weights in a folder as Google released them."""
    import torch
    import transformers

    shape = {
        "vocab_size": 1500,
        "embedding_size": 12,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 32,
        "type_vocab_size": 2,
    }
    torch.manual_seed(0)
    model = transformers.AlbertForPreTraining(transformers.AlbertConfig(**shape)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    layer = "albert.encoder.albert_layer_groups.0.albert_layers.0."
    original = "bert/encoder/transformer/group_0/inner_group_0/"
    names = {layer + a: original + b for a, b in ALBERT_LAYER.items()} | ALBERT_REST
    named = {"cls/predictions/output_bias": model.predictions.bias.detach().numpy()}
    for theirs, name in names.items():
        module = model.get_submodule(theirs)
        weight = module.weight.detach().numpy()
        if "embeddings/" in name and "LayerNorm" not in name:
            named[name] = weight
            continue
        bias = module.bias.detach().numpy()
        if name == "cls/seq_relationship":
            named |= {f"{name}/output_weights": weight, f"{name}/output_bias": bias}
        elif "LayerNorm" in name:
            named |= {f"{name}/gamma": weight, f"{name}/beta": bias}
        else:
            named |= {f"{name}/kernel": weight.T, f"{name}/bias": bias}
    folder = tmp_path / "albert"
    folder.mkdir()
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt-best"),
        tensor_names=list(named),
        shape_and_slices=[""] * len(named),
        tensors=list(named.values()),
    )
    # It calls the form with tanh gelu.
    (folder / "albert_config.json").write_text(json.dumps({**shape, "hidden_act": "gelu"}))
    shutil.copy(vocabulary_of_kind["albert"], folder / "30k-clean.model")
    return model, folder


def test_an_albert_gives_what_transformers_gives(albert, tmp_path):
    import transformers

    theirs, folder = albert
    settings = checkpoints.read_settings(str(folder))
    assert settings["lower_case"] and settings["sentence_pair_head"]
    convert.to_tfbio(str(folder), str(tmp_path / "run"))
    convert.to_hugging_face(str(folder), str(tmp_path / "out"))
    again = transformers.AlbertForPreTraining.from_pretrained(tmp_path / "out").eval()
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name], tensor, name)

    np.testing.assert_allclose(*word_logits(restored(str(tmp_path / "run")), theirs), atol=2e-5)


def test_settings_of_another_model_are_refused(tmp_path):
    folder = copy_recording(tmp_path / "electra", 4)
    wanted = recorded_config()
    other = dataclasses.replace(wanted.encoder, num_attention_heads=6)
    settings = dataclasses.replace(wanted, encoder=other)
    with pytest.raises(TensorFlow1Error, match="encoder.num_attention_heads = 4, not 6: give"):
        tensorflow1.write_run(str(folder), str(tmp_path / "run"), settings)


def test_an_albert_without_its_settings_is_refused(albert):
    _, folder = albert
    path = folder / "albert_config.json"
    stated = json.loads(path.read_text())
    for change in ({"hidden_act": "relu"}, {"num_hidden_groups": 2}, {"inner_group_num": 2}):
        path.write_text(json.dumps(stated | change))
        (name,) = change
        with pytest.raises(TensorFlow1Error, match=f"has {name} = "):
            checkpoints.read_settings(str(folder))
    path.unlink()
    with pytest.raises(TensorFlow1Error, match=r"how often its one layer is used: put its albert_"):
        checkpoints.read_settings(str(folder))


def test_a_damaged_checkpoint_is_named(tmp_path):
    folder = tmp_path / "bert"
    shutil.copytree(TINY_BERT, folder)
    data = folder / "bert_model.ckpt.data-00000-of-00001"
    whole = data.read_bytes()
    settings = checkpoints.pretraining_config(checkpoints.read_settings(str(folder)))
    for damaged in (whole[: len(whole) // 2], b"", whole[:100] + b"\0" * 50 + whole[150:]):
        data.write_bytes(damaged)
        model = MaskedLanguageModel(settings)
        before = [variable.numpy() for variable in model.variables]
        with pytest.raises(TensorFlow1Error, match="is damaged or not complete"):
            checkpoints.restore_model(str(folder), model)
        for variable, value in zip(model.variables, before, strict=True):
            np.testing.assert_array_equal(variable, value)


# --- The user's way ------------------------------------------------------------------------------


@pytest.mark.slow
def test_run_pretraining_goes_on_where_the_original_code_was(documents_folder, cpu, tmp_path):
    """`convert`, then `pretrain`; and as if all steps had been ours."""
    made = {"sequence_length": 32, "held_out_fraction": 0.2, "shards": 1, "workers": 1}
    data = tmp_path / "examples"
    examples.make_examples(documents_folder, FOLDER / "vocab.txt", data, **made)
    run = PretrainingRun(
        save_checkpoints_steps=2, keep_checkpoint_max=9, steps_per_loop=2, num_eval_batches=1
    )
    settings = dataclasses.replace(recorded_config(), run=run)

    # Four steps of ours, on the recorded batches.
    model, optimizer = make()
    tensorflow1.load(str(FOLDER / "model.ckpt-0"), model, optimizer)
    recording = Recording()
    for step in range(4):
        train(model, optimizer, recording, step, step)
    (tmp_path / "ours").mkdir()
    shutil.copy(FOLDER / "vocab.txt", tmp_path / "ours")
    tensorflow1.write(str(tmp_path / "ours" / "model.ckpt-4"), model, optimizer)
    assert tensorflow1.write_run(str(tmp_path / "ours"), str(tmp_path / "a"), settings) == 4

    # Four steps of the original code.
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfbio.convert", "--format=tfbio"),
            *(f"--from={FOLDER}/model.ckpt-4", f"--to={tmp_path}/b"),
            f"--hparams={json.dumps(dataclasses.asdict(settings))}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "goes on at step 4" in done.stdout, done.stderr
    for folder in ("a", "b"):
        pretraining.pretrain(settings, [str(data)], str(tmp_path / folder), cpu)
    ours, theirs = electra.Electra(settings), electra.Electra(settings)
    for folder, model in (("a", ours), ("b", theirs)):
        tree = tf.train.Checkpoint(model=model)
        tree.read(str(tmp_path / folder / "ckpt-6")).expect_partial()
    for one, two in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)

    # And nothing of the original state was lost on the way.
    trainer = Pretrainer(settings, load_fast_tokenizer(FOLDER / "vocab.txt"), cpu)
    tensorflow1.load(str(FOLDER / "model.ckpt-4"), trainer.model, trainer.optimizer)
    manifest = read_manifest(data, "examples")
    trainer.train_dataset = distribution.distribute_dataset(
        cpu,
        lambda _: pretraining_data.training_dataset(str(data), manifest, 4, settings.seed, 4, 20),
    )
    trainer.train(tf.constant(2))
    for one, two in zip(trainer.model.variables, theirs.variables, strict=True):
        np.testing.assert_array_equal(one, two)
    # With other weights, or another step, it would not be so.
    assert (ours.variables[0].numpy() != model_at(4).variables[0].numpy()).any()

    # As --init_checkpoint it gives the weights alone: too small a rate moves none.
    folder = str(copy_recording(tmp_path / "electra", 4))
    still = dataclasses.replace(settings, learning_rate=1e-30, num_train_steps=2)
    start = f"{folder}/model.ckpt-4"
    pretraining.pretrain(still, [str(data)], str(tmp_path / "c"), cpu, init_checkpoint=start)
    after = electra.Electra(settings)
    checkpoints.restore_model(str(tmp_path / "c"), after)
    for one, two in zip(after.variables, model_at(4).variables, strict=True):
        np.testing.assert_array_equal(one, two)


def model_at(step):
    model, _ = make()
    tensorflow1.load(str(FOLDER / f"model.ckpt-{step}"), model)
    return model
