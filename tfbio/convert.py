r"""Takes a pretrained or a fine-tuned model to where it is wanted.

  python -m tfbio.convert --from=out/model --to=out/for_transformers
  python -m tfbio.convert --from=out/bc5cdr_chem/trial_0 --to=out/tagger
  python -m tfbio.convert --from=roberta-base --to=out/roberta --format=tfbio
  python -m tfbio.convert --from=BertForTokenClassification --to=out/tagger --format=tfbio
  python -m tfbio.convert --from=out/model --to=out/for_electra --format=original_electra
  python -m tfbio.convert --from=out/bc5cdr_chem --to=out/serving --format=saved_model
  python -m tfbio.convert --from=electra/model.ckpt-1000 --to=out/model --format=tfbio \
      --hparams=hparams/base.json

--from is the --model_dir of a run_pretraining.py run, of which the newest checkpoint is taken, the
--output_dir of a run_finetuning.py run, of which the best trial is, or one of its trials, a folder
of Hugging Face's with a head of pretraining or fine-tuning, or a TensorFlow 1 checkpoint of
google-research's electra, bert or albert: its prefix, or the folder that it is in.

hugging_face: a folder that `transformers` loads, with the tokenizer. ELECTRA's discriminator
(ElectraForPreTraining) is in the folder itself, its generator (ElectraForMaskedLM) in `generator/`.
A masked language model is AlbertForMaskedLM where its layers are shared, RobertaForMaskedLM where
its positions have an offset, ElectraForMaskedLM where the embeddings are smaller than the layers,
and BertForMaskedLM otherwise; BERT and ALBERT with their classifier of sentence pairs are
...ForPreTraining. A fine-tuned model is ...ForTokenClassification, ForSequenceClassification or
ForQuestionAnswering; of which family, tfbio/weights/fine_tuned.py says.

tfbio: what a run_pretraining.py run leaves, with an optimizer that has done no step: pretraining
goes on from it (--init_checkpoint), and fine-tuning. Of a TensorFlow 1 checkpoint with the
optimizer's averages, a --model_dir with which run_pretraining.py, given the same --hparams and
--set, goes on exactly where that code was. Of a fine-tuned model, what a run_finetuning.py run
leaves: for --mode=predict, and for --init_checkpoint.

original_electra: a checkpoint `model.ckpt-STEP` that google-research/electra's code trains on, with
the optimizer's averages.

saved_model: a SavedModel that takes strings, for TensorFlow Serving (see
tfbio/export/saved_model.py).
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable

from absl import flags

from tfbio.base import cli, config, paths, schema, storage
from tfbio.base.cli import UsageError, UserError
from tfbio.objectives import pretraining_files
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_files import PretrainingSettings

FORMATS = ("hugging_face", "tfbio", "saved_model", "original_electra")

# By how much outputs may differ after what was written is read back. The weights are the same, bit
# for bit, but where one layer is written as two that round a little (`weight_names.of_text_head`).
TOLERANCE = 1e-6
TWO_LAYERS_TOLERANCE = 1e-5


class ConversionError(UserError):
    """A model that the wanted form cannot hold."""


def to_hugging_face(source: str, target: str) -> None:
    """Writes what `transformers` loads.

    Args:
      source: see `--from`.
      target: a new folder.

    Raises:
      CheckpointError: there is no run in `source`.
      ConversionError: the form cannot hold it, or what was written gives other outputs.
      FineTunedError: no class can be the fine-tuned model.
      HuggingFaceError: no class of `transformers` can be the model, or `source` cannot be used.
    """
    from tfbio.export import model_card
    from tfbio.text import vocabularies
    from tfbio.weights import checkpoints, fine_tuned, hugging_face, weight_names

    if fine_tuned.is_one(source):
        _convert_fine_tuned(source, target, fine_tuned.write_hugging_face, with_card=True)
        return
    settings = _settings(source)
    vocab_file = vocabularies.find_vocabulary(checkpoints.run_of(source))
    unfinished = f"{target.rstrip('/')}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)

    def write(folder, architecture, encoder, weights) -> None:
        path = os.path.join(unfinished, folder)
        arguments = (path, architecture, encoder.config, weights, vocab_file)
        hugging_face.write(*arguments, settings["lower_case"])

    config, model = _read_run(source)
    if config.objective == "electra":
        hugging_face.check_family("electra", config.encoder, with_word_head=False)
        names = weight_names.of_encoder(model.encoder, "electra")
        names += weight_names.of_discriminator_head(model)
        write("", "ElectraForPreTraining", model.encoder, names)
        if model.generator_head is not None:
            hugging_face.check_family("electra", config.generator, with_word_head=True)
            names = weight_names.of_encoder(model.generator, "electra")
            names += weight_names.of_generator_head(model)
            write(hugging_face.GENERATOR, "ElectraForMaskedLM", model.generator, names)
    else:
        family = checkpoints.family_of(settings)
        hugging_face.check_family(family, config.encoder, with_word_head=True)
        head = "ForPreTraining" if config.sentence_pair_head else "ForMaskedLM"
        if config.sentence_pair_head and not hugging_face.FAMILIES[family].sentence_pair:
            raise ConversionError(
                f"{source} has a classifier of sentence pairs, for which a model of type {family} "
                "has no place: set sentence_pair_head to false in its config.json to leave it out."
            )
        names = hugging_face.of_masked_language_model(model, family)
        write("", f"{family.capitalize()}{head}", model.encoder, names)
    _check(unfinished, model)
    if model_card.can_be_of(source):
        model_card.write(unfinished, source)
    os.rename(unfinished, target)


def to_tfbio(source: str, target: str) -> None:
    """Writes what a run leaves: of `run_pretraining.py`, or for a fine-tuned model the other's.

    Args:
      source: a folder of Hugging Face's with a head of pretraining or fine-tuning, or a run.
      target: a new folder.

    Raises:
      CheckpointError: there is no run in `source`.
      ConversionError: it is of a run_finetuning.py run, or what was written gives other outputs.
      FineTunedError: the fine-tuned model is of no known kind.
      HuggingFaceError: it cannot be used.
    """

    from tfbio.text import vocabularies
    from tfbio.training import optimization
    from tfbio.training.checkpointing import Checkpointer
    from tfbio.weights import checkpoints, fine_tuned, hugging_face

    if fine_tuned.is_one(source):
        if not hugging_face.is_one(source):
            raise ConversionError(f"{source} is of run_finetuning.py already.")
        _convert_fine_tuned(source, target, fine_tuned.write_trial)
        return
    settings = _settings(source)
    config, model = _read_run(source)
    vocab_file = vocabularies.find_vocabulary(checkpoints.run_of(source))
    name = os.path.basename(source.rstrip("/"))
    comment = f"The weights of {name}, which were not trained with the settings here."
    written = schema.extended(
        PretrainingSettings,
        dataclasses.replace(config, comment=comment),
        lower_case=settings["lower_case"],
        vocab_sha256=vocabularies.sha256_of(vocab_file),
        init_checkpoint=source,
        # A masked language model goes out as what it came in as.
        family=settings.get("family", ""),
    )
    unfinished = f"{target.rstrip('/')}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    schema.write(os.path.join(unfinished, pretraining_files.CONFIG), written)
    vocabularies.copy_vocabulary(vocab_file, unfinished)
    optimizer = optimization.Adam(optimization.WarmupLinearDecay(0.0, 1, 0))
    optimizer._create_all_weights(model.trainable_variables)
    Checkpointer(model, optimizer, unfinished, keep=1).save()
    _check(unfinished, model)
    os.rename(unfinished, target)


def _convert_fine_tuned(
    source: str, target: str, write: Callable[..., None], with_card: bool = False
) -> None:
    """Reads, writes, and reads back: the logits must be the same."""
    import numpy as np

    from tfbio.export import model_card
    from tfbio.weights import fine_tuned

    tuned = fine_tuned.read(source)
    unfinished = f"{target.rstrip('/')}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    write(unfinished, tuned)
    written = fine_tuned.read(unfinished)
    expected = fine_tuned.logits(tuned.model)
    difference = float(np.abs(fine_tuned.logits(written.model) - expected).max())
    as_two = tuned.model.pooler is None and written.model.pooler is not None
    if not difference <= (TWO_LAYERS_TOLERANCE if as_two else TOLERANCE):
        shutil.rmtree(unfinished)
        raise ConversionError(f"{source} gives other outputs, by {difference}: nothing is kept.")
    if with_card and model_card.can_be_of(tuned.folder):
        model_card.write(unfinished, tuned.folder)
    os.rename(unfinished, target)


def to_original_electra(source: str, target: str) -> str:
    """Writes a checkpoint of the original ELECTRA code; returns its prefix.

    Args:
      source: the `--model_dir` of a run.
      target: a new folder.

    Raises:
      CheckpointError: there is no run in `source`.
      ConversionError: the run is not ELECTRA's, or its encoders are not that code's.
    """
    from tfbio.models.encoder_config import EncoderConfig
    from tfbio.text import vocabularies
    from tfbio.training import optimization
    from tfbio.weights import checkpoints, tensorflow1

    settings = _settings(source)
    if settings.get("objective") != "electra":
        raise ConversionError(
            f"{source} holds no ELECTRA with its generator, which that code trains: give "
            "--format=hugging_face."
        )
    config = checkpoints.pretraining_config(settings, checkpoints.run_of(source))
    default = EncoderConfig()
    names = ("layer_norm_eps", "hidden_act", "position_offset", "share_layers")
    plain = dataclasses.replace(config.encoder, **{name: getattr(default, name) for name in names})
    original = dataclasses.replace(
        config,
        encoder=plain,
        generator_intermediate_size=0,
        generator_num_attention_heads=0,
        generator_embedding_size=0,
    )
    if (original.encoder, original.generator) != (config.encoder, config.generator):
        raise ConversionError(
            f"{source} has encoders that the original code has not: give --format=hugging_face."
        )
    # With a schedule, as the run had it: a single rate would be a variable that is not saved.
    optimizer = optimization.Adam(optimization.WarmupLinearDecay(0.0, 1, 0))
    _, model = _read_run(source, optimizer)
    unfinished = f"{target.rstrip('/')}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    name = f"model.ckpt-{int(optimizer.iterations)}"
    tensorflow1.write(os.path.join(unfinished, name), model, optimizer)
    vocab_file = vocabularies.find_vocabulary(checkpoints.run_of(source))
    vocabularies.copy_vocabulary(vocab_file, unfinished)
    os.rename(unfinished, target)
    return os.path.join(target, name)


def _settings(source: str) -> dict:
    """Of a run, or a model of Hugging Face's with a head of pretraining."""
    from tfbio.weights import checkpoints, hugging_face

    if checkpoints.reader_of(source) is hugging_face:
        return hugging_face.read_pretraining_settings(source)
    settings = checkpoints.read_settings(source)
    if "objective" not in settings:
        raise ConversionError(
            f"{source} is neither the --model_dir of a run_pretraining.py run nor a trial of a "
            "run_finetuning.py run, nor a pretrained model of TensorFlow 1."
        )
    return settings


def _read_run(source: str, optimizer=None):
    """The settings and the model of a run; the optimizer gets its averages and its step."""
    from tfbio.objectives import electra, masked_language_model
    from tfbio.weights import checkpoints

    settings = checkpoints.pretraining_config(_settings(source), checkpoints.run_of(source))
    kind = electra.Electra
    if settings.objective != "electra":
        kind = masked_language_model.MaskedLanguageModel
    checkpoints.require_weights(source, settings.encoder)
    model = kind(settings)
    checkpoints.restore_model(source, model, optimizer)
    return settings, model


def _check(folder: str, model) -> None:
    """Raises a ConversionError if what was written gives other outputs than a pretraining model."""
    import tensorflow as tf

    _, written = _read_run(folder)
    inputs = _random_inputs(model.config.encoder)
    for one, other in zip(_outputs(written, inputs), _outputs(model, inputs), strict=True):
        difference = float(tf.reduce_max(tf.abs(one - other)))
        if not difference <= TOLERANCE:
            shutil.rmtree(folder)
            raise ConversionError(
                f"{folder} gives other outputs, by {difference}: nothing is kept."
            )


def _random_inputs(encoder) -> tuple:
    """Ids, mask and segments of four texts, the later of which have padding."""
    import numpy as np
    import tensorflow as tf

    length = min(64, encoder.max_sequence_length)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, encoder.vocab_size, [4, length])
    mask = np.arange(length) < np.array([[length], [length], [length / 2], [length / 4]])
    segments = rng.integers(0, encoder.type_vocab_size, [4, length])
    return tuple(tf.constant(values, tf.int32) for values in (ids, mask, segments))


def _outputs(model, inputs: tuple) -> list:
    """The logits of all heads of a pretraining model."""
    import tensorflow as tf

    from tfbio.objectives.electra import Electra

    ids = inputs[0]
    everywhere = tf.tile(tf.range(ids.shape[1])[tf.newaxis], [ids.shape[0], 1])
    hidden = model.encoder(*inputs)
    if not isinstance(model, Electra):
        found = [model.head(hidden, everywhere, model.encoder.embeddings.word)]
        if model.sentence_pair_head is not None:
            found.append(model.sentence_pair_head(hidden))
        return found
    found = [model.discriminate(hidden)]
    if model.generator_head is not None:
        words = model.generator.embeddings.word
        found.append(model.generator_head(model.generator(*inputs), everywhere, words))
    return found


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string(
        "from",
        None,
        "The --model_dir of a pretraining run, the --output_dir of a fine-tuning run or one of its "
        "trials, a folder of Hugging Face's, or a TensorFlow 1 checkpoint.",
        required=True,
    )
    flags.DEFINE_string("to", None, "The new folder.", required=True)
    flags.DEFINE_enum("format", FORMATS[0], FORMATS, "What is to read it.")
    flags.DEFINE_string(
        "hparams",
        "",
        "With --format=tfbio: the settings that the run is to go on with, as for "
        "run_pretraining.py; empty, without --set: the checkpoint's shape, and the defaults.",
    )
    flags.DEFINE_multi_string("set", [], "With --format=tfbio: changes one setting, name=value.")
    flags.DEFINE_integer(
        "max_sequence_length",
        0,
        "Of a saved_model: tokens that a text is cut to, with [CLS] and [SEP]; 0: as many as a "
        "trial was trained with, or as an encoder has positions for.",
        lower_bound=0,
    )


def main(argv: list[str]) -> None:
    """The command."""
    cli.no_arguments(argv)
    source, target = flags.FLAGS["from"].value, flags.FLAGS.to
    paths.require_checkpoint("from", source)
    paths.require_output("to", target)
    # Not the folder itself, which appears when it is complete.
    with storage.only_writer(target):
        try:
            _convert(source, target)
        except KeyboardInterrupt as interrupt:
            if os.path.exists(target):
                raise
            raise KeyboardInterrupt(
                "nothing is written, and the same command begins anew"
            ) from interrupt
        finally:
            # As large as the model, and of no use where it did not become the target.
            shutil.rmtree(f"{target.rstrip('/')}.unfinished", ignore_errors=True)


def _convert(source: str, target: str) -> None:
    """Reads the other flags, and writes."""
    if os.path.exists(target):
        raise UserError(f"--to={target} is there already: give a new folder, or remove it.")
    if flags.FLAGS.max_sequence_length and flags.FLAGS.format != "saved_model":
        raise UsageError("--max_sequence_length goes with --format=saved_model.")
    given = flags.FLAGS.hparams or flags.FLAGS["set"].value
    if given and flags.FLAGS.format != "tfbio":
        raise UsageError("--hparams and --set go with --format=tfbio: they are of a run to go on.")
    if flags.FLAGS.format == "tfbio":
        from tfbio.weights import tensorflow1

        if tensorflow1.has_state(source):
            settings = None
            if given:
                overrides = flags.FLAGS["set"].value
                settings = config.load(PretrainingConfig, flags.FLAGS.hparams, overrides)
            step = tensorflow1.write_run(source, target, settings)
            print(f"{target}: run_pretraining.py with this --model_dir goes on at step {step}.")
            return
        if given:
            raise UserError(
                f"--hparams and --set are of a run to go on: {source} has no state of one, give it "
                "to run_pretraining.py as --init_checkpoint."
            )
        to_tfbio(source, target)
        print(f"{target}: give it (or its trial_0) as --init_checkpoint, or as --model.")
    elif flags.FLAGS.format == "hugging_face":
        to_hugging_face(source, target)
        print(f"{target}: load it with transformers' from_pretrained.")
    elif flags.FLAGS.format == "saved_model":
        from tfbio.export import saved_model

        folder = saved_model.write(source, target, flags.FLAGS.max_sequence_length)
        print(f"{folder}: TensorFlow Serving's --model_base_path is the folder {target}.")
    else:
        print(f"{to_original_electra(source, target)}: the prefix of the checkpoint.")


if __name__ == "__main__":
    cli.run(main, define_flags, settings=config.names(PretrainingConfig))
