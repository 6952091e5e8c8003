"""Writes fine-tuned models: as a trial of `run_finetuning.py`, or for `transformers`.

The class of `transformers` belongs to the family of the encoder: the one that it came in as
(config.json's `family`, that of the model which fine-tuning started from), or the one that it was
pretrained as here (see `hugging_face_settings.family_of`). There is one exception. The classes for
texts differ in the layers after [CLS], and BERT's and ELECTRA's encoders are the same, so the head
decides between these two: "tanh" is BERT's, "gelu" and "linear" are ELECTRA's.
"""

from __future__ import annotations

import os

import tensorflow as tf

from tfbio.base import json_files, run_folders
from tfbio.models.head_config import HeadConfig
from tfbio.task_types import finetuning_config, finetuning_files
from tfbio.task_types.finetuning_files import TrialScores
from tfbio.task_types.task_type import TaskType
from tfbio.task_types.trained_on import TrainedOn
from tfbio.text import vocabularies
from tfbio.weights import (
    checkpoint_source,
    hugging_face_settings,
    hugging_face_weights,
    weight_names,
)
from tfbio.weights.fine_tuned import FineTuned, task_type_of, type_of
from tfbio.weights.fine_tuned_elsewhere import KEPT, FineTunedError


def write_trial(folder: str, tuned: FineTuned) -> None:
    """Writes a fine-tuned model as a run of `run_finetuning.py` with one trial leaves it.

    Returns nothing. The folder gets `config.json` and the vocabulary, `trial_0` in it the weights
    (`model.index`, `model.data-*`) and `scores.json`, which has the calibration and no scores.

    Args:
      folder: the path of the folder to write; is made if it does not exist.
      tuned: the model, with its settings and its calibration.

    Raises:
      VocabularyError: there is no vocabulary beside the model.
      FileExistsError: the folder has a `trial_0`.
      FineTunedError: the settings have no known task type.
      OSError: a file cannot be written.
    """
    trial = os.path.join(folder, "trial_0")
    os.makedirs(trial)
    tree = tf.train.Checkpoint(model=tuned.model)
    tree.write(os.path.join(trial, checkpoint_source.TRIAL_WEIGHTS))
    scores = TrialScores(calibration=_calibration(tuned))
    json_files.write(os.path.join(trial, finetuning_files.SCORES), scores)
    vocabularies.copy_vocabulary(vocabularies.find_vocabulary(tuned.folder), folder)
    finetuning_config.write(os.path.join(folder, run_folders.CONFIG), tuned.settings)


def _calibration(tuned: FineTuned) -> dict[str, float | None]:
    """Returns the calibration by its name, for `scores.json`."""
    name = type_of(tuned.settings).calibration_name
    return {name: tuned.calibration} if name else {}


def write_hugging_face(folder: str, tuned: FineTuned) -> None:
    """Writes a fine-tuned model, with its tokenizer, as `transformers` loads it; returns nothing.

    Args:
      folder: the path of the folder to write; is made if it does not exist.
      tuned: the model, with its settings and its calibration.

    Raises:
      FineTunedError: no class of `transformers` can hold the model.
      HuggingFaceError: the family cannot have its encoder.
      VocabularyError: there is no vocabulary beside the model.
      OSError: a file cannot be written.
    """
    known = tuned.settings.trained_on
    _check_head(tuned.folder, tuned.model.head_config, known)
    vocabulary = vocabularies.find_vocabulary(checkpoint_source.run_of(tuned.folder))
    task_type = task_type_of(tuned.settings)
    family = _family(tuned, task_type, tuned.model.head_config.text_layer)
    hugging_face_settings.check_family(family, tuned.model.encoder.config, with_word_head=False)
    hugging_face_weights.write(
        folder,
        hugging_face_settings.class_name(family, task_type.hugging_face_class),
        tuned.model.encoder.config,
        weight_names.of_task_model(tuned.model, task_type.hugging_face_head, family),
        vocabulary,
        tuned.settings.lower_case,
        # Of more places the task has seen nothing.
        length=tuned.settings.sequence_length,
        **label_settings(tuned),
    )


def label_settings(tuned: FineTuned) -> dict[str, object]:
    """Returns what the `config.json` of `transformers` says of a fine-tuned model's outputs.

    Args:
      tuned: the model, with its settings and its calibration.

    Returns:
      Name -> value: `id2label` and `label2id`, where the task type has labels, its `problem_type`,
      if there is one, the calibration by its name, the type's `kept_settings`, and what
      `fine_tuned_elsewhere.KEPT` names, if known.

    Raises:
      FineTunedError: the settings have no known task type.
    """
    task_type = task_type_of(tuned.settings)
    # tfbio reads these back; `transformers` ignores them.
    more: dict[str, object] = {**_calibration(tuned)}
    more |= {name: getattr(task_type.settings, name) for name in task_type.kept_settings}
    for name in KEPT:
        if (value := getattr(tuned.settings.trained_on, name)) not in ("", None):
            more[name] = value
    if task_type.problem_type:
        more["problem_type"] = task_type.problem_type
    if labels := task_type.hugging_face_labels(tuned.settings.trained_on):
        more["id2label"] = {str(number): label for number, label in enumerate(labels)}
        more["label2id"] = {label: number for number, label in enumerate(labels)}
    return more


def _check_head(folder: str, head: HeadConfig, known: TrainedOn) -> None:
    """Checks that `transformers` has layers such as those on the encoder.

    Args:
      folder: of the model, for the message.
      head: the layers on the encoder.
      known: what it was trained on.

    Raises:
      FineTunedError: it has not.
    """
    layers = "mlp" if head.text_layer == "mlp" else head.token_layer
    if layers != "linear" or head.pooling != "first" or known.markers:
        raise FineTunedError(
            f"{folder} has head {layers} and pooling {head.pooling}"
            f"{', and markers of entities' * known.markers}: that form has only what is linear "
            "and first."
        )
    if head.beam_size:
        raise FineTunedError(
            f"{folder} has head electra, whose ends depend on their starts: "
            "no class of `transformers` has that. --mode=predict and --format=saved_model take it."
        )


def _family(tuned: FineTuned, task_type: TaskType, text_head: str) -> str:
    """Returns the family whose class can hold the model, by the rule of this module.

    Raises:
      FineTunedError: there is none.
    """
    family, shape = tuned.settings.family, tuned.model.encoder.config
    is_of_texts = not task_type.hugging_face_head
    if not is_of_texts or weight_names.TEXT_HEADS[family].text_head == text_head:
        return family
    wanted = "bert" if text_head == "tanh" else "electra"
    fits = shape.embedding_size == shape.hidden_size
    if wanted == "electra":
        # See `weight_names.of_text_head`.
        fits = text_head == "gelu" or 2 * tuned.model.head.units <= shape.hidden_size
    if family in ("bert", "electra") and fits:
        return wanted
    raise FineTunedError(
        f"{tuned.folder} has text_head {text_head}, {tuned.model.head.units} outputs and an "
        f"encoder of {family}: no class of `transformers` has all of that."
    )
