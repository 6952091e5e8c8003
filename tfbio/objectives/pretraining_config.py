"""Every setting of a pretraining run, as one typed, documented dataclass."""

import dataclasses

from tfbio.base.config import require, require_numbers
from tfbio.models.encoder_config import EncoderConfig

# What is masked together: a token (BERT, ELECTRA); a token with all that continue its word
# (PubMedBERT); some words in a row (SpanBERT).
MASK_UNITS = ("token", "word", "span")


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
        require(
            self.precision in ("auto", "float32", "bfloat16"),
            f"run.precision must be auto, float32 or bfloat16, not {self.precision!r}",
        )
        require(
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
            require(getattr(self, name) > 0, f"run.{name} must be at least 1")
        require_numbers(self, "run.")


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
    # "adamw": BERT's and ELECTRA's Adam; "lamb": LAMB (You et al., 2020), for large batches, in the
    # code of TensorFlow Model Garden, which `pip install 'tfbio[model-garden]'` installs. Both take
    # the settings adam_* and weight_decay_rate.
    optimizer: str = "adamw"
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
            require(getattr(self, name) > 0, f"{name} must be at least 1")
        for name in ("learning_rate", "max_gradient_norm", "adam_epsilon", "temperature"):
            require(getattr(self, name) > 0, f"{name} must be above 0")
        for name in (
            "mask_prob",
            "mask_token_prob",
            "generator_hidden_fraction",
            "generator_layers_fraction",
        ):
            require(0 < getattr(self, name) <= 1, f"{name} must be in (0, 1]")
        for name in ("final_mask_prob", "random_token_prob"):
            require(0 <= getattr(self, name) <= 1, f"{name} must be in [0, 1]")
        require(
            self.gradient_clip_groups > 0
            and self.train_batch_size % self.gradient_clip_groups == 0,
            f"gradient_clip_groups {self.gradient_clip_groups} must divide train_batch_size "
            f"{self.train_batch_size}",
        )
        require(
            self.mask_token_prob + self.random_token_prob <= 1 + 1e-9,
            "mask_token_prob and random_token_prob are shares of one whole: at most 1 together",
        )
        require(self.mask_prob_stages > 1, "mask_prob_stages must be at least 2")
        require(
            self.objective in ("electra", "mlm"),
            f"objective must be electra or mlm, not {self.objective!r}",
        )
        require(
            self.mask_unit in MASK_UNITS,
            f"mask_unit must be {', '.join(MASK_UNITS[:-1])} or {MASK_UNITS[-1]}, "
            f"not {self.mask_unit!r}",
        )
        require(
            self.mask_unit == "token" or not self.mask_with_replacement,
            "mask_with_replacement draws single tokens: it goes with mask_unit = token",
        )
        require(
            not (self.mask_with_replacement and self.random_token_prob),
            "mask_with_replacement does not go with random_token_prob: a token drawn twice would "
            "become the mean of two",
        )
        require(
            not self.final_mask_prob or self.final_mask_prob >= self.mask_prob,
            "final_mask_prob must be 0, or at least mask_prob",
        )
        require(
            self.untied_generator or not self.untied_generator_embeddings,
            "untied_generator_embeddings goes with untied_generator",
        )
        for name in (
            "generator_intermediate_size",
            "generator_num_attention_heads",
            "generator_embedding_size",
        ):
            require(getattr(self, name) >= 0, f"{name} must be at least 1, or 0")
        require(
            self.untied_generator_embeddings or not self.generator_embedding_size,
            "generator_embedding_size goes with untied_generator_embeddings",
        )
        require(
            self.objective == "mlm" or not self.sentence_pair_head,
            "sentence_pair_head goes with objective = mlm",
        )
        require(
            0 <= self.generator_warmup_steps < self.num_train_steps,
            "generator_warmup_steps must be 0 (none) or more, and less than num_train_steps",
        )
        require(
            not self.generator_warmup_steps
            or (self.objective == "electra" and self.untied_generator)
            and not self.uniform_generator,
            "generator_warmup_steps needs a generator with layers of its own: objective = electra, "
            "untied_generator, and no uniform_generator",
        )
        require(0 <= self.final_phase_fraction <= 1, "final_phase_fraction must be in [0, 1]")
        for length in (self.sequence_length, self.final_sequence_length):
            require(
                length <= self.encoder.max_sequence_length,
                f"a sequence of {length} tokens needs encoder.max_position_embeddings of at least "
                f"{length + self.encoder.position_offset} (it is "
                f"{self.encoder.max_position_embeddings})",
            )

        require(self.adam_beta_1 < 1 and self.adam_beta_2 < 1, "adam_beta_1 and 2 must be below 1")
        require_numbers(self)

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
