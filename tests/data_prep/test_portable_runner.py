"""Runs the stages over Beam's portable protocol, on which Flink and Spark run them, on loopback.

A job service in one process, worker pools in two others that share nothing with the command: not
its process, its current folder, nor its environment. Each pool starts a process for its worker.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.slow

# Every worker process notes what it renamed to its final name, in a file named by the process that
# started it and by itself: who did the work is told by the work.
RECORDER = """
import os, sys

def note(event, arguments):
    if event == "os.rename":
        name = f"{os.getppid()}-{os.getpid()}"
        with open(os.path.join(os.environ["RENAMED"], name), "a") as stream:
            print(os.fspath(arguments[1]), file=stream)

sys.addaudithook(note)
"""


class Cluster(NamedTuple):
    """Holds what a test needs to know of the processes."""

    flags: list[str]  # for a command
    pools: list[subprocess.Popen]
    renamed: Path  # the workers' notes

    def files_by_pool(self, folder):
        """Returns the files that workers finished in `folder`: {process id of the pool: names}."""
        result = defaultdict(set)
        for notes in self.renamed.iterdir():
            for path in map(Path, notes.read_text().splitlines()):
                if path.parent == Path(folder):
                    result[int(notes.name.split("-")[0])].add(path.name)
        return result


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def wait_for(condition, process, seconds=120):
    """Waits until `condition()` is true, at most so long, and only while the process lives."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert process.poll() is None, f"{process.args} ended with {process.returncode}"
        assert time.monotonic() < deadline, f"{process.args} took more than {seconds} s"
        time.sleep(0.01)
    return result


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("localhost", port), 1):
        return True
    return False


@pytest.fixture(scope="module")
def cluster(running, tmp_path_factory):
    """Starts two worker pools, and a job service that takes a worker of each for every job."""
    folder = tmp_path_factory.mktemp("cluster")
    renamed = folder / "renamed"
    renamed.mkdir()
    # Pools call `python`, which on this machine may be another or none.
    (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / "python").chmod(0o755)
    (folder / "sitecustomize.py").write_text(RECORDER)
    environment = {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "RENAMED": str(renamed),
    }
    module = "apache_beam.runners.worker.worker_pool_main"
    with contextlib.ExitStack() as stack:
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        monkeypatch.setenv("no_grpc_proxy", "localhost")  # for every process of the tests
        ports = [free_port() for _ in range(2)]
        pools = []
        for port in ports:
            command = [sys.executable, "-m", module, f"--service_port={port}"]
            log = stack.enter_context(open(folder / f"pool-{port}.log", "wb"))
            pool = running(command, cwd=folder, env=environment, stdout=log)
            pools.append(stack.enter_context(pool))
        ports_file = folder / "ports"
        command = [sys.executable, HERE / "beam_cluster.py", ports_file, *map(str, ports)]
        log = stack.enter_context(open(folder / "job_service.log", "wb"))
        service = stack.enter_context(running(command, cwd=folder, stdout=log))
        wait_for(ports_file.exists, service)
        for port, pool in zip(ports, pools, strict=True):
            wait_for(lambda port=port: answers(port), pool)
        job_port, front_port = ports_file.read_text().split()
        flags = [
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{job_port}",
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{front_port}",
        ]
        yield Cluster(flags, pools, renamed)


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
