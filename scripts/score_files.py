"""Reads the file of a comparison's scores, and refuses one of another comparison.

`comparison.py` writes it: a record a line. The first says what all scores have in common:

    {"stage": "comparison", "precision": "bfloat16", ...}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tfbio.base import errors

STAGES = ("comparison", "search", "pretraining", "finetuning", "cost")
# What is no flag, in the words of a message.
_NO_FLAGS = {
    "documents": "other documents",
    "vocabulary": "another vocabulary",
    "cuts_off_products": "a CPU that rounds bfloat16 otherwise",
}


def path_of(folder: str, results: str) -> Path:
    """Returns the file of the scores: `results`, or, if it is "", scores.jsonl in the folder."""
    return Path(results or Path(folder, "scores.jsonl"))


def read(path: Path) -> list[dict]:
    """Reads the scores that are there, each run once.

    Files of two machines that are joined may both have the scores of random weights, which would
    count as so many more seeds.

    Args:
      path: the file; there are no scores without it.

    Raises:
      UserError: a line is none.
    """
    if not path.exists():
        return []
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        stages = {record["stage"] for record in records}
        runs: dict[str, dict] = {}
        for record in records:
            runs.setdefault(_identity(record), record)
    except (ValueError, KeyError, TypeError) as error:
        raise errors.UserError(f"--results={path} has a line that is no score.") from error
    unknown = stages - set(STAGES)
    if unknown:
        raise errors.UserError(f"--results={path} has a line of an unknown stage, {unknown.pop()}.")
    return list(runs.values())


def check(path: Path, records: list[dict], common: Mapping[str, object]) -> None:
    """Refuses to continue the scores of other settings; returns nothing.

    Args:
      path: the file of the scores, for the message.
      records: its lines.
      common: what all scores of this comparison have in common, or a part of it.

    Raises:
      UserError: theirs is something else.
    """
    for record in _first(records):
        for name, own in common.items():
            if record.get(name) == own:
                continue
            of, remedy = _NO_FLAGS.get(name, "another kind of comparison"), ""
            if name in record and name not in _NO_FLAGS:
                of = f"--{name}={record[name]}"
                remedy = f"{of}, or "
            raise errors.UserError(
                f"{path} has scores of {of}, with which this command's do not go together: give "
                f"{remedy}another --results and --output."
            )


def begin(path: Path, records: list[dict], common: Mapping[str, object]) -> None:
    """Puts the first record before those of the scores, unless it is there; returns nothing.

    Args:
      path: the file of the scores, for the message.
      records: its lines, to which it is added.
      common: what all scores of this comparison have in common.

    Raises:
      UserError: there are scores of something else, or without a first record.
    """
    check(path, records, common)
    if _first(records):
        return
    record = {"stage": "comparison", **common}
    if records:
        raise errors.UserError(
            f"{path} does not say of which settings its scores are: if they are of this command's "
            f"flags and data, put this line first: {json.dumps(record)}"
        )
    records.append(record)


def _first(records: list[dict]) -> list[dict]:
    """Returns the record of what scores have in common; several for joined files that differ."""
    return [record for record in records if record["stage"] == "comparison"]


def _identity(record: dict) -> str:
    """Returns what two records of the same run, or of the same measurement, have in common."""
    if record["stage"] == "comparison":
        return json.dumps(record, sort_keys=True)
    # The settings are all that a result depends on. With few steps, two families may have the same,
    # and so may two budgets.
    names = ["stage", "settings", "family", "arm", "minutes", "task"]
    if record["stage"] == "cost":
        names += ["turn", "processor"]
    return json.dumps([record.get(name) for name in names])
