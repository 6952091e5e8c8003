"""The settings that all fine-tuning runs have; those of a task type are in its own file.

`finetuning_config.FinetuningConfig` has both. Reading this imports no TensorFlow.
"""

from __future__ import annotations

import dataclasses

from tfbio.base.config import BaseSettings, require, setting


@dataclasses.dataclass(frozen=True)
class FinetuningRun(BaseSettings):
    """The common settings of fine-tuning that do not change what is learnt, the group `run`.

    Attributes:
      precision: "auto", "float32" or "bfloat16", the type in which the encoder computes.
      optimize_for: "auto", "cpu" or "tpu", the form of the training step.
      eval_batch_size: windows of a batch in prediction.
      pack: True to put several texts into a row, False to pad each to sequence_length.
      fixed_shapes: "auto", "always" or "never", whether all batches have one of a few shapes.
      steps_per_loop: steps between two log lines.
      save_checkpoints_steps: steps between two checkpoints.
      gradient_accumulation_steps: parts of a device's examples, worked on one after the other.
      predict_train: True to predict the training set, too.

    Raises:
      ConfigError: a value is out of its limits.
    """

    group = "run."

    precision: str = setting(
        "auto",
        "What the encoder computes in; losses stay in float32. auto: bfloat16 on a TPU, on a GPU "
        "that has it (NVIDIA's since Ampere), and on a CPU that multiplies it faster (AVX512-BF16, "
        "AMX; measured in a third of a second) from a hidden_size of 256, else float32. Further "
        "trials compute in the precision of the first.",
        choices=("auto", "float32", "bfloat16"),
    )
    optimize_for: str = setting(
        "auto",
        "The form of the training step, see run_pretraining.py --help. auto: tpu on a TPU, else "
        "cpu.",
        choices=("auto", "cpu", "tpu"),
    )
    eval_batch_size: int = setting(
        64, "The number of windows in a batch of prediction or evaluation.", at_least=1
    )
    pack: bool = setting(
        True,
        "Put several texts into a row, each as if it were alone; false: pad each to "
        "sequence_length. Only dropout draws other numbers then.",
    )
    fixed_shapes: str = setting(
        "auto",
        "Whether all batches have one of a few shapes, and a call takes many steps. auto: on a "
        "TPU, which compiles every shape. Only dropout draws other numbers then.",
        choices=("auto", "always", "never"),
    )
    steps_per_loop: int = setting(
        10,
        "Steps between two log lines, after which a run that is told to end saves and ends.",
        at_least=1,
    )
    save_checkpoints_steps: int = setting(
        1000,
        "Steps between two checkpoints, from which a trial that was killed goes on.",
        at_least=1,
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Parts of a device's examples, worked on one after the other: the memory of one part, the "
        "same step. Only dropout draws other numbers then. Not above 1 with batches of fixed "
        "shapes (run.fixed_shapes) or --mesh.",
        at_least=1,
    )
    predict_train: bool = setting(
        False, "Predict the training set, too, with the weights that are kept; of trials to come."
    )


@dataclasses.dataclass(frozen=True)
class CommonSettings(BaseSettings):
    """The common settings of fine-tuning, of all task types, by default BioELECTRA's.

    The defaults are from its section 4.3 and Table 6. `--help` describes each setting in full.

    Attributes:
      comment: free text, where the values come from.
      sequence_length: the most tokens of a window.
      train_batch_size: examples of a step, over all devices.
      num_train_epochs: how often a trial sees the training examples.
      count_whole_batches: True to count the steps as if an epoch had whole batches.
      max_train_examples, max_dev_examples, max_test_examples: the examples in use; 0 for all.
      learning_rate: the highest learning rate, that of the head.
      schedule: "linear", "triangular" or "slanted_triangular", the course of the learning rate.
      warmup_proportion: the share of the steps over which the learning rate grows.
      eval_every_steps: steps between evaluations, of which the best one's weights are kept; 0 to
        keep the last weights.
      early_stopping_patience: evaluations in a row without a better one that end a trial; 0 for
        none.
      layerwise_lr_decay: the factor between the learning rates of a layer and of the one above it.
      layerwise_lr_exponent: "bioelectra" or "electra", the power of it for the top layer: 1 or 2.
      weight_decay_rate: the decoupled weight decay of Adam.
      adam_beta_1, adam_beta_2: the decay of Adam's averages of gradients, and of their squares.
      adam_epsilon: a number that is added to the root of the latter.
      adam_bias_correction: True to correct the bias of Adam's averages.
      max_gradient_norm: the global norm to which gradients are scaled down.
      gradient_clip_groups: the groups of a batch whose gradients are clipped by themselves.
      loss_reduction: "mean" or "sum", over the examples of a batch, or of tagging over its words.
      minority_weight: the weight in the loss of a label that is not the most frequent one.
      minority_copies: how often an epoch has a training window with such a label.
      hidden_dropout_prob: the probability of dropout in the encoder's layers and in the head.
      head_dropout_prob: the probability of dropout in the head; 0 for `hidden_dropout_prob`.
      attention_probs_dropout_prob: the probability of dropout in attention.
      num_trials: runs that differ in nothing but their seed.
      seed: the seed of the first trial.
      run: a `FinetuningRun`, the settings that do not change what is learnt.
      beside: ("sweep",): a file may give several values to try, see `runs.sweep.with_those_of`.

    Raises:
      ConfigError: a value is out of its limits, or does not go with the others.
    """

    beside = ("sweep",)

    comment: str = setting("", "Free text: where the values come from.")
    sequence_length: int = setting(128, "The most tokens of a window.", at_least=8)
    train_batch_size: int = setting(32, "Examples of a step, over all devices.", at_least=1)
    num_train_epochs: float = setting(5.0, "How often a trial sees the training examples.", above=0)
    count_whole_batches: bool = setting(
        False,
        "Count the steps of a run as if an epoch had whole batches, the last one filled up, as in "
        "the original ELECTRA code.",
    )
    max_train_examples: int = setting(
        0,
        "Use only this many training examples, drawn by the seed (0: all); each window of a long "
        "sentence counts as one.",
    )
    max_dev_examples: int = setting(
        0,
        "Score on only this many examples of the development set (0: all), drawn at random, the "
        "same ones for every seed and every model. scores.json says how many of how many.",
    )
    max_test_examples: int = setting(
        0, "Score on only this many examples of the test set (0: all), as max_dev_examples."
    )
    learning_rate: float = setting(2e-4, "The highest learning rate, of the head.", above=0)
    schedule: str = setting(
        "linear",
        "linear: a fall from learning_rate to 0, times a warm-up from 0 to 1, as in ELECTRA's "
        "code, so that 0.9 learning_rate is the highest with a warm-up of 0.1; triangular: a rise "
        "from 0 to learning_rate, then a fall to 0, as in transformers and PubMedBERT's paper; "
        "slanted_triangular: ULMFiT's, from learning_rate / 32 to learning_rate and back.",
        choices=("linear", "triangular", "slanted_triangular"),
    )
    warmup_proportion: float = setting(
        0.1, "Share of the steps over which the learning rate grows.", below=1
    )
    eval_every_steps: int = setting(
        0,
        "Above 0: score the development set every so many steps and at the end, and keep the "
        "weights that did best, the first of equals. 0: keep the last, as BioELECTRA.",
    )
    early_stopping_patience: int = setting(
        0, "Above 0: end a trial after so many such evaluations in a row that were no better."
    )
    layerwise_lr_decay: float = setting(
        0.8, "Each layer's learning rate is the next higher one's times this.", above=0, at_most=1
    )
    layerwise_lr_exponent: str = setting(
        "bioelectra",
        "bioelectra: the top layer has learning_rate * decay; electra: * decay ** 2.",
        choices=("bioelectra", "electra"),
    )
    weight_decay_rate: float = setting(0.0, "Decoupled weight decay of Adam.")
    adam_beta_1: float = setting(0.9, "Decay of Adam's average of gradients.", below=1)
    adam_beta_2: float = setting(0.999, "Decay of Adam's average of squared gradients.", below=1)
    adam_epsilon: float = setting(1e-6, "Added to the root of Adam's average of squares.", above=0)
    adam_bias_correction: bool = setting(
        False,
        "BERT's and ELECTRA's Adam does not correct the bias of its averages; PyTorch's and "
        "Hugging Face's does, and then takes smaller steps in short runs.",
    )
    max_gradient_norm: float = setting(
        1.0, "Gradients are scaled down to this global norm.", above=0
    )
    gradient_clip_groups: int = setting(
        1,
        "The examples of a batch are so many equal groups; the gradient of each is clipped by "
        "itself, then all are summed. BioELECTRA's authors trained on 8 TPU cores, which do so. "
        "Not above 1 with batches of fixed shapes (run.fixed_shapes) or --mesh.",
        at_least=1,
    )
    loss_reduction: str = setting(
        "mean",
        "The loss of a batch: mean of its examples, of tagging of its words; or sum, as in the "
        "original ELECTRA code. Clipping then gives nearly every step the norm max_gradient_norm.",
        choices=("mean", "sum"),
    )
    minority_weight: float = setting(
        1.0,
        "Weighted cross-entropy: the weight of a word or text whose label is not the most frequent "
        "one of the training set. The others have 1, and a mean is over the weights.",
        above=0,
    )
    minority_copies: int = setting(
        1,
        "Oversampling: how often an epoch has each training window with a label that is not the "
        "most frequent one.",
        at_least=1,
    )
    hidden_dropout_prob: float = setting(
        0.1, "Dropout of the encoder's layers, and before the last layer of the head.", below=1
    )
    head_dropout_prob: float = setting(
        0.0,
        "Dropout of the head alone, before its last layer and between those of an MLP. 0: "
        "hidden_dropout_prob.",
        below=1,
    )
    attention_probs_dropout_prob: float = setting(
        0.1, "The share of attention weights that dropout sets to 0.", below=1
    )
    num_trials: int = setting(
        5, "Runs that differ in nothing but their seed: seed, seed + 1, ...", at_least=1
    )
    seed: int = setting(
        0, "The seed of the first trial; the next ones have seed + 1, seed + 2, ..."
    )

    run: FinetuningRun = FinetuningRun()

    @property
    def dropout_of_head(self) -> float:
        """The probability of dropout in the head, of all fine-tuning: in [0, 1)."""
        return self.head_dropout_prob or self.hidden_dropout_prob

    def parts(self, replicas: int) -> int:
        """Returns into how many parts of a fine-tuning step each device divides its examples.

        They are those of `run.gradient_accumulation_steps`, or a device's `gradient_clip_groups`.

        Args:
          replicas: the number of devices that share a batch.
        """
        if self.gradient_clip_groups > 1:
            return max(1, self.gradient_clip_groups // replicas)
        return self.run.gradient_accumulation_steps

    def check_together(self) -> None:
        """Checks the common settings of fine-tuning against each other; returns nothing.

        Raises:
          ConfigError: `gradient_clip_groups` does not divide `train_batch_size`, or is above 1
            without `loss_reduction` "sum" or with `run.gradient_accumulation_steps` above 1;
            `early_stopping_patience` is above 0 without `eval_every_steps`; or a trial's seed is
            2**31 or more.
        """
        groups, batch_size = self.gradient_clip_groups, self.train_batch_size
        require(
            batch_size % groups == 0,
            f"gradient_clip_groups {groups} must divide train_batch_size {batch_size}",
        )
        require(
            groups == 1 or self.loss_reduction == "sum",
            "gradient_clip_groups sums what it clips: it goes with loss_reduction = sum",
        )
        require(
            groups == 1 or self.run.gradient_accumulation_steps == 1,
            "groups of gradient_clip_groups are worked on one after the other as it is: leave "
            "run.gradient_accumulation_steps at 1",
        )
        require(
            self.eval_every_steps > 0 or not self.early_stopping_patience,
            "early_stopping_patience counts evaluations: it goes with eval_every_steps",
        )
        last = self.seed + self.num_trials - 1
        require(last < 2**31, f"the last trial's seed, {last}, must be below 2**31")
