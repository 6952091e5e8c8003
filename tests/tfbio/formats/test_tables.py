"""The readers of tables: the published corpora, and data of the user's own."""

import re

import pytest

from tests import reference
from tests.tfbio.formats.published_corpora import BIOSSES, GAD, INSTANCES, each, raw
from tfbio.formats.tables import read_own_table, read_table, read_unlabelled_table
from tfbio.formats.task_examples import LabelledText
from tfbio.formats.task_file_errors import TaskFileError

TABLES = {
    "chemprot": {},
    "ddi2013": {},
    "gad": {"header": GAD, "labels": ("0", "1")},
    "biosses": {
        "columns": ("id", "text", "pair", "score"),
        "header": BIOSSES,
        "score_range": (0, 4),
    },
}


@pytest.mark.parametrize("name, count", each(INSTANCES))
def test_tables_are_as_published_and_given_back(name, count):
    path = reference.corpus(name)
    settings = TABLES[name.partition("/")[0]]
    examples = read_table(str(path), **settings)
    header = ["\t".join(settings["header"])] if "header" in settings else []
    assert len(examples) == count == raw(path).count("\n") - len(header)
    lines = ["\t".join(x for x in (e.id, e.text, e.pair, str(e.label)) if x) for e in examples]
    assert "\n".join(header + lines) + "\n" == raw(path)


def test_sentence_roles_have_the_label_before_the_text(write):
    path = write("id\tlabel\tsentence\n1\tmethods\tWe did.\n")
    columns = ("id", "label", "text")
    (example,) = read_table(path, columns, ("id", "label", "sentence"), ("methods",))
    assert example == LabelledText("1", "We did.", "methods")


@pytest.mark.parametrize(
    "columns, content, expected",
    [
        (
            ("text", "label"),
            "A b.\tyes\nC.\tno\n",
            [("1", "A b.", "yes", ""), ("2", "C.", "no", "")],
        ),
        (("text", "label"), "Label\tID\tText\nyes\tx\tA b.\n", [("x", "A b.", "yes", "")]),
        (("text", "label"), "text\tcomment\tlabel\tpair\nA\t?\tyes\tB\n", [("2", "A", "yes", "B")]),
        (("text", "pair", "label"), "A b.\tC.\tno\n", [("1", "A b.", "no", "C.")]),
        (
            ("text", "pair", "label"),
            "sentence2\tsentence1\tlabel\nC.\tA b.\tno\n",
            [("2", "A b.", "no", "C.")],
        ),
        (
            ("text", "score"),
            "A b.\t-1.5\nC.\t2e1\n",
            [("1", "A b.", -1.5, ""), ("2", "C.", 20.0, "")],
        ),
        (("text", "score"), "text\tpair\tscore\nA\tB\t3\n", [("2", "A", 3.0, "B")]),
        (
            ("text", "labels"),
            "A\tx|y, z\nB\t\n",
            [("1", "A", ("x", "y, z"), ""), ("2", "B", (), "")],
        ),
    ],
)
def test_own_tables(write, columns, content, expected):
    read = read_own_table(write(content), columns)
    assert [(x.id, x.text, x.label, x.pair) for x in read] == expected


def test_a_first_line_that_names_sets_of_labels_is_believed(write):
    """Sets of labels, as MeSH has them, hardly repeat themselves; some titles do."""
    rows = [f"Title {n}.\tx{n}|y{n}" for n in range(10)] + ["Reply.\ta|b", "Reply.\tc|d"]
    read = read_own_table(write("\n".join(["text\tlabel", *rows])), ("text", "labels"))
    assert len(read) == 12 and read[-1].label == ("c", "d")
    with pytest.raises(TaskFileError, match="the label seems to stand in column 1"):
        read_own_table(write("\n".join(rows)), ("text", "labels"))


def test_a_table_of_texts_without_labels(tmp_path):
    path = tmp_path / "new.tsv"
    path.write_bytes(b"\xef\xbb\xbfnote\tSentence\tindex\r\n\tA caf\xc3\xa9.\tx\r\nn\tB\ty\r\n")
    one, two = read_unlabelled_table(str(path))
    assert (one.id, one.text, one.pair, one.label) == ("x", "A caf\u00e9.", "", "")
    assert (two.id, two.text) == ("y", "B")
    path.write_text("text\tpair\nA\tB\n")
    (pair,) = read_unlabelled_table(str(path))
    assert (pair.id, pair.text, pair.pair) == ("2", "A", "B")


@pytest.mark.parametrize(
    "text, words",
    [
        ("A text.\nAnother.\n", "line 1: expected a column text"),
        ("text\tsentence\nA\tB\n", "line 1: expected a column text"),
        ("text\tpair\nA\t \n", "line 2: expected a pair in column 2, found none"),
        ("text\tid\nA\n", "line 2: expected 2 tab-separated columns"),
        ("text\n", "line 1: there is no example"),
    ],
)
def test_a_table_of_texts_that_is_not_so(tmp_path, text, words):
    path = tmp_path / "new.tsv"
    path.write_text(text)
    with pytest.raises(TaskFileError, match=words):
        read_unlabelled_table(str(path))


def test_a_first_line_that_names_second_texts_is_believed(write):
    """There may be fewer of them than labels, such as two aspects of an opinion of three."""
    rows = [f"text {n}\t{('efficacy', 'safety')[n % 2]}\t{'abc'[n % 3]}" for n in range(12)]
    wanted = ("text", "pair", "label")
    read = read_own_table(write("\n".join(["text\tpair\tlabel", *rows])), wanted)
    assert [(each.pair, each.label) for each in read[:2]] == [("efficacy", "a"), ("safety", "b")]
    with pytest.raises(TaskFileError, match="the label seems to stand in column 2"):
        read_own_table(write("\n".join(rows)), wanted)


@pytest.mark.parametrize("wanted", [("text", "pair", "label"), ("text", "label")])
def test_a_first_line_that_names_texts_is_believed(wanted, write):
    """There may be fewer of them than labels, such as one question on many answers."""
    rows = [("Does it help?", f"Answer {n}.", ("yes", "no", "unclear")[n % 3]) for n in range(12)]
    lines = ["\t".join((text, pair, label)[-len(wanted) :]) for text, pair, label in rows]
    if len(wanted) == 2:
        lines = [f"{('a', 'b')[n % 2]}\t{label}" for n, (*_, label) in enumerate(rows)]
    read = read_own_table(write("\n".join(["\t".join(wanted), *lines])), wanted)
    assert [x.label for x in read] == [label for *_, label in rows]
    with pytest.raises(TaskFileError, match=r"column 1\): name the columns in the first line\.$"):
        read_own_table(write("\n".join(lines)), wanted)


@pytest.mark.parametrize("read", [read_own_table, read_unlabelled_table])
def test_a_text_that_pandas_has_quoted_is_refused(read, write):
    """Quotes around a text with a quote would be learnt as a part of it."""
    import pandas

    said = ['He said "so" to us', "none", '"All" of it is "here"', '"It is"']
    frame = pandas.DataFrame({"text": said, "label": ["a", "b", "a", "b"]})
    with pytest.raises(TaskFileError, match="line 2: .* is quoted: .* quoting=csv.QUOTE_NONE"):
        read(write(frame.to_csv(sep="\t", index=False)))
    plain = frame.to_csv(sep="\t", index=False, quoting=3)
    assert [example.text for example in read(write(plain))] == said
    frame["text"] += "\t."
    with pytest.raises(TaskFileError, match="found 3; quotes do not hold a tab"):
        read(write(frame.to_csv(sep="\t", index=False)))


@pytest.mark.parametrize("separator", [";", ",", "; ", ", "])
def test_another_character_than_bars_between_labels_is_refused(separator, write):
    rows = ["A\tcardio", f"B\tneuro{separator}cardio", "C\tneuro", "D\t"]
    named = re.escape("bars, 'neuro|cardio'")
    with pytest.raises(TaskFileError, match=f"line 2: 'neuro{separator}cardio' has .* {named}"):
        read_own_table(write("\n".join(rows)), ("text", "labels"))
    # A comma may be a part of a label, and where there are bars they are what the user means.
    for last in ("E\tneuro|cardio", ""):
        rows[1] = f"B\tNeoplasms{separator}Experimental" if not last else rows[1]
        read = read_own_table(write("\n".join([*rows, *filter(None, [last])])), ("text", "labels"))
        assert len(read[1].label) == 1


def test_commas_between_columns_are_named(write):
    with pytest.raises(TaskFileError, match="line 1: .*separate columns by tabs, not by commas"):
        read_own_table(write("text,label\nA,b\n"))
    with pytest.raises(TaskFileError, match="line 1: .*name the columns in the first line"):
        read_own_table(write("text\nA\n"))


def test_a_context_is_the_second_text_and_may_be_empty(write):
    """PubMedQA and BioASQ have one for each question, and some of BioASQ's are empty."""
    path = write("1\tIs it?\tIt is.\tyes\n2\tIs it not?\t\tno\n")
    read = read_table(path, ("id", "text", "context", "label"))
    assert [(x.text, x.pair, x.label) for x in read] == [
        ("Is it?", "It is.", "yes"),
        ("Is it not?", "", "no"),
    ]
