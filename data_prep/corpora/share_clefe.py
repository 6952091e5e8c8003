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
`notes` for mentions that do not fit.

The release has no split for development. `--dev_documents` takes a list of notes, such as BLUE's;
without it a tenth of them, or `--dev_fraction`, is held out, chosen by hashes of their names.
"""

from __future__ import annotations

import os
import re
from collections import Counter

from absl import flags

from data_prep.corpora import corpus_flags, corpus_splits, notes, released_files
from tfbio.base import cli

NOTES = r"Task1(Train|Test)SetCorpus\d+(\.zip)?/(.*/)?[^/.][^/]*\.txt"
MENTIONS = r"Task1(TrainSetGOLD\w*|Gold_SN2012)(\.zip)?/(.*/)?[^/.][^/]*\.(txt|xml)"

SENTENCE_END = re.compile(r"\n\s*\n|(?<=[a-z)][.?!])\s+(?=[A-Z])")
MASK = re.compile(r"\[\*\*.*?\*\*\]")
BLANKED = re.compile(r"\|{4}|___|~~")


def read_examples(
    source: str | os.PathLike,
    dev_documents: str = "",
    left: corpus_splits.LeftOut | None = None,
    dev_fraction: float = corpus_splits.DEV_FRACTION,
) -> tuple[dict[str, list[tuple[str, ...]]], Counter[str]]:
    """Reads the tagged notes of the release, as lines for each split.

    Args:
      source: the release, a folder of its archives.
      dev_documents: file with the names of notes for development; "": `dev_fraction` of them.
      left: a list that gets `(id, path of its file, reason)` for each of the mentions that are not
        tagged.
      dev_fraction: the share of the notes for training that is for development.

    Returns:
      A pair. First a dict with the keys "train", "dev" and "test"; each value is the list of the
      lines of its notes, as `notes.tagged` makes them: `(word, tag)`, `("-DOCSTART- (NAME)",)` and
      `("",)`. Second the counts of mentions that did not fit, by the sentence that `notes.say`
      prints of them.

    Raises:
      CorpusError: the release cannot be used, or a split has no note.
    """
    counts: Counter[str] = Counter()
    files = {_name(key): file for key, file in released_files.find(source, MENTIONS).items()}
    made: dict[str, dict[str, list[tuple[str, ...]]]] = {"train": {}, "test": {}}
    for key, file in released_files.find(source, NOTES).items():
        split, name = ("train" if key.startswith("Task1Train") else "test"), _name(key)
        if name not in files:
            raise released_files.CorpusError(
                f"{source} does not hold the mentions of {file.path}: give all four archives."
            )
        text = blanked(file.text())
        mentions = read_mentions(files[name], len(text))
        made[split][name] = notes.tagged(name, text, mentions, counts, SENTENCE_END, left=left)
    splits = corpus_splits.with_development(
        made["train"], made["test"], dev_documents, notes.kinds_of, dev_fraction
    )
    return splits, counts


def _name(key: str) -> str:
    """Returns the name of a note: "NOTE" for NOTE.txt and NOTE.txt.knowtator.xml."""
    return key.rpartition("/")[2].partition(".")[0]


def blanked(text: str) -> str:
    """Returns a note's text with marks of de-identification replaced, as long as before.

    `[** ... **]` becomes the word PATTERN; ||||, ___ and ~~ become blanks. Every other character
    stays at its offset.
    """
    text = MASK.sub(lambda match: "PATTERN".rjust(len(match[0]))[-len(match[0]) :], text)
    return BLANKED.sub(lambda match: " " * len(match[0]), text)


def read_mentions(file: released_files.File, length: int) -> list[notes.Mention]:
    """Reads the mentions of a note, in either form (Knowtator's XML, or lines).

    Args:
      file: of the mentions.
      length: of the note, in characters.

    Returns:
      A list of `notes.Mention` with the kind "", in the order of the file.

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
            raise released_files.CorpusError(
                f"{where}: expected one START and END or more, within the note's {length:,} "
                f"characters, found {', '.join(numbers)!r:.100}."
            )
        mentions.append(notes.Mention("", parts))
    return mentions


def _read_lines(file: released_files.File) -> list[tuple[str, list[str]]]:
    lines = enumerate(file.text().split("\n"), start=1)
    return [
        (f"{file.path}, line {number}", line.strip().split("||")[3:])
        for number, line in lines
        if line.strip()
    ]


def _read_knowtator(file: released_files.File) -> list[tuple[str, list[str]]]:
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
    """Runs the command: writes the splits and `left_out.jsonl` to `--output`, and prints counts.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UsageError: the command line has something beside flags, or `--dev_fraction` is not between 0
        and 1 or goes with `--dev_documents`.
      CorpusError: the release cannot be used, or a file exists already or cannot be written.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    left: corpus_splits.LeftOut = []
    splits, counts = read_examples(
        flag.input, flag.dev_documents, left, corpus_flags.dev_fraction()
    )
    corpus_splits.write(flag.output, splits, flag.overwrite, left)
    corpus_splits.say_counts(splits, notes.kinds_of)
    notes.say(counts)


if __name__ == "__main__":
    cli.run(
        main,
        lambda: corpus_flags.define("The four archives", held_out="notes", dev_documents=True),
    )
