"""The documents stage as a whole: what was read is what was written and what was left out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from data_prep import documents
from data_prep.readers import input_files
from data_prep.running import left_out, pipeline
from data_prep.selection import articles
from tests.fuzz import damage, grammars, harness, seeds
from tfbio.base.document_records import read_documents
from tfbio.formats import safe_xml

SELECTION = articles.Selection(other_abstracts="all")
SETTINGS = documents.DocumentSettings(SELECTION, sentence_splitter="scispacy")


def counts_all(folder):
    """Each text of the input is a document or a line of left_out.jsonl, and so is each bad part."""
    output, texts, bad = folder / "out", 0, 0
    paths = input_files.find_files([str(folder / "in")])
    for path in paths:
        of_file = []
        try:
            of_file.extend(articles.read(path, SELECTION, None))
        except safe_xml.BadFile:
            of_file = [None]
        for item in of_file:
            if isinstance(item, articles.Candidate):
                texts += max(1, len(item.documents)) * (item.kind != articles.DELETION)
            else:
                bad += 1
    manifest = documents.make_documents(paths, output, SETTINGS, runner=pipeline.Runner(workers=1))
    lines = (output / left_out.FILE).read_text().splitlines()
    assert all(json.loads(line).keys() >= {"id", "file", "reason"} for line in lines)
    written = list(read_documents(output))
    assert len({document.id for document in written}) == len(written)
    assert texts + bad == len(written) + len(lines)
    assert sum(manifest.counts["left_out"].values()) + bad == len(lines)


@st.composite
def inputs(draw):
    """A file of citations and one of full texts, with mutations, beside a good one."""
    ids = ("PMID", "article-id")
    citations = [
        draw(grammars.xml_elements(draw(st.sampled_from(seeds.citations())), ids, True))
        for _ in range(3)
    ]
    texts = [
        draw(grammars.xml_elements(draw(st.sampled_from(seeds.full_texts())), ids, True))
        for _ in range(2)
    ]
    files = {
        "a.xml": b"<PubmedArticleSet>%s</PubmedArticleSet>" % b"".join(citations),
        "b.xml": b"<articles>%s</articles>" % b"".join(texts),
        "c.nxml": etree.tostring(seeds.full_texts()[0]),
    }
    name = draw(st.sampled_from([*files, ""]))
    if name:
        files[name] = draw(damage.damaged(st.just(files[name])))
    return {f"in/{name}": data for name, data in files.items()}


@given(inputs())
@harness.very_few
def test_counts(files):
    harness.judge(counts_all, files)


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
