"""`scripts/parity.py`: what it prints of differences, and how it ends."""

from types import SimpleNamespace

import pytest

from scripts import parity
from scripts.parity_differences import Difference


@pytest.fixture
def compare(monkeypatch, tmp_path):
    """Runs the command for one kind of data set, whose loss differs by so much."""
    (tmp_path / "config.json").write_text('{"kinds": {"pair": {}}}')
    monkeypatch.setattr(parity, "FLAGS", SimpleNamespace(recording=str(tmp_path), kind=[]))
    monkeypatch.setattr(parity, "Recorded", lambda folder, name: name)

    def compare(value):
        losses = Difference("losses, relative", value, 1e-5, "step 3")
        logits = Difference("logits", 1e-7, 1e-5, "eval0")
        monkeypatch.setattr(parity, "compare", lambda recorded: [losses, logits])
        parity.main([""])

    return compare


def test_what_is_as_recorded_ends_well(compare, capsys):
    compare(1e-5)
    said = capsys.readouterr().out
    assert said.endswith("All as recorded.\n") and "ABOVE" not in said


@pytest.mark.parametrize("value", [1.1e-5, float("nan")])
def test_a_difference_above_its_limit_ends_with_exit_code_1(compare, capsys, value):
    with pytest.raises(SystemExit) as ended:
        compare(value)
    assert ended.value.code == 1
    said = capsys.readouterr().out
    assert said.endswith("1 above their limits: pair: losses, relative\n")
    assert said.count("ABOVE") == 1
