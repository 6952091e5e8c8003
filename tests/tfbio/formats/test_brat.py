"""brat's files, against the `bioc` package."""

import os
import re

import pytest
from bioc import brat

from tests.tfbio.formats.conftest import EMPTY, odd
from tfbio.formats import annotated_documents
from tfbio.formats import annotation_formats as formats
from tfbio.formats.annotated_documents import Document, Entity, Passage


def test_brat_has_the_text_and_its_entities(tmp_path, ncbi_gold):
    annotated = [odd(), EMPTY, *ncbi_gold]
    formats.write(str(tmp_path / "brat"), "brat", annotated)
    for document, entities in annotated:
        text = (tmp_path / "brat" / f"{document.id}.txt").read_bytes().decode()
        assert text == document.text
        with open(tmp_path / "brat" / f"{document.id}.ann", encoding="utf-8", newline="\n") as file:
            read = brat.loads(text, file.read())
        assert len(read.annotations) == len(entities)
        for annotation, (kind, start, end, _) in zip(read.entities, entities, strict=True):
            assert annotation.type == kind
            parts = [(x.begin, x.end) for x in sorted(annotation.locations)]
            assert (parts[0][0], parts[-1][1]) == (start, end)
            assert "\n" not in "".join(text[a:b] for a, b in parts)
            spoken = " ".join(text[a:b] for a, b in parts).replace("\t", " ")
            assert annotation.text == spoken


def test_a_file_of_brat_s_that_the_disk_has_no_room_for_is_named(tmp_path, largest_file):
    annotated = [(Document("1", "x" * 100_000, (Passage(0, 100_000, ""),)), [])]
    with largest_file(50_000), pytest.raises(OSError) as error:
        formats.write(str(tmp_path / "brat"), "brat", annotated)
    assert re.fullmatch(rf"{tmp_path}/brat\.\w+\.tmp/1\.txt", error.value.filename)
    assert not list(tmp_path.iterdir())


def test_brat_files_replace_others_when_all_are_there(tmp_path):
    folder = tmp_path / "brat"
    folder.mkdir()
    before = ["annotation.conf", "mine.txt", "old.ann", "old.txt"]
    for name in before:
        (folder / name).write_text("x")
    with pytest.raises(ZeroDivisionError):
        formats.write(str(folder), "brat", (1 / 0 for _ in "x"))
    assert sorted(os.listdir(folder)) == before and os.listdir(tmp_path) == ["brat"]
    # A text without annotations is of no earlier run.
    formats.write(str(folder), "brat", [odd()])
    after = ["annotation.conf", "mine.txt", "odd.ann", "odd.txt"]
    assert sorted(os.listdir(folder)) == after
    mine = Document("mine", "a", ()), []
    with pytest.raises(annotated_documents.FormatError, match="/mine.txt is a text without anno"):
        formats.write(str(folder), "brat", [odd(), mine])
    assert sorted(os.listdir(folder)) == after and (folder / "mine.txt").read_text() == "x"
    # Of a folder that is not there nothing appears before all is there.
    annotated = (odd() if n < 2 else 1 / 0 for n in range(3))
    with pytest.raises(ZeroDivisionError):
        formats.write(str(tmp_path / "new"), "brat", annotated)
    assert os.listdir(tmp_path) == ["brat"]
    too_long = Document("\u00e9" * 50, "a", ()), []
    with pytest.raises(
        annotated_documents.FormatError, match="--format=brat: the id .*too long for the name"
    ):
        formats.write(str(tmp_path / "new"), "brat", [too_long])
    assert os.listdir(tmp_path) == ["brat"]


def test_in_place_of_a_link_its_folder_has_the_new_files(tmp_path, monkeypatch):
    """It may be on another file system than the link, and files are renamed on one alone."""
    real, link, moved = tmp_path / "disk" / "brat", tmp_path / "brat", []
    real.mkdir(parents=True)
    link.symlink_to(real)
    for name in ("old.ann", "old.txt"):
        (real / name).write_text("x")
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: moved.append(paths) or replace(*paths))
    formats.write(str(link), "brat", [odd()])
    assert link.is_symlink() and sorted(os.listdir(real)) == ["odd.ann", "odd.txt"]
    assert {os.path.dirname(os.path.dirname(source)) for source, _ in moved} == {str(real)}


def test_types_and_names_of_files_are_words_of_brat_s(tmp_path):
    """A blank in a type would begin the offsets, and a DOI as an id another folder."""
    document = Document("10.1234/a b", "T cells", (Passage(0, 7, ""),))
    formats.write(str(tmp_path), "brat", [(document, [Entity("Cell type", 0, 7)])])
    assert sorted(os.listdir(tmp_path)) == ["10.1234%2Fa b.ann", "10.1234%2Fa b.txt"]
    assert (tmp_path / "10.1234%2Fa b.ann").read_text() == "T1\tCell_type 0 7\tT cells\n"
