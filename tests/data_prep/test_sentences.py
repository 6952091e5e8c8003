import pytest

from data_prep import documents, pubmed, sentences
from tfbio import cli

TEXT = "We saw S. aureus in Fig. 2. It grew at 37.5 degrees (p < 0.05)."


@pytest.mark.parametrize("name", ["auto", "scispacy"])
def test_abbreviations_do_not_end_sentences(name):
    name, version = sentences.resolve(name)
    assert version
    split = sentences.load(name)
    assert list(split([TEXT, "", "One."])) == [
        ["We saw S. aureus in Fig. 2.", "It grew at 37.5 degrees (p < 0.05)."],
        [],
        ["One."],
    ]


@pytest.mark.parametrize("name", ["auto", "scispacy"])
def test_no_text_is_lost(name):
    citations = pubmed.read_citations(documents.shipped_files()[1])
    texts = [text for _, c in zip(range(50), citations, strict=False) for _, text in c.sections]
    split = list(sentences.load(sentences.resolve(name)[0])(texts))
    assert len(split) == len(texts) > 40
    for text, parts in zip(texts, split, strict=True):
        assert "".join(parts).replace(" ", "") == text.replace(" ", "")
        assert all(part and part == part.strip() for part in parts)


def test_the_model_is_preferred_to_the_rules():
    assert sentences.resolve("auto")[0] == "biosenter"


def test_what_is_not_installed_is_named():
    with pytest.raises(cli.UserError, match="'en_core_sci_xxl' is not installed"):
        sentences.resolve("en_core_sci_xxl")


def test_what_is_no_pipeline_is_named():
    with pytest.raises(cli.UserError, match="'lxml' is not a spaCy pipeline"):
        sentences.load("lxml")
