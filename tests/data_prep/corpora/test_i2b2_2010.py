"""i2b2 2010 on invented notes in the layout of the release, which registered users get."""

import io
import json
import re
import tarfile

import pytest

from data_prep.corpora import corpus_splits, i2b2_2010, released_files
from tfbio.task_types import task_table

TEXT = "Made up :\nInventol for made up  fever and ache .\n A scan showed ache .\n"
CON = (
    'c="inventol" 2:0 2:0||t="treatment"\n'
    'c="made up fever" 2:2 2:4||t="problem"\n'
    'c="ache" 2:6 2:6||t="problem"\n'
    # A line that begins with a blank begins with an empty word.
    'c="a scan" 3:1 3:2||t="test"\n'
    'c="ache" 3:4 3:4||t="problem"\n'
)
REL = (
    'c="inventol" 2:0 2:0||r="TrAP"||c="made up fever" 2:2 2:4\n'
    'c="ache" 2:6 2:6||r="TrCP"||c="inventol" 2:0 2:0\n'
    'c="inventol" 2:0 2:0||r="TrAP"||c="ache" 2:6 2:6\n'
    'c="a scan" 3:1 3:2||r="TeRP"||c="ache" 3:4 3:4\n'
    'c="a scan" 3:1 3:2||r="TeRP"||c="made up fever" 2:2 2:4\n'
)
TRAIN = "concept_assertion_relation_training_data/beth/{folder}/{name}"
TEST = "reference_standard_for_test_data/{folder}/{name}"


def release(folder, names=("a", "b", "c"), **changes):
    """Writes the three archives; changes: extension -> content of the notes for training."""
    archives = {}
    for name in [*names, "0001"]:
        content = {"txt": TEXT, "con": CON, "rel": REL} | (changes if name in names else {})
        for kind, text in content.items():
            if name in names:
                folders = {"con": "concept"}
                path = TRAIN.format(folder=folders.get(kind, kind), name=f"{name}.{kind}")
            elif kind == "txt":
                path = f"test_data/{name}.txt"
            else:
                path = TEST.format(
                    folder={"con": "concepts"}.get(kind, kind), name=f"{name}.{kind}"
                )
            archives.setdefault(path.partition("/")[0], {})[path] = text.encode()
    for name, members in archives.items():
        with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
            for path, data in members.items():
                member = tarfile.TarInfo(path)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


ROWS = [
    ("l0.l1", "@treatment$ for @problem$ and ache .", "TrAP"),
    ("l0.l2", "@treatment$ for made up  fever and @problem$ .", "TrCP"),
    ("l0.l2.1", "@treatment$ for made up  fever and @problem$ .", "TrAP"),
    ("l1.l2", "Inventol for @problem$ and @problem$ .", "false"),
    ("l3.l4", " @test$ showed @problem$ .", "TeRP"),
]


def test_relations(command, tmp_path):
    (tmp_path / "in").mkdir()
    release(tmp_path / "in")
    done = command("corpora.i2b2_2010", f"--input={tmp_path}/in", f"--output={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    left, *counts = done.stdout.splitlines()
    each = "1 TeRP, 2 TrAP, 1 TrCP, 1 false"
    assert counts[1:] == [f"dev: {each}", f"test: {each}"]
    assert counts[0] == "train: 2 TeRP, 4 TrAP, 2 TrCP, 2 false"
    # One of each of the four notes.
    assert left == "left out, see left_out.jsonl: not of one line 4"
    lines = [json.loads(x) for x in (tmp_path / "out/left_out.jsonl").read_text().splitlines()]
    names = ["a.rel", "b.rel", "c.rel", "0001.rel"]
    assert sorted(line["file"] for line in lines) == sorted(names)
    examples = task_table.TASKS["i2b2_2010_re"].examples(str(tmp_path / "out"))
    result = [(x.id, x.text, x.label) for x in examples["test"]]
    assert result == [(f"0001.{row[0]}", *row[1:]) for row in ROWS]
    names = {split: {x.id.partition(".")[0] for x in examples[split]} for split in examples}
    assert names["train"] | names["dev"] == {"a", "b", "c"}
    assert len(names["dev"]) == 1 and not names["train"] & names["dev"]
    flags = (f"--input={tmp_path}/in", f"--output={tmp_path}/more", "--dev_fraction=0.5")
    counts = command("corpora.i2b2_2010", *flags).stdout.splitlines()[1:3]
    assert counts == [f"train: {each}", "dev: 2 TeRP, 4 TrAP, 2 TrCP, 2 false"]


def test_concepts(tmp_path):
    release(tmp_path)
    splits, counts = i2b2_2010.read_examples(tmp_path, [], concepts=True)
    corpus_splits.write(tmp_path / "out", splits, False)
    sentences = task_table.TASKS["i2b2_2010_ner"].examples(str(tmp_path / "out"))["test"]
    tagged = [" ".join(map("/".join, zip(x.words, x.tags, strict=True))) for x in sentences]
    assert tagged == [
        "Made/O up/O :/O",
        "Inventol/B-treatment for/O made/B-problem up/I-problem fever/I-problem and/O "
        "ache/B-problem ./O",
        "A/B-test scan/I-test showed/O ache/B-problem ./O",
    ]
    assert {what for what, count in counts.items() if count} == {"mentions"}


def test_a_concept_over_the_end_of_a_line_is_kept(tmp_path):
    con = 'c="up : inventol" 1:1 2:0||t="problem"\nc="ache" 2:6 2:6||t="problem"\n'
    release(tmp_path, con=con, rel="")
    splits, counts = i2b2_2010.read_examples(tmp_path, [], concepts=True)
    assert ("up", "B-problem") in splits["train"] and ("Inventol", "I-problem") in splits["train"]
    assert counts["go over the end of a sentence: the two are joined"] == 3
    # Of a pair the line of the first word counts, as far as either goes.
    assert i2b2_2010.read_examples(tmp_path, [])[0]["train"][1:] == []


def test_overlapping_concepts_are_one_dummy(tmp_path):
    con = 'c="fever and" 2:4 2:5||t="problem"\nc="made up fever" 2:2 2:4||t="test"\n'
    release(tmp_path, con=con, rel="")
    splits, _ = i2b2_2010.read_examples(tmp_path, [])
    text = "Inventol for @problem-test$ ache ."
    assert splits["train"][1] == ("a.l0.l1", text, "false")


def test_a_concept_has_its_type_wherever_it_stands(tmp_path):
    """BLUE's `replace_text` makes "@problem$ for made up  fever and @treatment$ ." of this."""
    con = 'c="ache" 2:6 2:6||t="problem"\nc="inventol" 2:0 2:0||t="treatment"\n'
    release(tmp_path, con=con, rel="")
    splits, _ = i2b2_2010.read_examples(tmp_path, [])
    text = "@treatment$ for made up  fever and @problem$ ."
    assert splits["train"][1] == ("a.l0.l1", text, "false")


def test_markers_stand_where_the_dummies_do(tmp_path):
    release(tmp_path)
    masked, marked = (
        i2b2_2010.read_examples(tmp_path, [], entities=entities)[0]["test"][1:]
        for entities in ("dummy", "marker")
    )
    assert [(row[0], row[2]) for row in marked] == [(row[0], row[2]) for row in masked]
    assert [row[1] for row in marked] == [
        "[S1] Inventol [E1] for [S2] made up  fever [E2] and ache .",
        *["[S1] Inventol [E1] for made up  fever and [S2] ache [E2] ."] * 2,
        "Inventol for [S1] made up  fever [E1] and [S2] ache [E2] .",
        " [S1] A scan [E1] showed [S2] ache [E2] .",
    ]


def test_markers_do_not_go_with_concepts(command, tmp_path):
    arguments = (f"--input={tmp_path}", f"--output={tmp_path}/out", "--concepts")
    done = command("corpora.i2b2_2010", *arguments, "--entities=marker")
    assert done.returncode == 2 and "--entities does not go with --concepts" in done.stderr


def test_a_list_of_notes_for_development(tmp_path):
    release(tmp_path)
    (tmp_path / "dev-docids.txt").write_text("b\nc\n")
    splits, _ = i2b2_2010.read_examples(tmp_path, [], str(tmp_path / "dev-docids.txt"))
    assert {row[0][0] for row in splits["dev"][1:]} == {"b", "c"}
    assert {row[0][0] for row in splits["train"][1:]} == {"a"}
    (tmp_path / "dev-docids.txt").write_text("b\nz\n")
    with pytest.raises(released_files.CorpusError, match="lists z, which is no note for training"):
        i2b2_2010.read_examples(tmp_path, [], str(tmp_path / "dev-docids.txt"))


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("con", 'c="ache" 2:6||t="problem"\n', r"a\.con, line 1: expected a line such as c="),
        ("con", CON + 'c="ache" 2:6 2:6||t="sign"\n', r"a\.con, line 6: unknown kind 'sign'"),
        ("con", 'c="ache" 2:5 2:5||t="test"\n', r"line 1: expected 'ache' at 2:5 .* found 'and'"),
        ("con", 'c="ache" 9:5 9:5||t="test"\n', r"line 1: expected 'ache' at 9:5 .* found ''"),
        ("con", 'c="ache" 0:1 0:1||t="test"\n', r"line 1: expected 'ache' at 0:1"),
        ("rel", REL + 'c="ache" 2:6\n', r"a\.rel, line 6: expected a line such as c=.*TrAP"),
        ("rel", REL.replace("TrCP", "TrXX"), r"a\.rel, line 2: expected a relation of PIP, TeCP"),
        ("rel", 'c="and" 2:5 2:5||r="PIP"||c="ache" 2:6 2:6\n', r"line 1: .* two concepts of the"),
    ],
)
def test_a_line_that_does_not_fit_is_named(kind, content, message, tmp_path):
    release(tmp_path, **{kind: content})
    with pytest.raises(released_files.CorpusError, match=message):
        i2b2_2010.read_examples(tmp_path, [])


def test_what_is_missing_is_named(tmp_path):
    release(tmp_path)
    (tmp_path / "test_data.tar.gz").unlink()
    with pytest.raises(released_files.CorpusError, match=re.escape("no 0001.txt beside")):
        i2b2_2010.read_examples(tmp_path, [])
    (tmp_path / "reference_standard_for_test_data.tar.gz").unlink()
    with pytest.raises(released_files.CorpusError, match="no note of the test set"):
        i2b2_2010.read_examples(tmp_path, [])


@pytest.mark.parametrize("hospital", ["beth", "partners"])
def test_the_notes_of_both_hospitals_are_read(hospital, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "TRAIN", TRAIN.replace("beth", hospital))
    release(tmp_path)
    splits, _ = i2b2_2010.read_examples(tmp_path, [])
    assert len(splits["train"]) == 1 + 2 * len(ROWS)


def test_the_last_line_of_a_note_may_have_no_end(tmp_path):
    release(tmp_path, txt=TEXT.removesuffix("\n"))
    splits, _ = i2b2_2010.read_examples(tmp_path, [])
    assert splits["train"][len(ROWS)] == ("a.l3.l4", *ROWS[-1][1:])


def test_a_concept_whose_words_a_later_one_has_is_told(tmp_path):
    release(tmp_path, con='c="fever" 2:4 2:4||t="test"\n' + CON)
    left = []
    i2b2_2010.read_examples(tmp_path, left, concepts=True)
    start = TEXT.index("fever")
    assert left == [(f"{name}.{start}-{start + 5}", name, "overwritten") for name in "abc"]
