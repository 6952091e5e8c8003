"""Annotates small files one by one: resumed, with bad files, and with processes that die."""

import fnmatch
import gzip
import hashlib
import json
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
import tensorflow as tf

from tests.run_files import write_settings
from tfbio.base.errors import DataError, UsageError, UserError
from tfbio.formats.annotated_documents import FormatError
from tfbio.models.encoder_config import EncoderConfig
from tfbio.runs import annotation, annotation_processes, document_formats, predict
from tfbio.runs.annotated_file import AnnotationSettings
from tfbio.training import cpu_bfloat16
from tfbio.training.precision import own_policy

ROOT = Path(__file__).parents[3]
TEXTS = ("The cells of patients.", "Results were better. A study of mice.", "No effect, of it.")


def write_citations(path, pmids):
    """Writes a file of PubMed's, with a title and an abstract of a few words each."""
    citations = "".join(
        f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article><ArticleTitle>"
        f"{TEXTS[pmid % 3]}</ArticleTitle><Abstract><AbstractText>{TEXTS[pmid % 2] * (pmid % 5)}"
        "</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>"
        for pmid in pmids
    )
    text = f"<PubmedArticleSet>{citations}</PubmedArticleSet>"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.fixture
def inputs(tmp_path):
    """A folder with two files with gzip, one without, and one that is cut short."""
    folder = tmp_path / "pubmed"
    folder.mkdir()
    write_citations(folder / "a.xml.gz", range(1, 40))
    write_citations(folder / "b.xml.gz", range(40, 60))
    write_citations(folder / "c.xml", range(60, 65))
    write_citations(folder / "cut.xml.gz", range(100, 400))
    whole = (folder / "cut.xml.gz").read_bytes()
    (folder / "cut.xml.gz").write_bytes(whole[:-200])
    return folder


@pytest.fixture(autouse=True)
def _policy_is_put_back():
    with own_policy():
        yield


@pytest.fixture
def trial(make_trial):
    """A tagger with random weights."""
    known = {"words": "punctuation", "entity_type": "Entity"}
    return make_trial("tagging", ["O", "B-x", "I-x"], known)[0]


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def never():
    """Takes the place of the strategy where the model must not be loaded."""
    raise AssertionError("the model is loaded")


def test_each_file_has_the_entities_of_a_prediction_of_it(
    trial, inputs, cpu, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "found"
    settings = AnnotationSettings(trial)
    annotation.annotate(settings, [str(inputs)], str(out), strategy=cpu, processes=1)
    said = capsys.readouterr().out
    names = ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert sorted(files_of(out)) == [*names, "manifest.json"]
    manifest = json.loads((out / "manifest.json").read_text())
    total = 0
    for name, source in zip(names, ("a.xml.gz", "b.xml.gz", "c.xml"), strict=True):
        predict.predict(trial, [str(inputs / source)], str(tmp_path / "one"), strategy=cpu)
        lines = (out / name).read_text().splitlines()
        expected = (tmp_path / "one").read_text().splitlines()
        os.remove(tmp_path / "one")
        for line, other in zip(map(json.loads, lines), map(json.loads, expected), strict=True):
            for mine, theirs in zip(line["entities"], other["entities"], strict=True):
                assert mine.pop("score") == pytest.approx(theirs.pop("score"), abs=2e-5)
            assert line == other
            total += len(line["entities"])
        (shard,) = [shard for shard in manifest["shards"] if shard["file"] == name]
        written = (out / name).read_bytes()
        assert shard["sha256"] == hashlib.sha256(written).hexdigest()
        assert (shard["bytes"], shard["records"]) == (len(written), len(lines))
        assert manifest["counts"]["inputs"][source]["bytes"] == (inputs / source).stat().st_size
    assert total > 20 and manifest["counts"]["entities"] == {"x": total}
    assert manifest["counts"]["documents"] == 64 and manifest["counts"]["bad_input_files"] == 1
    assert re.search(r"left out: \S+cut.xml.gz: the gzip data is damaged or cut short", said)
    assert len(manifest["problems"]) == 1 and manifest["problems"][0] in said
    assert f"64 document(s) of 4 file(s) (1 left out), {total:,} entities: {total:,} x" in said
    steps = "reading [0-9.]+ .*splitting .*tokenizing .*products .*writing"
    assert re.search(f"seconds by step: {steps} .*documents/s", said)

    # A second run tries the file left out alone.
    written = (out / "a.jsonl").stat().st_mtime_ns
    annotation.annotate(settings, [str(inputs)], str(out), strategy=cpu, processes=1)
    said = capsys.readouterr().out
    assert "3 of 4 files are complete and are kept" in said and said.count("left out: ") == 1
    assert json.loads((out / "manifest.json").read_text()) == manifest
    # Without it nothing is read, also by another version, and other settings are refused before the
    # model is loaded.
    os.rename(inputs / "cut.xml.gz", tmp_path / "cut.xml.gz")
    with monkeypatch.context() as patch:
        patch.setattr("tfbio.__version__", "next")
        annotation.annotate(settings, [str(inputs)], str(out), strategy=never)
    said = capsys.readouterr().out
    assert "found is complete" in said and "left out: " in said
    (inputs / "later.xml").write_text("no XML")
    annotation.annotate(settings, [str(inputs)], str(out), strategy=never)
    assert "later.xml: it is not well-formed" in capsys.readouterr().out
    assert (out / "manifest.json").read_text().count("later.xml: it is not") == 2
    os.remove(inputs / "later.xml")
    changed = AnnotationSettings(trial, overrides=("run.eval_batch_size=8",))
    with pytest.raises(UserError, match="set=.*not .*run.eval_batch_size=8.*--overwrite"):
        annotation.annotate(changed, [str(inputs)], str(out), strategy=never)

    # More files are added, and one that has changed or is gone is made again; the rest stays.
    before = files_of(out)
    write_citations(inputs / "d.xml", range(70, 74))
    write_citations(inputs / "cut.xml.gz", range(100, 103))
    os.remove(out / "b.jsonl")
    annotation.annotate(settings, [str(inputs)], str(out), strategy=cpu, processes=1)
    assert (out / "a.jsonl").stat().st_mtime_ns == written
    after = files_of(out)
    assert {name: after[name] for name in names} == {name: before[name] for name in names}
    assert len(after["d.jsonl"].splitlines()) == 4 and len(after["cut.jsonl"].splitlines()) == 3
    (problem,) = json.loads(after["manifest.json"])["problems"]
    assert "later.xml" in problem

    # Another model is refused, though it has the same settings.
    manifest = json.loads(after["manifest.json"])
    manifest["settings"]["weights_sha256"] = "0" * 64
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="annotations with weights_sha256="):
        annotation.annotate(settings, [str(inputs)], str(out), strategy=never)
    write_citations(inputs / "e.xml", range(80, 82))
    with pytest.raises(UserError, match="annotations with weights_sha256="):
        annotation.annotate(settings, [str(inputs)], str(out), strategy=cpu, processes=1)
    assert sorted(files_of(out)) == sorted(after)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_processes_and_the_order_of_the_files_change_no_byte(
    trial, inputs, cpu, tmp_path, precision
):
    write_citations(inputs / "d.xml", range(70, 90))
    given = [str(inputs / name) for name in ("a.xml.gz", "b.xml.gz", "c.xml", "d.xml")]
    settings = AnnotationSettings(trial, overrides=(f"run.precision={precision}",))
    annotation.annotate(settings, given, str(tmp_path / "one"), strategy=cpu, processes=1)
    expected = files_of(tmp_path / "one")
    assert len(expected) == 5
    processes, order = (4, given[2:] + given[:2]) if precision == "float32" else (2, given[::-1])
    out = tmp_path / "several"
    annotation.annotate(settings, order, str(out), strategy=never, processes=processes)
    assert files_of(out) == expected


# So wide that TensorFlow divides products among its threads.
@pytest.mark.parametrize(
    "small_shape", [EncoderConfig(hidden_size=256, num_hidden_layers=1)], ids=["wide"]
)
def test_the_number_of_threads_changes_no_byte(trial, inputs, tmp_path):
    """One process with a thread for each core, and two processes that share them."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    environment.pop("TF_NUM_INTRAOP_THREADS", None)  # which is 1 for tests
    for processes in (1, 2):
        command = [sys.executable, "-m", "tfbio", "predict", f"--model={trial}"]
        command += [f"--input={inputs}/[abc].xml*", f"--output_dir={tmp_path / str(processes)}"]
        command += [f"--processes={processes}", "--set", "run.precision=float32"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    expected = files_of(tmp_path / "1")
    assert files_of(tmp_path / "2") == expected
    assert sum(json.loads(expected["manifest.json"])["counts"]["entities"].values()) > 20


def test_a_cpu_that_cuts_products_off_adds_nothing_to_those_of_another(
    trial, inputs, cpu, tmp_path, monkeypatch
):
    """In float32 both write the same."""
    cuts_off = cpu_bfloat16.cuts_off_products()
    for precision in ("float32", "bfloat16"):
        settings = AnnotationSettings(trial, overrides=(f"run.precision={precision}",))

        def annotate(name, settings=settings, out=str(tmp_path / precision)):
            annotation.annotate(settings, [str(inputs / name)], out, strategy=cpu, processes=1)

        annotate("b.xml.gz")
        with monkeypatch.context() as patch:
            patch.setattr(cpu_bfloat16, "cuts_off_products", lambda: not cuts_off)
            if precision == "float32":
                annotate("c.xml")
            else:
                with pytest.raises(UserError, match="annotations with bfloat16_products=.*rounded"):
                    annotate("c.xml")
    assert "c.jsonl" in files_of(tmp_path / "float32")
    assert "c.jsonl" not in files_of(tmp_path / "bfloat16")


def test_an_error_that_nobody_expects_names_its_file_and_a_way_on(
    trial, inputs, cpu, tmp_path, monkeypatch
):
    """The largest file is annotated first, and stays."""
    out, read = tmp_path / "found", document_formats.read
    settings = AnnotationSettings(trial)

    def fail(path, left_out):
        yield from read(path, left_out)
        if path.endswith("b.xml.gz"):
            raise EOFError("two\nlines")

    with monkeypatch.context() as patch:
        patch.setattr(document_formats, "read", fail)
        given = [str(inputs / name) for name in ("a.xml.gz", "b.xml.gz")]
        with pytest.raises(
            RuntimeError, match=r"pubmed/b.xml.gz cannot be annotated: EOF"
        ) as error:
            annotation.annotate(settings, given, str(out), strategy=cpu, processes=1)
    # What ends a process of several is told by the first one.
    told = str(annotation_processes._portable(error.value)).splitlines()[-1]
    assert re.search(r"b.xml.gz cannot be annotated: EOFError\('two.*: leave it out of --in", told)
    assert set(os.listdir(out)) == {"a.jsonl", ".work"}
    written = (out / "a.jsonl").stat().st_mtime_ns
    annotation.annotate(settings, given, str(out), strategy=cpu, processes=1)
    assert (out / "a.jsonl").stat().st_mtime_ns == written and (out / "b.jsonl").exists()


@pytest.mark.parametrize(
    "error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")]
)
def test_a_file_at_which_memory_runs_out_is_named_with_a_remedy(
    trial, inputs, cpu, tmp_path, monkeypatch, error
):
    def fail(path, left_out):
        raise error
        yield

    monkeypatch.setattr(document_formats, "read", fail)
    words = "memory ran out at .*/c.xml: give --set=run.eval_batch_size=8 and another --output_dir,"
    with pytest.raises(UserError, match=words):
        annotation.annotate(
            AnnotationSettings(trial),
            [str(inputs / "c.xml")],
            str(tmp_path / "found"),
            strategy=cpu,
        )


@pytest.mark.parametrize("error", ["MemoryError", "p.OutOfMemory('at a.xml')"])
def test_a_process_without_memory_dies_as_one_that_the_system_kills(error):
    """So its file is lost alone."""
    code = f"""
from tfbio.runs import annotation_processes as p
def load(*_):
    raise {error}
p._load, p._end_with_parent = load, lambda: None
p._work(None, p.Loading("model", ()), 1)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_process_that_dies_loses_its_file_alone(
    trial, inputs, cpu, tmp_path, monkeypatch, capsys
):
    """Two processes; the one that takes the first file is killed with it."""
    overrides = ("run.precision=bfloat16",)
    workers, killed = [], []

    class Worker(annotation_processes._Worker):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            workers.append(self)

        def next_job(self, queue):
            first = not killed
            if first:
                os.kill(self._process.pid, signal.SIGSTOP)  # else it might be done before it dies
            more = super().next_job(queue)
            if first:
                killed.append(self.job.path)
                os.kill(self._process.pid, signal.SIGKILL)
            return more

    with monkeypatch.context() as patch:
        patch.setattr(annotation_processes, "_Worker", Worker)
        with pytest.raises(UserError, match=r"a process died at \S+ \(exit code -9\)") as error:
            annotation.annotate(
                AnnotationSettings(trial, compress=True, overrides=overrides),
                [str(inputs)],
                str(tmp_path / "several"),
                strategy=never,
                processes=2,
            )
    assert killed[0] in str(error.value)
    assert not [each for each in workers if each._process.is_alive()]
    several = tmp_path / "several"
    names = {"a.jsonl.gz", "b.jsonl.gz", "c.jsonl.gz"}
    assert len(names - set(os.listdir(several))) == 1
    assert "manifest.json" not in os.listdir(several) and not list(several.glob("*.tmp"))

    # The same command makes the rest, with the bytes of one process.
    capsys.readouterr()
    for name in ("several", "one"):
        annotation.annotate(
            AnnotationSettings(trial, compress=True, overrides=overrides),
            [str(inputs / "*")],
            str(tmp_path / name),
            strategy=cpu,
            processes=1,
        )
    # The file that was left out is tried again.
    assert "2 of 4 files are complete and are kept" in capsys.readouterr().out
    assert files_of(several) == files_of(tmp_path / "one")
    assert names < set(files_of(several))
    lines = gzip.decompress((several / "a.jsonl.gz").read_bytes()).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [str(n) for n in range(1, 40)]


def test_more_than_a_thousand_files(trial, cpu, tmp_path, capsys):
    """Each is an output of its own; a second run finds them all complete."""
    folder, out, count = tmp_path / "texts", tmp_path / "found", 1_100
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:04d}.txt").write_text(f"{TEXTS[number % 3]} {number}")
    settings = AnnotationSettings(trial)
    annotation.annotate(settings, [str(folder)], str(out), strategy=cpu, processes=1)
    assert f"{count:,} document(s) of {count:,} file(s) (0 left out)" in capsys.readouterr().out
    assert len(list(out.glob("*.jsonl"))) == count
    for number in (0, 999, count - 1):
        (line,) = (out / f"{number:04d}.jsonl").read_text().splitlines()
        assert json.loads(line)["text"] == f"{TEXTS[number % 3]} {number}"
    annotation.annotate(settings, [str(folder)], str(out), strategy=never)
    assert "found is complete" in capsys.readouterr().out


def processes_of(session):
    """Returns the processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(own) == session and state != "Z":
            found.append(path.parent.name)
    return found


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_all_processes(running, inputs, tmp_path, sent, code):
    """While they import TensorFlow; the trial has no weights."""
    write_settings(tmp_path, task_type="tagging")
    command = [sys.executable, "run_finetuning.py", "--mode=predict", f"--model={tmp_path}"]
    command += [f"--input={inputs}", f"--output_dir={tmp_path / 'out'}", "--processes=2"]
    with running(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("2 processes with ")
        while len(processes_of(process.pid)) < 4:  # with multiprocessing's tracker of resources
            assert process.poll() is None
            time.sleep(0.01)
        if sent == signal.SIGINT:  # as a terminal does
            os.killpg(process.pid, sent)
        else:
            process.send_signal(sent)
        said = process.communicate(timeout=60)[0]
        assert process.returncode == code, said
        assert "Traceback" not in said and ("interrupted: " in said) == (sent == signal.SIGINT)
        deadline = time.monotonic() + 20
        while processes_of(process.pid):
            assert time.monotonic() < deadline, "a process is left"
            time.sleep(0.01)
    assert not (tmp_path / "out").exists()


def test_mistakes_are_told_before_the_model_is_loaded(inputs, tmp_path):
    model = tmp_path / "model"
    for name, task_type in (("model", "tagging"), ("texts", "classification")):
        (tmp_path / name).mkdir()
        write_settings(tmp_path / name, task_type=task_type)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "c.jsonl").write_text("mine")
    (tmp_path / "twice").mkdir()
    (tmp_path / "twice" / "c.nxml").write_text("<article/>")
    (tmp_path / "bad.xml").write_text("no XML")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "manifest.json").write_text(
        '{"kind": "documents", "settings": {}, "counts": {}, "shards": []}'
    )
    file = str(inputs / "c.xml")
    cases = [
        ({"form": "brat"}, [file], "new", UsageError, "--format=brat writes a folder"),
        ({"form": "html", "compress": True}, [file], "new", UsageError, "--gzip goes with"),
        ({"model": str(tmp_path / "texts")}, [file], "new", UsageError, "takes texts: give"),
        ({"model": str(tmp_path / "no")}, [file], "new", UserError, "holds no trial"),
        ({}, ["-"], "new", UsageError, "--input=- has no name"),
        ({}, [file + "x"], "new", UserError, "c.xmlx does not exist"),
        ({}, [file, str(tmp_path / "twice")], "new", UserError, "would both become c.jsonl"),
        ({}, [file], "pubmed", UserError, "pubmed holds the input"),
        ({}, [file], "mine", UserError, "c.jsonl is there already"),
        ({}, [file], "data", DataError, "describes documents, but annotations were"),
        ({}, [str(tmp_path / "bad.xml")], "new", DataError, "bad.xml: it is not well-formed"),
    ]
    for changes, given, output, kind, words in cases:
        settings = AnnotationSettings(**{"model": str(model), **changes})
        with pytest.raises(kind, match=words) as error:
            annotation.annotate(settings, given, str(tmp_path / output), strategy=never)
        assert len(str(error.value)) < 300, words
    assert not (tmp_path / "new").exists()
    assert files_of(tmp_path / "mine") == {"c.jsonl": b"mine"}


def test_a_character_that_the_form_cannot_hold_becomes_a_blank(trial, cpu, tmp_path):
    """The file is not left out; pdftotext ends each page with a form feed."""
    folder, out = tmp_path / "texts", tmp_path / "found"
    folder.mkdir()
    for name, text in {"a": "The cells\0\f.", "b": "The cells of patients."}.items():
        (folder / f"{name}.txt").write_text(text)
    settings = AnnotationSettings(trial, "bioc")
    annotation.annotate(settings, [str(folder)], str(out), strategy=cpu, processes=1)
    assert sorted(files_of(out)) == ["a.xml", "b.xml", "manifest.json"]
    assert json.loads((out / "manifest.json").read_text())["problems"] == []
    (document,) = document_formats.read(str(out / "a.xml"))
    assert document.text == "The cells  ."


@pytest.mark.usefixtures("bfloat16")  # which sets the policy back
def test_all_processes_compute_in_the_precision_of_the_first(trial, cpu):
    for precision in ("bfloat16", "float32"):
        loading = annotation_processes.Loading(trial, ())
        loaded = annotation_processes._load(loading, lambda facts, own=precision: own, cpu)
        assert loaded.facts.precision == precision


@pytest.mark.parametrize("given, expected", [("", "3"), ("2", "2")])
def test_a_process_computes_with_its_share_of_the_threads(monkeypatch, given, expected):
    """Before it imports TensorFlow; what the user sets has its way."""
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", given)
    if not given:
        monkeypatch.delenv("TF_NUM_INTRAOP_THREADS")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(annotation_processes, "_end_with_parent", lambda: None)
    seen = []

    def load(*_):
        seen.extend(os.environ[name] for name in ("TF_NUM_INTRAOP_THREADS", "CUDA_VISIBLE_DEVICES"))
        raise ValueError("a model that cannot be loaded")

    class Ended(Exception):
        pass

    def end(code):
        raise Ended

    monkeypatch.setattr(annotation_processes, "_load", load)
    monkeypatch.setattr(annotation_processes.os, "_exit", end)
    ours, theirs = multiprocessing.Pipe()
    ours.close()
    with pytest.raises(Ended):
        annotation_processes._work(theirs, annotation_processes.Loading("model", ()), 3)
    assert seen == [expected, "-1"]


def calls(monkeypatch, cores, processes):
    """Returns what annotating nine files calls, with so many cores and --processes."""
    seen = []
    run = types.SimpleNamespace(left=[None] * 9, uses=lambda cores: seen.append(("uses", cores)))
    monkeypatch.setattr(annotation.joblib, "cpu_count", lambda: cores)
    for name in ("in_this_process", "in_processes"):
        monkeypatch.setattr(
            annotation_processes, name, lambda *given, name=name: seen.append((name, *given[3:]))
        )
    annotation._compute(annotation_processes.Loading("model", ()), run, processes, never)
    return seen


@pytest.mark.parametrize(
    "cores, processes, threads, used", [(2, 5, 1, 2), (4, 3, 1, 3), (4, 2, 2, 4), (4, 1, 4, 4)]
)
def test_a_run_uses_the_cores_that_there_are(monkeypatch, cores, processes, threads, used):
    """There may be more processes than cores, and cores that no process takes."""
    one = ("in_this_process", never)
    several = ("in_processes", processes, threads)
    found = calls(monkeypatch, cores, processes)
    assert found == [("uses", used), one if processes == 1 else several]


@pytest.mark.parametrize(
    "devices, call",
    [
        ([], ("in_processes", 4, 1)),
        (["/dev/nvidiactl"], ("in_processes", 4, 1)),
        (["/dev/nvidiactl", "/dev/nvidia0"], ("in_this_process", never)),
    ],
)
def test_each_core_has_a_process_unless_there_is_a_gpu(monkeypatch, devices, call):
    """Counts them where --processes is not given."""
    found = types.SimpleNamespace(glob=lambda pattern: fnmatch.filter(devices, pattern))
    monkeypatch.setattr(annotation, "glob", found)
    assert calls(monkeypatch, 4, 0) == [("uses", 4), call]


@pytest.mark.parametrize(
    "error",
    [
        UsageError("--input: no"),
        FormatError("a.txt is not JSON."),
        FileNotFoundError(2, "No such file or directory", "a.txt"),
        ImportError("no spacy", name="spacy"),
    ],
)
def test_an_error_of_a_process_ends_the_command_as_it_would_here(error):
    same = pickle.loads(pickle.dumps(annotation_processes._portable(error)))
    assert str(same) == str(error)
    assert getattr(same, "exit_code", None) == getattr(error, "exit_code", None)
    assert [isinstance(x, UserError) for x in (same, error)] in ([True] * 2, [False] * 2)
    assert getattr(same, "filename", "") == getattr(error, "filename", "")
    assert getattr(same, "name", "") == getattr(error, "name", "")
