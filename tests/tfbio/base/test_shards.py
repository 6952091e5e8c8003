"""Shards that are damaged, cut short, or fail while they are written."""

import struct

import pytest

from tests.data_folders import folder_of
from tfbio.base.errors import DataError
from tfbio.base.shards import read_shard, write_shard


def test_reading_a_shard_never_ends_early_in_silence(tmp_path):
    manifest = folder_of(tmp_path / "d")
    path = tmp_path / "d" / manifest.shards[0].file
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError):
            list(read_shard(tmp_path / "d", manifest.shards[0]))
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DataError):
            list(read_shard(tmp_path / "d", manifest.shards[0]))


def test_a_record_longer_than_its_file_takes_no_memory(tmp_path):
    shard = write_shard(tmp_path / "a", [struct.pack("<Q", 1 << 50)])
    record = (tmp_path / "a").read_bytes()
    # The length and its checksum are those of the record, with which a file now begins.
    (tmp_path / "a").write_bytes(record[12:] + record)
    with pytest.raises(DataError, match="damaged or cut short at record 0"):
        list(read_shard(tmp_path, shard))


def test_what_fails_while_being_written_leaves_nothing(tmp_path):
    def broken():
        yield b"one"
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        write_shard(tmp_path / "shard", broken())
    assert not list(tmp_path.iterdir())
