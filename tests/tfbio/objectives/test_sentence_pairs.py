"""Masked words and sentence pairs against `transformers`, and in any parts of a batch the same."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests import untuned
from tests.hugging_face import padded_batch, save_model, small_model
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.objectives.sentence_pairs import BalancedAccuracy
from tfbio.weights import hugging_face_settings, hugging_face_weights, weight_names

WITHOUT_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# What `transformers` calls the labels, and the logits, of each class.
LABELS = {
    "BertForPreTraining": ("next_sentence_label", "prediction_logits", "seq_relationship_logits"),
    "AlbertForPreTraining": ("sentence_order_label", "prediction_logits", "sop_logits"),
    "RobertaForMaskedLM": ("", "logits", ""),
    "MegatronBertForPreTraining": (
        "next_sentence_label",
        "prediction_logits",
        "seq_relationship_logits",
    ),
}
POSITIONS = np.array([[1, 4, 7], [2, 3, 0], [5, 6, 1]], np.int32)
WEIGHTS = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], np.float32)
PAIRS = np.array([0, 1, 1], np.int32)


def batch_of(peer):
    """Three texts of two segments each, one of them padded, with some tokens masked."""
    ids, mask, _ = padded_batch(peer)
    segments = (np.arange(9) >= np.array([[4], [3], [6]])).astype(np.int32) * mask
    if peer.config.type_vocab_size == 1:
        segments[:] = 0
    originals = np.take_along_axis(ids, POSITIONS, axis=1)
    masked_ids = ids.copy()
    for row, place in zip(*np.nonzero(WEIGHTS), strict=True):
        masked_ids[row, POSITIONS[row, place]] = 4
    return ids, mask, segments, masked_ids, originals


def of_transformers(peer, pairs):
    """The losses, logits and gradients by name of PyTorch, from the labels `pairs`."""
    import torch

    ids, mask, segments, masked_ids, originals = batch_of(peer)
    labels = np.full_like(ids, -100)
    for row, place in zip(*np.nonzero(WEIGHTS), strict=True):
        labels[row, POSITIONS[row, place]] = originals[row, place]
    inputs = {"input_ids": masked_ids, "attention_mask": mask, "labels": labels}
    if peer.config.type_vocab_size > 1:
        inputs["token_type_ids"] = segments
    label, words, classes = LABELS[type(peer).__name__]
    if label:
        inputs[label] = pairs
    inputs = {name: torch.tensor(x, dtype=torch.long) for name, x in inputs.items()}
    peer.zero_grad()
    output = peer(**inputs)
    output.loss.backward()
    entropy = torch.nn.functional.cross_entropy
    losses = [output.loss, entropy(output[words].flatten(0, 1), inputs["labels"].flatten())]
    at = np.take_along_axis(output[words].detach().numpy(), POSITIONS[..., np.newaxis], axis=1)
    logits = [at[WEIGHTS > 0]]
    if label:
        losses.append(entropy(output[classes], inputs[label]))
        logits.append(output[classes].detach().numpy())
    gradients = {
        name: parameter.grad.numpy().copy()
        for name, parameter in peer.named_parameters()
        if parameter.grad is not None
    }
    return [loss.item() for loss in losses], logits, gradients


@pytest.fixture(scope="module")
def peers(request, tmp_path_factory):
    """A model of `transformers` without dropout, and ours with the same weights."""
    folder, has_pairs = tmp_path_factory.mktemp("peer"), bool(LABELS[request.param][0])
    peer = small_model(request.param, **WITHOUT_DROPOUT)
    save_model(peer, folder)
    settings = PretrainingConfig(
        objective="mlm",
        encoder=hugging_face_settings.read_shape(str(folder)),
        sequence_length=9,
        sentence_pair_head=has_pairs,
        sentence_pair_loss=has_pairs,
    )
    model = MaskedLanguageModel(settings)
    hugging_face_weights.restore_masked_language_model(str(folder), model)
    return peer, model


def ours(peer, model):
    """The same of our model, from the labels `PAIRS`; a variable's gradient by the names there."""
    ids, mask, segments, masked_ids, originals = map(tf.constant, batch_of(peer))
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    if model.config.sentence_pair_loss:
        batch["label"] = tf.constant(PAIRS)
    masked = MaskedBatch(masked_ids, tf.constant(POSITIONS), originals, tf.constant(WEIGHTS))
    variables = model.trainable_variables
    output, gradients = model.gradients(variables, batch, masked, tf.constant([0, 0]))
    by_variable = {
        variable.ref(): tf.convert_to_tensor(gradient).numpy()
        for variable, gradient in zip(variables, gradients, strict=True)
    }
    named = hugging_face_weights.of_masked_language_model(model, peer.config.model_type)
    assert len(named) == len(variables)
    losses = [output.loss, output.mlm_loss, output.sentence_pair_loss]
    logits = [output.logits.numpy()[WEIGHTS > 0], output.sentence_pair_logits]
    return (
        [float(each) for each in losses if each is not None],
        [np.array(each) for each in logits if each is not None],
        [(names, by_variable[variable.ref()]) for variable, names in named],
    )


def assert_same(found, expected, of_largest=1e-5):
    """Gradients to a share of the largest number of each tensor; no gradient is left over."""
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for own, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(own, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())
    left = dict(expected[2])
    for names, gradient in found[2]:
        parts = []
        for name, transposed in map(weight_names.hugging_face_name, names):
            theirs = left.pop(name)
            parts.append(theirs.T if transposed else theirs)
        # Query, key and value are one of ours; the bias of keys alone has a gradient of 0.
        theirs = np.concatenate(parts, axis=-1)
        assert np.abs(theirs).max() > 1e-6, names
        atol = of_largest * np.abs(theirs).max()
        np.testing.assert_allclose(gradient, theirs, rtol=0, atol=atol, err_msg=str(names))
    assert not left


@pytest.mark.parametrize("peers", LABELS, indirect=True)
def test_losses_and_every_gradient_equal_those_of_transformers(peers):
    assert_same(ours(*peers), of_transformers(peers[0], PAIRS))


@pytest.mark.parametrize("peers", [x for x in LABELS if LABELS[x][0]], indirect=True)
def test_a_swapped_label_is_another_loss_and_gradient(peers):
    """The comparison above tells which label means which class."""
    found = ours(*peers)
    for swapped in (1 - PAIRS, np.array([0, 1, 0])):
        losses, logits, gradients = of_transformers(peers[0], swapped)
        with pytest.raises(AssertionError):
            assert_same(found, (losses, logits, gradients))
        # The losses aside, the gradients alone tell, too.
        with pytest.raises(AssertionError):
            assert_same(found, (found[0], logits, gradients))


def test_balanced_accuracy_is_that_of_scikit_learn():
    from sklearn.metrics import balanced_accuracy_score

    rng, metric = np.random.default_rng(0), BalancedAccuracy("balanced")
    assert metric.result() == 0
    labels, predicted = rng.integers(0, 10, 99) < 7, rng.integers(0, 10, 99) < 6
    for rows in (slice(0, 40), slice(40, 99)):
        metric.update_state(
            tf.constant(labels[rows], tf.int32), tf.constant(predicted[rows], tf.int32)
        )
    assert float(metric.result()) == pytest.approx(balanced_accuracy_score(labels, predicted))
    metric.reset_state()
    metric.update_state(tf.ones([4], tf.int32), tf.constant([1, 1, 1, 0]))
    assert float(metric.result()) == 0.75  # the other label has no examples


# --- However a batch is divided ------------------------------------------------------------------

SHAPE = EncoderConfig(
    vocab_size=50,
    embedding_size=8,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=12,
    **WITHOUT_DROPOUT,
)
TOKENS = SimpleNamespace(cls_id=2, sep_id=3, pad_id=0, mask_id=4, begins_word=[True] * 50)


def step(strategy, batch_size, groups=1, steps=1, **run):
    """Returns what is logged of some steps, and the weights after; the parts are not alike."""
    settings = PretrainingConfig(
        objective="mlm",
        encoder=SHAPE,
        sentence_pair_head=True,
        sentence_pair_loss=True,
        sequence_length=12,
        mask_prob=0.3,
        train_batch_size=batch_size,
        num_train_steps=8,
        num_warmup_steps=1,
        gradient_clip_groups=groups,
        run=PretrainingRun(**run),
    )
    trainer = Pretrainer(settings, TOKENS, strategy)
    rng = np.random.default_rng(0)
    lengths = np.sort(rng.integers(5, 13, [batch_size, 1]))
    mask = (np.arange(12) < lengths).astype(np.int32)
    batch = {
        "input_ids": rng.integers(5, 50, mask.shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(12) >= lengths // 2).astype(np.int32) * mask,
        "label": np.sort(rng.integers(0, 2, batch_size)).astype(np.int32),
    }
    data = tf.data.Dataset.from_tensor_slices(batch).repeat()
    data = data.batch(batch_size, drop_remainder=True)
    trainer.train_dataset = untuned.distribute(strategy, data)
    logged = [trainer.train(1) for _ in range(steps)]
    weights = [variable.numpy() for variable in trainer.model.trainable_variables]
    return [{name: float(x) for name, x in each.items()} for each in logged], weights


def test_a_step_of_8192_examples_has_the_same_losses_in_64_parts(cpu):
    """Words and pairs each add an exact share of a mean."""
    (whole,), _ = step(cpu, 8192)
    (parts,), _ = step(cpu, 8192, gradient_accumulation_steps=64)
    for name in ("loss", "mlm_loss", "sentence_pair_loss"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-6), name
    assert parts["gradient_norm"] == pytest.approx(whole["gradient_norm"], rel=1e-5)
    for name in ("accuracy", "sentence_pair_accuracy", "sentence_pair_balanced_accuracy"):
        # An argument of nearly equal logits may fall on the other side.
        assert parts[name] == pytest.approx(whole[name], abs=2 / 8192), name
    assert whole["loss"] == pytest.approx(whole["mlm_loss"] + whole["sentence_pair_loss"])


@pytest.fixture(scope="module")
def undivided(cpu):
    return step(cpu, 16, steps=3)


@pytest.mark.parametrize(
    ("devices", "run"),
    [
        ("two_devices", {"gradient_accumulation_steps": 2}),
        ("cpu", {"jit_compile": True, "parallel_parts": 2}),
    ],
)
def test_three_steps_are_the_same_however_the_batch_is_divided(undivided, request, devices, run):
    logged, weights = step(request.getfixturevalue(devices), 16, steps=3, **run)
    for found, expected in zip(logged, undivided[0], strict=True):
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-4), name
    for found, expected in zip(weights, undivided[1], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_the_loss_of_pairs_in_groups_is_the_mean_of_means_over_examples(undivided, cpu):
    """Groups have equally many examples, but not equally many masked tokens."""
    whole = undivided[0][0]
    (groups,), _ = step(cpu, 16, groups=4, gradient_accumulation_steps=2)
    assert groups["sentence_pair_loss"] == pytest.approx(whole["sentence_pair_loss"], rel=1e-6)
    assert groups["mlm_loss"] != pytest.approx(whole["mlm_loss"], rel=1e-5)
    assert groups["loss"] == pytest.approx(groups["mlm_loss"] + groups["sentence_pair_loss"])
