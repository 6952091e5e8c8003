"""The training step: on any devices and in any parts the same, and against NumPy."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.pretraining_runs import of_one_layer, small_settings
from tests.tfbio.objectives.test_sentence_pairs import SHAPE, TOKENS
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest
from tfbio.objectives.pretrainer import EVALUATION_STREAM, TRAINING_STREAM, Pretrainer
from tfbio.objectives.pretraining_config import MASK_UNITS, PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.runs import pretraining_data
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.training import distribution


@pytest.fixture(scope="module")
def settings(examples_folder):
    """Returns the settings of a small pretraining run."""
    return small_settings(examples_folder)


@pytest.fixture(scope="module")
def shallow(settings):
    """Returns settings of one layer, where the encoder does not matter."""
    return of_one_layer(settings)


@pytest.fixture(scope="module")
def without_dropout(shallow):
    encoder = dataclasses.replace(
        shallow.encoder, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    return dataclasses.replace(shallow, encoder=encoder)


@pytest.fixture(scope="module")
def clipped_mlm(without_dropout):
    """Returns settings of a masked language model, whose gradients are all clipped."""
    return dataclasses.replace(without_dropout, objective="mlm", max_gradient_norm=0.3)


def trainer_of(settings, folder, strategy, steps, **run):
    """A trainer with the data of so many steps."""
    settings = dataclasses.replace(settings, run=dataclasses.replace(settings.run, **run))
    manifest = read_manifest(folder, "examples")
    encoder = load_fast_tokenizer(folder / "vocab.txt")
    trainer = Pretrainer(settings, encoder, strategy)
    trainer.train_dataset = distribution.distribute_dataset(
        strategy,
        lambda context: pretraining_data.training_dataset(
            str(folder), manifest, settings.train_batch_size, settings.seed, 0, steps, context
        ),
    )
    return trainer


def step_losses(settings, folder, strategy, steps, **run):
    """Generator's loss and whole loss of every step, float [steps, 2], and the final weights."""
    trainer = trainer_of(settings, folder, strategy, steps, **run)
    outputs = [trainer.train(tf.constant(1)) for _ in range(steps)]
    names = [name for name in ("generator_loss", "loss") if name in outputs[0]]
    losses = np.array([[output[name] for name in names] for output in outputs])
    return losses, [variable.numpy() for variable in trainer.model.trainable_variables]


@pytest.fixture(scope="module")
def undivided(examples_folder, cpu):
    """Returns what four steps give on one device, in one part: traced once for each settings."""
    return functools.cache(lambda settings: step_losses(settings, examples_folder, cpu, steps=4))


def assert_same(one, other, rtol=1e-4):
    """The same losses and weights, to rounding; each is what `step_losses` returns."""
    np.testing.assert_allclose(other[0], one[0], rtol=rtol)
    for mine, its in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(its, mine, rtol=1e-3, atol=1e-4)


def test_a_divided_batch_compiles_under_xla_with_static_shapes(
    without_dropout, undivided, examples_folder, cpu
):
    """A TPU needs it. XLA and TensorFlow draw the same random numbers on a CPU, too.

    The parts have the same masks, the same samples, the same losses and weights, to rounding.
    """
    parts = {"gradient_accumulation_steps": 2, "parallel_parts": 2}
    compiled = step_losses(
        without_dropout, examples_folder, cpu, steps=4, jit_compile=True, **parts
    )
    plain = undivided(without_dropout)
    np.testing.assert_allclose(compiled[0][0, 0], plain[0][0, 0], rtol=1e-5)
    # Seen: 2e-5. A sample on the other side of a rounded border would change one label of 900.
    assert_same(plain, compiled, rtol=2e-4)


def test_lamb_learns_the_same_on_any_devices(
    clipped_mlm, undivided, examples_folder, cpu, two_devices
):
    settings = dataclasses.replace(clipped_mlm, optimizer="lamb")
    compiled = step_losses(settings, examples_folder, cpu, steps=4, jit_compile=True)
    adam, _ = undivided(clipped_mlm)
    assert abs(compiled[0] - adam).max() > 1e-3
    divided = step_losses(settings, examples_folder, two_devices, steps=4)
    assert_same(compiled, divided, rtol=2e-4)


def by_numpy(settings, folder, groups, steps):
    """Steps with clipping and Adam in NumPy, and the gradient of each group as of a batch alone.

    Gives the global norms of the first step's groups; the sum of their clipped gradients; the mean
    of the groups' losses of each step; and the weights after the last step.
    """
    one = dataclasses.replace(settings, gradient_clip_groups=1)
    beta_1, beta_2 = settings.adam_beta_1, settings.adam_beta_2
    manifest = read_manifest(folder, "examples")
    encoder = load_fast_tokenizer(folder / "vocab.txt")
    trainer = Pretrainer(one, encoder, tf.distribute.get_strategy())
    variables = trainer.model.trainable_variables
    size = settings.train_batch_size
    data = pretraining_data.training_dataset(str(folder), manifest, size, settings.seed, 0, steps)
    weights = [variable.numpy().astype(np.float64) for variable in variables]
    first, second = ([np.zeros_like(w) for w in weights] for _ in range(2))
    first_norms, first_sum, losses = [], None, []
    for step, batch in enumerate(data.take(steps)):
        mask_seed, seed = trainer.seeds(TRAINING_STREAM, tf.constant(step, tf.int64))
        masked = trainer.mask(batch, mask_seed, tf.constant(step, tf.int64))
        # Samples are drawn for the whole batch.
        given = {}
        if settings.objective == "electra":
            given["corrupted_ids"] = trainer.model(batch, masked, seed).corrupted_ids
        total, loss = [0.0] * len(weights), 0.0
        for group in np.split(np.arange(size), groups):
            rows = slice(group[0], group[-1] + 1)
            own = tf.nest.map_structure(lambda x, rows=rows: x[rows], (batch, masked, given))
            output, found = trainer.model.gradients(variables, *own[:2], seed, **own[2])
            found = [tf.convert_to_tensor(x).numpy().astype(np.float64) for x in found]
            norm = np.sqrt(sum(np.sum(x**2) for x in found))
            share = min(1.0, (settings.max_gradient_norm or np.inf) / norm)
            total = [a + share * b for a, b in zip(total, found, strict=True)]
            loss += float(output.loss) / groups
            if step == 0:
                first_norms.append(norm)
        first_sum = first_sum or total
        losses.append(loss)
        rate = settings.learning_rate * (1 - (step + 1) / settings.num_train_steps)
        rate *= min(1.0, (step + 1) / settings.num_warmup_steps)
        for index, (variable, gradient) in enumerate(zip(variables, total, strict=True)):
            first[index] = beta_1 * first[index] + (1 - beta_1) * gradient
            second[index] = beta_2 * second[index] + (1 - beta_2) * gradient**2
            m, v = first[index], second[index]
            if settings.adam_bias_correction:
                m, v = m / (1 - beta_1 ** (step + 1)), v / (1 - beta_2 ** (step + 1))
            update = m / (np.sqrt(v) + settings.adam_epsilon)
            left_out = "LayerNorm" in variable.name or "bias" in variable.name
            if settings.decay_all or not left_out:
                update += settings.weight_decay_rate * weights[index]
            weights[index] -= rate * update
            variable.assign(weights[index])
    return first_norms, first_sum, losses, weights


@pytest.fixture(scope="module")
def in_groups(without_dropout, examples_folder):
    """Settings with so many groups, and what NumPy makes of them; computed once for each."""

    @functools.cache
    def make(groups, objective="electra"):
        settings = dataclasses.replace(
            without_dropout,
            objective=objective,
            gradient_clip_groups=groups,
            max_gradient_norm=0.3,
        )
        return settings, by_numpy(settings, examples_folder, groups, steps=4)

    return make


@pytest.mark.parametrize(
    ("devices", "groups", "run", "objective"),
    [
        ("cpu", 1, {}, "mlm"),
        ("cpu", 4, {}, "mlm"),
        (
            "cpu",
            4,
            {"gradient_accumulation_steps": 2, "parallel_parts": 2, "jit_compile": True},
            "electra",
        ),
        ("two_devices", 4, {"gradient_accumulation_steps": 2}, "electra"),
        ("two_devices", 2, {}, "mlm"),  # each device's examples are one
    ],
)
def test_each_group_is_clipped_by_itself(
    in_groups, examples_folder, request, devices, groups, run, objective
):
    settings, (norms, total, losses, weights) = in_groups(groups, objective)
    # All are clipped, each by another share.
    assert min(norms) > 0.6 and (groups == 1 or max(norms) > 1.01 * min(norms))
    strategy = request.getfixturevalue(devices)
    trainer = trainer_of(settings, examples_folder, strategy, steps=4, **run)
    logged = [trainer.train(tf.constant(1))["loss"]]
    whole = np.sqrt(sum(np.sum(x**2) for x in total))
    for variable, gradient in zip(trainer.model.trainable_variables, total, strict=True):
        # Adam's first average is a tenth of the gradient.
        found = 10 * trainer.optimizer.get_slot(variable, "m").numpy()
        assert np.linalg.norm(found - gradient) < 1e-6 * whole, variable.name
    logged += [trainer.train(tf.constant(1))["loss"] for _ in range(3)]
    np.testing.assert_allclose(logged, losses, rtol=1e-5)
    for variable, value in zip(trainer.model.trainable_variables, weights, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, atol=1e-6, err_msg=variable.name)


def test_robertas_optimizer_takes_numpys_steps(without_dropout, examples_folder, cpu):
    """Adam's bias is corrected, all parameters decay, and nothing is clipped; compiled by XLA."""
    settings = dataclasses.replace(
        without_dropout,
        objective="mlm",
        mask_unit="ngram",
        adam_beta_1=0.8,
        adam_beta_2=0.98,
        adam_bias_correction=True,
        decay_all=True,
        weight_decay_rate=0.1,
        max_gradient_norm=0.0,
        # Corrected updates of gradients that are nearly 0 would be their rounding.
        adam_epsilon=1e-4,
    )
    norms, _, losses, weights = by_numpy(settings, examples_folder, groups=1, steps=4)
    trainer = trainer_of(settings, examples_folder, cpu, steps=4, jit_compile=True)
    logged = [trainer.train(tf.constant(1)) for _ in range(4)]
    np.testing.assert_allclose(logged[0]["gradient_norm"], norms[0], rtol=1e-5)
    np.testing.assert_allclose([x["loss"] for x in logged], losses, rtol=1e-5)
    for variable, value in zip(trainer.model.trainable_variables, weights, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, atol=1e-6, err_msg=variable.name)


def test_groups_are_not_the_whole_nor_other_groups(in_groups, clipped_mlm, undivided):
    """The limits above tell them apart."""
    _, (_, _, _, weights) = in_groups(4, "mlm")
    _, whole = undivided(clipped_mlm)
    _, (_, _, _, two) = in_groups(2, "mlm")
    for others in (whole, two):
        difference = max(np.abs(a - b).max() for a, b in zip(weights, others, strict=True))
        assert difference > 1e-4


def test_a_generator_alone_learns_the_same_on_any_devices(
    without_dropout, examples_folder, cpu, two_devices
):
    """Two steps alone, two with the discriminator: compiled, and in parts on two devices."""
    settings = dataclasses.replace(without_dropout, generator_warmup_steps=2)
    compiled = step_losses(settings, examples_folder, cpu, steps=4, jit_compile=True)
    divided = step_losses(
        settings, examples_folder, two_devices, steps=4, gradient_accumulation_steps=2
    )
    assert_same(compiled, divided, rtol=2e-4)


@pytest.mark.slow
def test_a_single_device_compiles_every_kind_of_masking(without_dropout, examples_folder, cpu):
    """The loss and the norm of the gradients, compiled and operation by operation."""
    manifest = read_manifest(examples_folder, "examples")
    tokenizer = load_fast_tokenizer(examples_folder / "vocab.txt")
    data = pretraining_data.training_dataset(str(examples_folder), manifest, 16, 0, 0, 1)
    (batch,) = data.take(1)
    step = tf.constant(0, tf.int64)
    for options in (
        {"objective": "mlm", "mask_unit": "word", "final_mask_prob": 0.25},
        {"mask_unit": "span", "disallow_correct": True},
        {"mask_with_replacement": True, "uniform_generator": True},
    ):
        trainer = Pretrainer(dataclasses.replace(without_dropout, **options), tokenizer, cpu)

        def computed(batch, trainer=trainer):
            mask_seed, seed = trainer.seeds(TRAINING_STREAM, step)
            masked = trainer.mask(batch, mask_seed, step)
            variables = trainer.model.trainable_variables
            output, gradients = trainer.model.gradients(variables, batch, masked, seed)
            gradients = [tf.convert_to_tensor(x) for x in gradients if x is not None]
            return output.loss, tf.linalg.global_norm(gradients)

        compiled = tf.function(computed, jit_compile=True, autograph=False)
        plain, found = (
            [float(x) for x in cpu.run(each, args=(batch,))] for each in (computed, compiled)
        )
        np.testing.assert_allclose(found, plain, rtol=2e-4, err_msg=str(options))


def test_bfloat16_learns_too(without_dropout, examples_folder, cpu, request):
    def first_step():
        trainer = trainer_of(without_dropout, examples_folder, cpu, steps=1)
        loss = trainer.train(tf.constant(1))["loss"]
        variables = trainer.model.trainable_variables
        # Adam's first average: a part of the gradient.
        return loss, [(x.name, trainer.optimizer.get_slot(x, "m").numpy()) for x in variables]

    single, expected = first_step()
    request.getfixturevalue("bfloat16")  # from here on
    half, found = first_step()
    np.testing.assert_allclose(half, single, rtol=1e-3)
    for (name, mine), (_, its) in zip(found, expected, strict=True):
        assert 0 < np.linalg.norm(mine - its) < 0.05 * np.linalg.norm(its), name


@pytest.mark.parametrize("objective", ["electra", "mlm"])
def test_documents_that_share_an_example_do_not_touch(
    objective, shallow, packed_folder, vocab_file, cpu
):
    """Changes the others of a row, and puts the second one into a row of its own.

    Dropout is off, and no token is hidden: the generator, too, gets all.
    """
    settings = dataclasses.replace(shallow, objective=objective)
    trainer = Pretrainer(settings, load_fast_tokenizer(vocab_file), cpu)
    manifest = read_manifest(packed_folder, "examples")
    batch = next(iter(pretraining_data.held_out_dataset(str(packed_folder), manifest, 16)))
    masked = trainer.mask(batch, tf.constant([0, 0]), None)
    masked = masked._replace(weights=tf.zeros_like(masked.weights))

    def logits(changed, positions):
        """Computes those of masked positions, [B, N, V]; ELECTRA's also of all tokens, [B, L]."""
        own = masked._replace(input_ids=changed["input_ids"], positions=positions)
        given = {"corrupted_ids": changed["input_ids"]} if objective == "electra" else {}
        output = trainer.model(changed, own, seed=tf.constant([0, 0]), **given)
        if objective == "mlm":
            return (output.logits.numpy(),)
        return output.generator_logits.numpy(), output.discriminator_logits.numpy()

    documents, positions = batch["document_ids"].numpy(), masked.positions.numpy()
    of_positions = np.take_along_axis(documents, positions, axis=1)
    other = documents > 1
    changed = dict(batch, input_ids=tf.where(other, batch["input_ids"][::-1], batch["input_ids"]))
    whole, with_others = logits(batch, masked.positions), logits(changed, masked.positions)
    for mine, theirs, own in zip(whole, with_others, (of_positions, documents), strict=False):
        np.testing.assert_allclose(mine[own == 1], theirs[own == 1], atol=1e-5)
        assert (own == 1).sum() > 10 and np.abs(mine - theirs)[own > 1].max() > 1e-4

    # Where the second document begins; position_ids begin anew with it.
    begins = np.argmax(documents == 2, axis=1)
    columns = np.minimum(np.arange(documents.shape[1]) + begins[:, None], documents.shape[1] - 1)
    is_own = (np.take_along_axis(documents, columns, axis=1) == 2).astype(np.int32)
    is_own *= np.arange(documents.shape[1]) < documents.shape[1] - begins[:, None]
    alone = {
        name: tf.constant(np.take_along_axis(values.numpy(), columns, axis=1) * is_own)
        for name, values in batch.items()
    }
    alone["document_ids"] = tf.constant(is_own)
    in_row = of_positions == 2
    moved = tf.constant(np.where(in_row, positions - begins[:, None], 0).astype(np.int32))
    found = logits(alone, moved)
    np.testing.assert_allclose(found[0][in_row], whole[0][in_row], atol=1e-5)
    assert in_row.sum() >= 10
    if objective == "electra":
        np.testing.assert_allclose(found[1][is_own == 1], whole[1][documents == 2], atol=1e-5)


def test_frequency_biases_start_at_the_base_rates(without_dropout, examples_folder, cpu):
    """The untrained generator then has the loss of a guess by frequency, not of a blind one."""
    manifest = read_manifest(examples_folder, "examples")
    counts = pretraining_data.word_counts(str(examples_folder), manifest)
    encoder = load_fast_tokenizer(examples_folder / "vocab.txt")
    examples = sum(shard.records for shard in manifest.shards_of("train"))
    assert counts[encoder.cls_id] == examples and counts[encoder.pad_id] == 0
    counts[[encoder.cls_id, encoder.sep_id]] = 0

    trainer = Pretrainer(without_dropout, encoder, cpu)
    dataset = pretraining_data.held_out_dataset(str(examples_folder), manifest, 16)
    trainer.eval_dataset = distribution.distribute_dataset(cpu, lambda _: dataset)
    blind = trainer.evaluate()
    assert float(blind["generator_loss"]) == pytest.approx(np.log(encoder.vocab_size), rel=0.005)
    trainer.model.set_frequency_biases(counts)
    guess = trainer.evaluate()
    shares = counts / counts.sum()
    entropy = -np.sum(shares[shares > 0] * np.log(shares[shares > 0]))
    # Seen: 3.5 % more, since these are other articles than those that were counted.
    assert float(guess["generator_loss"]) == pytest.approx(entropy, rel=0.05)
    assert float(guess["discriminator_loss"]) < 0.45 < float(blind["discriminator_loss"])


# --- Without data: 8 rows of 12 tokens of a small masked language model ------------------------

IDS = tf.constant(5 + (7 * np.arange(8)[:, None] + 3 * np.arange(12) ** 2) % 45, tf.int32)
ROWS = {"input_ids": IDS, "input_mask": tf.ones_like(IDS), "segment_ids": tf.zeros_like(IDS)}


def tiny(strategy, **changes):
    settings = {"objective": "mlm", "encoder": SHAPE, "sequence_length": 12, "train_batch_size": 8}
    settings |= {"num_train_steps": 8, "num_warmup_steps": 1}
    return Pretrainer(PretrainingConfig(**settings | changes), TOKENS, strategy)


def test_every_step_and_every_seed_draws_anew(cpu):
    """Masks, samples and dropout; and the initial weights of another seed are others."""
    made = [tiny(cpu, seed=seed) for seed in (0, 1)]
    found = {
        tuple(seed.numpy())
        for trainer in made
        for stream in (TRAINING_STREAM, EVALUATION_STREAM)
        for number in (0, 1)
        for seed in trainer.seeds(stream, tf.constant(number, tf.int64))
    }
    assert len(found) == 2 * 2 * 2 * 2
    one, other = (trainer.model.encoder.embeddings.word.numpy() for trainer in made)
    assert (one != other).all()


def test_evaluation_has_no_dropout_and_the_same_masks_each_time(cpu):
    losses = set()
    for rate in (0.0, 0.5):
        encoder = dataclasses.replace(
            SHAPE, hidden_dropout_prob=rate, attention_probs_dropout_prob=0.0
        )
        trainer = tiny(cpu, encoder=encoder)
        trainer.eval_dataset = tf.data.Dataset.from_tensors(ROWS)
        losses.add(float(trainer.evaluate()["loss"]))
        trainer.optimizer.iterations.assign(3)
        losses.add(float(trainer.evaluate()["loss"]))
    assert len(losses) == 1


def test_evaluation_masks_the_share_that_the_schedule_ends_with(cpu):
    trainer = tiny(cpu, mask_prob=0.1, final_mask_prob=0.5, mask_prob_stages=2)
    # The second of two stages begins with the fifth of eight steps.
    steps = [*(tf.constant(step, tf.int64) for step in (0, 3, 4, 7)), None]
    masked = [trainer.mask(ROWS, tf.constant([0, 1]), step) for step in steps]
    # Of 12 tokens in each of 8 rows: 1, 6, and in evaluation 6.
    assert [float(tf.reduce_sum(x.weights)) for x in masked] == [8, 8, 48, 48, 48]


def test_masking_has_the_settings_of_the_run(cpu):
    for unit in MASK_UNITS:
        assert tiny(cpu, mask_unit=unit).masking.unit == unit
    assert not tiny(cpu).masking.with_replacement
    changes = {"mask_with_replacement": True, "random_token_prob": 0.0}
    assert tiny(cpu, **changes).masking.with_replacement
    bert = tiny(cpu, mask_token_prob=0.8, random_token_prob=0.1).masking
    assert (bert.mask_token_prob, bert.random_token_prob) == (0.8, 0.1)
    assert (bert.mask_id, sorted(bert.special_ids)) == (4, [0, 2, 3])


def test_the_figures_of_a_loop_are_of_its_steps_alone(cpu):
    trainer = tiny(cpu, learning_rate=1e-30)
    trainer.train_dataset = tf.data.Dataset.from_tensors(ROWS).repeat()
    first, second = trainer.train(3), trainer.train(1)
    assert [float(each["tokens"]) for each in (first, second)] == [3 * 8 * 12, 8 * 12]
    # Weights are those of the start, but masks differ from step to step.
    again = tiny(cpu, learning_rate=1e-30)
    again.train_dataset = trainer.train_dataset
    alone = [again.train(1) for _ in range(4)]
    for name in ("loss", "gradient_norm"):
        expected = [float(each[name]) for each in alone]
        assert float(first[name]) == pytest.approx(np.mean(expected[:3]), rel=1e-5), name
        assert float(second[name]) == pytest.approx(expected[3], rel=1e-5), name


def test_each_batch_of_an_evaluation_has_masks_of_its_own(cpu):
    """Evaluates on a batch alone, and on the same one again, which is then masked otherwise."""
    trainer, losses = tiny(cpu), []
    for times in (1, 2):
        trainer.eval_dataset = tf.data.Dataset.from_tensors(ROWS).repeat(times)
        losses.append(float(trainer.evaluate()["loss"]))
    assert losses[0] != losses[1]


def test_an_evaluation_has_no_more_rows_at_a_time_than_training(cpu, monkeypatch):
    """Groups whose gradients are clipped are parts there, too; the losses stay."""
    run = PretrainingRun(gradient_accumulation_steps=2)
    plain, grouped = tiny(cpu), tiny(cpu, gradient_clip_groups=2, run=run)
    for mine, theirs in zip(grouped.model.variables, plain.model.variables, strict=True):
        mine.assign(theirs)
    rows, call = [], type(grouped.model).__call__

    def spy(model, batch, *arguments, **named):
        rows.append(batch["input_ids"].shape[0])
        return call(model, batch, *arguments, **named)

    monkeypatch.setattr(type(grouped.model), "__call__", spy)
    losses = []
    for trainer in (plain, grouped):
        trainer.eval_dataset = tf.data.Dataset.from_tensors(ROWS).repeat(2)
        losses.append({name: float(value) for name, value in trainer.evaluate().items()})
    assert set(rows[:1]) == {8} and set(rows[-1:]) == {8 // (2 * 2)}
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_parts_at_the_same_time_are_traced_once(cpu, monkeypatch):
    """In a loop over rounds, too. The metrics are updated for each."""
    trainer = tiny(cpu, run=PretrainingRun(parallel_parts=2, gradient_accumulation_steps=2))
    gradients, updates = [], []
    for owner, name, calls in (
        (trainer.model, "gradients", gradients),
        (trainer.train_metrics, "update", updates),
    ):
        own = getattr(owner, name)
        spied = lambda *args, own=own, calls=calls: calls.append(args) or own(*args)  # noqa: E731
        monkeypatch.setattr(owner, name, spied)
    trainer.train_dataset = tf.data.Dataset.from_tensors(ROWS).repeat()
    trainer.train(2)
    assert (len(gradients), len(updates)) == (1, 2)


@pytest.mark.parametrize("setting", [{"jit_compile": True}, {"parallel_parts": 2}])
def test_what_one_device_alone_does_is_refused_on_two(setting, two_devices):
    (name,) = setting
    with pytest.raises(UserError, match=f"run.{name} works on one device"):
        tiny(two_devices, run=PretrainingRun(**setting))
