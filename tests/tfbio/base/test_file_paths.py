"""Paths and addresses of files, for this process and others."""

import pytest

from tfbio.base import errors, file_paths


def test_paths_for_other_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert file_paths.absolute("x") == str(tmp_path / "x")
    assert file_paths.absolute("gs://bucket/x") == "gs://bucket/x"


def test_unknown_stores_are_named():
    with pytest.raises(errors.UserError, match="nosuch://bucket/x cannot be used: .*nosuch"):
        file_paths.at("nosuch://bucket/x")
