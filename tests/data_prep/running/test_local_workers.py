import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_prep import documents, examples
from data_prep.readers import input_files
from data_prep.running import pipeline
from tfbio.base import ctrl_c, errors
from tfbio.base.manifests import MANIFEST

ROOT = Path(__file__).resolve().parents[3]
PYTHON = sys.executable
ONE_WORKER = pipeline.Runner(workers=1)


# --- Workers that start late, or fail as they end ------------------------------------------------


@pytest.fixture
def worker_script(tmp_path, monkeypatch):
    """Has each worker be a shell script; the text is that between its start and its end."""

    def write(text):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return write


def run_two_workers(fails=True):
    import apache_beam as beam

    def step(name):
        if fails:
            raise errors.UserError(f"this {name} ends.")

    def build(root):
        _ = root | beam.Create(["worker"]) | beam.Map(step)

    pipeline.run(build, pipeline.Runner(workers=2), contextlib.nullcontext())


@pytest.mark.timeout(300)  # else it would wait for ever
@pytest.mark.parametrize("late", [0, 1])
def test_a_mistake_is_told_while_another_worker_is_still_starting(worker_script, late):
    """Which of two workers gets the one element is Beam's choice, so each is the late one once."""
    worker_script(f'[ $((${{WORKER_ID#worker_}} % 2)) = {late} ] && sleep 6\nexec {PYTHON} "$@"')
    with pytest.raises(errors.UserError, match=r"^this worker ends.$"):
        run_two_workers()


@pytest.mark.timeout(300)
def test_workers_that_fail_as_they_end_change_nothing(worker_script):
    worker_script(f'{PYTHON} "$@"\nexit 3')
    with pytest.raises(errors.UserError, match=r"^this worker ends.$"):
        run_two_workers()
    run_two_workers(fails=False)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("dead", [0, 1])
def test_a_worker_that_dies_while_another_is_still_starting_is_told(worker_script, dead):
    worker_script(
        f'[ $((${{WORKER_ID#worker_}} % 2)) = {dead} ] && exit 3\nsleep 6\nexec {PYTHON} "$@"'
    )
    said = r"^a worker process died \(.* return code 3; -9"
    with pytest.raises(errors.UserError, match=said) as error:
        run_two_workers()
    assert isinstance(error.value.__cause__, KeyboardInterrupt)  # not the timeout of this test


# --- Processes that die --------------------------------------------------------------------------


def alive(group):
    """Returns the processes of a group that run: {process id: command line}."""
    result = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, its_group = (path / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                result[int(path.name)] = (path / "cmdline").read_text()
    return result


# The slow splitter and small shards: seconds in which a run can be ended.
SLOW = documents.DocumentSettings(sentence_splitter="scispacy", shard_megabytes=0.03)


def make_slowly(pubmed_slice, output):
    """Makes the documents of the slow settings in this process, or what is left to make."""
    paths = input_files.find_files([str(pubmed_slice)])
    documents.make_documents(paths, output, SLOW, runner=ONE_WORKER)


@pytest.fixture
def kill_at_random(running):
    """Runs a command until some files have come or gone, and kills it and its workers.

    A moment is counted in files so that all are alike on a slow machine.
    """
    draw = random.Random(0)

    def run(line, output):
        seen = set(output.rglob("*"))
        moment = len(seen) + draw.randrange(1, 12)
        with running(line, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            while len(seen) < moment and process.poll() is None:
                seen |= set(output.rglob("*"))
                time.sleep(0.005)
        assert not (output / MANIFEST).exists(), "it was killed too late to show anything"

    return run


@pytest.mark.slow
def test_what_ends_a_run_is_said_and_the_run_continues(
    running, kill_at_random, pubmed_slice, files_of, tmp_path
):
    output = tmp_path / "out"
    line = [sys.executable, "-m", "data_prep.documents", f"--input={pubmed_slice}"]
    line += [f"--sentence_splitter={SLOW.sentence_splitter}", "--workers=2"]
    line += [f"--shard_megabytes={SLOW.shard_megabytes}", f"--output={output}"]

    def end(moment, how):
        """Runs the command until a file is there; gives its exit code and what it said last."""
        with running(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 120
            while not list(output.glob(moment)):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
            how(process)
            said, _ = process.communicate(timeout=60)
            assert not (output / MANIFEST).exists(), "it was ended too late"
            assert "Traceback" not in said
            deadline = time.monotonic() + 20
            while alive(process.pid):
                assert time.monotonic() < deadline, alive(process.pid)
                time.sleep(0.1)
            return process.returncode, said.splitlines()[-1]

    def press_ctrl_c(process):
        os.killpg(process.pid, signal.SIGINT)

    def kill_a_worker(process):  # as the kernel does when memory runs out
        workers = [pid for pid, line in alive(process.pid).items() if "sdk_worker_main" in line]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)

    # While it reads, at any moment, and while it writes.
    code, said = end(".work/*/unit-*", press_ctrl_c)
    assert (code, said) == (130, f"interrupted: {ctrl_c.INTERRUPTED}")
    kill_at_random(line, output)
    code, said = end("documents-*", kill_a_worker)
    assert code == 1
    assert said.startswith("error: a worker process died") and said.endswith("it continues.")
    make_slowly(pubmed_slice, output)
    make_slowly(pubmed_slice, tmp_path / "undisturbed")
    assert files_of(output) == files_of(tmp_path / "undisturbed")


@pytest.mark.slow
def test_runs_killed_at_random_moments_end_with_the_same_bytes(
    kill_at_random, documents_folder, vocab_file, examples_folder, files_of, tmp_path
):
    output = tmp_path / "out"
    line = [sys.executable, "-m", "data_prep.examples", f"--documents={documents_folder}"]
    line += [f"--vocab={vocab_file}", f"--output={output}", "--sequence_length=64"]
    line += ["--held_out_fraction=0.2", "--shards=4", "--workers=2"]
    for _ in range(3):
        kill_at_random(line, output)
    settings = examples.ExampleSettings(sequence_length=64, held_out_fraction=0.2, shards=4)
    examples.make_examples(documents_folder, vocab_file, output, settings, runner=ONE_WORKER)
    assert files_of(output) == files_of(examples_folder)
