"""The pieces of a pretraining batch."""

import dataclasses

import pytest

from tests.tfbio.objectives.test_objective_cost import settings
from tfbio.base.errors import UsageError
from tfbio.objectives import division
from tfbio.objectives.pretraining_run import PretrainingRun


@pytest.mark.parametrize(
    ("size", "parts", "at_once", "groups", "devices", "pieces", "said"),
    [
        (16, 1, 1, 1, 2, 2, ""),
        (15, 1, 1, 1, 2, 2, "15 does not divide by 2 devices."),
        (16, 16, 1, 1, 2, 32, "2 devices with run.gradient_accumulation_steps=16."),
        (15, 1, 2, 1, 1, 2, "15 does not divide by 1 devices with run.parallel_parts=2."),
        (16, 2, 2, 1, 1, 4, ""),
        (16, 2, 1, 4, 2, 8, ""),  # groups are over all devices
        (20, 1, 1, 5, 2, 5, "gradient_clip_groups 5 does not divide by 2 devices: give 2"),
        (16, 1, 1, 8, 3, 8, "16 does not divide by 3 devices with gradient_clip_groups=8."),
        (12, 4, 1, 4, 2, 16, "gradient_accumulation_steps=4 and gradient_clip_groups=4."),
    ],
)
def test_pieces(size, parts, at_once, groups, devices, pieces, said):
    run = PretrainingRun(gradient_accumulation_steps=parts, parallel_parts=at_once)
    made = dataclasses.replace(
        settings(train_batch_size=size), run=run, gradient_clip_groups=groups
    )
    assert division.pieces(made, devices) == pieces
    if said:
        with pytest.raises(UsageError) as error:
            division.check(made, devices)
        assert said in str(error.value)
    else:
        division.check(made, devices)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (PretrainingRun(parallel_parts=2), "run.parallel_parts works on one device"),
        (PretrainingRun(jit_compile=True), "run.jit_compile works on one device or on a TPU"),
    ],
)
def test_settings_of_one_device_are_refused_for_several(run, said):
    made = dataclasses.replace(settings(train_batch_size=16), run=run)
    division.check(made, 1)
    with pytest.raises(UsageError, match=said):
        division.check(made, 2)


@pytest.mark.parametrize(
    ("size", "begin", "groups", "devices", "enough", "least"),
    [
        (1000, 1, 1, 1, 17, 20),
        (1000, 1, 1, 1, 1, 1),
        (96, 2, 1, 8, 3, 3),
        (96, 4, 1, 8, 1, 4),
        (96, 1, 1, 8, 13, None),  # a device has 12 examples
        (48, 1, 4, 2, 5, 6),  # groups are over all devices
        (45, 1, 1, 2, 1, None),
    ],
)
def test_the_least_parts_that_fit(size, begin, groups, devices, enough, least):
    run = PretrainingRun(gradient_accumulation_steps=begin)
    made = dataclasses.replace(
        settings(train_batch_size=size), run=run, gradient_clip_groups=groups
    )
    found = division.least_parts(
        made, devices, lambda made: made.run.gradient_accumulation_steps >= enough
    )
    assert found == least


def test_a_tpu_compiles_whatever_is_set():
    made = dataclasses.replace(settings(train_batch_size=16), run=PretrainingRun(jit_compile=True))
    division.check(made, 8, compiles=True)
