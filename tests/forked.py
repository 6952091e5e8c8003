"""Runs programs in processes that have imported TensorFlow already.

Importing TensorFlow takes 3 to 4 seconds of a core. A test that starts, kills and continues a
command would take them several times. So one process for each process of pytest imports it, and
forks itself for each program, before TensorFlow has opened a device. The program has its own
arguments, folder, environment and streams, is `__main__`, imports tfbio itself, and takes signals
and ends as any other.

Tests of what is imported, and of how a command starts, run `sys.executable`.
"""

import functools
import gc
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SERVER = "TFBIO_TESTS_SERVER"  # the socket of a process that another one has started
_PRELOADED = ("tensorflow", "tf_keras", "tensorflow_text", "sklearn.metrics", "numba")
# These take effect when TensorFlow is imported, so a program cannot have others.
_READ_AT_IMPORT = ("TF_USE_LEGACY_KERAS", "TF_ENABLE_ONEDNN_OPTS", "LD_LIBRARY_PATH")


class Popen:
    """A program that runs, as `subprocess.Popen` has it; it ends with the block of a `with`.

    Args:
      command: `[sys.executable, script or "-m", ...]`.
      cwd: the folder it runs in.
      env: its environment; None: this process's.
      stdout, stderr: a file, `subprocess.PIPE` for a stream of text, or None for this process's.

    Attributes:
      args: the command.
      pid: its process, which leads a session of its own.
      returncode: its exit code, or minus the signal that ended it; None while it runs.
      stdout, stderr: streams of text where they were asked for.
    """

    def __init__(self, command, cwd=None, env=None, stdout=None, stderr=None):
        assert command[0] == sys.executable, command
        env = dict(os.environ if env is None else env)
        assert not [name for name in _READ_AT_IMPORT if env.get(name) != os.environ.get(name)]
        self.args, self.returncode = command, None
        self.stdout = self.stderr = None
        ours = []  # the ends of pipes that the program writes to
        descriptors = []
        for name, wanted in (("stdout", stdout), ("stderr", stderr)):
            if wanted == subprocess.PIPE:
                readable, writable = os.pipe()
                setattr(self, name, os.fdopen(readable, encoding="utf-8"))
                ours.append(writable)
                descriptors.append(writable)
            elif wanted == subprocess.STDOUT:
                descriptors.append(descriptors[0])
            else:
                standard = getattr(sys, f"__{name}__") if wanted is None else wanted
                descriptors.append(standard.fileno())
        request = {"argv": list(map(str, command[1:])), "cwd": str(cwd or os.getcwd()), "env": env}
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_server())
        socket.send_fds(self._connection, [b"."], descriptors)
        with self._connection.makefile("w", encoding="utf-8") as stream:
            print(json.dumps(request), file=stream)
        for descriptor in ours:
            os.close(descriptor)
        self._answers = self._connection.makefile("r", encoding="utf-8")
        self.pid = int(self._answers.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.returncode is None:
            self.kill()
            self.wait()
        for stream in (self.stdout, self.stderr, self._answers, self._connection):
            if stream is not None:
                stream.close()

    def wait(self, timeout=None):
        """Waits until it has ended, and returns its exit code.

        Raises:
          subprocess.TimeoutExpired: it runs after so many seconds.
        """
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int(self._answers.readline())
        return self.returncode

    def poll(self):
        """Returns its exit code, or None while it runs."""
        try:
            return self.wait(timeout=0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, sent):
        """Sends it a signal if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, sent)

    def kill(self):
        """Ends it by SIGKILL."""
        self.send_signal(signal.SIGKILL)


def run(command, timeout=300, **options):
    """Runs a program to its end.

    Args:
      command, options: as for `Popen`.
      timeout: seconds.

    Returns:
      A `subprocess.CompletedProcess` with what it wrote to stdout and stderr, str.

    Raises:
      subprocess.TimeoutExpired: it was killed after so many seconds.
    """
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        with Popen(command, stdout=stdout, stderr=stderr, **options) as process:
            process.wait(timeout)
        for stream in (stdout, stderr):
            stream.seek(0)
        return subprocess.CompletedProcess(
            command, process.returncode, stdout.read(), stderr.read()
        )


def shell_command(module):
    """Returns the text of a shell script that runs a module, for programs that type commands.

    It passes on its arguments, and ends with the module's exit code.
    """
    code = f"import runpy, sys; sys.exit(runpy.run_path({__file__!r})['_pass_on'](sys.argv[1:]))"
    words = [f"{_SERVER}={_server()}", sys.executable, "-c", code, module]
    return f'#!/bin/sh\nexec env {shlex.join(words)} "$@"\n'


def _pass_on(words):
    """Runs a module with arguments in place of this process; returns its exit code."""
    with Popen([sys.executable, "-m", *words]) as program:
        return program.wait()


@functools.cache
def _server():
    """Starts the process that forks, which ends with this one; returns the path of its socket."""
    if started := os.environ.get(_SERVER):
        return started
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name, "socket")
    process = subprocess.Popen(
        [sys.executable, __file__, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout.readline() == b"ready\n"
    _server.kept = process, folder  # else the pipes would be closed, and the socket gone
    return str(path)


def _serve(path):
    """Listens for programs; returns in a fork for each of them with what it is to run."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
        while True:
            if sys.stdin in select.select([sys.stdin, listener], [], [])[0]:
                sys.exit()  # pytest has ended
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    return _become(connection)


def _become(connection):
    """Forks again for a program, and says when it has ended; returns its arguments in it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
    with connection.makefile("r", encoding="utf-8") as stream:
        request = json.loads(stream.readline())
    program = os.fork()
    if program:
        for descriptor in (1, 2, *descriptors):
            os.close(descriptor)  # a pipe ends with the program
        connection.sendall(f"{program}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        connection.sendall(f"{code}\n".encode())
        os._exit(0)
    connection.close()
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate([nothing, *descriptors]):
        os.dup2(descriptor, number)
    for descriptor in {nothing, *descriptors}:
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    return request["argv"]


def _run(argv):
    """Runs a script, or a module after -m, as the main program."""
    given = os.environ.get("PYTHONPATH", "")
    sys.path[1:1] = [folder for folder in given.split(os.pathsep) if folder]
    if argv[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = ["-m", *argv[2:]]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(argv[0]).absolute().parent)
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    import tfbio  # noqa: F401  sets what TensorFlow reads

    for _name in _PRELOADED:
        __import__(_name)
    for _name in [name for name in sys.modules if name.split(".")[0] == "tfbio"]:
        del sys.modules[_name]
    gc.collect()
    gc.freeze()  # else each program would look for garbage in all of it as it ends
    gc.set_threshold(50_000, 20, 100)  # and often in what it traces, as in tests/conftest.py
    _run(_serve(sys.argv[1]))
