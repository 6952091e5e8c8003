"""Measures how long commands take to begin: `--help`, the first step and the first prediction.

    python -m benchmarks.startup --examples=work/examples_128 --model=quickstart/diseases

Prints two Markdown tables of medians over the rounds, in which each row has a turn:

  first step, prediction   seconds, and CPU seconds, from the end of `import tensorflow` to the end
                           of the first step of pretraining (ELECTRA-small and -base, batches of 8
                           examples) or of fine-tuning (the quick start's MiniLM), the step
                           included; or to the end of a command that annotates one citation. The
                           import is that of the same process, as tfbio has it (without Keras 3).
                           The last column has the fastest of the next three steps.
  --help                   seconds, and CPU seconds, of the whole process, for each command.

Each is a process of its own, with a warm file cache and modules that Python has compiled before.
--examples is a folder that `data_prep.examples` made, with 128 tokens an example; --model is a
fine-tuned tagger.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.best_options import medians
from benchmarks.child_process import ROOT, cost_of, run_tfbio
from benchmarks.command import Parser, count, find_minilm, markdown_table, run
from tfbio.base import console
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest

# Runs a command after `import tensorflow`, and ends it after four steps. The last line on stdout
# has the seconds and the CPU seconds of the import, and of the command to its first step; and the
# seconds of the fastest later step.
_FIRST = """
import importlib.util, json, os, runpy, sys, time
import tfbio

def now():
    return [time.perf_counter(), time.process_time()]

def say(ended, later=0.0):
    spent = [[b - a for a, b in zip(*pair)] for pair in ((begun, imported), (imported, ended))]
    print("\\n" + json.dumps([*sum(spent, []), later]), flush=True)
    os._exit(0)

begun = now()
import tensorflow
imported = now()
sys.argv = sys.argv[1:]

def fit(self, step, until, train, *_):
    train(1)
    ended, later = now(), []
    for _ in range(3):  # of which one may trace a graph for another shape
        start = now()[0]
        train(1)
        later.append(now()[0] - start)
    say(ended, min(later))

class Hook:
    def find_spec(self, name, *_):
        if name != "tfbio.training.trainer":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.Trainer.fit = fit

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Hook())
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    if end.code:
        raise
say(now())
"""
_CITATION = """<?xml version="1.0"?>
<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article>
<ArticleTitle>Aspirin and colorectal cancer.</ArticleTitle><Abstract><AbstractText>Aspirin lowers
the risk of colorectal cancer. Patients with diabetes mellitus did not take part in the trial.
</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>
"""


def _cases(examples: str, model: str, folder: Path) -> dict[str, list[str]]:
    """Returns the command of each row, which writes into a new folder {output}."""
    vocab_size = read_manifest(examples, "examples").settings["vocab_size"]
    pretrain = ["run_pretraining.py", f"--examples={examples}", "--model_dir={output}"]
    pretrain += ["--set=train_batch_size=8", f"--set=encoder.vocab_size={vocab_size}"]
    minilm = find_minilm()
    data = folder / "quickstart"
    run_tfbio("quickstart", f"--output={data}")
    citation = folder / "citation.xml"
    citation.write_text(_CITATION, encoding="utf-8")
    return {
        "pretraining, small": [*pretrain, "--hparams=small"],
        "pretraining, base": [*pretrain, "--hparams=base", "--set=final_sequence_length=0"],
        "fine-tuning, MiniLM": [
            "run_finetuning.py",
            "--task=ncbi_disease",
            f"--data_dir={data}/ncbi_disease",
            "--hparams=quickstart",
            f"--init_checkpoint={minilm}",
            "--output_dir={output}",
        ],
        "prediction, one citation": [
            "run_finetuning.py",
            "--mode=predict",
            f"--model={os.path.abspath(model)}",
            f"--input={citation}",
            "--output={output}",
        ],
    }


def _environment() -> dict[str, str]:
    """Returns the variables of a user, whose Python keeps what it compiles."""
    kept = {name: x for name, x in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "3"}


def _first(command: list[str], output: Path) -> list[float]:
    """Returns seconds and CPU seconds of the import and of the command, and those of a later step.

    The last is 0 for a command without steps.
    """
    arguments = [argument.replace("{output}", str(output)) for argument in command]
    done = subprocess.run(
        [sys.executable, "-c", _FIRST, *arguments],
        cwd=ROOT,
        env=_environment(),
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    last = done.stdout.splitlines()[-1]
    return json.loads(last)


def _help(name: str) -> list[float]:
    """Returns seconds and CPU seconds of a command's `--help`."""
    cost = cost_of([sys.executable, "-m", "tfbio", name, "--help"], env=_environment())
    return [cost.wall, cost.cpu]


def _print_table(heads: list[str], seen: dict[str, list[list[float]]]) -> None:
    """Prints a Markdown table with the medians over the rounds."""
    rows = [[name, *(f"{x:.2f}" for x in medians(rounds))] for name, rounds in seen.items()]
    print("\n".join(markdown_table(heads, rows, right=range(1, len(heads)))))


def main() -> None:
    """Measures, and prints the tables."""
    parser = Parser(__doc__ or "")
    parser.add_argument("--examples", required=True, help="a folder made by data_prep.examples")
    parser.add_argument("--model", required=True, help="a fine-tuned tagger")
    parser.add_argument("--rounds", type=count, default=5, help="how often each is measured")
    given = parser.parse_args()
    if not os.path.isdir(given.model):
        raise UserError(f"--model={given.model}: there is no such folder.")
    given.examples = os.path.abspath(given.examples)
    with tempfile.TemporaryDirectory() as folder:
        cases = _cases(given.examples, given.model, Path(folder))
        firsts: dict[str, list[list[float]]] = {name: [] for name in cases}
        helps: dict[str, list[list[float]]] = {name: [] for name in console.COMMANDS}
        # One round more, which warms the file cache.
        for number in range(given.rounds + 1):
            for row, (name, command) in enumerate(cases.items()):
                seen = _first(command, Path(folder) / f"{number}_{row}")
                firsts[name] += [seen] * bool(number)
            for name in helps:
                helps[name] += [_help(name)] * bool(number)
    heads = ["`import tensorflow`, s", "the same, CPU s", "beyond it, s", "the same, CPU s"]
    _print_table(["first", *heads, "a later step, s"], firsts)
    print()
    _print_table(["`tfbio COMMAND --help`", "s", "CPU s"], helps)


if __name__ == "__main__":
    run(main)
