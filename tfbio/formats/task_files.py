"""Reads the files of the tasks in their official formats: one function for each format.

Files may be gzip-compressed, begin with a byte-order mark and have Windows line ends. A line that
is not as its format says stops the reading: nothing is mended or left out in silence.

Data of the user's own are in one of these formats, by the type of the task:

- ner: `read_tagged_words`: a word and its tag (O, B-TYPE, I-TYPE; or IOBES's or BILOU's) a line, an
  empty line between sentences;
- classification, relation, regression, pair, multilabel: `read_own_table`: tab-separated columns
  that the first line names (text and label, pair for a second text, id) in any order; without such
  a line they are text and label, for the type pair text, pair and label. The labels of a
  multi-label text stand between bars, `a|b`, and nothing for none; a comma is a part of a label, as
  in MeSH's "Neoplasms, Experimental";
- qa: `read_squad`.

Their labels are those of the training file: `labels_of(train)`.
"""

from __future__ import annotations

import codecs
import dataclasses
import functools
import gzip
import io
import json
import math
import os
import re
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TextIO

from tfbio.base import storage
from tfbio.base.cli import UserError
from tfbio.formats.label_sets import HALLMARKS

HOC_HEADER = ("labels", "sentence", "index")

SPLIT_NAMES = {
    "train": ("train",),
    "dev": ("dev", "devel", "valid", "validation"),
    "test": ("test",),
}
SPLIT_ENDINGS = (".tsv", ".txt", ".json")
# SQuAD's files as they are released: its development set is what the papers report on.
RELEASED_FILES = {
    "train": ["train-v1.1.json", "train-v2.0.json"],
    "dev": [],
    "test": ["dev-v1.1.json", "dev-v2.0.json"],
}

# What a column of the user's own table holds -> what it may be called.
OWN_COLUMNS = {
    "id": ("id", "index"),
    "text": ("text", "sentence", "sentence1"),
    "pair": ("pair", "sentence2"),
    "label": ("label", "labels", "score"),
}

# gzip shrinks text 3 to 10 times, and zeros 1,000 times: what shrinks so far over this length is
# no text.
MAX_RATIO, MIN_BOMB_BYTES = 200, 256_000_000

# The path of what is piped into a command, as messages call it.
STDIN = "(standard input)"

JSON_TYPES = {str: "text", int: "a number", list: "a list", dict: "an object"}

# A file, and the number of a line or what else tells the place in it.
Where = tuple[str, int | str]


class TaskFileError(UserError):
    """A task's file that is missing or not as its format says."""


@dataclasses.dataclass(frozen=True)
class TaggedSentence:
    """The words of a sentence and the tag of each; the number of its first line is its id.

    `document` is what the sentence is a part of, where the file says it.
    """

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    document: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class LabelledText:
    """A text, or a pair of texts, with a class, a score, or all labels that hold.

    `document` is what the text is a part of, where the score is by document (HoC).
    """

    id: str
    text: str
    label: str | float | tuple[str, ...]
    pair: str = ""
    document: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class Question:
    """A question on a context, the accepted answers and the first character of each in it.

    There are no answers where the context holds none (SQuAD v2.0) or where they are to be found (a
    test file). The first character is -1 where it is not known. `question_id` is the question's
    where it has several contexts (BioASQ).
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...]
    answer_starts: tuple[int, ...]
    question_id: str = ""
    where: Where = dataclasses.field(default=("", 0), compare=False, repr=False)


Example = TaggedSentence | LabelledText | Question


def read_tagged_words(
    path: str, types: Sequence[str] | None = None, scheme: Literal["BIO", "IO"] = "BIO"
) -> list[TaggedSentence]:
    """Reads a word and its tag a line, an empty line between sentences (CoNLL, MTL, BLURB).

    Tabs or single blanks separate the columns; the first is the word, the last the tag. Those
    between them are not kept, and of the lines that begin a document its number alone, as BLURB's
    have it (`-DOCSTART- (10070173)`).

    A file with tags S or E is in the scheme IOBES, one with U or L in BILOU; both are given in BIO:
    S and U, the only word of an entity, are B, and E and L, its last, are I.

    Args:
      path: the file.
      types: the types of entities; None for any. A file may leave out the only type of a task, as
        BLURB's do (B, I, O).
      scheme: "BIO", where an entity begins with B, in any of its forms; "IO" for EBM-PICO, which
        has no B.

    Raises:
      TaskFileError: a line is not of this format, or its tag goes on with what did not begin.
    """
    sentences: list[TaggedSentence] = []
    words: list[str] = []
    tags: list[str] = []
    width, document = 0, ""
    lines = _lines(path)
    found = _scheme(lines) if scheme == "BIO" else scheme
    before = "O"
    for number, line in enumerate([*lines, ""], start=1):
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            if words:
                first = number - len(words)
                where = (path, first)
                own = (tuple(words), tuple(tags))
                sentences.append(TaggedSentence(str(first), *own, document, where))
                words, tags, before = [], [], "O"
            if line.startswith("-DOCSTART-"):
                begun = re.fullmatch(r"-DOCSTART- \(?(\d+)\)?", line)
                document = begun[1] if begun else ""
            continue
        cells = line.split("\t" if "\t" in line else " ")
        width = width or max(len(cells), 2)
        if len(cells) != width or not cells[0]:
            raise _mistake(
                (path, number),
                f"expected {width} columns with the word first and its tag last, separated by "
                f"single tabs or blanks, found {line!r:.60}",
            )
        problem = _tag_problem(cells[-1], before, types, found)
        if problem:
            fit = [i for i, x in enumerate(cells[:-1]) if not _tag_problem(x, x, types, found)]
            raise _mistake((path, number), problem + _stands_in("tag", fit))
        before = cells[-1]
        words.append(cells[0])
        tags.append(_IN_BIO[found].get(before[0], before[0]) + before[1:])
    return _some(path, sentences)


# The schemes of tags, with what of each is another tag in BIO.
_IN_BIO = {"BIO": {}, "IO": {}, "IOBES": {"S": "B", "E": "I"}, "BILOU": {"U": "B", "L": "I"}}


def _scheme(lines: Sequence[str]) -> str:
    """The scheme of a file whose entities begin with B, by the last column of its lines."""
    tags = {re.split("[\t ]", line)[-1] for line in lines}
    prefixes = {tag[0] for tag in tags if re.fullmatch("[SEUL](-.+)?", tag)}
    for scheme in ("IOBES", "BILOU"):
        if prefixes and prefixes <= set(scheme):
            return scheme
    return "BIO"


def _tag_problem(tag: str, before: str, types: Sequence[str] | None, scheme: str) -> str:
    """Why a tag cannot stand after the one before it; "" if it can."""
    prefix, _, kind = tag.partition("-")
    if tag == "O":
        return ""
    if prefix == "O" or prefix not in [*scheme] or tag.endswith("-"):
        letters = ", ".join(f"{letter}-TYPE" for letter in sorted(scheme) if letter != "O")
        return f"expected a tag of the scheme {scheme} (O, {letters}), found {tag!r:.60}"
    if types is not None and kind not in types and (kind or len(types) != 1):
        return f"unknown type in the tag {tag!r:.60}; the types are {_listed(types)}"
    begin = f"B{tag[1:]}"
    inside = scheme != "IO" and prefix in ("I", "E", "L")
    if inside and before not in (begin, f"I{tag[1:]}"):
        return f"the tag {tag!r} follows {before!r}: write {begin!r} where an entity begins"
    return ""


def read_table(
    path: str,
    columns: Sequence[str] = ("id", "text", "label"),
    header: Sequence[str] | None = None,
    labels: Collection[str] | None = None,
    score_range: tuple[float, float] = (-math.inf, math.inf),
) -> list[LabelledText]:
    """Reads tab-separated columns.

    Files of BLURB and BLUE are such: ChemProt and DDI (id, text, label, no header), GAD and i2b2
    2010 (header index, sentence, label), BIOSSES (pair_id, sent1, sent2, score), MedNLI (index,
    sentence1, sentence2, label), PubMedQA and BioASQ (id, question, context, label, no header).

    Args:
      path: the file.
      columns: what each column holds: "id" (without one the number of the line is the id), "text",
        "pair" (a second text), "context" (one that may be empty), "document", one of "label",
        "score" (a number) and "labels" (`a|b`), or "".
      header: the names in the first line; None where the first line is an example.
      labels: all labels; None for any.
      score_range: the lowest and the highest score.

    Raises:
      TaskFileError: the header, the number of columns, a text, a label or a score is not so.
    """
    return _labelled(path, _rows(path, len(columns), header), columns, labels, score_range)


def read_own_table(
    path: str, kind: str, labels: Collection[str] | None = None
) -> list[LabelledText]:
    """Reads a table of the user's own, as the beginning of this module describes it.

    Args:
      path: the file.
      kind: "classification", "relation", "regression", "pair" or "multilabel".
      labels: all labels; None for any.

    Raises:
      TaskFileError: the columns are not clear, or a line is not as they say.
    """
    label = {"regression": "score", "multilabel": "labels"}.get(kind, "label")
    wanted = ["text", "pair", "label"] if kind == "pair" else ["text", "label"]
    held_by = {name: held for held, names in OWN_COLUMNS.items() for name in names}
    first = _lines(path)[0].split("\t")
    named = [held_by.get(name.strip().lower(), "") for name in first]
    header = first if any(named) else None
    columns = named if header else wanted
    twice = any(columns.count(held) > 1 for held in OWN_COLUMNS)
    if twice or not set(wanted) <= set(columns) or len(columns) != len(first):
        message = (
            f"expected one column for each of {', '.join(wanted)}, found {', '.join(first)!r:.200}"
        )
        raise _mistake((path, 1), f"{message}: name the columns in the first line")
    roles = [label if held == "label" else held for held in columns]
    examples = read_table(path, roles, header, labels)
    if label != "score" and labels is None and len(examples) >= 10:
        # Labels repeat themselves more than texts do, but for the smallest files.
        values = {held: len({getattr(x, held) for x in examples}) for held in wanted}
        fewest = min(wanted, key=values.__getitem__)
        if values[fewest] < values["label"]:
            guess = _stands_in("label", [columns.index(fewest)])
            raise _mistake((path, 1), f"expected the columns {', '.join(columns)}{guess}")
    return examples


def read_unlabelled_table(path: str) -> list[LabelledText]:
    """Reads texts to be labelled: tab-separated columns that the first line names.

    They are text, perhaps pair and id, by any of their names (`OWN_COLUMNS`) and in any order;
    others are passed over. The labels are "".

    Raises:
      TaskFileError: there is no column of texts, or a text is missing.
    """
    header = _lines(path)[0].split("\t")
    held_by = {name: held for held, names in OWN_COLUMNS.items() for name in names}
    columns = [held_by.get(name.strip().lower(), name) for name in header]
    if columns.count("text") != 1 or columns.count("pair") > 1 or columns.count("id") > 1:
        message = "expected a column text, and at most one pair and id"
        raise _mistake((path, 1), f"{message}: name the columns so, found {header!r:.200}")
    examples = []
    for number, cells in _rows(path, len(columns), header):
        cell = dict(zip(columns, cells, strict=True))
        for name in ("text", "pair"):
            if not cell.get(name, name).strip():
                message = f"expected a {name} in column {columns.index(name) + 1}, found none"
                raise _mistake((path, number), message)
        name, pair = cell.get("id", str(number)), cell.get("pair", "")
        examples.append(LabelledText(name, cell["text"], "", pair, where=(path, number)))
    return _some(path, examples)


def read_clinical_sts(path: str) -> list[LabelledText]:
    """Reads BLUE's MedSTS or ClinicalSTS: a header; the id first, two texts and the score last.

    Raises:
      TaskFileError: the columns are others, or a score is not within 0 and 5.
    """
    header = _lines(path)[0].split("\t")
    if len(header) < 4 or "score" in header[:-1]:
        message = "expected a header with an id first and two sentences and their score last"
        raise _mistake((path, 1), f"{message}, found {', '.join(header)!r:.200}")
    columns = ["id", *[""] * (len(header) - 4), "text", "pair", "score"]
    return read_table(path, columns, header, score_range=(0.0, 5.0))


def read_hoc(path: str, labels: Sequence[str] = HALLMARKS) -> list[LabelledText]:
    """Reads BLURB's or BLUE's HoC: header labels, sentence, index.

    The labels are `0_0,1_1,...`, 1 behind the number of each that holds; the index is `PMID_sN`.

    Raises:
      TaskFileError: a line is not so.
    """
    digits = re.compile(",".join(f"{i}_[01]" for i in range(len(labels))))
    examples = []
    for number, cells in _rows(path, 3, HOC_HEADER):
        flags, text, name = cells
        document, mark, _ = name.rpartition("_s")
        if not digits.fullmatch(flags) or not mark:
            fit = [i for i, cell in enumerate(cells) if i and digits.fullmatch(cell)]
            wanted = f"labels 0_0,1_0 to {len(labels) - 1}_0 (or _1), a sentence and PMID_sN"
            raise _mistake((path, number), f"expected {wanted}{_stands_in('label', fit)}")
        if not text.strip():
            raise _mistake((path, number), "expected a text in column 2, found none")
        held = tuple(x for x, flag in zip(labels, flags.split(","), strict=True) if flag[-1] == "1")
        where = (path, number)
        examples.append(LabelledText(name, text, held, document=document, where=where))
    return _some(path, examples)


def hoc_labels(held: Collection[str]) -> str:
    """Some of the `HALLMARKS` as `read_hoc` reads them, `0_0,1_1,...`."""
    return ",".join(f"{i}_{int(name in held)}" for i, name in enumerate(HALLMARKS))


def read_bioasq_factoid(path: str) -> list[Question]:
    """Reads the factoid questions of a BioASQ file, task B, in the format of its release.

    As BioBERT and BioM have it, each snippet of a question is a context of its own with the id
    `QUESTION_000` and so on, and an answer begins where the context has it first; here as whole
    words, in capitals or not.

    Args:
      path: the file.

    Raises:
      TaskFileError: a question is incomplete, or an id stands twice.
    """
    questions = []
    for name, text, snippets, record, where in _factoids(path):
        # A list of answers, or of lists of synonyms; a test file may have none.
        gold = record.get("exact_answer") or []
        gold = [gold] if isinstance(gold, str) else gold
        answers: list[str] = []
        for answer in _field({"exact_answer": gold}, "exact_answer", where, list):
            answers += _texts(answer if isinstance(answer, list) else [answer], where)
        answers = list(dict.fromkeys(answers))
        patterns = [rf"(?<!\w){re.escape(answer)}(?!\w)" for answer in answers]
        # A question without snippets cannot be answered, but counts.
        for i, context in enumerate(snippets or [""]):
            found = [re.search(pattern, context, re.IGNORECASE) for pattern in patterns]
            starts = tuple(match.start() if match else -1 for match in found)
            context_id = f"{name}_{i:03}"
            questions.append(
                Question(context_id, text, context, tuple(answers), starts, name, where)
            )
    return _some(path, questions)


def _factoids(path: str) -> Iterator[tuple[str, str, list[str], dict, Where]]:
    """(id, question, snippets, all of it, place) of each factoid question."""
    found: dict[str, dict] = {}
    for i, record in enumerate(_field(_json(path), "questions", (path, "the file"), list), 1):
        where = (path, f"question {i} of the file")
        name = _field(record, "id", where, str)
        if name in found:
            raise _mistake(where, f"the id {name!r} stands there twice: give another")
        if record.get("type") == "factoid":
            found[name] = record
    for name, record in found.items():
        where = (path, f"question {name}")
        snippets = [
            _field(snippet, "text", where, str).replace("\n", " ")
            for snippet in _field(record, "snippets", where, list)
        ]
        text = _field(record, "body", where, str).replace("\n", " ")
        yield name, text, snippets, record, where


def read_squad(path: str) -> list[Question]:
    """Reads SQuAD v1.1 or v2.0 JSON, the format also of BioBERT's BioASQ files.

    Raises:
      TaskFileError: a question is incomplete, or an answer does not stand where the file says.
    """
    questions = []
    for i, article in enumerate(_field(_json(path), "data", (path, "the file"), list), 1):
        paragraphs = _field(article, "paragraphs", (path, f"article {i}"), list)
        for j, paragraph in enumerate(paragraphs, 1):
            where = (path, f"article {i}, paragraph {j}")
            context = _field(paragraph, "context", where, str)
            for record in _field(paragraph, "qas", where, list):
                name = _field(record, "id", (path, f"a question of article {i}"), str)
                where = (path, f"question {name}")
                answers = _field({"answers": record.get("answers") or []}, "answers", where, list)
                texts = tuple(_field(answer, "text", where, str) for answer in answers)
                starts = tuple(_field(answer, "answer_start", where, int) for answer in answers)
                for text, start in zip(texts, starts, strict=True):
                    stands = context[start : start + len(text)] if start >= 0 else ""
                    if not text or stands.lower() != text.lower():
                        message = f"expected {text!r} at character {start} of the context"
                        raise _mistake(where, f"{message}, found {stands!r}")
                text = _field(record, "question", where, str)
                questions.append(Question(name, text, context, texts, starts, where=where))
    return _some(path, questions)


def labels_of(examples: Iterable[Example]) -> tuple[str, ...]:
    """The labels in use, sorted: of tags the types ("" where B has none), of scores nothing."""
    return tuple(sorted({label for example in examples for _, label in _labels_in(example)}))


def _labels_in(example: Example) -> Iterator[tuple[int, str]]:
    """(number of the word or 0, label) for each label of an example."""
    if isinstance(example, TaggedSentence):
        tags = enumerate(example.tags)
        yield from ((i, tag.partition("-")[2]) for i, tag in tags if tag != "O")
    elif isinstance(example, LabelledText) and not isinstance(example.label, float):
        labels = (example.label,) if isinstance(example.label, str) else example.label
        yield from ((0, label) for label in labels)


def check_splits(examples: Mapping[str, Sequence[Example]]) -> None:
    """Checks what no single line of a file shows.

    Args:
      examples: split -> its examples.

    Raises:
      TaskFileError: two examples of a split have one id, or "train" lacks a label of another.
    """
    known = labels_of(examples.get("train", ()))
    for split, in_split in examples.items():
        places: dict[str, Where] = {}
        for example in in_split:
            path, place = example.where
            if example.id in places:
                before = _place(places[example.id])
                message = f"the id {example.id!r} stands in {before} already: give another"
                raise _mistake(example.where, message)
            places[example.id] = example.where
            for i, label in _labels_in(example):
                if "train" in examples and label not in known:
                    raise _mistake(
                        (path, place + i if isinstance(place, int) else place),
                        f"the label {label!r} of {split} has no example in train, which has "
                        f"{_listed(known)}: correct it, or add such an example",
                    )


def find_split(data_dir: str, split: str, optional: bool = False) -> str:
    """The file of "train", "dev" or "test" in a folder, under any of the names in use.

    Args:
      data_dir: the folder.
      split: which.
      optional: whether there may be none; it is "" then.

    Raises:
      TaskFileError: there is none, or more than one.
    """
    names = [f"{name}{ending}" for name in SPLIT_NAMES[split] for ending in SPLIT_ENDINGS]
    names += RELEASED_FILES[split]
    paths = [os.path.join(data_dir, name + packed) for name in names for packed in ("", ".gz")]
    found = [path for path in paths if os.path.isfile(path)]
    if len(found) > 1:
        message = f"{data_dir} holds more than one file of the split {split!r}: leave one of"
        raise TaskFileError(f"{message} {', '.join(map(os.path.basename, found))}.")
    if not found and optional:
        return ""
    if not found:
        message = f"{data_dir} holds no file of the split {split!r}: expected one of"
        raise TaskFileError(f"{message} {', '.join(names)} (or one of them with .gz).")
    return found[0]


def hold_out(questions: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    """The questions to train on, and the last tenth or so for development.

    Questions on one context stay together, and so do the contexts of one question.

    Raises:
      TaskFileError: there are too few.
    """

    def group(number: int) -> str:
        return questions[number].question_id or questions[number].context

    cut = len(questions) - len(questions) // 10
    while 0 < cut < len(questions) and group(cut - 1) == group(cut):
        cut -= 1
    if cut in (0, len(questions)):
        path = questions[0].where[0]
        raise TaskFileError(
            f"{path} has too few questions to hold out a tenth for development: add a dev.json."
        )
    return list(questions[:cut]), list(questions[cut:])


def _mistake(where: Where, message: str) -> TaskFileError:
    return TaskFileError(f"{where[0]}, {_place(where)}: {message}.")


def _place(where: Where) -> str:
    return f"line {where[1]}" if isinstance(where[1], int) else where[1]


def _listed(names: Collection[str]) -> str:
    return ", ".join([repr(name) for name in names][:20]) + ", ..." * (len(names) > 20)


def _stands_in(what: str, columns: Sequence[int]) -> str:
    """A guess for the end of a message: in which of the columns, counted from 0, something is."""
    return f" (the {what} seems to stand in column {columns[0] + 1})" if columns else ""


def _some(path: str, found: list) -> list:
    if not found:
        raise _mistake((path, 1), "there is no example in this file: make or fetch it again")
    return found


def read_text(path: str) -> str:
    """A file's text, with its line ends as they are, without a byte-order mark.

    Args:
      path: the file, or `STDIN`.

    Raises:
      TaskFileError: it cannot be read, or is not UTF-8; there is nothing on standard input.
    """
    try:
        if path == STDIN:
            data = _read_stdin(sys.stdin)
        else:
            with open(path, "rb") as file:
                data = file.read()
        if data.startswith(b"\x1f\x8b"):
            most = max(MIN_BOMB_BYTES, MAX_RATIO * len(data))
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(most + 1)
            if len(data) > most:
                raise TaskFileError(
                    f"{path} is compressed too far to be text: it unpacks to more than {most:,} "
                    "bytes; unpack it, and look at what it is."
                )
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except (OSError, EOFError, zlib.error) as error:
        raise TaskFileError(f"{path} cannot be read: {storage.reason(error)}.") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"this is not text in UTF-8 ({error.reason}): save the file as UTF-8"
        raise _mistake((path, line), message) from None


@functools.lru_cache(maxsize=1)  # it can be read once, and the checks read it, too
def _read_stdin(stdin: TextIO | None) -> bytes:
    if stdin is None:
        raise TaskFileError("--input=-: standard input is closed: pipe a text into the command.")
    if stdin.isatty():
        print("Type the input here, and end it with Ctrl-D on an empty line.", file=sys.stderr)
    data = stdin.buffer.read()
    if not data:
        raise TaskFileError("--input=-: standard input is empty: pipe a text into the command.")
    return data


def _lines(path: str) -> list[str]:
    """The lines of a file, without their ends."""
    # Not `splitlines`, which also splits at characters that may stand in a sentence.
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    if not lines[-1]:
        lines.pop()
    return _some(path, lines)


def _rows(
    path: str, width: int, header: Sequence[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """(number of the line, columns) for each line below the header."""
    lines = _lines(path)
    names = ", ".join(header or ())
    if header is not None and lines[0].split("\t") != list(header):
        order = " in this order" if sorted(lines[0].split("\t")) == sorted(header) else ""
        message = f"expected the header {names}{order}, tab-separated, found {lines[0]!r:.200}"
        raise _mistake((path, 1), message)
    for number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if not line.strip():
            raise _mistake((path, number), "the line is empty: take it out")
        if len(cells) != width:
            named = f" ({names})" if names else ""
            message = f"expected {width} tab-separated columns{named}, found {len(cells)}"
            raise _mistake((path, number), message)
        if header is None or number > 1:
            yield number, cells


def _labelled(
    path: str,
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[str],
    labels: Collection[str] | None,
    score_range: tuple[float, float] = (-math.inf, math.inf),
) -> list[LabelledText]:
    """The example of each row."""
    (kind,) = {"label", "score", "labels"}.intersection(columns)
    # Where a label may stand by mistake. Without a list of labels any text may be one.
    others = ["text", "pair"] if labels or kind == "score" else []
    # An id may be a number, as a score is and as the labels of GAD are.
    if labels and not any(label.isdigit() for label in labels):
        others.append("id")
    examples = []
    for number, cells in rows:
        cell = dict(zip(columns, cells, strict=True))
        problem = _label_problem(kind, cell[kind], labels, score_range)
        if problem:
            fit = [
                columns.index(other)
                for other in others
                if other in cell and not _label_problem(kind, cell[other], labels, score_range)
            ]
            raise _mistake((path, number), problem + _stands_in(kind, fit))
        for name in ("text", "pair"):
            if not cell.get(name, name).strip():
                message = f"expected a {name} in column {columns.index(name) + 1}, found none"
                raise _mistake((path, number), message)
        name, text = cell.get("id", str(number)), cell["text"]
        pair = cell.get("pair", cell.get("context", ""))
        label = {"label": str, "score": float, "labels": labels_between_bars}[kind](cell[kind])
        document = cell.get("document", "")
        examples.append(LabelledText(name, text, label, pair, document, where=(path, number)))
    return _some(path, examples)


def labels_between_bars(cell: str) -> tuple[str, ...]:
    """The labels of a multi-label text."""
    return tuple(cell.split("|")) if cell else ()


def _label_problem(
    kind: str, cell: str, labels: Collection[str] | None, score_range: tuple[float, float]
) -> str:
    """Why a cell holds no "label", "score" or "labels"; "" if it does."""
    if kind == "score":
        low, high = score_range
        try:
            score = float(cell)
        except ValueError:
            score = math.nan
        if math.isfinite(score) and low <= score <= high:
            return ""
        return f"expected a number from {low:g} to {high:g}, found {cell!r:.60}"
    names = labels_between_bars(cell) if kind == "labels" else (cell,)
    for name in names:
        if not name or name != name.strip():
            return f"expected a label (with no blank around it), found {name!r:.60}"
        if labels is not None and name not in labels:
            return f"unknown label {name!r:.60}; the labels are {_listed(labels)}"
    return f"a label stands twice in {cell!r:.60}" if len(set(names)) < len(names) else ""


def _json(path: str) -> Any:
    try:
        return json.loads("\n".join(_lines(path)))
    except (ValueError, RecursionError) as error:
        number = getattr(error, "lineno", 1)
        raise _mistake((path, number), f"this is not JSON ({error})") from None


def _field(record: Any, name: str, where: Where, kind: type) -> Any:
    """A value of a JSON object, of one type."""
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        raise _mistake(where, f"expected {JSON_TYPES[kind]} as {name!r}, found {value!r:.60}")
    return value


def _texts(values: list, where: Where) -> list[str]:
    for value in values:
        if not isinstance(value, str):
            raise _mistake(where, f"expected a list of texts, found {value!r:.60} in it")
    return values
