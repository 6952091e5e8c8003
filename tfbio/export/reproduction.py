"""The settings of a run as a file with which it can be done again: `hparams.json` of an export.

A run's own `config.json` has paths of the machine beside its settings, and in a folder of
`transformers` that name is taken.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types.finetuning_config import FinetuningConfig, RunConfig
from tfbio.task_types.types import TYPES

# The name of the file, which `--hparams` takes.
FILE = "hparams.json"


def of_pretraining(config: PretrainingConfig) -> dict[str, Any]:
    """Returns the settings of a pretraining run for `--hparams` of `run_pretraining.py`."""
    return _fields(PretrainingConfig, config)


def of_trial(settings: RunConfig, seed: int) -> dict[str, Any]:
    """Returns the settings of one trial for `--hparams` of `run_finetuning.py`.

    Args:
      settings: those of the run.
      seed: the trial's seed; with these settings a run has this trial alone.

    Returns:
      Name -> value; of the groups of task types that of the run's own alone.
    """
    own = settings.trained_on.task_type
    values = _fields(FinetuningConfig, settings) | {"seed": seed, "num_trials": 1}
    return {name: x for name, x in values.items() if name == own or name not in TYPES}


def _fields(config_class: type, config: Any) -> dict[str, Any]:
    """Returns the values of those fields of a configuration that a class of it has."""
    values = dataclasses.asdict(config)
    return {field.name: values[field.name] for field in dataclasses.fields(config_class)}
