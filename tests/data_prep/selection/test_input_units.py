"""Units of texts, of inputs made by hand."""

from data_prep.selection import articles, input_units
from tests.data_prep.pubmed_articles import article, article_set


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
