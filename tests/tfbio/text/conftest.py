"""A vocabulary and texts for the tests of tokenizers."""

import numpy as np
import pytest

from tests import reference
from tfbio.text import tokenization

# What no tokenizer may stumble over, beside the real texts.
MARKS = "-\u0301a \u0301b c\u0301\u0327d e\u0327\u0301f (\u0338)=\u0338"
LONG = "A" * 100 + " " + "b" * 101 + " " + "\u00e9" * 101
PRIVATE = "\x00nul \ufffd replaced \ue000private"
AWKWARD = [
    "",
    " ",
    "  two  spaces ",
    "tab\tand\nlines\r\n",
    "a\x1cb\x1fc\x85d\x0be\x0cf",  # whitespace to Python; BERT removes it, and joins
    "a\u00a0b\u2009c\u2028d\u3000e\u200bf\ufeffg\u00adh",
    MARKS,
    "\u212b \u2260 \ufb01n \u0130stanbul stra\u00dfe \u00b5g/ml \u03a3\u03c3",
    "IL-2R\u03b1\u2013CD25+ (p<0.05), 5''-OH; \u201cquoted\u201d",
    "\u4e2d\u6587 and\u6587text \uac00\ub098 \U0001d6fd \U0001f600",
    "[MASK] [SEP][PAD] [CLS]x [UNK] <s> </s> <mask> <pad> <unk>",
    LONG,
    PRIVATE,
]
TEXT = "Immunohistochemistry showed hyperphosphorylated tau in 35 neurofibrillary tangles (p<0.05)."


@pytest.fixture(scope="session")
def pubmedbert_vocab():
    """The vocabulary of PubMedBERT."""
    return reference.PUBMEDBERT


@pytest.fixture(scope="session")
def some_texts():
    """Titles and parts of abstracts of 400 real articles of each shipped file."""
    from itertools import islice

    from data_prep.readers import input_files, pubmed

    found = []
    for path in input_files.shipped_files(".xml.gz"):
        for citation in islice(pubmed.read_citations(path), 400):
            found += [citation.title, *(text for *_, text in citation.sections)]
    return found


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


def words_of(encoder, text):
    """The ids of a text, in lists that go on until a token begins a word."""
    ids, _ = encoder([text])
    starts = [i for i in range(1, len(ids)) if encoder.begins_word[ids[i]]]
    return [part.tolist() for part in np.split(ids, starts)]


def tokenizer_of(vocabulary_of_kind, kind, *new_tokens):
    return tokenization.load_tokenizer(vocabulary_of_kind[kind], kind != "byte_bpe", new_tokens)
