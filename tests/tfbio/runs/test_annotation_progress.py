"""The line of progress of an annotation, on a clock of the test's."""

import gzip
import io

import pytest

from tfbio.runs import annotation_progress
from tfbio.runs.annotated_file import Job
from tfbio.runs.annotation_progress import AnnotationProgress


@pytest.fixture
def clock(monkeypatch):
    """A clock that shows `now[0]`."""
    now = [100.0]
    monkeypatch.setattr(annotation_progress.time, "monotonic", lambda: now[0])
    return now


def test_files_documents_and_the_time_left_are_shown(clock, tmp_path, capsys):
    path = tmp_path / "a.xml.gz"
    path.write_bytes(gzip.compress(b"<PubmedArticle></PubmedArticle>" * 50, mtime=0))
    size = path.stat().st_size
    jobs = [Job(str(path), size, "", "jsonl", False)]
    jobs += [Job(f"{name}.xml.gz", size, "", "jsonl", False) for name in "bcd"]
    progress = AnnotationProgress(jobs, 6)
    clock[0] = 120.0
    progress.start()
    clock[0] = 130.0
    # 200 documents by the beginning of the first file: 190 are left.
    progress.at(jobs[0], 10)
    clock[0] = 150.0
    progress.at(jobs[1], 20)
    progress.at(jobs[0], 25)
    progress.finished(jobs[0], 40)
    assert progress.text() == "60 documents | 2.0 documents/s | 0:00:50 left"
    progress.lost(jobs[1])  # which leaves two files of 40 documents
    assert progress.text() == "40 documents | 1.3 documents/s | 0:01:00 left"
    progress.finished(jobs[2], 0)
    clock[0] = 160.0
    progress.finished(jobs[3], 40)
    assert progress.documents == 80
    progress.close()
    assert capsys.readouterr().out == (
        "annotation | 6/10 files | 10 documents | 1.0 documents/s | 0:03:10 left\n"
        "annotation | 6/10 files | 30 documents | 1.0 documents/s | 0:02:50 left\n"
        "annotation | 9/10 files | 80 documents | 2.0 documents/s | 0:00:00 left\n"
    )


def test_other_files_have_no_time_left_before_one_is_done(clock, tmp_path):
    (tmp_path / "a.txt").write_text("A text.")
    jobs = [Job(str(tmp_path / name), 7, "", "jsonl", False) for name in ("a.txt", "gone.txt")]
    progress = AnnotationProgress(jobs, 0)
    clock[0] = 110.0
    progress.at(jobs[0], 1)
    assert progress.text() == "1 documents | 0.1 documents/s"
    progress.finished(jobs[0], 1)
    assert progress.text() == "1 documents | 0.1 documents/s | 0:00:10 left"


def test_an_empty_text_that_is_done_tells_nothing_of_the_time_left(clock):
    jobs = [Job("a.txt", 7, "", "jsonl", False), Job("empty.txt", 0, "", "jsonl", False)]
    progress = AnnotationProgress(jobs, 0)
    clock[0] = 110.0
    progress.finished(jobs[1], 1)
    assert progress.text() == "1 documents | 0.1 documents/s"


def test_a_terminal_has_a_bar(clock, monkeypatch, capsys):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(annotation_progress.sys, "stderr", terminal)
    jobs = [Job("a.txt", 7, "", "jsonl", False)]
    progress = AnnotationProgress(jobs, 1)
    clock[0] = 110.0
    progress.finished(jobs[0], 5)
    progress.close()
    assert "annotation 2/2 files" in terminal.getvalue()
    assert "5 documents | 0.5 documents/s | 0:00:00 left" in terminal.getvalue()
    assert not capsys.readouterr().out
