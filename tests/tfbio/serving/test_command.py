"""Tests what the command says before it listens; tests/tfbio/test_serve.py runs it as a process."""

from types import SimpleNamespace

import pytest
from absl import flags

from data_prep.sentences import splitters
from tfbio import serve
from tfbio.api import loading
from tfbio.serving import server
from tfbio.serving.limits import RequestLimits


@pytest.fixture
def served(monkeypatch):
    """Runs the command with a model of nothing: a function of what it predicts."""
    values = flags.FlagValues()
    flags.DEFINE_string("model", "out/m", "", flag_values=values)
    flags.DEFINE_multi_string("set", [], "", flag_values=values)
    values(["tfbio"])
    monkeypatch.setattr(flags, "FLAGS", values)
    monkeypatch.setattr(server.Server, "serve_on", lambda self, opened: None)

    def run(predicts):
        class Model:
            predictor = SimpleNamespace(known=SimpleNamespace(pairs=False))

            def __call__(self, inputs):
                return []

        Model.predicts = predicts
        monkeypatch.setattr(loading, "load", lambda path, settings: Model())
        serve._serve(None, RequestLimits())

    return run


@pytest.mark.parametrize(
    ("predicts", "splitter", "told"),
    [("entities", "pysbd", True), ("entities", "biosenter", False), ("labels", "pysbd", False)],
)
def test_a_splitter_that_is_not_the_best_is_told(
    served, monkeypatch, capsys, predicts, splitter, told
):
    """Else entities differ from those of `tfbio predict`, and nobody knows why."""
    monkeypatch.setattr(splitters, "resolve", lambda name: (splitter, "1.0"))
    served(predicts)
    line = "pysbd 1.0 splits sentences; biosenter makes fewer errors: `pip install 'tfbio[data]'`"
    assert capsys.readouterr().out.startswith(line) is told
