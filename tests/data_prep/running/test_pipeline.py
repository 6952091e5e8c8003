import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from data_prep import documents, examples, vocabulary
from data_prep.corpora import released_files
from data_prep.readers import input_files
from data_prep.running import pipeline
from tfbio.base import ctrl_c, errors, file_paths, storage
from tfbio.base.manifests import MANIFEST

ROOT = Path(__file__).resolve().parents[3]
PYTHON = sys.executable
ONE_WORKER = pipeline.Runner(workers=1)


# --- Flags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("--job_nam=x", "'--job_nam=x': did you mean --job_name?"),
        ("--qqqqqqqq", "'--qqqqqqqq': see --help."),
        ("--job_name=x", ""),  # Beam knows it
    ],
)
def test_flags_that_nobody_knows_are_refused(flag, hint):
    with (
        pytest.raises(errors.UserError, match="neither") if hint else contextlib.nullcontext() as e
    ):
        pipeline.check_flags([flag])
    assert not hint or hint in str(e.value)


def test_another_runner_may_know_flags_that_are_not_nearly_ours():
    pipeline.check_flags(["--flink_thing=3", "4", "--job_nam=x"], is_local=False)
    with pytest.raises(errors.UserError, match="knows '--verbosit=1': did you mean --verbosity?"):
        pipeline.check_flags(["--flink_thing", "--verbosit=1"], is_local=False)


def test_a_job_service_that_does_not_answer_is_named():
    def portable(*args):
        return pipeline.Runner("PortableRunner", beam_args=("--job_server_timeout=2", *args))

    service = grpc.server(futures.ThreadPoolExecutor(1))
    port = service.add_insecure_port("localhost:0")
    service.start()
    pipeline.check_reachable(portable(f"--job_endpoint=localhost:{port}"))
    pipeline.check_reachable(portable(f"--job_endpoint=dns:///localhost:{port}"))
    service.stop(None).wait()
    with pytest.raises(errors.UserError, match=f"--job_endpoint=localhost:{port}: no .* 2 seconds"):
        pipeline.check_reachable(portable(f"--job_endpoint=localhost:{port}"))
    for others in ((), ("--job_endpoint=embed",)):
        pipeline.check_reachable(portable(*others))
    pipeline.check_reachable(pipeline.LOCAL)


def test_a_lost_connection_with_another_runner_is_one_sentence():
    for error in (grpc.FutureTimeoutError(), grpc.RpcError("lost"), RuntimeError("lost")):
        mistake = pipeline._mistake(error, pipeline.Runner("FlinkRunner"), [])
        assert str(mistake).startswith("the job on FlinkRunner failed: "), error
    assert pipeline._mistake(grpc.RpcError("lost"), pipeline.LOCAL, []) is None


# --- Errors of local workers ---------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("mistake", errors.UserError, "a.zip: it is 'damaged': get it again."),
        ("refusal", FileNotFoundError, "[Errno 2] No such file or directory: {path!r}"),
    ],
)
def test_a_mistake_that_a_worker_finds_is_its_sentence(tmp_path, workers, name, kind, said):
    import apache_beam as beam

    path = f"{tmp_path}/it's \\ here"

    def fail(name):
        try:
            os.stat("/nowhere")
        except OSError as error:  # its line is in the traceback, too
            if name == "refusal":
                os.stat(path)
            raise released_files.CorpusError("a.zip: it is 'damaged': get it again.") from error

    def build(root):
        _ = root | beam.Create([name]) | "It's" >> beam.Map(fail)

    with pytest.raises(kind) as error:
        pipeline.run(build, pipeline.Runner(workers=workers), contextlib.nullcontext())
    assert str(error.value) == said.format(path=path)


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


@pytest.mark.timeout(100)  # else it would wait for ever
@pytest.mark.parametrize("late", [0, 1])
def test_a_mistake_is_told_while_another_worker_is_still_starting(worker_script, late):
    """Which of two workers gets the one element is Beam's choice, so each is the late one once."""
    worker_script(f'[ $((${{WORKER_ID#worker_}} % 2)) = {late} ] && sleep 6\nexec {PYTHON} "$@"')
    with pytest.raises(errors.UserError, match=r"^this worker ends.$"):
        run_two_workers()


@pytest.mark.timeout(100)
def test_workers_that_fail_as_they_end_change_nothing(worker_script):
    worker_script(f'{PYTHON} "$@"\nexit 3')
    with pytest.raises(errors.UserError, match=r"^this worker ends.$"):
        run_two_workers()
    run_two_workers(fails=False)


@pytest.mark.timeout(100)
@pytest.mark.parametrize("dead", [0, 1])
def test_a_worker_that_dies_while_another_is_still_starting_is_told(worker_script, dead):
    worker_script(
        f'[ $((${{WORKER_ID#worker_}} % 2)) = {dead} ] && exit 3\nsleep 6\nexec {PYTHON} "$@"'
    )
    said = r"^a worker process died \(.* return code 3; -9"
    with pytest.raises(errors.UserError, match=said) as error:
        run_two_workers()
    assert isinstance(error.value.__cause__, KeyboardInterrupt)  # not the timeout of this test


def test_a_mistake_that_beam_cannot_raise_again_is_its_sentence():
    """As of a class that takes more than a message."""
    text = "RuntimeError: tfbio.base.errors.UsageError: --flag=x: expected y. [while running 'R']"
    for start in ("Traceback:\n  File\n", ""):
        assert str(pipeline._mistake(RuntimeError(start + text), ONE_WORKER, [])) == (
            "--flag=x: expected y."
        )


def test_an_error_of_the_program_after_a_mistake_keeps_its_traceback():
    name = "tfbio.base.errors"
    handled = f"{name}.UserError: a mistake\n\nDuring handling:\n\nKeyError: 'x'\n"
    others = (f"{name}.Gone: a", f"{name}.os: a", f"{name}.DataError", "os.error: a", "")
    for text in (handled, *others):
        assert pipeline._mistake(RuntimeError(text), ONE_WORKER, []) is None, text


# --- Object stores -------------------------------------------------------------------------------


def test_an_object_store_gets_the_same_bytes(
    pubmed_slice, documents_folder, vocab_file, examples_folder
):
    """The store is in this process's memory; the paths are those of fsspec's other stores."""
    store = "memory://bucket"
    for path in pubmed_slice.iterdir():
        file_paths.at(store, "pubmed", path.name).write_bytes(path.read_bytes())

    def of(folder):
        assert not file_paths.at(folder, ".work").exists()
        return {file.name: file.read_bytes() for file in file_paths.at(folder).iterdir()}

    made = f"{store}/documents"
    paths = input_files.find_files([f"{store}/pubmed"])
    settings = documents.DocumentSettings(shard_megabytes=0.07)
    documents.make_documents(paths, made, settings, runner=ONE_WORKER)
    assert of(made) == of(documents_folder)
    assert input_files.find_files([f"{store}/pubmed/*.gz"]) == input_files.find_files(
        [f"{store}/pubmed"]
    )
    vocabulary.make_vocabulary(made, f"{store}/vocab.txt", size=2000)
    assert file_paths.at(store, "vocab.txt").read_bytes() == vocab_file.read_bytes()
    settings = examples.ExampleSettings(sequence_length=64, held_out_fraction=0.2, shards=4)
    vocab = f"{store}/vocab.txt"
    examples.make_examples(made, vocab, f"{store}/examples", settings, runner=ONE_WORKER)
    assert of(f"{store}/examples") == of(examples_folder)
    with pytest.raises(errors.UserError, match="memory://bucket/gone does not exist"):
        input_files.find_files([f"{store}/gone"])
    storage.remove_folder(store)


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
    code, said = end(".work/unit-*", press_ctrl_c)
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
