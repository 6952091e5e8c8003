"""Measures how long the steps of an annotation take, and says what they make for all of PubMed."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

# The citations of PubMed's baseline of 2024, in millions (nlm.nih.gov/bsd, "MEDLINE PubMed
# Production Statistics").
PUBMED_MILLIONS = 36
# "splitting" is into sentences and words, "products" all that TensorFlow computes; "writing" begins
# with making entities of it.
STEPS = ("reading", "splitting", "tokenizing", "products", "writing")

# Documents from which on the speed says something about others: the first batch is slower.
_ENOUGH = 1000

_Item = TypeVar("_Item")


class StepTimes:
    """Adds up the seconds of each step of an annotation, as a clock on the wall shows them.

    Steps overlap: one thread reads, splits and tokenizes the next documents while another one
    computes. So all steps together may take longer than the run.

    Attributes:
      seconds: the seconds so far, by the names in `STEPS`; 0.0 for a step that has none.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextlib.contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Measures a step of annotation: adds the seconds of its `with` block; yields nothing.

        Args:
          step: one of `STEPS`.
        """
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] += time.perf_counter() - start

    def each(self, step: str, items: Iterable[_Item]) -> Iterator[_Item]:
        """Measures a step of annotation that makes items: adds the seconds that each one takes.

        Args:
          step: one of `STEPS`.
          items: the items; the time in which their consumer works on them does not count.

        Yields:
          The items.
        """
        iterator = iter(items)
        while True:
            with self.of(step):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def writing(self, write: Callable[[Iterator[_Item]], object], items: Iterable[_Item]) -> None:
        """Measures the step of annotation that consumes items, "writing"; returns nothing.

        Args:
          write: a function that is called with the items; the time in which they are made does
            not count.
          items: the items.
        """
        making, start = StepTimes(), time.perf_counter()
        write(making.each("writing", items))
        self.seconds["writing"] += time.perf_counter() - start - making.seconds["writing"]


def report(seconds: Mapping[str, float], documents: int, elapsed: float, cores: int) -> str:
    """Describes the speed of an annotation, in lines for the end of a run.

    Args:
      seconds: the seconds of each step, by the names in `STEPS`; one that is missing took none.
      documents: the number of documents, 1 or more.
      elapsed: the seconds of the run without its start, above 0.
      cores: the number of cores that it used; 0 if it is not known.

    Returns:
      The seconds and the share of each step, and documents a second; from 1,000 documents on also
      the hours and core-hours that all of PubMed takes at this speed.
    """
    total = sum(seconds.values()) or 1.0
    by_step = ((step, seconds.get(step, 0.0)) for step in STEPS)
    shares = (f"{step} {own:.1f} ({own / total:.0%})" for step, own in by_step)
    lines = [f"seconds by step: {', '.join(shares)}; {documents / elapsed:,.1f} documents/s"]
    if documents >= _ENOUGH:
        hours = PUBMED_MILLIONS * 1e6 * elapsed / documents / 3600
        lines.append(
            f"at this speed all of PubMed ({PUBMED_MILLIONS} million citations) takes {hours:,.0f} "
            "hours" + (f" on {cores} core(s), {hours * cores:,.0f} core-hours" if cores else "")
        )
    return "\n".join(lines)
