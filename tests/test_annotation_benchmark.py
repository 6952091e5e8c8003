"""`benchmarks.annotation`: the files that it makes, and a tiny run of the command."""

import os

import pytest

import tfbio
from benchmarks import annotation
from tests import fine_tuned
from tfbio.base.errors import UserError


@pytest.fixture(autouse=True)
def _few_articles(pubmed_slice, monkeypatch):
    """The files are a slice of the shipped ones."""
    files = sorted(map(str, pubmed_slice.glob("*.xml.gz")))
    monkeypatch.setattr(annotation.input_files, "shipped_files", lambda end: files)


def test_articles_with_an_abstract_come_again_and_again(tmp_path):
    each = annotation.articles()
    first = next(each)
    number = next(n for n, article in enumerate(each, 1) if article == first)
    assert 100 < number < 300
    assert all("<AbstractText" in next(each) for _ in range(number))
    folder = annotation.write_files(tmp_path / "speed", number + 2, 4)
    read = [[*tfbio.read(str(path))] for path in sorted((tmp_path / "speed").iterdir())]
    assert folder == str(tmp_path / "speed") and len(read) == 4
    assert sum(map(len, read)) == number + 2 and max(map(len, read)) - min(map(len, read)) <= 1
    assert [x.id for x in read[-1][-2:]] == [x.id for x in read[0][:2]]


def test_a_command_is_measured(tmp_path):
    fine_tuned.make(tmp_path / "tagger", "BertForTokenClassification", fine_tuned.TAGS)
    inputs = annotation.write_files(tmp_path / "in", 3, 2)
    found = annotation.annotate(str(tmp_path / "tagger"), inputs, 1, "float32")
    assert found.rate > 0 and found.cpu > 0 and found.peak > 0
    assert found.outputs.keys() == {"pubmed0000.jsonl", "pubmed0001.jsonl"}
    annotation.check_outputs({("float32", 1): [found, found], ("bfloat16", 1): []})
    other = found._replace(outputs=found.outputs | {"pubmed0001.jsonl": "0"})
    with pytest.raises(UserError, match=r"float32: 2 process\(es\) wrote other bytes"):
        annotation.check_outputs({("float32", 1): [found], ("float32", 2): [other]})


def test_the_cpu_hours_of_a_million_are_without_the_start():
    # 1,000 abstracts more than those of the start take 3,600 s more.
    assert annotation.cpu_hours_a_million(3_650, 50, 1_004) == pytest.approx(1_000)


def test_the_tables_are_printed_before_outputs_are_compared(tmp_path, monkeypatch, capsys):
    def annotate(model, inputs, processes, precision):
        return annotation.Measured(10, 50, 100, {"a": str(processes)})

    monkeypatch.setattr(annotation, "annotate", annotate)  # takes minutes
    monkeypatch.setattr(
        "sys.argv", ["", f"--model={tmp_path}", "--abstracts=8", "--memory_abstracts=10"]
    )
    with pytest.raises(UserError, match=r"float32: 2 process\(es\) wrote other bytes"):
        annotation.main()
    printed = capsys.readouterr().out
    # At 10 a second these cores take 100,000 s for a million.
    hours = f"{len(os.sched_getaffinity(0)) * 100_000 / 3600:.1f}"
    assert f"| float32 | 1 | 10.0 | 10.0 to 10.0 | 50 | 50 | 0.0 | {hours} |" in printed
    assert "| bfloat16 | 4 |" in printed and "| 10 | 100 |" in printed
