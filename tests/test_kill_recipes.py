"""`scripts/kill_recipes.py`: a recipe of each kind, killed at a small size.

The script kills the run of every recipe, which takes half an hour.
"""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.recipes import RECIPES
from data_prep import examples
from data_prep.running import pipeline
from scripts import kill_and_resume as script
from scripts import kill_recipes
from tests import forked
from tests.run_files import write_pretraining_settings, write_run
from tfbio.base import config
from tfbio.base.manifests import read_manifest
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig

ROOT = Path(__file__).parents[1]


def load(name, overrides=()):
    """Returns the settings of a recipe's file."""
    return config.load(PretrainingConfig, str(ROOT / "hparams" / f"{name}.json"), overrides)


@pytest.mark.parametrize("name", RECIPES)
def test_a_small_recipe_keeps_all_but_its_size(name):
    """A resumed run depends on these: objective, masks, optimizer, phases, teacher."""
    recipe, small = load(name), load(name, kill_recipes.small(name))
    for field in (
        *("objective", "mask_unit", "mask_prob", "mask_with_replacement", "sentence_pair_loss"),
        *("optimizer", "schedule", "adam_bias_correction", "lamb_bias_correction", "decay_all"),
        *("learning_rate", "max_gradient_norm", "adversarial", "generator_weight"),
    ):
        assert getattr(small, field) == getattr(recipe, field), field
    assert bool(small.final_sequence_length) == bool(recipe.final_sequence_length)
    assert len(small.corpus_switch_steps) == len(recipe.corpus_switch_steps)
    assert (small.gradient_clip_groups > 1) == (recipe.gradient_clip_groups > 1)
    assert small.distillation.kl_weight == recipe.distillation.kl_weight
    assert small.distillation.cosine_weight == recipe.distillation.cosine_weight
    assert small.encoder.hidden_size == kill_recipes.ENCODER["hidden_size"]


@pytest.mark.parametrize("name", RECIPES)
def test_the_examples_are_those_that_the_recipe_asks_for(name):
    objective = kill_recipes.examples_of(name)
    named = re.findall(r"--objective=(\w+)", load(name).comment)
    if objective in ("next_sentence", "sentence_order"):
        assert set(named) == {objective}
    else:
        assert not named and not load(name).sentence_pair_loss


@pytest.fixture
def compare(monkeypatch, tmp_path):
    """Compares two runs by their arrays and their logged figures, without training them."""
    manifest = {"kind": "examples", "counts": {}, "settings": {"vocab_size": 9}, "shards": []}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setattr(script, "train", lambda command: None)
    monkeypatch.setattr(script, "train_and_kill", lambda *_: 1)
    monkeypatch.setattr(sys, "argv", ["", f"--examples={tmp_path}", "--kills=1"])

    def compare(killed, logged):
        arrays = {"model/a": np.zeros(2), "model/b": np.ones(2)}
        saved = {"alone": arrays, "killed": arrays | killed}
        figures = {"alone": {(20, "train loss", 1.5)}, "killed": {(20, "train loss", logged)}}
        monkeypatch.setattr(script, "saved", lambda folder, step: saved[folder.name])
        monkeypatch.setattr(script, "logged", lambda folder: figures[folder.name])
        script.main()

    return compare


def test_runs_of_the_same_bits_are_the_same(compare, capsys):
    compare({"model/b": np.ones(2)}, 1.5)
    said = capsys.readouterr().out
    assert "2 of 2 arrays are the same" in said and "1 logged numbers, 0 differences" in said


@pytest.mark.parametrize(
    "other",
    [
        {"model/b": np.array([1, np.nextafter(1, 2)])},
        {"model/a": np.array([0.0, -0.0])},
        {"model/a": np.zeros(2, np.float32)},
        {"model/a": np.zeros(1)},
    ],
)
def test_one_bit_of_an_array_that_differs_is_a_failure(compare, other):
    with pytest.raises(SystemExit, match=f"^different: {', '.join(other)}$"):
        compare(other, 1.5)


def test_a_logged_figure_that_differs_is_a_failure(compare):
    with pytest.raises(SystemExit, match=r"^different: \(20, 'train loss', 1\.25\), \(20, "):
        compare({}, 1.25)


class Forked:
    """Stands in for `subprocess` in a script."""

    PIPE = subprocess.PIPE

    def run(self, command, cwd, **_):
        return forked.run(command, cwd=cwd)

    def Popen(self, command, cwd, stdout, **_):
        return forked.Popen(command, cwd=cwd, stdout=stdout)


@pytest.fixture
def make(documents_folder, vocab_file, tmp_path):
    """Makes examples of a recipe, in a folder of a name."""

    def make(recipe, name="examples", sequence_length=64, held_out_fraction=0.2):
        made = examples.ExampleSettings(
            kill_recipes.examples_of(recipe),
            sequence_length=sequence_length,
            held_out_fraction=held_out_fraction,
            shards=2,
        )
        runner = pipeline.Runner(workers=1)
        examples.make_examples(documents_folder, vocab_file, tmp_path / name, made, runner=runner)
        return tmp_path / name

    return make


@pytest.fixture
def kill_and_resume(monkeypatch, capsys):
    """Kills a run of a recipe as the script does, and asserts that it ends as undisturbed."""

    def kill_and_resume(recipe, folders, changes=(), flags=()):
        monkeypatch.syspath_prepend(ROOT / "scripts")
        script = importlib.import_module("kill_and_resume")
        monkeypatch.setattr(script, "subprocess", Forked())
        command = ["kill_and_resume.py", f"--hparams={recipe}", *flags]
        command += [f"--examples={folder}" for folder in folders]
        command += ["--kills=2", f"--steps={kill_recipes.STEPS}"]  # one by each signal
        command += [f"--seed={kill_recipes.SEED}"]
        settings = (*kill_recipes.small(recipe), *changes)
        command += [f"--set={setting}" for setting in settings]
        monkeypatch.setattr(sys, "argv", command)
        script.main()
        said = capsys.readouterr().out
        assert said.count("SIGKILL after step") == said.count("SIGTERM after step") == 1
        assert ", 0 differences" in said
        row = kill_recipes.read_result(said)
        assert len(row["kills"]) == 2 and row["arrays"] > 10 and row["logged"] > 10

    return kill_and_resume


BFLOAT16 = ("run.precision=bfloat16",)


# Those of the papers' other families do what these do and less.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("pubmedbert_adversarial", BFLOAT16),
        ("biomegatron_345m_cased", ()),
    ],
)
def test_a_run_that_is_killed_at_random_steps_ends_with_the_same_bits(
    recipe, changes, make, kill_and_resume
):
    """SIGKILL, and SIGTERM, by which it saves first: the same weights and logged losses."""
    kill_and_resume(recipe, [make(recipe)], changes)


@pytest.mark.slow
def test_a_killed_run_of_two_lengths_ends_with_the_same_bits(make, kill_and_resume):
    """BioELECTRA, with a generator and clipped groups; its length changes between the kills."""
    folders = [make("base", f"examples_{length}", sequence_length=length) for length in (32, 64)]
    kill_and_resume("base", folders, BFLOAT16)


@pytest.mark.slow
def test_a_killed_run_of_two_corpora_ends_with_the_same_bits(make, kill_and_resume):
    """BioM-ALBERT with PMC; its corpus changes between the kills."""
    recipe = "biom_albert_pmc"
    second = make(recipe, "second", held_out_fraction=0.5)
    kill_and_resume(recipe, [make(recipe, "first"), second])


@pytest.mark.slow
def test_a_killed_run_with_a_teacher_ends_with_the_same_bits(make, kill_and_resume, tmp_path):
    """bio-lm's distillation with aligned states, of a teacher of another size."""
    recipe = "biolm_base_distilled_aligned"
    folder = make(recipe)
    known = read_manifest(folder, "examples").settings
    shape = EncoderConfig(
        vocab_size=known["vocab_size"], max_position_embeddings=64, **kill_recipes.TEACHER
    )
    settings = PretrainingConfig(objective="mlm", encoder=shape, sequence_length=64)
    model = MaskedLanguageModel(settings)
    teacher = write_run(tmp_path / "teacher", settings, model, folder / "vocab.txt")
    write_pretraining_settings(teacher, settings, vocab_sha256=known["vocab_sha256"])
    kill_and_resume(recipe, [folder], BFLOAT16, flags=[f"--teacher={teacher}"])
