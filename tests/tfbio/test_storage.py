import pytest

from tfbio import cli, storage


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    """A folder on this machine, or in a store whose objects are in this process's memory."""
    if request.param == "local":
        yield str(tmp_path)
    else:
        yield f"memory://{request.node.name.partition('[')[0]}"
        storage.remove_folder("memory://")


def test_a_file_appears_whole_or_not_at_all(folder):
    path = f"{folder}/a/b.bin"
    storage.at(folder, "a").mkdir(parents=True)
    with storage.written_whole(path) as stream:
        stream.write(b"first")
        assert not storage.at(path).exists()
    assert storage.at(path).read_bytes() == b"first" and storage.size(path) == 5
    with pytest.raises(KeyError), storage.written_whole(path) as stream:
        stream.write(b"second")
        raise KeyError
    assert storage.at(path).read_bytes() == b"first"
    assert [file.name for file in storage.at(folder, "a").iterdir()] == ["b.bin"]
    with storage.open_for_parts(path) as stream:
        stream.seek(2)
        assert stream.read(2) == b"rs"


def test_files_are_found_and_removed(folder):
    for name in ("a/1.xml", "a/b/2.xml", "3.txt"):
        storage.at(folder, name).parent.mkdir(parents=True, exist_ok=True)
        storage.at(folder, name).write_bytes(b"")
    (path,) = storage.find(f"{folder}/*/*.xml")
    assert path.endswith("/a/1.xml") and storage.at(path).is_file()
    assert len(storage.find(f"{folder}/**/*.xml")) == 2
    for _ in range(2):
        storage.remove_folder(f"{folder}/a")
        assert storage.find(f"{folder}/**/*.xml") == []
    assert storage.at(folder, "3.txt").exists()


def test_paths_for_other_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert storage.absolute("x") == str(tmp_path / "x")
    assert storage.absolute("gs://bucket/x") == "gs://bucket/x"


def test_unknown_stores_are_named():
    with pytest.raises(cli.UserError, match="nosuch://bucket/x cannot be used: .*nosuch"):
        storage.at("nosuch://bucket/x")
