"""The steps of fine-tuning, on real labelled sentences and a small pretrained encoder."""

import dataclasses
import functools
import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from tests import task_types
from tests.pretraining_runs import eagerly
from tests.tfbio.objectives.test_sentence_pairs import SHAPE
from tfbio.formats.task_examples import TaggedSentence
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import NO_TARGET, HeadConfig
from tfbio.models.task_model import TaskModel
from tfbio.runs import finetuner, finetuning_data
from tfbio.task_types import packing, task_table
from tfbio.task_types.classification import Classification
from tfbio.task_types.features import Features, PerToken
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.tagging import Tagging
from tfbio.text import tokenization
from tfbio.training.best_weights import BestWeights
from tfbio.weights import checkpoint_settings

SETTINGS = FinetuningConfig(
    sequence_length=32,
    train_batch_size=16,
    num_train_epochs=1.0,
    learning_rate=3e-3,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def four_steps(features):
    """The order of four steps on one batch: one shape, so one graph."""
    return np.tile(finetuning_data.training_order(len(features.input_ids), 0, 1, 16, seed=0), 4)


# --- Learning rates ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        # Of ten steps, two of them warm-up: (1 - k / 10) * min(1, k / 2) in steps 1, 2, 6 and 10.
        ("linear", [0.45, 0.8, 0.4, 0.0]),
        # Up to 1 at step 2, then down to 0 in eight steps (Gu et al., 2021, section 6.1).
        ("triangular", [0.5, 1.0, 0.5, 0.0]),
        # The same between 1/32 and 1 (Howard & Ruder, 2018, equation 3).
        ("slanted_triangular", [16.5 / 32, 1.0, 16.5 / 32, 1 / 32]),
    ],
)
def test_the_learning_rate_follows_the_schedule(schedule, expected, pretrained, cpu):
    settings = dataclasses.replace(SETTINGS, schedule=schedule, warmup_proportion=0.2)
    encoder_config = checkpoint_settings.read_encoder_config(pretrained)
    task_type = Classification("abcde", Classification.Settings())
    made = finetuner.Finetuner(settings, encoder_config, task_type, 0, 10, cpu)
    rate = made.optimizer.learning_rate
    computed = [float(rate(tf.constant(step - 1, tf.int64))) for step in (1, 2, 6, 10)]
    assert computed == pytest.approx([3e-3 * share for share in expected], abs=1e-9)


@pytest.mark.parametrize("devices", ["cpu", "two_devices"])
def test_every_variable_gets_the_share_of_its_layer(devices, pretrained, request):
    strategy = request.getfixturevalue(devices)
    encoder_config = dataclasses.replace(
        checkpoint_settings.read_encoder_config(pretrained), num_hidden_layers=2
    )
    task_type = Classification("abcde", Classification.Settings(text_head="tanh"))
    made = finetuner.Finetuner(SETTINGS, encoder_config, task_type, 0, 4, strategy)
    share, encoder = made.optimizer.lr_multiplier, made.model.encoder
    # Two layers, decay 0.8: embeddings 0.8^3, layers 0.8^2 and 0.8^1, the head 1.
    for module, expected in (
        (encoder.embeddings, 0.8**3),
        (encoder.projection, 0.8**3),
        (encoder.transformer_layers[0], 0.8**2),
        (encoder.transformer_layers[1], 0.8),
        (made.model.pooler, 1.0),
        (made.model.head, 1.0),
    ):
        assert module.trainable_variables
        for variable in module.trainable_variables:
            for copy in strategy.experimental_local_results(variable):
                assert share(copy) == pytest.approx(expected), variable.name


@pytest.mark.parametrize(
    "exponent, embeddings, lowest",
    # With 12 layers: layer i has 0.8^(12 - i) or 0.8^(13 - i); the embeddings one 0.8 less still.
    [("bioelectra", 13, 12), ("electra", 14, 13)],
)
def test_a_step_moves_each_of_twelve_layers_by_its_own_rate(exponent, embeddings, lowest, cpu):
    shape = EncoderConfig(
        vocab_size=11,
        embedding_size=4,
        hidden_size=4,
        num_hidden_layers=12,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=8,
    )
    settings = dataclasses.replace(
        SETTINGS, learning_rate=1e-4, layerwise_lr_exponent=exponent, warmup_proportion=0.0
    )
    made = finetuner.Finetuner(settings, shape, Classification("ab"), 0, 10**6, cpu)
    variables = made.model.trainable_variables
    for variable in variables:
        variable.assign(tf.zeros_like(variable))
    made.optimizer.apply_gradients([(tf.ones_like(variable), variable) for variable in variables])
    # The first step of Adam without bias correction: 0.1 / sqrt(0.001) of the rate.
    rates = {variable.ref(): -variable.numpy() * np.sqrt(0.001) / 0.1 for variable in variables}
    encoder = made.model.encoder
    expected = {
        "head": (made.model.head, 1e-4),
        "embeddings": (encoder.embeddings, 1e-4 * 0.8**embeddings),
    }
    for number, layer in enumerate(encoder.transformer_layers):
        expected[f"layer {number}"] = layer, 1e-4 * 0.8 ** (lowest - number)
    assert len(expected) == 14
    for name, (module, rate) in expected.items():
        for variable in module.trainable_variables:
            np.testing.assert_allclose(rates.pop(variable.ref()), rate, rtol=1e-3, err_msg=name)
    assert not rates
    if exponent == "bioelectra":  # BioELECTRA, section 4.2
        assert expected["embeddings"][1] == pytest.approx(5.5e-6, abs=5e-8)


# --- Learning and predicting -------------------------------------------------------------------


@pytest.fixture(scope="module")
def learner(pretrained, roles_folder, cpu):
    """A Finetuner without dropout, real windows, and what it logged in 150 steps."""
    encoder_config = checkpoint_settings.read_encoder_config(pretrained)
    tokenizer = tokenization.load_tokenizer(f"{pretrained}/vocab.txt")
    task = task_table.TASKS["sentence_roles"]
    task_type = Classification(task.labels)
    examples = task.examples(roles_folder)["train"][:41]
    features = task_type.features(examples, tokenizer, 32)
    made = finetuner.Finetuner(SETTINGS, encoder_config, task_type, 0, 150, cpu)
    made.initialize(0, pretrained)
    order = finetuning_data.training_order(41, 0, 150, 16, seed=0)
    return made, features, task_types.train(made, features, order)


def labels_found(made, features):
    return [int(np.argmax(output)) for output in made.predict(features)]


def test_learns_the_examples_it_is_given(learner):
    made, features, logged = learner
    assert [step for step, _, _ in logged] == list(range(10, 151, 10))
    losses = [loss for _, loss, _ in logged]
    assert losses[0] > losses[1] > losses[2] and losses[2] < 0.3
    assert np.mean(np.equal(labels_found(made, features), features.per_window["targets"])) > 0.9


def test_a_batch_without_a_target_changes_nothing(pretrained, cpu):
    """As behind an early cut, where the mean of no loss is 0, and not NaN."""
    encoder_config = checkpoint_settings.read_encoder_config(pretrained)
    tokenizer = tokenization.load_tokenizer(f"{pretrained}/vocab.txt")
    task_type = Tagging(("O", "B", "I"))
    sentences = [TaggedSentence(str(i), ("the", "drug"), ("O", "B")) for i in range(16)]
    features = task_type.features(sentences, tokenizer, 32)
    none = [np.full_like(own, NO_TARGET) for own in features.per_token["targets"].values]
    targets = features.per_token["targets"]._replace(values=none)
    features = dataclasses.replace(features, per_token={"targets": targets})
    made = finetuner.Finetuner(SETTINGS, encoder_config, task_type, 0, 10, cpu)
    made.initialize(0, pretrained)
    before = [variable.numpy() for variable in made.model.variables]
    logged = task_types.train(made, features, np.tile(np.arange(16), 10))
    assert [loss for _, loss, _ in logged] == [0.0]
    # But for the decay of weights, which is 0.01 times the learning rate a step.
    for variable, first in zip(made.model.variables, before, strict=True):
        np.testing.assert_allclose(variable, first, rtol=1e-3, atol=1e-7)


def as_one_batch(features):
    """Each window in a row of its own, in order."""
    count = len(features.input_ids)
    (part,) = packing.Packer(features, count, 1, 0, padded_length=32).batch(np.arange(count))
    return {name: tf.constant(array) for name, array in part.arrays.items()}


def test_predictions_are_in_the_order_of_the_examples(learner):
    # 41 examples do not fill batches of 16; the model itself says what is right.
    made, features, _ = learner
    expected = tf.argmax(made.model(as_one_batch(features)), axis=-1).numpy()
    assert len(set(expected)) > 1
    for size in (64, 16, 7):
        run = dataclasses.replace(SETTINGS.run, eval_batch_size=size)
        made.config = dataclasses.replace(SETTINGS, run=run)
        np.testing.assert_array_equal(labels_found(made, features), expected)


def test_packed_and_padded_batches_learn_the_same(learner, pretrained):
    """Where nothing is random, what lies beside a text in a row changes no weight."""
    made, features, _ = learner
    learnt = []
    for pack in (True, False):
        run = dataclasses.replace(SETTINGS.run, pack=pack)
        made.config = dataclasses.replace(SETTINGS, run=run)
        made.initialize(0, pretrained)
        task_types.train(made, features, four_steps(features))
        learnt.append([variable.numpy() for variable in made.model.trainable_variables])
    made.config = SETTINGS
    for packed, padded in zip(*learnt, strict=True):
        np.testing.assert_allclose(packed, padded, atol=2e-4)


def test_the_seed_keys_dropout(learner, pretrained):
    _, features, _ = learner
    batch = as_one_batch(features)
    shape = checkpoint_settings.read_encoder_config(pretrained)
    model = TaskModel(shape, HeadConfig(5, False, 0.1))
    one, same, other = (model(batch, seed=tf.constant([0, n])) for n in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3
    np.testing.assert_array_equal(model(batch), model(batch))


def test_starts_from_the_pretrained_weights(learner, pretrained):
    made, _, _ = learner
    made.initialize(0, pretrained)
    reader = tf.train.load_checkpoint(pretrained)
    name = "model/encoder/embeddings/word_embeddings/.ATTRIBUTES/VARIABLE_VALUE"
    saved = reader.get_tensor(name)
    np.testing.assert_array_equal(made.model.encoder.embeddings.word, saved)
    heads = [made.model.head.kernel.numpy()]
    made.initialize(1, pretrained)
    heads.append(made.model.head.kernel.numpy())
    assert np.abs(heads[0] - heads[1]).max() > 1e-3
    # Not seed 0: pretraining drew its first weights by it.
    made.initialize(5, "")
    assert np.abs(made.model.encoder.embeddings.word.numpy() - saved).max() > 1e-3
    assert int(made.optimizer.iterations) == 0


def test_the_loss_of_weights_that_are_no_numbers_is_none(learner, pretrained):
    made, features, _ = learner
    made.initialize(0, pretrained)
    made.model.head.kernel.assign(made.model.head.kernel * np.nan)
    order = finetuning_data.training_order(41, 0, 150, 16, seed=0)
    made.begin(features, order, 0)
    assert np.isnan(made.train(3)["loss"])


@pytest.mark.parametrize("devices, reduction", [("cpu", "sum"), ("two_devices", "mean")])
def test_accumulation_learns_what_whole_batches_do(
    devices, reduction, tagged, learnt_tags, request
):
    """Sentences of other lengths in each part: the mean is over the words of the global batch."""
    run = dataclasses.replace(SETTINGS.run, gradient_accumulation_steps=4)
    whole = dataclasses.replace(SETTINGS, loss_reduction=reduction)
    (_, losses, weights), (_, own_losses, accumulated) = (
        learnt_tags(whole, "cpu"),
        learnt_tags(dataclasses.replace(whole, run=run), devices),
    )
    assert own_losses == pytest.approx(losses, rel=1e-5)
    for one, other in zip(weights, accumulated, strict=True):
        np.testing.assert_allclose(other, one, atol=2e-4)


def test_two_devices_learn_what_one_does(learner, pretrained, two_devices):
    """Without dropout the devices of a step see halves of the same batch: the same sum."""
    made, features, _ = learner
    order = four_steps(features)
    encoder_config = checkpoint_settings.read_encoder_config(pretrained)
    both = finetuner.Finetuner(SETTINGS, encoder_config, made.task_type, 0, 150, two_devices)
    for each in (made, both):
        each.initialize(0, pretrained)
        task_types.train(each, features, order)
    for one, two in zip(
        made.model.trainable_variables, both.model.trainable_variables, strict=True
    ):
        np.testing.assert_allclose(one.numpy(), two.numpy(), atol=2e-4, err_msg=one.name)
    np.testing.assert_array_equal(labels_found(both, features), labels_found(made, features))


@pytest.mark.parametrize("devices, groups", [("two_devices", 4), ("two_devices", 2)])
def test_each_group_is_clipped_by_itself(devices, groups, learner, pretrained, request):
    """Adam's first average is a tenth of the sum of the clipped gradients; here by NumPy."""
    made, features, _ = learner
    strategy = request.getfixturevalue(devices)
    settings = dataclasses.replace(
        SETTINGS, gradient_clip_groups=groups, loss_reduction="sum", max_gradient_norm=0.5
    )
    encoder_config = checkpoint_settings.read_encoder_config(pretrained)
    chosen = np.arange(16)
    with strategy.scope():
        clipping = finetuner.Finetuner(settings, encoder_config, made.task_type, 0, 150, strategy)
    clipping.initialize(0, pretrained)
    made.initialize(0, pretrained)
    made.config = settings
    expected, norms = [0.0] * len(made.model.trainable_variables), []
    for group in np.split(chosen, groups):
        (part,) = packing.Packer(features, len(group), 1, 0, padded_length=32).batch(group)
        batch = {name: tf.constant(array) for name, array in part.arrays.items()}
        _, gradients = made._gradients(batch, tf.constant([0, 0]))
        gradients = [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]
        norms.append(np.sqrt(sum(np.sum(np.square(x, dtype=np.float64)) for x in gradients)))
        scale = min(1.0, 0.5 / norms[-1])
        expected = [total + scale * x for total, x in zip(expected, gradients, strict=True)]
    made.config = SETTINGS
    # All are clipped, each by another share.
    assert min(norms) > 0.6 and max(norms) > 1.01 * min(norms)
    task_types.train(clipping, features, chosen)
    whole = np.sqrt(sum(np.sum(np.square(total)) for total in expected))
    for variable, total in zip(clipping.model.trainable_variables, expected, strict=True):
        average = clipping.optimizer.get_slot(variable, "m").numpy()
        error = np.linalg.norm(10 * average - total)
        assert error < 1e-6 * whole, variable.name


@pytest.mark.slow
def test_there_is_a_graph_for_each_shape_of_a_batch_and_no_more(learner, pretrained, cpu):
    _, features, _ = learner
    shape = checkpoint_settings.read_encoder_config(pretrained)
    made = finetuner.Finetuner(SETTINGS, shape, learner[0].task_type, 0, 12, cpu)
    made.initialize(0, pretrained)
    # The shortest text again and again, and the longest.
    order = np.repeat([np.argmin(features.lengths), np.argmax(features.lengths)] * 6, 16)
    packer = packing.Packer(features, 16, 1, pad_id=0)
    shapes = {packer.batch(chosen)[0].arrays["input_ids"].shape for chosen in order.reshape(-1, 16)}
    task_types.train(made, features, order)
    assert made._train_step.experimental_get_tracing_count() == len(shapes) == 2


# --- Choosing the weights ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("devices", ["cpu", "two_devices"])
def test_the_weights_of_the_best_evaluation_are_kept(learner, devices, pretrained, request):
    _, features, _ = learner
    strategy = request.getfixturevalue(devices)
    shape = checkpoint_settings.read_encoder_config(pretrained)
    settings = dataclasses.replace(SETTINGS, hidden_dropout_prob=0.1)
    made = finetuner.Finetuner(settings, shape, learner[0].task_type, 0, 7, strategy)
    order = finetuning_data.training_order(41, 0, 7, 16, seed=0)
    made.initialize(0, pretrained)
    made.begin(features, order, 0)
    best = BestWeights(made.model)
    for score in (0.1, 0.5, 0.5, 0.2):
        made.train(2 if score > 0.3 or score == 0.1 else 1)
        best.update(int(made.step.numpy()), {"f1": score})
    assert best.step == 4  # the first of equals
    best.restore()
    kept = made.model.get_weights()
    # Training that is not cut in parts, and is never scored.
    made.initialize(0, pretrained)
    task_types.train(made, features, order[: 4 * 16])
    for one, other in zip(kept, made.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_nothing_is_left_of_a_finetuner(learner, pretrained, cpu):
    """A sweep makes one for each setting: they must not add up on the device."""
    _, features, _ = learner
    shape = checkpoint_settings.read_encoder_config(pretrained)
    made = finetuner.Finetuner(SETTINGS, shape, learner[0].task_type, 0, 1, cpu)
    task_types.train(made, features, np.arange(16))
    made.predict(features)
    model, slot = weakref.ref(made.model), weakref.ref(made.optimizer.variables()[1])
    del made
    gc.collect()
    assert model() is None and slot() is None


# --- The same with tags of words, where replicas and rows have different weights -----------------


@pytest.fixture(scope="module")
def tagged(roles_folder, pretrained):
    """Tagging, and sentences of real words, some longer than a window; tags by first letters."""
    tokenizer = tokenization.load_tokenizer(f"{pretrained}/vocab.txt")
    task_type = Tagging(("O", "B", "I"))
    texts = [
        x.text for x in task_table.TASKS["sentence_roles"].examples(roles_folder)["train"][:23]
    ]
    sentences = []
    for number, text in enumerate(texts):
        words = tuple(text.split()[: 3 + 2 * number])
        tags = tuple("B" if word[0] in "tpc" else "O" for word in words)
        sentences.append(TaggedSentence(str(number), words, tags))
    features = task_type.features(sentences, tokenizer, 32)
    assert len(features.input_ids) > len(sentences)
    return task_type, sentences, features


@pytest.fixture(scope="module")
def learnt_tags(tagged, pretrained, request):
    """A Finetuner that tagged for four steps, their loss and its weights; once for each way."""
    task_type, _, features = tagged
    shape = checkpoint_settings.read_encoder_config(pretrained)

    @functools.cache
    def learn(settings, devices):
        strategy = request.getfixturevalue(devices)
        made = finetuner.Finetuner(settings, shape, task_type, 0, 150, strategy)
        made.initialize(0, pretrained)
        losses = [loss for _, loss, _ in task_types.train(made, features, four_steps(features))]
        return made, losses, [variable.numpy() for variable in made.model.trainable_variables]

    return learn


def tags_found(made, tagged):
    _, sentences, features = tagged
    return made.task_type.predictions(made.predict(features), features, sentences)


ALL_HEADS = ["linear", *(pytest.param(head, marks=pytest.mark.slow) for head in ("lstm", "crf"))]


@pytest.mark.parametrize("head", ALL_HEADS)
def test_tags_are_learnt_and_predicted_at_their_words(head, tagged, pretrained, cpu):
    _, sentences, features = tagged
    task_type = Tagging(("O", "B", "I"), Tagging.Settings(head=head))
    shape = checkpoint_settings.read_encoder_config(pretrained)
    # Packed batches have more shapes, and each is traced.
    run = dataclasses.replace(SETTINGS.run, pack=head == "linear")
    settings = dataclasses.replace(SETTINGS, run=run)
    made = finetuner.Finetuner(settings, shape, task_type, 0, 150, cpu)
    made.initialize(0, pretrained)
    order = finetuning_data.training_order(len(features.input_ids), 0, 150, 16, seed=0)
    task_types.train(made, features, order)
    found, gold = tags_found(made, tagged), [sentence.tags for sentence in sentences]
    right = [
        one == other
        for tags in zip(found, gold, strict=True)
        for one, other in zip(*tags, strict=True)
    ]
    assert np.mean(right) > 0.97
    # And by the model itself, one window at a time.
    outputs = made.predict(features)
    for number in range(4):
        length = len(features.input_ids[number])
        (part,) = packing.Packer(features, 1, 1, 0, padded_length=length).batch(np.array([number]))
        batch = {name: tf.constant(array) for name, array in part.arrays.items()}
        expected = task_type.outputs(made.model(batch), batch).numpy()
        np.testing.assert_array_equal(outputs[number], expected)


def test_two_devices_learn_the_tags_that_one_does(tagged, learnt_tags):
    (made, losses, weights), (both, their_losses, their_weights) = (
        learnt_tags(SETTINGS, devices) for devices in ("cpu", "two_devices")
    )
    assert their_losses == pytest.approx(losses, rel=1e-4)
    for one, two, variable in zip(
        weights, their_weights, made.model.trainable_variables, strict=True
    ):
        np.testing.assert_allclose(two, one, atol=2e-4, err_msg=variable.name)
    assert tags_found(made, tagged) == tags_found(both, tagged)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["lstm", "crf"])
def test_heads_learn_the_same_on_two_devices(head, tagged, pretrained, cpu, two_devices):
    """tests/tfbio/task_types/test_fixed_shapes.py compares what is packed with what is padded."""
    _, sentences, features = tagged
    task_type = Tagging(("O", "B", "I"), Tagging.Settings(head=head))
    shape = checkpoint_settings.read_encoder_config(pretrained)
    order = four_steps(features)
    found = []
    for strategy in (cpu, two_devices):
        made = finetuner.Finetuner(SETTINGS, shape, task_type, 0, 150, strategy)
        made.initialize(0, pretrained)
        losses = [loss for _, loss, _ in task_types.train(made, features, order)]
        weights = [variable.numpy() for variable in made.model.trainable_variables]
        tags = task_type.predictions(made.predict(features), features, sentences)
        found.append((losses, weights, tags))
        assert [len(own) for own in tags] == [len(sentence.words) for sentence in sentences]
        if head == "crf":
            assert np.abs(made.model.transitions.numpy()).min() > 1e-4
            shares = [made.optimizer.lr_multiplier(made.model.transitions)]
        else:
            shares = map(made.optimizer.lr_multiplier, made.model.lstm.trainable_variables)
        assert set(shares) == {1.0}
    (losses, weights, tags), (their_losses, their_weights, their_tags) = found
    assert their_losses == pytest.approx(losses, rel=1e-4)
    for one, other in zip(weights, their_weights, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)
    assert their_tags == tags


def test_fewer_texts_than_devices_are_predicted(tagged, pretrained, two_devices):
    task_type, sentences, features = tagged
    shape = checkpoint_settings.read_encoder_config(pretrained)
    made = finetuner.Finetuner(SETTINGS, shape, task_type, 0, 150, two_devices)
    alone = Features(
        features.input_ids[:1],
        features.segment_ids[:1],
        np.zeros(1, int),
        {"targets": PerToken(features.per_token["targets"].values[:1], NO_TARGET)},
    )
    (output,) = made.predict(alone)
    assert output.shape == features.input_ids[0].shape


@pytest.mark.parametrize("head", ALL_HEADS)
def test_the_step_compiles_under_xla(head, tagged, pretrained, cpu):
    """Static shapes, as a TPU needs them; and the same loss."""
    task_type, features = Tagging(("O", "B", "I"), Tagging.Settings(head=head)), tagged[2]
    shape = checkpoint_settings.read_encoder_config(pretrained)
    made = finetuner.Finetuner(SETTINGS, shape, task_type, 0, 150, cpu)
    (part,) = packing.Packer(features, 16, 1, 0).batch(np.arange(16))
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    losses = []
    for jit_compile in (False, True):
        made.initialize(0, pretrained)
        step = tf.function(made._replica_train_step, jit_compile=jit_compile)
        losses.append([float(step(batch, tf.constant(0))) for _ in range(2)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[0][0] != losses[0][1]


# --- Dropout -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def eight_windows():
    """Returns a shape, and features of 8 windows of 12 tokens in two classes."""
    ids = np.random.default_rng(0).integers(5, 50, [8, 12], np.int32)
    targets = [np.array(number % 2, np.int32) for number in range(8)]
    features = Features(
        list(ids), [np.zeros(12, np.int32)] * 8, np.arange(8), per_window={"targets": targets}
    )
    return SHAPE, features


def test_dropout_is_another_in_each_step_trial_and_part(eight_windows, cpu):
    shape, features = eight_windows
    settings = dataclasses.replace(
        SETTINGS, train_batch_size=8, learning_rate=1e-12, hidden_dropout_prob=0.5
    )
    made = finetuner.Finetuner(settings, shape, Classification("ab"), 0, 2, cpu)
    losses = []
    for seed in (0, 0, 1):
        made.initialize(0, "")
        made.begin(features, np.tile(np.arange(8), 2), seed)
        losses.append([made.train(1)["loss"] for _ in range(2)])
    assert losses[0] == losses[1]
    assert len({*losses[0], *losses[2]}) == 4
    nothing = [tf.zeros_like(variable) for variable in made.model.trainable_variables]
    seeds = []

    def step(part: dict[str, tf.Tensor], seed: tf.Tensor) -> list[tf.Tensor]:
        seeds.append(tuple(seed.numpy()))
        return [tf.constant(0.0), tf.constant(0.0), *nothing]

    parts = dataclasses.replace(settings.run, gradient_accumulation_steps=4)
    made = finetuner.Finetuner(
        dataclasses.replace(settings, run=parts), shape, Classification("ab"), 0, 2, cpu
    )
    with eagerly():
        made._sum_over_parts(step, {"x": tf.zeros([4])}, tf.constant([0, 1]), 2)
    assert len(set(seeds)) == len(seeds) == 4


def test_adam_has_the_settings_of_the_run(eight_windows, cpu):
    settings = dataclasses.replace(SETTINGS, adam_beta_1=0.8, adam_beta_2=0.98, adam_epsilon=1e-5)
    made = finetuner.Finetuner(settings, eight_windows[0], Classification("ab"), 0, 2, cpu)
    found = (made.optimizer.beta_1, made.optimizer.beta_2, made.optimizer.epsilon)
    assert found == (0.8, 0.98, 1e-5)
