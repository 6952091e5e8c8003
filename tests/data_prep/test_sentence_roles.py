import csv
import json
import shutil

import pytest
import upath

from data_prep import sentence_roles
from tfbio.base.document_records import Document, read_documents
from tfbio.base.errors import DataError
from tfbio.base.held_out import is_held_out
from tfbio.base.manifests import read_manifest, verify


def document(sections, id_="pmid:1"):
    return Document(id_, "a.xml", "T", ["It is."] * len(sections), sections)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (["METHODS", "RESULTS"], ["methods", "results"]),
        # The titles of sections, in a full text's abstract that PubMed lacks.
        (["Methods", "Results"], ["methods", "results"]),
        (["METHODS", "METHODS"], None),
        (["METHODS", "UNASSIGNED", "RESULTS"], None),
        (["", ""], None),
        ([], None),
    ],
)
def test_only_wholly_structured_abstracts_serve(sections, expected):
    assert sentence_roles.roles(document(sections)) == expected
    # The sections of a body may have the same titles.
    assert sentence_roles.roles(document(sections, "pmid:1#body")) is None


def test_real_abstracts(documents_folder, tmp_path):
    output = tmp_path / "roles"
    manifest = sentence_roles.make_sentence_roles(documents_folder, output, held_out_fraction=0.3)
    documents = {d.id: d for d in read_documents(documents_folder)}
    used = {id_ for id_, d in documents.items() if sentence_roles.roles(d)}
    seen = {}
    for split in ("train", "dev", "test"):
        with open(output / f"{split}.tsv", encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
        counts = manifest.counts[split]
        assert len(rows) == counts["sentences"] > 10, split
        ids = {row["id"] for row in rows}
        assert len(ids) == counts["articles"], split
        for id_ in ids:
            assert is_held_out(id_, 0.3) == (split != "train")
            own = [(row["label"], row["sentence"]) for row in rows if row["id"] == id_]
            labels = [section.lower() for section in documents[id_].sections]
            assert own == list(zip(labels, documents[id_].sentences, strict=True))
        for label in sentence_roles.LABELS:
            assert counts[label] == sum(row["label"] == label for row in rows)
        assert not seen.keys() & ids, split
        seen |= dict.fromkeys(ids, split)
    assert seen.keys() == used
    verify(output, read_manifest(output, "sentence_roles"), full=True)


def test_too_few_articles_is_an_error(documents_folder, tmp_path):
    make = sentence_roles.make_sentence_roles
    for fraction, problem in (
        (1e-9, "no structured abstract for dev and test"),
        (0, "=0 leaves no"),
    ):
        with pytest.raises(DataError, match=problem):
            make(documents_folder, tmp_path / "r", held_out_fraction=fraction)
        assert not (tmp_path / "r").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="no structured abstract"):
        make(documents_folder, tmp_path / "mine", held_out_fraction=1e-9)
    assert (tmp_path / "mine").exists()


def test_what_cannot_be_replaced_stays(documents_folder, tmp_path):
    make = sentence_roles.make_sentence_roles
    made = make(documents_folder, tmp_path, held_out_fraction=0.3)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(DataError, match="no structured abstract for dev and test"):
        make(documents_folder, tmp_path, held_out_fraction=1e-9, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert make(documents_folder, tmp_path, held_out_fraction=0.3) == made


def test_an_object_store_holds_the_same_files(documents_folder, tmp_path):
    make = sentence_roles.make_sentence_roles
    made = make(documents_folder, tmp_path / "here", held_out_fraction=0.3)
    store = upath.UPath("memory://roles")
    for path in sorted(documents_folder.iterdir()):
        (store / "documents" / path.name).write_bytes(path.read_bytes())
    address = "memory://roles/made"
    assert make("memory://roles/documents", address, held_out_fraction=0.3) == made
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        assert (store / "made" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_texts_that_tell_the_labels_are_refused(documents_folder, tmp_path):
    labelled = shutil.copytree(documents_folder, tmp_path / "documents")
    manifest = json.loads((labelled / "manifest.json").read_text())
    assert manifest["settings"]["section_labels"] is False
    manifest["settings"]["section_labels"] = True
    (labelled / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="documents without --section_labels"):
        sentence_roles.make_sentence_roles(labelled, tmp_path / "roles")


def test_files_of_others_stay(documents_folder, tmp_path):
    (tmp_path / "dev.tsv").write_text("precious")
    with pytest.raises(DataError, match=r"dev.tsv is there, and not of this command: .*--overwrit"):
        sentence_roles.make_sentence_roles(documents_folder, tmp_path, held_out_fraction=0.3)
    assert (tmp_path / "dev.tsv").read_text() == "precious"
    make = sentence_roles.make_sentence_roles
    made = make(documents_folder, tmp_path, held_out_fraction=0.3, overwrite=True)
    assert made == make(documents_folder, tmp_path, held_out_fraction=0.3)


def test_the_command_teaches(command):
    assert "python -m data_prep.sentence_roles --doc" in command("sentence_roles", "--help").stdout
