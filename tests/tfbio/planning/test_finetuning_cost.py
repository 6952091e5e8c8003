"""Tests of what a fine-tuning run is said to take."""

import dataclasses
import re

import numpy as np
import pytest

from tfbio.base.errors import UserError
from tfbio.models import encoder_cost
from tfbio.models.encoder_config import EncoderConfig
from tfbio.planning import finetuning_cost
from tfbio.runs import finetuning
from tfbio.task_types import task_table
from tfbio.task_types.features import Features
from tfbio.task_types.finetuning_config import FinetuningConfig

SHAPE = EncoderConfig(
    vocab_size=1000,
    embedding_size=64,
    hidden_size=64,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=256,
    max_position_embeddings=64,
)
SETTINGS = FinetuningConfig(sequence_length=64, train_batch_size=16, num_trials=3)


def make_pieces(lengths):
    ids = [np.full(length, 5, np.int32) for length in lengths]
    return Features(ids, ids, np.arange(len(lengths)))


def report(settings=SETTINGS, lengths=(16,) * 320, name="", num_steps=100):
    train, dev, test = make_pieces(lengths), make_pieces([16] * 40), make_pieces([16] * 60)
    features = {"train": train, "dev": dev, "test": test}
    examples = {"train": 300, "dev": 40, "test": 60}
    return finetuning_cost.report(settings, SHAPE, train, features, examples, num_steps, name)


def test_flops_are_those_of_the_windows():
    """Three forward passes for a step, one for each window of dev and test."""
    of_token = encoder_cost.encoder_flops(SHAPE, 64) / 64
    said = re.search(r"3 trials of 100 steps of 16 windows and 0 evaluations, (\S+) FLOP", report())
    assert float(said[1]) == pytest.approx(of_token * 16 * (300 * 16 + 100), rel=0.01)
    often = dataclasses.replace(SETTINGS, eval_every_steps=30)
    said = re.search(r"and 4 evaluations, (\S+) FLOP", report(often))
    assert float(said[1]) == pytest.approx(of_token * 16 * (300 * 16 + 100 + 4 * 40), rel=0.01)
    assert "train: 300 examples in 320 windows of 16.0 tokens in the mean, 16 at most" in report()


def test_padding_is_that_of_the_devices():
    """Of 16 windows of 24 tokens, two to each of eight cores: two fit a row of 48 tokens."""
    assert "  0.0%  " in report(lengths=(24,) * 320, name="tpu-v3-8")
    # Without shapes that are fixed, rows are of 128 tokens, of which five windows fill 120.
    (share,) = re.findall(r"(\d+\.\d)%  ", report(lengths=(24,) * 320, name="h100"))
    assert float(share) == pytest.approx(100 * (1 - 16 * 24 / 512), abs=0.1)
    padded = dataclasses.replace(SETTINGS, run=dataclasses.replace(SETTINGS.run, pack=False))
    for name in ("h100", "tpu-v3-8"):
        assert "  75.0%  " in report(padded, name=name)


def test_of_few_windows_batches_are_drawn_as_in_training():
    """Tests a batch that takes each of eight windows four times, the long one included.

    With fixed shapes eight rows hold such batches, and none with more of the long one.
    """
    few = dataclasses.replace(SETTINGS, train_batch_size=32)
    lengths = (64, *7 * [4])
    tokens = 4 * sum(lengths)
    for name in ("h100", "tpu-v3-8"):
        (share,) = re.findall(r"(\d+\.\d)%  ", report(few, lengths, name))
        assert 0 <= float(share) < 100 * (1 - tokens / (8 * 128))
    for count, size in ((8, 32), (5, 12), (40, 64)):
        sample = np.concatenate(finetuning_cost._sample_batches(count, size))
        whole = sample[: len(sample) // count * count].reshape(-1, count)
        assert (np.sort(whole) == np.arange(count)).all()
    # With as many windows as a batch has, and more, those of recorded figures.
    generator = np.random.default_rng(0)
    for batch in finetuning_cost._sample_batches(32, 32):
        np.testing.assert_array_equal(batch, generator.choice(32, 32, replace=False))


def test_what_does_not_fit_is_said():
    assert "too much" not in report() and "tpu-v3-32" not in report()
    odd = dataclasses.replace(SETTINGS, train_batch_size=10)
    assert "does not divide by 8 devices" in report(odd, name="tpu-v3-8")
    assert "does not divide" not in report(odd, name="h100")
    long = dataclasses.replace(SHAPE, hidden_size=4096, num_hidden_layers=80)
    assert finetuning_cost.memory(long, 16, 128, "float32", "h100") > 80e9
    with pytest.raises(UserError, match="--estimate_for=abacus.*tpu-v3-8"):
        report(name="abacus")


def in_parts(steps=1, **changes):
    """Settings whose step is in parts."""
    run = dataclasses.replace(SETTINGS.run, gradient_accumulation_steps=steps)
    return dataclasses.replace(SETTINGS, train_batch_size=64, run=run, **changes)


def test_a_step_in_parts_takes_the_memory_of_one_part():
    features = make_pieces([64] * 320)  # a window a row: no padding

    def largest(settings, replicas=1):
        mean, most, _ = finetuning_cost._batch_slots(features, settings, replicas, fixed=False)
        assert mean == 64 * 64
        return most

    assert largest(in_parts()) == 64 * 64
    assert largest(in_parts(4)) == largest(in_parts(4), replicas=2) == 64 * 64 / 4
    groups = in_parts(gradient_clip_groups=8, loss_reduction="sum")
    assert largest(groups) == 64 * 64 / 8
    assert largest(groups, replicas=2) == 64 * 64 / 4


def test_the_gradients_of_parts_are_summed_in_memory(monkeypatch):
    """Tests that each parameter takes 4 bytes more, in float32."""
    parameters = encoder_cost.encoder_parameters(SHAPE)
    for name in ("h100", "tpu-v3-8"):
        one, several = (
            finetuning_cost.memory(SHAPE, 128, 128, "bfloat16", name, each)
            for each in (False, True)
        )
        assert several - one == 4 * parameters
    seen = []
    monkeypatch.setattr(finetuning_cost, "memory", lambda *given: seen.append(given[5]) or 1.0)
    groups = in_parts(gradient_clip_groups=8, loss_reduction="sum")
    for settings in (in_parts(), in_parts(4), groups):
        report(settings, name="h100")
    report(groups, name="tpu-v3-8")  # of eight groups each of eight cores has one
    assert seen == [False, True, True, False]


def test_what_a_run_refuses_is_said():
    assert "divide by 1 devices and 5 parts" in report(in_parts(5), name="h100")
    assert "accumulation_steps needs run.fixed_shapes=never" in report(in_parts(4), name="tpu-v3-8")
    groups = in_parts(gradient_clip_groups=4, loss_reduction="sum")
    assert "gradient_clip_groups does not divide by 8" in report(groups, name="tpu-v3-8")
    row = report(groups, name="h100").splitlines()[-2]
    assert row.startswith("h100") and "divide" not in row and "needs" not in row


def test_memory_is_that_of_parameters_and_tokens():
    def memory(tokens, name):
        return finetuning_cost.memory(SHAPE, tokens, 128, "bfloat16", name)

    assert memory(0, "h100") == 16 * encoder_cost.encoder_parameters(SHAPE)
    of_token = (memory(100, "h100") - memory(0, "h100")) / 100
    assert of_token == 2 * 3 * (10 * 64 + 3 * 256 + 3 * 4 * 128)
    # On a TPU the backward pass computes again what is cheap.
    assert memory(128, "tpu-v3-8") - memory(0, "tpu-v3-8") < 0.6 * 128 * of_token


def test_a_dry_run_reads_the_task_and_trains_nothing(pretrained, roles_folder):
    task = task_table.TASKS["sentence_roles"]
    settings = FinetuningConfig(sequence_length=64, max_train_examples=50)
    run = finetuning.Run(settings, task=task, data_dir=roles_folder, init_checkpoint=pretrained)
    said = finetuning.dry_run(run, "t4")
    for split, examples in task.examples(roles_folder).items():
        assert f"{split}: {len(examples):,} examples in {len(examples):,} windows" in said
    assert f"5 trials of {int(50 * 5 / 32)} steps of 32 windows" in said
    assert said.count("\n") == 9 and "\nt4 " in said and "\nlabel bias: " in said
