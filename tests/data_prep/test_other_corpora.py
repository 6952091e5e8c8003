"""The documents stage on corpora that are no articles, beside PubMed's citations."""

import bz2
import gzip
import json
import re

import pytest

from data_prep import corpus_report, documents
from data_prep.readers import input_files
from data_prep.running import pipeline
from data_prep.selection import document_shards
from tests.data_prep.other_corpora import NOTES, PLAIN, WIKI_2, WIKI_3
from tests.data_prep.pubmed_articles import article, article_set
from tfbio.base.document_records import read_documents
from tfbio.base.errors import UserError

SETTINGS = documents.DocumentSettings(
    sentence_splitter="scispacy", duplicates="exact", shard_megabytes=0.001
)
MICE = [f"Mouse {number} was fed once more, and weighed on day {number}." for number in range(40)]
ONE_WORKER = pipeline.Runner(workers=1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Returns the --input of a corpus of all kinds: a folder, and a glob of plain text."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "AA").mkdir()
    (folder / "AB").mkdir()
    (folder / "AA" / "wiki_00").write_text(WIKI_3, encoding="utf-8")
    (folder / "AB" / "wiki_00.bz2").write_bytes(bz2.compress((WIKI_2 + "{\n").encode()))
    (folder / "NOTEEVENTS.csv.gz").write_bytes(gzip.compress(NOTES.encode()))
    # Two documents are in both files.
    (folder / "a.txt").write_text("\n\n".join([PLAIN, *MICE]))
    (folder / "b.txt.gz").write_bytes(gzip.compress(f"Alone it is.\n\n{PLAIN}".encode()))
    article_set(folder / "a.xml", article(1, "one"))
    return [str(folder), f"{folder}/*.txt", f"{folder}/*.txt.gz"]


@pytest.fixture(scope="module")
def made(corpus, tmp_path_factory):
    """Returns the documents of the corpus: the folder, and its manifest."""
    output = tmp_path_factory.mktemp("made") / "documents"
    paths = input_files.find_files(corpus)
    return output, documents.make_documents(paths, output, SETTINGS, runner=ONE_WORKER)


def test_every_text_is_counted(made):
    output, manifest = made
    counts = manifest.counts
    kinds = ("citation", "wikipedia_page", "clinical_note", "plain_text")
    assert [counts[kind] for kind in kinds] == [1, 3, 4, 45]
    assert counts["left_out"] == {"without_text": 1, "marked_as_error": 1, "exact_duplicate": 2}
    assert counts["documents"] == 49 and counts["bad_parts"] == 1
    assert manifest.problems == ["wiki_00.bz2: line 2: it is not a whole JSON object."]
    lines = [json.loads(x) for x in (output / "left_out.jsonl").read_text().splitlines()]
    found = [(line["file"], line["reason"]) for line in lines if "dup" not in line["reason"]]
    assert sorted(found) == [
        ("NOTEEVENTS.csv.gz", "marked_as_error"),
        ("wiki_00", "without_text"),
        ("wiki_00.bz2", "bad_part"),
    ]
    result = {document.id: document for document in read_documents(output)}
    assert len(result) == 49
    aspirin = result["wiki:https://en.wikipedia.org/wiki?curid=12"]
    assert aspirin.sentences[:3] == [
        "Aspirin, also known as acetylsalicylic acid (ASA), is a drug.",
        "It reduces pain & fever (p < 0.05).",
        "It was made by Hoffmann in 1897 – in Germany.",
    ]


def test_words_of_notes_are_counted_by_category(made, tmp_path):
    output, manifest = made
    notes = [d for d in read_documents(output) if d.id.startswith("mimic:")]
    expected = {d.sections[0]: len(" ".join(d.sentences).split()) for d in notes}
    assert manifest.counts["words_by_category"] == expected
    assert expected.keys() == {"Discharge summary", "Nursing/other", "Physician"}
    measured = corpus_report.measure(output)["words"]
    assert measured["clinical notes"].sum() == sum(expected.values())
    assert {kind: len(words) for kind, words in measured.items()} == {
        "abstracts": 1,
        "full texts": 0,
        "pages of Wikipedia": 2,
        "clinical notes": 3,
        "plain texts": 43,
    }


def test_the_commands_print_the_words_by_category(command, corpus, made, files_of, tmp_path):
    inputs = [f"--input={path}" for path in corpus]
    flags = ["--sentence_splitter=scispacy", "--duplicates=exact"]
    flags += ["--shard_megabytes=0.001", "--workers=2"]
    done = command("documents", *inputs, *flags, f"--output={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    words = made[1].counts["words_by_category"]
    printed = re.search("^words of clinical notes by category: (.*)$", done.stdout, re.M)[1]
    assert printed.startswith(f"{words['Discharge summary']} Discharge summary, ")
    # Any number of workers writes the same bytes.
    assert files_of(tmp_path / "out") == files_of(made[0])
    path = corpus_report._write_report(made[0], tmp_path / "report")
    report = path.read_text()
    assert f"by category: {printed}." in report and "| clinical notes | 4 |" in report


def test_a_run_that_was_stopped_ends_with_the_same_bytes(corpus, made, files_of, tmp_path):
    paths, output = input_files.find_files(corpus), tmp_path / "out"
    write, written = document_shards.write, []

    def write_two(*args, **kwargs):
        if len(written) == 2:
            raise KeyboardInterrupt("stop")
        written.append(args)
        write(*args, **kwargs)

    with pytest.raises(BaseException, match="stop"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_shards, "write", write_two)
        documents.make_documents(paths, output, SETTINGS, runner=ONE_WORKER)
    assert len(list(output.glob("documents-*"))) == 2
    documents.make_documents(paths, output, SETTINGS, runner=ONE_WORKER)
    assert files_of(output) == files_of(made[0])


def test_text_files_in_a_folder_must_be_named(tmp_path, capsys):
    (tmp_path / "README.txt").write_text("About these files.")
    with pytest.raises(UserError, match=r"holds no .*NOTEEVENTS.csv; name files of plain text"):
        input_files.find_files([str(tmp_path)])
    for name in ("wiki_00", "wiki_01.bz2", "NOTEEVENTS.csv", "ADMISSIONS.csv", "a.xml"):
        (tmp_path / name).touch()
    found = input_files.find_files([str(tmp_path)])
    assert [path.rpartition("/")[2] for path in found] == [
        "NOTEEVENTS.csv",
        "a.xml",
        "wiki_00",
        "wiki_01.bz2",
    ]
    assert "files of other kinds are skipped: 1 of .csv, 1 of .txt" in capsys.readouterr().out
