"""Every setting of a pretraining run, as one typed, documented dataclass."""

import dataclasses

from tfbio.base.config import BaseSettings, require, setting
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.adversarial_config import AdversarialSettings
from tfbio.objectives.distillation_config import DistillationConfig
from tfbio.objectives.pretraining_generator import PretrainingGenerator
from tfbio.objectives.pretraining_phases import PretrainingPhases
from tfbio.objectives.pretraining_run import PretrainingRun

# What is masked together: a token (BERT, ELECTRA); a token with all that continue its word
# (PubMedBERT); some words in a row (SpanBERT); up to three whole words in a row (ALBERT).
MASK_UNITS = ("token", "word", "span", "ngram")


@dataclasses.dataclass(frozen=True)
class PretrainingConfig(BaseSettings, PretrainingGenerator, PretrainingPhases):
    """The settings of pretraining; the defaults are ELECTRA-small's (Clark et al., 2020, Table 6).

    Attributes:
      comment: free text.
      objective: "electra" or "mlm".
      encoder: the shape of the encoder that is kept.
      generator_hidden_fraction, generator_layers_fraction: the generator's hidden size and number
        of layers, as shares of the encoder's.
      untied_generator, untied_generator_embeddings: True if the generator has its own layers, and
        its own embeddings.
      generator_intermediate_size, generator_num_attention_heads, generator_embedding_size: further
        sizes of the generator; 0: the original code's.
      uniform_generator: True to draw replacements from the whole vocabulary, without a generator.
      temperature: the number that the generator's scores are divided by before it draws samples.
      disallow_correct: True if a sample is never the original token.
      sentence_pair_head: True if an "mlm" model has BERT's classifier of pairs.
      sentence_pair_loss: True if the examples' labels train it beside the words.
      adversarial: the settings of adversarial pretraining, of an "mlm" model.
      distillation: the settings of an "mlm" model that learns from a teacher.
      generator_weight, discriminator_weight: the weights of the two losses.
      generator_warmup_steps: the first steps, in which the generator learns alone.
      frequency_biases: True to start the output biases at log frequencies.
      mask_prob, final_mask_prob, mask_prob_stages: the share of tokens to mask, the share that it
        grows to (0: none), and the number of equal stages.
      mask_token_prob, random_token_prob: the shares of them that become [MASK], and a random token.
      mask_unit: "token", "word", "span" or "ngram".
      mask_with_replacement: True to draw masked tokens as the original code does, some twice.
      sequence_length, final_sequence_length: tokens of an example, and those of the last phase (0:
        no such phase).
      final_phase_fraction: the share of the steps in the last phase.
      corpus_switch_steps: the steps at which the next corpus, a folder of examples, begins.
      train_batch_size, num_train_steps: examples of a step over all devices, and steps of the run.
      optimizer: "adamw" or "lamb", with `learning_rate`, `num_warmup_steps`, `weight_decay_rate`,
        `adam_beta_1`, `adam_beta_2`, `adam_epsilon`, its `adam_bias_correction` or
        `lamb_bias_correction`, and `decay_all`, True if LayerNorms and biases decay, too.
      schedule: "linear" or "triangular", the course of the learning rate.
      max_gradient_norm, gradient_clip_groups: the norm that gradients are clipped to (0: they are
        not), and the number of groups of examples that are clipped by themselves.
      seed: the number that keys all that is random.
      run: the settings that affect speed and bookkeeping.

    Raises:
      ConfigError: a value is out of its range, or two do not go together.
    """

    comment: str = setting("", "Free text: where the values come from.")
    objective: str = setting(
        "electra",
        "electra: replaced token detection; mlm: masked language model, of the encoder alone "
        "(RoBERTa's, BioM-BERT's and bio-lm's objective; with sentence_pair_loss BERT's and "
        "ALBERT's).",
        choices=("electra", "mlm"),
    )
    # The encoder that is kept: ELECTRA's discriminator.
    encoder: EncoderConfig = EncoderConfig()

    # ELECTRA's generator; with "mlm" there is none.
    generator_hidden_fraction: float = setting(
        0.25,
        "The generator's hidden size as a share of the discriminator's.",
        above=0,
        at_most=1,
    )
    generator_layers_fraction: float = setting(
        1.0, "The generator's layers as a share of the discriminator's.", above=0, at_most=1
    )
    untied_generator: bool = setting(
        True,
        "false: the discriminator's own layers also serve as the generator, at full size (section "
        "3.2, weight sharing, all weights tied); the generator's fractions are then not used.",
    )
    untied_generator_embeddings: bool = setting(
        False, "true: the generator has embeddings of its own, too."
    )
    generator_intermediate_size: int = setting(
        0,
        "Feed-forward size of a generator that was made elsewhere. 0: four times its hidden size, "
        "as in the original code.",
    )
    generator_num_attention_heads: int = setting(
        0, "The generator's heads. 0: one for each 64 of its hidden size, as in the original code."
    )
    generator_embedding_size: int = setting(
        0, "The size of embeddings of its own. 0: its hidden size, as in the original code."
    )
    uniform_generator: bool = setting(
        False,
        "true: in place of a generator, tokens are replaced by any of the vocabulary, all as "
        "likely.",
    )
    temperature: float = setting(
        1.0, "The generator's samples are drawn from its scores divided by this.", above=0
    )
    disallow_correct: bool = setting(False, "true: a sample is never the token that stood there.")
    sentence_pair_head: bool = setting(
        False,
        "With mlm: the model has BERT's pooler, and its classifier of sentence pairs (next "
        "sentence; ALBERT's: sentence order). Without sentence_pair_loss they come in with a "
        "model, and go out as they came.",
    )
    sentence_pair_loss: bool = setting(
        False,
        "With sentence_pair_head: the classifier learns, too, from the labels of examples that "
        "data_prep.examples made with --objective=next_sentence (BERT) or sentence_order "
        "(ALBERT). Its loss is added to that of the words, with the same weight.",
    )
    adversarial: AdversarialSettings = AdversarialSettings()
    distillation: DistillationConfig = DistillationConfig()
    generator_weight: float = setting(1.0, "Weight of the generator's loss.")
    discriminator_weight: float = setting(50.0, "Weight of the discriminator's loss.")
    generator_warmup_steps: int = setting(
        0,
        "Above 0: for so many steps, the first of num_train_steps, the generator learns alone, and "
        "the discriminator with the embeddings that they share stays as it is. So a new generator "
        "catches up with a discriminator whose --init_checkpoint has none. Then the learning rate "
        "begins anew (see optimization.GeneratorWarmup).",
    )
    frequency_biases: bool = setting(
        False,
        "Start the output biases where training would take them first: the generator's at the "
        "words' log frequencies, the discriminator's at the share of masked tokens. The paper "
        "starts at 0, and a short run then spends its first steps on that.",
    )

    mask_prob: float = setting(
        0.15, "Share of the tokens of an example that is masked.", above=0, at_most=1
    )
    final_mask_prob: float = setting(
        0.0,
        "Above 0: the share grows to this in mask_prob_stages equal steps, each on an equal part "
        "of the run. Gu et al. (2020), section 2.3, describe 0.05 to 0.25 in 5, as ALUM's; their "
        "PubMedBERT has a constant 0.15 (section 6.1).",
        at_most=1,
    )
    mask_prob_stages: int = setting(5, "Stages from mask_prob to final_mask_prob.", at_least=2)
    mask_token_prob: float = setting(
        0.85,
        "Share of the masked tokens that become [MASK]. BERT: 0.8; the original ELECTRA code: "
        "0.85.",
        above=0,
        at_most=1,
    )
    random_token_prob: float = setting(
        0.0,
        "Share of them that become a random token; the others stay as they are. BERT: 0.1; the "
        "original ELECTRA code: 0.",
        at_most=1,
    )
    mask_unit: str = setting(
        "token",
        "What is masked together. token: a token (BERT, ELECTRA); word: a token with all that "
        "continue its word (PubMedBERT); span: some words in a row (SpanBERT); ngram: one to three "
        "whole words in a row (ALBERT).",
        choices=MASK_UNITS,
    )
    mask_with_replacement: bool = setting(
        False,
        "true: draw masked tokens as the original ELECTRA code does, which draws some twice.",
    )

    sequence_length: int = setting(128, "Tokens of an example.", at_least=1)
    final_sequence_length: int = setting(
        0,
        "The length in a last phase, on final_phase_fraction of the steps (0: none), as in BERT "
        "and BioELECTRA (90 % of the steps at length 128, then 10 % at 512).",
    )
    final_phase_fraction: float = setting(0.1, "Share of steps in the last phase.", at_most=1)

    corpus_switch_steps: tuple[int, ...] = setting(
        (),
        "Steps at which the run goes on with the next of several --examples of sequence_length: "
        "with [264000] it reads the first folder until step 264,000 and then the second (BioM-"
        "ALBERT: PubMed, then PubMed and PMC). All else goes on. Not with final_sequence_length.",
    )

    train_batch_size: int = setting(128, "Examples of a step, over all devices.", at_least=1)
    num_train_steps: int = setting(1_000_000, "The number of steps in the run.", at_least=1)
    optimizer: str = setting(
        "adamw",
        "adamw: BERT's and ELECTRA's Adam; lamb: LAMB (You et al., 2020), for large batches, by "
        "the code of TensorFlow Model Garden, which `pip install 'tfbio[model-garden]'` installs. "
        "Both take the settings adam_* and weight_decay_rate.",
        choices=("adamw", "lamb"),
    )
    learning_rate: float = setting(5e-4, "The highest learning rate.", above=0)
    num_warmup_steps: int = setting(10_000, "Steps over which the learning rate grows from 0.")
    schedule: str = setting(
        "linear",
        "linear: ELECTRA's, a fall to 0 over all steps, times the warm-up; triangular: a rise to "
        "learning_rate, then a fall to 0 (RoBERTa, PubMedBERT, bio-lm).",
        choices=("linear", "triangular"),
    )
    weight_decay_rate: float = setting(0.01, "Decoupled weight decay of Adam.")
    adam_beta_1: float = setting(0.9, "Decay of Adam's average of gradients.", below=1)
    adam_beta_2: float = setting(0.999, "Decay of Adam's average of squared gradients.", below=1)
    adam_epsilon: float = setting(1e-6, "Added to the root of Adam's average of squares.", above=0)
    adam_bias_correction: bool = setting(
        False,
        "With adamw: true corrects the bias of Adam's averages, as PyTorch and fairseq (RoBERTa, "
        "bio-lm) do; BERT's and ELECTRA's code does not.",
    )
    lamb_bias_correction: bool = setting(
        True,
        "With lamb: true corrects the bias of its averages, as LAMB's paper and Model Garden do; "
        "false: ALBERT's code, whose first step moves LayerNorms and biases 3.2 times as far.",
    )
    decay_all: bool = setting(
        False,
        "true: LayerNorms and biases decay, too, as in fairseq (RoBERTa, bio-lm); false: all but "
        "these decay (BERT, ELECTRA, ALBERT).",
    )
    max_gradient_norm: float = setting(
        1.0, "Gradients are scaled down to this global norm. 0: they are not, as in RoBERTa's."
    )
    gradient_clip_groups: int = setting(
        1,
        "Above 1: the examples of a step are so many equal groups. The losses of each are means "
        "over its own tokens, its gradient is clipped by itself, and the sum is taken. The "
        "original ELECTRA code does so with the examples of each TPU core (see "
        "accumulation.sum_of_clipped_groups).",
        at_least=1,
    )
    seed: int = setting(
        0, "Fixes the initial weights, the order of the examples, masks, samples and dropout."
    )

    run: PretrainingRun = PretrainingRun()

    def check_together(self) -> None:
        """Checks what holds for several settings of pretraining together, and returns nothing.

        Raises:
          ConfigError: settings of masks, generator, optimizer, groups, steps or sequence lengths do
            not go together.
        """
        self._check_masking()
        self.check_generator()
        self.distillation.check_student(
            self.objective, self.sentence_pair_loss, self.adversarial.weight > 0
        )
        self._check_optimizer()
        groups, batch_size = self.gradient_clip_groups, self.train_batch_size
        require(
            batch_size % groups == 0,
            f"gradient_clip_groups {groups} must divide train_batch_size {batch_size}",
        )
        self.check_phases()
        for length in (self.sequence_length, self.final_sequence_length):
            require(
                length <= self.encoder.max_sequence_length,
                f"a sequence of {length} tokens needs encoder.max_position_embeddings of at least "
                f"{length + self.encoder.position_offset} (it is "
                f"{self.encoder.max_position_embeddings})",
            )

    def _check_masking(self) -> None:
        """Checks the settings of masks; see `check_together`."""
        require(
            self.mask_token_prob + self.random_token_prob <= 1 + 1e-9,
            "mask_token_prob and random_token_prob are shares of one whole: at most 1 together",
        )
        require(
            self.mask_unit == "token" or not self.mask_with_replacement,
            "mask_with_replacement draws single tokens: it goes with mask_unit = token",
        )
        require(
            not (self.mask_with_replacement and self.random_token_prob),
            "mask_with_replacement does not go with random_token_prob: a token drawn twice would "
            "become the mean of two. Set one of them to false or 0",
        )
        require(
            not self.final_mask_prob or self.final_mask_prob >= self.mask_prob,
            "final_mask_prob must be 0, or at least mask_prob",
        )
        # The log odds of that share, at which the discriminator's bias would start.
        require(
            not (self.frequency_biases and self.objective == "electra" and self.mask_prob == 1),
            "frequency_biases does not go with mask_prob = 1: the share of masked tokens has no "
            "log odds",
        )

    def _check_optimizer(self) -> None:
        """Checks the settings of the optimizer; see `check_together`."""
        require(
            self.optimizer == "adamw" or not self.adam_bias_correction,
            "adam_bias_correction goes with optimizer = adamw: set lamb_bias_correction for lamb",
        )
        require(
            not self.generator_warmup_steps or not self.adam_bias_correction,
            "adam_bias_correction does not go with generator_warmup_steps, in which one part "
            "waits: set it to false",
        )
        require(
            not (self.generator_warmup_steps and self.optimizer == "lamb")
            or not self.lamb_bias_correction,
            "lamb_bias_correction does not go with generator_warmup_steps, in which one part "
            "waits: set it to false",
        )
        require(
            self.optimizer == "lamb" or self.lamb_bias_correction,
            "lamb_bias_correction = false goes with optimizer = lamb: adamw corrects none anyway",
        )
        require(
            self.max_gradient_norm > 0 or self.gradient_clip_groups == 1,
            "gradient_clip_groups are clipped: set max_gradient_norm above 0, or 1 group",
        )

    def turns(self, devices: int) -> int:
        """Computes from pretraining settings how many parts a device works on in turn in a step.

        Args:
          devices: the number of devices that share a batch.
        """
        return self.run.gradient_accumulation_steps * max(1, self.gradient_clip_groups // devices)

    @property
    def warmup_warning(self) -> str:
        """A sentence if the warm-up of these settings takes all steps; else an empty text."""
        steps = self.num_train_steps - self.generator_warmup_steps
        if self.num_warmup_steps < steps:
            return ""
        return (
            f"warning: num_warmup_steps {self.num_warmup_steps} takes all {steps} steps of the "
            "learning rate: none comes after the warm-up."
        )

    @property
    def most_masked(self) -> float:
        """The largest share of tokens that a step masks by these settings, a float in (0, 1]."""
        return max(self.mask_prob, self.final_mask_prob)

    def max_predictions(self, sequence_length: int) -> int:
        """Computes from pretraining settings the most tokens of an example that are masked, an int.

        The original ELECTRA code computes its setting `max_predictions_per_seq` so, but for 0.

        Args:
          sequence_length: tokens of the example.
        """
        return max(1, min(sequence_length, int((self.most_masked + 0.005) * sequence_length)))
