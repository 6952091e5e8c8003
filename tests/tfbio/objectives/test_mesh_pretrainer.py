"""Steps on a mesh of devices against the same steps undivided, in a process with four devices."""

import functools
import json
import math
import sys
from pathlib import Path

import pytest

from tests import forked
from tfbio.base import config
from tfbio.base.device_flags import parse_mesh
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import mesh_weights

ROOT = Path(__file__).resolve().parents[3]
MESHES = ("1x4", "2x2", "4x1")


@functools.cache
def steps(devices, settings, *meshes):
    """Returns what tests/mesh_steps.py prints, once for each tuple of settings."""
    command = [sys.executable, "tests/mesh_steps.py", devices, json.dumps(settings), *meshes]
    done = forked.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def with_dropout():
    """Eight steps with dropout and clipping on three meshes of four devices."""
    return steps(4, ("max_gradient_norm=0.5",), *MESHES)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES)
def test_steps_equal_the_undivided_ones(with_dropout, mesh):
    whole, divided = with_dropout["whole"], with_dropout[mesh]
    assert len(divided["steps"]) == 8
    for number, (one, other) in enumerate(zip(whole["steps"], divided["steps"], strict=True)):
        assert one["gradient_norm"] > 0.5, "nothing was clipped"
        for name, value in one.items():
            assert other[name] == pytest.approx(value, rel=1e-6, abs=1e-6), (number, name)
    assert divided["evaluation"] == pytest.approx(whole["evaluation"], rel=1e-6)
    assert divided["weights"] < 5e-7
    assert divided["averages"] < 1e-7


def test_dropout_drops(with_dropout):
    without = steps(4, IN_PARTS + UNDROPPED, "2x2")
    first, other = without["whole"]["steps"][0], with_dropout["whole"]["steps"][0]
    assert abs(first["loss"] - other["loss"]) > 1e-3


@pytest.mark.parametrize("mesh", MESHES)
def test_no_device_holds_a_whole_matrix(with_dropout, mesh):
    shape, found = parse_mesh(mesh), with_dropout[mesh]
    matrices = ("query_key_value/kernel", "output/kernel", "intermediate/kernel", "word_embeddings")
    checked = set()
    for name, parts in found["parts"].items():
        assert len(parts) == 4, name
        whole = math.prod(found["shapes"][name])
        weight = name.removesuffix(":0").removesuffix("/m").removesuffix("/v")
        is_average = weight != name.removesuffix(":0")
        for end in matrices:
            if weight.endswith(end):
                checked.add(weight)
                divisor = shape.model * (shape.data if is_average else 1)
                assert {math.prod(part) for part in parts} == {whole // divisor}, name
    assert len(checked) == 5


@pytest.mark.parametrize("mesh", MESHES)
def test_each_device_has_what_the_planner_says(with_dropout, mesh):
    settings = config.load(PretrainingConfig, json.dumps(with_dropout["settings"]), [])
    expected = mesh_weights.numbers(settings, parse_mesh(mesh))
    assert with_dropout[mesh]["parameters"] == [expected.parameters] * 4
    assert with_dropout[mesh]["slots"] == [expected.slots] * 4


IN_PARTS = ("run.gradient_accumulation_steps=2",)
UNDROPPED = ("encoder.hidden_dropout_prob=0", "encoder.attention_probs_dropout_prob=0")
ADVERSARIAL = ("adversarial.weight=3.0", "decay_all=true")
ELECTRA = (
    *("objective=electra", "sentence_pair_head=false", "sentence_pair_loss=false"),
    *("generator_hidden_fraction=0.5", "generator_num_attention_heads=2"),
    *("encoder.layer_norm_first=false", "generator_warmup_steps=3"),
)


@pytest.mark.parametrize(
    "settings",
    [
        (*IN_PARTS, "encoder.layer_norm_first=false"),
        ADVERSARIAL,
        ELECTRA,
        # Whose undivided parts have other rows.
        IN_PARTS + UNDROPPED,
        ADVERSARIAL + IN_PARTS + UNDROPPED,
        (*ELECTRA, *IN_PARTS, *UNDROPPED, "generator_warmup_steps=0"),
    ],
    ids=lambda settings: " ".join(settings),
)
def test_other_steps_equal_the_undivided_ones(settings):
    found = steps(4, settings, "2x2")
    whole, divided = found["whole"], found["2x2"]
    for one, other in zip(whole["steps"], divided["steps"], strict=True):
        assert other == pytest.approx(one, rel=1e-6, abs=1e-6)
    assert divided["evaluation"] == pytest.approx(whole["evaluation"], rel=1e-6, abs=1e-6)
    assert divided["weights"] < 5e-7


def test_bfloat16_comes_as_near_as_it_can():
    """Sums over parts are rounded once more than whole ones."""
    found = steps(2, ("run.precision=bfloat16",), "1x2")
    for one, other in zip(found["whole"]["steps"], found["1x2"]["steps"], strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=2e-3)
    assert found["whole"]["steps"][0]["loss"] != found["1x2"]["steps"][0]["loss"]
