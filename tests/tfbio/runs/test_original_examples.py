"""Examples of the original ELECTRA code, which have no manifest."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.tfbio.runs.test_pretraining_data import BATCH, batches
from tfbio.base import storage
from tfbio.base.errors import DataError, UserError
from tfbio.runs import pretraining_data


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
        ((folder, manifest),) = data
        # Files 0 to 9 in the order of their numbers: 3 + ... + 12; the last is held out.
        assert [shard.records for shard in manifest.shards_of("train")] == list(range(3, 13)), given
        assert [shard.records for shard in manifest.shards_of("heldout")] == [13], given
        assert manifest.settings["vocab_sha256"] == storage.sha256_of(vocab_file), given
        assert manifest.settings["lower_case"] is True, given
        whole = batches(folder, manifest, 0, 25)  # 75 examples an epoch
        read = np.concatenate(whole)
        assert len(set(map(tuple, read[:75].tolist()))) == 75, given
        assert sorted(map(tuple, read[:75].tolist())) == sorted(
            map(tuple, read[75:150].tolist())
        ), given
        np.testing.assert_array_equal(batches(folder, manifest, 13, 25), whole[13:])
        held_out = next(iter(pretraining_data.held_out_dataset(folder, manifest, BATCH)))
        assert not set(map(tuple, held_out["input_ids"].numpy())) & set(
            map(tuple, read.tolist())
        ), given
        assert (held_out["segment_ids"].numpy().sum(axis=1) == 1).all(), given
        tokens = sum(3 + number % 50 for number in range(1, 76))  # of all shards
        assert pretraining_data.word_counts(folder, manifest).sum() == tokens, given


def test_examples_of_the_original_code_are_cased_where_their_vocabulary_is(original, tmp_path):
    folder = tmp_path / "data" / "pretrain_tfrecords"
    shutil.copytree(original, folder)
    words = (original.parent / "vocab.txt").read_text().split("\n")
    cased = [x.capitalize() if x.isascii() and x[:1] != "[" else x for x in words]
    (folder / "vocab.txt").write_text("\n".join(cased))
    ((_, manifest),) = pretraining_data.find_examples([str(folder)], [64], 2000)
    assert manifest.settings["lower_case"] is False


def test_bad_examples_of_the_original_code_are_refused(original, tmp_path):
    def find(given, words=2000):
        return pretraining_data.find_examples([str(given)], [64], words)

    with pytest.raises(DataError, match=r"has token \d+: give its size"):
        find(original, 7)
    with pytest.raises(DataError, match=r"vocab.txt has \d+ tokens, and the settings say 60: give"):
        find(original, 60)
    with pytest.raises(DataError, match="no file matches"):
        find(tmp_path / "*.tfrecord")
    with pytest.raises(DataError, match=r"has no manifest.json"):
        find(tmp_path)
    for features, words in (
        (None, "files hold no examples"),
        ({"ids": [1, 2]}, "does not hold examples of the original ELECTRA code, .*, but ids"),
    ):
        for number in range(2):
            path = tmp_path / f"other.tfrecord-{number}-of-2"
            with tf.io.TFRecordWriter(str(path)) as writer:
                if features:
                    example = tf.train.Example()
                    for name, values in features.items():
                        example.features.feature[name].int64_list.value.extend(values)
                    writer.write(example.SerializeToString())
        with pytest.raises(DataError, match=words):
            find(tmp_path / "other.tfrecord-*")
    folder = tmp_path / "data" / "pretrain_tfrecords"
    shutil.copytree(original, folder)
    with pytest.raises(DataError, match=r"has no vocab.txt, nor has the folder above"):
        find(folder)
    shutil.copy(original.parent / "vocab.txt", folder)
    with pytest.raises(DataError, match="-0-of-11 is the only file of examples: give two files"):
        find(f"{folder}/*-0-of-11")
    (folder / "vocab.txt").write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"vocab.txt is not .*: it is not text in UTF-8"):
        find(folder)
    path = folder / "pretrain_data.tfrecord-3-of-11"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match="cut short after record 5"):
        find(folder)
    path.unlink()
    with pytest.raises(DataError, match="holds 10 of 11 files"):
        find(folder)
