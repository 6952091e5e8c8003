"""Whether a path that `tfbio.load` is given holds a model, and what was meant if not."""

from __future__ import annotations

import glob
import os

from tfbio.base import file_paths, nearby_folders
from tfbio.base.errors import UserError

_TAKEN = (
    "a run of run_finetuning.py or run_pretraining.py, a trial, a folder of Hugging Face's or a "
    "TensorFlow 1 checkpoint"
)


def require_model(path: str, given: str) -> None:
    """Refuses a path at which nothing is, or what only other programs read.

    Args:
      path: the absolute path.
      given: the path as the user gave it, which may be a name of a hub.

    Raises:
      UserError: says what is there, and what was meant as far as that can be told.
    """
    if file_paths.is_remote(path):
        return
    if not any(map(os.path.exists, (path, f"{path}.index"))):
        meant = nearby_folders.model_meant(given, takes_runs=True)
        raise UserError(
            f"tfbio.load: {path} is not here, and nothing is downloaded by a name: "
            f"{meant or f'give the path of {_TAKEN}'}."
        )
    # TensorFlow Serving has its versions in folders.
    if any(glob.glob(os.path.join(glob.escape(path), x, "saved_model.pb")) for x in ("", "*")):
        raise UserError(
            f"tfbio.load: {path} holds a SavedModel, which tf.saved_model.load reads: give the "
            f"model that it was made of, {_TAKEN}."
        )
    if not os.path.exists(f"{path}.index") and (
        meant := nearby_folders.model_meant(path, takes_runs=True)
    ):
        raise UserError(f"tfbio.load: {path} holds no model: {meant}.")
