"""ELECTRA against the numbers recorded from its original code, and against its own claims."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.parity import FOLDER, Recording, recorded_config
from tests.tfbio.models.test_encoder import assert_drawn
from tfbio.base import config
from tfbio.models import randomness
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives import electra
from tfbio.objectives.accumulation import Part
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training import optimization
from tfbio.training.gradients import apply_clipped
from tfbio.weights import tensorflow1_weights, weight_names

NO_SEED = tf.constant([0, 0])


@pytest.fixture(scope="module")
def recording():
    return Recording()


@pytest.fixture
def model():
    model = electra.Electra(recorded_config())
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-0"), model)
    return model


def test_logits_and_losses_of_the_original_code(model, recording):
    output = model(
        recording.batch, recording.masked(0), NO_SEED, corrupted_ids=recording.corrupted(0)
    )
    close = {"rtol": 1e-4, "atol": 1e-5}
    expected = recording["step0/generator_logits"]
    np.testing.assert_allclose(output.generator_logits, expected, **close)
    probabilities = tf.sigmoid(output.discriminator_logits)
    np.testing.assert_allclose(probabilities, recording["step0/disc_probs"], **close)
    np.testing.assert_array_equal(output.is_replaced, recording["step0/is_replaced"])
    np.testing.assert_allclose(output.generator_loss, recording["step0/mlm_loss"], rtol=1e-5)
    np.testing.assert_allclose(output.loss, recording["step0/total_loss"], rtol=1e-5)


def test_gradients_of_the_original_code(model, recording):
    pairs = weight_names.of_electra(model)
    variables = [variable for variable, _ in pairs]
    assert len(pairs) == len(model.trainable_variables)
    first = model.encoder.transformer_layers[0].query_key_value
    recorded_late = {
        id(variable)
        for layer in (model.encoder.embeddings, model.encoder.projection)
        for variable in layer.variables
    }

    def gradients() -> list[tf.Tensor]:
        what = recording.batch, recording.masked(0), NO_SEED
        _, computed = model.gradients(variables, *what, corrupted_ids=recording.corrupted(0))
        return computed

    def check(computed: list[tf.Tensor], late: bool) -> None:
        for (variable, names), gradient in zip(pairs, computed, strict=True):
            if (id(variable) in recorded_late) == late:
                expected = np.concatenate([recording[f"step0/grad/{n}"] for n in names], axis=-1)
                atol = 1e-6 * np.abs(expected).max()
                np.testing.assert_allclose(
                    gradient, expected, rtol=1e-4, atol=atol, err_msg=str(names)
                )

    computed = gradients()
    check(computed, late=False)

    # What lies below the discriminator's first layer was recorded when the optimizer had already
    # updated that layer's query kernel: TensorFlow 1 does not order the two. With that kernel in
    # the backward product, and nowhere else, these gradients are the recorded ones as well.
    before, bias = first.kernel.numpy(), first.bias.numpy()
    recorded = recorded_config()
    rate = optimization.WarmupLinearDecay(
        recorded.learning_rate, recorded.num_train_steps, recorded.num_warmup_steps
    )
    optimizer = optimization.Adam(rate, weight_decay_rate=recorded.weight_decay_rate)
    apply_clipped(optimizer, computed, variables, 1.0)
    query = slice(0, model.config.encoder.hidden_size)
    raced = before.copy()
    raced[:, query] = first.kernel.numpy()[:, query]
    tensorflow1_weights.load(str(FOLDER / "model.ckpt-0"), model)

    @tf.custom_gradient
    def race(rows, apart=False):
        return tf.matmul(rows, before) + bias, lambda up: tf.matmul(up, raced, transpose_b=True)

    object.__setattr__(first, "call", race)
    check(gradients(), late=True)


def test_four_optimizer_steps_of_the_original_code(model, recording):
    config = recorded_config()
    rate = optimization.WarmupLinearDecay(
        config.learning_rate, config.num_train_steps, config.num_warmup_steps
    )
    optimizer = optimization.Adam(rate, weight_decay_rate=config.weight_decay_rate)
    for step in range(4):
        output, gradients = model.gradients(
            model.trainable_variables,
            recording.batch,
            recording.masked(step),
            NO_SEED,
            corrupted_ids=recording.corrupted(step),
        )
        np.testing.assert_allclose(output.loss, recording[f"step{step}/total_loss"], rtol=1e-4)
        apply_clipped(optimizer, gradients, model.trainable_variables, 1.0)
    reader = tf.train.load_checkpoint(str(FOLDER / "model.ckpt-4"))
    for variable, names in weight_names.of_electra(model):
        expected = np.concatenate([reader.get_tensor(name) for name in names], axis=-1)
        np.testing.assert_allclose(variable, expected, rtol=1e-4, atol=1e-6, err_msg=str(names))


@pytest.mark.parametrize("untied", [True, False])
def test_who_learns_from_the_generators_loss(recording, untied):
    """Its own layers, or with the generator tied the discriminator's, and always the embeddings."""
    model = electra.Electra(dataclasses.replace(recorded_config(), untied_generator=untied))
    with tf.GradientTape() as tape:
        output = model(recording.batch, recording.masked(0), NO_SEED)
    learns = {
        variable.ref(): gradient is not None
        for variable, gradient in zip(
            model.trainable_variables,
            tape.gradient(output.generator_loss, model.trainable_variables),
            strict=True,
        )
    }
    assert (model.generator is model.encoder) == (not untied)
    assert learns[model.encoder.embeddings.position.ref()]
    for layer in model.encoder.transformer_layers:
        assert not [x.name for x in layer.variables if learns[x.ref()] == untied]
    for layer in model.generator.transformer_layers:
        assert not [x.name for x in layer.variables if not learns[x.ref()]]


def without_repeats(masked):
    """The original code hides some places twice, and averages what it samples for them."""
    weights = masked.weights.numpy()
    for row, positions in enumerate(masked.positions.numpy()):
        first = np.unique(positions, return_index=True)[1]
        weights[row, np.setdiff1d(np.arange(len(positions)), first)] = 0
    return masked._replace(weights=tf.constant(weights))


def test_a_generator_with_embeddings_of_its_own(recording):
    settings = dataclasses.replace(
        recorded_config(), untied_generator_embeddings=True, generator_layers_fraction=0.34
    )
    model = electra.Electra(settings)
    own = model.generator.embeddings
    # The original code's: as wide as its layers, of which there are a third.
    assert own is not model.encoder.embeddings and model.generator.projection is None
    assert own.word.shape[1] == settings.generator.hidden_size == 24
    assert len(model.generator.transformer_layers) == 1
    with tf.GradientTape() as tape:
        output = model(recording.batch, recording.masked(0), NO_SEED)
    variables = [own.word, model.encoder.embeddings.word, model.encoder.embeddings.position]
    learns = [g is not None for g in tape.gradient(output.generator_loss, variables)]
    assert learns == [True, False, False]


def test_without_a_generator_any_word_is_as_likely(recording):
    from scipy import stats

    model = electra.Electra(dataclasses.replace(recorded_config(), uniform_generator=True))
    assert not [v.name for v in model.trainable_variables if "generator" in v.name]
    masked = without_repeats(recording.masked(0))

    @tf.function(autograph=False)
    def sampled(seed):
        output = model(recording.batch, masked, seed)
        ids = tf.gather(output.corrupted_ids, masked.positions, batch_dims=1)
        return ids[masked.weights > 0], output.generator_loss

    found = [sampled(tf.constant([1, number])) for number in range(500)]
    replaced = [ids.numpy() for ids, _ in found]
    np.testing.assert_allclose([loss for _, loss in found], np.log(200), rtol=1e-5)
    assert stats.chisquare(np.bincount(np.concatenate(replaced), minlength=200)).pvalue > 1e-4


@pytest.mark.parametrize("without_generator", [True, False])
def test_rows_that_are_no_words_replace_none(recording, without_generator):
    """The token embeddings of a model from elsewhere may have more rows than the vocabulary."""
    settings = dataclasses.replace(
        recorded_config(),
        uniform_generator=without_generator,
        disallow_correct=not without_generator,
    )
    words = settings.encoder.vocab_size // 2
    masked = without_repeats(recording.masked(0))
    masked = masked._replace(input_ids=masked.input_ids % words, ids=masked.ids % words)
    batch = recording.batch | {"input_ids": recording.batch["input_ids"] % words}
    drawn = {}
    for known in (0, words):
        model = electra.Electra(settings, known)
        drawn[known] = model(batch, masked, tf.constant([3, 4])).corrupted_ids.numpy()
    assert drawn[0].max() >= words > drawn[words].max()
    assert (drawn[words] != batch["input_ids"].numpy()).sum() > 10


def test_temperature_and_disallow_correct(recording, model):
    masked = without_repeats(recording.masked(0))
    hidden = masked.weights.numpy() > 0
    words = model.config.encoder.vocab_size
    model.generator_head.output_bias.assign(np.random.default_rng(0).normal(0, 3, words))

    def samples(**settings):
        model.config = dataclasses.replace(recorded_config(), **settings)
        output = model(recording.batch, masked, tf.constant([1, 2]))
        ids = tf.gather(output.corrupted_ids, masked.positions, batch_dims=1)
        return output, ids.numpy()[hidden]

    output, cold = samples(temperature=0.01)
    likeliest = output.generator_logits.numpy().argmax(axis=-1)[hidden]
    np.testing.assert_array_equal(cold, likeliest)
    # Let the likeliest be the right one: then the next likeliest is sampled.
    second = np.argsort(output.generator_logits.numpy(), axis=-1)[..., -2][hidden]
    ids = tf.argmax(output.generator_logits, axis=-1, output_type=tf.int32)
    masked = masked._replace(ids=tf.where(hidden, ids, masked.ids))
    _, disallowed = samples(temperature=0.01, disallow_correct=True)
    np.testing.assert_array_equal(disallowed, second)


@pytest.mark.parametrize("words", [4, 300, 1024])
def test_samples_follow_the_generators_distribution(words):
    from scipy import stats

    scores = np.random.default_rng(0).normal(size=words)
    probabilities = np.exp(scores) / np.exp(scores).sum()
    logits = tf.tile(tf.constant(scores[None, None], tf.float32), [100, 400, 1])
    draws = electra.sample(logits, randomness.uniform([100, 400], [3, 4])).numpy()
    counts = np.bincount(draws.ravel(), minlength=words)
    assert stats.chisquare(counts, probabilities * draws.size).pvalue > 1e-4


def test_a_certain_word_is_always_sampled():
    certain = np.random.default_rng(1).integers(0, 300, [50, 20])
    logits = tf.one_hot(certain, 300, on_value=200.0, off_value=0.0)
    for draw in (0.0, 0.5, 1.0 - 2.0**-24):  # the ends of what `randomness.uniform` gives
        np.testing.assert_array_equal(electra.sample(logits, tf.fill([50, 20], draw)), certain)


def test_parameter_counts_are_hugging_faces_and_the_published_ones():
    """14 M, 110 M and 335 M (Clark et al., 2020, Table 1 and Table 6), 30,522 tokens."""
    import transformers

    for size, published in (("small", 14e6), ("base", 110e6), ("large", 335e6)):
        settings = config.load(
            PretrainingConfig, f"hparams/{size}.json", ["encoder.vocab_size=30522"]
        )
        ours = count_without_memory(settings)
        shape = settings.encoder
        names = (
            "vocab_size",
            "embedding_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
        )
        import torch

        with torch.device("meta"):
            peer = transformers.ElectraForPreTraining(
                transformers.ElectraConfig(**{name: getattr(shape, name) for name in names})
            )
        assert ours == sum(parameter.numel() for parameter in peer.parameters()), size
        assert abs(ours - published) / published < 0.035, (size, ours)


def test_the_last_layer_starts_as_in_the_original_code():
    """With TensorFlow's default, Glorot's uniform, as do both projections; all else as BERT."""
    shape = EncoderConfig(vocab_size=500, hidden_size=1024, num_hidden_layers=1)
    tf.keras.utils.set_random_seed(1)
    model = electra.Electra(PretrainingConfig(encoder=shape))
    for uniform, layers in (
        (True, (model.discriminator_output, model.generator.projection, model.encoder.projection)),
        (False, (model.discriminator_dense, model.generator_head.dense)),
    ):
        for layer in layers:
            assert_drawn(layer.kernel.numpy(), uniform)


def count_without_memory(settings) -> int:
    """Parameters of encoder and discriminator head, counted in a graph that is never run."""
    with tf.Graph().as_default():
        model = electra.Electra(settings)
        counted = [
            *model.encoder.trainable_variables,
            *model.discriminator_dense.trainable_variables,
            *model.discriminator_output.trainable_variables,
        ]
        return sum(variable.shape.num_elements() for variable in counted)


def test_what_waits_for_a_backward_pass_is_zero():
    """On a TPU the discriminator waits so; without the variable there is nothing to wait for."""
    last, other = tf.Variable([1.0, 2.0]), tf.Variable([3.0])
    gradients = [tf.constant([4.0]), tf.constant([-5.0, 6.0])]
    assert electra._zero_after(last, [other, last], gradients) == 0
    overflown = [tf.constant([4.0]), tf.constant([np.inf, 6.0])]
    assert electra._zero_after(last, [other, last], overflown) == 1
    assert electra._zero_after(last, [other], gradients[:1]) == 0


def test_metrics_count_masked_positions_and_real_tokens_only():
    """Worked by hand: a third position that masks nothing, and a sixth token that is padding."""
    zero = tf.constant(0.0)
    masked = MaskedBatch(None, None, tf.constant([[7, 1, 9]]), tf.constant([[1.0, 1.0, 0.0]]))
    output = electra.ElectraOutput(
        loss=zero,
        generator_loss=zero,
        discriminator_loss=zero,
        generator_logits=tf.one_hot([[7, 8, 9]], 10),
        discriminator_logits=tf.constant([[3.0, 1.0, 2.0, -1.0, -2.0, 9.0]]),
        corrupted_ids=None,
        is_replaced=tf.constant([[1, 0, 0, 1, 0, 0]]),
    )
    metrics = electra.ElectraMetrics()
    batch = {"input_mask": tf.constant([[1, 1, 1, 1, 1, 0]])}
    metrics.update(batch, masked, output, Part(tf.constant(0), 1, zero + 1, zero + 1, 1))
    found = {metric.name: float(metric.result()) for metric in metrics.all}
    assert found | {
        "generator_accuracy": 1 / 2,
        # Three are called replaced, one rightly, and one replaced token is missed.
        "discriminator_accuracy": 2 / 5,
        "discriminator_precision": 1 / 3,
        "discriminator_recall": 1 / 2,
        # Of the six pairs of a replaced and another token, four are in the right order.
        "discriminator_auc": 4 / 6,
    } == pytest.approx(found, abs=1e-3)


def test_each_part_has_dropout_of_its_own(model):
    """As each example of a whole batch has; masks and samples are of the batch, for all parts."""
    shape = dataclasses.replace(
        model.config.encoder, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5
    )
    model = electra.Electra(dataclasses.replace(model.config, encoder=shape))
    ids = tf.constant([[2, 30, 31, 32, 33, 34, 35, 3]] * 2)
    batch = {"input_ids": ids, "input_mask": tf.ones_like(ids), "segment_ids": tf.zeros_like(ids)}
    positions = tf.constant([[1, 4]] * 2)
    masked = MaskedBatch(ids, positions, tf.gather(ids, positions, batch_dims=1), tf.ones([2, 2]))
    corrupted = tf.tensor_scatter_nd_update(ids, [[0, 1], [1, 4]], [40, 41])
    parts = [
        Part(tf.constant(index), 2, tf.constant(8.0), tf.constant(32.0), 2) for index in (0, 1)
    ]
    seed = tf.constant([0, 1])
    for logits in (
        [model._generate(batch, masked, seed, True, part).logits for part in parts],
        [model._discriminate(batch, corrupted, seed, True, part).logits for part in parts],
    ):
        assert (logits[0].numpy() != logits[1].numpy()).mean() > 0.9
