"""Corpora that are no articles: Wikipedia's pages, clinical notes and plain text."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.readers.problem import Problem
from data_prep.selection import articles, input_units, texts, versions
from tests.data_prep import other_corpora
from tests.fuzz import damage, harness
from tfbio.base.errors import DataError
from tfbio.base.shards import Shard, read_shard
from tfbio.formats import safe_xml

SELECTION = articles.Selection(note_marks="type")
WIKI, NOTES, PLAIN = "wiki_00", "NOTEEVENTS.csv", "a.txt"


def reads(folder):
    """A file gives candidates with a text or a reason, or is refused."""
    (path,) = (folder / name for name in (WIKI, NOTES, PLAIN) if (folder / name).exists())
    try:
        result = list(texts.read(str(path), SELECTION, None))
    except safe_xml.BadFile as error:
        # As the documents stage says it.
        raise DataError(f"{path.name}: {error}") from error
    for item in result:
        assert isinstance(item, Problem) or bool(item.reason) != bool(item.documents)
    return result


def counts_all(folder):
    """Each text of a file is in a unit, or it has a reason there."""
    result = [item for item in reads(folder) if not isinstance(item, Problem)]
    (path,) = folder.iterdir()
    (folder / "work").mkdir()
    reader = input_units.Reader(str(folder / "work"), SELECTION, "", 10_000_000, 0)
    given_rows = input_units.read_input((0, [bytes(path)]), reader, 1)
    data = [item[1] for item in given_rows if isinstance(item, tuple)]
    rows = np.frombuffer(b"".join(data), versions.ROW)
    assert len(rows) == len(result)
    assert (rows["reason"] > 0).sum() == sum(bool(item.reason) for item in result)
    shard = Shard("unit-00000-00000.tfrecord", int(rows["texts"].sum()), 0, "")
    assert sum(1 for _ in read_shard(folder / "work", shard)) == shard.records


def keeps_neighbours(folder):
    """The texts beside a bad one are read as without it."""
    expected, result = reads(folder / "good"), reads(folder / "bad")
    assert [result[0], result[-1]] == expected and len(result) == 3


VALUES = st.one_of(
    st.sampled_from(damage.ODD_TEXTS),
    st.sampled_from([None, True, 7, 1.5, [], {}, ["x"], {"id": "x"}, "\ud800", "a\0b", "12#3"]),
)
KEYS = ("id", "url", "title", "text", "revid")


@st.composite
def pages(draw):
    """A page with values that none has, which is a JSON object in a line all the same."""
    page = json.loads(draw(st.sampled_from([other_corpora.WIKI_2, *_pages()])))
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=3)):
        if draw(st.integers(0, 3)):
            page[key] = draw(VALUES)
        else:
            page.pop(key, None)
    return json.dumps(page)


def _pages():
    return other_corpora.WIKI_3.splitlines()


@st.composite
def notes(draw):
    """A table with values that none has; quotes are whole."""
    marks = st.sampled_from(["[**", "**]", "[**2151**]", "[**x (1) 2**]", '"', "\n\n", ",", "a b"])
    rows = []
    for number in range(draw(st.integers(1, 3))):
        text = "".join(draw(st.lists(marks, max_size=9)))
        row = other_corpora.note(number, "Echo", text)
        for column in draw(st.lists(st.integers(0, 10), max_size=2)):
            row[column] = draw(st.sampled_from(damage.ODD_TEXTS))
        rows.append(row[: draw(st.sampled_from([11, 11, 11, 10, 0]))])
    return other_corpora.table(*rows).encode("utf-8", "surrogatepass")


CONTENTS = st.one_of(
    st.builds(lambda parts: (WIKI, "\n".join(parts).encode()), st.lists(pages(), max_size=4)),
    st.tuples(st.just(NOTES), st.one_of(notes(), st.just(other_corpora.NOTES.encode()))),
    st.tuples(st.just(PLAIN), st.just(other_corpora.PLAIN.encode())),
)


@given(CONTENTS)
def test_mutated_texts(file):
    harness.judge(counts_all, dict([file]))


@given(st.data())
def test_damaged_files(data):
    name, content = data.draw(CONTENTS)
    harness.judge(reads, {name: data.draw(damage.damaged(st.just(content)))})


@given(pages(), st.sampled_from(["{", '{"id": ', '{"id": "1"}', '{"x": 1e999}']))
@harness.few
def test_neighbours_of_a_bad_page(page, bad):
    first, last = _pages()
    good = f"{first}\n{last}\n".encode()
    for middle in (page, bad):
        files = {f"good/{WIKI}": good, f"bad/{WIKI}": f"{first}\n{middle}\n{last}\n".encode()}
        harness.judge(keeps_neighbours, files)


@pytest.mark.parametrize(
    ("name", "byte"),
    [(WIKI, b"{"), (NOTES, b'"'), (PLAIN, b"\n"), (PLAIN, b" ")],
)
def test_bombs(name, byte):
    beginning = other_corpora.table().encode() if name == NOTES else b""
    files = {name: damage.gzip.compress(beginning) + damage.bomb(100, byte)}
    harness.judge(reads, files)


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
