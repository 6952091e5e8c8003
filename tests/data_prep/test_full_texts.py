"""`data_prep.documents` of full texts, whose citations are in PubMed's files."""

import pytest

from data_prep import documents
from tests.data_prep.pubmed_articles import article, article_set
from tests.data_prep.test_documents import PMC_COPY, left_out_of, make
from tfbio.base.document_records import read_documents


@pytest.mark.parametrize(("partition_bytes", "pmid"), [(64 << 20, 5), (100, 5), (100, 6)])
def test_a_full_text_without_a_pmid_goes_with_the_citation_of_its_pmc_number(
    tmp_path, monkeypatch, partition_bytes, pmid
):
    """It has the citation's id, by which it is held out, is withdrawn and excluded with it."""
    monkeypatch.setattr(documents, "_PARTITION_BYTES", partition_bytes)
    number = "<ArticleIdList><ArticleId IdType='pmc'>PMC77</ArticleId></ArticleIdList>"
    citation = article(pmid, "one").replace(
        "</PubmedArticle>", f"<PubmedData>{number}</PubmedData></PubmedArticle>"
    )
    (tmp_path / "copy.nxml").write_text(PMC_COPY)
    inputs = [
        article_set(tmp_path / "pubmed21n0001.xml", citation, article(4, "another")),
        str(tmp_path / "copy.nxml"),
    ]

    def result(**settings):
        make(inputs, tmp_path / "out", overwrite=True, **settings)
        reasons = {(x["id"], x["file"]): x["reason"] for x in left_out_of(tmp_path / "out")}
        return {d.id: d.source for d in read_documents(tmp_path / "out")}, reasons

    abstract, body = (f"pmid:{pmid}", "copy.nxml"), (f"pmid:{pmid}#body", "copy.nxml")
    source = "pubmed21n0001.xml"
    both = {f"pmid:{pmid}": source, body[0]: body[1], "pmid:4": source}
    assert result() == (both, {abstract: "in_pubmed"})

    (tmp_path / "ids.txt").write_text(f"{pmid}\n")
    exclude = (str(tmp_path / "ids.txt"),)
    why = {(f"pmid:{pmid}", source): "excluded_by_id", body: "excluded_by_id"}
    assert result(exclude=exclude) == ({"pmid:4": source}, {abstract: "in_pubmed"} | why)

    deletion = f"<DeleteCitation><PMID>{pmid}</PMID></DeleteCitation>"
    inputs.append(article_set(tmp_path / "pubmed21n0002.xml", deletion))
    withdrawn = dict.fromkeys([(f"pmid:{pmid}", source), abstract, body], "deleted")
    assert result() == ({"pmid:4": source}, withdrawn)


def test_of_two_copies_that_with_the_smaller_pmid_stays(tmp_path):
    """Also where only PubMed's citation tells the PMID of the one."""
    number = "<ArticleIdList><ArticleId IdType='pmc'>PMC77</ArticleId></ArticleIdList>"
    citation = article(5, "one", "").replace(
        "</PubmedArticle>", f"<PubmedData>{number}</PubmedData></PubmedArticle>"
    )
    pmid = '<article-id pub-id-type="pmid">900</article-id>'
    other = PMC_COPY.replace("77", "78").replace("</article-id>", f"</article-id>{pmid}")
    (tmp_path / "a.nxml").write_text(other)
    (tmp_path / "b.nxml").write_text(PMC_COPY)
    inputs = [
        str(tmp_path / "a.nxml"),
        str(tmp_path / "b.nxml"),
        article_set(tmp_path / "pubmed21n0001.xml", citation),
    ]
    make(inputs, tmp_path / "out")
    assert {d.id for d in read_documents(tmp_path / "out")} == {"pmid:5", "pmid:5#body"}
