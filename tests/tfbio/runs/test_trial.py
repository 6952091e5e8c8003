"""A trial that is stopped, and one of several workers, by the command itself."""

import contextlib
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests import forked
from tests.workers import Workers
from tfbio.base.errors import UserError
from tfbio.reporting import curves
from tfbio.runs import trial as trials
from tfbio.runs.trial import Trial
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.training import distribution

ROOT = Path(__file__).parents[3]
# All evaluations have the same score, so the first of them is the best: its weights are kept, and
# none of what comes after it may change them.
SETTINGS = {
    "sequence_length": 32,
    "train_batch_size": 8,
    "max_train_examples": 96,
    "num_train_epochs": 5,
    "learning_rate": 1e-6,
    "eval_every_steps": 12,
    "num_trials": 1,
    "run.steps_per_loop": 1,
    "run.save_checkpoints_steps": 2,
}
EVALUATED = r"^seed 0 \| step (\d+) \|"
BFLOAT16 = {"run.precision": "bfloat16"}


@pytest.fixture(scope="module")
def command(shallow_encoder, roles_folder):
    """Returns the words of a command, by its output folder and further settings."""

    def words(folder, **changes):
        settings = SETTINGS | changes
        return [
            *(sys.executable, "run_finetuning.py", "--task=sentence_roles"),
            *(f"--data_dir={roles_folder}", f"--init_checkpoint={shallow_encoder}"),
            *(f"--set={name}={json.dumps(value)}" for name, value in settings.items()),
            f"--output_dir={folder}",
        ]

    return words


def run(command):
    return forked.run(command, cwd=ROOT)


@pytest.fixture(scope="module")
def undisturbed(command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial") / "undisturbed"
    done = run(command(folder, **BFLOAT16))
    assert done.returncode == 0, done.stderr
    assert "in bfloat16" in done.stdout
    return folder


def weights(folder):
    reader = tf.train.load_checkpoint(str(folder / "trial_0" / "model"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if "VARIABLE_VALUE" in name}


def scores(folder):
    (trial,) = json.loads((folder / "scores.json").read_text())["trials"]
    return {name: value for name, value in trial.items() if not name.endswith("seconds")}


def assert_same_trials(one, other):
    for name, value in weights(one).items():
        np.testing.assert_array_equal(weights(other)[name], value, name)
    assert scores(one) == scores(other)
    for split in ("dev", "test"):
        name = f"trial_0/{split}_predictions.tsv"
        assert (one / name).read_bytes() == (other / name).read_bytes(), split


SIGNAL_BEHIND_A_CHECKPOINT = """
import os, runpy, sys
from tfbio.training.checkpointing import Checkpointer

step, sent = map(int, sys.argv[1:3])
save = Checkpointer.save

def save_and_send(self):
    save(self)
    if self._step == step:
        Checkpointer.save = save  # the run ends with another save, and a second Ctrl-C ends it
        os.kill(os.getpid(), sent)

Checkpointer.save = save_and_send
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_in(program, words):
    """Runs a Python program, which runs the command that its last words are."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return forked.run([sys.executable, *map(str, [program, *words])], cwd=ROOT, env=environment)


def test_a_trial_that_is_stopped_at_any_time_ends_with_the_same_bits(
    command, undisturbed, tmp_path
):
    """Stops it by each signal, between two evaluations after the best one, and in the end."""
    assert scores(undisturbed)["step"] == 12
    assert [each["step"] for each in scores(undisturbed)["evaluations"]] == [12, 24, 36, 48, 60]
    folder = tmp_path / "out"
    program = tmp_path / "signalled.py"
    program.write_text(SIGNAL_BEHIND_A_CHECKPOINT)
    continued = 0
    for step, sent in ((26, signal.SIGKILL), (38, signal.SIGTERM), (50, signal.SIGINT)):
        stopped = run_in(program, [step, int(sent), *command(folder, **BFLOAT16)[1:]])
        assert not (folder / "trial_0").exists() and not (folder / "scores.json").exists()
        if sent == signal.SIGKILL:
            assert stopped.returncode == -signal.SIGKILL
        else:
            assert stopped.returncode == 128 + sent
            name = "Ctrl-C" if sent == signal.SIGINT else "SIGTERM"
            said = f"stopped by {name}: seed 0 is at step {step}, which is saved; 0 of 1"
            assert said in stopped.stdout
            assert_continues(stopped.stdout, continued, evaluated=step - 2)
        continued = step

    # As it predicts; the newest checkpoint is then of the end.
    again = command(folder, **BFLOAT16, **{"run.save_checkpoints_steps": 70})
    program = tmp_path / "ended.py"
    program.write_text(ENDED_AS_IT_PREDICTS)
    stopped = run_in(program, [int(signal.SIGKILL), *again[1:]])
    assert stopped.returncode == -signal.SIGKILL, stopped.stderr
    assert_continues(stopped.stdout, continued, evaluated=60)
    stopped = run_in(program, [int(signal.SIGTERM), *again[1:]])
    assert stopped.returncode == 128 + signal.SIGTERM, stopped.stderr
    assert "stopped by SIGTERM: seed 0 is trained, which is saved; 0 of 1" in stopped.stdout
    # A trial that is trained is only scored.
    done = run(again)
    assert "seed 0 continues at step 60." in done.stdout, done.stderr
    assert not re.search(EVALUATED, done.stdout, re.MULTILINE)
    assert_same_trials(undisturbed, folder)
    assert not list(folder.glob("*.checkpoints")) and not list(folder.glob("*.unfinished"))
    losses = dict(curves.read(folder / "logs" / "trial_0" / "train")["loss"])
    assert losses == dict(curves.read(undisturbed / "logs" / "trial_0" / "train")["loss"])
    # What a process leaves that is killed behind the last rename.
    shutil.copytree(folder / "trial_0", folder / "trial_0.checkpoints")
    done = run(again)
    assert "trial_0 is complete and is reused" in done.stdout
    assert not (folder / "trial_0.checkpoints").exists()


def assert_continues(said, step, evaluated):
    """Asserts that a process continued at a step, and evaluated one step alone."""
    assert f"seed 0 continues at step {step}." in said
    assert re.findall(EVALUATED, said, re.MULTILINE) == [str(evaluated)]


ENDED_AS_IT_PREDICTS = """
import os, runpy, sys
from tfbio.runs import trial

sent, predict = int(sys.argv[1]), trial.Trial._predict

def send_and_predict(self, split, until_told_to_end=False):
    if split == "test":
        os.kill(os.getpid(), sent)
    return predict(self, split, until_told_to_end)

trial.Trial._predict = send_and_predict
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


# --- Several workers -----------------------------------------------------------------------------


NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}


@pytest.fixture(scope="module")
def alone(command, tmp_path_factory):
    """A run of one process, without dropout, which draws other numbers for other devices."""
    folder = tmp_path_factory.mktemp("alone") / "out"
    done = run(command(folder, **NO_DROPOUT))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def together(command, tmp_path_factory):
    """The same run of two processes, and what they said."""
    folder = tmp_path_factory.mktemp("together") / "out"
    (code, said, error), (other_code, other_said, other_error) = Workers(
        command(folder, **NO_DROPOUT), folder
    ).end()
    assert (code, other_code) == (0, 0), error + other_error
    return folder, said, other_said


def test_two_workers_fine_tune_as_one(alone, together):
    folder, said, other_said = together
    assert "sentence_roles: test accuracy" in said and not other_said
    losses = [
        [loss for _, loss in curves.read(each / "logs" / "trial_0" / "train")["loss"]]
        for each in (alone, folder)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    for one, two in zip(weights(alone).values(), weights(folder).values(), strict=True):
        np.testing.assert_allclose(two, one, atol=1e-5)
    for name in ("dev", "test"):  # each has predicted its share
        assert scores(alone)[name] == pytest.approx(scores(folder)[name])


@pytest.mark.slow
def test_workers_that_are_stopped_go_on_with_the_same_bits(command, together, tmp_path):
    """Compares with workers that nobody stops."""
    undisturbed, folder = together[0], tmp_path / "out"
    words = command(folder, **NO_DROPOUT)
    workers = Workers(words, folder)
    workers.send_after_step(24, signal.SIGTERM, EVALUATED)
    (code, said, error), (other_code, _, _) = workers.end()
    assert (code, other_code) == (128 + signal.SIGTERM,) * 2, error
    assert "stopped by SIGTERM: seed 0 is at step" in said
    (code, said, error), _ = Workers(words, folder).end()
    assert code == 0 and "seed 0 continues at step" in said, error
    assert_same_trials(undisturbed, folder)


def test_the_settings_that_several_workers_cannot_have_are_named(command, tmp_path):
    words = command(tmp_path / "out", **{"run.fixed_shapes": "always"})
    cluster = {"cluster": {"worker": ["localhost:0"]}, "task": {"type": "worker", "index": 0}}
    done = forked.run(
        [*words, "--strategy=multi_worker"],
        cwd=ROOT,
        env=os.environ | {"TF_CONFIG": json.dumps(cluster)},
    )
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    assert "fixed_shapes = always does not go with --strategy=multi_worker" in done.stderr


def small_trial(finetuner, task, features):
    """Returns a trial of a finetuner with a strategy of one process."""
    finetuner.strategy = SimpleNamespace(extended=SimpleNamespace(should_checkpoint=True))
    return Trial(
        finetuner=finetuner,
        task=task,
        examples={split: [split] for split in features},
        features=features,
        trained=features["train"],
        init_checkpoint="",
        with_head=False,
        output_dir="",
        seed=0,
        shown=(),
        preemption=SimpleNamespace(sent=False),
    )


@pytest.mark.parametrize(
    ("changes", "fixed_shapes", "words"),
    [
        ({}, False, "run.gradient_accumulation_steps=N with N above 1 that divides .* 8, "),
        ({}, True, "give a train_batch_size below 8, and another --output_dir"),
        (
            {"gradient_clip_groups": 2, "loss_reduction": "sum"},
            False,
            "give a train_batch_size below 8",
        ),
    ],
)
def test_memory_that_runs_out_is_told_with_the_setting_that_helps(changes, fixed_shapes, words):
    def fail(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    finetuner = SimpleNamespace(
        config=FinetuningConfig(train_batch_size=8, **changes),
        task_type=None,
        num_steps=1,
        step=tf.Variable(0),
        fixed_shapes=fixed_shapes,
        begin=lambda *_: None,
        train=fail,
        predict=fail,
    )
    windows = SimpleNamespace(input_ids=np.zeros([8, 4]))
    trial = small_trial(finetuner, None, dict.fromkeys(("train", "dev"), windows))
    trial._curves = dict.fromkeys(("train", "dev"))
    with pytest.raises(UserError, match=f"^memory ran out: .*{words}") as raised:
        trial._train(None, None)
    assert len(str(raised.value)) <= 300
    size = finetuner.config.run.eval_batch_size
    with pytest.raises(UserError, match=f"run.eval_batch_size=N with N below {size}, and"):
        trial._predict("dev")


def test_workers_that_do_not_share_a_folder_do_not_go_on(tmp_path, monkeypatch):
    """One has the checkpoint that the chief wrote on its disk, and the other has none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trials, "Checkpointer", lambda *_, **__: None)
    monkeypatch.setattr(distribution, "of_all_workers", lambda _, values: [(0,), tuple(values)])
    finetuner = SimpleNamespace(
        config=FinetuningConfig(),
        task_type=None,
        model=None,
        optimizer=None,
        step=tf.Variable(26),
        initialize=lambda *_: None,
    )
    trial = small_trial(finetuner, None, dict.fromkeys(("train", "dev")))
    trial.output_dir = "out"
    words = r"^--output_dir=out: the workers found checkpoints of different steps there \(0, 26; 0"
    with pytest.raises(UserError, match=words):
        trial._restore_or_initialize(None)


def test_a_trial_that_fails_closes_its_curves(monkeypatch):
    opened, closed = [], []

    @contextlib.contextmanager
    def summaries(folder):
        opened.append(os.path.basename(folder))
        try:
            yield
        finally:
            closed.append(os.path.basename(folder))

    def fail(*_):
        raise UserError("memory ran out")

    monkeypatch.setattr(trials, "Summaries", summaries)
    monkeypatch.setattr(Trial, "_restore_or_initialize", lambda *_: None)
    monkeypatch.setattr(Trial, "_train", fail)
    finetuner = SimpleNamespace(config=FinetuningConfig(), task_type=None, model=None)
    with pytest.raises(UserError, match="memory ran out"):
        small_trial(finetuner, None, dict.fromkeys(("train", "dev", "test"))).run()
    assert sorted(closed) == sorted(opened) == ["dev", "test", "train"]


def test_the_development_set_alone_calibrates():
    calibrated_by = []
    task_type = SimpleNamespace(
        predictions=lambda outputs, features, examples: [1.0],
        calibrate=lambda examples, found: calibrated_by.append(examples) or len(calibrated_by),
        calibrated=lambda found, number: [number],
        more_scores=lambda *_: {},
    )
    finetuner = SimpleNamespace(
        config=FinetuningConfig(), task_type=task_type, predict=lambda *_, **__: []
    )
    splits = ("dev", "test", "train")
    task = SimpleNamespace(score=lambda examples, found: {"threshold": found[0]})
    trial = small_trial(finetuner, task, dict.fromkeys(splits, SimpleNamespace(input_ids=[])))
    assert [trial._predict(split)[1]["threshold"] for split in splits] == [1, 1, 1]
    assert calibrated_by == [["dev"]]


def test_the_seconds_of_all_processes_are_added_up(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(trials.time, "monotonic", lambda: now[0])
    path = ""
    for process in range(3):
        now[0] += 1000.0  # between the processes
        watch = trials._Stopwatch()
        now[0] += 1.0  # while the model is made
        saved = tf.train.Checkpoint(watch=watch)
        if path:
            saved.read(path).assert_consumed()
        now[0] += 10.0
        path = saved.write(str(tmp_path / str(process)))
    assert watch.seconds == pytest.approx(31.0)
