"""Pretraining examples as records: the numbers in them, and their size."""

import numpy as np
import pytest

from tfbio.base.example_records import ExampleFormat
from tfbio.base.tf_example import parse_example, serialize_example


@pytest.mark.parametrize(("vocab_size", "id_type"), [(1 << 16, "<u2"), ((1 << 16) + 1, "<i4")])
@pytest.mark.parametrize("objective", ["none", "next_sentence"])
def test_a_record_holds_the_numbers_of_its_row(vocab_size, id_type, objective):
    own = ExampleFormat.of(
        {
            "sequence_length": 5,
            "vocab_size": vocab_size,
            "documents_per_example": 2,
            "objective": objective,
        }
    )
    rows = np.zeros(3, own.row_type)
    rows["input_ids"] = np.arange(15).reshape(3, 5) + vocab_size - 15
    rows["segment_lengths"] = np.arange(12).reshape(3, 4)
    if objective == "next_sentence":
        rows["label"] = [0, 1, 0]
    records = list(own.serialize(rows))
    assert len(set(map(len, records))) == 1
    for record, row in zip(records, rows, strict=True):
        features = parse_example(record)
        assert features.keys() == set(own.row_type.names), row
        np.testing.assert_array_equal(
            np.frombuffer(features["input_ids"][0], id_type), row["input_ids"]
        )
        np.testing.assert_array_equal(
            np.frombuffer(features["segment_lengths"][0], "<u2"), row["segment_lengths"]
        )
        if own.labelled:
            assert features["label"] == [row["label"]]


@pytest.mark.parametrize("vocab_size", [2000, 100_000])
@pytest.mark.parametrize("labelled", [False, True])
def test_records_are_those_of_protobuf(vocab_size, labelled):
    form = ExampleFormat(300, vocab_size, 5, labelled)
    rng = np.random.default_rng(0)
    rows = np.frombuffer(rng.bytes(7 * form.row_type.itemsize), form.row_type).copy()
    if labelled:
        rows["label"] %= 2
    for row, record in zip(rows, form.serialize(rows), strict=True):
        features = {name: [row[name].tobytes()] for name in ("input_ids", "segment_lengths")}
        if labelled:
            features["label"] = [int(row["label"])]
        assert record == serialize_example(features), row


def test_a_shard_of_more_rows_than_are_made_at_once_is_whole():
    form = ExampleFormat(2, 10_000, 1, False)
    rows = np.zeros(4100, form.row_type)
    rows["input_ids"][:, 0] = np.arange(4100)
    records = list(form.serialize(rows))
    ids = [np.frombuffer(parse_example(x)["input_ids"][0], "<u2")[0] for x in records]
    assert ids == list(range(4100))
