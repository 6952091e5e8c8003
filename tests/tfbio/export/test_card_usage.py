"""The code in a tagger's model card finds the entities that tfbio finds."""

import dataclasses
import re
from pathlib import Path

import pytest

import tfbio
from tfbio.base import json_files
from tfbio.export import card_usage, conversion
from tfbio.task_types import finetuning_config, words
from tfbio.task_types.finetuning_files import TrialScores

TAGS = ["O", "B-Drug", "I-Drug", "B-Gene", "I-Gene"]


@pytest.fixture
def card_of(make_trial, tmp_path):
    """Makes a trial and its card; returns a model of tfbio and the code in the card."""

    def make(rule, vocabulary, **changes):
        known = {"words": rule}
        trial, settings = make_trial("tagging", TAGS, known, vocabulary=vocabulary, **changes)
        named = dataclasses.replace(settings, task="own")
        finetuning_config.write(Path(trial).with_name("config.json"), named)
        json_files.write(Path(trial, "scores.json"), TrialScores(dev={"f1": 1}, test={"f1": 1}))
        folder = tmp_path / "converted"
        conversion.to_hugging_face(trial, str(folder))
        code = re.search("```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)[1]
        assert "folder/of/this/file" in code
        model = tfbio.load(trial, {"run.precision": "float32"})
        return model, code.replace("folder/of/this/file", str(folder))

    return make


@pytest.fixture
def texts(sentences):
    """Real sentences that neither tfbio nor a tokenizer divides, in ASCII."""
    found = [x for x in sentences if len(x) < 120 and x.isascii() and ". " not in x]
    assert len(found) > 20
    return found[:20]


def ours(model, text):
    return [(entity.label, entity.start, entity.end) for entity in model(text)]


@pytest.mark.parametrize("rule", ["symbols", "punctuation"])
def test_the_pipeline_finds_the_entities_of_wordpiece(rule, card_of, texts, vocab_file):
    model, code = card_of(rule, vocab_file)
    names = {}
    exec(code, names)

    def theirs(**options):
        found = (names["tagger"](text, **options) for text in texts)
        return [[(x["entity_group"], x["start"], x["end"]) for x in each] for each in found]

    expected = [ours(model, text) for text in texts]
    assert any(expected) and theirs() == expected
    # With the tags of all tokens it would not be so.
    assert theirs(aggregation_strategy="simple") != expected


@pytest.mark.parametrize(
    ("rule", "kind", "scheme"),
    [
        ("blanks", "wordpiece", "BIO"),
        ("symbols", "wordpiece", "BIOUL"),
        ("symbols", "byte_bpe", "BIO"),
        ("punctuation", "unigram", "BIO"),
        ("symbols", "albert", "BIO"),
    ],
)
def test_the_first_tokens_of_words_have_their_tags(
    rule, kind, scheme, card_of, texts, vocabulary_of_kind
):
    model, code = card_of(rule, vocabulary_of_kind[kind], scheme=scheme)
    code, number = re.subn("(?m)^words = .*$", "words = given", code)
    assert number == 1
    any_found = False
    for text in texts[:5]:
        spans = words.spans(text, rule)
        names = {"given": [text[start:end] for start, end in spans]}
        exec(code, names)
        found, before = [], "O"
        for tag, (start, end) in zip(names["tags"].values(), spans, strict=True):
            if tag[0] in "IL" and before[1:] == tag[1:]:
                found[-1] = (*found[-1][:2], end)
            elif tag != "O":
                found.append((tag[2:], start, end))
            before = tag
        assert found == ours(model, text)
        any_found = any_found or bool(found)
    assert any_found


@pytest.mark.parametrize(
    ("changes", "by_pipeline"),
    [
        ({}, True),
        ({"id2label": {"0": "O", "1": "B", "2": "I"}}, False),
        ({"words": "blanks"}, False),
        ({"words": None}, False),
        ({"problem_type": "multi_label_classification"}, None),
        ({"architectures": ["BertForSequenceClassification"]}, None),
    ],
)
def test_the_pipeline_is_shown_where_it_reads_the_tags(changes, by_pipeline, vocab_file, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(vocab_file.read_bytes())
    labels = {str(number): tag for number, tag in enumerate(TAGS)}
    config = {"architectures": ["BertForTokenClassification"], "words": "symbols"}
    said = "\n".join(card_usage.lines(tmp_path, config | {"id2label": labels} | changes))
    assert ('aggregation_strategy="first"' in said) == (by_pipeline is True)
    assert ("is_split_into_words=True" in said) == (by_pipeline is False)
    assert ("one sentence at a time" in said) == (by_pipeline is not None)
