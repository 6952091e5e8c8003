import pytest
from lxml import etree
from pubmed_parser.pubmed_oa_parser import parse_article_meta

from data_prep.readers import pmc_paragraphs
from tests.data_prep.readers.pmc_files import KEPT, SHIPPED, article, content, read, read_one


@pytest.mark.parametrize("name", SHIPPED + KEPT)
def test_sections_and_metadata_are_as_independently_read(real, name):
    tree = etree.fromstring(content(real(name)))
    article = read_one(real(name))
    ids = parse_article_meta(tree)
    assert (article.pmcid, article.pmid) == (ids["pmc"] and f"PMC{ids['pmc']}", ids["pmid"])
    assert article.doi == ids["doi"]
    assert article.title.split() == "".join(tree.find(".//article-title").itertext()).split()
    assert (article.language, article.retracted) == ("en", False)
    assert article.article_type == "research-article"
    # Titles as XPath finds them, of all sections that hold a paragraph of their own.
    titles = []
    for sec in tree.xpath("/article/body//sec[p]"):
        path = [sec, *sec.iterancestors("sec")][::-1]
        titles.append(" > ".join(" ".join(s.xpath("string(title)").split()) for s in path))
    own = [p.section for p in article.body if p.kind == "paragraph"]
    assert set(titles) <= set(own)
    firsts = [own.index(title) for title in dict.fromkeys(titles)]
    assert firsts == sorted(firsts)
    abstract = tree.find("front/article-meta/abstract")
    expected = [" ".join("".join(p.itertext()).split()) for p in abstract.iter("p")]
    if name not in KEPT:  # whose abstract has a formula
        assert [p.text for p in article.abstract] == expected
    assert len(article.abstract) == len(expected)


def ids(**values):
    return "".join(
        f'<article-id pub-id-type="{kind}">{value}</article-id>' for kind, value in values.items()
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ids(pmid="5", pmc="12"), ("PMC12", "5", "")),
        (ids(pmc="PMC12"), ("PMC12", "", "")),
        (ids(pmcaid="99", pmcid="PMC12", pmid="5"), ("PMC12", "5", "")),
        (ids(pmcid="pmc12.2"), ("PMC12", "", "")),
        (ids(pmc="", pmid=" 5\n", doi="10.1/x"), ("", "5", "10.1/x")),
        (ids(pmcaid="99", doi="10.1/x"), ("", "", "10.1/x")),
        (ids(pmc="N/A", pmcid="PMC007", pmid="N/A"), ("PMC7", "", "")),
        (ids(pmc="PMC0", pmid="+7", doi="10.1/x"), ("", "", "10.1/x")),
        (ids(pmc="\u0661\u0662", pmid="0", doi="-"), ("", "", "")),
        ("", ("", "", "")),
    ],
)
def test_ids_that_are_none_are_empty(tmp_path, given, expected):
    article = read(tmp_path, ids=given)
    assert (article.pmcid, article.pmid, article.doi) == expected


def test_metadata(tmp_path):
    more = (
        "<related-article related-article-type='retraction-forward'/>"
        "<abstract abstract-type='graphical'><p>Look.</p></abstract><abstract><title>Abstract"
        "</title><sec><title>Aim</title><p>To see<sup><xref ref-type='bibr'>1</xref></sup>.</p>"
        "</sec></abstract><abstract abstract-type='summary'><p>Simply.</p></abstract>"
        "<trans-abstract><p>Voir.</p></trans-abstract>"
    )
    result = read(tmp_path, more=more, attributes='xml:lang="EN-us" article-type="letter"')
    assert result.abstract == (pmc_paragraphs.Paragraph(("Aim",), "paragraph", "To see."),)
    assert (result.language, result.article_type, result.retracted) == ("en", "letter", True)
    assert (result.title, result.body) == ("A title", ())
    assert read(tmp_path).retracted is False
    # A notice of a retraction is not itself retracted.
    notice = "<related-article related-article-type='retracted-article'/>"
    assert read(tmp_path, more=notice, attributes='article-type="retraction"').retracted is False
    path = tmp_path / "titled.xml"
    titled = article().replace("A title", "RETRACTED: A <sub>title</sub>")
    titled = titled.replace("</article-title>", "</article-title><subtitle>Sub</subtitle>")
    path.write_text(titled + "</article>")
    assert read_one(path).retracted
    assert read_one(path).title == "RETRACTED: A title: Sub"


def test_an_article_whose_type_says_so_is_retracted(tmp_path):
    assert read(tmp_path, attributes='article-type="retracted-article"').retracted


def test_a_structured_abstract_is_the_main_one(tmp_path):
    more = "<abstract abstract-type='graphical'><p>Look.</p></abstract>"
    for kind in ("normal", "structured", "section"):
        own = f"<abstract abstract-type='{kind}'><p>To see.</p></abstract>"
        assert [p.text for p in read(tmp_path, more=more + own).abstract] == ["To see."], kind
