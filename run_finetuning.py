r"""Fine-tunes a pretrained encoder on a task, several times, and scores it.

  python run_finetuning.py --task=bc5cdr_chem --data_dir=BC5CDR-chem \
      --init_checkpoint=work/model --output_dir=work/bc5cdr_chem

Trains with seed, seed + 1, ... and writes for each trial the scores on dev and test, the test
predictions and the weights; scores.json has them all, with mean, standard deviation and median. Run
the same command again to continue an interrupted run: finished trials are kept. The settings are
those that BioELECTRA had for the task. Other ways to say it:

  --from_scratch    same architecture and vocabulary, random weights: what pretraining is worth
  --hparams=hparams/finetuning/sentence_roles.json    settings from a file, or inline JSON
  --set learning_rate=1e-4 --set num_trials=3    change single settings
  --sweep learning_rate=5e-5,1e-4 --sweep train_batch_size=16,32    every combination, of which the
                    scores on dev choose one; sweep.md has the table
  --tpu=NAME, --strategy=mirrored, --cpu_devices=2    a TPU; all GPUs; two cores
"""

from functools import partial

from absl import flags

from tfbio import cli, config, sweep, tasks

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "task", "", f"{', '.join(tasks.TASKS)}; or, for data of your own, {', '.join(tasks.OWN)}."
)
flags.DEFINE_string("data_dir", "", "Folder with the task's files.")
flags.DEFINE_string(
    "init_checkpoint",
    "",
    "The --model_dir of a run_pretraining.py run, a trial_SEED of a run of this one, or a folder "
    "with a BERT or ELECTRA encoder of Hugging Face's: config.json, model.safetensors, vocab.txt.",
)
flags.DEFINE_bool(
    "from_scratch",
    False,
    "Start from random weights; only the encoder's shape and vocabulary come from "
    "--init_checkpoint.",
)
flags.DEFINE_string("output_dir", "", "Where scores, predictions, weights and logs go.")
flags.DEFINE_string(
    "hparams", "", "JSON file (see hparams/finetuning/) or inline JSON object; empty: BioELECTRA's."
)
flags.DEFINE_multi_string("set", [], "Changes one setting: name=value. May be repeated.")
flags.DEFINE_multi_string(
    "sweep",
    [],
    "Tries several values of one setting: name=value,value,... May be repeated, for every "
    "combination.",
)
cli.define_device_flags()
flags.DEFINE_bool("overwrite", False, "Replace what a run with other settings left.")


def main(argv: list[str]) -> None:
    cli.no_arguments(argv)
    for name, meaning in (
        ("task", "the task's name, such as sentence_roles"),
        ("data_dir", "the folder with the task's files"),
        ("init_checkpoint", "the --model_dir of a run_pretraining.py run"),
        ("output_dir", "where the scores are to go"),
    ):
        if not FLAGS[name].value:
            raise cli.UserError(f"--{name} is missing: {meaning}.")

    task = tasks.find(FLAGS.task, FLAGS.data_dir)
    swept, combinations = sweep.combinations(FLAGS.sweep)
    settings = [
        config.load(config.FinetuningConfig, FLAGS.hparams, [*FLAGS.set, *chosen], task.settings)
        for chosen in combinations
    ]
    # Imported late: TensorFlow takes seconds, and --help and mistakes should not.
    from tfbio import distribution, finetuning

    finetune = partial(
        finetuning.finetune,
        task=task,
        data_dir=FLAGS.data_dir,
        init_checkpoint=FLAGS.init_checkpoint,
        from_scratch=FLAGS.from_scratch,
        strategy=distribution.make_strategy(FLAGS.tpu, FLAGS.strategy, FLAGS.cpu_devices),
        overwrite=FLAGS.overwrite,
    )
    if swept:
        sweep.run(swept, settings, finetune, FLAGS.output_dir)
    else:
        finetune(settings[0], output_dir=FLAGS.output_dir)


if __name__ == "__main__":
    __doc__ += "\nSettings and their defaults:\n\n" + config.describe(config.FinetuningConfig)
    cli.run(main)
