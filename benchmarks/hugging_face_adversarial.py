"""The step of adversarial pretraining with Hugging Face `transformers` on PyTorch.

The mathematics are those of `tfbio.objectives.adversarial`, which are ALUM's.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.masking_utils import create_bidirectional_mask

from benchmarks.hugging_face_mlm import HuggingFaceMaskedLanguageModel
from benchmarks.hugging_face_step import Masked, divergence, masked_loss, masked_mean


class HuggingFaceAdversarial(HuggingFaceMaskedLanguageModel):
    """A BERT that predicts the same words where its embeddings are perturbed, too."""

    def loss(self, *batch: Any) -> torch.Tensor:
        """Computes the loss of training, float32 [], with the arguments of `adversarial_losses`."""
        words, pairs, adversarial = self.adversarial_losses(*batch)
        return words + pairs + self.config.adversarial.weight * adversarial

    def adversarial_losses(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor,
        labels: torch.Tensor,
        masked: Masked | None = None,
        noise: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Computes the losses of the words, of the pairs and of the perturbation, float32 [] each.

        Args:
          input_ids, attention_mask, token_type_ids: int64 [B, L]. Without a mask there is no
            padding.
          labels: int64 [B], of the pairs.
          masked: what is hidden; None: it is drawn.
          noise: float32 [B, L, size], what the perturbation starts as; None: it is drawn.
        """
        masked = masked or self.mask(input_ids, attention_mask)
        ids = input_ids.gather(1, masked.positions)
        embedded = self.body.embeddings(masked.input_ids, token_type_ids=token_type_ids)
        mask = create_bidirectional_mask(self.body.config, embedded, attention_mask)

        def encode(vectors: torch.Tensor) -> torch.Tensor:
            return self.body.encoder(vectors, attention_mask=mask).last_hidden_state

        hidden = encode(embedded)
        logits = self.logits(hidden, masked)
        pairs = self.pairs(self.body.pooler(hidden)).float()
        # The perturbed passes do not train the embeddings, but as output weights.
        clean, settings = embedded.detach(), self.config.adversarial
        if noise is None:
            noise = settings.noise_deviation * torch.randn(clean.shape)
        noise = noise.requires_grad_()
        each = divergence(logits, self.logits(encode(clean + noise), masked))
        of_examples = masked.weights / masked.weights.sum(1, keepdim=True).clamp(min=1)
        (gradient,) = torch.autograd.grad((each * of_examples.flatten()).sum(), noise)
        change = noise.detach() + settings.step_size * gradient
        change = change / (change.abs().amax(-1, keepdim=True) + settings.epsilon)
        perturbed = self.logits(encode(clean + change), masked)
        both = divergence(logits, perturbed) + divergence(perturbed, logits)
        return (
            masked_loss(logits, ids, masked.weights),
            torch.nn.functional.cross_entropy(pairs, labels),
            masked_mean(both, masked.weights),
        )
