r"""ELECTRA's losses in pretraining, as a table: tfbio's beside Hugging Face's, or in two formats.

    python -m benchmarks.loss_curve --examples=out/examples_64
    python -m benchmarks.loss_curve --examples=out/examples_64 --steps=4000 --batch_size=32 \
        --set encoder.hidden_size=128 --set encoder.num_attention_heads=2
    python -m benchmarks.loss_curve --examples=out/examples_64 --against=bfloat16 \
        --hparams=hparams/quickstart.json

With each seed, both engines train an ELECTRA-small, or what `--set` makes of it as in
`run_pretraining.py`, from the same weights, on the same batches in the same order, with the same
tokens hidden: which ones alone moves a loss by more than what is looked for here. The generator's
samples and dropout are each engine's own. The steps are an epoch at most: no example is seen twice,
and a training loss is one on text that is new.

Hugging Face's step is `benchmarks/hugging_face_electra.py`. Each run has one core to itself.

With --against=bfloat16 the engines are tfbio in float32 and tfbio in bfloat16. Then --hparams names
another file of settings, `--set` takes any of them, and the examples may be packed.
"""

from __future__ import annotations

import argparse
import os
import queue
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import engine_process
from benchmarks.child_process import ROOT
from benchmarks.command import Parser, count, require, run
from tfbio.base import config, file_paths
from tfbio.base.errors import UsageError, UserError
from tfbio.base.manifests import Manifest, read_manifest
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text import vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer

if TYPE_CHECKING:
    import tensorflow as tf

    from benchmarks.hugging_face_electra import HuggingFaceElectra
    from tfbio.objectives.masking import MaskedBatch
    from tfbio.objectives.pretrainer import Pretrainer

# By --against the two engines.
ENGINES = {
    "hugging_face": ("tfbio", "hugging_face"),
    "bfloat16": ("tfbio_float32", "tfbio_bfloat16"),
}
LOSSES = ("generator_loss", "discriminator_loss")
SMALL = str(ROOT / "hparams" / "small.json")
POINTS = 12  # of a curve
# What the other engine's step looks at, too.
CHANGES = (
    "adam_beta_1",
    "adam_beta_2",
    "adam_epsilon",
    "discriminator_weight",
    "encoder.attention_probs_dropout_prob",
    "encoder.embedding_size",
    "encoder.hidden_dropout_prob",
    "encoder.hidden_size",
    "encoder.initializer_range",
    "encoder.intermediate_size",
    "encoder.num_attention_heads",
    "encoder.num_hidden_layers",
    "generator_hidden_fraction",
    "generator_layers_fraction",
    "generator_weight",
    "learning_rate",
    "mask_prob",
    "num_warmup_steps",
    "weight_decay_rate",
)


def settings(flags: argparse.Namespace, seed: int) -> PretrainingConfig:
    """Returns the settings of a seed: ELECTRA-small's or another file's, with a short warm-up."""
    of_examples = read_manifest(flags.examples, "examples").settings
    own = {
        "encoder.vocab_size": of_examples["vocab_size"],
        "sequence_length": of_examples["sequence_length"],
        "train_batch_size": flags.batch_size,
        "num_train_steps": flags.steps,
        "num_warmup_steps": flags.steps // 6,
        "seed": seed,
    }
    overrides = [f"{name}={value}" for name, value in own.items()]
    return config.load(PretrainingConfig, flags.hparams, overrides + flags.set)


# --- The engines, each in a process of its own ---------------------------------------------------


Train = Callable[[int], tuple[float, ...]]  # so many steps -> the mean of each of LOSSES


def tfbio_engine(settings: PretrainingConfig, examples: str) -> Train:
    from tfbio.training import distribution
    from tfbio.weights import hugging_face_settings, hugging_face_weights

    trainer, theirs = both(settings, examples)
    with tempfile.TemporaryDirectory() as folder:
        theirs.discriminator.save_pretrained(folder)
        theirs.generator.save_pretrained(os.path.join(folder, hugging_face_settings.GENERATOR))
        hugging_face_weights.restore_electra(folder, trainer.model)
    trainer.train_dataset = distribution.distribute_dataset(
        trainer.strategy, lambda _: batches(settings, examples)
    )
    return training(trainer)


def one_format(settings: PretrainingConfig, examples: str, precision: str) -> Train:
    """Returns tfbio's training in float32 or bfloat16, from the weights of the seed."""
    from tfbio.objectives.pretrainer import Pretrainer
    from tfbio.training import distribution
    from tfbio.training.precision import set_precision

    strategy = distribution.make_strategy()
    set_precision(precision, strategy, settings.encoder.hidden_size)
    encoder = load_fast_tokenizer(vocabularies.find_vocabulary(examples))
    trainer = Pretrainer(settings, encoder, strategy)
    trainer.train_dataset = batches(settings, examples)
    return training(trainer)


def training(trainer: Pretrainer) -> Train:
    """Returns a function that takes steps of tfbio's trainer."""
    import tensorflow as tf

    def train(steps: int) -> tuple[float, ...]:
        output = trainer.train(tf.constant(steps))
        return tuple(float(output[name]) for name in LOSSES)

    return train


def hugging_face_engine(settings: PretrainingConfig, examples: str) -> Train:
    import tensorflow as tf
    import torch

    from benchmarks import hugging_face_step
    from tfbio.objectives.pretrainer import TRAINING_STREAM

    ours, model = both(settings, examples)

    @tf.function
    def hide(batch: dict[str, tf.Tensor], step: tf.Tensor) -> MaskedBatch:
        seed, _ = ours.seeds(TRAINING_STREAM, step)
        return ours.mask(batch, seed, step)

    own = enumerate(batches(settings, examples))

    def train(steps: int) -> tuple[float, ...]:
        losses = []
        for _ in range(steps):
            step, batch = next(own)
            masked = hide(batch, tf.constant(step, tf.int64))
            inputs = (batch[name] for name in ("input_ids", "input_mask", "segment_ids"))
            ids, mask, segments, input_ids, positions = (
                torch.from_numpy(values.numpy().astype(np.int64))
                for values in (*inputs, masked.input_ids, masked.positions)
            )
            weights = torch.from_numpy(masked.weights.numpy())
            hidden = hugging_face_step.Masked(input_ids, positions, weights)
            losses.append(model.step(ids, mask, segments, hidden))
        return tuple(np.mean(losses, axis=0).tolist())

    return train


def both(settings: PretrainingConfig, examples: str) -> tuple[Pretrainer, HuggingFaceElectra]:
    """Makes tfbio's trainer and Hugging Face's model, with weights by the seed."""
    import torch

    from benchmarks import hugging_face_electra
    from tfbio.objectives.pretrainer import Pretrainer
    from tfbio.training import distribution

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(settings.seed)
    encoder = load_fast_tokenizer(vocabularies.find_vocabulary(examples))
    trainer = Pretrainer(settings, encoder, distribution.make_strategy())
    return trainer, hugging_face_electra.HuggingFaceElectra(settings, encoder)


def batches(settings: PretrainingConfig, examples: str) -> tf.data.Dataset:
    """Returns the batches that `run_pretraining.py` would train on."""
    from tfbio.runs import pretraining_data

    manifest = read_manifest(examples, "examples")
    size, steps = settings.train_batch_size, settings.num_train_steps
    return pretraining_data.training_dataset(examples, manifest, size, settings.seed, 0, steps)


def serve(engine: str, settings: PretrainingConfig, examples: str) -> None:
    """Trains, and prints the mean losses since the line before."""
    if engine in ENGINES["bfloat16"]:
        train = one_format(settings, examples, engine.removeprefix("tfbio_"))
    else:
        make = tfbio_engine if engine == "tfbio" else hugging_face_engine
        train = make(settings, examples)
    step = 0
    for point in range(1, POINTS + 1):
        end = settings.num_train_steps * point // POINTS
        losses = train(end - step)
        step = end
        engine_process.tell([step, *losses])


def curve(engine: str, seed: int, flags: argparse.Namespace) -> Iterator[list[float]]:
    """Yields [step, generator's loss, discriminator's loss] for every point of one run."""
    arguments = [f"--engine={engine}", f"--seed={seed}"]
    arguments += [f"--examples={file_paths.absolute(flags.examples)}"]
    arguments += [f"--hparams={file_paths.absolute(flags.hparams)}"]
    arguments += [f"--steps={flags.steps}", f"--batch_size={flags.batch_size}"]
    arguments += [f"--set={change}" for change in flags.set]
    trained = engine_process.Engine("benchmarks.loss_curve", *arguments)
    yield from trained.answers()
    if code := trained.process.returncode:
        raise UserError(f"{engine}, seed {seed}: exit code {code}; see what it said above.")


# --- The comparison ------------------------------------------------------------------------------


def parse_flags() -> argparse.Namespace:
    """Reads the command line."""
    parser = Parser(__doc__)
    parser.add_argument(
        "--examples", required=True, help="that data_prep.examples wrote, without --packing"
    )
    parser.add_argument("--steps", type=count, default=600)
    parser.add_argument("--batch_size", type=count, default=16)
    parser.add_argument("--seeds", type=count, default=2)
    parser.add_argument(
        "--hparams",
        default=SMALL,
        help="settings to start from, with --against=bfloat16 (default: hparams/small.json)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another setting than that file's; may be repeated",
    )
    parser.add_argument(
        "--against",
        choices=ENGINES,
        default="hugging_face",
        help="what tfbio is compared with: Hugging Face's models, or itself in bfloat16",
    )
    parser.add_argument("--engine", choices=sum(ENGINES.values(), ()), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def checked(flags: argparse.Namespace) -> Manifest:
    """Checks the flags once, before any run, and reads the manifest of the examples.

    Args:
      flags: see `parse_flags`.

    Raises:
      UserError: an engine cannot do what the flags say, or the examples are too few.
    """
    for change in flags.set if flags.against == "hugging_face" else ():
        if change.partition("=")[0] not in CHANGES:
            raise UsageError(f"--set {change}: both engines know only {', '.join(CHANGES)}.")
    if flags.hparams != SMALL and flags.against == "hugging_face":
        raise UsageError(
            f"--hparams={flags.hparams}: Hugging Face's engine starts from ELECTRA-small: give "
            "--set, or --against=bfloat16."
        )
    settings(flags, 0)
    manifest = read_manifest(flags.examples, "examples")
    if manifest.settings["packing"] and flags.against == "hugging_face":
        raise UserError(
            f"--examples={flags.examples}: these are packed, which Hugging Face's models do not "
            "know: make them without --packing."
        )
    if flags.steps < POINTS:
        raise UsageError(f"--steps={flags.steps}: expected at least {POINTS}.")
    available = sum(shard.records for shard in manifest.shards_of("train"))
    if flags.steps * flags.batch_size > available:
        raise UserError(
            f"{available} examples are fewer than these steps need: give fewer --steps."
        )
    return manifest


def run_all(flags: argparse.Namespace) -> np.ndarray:
    """Runs every engine with every seed, one run on each core.

    Returns:
      float64 [engines, seeds, points, 3]: steps, generator's loss, discriminator's loss.
    """
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in os.sched_getaffinity(0):
        cores.put(core)

    def run(engine: str, seed: int) -> list[list[float]]:
        points = []
        for point in curve(engine, seed, flags):
            points.append(point)
            step, generator, discriminator = point
            print(
                f"{engine}, seed {seed}: step {step:.0f}/{flags.steps}, generator "
                f"{generator:.3f}, discriminator {discriminator:.4f}",
                file=sys.stderr,
                flush=True,
            )
        return points

    def take_a_core() -> None:
        os.sched_setaffinity(0, {cores.get()})  # of this thread, and the processes that it starts

    with ThreadPoolExecutor(cores.qsize(), initializer=take_a_core) as pool:
        engines = ENGINES[flags.against]
        jobs = [(engine, seed) for seed in range(flags.seeds) for engine in engines]
        points = dict(zip(jobs, pool.map(lambda job: run(*job), jobs), strict=True))
    return np.array([[points[name, seed] for seed in range(flags.seeds)] for name in engines])


def print_table(curves: np.ndarray, flags: argparse.Namespace, length: int) -> None:
    """Prints the mean losses of each engine, and their difference.

    Args:
      curves: see `run_all`.
      flags: see `parse_flags`.
      length: the tokens of an example.
    """
    model = ", ".join([Path(flags.hparams).name, *flags.set])
    print(f"\n{model}, {flags.batch_size} sequences of {length} a step, {flags.seeds} seeds\n")
    one, other = ENGINES[flags.against]
    columns = [f"{loss}, {name}" for loss in LOSSES for name in (one, other, "difference")]
    print(f"| steps | {' | '.join(columns)} |")
    print(f"|--:{'|--:' * len(columns)}|")
    start = 0
    for index in range(POINTS):
        end = int(curves[0, 0, index, 0])
        print(f"| {start + 1} to {end} | {' | '.join(cells(curves[:, :, index]))} |")
        start = end
    print(f"| all | {' | '.join(cells(curves.mean(axis=2)))} |")
    print(
        f"\nMeans over these steps and the seeds, and of {one}'s less {other}'s of the same "
        "seed;\n± the standard error over the seeds."
    )
    means = curves[..., -1, 1].mean(axis=1)
    print(f"At the end {one}'s generator_loss is {means[0] / means[1] - 1:+.2%} from {other}'s.")


def main() -> None:
    flags = parse_flags()
    if flags.engine:
        serve(flags.engine, settings(flags, flags.seed), flags.examples)
        return
    manifest = checked(flags)
    if flags.against == "hugging_face":
        require("torch", "transformers")
    print_table(run_all(flags), flags, manifest.settings["sequence_length"])


def cells(losses: np.ndarray) -> list[str]:
    """Returns the cells of a line of the table.

    Args:
      losses: float64 [engines, seeds, 3]: steps, generator's loss, discriminator's loss.
    """
    shown = []
    for index in range(1, 1 + len(LOSSES)):
        of_engines = losses[..., index]
        for values, form in (*((v, ".4f") for v in of_engines), (np.subtract(*of_engines), "+.4f")):
            cell = f"{values.mean():{form}}"
            if len(values) > 1:
                cell += f" ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"
            shown.append(cell)
    return shown


if __name__ == "__main__":
    run(main)
