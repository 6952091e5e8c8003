"""A document, and a small folder of data with its manifest."""

from tfbio.base.document_records import Document
from tfbio.base.manifests import (
    MANIFEST,
    Manifest,
    write_manifest,
)
from tfbio.base.shards import write_shard

DOCUMENT = Document(
    "pmid:1", "a.xml.gz", "On p\u2080 \U0001f9ec", ["It is.", "Is it?"], ["", "METHODS"]
)


def folder_of(path, content=(b"one", b"two", b"three")):
    """Writes a finished folder of "documents" with two shards, and returns its manifest."""
    path.mkdir(exist_ok=True)
    shards = [
        write_shard(path / "documents-00000-of-00002.tfrecord", content, "train"),
        write_shard(path / "documents-00001-of-00002.tfrecord", [], "heldout"),
    ]
    manifest = Manifest("documents", {"a": 1}, {"documents": 3}, shards)
    write_manifest(path / MANIFEST, manifest)
    return manifest
