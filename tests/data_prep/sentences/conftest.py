"""Gives the sentences of real documents as token ids."""

import itertools

import pytest

from tfbio.base.document_records import read_documents
from tfbio.text import tokenization


@pytest.fixture(scope="module")
def sentences(documents_folder, vocab_file):
    """Returns for each document the ids of its title and sentences."""
    tokenizer = tokenization.wordpiece(tokenization.read_vocab(vocab_file))
    return [
        [ids for text in (d.title, *d.sentences) if (ids := tokenizer.encode(text).ids)]
        for d in read_documents(documents_folder)
    ]


@pytest.fixture(scope="module")
def ids(sentences):
    """Returns all ids in a row, and the two special tokens."""
    return [i for document in sentences for sentence in document for i in sentence] + ["C", "S"]


@pytest.fixture(scope="module")
def bounds(sentences):
    """Returns for each document where its sentences are in `ids`."""
    lengths = (len(sentence) for document in sentences for sentence in document)
    ends = iter(list(itertools.accumulate(lengths, initial=0)))
    last, result = next(ends), []
    for document in sentences:
        result.append([last, *itertools.islice(ends, len(document))])
        last = result[-1][-1]
    return result
