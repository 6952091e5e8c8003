"""Batches of a few shapes: nothing lost, little padding, and what plain batches teach."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import reference, task_types
from tests.task_types import BY_TYPE, SETTINGS, SOME, with_fixed_shapes
from tests.tfbio.task_types.made_features import make_features
from tfbio.models.head_config import NO_TARGET
from tfbio.runs import finetuner, finetuning_data
from tfbio.task_types import fixed_shapes, row_placement, task_table, types
from tfbio.task_types.features import PerToken
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.fixed_shapes import Shape
from tfbio.task_types.task import SPLITS
from tfbio.text import tokenization

# --- Rows and shapes -----------------------------------------------------------------------------


def test_shapes_are_those_with_the_least_padding():
    rng = np.random.default_rng(0)
    batches = rng.integers(4, 100, [200, 16])
    shapes = fixed_shapes.choose_shapes(batches, 120, 4)
    assert len(shapes) == 3 and {shape.rows for shape in shapes} == {4}
    lengths = [shape.row_length for shape in shapes]
    assert lengths == sorted(lengths) and all(length % 16 == 0 for length in lengths)
    needed = np.array([row_placement.deal(batch, 4).row_length for batch in batches])
    assert lengths[-1] > max(needed)

    def tokens(*lengths):
        return sum(next(x for x in lengths if x >= need) for need in needed)

    candidates = range(16, lengths[-1] + 1, 16)
    best = min(tokens(a, b, lengths[-1]) for a in candidates for b in candidates if a < b)
    assert tokens(*lengths) == best


def test_rows_are_as_short_as_padding_allows():
    for length, rows in ((16, 8), (24, 4)):  # in rows of 32 tokens a quarter would be padding
        shapes = fixed_shapes.choose_shapes(np.full([10, 8], length), length, 1)
        assert shapes == [Shape(rows, 16 if length == 16 else 48)]


def test_no_shape_is_shorter_than_the_longest_text():
    shapes = fixed_shapes.choose_shapes(np.full([10, 4], 5), 500, 4)
    assert shapes[-1].row_length == 512


@pytest.mark.parametrize("of_tokens", [True, False])
@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_a_batch_holds_its_texts_and_nothing_else(replicas, of_tokens):
    features = make_features([5, 30, 40, 17, 3, 50, 60, 8], of_tokens)
    chosen = np.array([7, 1, 1, 0, 5, 4, 3])  # one twice
    shapes = [Shape(4, 48), Shape(4, 64), Shape(4, 96)]
    packer = fixed_shapes.FixedShapePacker(features, shapes, replicas, pad_id=0, count=8)
    made = packer.train_batch(chosen)
    assert shapes[made.shape].row_length == 64
    assert ("scores" if of_tokens else "groups_of_tokens") in packer.token_arrays
    for name in packer.token_arrays:
        assert made.arrays[name].shape[:3] == (replicas, 4 // replicas, 96)  # the longest shape's
        empty = {"targets": NO_TARGET, "scores": 0.5}.get(name, 0)
        assert (made.arrays[name][:, :, 64:] == empty).all()
    np.testing.assert_array_equal(made.texts, chosen)
    for replica in range(replicas):
        (texts,) = np.nonzero(made.replica == replica)
        flat = {}
        for name in packer.token_arrays:
            array = made.arrays[name][replica][:, :64]
            flat[name] = array.reshape(-1, *array.shape[2:])
        for text in texts:
            window, number, first = chosen[text], made.number[text], made.first[text]
            here = np.flatnonzero(flat["document_ids"] == number + 1)
            assert here[0] == first and np.ptp(here) == len(here) - 1, (replica, text)
            np.testing.assert_array_equal(flat["input_ids"][here], features.input_ids[window])
            np.testing.assert_array_equal(flat["segment_ids"][here], features.segment_ids[window])
            np.testing.assert_array_equal(flat["position_ids"][here], np.arange(len(here)))
            for name, (values, _) in features.per_token.items():
                np.testing.assert_array_equal(flat[name][here], values[window])
                assert flat[name].dtype == values[window].dtype
            for name, values in features.per_window.items():
                np.testing.assert_array_equal(made.arrays[name][replica, number], values[window])
            for name, values in features.positions.items():
                for group, tokens in enumerate(values[window]):
                    own = flat[f"{name}_of_tokens"][:, group]
                    assert np.flatnonzero(own == number + 1).tolist() == sorted({*here[tokens]}), (
                        replica,
                        text,
                        name,
                    )
            assert made.arrays["first"][replica, number] == first, text
        padding = flat["document_ids"] == 0
        assert not flat["input_ids"][padding].any(), replica
        if of_tokens:
            assert (flat["targets"][padding] == NO_TARGET).all(), replica
            assert (flat["scores"][padding] == 0.5).all(), replica
            assert "real" not in made.arrays, replica
        else:
            real = made.arrays["real"][replica]
            assert real.tolist() == [1.0] * len(texts) + [0.0] * (8 - len(texts)), replica
            assert not made.arrays["targets"][replica, len(texts) :].any()


def test_what_no_shape_holds_is_an_error():
    packer = fixed_shapes.FixedShapePacker(make_features([40, 40, 40]), [Shape(1, 96)], 1, 0, 3)
    with pytest.raises(ValueError, match="120"):
        packer.train_batch(np.arange(3))


def test_batches_to_predict_have_one_shape_and_all_texts():
    for count in (1, 3, 50):
        features = make_features(
            np.random.default_rng(count).integers(3, 33, count), of_tokens=False
        )
        packer = fixed_shapes.FixedShapePacker(features, [Shape(4, 32)], 2, 0, count=8)
        made = list(packer.predict_batches())
        assert sorted(np.concatenate([batch.texts for batch in made])) == list(range(count))
        assert {batch.arrays["input_ids"].shape for batch in made} == {(2, 2, 32)}, count
        assert {batch.arrays["targets"].shape for batch in made} == {(2, 8, 2)}, count


# --- What is learnt and predicted ----------------------------------------------------------------


# Plain batches of one shape, which one graph serves.
PADDED = dataclasses.replace(SETTINGS, run=dataclasses.replace(SETTINGS.run, pack=False))


def train_and_predict(made, features, steps=4):
    made.initialize(0, "")
    order = finetuning_data.training_order(len(features.lengths), 0, steps, 8, seed=0)
    losses = task_types.train(made, features, order)
    return losses, made.predict(features)


@pytest.mark.parametrize("name", BY_TYPE)
def test_fixed_shapes_teach_and_predict_what_others_do(name, make_finetuner, cpu):
    plain, features = make_finetuner(name, cpu, PADDED)
    losses, outputs = train_and_predict(plain, features)
    settings = with_fixed_shapes(SETTINGS)
    fixed, _ = make_finetuner(name, cpu, settings)
    if name not in SOME:  # each shape is traced, and the longest tells as much of a type's padding
        shapes = fixed_shapes.training_shapes(features.lengths, settings, replicas=1)
        fixed._chosen = features, shapes[-1:]
    fixed_losses, fixed_outputs = train_and_predict(fixed, features)
    np.testing.assert_allclose(fixed_losses, losses, atol=1e-5, rtol=1e-5)
    for one, other in zip(outputs, fixed_outputs, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(other, one, atol=1e-4)
    if fixed.task_type.has_probabilities:
        for one, other in zip(
            plain.predict(features, with_probabilities=True),
            fixed.predict(features, with_probabilities=True),
            strict=True,
        ):
            np.testing.assert_allclose(other, one, atol=1e-4)


@pytest.fixture(scope="module")
def fixed(make_finetuner, cpu):
    """A Finetuner with fixed shapes, and its windows."""
    settings = with_fixed_shapes(SETTINGS)
    return make_finetuner("tagging", cpu, settings)


def test_two_devices_learn_and_predict_what_one_does(fixed, make_finetuner, two_devices):
    losses, outputs = train_and_predict(*fixed)
    both = make_finetuner("tagging", two_devices, with_fixed_shapes(SETTINGS))
    both_losses, both_outputs = train_and_predict(*both)
    np.testing.assert_allclose(both_losses, losses, rtol=1e-5)
    for one, two in zip(outputs, both_outputs, strict=True):
        np.testing.assert_array_equal(one, two)


def test_loops_have_the_loss_of_their_steps(fixed):
    """A call takes many steps; it may take fewer, as it does before an evaluation."""
    made, features = fixed
    order = finetuning_data.training_order(len(features.lengths), 0, 24, 8, seed=0)
    losses = {}
    for choice in ("always", "never"):
        run = dataclasses.replace(PADDED.run, fixed_shapes=choice)
        made.config = dataclasses.replace(SETTINGS, run=run)
        made.initialize(0, "")
        made.begin(features, order, 0)
        losses[choice] = [made.train(steps)["loss"] for steps in (10, 3, 1, 10)]
    made.config = with_fixed_shapes(SETTINGS)
    assert int(made.step.numpy()) == 24
    np.testing.assert_allclose(losses["always"], losses["never"], rtol=1e-3)


def test_training_goes_on_from_its_step(fixed):
    """As it does in a trial that was stopped: the batches are those of the steps that are left."""
    made, features = fixed
    order = finetuning_data.training_order(len(features.lengths), 0, 9, 8, seed=0)
    losses = []
    for stopped in (False, True):
        made.initialize(0, "")
        made.begin(features, order, 0)
        made.train(4)
        if stopped:
            made.begin(features, order, 0)  # as a new process does
        losses.append(made.train(5)["loss"])
    assert losses[0] == losses[1]


def test_four_graphs_serve_training_scores_and_prediction(make_finetuner, cpu, monkeypatch):
    """Trials, evaluations, sets of any size, and new text with probabilities."""
    traced = []

    def counted(method):
        def count(*args, **kwargs):
            traced.append(method.__name__)
            return method(*args, **kwargs)

        return tf.autograph.experimental.do_not_convert(count)

    for name in ("_replica_train_step", "_replica_outputs"):
        monkeypatch.setattr(finetuner.Finetuner, name, counted(getattr(finetuner.Finetuner, name)))
    made, features = make_finetuner("tagging", cpu, with_fixed_shapes(SETTINGS))
    sets = [features, first(features, 1), first(features, 9)]
    for seed in range(2):
        made.initialize(seed, "")
        order = finetuning_data.training_order(len(features.lengths), 0, 20, 8, seed)
        made.begin(features, order, seed)
        for steps in (7, 7, 6):
            made.train(steps)
            assert made.predict(sets[int(made.step.numpy()) % 3]), seed
    for each in sets:
        assert len(made.predict(each, with_probabilities=True)) == len(each.lengths)
    assert traced.count("_replica_train_step") <= 3
    assert traced.count("_replica_outputs") == 1


def first(features, count):
    """The first so many windows."""
    return dataclasses.replace(
        features,
        input_ids=features.input_ids[:count],
        segment_ids=features.segment_ids[:count],
        example=np.arange(count),
        per_token={
            name: PerToken(values[:count], padding)
            for name, (values, padding) in features.per_token.items()
        },
        per_window={name: values[:count] for name, values in features.per_window.items()},
    )


def test_a_batch_that_no_shape_holds_gets_one(fixed):
    made, features = fixed
    made._chosen = features, [Shape(4, 32)]
    batches = np.full([2, 8], np.argmax(features.lengths))
    needed = 2 * features.lengths.max()
    assert needed > 32
    packer = made._fixed_packer(features, batches)
    assert packer.shapes == (Shape(4, 32), Shape(4, fixed_shapes.rounded(needed)))
    assert packer.train_batch(batches[0]).shape == 1
    assert made._fixed_packer(features, batches).shapes == packer.shapes
    made._chosen = None


# --- Padding -------------------------------------------------------------------------------------


def padding(packer, batches):
    """The share of padding in the tokens of all batches."""
    tokens = slots = 0
    for batch in batches:
        shape = packer.shapes[batch.shape]
        tokens += packer.lengths[batch.texts].sum()
        slots += shape.rows * shape.row_length
    return 1 - tokens / slots


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 8])
@pytest.mark.parametrize(
    "name, size, length, most",
    [
        ("bc5cdr_chem", 32, 128, {1: 0.13, 8: 0.13}),
        # The settings of the task. Two sentences for each of eight cores: a fifth of the tokens
        # would be padding if every batch had a shape of its own.
        ("bc5cdr_chem", 16, 256, {1: 0.135, 8: 0.37}),
        ("hoc", 32, 128, {1: 0.13, 8: 0.13}),
    ],
)
def test_little_of_the_batches_is_padding(name, size, length, most, replicas):
    task = task_table.TASKS[name]
    settings = FinetuningConfig(train_batch_size=size, sequence_length=length)
    tokenizer = tokenization.load_tokenizer(str(reference.PUBMEDBERT))
    task_type = types.make(task.task_type, task.labels, settings)
    examples = task.examples(str(reference.corpus(f"{name}/blurb")))
    found = {}
    for split in SPLITS:
        features = task_type.features(examples[split], tokenizer, length)
        packer = fixed_shapes.prediction_packer(features, settings, replicas, tokenizer.pad_id)
        batches = list(packer.predict_batches())
        assert sum(len(batch.texts) for batch in batches) == len(features.lengths), split
        found[split] = padding(packer, batches)
        if split == "train":
            shapes = fixed_shapes.training_shapes(features.lengths, settings, replicas)
            packer = fixed_shapes.FixedShapePacker(
                features, shapes, replicas, tokenizer.pad_id, size
            )
            count = len(features.lengths)
            steps = int(count * settings.num_train_epochs / size)
            orders = [
                finetuning_data.training_order(count, 0, steps, size, seed).reshape(-1, size)
                for seed in range(settings.num_trials)
            ]
            used = [packer.fit(chosen)[1] for order in orders for chosen in order]
            slots = sum(shapes[shape].rows * shapes[shape].row_length for shape in used)
            found["steps"] = 1 - features.lengths[np.stack(orders)].sum() / slots
    print(name, size, length, replicas, shapes, found)
    assert found["steps"] < most[replicas]
    assert max(found[split] for split in SPLITS) < 0.06
