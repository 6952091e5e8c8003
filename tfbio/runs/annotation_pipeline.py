"""Annotates files on a Beam pipeline, as on a Flink cluster whose machines all see one folder.

The workers share nothing but the files: each writes outputs into the output folder, and a note for
each file that is done into the working folder, which this process finds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from data_prep.running import garbage_collection, pipeline, work_folder
from tfbio.base import file_paths, json_files, storage
from tfbio.base.errors import UserError
from tfbio.runs import annotation_folder
from tfbio.runs.annotated_file import AnnotatedFile, Job, ModelFacts
from tfbio.runs.annotation_processes import LIBRARIES, Listener, Loading

if TYPE_CHECKING:
    import apache_beam as beam

    from tfbio.runs.annotator import Annotator

# Seconds between two looks for new notes.
_LOOK_EVERY = 2.0
# The beginning of the names of these notes. `AnnotationFolder` keeps others, of which it can tell
# that they are of the folder's model.


def in_pipeline(
    loading: Loading, jobs: Sequence[Job], listener: Listener, work: str, runner: pipeline.Runner
) -> int:
    """Annotates files on a Beam pipeline.

    Each process of the pipeline loads the model once, and computes with one thread, as clusters
    have a process for each core. Prints how many have loaded it, and how often.

    Args:
      loading: the model. With `run.precision=auto` all machines compute in float32, as their CPUs
        may differ.
      jobs: the files.
      listener: hears of the files that are done.
      work: the path of the working folder.
      runner: the place where the pipeline runs.

    Returns:
      The number of processes that have annotated a file for this call.

    Raises:
      UserError: the model cannot be loaded, or the listener refuses it; the job failed; or the
        machines do not see the same files.
      OSError: a note cannot be written on this machine.
    """
    facts = _facts(loading)
    pipeline.check_reachable(runner)  # before the files of an earlier run are removed
    listener.ready(facts)
    # The workers' current folder may be another.
    model, work = file_paths.absolute(loading.model), file_paths.absolute(work)
    loading = Loading(model, (*loading.overrides, f"run.precision={facts.precision}"))
    token = _token(work)  # tells the notes of this job from those of an earlier one
    annotate = functools.partial(_annotate, loading=loading, facts=facts, work=work, token=token)
    jobs = [
        dataclasses.replace(
            job, path=file_paths.absolute(job.path), output=file_paths.absolute(job.output)
        )
        for job in jobs
    ]

    def build(root: beam.Pipeline) -> None:
        import apache_beam as beam

        _ = root | beam.Create(jobs) | beam.Reshuffle() | "Annotate" >> beam.Map(annotate)

    _forget_left_out(work, jobs)
    notes = _Notes(work, jobs, loading, facts, token, listener)
    pipeline.run(build, runner, notes.heard())
    # By their names: a listing of a folder that several machines share may be old.
    notes.look(list(notes.left))
    for name in notes.left:
        raise UserError(
            f"the job has ended, but {os.path.dirname(work)} has no note on {name}: give an "
            "--output_dir that all machines see."
        )
    processes, loads = len(notes.loads), sum(notes.loads.values())
    print(f"{processes} process(es) have loaded the model {loads} time(s)", flush=True)
    return processes


def _facts(loading: Loading) -> ModelFacts:
    """Returns the facts of the model, which is not loaded."""
    from tfbio.weights import fine_tuned

    trial = fine_tuned.find_trial(loading.model, say=lambda line: None)
    settings = fine_tuned.read_settings(trial)
    precision = fine_tuned.config_for_new_text(settings, loading.overrides).run.precision
    return ModelFacts.of(trial, "float32" if precision == "auto" else precision)


def _forget_left_out(work: str, jobs: Sequence[Job]) -> None:
    """Removes earlier notes on files left out, of which the listener would hear before the try."""
    for job in jobs:
        if (note := _read(job, work)) and note.output is None:
            work_folder.remove_step(work, f"{annotation_folder.MADE}{job.name}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Note(AnnotatedFile):
    """The note that a worker writes on a file that it has annotated.

    Attributes:
      job: what the output depends on, see `_of`.
      process: the name of the worker.
      loads: how often the worker has loaded a model so far.
      token: the token of the run that has begun the job.
    """

    job: dict[str, Any]
    process: str
    loads: int
    token: str

    @property
    def file(self) -> AnnotatedFile:
        """The note without what only this module needs."""
        names = [field.name for field in dataclasses.fields(AnnotatedFile)]
        return AnnotatedFile(**{name: getattr(self, name) for name in names})


class _Notes:
    """The notes that workers write, of which a listener hears.

    Args:
      work: the path of the working folder.
      jobs: the files that are annotated.
      loading, facts: the model.
      token: the str that the notes of this job have.
      listener: hears of each file that is done, once.

    Attributes:
      left: the files of which there is no note yet, by name.
      loads: how often each process that has written notes of this job has loaded a model.
    """

    def __init__(
        self,
        work: str,
        jobs: Sequence[Job],
        loading: Loading,
        facts: ModelFacts,
        token: str,
        listener: Listener,
    ):
        self._work, self._loading, self._facts = work, loading, facts
        self._token, self._listener = token, listener
        self.left = {job.name: job for job in jobs}
        self.loads: Counter[str] = Counter()

    def look(self, names: Iterable[str]) -> None:
        """Tells the listener of new notes on files of these names."""
        for name in names:
            job = self.left.get(name)
            note = _note(job, self._loading, self._facts, self._work) if job else None
            if job is None or note is None:
                continue
            before = note.token != self._token
            self._listener.done(job, note.file, made_before=before)
            if not before:
                self.loads[note.process] = max(self.loads[note.process], note.loads)
            del self.left[name]

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Looks for new notes again and again while the block runs."""
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(_LOOK_EVERY):
                paths = work_folder.step_files(self._work, annotation_folder.MADE)
                # What fails here fails again at the end, and is raised then.
                with contextlib.suppress(OSError):
                    self.look([path.stem.removeprefix(annotation_folder.MADE) for path in paths])

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _note(job: Job, loading: Loading, facts: ModelFacts, work: str) -> _Note | None:
    """Returns the note on a file, by whatever run of the same output; None if there is none."""
    note = _read(job, work)
    return note if note and note.job == _of(job, loading, facts) else None


def _read(job: Job, work: str) -> _Note | None:
    """Returns the note on a file; None for none, or a damaged one: the file is made again."""
    path = file_paths.at(work, f"{annotation_folder.MADE}{job.name}.json")
    return _Note.from_json(json_files.read_object_or_empty(path))


def _of(job: Job, loading: Loading, facts: ModelFacts) -> dict[str, Any]:
    """Returns what the output of a file depends on, as a note has it."""
    # The facts have the precision, of which a command that continues gives one override more.
    changes = [text for text in loading.overrides if not text.startswith("run.precision=")]
    return dataclasses.asdict(job) | dataclasses.asdict(facts) | {"set": changes}


def _token(work: str) -> str:
    """Returns the token of the run that has begun last in a working folder, "" if it has ended."""
    noted = work_folder.read_step(work, annotation_folder.SETTINGS) or {}
    return noted.get(annotation_folder.TOKEN, "")


# --- In the pipeline's processes -----------------------------------------------------------------

# A process may have several threads for bundles, and has one model.
_ONE_AT_A_TIME = threading.Lock()


def _annotate(job: Job, loading: Loading, facts: ModelFacts, work: str, token: str) -> None:
    """Annotates a file, and notes in the working folder that it is done.

    Raises:
      UserError: this machine does not see the model, the file or the folder of the command, or
        another command has begun in the folder.
    """

    def go_on(_: int) -> None:
        # A job lives on where its command was killed, and must not replace what the next one makes.
        if _token(work) != token:
            raise UserError(
                f"another command has begun in {os.path.dirname(work)}, or this machine does not "
                "see it: this job ends."
            )

    size = -1
    with _ONE_AT_A_TIME, garbage_collection.rare_garbage_collection():
        if (note := _note(job, loading, facts, work)) and _has_output(job, note):
            return  # a runner repeats a job or a part of it after a failure
        with contextlib.suppress(OSError):
            size = storage.size(job.path)
        if size != job.bytes:
            raise UserError(
                f"{job.path} is not the file here that the command has found: all machines must "
                "see the same files."
            )
        done = _annotator(loading, facts).annotate(job, go_on)
        note = json_files.extended(
            _Note,
            done,
            job=_of(job, loading, facts),
            process=f"{socket.gethostname()} {os.getpid()}",
            loads=_annotator.cache_info().misses,
            token=token,
        )
        work_folder.write_step(
            work, f"{annotation_folder.MADE}{job.name}", dataclasses.asdict(note)
        )


def _has_output(job: Job, note: _Note) -> bool:
    """Returns True if the output that a note tells of is there. A file left out is tried again."""
    try:
        return note.output is not None and storage.size(job.output) == note.output.bytes
    except OSError:
        return False


@functools.lru_cache(maxsize=1)
def _annotator(loading: Loading, facts: ModelFacts) -> Annotator:
    """Loads the model.

    Raises:
      UserError: it is not the one that the command has found, or would annotate otherwise here.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # each process would take all memory of a GPU
    # TensorFlow and the sentence splitter read them when they are imported.
    for name in ("TF_NUM_INTRAOP_THREADS", *LIBRARIES):
        os.environ.setdefault(name, "1")
    from tfbio.runs.annotator import Annotator
    from tfbio.training import distribution

    strategy = distribution.make_strategy(strategy="one_device")
    annotator = Annotator(loading.model, strategy, loading.overrides)
    _check_facts(loading.model, annotator.facts, facts)
    return annotator


def _check_facts(model: str, here: ModelFacts, there: ModelFacts) -> None:
    """Raises a UserError unless this process annotates as the command would."""
    same_packages = "install the same packages on all machines"
    for name, words, remedy in (
        ("tfbio", "tfbio {} annotates here, and {}", same_packages),
        ("sentence_splitter", "{} splits sentences here, and {}", same_packages),
        (
            "bfloat16_products",
            "products in bfloat16 are {} here, and {}",
            "give --set run.precision=float32",
        ),
    ):
        own, other = getattr(here, name), getattr(there, name)
        if own != other:
            raise UserError(f"{words.format(own, other)} where the command was given: {remedy}.")
    if here != there:
        raise UserError(
            f"{model} is another model here than where the command was given: all machines must "
            "see the same files."
        )
