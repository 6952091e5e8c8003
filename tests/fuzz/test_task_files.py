"""The files of the tasks, in each of their formats."""

import gzip
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import reference
from tests.fuzz import damage, grammars, harness, seeds
from tfbio.formats import bioasq_factoid, clinical_sts, hoc, squad, tagged_words
from tfbio.formats.label_sets import labels_of
from tfbio.formats.splits import SPLIT_NAMES, check_splits, find_split, hold_out
from tfbio.formats.tables import read_own_table, read_table, read_unlabelled_table
from tfbio.formats.task_examples import Question, TaggedSentence
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.task_types import token_multilabel
from tfbio.task_types.token_multilabel import LabelledSentence

TAGS = ("O", "B", "I", "B-X", "I-X", "S-X", "E-X", "L-X", "U-X", "B-", "-X", "I-Y", "b-x", "B-X-Y")
TAGGED = "Aspirin\tB-Chemical\nand\tO\nibu\tB-Chemical\nprofen\tI-Chemical\n\nNone\tO\n"
BARE = "Aspirin\tB\nlysin\tI\ninteracts\tO\n.\tO\n\nNone\tO\n"
CONLL = "-DOCSTART- (10070173)\n\nA NN O B-X\nb NN O I-X\n\nc NN O O\n"
LABELLED = "index\tsentence\tlabel\n0\tA sentence.\t1\n1\tAnother one.\t0\n2\tA third.\t0"
OWN = "label\ttext\tid\nyes\tA text.\t7\nno\tAnother.\t8\n"
PAIRS = "text\tpair\tlabel\nOne.\tTwo.\tyes\nThree.\tFour.\tno"
SCORES = "pair_id\tsent1\tsent2\tscore\n1\tOne.\tTwo.\t3.5\n2\tA.\tB.\t0"
LABELS = "text\tlabels\nA text.\ta|b\nAnother.\t\nMore.\ta"
STS = "index\tgenre\tfile\tyear\tsid\ts1\ts2\tscore\n0\tx\ty\tz\tq\tOne.\tTwo.\t4.5"
HOC = "labels\tsentence\tindex\n" + ",".join(f"{i}_{i % 2}" for i in range(10)) + "\tA.\t11_s0"
UNLABELLED = "id\tsentence\tmore\n1\tOne.\tx\n2\tTwo.\ty"
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "T",
            "paragraphs": [
                {
                    "context": "Aspirin and ibuprofen interact.",
                    "qas": [
                        {
                            "id": "q1",
                            "question": "Who?",
                            "answers": [{"text": "Aspirin", "answer_start": 0}],
                        },
                        {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}
FACTOIDS = {
    "questions": [
        {
            "id": "q1",
            "type": "factoid",
            "body": "Who?",
            "snippets": [{"text": "Aspirin\nand ibuprofen."}, {"text": "Nobody."}],
            "exact_answer": [["aspirin", "ASA"], ["ibuprofen"]],
        },
        {"id": "q2", "type": "yesno"},
    ]
}
# Format -> (file, function of the path, seed, what may stand in a cell).
TABLES = {
    "tagged": ("train.tsv", tagged_words.read, TAGGED, TAGS),
    "bare": (
        "train.tsv",
        lambda path: tagged_words.read(path, ["Chemical"]),
        BARE,
        TAGS,
    ),
    "io": (
        "train.tsv",
        lambda path: tagged_words.read(path, None, "IO"),
        "a\tI-X\nb\tO",
        TAGS,
    ),
    "conll": ("train.txt", tagged_words.read, CONLL, TAGS),
    "labelled": (
        "dev.tsv",
        lambda path: read_table(
            path, ("id", "text", "label"), ("index", "sentence", "label"), ("0", "1")
        ),
        LABELLED,
        ("0", "1", "2", "label"),
    ),
    "own": (
        "own.tsv",
        lambda path: read_own_table(path),
        OWN,
        ("text", "label", "id"),
    ),
    "own_pair": (
        "own.tsv",
        lambda path: read_own_table(path, ("text", "pair", "label")),
        PAIRS,
        ("text", "pair"),
    ),
    "own_score": (
        "own.tsv",
        lambda path: read_own_table(path, ("text", "score")),
        "text\tscore\nA.\t1\nB.\t2.5",
        ("score", "1.5", "-inf"),
    ),
    "own_labels": (
        "own.tsv",
        lambda path: read_own_table(path, ("text", "labels")),
        LABELS,
        ("a|a", "|", "b|"),
    ),
    "own_words": (
        "train.txt",
        token_multilabel.read_sentences,
        "A\tx|y\nb\tO\n\nc\ty\n",
        ("O", "|", "x|x", "x|O", "\t"),
    ),
    "unlabelled": ("new.tsv", read_unlabelled_table, UNLABELLED, ("text", "id", "pair")),
    "scores": (
        "test.tsv",
        lambda path: read_table(
            path,
            ("id", "text", "pair", "score"),
            ("pair_id", "sent1", "sent2", "score"),
            None,
            (0, 4),
        ),
        SCORES,
        ("4.1", "-0", "1e999"),
    ),
    "clinical_sts": ("test.tsv", clinical_sts.read, STS, ("score", "5.1")),
    "hoc": ("train.tsv", hoc.read, HOC, ("0_1", "12_s", "_s0")),
}
JSON = {
    "squad": ("train.json", squad.read, SQUAD),
    "factoids": ("train.json", bioasq_factoid.read, FACTOIDS),
}
READERS = {kind: entry[:2] for kind, entry in (TABLES | JSON).items()}


def reads(folder):
    """A file is read into examples, or refused; the folder in it is named after its format."""
    (inner,) = folder.iterdir()
    name, read = READERS[inner.name]
    examples = read(str(inner / name))
    assert examples
    for example in examples:
        _is_sound(example)
    try:
        check_splits({"train": examples})
    except TaskFileError as error:
        assert "stands in" in str(error)
    return examples


def _is_sound(example):
    if isinstance(example, LabelledSentence):
        assert len(example.words) == len(example.tags) > 0 and all(example.words)
        labels = [label for _, label in example.numbered_labels()]
        assert all(label and label != "O" and "|" not in label for label in labels), example.tags
    elif isinstance(example, TaggedSentence):
        assert len(example.words) == len(example.tags) > 0 and all(example.words)
        assert all(re.fullmatch("O|[BI](-.+)?", tag) for tag in example.tags), example.tags
    elif isinstance(example, Question):
        for answer, start in zip(example.answers, example.answer_starts, strict=True):
            stands = example.context[start : start + len(answer)]
            assert start == -1 or stands.lower() == answer.lower()
    else:
        assert example.text.strip()
        assert not isinstance(example.label, float) or abs(example.label) < float("inf")


def keeps_lines(folder):
    """As many words are read as the file has lines with one, and none is moved."""
    examples = reads(folder)
    (path,) = folder.glob("*/*")
    lines = [x for x in path.read_text().split("\n") if x.strip(" \t") and not x.startswith("-DOC")]
    words = [word for example in examples for word in example.words]
    assert words == [re.split("[\t ]", line)[0] for line in lines]


def reads_schemes(folder):
    """A file with S and E, or with U and L, is read as the same in BIO."""
    bio = tagged_words.read(str(folder / "bio.tsv"))
    try:
        other = tagged_words.read(str(folder / "other.tsv"))
    except TaskFileError as error:
        raise AssertionError("a scheme is refused") from error
    assert [(x.words, x.tags) for x in bio] == [(x.words, x.tags) for x in other]


def of_tables():
    """(format, file) for each of the tables."""
    return st.sampled_from(sorted(TABLES)).flatmap(
        lambda kind: st.tuples(
            st.just(kind),
            grammars.lines(TABLES[kind][2], TABLES[kind][3], " " if kind == "conll" else "\t"),
        )
    )


def of_json():
    return st.sampled_from(sorted(JSON)).flatmap(
        lambda kind: st.tuples(st.just(kind), grammars.json_files(JSON[kind][2]))
    )


def real():
    """(format, file) of lines of the corpora that are at hand."""
    result = [
        ("tagged", "ncbi_disease/mtl_iob/test.tsv", 60),
        ("bare", "bc5cdr_chem/blurb/test.tsv.gz", 60),
        ("hoc", "hoc/blurb/test.tsv.gz", 5),
        ("labelled", "gad/blurb/test.tsv", 5),
    ]
    seeded = [(kind, seeds.text_of(x, lines)) for kind, x, lines in result if reference.has(x)]
    return [(kind, TABLES[kind][2]) for kind in TABLES] + seeded


@given(of_tables())
def test_mutated_tables(result):
    kind, data = result
    harness.judge(reads, {f"{kind}/{READERS[kind][0]}": data})


@given(of_json())
def test_mutated_json(result):
    kind, data = result
    harness.judge(reads, {f"{kind}/{READERS[kind][0]}": data})


@given(st.data())
def test_damaged_files(data):
    kind, seed = data.draw(st.sampled_from(real()))
    damaged = data.draw(damage.damaged(st.just(seed.encode())))
    harness.judge(reads, {f"{kind}/{READERS[kind][0]}": damaged})


@pytest.mark.parametrize("kind", ["tagged", "own", "squad"])
def test_bombs(kind):
    harness.judge(reads, {f"{kind}/{READERS[kind][0]}": damage.bomb()})


@st.composite
def tagged(draw):
    """Sentences of words and tags in BIO."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        before = "O"
        for _ in range(draw(st.integers(1, 6))):
            kinds = ["O", "B-X", "B-Y"] + [f"I{before[1:]}"] * 2 * (before != "O")
            before = draw(st.sampled_from(kinds))
            lines.append(f"{draw(st.text('abc.,-', min_size=1, max_size=4))}\t{before}")
        lines.append("")
    return lines


@given(tagged())
def test_words(lines):
    harness.judge(keeps_lines, {"tagged/train.tsv": "\n".join(lines).encode()})


@given(tagged(), st.sampled_from(["SE", "UL"]))
def test_other_schemes(lines, letters):
    other = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        word, _, tag = line.partition("\t")
        ends = tag[:1] in ("B", "I") and not after.endswith(f"\tI{tag[1:]}")
        if ends:
            tag = letters[tag[0] == "I"] + tag[1:]
        other.append(f"{word}\t{tag}" if line else "")
    files = {"bio.tsv": "\n".join(lines).encode(), "other.tsv": "\n".join(other).encode()}
    harness.judge(reads_schemes, files)


def of_words():
    """(format, file) in which one word is another of the file, or what may stand in a cell."""
    seeds_of = {kind: entry[2] for kind, entry in TABLES.items()}
    seeds_of |= {kind: json.dumps(entry[2]) for kind, entry in JSON.items()}
    cells = ("", " ", "b|b", "1e999", "pair", "q1", "q3", "900", "-1", "S-X", "unknown")
    return st.sampled_from(sorted(seeds_of)).flatmap(
        lambda kind: st.tuples(st.just(kind), grammars.words_changed(seeds_of[kind], cells))
    )


@given(of_words())
def test_other_words(result):
    kind, data = result
    harness.judge(reads, {f"{kind}/{READERS[kind][0]}": data})


def reads_splits(folder):
    """The files of a folder are found under their names, and go together; or are refused."""
    paths = {x: find_split(str(folder), x, x == "dev") for x in SPLIT_NAMES}
    label = (folder / "kind").read_text()
    examples = {x: read_own_table(path, ("text", label)) for x, path in paths.items() if path}
    check_splits(examples)
    known = set(labels_of(examples["train"]))
    assert all(known >= set(labels_of(result)) for result in examples.values())


@st.composite
def folders(draw):
    """Three tables, some with columns exchanged, ids twice, or labels that training lacks."""
    header = draw(st.sampled_from(["text\tlabel", "label\ttext", "text\tlabel\tid", ""]))
    files = {}
    for split in ("train", "dev", "test"):
        rows = []
        for number in range(draw(st.sampled_from([1, 2, 12]))):
            cell = {"text": f"A text {number}", "id": str(number)}
            cell["label"] = draw(st.sampled_from(["yes", "no", "no", "yes", "maybe", "a|b", " "]))
            if draw(st.integers(0, 9)) == 0:
                cell["id"], cell["text"] = "0", ""
            rows.append("\t".join(cell[x] for x in (header or "text\tlabel").split("\t")))
        text = "\n".join([header, *rows] if header else rows) + "\n"
        name = draw(st.sampled_from(SPLIT_NAMES[split]))
        for ending in draw(st.lists(st.sampled_from([".tsv", ".txt", ".tsv.gz"]), max_size=2)):
            data = text.encode()
            files[name + ending] = gzip.compress(data) if ending.endswith("gz") else data
    return files | {"kind": draw(st.sampled_from([b"label", b"labels"]))}


@given(folders())
def test_splits(files):
    harness.judge(reads_splits, files)


def holds_out(folder):
    """The questions for development are the last, and on no context that training has."""
    (path,) = folder.glob("*.json")
    questions = squad.read(str(path))
    train, dev = hold_out(questions)
    assert train + dev == questions and train and dev
    assert not {x.context for x in train} & {x.context for x in dev}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
@harness.few
def test_held_out_questions(contexts):
    questions = []
    for number, context in enumerate(sorted(contexts)):
        asked = {"id": f"q{number}", "question": "Who?", "answers": []}
        questions.append({"context": f"context {context}", "qas": [asked]})
    data = json.dumps({"data": [{"paragraphs": questions}]}).encode()
    harness.judge(holds_out, {"train.json": data})


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
