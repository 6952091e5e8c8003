"""The numbers recorded from the original ELECTRA code, for the tests that compare with them."""

import json

import numpy as np
import tensorflow as tf

from tests import reference
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretraining_config import PretrainingConfig

FOLDER = reference.PARITY / "electra_tf1_tiny"


def recorded_config() -> PretrainingConfig:
    """The configuration of the recorded run (its `config.json`)."""
    recorded = json.loads((FOLDER / "config.json").read_text())["config"]
    shape = recorded["model_hparam_overrides"]
    return PretrainingConfig(
        encoder=EncoderConfig(
            vocab_size=shape["vocab_size"],
            embedding_size=recorded["embedding_size"],
            hidden_size=shape["hidden_size"],
            num_hidden_layers=shape["num_hidden_layers"],
            num_attention_heads=shape["num_attention_heads"],
            intermediate_size=shape["intermediate_size"],
            max_position_embeddings=shape["max_position_embeddings"],
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        generator_hidden_fraction=recorded["generator_hidden_size"],
        sequence_length=recorded["max_seq_length"],
        train_batch_size=recorded["train_batch_size"],
        num_train_steps=recorded["num_train_steps"],
        num_warmup_steps=recorded["num_warmup_steps"],
        learning_rate=recorded["learning_rate"],
        weight_decay_rate=recorded["weight_decay_rate"],
    )


class Recording:
    """The arrays of `oracle.npz`, by step."""

    def __init__(self):
        self.arrays = np.load(FOLDER / "oracle.npz")
        self.batch = {
            name: tf.constant(self.arrays[name])
            for name in ("input_ids", "input_mask", "segment_ids")
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def masked(self, step: int) -> MaskedBatch:
        names = ("masked_input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
        return MaskedBatch(*(tf.constant(self.arrays[f"step{step}/{name}"]) for name in names))

    def corrupted(self, step: int) -> tf.Tensor:
        return tf.constant(self.arrays[f"step{step}/corrupted_input_ids"])
