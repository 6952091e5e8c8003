"""Distillation against NumPy, PyTorch and `transformers`, and in any parts of a batch the same."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests import untuned
from tests.hugging_face import padded_batch, save_model, small_model
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives import distillation
from tfbio.objectives.distillation_config import DistillationConfig
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.masking import MaskedBatch
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.weights import hugging_face_settings, hugging_face_weights, weight_names

# bio-lm, section 7.1, "distill + align".
BIO_LM = DistillationConfig(mlm_weight=5.0, kl_weight=2.0, cosine_weight=1.0)


# --- The losses -----------------------------------------------------------------------------------


def test_losses_by_hand():
    """Logits of two words whose odds are known, and vectors at known angles."""
    odds = np.array([[4.0, 1.0], [1.0, 1.0]])  # of the teacher, at temperature 2
    teacher_logits = 2 * np.log(odds)
    logits = np.zeros([2, 2])  # 1/2 each at any temperature
    # Of (4/5, 1/5) from (1/2, 1/2), times the square of 2; and of the same from the same.
    expected = [4 * (0.8 * np.log(0.8 / 0.5) + 0.2 * np.log(0.2 / 0.5)), 0.0]
    found = distillation.kl_divergence(tf.constant(logits), tf.constant(teacher_logits), 2.0)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # The teacher's words weigh: the other way around it is another number.
    swapped = distillation.kl_divergence(tf.constant(teacher_logits), tf.constant(logits), 2.0)
    reverse = 4 * (0.5 * np.log(0.5 / 0.8) + 0.5 * np.log(0.5 / 0.2))
    np.testing.assert_allclose(swapped, [reverse, 0.0], atol=1e-12)

    hidden = tf.constant([[3.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    taught = tf.constant([[5.0, 0.0], [0.0, 7.0], [4.0, 0.0], [-2.0, 0.0]])
    distance = distillation.cosine_distance(hidden, taught)
    np.testing.assert_allclose(distance, [0.0, 1 - np.sqrt(0.5), 1.0, 2.0], atol=1e-6)


def random_values(seed=0):
    """Logits and hidden states of a student and its teacher: [4, 6] twice, [4, 3] and [4, 5]."""
    rng = np.random.default_rng(seed)
    shapes = ([4, 6], [4, 6], [4, 3], [4, 5])
    return [rng.normal(scale=2, size=shape) for shape in shapes]


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_losses_equal_pytorchs(temperature):
    import torch

    logits, teacher_logits, _, hidden = random_values()
    other = random_values(1)[3]
    found = distillation.kl_divergence(*map(tf.constant, (logits, teacher_logits)), temperature)
    log_student, log_teacher = (
        torch.log_softmax(torch.tensor(x) / temperature, dim=-1) for x in (logits, teacher_logits)
    )
    loss = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)
    expected = loss(log_student, log_teacher) * temperature**2
    assert np.mean(found) == pytest.approx(expected.item(), rel=1e-12)

    found = distillation.cosine_distance(tf.constant(hidden), tf.constant(other))
    loss = torch.nn.CosineEmbeddingLoss()
    expected = loss(torch.tensor(hidden), torch.tensor(other), torch.ones(len(hidden)))
    assert np.mean(found) == pytest.approx(expected.item(), rel=1e-6)


@pytest.fixture
def float64():
    """Layers compute in float64."""
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("float64")
    yield
    keras.mixed_precision.set_global_policy(before)


def test_gradients_are_finite_differences(float64):
    """Compares the gradient by the logits, and that of the cosine loss through a linear map."""
    logits, teacher_logits, hidden, taught = random_values()
    kernel = np.random.default_rng(2).normal(size=[3, 5])
    weights = np.array([1.0, 0.0, 1.0, 0.5])

    def divergence(logits):
        values = distillation.kl_divergence(logits, tf.constant(teacher_logits), 2.0)
        return tf.reduce_sum(values * weights)

    def distance(hidden, kernel):
        mapped = tf.matmul(hidden, kernel)
        values = distillation.cosine_distance(mapped, tf.constant(taught))
        return tf.reduce_sum(values * weights)

    for function, inputs in ((divergence, [logits]), (distance, [hidden, kernel])):
        # Central differences, which are off by about the square of the step.
        analytic, numeric = tf.test.compute_gradient(
            function, [tf.constant(x) for x in inputs], delta=1e-5
        )
        for own, expected in zip(analytic, numeric, strict=True):
            assert own.dtype == np.float64 and np.abs(expected).max() > 1e-2
            np.testing.assert_allclose(own, expected, rtol=0, atol=1e-8)


# --- The model ------------------------------------------------------------------------------------

WITHOUT_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
POSITIONS = np.array([[1, 4, 7], [2, 3, 0], [5, 6, 1]], np.int32)
WEIGHTS = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], np.float32)


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    """A RoBERTa of `transformers` and a larger one, its teacher, which has dropout in training."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 40}
    models = {
        "student": small_model("RobertaForMaskedLM", **WITHOUT_DROPOUT, num_hidden_layers=1),
        "teacher": small_model("RobertaForMaskedLM", **sizes),
    }
    folders = []
    for name, model in models.items():
        folders.append(tmp_path_factory.mktemp(name))
        save_model(model, folders[-1])
    return *models.values(), *map(str, folders)


def read(folder, **settings):
    """Our settings for a model in a folder of `transformers`."""
    return PretrainingConfig(
        objective="mlm",
        encoder=hugging_face_settings.read_shape(folder),
        sequence_length=9,
        **settings,
    )


def of_pytorch(student, teacher, alignment, settings):
    """The losses, and the gradients by name, of models of `transformers` by PyTorch's functions."""
    import torch

    ids, mask, _ = padded_batch(student)
    originals = np.take_along_axis(ids, POSITIONS, axis=1)
    masked_ids, labels = ids.copy(), np.full_like(ids, -100)
    for row, place in zip(*np.nonzero(WEIGHTS), strict=True):
        masked_ids[row, POSITIONS[row, place]] = 4
        labels[row, POSITIONS[row, place]] = originals[row, place]
    mask, labels = torch.tensor(mask), torch.tensor(labels, dtype=torch.long)
    inputs = {"input_ids": torch.tensor(masked_ids), "attention_mask": mask}
    student.zero_grad()
    own = student(**inputs, output_hidden_states=True)
    with torch.no_grad():
        other = teacher(**inputs, output_hidden_states=True)
    kept = {"all": mask > 0, "masked": labels >= 0}
    mlm = torch.nn.functional.cross_entropy(own.logits.flatten(0, 1), labels.flatten())
    place = kept[settings.kl_positions]
    log_own, log_other = (
        torch.log_softmax(x.logits[place] / settings.temperature, dim=-1) for x in (own, other)
    )
    kl = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)(log_own, log_other)
    kl = kl * settings.temperature**2
    place = kept[settings.cosine_positions]
    kernel, bias = (torch.tensor(x.numpy(), requires_grad=True) for x in alignment.weights)
    mapped = own.hidden_states[-1][place] @ kernel + bias
    cosine = torch.nn.CosineEmbeddingLoss()(
        mapped, other.hidden_states[-1][place], torch.ones(len(mapped))
    )
    weights = settings.mlm_weight, settings.kl_weight, settings.cosine_weight
    losses = mlm, kl, cosine
    loss = sum(weight * each for weight, each in zip(weights, losses, strict=True))
    loss.backward()
    gradients = {name: p.grad.numpy() for name, p in student.named_parameters()}
    gradients |= {"alignment.weight": kernel.grad.numpy().T, "alignment.bias": bias.grad.numpy()}
    return [each.item() for each in (loss, *losses)], gradients


@pytest.mark.parametrize(
    ("kl_positions", "cosine_positions"), [("masked", "all"), ("all", "masked")]
)
def test_losses_and_every_gradient_equal_those_of_pytorch(peers, kl_positions, cosine_positions):
    student, teacher, own_folder, folder = peers
    settings = dataclasses.replace(
        BIO_LM,
        cosine_weight=3.0,
        temperature=1.5,
        kl_positions=kl_positions,
        cosine_positions=cosine_positions,
    )
    taught_by = MaskedLanguageModel(read(folder))
    hugging_face_weights.restore_masked_language_model(folder, taught_by)
    model = distillation.Student(read(own_folder, distillation=settings), taught_by)
    hugging_face_weights.restore_masked_language_model(own_folder, model)
    # The bias too: at 0 it would hide one that is not added.
    for variable in model.alignment.weights:
        variable.assign(tf.random.stateless_normal(variable.shape, [0, 1], stddev=0.3))
    ids, mask, _ = padded_batch(student)
    masked_ids, originals = ids.copy(), np.take_along_axis(ids, POSITIONS, axis=1)
    for row, place in zip(*np.nonzero(WEIGHTS), strict=True):
        masked_ids[row, POSITIONS[row, place]] = 4
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}
    batch = {name: tf.constant(values) for name, values in batch.items()}
    masked = MaskedBatch(*map(tf.constant, (masked_ids, POSITIONS, originals, WEIGHTS)))
    variables = model.trainable_variables
    output, gradients = model.gradients(variables, batch, masked, tf.constant([0, 0]))

    losses, expected = of_pytorch(student, teacher, model.alignment, settings)
    found = [output.loss, output.mlm_loss, output.kl_loss, output.cosine_loss]
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    by_variable = dict(zip((v.ref() for v in variables), gradients, strict=True))
    named = hugging_face_weights.of_masked_language_model(model, "roberta")
    named += weight_names._dense(model.alignment, "alignment")
    assert len(named) == len(variables)
    for variable, names in named:
        parts = []
        for name, transposed in map(weight_names.hugging_face_name, names):
            theirs = expected.pop(name)
            parts.append(theirs.T if transposed else theirs)
        theirs = np.concatenate(parts, axis=-1)
        assert np.abs(theirs).max() > 1e-6, names
        own = tf.convert_to_tensor(by_variable[variable.ref()])
        atol = 2e-5 * np.abs(theirs).max()
        np.testing.assert_allclose(own, theirs, rtol=0, atol=atol, err_msg=str(names))
    assert not expected


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
TEACHER = PretrainingConfig(
    objective="mlm",
    # With dropout, which a teacher must not have.
    encoder=dataclasses.replace(SHAPE, hidden_size=12, hidden_dropout_prob=0.5),
    sequence_length=12,
)
TOKENS = SimpleNamespace(cls_id=2, sep_id=3, pad_id=0, mask_id=4, begins_word=[True] * 50)


def steps(strategy, settings=BIO_LM, with_teacher=True, dropout=0.0, **run):
    """Returns what is logged of three steps and an evaluation, the weights, and the teacher's."""
    settings = PretrainingConfig(
        objective="mlm",
        encoder=dataclasses.replace(SHAPE, hidden_dropout_prob=dropout),
        distillation=settings,
        sequence_length=12,
        mask_prob=0.3,
        train_batch_size=16,
        num_train_steps=8,
        num_warmup_steps=1,
        learning_rate=1e-2,
        run=PretrainingRun(**run),
    )
    teacher = None
    if with_teacher:
        keras.utils.set_random_seed(7)
        with strategy.scope():
            teacher = MaskedLanguageModel(TEACHER)
        for number, variable in enumerate(teacher.variables):
            noise = tf.random.stateless_normal(variable.shape, [7, number], stddev=0.5)
            variable.assign_add(noise)
    trainer = Pretrainer(settings, TOKENS, strategy, teacher)
    before = [variable.numpy() for variable in teacher.variables] if teacher else []
    rng = np.random.default_rng(0)
    lengths = np.sort(rng.integers(5, 13, [16, 1]))
    mask = (np.arange(12) < lengths).astype(np.int32)
    batch = {
        "input_ids": rng.integers(5, 50, mask.shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(12) >= lengths // 2).astype(np.int32) * mask,
    }
    data = tf.data.Dataset.from_tensor_slices(batch).batch(16, drop_remainder=True)
    trainer.train_dataset = untuned.distribute(strategy, data.repeat())
    trainer.eval_dataset = untuned.distribute(strategy, data)
    logged = [trainer.train(1) for _ in range(3)]
    logged = [
        {name: float(x) for name, x in each.items()} for each in (*logged, trainer.evaluate())
    ]
    weights = [variable.numpy() for variable in trainer.model.trainable_variables]
    after = [variable.numpy() for variable in teacher.variables] if teacher else []
    return SimpleNamespace(logged=logged, weights=weights, teacher=(before, after))


@pytest.fixture(scope="module")
def undivided(cpu):
    return steps(cpu)


def test_a_student_learns_and_its_teacher_stays_as_it_is(undivided):
    first, *_, last, held_out = undivided.logged
    assert "gradient_norm" not in held_out and held_out.keys() < last.keys()
    assert last["loss"] < first["loss"]
    for each in undivided.logged:
        total = 5 * each["mlm_loss"] + 2 * each["kl_loss"] + each["cosine_loss"]
        assert each["loss"] == pytest.approx(total, rel=1e-6)
    # Those of the student, and the map's two: none of the teacher's.
    plain = MaskedLanguageModel(
        PretrainingConfig(objective="mlm", encoder=SHAPE, sequence_length=1)
    )
    shapes = [variable.shape for variable in plain.trainable_variables]
    assert [each.shape for each in undivided.weights] == [*shapes, (8, 12), (12,)]
    before, after = undivided.teacher
    assert len(before) == len(plain.variables) + 2  # with a projection of the embeddings
    for value, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    ("devices", "run"),
    [
        ("two_devices", {"gradient_accumulation_steps": 2}),
        ("cpu", {"jit_compile": True}),
    ],
)
def test_three_steps_are_the_same_however_the_batch_is_divided(undivided, request, devices, run):
    found = steps(request.getfixturevalue(devices), **run)
    for each, expected in zip(found.logged, undivided.logged, strict=True):
        assert each.keys() == expected.keys()
        for name, value in expected.items():
            assert each[name] == pytest.approx(value, rel=1e-4), name
    for each, expected in zip(found.weights, undivided.weights, strict=True):
        np.testing.assert_allclose(each, expected, rtol=1e-3, atol=1e-5)
    for value, expected in zip(found.teacher[1], undivided.teacher[0], strict=True):
        np.testing.assert_array_equal(value, expected)


def test_without_the_losses_of_distillation_the_weights_are_the_masked_language_models(cpu):
    """Bit for bit, with dropout; a teacher of these settings has no say."""
    only_words = DistillationConfig(mlm_weight=1.0, kl_weight=0.0, cosine_weight=0.0)
    taught = steps(cpu, only_words, dropout=0.1)
    plain = steps(cpu, only_words, with_teacher=False, dropout=0.1)
    assert len(taught.weights) == len(plain.weights)
    for value, expected in zip(taught.weights, plain.weights, strict=True):
        np.testing.assert_array_equal(value, expected)
    assert [each["loss"] for each in taught.logged] == [each["loss"] for each in plain.logged]
