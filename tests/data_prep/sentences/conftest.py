"""Gives the sentences of real documents as token ids."""

import itertools

import pytest

from data_prep.readers import input_files, pubmed
from data_prep.sentences import splitters
from tfbio.base.document_records import read_documents
from tfbio.text import wordpiece


@pytest.fixture(scope="module")
def sentences(documents_folder, vocab_file):
    """Returns for each document the ids of its title and sentences."""
    tokenizer = wordpiece.make_tokenizer(wordpiece.read_vocab(vocab_file))
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


@pytest.fixture(scope="module")
def texts():
    """Sections of real abstracts: 200 of the seventies, 200 recent ones."""
    result = []
    for path in input_files.shipped_files(".xml.gz"):
        sections = (text for c in pubmed.read_citations(path) for *_, text in c.sections)
        result += itertools.islice(sections, 200)
    return result


@pytest.fixture(scope="module")
def split():
    return splitters.load("biosenter")
