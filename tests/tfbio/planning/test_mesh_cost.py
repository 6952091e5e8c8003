"""The memory of a step on a mesh, the mesh that is proposed, and what --dry_run prints of both."""

import dataclasses

import pytest

from tests.tfbio.objectives.test_objective_cost import WIDE, settings
from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UsageError
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.planning import mesh_cost, pretraining_cost
from tfbio.training import devices

TINY = settings(objective="mlm", encoder=WIDE, train_batch_size=64)


def megatron(layers, size, heads, **options):
    """Returns settings of a BioMegatron."""
    encoder = EncoderConfig(
        embedding_size=size,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * size,
        layer_norm_first=True,
    )
    options = {"sequence_length": 512, "train_batch_size": 512} | options
    return PretrainingConfig(objective="mlm", encoder=encoder, **options)


LARGEST = megatron(40, 1536, 16)


def test_a_mesh_of_one_device_has_what_one_device_has():
    one = devices.Device(1, 1e12, 1e12, 1e9)
    for precision in ("float32", "bfloat16"):
        made = mesh_cost.device_bytes(TINY, MeshShape(1, 1), precision)
        assert sum(made) == pretraining_cost.memory(TINY, one, precision)
    assert mesh_cost.host_bytes(TINY) == 12 * objective_cost.parameters(TINY).all


def test_activations_of_devices_that_share_a_model():
    """The 6 h of each token and layer are whole on each; see Korthikanti et al. (2022), 4.2.1.

    The 64 examples are of 40 tokens, of which 6 are masked; h is 64, f 112, and there are two heads
    in each of three layers.
    """
    whole, divided = 6 * 64, 4 * 64 + 3 * 112 + 3 * 2 * 40
    for data, model in ((1, 1), (1, 2), (2, 2), (4, 1)):
        made = mesh_cost.device_bytes(TINY, MeshShape(data, model), "float32")
        layers = 4 * 3 * 40 * (whole + divided // model)
        scores = 2 * 4 * 6 * 300 // model
        assert made.activations == 64 // data * (layers + scores)


def test_parts_of_a_batch_take_less_of_the_activations_and_a_sum_of_gradients():
    run = PretrainingRun(gradient_accumulation_steps=4)
    parted = dataclasses.replace(TINY, run=run)
    mesh = MeshShape(2, 2)
    one, four = (mesh_cost.device_bytes(each, mesh, "float32") for each in (TINY, parted))
    assert four.activations == one.activations / 4
    assert four.gradients == 2 * one.gradients  # a part's, and the sum
    assert (four.parameters, four.slots) == (one.parameters, one.slots)


def test_a_recipe_that_fits_no_v3_core_fits_a_mesh():
    """Two devices have half of the largest BioMegatron's 1.19 billion parameters each."""
    name = "tpu-v3-8"
    assert pretraining_cost.parts_that_fit(LARGEST, name) is None
    mesh, parts = mesh_cost.smallest(LARGEST, name)
    assert mesh == (4, 2)
    made = dataclasses.replace(LARGEST, run=PretrainingRun(gradient_accumulation_steps=parts))
    assert mesh_cost.needed_memory(made, mesh, name) <= devices.DEVICES[name].memory
    half = PretrainingRun(gradient_accumulation_steps=parts // 2)
    more = dataclasses.replace(LARGEST, run=half)
    assert mesh_cost.needed_memory(more, mesh, name) > devices.DEVICES[name].memory
    (row,) = [
        line
        for line in pretraining_cost.report(LARGEST, name).splitlines()
        if line.startswith(name)
    ]
    assert row.endswith("  too much")  # no mesh runs on a TPU yet


def test_of_gpus_as_few_as_possible_are_proposed():
    mesh, parts = mesh_cost.smallest(LARGEST, "t4")
    assert mesh == (1, 2)
    remedy = f"fits with --mesh=1x2 and run.gradient_accumulation_steps={parts}"
    assert pretraining_cost.report(LARGEST, "t4").splitlines()[-2].endswith(remedy)
    # Nothing divides three heads but three devices.
    assert mesh_cost.smallest(megatron(40, 1536, 3), "tpu-v2-8") is None
    # A TPU's cores are eight, and twenty heads divide by four of them.
    assert mesh_cost.smallest(megatron(40, 1280, 20), "tpu-v2-8").mesh == (2, 4)


def test_a_report_has_the_bytes_of_each_device():
    text = pretraining_cost.report(LARGEST, mesh=MeshShape(2, 4))
    made = mesh_cost.device_bytes(LARGEST, MeshShape(2, 4), "bfloat16")
    assert f"{made.parameters / 1e9:.2f} GB of parameters" in text
    assert f"{made.slots / 1e9:.2f} GB of Adam's averages" in text
    assert f"{12 * objective_cost.parameters(LARGEST).all / 1e9:.2f} GB of the undivided" in text
    names = [line.split()[0] for line in text.splitlines() if " of " in line and line[0] != " "]
    assert "tpu-v3-8" in names and "t4" in names  # of eight cores, and of one device
    assert "tpu-v3-32" not in names and "tpu-v4-8" not in names
    for line in text.splitlines():
        if " of " in line and line[0] != " ":
            assert ("cannot run yet" in line) == line.startswith("tpu")
    (row,) = [line for line in text.splitlines() if line.startswith("h200")]
    assert "too much; fits with run.gradient_accumulation_steps=" in row


@pytest.mark.parametrize(
    "changes, mesh, said",
    [
        ({}, (1, 32), "num_attention_heads 16 does not divide by the 32 devices"),
        ({"train_batch_size": 510}, (4, 2), "train_batch_size 510 does not divide by the 4 parts"),
        (
            {"objective": "electra"},
            (1, 2),
            "with --mesh estimates masked language models only .*objective=electra works on the",
        ),
    ],
)
def test_a_mesh_that_does_not_go_with_the_settings(changes, mesh, said):
    made = dataclasses.replace(LARGEST, **changes)
    with pytest.raises(UsageError, match=said):
        mesh_cost.report(made, MeshShape(*mesh))


def test_a_mesh_of_another_number_of_devices_than_the_tpu():
    with pytest.raises(UsageError, match="has 4 devices, and --estimate_for=tpu-v3-8 8"):
        mesh_cost.report(LARGEST, MeshShape(2, 2), "tpu-v3-8")
