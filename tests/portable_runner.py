"""Runs Beam's portable protocol, over which Flink and Spark run pipelines, on loopback.

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

ROOT = Path(__file__).resolve().parents[1]

# Every worker process notes what it renamed to its final name, and each index of a checkpoint that
# it opened, in a file named by the process that started it and by itself: who did the work is told
# by the work.
RECORDER = """
import os, sys

def note(event, arguments):
    if event == "os.rename":
        path = os.fspath(arguments[1])
    elif event == "open" and str(arguments[0]).endswith(".index"):
        path = arguments[0]
    else:
        return
    name = f"{os.getppid()}-{os.getpid()}"
    with open(os.path.join(os.environ["RENAMED"], name), "a") as stream:
        print(path, file=stream)

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

    def opened(self, path):
        """Returns how often each worker process opened the index of a checkpoint at `path`."""
        counts = [notes.read_text().splitlines().count(path) for notes in self.renamed.iterdir()]
        return [count for count in counts if count]


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


@contextlib.contextmanager
def started(running, folder):
    """Starts two worker pools, and a job service that takes a worker of each for every job.

    Args:
      running: the fixture of this name.
      folder: for their files.
    """
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
        command = [sys.executable, ROOT / "tests" / "beam_cluster.py", ports_file, *map(str, ports)]
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
