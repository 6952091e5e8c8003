"""The names of outputs, and notes that pass through JSON."""

import dataclasses
import json

import pytest

from tfbio.base.shards import Shard
from tfbio.runs import annotated_file
from tfbio.runs.annotated_file import AnnotatedFile, Job


@pytest.mark.parametrize(
    "path, form, compress, name",
    [
        ("in/pubmed26n0001.xml.gz", "jsonl", False, "pubmed26n0001.jsonl"),
        ("pubmed26n0001.XML.GZ", "jsonl", True, "pubmed26n0001.jsonl.gz"),
        ("oa_comm.PMC000.tar.gz", "bioc", False, "oa_comm.PMC000.xml"),
        ("a.b.txt", "pubtator", True, "a.b.pubtator.gz"),
        ("notes.csv.gz", "html", False, "notes.csv.html"),
        ("records.json.gz", "bioc", False, "records.xml"),
        ("train.parquet", "bigbio", False, "train.jsonl"),
    ],
)
def test_an_output_has_the_name_of_its_input(path, form, compress, name):
    assert annotated_file.output_name(path, form, compress) == name


def test_a_note_passes_through_json():
    shard = Shard("a.jsonl", 3, 100, "00")
    whole = AnnotatedFile("a.xml", 7, shard, {"x": 2}, ["b: it is empty."], path="/in/a.xml")
    bad = annotated_file.bad(Job("/in/b.xml", 7, "b.jsonl", "jsonl", False), "it is not XML.")
    assert (bad.input, bad.bytes, bad.path) == ("b.xml", 7, "/in/b.xml")
    for note in (whole, bad):
        text = json.dumps(dataclasses.asdict(note))
        assert AnnotatedFile.from_json(json.loads(text)) == note
    earlier = dataclasses.asdict(whole)
    del earlier["path"]  # which earlier versions did not note
    assert AnnotatedFile.from_json(earlier) == dataclasses.replace(whole, path="")
    del earlier["output"]
    assert AnnotatedFile.from_json(earlier) is None
