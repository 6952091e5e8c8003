"""Says which settings of pretraining go with a mesh of devices that share one model."""

import json

from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import UsageError
from tfbio.models import sharding
from tfbio.objectives.pretraining_config import PretrainingConfig


def check(config: PretrainingConfig, shape: MeshShape) -> None:
    """Checks that a mesh can pretrain with some settings; returns nothing.

    Args:
      config: all settings.
      shape: the shape of the mesh.

    Raises:
      UsageError: the batch does not divide by the parts of the examples, the encoder does not
        divide by those of the model, or a setting is of a kind that no mesh computes with.
    """
    sharding.check(config.encoder, shape.model)
    if config.has_generator:
        sharding.check(config.generator, shape.model, "generator_")
    parts = config.run.gradient_accumulation_steps
    if config.train_batch_size % (shape.data * parts):
        raise UsageError(
            f"train_batch_size {config.train_batch_size} does not divide by the {shape.data} parts "
            f"of --mesh={shape}"
            + (f" with run.gradient_accumulation_steps={parts}." if parts > 1 else ".")
        )
    wanted = {
        "optimizer": (config.optimizer, "adamw"),
        "gradient_clip_groups": (config.gradient_clip_groups, 1),
        "run.parallel_parts": (config.run.parallel_parts, 1),
        "run.jit_compile": (config.run.jit_compile, False),
    }
    if config.run.optimize_for == "tpu":
        # Its loop over the layers is an operation that no mesh can divide.
        wanted["run.optimize_for"] = ("tpu", "auto")
    for name, (value, other) in wanted.items():
        if value != other:
            given, advised = map(_as_setting, (value, other))
            raise UsageError(
                f"--mesh={shape} does not compute {name}={given}: give --set {name}={advised}."
            )
    if config.distillation.has_teacher:
        raise UsageError(f"--mesh={shape} does not go with --teacher.")


def _as_setting(value: object) -> str:
    """Returns a value as `--set` takes it, where True is `true`."""
    return value if isinstance(value, str) else json.dumps(value)
