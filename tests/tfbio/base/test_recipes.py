"""Recipes are found by their names, wherever the command runs."""

from pathlib import Path

import pytest

from tfbio.base import recipes
from tfbio.base.config import ConfigError, load
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types.protocols import find_protocol

HPARAMS = Path(__file__).parents[3] / "hparams"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Runs each test in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_recipe_has_a_name():
    paths = sorted(HPARAMS.glob("*.json"))
    assert len(paths) > 20
    for path in paths:
        assert Path(recipes.find_recipe(path.stem)) == path
    assert load(PretrainingConfig, recipes.find_recipe("large")).encoder.hidden_size == 1024


@pytest.mark.parametrize("given", ["", "{}", ' {"seed": 1}', "else.json", "no/such/thing.json"])
def test_what_is_no_name_stays_as_it_is(given):
    assert recipes.find_recipe(given) == given
    assert find_protocol(given, "gad") == given


def test_a_file_comes_before_the_recipe_of_its_name(elsewhere):
    (elsewhere / "base").write_text("{}")
    assert recipes.find_recipe("base") == "base"
    # Runs are often called like their recipe.
    (elsewhere / "small").mkdir()
    assert Path(recipes.find_recipe("small")) == HPARAMS / "small.json"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("hparams/base.json", "=hparams/base.json: no such file; write --hparams=base for the"),
        ("/tfbio/hparams/biolm_larg.json", "write --hparams=biolm_large for the recipe"),
        ("smal", "=smal: no such file or recipe; did you mean small?"),
        ("xyzzy", "=xyzzy: no such file or recipe; docs/pipeline.md lists the recipes."),
    ],
)
def test_the_name_to_write_is_named(given, said):
    with pytest.raises(ConfigError) as raised:
        recipes.find_recipe(given)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("hparams/finetuning/sentence_roles.json", "sentence_roles"),
        ("hparams/finetuning/authors/gad.json", "authors"),
        ("x/hparams/finetuning/bioelectr/hoc.json", "bioelectra"),
    ],
)
def test_the_name_of_a_protocol_is_named(given, name):
    with pytest.raises(ConfigError, match=f"no such file; write --hparams={name} for the recipe"):
        find_protocol(given, "gad")
    assert Path(find_protocol(name, "hoc")).is_relative_to(HPARAMS / "finetuning")


def test_a_path_that_is_there_is_read(monkeypatch):
    monkeypatch.chdir(HPARAMS.parent)
    assert recipes.find_recipe("hparams/base.json") == "hparams/base.json"
