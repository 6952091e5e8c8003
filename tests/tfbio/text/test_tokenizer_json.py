"""Files of `tokenizer.json` that hold no vocabulary."""

import json

import pytest

from tfbio.text import tokenization, vocabularies
from tfbio.text.special_tokens import VocabularyError


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [
        ({}, "it lacks 'vocab'"),
        ({"model": {"vocab": {"a": 0, "b": 2}}}, "its ids are not 0, 1, 2 and so on"),
        (
            {"model": {"vocab": {"a": 0}, "merges": []}, "pre_tokenizer": {"type": "Metaspace"}},
            "neither WordPiece, nor byte-level BPE, nor Unigram",
        ),
    ],
)
def test_what_tokenizer_json_must_hold(tokenizer, words, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    path = vocabularies.find_vocabulary(tmp_path)
    with pytest.raises(VocabularyError, match=words):
        tokenization.load_tokenizer(path)
