r"""Compiles a pretraining step with the TPU's compiler, without a TPU: its memory and least time.

  python scripts/tpu_check.py --hparams=hparams/base.json --tpu=v3-8

The step is the one that `TPUStrategy` traces for all cores, with gradients summed over them. A
line for each phase of the recipe has the memory that a core needs, the FLOPs of its matrix
products, the bytes that it reads from and writes to memory, the size of the program, and the
roofline's time: the step's least time, if each operation is as fast as products, memory and
interconnect allow. A step is compiled in as many parts (run.gradient_accumulation_steps) as
`--dry_run` estimates that it needs, and in twice as many until it fits.

With `--mesh=2x4` there are two groups of four cores, which share a model: its weights are divided
as on a mesh of GPUs, and XLA divides the rest of the program (docs/scale.md). The batch of a core
is that of a group then.

With `--draws=12` settings are drawn at random, in place of a recipe, and compiled in one part, to
compare the compiler's figures with the estimates of `--dry_run`.

`make tpu-check` sets up the compiler, in `.venv-tpu`, and compiles four recipes. Results are kept
in benchmarks/tpu/, by the hash of the program, and no program is compiled twice.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import multiprocessing
import os
import random
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from absl import flags

from tfbio.base import cli, config, device_flags, errors, path_checks, storage
from tfbio.base.device_flags import MeshShape
from tfbio.models import sharding
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import hlo_collectives, hlo_cost, mesh_cost, pretraining_cost
from tfbio.planning import pretraining_cost_on_tpu as tpu_cost
from tfbio.text.fast_tokenizer import FastTokenizer
from tfbio.training import devices, precision

if TYPE_CHECKING:
    import tensorflow as tf
    from _typeshed import DataclassInstance

    from tfbio.objectives.masked_language_model import MaskedLanguageModel

ROOT = Path(__file__).resolve().parents[1]
LIBTPU = "0.0.52"
COMPILER = f"libtpu {LIBTPU}"
# The compiler's names; the cores of a v4 chip work as one.
TOPOLOGIES = {
    "v3-8": "v3:2x2",
    "v3-32": "v3:4x4",
    "v3-512": "v3:16x16",
    "v4-8": "v4:2x2x1,megacore",
    "v5e-8": "v5e:2x4",
    "v6e-8": "v6e:2x4",
}
# Those that settings are drawn for.
DRAWN = ("v3-8", "v4-8", "v5e-8", "v6e-8")
MOST_PARTS = 64

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the command's flags."""
    cli.define_list("hparams", [], "The recipe: a JSON file, or inline JSON.")
    flags.DEFINE_multi_string("set", [], "Changes one setting: name=value. May be repeated.")
    cli.define_list("tpu", ["v3-8"], "Which TPU.", choices=list(TOPOLOGIES))
    flags.DEFINE_integer(
        "phase", 0, "Only this phase of the recipe: 1 or 2; 0: all.", lower_bound=0, upper_bound=2
    )
    flags.DEFINE_integer(
        "batch_per_core", 0, "Examples of a core; 0: its share of the recipe's.", lower_bound=0
    )
    flags.DEFINE_string(
        "mesh",
        None,
        "DATAxMODEL, such as 2x4: rows of cores, and cores of a row, which share a model.",
    )
    flags.DEFINE_integer(
        "draws", 0, "So many settings drawn at random, in place of --hparams.", lower_bound=0
    )
    flags.DEFINE_string(
        "results", str(ROOT / "benchmarks" / "tpu"), "Where the results are kept, one file each."
    )
    flags.DEFINE_string(
        "compiler",
        os.environ.get("TFBIO_TPU_PYTHON", str(ROOT / ".venv-tpu" / "bin" / "python")),
        "Python with jax and libtpu.",
    )


def _check_flags() -> None:
    """Refuses flags that do not go together."""
    if not FLAGS.draws:
        if not FLAGS.hparams:
            raise errors.UsageError("--hparams is missing: the recipe, such as hparams/base.json.")
        return
    for name in ("hparams", "set", "phase", "batch_per_core", "tpu", "mesh"):
        if FLAGS[name].present:
            raise errors.UsageError(f"--draws goes without --{name}: it draws all of it.")


def main(argv: list[str]) -> None:
    """Prints a table with a line for each recipe, phase and TPU."""
    cli.no_arguments(argv)
    _check_flags()
    meshes = {tpu: _mesh(tpu) for tpu in FLAGS.tpu}
    recipes = {x: config.load(PretrainingConfig, x, FLAGS.set) for x in FLAGS.hparams}
    for hparams, recipe in recipes.items():
        if FLAGS.phase > len(recipe.phases()):
            raise errors.UsageError(
                f"--phase={FLAGS.phase}: --hparams={hparams} has one phase: leave --phase out."
            )
    path_checks.require_output("results", FLAGS.results)
    if not os.path.exists(FLAGS.compiler):
        raise errors.UserError(
            f"{FLAGS.compiler} is missing: `make tpu-check` sets up the TPU's compiler."
        )
    print(HEAD, flush=True)
    for number in range(FLAGS.draws):
        name, settings, tpu = draw(number)
        print(line(name, tpu, _compiled(settings, tpu, parts=1)), flush=True)
    for hparams, recipe in recipes.items():
        name = "inline" if hparams.lstrip().startswith("{") else Path(hparams).stem
        for number, phase in enumerate(recipe.phases(), start=1):
            if FLAGS.phase in (0, number):
                length = phase.sequence_length
                for tpu in FLAGS.tpu:
                    result = check(recipe, length, tpu, FLAGS.batch_per_core, meshes[tpu])
                    print(line(f"{name}, {length}", tpu, result), flush=True)


def _mesh(tpu: str) -> MeshShape | None:
    """Reads --mesh, which must have all of a TPU's devices; None without it."""
    if not FLAGS.mesh:
        return None
    mesh, count = device_flags.parse_mesh(FLAGS.mesh), devices.DEVICES[f"tpu-{tpu}"].count
    if mesh.devices != count:
        raise errors.UsageError(
            f"--mesh={mesh} has {mesh.devices} devices, and --tpu={tpu} has {count}: give a mesh "
            "of as many."
        )
    return mesh


def draw(number: int) -> tuple[str, PretrainingConfig, str]:
    """Draws settings at random, always the same for a number.

    Returns:
      Their name in the table, the settings, and one of `DRAWN`.
    """
    generator = random.Random(number)
    hidden = 128 * generator.randint(2, 8)
    encoder = EncoderConfig(
        embedding_size=hidden,
        hidden_size=hidden,
        num_hidden_layers=generator.randint(4, 24),
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
    )
    length = 64 * generator.randint(2, 8)
    batch, tpu = generator.randint(4, 64), generator.choice(DRAWN)
    settings = PretrainingConfig(
        encoder=encoder,
        generator_hidden_fraction=1 / generator.choice([1, 2]),
        sequence_length=length,
        train_batch_size=batch * devices.DEVICES[f"tpu-{tpu}"].count,
    )
    return f"{encoder.num_hidden_layers} layers of {hidden}, {length}", settings, tpu


def check(
    recipe: PretrainingConfig,
    length: int,
    tpu: str,
    batch_per_core: int = 0,
    mesh: MeshShape | None = None,
) -> dict:
    """Compiles one phase of a recipe, in as many parts as it needs to fit.

    Args:
      recipe: all settings.
      length: tokens of an example.
      tpu: one of `TOPOLOGIES`.
      batch_per_core: examples of a core, or of a group; 0: its share of the recipe's batch.
      mesh: groups of cores that share a model; None: each core has one.

    Returns:
      The settings that were compiled and the figures of the program; with "error" if it fits in no
      number of parts.

    Raises:
      UserError: the batch does not divide by the devices and parts.
      UsageError: the settings do not go with the mesh.
    """
    device = devices.DEVICES[f"tpu-{tpu}"]
    groups = mesh.data if mesh else device.count
    batch = batch_per_core * groups or recipe.train_batch_size
    settings = dataclasses.replace(
        recipe, sequence_length=length, final_sequence_length=0, train_batch_size=batch
    )
    if mesh:
        planned = mesh_cost.parts_that_fit(settings, mesh, f"tpu-{tpu}")
    else:
        planned = pretraining_cost.parts_that_fit(settings, f"tpu-{tpu}")
    parts = planned or recipe.run.gradient_accumulation_steps
    while True:
        if batch % (groups * parts):
            raise errors.UserError(
                f"train_batch_size {batch} does not divide by {groups} devices"
                + (f" with run.gradient_accumulation_steps={parts}." if parts > 1 else ".")
            )
        result = _compiled(settings, tpu, parts, mesh)
        too_large = "error" in result or result["needed_bytes"] > device.memory
        if not too_large or parts >= MOST_PARTS or batch % (2 * parts * groups):
            return result
        parts *= 2


def _compiled(
    settings: PretrainingConfig, tpu: str, parts: int, mesh: MeshShape | None = None
) -> dict:
    """Compiles a step in so many parts, or reads the result that is kept of it."""
    run = dataclasses.replace(
        settings.run, gradient_accumulation_steps=parts, precision="bfloat16", optimize_for="tpu"
    )
    settings = dataclasses.replace(settings, run=run, comment="")
    # In another process: TensorFlow keeps each traced step in memory until its process ends.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        cores = devices.DEVICES[f"tpu-{tpu}"].count
        text = pool.submit(_lower, settings, cores, mesh).result()
    target = f"{TOPOLOGIES[tpu]} {mesh}" if mesh else TOPOLOGIES[tpu]
    key = hashlib.sha256(f"{COMPILER} {target} {text}".encode()).hexdigest()[:16]
    path = Path(FLAGS.results) / f"{key}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write_text(path, json.dumps(_compile(text, settings, tpu, mesh), indent=1) + "\n")
    return json.loads(path.read_text())


def _lower(settings: PretrainingConfig, cores: int, mesh: MeshShape | None = None) -> str:
    """Returns the StableHLO of a core's step, or of that of a group of cores that share a model."""
    # Imported late: TensorFlow takes seconds, and --help and mistakes should not.
    import tensorflow as tf

    from tfbio.objectives.pretrainer import Pretrainer
    from tfbio.planning import tpu_mesh, tpu_program
    from tfbio.training import distribution

    if mesh:
        words = sharding.padded_words(settings.encoder.vocab_size, mesh.model)
        encoder = dataclasses.replace(settings.encoder, vocab_size=words)
        settings = dataclasses.replace(settings, encoder=encoder)
        strategy, made = tpu_mesh.make_strategy(mesh.data)
    else:
        strategy = tpu_program.make_strategy(cores, one_copy=True)
    precision.set_precision(settings.run.precision, strategy, settings.encoder.hidden_size)
    distribution.optimize_for(settings.run.optimize_for, strategy)
    words = settings.encoder.vocab_size
    # Which tokens these are does not change the program.
    ids = SimpleNamespace(cls_id=2, sep_id=3, pad_id=0, mask_id=4, begins_word=[True] * words)
    tokens = cast(FastTokenizer, ids)
    trainer = Pretrainer(settings, tokens, strategy, _make_teacher(settings, strategy))
    shape = [settings.train_batch_size // (mesh.data if mesh else cores), settings.sequence_length]
    rows = {name: tf.ones(shape, tf.int32) for name in PACKED}
    if settings.sentence_pair_loss:  # whose examples are not packed
        rows = {name: tf.ones(shape, tf.int32) for name in FEATURES}
        rows["label"] = tf.ones(shape[:1], tf.int32)
    step = trainer.replica_train_step
    if mesh:
        return tpu_mesh.stablehlo(strategy, made, step, rows, mesh.model)
    return tpu_program.stablehlo(strategy, step, rows)


def _make_teacher(
    settings: PretrainingConfig, strategy: tf.distribute.Strategy
) -> MaskedLanguageModel | None:
    """Makes the teacher of a distillation with new weights; None where there is none."""
    if not settings.distillation.has_teacher:
        return None
    from tfbio.objectives.masked_language_model import MaskedLanguageModel

    shape = settings.distillation.teacher(settings.encoder)
    # The settings name no heads: those of BERT and RoBERTa have 64 units each.
    shape = dataclasses.replace(shape, num_attention_heads=shape.hidden_size // 64)
    with strategy.scope():
        return MaskedLanguageModel(PretrainingConfig(objective="mlm", encoder=shape))


FEATURES = ("input_ids", "input_mask", "segment_ids")
PACKED = (*FEATURES, "document_ids", "position_ids")


def _compile(text: str, settings: PretrainingConfig, tpu: str, mesh: MeshShape | None) -> dict:
    """Runs the compiler in another process, and reads the program that it wrote."""
    device = devices.DEVICES[f"tpu-{tpu}"]
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "step.mlir"), Path(folder, "step.hlo")
        source.write_text(text)
        script = str(ROOT / "scripts" / "tpu_compiler.py")
        command = [FLAGS.compiler, script, TOPOLOGIES[tpu], str(source), str(program)]
        command += [f"--libtpu={LIBTPU}"] + ([f"--partitions={mesh.model}"] if mesh else [])
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise errors.UserError(f"the TPU's compiler failed: {last}")
        result = json.loads(done.stdout.strip().splitlines()[-1])
        if "error" not in result:
            bandwidth = device.bandwidth
            compiled = hlo_cost.Program(program.read_text(), device.bfloat16, bandwidth)
            cost = compiled.cost()
            exchanged = 2 * (device.count - 1) / device.count * cost.all_reduced
            if mesh:
                exchanged = hlo_collectives.exchanged(compiled)
                gathered = hlo_collectives.gathered(compiled)
                result |= {"exchanged_bytes": exchanged, "gathered": gathered}
            result |= {
                "needed_bytes": sum(
                    result[f"{name}_bytes"] for name in ("argument", "output", "temporary", "code")
                )
                - result["alias_bytes"],
                "flops": cost.flops,
                "hbm_bytes": cost.bytes,
                "all_reduced_bytes": cost.all_reduced,
                "instructions": cost.instructions,
                "products_seconds": cost.flops / device.bfloat16,
                "roofline_seconds": cost.seconds + exchanged / device.interconnect,
            }
    batch = settings.train_batch_size // (mesh.data if mesh else device.count)
    return {
        "tpu": tpu,
        **({"mesh": str(mesh)} if mesh else {}),
        "compiler": COMPILER,
        "settings": _changed(settings, PretrainingConfig()),
        "length": settings.sequence_length,
        "batch_per_core": batch,
        "parts": settings.run.gradient_accumulation_steps,
        **result,
    }


def _changed(settings: DataclassInstance, defaults: DataclassInstance) -> dict:
    """Returns the fields of a dataclass that differ from another's, nested ones included."""
    changed = {}
    for field in dataclasses.fields(settings):
        value, default = (getattr(each, field.name) for each in (settings, defaults))
        if value != default:
            nested = dataclasses.is_dataclass(value)
            changed[field.name] = _changed(value, default) if nested else value
    return changed


HEAD = """\
| recipe, length | TPU | batch a core | in parts | GB of memory | TFLOP | to the plan's | GB moved \
| MB of program | products, ms | roofline, ms | compiled in s |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def line(name: str, tpu: str, result: dict) -> str:
    """Formats a line of the table."""
    memory = devices.DEVICES[f"tpu-{tpu}"].memory / 1e9
    settings = config.load(PretrainingConfig, json.dumps(result["settings"]))
    planned = result["batch_per_core"] * tpu_cost.example_flops(settings, result["length"])
    if mesh := result.get("mesh"):
        planned /= device_flags.parse_mesh(mesh).model
        tpu += f", {mesh}"
    start = f"| {name} | {tpu} | {result['batch_per_core']} | {result['parts']} |"
    if "error" in result:
        return f"{start} does not fit {memory:.0f} | | | | | | | |"
    cells = (
        f"{result['needed_bytes'] / 1e9:.2f} of {memory:.0f}",
        f"{result['flops'] / 1e12:.3f}",
        f"{result['flops'] / planned:.3f}",
        f"{result['hbm_bytes'] / 1e9:.1f}",
        f"{result['code_bytes'] / 1e6:.0f}",
        f"{1e3 * result['products_seconds']:.1f}",
        f"{1e3 * result['roofline_seconds']:.1f}",
        f"{result['seconds']:.0f}",
    )
    return f"{start} {' | '.join(cells)} |"


if __name__ == "__main__":
    cli.run(main, define_flags, settings=config.names(PretrainingConfig))
