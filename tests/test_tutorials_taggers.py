"""The tutorials that train, use and publish a tagger, executed one after another."""

import json

import pytest
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2

from tests import notebooks
from tests.html_pages import Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return notebooks.make_folder(tmp_path_factory.mktemp("taggers"))


@pytest.fixture(scope="module")
def tagger(folder):
    """The first tutorial, whose tagger the others use."""
    return notebooks.execute("fine_tune", folder, scores="scores", entity="entity.label")


def tags_of(path):
    """The gold and the predicted tags of each sentence of a file of predictions."""
    sentences = path.read_text(encoding="utf-8").strip().split("\n\n")
    lines = [[line.split("\t") for line in sentence.splitlines()] for sentence in sentences]
    return [[[line[column] for line in each] for each in lines] for column in (1, 2)]


def test_fine_tuning_learns_diseases(tagger, folder):
    scores = tagger.values["scores"]
    # A tagger that knows nothing has 0, the published ones have 0.85 to 0.90.
    assert scores["dev"]["f1"] > 0.3 and tagger.values["entity"] == "Disease"
    gold, predicted = tags_of(folder / "diseases" / "trial_0" / "dev_predictions.tsv")
    theirs = f1_score(gold, predicted, mode="strict", scheme=IOB2)
    assert scores["dev"]["strict_f1"] == pytest.approx(theirs)


def test_pubmed_is_annotated(tagger, folder):
    own = notebooks.execute(
        "annotate_pubmed",
        folder,
        texts="{document.id: document.text for document in documents}",
        titles="titles",
        mentions="mentions.to_dict('records')",
        marked="[[[x.label, x.start, x.end, x.text] for x in each] for each in model(titles)]",
        page="page",
    ).values
    assert len(own["texts"]) == 40 and len(own["mentions"]) > 20
    for mention in own["mentions"]:
        text = own["texts"][mention["pmid"]]
        assert text[mention["start"] : mention["end"]] == mention["text"]
        assert mention["label"] == "Disease" and 0 < mention["score"] <= 1
    articles = Page(own["page"]).articles
    assert [article.text for article in articles] == own["titles"]
    assert [list(map(list, article.entities())) for article in articles] == own["marked"]


def test_the_published_folder_is_complete(tagger, folder):
    own = notebooks.execute(
        "publish",
        folder,
        results="[[x.metric_type, x.metric_value] for x in card.data.eval_results]",
        ours="ours",
        labels="labels",
    ).values
    names = {path.name for path in (folder / "for_transformers").iterdir()}
    assert names >= {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    f1 = json.loads((folder / "diseases" / "trial_0" / "scores.json").read_text())["test"]["f1"]
    assert ["f1", pytest.approx(f1, abs=1e-3)] in own["results"]
    assert sum(label.startswith("B") for label in own["labels"]) >= len(own["ours"]) > 0
