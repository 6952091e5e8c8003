import bz2
import gzip
import json
import re

import pytest

from data_prep.readers import wikipedia
from data_prep.readers.problem import Problem
from tests.data_prep.other_corpora import WIKI_2, WIKI_3
from tfbio.formats.safe_xml import BadFile


def read(tmp_path, data):
    (tmp_path / "wiki_00").write_bytes(data if isinstance(data, bytes) else data.encode())
    return list(wikipedia.read_pages(tmp_path / "wiki_00"))


@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress])
def test_pages_of_both_versions(tmp_path, pack):
    aspirin, redirection, disease = read(tmp_path, pack((WIKI_3 + WIKI_2).encode()))
    assert aspirin == (
        "12",
        "https://en.wikipedia.org/wiki?curid=12",
        "Aspirin",
        (
            "Aspirin, also known as acetylsalicylic acid (ASA), is a drug. It reduces pain & fever "
            "(p < 0.05).",
            "It was made by Hoffmann in 1897 – in Germany.",
            "Uses.",
            "Aspirin is used in the treatment of fever, of pain, and of inflammation. It is given "
            "to adults.",
            "Mechanism.",
            "Aspirin inhibits the enzyme cyclooxygenase. So platelets make no more thromboxane A2.",
        ),
    )
    assert redirection == ("13", "https://en.wikipedia.org/wiki?curid=13", "ASA", ())
    # The title, which the text repeats, is no paragraph.
    assert disease.title == "Ménière's disease"
    assert [text[:17] for text in disease.paragraphs] == ["Ménière's disease", "The cause is uncl"]


def test_a_bad_line_is_named_and_the_others_are_read(tmp_path):
    cut = WIKI_3.encode()[:40] + b"\n"
    latin = WIKI_2.encode("latin-1")
    number = b'{"id": 7, "url": "", "title": "A", "text": ["x"]}\n{"id": 7, "title": "A"}\n'
    others = b'garbage\n[1, 2]\n"abc"\nnull\n17\n'
    data = cut + WIKI_3.encode() + b"\n" + latin + number + others + WIKI_2.encode()
    result = read(tmp_path, data)
    assert [item for item in result if isinstance(item, Problem)] == [
        ("line 1", "it is not a whole JSON object."),
        ("line 5", "it is not text in UTF-8."),
        ("line 6", "it is no page: id, url, title and text must be texts."),
        ("line 7", "it is no page: id, url, title and text must be texts."),
        *((f"line {line}", "it is not a whole JSON object.") for line in range(8, 13)),
    ]
    good = [item for item in result if not isinstance(item, Problem)]
    assert good == read(tmp_path, WIKI_3 + WIKI_2)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b'<doc id="12" url="" title="Aspirin">\n', "line 1 is no JSON object: make the file with"),
        (b"", "it holds no page that could be read."),
        (b"{\n", "it holds no page that could be read."),
        (bz2.compress(WIKI_3.encode())[:-9], "the compressed data is damaged or cut short"),
    ],
)
def test_other_files_are_refused(tmp_path, data, sentence):
    with pytest.raises(BadFile, match=re.escape(sentence)):
        read(tmp_path, data)


def test_what_a_file_is_shows_in_its_name_or_its_beginning():
    names = ["wiki_00", "wiki_123", "wiki_00.bz2", "wiki_00.gz"]
    assert all(map(wikipedia.is_name, names))
    assert not any(map(wikipedia.is_name, ["wiki_00.xml", "mywiki_00", "wiki_"]))
    assert wikipedia.is_beginning(WIKI_3.encode())
    assert not wikipedia.is_beginning(json.dumps({"pmid": 1}).encode())
