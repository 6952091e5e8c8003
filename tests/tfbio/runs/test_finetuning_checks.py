"""Settings, encoder and devices that do not go together."""

import dataclasses
import json
import os
import shutil

import pytest
import tensorflow as tf

from tests.tfbio.runs.conftest import SETTINGS
from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UserError
from tfbio.models.encoder_config import EncoderConfig
from tfbio.runs import finetuning, finetuning_checks
from tfbio.task_types.tagging import Tagging


def test_what_does_not_fit_is_named_and_leaves_nothing(run, pretrained, two_devices, tmp_path):
    output = tmp_path / "out"
    with pytest.raises(UserError, match="sequence_length 128 .* 64 positions"):
        run(output, dataclasses.replace(SETTINGS, sequence_length=128))
    offset = tmp_path / "offset"
    shutil.copytree(pretrained, offset)
    settings = json.loads((offset / "config.json").read_text())
    settings["encoder"]["position_offset"] = 2
    settings["sequence_length"] = 32
    (offset / "config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="sequence_length 64 .* 62 positions"):
        run(output, dataclasses.replace(SETTINGS, sequence_length=64), init_checkpoint=str(offset))
    with pytest.raises(UserError, match="train_batch_size 15 does not divide by 2"):
        run(output, dataclasses.replace(SETTINGS, train_batch_size=15), strategy=two_devices)
    clipped = dataclasses.replace(
        SETTINGS, train_batch_size=12, gradient_clip_groups=3, loss_reduction="sum"
    )
    with pytest.raises(UserError, match="gradient_clip_groups 3 does not divide by 2 devices"):
        run(output, clipped, strategy=two_devices)
    fixed = dataclasses.replace(SETTINGS.run, fixed_shapes="always")
    with pytest.raises(UserError, match="groups 6 does not go with .* fixed shapes.*: give 1"):
        run(
            output,
            dataclasses.replace(clipped, gradient_clip_groups=6, run=fixed),
            strategy=two_devices,
        )
    with pytest.raises(UserError, match=r"tagging.segment 2 needs more than the 2 segment\(s\)"):
        finetuning_checks.check_settings(
            SETTINGS,
            Tagging("OBI", Tagging.Settings(segment=2)),
            EncoderConfig(),
            "folder",
            two_devices,
        )
    with pytest.raises(
        UserError, match=r"tagging.head \"crf\" is for tasks of tagging.*\"linear\""
    ):
        run(output, dataclasses.replace(SETTINGS, tagging=Tagging.Settings(head="crf")))
    with pytest.raises(UserError, match="nowhere holds no config.json"):
        run(output, init_checkpoint=str(tmp_path / "nowhere"))

    model = tmp_path / "model"
    shutil.copytree(pretrained, model)
    before = (model / "config.json").read_text()
    with pytest.raises(UserError, match="holds another model, and no run of run_finetuning.py"):
        run(model)
    assert (model / "config.json").read_text() == before
    with open(model / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("onemoretoken\n")
    with pytest.raises(UserError, match=r"the vocabulary of .* has \d+ tokens"):
        run(output, init_checkpoint=str(model))
    shutil.copyfile(os.path.join(pretrained, "vocab.txt"), model / "vocab.txt")
    for checkpoint in (*model.glob("ckpt-*"), model / "checkpoint"):
        checkpoint.unlink()
    with pytest.raises(UserError, match="holds no checkpoint"):
        run(output, init_checkpoint=str(model))
    assert not output.exists()


def test_batches_divide_by_the_devices_in_prediction_and_in_parts_of_a_step(
    run, two_devices, tmp_path
):
    output = tmp_path / "out"
    odd = dataclasses.replace(SETTINGS.run, eval_batch_size=15)
    with pytest.raises(UserError, match="run.eval_batch_size 15 does not divide by 2 devices"):
        run(output, dataclasses.replace(SETTINGS, run=odd), strategy=two_devices)
    parts = dataclasses.replace(SETTINGS.run, gradient_accumulation_steps=4)
    with pytest.raises(
        UserError, match=r"size 4 does not divide by 2 devices with .*accumulation_steps=4"
    ):
        run(
            output,
            dataclasses.replace(SETTINGS, train_batch_size=4, run=parts),
            strategy=two_devices,
        )
    assert not output.exists()


@pytest.mark.parametrize(
    ("train", "predict", "name"),
    [(15, 16, "train_batch_size 15"), (16, 15, "run.eval_batch_size 15"), (15, 15, "run.eval_")],
)
def test_batches_divide_by_the_parts_of_a_mesh(train, predict, name):
    """Names the setting of prediction first, where new text has it for both."""
    run = dataclasses.replace(SETTINGS.run, eval_batch_size=predict)
    odd = dataclasses.replace(SETTINGS, train_batch_size=train, run=run)
    head = Tagging("OBI", Tagging.Settings()).head_config(0.0)
    finetuning_checks._check_mesh(odd, head, MeshShape(1, 2))
    with pytest.raises(UserError, match=f"{name}.* does not divide by the 2 parts of --mesh=2x1"):
        finetuning_checks._check_mesh(odd, head, MeshShape(2, 1))
    with pytest.raises(UserError, match=f"{name}.* does not divide by 2 devices"):
        finetuning_checks._check_division(odd, 2)


@pytest.mark.parametrize("schedule", ["linear", "triangular"])
def test_a_run_of_one_step_is_told_that_it_learns_nothing(
    run, tmp_path, capsys, monkeypatch, schedule
):
    started = []
    monkeypatch.setattr(finetuning, "Trial", lambda **given: started.append(given))
    for epochs, steps in ((0.1, 1), (0.2, 2)):
        settings = dataclasses.replace(
            SETTINGS,
            num_trials=1,
            max_train_examples=80,
            train_batch_size=8,
            num_train_epochs=epochs,
            schedule=schedule,
        )
        with pytest.raises(AttributeError):  # there is no trial
            run(tmp_path / str(steps), settings)
        finetuner = started.pop()["finetuner"]
        assert finetuner.num_steps == steps
        rate = finetuner.optimizer.learning_rate
        assert (float(rate(tf.constant(0, tf.int64))) == 0) == (steps == 1)
        said = capsys.readouterr().out
        assert ("warning: the only step has a learning rate of 0" in said) == (steps == 1)
