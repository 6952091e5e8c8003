"""A vocabulary and texts for the tests of tokenizers."""

import numpy as np
import pytest

from tests import reference
from tfbio.text import tokenization


@pytest.fixture(scope="session")
def pubmedbert_vocab():
    """The vocabulary of PubMedBERT."""
    return reference.PUBMEDBERT


def differing(encoder, texts, others):
    """The texts whose ids are not those that another tokenizer gave."""
    ids, offsets = encoder(texts)
    assert ids.dtype == np.int32 and offsets.dtype == np.int64 and len(offsets) == len(texts) + 1
    assert offsets[-1] == len(ids)
    parts = np.split(ids, offsets[1:-1])
    return [
        text
        for text, part, other in zip(texts, parts, others, strict=True)
        if part.tolist() != list(other)
    ]


def tokenizer_of(vocabulary_of_kind, kind, *new_tokens):
    return tokenization.load_tokenizer(vocabulary_of_kind[kind], kind != "byte_bpe", new_tokens)
