"""Measures steps of pretraining in float32 and bfloat16, on this CPU and on imitated lesser ones.

    python -m benchmarks.precision

Prints a Markdown table with a row for each CPU and shape: the CPU seconds of a step in both
formats, their ratio, what `run.precision=auto` chooses, and the kernels in which oneDNN multiplied
bfloat16, by the share of their time. A ratio above 1 says that bfloat16 is faster.

Each row is a process of its own, in which both formats take steps in turn on the same made-up
tokens. Ratios are medians over the rounds. "product" is the one product alone by which
`run.precision=auto` chooses; its row also says how long `auto` measured. The lesser CPUs are those
of oneDNN's variable ONEDNN_MAX_CPU_ISA, and oneDNN tells the kernels by ONEDNN_VERBOSE=1. The
variable does not govern the operations that TensorFlow computes itself, so a real CPU of that kind
is slower in both. With AVX2, TensorFlow 2.20 cannot multiply bfloat16 on a CPU that has AVX-512, so
that row has float32 alone.
"""

from __future__ import annotations

import collections
import json
import os
import statistics
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import cast

import numpy as np

from benchmarks.child_process import ROOT
from benchmarks.command import PRECISIONS, Parser, count, run
from tfbio.base import config
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import FastTokenizer
from tfbio.training import cpu_bfloat16

# The values of ONEDNN_MAX_CPU_ISA; ALL is this CPU as it is.
CPUS = ("AVX2", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16", "ALL")
# For each shape the file of its settings, the length and the size of its batches.
SHAPES = {"small_128": ("small.json", 128, 16), "base_128": ("base.json", 128, 4)}
# Narrower than `auto` computes in bfloat16.
NARROW = {f"hidden_{size}": size for size in (64, 128)}
SHAPES |= {name: SHAPES["small_128"] for name in NARROW}
PRODUCT = "product"


def settings_of(shape: str) -> PretrainingConfig:
    """Returns the settings of a shape."""
    hparams, length, batch_size = SHAPES[shape]
    changes = {
        "sequence_length": length,
        "final_sequence_length": 0,
        "train_batch_size": batch_size,
        "gradient_clip_groups": 1,
    }
    if shape in NARROW:
        size = NARROW[shape]
        changes |= {"encoder.hidden_size": size, "encoder.intermediate_size": 4 * size}
    overrides = [f"{name}={value}" for name, value in changes.items()]
    return config.load(PretrainingConfig, str(ROOT / "hparams" / hparams), overrides)


def measure(shape: str, rounds: int, precisions: tuple[str, ...]) -> None:
    """Takes steps in each format in turn; prints what `auto` chooses and the seconds as JSON."""
    import tensorflow as tf

    from tfbio.objectives.pretrainer import Pretrainer
    from tfbio.training import distribution
    from tfbio.training.precision import SMALLEST_HIDDEN_SIZE, set_precision

    strategy = distribution.make_strategy()
    if shape == PRODUCT:
        chosen = set_precision("auto", strategy, SMALLEST_HIDDEN_SIZE)
        both = len(precisions) > 1
        gains, start = [], time.perf_counter()
        for _ in range(rounds if both else 0):
            gains.append(cpu_bfloat16.measured_gain())
        took = (time.perf_counter() - start) / max(1, len(gains))
        made = {"chosen": str(chosen), "seconds": {}, "gains": gains, "took": took}
        print(json.dumps(made), flush=True)
        return
    settings = settings_of(shape)
    chosen = set_precision("auto", strategy, settings.encoder.hidden_size)
    words, size = settings.encoder.vocab_size, (settings.train_batch_size, settings.sequence_length)
    ids = tf.constant(np.random.default_rng(0).integers(5, words, size), tf.int32)
    batch = {"input_ids": ids, "input_mask": tf.ones_like(ids), "segment_ids": tf.zeros_like(ids)}
    special = SimpleNamespace(cls_id=2, sep_id=3, pad_id=0, mask_id=4, begins_word=[True] * words)
    tokens = cast(FastTokenizer, special)
    trainers = {}
    for precision in precisions:
        set_precision(precision, strategy, settings.encoder.hidden_size)
        trainers[precision] = Pretrainer(settings, tokens, strategy)
        trainers[precision].train_dataset = tf.data.Dataset.from_tensors(batch).repeat()
        trainers[precision].train(1)  # compiles
    seconds: dict[str, list[float]] = {precision: [] for precision in precisions}
    for _ in range(rounds):
        for precision, pretrainer in trainers.items():
            start = time.process_time()
            pretrainer.train(1)
            seconds[precision].append(time.process_time() - start)
    print(json.dumps({"chosen": str(chosen), "seconds": seconds}), flush=True)


def kernels(lines: list[str]) -> str:
    """Returns the kernels of products in bfloat16, by the share of their time in oneDNN's lines."""
    spent: collections.defaultdict[str, float] = collections.defaultdict(float)
    for line in lines:
        fields = line.split(",")
        is_product = "exec" in fields and {"matmul", "inner_product"} & set(fields)
        if is_product and ":bf16:" in line:
            kind = next(x for x in fields if x in ("matmul", "inner_product"))
            spent[f"`{fields[fields.index(kind) + 1]}`"] += float(fields[-1])
    total = sum(spent.values())
    most = sorted(spent.items(), key=lambda kernel: kernel[1], reverse=True)[:3]
    return ", ".join(f"{name} {time / total:.0%}" for name, time in most)


def row(cpu: str, shape: str, rounds: int) -> str:
    """Returns the line of the table for one CPU and shape."""
    precisions = PRECISIONS[:1] if cpu == "AVX2" else PRECISIONS
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.precision", "--measure", shape]
        + [f"--rounds={rounds}", "--precisions", *precisions],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ
        | {"ONEDNN_MAX_CPU_ISA": cpu, "ONEDNN_VERBOSE": "1", "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    lines = done.stdout.splitlines()
    measured = json.loads(next(line for line in lines if line.startswith('{"chosen"')))
    seconds = measured["seconds"]
    cells = [f"{statistics.median(seconds[x]):.2f}" if x in seconds else "" for x in PRECISIONS]
    ratio = ""
    if measured.get("gains"):
        ratio = f"{statistics.median(measured['gains']):.2f}"
    if "bfloat16" in seconds:
        pairs = zip(seconds["float32"], seconds["bfloat16"], strict=True)
        ratio = f"{statistics.median(a / b for a, b in pairs):.2f}"
    chosen = measured["chosen"].split(",")[0]
    if measured.get("gains"):
        chosen += f", measured in {measured['took']:.2f} s"
    return f"| {cpu} | {shape} | {' | '.join(cells)} | {ratio} | {chosen} | {kernels(lines)} |"


def main() -> None:
    """Runs the command; see above."""
    parser = Parser(__doc__)
    # oneDNN imitates lesser CPUs alone.
    cpus = ("ALL",) if cpu_bfloat16.cuts_off_products() else CPUS
    parser.add_argument(
        "--cpus",
        nargs="+",
        choices=cpus,
        default=cpus,
        help="rows of the table; on a CPU without AVX-512 ALL alone",
    )
    parser.add_argument(
        "--shapes",
        nargs="+",
        choices=[PRODUCT, *SHAPES],
        default=[PRODUCT, *SHAPES],
        help="models and batches, or a product",
    )
    parser.add_argument("--rounds", type=count, default=5, help="steps in each format")
    parser.add_argument(
        "--measure", choices=[PRODUCT, *SHAPES], help="measures one shape, for this command"
    )
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, help="with --measure")
    flags = parser.parse_args()
    if flags.measure:
        measure(flags.measure, flags.rounds, tuple(flags.precisions or PRECISIONS))
        return
    print("| CPU | step | float32, s | bfloat16, s | ratio | `auto` | bfloat16 products |")
    print("|---|---|--:|--:|--:|---|---|")
    for cpu in flags.cpus:
        for shape in flags.shapes:
            print(row(cpu, shape, flags.rounds), flush=True)


if __name__ == "__main__":
    run(main)
