"""ELECTRA's pretraining step with Hugging Face `transformers` on PyTorch: what tfbio is held to.

The whole embedding block is shared, and samples are drawn by inversion. The mathematics are those
of `tfbio.objectives.electra`.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from benchmarks.hugging_face_mlm import model_config
from benchmarks.hugging_face_step import HuggingFaceStep, Masked, at_positions, masked_loss
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import FastTokenizer


class HuggingFaceElectra(HuggingFaceStep):
    """Generator, discriminator and optimizer, with tfbio's settings.

    Args:
      config, encoder, **form: see `HuggingFaceStep`.
    """

    def __init__(self, config: PretrainingConfig, encoder: FastTokenizer, **form: Any):
        super().__init__(config, encoder, **form)
        encoders = (config.encoder, config.generator)
        settings = [model_config("Electra", each, encoder.pad_id) for each in encoders]
        for each in settings:
            each._attn_implementation = self.attention
        self.discriminator = transformers.ElectraForPreTraining(settings[0])
        self.generator = transformers.ElectraForMaskedLM(settings[1])
        embeddings = self.discriminator.electra.embeddings
        self.generator.electra.embeddings = embeddings
        self.generator.generator_lm_head.weight = embeddings.word_embeddings.weight
        self.start()

    def losses(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor | None = None,
        masked: Masked | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Computes the generator's and the discriminator's loss on one batch, int64 [B, L] each.

        What is hidden is drawn, if it is not given. Without a mask there is no padding.
        """
        context = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        shown, positions, weights = masked or self.mask(input_ids, attention_mask)
        ids = input_ids.gather(1, positions)
        hidden = self.generator.electra(shown, **context).last_hidden_state
        hidden = self.generator.generator_predictions(at_positions(hidden, positions))
        # A sum of 30,000 probabilities needs float32.
        logits = self.generator.generator_lm_head(hidden).float()
        generator_loss = masked_loss(logits, ids, weights)
        with torch.no_grad():
            ends = torch.softmax(logits, -1).cumsum(-1)
            draw = torch.rand(len(ends), 1) * ends[:, -1:]
            sampled = torch.searchsorted(ends, draw).clamp(max=ends.shape[-1] - 1).view_as(ids)
            sampled = torch.where(weights.bool(), sampled, ids)
            corrupted = input_ids.scatter(1, positions, sampled)
            replaced = (corrupted != input_ids).float()
        logits = self.discriminator(corrupted, **context).logits.float()
        each = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, replaced, reduction="none"
        )
        if attention_mask is None:
            return generator_loss, each.mean()
        discriminator_loss = (each * attention_mask).sum() / attention_mask.sum()
        return generator_loss, discriminator_loss

    def loss(self, *batch: Any) -> torch.Tensor:
        """Computes the loss of training, float32 [], with the arguments of `losses`."""
        return self._sum(*self.losses(*batch))

    def _sum(self, generator_loss: torch.Tensor, discriminator_loss: torch.Tensor) -> torch.Tensor:
        """Weighs the two losses as the settings say."""
        loss = self.config.generator_weight * generator_loss
        return loss + self.config.discriminator_weight * discriminator_loss

    def step(self, *batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes one step of training, with the arguments and the results of `losses`."""
        generator_loss, discriminator_loss = self.losses(*batch)
        self.update(self._sum(generator_loss, discriminator_loss))
        return generator_loss.detach(), discriminator_loss.detach()
