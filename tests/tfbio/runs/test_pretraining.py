"""Pretraining runs, on real examples and with small models."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from data_prep import examples
from data_prep.running import pipeline
from tests import emulated_tpu
from tests.pretraining_runs import eagerly, of_one_layer, scalars, small_settings, weights
from tfbio.base.errors import DataError, Interrupted, UsageError, UserError
from tfbio.export import conversion
from tfbio.models import encoder as encoders
from tfbio.objectives.adversarial_config import AdversarialSettings
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.runs import pretraining, pretraining_folder
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.training import distribution, optimization
from tfbio.weights import checkpoint_settings, checkpoint_weights, same_model

pytestmark = pytest.mark.usefixtures("pretraining_traced_once")
ONE_WORKER = pipeline.Runner(workers=1)


@pytest.fixture(scope="module")
def settings(examples_folder):
    """Returns the settings of a small run, whose encoder has one layer."""
    return of_one_layer(small_settings(examples_folder))


@pytest.fixture(scope="module")
def finished(settings, examples_folder, cpu, tmp_path_factory):
    """The folder of an undisturbed run of 8 steps."""
    folder = str(tmp_path_factory.mktemp("pretrained") / "model")
    pretraining.pretrain(settings, [str(examples_folder)], folder, cpu)
    return folder


def test_writes_all_that_later_stages_read(finished, settings, examples_folder):
    written = json.loads(Path(finished, "config.json").read_text())
    assert written["encoder"] == dataclasses.asdict(settings.encoder)
    assert written["lower_case"] is True
    vocab = Path(finished, "vocab.txt").read_bytes()
    assert vocab == (examples_folder / "vocab.txt").read_bytes()
    assert tf.train.latest_checkpoint(finished).endswith("ckpt-8")


def test_logs_finite_curves(finished):
    for part, steps in (("train", [2, 4, 6, 8]), ("heldout", [4, 8])):
        curves = scalars(finished, part)
        for tag in ("loss", "generator_loss", "generator_accuracy", "discriminator_auc"):
            assert [step for step, _ in curves[tag]] == steps
            assert np.isfinite([value for _, value in curves[tag]]).all(), part
    curves = scalars(finished, "train")
    assert curves["generator_loss"][-1][1] < curves["generator_loss"][0][1]


RESUMED = {
    "roberta": (
        {
            "objective": "mlm",
            "mask_unit": "ngram",
            "adam_bias_correction": True,
            "decay_all": True,
            "max_gradient_norm": 0.0,
        },
        "examples_folder",
    ),
    "sentence_pairs_and_lamb": (
        {
            "objective": "mlm",
            "sentence_pair_head": True,
            "sentence_pair_loss": True,
            "adversarial": AdversarialSettings(weight=10.0),
            "optimizer": "lamb",
            "lamb_bias_correction": False,
        },
        "pairs_folder",
    ),
}


@pytest.mark.parametrize(("changes", "folder"), RESUMED.values(), ids=RESUMED)
def test_a_run_that_stopped_continues_with_the_same_weights(
    changes, folder, settings, request, cpu, tmp_path
):
    settings = dataclasses.replace(settings, **changes)
    examples_folder = request.getfixturevalue(folder)
    finished = str(tmp_path / "finished")
    pretraining.pretrain(settings, [str(examples_folder)], finished, cpu)
    stopped = str(tmp_path / "model")
    shutil.copytree(finished, stopped)
    for path in Path(stopped).glob("ckpt-8*"):
        path.unlink()
    newest = max(int(path.stem[5:]) for path in Path(stopped).glob("ckpt-*.index"))
    assert 0 < newest < 8
    Path(stopped, "checkpoint").write_text(f'model_checkpoint_path: "ckpt-{newest}"\n')

    pretraining.pretrain(settings, [str(examples_folder)], stopped, cpu)
    expected, continued = weights(finished), weights(stopped)
    assert expected.keys() == continued.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(continued[name], value, err_msg=name)
    for part in ("train", "heldout"):
        curves = scalars(finished, part)
        assert ("sentence_pair_balanced_accuracy" in curves) == ("sentence_pair_loss" in changes), (
            part
        )
        # What is logged of the steps that both took is the same, too.
        for tag, values in scalars(stopped, part).items():
            if "per_second" not in tag and tag != "share_of_peak":
                assert values[-1] == curves[tag][-1], tag


def test_a_run_that_stops_early_has_the_weights_of_that_step_and_continues(
    finished, settings, examples_folder, cpu, tmp_path, capsys
):
    run = dataclasses.replace(settings.run, stop_at_step=4)
    stopped = dataclasses.replace(settings, run=run)
    folder = str(tmp_path / "model")
    pretraining.pretrain(stopped, [str(examples_folder)], folder, cpu)
    assert tf.train.latest_checkpoint(folder).endswith("ckpt-4")
    whole, early = (tf.train.load_checkpoint(os.path.join(x, "ckpt-4")) for x in (finished, folder))
    for name in weights(folder):
        np.testing.assert_array_equal(early.get_tensor(name), whole.get_tensor(name), err_msg=name)
    said = capsys.readouterr().out
    assert "the run ends at step 4" in said and "step 4/4 |" in said and "done:" in said
    pretraining.pretrain(stopped, [str(examples_folder)], folder, cpu)
    assert "complete, 4 steps were trained before" in capsys.readouterr().out
    pretraining.pretrain(settings, [str(examples_folder)], folder, cpu)
    expected, continued = weights(finished), weights(folder)
    assert expected.keys() == continued.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(continued[name], value, err_msg=name)


def test_a_trace_is_of_the_steps_asked_for(
    finished, settings, examples_folder, cpu, tmp_path, capsys
):
    """A loop ends before the first and after the last, and the run is the same."""
    folder = str(tmp_path / "model")
    run = dataclasses.replace(settings.run, steps_per_loop=4)
    settings = dataclasses.replace(settings, run=run)
    pretraining.pretrain(settings, [str(examples_folder)], folder, cpu, profile_steps=(2, 3))
    (trace,) = Path(folder, "logs").glob("plugins/profile/*/*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    names = [
        plane.event_metadata[event.metadata_id].name
        for plane in space.planes
        for line in plane.lines
        for event in line.events
    ]
    assert names.count("IteratorGetNextOp::DoCompute") == 2  # one for each step
    assert "no trace" not in capsys.readouterr().out
    assert [step for step, _ in scalars(folder, "train")["loss"]] == [1, 3, 4, 8]
    expected, found = weights(finished), weights(folder)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_a_trace_of_steps_that_were_done_before_is_not_promised(
    finished, settings, examples_folder, cpu, tmp_path, capsys
):
    folder = str(tmp_path / "model")
    shutil.copytree(finished, folder)
    for path in Path(folder).glob("ckpt-8*"):
        path.unlink()
    Path(folder, "checkpoint").write_text('model_checkpoint_path: "ckpt-4"\n')
    pretraining.pretrain(settings, [str(examples_folder)], folder, cpu, profile_steps=(4, 6))
    assert "step 4 of --profile_steps was done before: no trace" in capsys.readouterr().out
    assert not list(Path(folder, "logs").glob("plugins/**/*.pb"))


def test_a_tpu_is_compiled_for_and_what_it_loses_goes_on(
    settings, examples_folder, tmp_path, monkeypatch, capsys
):
    """The real strategy; in place of its first loop of steps what is raised when it is lost."""
    tpu = emulated_tpu.make_strategy(2)

    def lost(*_):
        raise tf.errors.UnavailableError(None, None, "Socket closed")

    monkeypatch.setattr(pretraining, "_train_phase", lost)
    ends = pytest.raises(Interrupted, match=r"the TPU was lost \(Socket closed\)")
    with ends, distribution.interruptions(tpu):
        pretraining.pretrain(settings, [str(examples_folder)], str(tmp_path / "model"), tpu)
    said = capsys.readouterr().out.splitlines()
    assert (
        said[-2] == "compiling the training step ..." and " on 2 device(s) in bfloat16" in said[0]
    )


def test_a_finished_run_is_left_as_it_is(finished, settings, examples_folder, cpu, capsys):
    before = os.path.getmtime(f"{finished}/ckpt-8.index")
    pretraining.pretrain(settings, [str(examples_folder)], finished, cpu)
    assert "complete, 8 steps were trained before" in capsys.readouterr().out
    assert os.path.getmtime(f"{finished}/ckpt-8.index") == before


def test_other_settings_in_the_same_folder_are_refused(finished, settings, examples_folder, cpu):
    other = dataclasses.replace(settings, learning_rate=5e-4)
    with pytest.raises(UserError, match="learning_rate = 0.001, these settings say 0.0005"):
        pretraining.pretrain(other, [str(examples_folder)], finished, cpu)


def test_more_steps_than_a_run_had_are_another_run(
    finished, settings, examples_folder, cpu, tmp_path
):
    """The message says how to train on, and that works."""
    more = dataclasses.replace(settings, num_train_steps=10)
    with pytest.raises(UserError) as caught:
        pretraining.pretrain(more, [str(examples_folder)], finished, cpu)
    said = str(caught.value)
    assert "the learning rate of this run falls to 0 at its step 8: let it end" in said
    assert "num_train_steps=2, another --set" in said and said.endswith(f"checkpoint={finished}.")
    further, folder = dataclasses.replace(settings, num_train_steps=2), str(tmp_path / "further")
    with eagerly():
        pretraining.pretrain(further, [str(examples_folder)], folder, cpu, init_checkpoint=finished)
    assert pretraining_folder.what_is_saved(folder).startswith("step 2 is saved")
    assert pretraining_folder.what_is_saved(str(tmp_path)).startswith("no step is saved")


def test_starts_with_the_weights_of_another_run(finished, settings, examples_folder, cpu, tmp_path):
    folder = str(tmp_path / "continual")
    # So small a rate moves no weight, so they are those of the other run.
    settings = dataclasses.replace(
        settings, num_train_steps=2, learning_rate=1e-30, frequency_biases=True
    )
    arguments = (settings, [str(examples_folder)], folder, cpu)
    with eagerly():
        pretraining.pretrain(*arguments, init_checkpoint=finished)
    before, after = weights(finished), weights(folder)
    for name, value in before.items():
        if name.startswith("model/") and "OPTIMIZER_SLOT" not in name:
            np.testing.assert_array_equal(after[name], value, name)
    with pytest.raises(UserError, match="holds a run with init_checkpoint = "):
        pretraining.pretrain(*arguments)


def test_another_runs_weights_must_fit(finished, settings, examples_folder, cpu, tmp_path):
    folder, start = str(tmp_path / "model"), str(tmp_path / "start")
    # The last two would load: no weight has another shape for them.
    for changed in (
        {"generator_hidden_fraction": 1.0},
        {"encoder": dataclasses.replace(settings.encoder, num_attention_heads=2)},
        {"encoder": dataclasses.replace(settings.encoder, num_hidden_layers=2)},
    ):
        other = dataclasses.replace(settings, **changed)
        with pytest.raises(UserError, match="holds another model than the settings ask for: its "):
            pretraining.pretrain(other, [str(examples_folder)], folder, cpu, finished)
    shutil.copytree(finished, start)
    path = Path(start, "config.json")
    path.write_text(path.read_text().replace('"vocab_sha256": "', '"vocab_sha256": "0'))
    with pytest.raises(UserError, match="trained with another vocabulary than that of"):
        pretraining.pretrain(settings, [str(examples_folder)], folder, cpu, start)
    assert not Path(folder).exists()


def test_a_failed_start_binds_nothing(settings, examples_folder, cpu, tmp_path, monkeypatch):
    folder = str(tmp_path / "model")
    too_large = dataclasses.replace(settings, train_batch_size=4096)
    with pytest.raises(UserError, match="fewer than one batch of 4096"):
        pretraining.pretrain(too_large, [str(examples_folder)], folder, cpu)
    assert not Path(folder).exists()
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(pretraining, "_train", lambda *_: 1 / 0)
        pretraining.pretrain(settings, [str(examples_folder)], folder, cpu)
    assert Path(folder, "config.json").exists()
    short = dataclasses.replace(settings, num_train_steps=2)
    with eagerly():
        pretraining.pretrain(short, [str(examples_folder)], folder, cpu)
    assert tf.train.latest_checkpoint(folder).endswith("ckpt-2")


@pytest.fixture(scope="module")
def longer(documents_folder, examples_folder, tmp_path_factory):
    """Examples of 96 tokens, as those of `examples_folder` have 64."""
    folder = tmp_path_factory.mktemp("longer") / "examples_96"
    vocab = examples_folder / "vocab.txt"
    made = examples.ExampleSettings(sequence_length=96, held_out_fraction=0.2)
    examples.make_examples(documents_folder, vocab, folder, made, runner=ONE_WORKER)
    return folder


def test_two_phases(settings, examples_folder, longer, cpu, tmp_path):
    encoder = dataclasses.replace(settings.encoder, max_position_embeddings=96)
    both = dataclasses.replace(
        settings,
        objective="mlm",
        encoder=encoder,
        final_sequence_length=96,
        final_phase_fraction=0.25,
    )
    assert both.phases() == [(64, 0, 6), (96, 6, 8)]
    with pytest.raises(UserError, match=r"of length 96, but --examples gives \[64\]"):
        pretraining.pretrain(both, [str(examples_folder)], str(tmp_path / "model"), cpu)
    folder = str(tmp_path / "model")
    pretraining.pretrain(both, [str(longer), str(examples_folder)], folder, cpu)
    assert tf.train.latest_checkpoint(folder).endswith("ckpt-8")
    trained = encoders.Encoder(encoder)
    checkpoint_weights.restore_encoder(folder, trained)
    vocab = load_fast_tokenizer(examples_folder / "vocab.txt")
    start = Pretrainer(both, vocab, cpu).model.encoder
    moved = trained.embeddings.position.numpy() != start.embeddings.position.numpy()
    assert moved[:64].all() and moved[64:].any(axis=1).all()


def test_a_second_run_takes_over_the_weights_and_nothing_else(
    settings, examples_folder, longer, cpu, tmp_path, monkeypatch
):
    """As the authors' second phase: optimizer, step and warm-up begin anew."""
    encoder = dataclasses.replace(settings.encoder, max_position_embeddings=96)
    first = dataclasses.replace(settings, encoder=encoder, num_train_steps=2)
    folder = str(tmp_path / "first")
    with eagerly():
        pretraining.pretrain(first, [str(examples_folder)], folder, cpu)
    shared, own = shared_and_own(first, f"{folder}/ckpt-2")
    assert not [i for i, (_, _, v) in enumerate(own) if not v.any()]
    kept = [value for value, _, _ in shared + own]

    second = dataclasses.replace(
        first, sequence_length=96, num_train_steps=10, num_warmup_steps=4, seed=1
    )
    started = []

    def catch(_, pretrainer, *rest):
        started.append(pretrainer)
        raise KeyboardInterrupt

    monkeypatch.setattr(pretraining, "_train_phase", catch)
    with pytest.raises(KeyboardInterrupt):
        pretraining.pretrain(second, [str(longer)], str(tmp_path / "second"), cpu, folder)
    (trainer,) = started
    alone = {id(variable) for variable in trainer.model.generator_variables}
    # As `shared_and_own` orders them.
    variables = sorted(trainer.model.trainable_variables, key=lambda each: id(each) in alone)
    for variable, value in zip(variables, kept, strict=True):
        np.testing.assert_array_equal(variable, value, variable.name)
        for name in ("m", "v"):
            assert not trainer.optimizer.get_slot(variable, name).numpy().any(), variable.name
    # Beyond the first run's length, too, where they were moved by their decay alone.
    positions = trainer.model.encoder.embeddings.position.numpy()
    vocab = load_fast_tokenizer(examples_folder / "vocab.txt")
    start = Pretrainer(first, vocab, cpu).model.encoder.embeddings.position.numpy()
    ratio = positions[64:] / start[64:]
    assert ratio.min() == pytest.approx(ratio.max(), rel=1e-5) and 0.99 < ratio.max() < 1
    assert int(trainer.step.numpy()) == 0
    # Of step 1 of 10, the first of 4 of the warm-up.
    rate = float(trainer.optimizer.learning_rate(trainer.step))
    assert rate == pytest.approx(1e-3 * 0.9 * 0.25)


ALONE, STEPS = 4, 8  # steps of the generator alone, and all


@pytest.fixture(scope="module")
def warmed_up(settings, finished, examples_folder, cpu, tmp_path_factory):
    """A run that began with a discriminator alone: settings, its folder, what it began with.

    Beside that, which is a run of ours, `discriminator` is the same in Hugging Face's form.
    """
    folder = tmp_path_factory.mktemp("warmed_up")
    conversion.to_hugging_face(finished, str(folder / "discriminator"))
    shutil.rmtree(folder / "discriminator" / "generator")
    conversion.to_tfbio(str(folder / "discriminator"), str(folder / "run"))
    # Loops of three steps, one of which must end sooner, at the border.
    run = dataclasses.replace(settings.run, steps_per_loop=3)
    settings = dataclasses.replace(
        settings, generator_warmup_steps=ALONE, frequency_biases=True, seed=1, run=run
    )
    arguments = (str(folder / "model"), cpu, str(folder / "run"))
    pretraining.pretrain(settings, [str(examples_folder)], *arguments)
    return settings, *arguments


def shared_and_own(settings, path):
    """Two models' worth of variables, each with Adam's averages, by place: the generator's own."""
    model = Electra(settings)
    optimizer = optimization.Adam(optimization.WarmupLinearDecay(0.0, 1, 0))
    optimizer._create_all_weights(model.trainable_variables)
    tree = tf.train.Checkpoint(model=model, optimizer=optimizer)
    tree.read(path).expect_partial().assert_existing_objects_matched()
    own = {id(variable) for variable in model.generator_variables}
    parts = [], []
    for variable in model.trainable_variables:
        slots = [optimizer.get_slot(variable, name).numpy() for name in ("m", "v")]
        parts[id(variable) in own].append((variable.numpy(), *slots))
    return parts


def test_a_discriminator_alone_waits_for_its_generator(warmed_up, finished):
    settings, folder, _, start = warmed_up
    encoder = encoders.Encoder(settings.encoder)
    checkpoint_weights.restore_encoder(start, encoder)
    head = [v.numpy() for v in Electra(settings).discriminator_dense.variables]
    assert [path.name for path in sorted(Path(folder).glob("*.index"))] == [
        "ckpt-4.index",
        "ckpt-8.index",
    ]
    before, _ = shared_and_own(settings, f"{finished}/ckpt-8")
    shared, own = shared_and_own(settings, f"{folder}/ckpt-4")
    assert len(shared) == len(encoder.variables) + len(head) + 2
    for (value, m, v), (expected, *_) in zip(shared, before, strict=True):
        np.testing.assert_array_equal(value, expected)
        assert not m.any() and not v.any()
    assert not [i for i, (_, m, v) in enumerate(own) if not (m.any() and v.any())]
    moved, moved_own = shared_and_own(settings, f"{folder}/ckpt-8")
    for (value, m, _), (expected, *_) in zip(moved + moved_own, shared + own, strict=True):
        assert (value != expected).any() and m.any()
    losses = dict(scalars(folder, "train")["generator_loss"])
    assert losses[4] < losses[3]
    rates = dict(scalars(folder, "train")["learning_rate"])
    # Of the next step: the second and last of the warm-up before and after the border, then less.
    assert rates[4] < rates[3] and rates == pytest.approx({3: 1e-3, 4: 3.75e-4, 7: 0.0, 8: 0.0})


def test_what_begins_without_a_generator_is_the_same_in_every_form(warmed_up, tmp_path):
    """A run of ours or Hugging Face's; and a masked language model gives its encoder."""
    settings, folder, _, start = warmed_up
    wanted = checkpoint_settings.read_settings(folder)
    assert checkpoint_settings.read_settings(start)["uniform_generator"]

    def restored(place):
        same_model.require_same_model(place, wanted)
        keras.utils.set_random_seed(0)
        model = Electra(settings)
        checkpoint_weights.restore_model(place, model)
        return model

    one, other = restored(start), restored(str(Path(start).parent / "discriminator"))
    for mine, theirs in zip(one.variables, other.variables, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    alone = dataclasses.replace(settings, objective="mlm", generator_warmup_steps=0)
    tree = tf.train.Checkpoint(model=MaskedLanguageModel(alone))
    tf.train.CheckpointManager(tree, str(tmp_path), 1).save(1)
    written = {**wanted, **dataclasses.asdict(alone)}
    (tmp_path / "config.json").write_text(json.dumps(written))
    model = restored(str(tmp_path))
    for mine, theirs in zip(model.encoder.variables, tree.model.encoder.variables, strict=True):
        np.testing.assert_array_equal(mine, theirs)

    for place in (start, str(tmp_path)):
        for name, value, words in (
            ("generator_warmup_steps", 0, "holds no generator: give --set generator_warmup_steps"),
            (
                "encoder",
                {**wanted["encoder"], "num_attention_heads": 2},
                "its encoder has num_attention_heads=4: give",
            ),
            ("vocab_sha256", "0", "with another vocabulary"),
        ):
            with pytest.raises(UserError, match=words):
                same_model.require_same_model(place, {**wanted, name: value})


def test_a_run_that_stopped_before_the_border_continues_with_the_same_weights(
    warmed_up, examples_folder, tmp_path
):
    settings, folder, cpu, start = warmed_up
    stopped = str(tmp_path / "model")
    # At step 2, by a run of which the last step was never reached.
    run = dataclasses.replace(settings.run, save_checkpoints_steps=2, steps_per_loop=2)
    shutil.copytree(folder, stopped)
    for path in Path(stopped).glob("ckpt-*"):
        path.unlink()
    Path(stopped, "checkpoint").unlink()
    every = dataclasses.replace(settings, run=run)
    pretraining.pretrain(every, [str(examples_folder)], stopped, cpu, start)
    for newest in (2, 4, 6):
        again = str(tmp_path / f"from_{newest}")
        shutil.copytree(stopped, again)
        for path in Path(again).glob("ckpt-*.index"):
            if int(path.stem[5:]) > newest:
                for part in Path(again).glob(f"{path.stem}.*"):
                    part.unlink()
        Path(again, "checkpoint").write_text(f'model_checkpoint_path: "ckpt-{newest}"\n')
        pretraining.pretrain(settings, [str(examples_folder)], again, cpu, start)
        expected, continued = weights(folder), weights(again)
        assert expected.keys() == continued.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(continued[name], value, err_msg=name)


def test_the_plain_masked_language_model(settings, examples_folder, cpu, tmp_path, capsys):
    """With whole-word masking, BERT's shares and a growing rate, as PubMedBERT has them."""
    plain = dataclasses.replace(
        settings,
        objective="mlm",
        mask_unit="word",
        mask_prob=0.05,
        final_mask_prob=0.25,
        mask_token_prob=0.8,
        random_token_prob=0.1,
    )
    folder = str(tmp_path / "model")
    pretraining.pretrain(plain, [str(examples_folder)], folder, cpu)
    assert "held-out at step 8: loss" in capsys.readouterr().out
    curves = scalars(folder, "train")
    assert "discriminator_auc" not in curves and np.isfinite(curves["accuracy"][-1][1])
    losses = [loss for _, loss in scalars(folder, "heldout")["loss"]]
    assert losses[-1] < losses[0]
    assert tf.train.latest_checkpoint(folder).endswith("ckpt-8")
    checkpoint_weights.restore_encoder(folder, encoders.Encoder(plain.encoder))


def test_a_damaged_or_missing_shard_is_named_at_the_start(
    finished, settings, examples_folder, cpu, tmp_path
):
    folder, model_dir = tmp_path / "examples", tmp_path / "model"
    shutil.copytree(examples_folder, folder)
    (shard, *_) = sorted(folder.glob("train-*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(DataError, match=f"{shard.name} is damaged"):
        pretraining.pretrain(settings, [str(folder)], str(model_dir), cpu)
    assert not model_dir.exists()
    # A run that goes on does not read everything again, but misses what is not there.
    shard.unlink()
    shutil.copytree(finished, model_dir)
    with pytest.raises(DataError, match=f"{shard.name} is missing"):
        pretraining.pretrain(settings, [str(folder)], str(model_dir), cpu)


def test_a_batch_that_does_not_divide_is_refused(settings, examples_folder, two_devices, tmp_path):
    odd = dataclasses.replace(settings, train_batch_size=15)
    with pytest.raises(UsageError, match="train_batch_size 15 does not divide by 2 devices"):
        pretraining.pretrain(odd, [str(examples_folder)], str(tmp_path / "model"), two_devices)
    run = dataclasses.replace(settings.run, gradient_accumulation_steps=3)
    odd = dataclasses.replace(settings, run=run)
    with pytest.raises(UsageError, match="16 does not divide by 2 devices with run.gradient_accum"):
        pretraining.pretrain(odd, [str(examples_folder)], str(tmp_path / "model"), two_devices)
    odd = dataclasses.replace(settings, train_batch_size=10, gradient_clip_groups=5)
    with pytest.raises(UsageError, match="groups 5 does not divide by 2 devices: give 2 .*, or 1"):
        pretraining.pretrain(odd, [str(examples_folder)], str(tmp_path / "model"), two_devices)
    run = dataclasses.replace(settings.run, gradient_accumulation_steps=4)
    odd = dataclasses.replace(settings, gradient_clip_groups=8, run=run)
    said = "16 does not divide by 2 devices with run.gradient_acc.*=4 and gradient_clip_groups=8"
    with pytest.raises(UsageError, match=said):
        pretraining.pretrain(odd, [str(examples_folder)], str(tmp_path / "model"), two_devices)
    assert not (tmp_path / "model").exists()


def test_addresses_of_object_stores_are_taken(
    settings, examples_folder, finished, cpu, tmp_path, capsys
):
    """`file://` is to TensorFlow and to fsspec one more file system, and not a local path."""
    short = dataclasses.replace(settings, num_train_steps=8)
    model = f"file://{tmp_path}/bucket/model"
    pretraining.pretrain(short, [f"file://{examples_folder}"], model, cpu)
    again = f"file://{tmp_path}/bucket/again"
    pretraining.pretrain(short, [f"file://{examples_folder}"], again, cpu, init_checkpoint=model)
    capsys.readouterr()
    pretraining.pretrain(short, [f"file://{examples_folder}"], model, cpu)
    assert "complete, 8 steps were trained before" in capsys.readouterr().out
    found, expected = weights(f"{tmp_path}/bucket/model"), weights(finished)
    assert found.keys() == expected.keys()
    assert not [name for name in expected if not (found[name] == expected[name]).all()]
    other = weights(f"{tmp_path}/bucket/again")
    assert any((other[name] != expected[name]).any() for name in expected)
    files = {path.name for path in (tmp_path / "bucket/again").iterdir()}
    assert {"config.json", "vocab.txt", "checkpoint", "logs", "ckpt-8.index"} <= files


@pytest.mark.parametrize("place", [1, 2, 4])
def test_addresses_that_tensorflow_does_not_know_are_refused(settings, cpu, tmp_path, place):
    arguments = [settings, [str(tmp_path)], str(tmp_path / "model"), cpu, str(tmp_path)]
    arguments[place] = ["s3://bucket/x"] if place == 1 else "s3://bucket/x"
    with pytest.raises(UserError, match="s3://bucket/x: TensorFlow knows no such addresses"):
        pretraining.pretrain(*arguments)
