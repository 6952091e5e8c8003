"""Runs the stages over Beam's portable protocol; see `tests/portable_runner.py`."""

import os
import subprocess
import sys

import pytest

from tests import portable_runner
from tests.portable_runner import ROOT, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(running, tmp_path_factory):
    with portable_runner.started(running, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def output_flag(folder):
    """Returns a path as a user types it; the workers' current folder is another."""
    return f"--output={os.path.relpath(folder, ROOT)}"


def check_who_wrote(cluster, folder, names):
    """Asserts that both pools wrote some of the shards, and that nobody else wrote any."""
    by_pool = cluster.files_by_pool(folder)
    assert by_pool.keys() == {pool.pid for pool in cluster.pools}
    assert set.union(*by_pool.values()) == {name for name in names if name.endswith(".tfrecord")}


def test_bytes_are_those_of_the_local_runner(
    command, cluster, documents_folder, vocab_file, examples_folder, files_of, tmp_path
):
    output = tmp_path / "out"
    flags = [f"--documents={documents_folder}", f"--vocab={vocab_file}", "--shards=4"]
    flags += ["--sequence_length=64", "--held_out_fraction=0.2"]
    done = command("examples", *flags, *cluster.flags, output_flag(output), timeout=300)
    assert done.returncode == 0, done.stderr
    written = files_of(output)
    assert written == files_of(examples_folder)
    check_who_wrote(cluster, output, written)


def test_a_killed_command_continues(
    command, running, cluster, pubmed_slice, documents_folder, files_of, tmp_path
):
    output = tmp_path / "out"
    flags = [f"--input={pubmed_slice}", "--shard_megabytes=0.07", *cluster.flags]
    flags.append(output_flag(output))
    line = [sys.executable, "-m", "data_prep.documents", *flags]
    with running(line, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: list(output.glob("*.tfrecord")), process)
    assert not (output / "manifest.json").exists(), "it was killed too late"
    done = command("documents", *flags, timeout=300)
    assert done.returncode == 0, done.stderr
    written = files_of(output)
    assert written == files_of(documents_folder)
    check_who_wrote(cluster, output, written)
