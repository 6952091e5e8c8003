r"""Fine-tunes a pretrained encoder on a task, several times, and scores it.

  python run_finetuning.py --task=bc5cdr_chem --data_dir=BC5CDR-chem \
      --init_checkpoint=work/model --output_dir=work/bc5cdr_chem

Trains with seed, seed + 1, ... and writes for each trial the scores and predictions on dev and
test, and the weights; scores.json has all scores, with mean, standard deviation and median. Run
the same command again to continue an interrupted run: finished trials are kept, and one that was
stopped goes on from its newest checkpoint. The settings are those of the paper that the task is
from (tfbio/task_types/task_table.py). Further flags:

  --from_scratch    same architecture and vocabulary, random weights: shows the gain of pretraining
  --hparams=sentence_roles    settings by their name, from a JSON file, or inline JSON
  --hparams=bioelectra    a protocol, by its name: BioELECTRA's settings, as its paper tells them
  --hparams=authors    another one: those of its authors' code, which differ from the paper
  --hparams=pubmedbert    PubMedBERT's search over learning rates, batches and epochs
  --hparams=biolm    bio-lm's settings
  --hparams=biom-electra-base    BioM's settings for its ELECTRA of this size,
  --hparams=biom-electra-large    of this one,
  --hparams=biom-bert-large    for its BERT,
  --hparams=biom-albert-xxlarge    and for its ALBERT
  --hparams=biomegatron    BioMegatron's settings, with its search over the layers of the head
  --hparams=quickstart    those of the quick start, for ncbi_disease (docs/quickstart.md)
  --seeds=10    the number of trials
  --stop_as=out/fold_1    as many epochs as the best weights of that run had seen
  --set learning_rate=1e-4 --set train_batch_size=16    change single settings
  --sweep learning_rate=5e-5,1e-4 --sweep train_batch_size=16,32    every combination; the scores
                    on dev choose one, and sweep.md has the table
  --keep_weights=best    removes the weights of the trials that are not chosen
  --tpu=NAME, --strategy=mirrored, --cpu_devices=2    a TPU; all GPUs; two cores
  --strategy=multi_worker    all machines that TF_CONFIG names, with the same command on each
  --dry_run    prints the steps, FLOPs, padding, memory and time of a run; without --output_dir

To use a trained model on new text:

  python run_finetuning.py --mode=predict --model=work/bc5cdr_chem \
      --input=pubmed26n0001.xml.gz --output=chemicals.jsonl

or, for thousands of files, in several processes, which a later run continues,

  python run_finetuning.py --mode=predict --model=work/bc5cdr_chem \
      --input='pubmed/*.xml.gz' --output_dir=chemicals

or on a cluster with Beam, whose machines all see these files,

  python run_finetuning.py --mode=predict --model=/shared/bc5cdr_chem \
      --input='/shared/pubmed/*.xml.gz' --output_dir=/shared/chemicals \
      --runner=FlinkRunner --flink_master=HOST:PORT

This finds the entities in plain text, PubMed XML, full texts of PMC (.nxml, .xml, .tar.gz), BioC,
PubTator and BigBio files, and writes JSON lines or the form of --format; in JSON lines, BioC and
HTML with a score, the product of the probabilities of the words' tags. A model that labels texts
takes .tsv files with a column text, and writes the probability of each label. One that answers
questions takes files in SQuAD's form (.json), and writes {id: answer}; if --output ends in .jsonl,
also the probability of each answer. --input=- reads standard input.

Tables and significance tests of finished runs: python -m tfbio.report --help
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from typing import TYPE_CHECKING

from absl import flags

from tfbio.base import cli, config, device_flags, errors, path_checks, storage
from tfbio.runs import prediction_flags, sweep
from tfbio.task_types import (
    finetuning_files,
    new_text_settings,
    own_data,
    stopping,
    task_table,
    types,
)
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.protocols import find_protocol
from tfbio.task_types.task import Task
from tfbio.training import devices

if TYPE_CHECKING:
    import tensorflow as tf

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "mode", "train", ["train", "predict"], "Fine-tune, or use a fine-tuned model on new text."
)
flags.DEFINE_string(
    "task",
    "",
    f"To fine-tune: {', '.join(task_table.TASKS)}; or, for data of your own, "
    f"{', '.join(own_data.OWN)}.",
)
flags.DEFINE_string(
    "data_dir",
    "",
    "To fine-tune: folder with a file for each split: train, dev (or devel, valid, validation) and "
    "test, .tsv or .txt (of questions .json), with or without .gz.",
)
flags.DEFINE_string(
    "negative_label",
    "",
    "To fine-tune with --task=relation: the label that says that there is no relation; empty: the "
    "one that is called 0, false, none, null, NA, no_relation, negative or other.",
)
flags.DEFINE_string(
    "init_checkpoint",
    "",
    "To fine-tune: the --model_dir of a run_pretraining.py run, a trial_SEED of a run of this one, "
    "a folder of Hugging Face's with an encoder of BERT, ELECTRA, RoBERTa, ALBERT or Megatron-LM's "
    "BERT (config.json, weights and tokenizer), or a TensorFlow 1 checkpoint of BERT, ELECTRA or "
    "ALBERT, with its vocabulary beside it.",
)
flags.DEFINE_bool(
    "from_scratch",
    False,
    "To fine-tune: start from random weights; only the encoder's shape and vocabulary come from "
    "--init_checkpoint.",
)
flags.DEFINE_string(
    "output_dir",
    "",
    "Where scores, predictions, weights and logs go. To predict, in place of --output: a folder "
    "that gets a file for each file of --input; the same command continues a run that was stopped.",
)
flags.DEFINE_string(
    "hparams",
    "",
    "To fine-tune: a protocol, which is a folder in hparams/finetuning/, such as bioelectra (its "
    "paper's Table 7) or authors (its authors' code); the name of a file there; a JSON file; or an "
    "inline JSON object. Default: the task's.",
)
flags.DEFINE_integer(
    "seeds",
    0,
    "To fine-tune: the number of trials; 0: as the settings say (num_trials).",
    lower_bound=0,
)
flags.DEFINE_string(
    "stop_as",
    "",
    "To fine-tune: the --output_dir of a finished run with evaluations in training, such as that "
    "of another fold: train as many epochs as its best weights had seen, the median of its trials, "
    "without evaluations.",
)
flags.DEFINE_multi_string("set", [], "Changes one setting: name=value. May be repeated.")
flags.DEFINE_multi_string(
    "sweep",
    [],
    "To fine-tune: tries several values of one setting: name=value,value,... May be repeated, for "
    "every combination.",
)
flags.DEFINE_enum(
    "keep_weights",
    "all",
    ["all", "best"],
    "To fine-tune: which trials keep their weights: all; or the one with the best score on dev, of "
    "a --sweep that of the chosen settings. Scores and predictions of all trials stay.",
)
flags.DEFINE_boolean(
    "dry_run",
    False,
    "To fine-tune: only prints an estimate of a run: examples and windows, steps, FLOPs and, for "
    "each type of device, the share of padding, memory and time. Neither trains nor writes.",
)
flags.DEFINE_enum(
    "estimate_for",
    None,
    list(devices.ON_ONE_HOST),
    "With --dry_run: the hardware. Default: all of them.",
)
device_flags.define()
flags.DEFINE_bool(
    "overwrite", False, "Replace the files of a run with other settings, or an --output."
)
prediction_flags.define()

# The flags that each mode needs, and their meaning.
_NEEDED = {
    "train": {
        "task": "the task's name, such as sentence_roles",
        "data_dir": "the folder with the task's files",
        "init_checkpoint": "the --model_dir of a run_pretraining.py run",
        "output_dir": "where the scores are to go",
    },
    "predict": {
        "model": "the --output_dir of a finished run, or a trial in it",
        "input": "the files with the texts",
        "output": "where the predictions are to go (or --output_dir)",
    },
}
# Further flags that only the other mode takes.
_NOT_WITH = {
    "train": [*prediction_flags.NAMES],
    "predict": [
        "from_scratch",
        "hparams",
        "sweep",
        "stop_as",
        "seeds",
        "keep_weights",
        "dry_run",
        "negative_label",
    ],
}


def main(argv: list[str]) -> None:
    """Runs run_finetuning.py: fine-tunes an encoder, or predicts for new text, as the flags say.

    Writes the scores, predictions and weights of a run or a sweep into --output_dir; with
    --mode=predict the predictions for new text to --output; with --dry_run it only prints an
    estimate. Returns nothing.

    Args:
      argv: the command line without its flags, a list of strings: the program alone, or with a
        --runner also Beam's flags.

    Raises:
      UsageError: there are arguments, or a flag is missing, wrong or does not go with the others.
      UserError: the data, a checkpoint, a setting or a folder cannot be used, or another process
        writes there.
      Interrupted: the TPU or another worker is lost.
      SystemExit: a signal ended the training; what is done is saved.
    """
    if not prediction_flags.has_beam_flags():
        cli.no_arguments(argv)
    _check_flags()
    device_flags.check(
        FLAGS.tpu, FLAGS.strategy, FLAGS.cpu_devices, FLAGS.tpu_zone, FLAGS.gcp_project, FLAGS.mesh
    )
    if FLAGS.strategy == "multi_worker" and FLAGS.mode == "predict":
        raise errors.UsageError(
            "--strategy=multi_worker: --mode=predict runs on one machine; give mirrored or "
            "one_device."
        )
    if FLAGS.mode == "predict":
        _predict(argv[1:])
    else:
        _train()


def _check_flags() -> None:
    """Raises UsageError if a flag is missing, or does not go with the mode."""
    if FLAGS.estimate_for and not FLAGS.dry_run:
        raise errors.UsageError("--estimate_for goes with --dry_run: a run takes what it finds.")
    other = "predict" if FLAGS.mode == "train" else "train"
    if FLAGS.mesh and FLAGS.dry_run:
        raise errors.UsageError(
            "--mesh goes without --dry_run, which estimates whole models alone."
        )
    optional = {"output_dir"} if FLAGS.dry_run else set()
    allowed: set[str] = set()
    if FLAGS.mode == "predict":
        allowed, optional = {"output_dir"}, {"output"} if FLAGS.output_dir else set()
        prediction_flags.check()
    for name, meaning in _NEEDED[FLAGS.mode].items():
        if not FLAGS[name].value and name not in optional:
            raise errors.UsageError(f"--{name} is missing: {meaning}.")
    given = [name for name in _NEEDED[other] if FLAGS[name].value and name not in allowed]
    given += [name for name in _NOT_WITH[FLAGS.mode] if FLAGS[name].using_default_value is False]
    if given:
        raise errors.UsageError(f"--{given[0]} does not go with --mode={FLAGS.mode}.")


def _train() -> None:
    """Fine-tunes, or prints what a run would take."""
    task = task_table.find(FLAGS.task, FLAGS.data_dir, FLAGS.negative_label)
    swept, settings = _read_settings(task)
    task_types = [types.make(task.task_type, task.labels, each) for each in settings]
    task.files(FLAGS.data_dir)
    path_checks.require_checkpoint("init_checkpoint", FLAGS.init_checkpoint)
    if not FLAGS.dry_run:
        finetuning_files.require_own_output(FLAGS.output_dir, bool(swept))
    # Imported late: TensorFlow takes seconds, and --help and mistakes should not.
    from tfbio.runs import finetuning, finetuning_checks, kept_weights
    from tfbio.training import distribution
    from tfbio.weights import checkpoint_settings

    run = finetuning.Run(
        settings[0],
        task=task,
        data_dir=FLAGS.data_dir,
        init_checkpoint=FLAGS.init_checkpoint,
        output_dir=FLAGS.output_dir,
        from_scratch=FLAGS.from_scratch,
        overwrite=FLAGS.overwrite,
    )
    if FLAGS.dry_run:
        print(finetuning.dry_run(run, FLAGS.estimate_for or ""))
        return
    run = dataclasses.replace(run, strategy=_make_strategy())
    distribution.warn_of_cpu(run.strategy)
    if swept:
        encoder = checkpoint_settings.read_encoder_config(
            FLAGS.init_checkpoint, not FLAGS.from_scratch
        )
        for each, task_type in zip(settings, task_types, strict=True):
            finetuning_checks.check_settings(
                each, task_type, encoder, FLAGS.init_checkpoint, run.strategy
            )
    # The workers of one job write one folder, of which the chief is in charge.
    alone = storage.only_writer(FLAGS.output_dir) if run.is_chief else contextlib.nullcontext()
    with distribution.interruptions(run.strategy), alone:
        if swept:
            sweep.run(run, swept, settings, FLAGS.keep_weights)
        else:
            finetuning.finetune(run)
            if FLAGS.keep_weights == "best" and run.is_chief:
                kept_weights.keep_best(FLAGS.output_dir, run.say)


def _read_settings(task: Task) -> tuple[list[str], list[FinetuningConfig]]:
    """Returns the names of the swept settings, and the settings of each run.

    Raises:
      UserError: a setting is wrong, or is given twice.
    """
    of_flags, _ = sweep.combinations(FLAGS.sweep)
    for name in {"seed", "num_trials"}.intersection(of_flags):
        raise errors.UsageError(
            f"--sweep {name}=...: give --seeds=N, the number of trials of each."
        )
    fixed = dict.fromkeys(name for text in FLAGS.set for name in sweep.names_in(text))
    for name in fixed:
        if name in of_flags:
            raise errors.UsageError(f"{name} has a --sweep, and a --set: give one of them.")
        if name == "num_trials" and FLAGS.seeds:
            raise errors.UsageError("num_trials has a --set, and --seeds, which is the same.")
    changes = [*FLAGS.set, *([f"num_trials={FLAGS.seeds}"] if FLAGS.seeds else [])]
    if FLAGS.stop_as:
        changes += _read_stopping({*of_flags, *fixed})
        fixed |= dict.fromkeys(stopping.SETTINGS)
    hparams = find_protocol(FLAGS.hparams, FLAGS.task)
    swept, combinations = sweep.combinations(sweep.with_those_of(hparams, FLAGS.sweep, fixed))
    settings = [
        sweep.load(hparams, changes, chosen, task.settings, of_flags) for chosen in combinations
    ]
    if FLAGS.dry_run and swept:
        one = " ".join(f"--set {name}=VALUE" for name in swept)
        raise errors.UsageError(f"--dry_run goes without --sweep, also of --hparams: give {one}.")
    return swept, settings


def _read_stopping(given: set[str]) -> list[str]:
    """Returns the settings that --stop_as takes from another run, as `config.load` takes them.

    Args:
      given: the names of the settings that have a --set or a --sweep.

    Raises:
      UserError: one of them is such a setting, or the run does not tell them.
    """
    for name in stopping.SETTINGS:
        if name in given:
            raise errors.UsageError(f"--stop_as sets {name}: leave out its --set or --sweep.")
    return stopping.settings_like(FLAGS.stop_as, FLAGS.task)


def _make_strategy() -> tf.distribute.Strategy:
    """Makes the strategy that the flags ask for."""
    from tfbio.training import distribution

    return distribution.make_strategy(
        FLAGS.tpu,
        FLAGS.strategy,
        FLAGS.cpu_devices,
        tpu_zone=FLAGS.tpu_zone,
        gcp_project=FLAGS.gcp_project,
        mesh=FLAGS.mesh,
    )


def _predict(beam_args: list[str]) -> None:
    """Uses a fine-tuned model on new text."""
    prediction_flags.check_settings(FLAGS.set)
    if FLAGS.output_dir:
        prediction_flags.annotate(_make_strategy, beam_args)
        return
    from tfbio.runs import predict

    predict.predict(
        FLAGS.model,
        FLAGS.input,
        FLAGS.output,
        form=FLAGS.format,
        overrides=FLAGS.set,
        strategy=_make_strategy,
        overwrite=FLAGS.overwrite,
    )


if __name__ == "__main__":
    if re.search(r"(^| )--?mode[= ]predict( |$)", " ".join(sys.argv)):
        # `tfbio predict --help` begins with the half that is about new text.
        _, _, half = __doc__.partition("To use a trained model on new text:\n")
        half, _, _ = half.partition("\nTables and significance tests")
        __doc__ = f"Uses a fine-tuned model on new text.\n{half}"
        __doc__ += "\nSettings of prediction for --set, with limits. One that you do not set has\n"
        __doc__ += "the value of the model's training, and not the default that stands here:\n\n"
        __doc__ += config.describe(FinetuningConfig, new_text_settings.SETTINGS)
    else:
        __doc__ += "\nSettings, with limits and defaults. Tasks have other defaults for some, see\n"
        __doc__ += "hparams/finetuning/bioelectra/ and tfbio/task_types/task_table.py:\n\n"
        __doc__ += config.describe(FinetuningConfig)
    cli.run(
        main,
        flags_parser=prediction_flags.leave_beam_flags,
        settings=config.names(FinetuningConfig),
    )
