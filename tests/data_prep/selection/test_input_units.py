"""Units of texts, of inputs made by hand."""

from data_prep.selection import articles, input_units
from tests.data_prep.pubmed_articles import article, article_set
from tfbio.base.document_records import Document


def test_70_000_other_abstracts_of_one_article(tmp_path):
    other = "<OtherAbstract><AbstractText>a</AbstractText></OtherAbstract>" * 70_000
    source = article_set(
        tmp_path / "a.xml",
        article(1, "one").replace("</MedlineCitation>", f"{other}</MedlineCitation>"),
    )
    selection = articles.Selection(other_abstracts="all")
    reader = input_units.Reader(str(tmp_path), selection, "", unit_characters=10**6, max_articles=0)
    (candidate,) = articles.read(source, selection, None)
    ((row, texts, _),) = input_units._units([("a.xml", candidate)], reader)
    assert row["texts"] == len(texts) == 70_001


def test_texts_that_are_left_out_do_not_move_the_end_of_a_unit(tmp_path):
    """They are counted apart, and fill a unit alone."""

    def sizes(*reasons):
        items = [
            ("a.xml", articles.Candidate("citation", f"pmid:{n}", n, 1, 0, reason, (document,)))
            for n, reason in enumerate(reasons, start=1)
        ]
        return [len(rows) for rows, *_ in input_units._units(items, reader)]

    document = Document("pmid:1", "a.xml", "", ["x" * 10], [""])
    reader = input_units.Reader(str(tmp_path), articles.Selection(), "", 20, max_articles=0)
    assert sizes("", "", "", "") == [2, 2]
    assert sizes("retracted", "", "", "", "") == [3, 2]
    assert sizes(*["retracted"] * 5) == [2, 2, 1]
