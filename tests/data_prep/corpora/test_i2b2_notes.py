"""i2b2 2012 and 2014 on invented notes in the layout of the releases."""

import zipfile
from collections import Counter

import pytest

from data_prep.corpora import clinical_notes, corpus_splits, i2b2_notes, released_files
from tfbio.task_types import task_table

BODY = "Admitted with fevers & chills .\nGiven Inventol\u00ae .\n"
FOLDERS = {
    "2012": (
        "2012-07-15.original-annotation.release",
        "2012-08-08.test-data.event-timex-groundtruth/xml",
    ),
    "2014": ("training-PHI-Gold-Set1", "testing-PHI-Gold-fixed"),
}


def note(body, tags, first="\n"):
    return (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<ROOT>\n'
        f"<TEXT><![CDATA[{first}{body}]]></TEXT>\n<TAGS>\n{tags}</TAGS>\n</ROOT>\n"
    )


def event(text, start, kind="PROBLEM", length=None):
    end = start + (len(text) if length is None else length)
    return (
        f'<EVENT id="E{start}" start="{start}" end="{end}" text="{text}" modality="FACTUAL" '
        f'polarity="POS" type="{kind}" />\n'
    )


# Offsets count the line end before the note's text, and so count that from 1.
EVENTS = (
    event("Admitted", 1, "OCCURRENCE")
    + event("fevers & chills", 15)
    + event("Inventol", 39, "TREATMENT")
    + '<TIMEX3 id="T0" start="1" end="3" text="Ad" type="DATE" val="" mod="NA" />\n'
)


def release(folder, year, train, test):
    """Names of files -> content."""
    with zipfile.ZipFile(folder / f"{year}.zip", "w") as archive:
        for of_split, files in zip(FOLDERS[year], (train, test), strict=True):
            for name, content in files.items():
                archive.writestr(f"{of_split}/{name}.xml", content.encode())
                archive.writestr(f"{of_split}/{name}.xml.tlink", b"not read")


def tagged(sentences):
    return [" ".join(map("/".join, zip(x.words, x.tags, strict=True))) for x in sentences]


EXPECTED = [
    "Admitted/B-OCCURRENCE with/O fevers/B-PROBLEM &/I-PROBLEM chills/I-PROBLEM ./O",
    "Given/O Inventol/B-TREATMENT ®/O ./O",
]


def test_events_of_2012(command, tmp_path):
    release(
        tmp_path, "2012", {str(i): note(BODY, EVENTS) for i in range(4)}, {"9": note(BODY, EVENTS)}
    )
    flags = ("--year=2012", f"--input={tmp_path}", f"--output={tmp_path}/out")
    done = command("corpora.i2b2_notes", *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "train: 3 OCCURRENCE, 3 PROBLEM, 3 TREATMENT",
        "dev: 1 OCCURRENCE, 1 PROBLEM, 1 TREATMENT",
        "test: 1 OCCURRENCE, 1 PROBLEM, 1 TREATMENT",
    ]
    examples = task_table.TASKS["i2b2_2012"].examples(str(tmp_path / "out"))
    assert tagged(examples["test"]) == tagged(examples["dev"]) == EXPECTED
    assert tagged(examples["train"]) == EXPECTED * 3


def test_a_larger_part_of_the_patients_for_development(command, tmp_path):
    """Holds all notes of a patient in one part."""
    train = {f"{patient}-0{n}": note(BODY, "") for patient in "12345" for n in (1, 2)}
    release(tmp_path, "2014", train, {"9-01": note(BODY, "")})
    flags = ("--year=2014", "--dev_fraction=0.4", f"--input={tmp_path}", f"--output={tmp_path}/out")
    assert command("corpora.i2b2_notes", *flags).returncode == 0
    lines = (tmp_path / "out" / "dev.tsv").read_text().splitlines()
    held = [line for line in lines if line.startswith("-DOCSTART-")]
    assert len(held) == 4 and len({line.partition("-0")[0] for line in held}) == 2


@pytest.mark.parametrize("first", ["\n", "\r\n", "", "\n\n\n"])
def test_a_mention_is_where_its_text_is(first):
    """The offsets are for one character before the text: elsewhere the nearest such text is it."""
    counts = Counter()
    file = released_files.File("1.xml", note(BODY, EVENTS, first).encode())
    text, mentions = i2b2_notes.read_note(file, "2012", counts, [])
    said = [text[slice(*x.parts[0])] for x in mentions]
    assert said == ["Admitted", "fevers & chills", "Inventol"]
    assert counts[i2b2_notes.MOVED] == (0 if len(first.replace("\r", "")) == 1 else 3)


def test_the_nearest_of_several_texts():
    text = "ache ache ache ache"
    counts = Counter()
    assert i2b2_notes.place(text, 5, 9, "ache", counts) == (5, 9) and not counts
    assert i2b2_notes.place(text, 11, 15, "ache", counts) == (10, 14)
    assert i2b2_notes.place(text, 13, 17, "ache", counts) == (15, 19)
    assert counts == {i2b2_notes.MOVED: 2}
    assert i2b2_notes.place(text, 2, 6, "pain", counts) == (2, 6)
    assert counts[i2b2_notes.OTHER_TEXT] == 1
    # Blanks and entities are written in more ways than one.
    assert i2b2_notes.place("a\n b &apos;c", 0, 12, "a b 'c", counts) == (0, 12)
    assert sum(counts.values()) == 3


def test_no_kind_is_counted_and_an_ampersand_may_stand_for_itself():
    counts = Counter()
    tags = event("fevers &amp; chills", 15, length=15) + event("Given", 33, "")
    tags += event("fevers & chills", 15)
    file = released_files.File("1.xml", note(BODY, tags).encode())
    _, mentions = i2b2_notes.read_note(file, "2012", counts, [])
    assert [x.parts for x in mentions] == [((15, 30),)] * 2
    assert counts == {clinical_notes.MENTIONS: 1, i2b2_notes.NO_KIND: 1}


def test_offsets_beyond_the_note_are_counted_and_named(tmp_path):
    tags = event("no such text", 1_000_000) + event("fevers & chills", 15)
    release(tmp_path, "2012", {"1": note(BODY, tags), "2": note(BODY, tags)}, {"3": note(BODY, "")})
    left = []
    splits, counts = i2b2_notes.read_examples(tmp_path, "2012", left)
    assert counts[i2b2_notes.OUTSIDE] == 2 and counts[clinical_notes.MENTIONS] == 4
    assert [(id_, path[-5:], reason) for id_, path, reason in left] == [
        ("E1000000", "1.xml", "outside"),
        ("E1000000", "2.xml", "outside"),
    ]
    assert sum(tag == "B-PROBLEM" for rows in splits.values() for *_, tag in rows) == 2


PHI = (
    '<NAME id="P0" start="7" end="10" text="Doe" TYPE="PATIENT" comment="" />\n'
    '<DATE id="P1" start="11" end="15" text="2069" TYPE="DATE" comment="" />\n'
    '<LOCATION id="P2" start="19" end="24" text="Space" TYPE="LOCATION-OTHER" comment="" />\n'
)


def test_health_information_of_2014_by_patient(tmp_path):
    body = "\n\nMr. Doe 2069in Spaceport.\n"
    train = {
        f"{patient}-0{i}": note(body, PHI, "\n") for patient in range(100, 120) for i in (1, 2)
    }
    release(tmp_path, "2014", train, {"200-01": note(body, PHI, "\n")})
    splits, counts = i2b2_notes.read_examples(tmp_path, "2014", [])
    corpus_splits.write(tmp_path / "out", splits, False)
    examples = task_table.TASKS["i2b2_2014"].examples(str(tmp_path / "out"))
    expected = "Mr/O ./O Doe/B-PATIENT 2069in/B-DATE Spaceport/B-LOCATION-OTHER ./O"
    assert tagged(examples["test"]) == [expected]
    # Two words of each of the 41 notes are longer than the mention.
    assert counts[clinical_notes.CUT] == 82 and counts[clinical_notes.MENTIONS] == 123
    names = {
        split: [row[0] for row in rows if row[0].startswith("-DOC")]
        for split, rows in splits.items()
    }
    assert len(names["dev"]) == 4 and len(names["train"]) == 36
    patients = {split: {name[12:15] for name in result} for split, result in names.items()}
    assert len(patients["dev"]) == 2 and not patients["dev"] & patients["train"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (note(BODY, event("fevers", 15, "SYMPTOM")), r"1\.xml: the tag 'E15' .* type 'SYMPTOM' is"),
        (note(BODY, EVENTS.replace('start="15"', "")), r"1\.xml: the tag 'E15' has no start and"),
        (note(BODY, "<EVENT>"), r"1\.xml: it is not well-formed XML"),
        ("<ROOT><TEXT>No CDATA</TEXT><TAGS></TAGS></ROOT>", r"1\.xml has no <TEXT><!\[CDATA"),
        (note(BODY, "").replace("TAGS", "TAG"), r"1\.xml has no .*, or no <TAGS>"),
    ],
)
def test_a_note_that_does_not_fit_is_named(content, message, tmp_path):
    release(tmp_path, "2012", {"1": content}, {"2": note(BODY, EVENTS)})
    with pytest.raises(released_files.CorpusError, match=message):
        i2b2_notes.read_examples(tmp_path, "2012", [])


def test_the_other_year_or_half_of_it_is_named(tmp_path):
    release(tmp_path, "2012", {"1": note(BODY, EVENTS)}, {"2": note(BODY, EVENTS)})
    with pytest.raises(released_files.CorpusError, match="holds no file of the corpus"):
        i2b2_notes.read_examples(tmp_path, "2014", [])
    for split, files in (("train", ({}, "2")), ("test", ("1", {}))):
        release(tmp_path, "2012", *({x: note(BODY, EVENTS) for x in names} for names in files))
        with pytest.raises(released_files.CorpusError, match=f"holds no note of the {split} set"):
            i2b2_notes.read_examples(tmp_path, "2012", [])


def test_both_sets_for_training_of_2014_are_read(tmp_path):
    text = note(BODY, "")
    release(tmp_path, "2014", {"100-01": text}, {"200-01": text})
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("training-PHI-Gold-Set2/300-01.xml", text.encode())
    splits, _ = i2b2_notes.read_examples(tmp_path, "2014", [], dev_fraction=0.5)
    names = [row[0] for x in ("train", "dev") for row in splits[x] if row[0].startswith("-DOC")]
    assert sorted(names) == ["-DOCSTART- (100-01)", "-DOCSTART- (300-01)"]
