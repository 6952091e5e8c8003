"""Makes BLURB's files of EBM-PICO: words as participants, interventions or outcomes of trials.

`tfbio data ebm_pico` reads with this module EBM-NLP 2.00 (<https://github.com/bepnye/EBM-NLP>): its
tokens, and the labels "aggregated", "starting_spans", for testing those of medical professionals
("gold"). An abstract is a line `-DOCSTART- (PMID)`, a blank line, and a line for each token with
its tag: I-PAR, I-INT, I-OUT or O; a token of several elements has the last of these three tags. A
blank line follows each token ".". The splits are lists of abstracts, BLURB's
`indexing/ebmnlp/{train,dev,test}_pmid.tsv`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from data_prep.corpora import corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError, File

# In the order in which they overwrite each other.
TAGS = {"participants": "I-PAR", "interventions": "I-INT", "outcomes": "I-OUT"}

_DOCUMENTS = r"documents/\d+\.tokens"
_LABELS = rf"aggregated/starting_spans/({'|'.join(TAGS)})/(train|test/gold)/\d+[^/]*\.ann"


def read_examples(
    source: str | os.PathLike, index: str | os.PathLike, left: corpus_splits.LeftOut
) -> dict[str, list[tuple[str, ...]]]:
    """Reads EBM-PICO's tagged abstracts from EBM-NLP's release, as the lines of BLURB's splits.

    Args:
      source: the release: the path of a folder or an archive.
      index: the folder of BLURB's lists, `{train,dev,test}_pmid.tsv`.
      left: a list that gets `(PMID, path of its file, "not_listed")`, all str, for each abstract
        that no list names.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is the list of the lines of its
      abstracts, tuples of str: `("-DOCSTART- (PMID)",)` before each abstract, `("",)` for a blank
      line, and `(word, tag)`, where the tag is "I-PAR", "I-INT", "I-OUT" or "O".

    Raises:
      CorpusError: the release or a list cannot be read, the release lacks the labels of an element,
        a list names an abstract without tokens or labels, or an abstract has not as many labels as
        tokens.
    """
    by_key = released_files.find(source, f"{_DOCUMENTS}|{_LABELS}")
    for element in TAGS:
        for part in ("train", "test/gold"):
            folder = f"aggregated/starting_spans/{element}/{part}/"
            if not any(key.startswith(folder) for key in by_key):
                raise CorpusError(
                    f"{source} holds no labels in {folder}, without which all {element} would be "
                    "taken for none: give the whole of EBM-NLP 2.00."
                )
    files = {_name(key): f for key, f in by_key.items()}
    splits: dict[str, list[tuple[str, ...]]] = {}
    listed: set[str] = set()
    for split in corpus_splits.SPLITS:
        splits[split] = []
        for pmid in corpus_splits.read_index(index, f"{split}_pmid.tsv"):
            if ("documents", pmid) not in files or not any((e, pmid) in files for e in TAGS):
                raise CorpusError(
                    f"{split}_pmid.tsv in {index} lists {pmid}, of which {source} does not hold "
                    "tokens and labels."
                )
            listed.add(pmid)
            splits[split] += read_abstract(pmid, files)
    documents = {pmid: f.path for (kind, pmid), f in files.items() if kind == "documents"}
    left += [(pmid, documents[pmid], "not_listed") for pmid in sorted(documents.keys() - listed)]
    return splits


def _name(key: str) -> tuple[str, str]:
    """Returns "documents" or the element that a file labels, and the file's PMID."""
    parts = key.split("/")
    kind = parts[0] if parts[0] == "documents" else parts[2]
    return kind, parts[-1].partition(".")[0]


def read_abstract(pmid: str, files: Mapping[tuple[str, str], File]) -> Iterator[tuple[str, ...]]:
    """Yields the lines, words with their tags, of one of EBM-PICO's abstracts.

    Args:
      pmid: the PMID of the abstract, as text.
      files: the abstract's tokens, by ("documents", PMID), and its labels, by (element, PMID),
        where the element is "participants", "interventions" or "outcomes"; without a file it has no
        words of that element.

    Yields:
      Tuples of str: `("-DOCSTART- (PMID)",)`, `("",)` for a blank line, and `(word, tag)`, where
      the tag is "I-PAR", "I-INT", "I-OUT" or "O".

    Raises:
      CorpusError: there are not as many labels as tokens, or a file is not text in UTF-8.
    """
    tokens = files["documents", pmid].text().split()
    tags = ["O"] * len(tokens)
    for element, tag in TAGS.items():
        if (element, pmid) not in files:
            continue
        file = files[element, pmid]
        labels = file.text().split()
        if len(labels) != len(tokens):
            raise CorpusError(
                f"{file.path} has {len(labels)} labels, but the abstract {len(tokens)} tokens: "
                "give EBM-NLP 2.00."
            )
        tags = [tag if label != "0" else before for label, before in zip(labels, tags, strict=True)]
    yield (f"-DOCSTART- ({pmid})",)
    yield ("",)
    for token, tag in zip(tokens, tags, strict=True):
        yield token, tag
        if token == ".":
            yield ("",)
