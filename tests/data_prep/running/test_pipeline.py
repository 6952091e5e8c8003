import contextlib
import dataclasses
import io
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_prep import documents, examples, vocabulary
from data_prep.running import pipeline
from tfbio.base import cli, ctrl_c, storage
from tfbio.base.manifests import MANIFEST, Manifest
from tfbio.base.shards import DataError, write_shard

ROOT = Path(__file__).resolve().parents[3]


# --- Finished and interrupted work ---------------------------------------------------------------


def finish(folder, settings, shards=("documents-00000-00000.tfrecord",)):
    """What a finished stage leaves."""
    work = pipeline.open_work(folder, settings, overwrite=False)
    written = [write_shard(folder / name, [name.encode()]) for name in shards]
    for shard in written:
        pipeline.write_step(work, shard.file, {"shard": dataclasses.asdict(shard)})
    manifest = Manifest("documents", settings, {}, written)
    pipeline.close_work(folder, manifest)
    return manifest


def test_finished_work_is_known_by_its_settings(tmp_path):
    settings = {"languages": ("eng",), "min_words": 3}  # JSON has no tuples
    path = tmp_path / MANIFEST
    assert pipeline.finished(path, "documents", settings, False) is None
    finish(tmp_path, settings)
    assert pipeline.finished(path, "documents", settings, False).kind == "documents"
    assert pipeline.finished(path, "documents", settings, overwrite=True) is None
    # Examples that are written into the folder of their documents would replace these.
    with pytest.raises(DataError, match="holds documents, which examples do not replace"):
        pipeline.finished(path, "examples", settings, overwrite=True)
    with pytest.raises(DataError, match="min_words=3, not 4: add --overwrite"):
        pipeline.finished(path, "documents", settings | {"min_words": 4}, False)
    with pytest.raises(DataError, match="new_setting=null, not 1"):
        pipeline.finished(path, "documents", settings | {"new_setting": 1}, False)
    with pytest.raises(DataError, match="not \\[1, 1, .*\\.\\.\\.: add") as caught:
        pipeline.finished(path, "documents", settings | {"languages": [1] * 1000}, False)
    assert len(str(caught.value)) < 1000
    with pytest.raises(DataError, match="describes documents, but examples"):
        pipeline.finished(path, "examples", settings, False)
    (shard,) = tmp_path.glob("*.tfrecord")
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(DataError, match="bytes instead of .* --overwrite"):
        pipeline.finished(path, "documents", settings, False)
    shard.unlink()
    with pytest.raises(DataError, match="is missing"):
        pipeline.finished(path, "documents", settings, False)


def test_a_run_killed_after_its_manifest_leaves_nothing(tmp_path):
    (shard,) = finish(tmp_path, {"a": 1}).shards
    (tmp_path / pipeline.WORK).mkdir()
    (tmp_path / pipeline.WORK / "settings.json").touch()
    (tmp_path / "train-00000-of-00001.tfrecord.1.tmp").touch()
    assert pipeline.finished(tmp_path / MANIFEST, "documents", {"a": 1}, False)
    assert {path.name for path in tmp_path.iterdir()} == {MANIFEST, shard.file}


def test_work_goes_on_with_the_same_settings_and_anew_with_others(tmp_path):
    finish(tmp_path, {"a": 1}, ["documents-00000-00000.tfrecord", "train-00000-of-00001.tfrecord"])
    (tmp_path / "notes.txt").write_text("the user's")
    assert pipeline.read_steps(tmp_path / pipeline.WORK, "documents") == []
    work = pipeline.open_work(tmp_path, {"a": 2}, overwrite=False)
    # Nothing of the run before can be taken for this one's.
    assert sorted(path.name for path in tmp_path.iterdir()) == [".work", "notes.txt"]
    pipeline.write_step(work, "b", {"n": 2})
    pipeline.write_step(work, "a", {"n": 1})
    (work / "a2.json.tmp").write_text("half of a no")
    assert pipeline.open_work(tmp_path, {"a": 2}, overwrite=False) == work
    assert pipeline.read_steps(work, "")[:2] == [{"n": 1}, {"n": 2}]
    assert pipeline.read_steps(work, "b") == [{"n": 2}]
    pipeline.open_work(tmp_path, {"a": 3}, overwrite=False)
    assert pipeline.read_steps(work, "a") == []
    pipeline.write_step(work, "a", {})
    # --overwrite replaces what is finished; what an interrupted run with it left goes on.
    pipeline.open_work(tmp_path, {"a": 3}, overwrite=True)
    assert pipeline.read_steps(work, "a") == [{}]
    (tmp_path / MANIFEST).touch()
    pipeline.open_work(tmp_path, {"a": 3}, overwrite=True)
    assert pipeline.read_steps(work, "a") == []
    assert not (tmp_path / MANIFEST).exists()


def test_a_failed_stage_leaves_no_folder_but_keeps_what_is_not_its_own(tmp_path):
    for others in ([], ["notes.txt"]):
        pipeline.open_work(tmp_path / "out", {}, overwrite=False)
        for name in others:
            (tmp_path / "out" / name).touch()
        (tmp_path / "out" / "train-00000-of-00001.tfrecord.1.tmp").touch()
        pipeline.close_work(tmp_path / "out", None)
        assert (tmp_path / "out").exists() == bool(others)
        assert [path.name for path in tmp_path.glob("out/*")] == others


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    for output in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(DataError, match=f"cannot write to {output}: .*\\.$"):
            pipeline.open_work(output, {}, overwrite=False)


def test_a_shard_is_done_only_as_it_was_written(tmp_path):
    work = pipeline.open_work(tmp_path, {}, overwrite=False)
    name = "train-00000-of-00001.tfrecord"
    assert not pipeline.shard_is_done(tmp_path, name)
    shard = write_shard(tmp_path / name, [b"one"])
    assert not pipeline.shard_is_done(tmp_path, name)  # it was not noted
    pipeline.write_step(work, name, {"shard": dataclasses.asdict(shard)})
    assert pipeline.shard_is_done(tmp_path, name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[:-1] + b"\0")
    assert not pipeline.shard_is_done(tmp_path, name)
    (tmp_path / name).write_bytes(data)
    for damaged in ("", "[]", "{}", '{"shard": {"file": 1}}'):
        (work / f"{name}.json").write_text(damaged)
        assert not pipeline.shard_is_done(tmp_path, name)


# --- Progress and flags --------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_line_in_a_log_and_a_bar_on_a_terminal(tmp_path, capsys, monkeypatch):
    def work():
        with pipeline._progress(tmp_path, {"read": 2, "write": "*.made"}):
            for name in ("read-1", "read-2", "write-1"):
                pipeline.write_step(tmp_path, name, {})
            for name in ("1.made", "2.made", "3.made"):
                (tmp_path / name).touch()

    work()
    assert capsys.readouterr().err == "progress: read 2/2, write 1/3\n"
    monkeypatch.setattr(sys, "stderr", Terminal())
    work()
    shown = sys.stderr.getvalue()
    assert "read 2/2, write 1/3" in shown and "3/5" in shown and "progress:" not in shown


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("--job_nam=x", "'--job_nam=x': did you mean --job_name?"),
        ("--qqqqqqqq", "'--qqqqqqqq': see --help."),
        ("--job_name=x", ""),  # Beam knows it
    ],
)
def test_flags_that_nobody_knows_are_refused(flag, hint):
    with pytest.raises(cli.UserError, match="neither") if hint else contextlib.nullcontext() as e:
        pipeline._check_flags([flag])
    assert not hint or hint in str(e.value)


def test_a_misspelt_flag_costs_nothing(command, fails_in_one_sentence, pubmed_slice, tmp_path):
    finish(tmp_path / "out", {})
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    flags = [f"--input={pubmed_slice}", f"--output={tmp_path}/out", "--min_word=9"]
    for overwrite in ([], ["--overwrite"]):
        said = fails_in_one_sentence(command("documents", *flags, *overwrite))
        assert "did you mean --min_words?" in said
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


# --- Object stores -------------------------------------------------------------------------------


def test_an_object_store_gets_the_same_bytes(
    pubmed_slice, documents_folder, vocab_file, examples_folder
):
    """The store is in this process's memory; the paths are those of fsspec's other stores."""
    store = "memory://bucket"
    for path in pubmed_slice.iterdir():
        storage.at(store, "pubmed", path.name).write_bytes(path.read_bytes())

    def of(folder):
        assert not storage.at(folder, ".work").exists()
        return {file.name: file.read_bytes() for file in storage.at(folder).iterdir()}

    made = f"{store}/documents"
    settings = {"shard_megabytes": 0.07, "workers": 1}
    documents.make_documents(documents.find_files([f"{store}/pubmed"]), made, **settings)
    assert of(made) == of(documents_folder)
    assert documents.find_files([f"{store}/pubmed/*.gz"]) == documents.find_files(
        [f"{store}/pubmed"]
    )
    vocabulary.make_vocabulary(made, f"{store}/vocab.txt", size=2000)
    assert storage.at(store, "vocab.txt").read_bytes() == vocab_file.read_bytes()
    settings = {"sequence_length": 64, "held_out_fraction": 0.2, "shards": 4, "workers": 1}
    examples.make_examples(made, f"{store}/vocab.txt", f"{store}/examples", **settings)
    assert of(f"{store}/examples") == of(examples_folder)
    with pytest.raises(cli.UserError, match="memory://bucket/gone does not exist"):
        documents.find_files([f"{store}/gone"])
    storage.remove_folder(store)


# --- Processes that die --------------------------------------------------------------------------


def alive(group):
    """The processes of a group that run: {process id: command line}."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, its_group = (path / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found[int(path.name)] = (path / "cmdline").read_text()
    return found


def documents_flags(pubmed_slice, output):
    return [
        f"--input={pubmed_slice}",
        # The slow splitter and small shards: seconds in which a run can be ended.
        "--sentence_splitter=scispacy",
        "--shard_megabytes=0.03",
        "--workers=2",
        f"--output={output}",
    ]


@pytest.fixture(scope="module")
def undisturbed(pubmed_slice, tmp_path_factory):
    """The documents that those flags make, made by one process."""
    folder = tmp_path_factory.mktemp("undisturbed") / "documents"
    settings = {"sentence_splitter": "scispacy", "shard_megabytes": 0.03, "workers": 1}
    documents.make_documents(documents.find_files([str(pubmed_slice)]), folder, **settings)
    return folder


@pytest.mark.slow
def test_what_ends_a_run_is_said_and_the_run_continues(
    command, running, pubmed_slice, undisturbed, files_of, tmp_path
):
    flags = documents_flags(pubmed_slice, tmp_path / "out")
    line = [sys.executable, "-m", "data_prep.documents", *flags]

    def end(moment, how):
        """Runs the command until a file is there; gives its exit code and what it said last."""
        with running(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 120
            while not list((tmp_path / "out").glob(moment)):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
            how(process)
            said, _ = process.communicate(timeout=60)
            assert not (tmp_path / "out" / MANIFEST).exists(), "it was ended too late"
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

    # While it reads, and while it writes.
    code, said = end(".work/unit-*", press_ctrl_c)
    assert (code, said) == (130, f"interrupted: {ctrl_c.INTERRUPTED}")
    code, said = end("documents-*", kill_a_worker)
    assert code == 1
    assert said.startswith("error: a worker process died") and said.endswith("it continues.")
    done = command("documents", *flags)
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "out") == files_of(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["documents", "examples"])
def test_runs_killed_at_random_moments_end_with_the_same_bytes(
    stage,
    command,
    running,
    pubmed_slice,
    undisturbed,
    documents_folder,
    vocab_file,
    examples_folder,
    files_of,
    tmp_path,
):
    output = tmp_path / "out"
    if stage == "documents":
        flags, expected = documents_flags(pubmed_slice, output), undisturbed
    else:
        flags = [f"--documents={documents_folder}", f"--vocab={vocab_file}", f"--output={output}"]
        flags += ["--sequence_length=64", "--held_out_fraction=0.2", "--shards=4", "--workers=2"]
        expected = examples_folder
    line = [sys.executable, "-m", f"data_prep.{stage}", *flags]
    rng = random.Random(0)
    kills = 0
    for _ in range(3):
        # A moment is counted in files that come and go, so that all are alike on a slow machine.
        seen, moment = set(output.rglob("*")), rng.randrange(1, 12)
        moment += len(seen)
        with running(line, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            while len(seen) < moment and process.poll() is None:
                seen |= set(output.rglob("*"))
                time.sleep(0.005)
            kills += process.poll() is None
    done = command(stage, *flags)
    assert done.returncode == 0, done.stderr
    assert kills > 1, "it was killed too late to show anything"
    assert files_of(output) == files_of(expected)
