"""Makes BLURB's files of BC2GM, the genes of BioCreative II, of the release.

`tfbio data bc2gm` reads with this module the files train.in and test.in with a GENE.eval beside
each, of bc2GMtrain_1.1.tar.gz and bc2GMtest_1.0.tar.gz, in folders whose names end in `train` and
`test`. The release has no development set: `splits/bc2gm_dev.txt` lists the 2,500 sentences that
MTL-Bioinformatics-2016 took, and BLURB with it (<https://github.com/spyysalo/bc2gm-corpus>).

A line of the release may become several sentences. Of mentions that overlap the longest is kept,
and of those that share their first word the first, as in the published files; the others are lines
of `left_out.jsonl`. ALTGENE.eval, the other forms that BioCreative accepts, is not used.
"""

from __future__ import annotations

import os
from collections import defaultdict

from data_prep.corpora import (
    abstract_mentions,
    corpus_splits,
    published_sentences,
    released_files,
)
from data_prep.corpora.released_files import CorpusError, File


def read_examples(
    source: str | os.PathLike, left: corpus_splits.LeftOut
) -> dict[str, list[tuple[str, ...]]]:
    """Reads the genes of BC2GM's release, as the lines of BLURB's splits.

    Args:
      source: the release: the path of a folder or an archive.
      left: a list that gets `(id, path of its file, reason)`, all str, for each mention that
        overlaps a longer one ("overlaps") or whose word an earlier one has ("shares_a_word").

    Returns:
      A dict with the keys "train", "dev" and "test". Each value is a list of lines, tuples of str:
      `(word, tag)` with the tag "B", "I" or "O", and `("",)` for the empty line behind a sentence.

    Raises:
      CorpusError: the release cannot be read or lacks a file, a line is not of its form, or a
        mention is not at its place.
    """
    pattern = r"[^/]*(train|test)/(train\.in|test\.in|GENE\.eval)"
    found = released_files.find(source, pattern)
    files = {}
    for key, file in found.items():
        folder, name = key.split("/")
        files["train" if folder.endswith("train") else "test", name] = file
    dev = set(corpus_splits.read_index(abstract_mentions.LISTS, "bc2gm_dev.txt"))
    splits: dict[str, list[tuple[str, ...]]] = {split: [] for split in corpus_splits.SPLITS}
    for part in ("train", "test"):
        texts, genes = files.get((part, f"{part}.in")), files.get((part, "GENE.eval"))
        if texts is None or genes is None:
            raise CorpusError(
                f"{source} lacks {part}/{part}.in or the {part}/GENE.eval beside it: give the "
                "releases for training and for testing."
            )
        for id_, (text, mentions) in _sentences(texts, genes).items():
            splits["dev" if id_ in dev else part] += published_sentences.tagged(
                text, mentions, id_, genes.path, left
            )
    return splits


def _sentences(texts: File, genes: File) -> dict[str, tuple[str, list[tuple[int, int]]]]:
    """Returns each sentence of a part of the release with its mentions, by its id.

    Raises:
      CorpusError: a line is not of its form, or a mention is not at its place.
    """
    sentences = {}
    for number, line in enumerate(texts.text().removesuffix("\n").split("\n"), start=1):
        id_, _, text = line.partition(" ")
        if not text:
            raise CorpusError(f"{texts.path}, line {number}: expected an id, a blank and a text.")
        sentences[id_] = text
    mentions = defaultdict(list)
    for number, line in enumerate(genes.text().removesuffix("\n").split("\n"), start=1):
        id_, place, mention = [*line.split("|", 2), "", ""][:3]
        text = sentences.get(id_, "")
        # Offsets do not count blanks, and the last one is inclusive.
        places = [at for at, character in enumerate(text) if not character.isspace()]
        first, last = ([released_files.offset(x) for x in place.split(" ")] + [-1, -1])[:2]
        if not 0 <= first <= last < len(places):
            raise CorpusError(
                f"{genes.path}, line {number}: expected ID|FIRST LAST|MENTION of a sentence in "
                f"{texts.path}."
            )
        # One mention's offsets have a slash more than its text.
        start = text.find(mention, places[first], places[last] + 1)
        if not mention or start < 0:
            raise CorpusError(f"{genes.path}, line {number}: {mention!r:.60} is not at its place.")
        mentions[id_].append((start, start + len(mention)))
    return {id_: (text, mentions[id_]) for id_, text in sentences.items()}
