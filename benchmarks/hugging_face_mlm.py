"""The step of masked language models with Hugging Face `transformers` on PyTorch.

BERT and ALBERT learn pairs of segments beside the words, RoBERTa the words alone. The mathematics
are those of `tfbio.objectives.masked_language_model`.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from benchmarks.hugging_face_step import HuggingFaceStep, Masked, at_positions, masked_loss
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.fast_tokenizer import FastTokenizer


class HuggingFaceMaskedLanguageModel(HuggingFaceStep):
    """An encoder with its heads and the optimizer, with tfbio's settings.

    Args:
      config, encoder, **form: see `HuggingFaceStep`.
    """

    def __init__(self, config: PretrainingConfig, encoder: FastTokenizer, **form: Any):
        super().__init__(config, encoder, **form)
        family = family_of(config)
        settings = model_config(family, config.encoder, encoder.pad_id)
        settings._attn_implementation = self.attention
        if family == "Bert":
            self.model = transformers.BertForPreTraining(settings)
            self.body, self.words = self.model.bert, self.model.cls.predictions
            self.pairs = self.model.cls.seq_relationship
        elif family == "Albert":
            self.model = transformers.AlbertForPreTraining(settings)
            self.body, self.words = self.model.albert, self.model.predictions
            self.pairs = self.model.sop_classifier
        else:
            self.model = transformers.RobertaForMaskedLM(settings)
            self.body, self.words, self.pairs = self.model.roberta, self.model.lm_head, None
        self.start()

    def losses(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        masked: Masked | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Computes the loss of the words and that of the pairs, which RoBERTa has not.

        Args:
          input_ids, attention_mask, token_type_ids: int64 [B, L]. Without a mask there is no
            padding.
          labels: int64 [B], of the pairs; None for RoBERTa alone.
          masked: what is hidden; None: it is drawn.
        """
        masked = masked or self.mask(input_ids, attention_mask)
        ids = input_ids.gather(1, masked.positions)
        output = self.body(
            masked.input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        )
        logits = self.logits(output.last_hidden_state, masked)
        words = masked_loss(logits, ids, masked.weights)
        if self.pairs is None:
            return words, None
        assert labels is not None  # see above
        pairs = self.pairs(output.pooler_output)
        return words, torch.nn.functional.cross_entropy(pairs.float(), labels)

    def logits(self, hidden: torch.Tensor, masked: Masked) -> torch.Tensor:
        """Scores all words at the masked positions: [B, L, size] -> [B * N, V]."""
        return self.words(at_positions(hidden, masked.positions))

    def loss(self, *batch: Any) -> torch.Tensor:
        """Computes the loss of training, float32 [], with the arguments of `losses`."""
        words, pairs = self.losses(*batch)
        return words if pairs is None else words + pairs

    def own_loss(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        token_type_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        masked: Masked | None = None,
    ) -> torch.Tensor:
        """Computes the sum of `losses` as `transformers` does, with the head of words everywhere.

        This is the loss of `transformers.Trainer`. The head of words sees all positions, and -100
        says which of them do not count.

        Args:
          input_ids, attention_mask, token_type_ids, labels, masked: those of `losses`.
        """
        masked = masked or self.mask(input_ids, attention_mask)
        counted = torch.zeros_like(input_ids).scatter(1, masked.positions, masked.weights.long())
        inputs: dict[str, torch.Tensor | None] = {}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        if self.pairs is not None:
            is_bert = isinstance(self.model, transformers.BertForPreTraining)
            inputs["next_sentence_label" if is_bert else "sentence_order_label"] = labels
        words = input_ids.masked_fill(counted == 0, -100)
        output = self.model(masked.input_ids, attention_mask=attention_mask, labels=words, **inputs)
        return output.loss


def family_of(config: PretrainingConfig) -> str:
    """Returns the family in `transformers` that a model with these settings belongs to."""
    if config.encoder.share_layers:
        return "Albert"
    return "Bert" if config.sentence_pair_loss else "Roberta"


def model_config(family: str, config: EncoderConfig, pad_id: int) -> transformers.PreTrainedConfig:
    """Returns the settings of an encoder under their names in `transformers`."""
    own: dict[str, float] = {}
    if family in ("Albert", "Electra"):
        own["embedding_size"] = config.embedding_size
    if family == "Albert":
        own["classifier_dropout_prob"] = 0.0  # as in ALBERT's own code
    elif family == "Roberta":
        # Positions begin behind `pad_token_id`, which tfbio says by `position_offset`.
        pad_id = config.position_offset - 1
    return getattr(transformers, f"{family}Config")(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        hidden_act=config.hidden_act,
        hidden_dropout_prob=config.hidden_dropout_prob,
        attention_probs_dropout_prob=config.attention_probs_dropout_prob,
        max_position_embeddings=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        initializer_range=config.initializer_range,
        layer_norm_eps=config.layer_norm_eps,
        pad_token_id=pad_id,
        **own,
    )
