import gzip
import json

import pytest

from data_prep.readers.problem import Problem
from data_prep.selection import articles, exclusion, texts
from tests.data_prep.other_corpora import (
    DISCHARGE,
    NOTES,
    NURSING,
    PLAIN,
    WIKI_2,
    WIKI_3,
    note,
    table,
)
from tests.data_prep.pubmed_articles import article, article_set
from tfbio.base import document_records
from tfbio.base.errors import UsageError
from tfbio.formats.safe_xml import BadFile


def read(path, content, excluded=None, **selection):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(texts.read(str(path), articles.Selection(**selection), excluded))


def ids_and_reasons(candidates):
    return [(candidate.id, candidate.reason) for candidate in candidates]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("wiki_00", WIKI_3, texts.PAGE),
        ("enwiki.jsonl", WIKI_3, texts.PAGE),
        ("enwiki.txt", WIKI_3, texts.PAGE),
        ("notes.csv.gz", gzip.compress(NOTES.encode()), texts.NOTE),
        ("a.txt", PLAIN, texts.PLAIN),
        ("a.TXT.gz", gzip.compress(PLAIN.encode()), texts.PLAIN),
        ("a.txt", "<b> the articles and the <i>article</i>\n", texts.PLAIN),
    ],
)
def test_files_are_known_by_their_content_or_name(tmp_path, name, content, kind):
    result = read(tmp_path / name, content)
    assert {candidate.kind for candidate in result} == {kind}
    assert len({candidate.key for candidate in result}) == len(result)


@pytest.mark.parametrize("name", ["a.xml", "a.txt"])
def test_articles_are_known_whatever_their_name(tmp_path, name):
    path = article_set(tmp_path / name, article(7, "seven"))
    (candidate,) = texts.read(path, articles.Selection(), None)
    assert (candidate.kind, candidate.id) == (articles.CITATION, "pmid:7")


@pytest.mark.parametrize("content", [PLAIN, "{}", "a,b\n1,2\n"])
def test_other_files_are_refused_as_before(tmp_path, content):
    with pytest.raises(BadFile, match="it is not well-formed XML"):
        read(tmp_path / "a.data", content)


def test_a_page_is_a_document_and_a_redirection_is_not(tmp_path):
    aspirin, redirection, problem, disease = read(tmp_path / "wiki_00", WIKI_3 + "{\n" + WIKI_2)
    assert redirection.reason == "without_text" and isinstance(problem, Problem)
    assert aspirin.id == "wiki:https://en.wikipedia.org/wiki?curid=12"
    (document,) = disease.documents
    assert (document.id, document.source) == (disease.id, "wiki_00")
    assert document.title == "Ménière's disease"
    assert len(document.sentences) == len(document.sections) == 2


def test_a_page_without_address_has_its_number_or_is_left_out(tmp_path):
    page = '{"id": "%s", "url": "", "title": "A", "text": "A text."}\n'
    result = read(tmp_path / "wiki_00", page % 5 + page % "")
    assert ids_and_reasons(result) == [("wiki:5", ""), ("wiki_00#2", "without_id")]


def test_notes_are_left_out_for_their_category_or_as_errors(tmp_path):
    path = tmp_path / "NOTEEVENTS.csv"
    ids = ["mimic:10006#174", "mimic:23#175", "mimic:10006#176", "mimic:23#177"]
    reasons = ["", "", "marked_as_error", ""]
    assert ids_and_reasons(read(path, NOTES)) == list(zip(ids, reasons, strict=True))
    chosen = read(path, NOTES, note_categories=("physician", "Nursing/other"))
    reasons[0] = "note_category"
    assert ids_and_reasons(chosen) == list(zip(ids, reasons, strict=True))
    (document,) = chosen[3].documents
    assert document.sections == ["Physician", "Physician"]
    assert document.sentences == ["Assessment: stable.", "Plan: discharge tomorrow."]
    # The notes of a patient are held out together.
    assert document.article == chosen[1].documents[0].article == "mimic:23"
    numbers = table(note("x", "ECG", NURSING), note(5, "ECG", NURSING, subject=""))
    assert ids_and_reasons(read(path, numbers)) == [
        ("NOTEEVENTS.csv#1", "without_id"),
        ("NOTEEVENTS.csv#2", "without_id"),
    ]


def test_marks_are_kept_or_become_their_types(tmp_path):
    path, rows = tmp_path / "NOTEEVENTS.csv", table(note(174, "Discharge summary", DISCHARGE))
    (kept,), (types,) = read(path, rows), read(path, rows, note_marks="type")
    assert "[**Hospital1 18**]" in kept.documents[0].sentences[-1]
    assert "at Hospital, was" in types.documents[0].sentences[-1]
    with pytest.raises(UsageError, match="--note_marks=x: give keep or type"):
        articles.Selection(note_marks="x")


def test_plain_texts_of_files_of_one_name_are_apart(tmp_path):
    (tmp_path / "b").mkdir()
    first = read(tmp_path / "a.txt", PLAIN)
    other = read(tmp_path / "b" / "a.txt", PLAIN.replace("mice", "rats"))
    assert [x.documents[0].sentences for x in first] == [
        ["Of the mice in this trial all were fed.", "It was so."],
        ["Another document begins. It ends."],
    ]
    assert first[0].id.startswith("text:a.txt:1:") and other[0].id.startswith("text:a.txt:1:")
    assert first[0].key != other[0].key and first[1].key == other[1].key
    assert first[0].documents[0].article == first[0].id


def test_documents_are_articles_of_their_own_whatever_the_names(tmp_path):
    """Only a "#" of ours divides an id: those of names are none."""
    ids = [x.documents[0].id for x in read(tmp_path / "notes#0.txt", PLAIN)]
    assert [id_.rpartition(":")[0] for id_ in ids] == [f"text:notes%230.txt:{n}" for n in (1, 2)]
    pages = [json.dumps({"id": str(n), "url": f"x#{n}", "title": "", "text": "A."}) for n in (1, 2)]
    ids += [x.documents[0].id for x in read(tmp_path / "wiki_00", "\n".join(pages))]
    assert ids[2:] == ["wiki:x%231", "wiki:x%232"]
    assert list(map(document_records.article_of, ids)) == ids


def test_all_texts_pass_the_same_checks(tmp_path):
    words = (
        "Of the mice in this trial all were fed with large amounts of cheese and bread each day."
    )
    (tmp_path / "benchmark.txt").write_text(f"{words}\n")
    excluded = exclusion.load([str(tmp_path / "benchmark.txt")])
    page = json.dumps({"id": "1", "url": "", "title": "A", "text": f"So. {words}"})
    for name, content in {
        "a.txt": words,
        "wiki_00": page,
        "NOTEEVENTS.csv": table(note(1, "ECG", words)),
    }.items():
        (candidate,) = read(tmp_path / name, content, excluded)
        assert (candidate.reason, candidate.documents) == ("excluded_by_text", ()), name
        (candidate,) = read(tmp_path / name, content, min_words=50)
        assert (candidate.reason, candidate.documents) == ("too_short", ()), name
