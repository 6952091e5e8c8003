"""One step of pretraining with Hugging Face `transformers` on PyTorch: what every objective shares.

`transformers` has the models and no pretraining step. This one is a good one: the head of words on
the masked positions alone, AdamW in its fused form, no look at a number from inside the step. The
mathematics are those of `tfbio.objectives.masking` and `tfbio.training.optimization`.
`benchmarks/hugging_face_pretraining.py` chooses among the forms that a step can have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import FastTokenizer


class Masked(NamedTuple):
    """The masks of a batch."""

    input_ids: torch.Tensor  # int64 [B, L], with [MASK] at (most of) the positions
    positions: torch.Tensor  # int64 [B, N]
    weights: torch.Tensor  # float32 [B, N], 0 for what fills up


class HuggingFaceStep(torch.nn.Module):
    """Masks and the optimizer, with tfbio's settings; a subclass has the models and their losses.

    Args:
      config: all settings.
      encoder: the tokenizer, for its special tokens.
      bfloat16: whether the losses are computed under autocast to bfloat16.
      attention: the implementation in `transformers`, "sdpa" or "eager".
    """

    special_ids: torch.Tensor

    def __init__(
        self,
        config: PretrainingConfig,
        encoder: FastTokenizer,
        bfloat16: bool = False,
        attention: str = "sdpa",
    ):
        super().__init__()
        self.config, self.mask_id, self.autocasts = config, encoder.mask_id, bfloat16
        self.attention = attention
        special_ids = torch.tensor([encoder.cls_id, encoder.sep_id, encoder.pad_id])
        self.register_buffer("special_ids", special_ids)

    def start(self) -> None:
        """Draws the weights and makes the optimizer, once the models are there."""
        # `transformers` draws from a normal distribution that is not truncated as BERT's is.
        deviation = self.config.encoder.initializer_range
        limit = 2 * deviation
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.trunc_normal_(parameter, std=deviation, a=-limit, b=limit)
        self.train()
        decayed: list[torch.nn.Parameter] = []
        others: list[torch.nn.Parameter] = []
        for name, parameter in self.named_parameters():
            decays = self.config.decay_all or not ("LayerNorm" in name or "bias" in name)
            (decayed if decays else others).append(parameter)
        groups = [{"params": decayed, "weight_decay": self.config.weight_decay_rate}]
        if others:
            groups.append({"params": others, "weight_decay": 0.0})
        self.optimizer = torch.optim.AdamW(
            groups,
            lr=self.config.learning_rate,
            betas=(self.config.adam_beta_1, self.config.adam_beta_2),
            eps=self.config.adam_epsilon,
            fused=True,
        )
        # BERT and ELECTRA do not correct the bias of Adam's averages. AdamW does, and no more after
        # as many steps as it is told here that it has done.
        done = 0.0 if self.config.adam_bias_correction else 1e6
        for parameter in self.parameters():
            self.optimizer.state[parameter] = {
                "step": torch.tensor(done),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)

    def _rate(self, step: int) -> float:
        """Returns the rate of `tfbio.training.optimization.WarmupLinearDecay`."""
        step += 1
        decay = max(0.0, 1 - step / self.config.num_train_steps)
        return decay * min(1.0, step / max(1, self.config.num_warmup_steps))

    def mask(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> Masked:
        """Draws what is hidden; int64 [B, L] each. Without a mask there is no padding.

        As `tfbio.objectives.masking.mask_tokens`: a share of the tokens, without replacement.
        """
        batch, length = input_ids.shape
        count = self.config.max_predictions(length)
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        eligible = attention_mask.bool() & ~torch.isin(input_ids, self.special_ids)
        scores = torch.rand(batch, length).masked_fill(~eligible, -1.0)
        positions = scores.topk(count, dim=1).indices
        wanted = (attention_mask.sum(1) * self.config.mask_prob).round().long().clamp(1, count)
        wanted = wanted.minimum(eligible.sum(1))
        weights = (torch.arange(count)[None] < wanted[:, None]).float()
        draw = torch.rand(batch, count).masked_fill(~weights.bool(), 2.0)
        ids = input_ids.gather(1, positions)
        shown = torch.where(draw < self.config.mask_token_prob, self.mask_id, ids)
        if self.config.random_token_prob:
            to_random = self.config.mask_token_prob + self.config.random_token_prob
            is_random = (draw >= self.config.mask_token_prob) & (draw < to_random)
            words = torch.randint(self.config.encoder.vocab_size, (batch, count))
            shown = torch.where(is_random, words, shown)
        return Masked(input_ids.scatter(1, positions, shown), positions, weights)

    def take_step(
        self,
        loss: Callable[..., torch.Tensor],
        batch: Sequence[torch.Tensor | None],
        passes: int = 1,
    ) -> torch.Tensor:
        """Takes the optimizer's step along the gradient of a loss.

        Args:
          loss: a method of this class, or one that was compiled; returns float32 [].
          batch: its arguments, each with B rows, or None.
          passes: B is divided into as many parts, one after another, to take less memory. The
            gradient is that of the mean over the parts, as that of `transformers.Trainer` is.

        Returns:
          The mean loss, float32 [].
        """
        parts = [[None] * passes if each is None else each.chunk(passes) for each in batch]
        total = torch.zeros([])
        for part in zip(*parts, strict=True):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.autocasts):
                mean = loss(*part) / passes
            mean.backward()
            total += mean.detach()
        self._update()
        return total

    def update(self, loss: torch.Tensor) -> None:
        """Takes the optimizer's step along the gradient of `loss`, float32 []."""
        loss.backward()
        self._update()

    def _update(self) -> None:
        """Takes the optimizer's step along the gradients that are there."""
        if self.config.max_gradient_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters(), self.config.max_gradient_norm)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)


def at_positions(hidden: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Takes the vectors at the masked positions, [B * N, size], from [B, L, size] and int64 [B, N].

    The head of words needs no others, and is the largest product of a small model.
    """
    wanted = positions[..., None].expand(-1, -1, hidden.shape[-1])
    return hidden.gather(1, wanted).flatten(0, 1)


def masked_loss(logits: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Computes the mean cross-entropy over the masked tokens, float32 [].

    Args:
      logits: float32 or bfloat16 [B * N, V].
      ids: int64 [B, N], the original tokens.
      weights: float32 [B, N], 0 for what fills up.
    """
    each = torch.nn.functional.cross_entropy(logits.float(), ids.flatten(), reduction="none")
    return masked_mean(each, weights)


def masked_mean(each: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Computes the mean over the masked tokens, float32 [], of float32 [B * N] and [B, N]."""
    return (each * weights.flatten()).sum() / weights.sum()


def divergence(target: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Computes KL(target || other) of words: logits [..., V] each -> float32 [...], in nats.

    No gradient flows into the target.
    """
    expected = torch.log_softmax(target.detach().float(), -1)
    found = torch.log_softmax(logits.float(), -1)
    return torch.nn.functional.kl_div(found, expected, reduction="none", log_target=True).sum(-1)
