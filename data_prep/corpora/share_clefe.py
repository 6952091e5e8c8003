"""Makes BLUE's files of ShARe/CLEF eHealth 2013, task 1: disorders in clinical notes.

    python -m data_prep.corpora.share_clefe --input=shareclefehealth2013 --output=out/share_clefe

Reads the archives that credentialed users get from
<https://physionet.org/content/shareclefehealth2013/>: Task1TrainSetCorpus199.zip,
Task1TrainSetGOLD199knowtatorehost.zip (Knowtator's XML), Task1TestSetCorpus100.zip and
Task1Gold_SN2012.zip (a line `NOTE.txt||KIND||CUI||START||END` for each mention; one in parts has
more than one START||END).

As in BLUE's create_clefe_bert.py, the marks of de-identification, [** ... **], become the word
PATTERN; ||||, ___ and ~~ become blanks; no other character moves. Sentences here end at an empty
line, or at a mark behind a small letter or bracket and before a capital; BLUE's are spaCy's. See
`clinical_notes` for mentions that do not fit.

The release has no split for development. `--dev_documents` takes a list of notes, such as BLUE's;
without it a tenth of them, or `--dev_fraction`, is held out, chosen by hashes of their names.
"""

from __future__ import annotations

import os
import re
from collections import Counter

from absl import flags

from data_prep.corpora import clinical_notes, corpus_flags, corpus_splits, released_files
from data_prep.corpora.released_files import CorpusError, File
from tfbio.base import cli

_NOTES = r"Task1(Train|Test)SetCorpus\d+(\.zip)?/(.*/)?[^/.][^/]*\.txt"
_MENTIONS = r"Task1(TrainSetGOLD\w*|Gold_SN2012)(\.zip)?/(.*/)?[^/.][^/]*\.(txt|xml)"

_SENTENCE_END = re.compile(r"\n\s*\n|(?<=[a-z)][.?!])\s+(?=[A-Z])")
_MASK = re.compile(r"\[\*\*.*?\*\*\]")
_BLANKED = re.compile(r"\|{4}|___|~~")


def read_examples(
    source: str | os.PathLike,
    left: corpus_splits.LeftOut,
    dev_documents: str = "",
    dev_fraction: float = corpus_splits.DEV_FRACTION,
) -> tuple[dict[str, list[tuple[str, ...]]], Counter[str]]:
    """Reads the tagged notes of ShARe/CLEF 2013's release, as the lines of the splits.

    Args:
      source: the release: the path of the folder of its archives.
      left: a list that gets `(NAME.START-END, NAME, "no_word" or "overwritten")`, all str, for each
        mention that is not tagged.
      dev_documents: the path of a file with the names of notes for development; "": `dev_fraction`
        of the notes.
      dev_fraction: the share of the notes for training that is for development.

    Returns:
      A pair. First a dict with the keys "train", "dev" and "test"; each value is the list of the
      lines of its notes, tuples of str as `clinical_notes.tagged` makes them:
      `("-DOCSTART- (NAME)",)`, `("",)` and `(word, tag)`, where the tag is "B", "I" or "O". Second
      a counter for `clinical_notes.say` of the mentions that do not fit.

    Raises:
      CorpusError: the release cannot be read or lacks the mentions of a note, a mention has no
        offsets within its note, `dev_documents` cannot be read or names a note that is not for
        training, or a split has no note.
    """
    counts: Counter[str] = Counter()
    files = {_name(key): file for key, file in released_files.find(source, _MENTIONS).items()}
    made: dict[str, dict[str, list[tuple[str, ...]]]] = {"train": {}, "test": {}}
    for key, file in released_files.find(source, _NOTES).items():
        split, name = ("train" if key.startswith("Task1Train") else "test"), _name(key)
        if name not in files:
            raise CorpusError(
                f"{source} does not hold the mentions of {file.path}: give all four archives."
            )
        text = blanked(file.text())
        mentions = _read_mentions(files[name], len(text))
        made[split][name] = clinical_notes.tagged(name, text, mentions, counts, left, _SENTENCE_END)
    splits = corpus_splits.with_development(
        made["train"], made["test"], dev_documents, clinical_notes.kinds_of, dev_fraction
    )
    return splits, counts


def _name(key: str) -> str:
    """Returns the name of a note: "NOTE" for NOTE.txt and NOTE.txt.knowtator.xml."""
    return key.rpartition("/")[2].partition(".")[0]


def blanked(text: str) -> str:
    """Replaces the marks of de-identification in a note of ShARe/CLEF, and keeps all offsets.

    `[** ... **]` becomes the word PATTERN; ||||, ___ and ~~ become blanks. Every other character
    stays at its offset.

    Args:
      text: the text of the note.

    Returns:
      The text, which is as long as before.
    """
    text = _MASK.sub(lambda match: "PATTERN".rjust(len(match[0]))[-len(match[0]) :], text)
    return _BLANKED.sub(lambda match: " " * len(match[0]), text)


def _read_mentions(file: File, length: int) -> list[clinical_notes.Mention]:
    """Reads the mentions of a note, in either form (Knowtator's XML, or lines).

    Args:
      file: the file of the mentions.
      length: the length of the note, in characters.

    Returns:
      A list of `clinical_notes.Mention` with the kind "", in the order of the file.

    Raises:
      CorpusError: a mention has no offsets, or they are beyond the note.
    """
    read = _read_knowtator if file.path.endswith(".xml") else _read_lines
    mentions = []
    for where, numbers in read(file):
        ends = [released_files.offset(number) for number in numbers]
        parts = tuple(zip(ends[::2], ends[1::2], strict=False))
        whole = parts and len(ends) % 2 == 0
        if not whole or any(not 0 <= start < end <= length for start, end in parts):
            raise CorpusError(
                f"{where}: expected one START and END or more, within the note's {length:,} "
                f"characters, found {', '.join(numbers)!r:.100}."
            )
        mentions.append(clinical_notes.Mention("", parts))
    return mentions


def _read_lines(file: File) -> list[tuple[str, list[str]]]:
    lines = enumerate(file.text().split("\n"), start=1)
    return [
        (f"{file.path}, line {number}", line.strip().split("||")[3:])
        for number, line in lines
        if line.strip()
    ]


def _read_knowtator(file: File) -> list[tuple[str, list[str]]]:
    root = file.xml()
    return [
        (
            f"{file.path}, line {annotation.sourceline}",
            [
                span.get(name, "")
                for span in annotation.iterfind("span")
                for name in ("start", "end")
            ],
        )
        for annotation in root.iterfind("annotation")
    ]


def main(argv: list[str]) -> None:
    """Runs `python -m data_prep.corpora.share_clefe`, which makes BLUE's files of ShARe/CLEF.

    Prints how many mentions there are and how many do not fit.
    Returns nothing.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UserError: see `corpus_flags`: `make_files` and `dev_fraction`; and `read_examples`.
    """
    flag = flags.FLAGS
    counts: Counter[str] = Counter()

    def read(left: corpus_splits.LeftOut) -> corpus_splits.Splits:
        splits, found = read_examples(
            flag.input, left, flag.dev_documents, corpus_flags.dev_fraction()
        )
        counts.update(found)
        return splits

    corpus_splits.say_counts(corpus_flags.make_files(argv, read), clinical_notes.kinds_of)
    clinical_notes.say(counts)


def define_flags() -> None:
    """Defines the command line's flags."""
    corpus_flags.define("The four archives", held_out="notes", dev_documents=True)


if __name__ == "__main__":
    cli.run(main, define_flags)
