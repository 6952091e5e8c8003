import contextlib
import dataclasses

import pytest

from data_prep import documents, examples
from data_prep.running import pipeline, work_folder
from tests.data_prep.pubmed_articles import article, article_set
from tfbio.base.errors import DataError
from tfbio.base.manifests import MANIFEST, Manifest
from tfbio.base.shards import write_shard

ONE_WORKER = pipeline.Runner(workers=1)


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
    work = work_folder.open_work(tmp_path, "documents", {"a": 2}, overwrite=False)
    # Nothing of the run before can be taken for this one's.
    assert sorted(path.name for path in tmp_path.iterdir()) == [".work", "notes.txt"]
    assert work_folder.read_steps(work, "") == []
    work_folder.write_step(work, "b", {"n": 2})
    work_folder.write_step(work, "a", {"n": 1})
    (work / "a2.json.tmp").write_text("half of a no")
    assert work_folder.open_work(tmp_path, "documents", {"a": 2}, overwrite=False) == work
    assert work_folder.read_steps(work, "") == [{"n": 1}, {"n": 2}]
    assert work_folder.read_steps(work, "b") == [{"n": 2}]
    work = work_folder.open_work(tmp_path, "documents", {"a": 3}, overwrite=False)
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
    (tmp_path / "documents-00000-00000.tfrecord").touch()
    work = work_folder.open_work(tmp_path, "documents", {"a": 1}, overwrite=False)
    assert work_folder.read_steps(work, "a") == []
    assert [path.name for path in tmp_path.iterdir()] == [work_folder.WORK]


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
    work_folder.open_work(tmp_path, "documents", {}, overwrite)
    assert work_folder.read_steps(work, "input") == [{"n": 1}]
    (work.parent / "settings.json").write_text("damaged")
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
    assert not work_folder.shard_is_done(work, name)
    shard = write_shard(tmp_path / name, [b"one"])
    assert not work_folder.shard_is_done(work, name)  # it was not noted
    work_folder.write_step(work, name, {"shard": dataclasses.asdict(shard)})
    assert work_folder.shard_is_done(work, name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[:-1] + b"\0")
    assert not work_folder.shard_is_done(work, name)
    (tmp_path / name).write_bytes(data)
    for damaged in ("", "[]", "{}", '{"shard": {"file": 1}}'):
        (work / f"{name}.json").write_text(damaged)
        assert not work_folder.shard_is_done(work, name)


def test_of_notes_that_are_seen_late_none_is_lost(tmp_path):
    work = work_folder.open_work(tmp_path, "documents", {}, overwrite=False)
    for name in ("input-1", "input-0"):
        work_folder.write_step(work, name, {"name": name})
    assert work_folder.read_all_steps(work, "documents", 0) == []
    notes = work_folder.read_all_steps(work, "input", 2)
    assert [note["name"] for note in notes] == ["input-0", "input-1"]
    said = f"2 of 3 input steps are to be seen in {tmp_path}: run the same command again"
    with pytest.raises(DataError, match=said):
        work_folder.read_all_steps(work, "input", 3)


# --- The job of a killed run, which lives on in a cluster -----------------------------------------


def test_a_shard_of_an_earlier_run_does_not_get_its_name(tmp_path):
    shard = tmp_path / "documents-00000-00000.tfrecord"

    def write(work):
        write_shard(shard, work_folder.unless_replaced(work, [b"one", b"two"]))

    earlier = work_folder.open_work(tmp_path, "documents", {"a": 1}, overwrite=False)
    write(earlier)
    work_folder.open_work(tmp_path, "documents", {"a": 1}, overwrite=False)
    write(earlier)  # it is continued
    work = work_folder.open_work(tmp_path, "documents", {"a": 2}, overwrite=False)
    with pytest.raises(FileNotFoundError):
        work_folder.write_step(earlier, "input-0", {})
    earlier.mkdir()  # as in an object store, where folders need not be made
    work_folder.write_step(earlier, "input-0", {})
    for is_over in (False, True):
        if is_over:
            work_folder.close_work(tmp_path, Manifest("documents", {"a": 2}, {}, []))
        else:
            assert work_folder.read_steps(work, "input") == []
        with pytest.raises(DataError, match=f"another command has begun in {tmp_path}, or this"):
            write(earlier)
        assert not list(tmp_path.glob("documents-*"))


@pytest.fixture
def job_lives_on(monkeypatch):
    """Ends the first run where its pipeline starts, which then runs before the second run's."""
    run, jobs = pipeline.run, []

    def start(add_steps, *rest):
        jobs.append(add_steps)
        if len(jobs) == 1:
            raise KeyboardInterrupt
        with contextlib.suppress(Exception):  # it misses its working folder
            run(jobs[0], ONE_WORKER, contextlib.nullcontext())
        run(add_steps, *rest)

    monkeypatch.setattr(pipeline, "run", start)


@pytest.mark.usefixtures("job_lives_on")
def test_what_the_job_of_an_earlier_run_has_read_is_read_again(tmp_path):
    source = article_set(tmp_path / "a.xml", article(1, "one"), article(2, "two"))

    def make(most):
        settings = documents.DocumentSettings(sentence_splitter="scispacy", max_articles=most)
        return documents.make_documents([source], tmp_path / "out", settings, runner=ONE_WORKER)

    with pytest.raises(KeyboardInterrupt):
        make(1)
    assert make(2).counts["documents"] == 2


@pytest.mark.usefixtures("job_lives_on")
def test_examples_that_the_job_of_an_earlier_run_makes_are_made_again(
    documents_folder, vocab_file, examples_folder, files_of, tmp_path
):
    def make(seed):
        settings = examples.ExampleSettings(
            sequence_length=64, held_out_fraction=0.2, shards=4, seed=seed
        )
        given = documents_folder, vocab_file, tmp_path / "out", settings
        examples.make_examples(*given, runner=ONE_WORKER)

    with pytest.raises(KeyboardInterrupt):
        make(1)
    make(0)
    assert files_of(tmp_path / "out") == files_of(examples_folder)
