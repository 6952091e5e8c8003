"""Tries the options of a peer one after another, so that a benchmark compares with its best.

`benchmarks.pretraining` and `benchmarks.prediction` call it before their clocks start.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import gc
import multiprocessing
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from benchmarks.engine_process import Engine
from tfbio.base.errors import UserError

T = TypeVar("T")
_MIB = 1024  # of what Linux counts in KiB
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


class Tried(NamedTuple):
    """Options that were tried.

    Attributes:
      options: the values of the options' fields.
      rate: how much they do in a second, at the machine's speed when the first options were
        measured; 0 where they fail.
      problem: the reason for which they fail; "" where they work.
    """

    options: dict[str, Any]
    rate: float
    problem: str = ""


def search(
    start: Any,
    changes: Iterable[Mapping[str, Any]],
    make: Callable[[Any], Callable[[int], float]],
    turns: int,
) -> Iterator[Tried]:
    """Changes one option at a time, and keeps each change that is faster.

    A change and the best options so far take turns: the machine's speed can change by more than the
    options differ, while they are tried.

    Args:
      start: a dataclass of options, which is tried first.
      changes: values of its fields, in the order in which they are tried.
      make: makes an engine with some options: a function of a turn's number that measures how much
        it does in a second, on work that depends on that number alone. Options for which either
        raises an error are slow. Two engines are in memory together.
      turns: how often each is measured; the median of the ratios counts.

    Yields:
      A `Tried` for the start and for each change, as soon as it was tried.
    """
    kept, fastest, best = start, 0.0, None
    for change in ({}, *changes):
        options = dataclasses.replace(kept, **change)
        if change and options == kept:
            continue
        engine, rate, problem = None, 0.0, ""
        gc.collect()  # the last engine, if it was slower
        try:
            engine = make(options)
            if best is None:
                rate = statistics.median(map(engine, range(turns)))
            else:
                rates = (_ratio(engine, best, turn) for turn in range(turns))
                rate = fastest * statistics.median(rates)
        except Exception as error:  # of a peer: whatever it raises, its other options may work
            lines = str(error).strip().splitlines() or [""]
            problem = f"{type(error).__name__}: {lines[0]:.200}"
        yield Tried(dataclasses.asdict(options), rate, problem)
        if rate > fastest:
            kept, fastest, best = options, rate, engine


def _ratio(engine: Callable[[int], float], best: Callable[[int], float], turn: int) -> float:
    """Returns the ratio of two rates; in every other turn the second engine is measured first."""
    if turn % 2:
        base = best(turn)
        return engine(turn) / base
    return engine(turn) / best(turn)


def found_by(engine: Engine, name: str) -> list[Tried]:
    """Reads what a process has tried, and says it on stderr as it comes.

    Args:
      engine: a process that prints each `Tried` of `search`. If it dies, what it tried before
        counts.
      name: of what it searches, for messages.

    Raises:
      UserError: no options work.
    """
    tried = []
    for answer in engine.answers():
        tried.append(Tried(*answer))
        said = tried[-1].problem or f"{tried[-1].rate:,.1f} a second"
        print(f"{name}: {tried[-1].options}: {said}", file=sys.stderr, flush=True)
    if not tried or not best_of(tried).rate:
        raise UserError(f"{name}: no options work; see what was said above.")
    code = engine.process.returncode
    if code:
        problem = f"not known: with the next change the process ended with exit code {code}"
        tried.append(tried[-1]._replace(rate=0.0, problem=problem))
    return tried


def add_flags(parser: argparse.ArgumentParser, engines: Iterable[str]) -> None:
    """Adds --compile, and the flags with which a benchmark starts its own engines.

    Args:
      parser: of the benchmark.
      engines: their names.
    """
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="try torch.compile (default: yes)",
    )
    parser.add_argument("--engine", choices=engines, help=argparse.SUPPRESS)
    parser.add_argument("--options", help=argparse.SUPPRESS)


def best_of(tried: Sequence[Tried]) -> Tried:
    """Returns the fastest one."""
    return max(tried, key=lambda each: each.rate)


def table(tried: Sequence[Tried], words: Callable[[dict], str], unit: str) -> list[str]:
    """Makes a Markdown table of what was tried.

    Args:
      tried: at least one.
      words: says options in words.
      unit: of the rates.

    Returns:
      Its lines: for each the rate or the reason for which there is none. The fastest is bold.
    """
    lines = [f"| options | {unit} |", "|---|--:|"]
    for each in tried:
        rate = f"{each.rate:,.1f}" if each.rate else each.problem.replace("|", "\\|")
        bold = "**" if each == best_of(tried) else ""
        lines.append(f"| {words(each.options)} | {bold}{rate}{bold} |")
    return lines


def keep_memory() -> None:
    """Has glibc keep the memory that this process frees, for what it allocates next.

    By default glibc gives large arrays back to the kernel, which has to clear their pages anew at
    the next step. PyTorch is faster without that; TensorFlow is not.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # of glibc alone
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)  # never


def allow_recompilation() -> None:
    """Lets torch.compile compile as often as a search needs.

    By default it stops after eight forms of a function, and the next ones silently run uncompiled.
    """
    import torch

    torch._dynamo.config.recompile_limit = 256


def peak_memory() -> float:
    """Returns the most memory that this process has had, in MiB (resident).

    That of the processes which `multiprocessing` has started, and which still run, is added.
    """
    processes = ["self", *(child.pid for child in multiprocessing.active_children())]
    return sum(map(_peak_memory_of, processes)) / _MIB


def _peak_memory_of(process: Any) -> int:
    """Returns the most memory of a process, in KiB."""
    # Not `ru_maxrss`, which begins with the memory of the process that started this one.
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    (own,) = re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(own)


def rotated(names: list[str], number: int) -> list[str]:
    """Returns the engines in the order of a round, in which another one is first each time."""
    first = number % len(names)
    return names[first:] + names[:first]


def take_turns(
    names: Iterable[str], rounds: int, measure: Callable[[str], T]
) -> dict[str, list[T]]:
    """Measures engines in turns, so that whatever else the machine does, it does to all.

    Args:
      names: of the engines. Each round begins with another one.
      rounds: how often each is measured.
      measure: measures the engine of a name once.

    Returns:
      For each engine what was measured, round by round.
    """
    measured: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        for name in rotated(list(measured), number):
            measured[name].append(measure(name))
    return measured


def medians(rows: Sequence[Sequence[float]]) -> list[float]:
    """Returns the median of each column."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def ratios(rates: Sequence[float], others: Sequence[float]) -> str:
    """Says the ratio of two rates in each round."""
    return ", ".join(f"{rate / other:.2f}" for rate, other in zip(rates, others, strict=True))
