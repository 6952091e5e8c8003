r"""Pretrains an encoder on examples made by data_prep.

  python run_pretraining.py --examples=work/examples_128 --model_dir=work/model \
      --hparams=small

Reads the TFRecords that `python -m data_prep.examples` wrote; masks them anew at every step;
writes checkpoints, config.json, the vocabulary and TensorBoard logs into --model_dir. Run the same
command again to continue an interrupted run. Further flags:

  --hparams='{"encoder": {"hidden_size": 128}}'    settings as inline JSON
  --set learning_rate=1e-4 --set run.jit_compile=true    change single settings
  --examples=work/examples_128 --examples=work/examples_512    two phases (--hparams=base)
  --init_checkpoint=work/general    start with the weights of another run
  --teacher=work/large    distil a larger model (--hparams=biolm_base_distilled)
  --tpu=NAME, --strategy=mirrored, --cpu_devices=2    a TPU; all GPUs; two cores
  --mesh=2x4    2 parts of each batch, and 4 devices for each, which share one model
  --dry_run --hparams=base    prints the FLOPs, memory and days of a run

Exit codes: 0 done; 1 or 2 an error, in the last line; 75 the TPU or another worker was lost,
130 Ctrl-C and 143 SIGTERM (the step is saved): the same command continues the run.
"""

import contextlib
import os

from absl import flags

from tfbio.base import (
    cli,
    config,
    device_flags,
    errors,
    file_paths,
    path_checks,
    recipes,
    storage,
)
from tfbio.base.manifests import read_manifest
from tfbio.objectives import mesh_limits
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import pretraining_cost
from tfbio.training import devices

FLAGS = flags.FLAGS
cli.define_list(
    "examples",
    [],
    "Folder made by data_prep.examples, one for each sequence length, and for each corpus of "
    "corpus_switch_steps.",
)
flags.DEFINE_string("model_dir", "", "Where checkpoints, logs and the configuration go.")
flags.DEFINE_string(
    "init_checkpoint",
    "",
    "Another run's --model_dir, a model of Hugging Face's, or a TensorFlow 1 checkpoint of BERT, "
    "ELECTRA or ALBERT, whose weights to start with (continual pretraining); the steps and the "
    "optimizer start anew. Without a generator in it: --set generator_warmup_steps=N.",
)
flags.DEFINE_string(
    "teacher",
    "",
    "With distillation.kl_weight or distillation.cosine_weight: the masked language model that the "
    "run also learns from, with the same vocabulary, in any form that --init_checkpoint takes. "
    "It stays as it is.",
)
flags.DEFINE_string(
    "hparams",
    "",
    "The name of a recipe, which is a file in hparams/, such as base; a JSON file; or an inline "
    "JSON object. Default: ELECTRA-small.",
)
flags.DEFINE_multi_string("set", [], "Changes one setting: name=value. May be repeated.")
flags.DEFINE_boolean(
    "dry_run",
    False,
    "Only prints an estimate of a run: parameters, FLOPs, memory, days and, with --examples, how "
    "often they are read. Neither trains nor writes.",
)
flags.DEFINE_enum(
    "estimate_for",
    None,
    list(devices.DEVICES),
    "With --dry_run: the hardware. Default: all of them.",
)
flags.DEFINE_string(
    "profile_steps",
    "",
    "FIRST,LAST: traces these steps, such as 201,210, for TensorBoard, in --model_dir/logs. "
    "Not for a TPU on other machines.",
)
device_flags.define()


def main(argv: list[str]) -> None:
    """Runs run_pretraining.py: pretrains a text encoder, or prints an estimate, as the flags say.

    Writes checkpoints, `config.json`, the vocabulary and TensorBoard logs into --model_dir; with
    --dry_run it only prints the FLOPs, memory and days of a run. Returns nothing.

    Args:
      argv: the command line without its flags, a list of strings: the program alone.

    Raises:
      UsageError: there are arguments, or a flag is missing, wrong or does not go with the others.
      UserError: a folder, the examples or a checkpoint cannot be used, see `pretraining.pretrain`;
        or another process writes to --model_dir.
      Interrupted: the TPU or another worker is lost.
      SystemExit: a signal ended the training; the step is saved.
      KeyboardInterrupt: Ctrl-C came before the first step or after the last; its text says what is
        saved.
    """
    cli.no_arguments(argv)
    settings = config.load(PretrainingConfig, recipes.find_recipe(FLAGS.hparams), FLAGS.set)
    settings.require_steps_in_all()
    _check_devices(settings)
    if FLAGS.dry_run:
        print(_estimate(settings))
        return
    if FLAGS.estimate_for:
        raise errors.UsageError("--estimate_for goes with --dry_run: a run takes what it finds.")
    if not FLAGS.examples:
        raise errors.UsageError("--examples is missing: the folder that data_prep.examples wrote.")
    if not FLAGS.model_dir:
        raise errors.UsageError("--model_dir is missing: where the checkpoints are to go.")

    profile_steps = _profile_steps(settings.last_step)
    on_remote_tpu = FLAGS.tpu not in ("", "local")
    if on_remote_tpu:
        path_checks.require_remote(FLAGS.tpu, "model_dir", [FLAGS.model_dir])
        path_checks.require_remote(FLAGS.tpu, "examples", FLAGS.examples)
    _check_examples()
    start = _start_of_new_run()
    _check_teacher(settings)
    path_checks.require_own(
        "model_dir",
        FLAGS.model_dir,
        "run_pretraining.py",
        lambda _, known: "num_train_steps" in known and "task" not in known,
    )

    # Imported late: TensorFlow takes seconds, and --help and mistakes should not.
    from tfbio.runs import pretraining, pretraining_folder
    from tfbio.training import distribution
    from tfbio.weights.checkpoint_source import Source, source_of

    if on_remote_tpu:
        # This machine reads the checkpoints of other software.
        for flag, folder in {"init_checkpoint": start, "teacher": FLAGS.teacher}.items():
            own = [folder] if folder and source_of(folder) is Source.RUN else []
            path_checks.require_remote(FLAGS.tpu, flag, own)
    strategy = distribution.make_strategy(
        FLAGS.tpu,
        FLAGS.strategy,
        FLAGS.cpu_devices,
        settings.run.parallel_parts,
        FLAGS.tpu_zone,
        FLAGS.gcp_project,
        FLAGS.mesh,
    )
    distribution.warn_of_cpu(strategy)
    # The workers of one job share one folder, which the chief locks.
    is_chief = strategy.extended.should_checkpoint
    alone = storage.only_writer(FLAGS.model_dir) if is_chief else contextlib.nullcontext()
    try:
        with distribution.interruptions(strategy), alone:
            pretraining.pretrain(
                settings,
                FLAGS.examples,
                FLAGS.model_dir,
                strategy,
                FLAGS.init_checkpoint,
                profile_steps,
                FLAGS.teacher,
            )
    except KeyboardInterrupt as interrupt:  # before the first step, or after the last
        raise KeyboardInterrupt(pretraining_folder.what_is_saved(FLAGS.model_dir)) from interrupt


def _estimate(settings: PretrainingConfig) -> str:
    """Returns what --dry_run prints."""
    if FLAGS.teacher:
        _check_teacher(settings)
        from tfbio.runs import teachers

        settings = teachers.with_sizes(settings, FLAGS.teacher)
    data = None
    if FLAGS.examples:
        _check_examples()
        from tfbio.runs import pretraining_data

        start = FLAGS.init_checkpoint or ""
        data = pretraining_data.find_data(settings, FLAGS.examples, start)
    mesh = device_flags.parse_mesh(FLAGS.mesh) if FLAGS.mesh else None
    return pretraining_cost.report(settings, FLAGS.estimate_for or "", data, mesh)


def _check_devices(settings: PretrainingConfig) -> None:
    """Raises UsageError if the flags of devices do not go together, or a mesh with the settings."""
    device_flags.check(
        FLAGS.tpu, FLAGS.strategy, FLAGS.cpu_devices, FLAGS.tpu_zone, FLAGS.gcp_project, FLAGS.mesh
    )
    if FLAGS.mesh:
        mesh_limits.check(settings, device_flags.parse_mesh(FLAGS.mesh))


def _check_teacher(settings: PretrainingConfig) -> None:
    """Raises an error if --teacher does not go with the settings, or is no folder or checkpoint."""
    settings.distillation.check_flag(FLAGS.teacher)
    if FLAGS.teacher:
        path_checks.require_checkpoint("teacher", FLAGS.teacher)


def _start_of_new_run() -> str:
    """Returns --init_checkpoint; "" for a run that goes on, which reads it no more.

    Raises:
      UserError: it is no folder or checkpoint.
    """
    start = FLAGS.init_checkpoint
    if not start or file_paths.at(FLAGS.model_dir, "checkpoint").exists():
        return ""
    path_checks.require_checkpoint("init_checkpoint", start)
    return start


def _check_examples() -> None:
    """Raises UserError if a folder or glob of --examples matches nothing."""
    for folder in FLAGS.examples:
        # A folder's own name may look like a glob.
        is_there = file_paths.is_remote(folder) or os.path.lexists(folder)
        if not is_there and not storage.find(folder):
            read_manifest(folder, "examples")  # which says so


def _profile_steps(last_step: int) -> tuple[int, int] | None:
    """Reads --profile_steps: the first and the last step, or None.

    Raises:
      UsageError: the flag has another form, or goes with a TPU on other machines.
    """
    text = FLAGS.profile_steps
    if not text:
        return None
    numbers = [int(number) if number.isdecimal() else 0 for number in text.split(",")]
    if len(numbers) != 2 or not 1 <= numbers[0] <= numbers[1] <= last_step:
        raise errors.UsageError(
            f"--profile_steps={text}: expected FIRST,LAST, two steps from 1 to {last_step}, "
            "such as 201,210."
        )
    if FLAGS.tpu not in ("", "local"):
        raise errors.UsageError(
            f"--profile_steps traces this machine, and not those of --tpu={FLAGS.tpu}: there use "
            "TensorBoard's own button, 'Capture profile'."
        )
    return numbers[0], numbers[1]


if __name__ == "__main__":
    __doc__ += "\nSettings, with defaults and limits:\n\n" + config.describe(PretrainingConfig)
    cli.run(main, settings=config.names(PretrainingConfig))
