"""Annotates in several runs, between which the inputs change."""

import dataclasses
import gzip
import json
import os

import pytest

from data_prep.running import work_folder
from tests.model_facts import facts
from tfbio.base import storage
from tfbio.base.errors import DataError, UserError
from tfbio.base.shards import Shard
from tfbio.runs import annotation
from tfbio.runs.annotated_file import AnnotatedFile, AnnotationSettings
from tfbio.runs.annotation_folder import AnnotationFolder

CITATIONS = "<PubmedArticleSet></PubmedArticleSet>"
NOTE = dataclasses.asdict(AnnotatedFile("a.xml", 1, Shard("a.jsonl", 1, 3, ""), {}, []))


@pytest.fixture
def annotate(tmp_path):
    """Annotates the files of a folder with one entity each, up to one or but for one that dies."""
    (tmp_path / "out").mkdir()
    output = str(tmp_path / "out")

    def run(until="", dies="", overwrite=False, inputs=tmp_path / "in", model=(), **changes):
        settings = AnnotationSettings("model", **changes)
        folder = AnnotationFolder(output, overwrite)
        jobs = annotation._jobs([str(inputs)], output, settings)
        own = annotation._Run(folder, settings, jobs)
        folder.check_outputs(own.left, overwrite)
        own.ready(facts(**dict(model)))
        for job in sorted(own.left, key=lambda job: job.name):
            if job.name == dies:
                own.died(job, -9)
                continue
            storage.write_text(job.output, "{}\n")
            size, sha256 = storage.size(job.output), storage.sha256_of(job.output)
            shard = Shard(os.path.basename(job.output), 1, size, sha256)
            note = AnnotatedFile(job.name, job.bytes, shard, {"Chemical": 1}, [], path=job.path)
            own.done(job, note)
            if job.name == until:
                return None
        own.finish()
        return json.loads((tmp_path / "out" / "manifest.json").read_text())

    return run


@pytest.fixture
def inputs(tmp_path):
    """A folder with two files of PubMed's."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.xml", "b.xml"):
        (folder / name).write_text(CITATIONS)
    return folder


def test_a_process_that_dies_at_a_file_that_has_changed_is_told(inputs, annotate):
    annotate()
    (inputs / "a.xml").write_text(CITATIONS + "\n")
    with pytest.raises(UserError, match=r"died at \S+a.xml \(exit code -9\).*without --overwrite"):
        annotate(dies="a.xml")
    assert annotate()["counts"]["inputs"]["a.xml"]["bytes"] == len(CITATIONS) + 1


def test_a_file_that_can_no_longer_be_read_has_no_annotation(inputs, annotate, tmp_path):
    annotate()
    (inputs / "a.xml").write_text("cut short")
    (inputs / "b.xml").write_text(CITATIONS + "\n")
    manifest = annotate()
    assert [shard["file"] for shard in manifest["shards"]] == ["b.jsonl"]
    assert sorted(os.listdir(tmp_path / "out")) == ["b.jsonl", "manifest.json"]


def test_a_file_left_out_is_tried_again(inputs, annotate, monkeypatch):
    """Repairs the disk, not the file, whose size stays."""
    with monkeypatch.context() as patch:
        problem_of = annotation.document_formats.problem_of
        patch.setattr(
            annotation.document_formats,
            "problem_of",
            lambda path: "input/output error" if path.endswith("b.xml") else problem_of(path),
        )
        assert annotate()["problems"] == ["input/output error"]
        assert annotate()["counts"]["bad_input_files"] == 1
    manifest = annotate()
    assert manifest["problems"] == [] and manifest["counts"]["documents"] == 2


def test_a_link_to_nothing_is_left_out(inputs, annotate):
    (inputs / "gone.xml").symlink_to(inputs / "nowhere.xml")
    manifest = annotate()
    assert manifest["counts"]["documents"] == 2
    (problem,) = manifest["problems"]
    assert "gone.xml: it cannot be read (No such file" in problem


def test_an_annotation_stays_while_its_input_cannot_be_looked_at(inputs, annotate, tmp_path):
    """As git-annex leaves a link to nothing where a file is elsewhere for a while."""
    before = annotate()
    (inputs / "a.xml").rename(tmp_path / "elsewhere.xml")
    (inputs / "a.xml").symlink_to(tmp_path / "nothing.xml")
    (inputs / "c.xml").write_text(CITATIONS)
    (inputs / "new.xml").symlink_to(tmp_path / "nothing.xml")
    counts = annotate()["counts"]
    assert counts["inputs"]["a.xml"] == before["counts"]["inputs"]["a.xml"]
    assert (tmp_path / "out" / "a.jsonl").read_text() == "{}\n"
    assert (counts["documents"], counts["bad_input_files"]) == (3, 1)
    assert counts["inputs"]["new.xml"]["bytes"] == 0
    # Without its output it is left out as any other.
    (tmp_path / "out" / "a.jsonl").unlink()
    assert annotate()["counts"]["bad_input_files"] == 2


def test_two_inputs_with_one_output_are_refused_in_two_runs_as_well(inputs, annotate):
    annotate(until="a.xml")
    for name in ("a.xml", "b.xml"):
        (inputs / f"{name}.gz").write_bytes(gzip.compress(CITATIONS.encode()))
        (inputs / name).unlink()
    with pytest.raises(UserError, match=r"a.jsonl is the annotation of a.xml, and would become"):
        annotate()


@pytest.mark.parametrize("more", ["", "\n"])
def test_a_file_of_the_same_name_from_another_folder_is_refused(inputs, annotate, tmp_path, more):
    """Tries one of the same size and of another; one that was moved is the same."""
    annotate()
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.xml").write_text(CITATIONS + more)
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    words = (
        r"a.jsonl is the annotation of \S+in/a.xml, and would become that of \S+other/a.xml: give"
    )
    with pytest.raises(UserError, match=words):
        annotate(inputs=other)
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before
    (tmp_path / "link").symlink_to(inputs)
    assert annotate(inputs=tmp_path / "link")["counts"]["documents"] == 2
    inputs.rename(tmp_path / "moved")
    assert annotate(inputs=tmp_path / "moved")["counts"]["documents"] == 2
    assert annotate(inputs=other, overwrite=True)["counts"]["input_files"] == 1


def test_what_a_clusters_job_made_unheard_is_replaced_too(inputs, annotate, tmp_path):
    """The command was killed, and the job went on."""
    annotate(until="a.xml")
    out = tmp_path / "out"
    (out / "b.jsonl").write_text("{}\n")
    note = NOTE | {"input": "b.xml", "output": dataclasses.asdict(Shard("b.jsonl", 1, 3, ""))}
    (out / ".work" / "made-b.xml.json").write_text(json.dumps(note | {"token": "x"}))
    annotate(overwrite=True, form="pubtator")
    assert sorted(path.name for path in out.glob("[ab].*")) == ["a.pubtator", "b.pubtator"]


def test_a_folder_of_an_earlier_version_notes_no_paths_and_goes_on(inputs, annotate, tmp_path):
    manifest = annotate()
    for own in manifest["counts"]["inputs"].values():
        del own["path"]
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    inputs.rename(tmp_path / "moved")
    (tmp_path / "moved" / "c.xml").write_text(CITATIONS)
    counts = annotate(inputs=tmp_path / "moved")["counts"]
    paths = [counts["inputs"][name]["path"] for name in ("a.xml", "b.xml", "c.xml")]
    assert paths == ["", "", str(tmp_path / "moved" / "c.xml")]


def test_a_name_too_long_for_the_files_made_of_it_is_refused_at_once(inputs, annotate, tmp_path):
    """The longest of these files is a note while it is written."""
    (inputs / f"{204 * 'x'}.xml").write_text(CITATIONS)
    assert annotate()["counts"]["documents"] == 3
    for name in (f"{205 * 'x'}.xml", f"{103 * 'ä'}.xml"):
        (tmp_path / name).write_text(CITATIONS)
        with pytest.raises(
            UserError, match=r"--input: the name of [xä]+\.\.\. is \d byte"
        ) as error:
            annotate(inputs=tmp_path / name)
        assert len(str(error.value)) < 300


@pytest.mark.parametrize("problem", ["inputs", "model"])
def test_a_run_that_can_make_nothing_replaces_nothing(inputs, annotate, tmp_path, problem):
    annotate()
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    if problem == "inputs":
        for name in ("a.xml", "b.xml"):
            (inputs / name).write_text("cut short")
        with pytest.raises(DataError, match="no input can be read"):
            annotate(overwrite=True)
    else:  # which is not loaded, so nothing is ready
        output, settings = str(tmp_path / "out"), AnnotationSettings("model")
        folder = AnnotationFolder(output, overwrite=True)
        jobs = annotation._jobs([str(inputs)], output, settings)
        assert len(annotation._Run(folder, settings, jobs).left) == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_files_of_another_form_or_splitter_are_refused(inputs, annotate, monkeypatch):
    """Their outputs may have the same names."""
    annotate(until="a.xml")
    with pytest.raises(UserError, match="has annotations with form=.*jsonl.*, not .*bigbio"):
        annotate(form="bigbio")
    with pytest.raises(UserError, match="has annotations with compress="):
        annotate(compress=True)
    with monkeypatch.context() as patch:
        patch.setattr(annotation.splitters, "resolve", lambda name: ("other", "1.0"))
        with pytest.raises(UserError, match="with sentence_splitter=.*, not .*other 1.0"):
            annotate()
    for name, value, said in (
        ("lower_case", False, "true, not false"),
        ("words", "blanks", '"symbols", not "blanks"'),
        ("entity_type", "Disease", '"Chemical", not "Disease"'),
        ("sequence_length", 64, "128, not 64"),
    ):
        with pytest.raises(UserError, match=f"has annotations with {name}={said}"):
            annotate(model={name: value})
    assert annotate()["counts"]["documents"] == 2


def test_another_version_adds_nothing(inputs, annotate, tmp_path, monkeypatch):
    """The manifest would be that of one version, and of outputs of two."""
    annotate(until="a.xml")
    written = (tmp_path / "out" / "a.jsonl").read_bytes()
    monkeypatch.setattr("tfbio.__version__", "next")
    with pytest.raises(UserError, match="annotations with tfbio=.*, not .*next.*--overwrite"):
        annotate()
    assert (tmp_path / "out" / "a.jsonl").read_bytes() == written
    assert annotate(overwrite=True)["settings"]["tfbio"] == "next"


def test_a_complete_folder_is_complete_for_other_versions_too(
    inputs, annotate, tmp_path, monkeypatch
):
    annotate()
    monkeypatch.setattr("tfbio.__version__", "next")
    monkeypatch.setattr(annotation.splitters, "resolve", lambda name: ("other", "1.0"))
    output, settings = str(tmp_path / "out"), AnnotationSettings("model")

    def left():
        jobs = annotation._jobs([str(inputs)], output, settings)
        return annotation._Run(AnnotationFolder(output), settings, jobs).left

    assert left() == []
    (inputs / "c.xml").write_text(CITATIONS)
    with pytest.raises(UserError, match="with sentence_splitter=.*, not .*other 1.0"):
        left()


@pytest.mark.parametrize(
    ("is_whole", "problem"),
    [(False, "is not a manifest"), (True, "does not say what was annotated: 'inputs'")],
)
def test_a_damaged_manifest_can_be_replaced(inputs, annotate, tmp_path, is_whole, problem):
    made = annotate()
    path = tmp_path / "out" / "manifest.json"
    path.write_text(json.dumps({**made, "counts": {}}) if is_whole else "")
    with pytest.raises(DataError, match=f"{problem}.*--overwrite"):
        annotate()
    assert annotate(overwrite=True)["counts"]["documents"] == 2
    # That of other data is never replaced.
    path.write_text(json.dumps({**made, "kind": "documents"}))
    with pytest.raises(DataError, match="holds documents, which annotations do not replace"):
        annotate(overwrite=True)


@pytest.mark.parametrize(
    "text",
    [
        *("", '{"input": "a.xml", "by', '{"input": "a.xml"}'),
        json.dumps(NOTE | {"output": {"x": 1}}),
        json.dumps(NOTE | {"entities": None}),
    ],
)
def test_the_file_of_a_damaged_note_is_made_again(inputs, annotate, tmp_path, text):
    (inputs / "c.xml").write_text(CITATIONS)
    for overwrite in (False, True):
        annotate(until="b.xml", overwrite=overwrite)
        (tmp_path / "out" / ".work" / "file-a.xml.json").write_text(text)
        for name in ("a", "b"):
            (tmp_path / "out" / f"{name}.jsonl").write_text("[]\n")
        assert annotate(overwrite=overwrite)["counts"]["documents"] == 3
        assert (tmp_path / "out" / "a.jsonl").read_text() == "{}\n"
        assert (tmp_path / "out" / "b.jsonl").read_text() == ("{}\n" if overwrite else "[]\n")


def test_files_of_settings_that_are_damaged_can_be_replaced(inputs, annotate, tmp_path):
    """They may be of any model."""
    annotate(until="a.xml")
    (tmp_path / "out" / ".work" / "settings.json").write_text('{"model": "mo')
    with pytest.raises(DataError, match="settings.json is damaged.*: give --overwrite"):
        annotate()
    (tmp_path / "out" / "a.jsonl").write_text("[]\n")
    assert annotate(overwrite=True)["counts"]["documents"] == 2
    assert (tmp_path / "out" / "a.jsonl").read_text() == "{}\n"


@pytest.mark.parametrize("overwrite", [False, True])
def test_unfinished_documents_are_not_replaced(inputs, annotate, tmp_path, overwrite):
    work = work_folder.open_work(tmp_path / "out", "documents", {}, overwrite=False)
    before = (work.parent / "settings.json").read_text()
    with pytest.raises(DataError, match="holds unfinished documents, which annotations do not rep"):
        annotate(overwrite=overwrite)
    assert (work.parent / "settings.json").read_text() == before


def test_an_output_that_was_cut_short_is_made_again(inputs, annotate, tmp_path):
    annotate()
    (tmp_path / "out" / "a.jsonl").write_text("{")
    annotate()
    assert (tmp_path / "out" / "a.jsonl").read_text() == "{}\n"


def test_a_run_that_replaces_another_leaves_nothing_of_it(inputs, annotate, tmp_path):
    annotate()
    (inputs / "a.xml").unlink()
    (tmp_path / "out" / "mine.txt").touch()
    manifest = annotate(overwrite=True)
    assert manifest["counts"]["input_files"] == 1
    assert sorted(os.listdir(tmp_path / "out")) == ["b.jsonl", "manifest.json", "mine.txt"]


def test_a_run_goes_on_in_the_precision_in_which_it_began(inputs, annotate, tmp_path):
    """Another machine may choose another one for "auto"."""
    annotate(until="a.xml")
    output, settings = str(tmp_path / "out"), AnnotationSettings("model", overrides=("run.x=1",))
    folder = AnnotationFolder(output)
    folder.settings["set"] = ["run.x=1"]
    jobs = annotation._jobs([str(inputs)], output, settings)
    own = annotation._Run(folder, settings, jobs)
    assert own.overrides() == ("run.x=1", "run.precision=float32")


def test_outputs_in_a_folder_of_the_inputs_are_no_inputs(inputs):
    """Searches a folder in which an earlier run has written files that end as inputs do."""
    out, settings = inputs / "found", AnnotationSettings("model")
    out.mkdir()
    (out / "c.xml").write_text(CITATIONS)
    with pytest.raises(UserError, match="found holds the input .*c.xml"):  # no run's yet
        annotation._jobs([str(inputs)], str(out), settings)
    (out / ".work").mkdir()
    for given in (inputs, inputs / "**" / "*.xml"):
        jobs = annotation._jobs([str(given)], str(out), settings)
        assert [job.name for job in jobs] == ["a.xml", "b.xml"]
    (out / ".work").rmdir()
    (out / "manifest.json").write_text("{}")
    assert len(annotation._jobs([str(inputs)], str(out), settings)) == 2
    for given in ([inputs, out / "c.xml"], [out], [out / "*.xml"]):
        with pytest.raises(UserError, match="found holds the input .*c.xml"):
            annotation._jobs([*map(str, given)], str(out), settings)


@pytest.mark.parametrize("note", ["manifest.json", ".work/settings.json"])
def test_outputs_of_other_annotations_in_a_folder_of_the_inputs_are_no_inputs(
    inputs, tmp_path, capsys, note
):
    """Unless their folder is named; data of other kinds are inputs as any file."""
    settings = AnnotationSettings("model")
    for name, kind in (("chemicals", "annotations"), ("texts", "documents")):
        (inputs / name).mkdir()
        (inputs / name / f"{name}.xml").write_text(CITATIONS)
        (inputs / name / note).parent.mkdir(exist_ok=True)
        (inputs / name / note).write_text(json.dumps({"kind": kind}))

    def names(*given):
        jobs = annotation._jobs([*map(str, given)], str(inputs / "diseases"), settings)
        return [job.name for job in jobs]

    for given in (inputs, inputs / "**" / "*.xml"):
        assert names(given) == ["a.xml", "b.xml", "texts.xml"]
        assert f"left out: the files in {inputs / 'chemicals'}, which" in capsys.readouterr().out
    own = inputs / "chemicals"
    for given in (own, own / "chemicals.xml", own / "*.xml"):
        assert names(given) == ["chemicals.xml"]
    (inputs / "texts" / note).unlink()  # else there are two files of one name
    assert "chemicals.xml" in names(inputs, own) and not capsys.readouterr().out
    with pytest.raises(UserError, match="gives only the files in .*chemicals, which are annot"):
        names(inputs / "chem*" / "*.xml")
