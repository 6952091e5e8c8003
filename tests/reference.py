"""Finds the data that tests compare with; `tests/data/README.md` says what there is.

What may be redistributed lies in `tests/data`. The rest is optional: it stands in a folder `shared`
beside the checkout, or where TFBIO_SHARED says, and a test that asks for it is skipped without.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tests" / "data"
BESIDE = Path(os.environ.get("TFBIO_SHARED", ROOT.parent / "shared"))

PARITY = KEPT / "parity"
PAPERS = KEPT / "papers"
PUBMEDBERT = KEPT / "vocab" / "pubmedbert_uncased.txt"

REASON = "left out for lack of data: "


def has(path: str) -> bool:
    """Returns True if `corpus` finds this file or folder."""
    return any((folder / path).exists() for folder in (KEPT / "corpora", BESIDE / "data"))


def corpus(path: str) -> Path:
    """Finds a file or folder of a corpus, and skips the test if it is in neither place.

    Args:
        path: `NAME/...`, in the layout that `tests/data/README.md` gives.

    Returns:
        The file in the repository, or else the one in the folder beside the checkout.
    """
    for folder in (KEPT / "corpora", BESIDE / "data"):
        if (folder / path).exists():
            return folder / path
    pytest.skip(REASON + Path(path).parts[0])


def paper(name: str) -> str:
    """Reads a paper's text, and skips the test if it is in neither place."""
    for folder in (PAPERS, BESIDE / "papers"):
        if (folder / name).exists():
            return (folder / name).read_text(encoding="utf-8")
    pytest.skip(REASON + f"papers/{name}")


def browser() -> str:
    """Finds Chromium, and skips the test if it is not installed."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip(REASON + "chromium")


def summary(reasons: Iterable[str]) -> str:
    """Says how many cases were left out for lack of which data, and how to get it.

    Args:
        reasons: Why each case was skipped, as pytest reports it.

    Returns:
        A few sentences; empty if no case was left out for lack of data.
    """
    found = (re.search(re.escape(REASON) + r"([\w./]+)", reason) for reason in reasons)
    names = Counter(match[1] for match in found if match)
    if not names:
        return ""
    count = names.total()
    ordered = sorted(names.items(), key=lambda own: (-own[1], own[0]))
    each = ", ".join(f"{name} {number}" for name, number in ordered)
    cases = "1 case was" if count == 1 else f"{count} cases were"
    return (
        f"{cases} left out for lack of data that is not in this repository: {each}.\n"
        "tests/data/README.md lists where to get each corpus, and why it is not here. Put it in a "
        "folder `shared`\nbeside the checkout, or in the folder that TFBIO_SHARED names; "
        "shared/data/hoc/blurb/test.tsv.gz is one file."
    )
