"""PubTator in and out, against NCBI's files and the `bioc` package."""

import gzip
import re

from bioc import pubtator

from tests import reference
from tests.tfbio.formats.conftest import EMPTY, ODD, gold, odd, written
from tfbio.formats import pubtator as own_pubtator
from tfbio.formats.annotated_documents import Document, Entity, Passage
from tfbio.runs import document_formats


def test_ncbi_disease_is_read_with_exact_offsets(ncbi, ncbi_gold):
    found = list(gold(ncbi.read_text()))
    assert len(found) == 100 and sum(len(own) for *_, own in found) == 960
    for (name, title, abstract, mentions), (document, _) in zip(found, ncbi_gold, strict=True):
        assert (document.id, document.text) == (name, f"{title}\n{abstract}")
        assert [document.text[a:b] for a, b, _ in document.passages] == [title, abstract]
        assert [document.text[a:b] for a, b, *_ in mentions] == [m for _, _, m, _ in mentions]


def test_what_was_read_is_written_as_ncbi_has_it(ncbi, ncbi_gold, tmp_path):
    """All but the last column, the identifier, which a tagger does not know."""
    text = written(tmp_path / "out.pubtator", "pubtator", ncbi_gold)
    with_identifiers = ncbi.read_text().strip("\n").split("\n")
    for ours, theirs in zip(text.strip("\n").split("\n"), with_identifiers, strict=True):
        if "\t" in theirs:
            ours, theirs = ours.rpartition("\t")[0], theirs.rpartition("\t")[0]
        assert ours == theirs
    assert [d for d, _ in ncbi_gold] == list(document_formats.read(str(tmp_path / "out.pubtator")))


def test_all_of_ncbi_training_is_read(tmp_path):
    path = reference.corpus("ncbi_disease/pubtator/NCBIdisease_TrainDev.PubTator.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = list(gold(file.read()))
    read = list(document_formats.read(str(path)))
    assert len(read) == 693
    others = []
    for (name, title, abstract, mentions), document in zip(found, read, strict=True):
        assert (document.id, document.text) == (name, f"{title}\n{abstract}")
        others += [(m, document.text[a:b]) for a, b, m, _ in mentions if document.text[a:b] != m]
    # The file leaves quotes out of its mentions.
    assert all(mention == text.replace('"', " ") for mention, text in others) and len(others) < 5


def test_pubtator_of_odd_texts_is_read_by_another(tmp_path):
    document, entities = odd()
    text = written(tmp_path / "out.pubtator", "pubtator", [(document, entities), EMPTY])
    one, other = text.split("\n\n")[:2]
    (read,) = pubtator.loads(one)
    # The first line end parts title and abstract.
    blanks, end = re.sub(r"[\s]", " ", ODD), ODD.index("\r\n")
    assert read.text == blanks[:end] + "\n" + blanks[end + 1 :]
    for annotation, (kind, start, end, _) in zip(read.annotations, entities, strict=True):
        assert (annotation.type, annotation.start, annotation.end) == (kind, start, end)
        assert read.text[start:end].replace("\n", " ") == annotation.text
    assert other == "empty|t|\nempty|a|"


def test_pubtator_with_windows_line_ends_and_without_abstract(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(
        b"\xef\xbb\xbf1|t|Naloxone.\r\n1|a|It reverses.\r\n1\t0\t8\tNaloxone\tX\t-\r\n\r\n2|t|No"
    )
    one, two = document_formats.read(str(path))
    assert one.text == "Naloxone.\nIt reverses." and one.text[one.passages[1].start :][:2] == "It"
    assert (two.id, two.text, two.passages) == ("2", "No", (Passage(0, 2, "title"),))


def test_a_text_with_windows_line_ends_has_a_title(tmp_path):
    text = "Naloxone.\r\nIt reverses.\r\n"
    document, entity = Document("1", text, ()), ("Chemical", 0, 8, 1.0)
    lines = "".join(own_pubtator.lines([(document, [entity])])).split("\n")
    assert lines[:3] == ["1|t|Naloxone.", "1|a| It reverses.  ", "1\t0\t8\tNaloxone\tChemical\t-"]


def test_a_line_feed_alone_ends_a_line(tmp_path):
    """Texts of PubMed have other characters at which Python's `splitlines` splits."""
    path = tmp_path / "a.pubtator"
    path.write_bytes("1|t|A\x85B\n1|a|C\u2028D\x0cE\n1\t0\t3\tA\x85B\tX\t-\n".encode())
    (document,) = document_formats.read(str(path))
    assert document.text == "A\x85B\nC\u2028D\x0cE"


def test_a_mention_with_any_line_end_stands_on_one_line():
    text = "".join(f"a{character}" for character in "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029") + "b"
    document = Document("1", text, (Passage(0, len(text), ""),))
    lines = "".join(own_pubtator.lines([(document, [Entity("X", 0, len(text))])])).splitlines()
    blanks, end = re.sub(r"\s", " ", text), text.index("\n")
    mention = f"1\t0\t{len(text)}\t{blanks}\tX\t-"
    assert lines == [f"1|t|{blanks[:end]}", f"1|a|{blanks[end + 1 :]}", mention, ""]


def test_an_id_is_one_word_without_bars(tmp_path):
    """The name of a text file is an id, and a reader takes a bar for the end of it."""
    parts = (Passage(0, 2, "title"), Passage(3, 5, "abstract"))
    annotated = [(Document("my notes|2", "A.\nB.", parts), [Entity("X", 0, 1)])]
    text = written(tmp_path / "a.pubtator", "pubtator", annotated)
    assert text.split("\n")[2] == "my_notes_2\t0\t1\tA\tX\t-"
    expected = [Document("my_notes_2", "A.\nB.", parts)]
    assert list(document_formats.read(str(tmp_path / "a.pubtator"))) == expected


def test_a_title_ends_in_no_blank():
    """Some readers strip it, and all offsets behind it would be one too many."""
    document = Document("1", "A title \nof two lines\nB.", ())
    lines = "".join(own_pubtator.lines([(document, [])])).split("\n")
    assert lines[:2] == ["1|t|A title  of two lines", "1|a|B."]
