"""A package that is not installed is named before the work begins, and nothing is left of it."""

import json
import sys

import pytest

from tfbio import report
from tfbio.base import extras
from tfbio.base.errors import UserError


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    extras.require("json", "matplotlib")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    remedy = r"`pip install 'tfbio\[report\]'` installs it"
    with pytest.raises(UserError, match=rf"matplotlib is not installed: {remedy}\."):
        extras.require("json", "matplotlib")


def test_a_report_without_matplotlib_leaves_no_folder(monkeypatch, tmp_path):
    scores = tmp_path / "run" / "scores.json"
    scores.parent.mkdir()
    scores.write_text(json.dumps({}))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match="matplotlib is not installed"):
        report.write_report([str(scores.parent)], str(tmp_path / "report"))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
