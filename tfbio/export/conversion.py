"""Converts pretrained and fine-tuned models to other formats; `tfbio.convert` is the command.

Each function writes into a folder beside the target, reads the result back, compares the outputs
with those of the source, and only then gives the folder its name.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tfbio.base import json_files, run_folders, storage
from tfbio.base.errors import UserError
from tfbio.export import comparison, model_card, reproduction
from tfbio.export.model_card import NOTHING_SAID, Publication
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_files import PretrainingSettings
from tfbio.text import hugging_face_tokenizer, vocabularies
from tfbio.training import optimization
from tfbio.training.checkpointing import Checkpointer
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_weights,
    fine_tuned,
    fine_tuned_writer,
    hugging_face_settings,
    hugging_face_weights,
    tensorflow1_checkpoint,
    tensorflow1_settings,
    tensorflow1_weights,
    weight_names,
)
from tfbio.weights.checkpoint_source import Source, run_of, source_of

# The largest difference of an output after the result is read back. The weights are the same, bit
# for bit, unless one layer is written as two that round a little (`weight_names.of_text_head`).
_TOLERANCE = 1e-6
_TWO_LAYERS_TOLERANCE = 1e-5


class ConversionError(UserError):
    """An error of conversion: the format cannot hold the model, or the result has other outputs."""


def to_hugging_face(source: str, target: str, publication: Publication = NOTHING_SAID) -> None:
    """Converts a pretrained or fine-tuned model to a folder that `transformers` loads.

    Args:
      source: the path of a run of pretraining or fine-tuning, a trial, a model of `transformers`,
        or a TensorFlow 1 checkpoint; see `--from` of `tfbio.convert`.
      target: the path of a new folder.
      publication: facts for the model card.

    Raises:
      CheckpointError: there is no run in `source`.
      ConversionError: the format cannot hold the model, or the result gives other outputs.
      FineTunedError: no class of `transformers` can hold the fine-tuned model.
      HuggingFaceError: no class of `transformers` can hold the model, or `source` cannot be used.
      VocabularyError: there is no vocabulary beside the model.
      UserError: the settings or weights of `source` cannot be read for another reason.
      OSError: the folder cannot be written.
    """
    if fine_tuned.is_one(source):
        _convert_fine_tuned(source, target, fine_tuned_writer.write_hugging_face, publication)
        return
    settings = _settings(source)
    vocab_file = vocabularies.find_vocabulary(run_of(source))
    _, model = read_model(source)
    unfinished = storage.unfinished_folder(target)
    if isinstance(model, Electra):
        _write_electra(unfinished, model, settings["lower_case"], vocab_file)
    else:
        _write_masked_language_model(source, unfinished, model, settings, vocab_file)
    _check(unfinished, model)
    model_card.write(unfinished, source, publication)
    os.rename(unfinished, target)


def _write_electra(folder: str, model: Electra, lower_case: bool, vocab_file: Path) -> None:
    """Writes a discriminator and, in the folder `generator`, its generator.

    Raises:
      HuggingFaceError: no class of `transformers` can hold one of them.
    """
    config = model.config
    hugging_face_settings.check_family("electra", config.encoder, with_word_head=False)
    names = weight_names.of_encoder(model.encoder, "electra")
    names += weight_names.of_discriminator_head(model)
    hugging_face_weights.write(
        folder, "ElectraForPreTraining", model.encoder.config, names, vocab_file, lower_case
    )
    if model.generator is None or model.generator_head is None:
        return
    hugging_face_settings.check_family("electra", config.generator, with_word_head=True)
    names = weight_names.of_encoder(model.generator, "electra")
    names += weight_names.of_generator_head(model)
    inner = os.path.join(folder, hugging_face_settings.GENERATOR)
    hugging_face_weights.write(
        inner, "ElectraForMaskedLM", model.generator.config, names, vocab_file, lower_case
    )


def _write_masked_language_model(
    source: str, folder: str, model: MaskedLanguageModel, settings: dict, vocab_file: Path
) -> None:
    """Writes a masked language model.

    Raises:
      ConversionError: its family has no classifier of sentence pairs, and the model has one.
      HuggingFaceError: no class of `transformers` can hold the model.
    """
    config, family = model.config, hugging_face_settings.family_of(settings)
    hugging_face_settings.check_family(family, config.encoder, with_word_head=True)
    head = "ForPreTraining" if config.sentence_pair_head else "ForMaskedLM"
    if config.sentence_pair_head and not hugging_face_settings.FAMILIES[family].sentence_pair:
        raise ConversionError(
            f"{source} has a classifier of sentence pairs, for which a model of type {family} has "
            "no place: to leave it out, set sentence_pair_head and sentence_pair_loss to false in "
            "its config.json."
        )
    names = hugging_face_weights.of_masked_language_model(model, family)
    architecture = hugging_face_settings.class_name(family, head)
    hugging_face_weights.write(
        folder, architecture, model.encoder.config, names, vocab_file, settings["lower_case"]
    )


def to_tfbio(source: str, target: str) -> None:
    """Converts a model to a run of tfbio, with an optimizer that has taken no step.

    A fine-tuned model becomes a run of `run_finetuning.py`, any other one of `run_pretraining.py`.
    Returns nothing.

    Args:
      source: the path of a model of `transformers` with a head of pretraining or fine-tuning, a
        pretraining run, or a checkpoint of TensorFlow 1.
      target: the path of a new folder.

    Raises:
      CheckpointError: there is no run in `source`.
      ConversionError: a run of `run_finetuning.py` is given, or the result gives other outputs.
      FineTunedError: the fine-tuned model has no known task type.
      HuggingFaceError: `source` cannot be used.
      VocabularyError: there is no vocabulary beside the model.
      UserError: the settings or weights of `source` cannot be read for another reason.
      OSError: the folder cannot be written.
    """
    if fine_tuned.is_one(source):
        if not hugging_face_settings.is_one(source):
            raise ConversionError(f"{source} is of run_finetuning.py already.")
        _convert_fine_tuned(source, target, fine_tuned_writer.write_trial)
        return
    settings = _settings(source)
    config, model = read_model(source)
    vocab_file = vocabularies.find_vocabulary(run_of(source))
    name = os.path.basename(source.rstrip("/"))
    comment = f"The weights of {name}, which were not trained with the settings here."
    written = json_files.extended(
        PretrainingSettings,
        dataclasses.replace(config, comment=comment),
        lower_case=settings["lower_case"],
        vocab_sha256=vocabularies.sha256_of(vocab_file),
        init_checkpoint=source,
        # Another conversion writes a masked language model in the family that it came in as.
        family=settings.get("family", ""),
    )
    optimizer = _new_optimizer()
    optimizer._create_all_weights(model.trainable_variables)
    unfinished = storage.unfinished_folder(target)
    _write_run(unfinished, written, model, optimizer, vocab_file, keep=1)
    _check(unfinished, model)
    os.rename(unfinished, target)


def to_tfbio_with_optimizer(source: str, target: str, settings: PretrainingConfig) -> int:
    """Converts a TensorFlow 1 checkpoint to a pretraining run that continues as that code would.

    Args:
      source: the prefix or folder of a checkpoint for which `tensorflow1_checkpoint.has_state` is
        true.
      target: the path of a new folder, the `--model_dir` of the run.
      settings: the settings of the run; `hparams.json` in its folder has them for `--hparams`.

    Returns:
      The step that the run is at.

    Raises:
      TensorFlow1Error: the checkpoint is of another model or optimizer, or has no head.
      TokenizerError: the vocabulary is damaged, or its settings contradict it.
      VocabularyError: there is no vocabulary beside the checkpoint.
      OSError: the folder cannot be written.
    """
    prefix = tensorflow1_checkpoint.find_one(source)
    folder = os.path.dirname(prefix)
    vocab_file = vocabularies.find_vocabulary(folder)
    tensorflow1_settings.require_adam(source, settings.optimizer)
    tensorflow1_settings.require_encoder(source, settings.encoder)
    model, optimizer = _new_model(settings), _new_optimizer()
    tensorflow1_weights.load(prefix, model, optimizer)
    written = json_files.extended(
        PretrainingSettings,
        settings,
        lower_case=hugging_face_tokenizer.read_lower_case(folder),
        vocab_sha256=vocabularies.sha256_of(vocab_file),
    )
    unfinished = storage.unfinished_folder(target)
    _write_run(unfinished, written, model, optimizer, vocab_file, settings.run.keep_checkpoint_max)
    hparams = os.path.join(unfinished, reproduction.FILE)
    json_files.write(hparams, settings)
    _check(unfinished, model)
    os.rename(unfinished, target)
    return int(optimizer.iterations)


def _write_run(
    folder: str,
    settings: PretrainingSettings,
    model: Electra | MaskedLanguageModel,
    optimizer: optimization.Adam,
    vocab_file: Path,
    keep: int,
) -> None:
    """Writes the folder of a pretraining run, with one checkpoint."""
    os.makedirs(folder)
    json_files.write(os.path.join(folder, run_folders.CONFIG), settings)
    vocabularies.copy_vocabulary(vocab_file, folder)
    Checkpointer(model, optimizer, folder, keep=keep).save()


def _convert_fine_tuned(
    source: str, target: str, write: Callable[..., None], publication: Publication | None = None
) -> None:
    """Reads a fine-tuned model and writes it.

    Args:
      source: see `fine_tuned.read`.
      target: a new folder.
      write: a function of `fine_tuned_writer`.
      publication: facts for a model card; None to write none.

    Raises:
      ConversionError: the result gives other logits.
    """
    tuned = fine_tuned.read(source)
    unfinished = storage.unfinished_folder(target)
    write(unfinished, tuned)
    written = fine_tuned.read(unfinished)
    difference = comparison.fine_tuned_difference(written.model, tuned.model)
    as_two = tuned.model.pooler is None and written.model.pooler is not None
    if not difference <= (_TWO_LAYERS_TOLERANCE if as_two else _TOLERANCE):
        shutil.rmtree(unfinished)
        raise ConversionError(f"{source} gives other outputs, by {difference}: nothing is kept.")
    if publication:
        model_card.write(unfinished, tuned.folder, publication)
    os.rename(unfinished, target)


def to_original_electra(source: str, target: str) -> str:
    """Converts a pretraining run to a checkpoint that google-research/electra's code trains on.

    Args:
      source: the `--model_dir` of a pretraining run.
      target: the path of a new folder.

    Returns:
      The prefix of the checkpoint, `target`/model.ckpt-STEP.

    Raises:
      CheckpointError: there is no run in `source`.
      ConversionError: the run is not of ELECTRA, or that code lacks its encoders or optimizer.
      VocabularyError: there is no vocabulary in the run.
      OSError: the folder cannot be written.
    """
    config = checkpoint_settings.pretraining_config(_settings(source), run_of(source))
    if config.objective != "electra":
        raise ConversionError(
            f"{source} holds no ELECTRA with its generator, which that code trains: give "
            "--format=hugging_face."
        )
    if not _original_code_has(config):
        raise ConversionError(
            f"{source} has encoders or an optimizer that the original code has not: give "
            "--format=hugging_face."
        )
    optimizer = _new_optimizer()
    _, model = read_model(source, optimizer)
    unfinished = storage.unfinished_folder(target)
    os.makedirs(unfinished)
    name = f"model.ckpt-{int(optimizer.iterations)}"
    tensorflow1_weights.write(os.path.join(unfinished, name), model, optimizer)
    vocabularies.copy_vocabulary(vocabularies.find_vocabulary(run_of(source)), unfinished)
    # No tensor tells it.
    heads = {"num_attention_heads": config.encoder.num_attention_heads}
    storage.write_text(os.path.join(unfinished, "bert_config.json"), json.dumps(heads))
    _check(unfinished, model, read_model(unfinished, _new_optimizer())[1])
    os.rename(unfinished, target)
    return os.path.join(target, name)


def _original_code_has(config: PretrainingConfig) -> bool:
    """Returns True if google-research/electra's code has these encoders and this optimizer."""
    default = EncoderConfig()
    names = ("layer_norm_eps", "hidden_act", "position_offset", "share_layers", "layer_norm_first")
    plain = dataclasses.replace(config.encoder, **{name: getattr(default, name) for name in names})
    original = dataclasses.replace(
        config,
        encoder=plain,
        generator_intermediate_size=0,
        generator_num_attention_heads=0,
        generator_embedding_size=0,
    )
    has_encoders = (original.encoder, original.generator) == (config.encoder, config.generator)
    return has_encoders and config.optimizer == "adamw"


def _new_optimizer() -> optimization.Adam:
    """Makes an optimizer that can be saved.

    It has a schedule, as in a run: a constant rate would be a variable that is not saved.
    """
    return optimization.Adam(optimization.WarmupLinearDecay(0.0, 1, 0))


def _settings(source: str) -> dict:
    """Reads the settings of a pretraining run, or of a model with a head of pretraining.

    Raises:
      ConversionError: the model has no such head.
    """
    if source_of(source) is Source.HUGGING_FACE:
        return hugging_face_settings.read_pretraining_settings(source)
    settings = checkpoint_settings.read_settings(source)
    if "objective" not in settings:
        raise ConversionError(
            f"{source} is neither the --model_dir of a run_pretraining.py run nor a trial of a "
            "run_finetuning.py run, nor a pretrained model of TensorFlow 1."
        )
    return settings


def _new_model(config: PretrainingConfig) -> Electra | MaskedLanguageModel:
    """Makes a pretraining model with random weights."""
    return Electra(config) if config.objective == "electra" else MaskedLanguageModel(config)


def read_model(
    source: str, optimizer: optimization.Adam | None = None
) -> tuple[PretrainingConfig, Electra | MaskedLanguageModel]:
    """Reads the pretraining model and configuration for a conversion, in any of the formats.

    Args:
      source: the path of a pretraining run, a model of `transformers`, or a TensorFlow 1
        checkpoint.
      optimizer: is restored with its averages and its step if one is given; None for none.

    Returns:
      The configuration, and an `Electra` or a `MaskedLanguageModel` with the weights.

    Raises:
      CheckpointError: there is no checkpoint, it is damaged, or a setting is out of range.
      ConversionError: the model has no head of pretraining.
      HuggingFaceError: the model of `transformers` cannot be used.
      TensorFlow1Error: the TensorFlow 1 checkpoint cannot be used.
      UserError: the settings, tokenizer or weights cannot be read for another reason.
    """
    config = checkpoint_settings.pretraining_config(_settings(source), run_of(source))
    checkpoint_settings.require_weights(source, config.encoder)
    model = _new_model(config)
    checkpoint_weights.restore_model(source, model, optimizer)
    return config, model


def _check(
    folder: str,
    model: Electra | MaskedLanguageModel,
    written: Electra | MaskedLanguageModel | None = None,
) -> None:
    """Checks that the model in a folder, `written` if it was read, gives the outputs of a model.

    Raises:
      ConversionError: it does not. The folder is removed then.
    """
    difference = comparison.pretraining_difference(written or read_model(folder)[1], model)
    if not difference <= _TOLERANCE:
        shutil.rmtree(folder)
        raise ConversionError(f"{folder} gives other outputs, by {difference}: nothing is kept.")
