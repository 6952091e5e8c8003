import re

import pytest

from data_prep.readers.problem import Problem
from data_prep.selection import articles, exclusion
from tfbio.base import errors

CITATION = """<PubmedArticle><MedlineCitation><PMID Version="2">5</PMID>
<DateRevised><Year>2021</Year><Month>3</Month><Day>9</Day></DateRevised>
<Article><ArticleTitle>On rats.</ArticleTitle>
<Abstract>
<AbstractText Label="AIM" NlmCategory="OBJECTIVE">We ask.</AbstractText>
<AbstractText Label="RESULTS" NlmCategory="RESULTS">We know now.</AbstractText>
</Abstract><Language>eng</Language><Language>fre</Language>
<PublicationTypeList><PublicationType UI="D016428">Journal Article</PublicationType>
{types}</PublicationTypeList></Article>
<OtherAbstract Type="plain-language-summary" Language="eng">
<AbstractText>We like rats.</AbstractText></OtherAbstract>
<OtherAbstract Type="Publisher" Language="fre"><AbstractText>Nous aimons les rats.</AbstractText>
</OtherAbstract>
</MedlineCitation></PubmedArticle>"""
RETRACTED = '<PublicationType UI="D016441">Retracted Publication</PublicationType>'

FULL_TEXT = """<article article-type="research-article" xml:lang="{language}"><front><article-meta>
<article-id pub-id-type="pmc">77</article-id>{pmid}
<title-group><article-title>On cats</article-title></title-group>
<abstract><p>Cats, in short.</p></abstract></article-meta></front>
<body><sec><title>Methods</title><p>We fed cats.</p><p>They ate.</p>
<fig><caption><p>A cat.</p></caption></fig></sec></body></article>"""


def read(tmp_path, text, **selection):
    path = tmp_path / "a.xml"
    path.write_text(text, encoding="utf-8")
    return list(articles.read(str(path), articles.Selection(**selection), None))


def citation(tmp_path, types="", **selection):
    text = f"<PubmedArticleSet>{CITATION.format(types=types)}</PubmedArticleSet>"
    (result,) = read(tmp_path, text, **selection)
    return result


def full_text(tmp_path, pmid="", language="en", **selection):
    if pmid:
        pmid = f'<article-id pub-id-type="pmid">{pmid}</article-id>'
    return read(tmp_path, FULL_TEXT.format(pmid=pmid, language=language), **selection)


def test_a_citation_is_its_abstract(tmp_path):
    result = citation(tmp_path)
    assert (result.kind, result.key, result.version, result.revised) == ("citation", 5, 2, 20210309)
    (document,) = result.documents
    assert (document.id, document.article, document.source) == ("pmid:5", "pmid:5", "a.xml")
    assert document.title == "On rats."
    assert document.sentences == ["We ask.", "We know now."]
    assert document.sections == ["OBJECTIVE", "RESULTS"]


def test_labels_and_other_abstracts_are_options(tmp_path):
    (document,) = citation(tmp_path, section_labels=True).documents
    assert document.sentences == ["AIM: We ask.", "RESULTS: We know now."]
    _, english = citation(tmp_path, other_abstracts="english").documents
    assert (english.id, english.article) == ("pmid:5#other_abstract1", "pmid:5")
    assert (english.title, english.sentences) == ("", ["We like rats."])
    *_, french = citation(tmp_path, other_abstracts="all").documents
    assert (french.id, french.sentences) == ("pmid:5#other_abstract2", ["Nous aimons les rats."])


def test_an_other_abstract_that_states_no_language_is_english(tmp_path):
    text = CITATION.format(types="").replace(' Language="eng"', "")
    text = f"<PubmedArticleSet>{text}</PubmedArticleSet>"
    (result,) = read(tmp_path, text, other_abstracts="english")
    assert [d.id for d in result.documents] == ["pmid:5", "pmid:5#other_abstract1"]


def test_other_abstracts_are_documents_without_the_main_one(tmp_path):
    def parts(text, **selection):
        (result,) = read(tmp_path, f"<PubmedArticleSet>{text}</PubmedArticleSet>", **selection)
        return [d.id for d in result.documents], dict(result.lacking), result.reason

    first, second = "pmid:5#other_abstract1", "pmid:5#other_abstract2"
    whole = CITATION.format(types="")
    title_only = re.sub("(?s)<Abstract>.*</Abstract>", "", whole)
    lacks = {"pmid:5": "without_text"}
    assert parts(title_only, other_abstracts="all") == ([first, second], lacks, "")
    assert parts(title_only, other_abstracts="english") == ([first], lacks, "")
    assert parts(title_only) == ([], {}, "without_text")
    # The main abstract has five words, the others three and four.
    lacks = {first: "too_short"}
    assert parts(whole, other_abstracts="all", min_words=4) == (["pmid:5", second], lacks, "")
    assert parts(whole, other_abstracts="all", min_words=6) == ([], {}, "too_short")


@pytest.mark.parametrize(
    ("selection", "types", "reason"),
    [
        ({}, "", ""),
        ({}, RETRACTED, "retracted"),
        ({"keep_retracted": True}, RETRACTED, ""),
        ({"languages": ("fre",)}, "", ""),
        ({"languages": ("ger", "spa")}, "", "language"),
        ({"publication_types": ("journal article",)}, "", "publication_type"),
        ({"publication_types": ("Letter",)}, "", ""),
        ({"min_words": 5}, "", ""),
        ({"min_words": 6}, "", "too_short"),
    ],
)
def test_what_is_not_wanted_has_a_reason(tmp_path, selection, types, reason):
    """It has no text, but for that of a retracted article, whose copies are left out, too."""
    result = citation(tmp_path, types, **selection)
    assert (result.reason, len(result.documents)) == (reason, reason in ("", "retracted"))


@pytest.mark.parametrize(
    ("selection", "article_type", "reason"),
    [
        ({}, "research-article", ""),
        ({}, "retracted-article", "retracted"),
        ({"keep_retracted": True}, "retracted-article", ""),
        ({"publication_types": ("Letter",)}, "letter", "publication_type"),
        ({"publication_types": ("Letter",)}, "research-article", ""),
    ],
)
def test_a_full_text_that_is_not_wanted_has_a_reason(tmp_path, selection, article_type, reason):
    """Its abstract and its body have it, and their text only if it is a retracted article's."""
    text = FULL_TEXT.format(pmid="", language="en").replace("research-article", article_type)
    results = read(tmp_path, text, **selection)
    expected = (reason, reason in ("", "retracted"))
    assert [(x.reason, len(x.documents)) for x in results] == [expected] * 2


def test_ids_exclude_what_has_them(tmp_path):
    """PubMed has PMC's number behind the citation; those of references are others' numbers."""
    (tmp_path / "ids.txt").write_text("PMC77\n")
    excluded = exclusion.load([str(tmp_path / "ids.txt")])
    ids = "<ArticleIdList><ArticleId IdType='pmc'>{}</ArticleId></ArticleIdList>"
    own, other = ids.format("PMC77"), ids.format("PMC78")
    for data, reason in (
        (own, "excluded_by_id"),
        (other, ""),
        (f"<ReferenceList><Reference>{own}</Reference></ReferenceList>{other}", ""),
        (f"<ReferenceList><Reference>{own}</Reference></ReferenceList>", ""),
    ):
        text = CITATION.format(types="").replace(
            "</PubmedArticle>", f"<PubmedData>{data}</PubmedData></PubmedArticle>"
        )
        (tmp_path / "a.xml").write_text(f"<PubmedArticleSet>{text}</PubmedArticleSet>")
        # Its copies are looked for, also if it is left out for its language.
        selection = articles.Selection(languages=("ger",) if reason else ())
        (result,) = articles.read(str(tmp_path / "a.xml"), selection, excluded)
        assert (result.reason, len(result.documents)) == (reason, 1), data
        assert result.pmcid == (77 if data == own else 78 if other in data else 0)
    (tmp_path / "a.xml").write_text(FULL_TEXT.format(pmid="", language="en"))
    results = list(articles.read(str(tmp_path / "a.xml"), articles.Selection(), excluded))
    assert [(x.reason, len(x.documents)) for x in results] == [("excluded_by_id", 1)] * 2


def test_a_full_text_is_an_abstract_that_gives_way_and_a_body(tmp_path):
    abstract, body = full_text(tmp_path, pmid=5)
    assert (abstract.kind, abstract.key, abstract.version) == ("abstract", 5, 0)
    assert abstract.documents[0].id == "pmid:5"
    assert (body.kind, body.key, body.version) == ("body", 5, 0)
    (document,) = body.documents
    assert (document.id, document.article) == ("pmid:5#body", "pmid:5")
    assert document.title == "On cats"
    assert document.sentences == ["We fed cats.", "They ate."]
    assert document.sections == ["Methods", "Methods"]

    abstract, body = full_text(tmp_path)
    assert abstract.key == body.key == 1 << 62 | 77
    assert [d.id for c in (abstract, body) for d in c.documents] == [
        "pmcid:PMC77",
        "pmcid:PMC77#body",
    ]
    assert abstract.pmcid == body.pmcid == 77
    (abstract,) = full_text(tmp_path, full_text=False)
    assert abstract.documents[0].sentences == ["Cats, in short."]


@pytest.mark.parametrize(
    "pmid", ["27114x", "N/A", "1e5", "-5", "+7", "1_000", "٥٥", "0", "000", "1234567890123"]
)
def test_what_is_no_pmid_is_none(tmp_path, pmid):
    """It ends no run, is no id, and is not the key that other articles have."""
    for result in full_text(tmp_path, pmid=pmid):
        assert result.key == 1 << 62 | 77
        assert result.documents[0].article == "pmcid:PMC77"
    text = f"<PubmedArticleSet>{CITATION.format(types='')}</PubmedArticleSet>"
    (result,) = read(tmp_path, text.replace(">5</PMID>", f">{pmid}</PMID>"))
    assert result.reason == "without_id" and not result.documents
    assert result.key > 1 << 40


def test_full_texts_without_a_valid_id_do_not_share_a_key(tmp_path):
    ids = '<article-id pub-id-type="pmid">N/A</article-id>'
    ids += '<article-id pub-id-type="doi">none</article-id>'
    keys = []
    for words in ("We fed cats.", "We fed mice."):
        text = FULL_TEXT.format(pmid=ids, language="en").replace(">77<", ">PMC0<")
        abstract, body = read(tmp_path, text.replace("We fed cats.", words))
        assert abstract.key == body.key and abstract.id.startswith("file:a.xml:")
        keys.append(body.key)
    assert keys[0] != keys[1] and min(keys) > 1 << 63


def test_a_doi_is_the_id_without_other_numbers(tmp_path):
    """A "#" would divide the id of the article from the name of a part."""
    doi = '<article-id pub-id-type="doi">10.1/x#y</article-id>'
    text = FULL_TEXT.format(pmid=doi, language="en").replace(">77<", "><")
    abstract, body = read(tmp_path, text)
    assert (abstract.id, body.id) == ("doi:10.1/x%23y", "doi:10.1/x%23y#body")
    assert abstract.key == body.key > 1 << 63


def test_full_texts_of_a_set_without_ids_are_articles_of_their_own(tmp_path):
    text = FULL_TEXT.format(pmid="", language="en").replace(">77<", "><")
    other = text.replace("fed cats", "fed mice")
    results = read(tmp_path, f"<pmc-articleset>{text}{other}</pmc-articleset>")
    names = [d.article for c in results for d in c.documents]
    assert names[0] == names[1] != names[2] == names[3]
    assert [name.rpartition(":")[0] for name in names[::2]] == ["file:a.xml%231", "file:a.xml%232"]


def test_one_article_has_one_id(tmp_path):
    assert full_text(tmp_path, pmid="0055")[0].documents[0].id == "pmid:55"
    text = f"<PubmedArticleSet>{CITATION.format(types='')}</PubmedArticleSet>"
    (result,) = read(tmp_path, text.replace(">5</PMID>", ">0055</PMID>"))
    assert (result.key, result.id, result.documents[0].id) == (55, "pmid:55", "pmid:55")


def test_titles_of_sections_and_captions_are_options(tmp_path):
    _, body = full_text(tmp_path, section_labels=True, captions=True)
    assert body.documents[0].sentences == ["Methods: We fed cats.", "They ate.", "A cat."]


def test_languages_of_full_texts_have_medlines_codes(tmp_path):
    german = [c.reason for c in full_text(tmp_path, language="de", languages=("eng",))]
    assert german == ["language", "language"]
    assert not full_text(tmp_path, language="de", languages=("ger",))[0].reason
    for code, medline in {"pl": "pol", "tr": "tur", "ro-RO": "rum", "hr": "hrv"}.items():
        assert not full_text(tmp_path, language=code, languages=(medline,))[0].reason, code


def test_settings_that_make_no_sense_are_named():
    with pytest.raises(errors.UserError, match="--languages: 'English' is not a code"):
        articles.Selection(languages=("English",))
    with pytest.raises(errors.UserError, match="other_abstracts=french"):
        articles.Selection(other_abstracts="french")
    for name in ("captions", "tables"):
        with pytest.raises(errors.UserError, match=f"--{name} does not go with --nofull_text"):
            articles.Selection(full_text=False, **{name: True})


def test_a_broken_article_of_a_set_is_a_problem_and_the_rest_is_read(tmp_path):
    import io
    import tarfile

    path = tmp_path / "package.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (
            ("a.nxml", "<article>"),
            ("b.nxml", FULL_TEXT.format(pmid="", language="en")),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    problem, *candidates = articles.read(str(path), articles.Selection(), None)
    assert isinstance(problem, Problem) and problem.name.endswith("a.nxml")
    assert [c.kind for c in candidates] == ["abstract", "body"]


def test_captions_and_tables_in_an_abstract_are_text_only_if_wanted(tmp_path):
    more = (
        "<fig><caption><p>A graph.</p></caption></fig>"
        "<table-wrap><table><tr><td>Ten cats.</td></tr></table></table-wrap>"
    )
    text = FULL_TEXT.format(pmid="", language="en").replace("</abstract>", f"{more}</abstract>")
    for flags, expected in (
        ({}, ["Cats, in short."]),
        ({"captions": True}, ["Cats, in short.", "A graph."]),
        ({"captions": True, "tables": True}, ["Cats, in short.", "A graph.", "Ten cats."]),
    ):
        abstract, _ = read(tmp_path, text, **flags)
        assert abstract.documents[0].sentences == expected
    text = text.replace("<p>Cats, in short.</p>", "")
    assert [c.reason for c in read(tmp_path, text)] == ["without_text", ""]


@pytest.mark.parametrize(
    ("name", "ids", "version"),
    [
        ("PMC77.10.xml", "", 10),
        ("PMC77.xml", "", 0),
        ("1471-2180-11-174.xml", "", 0),
        ("a.xml", '<article-id pub-id-type="pmcid-ver">PMC77.3</article-id>', 3),
    ],
)
def test_a_full_texts_version_is_that_of_its_id_or_file(tmp_path, name, ids, version):
    path = tmp_path / name
    path.write_text(FULL_TEXT.format(pmid=ids, language="en"), encoding="utf-8")
    results = articles.read(str(path), articles.Selection(), None)
    assert [(c.version, c.revised) for c in results] == [(0, version)] * 2
