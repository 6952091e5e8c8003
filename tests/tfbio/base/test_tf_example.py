"""`tf.train.Example` without TensorFlow, against TensorFlow itself."""

from tests.data_folders import DOCUMENT
from tfbio.base.shards import read_shard, write_shard
from tfbio.base.tf_example import parse_example, serialize_example

EXAMPLE = {"input_ids": [2, 30521, 3, 0], "input_mask": [1, 1, 1, 0], "segment_ids": [0] * 4}


def test_an_example_is_read_as_it_was_written():
    assert parse_example(serialize_example(EXAMPLE)) == EXAMPLE


def test_bytes_are_those_that_tensorflow_writes_and_reads(tmp_path):
    import tensorflow as tf

    serialized = [DOCUMENT.serialize(), serialize_example(EXAMPLE)]
    shard = write_shard(tmp_path / "ours", serialized)
    theirs = str(tmp_path / "theirs")
    with tf.io.TFRecordWriter(theirs) as writer:
        for record in serialized:
            writer.write(record)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()

    read = [x.numpy() for x in tf.data.TFRecordDataset(str(tmp_path / "ours"))]
    assert read == serialized == list(read_shard(tmp_path, shard))
    example = tf.train.Example.FromString(read[0])
    assert example.SerializeToString(deterministic=True) == read[0]
    assert example.features.feature["sentences"].bytes_list.value == [b"It is.", b"Is it?"]
    spec = {name: tf.io.FixedLenFeature([4], tf.int64) for name in EXAMPLE}
    parsed = tf.io.parse_single_example(read[1], spec)
    assert {name: list(value.numpy()) for name, value in parsed.items()} == EXAMPLE
