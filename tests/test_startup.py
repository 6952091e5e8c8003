"""`benchmarks.startup`: a command ends after a few steps, and TensorFlow's import is apart."""

import subprocess

import pytest

from benchmarks import startup
from tests import fine_tuned

TINY = [
    "--set=encoder.embedding_size=16",
    "--set=encoder.hidden_size=16",
    "--set=encoder.num_hidden_layers=1",
    "--set=encoder.num_attention_heads=1",
    "--set=encoder.intermediate_size=16",
    "--set=sequence_length=64",
]


@pytest.fixture(scope="module")
def cases(examples_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("startup")
    fine_tuned.make(folder / "tagger", "BertForTokenClassification", fine_tuned.TAGS)
    return startup._cases(str(examples_folder), str(folder / "tagger"), folder)


@pytest.mark.parametrize("name", ["pretraining, small", "prediction, one citation"])
def test_the_import_and_the_rest_are_timed_apart(cases, name, tmp_path):
    command = cases[name] + (TINY if "pretraining" in name else [])
    seconds = startup._first(command, tmp_path / "output")
    *seconds, later = seconds
    assert len(seconds) == 4 and all(each > 0 for each in seconds)
    # The run of pretraining ended after its steps, and prediction at its end.
    if "pretraining" in name:
        assert later > 0
        assert not [*(tmp_path / "output").glob("ckpt*")]
    else:
        assert later == 0
        assert (tmp_path / "output").exists()


def test_a_command_that_fails_is_not_timed(cases, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        startup._first([*cases["prediction, one citation"], "--no_such_flag=1"], tmp_path / "out")


def test_help_is_timed():
    assert all(each > 0 for each in startup._help("predict"))
