"""Makes files like BLUE's of i2b2/VA 2010: relations between concepts of notes, or the concepts.

    python -m data_prep.corpora.i2b2_2010 --input=i2b2-2010 --output=out/i2b2_2010_re
    python -m data_prep.corpora.i2b2_2010 --input=i2b2-2010 --output=out/i2b2_2010_ner --concepts

Reads the release for registered users of <https://portal.dbmi.hms.harvard.edu>, in one folder:
concept_assertion_relation_training_data.tar.gz, reference_standard_for_test_data.tar.gz and
test_data.tar.gz. A line of a note is a sentence, its words stand between blanks.

Relations, below the header `index, sentence, label` (BLUE's create_i2b2_bert.py): each two concepts
of a line are an example, as `@problem$`, `@test$` and `@treatment$` (both in one, such as
`@problem-test$`, where they overlap), or with `--entities=marker` between markers; with their
relation or `false`. Two concepts with several relations have a row for each. Concepts: words and
their tags, see `clinical_notes`.

The relations differ from BLUE's own files on purpose. Its `replace_text` exchanges the offsets of
two concepts whose first one stands later in the line, but not their types: "@test$ shows @problem$"
for a line in which the problem stands first. Here each concept has its type. BLUE's rows of two
concepts with several relations share an id; here the second has ".1" behind it, and so on.

The release has no split for development. `--dev_documents` takes BLUE's list, dev-docids.txt, of
which BLUE's own script found one note only, with 11 relations; without it a tenth of the notes, or
`--dev_fraction` of them, is held out, chosen by hashes of their names.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from absl import flags

from data_prep.corpora import (
    clinical_notes,
    corpus_flags,
    corpus_splits,
    relation_entities,
    released_files,
)
from data_prep.corpora.released_files import CorpusError, File
from tfbio.base import cli, errors
from tfbio.formats import label_sets

_HEADER = ("index", "sentence", "label")
_RELATIONS = ("PIP", "TeCP", "TeRP", "TrAP", "TrCP", "TrIP", "TrNAP", "TrWP")
_NEGATIVE = "false"

_FILES = (
    r"(concept_assertion_relation_training_data/\w+|reference_standard_for_test_data|test_data)/"
    r"((txt|concepts?|rel)/)?[^/.][^/]*\.(txt|con|rel)"
)
_WORD = re.compile(r"\S+")
_PLACE = r'c="(.*?)" ([0-9]{1,9}):([0-9]{1,9}) ([0-9]{1,9}):([0-9]{1,9})'
_CONCEPT = re.compile(rf'{_PLACE}\|\|t="(\w+)"')
_RELATION = re.compile(rf'{_PLACE}\|\|r="(\w+)"\|\|{_PLACE}')

_Span = tuple[int, int]


class _Concept(NamedTuple):
    """A concept of a note of i2b2/VA 2010.

    Attributes:
      id: "l" and the number of its line in the .con file, from 0.
      kind: "problem", "test" or "treatment".
      start: the offset of its first character in the note.
      end: the offset of the character behind its last.
      line: the number of the line in the note where it begins, from 0.
    """

    id: str
    kind: str
    start: int
    end: int
    line: int


class _Note:
    """The text of a note of i2b2/VA 2010, the places of its words, and its concepts.

    Args:
      files: the note's files, by "txt", "con" and perhaps "rel".

    Attributes:
      text: the text of the note.
      line_starts: a list with the offset of the first character of each line.
      concepts: a list of its `_Concept`, in the order of the .con file.

    Raises:
      CorpusError: a line of the concepts cannot be read, or does not suit the text.
    """

    def __init__(self, files: Mapping[str, File]):
        self.text = files["txt"].text()
        self.line_starts, self._words = [], []
        start = 0
        for line in self.text.split("\n"):
            words = [match.span() for match in _WORD.finditer(line)]
            if line[:1].isspace():
                words.insert(0, (0, 0))  # in the annotations, too, an empty word stands before it
            self.line_starts.append(start)
            self._words.append([(start + a, start + b) for a, b in words])
            start += len(line) + 1
        self.concepts = []
        for number, match in _matches(files["con"], _CONCEPT):
            if match[6] not in label_sets.I2B2_CONCEPTS:
                raise CorpusError(
                    f"{files['con'].path}, line {number}: unknown kind {match[6]!r}; the kinds are "
                    f"{', '.join(label_sets.I2B2_CONCEPTS)}."
                )
            place = self._find(files["con"], number, match.groups()[:5])
            self.concepts.append(_Concept(f"l{number - 1}", match[6], *place, int(match[2]) - 1))

    def relations(self, file: File) -> dict[tuple[str, str], list[str]]:
        """Reads the relations between concepts.

        Args:
          file: the file of the relations.

        Returns:
          A dict: for each two concepts with a relation, by their ids `(first, second)` in the order
          of the file of concepts, the list of its labels, each one of `_RELATIONS`, such as "TrAP".

        Raises:
          CorpusError: a line cannot be read, or names no two concepts.
        """
        ids: dict[_Span, str] = {}
        for concept in self.concepts:
            ids.setdefault((concept.start, concept.end), concept.id)
        order = {concept.id: place for place, concept in enumerate(self.concepts)}
        labels = defaultdict(list)
        for number, match in _matches(file, _RELATION):
            spans = [self._find(file, number, match.groups()[i : i + 5]) for i in (0, 6)]
            if match[6] not in _RELATIONS or any(span not in ids for span in spans):
                raise CorpusError(
                    f"{file.path}, line {number}: expected a relation of {', '.join(_RELATIONS)} "
                    "between two concepts of the note's .con file."
                )
            first, second = sorted((ids[span] for span in spans), key=order.__getitem__)
            labels[first, second].append(match[6])
        return labels

    def _find(self, file: File, number: int, place: Iterable[str]) -> _Span:
        """Returns the character range of annotated text, from its lines from 1 and words from 0."""
        said, *numbers = place
        line, word, end_line, end_word = map(int, numbers)
        try:
            if min(line, end_line) < 1:
                raise IndexError
            span = self._words[line - 1][word][0], self._words[end_line - 1][end_word][1]
        except IndexError:
            span = 0, 0
        stands = self.text[slice(*span)]
        if not stands or _plain(stands) != _plain(said):
            raise CorpusError(
                f"{file.path}, line {number}: expected {said!r} at {line}:{word} of the note, "
                f"found {stands!r}."
            )
        return span


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _matches(file: File, pattern: re.Pattern[str]) -> list[tuple[int, re.Match[str]]]:
    """Matches each line that is not blank; returns the lines' numbers and matches."""
    matches = []
    for number, line in enumerate(file.text().split("\n"), start=1):
        if line.strip():
            match = pattern.fullmatch(line.strip())
            if not match:
                example = 'c="fever" 12:3 12:5||t="problem"'
                if pattern is _RELATION:
                    example = 'c="inventol" 12:0 12:0||r="TrAP"||c="fever" 12:3 12:5'
                raise CorpusError(f"{file.path}, line {number}: expected a line such as {example}.")
            matches.append((number, match))
    return matches


def read_examples(
    source: str | os.PathLike,
    left: corpus_splits.LeftOut,
    dev_documents: str = "",
    concepts: bool = False,
    entities: str = "dummy",
    dev_fraction: float = corpus_splits.DEV_FRACTION,
) -> tuple[dict[str, list[tuple[str, ...]]], Counter[str]]:
    """Reads the relations or concepts of i2b2/VA 2010's release, as the rows of the splits.

    Args:
      source: the release: the path of the folder of its archives.
      left: a list that gets `(id, path of its file, "not_of_one_line")` for each relation, and
        `(id, name of its note, "no_word" or "overwritten")` for each concept, that is in no
        example; all str.
      dev_documents: the path of a file with the names of notes for development; "": `dev_fraction`
        of the notes.
      concepts: True: read the concepts, not the relations.
      entities: "dummy" for `@problem$` and the like, "marker" for markers about the two.
      dev_fraction: the share of the notes for training that is for development.

    Returns:
      A pair. First a dict with the keys "train", "dev" and "test"; each value is a list of rows,
      tuples of str: the header `("index", "sentence", "label")` and `(index, sentence, label)`,
      where the label is "PIP", "TeCP", "TeRP", "TrAP", "TrCP", "TrIP", "TrNAP", "TrWP" or "false";
      or with `concepts` the lines of tagged notes as `clinical_notes.tagged` makes them, such as
      `(word, "B-problem")`. Second a counter for `clinical_notes.say` of the concepts that do not
      fit; empty without `concepts`.

    Raises:
      CorpusError: the release cannot be read or lacks a file of a note; a line has another form or
        does not suit the note; `dev_documents` cannot be read or names a note that is not for
        training; or a split has no note.
    """
    documents: dict[str, dict[str, dict[str, File]]] = {"train": {}, "test": {}}
    for key, file in released_files.find(source, _FILES).items():
        split = "train" if key.startswith("concept_assertion") else "test"
        name, _, kind = key.rpartition("/")[2].rpartition(".")
        files = documents[split].setdefault(name, {})
        if files.setdefault(kind, file).data != file.data:
            raise CorpusError(f"{files[kind].path} and {file.path} differ: give one.")
    counts: Counter[str] = Counter()
    made: dict[str, dict[str, list[tuple[str, ...]]]] = {}
    for split, by_name in documents.items():
        made[split] = {}
        for name, files in sorted(by_name.items()):
            missing = {"txt", "con", "con" if concepts else "rel"} - files.keys()
            if missing:
                path = next(iter(files.values())).path
                raise CorpusError(
                    f"{source} holds no {name}.{min(missing)} beside {path}: give all archives."
                )
            note = _Note(files)
            if concepts:
                mentions = [
                    clinical_notes.Mention(x.kind, ((x.start, x.end),)) for x in note.concepts
                ]
                rows = clinical_notes.tagged(name, note.text, mentions, counts, left, word=_WORD)
            else:
                labels = note.relations(files["rel"])
                rows = _pairs(name, note, labels, entities)
                left += [
                    (f"{name}.{one}.{other}", files["rel"].path, "not_of_one_line")
                    for (one, other), remaining in labels.items()
                    for _ in remaining
                ]
            made[split][name] = rows
    labels_of = clinical_notes.kinds_of if concepts else lambda row: row[-1:]
    splits = corpus_splits.with_development(
        made["train"], made["test"], dev_documents, labels_of, dev_fraction
    )
    if not concepts:
        splits = {split: [_HEADER, *rows] for split, rows in splits.items()}
    return splits, counts


def _pairs(
    name: str,
    note: _Note,
    labels: dict[tuple[str, str], list[str]],
    entities: str = "dummy",
) -> list[tuple[str, ...]]:
    """Makes the examples of a note, of each two concepts of a line.

    Args:
      name: the name of the note.
      note: the note.
      labels: the labels of each two concepts, from `_Note.relations`; changed in place: those of
        examples are removed.
      entities: "dummy" for `@problem$` and the like, "marker" for markers about the two.

    Returns:
      A list of rows `(NAME.first.second, sentence, label)`, all str; the label is "false" without a
      relation. Further relations of the two add ".1" and so on to the first column.
    """
    rows: list[tuple[str, ...]] = []
    for one, other in itertools.combinations(note.concepts, 2):
        if one.line != other.line:
            continue
        start = note.line_starts[one.line]
        end = note.text.find("\n", max(one.end, other.end))
        first, second = (
            (x.start - start, x.end - start, f"@{x.kind}$")
            for x in sorted((one, other), key=lambda x: x.start)
        )
        masked = relation_entities.mask(
            note.text[start : end if end >= 0 else None],
            first,
            second,
            f"@{one.kind}-{other.kind}$",
            entities,
        )
        index = f"{name}.{one.id}.{other.id}"
        for number, label in enumerate(labels.pop((one.id, other.id), [_NEGATIVE])):
            rows.append((f"{index}.{number}" if number else index, masked, label))
    return rows


def main(argv: list[str]) -> None:
    """Runs `python -m data_prep.corpora.i2b2_2010`, which makes files of i2b2/VA 2010.

    Prints how many examples have each label, and with `--concepts` how many concepts do not fit.
    Returns nothing.

    Args:
      argv: the program's name; anything else is an error.

    Raises:
      UsageError: `--entities` goes with `--concepts`.
      UserError: see `corpus_flags`: `make_files` and `dev_fraction`; and `read_examples`.
    """
    flag = flags.FLAGS
    counts: Counter[str] = Counter()

    def read(left: corpus_splits.LeftOut) -> corpus_splits.Splits:
        if flag.concepts and flag.entities != "dummy":
            raise errors.UsageError("--entities does not go with --concepts: it is for relations.")
        fraction = corpus_flags.dev_fraction()
        splits, found = read_examples(
            flag.input, left, flag.dev_documents, flag.concepts, flag.entities, fraction
        )
        counts.update(found)
        return splits

    splits = corpus_flags.make_files(argv, read)
    if flag.concepts:
        corpus_splits.say_counts(splits, clinical_notes.kinds_of)
        clinical_notes.say(counts)
        return
    corpus_splits.say_counts({split: rows[1:] for split, rows in splits.items()})


def define_flags() -> None:
    """Defines the flags of `python -m data_prep.corpora.i2b2_2010`, and returns nothing.

    They are `--input`, `--output`, `--overwrite`, `--dev_fraction`, `--dev_documents`, `--entities`
    and `--concepts`.
    """
    corpus_flags.define("The three archives", held_out="notes", dev_documents=True)
    corpus_flags.define_entities()
    flags.DEFINE_bool("concepts", False, "Write the concepts, not the relations between them.")


if __name__ == "__main__":
    cli.run(main, define_flags)
