"""The masked language model against Hugging Face's, and who learns from its loss."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.hugging_face import dense, hugging_face_state, norm
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives import masked_language_model
from tfbio.objectives.accumulation import Part
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretraining_config import PretrainingConfig

NO_SEED = tf.constant([0, 0])


@pytest.mark.parametrize("embedding_size", [64, 32])
def test_equals_hugging_face(embedding_size):
    import torch
    import transformers

    shape = EncoderConfig(
        vocab_size=300,
        embedding_size=embedding_size,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=40,
        initializer_range=0.1,
    )
    settings = PretrainingConfig(objective="mlm", encoder=shape, sequence_length=40)
    model = masked_language_model.MaskedLanguageModel(settings)
    for variable in model.trainable_variables:
        variable.assign_add(tf.random.normal(variable.shape, stddev=0.05, seed=1))
    names = [field.name for field in dataclasses.fields(shape)]
    names.remove("initializer_range")
    peer = transformers.ElectraForMaskedLM(
        transformers.ElectraConfig(**{name: getattr(shape, name) for name in names})
    ).eval()
    head = dense("generator_predictions.dense", model.head.dense)
    head |= norm("generator_predictions.LayerNorm", model.head.layer_norm)
    head["generator_lm_head.bias"] = model.head.output_bias.numpy()
    state = {f"electra.{name}": value for name, value in hugging_face_state(model.encoder).items()}
    state |= {name: torch.tensor(np.array(value)) for name, value in head.items()}
    missing, unexpected = peer.load_state_dict(state, strict=False)
    # Its output weights are the embeddings, as here.
    assert not unexpected
    assert not [
        name for name in missing if not ("_ids" in name or name == "generator_lm_head.weight")
    ]

    random = np.random.default_rng(0)
    ids = random.integers(5, 300, [3, 40]).astype(np.int32)
    mask = (np.arange(40) < np.array([[40], [30], [12]])).astype(np.int32)
    positions = np.array([[3, 9, 20, 39], [1, 2, 29, 0], [5, 0, 0, 0]], np.int32)
    weights = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], np.float32)
    hidden_ids = np.take_along_axis(ids, positions, axis=1)
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    masked = MaskedBatch(*map(tf.constant, (ids, positions, hidden_ids, weights)))
    output = model({name: tf.constant(v) for name, v in batch.items()}, masked, seed=NO_SEED)

    labels = np.full_like(ids, -100)
    for row, place in zip(*np.nonzero(weights), strict=True):
        labels[row, positions[row, place]] = hidden_ids[row, place]
    with torch.no_grad():
        as_long = (torch.tensor(values, dtype=torch.long) for values in (ids, mask, labels))
        ids_, mask_, labels_ = as_long
        expected = peer(ids_, attention_mask=mask_, labels=labels_)
    logits = np.take_along_axis(expected.logits.numpy(), positions[..., np.newaxis], axis=1)
    hidden = weights > 0
    np.testing.assert_allclose(output.logits.numpy()[hidden], logits[hidden], atol=1e-4)
    np.testing.assert_allclose(output.loss, expected.loss.item(), rtol=1e-5)


def test_accuracy_counts_masked_positions_only():
    """Counts a right word and a wrong one, and not the right one of a position without a mask."""
    one = tf.constant(1.0)
    masked = MaskedBatch(None, None, tf.constant([[7, 1, 9]]), tf.constant([[1.0, 1.0, 0.0]]))
    output = masked_language_model.MaskedLanguageModelOutput(one, tf.one_hot([[7, 8, 9]], 10), one)
    metrics = masked_language_model.MaskedLanguageModelMetrics()
    metrics.update({}, masked, output, Part(tf.constant(0), 1, one, one, 1))
    assert float(metrics.accuracy.result()) == 0.5


def test_biases_of_words_are_added_in_float32_where_layers_compute_in_bfloat16(bfloat16):
    """Between 8 and 16 bfloat16 has steps of 1/16. The fixture sets Keras' policy back."""
    shape = EncoderConfig(300, 32, 32, 1, 2, 64, 40)
    head = masked_language_model.MaskedLanguageModelHead(shape)
    head.set_frequency_biases(np.arange(300) ** 3)
    logits = head(tf.zeros([1, 2, 32], tf.bfloat16), tf.zeros([300, 32]))
    np.testing.assert_array_equal(logits[0, 1], head.output_bias)
    assert np.min(logits) < -12
