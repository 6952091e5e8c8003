"""Manifests, and folders of data that are not whole."""

import pytest

from tests.data_folders import folder_of
from tfbio.base.errors import DataError
from tfbio.base.manifests import (
    load_manifest,
    read_manifest,
    verify,
)
from tfbio.base.shards import read_shard


def test_a_folder_is_read_as_it_was_written(tmp_path):
    manifest = folder_of(tmp_path / "d")
    assert read_manifest(tmp_path / "d", "documents") == manifest
    verify(tmp_path / "d", manifest, full=True)
    (train,) = manifest.shards_of("train")
    assert list(read_shard(tmp_path / "d", train)) == [b"one", b"two", b"three"]
    assert not list(tmp_path.glob("**/*.tmp"))


def test_data_that_is_not_whole_is_refused(tmp_path):
    def refuses(expected, folder=tmp_path / "d", kind="documents", full=False):
        with pytest.raises(DataError, match=expected) as caught:
            manifest = read_manifest(folder, kind)
            verify(folder, manifest, full)
            for shard in manifest.shards:
                list(read_shard(folder, shard))
        assert "\n" not in str(caught.value)

    folder = tmp_path / "d"
    refuses("there is no folder .*data_prep.documents")
    folder.mkdir()
    refuses("no manifest.json.*data_prep.documents")
    (folder / "manifest.json").write_text('{"kind": "documents"')
    refuses("not a manifest")
    (folder / "manifest.json").write_text("[]")
    refuses("not a manifest")
    folder_of(folder)
    refuses("describes documents, but examples were expected", kind="examples")

    path = folder / "documents-00000-of-00002.tfrecord"
    whole = path.read_bytes()
    for size in range(len(whole)):  # cut anywhere, between records too
        path.write_bytes(whole[:size])
        refuses(f"{size} bytes instead of {len(whole)}")
    path.write_bytes(whole[:-8] + b"x" * 8)
    refuses("damaged or cut short at record 2")
    refuses(r"damaged \(its SHA-256 differs\)", full=True)
    path.unlink()
    refuses("is missing, although the manifest names it")


SHARD = '{"file": %s, "records": 1, "bytes": 1, "sha256": ""}'


WHOLE = '{"kind": "documents", "settings": %s, "counts": {}, "shards": [%s]}'


@pytest.mark.parametrize("text", ["[" * 100_000, WHOLE % ("{}", SHARD % "NaN"), WHOLE % ("[]", "")])
def test_a_manifest_of_another_form_is_refused(text, tmp_path):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match="is not a manifest"):
        load_manifest(tmp_path / "manifest.json", "documents")
