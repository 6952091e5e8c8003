r"""Whether a small BERT learns sentence pairs, and whether one does from shuffled labels.

    python -m benchmarks.sentence_pairs --examples=demo/pairs --output=out/sentence_pairs

The examples are those of `data_prep.examples --objective=next_sentence` or `sentence_order`. Two
runs of `run_pretraining.py` have the demo's encoder, BERT's share of masked tokens, and the same
batches. The second one's labels are dealt out anew among the examples of each split, so that they
say nothing; there are as many of each. A run that was interrupted goes on.

The table has the balanced accuracy on all whole batches of held-out examples after the last step.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.command import Parser, count, run
from tfbio.base.errors import UserError
from tfbio.base.example_records import LABELLED_OBJECTIVES
from tfbio.base.manifests import MANIFEST, Manifest, read_manifest, write_manifest
from tfbio.base.shards import read_shard, write_shard
from tfbio.base.tf_example import parse_example, serialize_example
from tfbio.reporting import curves
from tfbio.text import vocabularies

ROOT = Path(__file__).resolve().parents[1]
FIGURE = "sentence_pair_balanced_accuracy"
# The 97.5 % quantile of the standard normal distribution.
QUANTILE = 1.96


def parse_flags() -> argparse.Namespace:
    """Reads the command line."""
    parser = Parser(__doc__)
    parser.add_argument("--examples", required=True, help="a folder of pairs with labels")
    parser.add_argument("--output", required=True, help="where the runs go")
    parser.add_argument("--steps", type=count, default=5000)
    parser.add_argument("--batch_size", type=count, default=32)
    return parser.parse_args()


def labels_of(folder: str, manifest: Manifest, split: str) -> list[int]:
    """Returns the label of each example of a split, in the order of the shards."""
    return [label for _, label in _labelled(folder, manifest, split)]


def _labelled(folder: str, manifest: Manifest, split: str) -> Iterator[tuple[dict, int]]:
    for shard in manifest.shards_of(split):
        for record in read_shard(folder, shard):
            example = parse_example(record)
            yield example, example["label"][0]


def shuffle_labels(folder: str, manifest: Manifest, target: str) -> None:
    """Writes the same examples with labels dealt out anew within each split."""
    os.makedirs(target, exist_ok=True)
    vocabularies.copy_vocabulary(vocabularies.find_vocabulary(folder), target)
    shards = []
    for split in ("train", "heldout"):
        labels = labels_of(folder, manifest, split)
        random.Random(0).shuffle(labels)
        dealt = iter(labels)
        for shard in manifest.shards_of(split):
            records = (
                serialize_example({**parse_example(record), "label": [next(dealt)]})
                for record in read_shard(folder, shard)
            )
            shards.append(write_shard(os.path.join(target, shard.file), records, split))
    written = Manifest(manifest.kind, manifest.settings, manifest.counts, shards)
    write_manifest(os.path.join(target, MANIFEST), written)


def train(examples: str, manifest: Manifest, model_dir: str, flags: argparse.Namespace) -> float:
    """Trains a model, or goes on, and returns its balanced accuracy on held-out examples."""
    held_out = sum(shard.records for shard in manifest.shards_of("heldout"))
    changes = {
        "objective": "mlm",
        "sentence_pair_head": "true",
        "sentence_pair_loss": "true",
        "mask_prob": 0.15,
        "encoder.vocab_size": manifest.settings["vocab_size"],
        "sequence_length": manifest.settings["sequence_length"],
        "train_batch_size": flags.batch_size,
        "num_train_steps": flags.steps,
        "run.num_eval_batches": max(1, held_out // flags.batch_size),
        "run.eval_every_steps": flags.steps,
    }
    command = [sys.executable, str(ROOT / "run_pretraining.py")]
    command += [f"--examples={examples}", f"--model_dir={model_dir}"]
    command += [f"--hparams={ROOT / 'hparams' / 'quickstart.json'}"]
    command += [f"--set={name}={value}" for name, value in changes.items()]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return curves.read_run(model_dir)["heldout"][FIGURE][-1][1]


def main() -> None:
    flags = parse_flags()
    manifest = read_manifest(flags.examples, "examples")
    objective = manifest.settings["objective"]
    if objective not in LABELLED_OBJECTIVES:
        raise UserError(
            f"--examples={flags.examples} was made with --objective={objective}: give examples "
            f"of {' or '.join(LABELLED_OBJECTIVES)}."
        )
    shuffled = os.path.join(flags.output, "shuffled_examples")
    if not os.path.exists(os.path.join(shuffled, MANIFEST)):
        shuffle_labels(flags.examples, manifest, shuffled)
    labels = labels_of(flags.examples, manifest, "heldout")
    # Of a mean of two shares, each of whose variance is at most a quarter over the examples.
    deviation = 0.5 * math.sqrt(sum(0.25 / max(1, labels.count(label)) for label in (0, 1)))
    print(
        f"\n{objective}, {flags.steps} steps of {flags.batch_size} examples of "
        f"{manifest.settings['sequence_length']} tokens; {len(labels)} held-out examples, "
        f"{sum(labels)} of them with label 1\n"
    )
    print("| labels | held-out balanced accuracy | 95 % interval |\n|---|---|---|")
    for name, folder in (("true", flags.examples), ("shuffled", shuffled)):
        model_dir = os.path.join(flags.output, name)
        accuracy = train(folder, read_manifest(folder, "examples"), model_dir, flags)
        interval = [accuracy + side * QUANTILE * deviation for side in (-1, 1)]
        print(f"| {name} | {accuracy:.4f} | {interval[0]:.4f} to {interval[1]:.4f} |", flush=True)


if __name__ == "__main__":
    run(main)
