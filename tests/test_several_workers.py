"""`run_pretraining.py --strategy=multi_worker`: two processes that meet on loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tfbio import records

ROOT = Path(__file__).parents[1]


class Workers:
    """Two processes of one command, each on one CPU device."""

    def __init__(self, command):
        sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
        addresses = [f"localhost:{found.getsockname()[1]}" for found in sockets]
        for found in sockets:
            found.close()
        self.chief, self.other = (
            subprocess.Popen(
                [*command, "--strategy=multi_worker"],
                cwd=ROOT,
                env=os.environ
                | {
                    "TF_CONFIG": json.dumps(
                        {
                            "cluster": {"worker": addresses},
                            "task": {"type": "worker", "index": index},
                        }
                    )
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for index in range(2)
        )

    def wait_for_step(self, step):
        """Until the chief has said that it did so many steps."""
        for line in self.chief.stdout:
            if line.startswith("step ") and int(line.split()[1].split("/")[0]) >= step:
                return

    def end(self):
        """(exit code, stdout, stderr) of the chief and of the other."""
        ended = [process.communicate(timeout=240) for process in (self.chief, self.other)]
        codes = [process.returncode for process in (self.chief, self.other)]
        return [(code, *texts) for code, texts in zip(codes, ended, strict=True)]


@pytest.fixture(scope="module")
def command(examples_folder):
    words = records.read_manifest(examples_folder, "examples").settings["vocab_size"]
    return [
        *(sys.executable, "run_pretraining.py", f"--examples={examples_folder}"),
        *("--hparams=hparams/quickstart.json", f"--set=encoder.vocab_size={words}"),
        *("--set=num_train_steps=60", "--set=run.steps_per_loop=5"),
        *("--set=run.save_checkpoints_steps=20", "--set=run.eval_every_steps=60"),
        "--set=run.num_eval_batches=2",
    ]


@pytest.fixture(scope="module")
def undisturbed(command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two") / "undisturbed"
    (code, said, error), (other_code, other_said, _) = Workers(
        [*command, f"--model_dir={folder}"]
    ).end()
    assert (code, other_code) == (0, 0), error
    assert "on 2 device" in said and not other_said
    return folder


def trained(folder):
    """The weights and the optimizer's state after the last step."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(folder / "ckpt-60"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.startswith(("model/", "optimizer/"))
    }


def losses(folder, part):
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everything = {"tensors": 0}  # and not a sample of ten
    events = EventAccumulator(str(folder / "logs" / part), everything).Reload()
    return [tf.make_ndarray(event.tensor_proto).item() for event in events.Tensors("loss")]


@pytest.mark.slow
def test_two_workers_train_as_one(command, undisturbed, tmp_path):
    alone = tmp_path / "alone"
    done = subprocess.run([*command, f"--model_dir={alone}"], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr
    for part, count in (("train", 12), ("heldout", 1)):
        mine, others = losses(undisturbed, part), losses(alone, part)
        assert len(mine) == count
        np.testing.assert_allclose(mine, others, rtol=1e-4)


@pytest.mark.slow
def test_a_killed_worker_is_started_again(command, undisturbed, tmp_path):
    """The others end and say what to do; then all continue, with the same weights."""
    folder = tmp_path / "killed"
    workers = Workers([*command, f"--model_dir={folder}"])
    workers.wait_for_step(30)
    workers.other.kill()
    (code, _, error), _ = workers.end()
    assert code == 1 and "error: this worker cannot go on without the others" in error

    (code, said, error), _ = Workers([*command, f"--model_dir={folder}"]).end()
    assert code == 0 and "continuing at step 25:" in said, error
    expected, found = trained(undisturbed), trained(folder)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, name)


@pytest.mark.slow
def test_one_workers_preemption_saves_all(command, undisturbed, tmp_path):
    folder = tmp_path / "preempted"
    workers = Workers([*command, f"--model_dir={folder}"])
    workers.wait_for_step(10)
    workers.other.send_signal(signal.SIGTERM)
    (code, said, error), (other_code, *_) = workers.end()
    assert (code, other_code) == (128 + signal.SIGTERM,) * 2, error
    assert "stopped by SIGTERM at step" in said
    (code, said, error), (_, _, other_error) = Workers([*command, f"--model_dir={folder}"]).end()
    assert code == 0 and "continuing at step" in said, error + other_error
    expected, found = trained(undisturbed), trained(folder)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, name)
