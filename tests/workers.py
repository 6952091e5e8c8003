"""Two processes of one command, that meet on loopback as the workers of one job."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

from tests import forked

ROOT = Path(__file__).parents[1]


class Workers:
    """Two processes of one command; the first is the chief.

    Args:
      command: its words.
      folder: beside it are the files with what the processes say.
      own: further words of each process.
    """

    def __init__(self, command: list[str], folder: Path, own: tuple[list[str], ...] = ([], [])):
        sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
        addresses = [f"localhost:{found.getsockname()[1]}" for found in sockets]
        for found in sockets:
            found.close()
        self.outputs = [folder.with_name(f"{folder.name}-{number}.txt") for number in range(4)]
        self.processes = []
        for index in range(2):
            cluster = {"worker": addresses}
            task = {"type": "worker", "index": index}
            out, error = self.outputs[2 * index : 2 * index + 2]
            with out.open("w") as stdout, error.open("w") as stderr:
                self.processes.append(
                    forked.Popen(
                        [*command, "--strategy=multi_worker", *own[index]],
                        cwd=ROOT,
                        env=os.environ
                        | {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})},
                        stdout=stdout,
                        stderr=stderr,
                    )
                )

    def send_after_step(self, step: int, sent: signal.Signals, line: str = r"^step (\d+)/") -> None:
        """Sends the second one a signal when the chief has said that it did so many steps.

        Args:
          step: the step.
          sent: the signal.
          line: a pattern of the lines that say a step.
        """
        steps: list[int] = []
        end = time.monotonic() + 200
        while not steps or steps[-1] < step:
            if time.monotonic() > end or self.processes[0].poll() is not None:
                break  # what it says is in what `end` returns
            time.sleep(0.05)
            said = re.findall(line, self.outputs[0].read_text(), re.MULTILINE)
            steps = [int(number) for number in said]
        self.processes[1].send_signal(sent)

    def end(self) -> list[tuple[int, str, str]]:
        """Returns exit code, stdout and stderr of both, which are killed where they do not end."""
        try:
            for process in self.processes:
                process.wait(timeout=240)
        finally:
            for process in self.processes:
                process.kill()
        codes = [process.wait() for process in self.processes]
        texts = [path.read_text() for path in self.outputs]
        return [(codes[0], *texts[:2]), (codes[1], *texts[2:])]
