"""Which settings go with a mesh: each other one is refused in a sentence with a remedy."""

import json

import pytest

from tfbio.base import config
from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UsageError
from tfbio.objectives import mesh_limits
from tfbio.objectives.pretraining_config import PretrainingConfig

BASE = {"objective": "mlm", "train_batch_size": 8}


def settings(*changes):
    return config.load(PretrainingConfig, json.dumps(BASE), list(changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["objective=electra"], "generator_num_attention_heads 1 does not divide by the 4 devices"),
        (["optimizer=lamb"], "optimizer=lamb: give --set optimizer=adamw"),
        (["gradient_clip_groups=4"], "gradient_clip_groups=4: give --set gradient_clip_groups=1"),
        (["run.parallel_parts=2"], "run.parallel_parts=2: give --set run.parallel_parts=1"),
        (["run.jit_compile=true"], "run.jit_compile=true: give --set run.jit_compile=false"),
        (["run.optimize_for=tpu"], "run.optimize_for=tpu: give --set run.optimize_for=auto"),
        (["distillation.kl_weight=1"], "--mesh=2x4 does not go with --teacher"),
        (["train_batch_size=7"], "train_batch_size 7 does not divide by the 2 parts of --mesh=2x4"),
        (
            ["run.gradient_accumulation_steps=8"],
            r"train_batch_size 8 .* 2 parts .* with run.gradient_accumulation_steps=8",
        ),
        (["encoder.num_attention_heads=2", "encoder.hidden_size=128"], "num_attention_heads 2"),
    ],
)
def test_what_a_mesh_does_not_compute_is_named(changes, words):
    with pytest.raises(UsageError, match=words):
        mesh_limits.check(settings(*changes), MeshShape(2, 4))


@pytest.mark.parametrize(
    "change",
    [
        "optimizer=lamb",
        "gradient_clip_groups=4",
        "run.parallel_parts=2",
        "run.jit_compile=true",
        "run.optimize_for=tpu",
    ],
)
def test_the_settings_that_are_advised_can_be_given(change):
    with pytest.raises(UsageError) as refused:
        mesh_limits.check(settings(change), MeshShape(2, 4))
    advised = str(refused.value).rpartition("give --set ")[2].removesuffix(".")
    mesh_limits.check(settings(change, advised), MeshShape(2, 4))


def test_the_generators_setting_that_is_named_can_be_given():
    """As `generator_num_attention_heads`: there is no `generator.num_attention_heads`."""
    with pytest.raises(UsageError) as refused:
        mesh_limits.check(settings("objective=electra"), MeshShape(2, 4))
    name = str(refused.value).partition(" ")[0]
    changes = ("objective=electra", "generator_hidden_fraction=0.5", f"{name}=4")
    mesh_limits.check(settings(*changes), MeshShape(2, 4))


def test_others_pass():
    mesh_limits.check(settings(), MeshShape(2, 4))
    mesh_limits.check(settings("run.optimize_for=cpu"), MeshShape(2, 4))
    mesh_limits.check(settings("run.gradient_accumulation_steps=4"), MeshShape(2, 2))
