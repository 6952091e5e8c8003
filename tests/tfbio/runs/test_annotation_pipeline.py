"""Annotates small files on Beam: on a cluster of two worker pools, and in this process."""

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys
import types

import pytest

from data_prep.running import pipeline, work_folder
from tests import portable_runner
from tests.model_facts import facts
from tests.portable_runner import ROOT, wait_for
from tests.tfbio.runs.test_annotation import files_of, never, write_citations
from tfbio.base.errors import UserError
from tfbio.base.manifests import Manifest
from tfbio.runs import annotation, annotation_pipeline, annotator, document_formats
from tfbio.runs.annotated_file import AnnotationSettings, Job, ModelFacts
from tfbio.runs.annotation_folder import AnnotationFolder
from tfbio.runs.annotation_processes import LIBRARIES, Loading
from tfbio.training import cpu_bfloat16

# Beam's runner that a job service runs pipelines on, here in this process.
IN_PROCESS = pipeline.Runner("FnApiRunner")
FACTS = facts()
# A note on a file, without its job.
NOTE = {
    **{"input": "a.xml", "bytes": 7, "output": None, "entities": {}, "left_out": []},
    **{"problem": "", "process": "here 1", "loads": 1, "token": "0"},
}


@pytest.fixture
def trial(make_trial):
    """A tagger with random weights."""
    known = {"words": "punctuation", "entity_type": "Entity"}
    return make_trial("tagging", ["O", "B-x", "I-x"], known)[0]


@pytest.fixture
def inputs(tmp_path):
    """A folder with eight files with gzip."""
    folder = tmp_path / "pubmed"
    folder.mkdir()
    for number in range(8):
        write_citations(folder / f"{number}.xml.gz", range(20 * number, 20 * number + 15))
    return folder


@pytest.fixture
def one_machine(trial, inputs, cpu, tmp_path):
    """The files that one process of one machine writes."""
    folder = tmp_path / "one"
    annotation.annotate(
        AnnotationSettings(trial), [str(inputs)], str(folder), strategy=cpu, processes=1
    )
    return files_of(folder)


@pytest.fixture(autouse=True)
def _no_model_is_left():
    yield
    annotation_pipeline._annotator.cache_clear()


def command(trial, inputs, output, *flags):
    """Returns a command with a path as a user types it; the workers' current folder is another."""
    line = [sys.executable, "run_finetuning.py", "--mode=predict", f"--model={trial}"]
    return [*line, f"--input={inputs}", f"--output_dir={os.path.relpath(output, ROOT)}", *flags]


def annotate(trial, inputs, output):
    annotation.annotate(
        AnnotationSettings(trial), [str(inputs)], str(output), strategy=never, runner=IN_PROCESS
    )


class Died(Exception):
    """The command is gone; its job has made all files."""


def annotate_and_die(trial, inputs, output):
    """Annotates, but hears of nothing that is done."""

    def die(self, names):
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(annotation_pipeline._Notes, "look", die)
        with pytest.raises(Died):
            annotate(trial, inputs, output)


@pytest.mark.slow
def test_a_cluster_writes_the_bytes_of_one_machine(
    running, trial, inputs, one_machine, tmp_path, tmp_path_factory
):
    """A command is killed, and the next one goes on."""
    output = tmp_path / "several"
    with portable_runner.started(running, tmp_path_factory.mktemp("cluster")) as cluster:
        line = command(trial, inputs, output, *cluster.flags)
        with running(line, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            wait_for(lambda: list(output.glob("*.jsonl")), process)
        assert not (output / "manifest.json").exists(), "it was killed too late"
        loaded = cluster.opened(f"{trial}/model.index")
        assert loaded and set(loaded) == {1}
        for other in (output, tmp_path / "whole"):
            line = command(trial, inputs, other, *cluster.flags)
            done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            assert files_of(other) == one_machine
        # The last command had all to do: each of two processes loaded the model once.
        assert "2 process(es) have loaded the model 2 time(s)" in done.stdout
        assert set(cluster.opened(f"{trial}/model.index")) == {1}
        by_pool = cluster.files_by_pool(tmp_path / "whole")
        assert by_pool.keys() == {pool.pid for pool in cluster.pools}
        assert set.union(*by_pool.values()) == {f"{number}.jsonl" for number in range(8)}


def test_what_is_noted_is_told_and_kept(trial, inputs, one_machine, tmp_path, capsys):
    output = tmp_path / "found"

    annotate(trial, inputs, output)
    said = capsys.readouterr().out
    assert "1 process(es) have loaded the model 1 time(s)\nseconds by step: reading " in said
    assert "120 document(s) of 8 file(s) (0 left out), " in said
    assert files_of(output) == one_machine
    annotate(trial, inputs, output)
    assert capsys.readouterr().out.startswith(f"{output} is complete\n")


def test_a_process_that_loads_the_model_again_is_told(trial, inputs, tmp_path, monkeypatch, capsys):
    load = annotation_pipeline._annotator.__wrapped__
    monkeypatch.setattr(annotation_pipeline, "_annotator", functools.lru_cache(maxsize=0)(load))
    annotate(trial, inputs / "[12].xml.gz", tmp_path / "found")
    assert "1 process(es) have loaded the model 2 time(s)\n" in capsys.readouterr().out


def test_the_job_of_an_earlier_command_ends_when_another_begins(
    trial, inputs, tmp_path, monkeypatch
):
    """The other one has annotated the file before; its output must stay."""
    output, whole = tmp_path / "found", annotator.Annotator.annotate

    def meanwhile(self, job, done):
        def go_on(documents):
            if documents:
                AnnotationFolder(str(output), overwrite=True).begin({"set": ["other"]})
                with open(job.output, "w") as stream:
                    stream.write("of the other command")
            done(documents)

        return whole(self, job, go_on)

    monkeypatch.setattr(annotator.Annotator, "annotate", meanwhile)
    with pytest.raises(UserError, match="another command has begun in "):
        annotate(trial, inputs, output)
    (path,) = output.glob("*.jsonl")
    assert path.read_text() == "of the other command"
    assert not list(output.glob(".work/made-*"))


def test_a_file_at_which_the_job_fails_is_named(trial, inputs, one_machine, tmp_path, monkeypatch):
    output, read = tmp_path / "found", document_formats.read

    def fail(path, left_out):
        if path.endswith("3.xml.gz"):
            raise KeyError("of nobody")
        yield from read(path, left_out)

    with monkeypatch.context() as patch:
        patch.setattr(document_formats, "read", fail)
        with pytest.raises(UserError, match=r"pubmed/3.xml.gz cannot be annotated: KeyError"):
            annotate(trial, inputs, output)
    annotate(trial, inputs, output)
    assert files_of(output) == one_machine


def test_a_note_on_an_earlier_file_does_not_count(
    trial, inputs, one_machine, tmp_path, monkeypatch
):
    """Ends a run after its files; one changes before the next run, and one was left out."""
    output = tmp_path / "found"
    annotate_and_die(trial, inputs, output)
    assert (output / ".work" / "made-3.xml.gz.json").exists()
    written = (output / "2.jsonl").stat().st_mtime_ns
    write_citations(inputs / "3.xml.gz", range(1, 4))
    (output / "5.jsonl").unlink()
    left_out = {"output": None, "problem": "input/output error"}
    note = work_folder.read_step(output / ".work", "made-6.xml.gz")
    work_folder.write_step(output / ".work", "made-6.xml.gz", note | left_out)
    monkeypatch.setattr(annotation_pipeline, "_LOOK_EVERY", 0.001)  # before the first try ends
    annotate(trial, inputs, output)
    assert (output / "2.jsonl").stat().st_mtime_ns == written
    after = files_of(output)
    assert after.keys() == one_machine.keys()
    assert json.loads(after["manifest.json"])["problems"] == []
    assert len(after.pop("3.jsonl").splitlines()) == 3
    assert all(after[name] == one_machine[name] for name in after if name != "manifest.json")


def test_the_speed_is_that_of_what_this_command_has_made(trial, inputs, tmp_path, monkeypatch):
    """Seven files are there of an earlier job, whose processes were others."""
    output, reported = tmp_path / "found", []
    annotate_and_die(trial, inputs, output)
    work = output / ".work"
    for path in work.glob("made-*.json"):
        note = work_folder.read_step(work, path.stem)
        work_folder.write_step(work, path.stem, note | {"process": "elsewhere 7"})
    work_folder.remove_step(work, "made-3.xml.gz")
    monkeypatch.setattr(
        annotation.step_times, "report", lambda *given: reported.append(given) or "the speed"
    )
    monkeypatch.setattr(annotation_pipeline, "_LOOK_EVERY", 0.001)  # some of them are heard early
    annotate(trial, inputs, output)
    ((seconds, documents, _, cores),) = reported
    note = json.loads((output / "manifest.json").read_text())["shards"][3]
    assert (documents, cores, note["records"]) == (15, 1, 15)
    assert 0 < sum(seconds.values()) < 60


def test_nothing_is_replaced_if_no_job_service_answers(trial, inputs, tmp_path):
    (tmp_path / "manifest.json").write_text(
        json.dumps(dataclasses.asdict(Manifest("annotations", {}, {"inputs": {}}, [])))
    )
    (tmp_path / ".work").mkdir()
    (tmp_path / ".work" / "note.json").touch()
    runner = pipeline.Runner(
        "PortableRunner", beam_args=("--job_endpoint=localhost:1", "--job_server_timeout=1")
    )
    with pytest.raises(UserError, match="--job_endpoint=localhost:1: no job service has answered"):
        annotation.annotate(
            AnnotationSettings(trial),
            [str(inputs)],
            str(tmp_path),
            strategy=never,
            runner=runner,
            overwrite=True,
        )
    assert (tmp_path / "manifest.json").exists() and (tmp_path / ".work" / "note.json").exists()


def test_a_note_counts_for_the_settings_with_which_it_was_made(tmp_path):
    """A job of an earlier command may still run when `--overwrite --set ...` begins."""
    job = Job("/in/a.xml", 7, "/out/a.jsonl", "jsonl", False)
    of = annotation_pipeline._of(job, Loading("model", ("a=1", "run.precision=float32")), FACTS)
    work_folder.write_step(tmp_path, "made-a.xml", NOTE | {"job": of})

    def counts(overrides=("a=1",), facts=FACTS):
        return bool(annotation_pipeline._note(job, Loading("model", overrides), facts, tmp_path))

    # A command that continues gives the precision once more.
    assert counts() and counts(("a=1", *["run.precision=float32"] * 2))
    assert not counts(("a=2",)) and not counts(())
    for other in (
        {"sentence_splitter": "pysbd 1.0"},
        {"precision": "bfloat16"},
        {"vocab_sha256": "12"},
        {"lower_case": False},
        {"labels": "O, B-Chemical"},
        {"words": "blanks"},
        {"entity_type": "Disease"},
        {"sequence_length": 64},
        {"bfloat16_products": "cut off"},
        {"tfbio": "0.2.0"},
    ):
        assert not counts(facts=dataclasses.replace(FACTS, **other)), other


@pytest.mark.parametrize(
    "text",
    ['{"job": {', '{"job": {}}', json.dumps(NOTE), json.dumps(NOTE | {"job": [], "loads": ""})],
)
def test_a_damaged_note_does_not_count(tmp_path, text):
    job = Job("/in/a.xml", 7, "/out/a.jsonl", "jsonl", False)
    (tmp_path / "made-a.xml.json").write_text(text)
    annotation_pipeline._forget_left_out(str(tmp_path), [job])
    assert annotation_pipeline._note(job, Loading("model", ()), FACTS, str(tmp_path)) is None


def test_each_process_computes_with_one_thread(monkeypatch):
    """Before it imports TensorFlow and the sentence splitter."""
    names = ("TF_NUM_INTRAOP_THREADS", *LIBRARIES)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for name in names:
        monkeypatch.setenv(name, "")  # so that it is set back
        monkeypatch.delenv(name)
    seen = []

    def load(*_):
        seen.extend(os.environ[name] for name in names)
        return types.SimpleNamespace(facts=FACTS)

    monkeypatch.setattr(annotator, "Annotator", load)
    annotation_pipeline._annotator(Loading("model", ()), FACTS)
    assert seen == ["1"] * len(names) and os.environ["CUDA_VISIBLE_DEVICES"] == "-1"


def test_all_machines_compute_with_one_model_in_one_precision(trial, inputs, tmp_path, monkeypatch):
    """Workers compute as the command says, whatever they would choose.

    They refuse another model, another sentence splitter, another version, and another CPU.
    """
    # The workers write somewhere else.
    monkeypatch.setattr(annotation_pipeline.pipeline, "run", lambda *given: None)
    with pytest.raises(UserError, match="auto has no note on .* that all machines see"):
        annotate(trial, inputs, tmp_path / "auto")
    settings = (tmp_path / "auto" / ".work" / "settings.json").read_text()
    assert '"precision": "float32"' in settings
    monkeypatch.undo()

    noted = json.loads(settings)
    own = ModelFacts(**{x.name: noted[x.name] for x in dataclasses.fields(ModelFacts)})
    splitter = own.sentence_splitter
    in_bfloat16 = {
        cuts_off: {
            "precision": "bfloat16",
            "bfloat16_products": "cut off" if cuts_off else "rounded",
        }
        for cuts_off in (False, True)
    }
    cuts_off = cpu_bfloat16.cuts_off_products()
    for number, (changes, refused) in enumerate(
        [
            (in_bfloat16[cuts_off], ""),
            (in_bfloat16[not cuts_off], "bfloat16 are .* here, and .*: give --set run.precision"),
            ({"tfbio": "0.0.1"}, r"tfbio \S+ annotates here, and 0.0.1 where the command"),
            ({"weights_sha256": "0" * 64}, "trial_0 is another model here than"),
            ({"labels": "O"}, "trial_0 is another model here than"),
            ({"sentence_splitter": "none 0.1"}, f"{splitter} splits .* here, and none 0.1"),
        ]
    ):
        facts = dataclasses.replace(own, **changes)
        monkeypatch.setattr(annotation_pipeline, "_facts", lambda loading, facts=facts: facts)
        output = tmp_path / str(number)
        with pytest.raises(UserError, match=refused) if refused else contextlib.nullcontext():
            annotate(trial, inputs, output)
        assert bool(list(output.glob("*.jsonl"))) != bool(refused)


def test_all_machines_see_one_folder(trial, inputs, tmp_path, monkeypatch):
    """One of them has other inputs under the same path, or none."""
    looked = annotation_pipeline.storage.size
    for size in (lambda path: looked(path) + 1, lambda path: os.stat(path + "x").st_size):
        output = tmp_path / f"out{len(os.listdir(tmp_path))}"
        with monkeypatch.context() as patch:
            # The command itself looks elsewhere.
            patch.setattr(annotation_pipeline, "storage", types.SimpleNamespace(size=size))
            with pytest.raises(UserError, match=r"\d.xml.gz is not the file here that"):
                annotate(trial, inputs, output)
        assert not list(output.glob("*.jsonl"))
