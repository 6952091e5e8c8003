"""Makes the files of i2b2 2012 events and i2b2 2014 de-identification: words and their tags.

    python -m data_prep.corpora.i2b2_notes --year=2012 --input=i2b2-2012 --output=out/i2b2_2012
    python -m data_prep.corpora.i2b2_notes --year=2014 --input=i2b2-2014 --output=out/i2b2_2014

Reads the release for registered users of <https://portal.dbmi.hms.harvard.edu>: of 2012 the folders
2012-07-15.original-annotation.release and 2012-08-08.test-data.event-timex-groundtruth, of 2014
training-PHI-Gold-Set1, -Set2 and testing-PHI-Gold-fixed, as bio-lm does. The tags are of an event's
`type` in 2012, and of the `TYPE` of protected health information in 2014. A line of a note is a
sentence; see `clinical_notes` for words and for mentions that do not fit.

Offsets count the characters of the note's CDATA from 0. A 2012 note begins with a line end there,
so that they count its text from 1. Where the annotated text stands elsewhere, the mention is at the
nearest place that has it; the command prints how many there are.

The releases have no split for development. bio-lm draws a tenth of the patients; here a tenth of
them, or `--dev_fraction`, is chosen by hashes of their numbers.
"""

from __future__ import annotations

import html
import os
import re
from collections import Counter
from collections.abc import Iterator

from absl import flags
from lxml import etree

from data_prep.corpora import clinical_notes, corpus_flags, corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError, File
from tfbio.base import cli
from tfbio.formats import label_sets

_FILES = {
    "2012": {
        "train": r"2012-07-15\.original-annotation\.release/\d+\.xml",
        "test": r"2012-08-08\.test-data\.event-timex-groundtruth/xml/\d+\.xml",
    },
    "2014": {
        "train": r"training-PHI-Gold-Set[12]/\d+-\d+\.xml",
        "test": r"testing-PHI-Gold-fixed/\d+-\d+\.xml",
    },
}
# The elements of mentions, and the attribute with the mention's type; and the types.
_TAGS = {"2012": ("EVENT", "type"), "2014": ("*", "TYPE")}
_KINDS = {"2012": label_sets.I2B2_EVENTS, "2014": label_sets.I2B2_PHI}

_TEXT = re.compile(r"<TEXT><!\[CDATA\[(.*?)\]\]></TEXT>", re.DOTALL)
_TAG_LIST = re.compile(r"<TAGS>.*</TAGS>", re.DOTALL)
# Some files of 2012 have an & that stands for itself.
_STRAY_AMPERSAND = re.compile(r"&(?!(#\d+|#x[\da-fA-F]+|\w+);)")

MOVED = "do not stand at their offsets: they are tagged where the nearest such text is"
OTHER_TEXT = "have a text that the note does not have: the words at their offsets are tagged"
OUTSIDE = "have offsets beyond the note, which has no such text: they are not tagged"
NO_KIND = "have no type: they are not tagged"


def read_examples(
    source: str | os.PathLike,
    year: str,
    left: corpus_splits.LeftOut,
    dev_fraction: float = corpus_splits.DEV_FRACTION,
) -> tuple[dict[str, list[tuple[str, ...]]], Counter[str]]:
    """Reads the tagged notes of i2b2's release of 2012 or 2014, as the lines of the splits.

    Args:
      source: the release: the path of a folder or an archive.
      year: the year of the challenge, "2012" or "2014".
      left: a list that gets a tuple of three str for each mention that is not tagged: `(id, path of
        its file, "no_kind" or "outside")`, or `(NAME.START-END, NAME, "no_word" or "overwritten")`.
      dev_fraction: the share of the patients for training that is for development.

    Returns:
      A pair. First a dict with the keys "train", "dev" and "test"; each value is the list of the
      lines of its notes, tuples of str as `clinical_notes.tagged` makes them:
      `("-DOCSTART- (NAME)",)`, `("",)` and `(word, tag)`. Second a counter for `clinical_notes.say`
      of the mentions that do not fit.

    Raises:
      CorpusError: the release cannot be read, `read_note` refuses a note, or a split has no note.
    """
    counts: Counter[str] = Counter()
    made: dict[str, dict[str, list[tuple[str, ...]]]] = {"train": {}, "test": {}}
    for key, file in released_files.find(source, "|".join(_FILES[year].values())).items():
        split = "train" if re.fullmatch(_FILES[year]["train"], key) else "test"
        name = key.rpartition("/")[2].removesuffix(".xml")
        text, mentions = read_note(file, year, counts, left)
        # The notes of a patient, "110-01" and "110-02", stay together.
        rows = made[split].setdefault(name.partition("-")[0], [])
        rows += clinical_notes.tagged(name, text, mentions, counts, left)
    splits = corpus_splits.with_development(
        made["train"], made["test"], "", clinical_notes.kinds_of, dev_fraction
    )
    return splits, counts


def read_note(
    file: File, year: str, counts: Counter[str], left: corpus_splits.LeftOut
) -> tuple[str, list[clinical_notes.Mention]]:
    """Reads a note of i2b2's release of 2012 or 2014, and its mentions.

    Args:
      file: the note, in XML.
      year: the year of the challenge, "2012" or "2014".
      counts: changed in place: the numbers of mentions that do not fit are added, by the sentences
        that `clinical_notes.say` prints.
      left: a list that gets `(id, path of its file, "no_kind" or "outside")`, all str, for each
        mention that cannot be tagged.

    Returns:
      A pair: the text, and a list of `clinical_notes.Mention` with offsets in it, in the order of
      the file. A mention's kind is its event's type ("EVIDENTIAL") or that of protected health
      information ("PATIENT").

    Raises:
      CorpusError: it is no note of that year, or a tag has no offsets or an unknown type.
    """
    content = file.text()
    note = _TEXT.search(content)
    tags = _TAG_LIST.search(content, note.end() if note else 0)
    if not note or not tags:
        raise CorpusError(f"{file.path} has no <TEXT><![CDATA[...]]></TEXT>, or no <TAGS>.")
    root = released_files.parse_xml(file.path, _STRAY_AMPERSAND.sub("&amp;", tags[0]).encode())
    return note[1], list(_mentions(file, note[1], root, year, counts, left))


def _mentions(
    file: File,
    text: str,
    root: etree._Element,
    year: str,
    counts: Counter[str],
    left: corpus_splits.LeftOut,
) -> Iterator[clinical_notes.Mention]:
    element, attribute = _TAGS[year]
    for tag in root.iterfind(element):
        kind, start, end = (tag.get(name, "").strip() for name in (attribute, "start", "end"))
        if not kind:
            counts[clinical_notes.MENTIONS] += 1
            counts[NO_KIND] += 1
            left.append((f"{tag.get('id')}", file.path, "no_kind"))
            continue
        if (
            kind not in _KINDS[year]
            or min(released_files.offset(start), released_files.offset(end)) < 0
        ):
            raise CorpusError(
                f"{file.path}: the tag {tag.get('id')!r} has no start and end, or its {attribute} "
                f"{kind!r} is not one of {', '.join(_KINDS[year])}."
            )
        span = place(text, int(start), int(end), tag.get("text", ""), counts)
        if not span[0] <= span[1] <= len(text):
            counts[clinical_notes.MENTIONS] += 1
            counts[OUTSIDE] += 1
            left.append((f"{tag.get('id')}", file.path, "outside"))
            continue
        yield clinical_notes.Mention(kind, (span,))


def place(text: str, start: int, end: int, said: str, counts: Counter[str]) -> tuple[int, int]:
    """Returns the range of an i2b2 mention in its note of 2012 or 2014, whose offsets may be wrong.

    It is that of the annotation's offsets, or the nearest place that has the text. If the note does
    not have it, the offsets are returned as they are, perhaps beyond the note.

    Args:
      text: the text of the note.
      start, end: the annotation's offsets, in characters.
      said: the annotated text.
      counts: changed in place: gets the annotations that do not stand at their offsets added, by
        the sentences that `clinical_notes.say` prints.

    Returns:
      `(start, end)`, two int: the offsets of its first character and of that behind its last.
    """
    words = said.split()
    if not words or html.unescape(text[start:end]).split() == html.unescape(said).split():
        return start, end
    matches = list(re.finditer(r"\s+".join(map(re.escape, words)), text))
    counts[MOVED if matches else OTHER_TEXT] += 1
    if not matches:
        return start, end
    return min((match.span() for match in matches), key=lambda span: abs(span[0] - start))


def main(argv: list[str]) -> None:
    """Runs `python -m data_prep.corpora.i2b2_notes`, which makes the files of i2b2 2012 or 2014.

    Prints how many mentions have each type and how many do not fit.
    Returns nothing.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UserError: see `corpus_flags`: `make_files` and `dev_fraction`; and `read_examples`.
    """
    flag = flags.FLAGS
    counts: Counter[str] = Counter()

    def read(left: corpus_splits.LeftOut) -> corpus_splits.Splits:
        splits, found = read_examples(flag.input, flag.year, left, corpus_flags.dev_fraction())
        counts.update(found)
        return splits

    corpus_splits.say_counts(corpus_flags.make_files(argv, read), clinical_notes.kinds_of)
    clinical_notes.say(counts)


def define_flags() -> None:
    """Defines the flags of `python -m data_prep.corpora.i2b2_notes`, and returns nothing.

    They are `--input`, `--output`, `--overwrite`, `--dev_fraction` and `--year`.
    """
    corpus_flags.define("The folders of that year, or archives of them", held_out="patients")
    flags.DEFINE_enum("year", None, list(_FILES), "Of the challenge.", required=True)


if __name__ == "__main__":
    cli.run(main, define_flags)
