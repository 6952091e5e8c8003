r"""Prints the tables of docs/scale.md: the memory of BioMegatron's models on meshes of devices.

    python -m benchmarks.scale
    python -m benchmarks.scale --table=bytes

Nothing is trained: figures are those of `run_pretraining.py --dry_run`, and of programs that the
TPU's compiler has compiled (`scripts/tpu_check.py --mesh`, benchmarks/tpu). The tables:

  bytes      for each mesh what a device has: GB of parameters, gradients and averages, exactly; and
             the activations of one example, an estimate.
  meshes     for each kind of devices with how many parts of a batch (accumulation) a step fits on
             one of them, or else the smallest mesh that it fits on.
  compiled   what the TPU's compiler says of steps on meshes, beside the estimate.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.command import PRECISIONS, markdown_table, print_tables, run
from tfbio.base import config
from tfbio.base.device_flags import MeshShape, parse_mesh
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import mesh_cost, pretraining_cost
from tfbio.planning import pretraining_cost_on_tpu as tpu_cost
from tfbio.training.devices import DEVICES

RESULTS = Path(__file__).resolve().parent / "tpu"
# Layers, hidden units and heads of BioMegatron's models (Shin et al., 2020, section 3). Those of
# the larger two are open: the paper has the numbers of parameters only.
MODELS = {"345m": (24, 1024, 16), "800m": (40, 1280, 20), "1.2b": (40, 1536, 16)}
COUNTS = (1, 2, 4, 8)
# A number, and words after it; but neither a model nor a mesh.
_NUMBER = re.compile(r"[\d.,]*(?: |$)")
KINDS = ("tpu-v3-8", "tpu-v3-32", "tpu-v4-8", "tpu-v5e-8", "v100", "a100", "h100")


def settings(name: str) -> PretrainingConfig:
    """Makes the settings of one of `MODELS`, with BERT's uncased vocabulary and a batch of 512."""
    layers, size, heads = MODELS[name]
    encoder = EncoderConfig(
        vocab_size=30_522,
        embedding_size=size,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * size,
        layer_norm_first=True,
    )
    return PretrainingConfig(
        objective="mlm",
        encoder=encoder,
        sentence_pair_head=True,
        sentence_pair_loss=True,
        sequence_length=512,
        train_batch_size=512,
    )


def meshes(name: str) -> Iterator[MeshShape]:
    """Yields the meshes of 1, 2, 4 and 8 devices that a model's heads divide by.

    One device is 1x1; of others those in which devices share a model.
    """
    heads = MODELS[name][2]
    yield MeshShape(1, 1)
    for count in COUNTS[1:]:
        models = (model for model in COUNTS[1:] if count % model == 0 and heads % model == 0)
        yield from (MeshShape(count // model, model) for model in reversed(list(models)))


def bytes_of_devices() -> list[str]:
    """Returns the lines of the table of bytes."""
    rows = []
    for name in MODELS:
        for mesh in meshes(name):
            # As many parts as there are examples: one at a time.
            made = settings(name)
            alone = dataclasses.replace(made, train_batch_size=mesh.data)
            single, half = (mesh_cost.device_bytes(alone, mesh, x) for x in PRECISIONS)
            kept = single.parameters + single.gradients + single.slots
            numbers = (*single[:3], kept, single.activations, half.activations)
            cells = [f"{number / 1e9:.2f}" for number in numbers]
            rows.append([name, str(mesh.devices), str(mesh), *cells])
    heads = ["model", "devices", "`--mesh`", "parameters", "gradients", "averages", "together"]
    return _table([*heads, "activations, float32", "bfloat16"], rows)


def smallest_meshes() -> list[str]:
    """Returns the lines of the table of the smallest meshes."""
    rows = [[f"`{kind}`", *(_smallest(settings(name), kind) for name in MODELS)] for kind in KINDS]
    return _table(["on", *MODELS], rows)


def _smallest(made: PretrainingConfig, kind: str) -> str:
    """Says with how many parts a step fits on a device, or else on which mesh."""
    if parts := pretraining_cost.parts_that_fit(made, kind):
        return f"alone, {parts} parts" if parts > 1 else "alone"
    proposed = mesh_cost.smallest(made, kind)
    return f"{proposed.mesh}, {proposed.parts} parts" if proposed else "too large"


def compiled() -> list[str]:
    """Returns the lines of the table of steps on meshes that the TPU's compiler has compiled."""
    rows = []
    for result in map(json.loads, sorted(path.read_text() for path in RESULTS.glob("*.json"))):
        made = config.load(PretrainingConfig, json.dumps(result["settings"]))
        shape = made.encoder
        sizes = shape.num_hidden_layers, shape.hidden_size, shape.num_attention_heads
        names = [name for name, own in MODELS.items() if own == sizes]
        if "mesh" in result and names:
            rows.append([*names, *_compiled_cells(made, result)])
    order = list(MODELS)
    rows.sort(key=lambda row: (order.index(row[0]), row[1:3], int(row[4])))
    heads = ["model", "TPU", "`--mesh`", "examples a group", "parts", "GB of memory", "estimated"]
    return _table([*heads, "GB sent", "products, ms", "sending, ms", "roofline, ms"], rows)


def _compiled_cells(made: PretrainingConfig, result: dict) -> list[str]:
    """Returns the cells of a result, but for the model's name."""
    mesh, device = parse_mesh(result["mesh"]), DEVICES[f"tpu-{result['tpu']}"]
    cells = [result["tpu"], str(mesh), str(result["batch_per_core"]), str(result["parts"])]
    estimate = tpu_cost.memory(made, device, mesh)
    if "error" in result:
        return [
            *cells,
            f"does not fit {device.memory / 1e9:.0f}",
            f"{estimate / 1e9:.2f}",
            *4 * [""],
        ]
    needed, sent = result["needed_bytes"], result["exchanged_bytes"]
    return [
        *cells,
        f"{needed / 1e9:.2f} of {device.memory / 1e9:.0f}",
        f"{estimate / 1e9:.2f} ({estimate / needed:.2f})",
        f"{sent / 1e9:.0f}",
        *(
            f"{1e3 * seconds:.0f}"
            for seconds in (
                result["products_seconds"],
                sent / device.interconnect,
                result["roofline_seconds"],
            )
        ),
    ]


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Returns the lines of a table in Markdown, whose numbers stand on the right."""
    right = {
        column for column in range(len(heads)) if all(_NUMBER.match(row[column]) for row in rows)
    }
    return markdown_table(heads, rows, right)


TABLES: dict[str, Callable[[], list[str]]] = {
    "bytes": bytes_of_devices,
    "meshes": smallest_meshes,
    "compiled": compiled,
}


def main() -> None:
    """Prints the tables that the command line asks for."""
    print_tables(__doc__, TABLES)


if __name__ == "__main__":
    run(main)
