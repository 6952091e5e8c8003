"""The reader of HoC: the published files, counted by other means."""

import re

import pytest

from tests import reference
from tests.tfbio.formats.published_corpora import DOCUMENTS, each, raw
from tfbio.formats import hoc
from tfbio.formats.label_sets import HALLMARKS

# The sentences of BLURB's documents, in the files.
HOC_SENTENCES = {"train": 12119, "dev": 1798, "test": 3547}


@pytest.mark.parametrize("name, count", each(DOCUMENTS))
def test_hoc_is_as_published_and_given_back(name, count):
    path = reference.corpus(name)
    examples = hoc.read(str(path))
    assert len({x.document for x in examples}) == count
    if "blurb" in name:
        assert len(examples) == HOC_SENTENCES[path.name.partition(".")[0]]
    assert len(set(re.findall(r"\t(\d+)_s\d+\r?$", raw(path), re.MULTILINE))) == count
    lines = ["labels\tsentence\tindex"]
    for x in examples:
        held = [int(label in x.label) for label in HALLMARKS]
        lines.append(f"{','.join(f'{i}_{one}' for i, one in enumerate(held))}\t{x.text}\t{x.id}")
    # BLUE's files have Windows line ends.
    assert "\n".join(lines) + "\n" == raw(path).replace("\r\n", "\n")
