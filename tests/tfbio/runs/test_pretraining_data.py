"""The order of the examples: every example once an epoch, and continued where it stopped."""

import dataclasses
import functools
import itertools
import shutil

import numpy as np
import pytest
import tensorflow as tf

from data_prep import examples
from data_prep.running import pipeline
from tfbio.base import storage
from tfbio.base.example_codec import parse_example
from tfbio.base.manifests import read_manifest
from tfbio.base.shards import DataError, read_shard
from tfbio.runs import pretraining_data

BATCH = 8


@pytest.fixture
def manifest(examples_folder):
    return read_manifest(examples_folder, "examples")


def batches(folder, manifest, first, last, seed=0):
    dataset = pretraining_data.training_dataset(
        str(folder), manifest, BATCH, seed, first_step=first, last_step=last
    )
    return [batch["input_ids"].numpy() for batch in itertools.islice(dataset, last - first)]


def test_an_epoch_holds_every_example_once(examples_folder, manifest):
    expected = [
        np.frombuffer(parse_example(record)["input_ids"][0], "<u2").tolist()
        for shard in manifest.shards_of("train")
        for record in read_shard(examples_folder, shard)
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


@pytest.fixture(scope="module")
def packed(documents_folder, vocab_file, tmp_path_factory):
    """Packed examples, of 64 tokens."""
    folder = str(tmp_path_factory.mktemp("packed") / "examples_64")
    settings = examples.ExampleSettings(
        sequence_length=64, packing=True, held_out_fraction=0.2, shards=2
    )
    return folder, examples.make_examples(
        documents_folder, vocab_file, folder, settings, runner=pipeline.Runner(workers=1)
    )


@pytest.mark.parametrize("hosts", [1, 2, 4, 16])
def test_the_rows_of_all_hosts_are_the_global_batch_and_each_decodes_its_own(
    packed, monkeypatch, hosts
):
    """At a batch of 4,096, from the first step and from a later one, and on held-out examples."""
    folder, manifest = packed
    decoded, parse_example = [], tf.io.parse_example

    def counted(serialized, spec):
        def count(records):
            decoded.append(len(records))
            return records

        counting = tf.numpy_function(count, [serialized], tf.string)
        return parse_example(tf.ensure_shape(counting, serialized.shape), spec)

    def batches_of(dataset_of, pipelines):
        """Of each step the rows of all hosts, and how many records the busiest of them decoded."""
        per_host, most = [], 0
        for host in range(pipelines):
            decoded.clear()
            context = tf.distribute.InputContext(pipelines, host, 8 * pipelines)
            dataset = dataset_of(context)
            per_host.append(list(dataset.as_numpy_iterator()))
            most = max(most, sum(decoded))
        steps = [
            {name: np.concatenate([rows[name] for rows in step]) for name in step[0]}
            for step in zip(*per_host, strict=True)
        ]
        return steps, most

    monkeypatch.setattr(tf.io, "parse_example", counted)
    training = functools.partial(pretraining_data.training_dataset, folder, manifest, 4096, 0)
    held_out = functools.partial(pretraining_data.held_out_dataset, folder, manifest, 64)
    from_first, from_third = functools.partial(training, 0, 3), functools.partial(training, 2, 3)
    for dataset_of, size in ((from_first, 4096), (from_third, 4096), (held_out, 64)):
        whole, records_read = batches_of(dataset_of, 1)
        shared, most = batches_of(dataset_of, hosts)
        assert len(shared) == len(whole) > 0
        for expected, found in zip(whole, shared, strict=True):
            assert set(expected) == set(pretraining_data.PACKED_FEATURES)
            for name, rows in expected.items():
                assert len(rows) == size
                np.testing.assert_array_equal(found[name], rows, name)
        assert 0 < most <= records_read / hosts + size
        if dataset_of is from_first:
            third = shared[2]["input_ids"]
        elif dataset_of is from_third:
            np.testing.assert_array_equal(shared[0]["input_ids"], third)


def by_hand(record, length):
    """What a record says, token by token."""
    example = parse_example(record)
    ids = np.frombuffer(example["input_ids"][0], "<u2")
    lengths = np.frombuffer(example["segment_lengths"][0], "<u2").tolist()
    columns = {name: [0] * length for name in pretraining_data.PACKED_FEATURES}
    columns["input_ids"] = ids.tolist()
    start = 0
    for document in range(len(lengths) // 2):
        first, second = lengths[2 * document : 2 * document + 2]
        for n in range(first + second):
            columns["input_mask"][start + n] = 1
            columns["segment_ids"][start + n] = int(n >= first)
            columns["document_ids"][start + n] = document + 1
            columns["position_ids"][start + n] = n
        start += first + second
    return columns


@pytest.mark.parametrize("packing", [False, True])
def test_features_are_what_the_record_says(documents_folder, vocab_file, tmp_path, packing):
    settings = examples.ExampleSettings(packing=packing, held_out_fraction=0.2, shards=1)
    runner = pipeline.Runner(workers=1)
    manifest = examples.make_examples(
        documents_folder, vocab_file, tmp_path / "out", settings, runner=runner
    )
    folder = str(tmp_path / "out")
    (shard,) = manifest.shards_of("heldout")
    expected = [by_hand(record, 128) for record in read_shard(folder, shard)]
    dataset = pretraining_data.held_out_dataset(folder, manifest, BATCH)
    names = pretraining_data.PACKED_FEATURES if packing else pretraining_data.FEATURES
    count = 0
    for batch in dataset.as_numpy_iterator():
        assert set(batch) == set(names)
        for row in range(BATCH):
            for name in names:
                assert batch[name][row].tolist() == expected[count][name], name
            count += 1
    assert count == len(expected) // BATCH * BATCH > 20
    assert all(spec.shape == [BATCH, 128] for spec in dataset.element_spec.values())
    counts = pretraining_data.word_counts(folder, manifest)
    (shard,) = manifest.shards_of("train")
    tokens = sum(sum(by_hand(r, 128)["input_mask"]) for r in read_shard(folder, shard))
    assert counts.sum() == tokens


@pytest.fixture(scope="module")
def original(vocab_file, tmp_path_factory):
    """A data folder as google-research/electra's build_pretraining_dataset.py leaves it."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "vocab.txt").write_bytes(vocab_file.read_bytes())
    (folder / "pretrain_tfrecords").mkdir()

    number = 0
    for index in range(11):
        path = folder / "pretrain_tfrecords" / f"pretrain_data.tfrecord-{index}-of-11"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _ in range(3 + index):
                number += 1
                ids = [2, *range(5, 5 + number % 50), 3]
                features = {
                    "input_ids": [*ids, number] + [0] * (63 - len(ids)),
                    "input_mask": [1] * (len(ids) + 1) + [0] * (63 - len(ids)),
                    "segment_ids": [0] * len(ids) + [1] + [0] * (63 - len(ids)),
                }
                example = tf.train.Example()
                for name, values in features.items():
                    example.features.feature[name].int64_list.value.extend(values)
                writer.write(example.SerializeToString())
    return folder / "pretrain_tfrecords"


def test_examples_of_the_original_code_are_read_in_an_order_of_their_own(original, vocab_file):
    for given in (str(original), f"{original}/pretrain_data.tfrecord*"):
        data = pretraining_data.find_examples([given], [64], 2000)
        folder, manifest = data[64]
        # Files 0 to 9 in the order of their numbers: 3 + ... + 12; the last is held out.
        assert [shard.records for shard in manifest.shards_of("train")] == list(range(3, 13))
        assert [shard.records for shard in manifest.shards_of("heldout")] == [13]
        assert manifest.settings["vocab_sha256"] == storage.sha256_of(vocab_file)
        whole = batches(folder, manifest, 0, 25)  # 75 examples an epoch
        read = np.concatenate(whole)
        assert len(set(map(tuple, read[:75].tolist()))) == 75
        assert sorted(map(tuple, read[:75].tolist())) == sorted(map(tuple, read[75:150].tolist()))
        np.testing.assert_array_equal(batches(folder, manifest, 13, 25), whole[13:])
        held_out = next(iter(pretraining_data.held_out_dataset(folder, manifest, BATCH)))
        assert not set(map(tuple, held_out["input_ids"].numpy())) & set(map(tuple, read.tolist()))
        assert (held_out["segment_ids"].numpy().sum(axis=1) == 1).all()
        assert pretraining_data.word_counts(folder, manifest).sum() > 0


def test_bad_examples_of_the_original_code_are_refused(original, tmp_path):
    def find(given, words=2000):
        return pretraining_data.find_examples([str(given)], [64], words)

    with pytest.raises(DataError, match=r"has token \d+: give its size"):
        find(original, 7)
    with pytest.raises(DataError, match="no file matches"):
        find(tmp_path / "*.tfrecord")
    with pytest.raises(DataError, match=r"has no manifest.json"):
        find(tmp_path)
    folder = tmp_path / "data" / "pretrain_tfrecords"
    shutil.copytree(original, folder)
    with pytest.raises(DataError, match=r"has no vocab.txt, nor has the folder above"):
        find(folder)
    shutil.copy(original.parent / "vocab.txt", folder)
    one, manifest = find(f"{folder}/*-0-of-11")[64]
    with pytest.raises(DataError, match="no held-out examples"):
        pretraining_data.held_out_dataset(one, manifest, BATCH)
    path = folder / "pretrain_data.tfrecord-3-of-11"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match="cut short after record 5"):
        find(folder)
    path.unlink()
    with pytest.raises(DataError, match="holds 10 of 11 files"):
        find(folder)


def test_a_shard_that_was_cut_is_named(examples_folder, manifest, tmp_path):
    folder = tmp_path / "examples"
    shutil.copytree(examples_folder, folder)
    shard = manifest.shards_of("train")[0]
    path = folder / shard.file
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=f"{shard.file} has .* bytes instead of"):
        pretraining_data.find_examples([str(folder)], [64], manifest.settings["vocab_size"])


def test_what_does_not_fit_the_settings_is_refused(examples_folder, manifest):
    words = manifest.settings["vocab_size"]
    find = pretraining_data.find_examples
    with pytest.raises(DataError, match=r"of length 128, but --examples gives \[64\]"):
        find([str(examples_folder)], [128], words)
    with pytest.raises(DataError, match=f"--set encoder.vocab_size={words}"):
        find([str(examples_folder)], [64], words + 1)
    with pytest.raises(DataError, match="fewer than one batch of 4096"):
        pretraining_data.held_out_dataset(str(examples_folder), manifest, 4096)
    empty = dataclasses.replace(manifest, shards=[])
    with pytest.raises(DataError, match="no training examples"):
        pretraining_data.training_dataset(str(examples_folder), empty, BATCH, 0, 0, 5)
