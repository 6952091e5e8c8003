"""Every setting of a run: one typed, documented dataclass per entry script.

A configuration is read from `--hparams` (a JSON file or an inline JSON object) and then changed
by any number of `--set name=value`, a dot reaching into a group: `--set run.jit_compile=true`.
An object may also say where its settings are from: `"sources": {"learning_rate": "Table 7"}`.

Settings that change what is learnt (the science) are fields of the configuration itself or of
its `encoder`. Settings that change only how fast a run goes, and what is kept of it, are in `run`.
"""

import dataclasses
import difflib
import json
import math
import os
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfbio import storage
from tfbio.cli import UsageError

# How others fine-tuned: a folder for each protocol, with a file for each task.
PROTOCOLS = Path(__file__).resolve().parents[1] / "hparams" / "finetuning"
# Exact (erf) and with a hyperbolic tangent, by the names that Hugging Face gives them.
HIDDEN_ACTS = ("gelu", "gelu_new")
# What of an `EncoderConfig` does not tell one model from another.
TRAINING_ONLY = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")
# What is masked together: a token (BERT, ELECTRA); a token with all that continue its word
# (PubMedBERT); some words in a row (SpanBERT).
MASK_UNITS = ("token", "word", "span")
# More weights than any encoder of BERT's kind has: one of its sizes is a mistake.
MOST_WEIGHTS = 10 * 10**9
# What float32 can hold.
MOST_OF_FLOAT32 = 3.4e38


class ConfigError(UsageError):
    """A setting that does not exist, or whose value is of the wrong type or out of range."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _require_numbers(settings: object, group: str = "") -> None:
    """Checks what holds for every number: it is from 0 on, and int32 or float32 can hold it."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if type(value) in (int, float):
            most, bound = MOST_OF_FLOAT32, "and finite in float32"
            if field.type is int:
                most, bound = 2**31, "below 2**31"
            _require(
                0 <= value < most,
                f"{group}{field.name} must be a number from 0 on, {bound}, not {_shown(value)}",
            )


def _shown(value: object) -> str:
    """Returns a value as JSON has it, cut where it is long: a number can have 4,000 digits."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """The shape of a Transformer encoder, in the terms of BERT (Devlin et al., 2019)."""

    vocab_size: int = 30522
    # ELECTRA-small and ALBERT embed tokens in fewer dimensions than the layers work in.
    embedding_size: int = 128
    hidden_size: int = 256
    num_hidden_layers: int = 12
    num_attention_heads: int = 4
    intermediate_size: int = 1024
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    # Standard deviation of the truncated normal distribution that weights are drawn from.
    initializer_range: float = 0.02
    # RoBERTa: 1e-5.
    layer_norm_eps: float = 1e-12
    # One of HIDDEN_ACTS; ALBERT: gelu_new.
    hidden_act: str = "gelu"
    # The row of the position embeddings for the first token. RoBERTa: 2, the rows before it are not
    # used, and max_position_embeddings counts them (514 for 512 tokens).
    position_offset: int = 0
    # true: all layers are one, as in ALBERT (Lan et al., 2020, section 3.1).
    share_layers: bool = False

    def __post_init__(self):
        sizes = (
            "vocab_size",
            "hidden_size",  # before embedding_size, which a BERT has from it
            "embedding_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
            "type_vocab_size",
        )
        for name in sizes:
            _require(getattr(self, name) > 0, f"encoder.{name} must be at least 1")
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        layers = 1 if self.share_layers else self.num_hidden_layers
        layer = self.hidden_size * (4 * self.hidden_size + 2 * self.intermediate_size)
        largest = max(sizes, key=lambda name: getattr(self, name))
        _require(
            rows * self.embedding_size + layers * layer <= MOST_WEIGHTS,
            f"the encoder would have more than {MOST_WEIGHTS / 1e9:.0f} billion parameters: look "
            f"at its sizes, of which encoder.{largest} is the largest, "
            f"{_shown(getattr(self, largest))}",
        )
        _require(
            self.hidden_size % self.num_attention_heads == 0,
            f"encoder.hidden_size ({self.hidden_size}) must be a multiple of "
            f"encoder.num_attention_heads ({self.num_attention_heads})",
        )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            _require(0 <= getattr(self, name) < 1, f"encoder.{name} must be in [0, 1)")
        _require(0 < self.layer_norm_eps < 1, "encoder.layer_norm_eps must be above 0 and below 1")
        _require(
            0 <= self.initializer_range < math.inf,
            "encoder.initializer_range must be at least 0, and finite",
        )
        _require(
            self.hidden_act in HIDDEN_ACTS,
            f"encoder.hidden_act must be {' or '.join(HIDDEN_ACTS)}, not {self.hidden_act!r}",
        )
        _require(
            0 <= self.position_offset < self.max_position_embeddings,
            "encoder.position_offset must be at least 0 and less than "
            f"encoder.max_position_embeddings ({self.max_position_embeddings})",
        )

        _require_numbers(self, "encoder.")

    @property
    def max_sequence_length(self) -> int:
        """The most tokens that an input can have."""
        return self.max_position_embeddings - self.position_offset

    @property
    def has_projection(self) -> bool:
        """Whether a dense layer leads from the embeddings to the layers; ALBERT always has one."""
        return self.share_layers or self.embedding_size != self.hidden_size


@dataclasses.dataclass(frozen=True)
class PretrainingRun:
    """How a pretraining run goes and what is kept of it; nothing here changes what is learnt."""

    # bfloat16 halves memory and is what a TPU multiplies in; weights and losses stay float32.
    # "auto": bfloat16 on a TPU, float32 elsewhere.
    precision: str = "auto"
    # Which form the step has where it can have several: "tpu", one loop over the layers, whose
    # dropout is hashed and computed again in the backward pass; "cpu", the fastest on CPUs, also
    # for GPUs. "auto": "tpu" on a TPU. What is learnt is the same, but for the numbers that dropout
    # draws.
    optimize_for: str = "auto"
    # Compile the training step with XLA. A TPU always does; on a CPU it is slower.
    jit_compile: bool = False
    # A device works on its examples of a step in so many parts, one after the other, which takes
    # the memory of one part. Only dropout draws other numbers then.
    gradient_accumulation_steps: int = 1
    # Such a part, or all examples, in so many parts at the same time, each on a core of its own.
    # For a CPU, whose cores otherwise share every operation and often wait for each other.
    parallel_parts: int = 1
    # Steps between two looks of the host at the device: progress, logs.
    steps_per_loop: int = 100
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    # A step whose gradients are not finite changes no weights. After so many a run ends, and the
    # last such batch is saved.
    max_skipped_steps: int = 10
    # Steps between two evaluations on the held-out examples, and the batches in each.
    eval_every_steps: int = 1000
    num_eval_batches: int = 100

    def __post_init__(self):
        _require(
            self.precision in ("auto", "float32", "bfloat16"),
            f"run.precision must be auto, float32 or bfloat16, not {self.precision!r}",
        )
        _require(
            self.optimize_for in ("auto", "cpu", "tpu"),
            f"run.optimize_for must be auto, cpu or tpu, not {self.optimize_for!r}",
        )
        for name in (
            "gradient_accumulation_steps",
            "parallel_parts",
            "steps_per_loop",
            "save_checkpoints_steps",
            "keep_checkpoint_max",
            "max_skipped_steps",
            "eval_every_steps",
            "num_eval_batches",
        ):
            _require(getattr(self, name) > 0, f"run.{name} must be at least 1")
        _require_numbers(self, "run.")


@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """Pretraining; the defaults are ELECTRA-small's (Clark et al., 2020, Table 6)."""

    # Free text: where the values come from.
    comment: str = ""
    # "electra": replaced token detection; "mlm": masked language model, of the encoder alone
    # (RoBERTa's, BioM-BERT's and bio-lm's objective).
    objective: str = "electra"
    # The encoder that is kept: ELECTRA's discriminator.
    encoder: EncoderConfig = EncoderConfig()

    # ELECTRA's generator; with "mlm" there is none.
    # Its hidden size, feed-forward size and heads as a share of the discriminator's.
    generator_hidden_fraction: float = 0.25
    # Its layers as a share of the discriminator's.
    generator_layers_fraction: float = 1.0
    # false: the discriminator's own layers also serve as the generator, at full size (section 3.2,
    # "weight sharing", all weights tied); the generator's fractions are then not used.
    untied_generator: bool = True
    # true: the generator has embeddings of its own, too.
    untied_generator_embeddings: bool = False
    # Of a generator that was made elsewhere. 0: as in the original code, four times its hidden
    # size, a head for each 64 of it, and (of embeddings of its own) its hidden size.
    generator_intermediate_size: int = 0
    generator_num_attention_heads: int = 0
    generator_embedding_size: int = 0
    # true: in place of a generator, tokens are replaced by any of the vocabulary, all as likely.
    uniform_generator: bool = False
    # The generator's samples are drawn from its scores divided by this.
    temperature: float = 1.0
    # true: a sample is never the token that stood there.
    disallow_correct: bool = False
    # With "mlm": the model has BERT's pooler, and its classifier of sentence pairs (next sentence;
    # ALBERT's: sentence order), which no objective here trains: they come in with a model, and go
    # out as they came.
    sentence_pair_head: bool = False
    generator_weight: float = 1.0
    discriminator_weight: float = 50.0
    # Above 0: for so many steps, the first of num_train_steps, the generator learns alone, and the
    # discriminator with the embeddings that they share stays as it is. So a new generator catches
    # up with a discriminator whose --init_checkpoint has none. Then the learning rate begins anew,
    # see optimization.GeneratorWarmup.
    generator_warmup_steps: int = 0

    # Start the output biases where training would take them first: the generator's at the words'
    # log frequencies, the discriminator's at the share of masked tokens. The paper starts at 0, and
    # a short run then spends its first steps on that.
    frequency_biases: bool = False

    # Share of the tokens of an example that is masked.
    mask_prob: float = 0.15
    # Above 0: the share grows to this in so many equal steps, each on an equal part of the run.
    # PubMedBERT (Gu et al., 2020, section 2.3): 0.05 to 0.25 in 5.
    final_mask_prob: float = 0.0
    mask_prob_stages: int = 5
    # Shares of the masked tokens that become [MASK] and that become a random token; the others stay
    # as they are. BERT: 0.8 and 0.1; the original ELECTRA code: 0.85 and 0.
    mask_token_prob: float = 0.85
    random_token_prob: float = 0.0
    # One of MASK_UNITS.
    mask_unit: str = "token"
    # true: draw masked tokens as the original ELECTRA code does, which draws some twice.
    mask_with_replacement: bool = False

    sequence_length: int = 128
    # A last phase at another length, on `final_phase_fraction` of the steps (0: none), as in BERT
    # and BioELECTRA (90 % of the steps at length 128, then 10 % at 512).
    final_sequence_length: int = 0
    final_phase_fraction: float = 0.1

    # Examples per step, over all devices.
    train_batch_size: int = 128
    num_train_steps: int = 1_000_000
    learning_rate: float = 5e-4
    num_warmup_steps: int = 10_000
    weight_decay_rate: float = 0.01
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.999
    adam_epsilon: float = 1e-6
    # Gradients are scaled down to this global norm.
    max_gradient_norm: float = 1.0
    # Above 1: the examples of a step are so many equal groups. The losses of each are means over
    # its own tokens, its gradient is clipped by itself, and the sum is taken. The original ELECTRA
    # code does so with the examples of each TPU core, see accumulation.sum_of_clipped_groups.
    gradient_clip_groups: int = 1

    # Fixes the initial weights, the order of the examples, masks, samples and dropout.
    seed: int = 0

    run: PretrainingRun = PretrainingRun()

    def __post_init__(self):
        for name in ("sequence_length", "train_batch_size", "num_train_steps"):
            _require(getattr(self, name) > 0, f"{name} must be at least 1")
        for name in ("learning_rate", "max_gradient_norm", "adam_epsilon", "temperature"):
            _require(getattr(self, name) > 0, f"{name} must be above 0")
        for name in (
            "mask_prob",
            "mask_token_prob",
            "generator_hidden_fraction",
            "generator_layers_fraction",
        ):
            _require(0 < getattr(self, name) <= 1, f"{name} must be in (0, 1]")
        for name in ("final_mask_prob", "random_token_prob"):
            _require(0 <= getattr(self, name) <= 1, f"{name} must be in [0, 1]")
        _require(
            self.gradient_clip_groups > 0
            and self.train_batch_size % self.gradient_clip_groups == 0,
            f"gradient_clip_groups {self.gradient_clip_groups} must divide train_batch_size "
            f"{self.train_batch_size}",
        )
        _require(
            self.mask_token_prob + self.random_token_prob <= 1 + 1e-9,
            "mask_token_prob and random_token_prob are shares of one whole: at most 1 together",
        )
        _require(self.mask_prob_stages > 1, "mask_prob_stages must be at least 2")
        _require(
            self.objective in ("electra", "mlm"),
            f"objective must be electra or mlm, not {self.objective!r}",
        )
        _require(
            self.mask_unit in MASK_UNITS,
            f"mask_unit must be {', '.join(MASK_UNITS[:-1])} or {MASK_UNITS[-1]}, "
            f"not {self.mask_unit!r}",
        )
        _require(
            self.mask_unit == "token" or not self.mask_with_replacement,
            "mask_with_replacement draws single tokens: it goes with mask_unit = token",
        )
        _require(
            not (self.mask_with_replacement and self.random_token_prob),
            "mask_with_replacement does not go with random_token_prob: a token drawn twice would "
            "become the mean of two",
        )
        _require(
            not self.final_mask_prob or self.final_mask_prob >= self.mask_prob,
            "final_mask_prob must be 0, or at least mask_prob",
        )
        _require(
            self.untied_generator or not self.untied_generator_embeddings,
            "untied_generator_embeddings goes with untied_generator",
        )
        for name in (
            "generator_intermediate_size",
            "generator_num_attention_heads",
            "generator_embedding_size",
        ):
            _require(getattr(self, name) >= 0, f"{name} must be at least 1, or 0")
        _require(
            self.untied_generator_embeddings or not self.generator_embedding_size,
            "generator_embedding_size goes with untied_generator_embeddings",
        )
        _require(
            self.objective == "mlm" or not self.sentence_pair_head,
            "sentence_pair_head goes with objective = mlm",
        )
        _require(
            0 <= self.generator_warmup_steps < self.num_train_steps,
            "generator_warmup_steps must be 0 (none) or more, and less than num_train_steps",
        )
        _require(
            not self.generator_warmup_steps
            or (self.objective == "electra" and self.untied_generator)
            and not self.uniform_generator,
            "generator_warmup_steps needs a generator with layers of its own: objective = electra, "
            "untied_generator, and no uniform_generator",
        )
        _require(0 <= self.final_phase_fraction <= 1, "final_phase_fraction must be in [0, 1]")
        for length in (self.sequence_length, self.final_sequence_length):
            _require(
                length <= self.encoder.max_sequence_length,
                f"a sequence of {length} tokens needs encoder.max_position_embeddings of at least "
                f"{length + self.encoder.position_offset} (it is "
                f"{self.encoder.max_position_embeddings})",
            )

        _require(self.adam_beta_1 < 1 and self.adam_beta_2 < 1, "adam_beta_1 and 2 must be below 1")
        _require_numbers(self)

    def turns(self, devices: int) -> int:
        """In how many parts each of so many devices works on its examples, one after the other."""
        return self.run.gradient_accumulation_steps * max(1, self.gradient_clip_groups // devices)

    @property
    def has_generator(self) -> bool:
        """Whether the model fills in tokens for the discriminator."""
        return self.objective == "electra" and not self.uniform_generator

    @property
    def generator(self) -> EncoderConfig:
        """The generator's encoder; the same rounding as the original code's."""
        if not self.untied_generator:
            return self.encoder
        hidden_size = round(self.encoder.hidden_size * self.generator_hidden_fraction)
        embedding_size = self.encoder.embedding_size
        if self.untied_generator_embeddings:
            embedding_size = self.generator_embedding_size or hidden_size
        return dataclasses.replace(
            self.encoder,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            num_hidden_layers=max(
                1, round(self.encoder.num_hidden_layers * self.generator_layers_fraction)
            ),
            intermediate_size=self.generator_intermediate_size or 4 * hidden_size,
            num_attention_heads=self.generator_num_attention_heads or max(1, hidden_size // 64),
        )

    @property
    def most_masked(self) -> float:
        """The largest share of tokens that a step hides."""
        return max(self.mask_prob, self.final_mask_prob)

    def max_predictions(self, sequence_length: int) -> int:
        """The most tokens of an example that a step hides, so the places that scores are made for.

        As the original ELECTRA code computes `max_predictions_per_seq`.
        """
        return min(sequence_length, int((self.most_masked + 0.005) * sequence_length))

    def phases(self) -> list[tuple[int, int]]:
        """(sequence length, step at which the phase ends), in order."""
        if not self.final_sequence_length:
            return [(self.sequence_length, self.num_train_steps)]
        switch = round(self.num_train_steps * (1 - self.final_phase_fraction))
        return [
            (self.sequence_length, switch),
            (self.final_sequence_length, self.num_train_steps),
        ]


@dataclasses.dataclass(frozen=True)
class FinetuningRun:
    """How a fine-tuning run goes; nothing here changes what is learnt."""

    # See PretrainingRun.
    precision: str = "auto"
    optimize_for: str = "auto"
    eval_batch_size: int = 64
    # Several texts to a row, each as if it were alone (see tfbio/packing.py); false: each padded to
    # sequence_length. Only dropout draws other numbers then.
    pack: bool = True
    # Whether all batches have one of a few shapes, and a call takes many steps: "auto", on a TPU,
    # which compiles every shape; "always" or "never". Only dropout draws other numbers then.
    fixed_shapes: str = "auto"
    # Predict the training set, too, with the weights that are kept; of trials to come.
    predict_train: bool = False

    def __post_init__(self):
        _require(
            self.precision in ("auto", "float32", "bfloat16"),
            f"run.precision must be auto, float32 or bfloat16, not {self.precision!r}",
        )
        _require(
            self.optimize_for in ("auto", "cpu", "tpu"),
            f"run.optimize_for must be auto, cpu or tpu, not {self.optimize_for!r}",
        )
        _require(self.eval_batch_size > 0, "run.eval_batch_size must be at least 1")
        _require(
            self.fixed_shapes in ("auto", "always", "never"),
            f"run.fixed_shapes must be auto, always or never, not {self.fixed_shapes!r}",
        )
        _require_numbers(self, "run.")


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
    # "entity_start", the markers before them (see tfbio/relations.py).
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
            _require(getattr(self, name) > 0, f"{name} must be at least 1")
        _require(self.sequence_length >= 8, "sequence_length must be at least 8")
        _require(self.seed >= 0, "seed must be 0 or more")
        for name in ("learning_rate", "num_train_epochs", "max_gradient_norm", "score_scale"):
            _require(getattr(self, name) > 0, f"{name} must be above 0")
        _require(
            self.gradient_clip_groups > 0
            and self.train_batch_size % self.gradient_clip_groups == 0,
            f"gradient_clip_groups {self.gradient_clip_groups} must divide train_batch_size "
            f"{self.train_batch_size}",
        )
        _require(
            self.gradient_clip_groups == 1 or self.loss_reduction == "sum",
            "gradient_clip_groups sums what it clips: it goes with loss_reduction = sum",
        )
        _require(self.tagging_segment >= 0, "tagging_segment must be 0 or more")
        for split in ("train", "dev", "test"):
            name = f"max_{split}_examples"
            _require(getattr(self, name) >= 0, f"{name} must be 0 (all) or more")
        for name in ("eval_every_steps", "early_stopping_patience"):
            _require(getattr(self, name) >= 0, f"{name} must be 0 (never) or more")
        _require(
            self.eval_every_steps > 0 or not self.early_stopping_patience,
            "early_stopping_patience counts evaluations: it goes with eval_every_steps",
        )
        _require(
            self.schedule in ("linear", "slanted_triangular"),
            f"schedule must be linear or slanted_triangular, not {self.schedule!r}",
        )
        _require(0 < self.layerwise_lr_decay <= 1, "layerwise_lr_decay must be in (0, 1]")
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
            _require(value in values, f"{name} must be {' or '.join(values)}, not {value!r}")
        for name in ("beam_size", "n_best_size", "max_answer_length"):
            _require(getattr(self, name) > 0, f"{name} must be at least 1")
        _require(
            self.span_head == "electra" or self.beam_size == type(self).beam_size,
            "beam_size goes with span_head = electra; of span_head bert n_best_size is the number",
        )
        for name in ("max_query_length", "doc_stride"):
            _require(getattr(self, name) >= 0, f"{name} must be at least 1, or 0")
        _require(
            self.max_query_length <= self.sequence_length - 5,
            f"max_query_length {self.max_query_length} leaves no room for a context in "
            f"sequence_length {self.sequence_length}: give {self.sequence_length - 5} or less",
        )
        _require(
            self.entity_markers or self.pooling != "entity_start",
            "pooling entity_start needs entity_markers to be true",
        )
        _require(
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
            _require(0 <= getattr(self, name) < 1, f"{name} must be in [0, 1)")
        _require(self.adam_epsilon > 0, "adam_epsilon must be above 0")
        _require_numbers(self)


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


def load(
    config_class: type,
    hparams: str = "",
    overrides: Sequence[str] = (),
    defaults: Mapping[str, object] | None = None,
):
    """Builds a configuration.

    Args:
      config_class: the dataclass to build, such as `PretrainingConfig`.
      hparams: path of a JSON file, or a JSON object as text; "" for the defaults. The object may
        have `sources`, texts by the names of its settings, which only the reader of the file needs.
      overrides: "name=value" each, as given to `--set`; a dot reaches into a group.
      defaults: settings that come before both.

    Raises:
      ConfigError: naming the key, value or file at fault and what was expected.
    """
    if hparams.lstrip().startswith("{"):
        origin, text = "--hparams", hparams
    elif hparams:
        origin = hparams
        if not os.path.isfile(hparams):
            problem = "it is a folder" if os.path.isdir(hparams) else "no such file"
            raise ConfigError(
                f"--hparams={hparams}: {problem}; give a JSON file (see the folder hparams/) "
                'or an inline object such as {"learning_rate": 1e-4}.'
            )
        try:
            text = Path(hparams).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = storage.reason(error)
            raise ConfigError(f"--hparams={hparams} cannot be read as text: {reason}.") from error
    else:
        origin, text = "--set", "{}"
    try:
        values = json.loads(text, object_pairs_hook=_once)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}.") from error
    except ValueError as error:  # also of a whole number of more digits than Python reads
        raise ConfigError(f"{origin} is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{origin} is not valid JSON: it is nested too deeply.") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{origin} must hold one JSON object, not a {type(values).__name__}.")

    try:
        _check_sources(values.pop("sources", {}), values)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}.") from error
    for override in overrides:
        _apply_override(values, override)
    return build(config_class, {**(defaults or {}), **values}, origin)


def build(config_class: type, values: Mapping[str, object], origin: str | os.PathLike):
    """Builds a configuration of settings that were read from a file.

    Args:
      config_class: the dataclass to build.
      values: the settings, as JSON gives them.
      origin: the file, for the messages.

    Raises:
      ConfigError: naming the file, the key or value at fault and what was expected.
    """
    try:
        return _build(config_class, values, prefix="")
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}.") from error


def names(config_class: type, prefix: str = "") -> list[str]:
    """The names of all settings, as `--set` takes them."""
    found = []
    for field in dataclasses.fields(config_class):
        group = dataclasses.is_dataclass(field.type)
        found += names(field.type, f"{prefix}{field.name}.") if group else [prefix + field.name]
    return found


def describe(config_class: type, prefix: str = "") -> str:
    """One line for each setting, `name = default`, for a command's `--help`."""
    lines = []
    for field in dataclasses.fields(config_class):
        if dataclasses.is_dataclass(field.type):
            lines.append(describe(field.type, f"{prefix}{field.name}."))
        elif field.name != "comment":
            lines.append(f"  {prefix}{field.name} = {json.dumps(field.default)}\n")
    return "".join(lines)


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON whose names are all different."""
    found: dict[str, object] = {}
    for name, value in pairs:
        _require(name not in found, f"{name!r} is there twice")
        found[name] = value
    return found


def _check_sources(sources: object, values: Mapping[str, object]) -> None:
    """Checks that each source is a text, and that of a setting that `values` has."""
    _require(
        isinstance(sources, dict),
        'sources must be texts by the names of settings, {"learning_rate": "Table 7"}, '
        f"not {_shown(sources)}",
    )
    for name, source in sources.items():
        found: object = values
        for key in name.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        _require(
            found is not None,
            f"sources has {_shown(name)}, which is no setting beside it: take it out, or set it",
        )
        _require(
            isinstance(source, str) and bool(source.strip()),
            f"sources must say in a text where {_shown(name)} is from, not {_shown(source)}",
        )


def _apply_override(values: dict, override: str) -> None:
    name, equals, text = override.partition("=")
    if not equals or not name:
        raise ConfigError(f"--set {override}: expected name=value.")
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except ConfigError as error:
        raise ConfigError(f"--set {override}: {error}.") from error
    except (ValueError, RecursionError):
        value = text  # a bare word is a string: --set run.precision=bfloat16
    *groups, key = name.split(".")
    for group in groups:
        values = values.setdefault(group, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {override}: {group!r} is not a group of settings.")
    values[key] = value


def _build(config_class: type, values: Mapping[str, object], prefix: str):
    hints = typing.get_type_hints(config_class)
    for key in values:
        if key not in hints:
            nearest = prefix + _nearest(key, config_class)
            raise ConfigError(f"unknown setting {prefix + key!r}; the nearest is {nearest!r}")
    return config_class(
        **{key: _convert(value, hints[key], prefix + key) for key, value in values.items()}
    )


def _convert(value, expected: type, name: str):
    """`value` as the type that the field declares; JSON's 1e6 is a whole number too."""
    if dataclasses.is_dataclass(expected):
        if isinstance(value, dict):
            return _build(expected, value, prefix=f"{name}.")
        raise ConfigError(f"{name} is a group of settings, not {_shown(value)}")
    if expected is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if expected is float and type(value) is int and abs(value) < 1e308:
        return float(value)
    if type(value) is expected:
        return value
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise ConfigError(f"{name} must be {kinds[expected]}, not {_shown(value)}")


def _nearest(key: str, config_class: type) -> str:
    """The most similar setting of the class or of its groups."""
    names = {}
    for name, kind in typing.get_type_hints(config_class).items():
        names[name] = name
        if dataclasses.is_dataclass(kind):
            names.update({inner: f"{name}.{inner}" for inner in typing.get_type_hints(kind)})
    return names[difflib.get_close_matches(key, names, n=1, cutoff=0.0)[0]]
