"""ELECTRA's pretraining step with Hugging Face `transformers` on PyTorch: what tfbio is held to.

`transformers` has the two models and no pretraining step. This one is a good one: the whole
embedding block shared, the generator's head on the masked positions alone, samples by inversion,
AdamW in its fused form, no look at a number from inside the step. The mathematics are those of
`tfbio.objectives.electra` and `tfbio.training.optimization`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import transformers

from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import FastTokenizer


class Masked(NamedTuple):
    """The masks of a batch."""

    input_ids: torch.Tensor  # int64 [B, L], with [MASK] at (most of) the positions
    positions: torch.Tensor  # int64 [B, N]
    weights: torch.Tensor  # float32 [B, N], 0 for what fills up


class HuggingFaceElectra(torch.nn.Module):
    """Generator, discriminator and optimizer, with tfbio's settings."""

    def __init__(self, config: PretrainingConfig, encoder: FastTokenizer):
        super().__init__()
        self.config, self.mask_id = config, encoder.mask_id
        special_ids = torch.tensor([encoder.cls_id, encoder.sep_id, encoder.pad_id])
        self.register_buffer("special_ids", special_ids)
        self.discriminator = transformers.ElectraForPreTraining(electra_config(config.encoder))
        self.generator = transformers.ElectraForMaskedLM(electra_config(config.generator))
        embeddings = self.discriminator.electra.embeddings
        self.generator.electra.embeddings = embeddings
        self.generator.generator_lm_head.weight = embeddings.word_embeddings.weight
        # `transformers` draws from a normal distribution that is not truncated as BERT's is.
        deviation = config.encoder.initializer_range
        for parameter in self.parameters():
            if parameter.dim() > 1:
                limits = {"a": -2 * deviation, "b": 2 * deviation}
                torch.nn.init.trunc_normal_(parameter, std=deviation, **limits)
        self.train()
        decayed, others = [], []
        for name, parameter in self.named_parameters():
            decays = not ("LayerNorm" in name or "bias" in name)
            (decayed if decays else others).append(parameter)
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": config.weight_decay_rate},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=config.learning_rate,
            betas=(config.adam_beta_1, config.adam_beta_2),
            eps=config.adam_epsilon,
            fused=True,
        )
        # BERT and ELECTRA do not correct the bias of Adam's averages. AdamW does, and no more after
        # as many steps as it is told here that it has done.
        for parameter in self.parameters():
            self.optimizer.state[parameter] = {
                "step": torch.tensor(1e6),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)

    def _rate(self, step: int) -> float:
        """Returns the rate of `tfbio.training.optimization.WarmupLinearDecay`."""
        step += 1
        decay = max(0.0, 1 - step / self.config.num_train_steps)
        return decay * min(1.0, step / max(1, self.config.num_warmup_steps))

    def mask(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Masked:
        """Draws what is hidden; int64 [B, L] each.

        As `tfbio.objectives.masking.mask_tokens`: a share of the tokens, without replacement.
        """
        batch, length = input_ids.shape
        count = self.config.max_predictions(length)
        eligible = attention_mask.bool() & ~torch.isin(input_ids, self.special_ids)
        scores = torch.rand(batch, length).masked_fill(~eligible, -1.0)
        positions = scores.topk(count, dim=1).indices
        wanted = (attention_mask.sum(1) * self.config.mask_prob).round().long().clamp(1, count)
        wanted = wanted.minimum(eligible.sum(1))
        weights = (torch.arange(count)[None] < wanted[:, None]).float()
        hidden = weights.bool() & (torch.rand(batch, count) < self.config.mask_token_prob)
        ids = input_ids.gather(1, positions)
        masked = input_ids.scatter(1, positions, torch.where(hidden, self.mask_id, ids))
        return Masked(masked, positions, weights)

    def losses(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
        masked: Masked | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Computes the generator's and the discriminator's loss on one batch, int64 [B, L] each.

        What is hidden is drawn, if it is not given.
        """
        context = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        masked, positions, weights = masked or self.mask(input_ids, attention_mask)
        ids = input_ids.gather(1, positions)
        hidden = self.generator.electra(masked, **context).last_hidden_state
        hidden = hidden.gather(1, positions[..., None].expand(-1, -1, hidden.shape[-1]))
        hidden = self.generator.generator_predictions(hidden.flatten(0, 1))
        logits = self.generator.generator_lm_head(hidden)
        each = torch.nn.functional.cross_entropy(logits, ids.flatten(), reduction="none")
        generator_loss = (each * weights.flatten()).sum() / weights.sum()
        with torch.no_grad():
            ends = torch.softmax(logits, -1).cumsum(-1)
            draw = torch.rand(len(ends), 1) * ends[:, -1:]
            sampled = torch.searchsorted(ends, draw).clamp(max=ends.shape[-1] - 1).view_as(ids)
            sampled = torch.where(weights.bool(), sampled, ids)
            corrupted = input_ids.scatter(1, positions, sampled)
            replaced = (corrupted != input_ids).float()
        logits = self.discriminator(corrupted, **context).logits
        each = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, replaced, reduction="none"
        )
        discriminator_loss = (each * attention_mask).sum() / attention_mask.sum()
        return generator_loss, discriminator_loss

    def step(self, *batch: torch.Tensor | Masked) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes one step of training, with the arguments and the results of `losses`."""
        generator_loss, discriminator_loss = self.losses(*batch)
        loss = self.config.generator_weight * generator_loss
        loss = loss + self.config.discriminator_weight * discriminator_loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters(), self.config.max_gradient_norm)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)
        return generator_loss.detach(), discriminator_loss.detach()


def electra_config(config: EncoderConfig) -> transformers.ElectraConfig:
    """Returns the settings of an encoder under their names in `transformers`."""
    return transformers.ElectraConfig(
        vocab_size=config.vocab_size,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        hidden_dropout_prob=config.hidden_dropout_prob,
        attention_probs_dropout_prob=config.attention_probs_dropout_prob,
        max_position_embeddings=config.max_position_embeddings,
        initializer_range=config.initializer_range,
    )


def batches(
    ids: np.ndarray, offsets: np.ndarray, length: int, batch_size: int, pad_id: int, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields one document an example, cut and padded to `length`, in a new order each epoch.

    Args:
      ids: int32, all documents after each other, each with its [CLS] and [SEP].
      offsets: int64 [documents + 1], where each begins and ends.
      length: of an example.
      batch_size: of a batch.
      pad_id: [PAD].
      seed: of the order.

    Yields:
      int64 [batch_size, length] each: the ids, and 1 for tokens and 0 for padding.
    """
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(offsets) - 1)
        for first in range(0, len(order) - batch_size + 1, batch_size):
            batch = np.full([batch_size, length], pad_id, np.int64)
            mask = np.zeros([batch_size, length], np.int64)
            for row, index in enumerate(order[first : first + batch_size]):
                tokens = ids[offsets[index] : offsets[index + 1]]
                if len(tokens) > length:
                    tokens = np.append(tokens[: length - 1], tokens[-1])  # [SEP] stays
                batch[row, : len(tokens)] = tokens
                mask[row, : len(tokens)] = 1
            yield torch.from_numpy(batch), torch.from_numpy(mask)
