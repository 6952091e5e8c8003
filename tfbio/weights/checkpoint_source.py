"""Finds the newest checkpoint in a folder, and tells which program wrote it.

A checkpoint may be of a run of tfbio, of `transformers` or of TensorFlow 1.
`checkpoint_settings` reads its settings and `checkpoint_weights` its weights.
"""

from __future__ import annotations

import enum
import os

from tfbio.base import file_paths, run_folders, storage
from tfbio.training import checkpointing
from tfbio.training.checkpointing import CheckpointError
from tfbio.weights import hugging_face_settings, tensorflow1_checkpoint, weight_files

# The name of the weights in the folder of a fine-tuning run's trial.
TRIAL_WEIGHTS = "model"


class Source(enum.Enum):
    """The source of a checkpoint: the program that wrote its weights.

    The value of a member is the program's name for messages, such as "a run of tfbio".

    Attributes:
      RUN: tfbio, in a run of pretraining or a trial of fine-tuning.
      HUGGING_FACE: `transformers`, or a program that writes its format.
      TENSORFLOW1: google-research's electra, bert or albert.
    """

    RUN = "a run of tfbio"
    HUGGING_FACE = "transformers"
    TENSORFLOW1 = "TensorFlow 1"


def source_of(folder: str) -> Source:
    """Tells the source of a checkpoint, that is, which program wrote the weights in a folder.

    Args:
      folder: a folder with weights, or the prefix of a checkpoint.

    Returns:
      A member of `Source`: TENSORFLOW1 if there is a checkpoint of TensorFlow 1, else HUGGING_FACE
      if its `config.json` has a model_type, and RUN for everything else, also for a folder without
      weights.

    Raises:
      TensorFlow1Error: the files of a checkpoint cannot be read, or the folder holds several of
        TensorFlow 1.
    """
    if tensorflow1_checkpoint.find(folder) is not None:
        return Source.TENSORFLOW1
    return Source.HUGGING_FACE if hugging_face_settings.is_one(folder) else Source.RUN


def run_of(folder: str) -> str:
    """Finds the folder with the settings and the vocabulary of a checkpoint, whatever its source.

    Args:
      folder: the folder of a pretraining run or of a model of `transformers`, which hold both; a
        trial of a fine-tuning run, or a link to it, where both are one folder above the trial; or
        the prefix of a checkpoint, where both are beside it.

    Returns:
      The path of `folder` itself, or of the folder above; "." if the path names none. The files
      need not exist.

    Raises:
      TensorFlow1Error: a file of a checkpoint cannot be read.
    """
    if file_paths.at(f"{folder}.index").is_file():
        return os.path.dirname(folder) or "."
    is_trial = file_paths.at(folder, f"{TRIAL_WEIGHTS}.index").is_file()
    if is_trial and tensorflow1_checkpoint.find(folder) is None:
        return os.path.dirname(run_folders.followed(folder).rstrip("/"))
    return folder


def newest_weights(folder: str) -> str:
    """Finds the newest checkpoint in a folder, whether its source is tfbio or TensorFlow 1.

    Args:
      folder: the `--model_dir` of a pretraining run, a trial of a fine-tuning run, a folder with
        checkpoints of TensorFlow 1, or the prefix of a checkpoint.

    Returns:
      The prefix of the checkpoint, such as "out/model/ckpt-1000".

    Raises:
      CheckpointError: there is no checkpoint, as in a model of `transformers`, or the list of
        checkpoints is damaged.
      TensorFlow1Error: a checkpoint of TensorFlow 1 cannot be read, or there are several.
    """
    if (prefix := tensorflow1_checkpoint.find(folder)) is not None:
        return prefix
    if file_paths.at(f"{folder}.index").is_file():
        return folder
    if run_of(folder) != folder:
        return os.path.join(folder, TRIAL_WEIGHTS)
    _, existing = checkpointing.checkpoints_in(folder)
    if not existing:
        raise CheckpointError(
            f"{folder} holds no checkpoint: run run_pretraining.py first (to fine-tune, the folder "
            "trial_SEED of a run_finetuning.py run will also do)."
        )
    return existing[-1]


def sha256_of_weights(folder: str) -> str:
    """Computes a hash that tells the weights of one checkpoint from another's, whatever its source.

    Args:
      folder: a folder with weights, or the prefix of a checkpoint; of a run's checkpoints the
        newest counts.

    Returns:
      64 hexadecimal digits: of a model of `transformers` see `weight_files.sha256_of`; else the
      SHA-256 of the checkpoint's index, which has a checksum of every tensor.

    Raises:
      CheckpointError: there is no checkpoint, or the list of checkpoints is damaged.
      WeightFileError: a file of weights of `transformers` is missing or cannot be used.
      TensorFlow1Error: a checkpoint of TensorFlow 1 cannot be read, or there are several.
      OSError: a file cannot be read.
    """
    if source_of(folder) is Source.HUGGING_FACE:
        return weight_files.sha256_of(folder)
    return storage.sha256_of(f"{newest_weights(folder)}.index")
