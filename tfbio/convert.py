r"""Takes a pretrained or a fine-tuned model to where it is wanted.

  python -m tfbio.convert --from=out/model --to=out/for_transformers
  python -m tfbio.convert --from=out/bc5cdr_chem/trial_0 --to=out/tagger
  python -m tfbio.convert --from=out/model --to=out/for_electra --format=original_electra

--from is the --model_dir of a run_pretraining.py run, of which the newest checkpoint is taken, or a
trial of a run_finetuning.py run.

hugging_face: a folder that `transformers` loads, with the tokenizer. ELECTRA's discriminator
(ElectraForPreTraining) is in the folder itself, its generator (ElectraForMaskedLM) in `generator/`;
a masked language model is BertForMaskedLM, or ElectraForMaskedLM where the embeddings are smaller
than the layers. A fine-tuned model is ElectraForTokenClassification, ForSequenceClassification or
ForQuestionAnswering, whatever it was pretrained as: BERT's encoder is the same.

original_electra: a checkpoint `model.ckpt-STEP` that google-research/electra's code trains on, with
the optimizer's averages.
"""

from __future__ import annotations

import json
import os
import shutil

from absl import flags

from tfbio import cli
from tfbio.cli import UserError

FORMATS = ("hugging_face", "original_electra")


class ConversionError(UserError):
    """A model that the wanted form cannot hold."""


def to_hugging_face(source: str, target: str) -> None:
    """Writes what `transformers` loads.

    Args:
      source: the `--model_dir` of a run.
      target: a new folder.

    Raises:
      CheckpointError: there is no run in `source`.
      ConversionError: the form cannot hold it, or what was written gives other outputs.
    """
    from tfbio import checkpoints, hugging_face, tokenization, weight_names

    settings = _settings(source)
    vocab_file = tokenization.find_vocabulary(checkpoints.run_of(source))
    if vocab_file.suffix != ".txt":
        raise ConversionError(
            f"{source} was pretrained with {vocab_file.name}: only a vocab.txt of WordPiece has a "
            "place in a model of this kind."
        )
    unfinished = f"{target.rstrip('/')}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)

    def write(folder, architecture, encoder, weights, **more) -> None:
        path = os.path.join(unfinished, folder)
        arguments = (path, architecture, encoder.config, weights, vocab_file)
        hugging_face.write(*arguments, settings["lower_case"], **more)
        _check(path, encoder)

    if "trained_on" in settings:
        architecture, model, names, more = _fine_tuned(source, settings)
        write("", architecture, model.encoder, names, **more)
        os.rename(unfinished, target)
        return
    config, model = _read_run(source)
    if config.objective == "electra":
        names = weight_names.of_encoder(model.encoder, "electra")
        names += weight_names.of_discriminator_head(model)
        write("", "ElectraForPreTraining", model.encoder, names)
        if model.generator_head is not None:
            names = weight_names.of_encoder(model.generator, "electra")
            names += weight_names.of_generator_head(model)
            write(hugging_face.GENERATOR, "ElectraForMaskedLM", model.generator, names)
    elif config.encoder.embedding_size == config.encoder.hidden_size:
        names = weight_names.of_masked_language_model(model)
        write("", "BertForMaskedLM", model.encoder, names)
    else:
        scope = "generator_predictions"
        names = weight_names.of_encoder(model.encoder, "electra")
        names += weight_names.of_word_head(model.head, scope, f"{scope}/output_bias")
        write("", "ElectraForMaskedLM", model.encoder, names)
    os.rename(unfinished, target)


def to_original_electra(source: str, target: str) -> str:
    """Writes a checkpoint of the original ELECTRA code; returns its prefix.

    Args:
      source: the `--model_dir` of a run.
      target: a new folder.

    Raises:
      CheckpointError: there is no run in `source`.
      ConversionError: the run is not ELECTRA's.
    """
    from tfbio import optimization, original_electra, tokenization

    settings = _settings(source)
    if settings.get("objective") != "electra":
        raise ConversionError(
            f"{source} holds no ELECTRA with its generator, which that code trains: give "
            "--format=hugging_face."
        )
    # With a schedule, as the run had it: a single rate would be a variable that is not saved.
    optimizer = optimization.Adam(optimization.WarmupLinearDecay(0.0, 1, 0))
    _, model = _read_run(source, optimizer)
    unfinished = f"{target.rstrip('/')}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    name = f"model.ckpt-{int(optimizer.iterations)}"
    original_electra.write(os.path.join(unfinished, name), model, optimizer)
    tokenization.copy_vocabulary(tokenization.find_vocabulary(source), unfinished)
    os.rename(unfinished, target)
    return os.path.join(target, name)


def _settings(source: str) -> dict:
    from tfbio import checkpoints

    settings = checkpoints.read_settings(source)
    if not {"objective", "trained_on"} & settings.keys():
        raise ConversionError(
            f"{source} is neither the --model_dir of a run_pretraining.py run nor a trial of a "
            "run_finetuning.py run."
        )
    return settings


def _fine_tuned(source: str, settings: dict) -> tuple:
    """The class of a trial's model, the model, its weights' names, and settings for config.json."""
    from tfbio import checkpoints, kinds, predict, weight_names
    from tfbio.task_model import TaskModel

    config, known = predict.finetuning_config(settings), settings["trained_on"]
    kind = kinds.make(known["kind"], known["labels"], config)
    if config.tagging_head != "linear" or config.pooling != "first" or known["markers"]:
        raise ConversionError(
            f"{source} has tagging_head {config.tagging_head} and pooling {config.pooling}"
            f"{', and markers of entities' * known['markers']}: that form has only what is linear "
            "and first."
        )
    encoder = checkpoints.read_encoder_config(source)
    model = TaskModel(encoder, kind.num_outputs, kind.of_tokens, dropout_prob=0.0)
    predict.restore(source, model)
    names = weight_names.of_encoder(model.encoder, "electra")
    labels, more = list(kind.labels), {}
    if known["kind"] == "tagging":
        # With the type of the entities, where the tags have none.
        labels = [x if x == "O" or "-" in x else f"{x}-{known['entity_type']}" for x in labels]
        architecture = "ElectraForTokenClassification"
        names += weight_names.of_outputs(model, "classifier")
    elif known["kind"] == "spans":
        architecture = "ElectraForQuestionAnswering"
        names += weight_names.of_outputs(model, "qa_outputs")
        # By how much no answer must score higher, which `transformers` does not look at.
        with open(os.path.join(source, "scores.json"), encoding="utf-8") as file:
            more["null_threshold"] = json.load(file)["null_threshold"]
    else:
        architecture = "ElectraForSequenceClassification"
        names += weight_names.of_text_head(model)
        more["problem_type"] = {
            "classification": "single_label_classification",
            "regression": "regression",
            "multilabel": "multi_label_classification",
        }[known["kind"]]
        labels = labels or ["score"]
    if labels:
        more["id2label"] = {str(number): label for number, label in enumerate(labels)}
        more["label2id"] = {label: number for number, label in enumerate(labels)}
    return architecture, model, names, more


def _read_run(source: str, optimizer=None):
    """The settings and the model of a run; the optimizer gets its averages and its step."""
    from tfbio import checkpoints, electra, masked_language_model

    settings = checkpoints.pretraining_config(_settings(source))
    kind = electra.Electra
    if settings.objective != "electra":
        kind = masked_language_model.MaskedLanguageModel
    checkpoints.require_weights(source, settings.encoder)
    model = kind(settings)
    checkpoints.restore_model(source, model, optimizer)
    return settings, model


def _check(folder: str, encoder) -> None:
    """Raises a ConversionError if what was written gives other outputs than the encoder."""
    import numpy as np
    import tensorflow as tf

    from tfbio import checkpoints
    from tfbio.encoder import Encoder

    shape = checkpoints.read_encoder_config(folder)
    written = Encoder(shape)
    checkpoints.restore_encoder(folder, written)
    size = [4, min(64, shape.max_position_embeddings)]
    rng = np.random.default_rng(0)
    ids = tf.constant(rng.integers(0, shape.vocab_size, size), tf.int32)
    inputs = (ids, tf.ones_like(ids), tf.zeros_like(ids))
    difference = float(tf.reduce_max(tf.abs(written(*inputs) - encoder(*inputs))))
    if not difference <= 1e-6:
        raise ConversionError(f"{folder} gives other outputs, by {difference}: nothing is kept.")


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string(
        "from", None, "The --model_dir of a pretraining run, or a trial's folder.", required=True
    )
    flags.DEFINE_string("to", None, "The new folder.", required=True)
    flags.DEFINE_enum("format", FORMATS[0], FORMATS, "What is to read it.")


def main(argv: list[str]) -> None:
    """The command."""
    cli.no_arguments(argv)
    source, target = flags.FLAGS["from"].value, flags.FLAGS.to
    if os.path.exists(target):
        raise UserError(f"--to={target} is there already: give a new folder, or remove it.")
    if flags.FLAGS.format == "hugging_face":
        to_hugging_face(source, target)
        print(f"{target}: load it with transformers' from_pretrained.")
    else:
        print(f"{to_original_electra(source, target)}: the prefix of the checkpoint.")


if __name__ == "__main__":
    cli.run(main, define_flags)
