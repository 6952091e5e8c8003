import errno
import os

import pytest

from data_prep.readers import input_files
from tests.data_prep.locked_folders import refuse_locked
from tfbio.base import errors, file_paths, storage


def test_inputs_are_found(tmp_path, capsys):
    for name in ("b/x.xml", "a/y.XML.GZ", "a/notes.txt", "a/y.xml.gz.md5"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folder, pattern = input_files.find_files([str(tmp_path)]), str(tmp_path / "b/*.xml")
    assert [os.path.basename(path) for path in folder] == ["x.xml", "y.XML.GZ"]
    assert "files of other kinds are skipped: 1 of .md5, 1 of .txt" in capsys.readouterr().out
    assert input_files.find_files([pattern, pattern]) == [str(tmp_path / "b/x.xml")]
    (tmp_path / "empty").mkdir()
    for missing, what in (("gone.xml", "does not exist"), ("empty", "holds no .xml")):
        with pytest.raises(errors.UserError, match=what):
            input_files.find_files([str(tmp_path / missing)])


def test_a_glob_may_match_folders(tmp_path, capsys):
    for name in ("in/a.txt", "in/base/x.xml", "in/base/y.csv", "in/update/deep/z.xml.gz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(pattern):
        paths = input_files.find_files([str(tmp_path / pattern)])
        return [os.path.relpath(path, tmp_path / "in") for path in paths]

    assert found("in/*") == ["a.txt", "base/x.xml", "update/deep/z.xml.gz"]
    assert "base: files of other kinds are skipped: 1 of .csv" in capsys.readouterr().out
    assert found("in/*e") == ["base/x.xml", "update/deep/z.xml.gz"]
    # It matches the files themselves, of whatever name.
    assert found("in/**") == ["a.txt", "base/x.xml", "base/y.csv", "update/deep/z.xml.gz"]


def test_folders_behind_links_are_read_once(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deeper").mkdir(parents=True)
    (elsewhere / "deeper" / "a.xml").touch()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/first").symlink_to(elsewhere)
    (tmp_path / "in/second").symlink_to(elsewhere)
    (elsewhere / "deeper" / "back").symlink_to(tmp_path / "in")
    assert input_files.find_files([str(tmp_path / "in")]) == [
        str(tmp_path / "in/first/deeper/a.xml")
    ]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    (tmp_path / "in/locked").mkdir(parents=True)
    monkeypatch.setattr(os, "scandir", refuse_locked(os.scandir))
    with pytest.raises(errors.UserError, match="--input: .*in/locked cannot be listed: Perm"):
        input_files.find_files([str(tmp_path / "in")])


@pytest.mark.parametrize("count", [2, 30])
def test_sizes_and_times_of_an_object_stores_files(count, monkeypatch):
    folder = "memory://statuses"
    for number in range(count):
        file_paths.at(folder, f"{number}.xml").write_bytes(b"x" * number)
    files = type(file_paths.address(folder).fs)
    paths = input_files.find_files([folder])
    before = input_files.statuses([*paths, f"{folder}/gone.xml"])
    numbers = [int(os.path.basename(path).removesuffix(".xml")) for path in paths]
    assert [status.size for status in before[:-1]] == numbers
    assert before[-1] == (0, "0") and all(float(status.time) for status in before[:-1])

    def fail(*_, **__):
        raise OSError(errno.EIO, "the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(files, "info", fail)
        if count == 30:  # one listing tells it
            assert input_files.statuses(paths) == before[:-1]
        patched.setattr(files, "ls", fail)
        with pytest.raises(OSError, match="does not answer"):
            input_files.statuses(paths)
    storage.remove_folder(folder)


def test_sizes_and_times_of_local_files(tmp_path, monkeypatch):
    path = tmp_path / "a.xml"
    path.write_bytes(b"xyz")
    (tmp_path / "circle").symlink_to("circle")
    paths = [str(path), str(tmp_path / "gone"), str(tmp_path / "circle")]
    time = str(path.stat().st_mtime_ns)
    assert input_files.statuses(paths) == [(3, time), (0, "0"), (0, "0")]

    def fail(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(input_files.os, "stat", fail)
    with pytest.raises(OSError, match="Input/output"):
        input_files.statuses(paths)
