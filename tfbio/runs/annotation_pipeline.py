"""Annotates files on a Beam pipeline, as on a Flink cluster whose machines all see one folder.

The workers share nothing but the files: each writes outputs into the output folder, and a note for
each file that is done, of which this process hears as it finds it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from data_prep.running import garbage_collection, pipeline, work_folder
from tfbio.base import file_paths
from tfbio.base.errors import UserError
from tfbio.runs import annotation_folder
from tfbio.runs.annotated_file import AnnotatedFile, Job, ModelFacts
from tfbio.runs.annotation_processes import LIBRARIES, Listener, Loading

if TYPE_CHECKING:
    import apache_beam as beam

    from tfbio.runs.annotator import Annotator

# Seconds between two looks for new notes.
_LOOK_EVERY = 2.0
# The counter of a pipeline whose value is the number of processes that loaded the model.
_LOADED = ("tfbio", "models_loaded")


def in_pipeline(
    loading: Loading, jobs: Sequence[Job], listener: Listener, work: str, runner: pipeline.Runner
) -> int:
    """Annotates files on a Beam pipeline.

    Each process of the pipeline loads the model once, and computes with one thread, as clusters
    have a process for each core.

    Args:
      loading: the model. With `run.precision=auto` all machines compute in float32, as their CPUs
        may differ.
      jobs: the files, of whose notes the working folder has none.
      listener: hears of the files that are done.
      work: the path of the working folder.
      runner: the place where the pipeline runs.

    Returns:
      The number of processes that have loaded the model; 0 if the runner does not count.

    Raises:
      UserError: the model cannot be loaded, or the listener refuses it; the job failed; or it wrote
        where this machine does not see it.
      OSError: an output cannot be written.
    """
    facts = _facts(loading)
    listener.ready(facts)
    # The workers' current folder may be another.
    model, work = file_paths.absolute(loading.model), file_paths.absolute(work)
    overrides = (*loading.overrides, f"run.precision={facts.precision}")
    annotate = functools.partial(
        _annotate, loading=Loading(model, overrides), facts=facts, work=work
    )

    def build(root: beam.Pipeline) -> None:
        import apache_beam as beam

        _ = root | beam.Create(jobs) | beam.Reshuffle() | "Annotate" >> beam.Map(annotate)

    jobs = [
        dataclasses.replace(
            job, path=file_paths.absolute(job.path), output=file_paths.absolute(job.output)
        )
        for job in jobs
    ]
    result = pipeline.run(build, runner, _heard(work, jobs, listener))
    for job in jobs:
        if work_folder.read_step(work, annotation_folder.step_of(job.name)) is None:
            raise UserError(
                f"the job has ended, but {os.path.dirname(work)} has no note on {job.name}: give "
                "an --output_dir that all machines see."
            )
    if loads := _loads(result):
        print(f"{loads} process(es) loaded the model", flush=True)
    return loads


def _facts(loading: Loading) -> ModelFacts:
    """Returns the facts of the model, which is not loaded."""
    from tfbio.weights import checkpoint_source, fine_tuned

    trial = fine_tuned.find_trial(loading.model, say=lambda line: None)
    settings = fine_tuned.read_settings(trial)
    precision = fine_tuned.config_for_new_text(settings, loading.overrides).run.precision
    return ModelFacts(
        checkpoint_source.sha256_of_weights(trial), "float32" if precision == "auto" else precision
    )


@contextlib.contextmanager
def _heard(work: str, jobs: Sequence[Job], listener: Listener) -> Iterator[None]:
    """Tells the listener of the files that workers note as done while the block runs."""
    left = {annotation_folder.step_of(job.name): job for job in jobs}
    stop = threading.Event()

    def look() -> None:
        for path in work_folder.step_files(work, annotation_folder.step_of("")):
            if (job := left.pop(path.stem, None)) is not None:
                note = work_folder.read_step(work, path.stem)
                listener.done(job, AnnotatedFile.from_json(note))

    def watch() -> None:
        while not stop.wait(_LOOK_EVERY):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        look()


def _loads(result: beam.runners.runner.PipelineResult) -> int:
    """Returns how many processes have loaded the model; 0 if the runner does not count."""
    import apache_beam as beam

    namespace, name = _LOADED
    which = beam.metrics.MetricsFilter().with_namespace(namespace).with_name(name)
    try:
        counters = result.metrics().query(which)["counters"]
    except NotImplementedError:
        return 0
    return sum(counter.result for counter in counters)


# --- In the pipeline's processes -----------------------------------------------------------------

# A process may have several threads for bundles, and has one model.
_ONE_AT_A_TIME = threading.Lock()


@garbage_collection.rare_garbage_collection()
def _annotate(job: Job, loading: Loading, facts: ModelFacts, work: str) -> None:
    """Annotates a file, and notes in the working folder that it is done."""
    with _ONE_AT_A_TIME:
        note = _annotator(loading, facts).annotate(job, lambda documents: None)
    work_folder.write_step(work, annotation_folder.step_of(job.name), dataclasses.asdict(note))


@functools.lru_cache(maxsize=1)
def _annotator(loading: Loading, facts: ModelFacts) -> Annotator:
    """Loads the model.

    Raises:
      UserError: it is not the one that the command has found.
    """
    import apache_beam as beam

    # TensorFlow reads them when it is imported.
    for name in ("TF_NUM_INTRAOP_THREADS", *LIBRARIES):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # each process would take all memory
    from tfbio.runs.annotator import Annotator
    from tfbio.training import distribution

    strategy = distribution.make_strategy(strategy="one_device")
    annotator = Annotator(loading.model, strategy, loading.overrides)
    if annotator.facts != facts:
        raise UserError(
            f"{loading.model} has other weights here than where the command was given: all "
            "machines must see the same files."
        )
    beam.metrics.Metrics.counter(*_LOADED).inc()
    return annotator
