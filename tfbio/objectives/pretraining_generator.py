"""The generator that follows from the settings of a pretraining run."""

import dataclasses

from tfbio.base.config import ConfigError, require
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.adversarial_config import AdversarialSettings


class PretrainingGenerator:
    """ELECTRA's generator by the settings of a pretraining run; a base of `PretrainingConfig`.

    Attributes:
      objective, encoder, generator_hidden_fraction, generator_layers_fraction, untied_generator,
      untied_generator_embeddings, generator_intermediate_size, generator_num_attention_heads,
      generator_embedding_size, uniform_generator, sentence_pair_head, sentence_pair_loss,
      adversarial, generator_warmup_steps, num_train_steps: the settings of `PretrainingConfig`.
    """

    objective: str
    encoder: EncoderConfig
    generator_hidden_fraction: float
    generator_layers_fraction: float
    untied_generator: bool
    untied_generator_embeddings: bool
    generator_intermediate_size: int
    generator_num_attention_heads: int
    generator_embedding_size: int
    uniform_generator: bool
    sentence_pair_head: bool
    sentence_pair_loss: bool
    adversarial: AdversarialSettings
    generator_warmup_steps: int
    num_train_steps: int

    def check_generator(self) -> None:
        """Checks the settings of the generator, or of what "mlm" has, and returns nothing.

        Raises:
          ConfigError: they do not go together, or the sizes of the generator that they give do not.
        """
        require(
            self.untied_generator or not self.untied_generator_embeddings,
            "untied_generator_embeddings goes with untied_generator",
        )
        require(
            self.untied_generator_embeddings or not self.generator_embedding_size,
            "generator_embedding_size goes with untied_generator_embeddings",
        )
        require(
            self.objective == "mlm" or not self.sentence_pair_head,
            "sentence_pair_head goes with objective = mlm",
        )
        require(
            self.sentence_pair_head or not self.sentence_pair_loss,
            "sentence_pair_loss goes with sentence_pair_head = true",
        )
        require(
            self.objective == "mlm" or not self.adversarial.weight,
            "adversarial.weight goes with objective = mlm",
        )
        warmup = self.generator_warmup_steps
        require(
            warmup < self.num_train_steps,
            f"generator_warmup_steps {warmup} must be less than num_train_steps "
            f"{self.num_train_steps}",
        )
        require(
            not warmup or (self.has_generator and self.untied_generator),
            "generator_warmup_steps needs a generator with layers of its own: objective = electra, "
            "untied_generator, and no uniform_generator",
        )
        if self.has_generator:
            _ = self.generator  # whose sizes are checked when it is made

    @property
    def has_generator(self) -> bool:
        """Returns True if by these settings a generator fills in tokens for the discriminator."""
        return self.objective == "electra" and not self.uniform_generator

    @property
    def generator(self) -> EncoderConfig:
        """The `EncoderConfig` of the generator that the pretraining settings ask for.

        It is the encoder's if `untied_generator` is false; sizes round as in the original code.

        Raises:
          ConfigError: the sizes that come out do not go together.
        """
        if not self.untied_generator:
            return self.encoder
        hidden_size = round(self.encoder.hidden_size * self.generator_hidden_fraction)
        embedding_size = self.encoder.embedding_size
        if self.untied_generator_embeddings:
            embedding_size = self.generator_embedding_size or hidden_size
        try:
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
        except ConfigError as error:
            # It speaks of the encoder, whose settings were checked and may be right.
            text = str(error).replace("encoder.", "").replace("the encoder", "it")
            raise ConfigError(
                f"the generator cannot have these sizes: {text.rstrip('.')} (they are from "
                "generator_hidden_fraction, generator_num_attention_heads, "
                "generator_intermediate_size and generator_embedding_size)"
            ) from error
