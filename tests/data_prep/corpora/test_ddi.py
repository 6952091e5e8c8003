"""DDI: BLURB's files, and sentences made up to be awkward."""

import gzip
import re
import zipfile
from collections import Counter

import pytest

from data_prep.corpora import corpus_splits, ddi, released_files
from tests import reference
from tfbio.formats import relations

# Where the makers' release differs from the older copy of it that BLURB fetches: the place of the
# mentions after a title in brackets, and the labels of two pairs.
MENDED = {
    "train": {f"DDI-MedLine.d{n}": rows for n, rows in ((4, 3), (14, 10), (15, 36), (27, 15))},
    "dev": {"DDI-MedLine.d68": 15, "DDI-MedLine.d134": 6},
    "test": {},
}
SWAPPED = {"DDI-DrugBank.d266.s0.p1", "DDI-DrugBank.d266.s0.p2"}


def test_the_published_files_but_for_what_the_makers_mended(command, tmp_path):
    data = reference.corpus("ddi2013")
    flags = (f"--input={data}/original", f"--index={data}/blurb/index", f"--output={tmp_path}")
    done = command("corpora.blurb", "ddi", *flags)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "left_out.jsonl").read_bytes() == b""  # BLURB's lists name every file
    # Table 1 of the BioELECTRA paper: 25,296, 2,496 and 5,716 examples.
    assert done.stdout.splitlines()[:3] == [
        "train: 725 DDI-advise, 1,486 DDI-effect, 21,745 DDI-false, 177 DDI-int, "
        "1,163 DDI-mechanism",
        "dev: 101 DDI-advise, 201 DDI-effect, 2,027 DDI-false, 11 DDI-int, 156 DDI-mechanism",
        "test: 221 DDI-advise, 360 DDI-effect, 4,737 DDI-false, 96 DDI-int, 302 DDI-mechanism",
    ]
    for split in corpus_splits.SPLITS:
        published = gzip.decompress((data / f"blurb/{split}.tsv.gz").read_bytes())
        made = (tmp_path / f"{split}.tsv").read_bytes()
        pairs = zip(rows_of(made), rows_of(published), strict=True)
        differing = [(own, other) for own, other in pairs if own != other]
        assert not [(own, other) for own, other in differing if own[0] != other[0]]
        relabelled = {own[0] for own, other in differing if own[2] != other[2]}
        assert relabelled == (SWAPPED if split == "train" else set())
        moved = [(own[0], own[1], other[1]) for own, other in differing if own[1] != other[1]]
        assert Counter(id_.rsplit(".", 2)[0] for id_, _, _ in moved) == MENDED[split]
        assert not [(own, other) for _, own, other in moved if not ("];" in other and "] " in own)]


def test_markers_stand_where_the_dummies_do():
    data = reference.corpus("ddi2013")
    both = [
        ddi.read_examples(data / "original", data / "blurb/index", [], entities)
        for entities in ("dummy", "marker")
    ]
    overlaps = 0
    for split in corpus_splits.SPLITS:
        for (id_, masked, label), (own_id, marked, own_label) in zip(
            both[0][split], both[1][split], strict=True
        ):
            assert (own_id, own_label) == (id_, label), split
            assert not [marker for marker in relations.MARKERS if marked.count(marker) != 1]
            overlaps += "@DRUG-DRUG$" in masked
            if "@DRUG-DRUG$" not in masked:
                pattern = r"\[S([12])\] .*? \[E\1\]"
                assert re.sub(pattern, "@DRUG$", marked, flags=re.DOTALL) == masked, split
    assert 0 < overlaps < 1000


def rows_of(content):
    return [line.split("\t") for line in content.decode().removesuffix("\n").split("\n")]


def file_of(sentences):
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<document id="d">{sentences}</document>'
    return released_files.File("d.xml", text.encode())


def sentence(text, offsets, pairs):
    drugs = "".join(
        f'<entity id="e{i}" charOffset="{offset}" type="drug" text=""/>'
        for i, offset in enumerate(offsets)
    )
    pairs = "".join(
        f'<pair id="p{i}" e1="{e1}" e2="{e2}" ddi="{"true" if type_ else "false"}"'
        + (f' type="{type_}"/>' if type_ else "/>")
        for i, (e1, e2, type_) in enumerate(pairs)
    )
    return f'<sentence id="s" text="{text}">{drugs}{pairs}</sentence>'


@pytest.mark.parametrize(
    ("text", "offsets", "expected"),
    [
        # The last character is given, not the one after it.
        ("A and B.", ("0-0", "6-6"), "@DRUG$ and @DRUG$."),
        ("A and B.", ("6-6", "0-0"), "@DRUG$ and @DRUG$."),
        # Mentions in parts run from their first part to their last, here into each other.
        ("loop and thiazide diuretics", ("0-3;18-26", "9-26"), "@DRUG-DRUG$"),
        ("A acid, B acid or C", ("0-0;10-13", "18-18"), "@DRUG$ or @DRUG$"),
        # One mention within another, and two that only touch.
        ("oral iron salts.", ("5-14", "5-8"), "oral @DRUG-DRUG$."),
        ("oral iron salts.", ("5-8", "5-14"), "oral @DRUG-DRUG$."),
        ("AB", ("0-0", "1-1"), "@DRUG$@DRUG$"),
        # Line ends and tabs in the text become blanks, one for each.
        ("A&#xd;&#xa;B&#9;.", ("0-0", "3-3"), "@DRUG$  @DRUG$ ."),
    ],
)
def test_where_the_drugs_are(text, offsets, expected, tmp_path):
    rows = ddi.read_file(file_of(sentence(text, offsets, [("e0", "e1", "int")])))
    corpus_splits.write(tmp_path, {"train": rows}, overwrite=False)
    assert (tmp_path / "train.tsv").read_text() == f"p0\t{expected}\tDDI-int\n"


@pytest.mark.parametrize(
    ("text", "offsets", "mention", "message"),
    [
        ("Aspirin and warfarin interact.", ("12-19", "900-907"), "", "charOffset 900-907, but the"),
        ("Aspirin and warfarin interact.", ("12-19", "900-907"), "Aspirin", "of 30 characters has"),
        ("Aspirin and warfarin interact.", ("12-19", "3-9"), "Aspirin", "not 'Aspirin'"),
        ("Aspirin and warfarin interact.", ("12-19", "6-0"), "", "charOffset 6-0"),
        ("Aspirin and warfarin interact.", ("12-19", "8-10;0-6"), "", "charOffset 8-10;0-6"),
        ("Aspirin and warfarin interact.", ("12-19", "-1-6"), "", "names no two drugs"),
        ("Aspirin and warfarin interact.", ("12-19", "0-9999999999"), "", "names no two drugs"),
        ("Aspirin and warfarin interact.", ("12-19", "\u0660-6"), "", "names no two drugs"),
    ],
)
def test_a_mention_stands_where_it_says(text, offsets, mention, message):
    content = sentence(text, offsets, [("e0", "e1", "int")])
    before, _, after = content.rpartition('text=""')
    with pytest.raises(released_files.CorpusError, match=message) as caught:
        ddi.read_file(file_of(f'{before}text="{mention}"{after}'))
    assert len(str(caught.value)) < 250


def test_a_mention_may_stand_one_character_beside():
    """The place that the file gives stays: BLURB's files have it."""
    content = sentence("[ACE] x; b", ["2-4", "9-9"], [("e0", "e1", "int")])
    content = content.replace('text=""', 'text="ACE"', 1)
    assert ddi.read_file(file_of(content))[0][1] == "[A@DRUG$ x; @DRUG$"
    content = content.replace('"2-4"', '"0-2"')
    assert ddi.read_file(file_of(content))[0][1] == "@DRUG$E] x; @DRUG$"


def test_every_pair_is_an_instance_and_a_lone_drug_none():
    pairs = [("e0", "e1", "advise"), ("e0", "e2", ""), ("e1", "e2", "mechanism")]
    sentences = sentence("A.", ["0-0"], []) + sentence("A B C", ["0-0", "2-2", "4-4"], pairs)
    assert ddi.read_file(file_of(sentences)) == [
        ("p0", "@DRUG$ @DRUG$ C", "DDI-advise"),
        ("p1", "@DRUG$ B @DRUG$", "DDI-false"),
        ("p2", "A @DRUG$ @DRUG$", "DDI-mechanism"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (sentence("A B", ["0-0"], [("e0", "e1", "int")]), "line 2: the pair p0 names no two drugs"),
        (sentence("A B", ["0-0", ""], [("e0", "e1", "int")]), "the pair p0 names no two drugs"),
        (sentence("A B", ["0-0", "2-2"], [("e0", "e1", "harm")]), "or no type of interaction"),
        ("<sentence>", r"d\.xml: it is not well-formed XML"),
    ],
)
def test_a_document_that_does_not_fit_is_named(content, message):
    with pytest.raises(released_files.CorpusError, match=message):
        ddi.read_file(file_of(content))


def test_entities_are_refused():
    bomb = """<?xml version="1.0"?>
        <!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
        <document><sentence text="&b;"/></document>"""
    with pytest.raises(
        released_files.CorpusError, match=r"b\.xml: it declares XML entities.*refused"
    ):
        ddi.read_file(released_files.File("b.xml", bomb.encode()))


def release(folder, names):
    """Writes a made-up release with one pair in each file, and BLURB's lists of them."""
    content = file_of(sentence("A B", ["0-0", "2-2"], [("e0", "e1", "int")])).data
    with zipfile.ZipFile(folder / "DDICorpus-2013.zip", "w") as archive:
        for name in names:
            archive.writestr(f"DDICorpus/{name}", content)
        archive.writestr("DDICorpus/Test/Test for DrugNER task/MedLine/3.xml", b"")
    lists = {"train": "train_dataset/DrugBank/A acid_ddi.xml", "dev": "train_dataset/MedLine/2.xml"}
    for split, name in (lists | {"test": "test_dataset/MedLine/3.xml"}).items():
        (folder / f"{split}_files.tsv").write_text(f"{name}\n")


def test_both_layouts_are_read(tmp_path):
    for train, test in (
        ("Train", "Test/Test for DDI Extraction task"),
        ("DDIextraction_2013/train_dataset", "DDIextraction_2013/test_dataset"),
    ):
        release(
            tmp_path,
            (f"{train}/DrugBank/A acid_ddi.xml", f"{train}/MedLine/2.xml", f"{test}/MedLine/3.xml"),
        )
        splits = ddi.read_examples(tmp_path, tmp_path, [])
        assert [len(splits[split]) for split in corpus_splits.SPLITS] == [1, 1, 1]


def test_a_listed_file_that_is_not_there_is_named(command, fails_in_one_sentence, tmp_path):
    release(tmp_path, ("Train/DrugBank/A acid_ddi.xml", "Train/MedLine/2.xml"))
    flags = (f"--input={tmp_path}", f"--index={tmp_path}", f"--output={tmp_path}/out")
    said = fails_in_one_sentence(command("corpora.blurb", "ddi", *flags))
    assert "test_files.tsv" in said and "test_dataset/MedLine/3.xml" in said
    assert not (tmp_path / "out").exists()
