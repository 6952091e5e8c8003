"""The examples in the docstrings of the Python API run, with a model whose weights are set here."""

import doctest

import pytest

import tfbio
from tfbio.api import loading, results

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, "imatinib", "inhibits", "bcr", "-", "abl", "."]
PUBMED = (
    "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>"
    "Imatinib inhibits BCR-ABL.</ArticleTitle></Article></MedlineCitation></PubmedArticle>"
    "</PubmedArticleSet>"
)


def write_tagger(folder):
    """Writes a BERT for which the word "imatinib", and no other, begins a chemical.

    Its layer adds nothing to the embeddings: those of "imatinib" have a sign, the others the other.
    """
    import torch
    import transformers

    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=64,
        id2label={0: "O", 1: "B-Chemical", 2: "I-Chemical"},
        label2id={"O": 0, "B-Chemical": 1, "I-Chemical": 2},
    )
    model = transformers.BertForTokenClassification(config)
    sign = torch.tensor([1.0, -1.0, 1.0, -1.0])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
        model.bert.embeddings.word_embeddings.weight[:] = -sign
        model.bert.embeddings.word_embeddings.weight[WORDS.index("imatinib")] = sign
        model.classifier.weight[0], model.classifier.weight[1] = -sign, sign
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    write_tagger(folder / "out" / "bc5cdr_chem")
    (folder / "pubmed.xml").write_text(PUBMED, encoding="utf-8")
    return folder


@pytest.mark.parametrize("module", [loading, results])
def test_the_examples_run(module, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {"tfbio": tfbio, "model": tfbio.load("out/bc5cdr_chem")} | vars(module)
    tests = [x for x in doctest.DocTestFinder().find(module, extraglobs=names) if x.examples]
    assert len(tests) >= 3
    for test in tests:
        result = doctest.DocTestRunner().run(test)
        assert result.attempted and not result.failed, test.name
    if module is loading:
        assert "Imatinib</mark>" in (folder / "entities.html").read_text(encoding="utf-8")


def test_what_the_api_offers_has_an_example():
    """Else the reference lacks it."""
    offered = [loading.load, loading.read, results.Entity, results.Label, results.Answer]
    offered += [loading.Model.__call__, loading.Model.embed, loading.Model.write]
    assert not [x.__qualname__ for x in offered if ">>> " not in x.__doc__]
