"""Settings of a pretraining run that affect speed and bookkeeping, not results."""

import dataclasses

from tfbio.base.config import BaseSettings, setting


@dataclasses.dataclass(frozen=True)
class PretrainingRun(BaseSettings):
    """The settings of a pretraining run that affect speed and bookkeeping, not results.

    Attributes:
      group: "run.", the start of the names of the settings.
      precision: "float32" or "bfloat16" for the model's computations; "auto": bfloat16 on a TPU,
        and on a GPU or a CPU that multiplies it faster, see `training.precision.set_precision`.
      optimize_for: the form of the step, "cpu" or "tpu"; "auto": "tpu" on a TPU.
      jit_compile: True to compile the training step with XLA.
      gradient_accumulation_steps: parts of a device's examples, one after the other.
      parallel_parts: parts of a device's examples at the same time.
      steps_per_loop: steps in one call of the device.
      save_checkpoints_steps, eval_every_steps: steps between two checkpoints, two evaluations.
      keep_checkpoint_max: the number of checkpoints that are kept.
      stop_at_step: the step at which the run ends before `num_train_steps`; 0: it does not.
      keep_checkpoints_at: steps whose checkpoints are kept for good.
      max_skipped_steps: skipped steps after which a run ends.
      num_eval_batches: batches of an evaluation.

    Raises:
      ConfigError: a value is out of its range.
    """

    group = "run."
    added = {"stop_at_step": 0, "keep_checkpoints_at": ()}

    precision: str = setting(
        "auto",
        "What the model computes in; bfloat16 halves memory and is what a TPU multiplies in. "
        "Weights and losses stay float32. auto: bfloat16 on a TPU, on a GPU that has it (NVIDIA's "
        "since Ampere), and on a CPU that multiplies it faster (AVX512-BF16, AMX; measured in a "
        "third of a second) from a hidden_size of 256, else float32. A run continues on a CPU, and "
        "on a GPU that has it, in the precision that it began in.",
        choices=("auto", "float32", "bfloat16"),
    )
    optimize_for: str = setting(
        "auto",
        "The form of the step where it can have several. tpu: one loop over the layers, whose "
        "dropout is hashed and computed again in the backward pass; cpu: the fastest on CPUs, also "
        "for GPUs. auto: tpu on a TPU. What is learnt is the same, but for the numbers that "
        "dropout draws.",
        choices=("auto", "cpu", "tpu"),
    )
    jit_compile: bool = setting(
        False,
        "Compile the training step with XLA, on one device. A TPU always does; on a CPU it is "
        "slower.",
    )
    gradient_accumulation_steps: int = setting(
        1,
        "A device works on its examples of a step in so many parts, one after the other, which "
        "takes the activations of one part. Only dropout draws other numbers then.",
        at_least=1,
    )
    parallel_parts: int = setting(
        1,
        "One device works on so many parts of its examples, or of a part of "
        "gradient_accumulation_steps, at the same time, each on a core of its own. For a CPU, "
        "whose cores otherwise share every operation and often wait for each other. Not with "
        "several devices.",
        at_least=1,
    )
    steps_per_loop: int = setting(
        100, "Steps between two looks of the host at the device: progress, logs.", at_least=1
    )
    save_checkpoints_steps: int = setting(1000, "Steps between two checkpoints.", at_least=1)
    keep_checkpoint_max: int = setting(5, "Checkpoints that are kept, the newest.", at_least=1)
    stop_at_step: int = setting(
        0,
        "Above 0: the run ends at this step, as if it was interrupted there. Learning rates and "
        "phases are those of num_train_steps, and the same command with a later step, or 0, "
        "continues the run. BioM-BERT: 690,000 of 700,000.",
    )
    keep_checkpoints_at: tuple[int, ...] = setting(
        (),
        "Steps whose weights are kept for good besides, as kept-STEP, whether or not a checkpoint "
        "is due there.",
    )
    max_skipped_steps: int = setting(
        10,
        "A step whose gradients are not finite changes no weights. After so many a run ends, and "
        "the last such batch is saved.",
        at_least=1,
    )
    eval_every_steps: int = setting(
        1000, "Steps between two evaluations on the held-out examples.", at_least=1
    )
    num_eval_batches: int = setting(100, "The number of batches in an evaluation.", at_least=1)
