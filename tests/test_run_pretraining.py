"""`run_pretraining.py` as a user types it: help, mistakes, and a run that was interrupted."""

import dataclasses
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tfbio.base.manifests import read_manifest
from tfbio.models.encoder_config import EncoderConfig

ROOT = Path(__file__).parents[1]


def run(*flags):
    """Runs the command where TensorFlow is imported already."""
    return forked.run([sys.executable, "run_pretraining.py", *flags], cwd=ROOT)


def run_in_a_new_process(*flags):
    """Runs the command as a user does, whose stderr has nothing that is not the command's."""
    command = [sys.executable, "run_pretraining.py", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_help_teaches_and_does_not_import_tensorflow():
    done = run_in_a_new_process("--help")
    for words in (
        "python run_pretraining.py --examples=",
        "--hparams=small",
        "encoder.hidden_size = 256",
        "run.jit_compile = false",
        "75 the TPU or another worker was lost",
        "--profile_steps",
        "--tpu_zone",
        "--gcp_project",
    ):
        assert words in done.stdout
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "run_pretraining.py", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stderr
    assert "absl.app" in loaded and "tensorflow" not in loaded


BOTH = ("--examples=nowhere", "--model_dir=nowhere")
REMOTE = ("--examples=gs://in", "--model_dir=gs://out")
TAUGHT = ("--teacher=tests", "--set=distillation.kl_weight=1", "--set=objective=mlm")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--hparams=hparams/smal.json"], "hparams/smal.json: no such file"),
        (['--hparams={"learning_rat": 1}'], "'learning_rat'; the nearest is 'learning_rate'"),
        (["--set=learning_rate=fast"], "learning_rate must be a number"),
        (["--dry_run", "--estimate_for=tpu"], "expected one of tpu-v2-8, tpu-v3-8"),
        (
            ["--dry_run", "--set=final_sequence_length=512", "--set=num_train_steps=4"],
            "one of the two phases has none of 4 steps",
        ),
        (
            ["--dry_run", "--hparams=base", "--set=gradient_clip_groups=1", "--mesh=1x2"],
            "masked language models only (objective=mlm): a run with objective=electra works on",
        ),
        (["--estimate_for=tpu-v3-8"], "--estimate_for goes with --dry_run"),
        ([], "--examples is missing"),
        (["--examples=nowhere"], "--model_dir is missing"),
        (["hparams/small.json"], "'hparams/small.json' is not a flag"),
        ([*BOTH, "--profile_steps=10"], "--profile_steps=10: expected FIRST,LAST"),
        ([*BOTH, "--profile_steps=0,10"], "--profile_steps=0,10: expected FIRST,LAST"),
        ([*BOTH, "--profile_steps=20,10"], "--profile_steps=20,10: expected FIRST,LAST"),
        ([*BOTH, "--profile_steps=1,9", "--set=num_train_steps=8"], "two steps from 1 to 8"),
        (
            [*BOTH, "--profile_steps=1,9", "--set=run.stop_at_step=8"],
            "two steps from 1 to 8",
        ),
        ([*BOTH, "--profile_steps=1,9", "--tpu=pod"], "and not those of --tpu=pod"),
        # Before the TPU is claimed, which would say so.
        ([*BOTH, "--tpu=pod"], "--model_dir=nowhere: the machines of --tpu=pod"),
        ([BOTH[0], "--model_dir=gs://out", "--tpu=pod"], "--examples=nowhere: the machines"),
        (
            [*REMOTE, *TAUGHT, "--tpu=grpc://10.0.0.2:8470"],
            "--teacher=tests: the machines of --tpu=grpc://10.0.0.2:8470",
        ),
        ([*BOTH, "--tpu_zone=us-central1-a"], "--tpu_zone goes with --tpu"),
    ],
)
def test_a_mistake_is_one_sentence(flags, words):
    done = run_in_a_new_process(*flags)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert words in done.stderr and not done.stdout


def test_a_tpu_that_cannot_be_reached_is_one_sentence(fails_in_one_sentence):
    done = run_in_a_new_process(*REMOTE, "--tpu=grpc://localhost:1")
    assert done.stdout == "waiting for the TPU grpc://localhost:1 ...\n"
    assert "--tpu=grpc://localhost:1: no such TPU can be reached" in fails_in_one_sentence(done)


def test_a_lost_tpu_has_an_exit_code_of_its_own():
    """So that a loop in a shell can tell it from a mistake."""
    program = """if True:
        import sys
        import tensorflow as tf
        sys.path.append("tests")
        import emulated_tpu, run_pretraining
        from tfbio.base import cli
        from tfbio.training import distribution
        from tfbio.runs import pretraining

        def lost(*_):
            raise tf.errors.UnavailableError(None, None, "Socket closed")

        distribution.make_strategy = lambda *_: emulated_tpu.make_strategy(1)
        pretraining.pretrain = lost
        run_pretraining._check_examples = lambda: None  # there are none
        cli.run(run_pretraining.main)
    """
    command = [sys.executable, "-c", program, *BOTH]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 75, done.stderr
    assert "error: the TPU was lost (Socket closed): when there is one again" in done.stderr
    assert done.stdout.endswith(f"{' '.join(BOTH)}\n") and "Traceback" not in done.stderr


def test_a_dry_run_tells_the_costs_without_tensorflow():
    command = [sys.executable, "-X", "importtime", "run_pretraining.py", "--dry_run"]
    command += ["--hparams=hparams/base.json", "--estimate_for=tpu-v3-8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "tensorflow" not in done.stderr
    for words in (
        "118.1 M trained",
        "1,000,000 steps of 512 examples",
        "900,000 steps at length 128",
        "100,000 steps at length 512",
        "tpu-v3-8",
    ):
        assert words in done.stdout


def test_a_dry_run_looks_at_the_examples_and_writes_nothing(examples_folder, tmp_path):
    manifest = read_manifest(examples_folder, "examples")
    flags = ["--dry_run", f"--examples={examples_folder}", f"--model_dir={tmp_path / 'model'}"]
    flags += ["--hparams=hparams/quickstart.json", "--estimate_for=v100"]
    refused = run(*flags)
    assert refused.returncode == 1 and "was made with a vocabulary of" in refused.stderr
    done = run(*flags, f"--set=encoder.vocab_size={manifest.settings['vocab_size']}")
    assert done.returncode == 0, done.stderr
    assert f"{manifest.counts['train_examples']:,} training examples" in done.stdout
    words = f"--set=encoder.vocab_size={manifest.settings['vocab_size']}"
    refused = run(*flags, words, "--set=train_batch_size=4096")
    assert refused.returncode == 1 and "fewer than one batch of 4096" in refused.stderr
    assert not (tmp_path / "model").exists()


def test_examples_that_are_not_there_leave_nothing_behind(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder, words in (("nowhere", "there is no folder"), ("empty", "has no manifest.json")):
        model_dir = tmp_path / "model"
        done = run(f"--examples={tmp_path / folder}", f"--model_dir={model_dir}")
        assert done.returncode == 1 and "Traceback" not in done.stderr, folder
        assert words in done.stderr and "python -m data_prep.examples" in done.stderr, folder
        assert not model_dir.exists(), folder


def test_a_folder_of_examples_may_look_like_a_glob(tmp_path):
    folder = tmp_path / "x[1]" / "pretrain_tfrecords"
    folder.mkdir(parents=True)
    (folder / "pretrain_data.tfrecord-0-of-2").touch()
    done = run(f"--examples={folder}", f"--model_dir={tmp_path / 'model'}")
    assert done.returncode == 1 and "holds 1 of 2 files of examples" in done.stderr


def test_a_run_in_an_object_store_goes_on_without_what_it_began_with(examples_folder, tmp_path):
    """`file://` is to TensorFlow and to fsspec one more file system, and not a local path."""
    flags = [f"--examples={examples_folder}", "--init_checkpoint=nowhere"]
    flags.append(f"--model_dir=file://{tmp_path}")
    done = run(*flags)
    assert "--init_checkpoint=nowhere: there is no such" in done.stderr
    (tmp_path / "checkpoint").touch()
    done = run(*flags)
    assert "of length 128, but --examples gives [64]" in done.stderr


def test_settings_that_do_not_fit_the_examples_are_named(examples_folder, tmp_path):
    done = run(f"--examples={examples_folder}", f"--model_dir={tmp_path / 'model'}")
    assert done.returncode == 1
    assert "of length 128, but --examples gives [64]" in done.stderr
    assert not (tmp_path / "model").exists()


def test_two_cpu_devices_continue_with_the_same_weights(examples_folder, tmp_path):
    words = read_manifest(examples_folder, "examples").settings["vocab_size"]
    flags = [
        f"--examples={examples_folder}",
        "--hparams=hparams/quickstart.json",
        f"--set=encoder.vocab_size={words}",
        "--set=encoder.num_hidden_layers=1",
        "--set=num_train_steps=8",
        "--set=run.steps_per_loop=2",
        "--set=run.save_checkpoints_steps=2",
        "--cpu_devices=2",
    ]
    undisturbed, stopped = tmp_path / "undisturbed", tmp_path / "stopped"
    done = run(*flags, f"--model_dir={undisturbed}")
    assert done.returncode == 0, done.stderr
    assert "on 2 device" in done.stdout

    shutil.copytree(undisturbed, stopped)
    for path in stopped.glob("ckpt-8*"):
        path.unlink()
    (stopped / "checkpoint").write_text('model_checkpoint_path: "ckpt-4"\n')
    done = run(*flags, f"--model_dir={stopped}")
    assert done.returncode == 0, done.stderr
    assert "continuing at step 4:" in done.stdout

    for name in ("ckpt-8.index", "ckpt-8.data-00000-of-00001"):
        assert (stopped / name).read_bytes() == (undisturbed / name).read_bytes()


def ctrl_c_flags(examples_folder, model_dir):
    words = read_manifest(examples_folder, "examples").settings["vocab_size"]
    return [
        f"--examples={examples_folder}",
        f"--model_dir={model_dir}",
        "--hparams=hparams/quickstart.json",
        f"--set=encoder.vocab_size={words}",
        "--set=encoder.num_hidden_layers=1",
        "--set=num_train_steps=100000",
        "--set=objective=mlm",  # half as much to trace
    ]


def start(*flags, program="run_pretraining.py"):
    """Starts the command, or a program that runs it; stdout and stderr are one stream."""
    command = [sys.executable, program, *flags]
    return forked.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def read_until(text, process):
    """Reads what a program prints to a line that holds the text."""
    assert any(text in line for line in process.stdout), f"it never printed {text!r}"


def test_ctrl_c_saves_and_the_run_continues(examples_folder, tmp_path):
    """The first one is answered at once, saves the step where the loop ends, and names it."""
    flags = ctrl_c_flags(examples_folder, tmp_path / "model")
    with start(*flags, "--set=run.steps_per_loop=5") as process:
        read_until(" loss ", process)
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        assert process.wait() == 130
    assert "Ctrl-C: the run is saved after this loop of steps" in said
    step = int(re.search(r"stopped by Ctrl-C at step (\d+), which is saved", said)[1])
    assert step % 5 == 0 and (tmp_path / "model" / f"ckpt-{step}.index").exists()
    done = run(*flags, f"--set=num_train_steps={step}")
    assert "holds a run with num_train_steps = 100000" in done.stderr
    done = run(*flags, f"--set=run.stop_at_step={step + 5}")
    assert done.returncode == 0, done.stderr
    assert f"continuing at step {step}" in done.stdout
    assert (tmp_path / "model" / f"ckpt-{step + 5}.index").exists()


# Presses Ctrl-C as the second loop of steps begins.
CTRL_C_IN_THE_SECOND_LOOP = """
import os, runpy, signal, sys

sys.path[0] = os.getcwd()  # tfbio is there, as for the command itself
from tfbio.training.trainer import Trainer

fit = Trainer.fit

def fit_and_send(self, step, until, train, *others, **options):
    def send_and_train(steps):
        if steps > 1:
            os.kill(os.getpid(), signal.SIGINT)
        return train(steps)

    return fit(self, step, until, send_and_train, *others, **options)

Trainer.fit = fit_and_send
sys.argv = ["run_pretraining.py", *sys.argv[1:]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_second_ctrl_c_ends_the_run_at_once(examples_folder, tmp_path):
    """Not only at the end of the loop, which here has so many steps that it takes hours."""
    program = tmp_path / "program.py"
    program.write_text(CTRL_C_IN_THE_SECOND_LOOP)
    flags = ctrl_c_flags(examples_folder, tmp_path / "model")
    flags += ["--set=run.steps_per_loop=100000", "--set=run.eval_every_steps=100000"]
    flags += ["--set=run.save_checkpoints_steps=100000", "--set=run.keep_checkpoints_at=[1]"]
    with start(*flags, program=program) as process:
        read_until("Ctrl-C: the run is saved after this loop of steps", process)
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        assert process.wait() == 130
    assert said == "interrupted: step 1 is saved, and the same command continues there\n"
    assert not list((tmp_path / "model").glob("ckpt-[!1]*"))


def test_ctrl_c_is_answered_from_the_first_line_on(examples_folder, tmp_path):
    """Even before the first step."""
    flags = ctrl_c_flags(examples_folder, tmp_path / "model")
    with start(*flags, "--set=run.steps_per_loop=1") as process:
        read_until("starting: ", process)
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        assert process.wait() == 130
    assert "Ctrl-C: the run is saved after this loop of steps; again ends it at once\n" in said
    assert re.search(r"stopped by Ctrl-C at step [01], which is saved", said)


def test_a_fine_tuning_run_is_not_overwritten(examples_folder, tmp_path):
    settings = {"task": "hoc", "lower_case": True, "encoder": dataclasses.asdict(EncoderConfig())}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    done = run(*ctrl_c_flags(examples_folder, tmp_path))
    assert done.returncode == 1
    assert "holds config.json, which is not of a run of run_pretraining.py: give a" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
