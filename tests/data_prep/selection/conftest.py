"""Gives the tests of exclusion a way to load a text."""

import pytest

from data_prep.selection import exclusion


@pytest.fixture
def load(tmp_path):
    """Loads text as a file of one name."""

    def write(content, name="file.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return exclusion.load([str(path)])

    return write
