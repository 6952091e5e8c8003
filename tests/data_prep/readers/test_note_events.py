import csv
import gzip
import io
import re
import tracemalloc

import pandas
import pytest

from data_prep.readers import note_events
from data_prep.readers.problem import Problem
from tests.data_prep.other_corpora import COLUMNS, DISCHARGE, NOTES, NURSING, note, table
from tfbio.formats.safe_xml import BadFile


def read(tmp_path, data, **kwargs):
    path = tmp_path / "NOTEEVENTS.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return list(note_events.read_notes(path, **kwargs))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_notes_are_those_that_pandas_reads(tmp_path, pack):
    expected = pandas.read_csv(io.StringIO(NOTES), dtype=str, keep_default_na=False)
    result = read(tmp_path, pack(NOTES.encode()))
    assert [note.row_id for note in result] == expected["ROW_ID"].tolist()
    assert [note.subject_id for note in result] == expected["SUBJECT_ID"].tolist()
    assert [note.category for note in result] == expected["CATEGORY"].str.strip().tolist()
    assert [note.is_error for note in result] == (expected["ISERROR"] == "1").tolist()
    assert [" ".join(note.paragraphs).split() for note in result] == [
        text.split() for text in expected["TEXT"]
    ]
    assert result[0].paragraphs[1:] == (
        "Service: ADDENDUM:",
        "The patient, who was seen by Dr. [**Last Name (STitle) 2204**] at [**Hospital1 18**], was "
        'given "aspirin, 81 mg" and furosemide. He was discharged in good condition.',
    )


def test_a_table_that_pandas_wrote_has_the_same_notes(tmp_path):
    rows = list(csv.reader(io.StringIO(NOTES)))
    place = rows[0].index("ISERROR")
    for number, row in enumerate(rows[1:]):
        row[place] = "1" if number == 1 else ""
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    frame = pandas.read_csv(io.StringIO(stream.getvalue()))
    assert frame["ISERROR"].dtype == float
    notes = read(tmp_path, frame.to_csv(index=False))
    assert [note.is_error for note in notes] == [n == 1 for n in range(len(rows) - 1)]


def test_columns_may_stand_in_any_order_and_case(tmp_path):
    rows = list(csv.reader(io.StringIO(NOTES)))
    names = [name.lower() for name in COLUMNS[::-1]]
    other = table(*(row[::-1] for row in rows[1:]), columns=names)
    assert read(tmp_path, other) == read(tmp_path, NOTES)


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("[**2151-7-16**]", "Date"),
        ("[**7-16**]", "Date"),
        ("[**Hospital1 18**]", "Hospital"),
        ("[**Last Name (STitle) 2204**]", "Last Name"),
        ("[**First Name8 (NamePattern2) \n100**]", "First Name"),
        ("[**Month/Day (2) 12**]", "Month/Day"),
        ("[**Telephone/Fax (1) 5**]", "Telephone/Fax"),
        ("[**Age over 90 **]", "Age over 90"),
        ("[** **]", ""),
        ("[**x", "[**x"),
    ],
)
def test_marks_become_their_types(mark, expected):
    assert note_events._with_types(f"a {mark} b") == f"a {expected} b"


def test_types_of_marks_are_in_the_notes(tmp_path):
    note = read(tmp_path, NOTES, types_of_marks=True)[0]
    assert note.paragraphs[0] == "Admission Date: Date Discharge Date: Date"
    assert "Dr. Last Name at Hospital, was" in note.paragraphs[2]


def test_a_row_of_other_columns_is_named_and_the_others_are_read(tmp_path):
    good = table(note(1, "ECG", DISCHARGE), note(2, "ECG", NURSING))
    bad = table(note(1, "ECG", DISCHARGE), note(5, "ECG", "x")[:7], note(2, "ECG", NURSING))
    first, problem, last = read(tmp_path, bad)
    assert problem == Problem("row 3", "it has 7 columns, not 11.")
    assert [first, last] == read(tmp_path, good)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (table(columns=COLUMNS[:-2]), "its header lacks ISERROR, TEXT: it must be MIMIC-III's"),
        (b"", "its header lacks ROW_ID"),
        (table(), "it holds no note."),
        (NOTES[:-20], "its quotes or columns are damaged (unexpected end of data)"),
        (NOTES.replace('"aspirin', 'aspirin"'), "its quotes or columns are damaged"),
        (
            NOTES.encode()[:-20] + b"\xe9",
            f"line {NOTES[:-20].count(chr(10)) + 1} is not text in UTF-8.",
        ),
        (gzip.compress(NOTES.encode())[:-12], "the compressed data is damaged or cut short"),
    ],
)
def test_damaged_tables_are_refused(tmp_path, data, sentence):
    with pytest.raises(BadFile, match=re.escape(sentence)):
        read(tmp_path, data)


def test_memory_does_not_grow_with_the_table(tmp_path):
    path = tmp_path / "NOTEEVENTS.csv"
    with path.open("w") as stream:
        stream.write(NOTES)
        row = table(note(9, "Echo", NURSING * 200)).partition("\n")[2]
        stream.writelines([row] * 100)
    tracemalloc.start()
    try:
        assert sum(1 for _ in note_events.read_notes(path)) == 104
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 4
    finally:
        tracemalloc.stop()
