"""Knows the test sets on which papers report by their content.

A figure can be set beside published ones only if it is of the same test examples. `compare` says
so of the examples that a run has kept: `test_sets.json` has the number of a test set's examples
and hashes of them. These do not depend on the order of the examples, their ids, line ends, runs of
whitespace, the spelling of tags (`B` or `B-Chemical`), nor on whether the entities of a relation
are dummies or stand between markers. This makes the file, from folders with a test.tsv each:

  python -m tfbio.reporting.test_sets --output=tfbio/reporting/test_sets.json \
      --test_set=chemprot=out/chemprot --test_set=gad:1=REdata/GAD/1,gad:2=REdata/GAD/2 ...

In it are BLURB's files, but for BioASQ's, which cannot be had; BioBERT's ten folds of GAD and
EU-ADR; and LINNAEUS of MTL-Bioinformatics-2016. Of the others `COUNTS` has the published numbers.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from absl import flags

from tfbio.base import cli, errors, path_checks, storage
from tfbio.formats.splits import find_split
from tfbio.formats.task_examples import Example, LabelledText, TaggedSentence
from tfbio.task_types import own_data, tag_schemes, task_table, types

_TABLE = Path(__file__).with_suffix(".json")
# Hashes kept of a test set, and their hexadecimal digits: the least hashes, of which a part of the
# set has its share, and no other examples.
_SAMPLE, _DIGITS = 64, 7
# The folds of a data set that is cross-validated.
FOLDS = 10
# Published numbers, and what of: Kanakarajan et al. (2021), Table 1; of SQuAD Rajpurkar et al.
# (2018), Table 2.
COUNTS = {
    "bioasq": (140, "test examples"),
    "mednli": (1422, "test examples"),
    "clinical_sts": (412, "test examples"),
    "share_clefe": (5195, "test mentions"),
    "i2b2_2010_re": (6293, "test relations"),
    "squad_v2": (11873, "test examples"),
}


class TestSet(NamedTuple):
    """The size and the hashes of a published or other test set, as `test_sets.json` has them.

    Attributes:
      examples: the number of its examples.
      content: a hash of the examples with their labels, 16 hexadecimal digits.
      texts: the same without the labels.
      sample: the first 7 hexadecimal digits of the least hashes of examples with their labels, each
        once and sorted, at most 64.
    """

    examples: int
    content: str
    texts: str
    sample: tuple[str, ...]


class Match(NamedTuple):
    """The comparison of a run's test set with the published ones.

    Attributes:
      fold: the number of the published fold that its examples are, from 1; 0 for none.
      aside: why they are not the published ones, such as "1,000 of 15,745 test examples"; "" if
        they are.
      unverified: why that cannot be told by their content; "" if it can.
    """

    fold: int = 0
    aside: str = ""
    unverified: str = ""


def describe(task: str, examples: Sequence[Example]) -> TestSet:
    """Describes a test set, published or a run's: counts its examples, and hashes their content.

    Args:
      task: the name of a task, one of `task_table.TASKS` or `own_data.OWN`.
      examples: the test examples, as the task's files or a run's predictions have them.

    Returns:
      A `TestSet`, which does not depend on the order of the examples.

    Raises:
      KeyError: there is no such task.
    """
    if task in own_data.OWN:
        task_type, _ = own_data.OWN[task]
    else:
        task_type = types.TYPES[task_table.TASKS[task].task_type]
    pairs = [task_type.content(example) for example in examples]
    labelled = sorted(_hash(pair) for pair in pairs)
    texts = sorted(_hash(text) for text, _ in pairs)
    sample = sorted({digest[:_DIGITS] for digest in labelled})[:_SAMPLE]
    return TestSet(len(pairs), _hash(labelled)[:16], _hash(texts)[:16], tuple(sample))


def compare(task: str, examples: Sequence[Example], of: int = 0) -> Match:
    """Compares the test set of a run with the published test sets of its task.

    Args:
      task: `--task`.
      examples: the test examples, as the task's files or a run's predictions have them; none if
        they are not known.
      of: the number that they were drawn from by `max_test_examples`; 0 if they were not.

    Returns:
      A `Match`: the fold that they are, and in words why they are not the published examples
      (`aside`), or why that is not known (`unverified`), both "" if they are the same.
    """
    match = _compare(task, examples, of)
    if match.unverified and of > len(examples) > 0:
        return Match(aside=f"{len(examples):,} of {of:,} test examples")
    return match


def _compare(task: str, examples: Sequence[Example], of: int) -> Match:
    """Compares test examples with those of the papers, see `compare`."""
    known = published().get(task)
    if not examples:
        return Match(unverified="the run has kept no test examples")
    if known is None:
        return _by_count(task, examples, of)
    own = describe(task, examples)
    match = _the_same(task, own, known) or _related(own, known)
    if match is not None:
        return match
    if any(one.examples == of and _is_part(own, one) is None for one in known.values()):
        return Match(aside=f"{own.examples:,} of {of:,} test examples")
    return Match(aside=f"{own.examples:,} {_not_published(own, known)}")


def _the_same(task: str, own: TestSet, known: Mapping[str, TestSet]) -> Match | None:
    """Returns the match with the published test set, or the fold, that has the same content."""
    for name, other in known.items():
        if own.content == other.content:
            fold = int(name.rpartition(" ")[2]) if name else 0
            # BLURB takes the first of GAD's.
            first = (task, fold) == ("gad", 1)
            return Match(fold, "" if first or not fold else f"fold {fold} of {len(known)}")
    return None


def _related(own: TestSet, known: Mapping[str, TestSet]) -> Match | None:
    """Returns the match with a test set of the same texts, or of which `own` is a part."""
    for name, other in known.items():
        fold = f" of {name}" if name else ""
        if own.texts == other.texts:
            return Match(aside=f"the published texts{fold} with other labels")
        if own.examples < other.examples and _is_part(own, other):
            numbers = f"{own.examples:,} of {other.examples:,}"
            return Match(aside=f"{numbers} test examples{fold}")
    return None


def _not_published(own: TestSet, known: Mapping[str, TestSet]) -> str:
    """Says that no published test set has these examples, for the end of a message."""
    if len(known) > 1:
        return f"test examples, none of the {len(known)} published folds"
    if own.examples == known[""].examples:
        return "test examples, not the published ones"
    return f"test examples, not the published {known[''].examples:,}"


def published() -> dict[str, dict[str, TestSet]]:
    """Returns the published test sets that `test_sets.json` knows.

    They are a dict of the name of a task -> "" or "fold 1" and so on -> a `TestSet`.
    """
    return {
        task: {
            name: TestSet(**{**one, "sample": tuple(one["sample"].split())})
            for name, one in sets.items()
        }
        for task, sets in _table().items()
    }


@functools.cache
def _table() -> dict:
    return json.loads(_TABLE.read_text(encoding="utf-8"))


def _is_part(own: TestSet, other: TestSet) -> bool | None:
    """Returns True if examples are of the other set; None if its sample does not reach them."""
    least = {digest for digest in own.sample if digest <= other.sample[-1]}
    return least <= set(other.sample) if least else None


def _by_count(task: str, examples: Sequence[Example], of: int) -> Match:
    """Compares numbers of examples, where the published examples were not at hand."""
    if task not in COUNTS:
        return Match(unverified="no published number of test examples is known")
    expected, unit = COUNTS[task]
    count = len(examples)
    if unit == "test mentions":
        tagged = cast(Sequence[TaggedSentence], examples)
        count = sum(len(tag_schemes.entities(x.tags)) for x in tagged)
    elif unit == "test relations":
        labelled = cast(Sequence[LabelledText], examples)
        count = sum(x.label != "false" for x in labelled)
    if count == expected:
        return Match(unverified=f"{count:,} {unit}, as published, which were not at hand")
    if of == expected > count:
        return Match(aside=f"{count:,} of {expected:,} {unit}")
    if unit == "test mentions" and count > expected:
        # BLUE's B tags are counted; `data_prep.corpora.clinical_notes` gives each part its B.
        once = f"the published {expected:,} count a mention in parts once"
        return Match(unverified=f"{count:,} entities; {once}")
    return Match(aside=f"{count:,} {unit}, not the published {expected:,}")


def _hash(content: Sequence) -> str:
    text = json.dumps(content, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _write_table(sets: Sequence[str], output: str) -> None:
    """Writes `test_sets.json`: for each task and fold the fields of `TestSet`; returns nothing.

    Args:
      sets: for each test set `TASK=FOLDER`, or `TASK:N=FOLDER` of fold N.
      output: the file.

    Raises:
      UsageError: an argument is of another form, or there is no such task.
      TaskFileError: a folder has no test file of the task, or a line of it cannot be used.
    """
    table: dict[str, dict[str, dict]] = {}
    for argument in sets:
        match = re.fullmatch(r"(\w+)(?::(\d+))?=(.+)", argument)
        if not match or match[1] not in task_table.TASKS:
            raise errors.UsageError(
                f"--test_set={argument}: expected TASK=FOLDER, or TASK:N=FOLDER of fold N, where "
                "TASK is one that --task of run_finetuning.py takes."
            )
        task, fold, folder = match.groups()
        one = describe(task, task_table.TASKS[task].read(find_split(folder, "test")))
        row = one._asdict() | {"sample": " ".join(one.sample)}
        table.setdefault(task, {})[f"fold {fold}" if fold else ""] = row
    storage.write_text(Path(output), json.dumps(table, indent=1) + "\n")


def define_flags() -> None:
    """Defines the flags --test_set and --output of `tfbio.reporting.test_sets`; returns nothing."""
    cli.define_list(
        "test_set",
        None,
        "A folder with a test.tsv: TASK=FOLDER, or TASK:N=FOLDER of fold N.",
        required=True,
    )
    flags.DEFINE_string("output", None, "File to write.", required=True)


def main(argv: list[str]) -> None:
    """Runs `tfbio.reporting.test_sets`: writes `test_sets.json` from the folders of test sets.

    Args:
      argv: the command line without its flags, a list of strings: the program alone.

    Raises:
      UsageError: there are arguments, a --test_set is of another form, or there is no such task.
      UserError: --output is a folder.
      TaskFileError: a folder has no test file of the task, or a line of it cannot be used.
    """
    cli.no_arguments(argv)
    path_checks.require_output("output", flags.FLAGS.output, is_folder=False)
    _write_table(flags.FLAGS.test_set, flags.FLAGS.output)


if __name__ == "__main__":
    cli.run(main, define_flags)
