r"""Whether a small BERT learns words and sentence pairs, and whether one does from shuffled labels.

    python -m benchmarks.sentence_pairs --examples=out/pairs --output=out/sentence_pairs

The examples are those of `data_prep.examples --objective=next_sentence` or `sentence_order`. For
each seed two runs of `run_pretraining.py` have the same settings and the same batches. The second
one's labels are dealt out anew among the examples of each split, so that they say nothing; there
are as many of each.

The first table has a line for each run, with what it reaches on held-out articles: the loss of
masked tokens, how far it is below that of a model that knows only the training split's word
frequencies, and the balanced accuracy on pairs, with its interval over the held-out examples. The
second table has the mean accuracy over the seeds, with its interval over examples and seeds.

All masked tokens become [MASK]. By default 15 % of them stay as they are, and a model that copies
these is 15 % better than word frequencies before it has learned anything else.

A run that was interrupted goes on. A run that has ended is not trained again.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.metrics import balanced_accuracy_score

from benchmarks.child_process import ROOT
from benchmarks.command import Parser, count, run
from tfbio.base.errors import UserError
from tfbio.base.example_records import LABELLED_OBJECTIVES, ExampleFormat
from tfbio.base.manifests import MANIFEST, Manifest, read_manifest, write_manifest
from tfbio.base.shards import read_shard, write_shard
from tfbio.base.tf_example import parse_example, serialize_example
from tfbio.reporting import curves
from tfbio.text import vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer

# Beside those of the demo's encoder.
SETTINGS = {
    "objective": "mlm",
    "sentence_pair_head": "true",
    "sentence_pair_loss": "true",
    "mask_prob": 0.15,
    "mask_token_prob": 1,
    "encoder.initializer_range": 0.04,
    "learning_rate": 4e-3,
    "num_warmup_steps": 50,
    "adam_beta_2": 0.98,
    "adam_bias_correction": "true",
    "run.save_checkpoints_steps": 100,
}


class Examples(NamedTuple):
    """The examples of a split: int [n, sequence_length], [n, 2] and [n]."""

    input_ids: np.ndarray
    segment_lengths: np.ndarray
    labels: np.ndarray


class Scores(NamedTuple):
    """The held-out figures of a run: the loss of masked tokens, and the accuracy on pairs."""

    loss: float
    accuracy: float


def parse_flags() -> argparse.Namespace:
    """Reads the command line."""
    parser = Parser(__doc__)
    parser.add_argument("--examples", required=True, help="a folder of pairs with labels")
    parser.add_argument("--output", required=True, help="where the runs go")
    parser.add_argument("--steps", type=count, default=500)
    parser.add_argument("--batch_size", type=count, default=448)
    parser.add_argument("--seeds", type=count, default=3)
    return parser.parse_args()


# --- The examples --------------------------------------------------------------------------------


def read_examples(folder: str, manifest: Manifest, split: str) -> Examples:
    """Reads all examples of a split, in the order of the shards."""
    form = ExampleFormat.of(manifest.settings)
    ids, lengths, labels = [], [], []
    for shard in manifest.shards_of(split):
        for record in read_shard(folder, shard):
            example = parse_example(record)
            ids.append(np.frombuffer(example["input_ids"][0], form.id_type))
            lengths.append(np.frombuffer(example["segment_lengths"][0], "<u2"))
            labels.append(example["label"][0])
    return Examples(np.array(ids), np.array(lengths, int), np.array(labels))


def shuffle_labels(folder: str, manifest: Manifest, target: str, seed: int) -> None:
    """Writes the same examples with labels dealt out anew within each split."""
    os.makedirs(target, exist_ok=True)
    vocabularies.copy_vocabulary(vocabularies.find_vocabulary(folder), target)
    shards = []
    for split in ("train", "heldout"):
        labels = read_examples(folder, manifest, split).labels.tolist()
        random.Random(seed).shuffle(labels)
        dealt = iter(labels)
        for shard in manifest.shards_of(split):
            records = (
                serialize_example({**parse_example(record), "label": [next(dealt)]})
                for record in read_shard(folder, shard)
            )
            shards.append(write_shard(os.path.join(target, shard.file), records, split))
    written = Manifest(manifest.kind, manifest.settings, manifest.counts, shards)
    write_manifest(os.path.join(target, MANIFEST), written)


# --- Models that know less than BERT -------------------------------------------------------------


def frequencies_loss(
    train_ids: np.ndarray, heldout_ids: np.ndarray, vocab_size: int, special_ids: Sequence[int]
) -> float:
    """Computes the loss of a model that knows only how often each token occurs in training.

    Each token counts once more. Tokens that are never masked count neither in training nor in
    the mean over the held-out tokens.

    Args:
      train_ids, heldout_ids: int [any, L].
      vocab_size: V.
      special_ids: the tokens that are never masked.

    Returns:
      The mean cross entropy in nats.
    """
    train, heldout = (
        np.delete(np.bincount(ids.ravel(), minlength=vocab_size), special_ids)
        for ids in (train_ids, heldout_ids)
    )
    shares = (train + 1) / (train + 1).sum()
    return -float(heldout @ np.log(shares)) / heldout.sum()


def accuracy_of_lengths(train: Examples, heldout: Examples) -> float:
    """Computes the balanced accuracy of a model that sees only the lengths of the two segments.

    It predicts the label of whose training examples more have these lengths, as a share of all
    with that label; and 0 where both shares are the same.
    """
    size = 1 + max(train.segment_lengths.max(), heldout.segment_lengths.max())
    shares = []
    for label in (0, 1):
        counts = np.zeros([size, size])
        np.add.at(counts, tuple(train.segment_lengths[train.labels == label].T), 1)
        shares.append(counts / counts.sum())
    predicted = (shares[1] > shares[0])[tuple(heldout.segment_lengths.T)]
    return balanced_accuracy_score(heldout.labels, predicted)


# --- The runs ------------------------------------------------------------------------------------


def train(examples: str, model_dir: str, seed: int, flags: argparse.Namespace) -> Scores:
    """Trains a model, or goes on, and returns its figures on the held-out examples."""
    manifest = read_manifest(examples, "examples")
    held_out = sum(shard.records for shard in manifest.shards_of("heldout"))
    changes = SETTINGS | {
        "encoder.vocab_size": manifest.settings["vocab_size"],
        "sequence_length": manifest.settings["sequence_length"],
        "train_batch_size": flags.batch_size,
        "num_train_steps": flags.steps,
        "run.eval_every_steps": flags.steps,
        "seed": seed,
        "run.num_eval_batches": max(1, held_out // flags.batch_size),
    }
    command = [sys.executable, str(ROOT / "run_pretraining.py")]
    command += [f"--examples={examples}", f"--model_dir={model_dir}"]
    command += [f"--hparams={ROOT / 'hparams' / 'quickstart.json'}"]
    command += [f"--set={name}={value}" for name, value in changes.items()]
    subprocess.run(command, check=True, stdout=sys.stderr)
    figures = curves.read_run(model_dir)["heldout"]
    if flags.steps not in dict(figures["mlm_loss"]):
        raise UserError(
            f"{model_dir} has no figures at step {flags.steps}: it was trained with another "
            "--steps. Give that, or another --output."
        )
    return Scores(
        dict(figures["mlm_loss"])[flags.steps],
        dict(figures["sentence_pair_balanced_accuracy"])[flags.steps],
    )


def interval(accuracies: Sequence[float], labels: np.ndarray) -> tuple[float, float]:
    """Computes a 95 % interval of the mean balanced accuracy over seeds.

    Its half width is the root of the sum of two squares. One is the half width over held-out
    examples: all seeds have the same examples, so more seeds make it no smaller, and a share's
    variance is at most a quarter over the number of examples. The other is the half width over
    seeds, of Student's t distribution; 0 for one seed.

    Args:
      accuracies: of each seed.
      labels: int [n], of the held-out examples.

    Returns:
      The mean, and the half width.
    """
    of_label = np.bincount(labels, minlength=2)
    # Of a mean of two shares.
    over_examples = stats.norm.ppf(0.975) * 0.5 * math.sqrt((0.25 / of_label).sum())
    seeds = len(accuracies)
    over_seeds = 0.0
    if seeds > 1:
        error = statistics.stdev(accuracies) / math.sqrt(seeds)
        over_seeds = float(stats.t.ppf(0.975, seeds - 1)) * error
    return statistics.fmean(accuracies), math.hypot(over_examples, over_seeds)


# --- The comparison ------------------------------------------------------------------------------


def runs(flags: argparse.Namespace) -> Iterator[tuple[str, int, Scores]]:
    """Yields the labels, the seed and the figures of each run."""
    for seed in range(flags.seeds):
        shuffled = os.path.join(flags.output, f"shuffled_examples_{seed}")
        if not os.path.exists(os.path.join(shuffled, MANIFEST)):
            shuffle_labels(
                flags.examples, read_manifest(flags.examples, "examples"), shuffled, seed
            )
        for labels, folder in (("true", flags.examples), ("shuffled", shuffled)):
            model_dir = os.path.join(flags.output, f"{labels}_{seed}")
            yield labels, seed, train(folder, model_dir, seed, flags)


def limits(mean: float, half_width: float) -> str:
    """Formats an interval."""
    return f"{mean - half_width:.4f} to {mean + half_width:.4f}"


def verdict(mean: float, half_width: float) -> str:
    """Says on which side of chance an interval lies."""
    if abs(mean - 0.5) <= half_width:
        return "may be chance"
    return "above chance" if mean > 0.5 else "below chance"


def main() -> None:
    flags = parse_flags()
    manifest = read_manifest(flags.examples, "examples")
    objective = manifest.settings["objective"]
    if objective not in LABELLED_OBJECTIVES:
        raise UserError(
            f"--examples={flags.examples} was made with --objective={objective}: give examples "
            f"of {' or '.join(LABELLED_OBJECTIVES)}."
        )
    training, heldout = (
        read_examples(flags.examples, manifest, split) for split in ("train", "heldout")
    )
    # Whole batches alone are scored.
    scored = max(1, len(heldout.labels) // flags.batch_size) * flags.batch_size
    heldout = Examples(*(values[:scored] for values in heldout))
    tokenizer = load_fast_tokenizer(vocabularies.find_vocabulary(flags.examples))
    frequencies = frequencies_loss(
        training.input_ids,
        heldout.input_ids,
        manifest.settings["vocab_size"],
        [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id],
    )
    labels = heldout.labels
    print(
        f"\n{objective}, {flags.steps} steps of {flags.batch_size} examples of "
        f"{manifest.settings['sequence_length']} tokens; {len(labels)} held-out examples, "
        f"{sum(labels)} of them with label 1. Word frequencies alone have a loss of "
        f"{frequencies:.3f} nats, and the lengths of the segments alone a balanced accuracy of "
        f"{accuracy_of_lengths(training, heldout):.3f}.\n"
    )
    print(
        "| labels | seed | loss of words | below frequencies | balanced accuracy, 95 % interval |"
    )
    print("|---|--:|--:|--:|--:|")
    accuracies: dict[str, list[float]] = {}
    for name, seed, scores in runs(flags):
        below = frequencies - scores.loss
        _, half_width = interval([scores.accuracy], labels)
        print(
            f"| {name} | {seed} | {scores.loss:.3f} | {below:.3f} | {scores.accuracy:.4f}, "
            f"{limits(scores.accuracy, half_width)} |",
            flush=True,
        )
        accuracies.setdefault(name, []).append(scores.accuracy)
    print("\n| labels | mean balanced accuracy | 95 % interval | |\n|---|--:|---|---|")
    for name, of_seeds in accuracies.items():
        mean, half_width = interval(of_seeds, labels)
        where = f"{limits(mean, half_width)} | {verdict(mean, half_width)}"
        print(f"| {name} | {mean:.4f} | {where} |")


if __name__ == "__main__":
    run(main)
