"""Makes BLURB's files of BC5CDR and NCBI-disease of the releases in PubTator's format or in BioC.

`tfbio data bc5cdr_chem`, `bc5cdr_disease` and `ncbi_disease` read with this module:

- BC5CDR: the files CDR_TrainingSet, CDR_DevelopmentSet and CDR_TestSet (.PubTator.txt, or where it
  is not there .BioC.xml) of CDR_Data.zip, or that archive.
- NCBI-disease: NCBItrainset_corpus.txt, NCBIdevelopset_corpus.txt and NCBItestset_corpus.txt, or
  the two files that NCBI's later work has, NCBIdisease_TrainDev.PubTator and
  NCBIdisease_Test.PubTator. The list `splits/ncbi_disease_dev.txt` divides the first of them.

All mentions of a corpus are of one type. Of mentions that overlap the longest is kept, of those
that share their first word and of abstracts with one PMID the first, as in the published files; the
others are lines of `left_out.jsonl`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from data_prep.corpora import corpus_splits, published_sentences, released_files
from data_prep.corpora.released_files import CorpusError, File
from tfbio.formats import pubtator

_BC5CDR = {"train": "CDR_TrainingSet", "dev": "CDR_DevelopmentSet", "test": "CDR_TestSet"}
_NCBI = {
    "train": "NCBItrainset_corpus.txt",
    "dev": "NCBIdevelopset_corpus.txt",
    "test": "NCBItestset_corpus.txt",
}
_NCBI_TRAIN_AND_DEV = "NCBIdisease_TrainDev.PubTator"
_NCBI_TEST = "NCBIdisease_Test.PubTator"
LISTS = os.path.join(os.path.dirname(__file__), "splits")


class Abstract(NamedTuple):
    """An abstract of a corpus with its mentions.

    Attributes:
      id: its PMID.
      text: title and abstract, with a line feed between.
      mentions: the characters `(start, end)` of each mention of the wanted type.
      path: of its file, for errors.
    """

    id: str
    text: str
    mentions: list[tuple[int, int]]
    path: str


def read_bc5cdr(
    source: str | os.PathLike, entity_type: str, left: corpus_splits.LeftOut
) -> dict[str, list[tuple[str, ...]]]:
    """Reads one type of the mentions of BC5CDR's release, as the lines of BLURB's splits.

    Args:
      source: the release: the path of a folder, an archive or a file.
      entity_type: "Chemical" or "Disease".
      left: a list that gets `(id, path of its file, reason)`, all str, for each mention that
        overlaps a longer one ("overlaps") or whose word an earlier one has ("shares_a_word"), and
        each abstract that repeats a PMID ("repeated").

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is the list of the lines of its
      abstracts, tuples of str: `(word, tag)`, and `("",)` for the empty line behind a sentence.

    Raises:
      CorpusError: the release cannot be read or lacks a split, or a mention is not at its place.
    """
    files = released_files.find(
        source, rf"({'|'.join(_BC5CDR.values())})\.(PubTator\.txt|BioC\.xml)"
    )
    abstracts = {}
    for split, name in _BC5CDR.items():
        if file := files.get(f"{name}.PubTator.txt"):
            abstracts[split] = _of_pubtator(file, entity_type)
        elif file := files.get(f"{name}.BioC.xml"):
            abstracts[split] = _of_bioc(file, entity_type)
        else:
            raise CorpusError(f"{source} lacks {name}.PubTator.txt: give the whole CDR_Data.zip.")
    return _rows(abstracts, left)


def read_ncbi_disease(
    source: str | os.PathLike, left: corpus_splits.LeftOut
) -> dict[str, list[tuple[str, ...]]]:
    """Reads the mentions of NCBI-disease's release, as the lines of BLURB's splits.

    Args:
      source: the release: the path of a folder, an archive or a file.
      left: as for `read_bc5cdr`.

    Returns:
      As `read_bc5cdr`.

    Raises:
      CorpusError: the release cannot be read or lacks a split, or a mention is not at its place.
    """
    names = [*_NCBI.values(), _NCBI_TRAIN_AND_DEV, _NCBI_TEST]
    files = released_files.find(source, "|".join(map(re.escape, names)))
    if all(name in files for name in _NCBI.values()):
        return _rows({split: _of_pubtator(files[name]) for split, name in _NCBI.items()}, left)
    if _NCBI_TRAIN_AND_DEV not in files or _NCBI_TEST not in files:
        raise CorpusError(
            f"{source} has neither {', '.join(_NCBI.values())} nor {_NCBI_TRAIN_AND_DEV} and "
            f"{_NCBI_TEST}: give the whole release."
        )
    dev = set(corpus_splits.read_index(LISTS, "ncbi_disease_dev.txt"))
    both = list(_of_pubtator(files[_NCBI_TRAIN_AND_DEV]))
    abstracts = {
        "train": [abstract for abstract in both if abstract.id not in dev],
        "dev": [abstract for abstract in both if abstract.id in dev],
        "test": _of_pubtator(files[_NCBI_TEST]),
    }
    return _rows(abstracts, left)


def _rows(
    abstracts: Mapping[str, Iterable[Abstract]], left: corpus_splits.LeftOut
) -> dict[str, list[tuple[str, ...]]]:
    """Returns the lines of each split, and lists in `left` what is not in them."""
    seen: set[str] = set()
    splits: dict[str, list[tuple[str, ...]]] = {}
    for split, of_split in abstracts.items():
        splits[split] = []
        # BLURB's order, in which its evaluators number the sentences: that of a folder of files.
        for id_, text, mentions, path in sorted(of_split, key=lambda abstract: abstract.id):
            if id_ in seen:
                left.append((id_, path, "repeated"))
                continue
            seen.add(id_)
            splits[split] += published_sentences.tagged(text, mentions, id_, path, left)
    return splits


def _of_pubtator(file: File, entity_type: str = "") -> Iterator[Abstract]:
    """Yields the abstracts of a file in PubTator's format, with the mentions of a type ("": any).

    Raises:
      CorpusError: a line is not of this format, or a mention's text is not at its offsets.
    """
    current: Abstract | None = None
    for number, line in enumerate(file.text().split("\n"), start=1):
        cells, match = line.split("\t"), pubtator.LINE.fullmatch(line)
        if match and match[2] == "t":
            if current:
                yield current
            current = Abstract(match[1], match[3], [], file.path)
        elif match and current and current.id == match[1]:
            current = current._replace(text=f"{current.text}\n{match[3]}")
        elif current and cells[0] == current.id and len(cells) >= 5:
            start, end = (released_files.offset(cell) for cell in cells[1:3])
            _check(f"{file.path}, line {number}", current.text, start, end, cells[3])
            if entity_type in ("", cells[4]):
                current.mentions.append((start, end))
        # A line of four columns is a relation.
        elif line.strip() and not (current and cells[0] == current.id and len(cells) == 4):
            raise CorpusError(
                f"{file.path}, line {number}: expected PMID|t|title, PMID|a|abstract or a mention "
                f"of this abstract, found {line!r:.60}."
            )
    if current:
        yield current


def _of_bioc(file: File, entity_type: str) -> Iterator[Abstract]:
    """Yields the abstracts of a file in BioC, with the mentions of a type.

    The parts of a composite mention ("IndividualMention") are no mentions of their own, as in the
    files in PubTator's format.

    Raises:
      CorpusError: an abstract lacks a part, or a mention's text is not at its place.
    """
    for document in file.xml().iterfind("document"):
        id_ = document.findtext("id", "")
        passages = document.findall("passage")
        text = "\n".join(passage.findtext("text", "") for passage in passages)
        mentions = []
        for annotation in document.iterfind("passage/annotation"):
            infons = {infon.get("key"): infon.text for infon in annotation.iterfind("infon")}
            place = annotation.find("location")
            if (
                infons.get("type") != entity_type
                or infons.get("CompositeRole") == "IndividualMention"
            ):
                continue
            numbers = () if place is None else (place.get("offset", ""), place.get("length", ""))
            start, length = map(released_files.offset, numbers or ("", ""))
            where = f"{file.path}, line {annotation.sourceline}"
            _check(where, text, start, start + length, annotation.findtext("text", ""))
            mentions.append((start, start + length))
        yield Abstract(id_, text, mentions, file.path)


def _letters(text: str) -> str:
    """Returns the letters and digits of a text."""
    return "".join(filter(str.isalnum, text))


def _check(where: str, text: str, start: int, end: int, mention: str) -> None:
    """Raises CorpusError if a text has another mention at these characters than it should.

    Punctuation may differ: NCBI-disease has blanks for the quotes of one mention.
    """
    fits = 0 <= start < end <= len(text) and _letters(text[start:end]) == _letters(mention)
    if not fits:
        found = text[start:end] if 0 <= start < end else ""
        raise CorpusError(
            f"{where}: the abstract has {found!r:.60} at {start} to {end}, not {mention!r:.60}."
        )
