"""The benchmark that compares the ways to find entities: what differs is found, but for ties."""

import numpy as np
import pytest

import tfbio
from benchmarks import entity_comparison, every_way
from benchmarks.entity_comparison import Entity, Tie
from tests import fine_tuned
from tfbio.base.errors import UserError
from tfbio.export import onnx_model, saved_model
from tfbio.text.in_graph import tokenization as graph_tokenization
from tfbio.weights import fine_tuned as tuned_models

# In "Aspirin helps; lithium too." of a text that begins with "x ".
FOUND = [[], [Entity(2, 9, "Drug", 0.9), Entity(17, 24, "Drug", 0.8)]]


def changed(**fields):
    """The same with other fields of the last entity."""
    return [FOUND[0], [FOUND[1][0], FOUND[1][1]._replace(**fields)]]


def compared(found, ties=()):
    """Compares, and checks, as the command does."""
    own = entity_comparison.compare("way", found, FOUND, ties, 1.0)
    entity_comparison.check([own], {"way": found}, FOUND, ["11", "22"])
    return own


def test_ways_in_this_process_find_the_same(tmp_path):
    path = str(tmp_path / "tagger")
    fine_tuned.make(path, "BertForTokenClassification", fine_tuned.TAGS)
    model = tfbio.load(path)
    articles = every_way.read_articles(model, 5)
    assert len(articles.texts) == len(set(articles.ids)) == 5 and articles.left_out
    assert articles.ids[2][0] != articles.ids[3][0]  # of a file of 1976, and of 2021
    for sentence in articles.sentences:
        assert (
            sentence.text
            == articles.texts[sentence.text_number][sentence.start :][: len(sentence.text)]
        )
    expected = every_way.by_api(path, articles, tmp_path)
    ways = {"spacy": every_way.by_spacy(path, articles, tmp_path)}
    onnx_model.write(path, str(tmp_path / "onnx"))
    ways["onnx"], near = every_way.by_client(tmp_path / "onnx", articles)
    ties = [tie for tie in near if tie.apart < entity_comparison.CLOSE]
    tokenizer = graph_tokenization.load(tmp_path / "tagger" / "vocab.txt", lower_case=True)
    tuned = tuned_models.read(path)
    served = saved_model._served(tuned, tokenizer, tmp_path / "tagger" / "vocab.txt", 40)
    # Saving the graph would take ten seconds.
    graph = served.functions()["serving_default"].python_function
    ways["saved_model"] = every_way.by_signature(graph, articles)
    assert sum(map(len, expected)) > 20 and not ties
    for name, found in ways.items():
        own = entity_comparison.compare(name, found, expected, ties, 0.0)
        entity_comparison.check([own], ways, expected, articles.ids)
        assert own.entities == sum(map(len, expected)) and not own.differing


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (changed(end=25), r"1 abstracts differ elsewhere than at ties; 22 has only there \[\(17, "),
        (changed(label="Gene"), r"'Gene'\)\], and only by tfbio.load \[\(17, 24, 'Drug'\)\]"),
        ([[], FOUND[1][:1]], r"has only there \[\], and only by tfbio.load \[\(17"),
        ([[], FOUND[1][::-1]], "differ elsewhere"),
        ([[], [*FOUND[1], FOUND[1][1]]], "differ elsewhere"),
        (changed(score=0.8002), "way: a score differs by 2.0e-04"),
        (changed(score=float("nan")), "way: a score differs by nan"),
    ],
)
def test_what_differs_is_found(found, words):
    assert not compared(FOUND).differing
    with pytest.raises(UserError, match=words):
        compared(found)
    # Nor does a tie elsewhere explain it.
    with pytest.raises(UserError, match=words):
        compared(found, [Tie(1, 2, 15, "helps", ("O", "B-Drug"), 1e-5), Tie(0, 0, 99, "", (), 0)])


def test_a_tie_explains_what_differs_there_and_is_listed():
    tie = Tie(1, 15, 28, "lith|ium", ("O", "B-Drug"), 3e-5)
    own = compared([[], FOUND[1][:1]], [tie])
    assert own.differing == [1] and not own.unexplained
    assert list(entity_comparison.table([own]))[-1] == "| way | 1 | 1 | 1 | 0.0e+00 | 1 |"
    lines = list(entity_comparison.table_of_ties([tie], ["11", "22"]))
    assert lines[2:] == ["| 22 | lith\\|ium | O or B-Drug | 3.0e-05 |"]


def test_entities_of_one_precision_are_listed_with_their_margins():
    near = [Tie(1, 15, 28, "lithium", ("O", "B-Drug"), 0.25), Tie(1, 0, 3, "x", ("O", "O"), 0.1)]
    own = [[], [FOUND[1][0], Entity(29, 32, "Drug", 0.5)]]
    text = "x Aspirin helps; lithium too| o|o"
    lines = entity_comparison.table_of_others(own, FOUND, near, ["", text], ["11", "22"])
    assert [*lines][2:] == [
        "| 22 | lithium (Drug) | float32 | 2.5e-01 |",
        "| 22 |  o\\| (Drug) | bfloat16 | more than 1.0 |",
    ]


def test_near_ties_are_the_words_whose_best_logits_are_near():
    sentence = entity_comparison.Sentence(7, 100, "Aspirin helps; lithium")
    spans = [(0, 7), (8, 13), (13, 14), (15, 22)]
    logits = np.array([[1.0, 1.5, -3], [5, 1, 1], [2, 3.001, 0], [0.5, 2, 2.00009]])
    labels = {"0": "O", "1": "B-Drug", "2": "I-Drug"}
    first, last = entity_comparison.near_ties(sentence, spans, logits, labels)
    assert first[:5] == (7, 100, 113, "Aspirin", ("B-Drug", "O"))
    assert last[:5] == (7, 113, 122, "lithium", ("I-Drug", "B-Drug"))
    assert [first.apart, last.apart] == pytest.approx([0.5, 9e-5], rel=1e-6)
