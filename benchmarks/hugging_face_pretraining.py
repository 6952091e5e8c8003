"""Pretraining with Hugging Face `transformers` on PyTorch at its best, which a search finds.

`benchmarks.pretraining` runs it in a process of its own. The options are those that users of
`transformers` have:

- packed examples, as `group_texts` of its `run_mlm.py` makes them: all documents one after another,
  cut into blocks of the full length. Attention sees the whole block;
- its attention, "sdpa" (fused where PyTorch can) or "eager";
- threads;
- a batch in one pass, or in several whose gradients are summed;
- the head of words at the masked positions alone, or everywhere, as the loss that `transformers`
  computes from labels has it (not for ELECTRA, adversarial pretraining and distillation);
- examples of pairs padded to the longest of their batch;
- `torch.compile` of the loss, forward and backward.

AdamW is fused always, and glibc keeps the memory that a step frees for the next one.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import best_options, hugging_face_data
from benchmarks.hugging_face_adversarial import HuggingFaceAdversarial
from benchmarks.hugging_face_distillation import HuggingFaceStudent
from benchmarks.hugging_face_electra import HuggingFaceElectra
from benchmarks.hugging_face_mlm import HuggingFaceMaskedLanguageModel
from benchmarks.hugging_face_step import HuggingFaceStep
from benchmarks.pretraining_shapes import Shape
from tfbio.text.fast_tokenizer import load_fast_tokenizer

_CORES = len(os.sched_getaffinity(0))
# Read before the clock starts.
_PAIR_BATCHES = 200


@dataclasses.dataclass(frozen=True)
class Options:
    """The form of a training step."""

    threads: int
    packed: bool = False
    pad_to_longest: bool = False
    attention: str = "sdpa"
    passes: int = 1
    all_positions: bool = False
    compiled: bool = False


def words(options: dict[str, Any]) -> str:
    """Says options in words."""
    own = Options(**options)
    length = "padded to the longest" if own.pad_to_longest else "padded to the full length"
    return ", ".join(
        [
            "packed blocks" if own.packed else length,
            own.attention,
            f"threads={own.threads}",
            f"passes={own.passes}",
            *(["head of words at all positions"] if own.all_positions else []),
            *(["torch.compile"] if own.compiled else []),
        ]
    )


def _changes(shape: Shape, compiles: bool) -> list[dict[str, Any]]:
    """Returns the options to try, in their order, torch.compile only if `compiles`."""
    changes: list[dict[str, Any]] = [{"packed": False, "pad_to_longest": True}]
    changes += [{"attention": "eager"}]
    if _CORES > 1:
        changes += [{"threads": _CORES // 2}]
    changes += [{"passes": passes} for passes in (2, 4) if shape.batch_size % passes == 0]
    if shape.has_loss_of_labels:
        changes += [{"all_positions": True}]
    # Last, since it may end the process; and on blocks, as it would compile anew for each length.
    # The attention that is slower without it may be faster with it.
    if compiles:
        compiled = {"compiled": True, "packed": not shape.pairs, "pad_to_longest": False}
        changes += [compiled | {"attention": attention} for attention in ("sdpa", "eager")]
    return changes


class Training:
    """A model in training.

    Args:
      shape: the model and the batch.
      folder: that `pretraining_shapes.prepare` filled.
      precision: "float32", or "bfloat16" for autocast.
      options: the form of a step.
    """

    def __init__(self, shape: Shape, folder: Path, precision: str, options: Options):
        best_options.keep_memory()
        torch.manual_seed(0)
        tokenizer = load_fast_tokenizer(folder / "vocab.txt")
        config = shape.config(tokenizer.vocab_size)
        form = {"bfloat16": precision == "bfloat16", "attention": options.attention}
        teacher = shape.teacher_config(tokenizer.vocab_size)
        self._model: HuggingFaceStep
        if config.objective == "electra":
            self._model = HuggingFaceElectra(config, tokenizer, **form)
        elif teacher is not None:
            self._model = HuggingFaceStudent(config, tokenizer, teacher=teacher, **form)
        elif config.adversarial.weight:
            self._model = HuggingFaceAdversarial(config, tokenizer, **form)
        else:
            self._model = HuggingFaceMaskedLanguageModel(config, tokenizer, **form)
        self._options, self._batch_size = options, shape.batch_size
        self._mask: np.ndarray | None = None
        self._others: list[np.ndarray] = []
        if shape.pairs:
            self._ids, self._mask, *self._others = hugging_face_data.pairs(
                str(folder / shape.examples), _PAIR_BATCHES * shape.batch_size
            )
        elif options.packed:
            self._ids = hugging_face_data.blocks(folder, shape.sequence_length)
        else:
            self._ids, self._mask = hugging_face_data.documents(
                folder, shape.sequence_length, tokenizer.pad_id
            )
        self._loss: Callable[..., torch.Tensor]
        # Some objectives have no other one, see `_changes`.
        self._loss = getattr(self._model, "own_loss" if options.all_positions else "loss")
        if options.compiled:
            best_options.allow_recompilation()
            self._loss = torch.compile(self._loss)
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """Makes the next batches those of a seed; returns nothing."""
        self._rng = np.random.default_rng(seed)

    def train(self, steps: int) -> tuple[int, int]:
        """Trains; returns the number of sequences and of tokens that are no padding."""
        torch.set_num_threads(self._options.threads)  # of the process, which may train several
        tokens = 0
        for _ in range(steps):
            rows = self._rng.choice(len(self._ids), self._batch_size, replace=False)
            batch, seen = self._batch(rows)
            self._model.take_step(self._loss, batch, self._options.passes)
            tokens += seen
        return steps * self._batch_size, tokens

    def _batch(self, rows: np.ndarray) -> tuple[list[torch.Tensor | None], int]:
        """Returns the arguments of the loss, and the number of tokens that are no padding."""
        if self._mask is None:
            ids = self._ids[rows].astype(np.int64)
            return [torch.from_numpy(ids), None], ids.size
        mask = self._mask[rows]
        longest = int(mask.sum(1).max()) if self._options.pad_to_longest else mask.shape[1]
        arrays = [self._ids[rows, :longest], mask[:, :longest]]
        arrays += [each[rows, :longest] for each in self._others[:1]]  # segments
        arrays += [each[rows] for each in self._others[1:]]  # labels
        return [torch.from_numpy(each) for each in arrays], int(mask.sum())


def search(
    shape: Shape, folder: Path, precision: str, compiles: bool
) -> Iterator[best_options.Tried]:
    """Tries options, and yields the real tokens per second of each; see `best_options.search`.

    Each takes five steps, after two that do not count. Their median counts: the fastest step would
    favour rows that are padded to the longest, of which some batches have more tokens than others.

    Args:
      shape, folder, precision: see `Training`.
      compiles: whether torch.compile is tried.
    """

    def make(options: Options) -> Callable[[int], float]:
        training = Training(shape, folder, precision, options)
        training.train(2)

        def measure(turn: int) -> float:
            training.reseed(turn)
            start = time.perf_counter()
            _, tokens = training.train(1)
            return tokens / (time.perf_counter() - start)

        return measure

    begin = Options(_CORES, packed=not shape.pairs)
    yield from best_options.search(begin, _changes(shape, compiles), make, turns=5)


def measured_peak() -> float:
    """Measures the FLOP/s of PyTorch's matrix products in float32."""
    size = 1024
    matrix = torch.rand(size, size)
    shortest, end = float("inf"), time.perf_counter() + 0.3
    while time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(matrix, matrix)
        shortest = min(shortest, time.perf_counter() - start)
    return 2 * size**3 / shortest
