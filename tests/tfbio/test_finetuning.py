"""Fine-tuning on real labelled sentences, with a small encoder that was pretrained a little."""

import dataclasses
import json
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from data_prep import sentence_roles
from tfbio import checkpoints, config, finetuning, pretraining, records, tokenization
from tfbio.cli import UserError

SETTINGS = config.FinetuningConfig(
    sequence_length=32,
    train_batch_size=16,
    num_train_epochs=1.0,
    max_train_examples=64,
    learning_rate=1e-3,
    num_trials=2,
)


@pytest.fixture(scope="module")
def cpu():
    return tf.distribute.OneDeviceStrategy("/cpu:0")


@pytest.fixture(scope="module")
def pretrained(examples_folder, cpu, tmp_path_factory):
    """The folder of a pretraining run of two steps."""
    words = records.read_manifest(examples_folder, "examples").settings["vocab_size"]
    settings = config.PretrainingConfig(
        encoder=config.EncoderConfig(
            vocab_size=words,
            embedding_size=32,
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=96,
            max_position_embeddings=64,
        ),
        generator_hidden_fraction=0.5,
        sequence_length=64,
        train_batch_size=8,
        num_train_steps=2,
        num_warmup_steps=1,
        run=config.PretrainingRun(num_eval_batches=1),
    )
    folder = str(tmp_path_factory.mktemp("pretrained") / "model")
    pretraining.pretrain(settings, [str(examples_folder)], folder, cpu)
    return folder


@pytest.fixture(scope="module")
def roles_folder(documents_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles") / "sentence_roles"
    sentence_roles.make_sentence_roles(documents_folder, folder, held_out_fraction=0.3)
    return str(folder)


@pytest.fixture(scope="module")
def run(roles_folder, pretrained, cpu):
    """Fine-tunes into a folder."""

    def finetune(output_dir, settings=SETTINGS, **changes):
        arguments = {
            "task_name": "sentence_roles",
            "data_dir": roles_folder,
            "init_checkpoint": pretrained,
            "output_dir": str(output_dir),
            "strategy": cpu,
        }
        return finetuning.finetune(settings, **{**arguments, **changes})

    return finetune


@pytest.fixture(scope="module")
def finished(run, tmp_path_factory):
    """The folder of an undisturbed run with the seeds 0 and 1."""
    folder = tmp_path_factory.mktemp("finetuned") / "out"
    run(folder)
    return folder


def weights(trial):
    reader = tf.train.load_checkpoint(str(trial / "model"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if "OBJECT_GRAPH" not in name and name != "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
    }


def assert_same_weights(one, other):
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys() and len(one) > 10
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


# --- Layer-wise learning rates -----------------------------------------------------------------


def test_the_papers_learning_rate_of_the_embeddings():
    # BioELECTRA, section 4.2: 1e-4 with decay 0.8 and 12 layers is 5.5e-6 at the embeddings.
    assert 1e-4 * finetuning.layer_multiplier(0, 12, 0.8, "bioelectra") == pytest.approx(
        5.5e-6, abs=5e-8
    )


def test_both_conventions_at_the_ends():
    for exponent, embeddings, lowest, top in (("electra", 14, 13, 2), ("bioelectra", 13, 12, 1)):
        for depth, power in ((0, embeddings), (1, lowest), (12, top)):
            share = finetuning.layer_multiplier(depth, 12, 0.8, exponent)
            assert share == pytest.approx(0.8**power)


@pytest.mark.parametrize("devices", ["cpu", "two_devices"])
def test_every_variable_gets_the_share_of_its_layer(devices, pretrained, request):
    strategy = request.getfixturevalue(devices)
    encoder_config = checkpoints.read_encoder_config(pretrained)
    finetuner = finetuning.Finetuner(SETTINGS, encoder_config, 5, 4, strategy)
    share, encoder = finetuner.optimizer.lr_multiplier, finetuner.model.encoder
    # Two layers, decay 0.8: embeddings 0.8^3, layers 0.8^2 and 0.8^1, the head 1.
    for module, expected in (
        (encoder.embeddings, 0.8**3),
        (encoder.projection, 0.8**3),
        (encoder.transformer_layers[0], 0.8**2),
        (encoder.transformer_layers[1], 0.8),
        (finetuner.model.head, 1.0),
    ):
        assert module.trainable_variables
        for variable in module.trainable_variables:
            for copy in strategy.experimental_local_results(variable):
                assert share(copy) == pytest.approx(expected), variable.name


# --- Features and order ------------------------------------------------------------------------


def test_encodes_cuts_and_pads(vocab_file):
    vocab = tokenization.read_vocab(vocab_file)
    tokenizer = tokenization.wordpiece(vocab)
    text = "The patients were treated."
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    cls_id, sep_id, pad_id = vocab["[CLS]"], vocab["[SEP]"], vocab["[PAD]"]
    length = len(ids) + 4
    features = finetuning.encode([text, text * 9], tokenizer, vocab, length)
    assert features["input_ids"][0].tolist() == [cls_id, *ids, sep_id, pad_id, pad_id]
    assert features["input_mask"][0].tolist() == [1] * (len(ids) + 2) + [0, 0]
    long = tokenizer.encode(text * 9, add_special_tokens=False).ids
    assert features["input_ids"][1].tolist() == [cls_id, *long[: length - 2], sep_id]
    assert features["lengths"].tolist() == [len(ids) + 2, len(long) + 2]
    assert not features["segment_ids"].any() and features["segment_ids"].shape == (2, length)


def test_every_epoch_is_a_new_order_of_all_examples():
    order = finetuning.training_order(50, 0, num_steps=10, batch_size=10, seed=3)
    first, second = order[:50], order[50:]
    assert sorted(first) == sorted(second) == list(range(50))
    assert first.tolist() != second.tolist()
    again = finetuning.training_order(50, 0, num_steps=10, batch_size=10, seed=3)
    np.testing.assert_array_equal(order, again)
    other = finetuning.training_order(50, 0, num_steps=10, batch_size=10, seed=4)
    assert order.tolist() != other.tolist()


def test_a_part_of_the_examples_is_drawn_by_the_seed():
    parts = [set(finetuning.training_order(100, 20, 4, 10, seed)) for seed in (0, 0, 1)]
    assert [len(part) for part in parts] == [20, 20, 20]
    assert parts[0] == parts[1] != parts[2]


# --- Learning and predicting -------------------------------------------------------------------


@pytest.fixture(scope="module")
def learner(pretrained, roles_folder, cpu):
    """A Finetuner without dropout, real features, and what it logged in 150 steps."""
    settings = dataclasses.replace(
        SETTINGS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, learning_rate=3e-3
    )
    encoder_config = checkpoints.read_encoder_config(pretrained)
    vocab = tokenization.read_vocab(os.path.join(pretrained, "vocab.txt"))
    task = finetuning.find("sentence_roles")
    examples = task.examples(roles_folder, "train")[:41]
    tokenizer = tokenization.wordpiece(vocab)
    features = finetuning.encode([x.text for x in examples], tokenizer, vocab, 32)
    del features["lengths"]
    features["label"] = np.array([task.labels.index(x.label) for x in examples], np.int32)
    finetuner = finetuning.Finetuner(settings, encoder_config, 5, 150, cpu)
    finetuner.initialize(0, pretrained)
    logged = []
    order = finetuning.training_order(41, 0, 150, 16, seed=0)
    finetuner.train(features, order, 0, lambda *figures: logged.append(figures))
    return finetuner, features, logged


def test_learns_the_examples_it_is_given(learner):
    finetuner, features, logged = learner
    assert [step for step, _, _ in logged] == [50, 100, 150]
    losses = [loss for _, loss, _ in logged]
    assert losses[0] > losses[1] > losses[2] and losses[2] < 0.3
    assert np.mean(finetuner.predict(features) == features["label"]) > 0.9


def test_predictions_are_in_the_order_of_the_examples(learner):
    # 41 examples do not fill batches of 64; the model itself says what is right.
    finetuner, features, _ = learner
    inputs = {k: tf.constant(v) for k, v in features.items()}
    expected = tf.argmax(finetuner.model(inputs), axis=-1).numpy()
    assert len(set(expected)) > 1
    np.testing.assert_array_equal(finetuner.predict(features), expected)


def test_the_seed_keys_dropout(learner, pretrained):
    _, features, _ = learner
    inputs = {k: tf.constant(v) for k, v in features.items()}
    model = finetuning.Classifier(checkpoints.read_encoder_config(pretrained), 5, 0.1)
    one, same, other = (model(inputs, seed=tf.constant([0, n])) for n in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3
    np.testing.assert_array_equal(model(inputs), model(inputs))


def test_starts_from_the_pretrained_weights(learner, pretrained):
    finetuner, _, _ = learner
    finetuner.initialize(0, pretrained)
    reader = tf.train.load_checkpoint(pretrained)
    name = "model/encoder/embeddings/word_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
    saved = reader.get_tensor(name)
    np.testing.assert_array_equal(finetuner.model.encoder.embeddings.word, saved)
    heads = [finetuner.model.head.kernel.numpy()]
    finetuner.initialize(1, pretrained)
    heads.append(finetuner.model.head.kernel.numpy())
    assert np.abs(heads[0] - heads[1]).max() > 1e-3
    # Not seed 0: pretraining drew its first weights by it.
    finetuner.initialize(5, "")
    assert np.abs(finetuner.model.encoder.embeddings.word.numpy() - saved).max() > 1e-3
    assert int(finetuner.optimizer.iterations) == 0


def test_a_loss_that_is_no_number_stops_the_run(learner, pretrained):
    finetuner, features, _ = learner
    finetuner.initialize(0, pretrained)
    finetuner.model.head.kernel.assign(finetuner.model.head.kernel * np.nan)
    order = finetuning.training_order(41, 0, 150, 16, seed=0)
    with pytest.raises(UserError, match=r"the loss is nan at step 50 of seed 0.*learning_rate"):
        finetuner.train(features, order, 0, lambda *figures: None)


def test_two_devices_learn_what_one_does(learner, pretrained, two_devices):
    """Without dropout the devices of a step see halves of the same batch: the same sum."""
    finetuner, features, _ = learner
    settings, order = finetuner.config, finetuning.training_order(41, 0, 150, 16, seed=0)[: 4 * 16]
    both = finetuning.Finetuner(
        settings, checkpoints.read_encoder_config(pretrained), 5, 150, two_devices
    )
    for each in (finetuner, both):
        each.initialize(0, pretrained)
        each.train(features, order, 0, lambda *figures: None)
    for one, two in zip(
        finetuner.model.trainable_variables, both.model.trainable_variables, strict=True
    ):
        np.testing.assert_allclose(one.numpy(), two.numpy(), atol=2e-4, err_msg=one.name)
    np.testing.assert_array_equal(both.predict(features), finetuner.predict(features))


# --- The run -----------------------------------------------------------------------------------


def test_writes_what_the_docstring_says(finished, roles_folder):
    scores = json.loads((finished / "scores.json").read_text())
    assert (scores["task"], scores["metric"]) == ("sentence_roles", "accuracy")
    assert [trial["seed"] for trial in scores["trials"]] == [0, 1]
    values = [trial["test"]["accuracy"] for trial in scores["trials"]]
    assert scores["mean"] == pytest.approx(np.mean(values))
    assert scores["std"] == pytest.approx(np.std(values, ddof=1))
    settings = json.loads((finished / "config.json").read_text())
    assert settings["learning_rate"] == 1e-3 and settings["task"] == "sentence_roles"
    test_set = finetuning.find("sentence_roles").examples(roles_folder, "test")
    for trial in scores["trials"]:
        folder = finished / f"trial_{trial['seed']}"
        text = (folder / "test_predictions.tsv").read_text(encoding="utf-8")
        rows = [row.split("\t") for row in text.split("\n")[1:-1]]
        assert [(row[0], row[1], row[3]) for row in rows] == [
            (x.id, x.label, x.text) for x in test_set
        ]
        right = np.mean([label == predicted for _, label, predicted, _ in rows])
        assert trial["test"]["accuracy"] == pytest.approx(right)
        assert os.listdir(finished / "logs" / f"trial_{trial['seed']}")
    assert not list(finished.glob("*.unfinished")) and not list(finished.glob("*.tmp"))


def test_a_trial_does_not_depend_on_those_before_it(finished, run, tmp_path):
    alone = dataclasses.replace(SETTINGS, seed=1, num_trials=1)
    scores = run(tmp_path / "alone", alone)
    assert scores["std"] is None
    assert_same_weights(finished / "trial_1", tmp_path / "alone" / "trial_1")
    before = json.loads((finished / "trial_1" / "scores.json").read_text())
    assert scores["trials"][0]["test"] == before["test"]


def test_an_interrupted_run_continues_with_the_trial_that_is_missing(
    finished, run, tmp_path, capsys
):
    folder = tmp_path / "out"
    shutil.copytree(finished, folder)
    (folder / "trial_1").rename(folder / "trial_1.unfinished")
    (folder / "scores.json").unlink()
    kept = (folder / "trial_0" / "scores.json").stat().st_mtime_ns
    run(folder)
    said = capsys.readouterr().out
    assert re.search(r"trial_0 is complete and is reused", said) and "of 1 seed(s)" in said
    assert (folder / "trial_0" / "scores.json").stat().st_mtime_ns == kept
    assert_same_weights(finished / "trial_1", folder / "trial_1")
    assert not (folder / "trial_1.unfinished").exists()


def test_a_finished_run_is_only_summed_up_again(finished, run, capsys):
    before = (finished / "scores.json").read_bytes()
    run(finished)
    assert capsys.readouterr().out.count("is reused") == 2
    assert (finished / "scores.json").read_bytes() == before


def test_other_settings_are_refused_and_replace_when_told_to(finished, run, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(finished, folder)
    other = dataclasses.replace(SETTINGS, learning_rate=2e-3, num_trials=1)
    with pytest.raises(UserError, match=r"learning_rate = 0\.001, now it is 0\.002.*--overwrite"):
        run(folder, other)
    with pytest.raises(UserError, match="from_scratch"):
        run(folder, from_scratch=True)
    assert (folder / "trial_0" / "scores.json").exists()
    scores = run(folder, other, overwrite=True)
    assert len(scores["trials"]) == 1 and not (folder / "trial_1").exists()


def test_random_weights_give_another_run(finished, run, tmp_path):
    scores = run(tmp_path / "out", from_scratch=True)
    assert scores["init"] == "random weights"
    one, other = weights(finished / "trial_0"), weights(tmp_path / "out" / "trial_0")
    assert one.keys() == other.keys()
    assert any(np.abs(one[name] - other[name]).max() > 1e-3 for name in one)


# --- Mistakes ----------------------------------------------------------------------------------


def test_what_does_not_fit_is_named_and_leaves_nothing(run, pretrained, two_devices, tmp_path):
    output = tmp_path / "out"
    with pytest.raises(UserError, match="sequence_length 128 .* 64 positions"):
        run(output, dataclasses.replace(SETTINGS, sequence_length=128))
    with pytest.raises(UserError, match="train_batch_size 15 does not divide by 2"):
        run(output, dataclasses.replace(SETTINGS, train_batch_size=15), strategy=two_devices)
    with pytest.raises(UserError, match="nowhere holds no config.json"):
        run(output, init_checkpoint=str(tmp_path / "nowhere"))

    model = tmp_path / "model"
    shutil.copytree(pretrained, model)
    with open(model / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("onemoretoken\n")
    with pytest.raises(UserError, match=r"vocab\.txt has \d+ tokens"):
        run(output, init_checkpoint=str(model))
    shutil.copyfile(os.path.join(pretrained, "vocab.txt"), model / "vocab.txt")
    for checkpoint in (*model.glob("ckpt-*"), model / "checkpoint"):
        checkpoint.unlink()
    with pytest.raises(UserError, match="holds no checkpoint"):
        run(output, init_checkpoint=str(model))
    assert not output.exists()


def test_a_checkpoint_of_another_shape_is_named(run, pretrained, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(pretrained, model)
    settings = json.loads((model / "config.json").read_text())
    settings["encoder"]["hidden_size"] = 64
    (model / "config.json").write_text(json.dumps(settings))
    with pytest.raises(checkpoints.CheckpointError, match="does not fit an encoder"):
        run(tmp_path / "out", init_checkpoint=str(model))
    assert not (tmp_path / "out" / "scores.json").exists()
