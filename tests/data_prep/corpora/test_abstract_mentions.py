"""BC5CDR and NCBI-disease: BLURB's files, sentence by sentence, and abstracts made up."""

from collections import Counter

import pytest

from data_prep.corpora import abstract_mentions, corpus_splits, released_files
from tests import reference
from tfbio.formats import tagged_words, text_files
from tfbio.formats.splits import find_split


def of_rows(rows):
    """Returns how often each sentence is there, with its tags."""
    text = "".join("\t".join(row) + "\n" for row in rows)
    return Counter(filter(None, text.split("\n\n")))


def of_blurb(folder, split):
    """Returns the same of a published file; its order is that of the makers' folder."""
    read = tagged_words.read(find_split(str(folder), split))
    return Counter(
        "\n".join(f"{word}\t{tag}" for word, tag in zip(x.words, x.tags, strict=True)) for x in read
    )


def test_ncbi_disease_is_blurbs_byte_for_byte():
    left = []
    made = abstract_mentions.read_ncbi_disease(reference.corpus("ncbi_disease/pubtator"), left)
    # Counted in BLURB's files: 5,424, 923 and 940 sentences.
    assert {split: rows.count(("",)) for split, rows in made.items()} == {
        "train": 5424,
        "dev": 923,
        "test": 940,
    }
    for split, rows in made.items():
        path = find_split(str(reference.corpus("ncbi_disease/blurb")), split)
        assert "".join("\t".join(row) + "\n" for row in rows) == text_files.read_text(path), split
    assert [(x[0], x[2]) for x in left] == [("8528200", "repeated")]


@pytest.mark.parametrize("task, entity_type", [("chem", "Chemical"), ("disease", "Disease")])
def test_bc5cdr_is_blurbs_sentence_by_sentence(task, entity_type, tmp_path):
    """Compares with NCBI's later copy, which has 15 of the chemicals less."""
    folder = reference.corpus("bc5cdr/pubtator")
    both = (folder / "BC5CDR_TrainDev.PubTator").read_text().strip().split("\n\n")
    parts = {"Training": both[:500], "Development": both[500:]}
    parts["Test"] = (folder / "BC5CDR_Test.PubTator").read_text().strip().split("\n\n")
    for name, blocks in parts.items():
        (tmp_path / f"CDR_{name}Set.PubTator.txt").write_text("\n\n".join(blocks))
    made = abstract_mentions.read_bc5cdr(tmp_path, entity_type, [])
    fewer = {"chem": {"train": 2, "dev": 0, "test": 11}, "disease": {}}[task]
    for split, rows in made.items():
        published = of_blurb(reference.corpus(f"bc5cdr_{task}/blurb"), split)
        assert (published - of_rows(rows)).total() == fewer.get(split, 0), split
        assert of_rows(rows).total() == published.total()


PUBTATOR = (
    "7|t|Renal and hepatic failure.\n7|a|It is Failure. It ended.\n"
    "7\t0\t25\tRenal and hepatic failure\tDisease\tD1|D2\tRenal failure|hepatic failure\n"
    "7\t10\t25\thepatic failure\tDisease\tD2\n"
    "7\t33\t40\tFailure\tChemical\t-1\n"
    "7\tCID\tD3\tD1\n"
)
BIOC = """<collection><document><id>7</id>
<passage><offset>0</offset><text>Renal and hepatic failure.</text>
<annotation id="0"><infon key="type">Disease</infon>
<infon key="CompositeRole">CompositeMention</infon>
<location offset="0" length="25"/><text>Renal and hepatic failure</text></annotation>
<annotation id="1"><infon key="type">Disease</infon>
<infon key="CompositeRole">IndividualMention</infon>
<location offset="0" length="5"/><location offset="18" length="7"/>
<text>Renal failure</text></annotation>
<annotation id="2"><infon key="type">Disease</infon>
<location offset="10" length="15"/><text>hepatic failure</text></annotation></passage>
<passage><offset>27</offset><text>It is Failure. It ended.</text>
<annotation id="3"><infon key="type">Chemical</infon>
<location offset="33" length="7"/><text>Failure</text></annotation></passage>
</document></collection>
"""


def release(folder, train="6|t|A title\n"):
    """Writes a release, whose development and test sets are one title each."""
    parts = {"Training": train, "Development": "8|t|A title\n", "Test": "9|t|A title\n"}
    for name, text in parts.items():
        (folder / f"CDR_{name}Set.PubTator.txt").write_text(text)


def test_both_formats_give_the_same(tmp_path):
    release(tmp_path, train=PUBTATOR)
    made = {}
    for form in ("pubtator", "bioc"):
        if form == "bioc":
            (tmp_path / "CDR_TrainingSet.PubTator.txt").unlink()
            (tmp_path / "CDR_TrainingSet.BioC.xml").write_text(BIOC)
        left = []
        made[form] = [
            abstract_mentions.read_bc5cdr(tmp_path, x, left)["train"]
            for x in ("Disease", "Chemical")
        ]
        assert [(x[0], x[2]) for x in left] == [("7.10-25", "overlaps")]
    assert made["pubtator"] == made["bioc"]
    words = "Renal and hepatic failure . \nIt is Failure . \nIt ended . \n"
    for rows, tags in zip(
        made["bioc"], (["B", "I", "I", "I"] + ["O"] * 8, ["O"] * 7 + ["B"] + ["O"] * 4), strict=True
    ):
        assert "".join(f"{row[0]} " if row[0] else "\n" for row in rows) == words
        assert [row[1] for row in rows if row[0]] == tags


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("7\t33\t40", "7\t32\t39", r"line 5: the abstract has ' Failur' at 32 to 39"),
        ("7\t33\t40", "7\t33\t90", r"line 5: the abstract has 'Failure. It ended.' at 33 to 90"),
        ("7\t33\t40", "7\tx\t40", "line 5: the abstract has ''"),
        ("7|a|", "8|a|", r"line 2: expected PMID\|t\|title"),
        ("\tCID\tD3\tD1", "\tCID", "line 6: expected"),
    ],
)
def test_what_does_not_fit_is_named(old, new, message, tmp_path):
    assert old in PUBTATOR
    release(tmp_path, train=PUBTATOR.replace(old, new))
    with pytest.raises(released_files.CorpusError, match=message):
        abstract_mentions.read_bc5cdr(tmp_path, "Chemical", [])


def test_a_release_that_lacks_a_file_is_named(tmp_path):
    release(tmp_path)
    (tmp_path / "CDR_TestSet.PubTator.txt").unlink()
    with pytest.raises(released_files.CorpusError, match=r"lacks CDR_TestSet\.PubTator\.txt"):
        abstract_mentions.read_bc5cdr(tmp_path, "Disease", [])
    (tmp_path / "NCBItestset_corpus.txt").write_text("1|t|A title\n")
    with pytest.raises(released_files.CorpusError, match="has neither NCBItrainset_corpus.txt"):
        abstract_mentions.read_ncbi_disease(tmp_path, [])
    for number, name in enumerate(("NCBItrainset_corpus.txt", "NCBIdevelopset_corpus.txt")):
        (tmp_path / name).write_text(f"\n{number + 2}|t|Title {number}\n{number + 2}|a|Text.\n")
    made = abstract_mentions.read_ncbi_disease(tmp_path, [])
    assert [made[split][1][0] for split in corpus_splits.SPLITS] == ["0", "1", "title"]


def test_an_abstract_of_two_splits_is_in_the_first(tmp_path):
    release(tmp_path, train="8|t|A title\n")
    left = []
    made = abstract_mentions.read_bc5cdr(tmp_path, "Disease", left)
    assert [bool(made[split]) for split in corpus_splits.SPLITS] == [True, False, True]
    assert [(x[0], x[2]) for x in left] == [("8", "repeated")]
