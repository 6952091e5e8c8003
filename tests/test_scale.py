"""The tables of docs/scale.md, and what the TPU's compiler says of steps on meshes."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import scale
from tfbio.base import config
from tfbio.base.device_flags import parse_mesh
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import mesh_weights
from tfbio.planning import pretraining_cost_on_tpu as tpu_cost
from tfbio.training.devices import DEVICES

ROOT = Path(__file__).parents[1]
COMPILED = [
    path
    for path in sorted((ROOT / "benchmarks" / "tpu").glob("*.json"))
    if "mesh" in json.loads(path.read_text())
]
each_program = pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.stem)


def read(path):
    """Returns the settings of a program, its mesh, its device, and what the compiler says of it."""
    result = json.loads(path.read_text())
    made = config.load(PretrainingConfig, json.dumps(result["settings"]))
    return made, parse_mesh(result["mesh"]), DEVICES[f"tpu-{result['tpu']}"], result


@pytest.mark.parametrize("name", scale.TABLES)
def test_the_manual_has_the_tables_of_the_command(name):
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert "\n".join(scale.TABLES[name]()) in page


def test_the_models_have_the_parameters_that_the_names_say():
    """Shin et al. (2020), section 3: 345 million, 800 million and 1.2 billion, to 5 %."""
    for name, millions in (("345m", 345), ("800m", 800), ("1.2b", 1200)):
        count = objective_cost.parameters(scale.settings(name)).encoder
        assert count / 1e6 == pytest.approx(millions, rel=0.05), name


def test_every_model_is_compiled_for_a_v3():
    found = set()
    for made, _, _, result in map(read, COMPILED):
        if result["tpu"] == "v3-8" and "error" not in result:
            found.add((made.encoder.num_hidden_layers, made.encoder.hidden_size))
    assert found >= {sizes[:2] for sizes in scale.MODELS.values()}


@each_program
def test_memory_on_a_mesh_is_what_the_compiler_says(path):
    """Within 10 %. The formula was made with three other programs, on meshes 1x8 and 2x4."""
    made, mesh, device, result = read(path)
    planned = tpu_cost.memory(made, device, mesh)
    assert (planned <= device.memory) == ("error" not in result)
    if "error" not in result:
        assert planned == pytest.approx(result["needed_bytes"], rel=0.1)


@each_program
def test_a_core_has_its_part_of_weights_averages_and_products(path):
    """Allows a quarter more near full memory, where the compiler makes products anew."""
    made, mesh, device, result = read(path)
    if "error" not in result:
        parameters = mesh_weights.numbers(made, mesh).parameters
        # Beside weights and Adam's averages there are the examples.
        assert result["argument_bytes"] == pytest.approx(3 * 4 * parameters, rel=0.02)
        flops = tpu_cost.example_flops(made, result["length"]) / mesh.model
        ratio = result["flops"] / (result["batch_per_core"] * flops)
        most = 1.25 if result["needed_bytes"] > 0.9 * device.memory else 1.02
        assert 0.98 < ratio < most


@each_program
def test_no_weight_that_is_divided_is_put_together(path):
    """Shapes of arrays [layers, ...] with the words, queries or feed-forward units of a layer.

    The output layer of attention has the shape of two weights of the heads on top, which are whole.
    Their update is divided, and put together in float32, for the weights and both averages; a
    layer's weights are in bfloat16 where they are used.
    """
    made, mesh, _, result = read(path)
    size, wide = made.encoder.hidden_size, made.encoder.intermediate_size
    words = mesh.model * -(-made.encoder.vocab_size // mesh.model)
    matrices = ([size, 3, size], [size, 3 * size], [size, wide], [wide, size], [words, size])
    assert result["gathered"] or "error" in result
    for each in result["gathered"]:
        element, sizes = re.fullmatch(r"(\w+)\[([\d,]*)\]", each).groups()
        sizes = [int(number) for number in sizes.split(",") if number not in ("", "1")]
        if sizes[:1] == [made.encoder.num_hidden_layers]:
            sizes = sizes[1:]
        assert sizes not in matrices and sizes[::-1] not in matrices
        assert sorted(sizes) != [size, size] or element == "f32"
