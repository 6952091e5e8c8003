r"""Pretrains ELECTRA on examples made by data_prep.

  python run_pretraining.py --examples=work/examples_128 --model_dir=work/model \
      --hparams=hparams/small.json

Reads the TFRecords that `python -m data_prep.examples` wrote; masks them anew at every step;
writes checkpoints, config.json, the vocabulary and TensorBoard logs into --model_dir. Run the same
command again to continue an interrupted run. Other ways to say it:

  --hparams='{"encoder": {"hidden_size": 128}}'    settings as inline JSON
  --set learning_rate=1e-4 --set run.jit_compile=true    change single settings
  --examples=work/examples_128 --examples=work/examples_512    two phases (hparams/base.json)
  --init_checkpoint=work/general    start with the weights of another run
  --tpu=NAME, --strategy=mirrored, --cpu_devices=2    a TPU; all GPUs; two cores
  --dry_run --hparams=hparams/base.json    what a run would cost: FLOPs, memory, days
"""

from absl import flags

from tfbio import cli, config, cost

FLAGS = flags.FLAGS
flags.DEFINE_multi_string(
    "examples",
    [],
    "Folder made by data_prep.examples; give the flag once for each sequence length.",
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
    "hparams", "", "JSON file (see hparams/) or inline JSON object; empty: ELECTRA-small."
)
flags.DEFINE_multi_string("set", [], "Changes one setting: name=value. May be repeated.")
flags.DEFINE_boolean(
    "dry_run",
    False,
    "Only prints what a run would cost: parameters, FLOPs, memory, estimated days and, with "
    "--examples, how often they are read. Neither trains nor writes.",
)
flags.DEFINE_string(
    "estimate_for",
    "",
    f"With --dry_run: the hardware, one of {', '.join(cost.DEVICES)}; empty: all of them.",
)
cli.define_device_flags()


def main(argv: list[str]) -> None:
    cli.no_arguments(argv)
    settings = config.load(config.PretrainingConfig, FLAGS.hparams, FLAGS.set)
    if FLAGS.dry_run:
        data = None
        if FLAGS.examples:
            from tfbio import pretraining

            data = pretraining.find_data(settings, FLAGS.examples)
        print(cost.report(settings, FLAGS.estimate_for, data))
        return
    if FLAGS.estimate_for:
        raise cli.UserError("--estimate_for goes with --dry_run: a run takes what it finds.")
    if not FLAGS.examples:
        raise cli.UserError("--examples is missing: the folder that data_prep.examples wrote.")
    if not FLAGS.model_dir:
        raise cli.UserError("--model_dir is missing: where the checkpoints are to go.")

    # Imported late: TensorFlow takes seconds, and --help and mistakes should not.
    from tfbio import distribution, pretraining

    strategy = distribution.make_strategy(
        FLAGS.tpu, FLAGS.strategy, FLAGS.cpu_devices, settings.run.parallel_parts
    )
    pretraining.pretrain(settings, FLAGS.examples, FLAGS.model_dir, strategy, FLAGS.init_checkpoint)


if __name__ == "__main__":
    __doc__ += "\nSettings and their defaults:\n\n" + config.describe(config.PretrainingConfig)
    cli.run(main)
