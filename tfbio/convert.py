(
    r"""Converts a pretrained or fine-tuned model to another format.

  python -m tfbio.convert --from=out/model --to=out/for_transformers
  python -m tfbio.convert --from=out/bc5cdr_chem/trial_0 --to=out/tagger
  python -m tfbio.convert --from=models/roberta-base --to=out/roberta --format=tfbio
  python -m tfbio.convert --from=models/some-tagger --to=out/tagger --format=tfbio
  python -m tfbio.convert --from=out/model --to=out/for_electra --format=original_electra
  python -m tfbio.convert --from=out/bc5cdr_chem --to=out/serving --format=saved_model
  python -m tfbio.convert --from=out/bc5cdr_chem --to=out/onnx --format=onnx
  python -m tfbio.convert --from=out/bc5cdr_chem --to=out/tagger --license=apache-2.0 \
      --push=OWNER/NAME
  python -m tfbio.convert --from=electra/model.ckpt-1000 --to=out/model --format=tfbio \
      --hparams=base

--from is one of these:
  - the --model_dir of a run_pretraining.py run, whose newest checkpoint is taken;
  - the --output_dir of a run_finetuning.py run, whose best trial is taken, or one of its trials;
  - the folder of a model in the format of `transformers`, with a head of pretraining or
    fine-tuning; nothing is downloaded;
  - a TensorFlow 1 checkpoint of google-research's electra, bert or albert: its prefix or folder;
  - with --format=hugging_face a file of a BERT of Megatron-LM's (.pt) or NeMo's (.nemo).

--format says who reads --to:

hugging_face: a folder that `transformers` loads, with the tokenizer. ELECTRA's discriminator
(ElectraForPreTraining) is in the folder itself, its generator (ElectraForMaskedLM) in `generator/`.
A masked language model is AlbertForMaskedLM if its layers are shared, RobertaForMaskedLM if its
positions have an offset, ElectraForMaskedLM if the embeddings are smaller than the layers, and
BertForMaskedLM otherwise, or MegatronBertForMaskedLM with encoder.layer_norm_first. These and
ALBERT with their classifier of sentence pairs are ...ForPreTraining. A fine-tuned model is
...ForTokenClassification, ForSequenceClassification or ForQuestionAnswering, in the family that
tfbio/weights/fine_tuned_writer.py chooses. A model that was trained here gets a model card, for
which --license, --base_model, --datasets, --hardware and --co2_grams are facts that the run's files
do not tell. --push=OWNER/NAME then pushes the folder to the Hugging Face hub, with the token of
HF_TOKEN or of `hf auth login`. `transformers` is another name of this format.

tfbio: the folder of a run_pretraining.py run, with an optimizer that has taken no step. Pretraining
and fine-tuning start from it (--init_checkpoint). A TensorFlow 1 checkpoint with the optimizer's
averages becomes a --model_dir with which run_pretraining.py, given the `hparams.json` in it as
--hparams, continues exactly where that code was. A fine-tuned model becomes the folder of a
run_finetuning.py run, for --mode=predict and --init_checkpoint.

original_electra: a checkpoint `model.ckpt-STEP` that google-research/electra's code trains on, with
the optimizer's averages.

saved_model: a SavedModel that takes strings, for TensorFlow Serving (see
tfbio/export/saved_model.py). It computes in float32, or with --precision=bfloat16 in bfloat16.

onnx: `model.onnx`, which takes the ids of tokens, with the tokenizer and the labels beside it, for
onnxruntime (see tfbio/export/onnx_model.py).
"""
    ""
)

from __future__ import annotations

import os
import re
import shutil

from absl import flags

from tfbio.base import cli, config, path_checks, recipes, run_folders, storage
from tfbio.base.errors import UsageError, UserError
from tfbio.objectives.pretraining_config import PretrainingConfig

_FORMATS = ("hugging_face", "transformers", "tfbio", "saved_model", "onnx", "original_electra")
# Two names of one format.
_OF_TRANSFORMERS = ("hugging_face", "transformers")
# Those in which a SavedModel can compute.
_PRECISIONS = ("float32", "bfloat16")
# The flags about publishing: facts for the model card, and the hub.
_FACTS = ("license", "base_model", "datasets", "hardware", "co2_grams")
_PUBLISHING = (*_FACTS, "push", "private")


def define_flags() -> None:
    """Defines the absl flags of the command that converts models, and returns nothing.

    They are `--from`, `--to`, `--format`, `--hparams`, `--set`, `--max_sequence_length`,
    `--precision`, and those about publishing: `--license`, `--base_model`, `--datasets`,
    `--hardware`, `--co2_grams`, `--push` and `--private`.
    """
    flags.DEFINE_string(
        "from",
        None,
        "The --model_dir of a pretraining run, the --output_dir of a fine-tuning run or one of its "
        "trials, a model of `transformers`, a TensorFlow 1 checkpoint, or a file of Megatron-LM's "
        "or NeMo's.",
        required=True,
    )
    flags.DEFINE_string("to", None, "The new folder.", required=True)
    flags.DEFINE_enum("format", _FORMATS[0], _FORMATS, "The format to write.")
    flags.DEFINE_string(
        "hparams",
        "",
        "With --format=tfbio: the settings with which the run continues, as for "
        "run_pretraining.py. Default: what the checkpoint tells, such as its shape.",
    )
    flags.DEFINE_multi_string("set", [], "With --format=tfbio: changes one setting, name=value.")
    flags.DEFINE_integer(
        "max_sequence_length",
        0,
        "With --format=saved_model: the tokens that a text is cut to, with [CLS] and [SEP]. 0: as "
        "many as a trial was trained with, or as an encoder has positions for.",
        lower_bound=0,
    )
    flags.DEFINE_enum(
        "precision",
        _PRECISIONS[0],
        _PRECISIONS,
        "With --format=saved_model: what its encoder computes in; weights and outputs are float32 "
        "with either. bfloat16 is worth it where the model will run on CPUs with AVX512-BF16 or "
        "AMX, and not on others.",
    )
    _define_publishing_flags()


def _define_publishing_flags() -> None:
    """Defines the flags of --format=hugging_face about the model card and the hub."""
    flags.DEFINE_string(
        "license",
        None,
        "For the model card: the hub's identifier of the licence, such as apache-2.0.",
    )
    flags.DEFINE_string(
        "base_model",
        None,
        "For the model card: the name on the hub of the model that training started from.",
    )
    cli.define_list(
        "datasets",
        [],
        "For the model card: the names on the hub of the data sets that it was trained on.",
    )
    flags.DEFINE_string(
        "hardware", None, "For the model card: what it was trained on, such as '1 NVIDIA H100'."
    )
    flags.DEFINE_float(
        "co2_grams",
        None,
        "For the model card: the emissions of its training, in grams of CO2 equivalents.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "push",
        None,
        "The repository on the Hugging Face hub, OWNER/NAME, to which --to is pushed. It is made "
        "if it is not there. The token is that of HF_TOKEN or of `hf auth login`.",
    )
    flags.DEFINE_boolean("private", False, "With --push: a new repository is private.")


def main(argv: list[str]) -> None:
    """Runs the command `python -m tfbio.convert`, which converts a model to another format.

    Writes the model that the flags name into the folder `--to`, prints how to use it, and returns
    nothing.

    Args:
      argv: the command line without its flags: the program alone.

    Raises:
      UsageError: there are arguments, or a flag does not go with the format.
      UserError: the source is missing, the target exists or another process writes to it, or the
        model cannot be converted.
      OSError: the target cannot be written.
    """
    cli.no_arguments(argv)
    source, target = flags.FLAGS["from"].value, flags.FLAGS.to
    path_checks.require_checkpoint("from", source, takes_runs=True)
    path_checks.require_output("to", target)
    if flags.FLAGS.format not in (*_OF_TRANSFORMERS, "onnx"):
        path_checks.require_no_pattern(target, f"--to={target}")
    # The lock is beside the folder, which appears when it is complete.
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
            # It is as large as the model, and useless if it did not become the target.
            shutil.rmtree(f"{target.rstrip('/')}.unfinished", ignore_errors=True)


def _convert(source: str, target: str) -> None:
    """Converts `source` to the format that the flags name.

    Raises:
      UserError: the target exists, or the model cannot be converted.
      UsageError: a flag does not go with the format.
    """
    if os.path.exists(target):
        raise UserError(f"--to={target} is there already: give a new folder, or remove it.")
    _check_flags(flags.FLAGS.format)
    from tfbio.weights import megatron_checkpoint

    source = run_folders.chosen(source)
    is_megatrons = megatron_checkpoint.is_one(source)
    if given := _publishing():
        from tfbio.export import model_card

        if is_megatrons or not model_card.can_be_of(source):
            raise UserError(
                f"--{given[0]} is for the model card of a model that tfbio trained, and {source} "
                "is none: leave it out, and publish the folder with `hf upload`."
            )
    if is_megatrons:
        _from_megatron(source, target)
        return
    if flags.FLAGS.format == "tfbio":
        _to_tfbio(source, target)
        return
    if flags.FLAGS.format == "saved_model":
        from tfbio.export import saved_model

        folder = saved_model.write(
            source, target, flags.FLAGS.max_sequence_length, flags.FLAGS.precision
        )
        print(f"{folder}: TensorFlow Serving's --model_base_path is the folder {target}.")
        return
    if flags.FLAGS.format == "onnx":
        from tfbio.export import onnx_model

        path = onnx_model.write(source, target)
        print(f"{path}: onnxruntime runs it; tokenizer.json and config.json are beside it.")
        return
    if flags.FLAGS.format in _OF_TRANSFORMERS:
        _to_transformers(source, target)
        return
    from tfbio.export import conversion

    prefix = conversion.to_original_electra(source, target)
    print(f"{prefix}: the prefix of the checkpoint.")


def _to_transformers(source: str, target: str) -> None:
    """Writes a folder that `transformers` loads, and pushes it if --push is given.

    Raises:
      UserError: the model cannot be converted or pushed.
    """
    from tfbio.export import conversion, hub, model_card
    from tfbio.weights import fine_tuned, hugging_face_settings

    push = flags.FLAGS.push
    if push:
        hub.require_token()
    facts = {name: flags.FLAGS[name].value for name in _publishing() if name in _FACTS}
    if "datasets" in facts:
        facts["datasets"] = tuple(facts["datasets"])
    conversion.to_hugging_face(source, target, model_card.Publication(**facts))
    print(f"{target}: load it with transformers' from_pretrained.")
    # A folder of `transformers` does not tell whether all tokens of its words were trained.
    if fine_tuned.is_one(source) and not hugging_face_settings.is_one(source):
        trial = fine_tuned.find_trial(source, say=lambda _: None)
        task_type = fine_tuned.task_type_of(fine_tuned.read_settings(trial))
        if warning := task_type.pipeline_warning():
            print(f"warning: {warning}")
    if push:
        print(f"{hub.push(target, push, flags.FLAGS.private)}: the model on the hub.")


def _from_megatron(source: str, target: str) -> None:
    """Writes a folder that `transformers` loads.

    Raises:
      UserError: another format is asked for, or the model cannot be converted.
    """
    from tfbio.export import conversion_of_megatron

    if flags.FLAGS.format not in _OF_TRANSFORMERS:
        raise UserError(
            f"--from={source} can only become a folder of `transformers`: convert it with "
            "--format=hugging_face first, and then that folder."
        )
    conversion_of_megatron.to_hugging_face(source, target)
    print(f"{target}: load it with transformers' from_pretrained, or give it as --init_checkpoint.")


def _check_flags(target_format: str) -> None:
    """Checks that flags of one format are not given with another.

    Raises:
      UsageError: one is.
    """
    if flags.FLAGS.max_sequence_length and target_format != "saved_model":
        raise UsageError("--max_sequence_length goes with --format=saved_model.")
    if flags.FLAGS.precision != "float32" and target_format != "saved_model":
        raise UsageError("--precision=bfloat16 goes with --format=saved_model.")
    if _has_settings() and target_format != "tfbio":
        raise UsageError("--hparams and --set go with --format=tfbio: they are of a run to go on.")
    _check_publishing_flags(target_format)


def _publishing() -> list[str]:
    """Returns the names of the flags about the model card and the hub that were given."""
    values = {name: flags.FLAGS[name].value for name in _PUBLISHING}
    # --co2_grams=0 was given.
    return [name for name, value in values.items() if value or type(value) in (int, float)]


def _check_publishing_flags(target_format: str) -> None:
    """Checks the flags about the model card and the hub, before TensorFlow is imported.

    Raises:
      UsageError: one goes not with the format, or cannot be used.
    """
    given = _publishing()
    if given and target_format not in _OF_TRANSFORMERS:
        raise UsageError(f"--{given[0]} goes with --format=hugging_face.")
    if flags.FLAGS.private and not flags.FLAGS.push:
        raise UsageError("--private goes with --push.")
    if flags.FLAGS.license and not re.fullmatch("[a-z0-9][a-z0-9.-]*", flags.FLAGS.license):
        raise UsageError(
            f"--license={flags.FLAGS.license}: expected one of the hub's identifiers, such as "
            "apache-2.0, cc-by-4.0 or other."
        )
    names = [("datasets", name) for name in flags.FLAGS.datasets]
    names += [(flag, flags.FLAGS[flag].value) for flag in ("base_model", "push")]
    for flag, name in names:
        if name:
            from tfbio.export import hub

            hub.check_name(flag, name)
    if flags.FLAGS.push and "/" not in flags.FLAGS.push:
        raise UsageError(f"--push={flags.FLAGS.push}: expected OWNER/NAME.")


def _has_settings() -> bool:
    """Returns True if --hparams or --set is given."""
    return bool(flags.FLAGS.hparams or flags.FLAGS["set"].value)


def _to_tfbio(source: str, target: str) -> None:
    """Writes a run, with the state of the optimizer if the source has one of TensorFlow 1.

    Raises:
      UserError: settings are given and there is no such state, or the model cannot be converted.
    """
    from tfbio.export import conversion, reproduction
    from tfbio.weights import tensorflow1_checkpoint, tensorflow1_settings

    if tensorflow1_checkpoint.has_state(source):
        hparams = recipes.find_recipe(flags.FLAGS.hparams)
        # Without a file --set changes what the checkpoint tells of itself.
        known = {} if hparams else tensorflow1_settings.read_run(source)
        settings = config.load(PretrainingConfig, hparams, flags.FLAGS["set"].value, known)
        settings.require_steps_in_all()
        step = conversion.to_tfbio_with_optimizer(source, target, settings)
        written = os.path.join(target, reproduction.FILE)
        print(
            f"{target}: run_pretraining.py with this --model_dir and --hparams={written} goes on "
            f"at step {step}."
        )
        return
    if _has_settings():
        raise UserError(
            f"--hparams and --set are of a run to go on: {source} has no state of one, give it "
            "to run_pretraining.py as --init_checkpoint."
        )
    conversion.to_tfbio(source, target)
    print(f"{target}: give it (or its trial_0) as --init_checkpoint, or as --model.")


if __name__ == "__main__":
    cli.run(main, define_flags, settings=config.names(PretrainingConfig))
