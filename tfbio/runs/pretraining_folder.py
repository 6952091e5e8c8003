"""Prepares the `--model_dir` of a pretraining run: its `config.json` and its vocabulary.

`pretraining.pretrain` prepares it; `run_pretraining.py` asks what is saved in it.
"""

import dataclasses
import hashlib
import json
import os
from typing import Any

from tfbio.base import file_paths, json_files, storage
from tfbio.base.errors import UserError
from tfbio.base.manifests import Manifest
from tfbio.base.run_folders import CONFIG
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_files import PretrainingSettings
from tfbio.runs.pretraining_data import Data
from tfbio.text import vocabularies
from tfbio.training import checkpointing
from tfbio.weights import checkpoint_settings, checkpoint_source

# Settings that may change when a run continues: some only affect the speed, and the teacher may lie
# in another folder. A checkpoint that was converted from elsewhere knows its family, and no data;
# data that is known is compared by itself.
_NOT_LEARNT = ("comment", "run", "data", "family", "teacher", "chosen_precision")


def settings_of(
    config: PretrainingConfig, data: Data, init_checkpoint: str, teacher: str = ""
) -> dict:
    """Collects the settings that the folder of a pretraining run holds in `config.json`.

    Args:
      config: all settings.
      data: for each phase the path of the folder of its examples and its manifest.
      init_checkpoint: what a new run starts from, see `pretraining.pretrain`; "" for new weights.
      teacher: the teacher of a distillation, see `pretraining.pretrain`; "": none.

    Returns:
      A dict of all fields of `PretrainingSettings`: the settings of `config`, and `lower_case`,
      `vocab_sha256`, `init_checkpoint` (None for new weights), `teacher` and `teacher_sha256` (None
      and "" without one), `data` (see `PretrainingSettings`; a dict of `documents_sha256`,
      `examples_sha256` and the counts of the examples' manifest for each), and `chosen_precision`
      and `family` (both "").

    Raises:
      UserError: the teacher's weights cannot be read.
    """
    _, manifest = data[0]
    settings = json_files.extended(
        PretrainingSettings,
        config,
        lower_case=manifest.settings["lower_case"],
        vocab_sha256=manifest.settings["vocab_sha256"],
        init_checkpoint=init_checkpoint or None,
        teacher=teacher or None,
        teacher_sha256=checkpoint_source.sha256_of_weights(teacher) if teacher else "",
        data={
            name: {
                "documents_sha256": own.settings.get("documents_sha256"),
                "examples_sha256": _sha256_of(own),
                **own.counts,
            }
            for name, (_, own) in zip(config.phase_names(), data, strict=True)
        },
    )
    return dataclasses.asdict(settings)


def _sha256_of(examples: Manifest) -> str:
    """Returns a hash of what the shards of examples hold, in their order."""
    shards = [(shard.records, shard.bytes, shard.sha256) for shard in examples.shards]
    return hashlib.sha256(json.dumps(shards).encode()).hexdigest()


def precision_of(model_dir: str) -> str:
    """Reads the precision in which the run in the folder of a pretraining run computes.

    Args:
      model_dir: the path of the run's folder, which has a checkpoint.

    Returns:
      "float32" or "bfloat16", the one that it began in unless `run.precision` has named another
      since; "" if the folder does not say it, as of a converted model.

    Raises:
      UserError: its `config.json` cannot be read.
    """
    if not file_paths.at(model_dir, CONFIG).exists():
        return ""
    return checkpoint_settings.read_settings(model_dir).get("chosen_precision", "")


def recorded_phases(model_dir: str) -> set[str]:
    """Reads of which phases the folder of a pretraining run records the examples.

    Args:
      model_dir: the path of the run's folder.

    Returns:
      Their names, see `PretrainingConfig.phase_names`; none for a folder without a `config.json`,
      and for a model that was converted.

    Raises:
      UserError: its `config.json` cannot be read.
    """
    if not file_paths.at(model_dir, CONFIG).exists():
        return set()
    return set(checkpoint_settings.read_settings(model_dir).get("data") or ())


def require_same_run(settings: dict, data: Data, model_dir: str, is_new: bool) -> str | os.PathLike:
    """Checks that the folder of a pretraining run holds the run of these settings; writes nothing.

    Args:
      settings: the result of `settings_of`. The `data` of a run that goes on gets the phases that
        were recorded before and that these settings do not reach.
      data: for each phase the path of the folder of its examples and its manifest.
      model_dir: the path of the run's folder.
      is_new: True if it has no checkpoint yet.

    Returns:
      The path of the vocabulary with which the examples were made.

    Raises:
      UserError: the folder holds another run, or a kept checkpoint of one; or the vocabulary beside
        the examples is not that with which they were made.
      VocabularyError: the examples have no vocabulary.
    """
    path = file_paths.at(model_dir, CONFIG)
    # The settings of a start that failed before its first checkpoint do not matter.
    before = checkpoint_settings.read_settings(model_dir) if path.exists() else {}
    if "task" in before:
        raise UserError(
            f"{model_dir} holds a run of run_finetuning.py: give another --model_dir, or a new one."
        )
    if not is_new and not before:
        raise UserError(
            f"{model_dir} has checkpoints and no config.json: put it back, or give another "
            "--model_dir."
        )
    if is_new:
        _require_no_kept(model_dir, settings, before)
    else:
        _require_same_settings(before, settings, model_dir)
        settings["data"] = (before.get("data") or {}) | settings["data"]
    folder, manifest = data[0]
    vocabulary = manifest.settings.get("vocab_file") or vocabularies.find_vocabulary(folder)
    if vocabularies.sha256_of(vocabulary) != manifest.settings["vocab_sha256"]:
        raise UserError(
            f"{vocabulary} is not the vocabulary with which the examples in {folder} were made: "
            "copy that one there again, or make the examples anew."
        )
    return vocabulary


def prepare(settings: dict, vocabulary: str | os.PathLike, model_dir: str, is_new: bool) -> None:
    """Prepares the folder of a pretraining run: writes `config.json` and the vocabulary.

    A new run removes the curves of one that ended before its first checkpoint. Returns nothing.

    Args:
      settings: the result of `settings_of`, which `require_same_run` has checked.
      vocabulary: the path of the vocabulary with which the examples were made.
      model_dir: the path of the run's folder; made if need be.
      is_new: True if it has no checkpoint yet.
    """
    checkpointing.remove_half_written(model_dir)
    if is_new:  # the curves of a start that ended before its first checkpoint
        for curves in ("train", "heldout"):
            storage.remove_folder(os.path.join(model_dir, "logs", curves))
    file_paths.at(model_dir).mkdir(parents=True, exist_ok=True)
    vocabularies.copy_vocabulary(vocabulary, model_dir)
    path = os.path.join(model_dir, CONFIG)
    storage.write_text(path, json.dumps(settings, indent=2) + "\n")


def _require_same_settings(before: dict, settings: dict, model_dir: str) -> None:
    """Refuses to continue a run with settings that it did not begin with."""
    had_teacher, has_teacher = before["teacher_sha256"], settings["teacher_sha256"]
    if had_teacher and has_teacher and had_teacher != has_teacher:
        raise UserError(
            f"--teacher={settings['teacher']} has other weights than those that the run in "
            f"{model_dir} began with: give the teacher as it was, or another --model_dir."
        )
    _require_same_data(before.get("data") or {}, settings["data"], model_dir)
    differing, both = {}, (before, settings)
    for name in settings.keys() - set(_NOT_LEARNT):
        # What the run began with is no longer read, and may lie elsewhere.
        had, has = (x[name] is not None if name == "init_checkpoint" else x[name] for x in both)
        if had != has:
            differing[name] = before[name]
    if differing.keys() == {"num_train_steps"}:
        had, wanted = differing["num_train_steps"], settings["num_train_steps"]
        if wanted > had:
            # Each of its steps had another learning rate than in a run of so many steps.
            raise UserError(
                f"the learning rate of this run falls to 0 at its step {had}: let it end, and "
                f"train on with --set num_train_steps={wanted - had}, another --set seed=N (for "
                "another order of the examples), another --model_dir, and "
                f"--init_checkpoint={model_dir}."
            )
    if differing:
        name = min(differing)
        name, had, wanted = _first_difference(name, differing[name], settings[name])
        raise UserError(
            f"{model_dir} holds a run with {name} = {had}, these settings say {wanted}: give "
            "another --model_dir, or the settings it had (in "
            f"{os.path.join(model_dir, 'config.json')})."
        )


def _require_no_kept(model_dir: str, settings: dict, before: dict) -> None:
    """Refuses a new run where one that was removed left a checkpoint: it would pass for its own."""
    init_checkpoint = settings["init_checkpoint"]
    own = file_paths.absolute(init_checkpoint) if init_checkpoint else ""
    for prefix in checkpointing.find_kept(model_dir):
        # A run that was killed while it wrote its first checkpoint left this one, and writes it
        # again.
        is_first = int(prefix.rpartition("-")[2]) <= settings["run"]["save_checkpoints_steps"]
        if file_paths.absolute(prefix) != own and not (is_first and _is_same(before, settings)):
            raise UserError(
                f"{prefix}.index is of another run, whose other checkpoints are gone: move its "
                "files elsewhere, or give another --model_dir."
            )


def _is_same(before: dict, settings: dict) -> bool:
    """Returns True if a run in the folder began with these settings."""
    if not before:
        return False
    try:
        _require_same_settings(before, settings, "")
    except UserError:
        return False
    return True


def _first_difference(name: str, had: Any, wanted: Any) -> tuple[str, Any, Any]:
    """Returns the name and both values of a setting that differs, or of the first in a group."""
    if isinstance(had, dict) and isinstance(wanted, dict):
        for key in sorted(had.keys() & wanted.keys()):
            if had[key] != wanted[key]:
                return _first_difference(f"{name}.{key}", had[key], wanted[key])
    return name, had, wanted


def _require_same_data(before: dict, data: dict, model_dir: str) -> None:
    """Refuses to continue on other examples: the order of what is read would be another one."""
    for phase in before.keys() & data.keys():
        for name in before[phase].keys() & data[phase].keys():
            if before[phase][name] != data[phase][name]:
                raise UserError(
                    f"the run in {model_dir} began with other examples: their {name} was "
                    f"{before[phase][name]}, and is {data[phase][name]} now. Give those that it "
                    "began with, or another --model_dir; --init_checkpoint="
                    f"{model_dir} then starts from its weights."
                )


def what_is_saved(model_dir: str) -> str:
    """Says which step the folder of a pretraining run holds, where the same command continues.

    Args:
      model_dir: the path of the run's folder.

    Returns:
      A clause such as "step 1000 is saved, and the same command continues there".

    Raises:
      CheckpointError: see `checkpointing.checkpoints_in`.
    """
    _, existing = checkpointing.checkpoints_in(model_dir)
    if not existing:
        return "no step is saved, and the same command begins anew"
    return f"step {existing[-1].rpartition('-')[2]} is saved, and the same command continues there"
