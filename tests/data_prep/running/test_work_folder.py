import dataclasses
import json

import pytest

from data_prep.running import work_folder
from tfbio.base.errors import DataError
from tfbio.base.manifests import MANIFEST, Manifest
from tfbio.base.shards import write_shard


def finish(folder, settings, shards=("documents-00000-00000.tfrecord",)):
    """Makes a folder as a finished stage leaves it; returns its manifest."""
    work = work_folder.open_work(folder, "documents", settings, overwrite=False)
    written = [write_shard(folder / name, [name.encode()]) for name in shards]
    for shard in written:
        work_folder.write_step(work, shard.file, {"shard": dataclasses.asdict(shard)})
    manifest = Manifest("documents", settings, {}, written)
    work_folder.close_work(folder, manifest)
    return manifest


def test_finished_work_is_known_by_its_settings(tmp_path):
    settings = {"languages": ("eng",), "min_words": 3}  # JSON has no tuples
    path = tmp_path / MANIFEST
    assert work_folder.finished(path, "documents", settings, False) is None
    finish(tmp_path, settings)
    assert work_folder.finished(path, "documents", settings, False).kind == "documents"
    assert work_folder.finished(path, "documents", settings, overwrite=True) is None
    # Examples that are written into the folder of their documents would replace these.
    with pytest.raises(DataError, match="holds documents, which examples do not replace"):
        work_folder.finished(path, "examples", settings, overwrite=True)
    with pytest.raises(DataError, match="min_words=3, not 4: add --overwrite"):
        work_folder.finished(path, "documents", settings | {"min_words": 4}, False)
    with pytest.raises(DataError, match="new_setting=null, not 1"):
        work_folder.finished(path, "documents", settings | {"new_setting": 1}, False)
    with pytest.raises(DataError, match="not \\[1, 1, .*\\.\\.\\.: add") as caught:
        work_folder.finished(path, "documents", settings | {"languages": [1] * 1000}, False)
    assert len(str(caught.value)) < 1000
    with pytest.raises(DataError, match="describes documents, but examples"):
        work_folder.finished(path, "examples", settings, False)
    (shard,) = tmp_path.glob("*.tfrecord")
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(DataError, match="bytes instead of .* --overwrite"):
        work_folder.finished(path, "documents", settings, False)
    shard.unlink()
    with pytest.raises(DataError, match="is missing"):
        work_folder.finished(path, "documents", settings, False)


def test_a_run_killed_after_its_manifest_leaves_nothing(tmp_path):
    (shard,) = finish(tmp_path, {"a": 1}).shards
    (tmp_path / work_folder.WORK).mkdir()
    (tmp_path / work_folder.WORK / "settings.json").touch()
    (tmp_path / "train-00000-of-00001.tfrecord.1.tmp").touch()
    assert work_folder.finished(tmp_path / MANIFEST, "documents", {"a": 1}, False)
    assert {path.name for path in tmp_path.iterdir()} == {MANIFEST, shard.file}


def test_work_goes_on_with_the_same_settings_and_anew_with_others(tmp_path):
    finish(tmp_path, {"a": 1}, ["documents-00000-00000.tfrecord", "train-00000-of-00001.tfrecord"])
    (tmp_path / "notes.txt").write_text("the user's")
    assert work_folder.read_steps(tmp_path / work_folder.WORK, "documents") == []
    work = work_folder.open_work(tmp_path, "documents", {"a": 2}, overwrite=False)
    # Nothing of the run before can be taken for this one's.
    assert sorted(path.name for path in tmp_path.iterdir()) == [".work", "notes.txt"]
    work_folder.write_step(work, "b", {"n": 2})
    work_folder.write_step(work, "a", {"n": 1})
    (work / "a2.json.tmp").write_text("half of a no")
    assert work_folder.open_work(tmp_path, "documents", {"a": 2}, overwrite=False) == work
    assert work_folder.read_steps(work, "")[:2] == [{"n": 1}, {"n": 2}]
    assert work_folder.read_steps(work, "b") == [{"n": 2}]
    work_folder.open_work(tmp_path, "documents", {"a": 3}, overwrite=False)
    assert work_folder.read_steps(work, "a") == []
    work_folder.write_step(work, "a", {})
    # --overwrite replaces what is finished; what an interrupted run with it left goes on.
    work_folder.open_work(tmp_path, "documents", {"a": 3}, overwrite=True)
    assert work_folder.read_steps(work, "a") == [{}]
    (tmp_path / MANIFEST).touch()
    work_folder.open_work(tmp_path, "documents", {"a": 3}, overwrite=True)
    assert work_folder.read_steps(work, "a") == []
    assert not (tmp_path / MANIFEST).exists()


def test_work_of_another_version_is_not_continued(tmp_path, monkeypatch):
    work = work_folder.open_work(tmp_path, "documents", {"a": 1}, overwrite=False)
    work_folder.write_step(work, "a", {"n": 1})
    monkeypatch.setattr("tfbio.__version__", "next")
    work_folder.open_work(tmp_path, "documents", {"a": 1}, overwrite=False)
    assert work_folder.read_steps(work, "a") == []


def test_what_no_stage_has_written_is_not_removed(tmp_path):
    for name in ("train-00000-of-00016.tfrecord", "left_out.jsonl"):
        folder = tmp_path / name[:4]
        folder.mkdir()
        (folder / name).write_bytes(b"somebody's")
        with pytest.raises(DataError, match=f"{name} is there, and not of this command.*--overwr"):
            work_folder.open_work(folder, "examples", {}, overwrite=False)
        assert (folder / name).read_bytes() == b"somebody's"
        work_folder.open_work(folder, "examples", {}, overwrite=True)
        assert [path.name for path in folder.iterdir()] == [work_folder.WORK]


@pytest.mark.parametrize("overwrite", [False, True])
def test_unfinished_work_of_another_stage_is_not_removed(overwrite, tmp_path):
    work = work_folder.open_work(tmp_path, "documents", {}, overwrite=False)
    (tmp_path / "documents-00000-00000.tfrecord").touch()
    work_folder.write_step(work, "input-0", {"n": 1})
    with pytest.raises(DataError, match="holds unfinished documents, which examples do not replac"):
        work_folder.open_work(tmp_path, "examples", {}, overwrite)
    assert work_folder.read_steps(work, "input") == [{"n": 1}]
    assert (tmp_path / "documents-00000-00000.tfrecord").exists()
    # Of a version that did not note what it writes, it is this stage's, which goes on.
    noted = json.loads((work / "settings.json").read_text())
    assert noted.pop("kind") == "documents"
    (work / "settings.json").write_text(json.dumps(noted))
    work_folder.open_work(tmp_path, "documents", {}, overwrite)
    assert work_folder.read_steps(work, "input") == [{"n": 1}]
    (work / "settings.json").write_text("damaged")
    work_folder.open_work(tmp_path, "documents", {}, overwrite)
    assert work_folder.read_steps(work, "input") == []


def test_a_failed_stage_leaves_no_folder_but_keeps_what_is_not_its_own(tmp_path):
    for others in ([], ["notes.txt"]):
        work_folder.open_work(tmp_path / "out", "documents", {}, overwrite=False)
        for name in others:
            (tmp_path / "out" / name).touch()
        (tmp_path / "out" / "train-00000-of-00001.tfrecord.1.tmp").touch()
        (tmp_path / "out" / "train-00000-of-00001.tfrecord").touch()
        work_folder.close_work(tmp_path / "out", None)
        assert (tmp_path / "out").exists() == bool(others)
        assert [path.name for path in tmp_path.glob("out/*")] == others


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    for output in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(DataError, match=f"cannot write to {output}: .*\\.$"):
            work_folder.open_work(output, "documents", {}, overwrite=False)


def test_a_shard_is_done_only_as_it_was_written(tmp_path):
    work = work_folder.open_work(tmp_path, "documents", {}, overwrite=False)
    name = "train-00000-of-00001.tfrecord"
    assert not work_folder.shard_is_done(tmp_path, name)
    shard = write_shard(tmp_path / name, [b"one"])
    assert not work_folder.shard_is_done(tmp_path, name)  # it was not noted
    work_folder.write_step(work, name, {"shard": dataclasses.asdict(shard)})
    assert work_folder.shard_is_done(tmp_path, name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[:-1] + b"\0")
    assert not work_folder.shard_is_done(tmp_path, name)
    (tmp_path / name).write_bytes(data)
    for damaged in ("", "[]", "{}", '{"shard": {"file": 1}}'):
        (work / f"{name}.json").write_text(damaged)
        assert not work_folder.shard_is_done(tmp_path, name)
