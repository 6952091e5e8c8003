"""`run_pretraining.py --strategy=multi_worker`: two processes that meet on loopback."""

import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from scripts.kill_and_resume import saved
from tests import forked
from tests.workers import Workers
from tfbio.base.manifests import read_manifest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def electra(examples_folder):
    words = read_manifest(examples_folder, "examples").settings["vocab_size"]
    return [
        *(sys.executable, "run_pretraining.py", f"--examples={examples_folder}"),
        *("--hparams=hparams/quickstart.json", f"--set=encoder.vocab_size={words}"),
        *("--set=num_train_steps=60", "--set=run.steps_per_loop=5"),
        *("--set=run.save_checkpoints_steps=20", "--set=run.eval_every_steps=60"),
        *("--set=run.num_eval_batches=2", "--set=encoder.hidden_dropout_prob=0.1"),
        *("--set=encoder.num_hidden_layers=1", "--set=encoder.embedding_size=32"),
        *("--set=encoder.hidden_size=32", "--set=encoder.intermediate_size=64"),
    ]


@pytest.fixture(scope="module")
def command(electra):
    """Pretrains a masked language model, which is half as much to trace."""
    return [*electra, "--set=objective=mlm"]


@pytest.fixture(scope="module")
def undisturbed(command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two") / "undisturbed"
    (code, _, error), (other_code, *_) = Workers([*command, f"--model_dir={folder}"], folder).end()
    assert (code, other_code) == (0, 0), error
    return folder


def losses(folder, part):
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everything = {"tensors": 0}  # and not a sample of ten
    events = EventAccumulator(str(folder / "logs" / part), everything).Reload()
    found = events.Tensors("loss")
    return {event.step: tf.make_ndarray(event.tensor_proto).item() for event in found}


@pytest.fixture(scope="module")
def alone(electra, tmp_path_factory):
    """Of one process; without dropout, which draws other numbers for other devices."""
    folder = tmp_path_factory.mktemp("one") / "model"
    command = [*electra, "--set=encoder.hidden_dropout_prob=0", f"--model_dir={folder}"]
    done = forked.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_two_workers_train_as_one(electra, alone, tmp_path, devices):
    """Also where one of them traces steps, which ends the loops of both."""
    folder = tmp_path / "two"
    python, *command = [*electra, "--set=encoder.hidden_dropout_prob=0"]
    if devices == 2:
        command = ["tests/worker_of_two_devices.py", *command, "--profile_steps=4,5"]
    (code, said, error), (other_code, other_said, _) = Workers(
        [python, *command, f"--model_dir={folder}"], folder
    ).end()
    assert (code, other_code) == (0, 0), error
    assert f"on {2 * devices} device" in said and not other_said
    traced = len(list(folder.glob("logs/plugins/profile/*/*.xplane.pb")))
    assert traced == devices - 1
    # A loss is the mean of a loop's steps: until step 5 loops are others where steps are traced.
    for part, count in (("train", 12), ("heldout", 1)):
        mine, others = losses(folder, part), losses(alone, part)
        assert len(others) == count and len(mine) == count + (traced and part == "train")
        steps = [step for step in others if step > 5 * traced]
        np.testing.assert_allclose(
            [mine[step] for step in steps], [others[step] for step in steps], rtol=1e-4
        )


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_loses_a_worker_continues(command, undisturbed, tmp_path, sent):
    """Killed: the other ends with what to do. Preempted: both save. Then all continue the same."""
    folder = tmp_path / "model"
    workers = Workers([*command, f"--model_dir={folder}"], folder)
    workers.send_after_step(25 if sent == signal.SIGKILL else 10, sent)
    (code, said, error), (other_code, _, _) = workers.end()
    if sent == signal.SIGKILL:
        assert code == 75 and "error: this worker cannot go on without the others" in error, error
    else:
        assert (code, other_code) == (128 + signal.SIGTERM,) * 2, error
        assert "stopped by SIGTERM at step" in said
    (code, said, error), (_, _, other_error) = Workers(
        [*command, f"--model_dir={folder}"], folder
    ).end()
    assert code == 0 and "continuing at step" in said, error + other_error
    expected, found = saved(undisturbed, 60), saved(folder, 60)
    assert expected
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, name)


@pytest.mark.slow
def test_workers_that_do_not_share_a_folder_do_not_go_on(command, undisturbed, tmp_path):
    """One has the checkpoint that the chief wrote on its disk, and the other has none."""
    folders = [tmp_path / "of_chief", tmp_path / "of_other"]
    shutil.copytree(undisturbed, folders[0])
    for path in folders[0].glob("ckpt-60*"):
        path.unlink()
    (folders[0] / "checkpoint").write_text('model_checkpoint_path: "ckpt-40"\n')
    before = sorted(folders[0].rglob("*"))
    own = tuple([f"--model_dir={folder}"] for folder in folders)
    for (code, said, error), folder in zip(
        Workers(command, tmp_path / "said", own).end(), folders, strict=True
    ):
        assert code == 1 and "continuing" not in said, error
        assert f"error: --model_dir={folder}: the workers found checkpoints of diff" in error
        assert "there (0, 40; 0 is none): give one folder that all workers share" in error
    assert sorted(folders[0].rglob("*")) == before and not folders[1].exists()
