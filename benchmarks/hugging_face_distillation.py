"""The step of distillation with Hugging Face `transformers` on PyTorch.

The mathematics are those of `tfbio.objectives.distillation` with the divergence of masked positions
and without the cosine loss, bio-lm's "distill".
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from benchmarks.hugging_face_mlm import HuggingFaceMaskedLanguageModel, family_of, model_config
from benchmarks.hugging_face_step import (
    Masked,
    at_positions,
    divergence,
    masked_loss,
    masked_mean,
)
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import FastTokenizer


class HuggingFaceStudent(HuggingFaceMaskedLanguageModel):
    """A RoBERTa that learns from masked words and from a larger one, with tfbio's settings.

    Args:
      config, encoder, **form: see `HuggingFaceMaskedLanguageModel`.
      teacher: the settings of the teacher, of which those of its encoder are read. Its weights are
        random.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        encoder: FastTokenizer,
        *,
        teacher: PretrainingConfig,
        **form: Any,
    ):
        assert family_of(config) == family_of(teacher) == "Roberta"
        super().__init__(config, encoder, **form)
        settings = model_config("Roberta", teacher.encoder, encoder.pad_id)
        settings._attn_implementation = self.attention
        taught_by = transformers.RobertaForMaskedLM(settings).eval().requires_grad_(False)
        # In a list, since a module of this one would be trained with it and get dropout.
        self.teacher = [taught_by]

    def loss(self, *batch: Any) -> torch.Tensor:
        """Computes the loss of training, float32 [], with the arguments of `losses`."""
        words, taught = self.distillation_losses(*batch)
        settings = self.config.distillation
        return settings.mlm_weight * words + settings.kl_weight * taught

    def distillation_losses(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        masked: Masked | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Computes the loss of the words, and the divergence from the teacher's, float32 [] each.

        Args:
          input_ids, attention_mask: int64 [B, L]. Without a mask there is no padding.
          masked: what is hidden; None: it is drawn.
        """
        masked = masked or self.mask(input_ids, attention_mask)
        ids = input_ids.gather(1, masked.positions)
        output = self.body(masked.input_ids, attention_mask=attention_mask)
        logits = self.logits(output.last_hidden_state, masked)
        with torch.no_grad():
            (teacher,) = self.teacher
            seen = teacher.roberta(masked.input_ids, attention_mask=attention_mask)
            hidden = at_positions(seen.last_hidden_state, masked.positions)
            expected = teacher.lm_head(hidden)
        temperature = self.config.distillation.temperature
        each = temperature**2 * divergence(
            expected.float() / temperature, logits.float() / temperature
        )
        return masked_loss(logits, ids, masked.weights), masked_mean(each, masked.weights)
