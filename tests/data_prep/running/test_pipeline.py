import contextlib
import os
from concurrent import futures

import grpc
import pytest

from data_prep import documents, examples, vocabulary
from data_prep.corpora import released_files
from data_prep.readers import input_files
from data_prep.running import pipeline
from tfbio.base import errors, file_paths, storage

ONE_WORKER = pipeline.Runner(workers=1)


# --- Flags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("--job_nam=x", "'--job_nam=x': did you mean --job_name?"),
        ("--qqqqqqqq", "'--qqqqqqqq': see --help."),
        ("--job_name=x", ""),  # Beam knows it
    ],
)
def test_flags_that_nobody_knows_are_refused(flag, hint):
    with (
        pytest.raises(errors.UserError, match="neither") if hint else contextlib.nullcontext() as e
    ):
        pipeline.check_flags([flag])
    assert not hint or hint in str(e.value)


def test_another_runner_may_know_flags_that_are_not_nearly_ours():
    pipeline.check_flags(["--flink_thing=3", "4", "--job_nam=x"], is_local=False)
    with pytest.raises(errors.UserError, match="knows '--verbosit=1': did you mean --verbosity?"):
        pipeline.check_flags(["--flink_thing", "--verbosit=1"], is_local=False)


def test_a_job_service_that_does_not_answer_is_named():
    def portable(*args):
        return pipeline.Runner("PortableRunner", beam_args=("--job_server_timeout=2", *args))

    service = grpc.server(futures.ThreadPoolExecutor(1))
    port = service.add_insecure_port("localhost:0")
    service.start()
    pipeline.check_reachable(portable(f"--job_endpoint=localhost:{port}"))
    pipeline.check_reachable(portable(f"--job_endpoint=dns:///localhost:{port}"))
    service.stop(None).wait()
    with pytest.raises(errors.UserError, match=f"--job_endpoint=localhost:{port}: no .* 2 seconds"):
        pipeline.check_reachable(portable(f"--job_endpoint=localhost:{port}"))
    for others in ((), ("--job_endpoint=embed",)):
        pipeline.check_reachable(portable(*others))
    pipeline.check_reachable(pipeline.LOCAL)


def test_a_lost_connection_with_another_runner_is_one_sentence():
    for error in (grpc.FutureTimeoutError(), grpc.RpcError("lost"), RuntimeError("lost")):
        mistake = pipeline._mistake(error, pipeline.Runner("FlinkRunner"), [])
        assert str(mistake).startswith("the job on FlinkRunner failed: "), error
    assert pipeline._mistake(grpc.RpcError("lost"), pipeline.LOCAL, []) is None


def test_a_failed_job_of_another_runner_is_one_sentence(monkeypatch):
    """Dataflow's error of a failed job is a plain `Exception`."""

    class Result:
        def wait_until_finish(self):
            raise failure

        def cancel(self):
            pass

    monkeypatch.setattr(pipeline, "_start", lambda *_: Result())
    runner = pipeline.Runner("DataflowRunner")
    for failure, expected in (
        (Exception("Dataflow pipeline failed. State: FAILED"), "the job on DataflowRunner failed"),
        (errors.Interrupted("stopped."), "stopped."),
    ):
        with pytest.raises(errors.UserError, match=expected) as raised:
            pipeline.run(lambda _: None, runner, contextlib.nullcontext())
        assert ("it continues" in str(raised.value)) == (failure is not raised.value)
    # Before the job has begun it is the program's.
    assert pipeline._mistake(KeyError("x"), runner, []) is None


# --- Errors of local workers ---------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("mistake", errors.UserError, "a.zip: it is 'damaged': get it again."),
        ("refusal", FileNotFoundError, "[Errno 2] No such file or directory: {path!r}"),
    ],
)
def test_a_mistake_that_a_worker_finds_is_its_sentence(tmp_path, workers, name, kind, said):
    import apache_beam as beam

    path = f"{tmp_path}/it's \\ here"

    def fail(name):
        try:
            os.stat("/nowhere")
        except OSError as error:  # its line is in the traceback, too
            if name == "refusal":
                os.stat(path)
            raise released_files.CorpusError("a.zip: it is 'damaged': get it again.") from error

    def build(root):
        _ = root | beam.Create([name]) | "It's" >> beam.Map(fail)

    with pytest.raises(kind) as error:
        pipeline.run(build, pipeline.Runner(workers=workers), contextlib.nullcontext())
    assert str(error.value) == said.format(path=path)


def test_a_mistake_that_beam_cannot_raise_again_is_its_sentence():
    """As of a class that takes more than a message."""
    text = "RuntimeError: tfbio.base.errors.UsageError: --flag=x: expected y. [while running 'R']"
    for start in ("Traceback:\n  File\n", ""):
        assert str(pipeline._mistake(RuntimeError(start + text), ONE_WORKER, [])) == (
            "--flag=x: expected y."
        )


def test_an_error_of_the_program_after_a_mistake_keeps_its_traceback():
    name = "tfbio.base.errors"
    handled = f"{name}.UserError: a mistake\n\nDuring handling:\n\nKeyError: 'x'\n"
    others = (f"{name}.Gone: a", f"{name}.os: a", f"{name}.DataError", "os.error: a", "")
    for text in (handled, *others):
        assert pipeline._mistake(RuntimeError(text), ONE_WORKER, []) is None, text


# --- Object stores -------------------------------------------------------------------------------


def test_an_object_store_gets_the_same_bytes(
    pubmed_slice, documents_folder, vocab_file, examples_folder
):
    """The store is in this process's memory; the paths are those of fsspec's other stores."""
    store = "memory://bucket"
    for path in pubmed_slice.iterdir():
        file_paths.at(store, "pubmed", path.name).write_bytes(path.read_bytes())

    def of(folder):
        assert not file_paths.at(folder, ".work").exists()
        return {file.name: file.read_bytes() for file in file_paths.at(folder).iterdir()}

    made = f"{store}/documents"
    paths = input_files.find_files([f"{store}/pubmed"])
    settings = documents.DocumentSettings(shard_megabytes=0.07)
    documents.make_documents(paths, made, settings, runner=ONE_WORKER)
    assert of(made) == of(documents_folder)
    assert input_files.find_files([f"{store}/pubmed/*.gz"]) == input_files.find_files(
        [f"{store}/pubmed"]
    )
    vocabulary.make_vocabulary(made, f"{store}/vocab.txt", size=2000)
    assert file_paths.at(store, "vocab.txt").read_bytes() == vocab_file.read_bytes()
    settings = examples.ExampleSettings(sequence_length=64, held_out_fraction=0.2, shards=4)
    vocab = f"{store}/vocab.txt"
    examples.make_examples(made, vocab, f"{store}/examples", settings, runner=ONE_WORKER)
    assert of(f"{store}/examples") == of(examples_folder)
    with pytest.raises(errors.UserError, match="memory://bucket/gone does not exist"):
        input_files.find_files([f"{store}/gone"])
    storage.remove_folder(store)
