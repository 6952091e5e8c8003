"""Real PubMed data, and commands run as a user runs them."""

import contextlib
import gc
import gzip
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Before TensorFlow: triton, which PyTorch's builds for GPUs bring, ends the process when it is
# loaded after TensorFlow 2.20 (github.com/tensorflow/tensorflow/issues/124205).
with contextlib.suppress(ImportError):
    import triton  # noqa: F401

from data_prep import documents, examples, vocabulary
from data_prep.readers import input_files
from data_prep.running import pipeline
from tests import made_once, reference
from tfbio.base.manifests import MANIFEST

ROOT = Path(__file__).resolve().parents[1]
ONE_WORKER = pipeline.Runner(workers=1)

# What a shell starts in the background ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure():
    """Settings that make tests quicker, and not others."""
    # What is imported for the tests is no garbage: see `pytest_collection_finish`.
    gc.disable()
    # How fast XLA's machine code is does not matter; it takes half the time to compile.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    # There are as many test processes as cores: more threads in each would only wait for a core.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")


def pytest_make_parametrize_id(val):
    """Names bytes by their number.

    Compressed ones hold the time, and all processes of pytest must give a test the same name.
    """
    return f"{len(val)}_bytes" if isinstance(val, bytes) else None


def pytest_collection_modifyitems(items):
    """Files with slow tests first: what begins last must not be what takes longest."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    """What was imported stays: no use in looking for garbage in it while a test traces."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(scope="module", autouse=True)
def garbage_of_a_module():
    """Removes what is left of a module's graphs, and keeps the rest out of later searches.

    A process comes to hold many objects, and a sweep asks for a search of all after each setting.
    """
    yield
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """Says what was left out for lack of data, of all workers of pytest-xdist together."""
    skipped = terminalreporter.stats.get("skipped", [])
    if said := reference.summary(str(report.longrepr) for report in skipped):
        terminalreporter.section("data that is not at hand")
        terminalreporter.write_line(said)


def cut(path, articles):
    """The first so many articles of a PubMed file, as XML text."""
    lines = []
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            lines.append(line)
            articles -= "</PubmedArticle>" in line
            if articles == 0:
                break
    return "".join(lines) + "</PubmedArticleSet>\n"


@pytest.fixture(scope="session")
def pubmed_slice(tmp_path_factory):
    """A folder with the first articles of both shipped files: 100 old ones, 200 recent ones."""

    def make(folder):
        files = input_files.shipped_files(".xml.gz")
        for path, articles in zip(files, (100, 200), strict=True):
            with gzip.open(folder / os.path.basename(path), "wt", encoding="utf-8") as stream:
                stream.write(cut(path, articles))

    return made_once.folder(tmp_path_factory, "pubmed", make)


@pytest.fixture(scope="session")
def documents_folder(pubmed_slice, tmp_path_factory):
    """Documents of the slice, made in this process or another one of pytest's."""

    def make(folder):
        paths = input_files.find_files([str(pubmed_slice)])
        settings = documents.DocumentSettings(shard_megabytes=0.07)
        documents.make_documents(paths, folder / "documents", settings, runner=ONE_WORKER)

    return made_once.folder(tmp_path_factory, "made", make) / "documents"


@pytest.fixture(scope="session")
def vocab_file(documents_folder, tmp_path_factory):
    """A vocabulary learnt on the slice."""

    def make(folder):
        vocabulary.make_vocabulary(documents_folder, folder / "vocab.txt", size=2000)

    return made_once.folder(tmp_path_factory, "vocabulary", make) / "vocab.txt"


@pytest.fixture(scope="session")
def examples_folder(documents_folder, vocab_file, tmp_path_factory):
    """Pretraining examples of the slice, of 64 tokens."""
    settings = examples.ExampleSettings(sequence_length=64, held_out_fraction=0.2, shards=4)

    def make(folder):
        given = documents_folder, vocab_file, folder / "examples_64", settings
        examples.make_examples(*given, runner=ONE_WORKER)

    return made_once.folder(tmp_path_factory, "examples", make) / "examples_64"


@pytest.fixture(scope="session")
def packed_folder(documents_folder, vocab_file, tmp_path_factory):
    """Packed examples of the slice, of 64 tokens."""
    settings = examples.ExampleSettings(
        sequence_length=64, packing=True, held_out_fraction=0.2, shards=2
    )

    def make(folder):
        given = documents_folder, vocab_file, folder / "examples_64", settings
        examples.make_examples(*given, runner=ONE_WORKER)

    return made_once.folder(tmp_path_factory, "packed", make) / "examples_64"


@pytest.fixture(scope="session")
def pairs_folder(documents_folder, vocab_file, tmp_path_factory):
    """Pairs of segments with labels of next sentences, of 64 tokens."""
    settings = examples.ExampleSettings(
        "next_sentence", sequence_length=64, held_out_fraction=0.2, shards=2
    )

    def make(folder):
        given = documents_folder, vocab_file, folder / "examples_64", settings
        examples.make_examples(*given, runner=ONE_WORKER)

    return made_once.folder(tmp_path_factory, "pairs", make) / "examples_64"


@pytest.fixture(scope="session")
def command():
    """Runs `python -m data_prep.<stage> <flags>` as a user does."""

    def run(stage, *flags, timeout=120):
        return subprocess.run(
            [sys.executable, "-m", f"data_prep.{stage}", *map(str, flags)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture(scope="session")
def running():
    """Starts a process, of which and of all that it starts nothing is left after the block."""

    @contextlib.contextmanager
    def start(command, **options):
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    return start


@pytest.fixture(scope="session")
def largest_file():
    """Lets this process write files of so many bytes only within a block, as on a full disk."""

    @contextlib.contextmanager
    def limit(size):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limit


@pytest.fixture(scope="session")
def fails_in_one_sentence():
    """Asserts that a command failed as it should, and gives what it said."""

    def check(done):
        assert done.returncode in (1, 2), done.stderr
        assert "Traceback" not in done.stderr
        (line,) = [line for line in done.stderr.splitlines() if "error: " in line]
        assert len(line) <= 300
        return line

    return check


@pytest.fixture(scope="session")
def files_of():
    """The files of a finished folder, by name, as bytes."""

    def read(folder):
        assert (Path(folder) / MANIFEST).is_file()
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}

    return read


@pytest.fixture(scope="session")
def said_in_new_processes():
    """What a program prints in processes with other hash seeds: one line if all agree."""

    def run(program):
        done = [
            subprocess.run(
                [sys.executable, "-c", program],
                cwd=ROOT,
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
                timeout=120,
            )
            for seed in ("0", "2024")
        ]
        return {process.stdout.strip() for process in done}

    return run
