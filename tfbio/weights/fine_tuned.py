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

from tfbio.base import run_folders, schema, storage
from tfbio.base.cli import UserError
from tfbio.base.config import load
from tfbio.models.task_model import TaskModel
from tfbio.task_types import finetuning_files, finetuning_settings, types
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.finetuning_files import TrainedOn, TrialScores
from tfbio.task_types.finetuning_settings import FinetuningSettings
from tfbio.task_types.inference import make_model
from tfbio.task_types.task_type import TaskType
from tfbio.text import hugging_face_tokenizer, vocabularies
from tfbio.weights import checkpoints, hugging_face, weight_names


class FineTunedError(UserError):
    """A fine-tuned model that is of no known kind, or that the wanted form cannot hold."""


class FineTuned(NamedTuple):
    """A model with what using it takes.

    Attributes:
      folder: where it was read; for the messages, and for its vocabulary.
      model: with its weights.
      settings: its `config.json`, or what that would say of a model from elsewhere.
      calibration: see `TaskType.calibrate`.
    """

    folder: str
    model: TaskModel
    settings: FinetuningSettings
    calibration: float | None


def is_one(folder: str) -> bool:
    """Returns True if `folder` holds a fine-tuned model: a run, a trial, or Hugging Face's."""
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
    """Returns the folder with the weights of a model.

    Args:
      model: the folder of a trial; of a run, whose best trial on the development set is taken; or
        of a model of Hugging Face's.

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
            trial = os.path.dirname(path)
            scores[trial] = finetuning_files.read_trial(trial).dev
    if not scores:
        raise UserError(
            f"{model} holds no trial of a fine-tuned model: give the --output_dir of a finished "
            "run_finetuning.py run, a trial_SEED in it, or a fine-tuned model of Hugging Face's."
        )
    if [*scores.values()] == [{}]:  # a model from elsewhere, see `write_trial`
        return next(iter(scores))
    metric = next(iter(next(iter(scores.values()))), "")
    if any(metric not in dev for dev in scores.values()):
        raise UserError(f"{model} has not the same dev scores of each trial: run the run again.")
    best = max(scores, key=lambda trial: scores[trial][metric])
    print(f"{best}: the best dev {metric} of {len(scores)} trial(s), {scores[best][metric]:.4f}")
    return best


def read_settings(trial: str) -> FinetuningSettings:
    """Reads what `run_finetuning.py` wrote to `config.json`.

    Args:
      trial: see `find_trial`; of Hugging Face's model the settings are what that file would say.

    Raises:
      SchemaError: the file is missing, or is not as a fine-tuning run writes it.
      FineTunedError: the model is of no task type.
    """
    if hugging_face.is_one(trial):
        return _settings_of_hugging_face(trial)
    return finetuning_settings.read_settings(os.path.dirname(trial))


def read_calibration(trial: str) -> float | None:
    """Reads `FineTuned.calibration` of the model in `trial`, see `find_trial`."""
    task_type = _type_of(read_settings(trial))
    if hugging_face.is_one(trial):
        return task_type.calibration_in(hugging_face.read_config(trial), trial)
    return finetuning_files.read_trial(trial).calibration.get(task_type.calibration_name)


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


def finetuning_config(
    settings: FinetuningSettings, overrides: Sequence[str] = ()
) -> FinetuningConfig:
    """Returns the configuration in the `config.json` of a fine-tuning run.

    New text is seen whole, also by a model whose training sentences were cut early.

    Args:
      settings: see `read_settings`.
      overrides: "name=value" each, see `config.load`.
    """
    written = dataclasses.asdict(settings)
    names = [field.name for field in dataclasses.fields(FinetuningConfig)]
    own = json.dumps({name: written[name] for name in names})
    config = load(FinetuningConfig, own, overrides)
    return dataclasses.replace(config, tagging_early_cut=False)


def _make(settings: FinetuningSettings) -> TaskModel:
    """Makes the model of a trial's settings, with random weights."""
    config, known = finetuning_config(settings), settings.trained_on
    task_type = types.make(known.task_type, known.labels, config)
    shape = settings.encoder
    # Exports state the dropout that the encoder was pretrained with.
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    config = dataclasses.replace(config, **{name: getattr(shape, name) for name in names})
    return make_model(shape, task_type, config)


# Settings of inputs and outputs that other programs do not know.
_OURS = ("tagging_segment", "absent_outputs", "score_scale")


def _by_default(
    model: TaskModel, settings: FinetuningSettings
) -> tuple[TaskModel, FinetuningSettings]:
    """Returns a model that does the same with the defaults of `_OURS`, and its settings.

    Tagging's segment becomes the first one, the outputs of absent labels go, and the scale of the
    score becomes a part of the head.
    """
    config = finetuning_config(settings)
    defaults = {name: getattr(FinetuningConfig, name) for name in _OURS}
    if all(getattr(config, name) == default for name, default in defaults.items()):
        return model, settings
    settings = dataclasses.replace(settings, **defaults)
    same = _make(settings)
    for variable, value in zip(same.encoder.variables, model.encoder.variables, strict=True):
        variable.assign(value)
    if same.pooler is not None:
        same.pooler.set_weights(model.pooler.get_weights())
    if config.tagging_segment:
        segments = model.encoder.embeddings.segment
        same.encoder.embeddings.segment.assign(tf.roll(segments, -config.tagging_segment, axis=0))
    outputs = slice(1, None, 2) if config.absent_outputs else slice(None)
    kernel, bias = (weights[..., outputs] for weights in model.head.get_weights())
    same.head.set_weights([kernel * config.score_scale, bias * config.score_scale])
    if same.transitions is not None:
        same.transitions.assign(model.transitions)
    if same.lstm is not None:
        same.lstm.set_weights(model.lstm.get_weights())
    return same, settings


def _type_of(settings: FinetuningSettings) -> type[TaskType]:
    """Returns the type of the task that a model of these settings was trained on.

    Raises:
      FineTunedError: there is no such type.
    """
    name = settings.trained_on.task_type
    if name in types.TYPES:
        return types.TYPES[name]
    raise FineTunedError(
        f"config.json has the task type {json.dumps(name)}: it must be one of "
        f"{', '.join(types.TYPES)}."
    )


def _class_in(folder: str) -> str:
    """Returns the class of a model of Hugging Face's, without the family's name, or ""."""
    return re.sub(r"^.*?(?=For[A-Z])", "", hugging_face_tokenizer.read_architecture(folder))


def _settings_of_hugging_face(folder: str) -> FinetuningSettings:
    """Returns what `config.json` would say of a model that was fine-tuned elsewhere."""
    said, pretrained = hugging_face.read_config(folder), checkpoints.read_settings(folder)
    shape, family = checkpoints.read_encoder_config(folder), pretrained["family"]
    labels = _labels(folder, said)
    task_type = _type_in(folder, said, labels)
    known, implied = task_type.read_hugging_face(folder, labels)
    implied |= task_type.settings_of_family(weight_names.TEXT_HEADS[family].text_head)
    config = FinetuningConfig(
        comment=f"{said['architectures'][0]}, fine-tuned elsewhere",
        sequence_length=shape.max_sequence_length,
        hidden_dropout_prob=shape.hidden_dropout_prob,
        attention_probs_dropout_prob=shape.attention_probs_dropout_prob,
        num_trials=1,
        **implied,
    )
    return schema.extended(
        FinetuningSettings,
        config,
        init_checkpoint=folder,
        encoder=shape,
        lower_case=pretrained["lower_case"],
        family=family,
        trained_on=TrainedOn(task_type=task_type.name, new_text=task_type.new_text, **known),
    )


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
    """Returns the labels in a `config.json` of Hugging Face's, in the order of the outputs."""
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
    scores = TrialScores(calibration=_calibration(tuned))
    schema.write(os.path.join(trial, finetuning_files.SCORES), scores)
    vocabularies.copy_vocabulary(vocabularies.find_vocabulary(tuned.folder), folder)
    schema.write(os.path.join(folder, finetuning_files.CONFIG), tuned.settings)


def _calibration(tuned: FineTuned) -> dict[str, float | None]:
    """Returns the calibration by its name, for `scores.json`."""
    name = _type_of(tuned.settings).calibration_name
    return {name: tuned.calibration} if name else {}


def write_hugging_face(folder: str, tuned: FineTuned) -> None:
    """Writes what `transformers` loads, with its tokenizer.

    Args:
      folder: made if need be.
      tuned: the model.

    Raises:
      FineTunedError: no class can hold it.
    """
    config, known = finetuning_config(tuned.settings), tuned.settings.trained_on
    if config.tagging_head != "linear" or config.pooling != "first" or known.markers:
        raise FineTunedError(
            f"{tuned.folder} has tagging_head {config.tagging_head} and pooling {config.pooling}"
            f"{', and markers of entities' * known['markers']}: that form has only what is linear "
            "and first."
        )
    if config.span_head != "bert":
        raise FineTunedError(
            f"{tuned.folder} has span_head {config.span_head}, whose ends depend on their starts: "
            "no class of `transformers` has that. --mode=predict and --format=saved_model take it."
        )
    vocabulary = vocabularies.find_vocabulary(checkpoints.run_of(tuned.folder))
    task_type = types.make(known.task_type, known.labels, config)
    family = _family(tuned, task_type, config.text_head)
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
        tuned.settings.lower_case,
        **more,
    )


def _family(tuned: FineTuned, task_type: TaskType, text_head: str) -> str:
    """The family whose class can hold the model, by the rule above."""
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
    return found if len(found) == len(real) else found[real.reshape(-1)]
