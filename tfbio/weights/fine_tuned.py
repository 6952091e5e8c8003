"""Fine-tuned models: read and written as a trial of `run_finetuning.py`, and as Hugging Face's.

All that reads takes either, and `write_trial` and `write_hugging_face` make either of what `read`
gives.

The class of Hugging Face's is of the family that the encoder came in as (config.json's `family`:
that of the folder which fine-tuning started from), or was pretrained as here (see
`checkpoints.family_of`). But for texts, where the classes differ in the layer on [CLS], the head
decides between BERT's and ELECTRA's, whose layers are the same: "tanh" is BERT's, "gelu" and
"linear" are ELECTRA's.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfbio.base import run_folders, storage
from tfbio.base.cli import UserError
from tfbio.base.config import load
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.task_model import TaskModel
from tfbio.task_types import types
from tfbio.task_types.inference import make_model
from tfbio.task_types.task_type import TaskType
from tfbio.task_types.types import FinetuningConfig
from tfbio.text import hugging_face_tokenizer, vocabularies
from tfbio.weights import checkpoints, hugging_face, weight_names


class FineTunedError(UserError):
    """A fine-tuned model that is of no known kind, or that the wanted form cannot hold."""


class FineTuned(NamedTuple):
    """A model with what using it takes.

    Attributes:
      folder: where it was read; for the messages, and for its vocabulary.
      model: with its weights.
      settings: as `run_finetuning.py` writes them to `config.json`, the most important ones.
      calibration: see `TaskType.calibrate`.
    """

    folder: str
    model: TaskModel
    settings: dict
    calibration: float | None


def is_one(folder: str) -> bool:
    """Whether `folder` has a fine-tuned model: a run's best trial, a trial, or Hugging Face's."""
    settings = checkpoints.read_settings(folder)
    return "trained_on" in settings or any(
        each.hugging_face_class == _class_in(folder) for each in types.TYPES.values()
    )


def read(folder: str) -> FineTuned:
    """Reads a model of either form.

    Args:
      folder: for which `is_one` holds.

    Raises:
      UserError: it cannot be read.
    """
    folder = find_trial(folder)
    settings = read_settings(folder)
    model = _make(settings)
    restore(folder, model)
    return FineTuned(folder, *_by_default(model, settings), read_calibration(folder))


def find_trial(model: str) -> str:
    """The folder with the weights, which may be `model` itself.

    Args:
      model: of a trial; of a run: then its best trial on the development set; or Hugging Face's.

    Raises:
      UserError: there is no model.
    """
    folder = run_folders.chosen(os.path.abspath(model))
    is_trial = os.path.isfile(os.path.join(folder, f"{checkpoints.TRIAL_WEIGHTS}.index"))
    if is_trial or hugging_face.is_one(folder):
        return folder
    scores = {}
    for path in sorted(storage.find(os.path.join(glob.escape(folder), "trial_*", "scores.json"))):
        # One that is being written is `trial_SEED.unfinished`.
        if not os.path.dirname(path).endswith(".unfinished"):
            with open(path, encoding="utf-8") as file:
                scores[os.path.dirname(path)] = json.load(file).get("dev")
    if not scores:
        raise UserError(
            f"{model} holds no trial of a fine-tuned model: give the --output_dir of a finished "
            "run_finetuning.py run, a trial_SEED in it, or a fine-tuned model of Hugging Face's."
        )
    if [*scores.values()] == [None]:  # a model from elsewhere, see `write_trial`
        return next(iter(scores))
    metric = next(iter(next(iter(scores.values()))))
    best = max(scores, key=lambda trial: scores[trial][metric])
    print(f"{best}: the best dev {metric} of {len(scores)} trial(s), {scores[best][metric]:.4f}")
    return best


def read_settings(trial: str) -> dict:
    """What `run_finetuning.py` wrote to `config.json`, or would have written of Hugging Face's.

    Args:
      trial: see `find_trial`.

    Raises:
      UserError: it cannot be read, or lacks what `predict` needs.
      FineTunedError: the model is of no known kind.
    """
    if hugging_face.is_one(trial):
        return _settings_of_hugging_face(trial)
    path = os.path.join(os.path.dirname(trial), "config.json")
    if not os.path.isfile(path):
        raise UserError(
            f"{path}, which run_finetuning.py wrote, is missing: copy it there with the vocabulary."
        )
    settings = checkpoints.read_settings(trial)
    if "trained_on" not in settings:
        raise UserError(
            f"{path} has no trained_on: expected the config.json that run_finetuning.py wrote."
        )
    return settings


def read_calibration(trial: str) -> float | None:
    """Reads `FineTuned.calibration` of the model in `trial`, see `find_trial`."""
    task_type = _type_of(read_settings(trial))
    if hugging_face.is_one(trial):
        return task_type.calibration_in(hugging_face.read_config(trial), trial)
    with open(os.path.join(trial, "scores.json"), encoding="utf-8") as file:
        return json.load(file).get(task_type.calibration_name)


def restore(trial: str, model: TaskModel) -> None:
    """Gives `model` the weights in `trial`, see `find_trial`.

    Raises:
      UserError: they cannot be read, or are of another shape.
    """
    if hugging_face.is_one(trial):
        task_type = _type_of(read_settings(trial))
        hugging_face.restore_task_model(trial, model, task_type.hugging_face_head)
        return
    weights = os.path.join(trial, checkpoints.TRIAL_WEIGHTS)
    try:
        tf.train.Checkpoint(model=model).read(weights).assert_consumed()
    except (tf.errors.OpError, RuntimeError, IndexError, AssertionError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"the weights {weights} cannot be read: {reason}") from error


def finetuning_config(settings: dict, overrides: Sequence[str] = ()) -> FinetuningConfig:
    """Returns the configuration in the `config.json` of a run, for new text.

    Args:
      settings: the content of that file.
      overrides: "name=value" each, which change it.
    """
    names = [field.name for field in dataclasses.fields(FinetuningConfig)]
    own = json.dumps({name: settings[name] for name in names if name in settings})
    config, task_type = load(FinetuningConfig, own, overrides), _type_of(settings)
    of_type = task_type.settings_for_new_text(getattr(config, task_type.name))
    return dataclasses.replace(config, **{task_type.name: of_type})


def _make(settings: dict) -> TaskModel:
    """Makes the model of a trial's settings, with random weights."""
    config, task_type = finetuning_config(settings), task_type_of(settings)
    shape = load(EncoderConfig, json.dumps(settings["encoder"]))
    # Exports state the dropout that the encoder was pretrained with.
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    config = dataclasses.replace(config, **{name: getattr(shape, name) for name in names})
    return make_model(shape, task_type, config)


def _by_default(model: TaskModel, settings: dict) -> tuple[TaskModel, dict]:
    """Returns a model that does the same with settings that others know, and these settings.

    Tagging's segment becomes the first one, the outputs of absent labels go, and the scale of the
    score becomes a part of the head; see `TaskType.portable_settings`.
    """
    task_type = task_type_of(settings)
    portable = task_type.portable_settings()
    if portable == task_type.settings:
        return model, settings
    changes = {
        name: value
        for name, value in dataclasses.asdict(portable).items()
        if value != getattr(task_type.settings, name)
    }
    settings = {**settings, task_type.name: {**settings[task_type.name], **changes}}
    same = _make(settings)
    for variable, value in zip(same.encoder.variables, model.encoder.variables, strict=True):
        variable.assign(value)
    if same.pooler is not None:
        same.pooler.set_weights(model.pooler.get_weights())
    task_type.copy_head(model, same)
    if same.transitions is not None:
        same.transitions.assign(model.transitions)
    if same.lstm is not None:
        same.lstm.set_weights(model.lstm.get_weights())
    return same, settings


def task_type_of(settings: dict) -> TaskType:
    """Makes the task type of a trial's settings, for new text.

    Raises:
      UserError: there is no such type, or its settings or labels cannot be used.
    """
    known = settings["trained_on"]
    return types.make(known["task_type"], known["labels"], finetuning_config(settings))


def _type_of(settings: dict) -> type[TaskType]:
    """Returns the type of the task that a model of these settings was trained on.

    Raises:
      FineTunedError: there is no such type.
    """
    name = settings["trained_on"].get("task_type")
    if name in types.TYPES:
        return types.TYPES[name]
    raise FineTunedError(
        f"config.json has the task type {json.dumps(name)}: it must be one of "
        f"{', '.join(types.TYPES)}."
    )


def _class_in(folder: str) -> str:
    """The class of Hugging Face's in a folder without the family's name, or ""."""
    return re.sub(r"^.*?(?=For[A-Z])", "", hugging_face_tokenizer.read_architecture(folder))


def _settings_of_hugging_face(folder: str) -> dict:
    said, pretrained = hugging_face.read_config(folder), checkpoints.read_settings(folder)
    shape, family = checkpoints.read_encoder_config(folder), pretrained["family"]
    labels = _labels(folder, said)
    task_type = _type_in(folder, said, labels)
    known, implied = task_type.read_hugging_face(folder, labels)
    if not task_type.of_tokens:
        implied["text_head"] = weight_names.TEXT_HEADS[family].text_head
    of_type = {task_type.name: task_type.Settings(**implied)}
    config = FinetuningConfig(
        comment=f"{said['architectures'][0]}, fine-tuned elsewhere",
        sequence_length=shape.max_sequence_length,
        hidden_dropout_prob=shape.hidden_dropout_prob,
        attention_probs_dropout_prob=shape.attention_probs_dropout_prob,
        num_trials=1,
        **of_type,
    )
    return {
        **types.settings_of(task_type.name, config),
        "init_checkpoint": folder,
        "encoder": dataclasses.asdict(shape),
        "lower_case": pretrained["lower_case"],
        "family": family,
        "trained_on": {
            "task_type": task_type.name,
            "new_text": task_type.new_text,
            **known,
            "markers": False,
        },
    }


def _type_in(folder: str, said: dict, labels: Sequence[str]) -> type[TaskType]:
    """Returns the task type of a model of `transformers`, by its class and its `config.json`.

    Raises:
      FineTunedError: no type has such models.
    """
    called = _class_in(folder)
    of_class = [each for each in types.TYPES.values() if each.hugging_face_class == called]
    if not of_class:
        classes = dict.fromkeys(f"...{x.hugging_face_class}" for x in types.TYPES.values())
        wanted = " or ".join(classes)
        raise FineTunedError(f"{folder} holds no fine-tuned model: give one of a class {wanted}.")
    fitting = (each for each in of_class if each.fits_hugging_face(said, labels))
    if found := next(fitting, None):
        return found
    raise FineTunedError(
        f"{folder}/config.json has problem_type = {said.get('problem_type')}: only "
        f"{', '.join(each.problem_type for each in of_class)} can be used."
    )


def _labels(folder: str, said: dict) -> list[str]:
    """The labels of a `config.json` of Hugging Face's, in the order of the outputs."""
    # Without names, `transformers` has LABEL_0 and so on, of which it saves no two.
    names = said.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    if isinstance(names, dict):
        labels = [names.get(str(number)) for number in range(len(names))]
        if all(isinstance(label, str) for label in labels):
            return labels
    raise FineTunedError(
        f"{folder}/config.json has id2label = {json.dumps(names)}: it must give each output, by "
        'its number from 0, the name of its label, such as {"0": "no", "1": "yes"}.'
    )


def write_trial(folder: str, tuned: FineTuned) -> None:
    """Writes `config.json` and the vocabulary, and in `trial_0` the weights, of Hugging Face's.

    Args:
      folder: made if need be.
      tuned: the model.
    """
    trial = os.path.join(folder, "trial_0")
    os.makedirs(trial)
    tree = tf.train.Checkpoint(model=tuned.model)
    tree.write(os.path.join(trial, checkpoints.TRIAL_WEIGHTS))
    _write_json(trial, "scores.json", _calibration(tuned))
    vocabularies.copy_vocabulary(vocabularies.find_vocabulary(tuned.folder), folder)
    _write_json(folder, "config.json", tuned.settings)


def _calibration(tuned: FineTuned) -> dict[str, float | None]:
    """Returns what `scores.json` holds of the calibration."""
    name = _type_of(tuned.settings).calibration_name
    return {name: tuned.calibration} if name else {}


def _write_json(folder: str, name: str, content: dict) -> None:
    storage.write_text(os.path.join(folder, name), json.dumps(content, indent=2) + "\n")


def write_hugging_face(folder: str, tuned: FineTuned) -> None:
    """Writes what `transformers` loads, with its tokenizer.

    Args:
      folder: made if need be.
      tuned: the model.

    Raises:
      FineTunedError: no class can hold it.
    """
    head, known = tuned.model.head_config, tuned.settings["trained_on"]
    if head.token_layer != "linear" or head.pooling != "first" or known["markers"]:
        raise FineTunedError(
            f"{tuned.folder} has head {head.token_layer} and pooling {head.pooling}"
            f"{', and markers of entities' * known['markers']}: that form has only what is linear "
            "and first."
        )
    if head.beam_size:
        raise FineTunedError(
            f"{tuned.folder} has head electra, whose ends depend on their starts: no class of "
            "`transformers` has that. --mode=predict and --format=saved_model take it."
        )
    vocabulary = vocabularies.find_vocabulary(checkpoints.run_of(tuned.folder))
    family = _family(tuned, head.text_layer)
    task_type = task_type_of(tuned.settings)
    hugging_face.check_family(family, tuned.model.encoder.config, with_word_head=False)
    labels = task_type.hugging_face_labels(known)
    # What `transformers` does not look at stands there for tfbio.
    more = _calibration(tuned)
    if task_type.problem_type:
        more["problem_type"] = task_type.problem_type
    if labels:
        more["id2label"] = {str(number): label for number, label in enumerate(labels)}
        more["label2id"] = {label: number for number, label in enumerate(labels)}
    hugging_face.write(
        folder,
        f"{family.capitalize()}{task_type.hugging_face_class}",
        tuned.model.encoder.config,
        weight_names.of_task_model(tuned.model, task_type.hugging_face_head, family),
        vocabulary,
        tuned.settings["lower_case"],
        **more,
    )


def _family(tuned: FineTuned, text_head: str) -> str:
    """The family whose class can hold the model, by the rule above."""
    family, shape = checkpoints.family_of(tuned.settings), tuned.model.encoder.config
    if tuned.model.of_tokens or weight_names.TEXT_HEADS[family].text_head == text_head:
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


def logits(model: TaskModel) -> np.ndarray:
    """Of four random texts, of which three have padding behind them; to compare models.

    Returns:
      float32 [tokens, outputs] of all that is no padding, or [4, outputs].
    """
    shape = model.encoder.config
    length = min(64, shape.max_sequence_length)
    rng, places = np.random.default_rng(0), np.arange(length)
    real = places < length - np.arange(4)[:, np.newaxis] * (length // 4)
    batch = {
        "input_ids": np.where(real, rng.integers(0, shape.vocab_size, real.shape), 0),
        "segment_ids": real & (places >= length // 8) & (shape.type_vocab_size > 1),
        "document_ids": real * np.arange(1, 5)[:, np.newaxis],
        "position_ids": real * places,
        "first": np.arange(4) * length,
    }
    found = model({name: tf.constant(values, tf.int32) for name, values in batch.items()}).numpy()
    return found[real.reshape(-1)] if model.of_tokens else found
