"""The order of the examples: every example once an epoch, and continued where it stopped."""

import dataclasses
import itertools
import shutil

import numpy as np
import pytest

from tfbio import pretraining_data, records

BATCH = 8


@pytest.fixture
def manifest(examples_folder):
    return records.read_manifest(examples_folder, "examples")


def batches(folder, manifest, first, last, seed=0):
    dataset = pretraining_data.training_dataset(
        str(folder), manifest, BATCH, seed, first_step=first, last_step=last
    )
    return [batch["input_ids"].numpy() for batch in itertools.islice(dataset, last - first)]


def test_an_epoch_holds_every_example_once(examples_folder, manifest):
    expected = [
        records.parse_example(record)["input_ids"]
        for shard in manifest.shards_of("train")
        for record in records.read_shard(examples_folder, shard)
    ]
    steps = len(expected) // BATCH
    read = np.concatenate(batches(examples_folder, manifest, 0, steps)).tolist()
    assert len(read) > len(expected) - BATCH
    assert read != expected[: len(read)]
    left_out = sorted(map(tuple, expected))
    for row in map(tuple, read):
        left_out.remove(row)
    assert len(left_out) == len(expected) - len(read)


def test_continues_at_any_step_with_the_same_batches(examples_folder, manifest):
    epoch = sum(shard.records for shard in manifest.shards_of("train")) // BATCH
    last = 2 * epoch + 5
    whole = batches(examples_folder, manifest, 0, last)
    for first in (1, epoch // 2, epoch, epoch + 1, last - 1):
        continued = batches(examples_folder, manifest, first, last)
        assert len(continued) == last - first
        np.testing.assert_array_equal(continued, whole[first:])


def test_epochs_and_seeds_have_orders_of_their_own(examples_folder, manifest):
    epoch = sum(shard.records for shard in manifest.shards_of("train")) // BATCH
    whole = batches(examples_folder, manifest, 0, 2 * epoch)
    assert (whole[0] != whole[epoch]).any()
    assert (whole[0] != batches(examples_folder, manifest, 0, 1, seed=1)[0]).any()


def test_batches_are_static_int32(examples_folder, manifest):
    for dataset in (
        pretraining_data.training_dataset(str(examples_folder), manifest, BATCH, 0, 0, 5),
        pretraining_data.held_out_dataset(str(examples_folder), manifest, BATCH),
    ):
        for name in pretraining_data.FEATURES:
            spec = dataset.element_spec[name]
            assert spec.shape == [BATCH, 64] and spec.dtype == "int32"


def test_a_shard_that_was_cut_is_named(examples_folder, manifest, tmp_path):
    folder = tmp_path / "examples"
    shutil.copytree(examples_folder, folder)
    shard = manifest.shards_of("train")[0]
    path = folder / shard.file
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(records.DataError, match=f"{shard.file} has .* bytes instead of"):
        pretraining_data.find_examples([str(folder)], [64], manifest.settings["vocab_size"])


def test_what_does_not_fit_the_settings_is_refused(examples_folder, manifest):
    words = manifest.settings["vocab_size"]
    find = pretraining_data.find_examples
    with pytest.raises(records.DataError, match=r"of length 128, but --examples gives \[64\]"):
        find([str(examples_folder)], [128], words)
    with pytest.raises(records.DataError, match=f"--set encoder.vocab_size={words}"):
        find([str(examples_folder)], [64], words + 1)
    with pytest.raises(records.DataError, match="fewer than one batch of 4096"):
        pretraining_data.held_out_dataset(str(examples_folder), manifest, 4096)
    empty = dataclasses.replace(manifest, shards=[])
    with pytest.raises(records.DataError, match="no training examples"):
        pretraining_data.training_dataset(str(examples_folder), empty, BATCH, 0, 0, 5)
