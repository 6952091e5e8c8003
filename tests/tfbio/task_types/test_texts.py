"""Texts and pairs of texts: how they are cut."""

import pytest

from tfbio.formats.task_examples import LabelledText
from tfbio.task_types import classification
from tfbio.text import tokenization


@pytest.fixture(scope="module")
def tokenizer(vocab_file):
    return tokenization.load_tokenizer(vocab_file)


def truncate_seq_pair(first, second, max_length):
    """`_truncate_seq_pair` of the original BERT code, from its description: one token at a time."""
    while len(first) + len(second) > max_length:
        (first if len(first) > len(second) else second).pop()


@pytest.mark.parametrize("sizes", [(3, 4), (30, 2), (2, 30), (20, 20), (21, 19), (10, 28)])
@pytest.mark.parametrize("length", [8, 16, 33])
def test_pairs_are_cut_as_by_the_original_code(tokenizer, sizes, length):
    words = ["patients", "treated", "with", "the", "cells", "in", "of", "and"]
    texts = [" ".join(words[i % 8] for i in range(size)) for size in sizes]
    first, second = (e.ids for e in tokenizer.encode(texts))
    truncate_seq_pair(first, second, length - 3)
    task_type = classification.Classification(("no", "yes"))
    features = task_type.features([LabelledText("1", texts[0], "yes", texts[1])], tokenizer, length)
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    assert features.input_ids[0].tolist() == [cls_id, *first, sep_id, *second, sep_id]
    expected = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert features.segment_ids[0].tolist() == expected
    assert features.per_window["targets"][0] == 1 and not features.per_token


def test_a_text_alone_has_one_separator(tokenizer):
    task_type = classification.Classification(("a", "b"))
    text = "The patients were treated. " * 9
    (ids,) = tokenizer.encode_words([text])
    whole, cut = (task_type.features([LabelledText("1", text, "b")], tokenizer, n) for n in (99, 9))
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    assert whole.input_ids[0].tolist() == [cls_id, *ids, sep_id]
    assert cut.input_ids[0].tolist() == [cls_id, *ids[:7], sep_id]
    assert not whole.segment_ids[0].any()
