"""Every setting of a fine-tuning run, as one typed, documented dataclass."""

import dataclasses
import os
import re
from pathlib import Path

from tfbio.base.config import ConfigError, require, require_numbers

# How others fine-tuned: a folder for each protocol, with a file for each task.
PROTOCOLS = Path(__file__).resolve().parents[2] / "hparams" / "finetuning"


@dataclasses.dataclass(frozen=True)
class FinetuningRun:
    """How a fine-tuning run goes; nothing here changes what is learnt."""

    # See PretrainingRun.
    precision: str = "auto"
    optimize_for: str = "auto"
    eval_batch_size: int = 64
    # Several texts to a row, each as if it were alone (see packing.py); false: each padded to
    # sequence_length. Only dropout draws other numbers then.
    pack: bool = True
    # Whether all batches have one of a few shapes, and a call takes many steps: "auto", on a TPU,
    # which compiles every shape; "always" or "never". Only dropout draws other numbers then.
    fixed_shapes: str = "auto"
    # Steps between two log lines, after which a run that is told to end saves and ends.
    steps_per_loop: int = 10
    # Steps between two checkpoints, from which a trial that was killed goes on.
    save_checkpoints_steps: int = 1000
    # A device's examples are worked on in so many parts, one after the other: the memory of one
    # part, the same step. Only dropout draws other numbers then.
    gradient_accumulation_steps: int = 1
    # Predict the training set, too, with the weights that are kept; of trials to come.
    predict_train: bool = False

    def __post_init__(self):
        require(
            self.precision in ("auto", "float32", "bfloat16"),
            f"run.precision must be auto, float32 or bfloat16, not {self.precision!r}",
        )
        require(
            self.optimize_for in ("auto", "cpu", "tpu"),
            f"run.optimize_for must be auto, cpu or tpu, not {self.optimize_for!r}",
        )
        for name in (
            "eval_batch_size",
            "steps_per_loop",
            "save_checkpoints_steps",
            "gradient_accumulation_steps",
        ):
            require(getattr(self, name) > 0, f"run.{name} must be at least 1")
        require(
            self.fixed_shapes in ("auto", "always", "never"),
            f"run.fixed_shapes must be auto, always or never, not {self.fixed_shapes!r}",
        )
        require_numbers(self, "run.")


@dataclasses.dataclass(frozen=True)
class FinetuningConfig:
    """Fine-tuning; the defaults are BioELECTRA's (its paper, section 4.3 and Table 6)."""

    # Free text: where the values come from.
    comment: str = ""
    sequence_length: int = 128
    train_batch_size: int = 32
    num_train_epochs: float = 5.0
    # Whether the steps of a run are counted as if an epoch had whole batches, the last one filled
    # up, as in the original ELECTRA code.
    count_whole_batches: bool = False
    # Use only this many training examples, drawn by the seed (0: all); each window of a long
    # sentence counts as one.
    max_train_examples: int = 0
    # Score on only this many examples of the development or test set (0: all), drawn at random, the
    # same ones for every seed and every model. scores.json says how many of how many.
    max_dev_examples: int = 0
    max_test_examples: int = 0
    learning_rate: float = 2e-4
    # "linear": from 0 to learning_rate and back to 0, which the papers of PubMedBERT and BioELECTRA
    # call slanted triangular; "slanted_triangular": ULMFiT's, from learning_rate / 32 and back.
    schedule: str = "linear"
    # Share of the steps over which the learning rate grows.
    warmup_proportion: float = 0.1
    # Above 0: score the development set every so many steps and at the end, and keep the weights
    # that did best, the first of equals. 0: keep the last, as BioELECTRA.
    eval_every_steps: int = 0
    # Above 0: end a trial after so many such evaluations in a row that were no better.
    early_stopping_patience: int = 0
    # Each layer's learning rate is the next higher one's times this.
    layerwise_lr_decay: float = 0.8
    # "bioelectra": the top layer has learning_rate * decay; "electra": * decay ** 2.
    layerwise_lr_exponent: str = "bioelectra"
    weight_decay_rate: float = 0.0
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.999
    adam_epsilon: float = 1e-6
    # BERT's and ELECTRA's Adam does not correct the bias of its averages; PyTorch's and Hugging
    # Face's does, and then takes smaller steps in short runs.
    adam_bias_correction: bool = False
    max_gradient_norm: float = 1.0
    # The examples of a batch are so many equal groups; the gradient of each is clipped by itself,
    # then all are summed. BioELECTRA's authors trained on 8 TPU cores, which do so.
    gradient_clip_groups: int = 1
    # The loss of a batch: "mean" of its examples, of tagging of its words; or "sum", as in the
    # original ELECTRA code. Clipping then gives nearly every step the norm max_gradient_norm.
    loss_reduction: str = "mean"
    # What the head sees of a text: "first", the output for [CLS], as in the papers; "mean", that
    # over all tokens; of relations also "mention", the maximum over the tokens of both entities, or
    # "entity_start", the markers before them (see tfbio/formats/relations.py).
    pooling: str = "first"
    # Of texts, between the output for [CLS] and the last layer: "linear", nothing, as in the
    # original ELECTRA code; "tanh", a dense layer with tanh, which is BERT's pooler and the head of
    # RoBERTa and ALBERT; "gelu", one with gelu, as Hugging Face's ELECTRA has it.
    text_head: str = "linear"
    # Whether relations that have markers are seen with them, or without: the original text.
    entity_markers: bool = True
    # Of tagging: a dense layer on each token; a Bi-LSTM below it ("lstm"); or sequences of tags as
    # a whole ("crf").
    tagging_head: str = "linear"
    # The tags that the model learns: BIO, the data's; IO, without B; or BIOUL, in which L is the
    # last word of an entity and U the only one. The score is on BIO.
    tagging_scheme: str = "BIO"
    # Whether all tokens of a word have its tag as their target, or the first one alone.
    label_all_tokens: bool = False
    # Of tagging: the segment of every token; 1 in the original ELECTRA code.
    tagging_segment: int = 0
    # Of tagging: whether there is dropout before the last layer. Not in the original ELECTRA code.
    tagging_dropout: bool = True
    # Of tagging: whether a sentence is cut much too early, as the original ELECTRA code does it by
    # mistake; the words behind the cut are not learnt. Else nothing is cut.
    tagging_early_cut: bool = False
    # Of several labels: the absence of a label has an output of its own, and the loss is the mean
    # over all outputs, as in BioELECTRA's code. Else a label has one, and the loss is their sum.
    absent_outputs: bool = False
    # Of answers: each token has a score as their start and one as their end ("bert"); or the head
    # of the original ELECTRA code, whose ends depend on the start ("electra", see span_head.py).
    span_head: str = "bert"
    # Of answers, with span_head electra: starts that are followed, and ends of each.
    beam_size: int = 20
    # Of answers: the most tokens of a question; the first tokens of the windows of a long context
    # are so many apart. 0: 64 and 128, as in BERT's run_squad.py, or half of a window if less.
    max_query_length: int = 0
    doc_stride: int = 0
    # Of answers: how many are kept of a question, and their most tokens.
    n_best_size: int = 20
    max_answer_length: int = 30
    # Of scores: the model learns the score divided by this; by the highest, in BioELECTRA's code.
    score_scale: float = 1.0
    # Dropout of the encoder while fine-tuning, and before the last layer of the head.
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    # Runs that differ in nothing but their seed: seed, seed + 1, ...
    num_trials: int = 5
    seed: int = 0

    run: FinetuningRun = FinetuningRun()

    def __post_init__(self):
        for name in ("train_batch_size", "num_trials"):
            require(getattr(self, name) > 0, f"{name} must be at least 1")
        require(self.sequence_length >= 8, "sequence_length must be at least 8")
        require(self.seed >= 0, "seed must be 0 or more")
        for name in ("learning_rate", "num_train_epochs", "max_gradient_norm", "score_scale"):
            require(getattr(self, name) > 0, f"{name} must be above 0")
        require(
            self.gradient_clip_groups > 0
            and self.train_batch_size % self.gradient_clip_groups == 0,
            f"gradient_clip_groups {self.gradient_clip_groups} must divide train_batch_size "
            f"{self.train_batch_size}",
        )
        require(
            self.gradient_clip_groups == 1 or self.loss_reduction == "sum",
            "gradient_clip_groups sums what it clips: it goes with loss_reduction = sum",
        )
        require(
            self.gradient_clip_groups == 1 or self.run.gradient_accumulation_steps == 1,
            "groups of gradient_clip_groups are worked on one after the other as it is: leave "
            "run.gradient_accumulation_steps at 1",
        )
        require(self.tagging_segment >= 0, "tagging_segment must be 0 or more")
        for split in ("train", "dev", "test"):
            name = f"max_{split}_examples"
            require(getattr(self, name) >= 0, f"{name} must be 0 (all) or more")
        for name in ("eval_every_steps", "early_stopping_patience"):
            require(getattr(self, name) >= 0, f"{name} must be 0 (never) or more")
        require(
            self.eval_every_steps > 0 or not self.early_stopping_patience,
            "early_stopping_patience counts evaluations: it goes with eval_every_steps",
        )
        require(
            self.schedule in ("linear", "slanted_triangular"),
            f"schedule must be linear or slanted_triangular, not {self.schedule!r}",
        )
        require(0 < self.layerwise_lr_decay <= 1, "layerwise_lr_decay must be in (0, 1]")
        for name, values in (
            ("pooling", ("first", "mean", "mention", "entity_start")),
            ("text_head", ("linear", "tanh", "gelu")),
            ("tagging_head", ("linear", "lstm", "crf")),
            ("tagging_scheme", ("BIO", "IO", "BIOUL")),
            ("span_head", ("bert", "electra")),
            ("loss_reduction", ("mean", "sum")),
            ("layerwise_lr_exponent", ("bioelectra", "electra")),
        ):
            value = getattr(self, name)
            require(value in values, f"{name} must be {' or '.join(values)}, not {value!r}")
        for name in ("beam_size", "n_best_size", "max_answer_length"):
            require(getattr(self, name) > 0, f"{name} must be at least 1")
        require(
            self.span_head == "electra" or self.beam_size == type(self).beam_size,
            "beam_size goes with span_head = electra; of span_head bert n_best_size is the number",
        )
        for name in ("max_query_length", "doc_stride"):
            require(getattr(self, name) >= 0, f"{name} must be at least 1, or 0")
        require(
            self.max_query_length <= self.sequence_length - 5,
            f"max_query_length {self.max_query_length} leaves no room for a context in "
            f"sequence_length {self.sequence_length}: give {self.sequence_length - 5} or less",
        )
        require(
            self.entity_markers or self.pooling != "entity_start",
            "pooling entity_start needs entity_markers to be true",
        )
        require(
            self.text_head == "linear" or self.pooling == "first",
            f"text_head {self.text_head} is for the output for [CLS]: it goes with pooling first, "
            f"not {self.pooling}",
        )
        for name in (
            "hidden_dropout_prob",
            "attention_probs_dropout_prob",
            "warmup_proportion",
            "adam_beta_1",
            "adam_beta_2",
        ):
            require(0 <= getattr(self, name) < 1, f"{name} must be in [0, 1)")
        require(self.adam_epsilon > 0, "adam_epsilon must be above 0")
        require_numbers(self)


def find_protocol(hparams: str, task: str) -> str:
    """Finds the settings that a protocol, such as "authors", has for a task.

    Args:
      hparams: a protocol, which is a folder of `PROTOCOLS`; or what `load` takes.
      task: the task's name.

    Returns:
      The path of the settings; `hparams` itself if it is no name.

    Raises:
      ConfigError: there is no such protocol, or it has no settings for the task.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", hparams) or os.path.isfile(hparams):
        return hparams
    names = sorted(path.name for path in PROTOCOLS.iterdir() if path.is_dir())
    if hparams not in names:
        raise ConfigError(
            f"--hparams={hparams}: no such file or protocol; the protocols are {', '.join(names)}."
        )
    path = PROTOCOLS / hparams / f"{task}.json"
    if not path.is_file():
        tasks = ", ".join(sorted(path.stem for path in path.parent.glob("*.json")))
        raise ConfigError(f"--hparams={hparams} has no settings for {task}, but for {tasks}.")
    return str(path)
