"""Says what a fine-tuning run is to do; `finetuning.finetune` does it."""

from __future__ import annotations

import dataclasses
import os

import tensorflow as tf

from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.finetuning_files import trial_dir
from tfbio.task_types.task import Task


@dataclasses.dataclass(frozen=True)
class Run:
    """The task, the data and the settings of a fine-tuning run that `finetune` is to do.

    Attributes:
      config: all settings.
      task: one of `task_table.TASKS`, or a task of the user's own data.
      data_dir: the path of the folder with the task's files.
      init_checkpoint: the path of a pretraining run's folder, a `trial_SEED` of a fine-tuning run
        (whose head is kept if both answer questions), a folder of Hugging Face's, or a TensorFlow 1
        checkpoint.
      output_dir: the path of the folder for the results, made if need be.
      strategy: where to compute; the batches must divide by its replicas.
      from_scratch: True to take only the encoder's shape and the vocabulary from `init_checkpoint`.
      overwrite: True to remove what a run with other settings left in `output_dir`.
      show_test: True to print the scores on the test set; they are written in any case.
      precision_of: the `output_dir` of a run whose precision this one takes where `run.precision`
        is "auto", so that all runs of a sweep compute in one; "": there is none.
    """

    config: FinetuningConfig
    _: dataclasses.KW_ONLY
    task: Task
    data_dir: str
    init_checkpoint: str
    output_dir: str = ""
    strategy: tf.distribute.Strategy = dataclasses.field(default_factory=tf.distribute.get_strategy)
    from_scratch: bool = False
    overwrite: bool = False
    show_test: bool = True
    precision_of: str = ""

    @property
    def seeds(self) -> range:
        """The seeds of a fine-tuning run's trials, `config.num_trials` ints from `config.seed`."""
        return range(self.config.seed, self.config.seed + self.config.num_trials)

    @property
    def is_chief(self) -> bool:
        """True if this process writes and prints for the fine-tuning run: one worker of several."""
        return self.strategy.extended.should_checkpoint

    def is_complete(self, seed: int) -> bool:
        """Returns True if a fine-tuning run's `output_dir` holds a seed's finished trial_SEED."""
        return os.path.isdir(trial_dir(self.output_dir, seed))

    def say(self, line: str) -> None:
        """Prints a line of a fine-tuning run, if this process is its chief."""
        if self.is_chief:
            print(line, flush=True)
