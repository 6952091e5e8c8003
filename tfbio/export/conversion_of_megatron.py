"""Converts models in the files of Megatron-LM and NeMo to folders that `transformers` loads."""

from __future__ import annotations

import os
import tempfile

from tfbio.export import conversion
from tfbio.weights import megatron_checkpoint


def to_hugging_face(path: str, target: str) -> None:
    """Converts a BERT of Megatron-LM, such as BioMegatron, to a folder that `transformers` loads.

    Returns nothing. All commands take the folder, too.

    Args:
      path: the path of a file of Megatron-LM (`.pt`) or NeMo (`.nemo`), on a local disk.
      target: the path of a new folder.

    Raises:
      MegatronError: the file is damaged, or of another model, or a part of one.
      WeightFileError: the weights are damaged, or are no tensors, which could be code.
      VocabularyError: there is no vocabulary in the `.nemo` or beside the file.
      UserError: the model cannot be written, see `conversion.to_hugging_face`.
      OSError: the folder cannot be written.
    """
    # Beside the target, because it is as large.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(target))) as folder:
        megatron_checkpoint.write_folder(path, folder)
        conversion.to_hugging_face(folder, target)
