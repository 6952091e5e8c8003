import pytest

from data_prep.selection import document_shards
from data_prep.sentences import splitters
from tfbio.base import errors


def test_a_worker_with_other_versions_writes_nothing(tmp_path):
    name, version = splitters.resolve("auto")
    for there, said in (
        ((name, False, "0.0.9"), f"this worker has {name} {version}, and .* {name} 0.0.9: install"),
        ((name, False, version, "0.0.8"), "has tfbio .*, and .* given tfbio 0.0.8: install"),
    ):
        writer = document_shards.Writer(str(tmp_path), *there)
        with pytest.raises(errors.DataError, match=said):
            document_shards.write((0, {"newest": [], "duplicates": []}), [], writer)
    assert not list(tmp_path.iterdir())
