"""Makes the data of the quick start, `tfbio/example_data/ncbi_disease`, of NCBI's PubTator files.

    python scripts/quickstart_data.py

reads `tests/data/corpora/ncbi_disease` and writes a file of tagged words for each split: a line
`-DOCSTART- (PMID)` for each abstract, an empty line behind each sentence, and for each word its tag
B, I or O. Sentences and words are those that `--mode=predict` makes of new text.

NCBI's file of the training and development abstracts does not say which is which. Those for
development are the ones whose letters stand in BLURB's `dev.tsv`. The second of two abstracts with
one PMID is left out, and so is a mention that begins or ends within a word.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from data_prep.sentences import splitters
from tfbio.formats import pubtator, tagged_words
from tfbio.formats.annotated_documents import Document
from tfbio.task_types import words

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "tests" / "data" / "corpora" / "ncbi_disease"
SHIPPED = ROOT / "tfbio" / "example_data" / "ncbi_disease"
FILES = {
    "train": "NCBIdisease_TrainDev.PubTator.gz",
    "test": "NCBIdisease_Test.PubTator",
}


class Abstract(NamedTuple):
    """An abstract of the corpus.

    Attributes:
      document: its title and abstract.
      mentions: the characters [start, end) of each mention in its text, in the order of the file.
    """

    document: Document
    mentions: list[tuple[int, int]]


def read(path: Path) -> list[Abstract]:
    """Reads a PubTator file with its mentions; of abstracts with one PMID the first alone."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    mentions: list[list[tuple[int, int]]] = []
    for line in text.split("\n"):
        match, cells = pubtator.LINE.fullmatch(line), line.split("\t")
        if match and match[2] == "t":
            mentions.append([])
        elif not match and len(cells) > 4:
            mentions[-1].append((int(cells[1]), int(cells[2])))
    first: dict[str, Abstract] = {}
    for document, own in zip(pubtator.read(str(path), text), mentions, strict=True):
        first.setdefault(document.id, Abstract(document, own))
    return list(first.values())


def letters(parts: Iterable[str]) -> str:
    """Joins texts without their white space."""
    return "".join("".join(parts).split())


def splits() -> dict[str, list[Abstract]]:
    """Returns the abstracts of "train", "dev" and "test", in the order of NCBI's files."""
    made = {split: read(SOURCE / "pubtator" / name) for split, name in FILES.items()}
    published = tagged_words.read(str(SOURCE / "blurb" / "dev.tsv"))
    dev = letters(word for sentence in published for word in sentence.words)
    both = made["train"]
    is_dev = [letters([each.document.text]) in dev for each in both]
    made["train"] = [each for each, here in zip(both, is_dev, strict=True) if not here]
    made["dev"] = [each for each, here in zip(both, is_dev, strict=True) if here]
    return made


def tags(places: Sequence[tuple[int, int]], mentions: Sequence[tuple[int, int]]) -> list[str]:
    """Returns the tag of each word of an abstract, by its characters and those of the mentions."""
    firsts = {start: number for number, (start, _) in enumerate(places)}
    lasts = {end: number for number, (_, end) in enumerate(places)}
    made = ["O"] * len(places)
    for start, end in mentions:
        if start in firsts and end in lasts:
            made[firsts[start]] = "B"
            for number in range(firsts[start] + 1, lasts[end] + 1):
                made[number] = "I"
    return made


def lines(abstracts: Sequence[Abstract], split: splitters.Splitter) -> Iterator[str]:
    """Yields the lines of a file of tagged words."""
    for document, mentions in abstracts:
        yield f"-DOCSTART- ({document.id})\n\n"
        sentences, start = [], 0
        for parts in split([document.text[p.start : p.end] for p in document.passages]):
            for part in parts:
                start = document.text.index(part, start)
                own = [(start + a, start + b) for a, b in words.spans(part, "punctuation")]
                start += len(part)
                sentences.append(own)
        made = iter(tags([place for own in sentences for place in own], mentions))
        before = "O"
        for own in sentences:
            for a, b in own:
                tag = next(made)
                # In a mention that goes over the end of a sentence a new one begins there.
                begins = tag == "I" and before == "O"
                before = "B" if begins else tag
                yield f"{document.text[a:b]}\t{before}\n"
            before = "O"
            yield "\n"


def make() -> dict[str, bytes]:
    """Returns the content of each file, by its name."""
    split = splitters.load("biosenter")
    return {
        f"{name}.tsv.gz": gzip.compress("".join(lines(own, split)).encode(), mtime=0)
        for name, own in splits().items()
    }


def main() -> None:
    """Writes the files, and prints the size of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=SHIPPED, help="folder to write to")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in make().items():
        (folder / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
