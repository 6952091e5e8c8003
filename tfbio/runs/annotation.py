"""Annotates one file after another: for each input file one output file, and a manifest of all.

`run_finetuning.py --mode=predict --output_dir=...` calls `annotate`. Nothing here imports
TensorFlow before all that can be wrong with flags, settings and files was looked for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import joblib

import tfbio
from data_prep.running import pipeline, work_folder
from data_prep.sentences import splitters
from tfbio.base import file_paths, messages, path_checks, storage
from tfbio.base.errors import DataError, UsageError, UserError
from tfbio.base.manifests import MANIFEST, Manifest
from tfbio.formats.text_files import STDIN
from tfbio.runs import (
    annotated_file,
    annotation_folder,
    annotation_processes,
    document_formats,
    predict,
    step_times,
)
from tfbio.runs.annotated_file import AnnotatedFile, AnnotationSettings, Job, ModelFacts
from tfbio.runs.annotation_folder import AnnotationFolder
from tfbio.runs.annotation_processes import Loading
from tfbio.runs.annotation_progress import AnnotationProgress

if TYPE_CHECKING:
    import tensorflow as tf

# The most bytes of a file's name, less those that `storage.written_whole` adds while it writes.
_MOST_BYTES = 255 - len(f".{32 * 'f'}.tmp")


def annotate(
    settings: AnnotationSettings,
    inputs: Sequence[str],
    output_dir: str,
    *,
    strategy: tf.distribute.Strategy | Callable[[], tf.distribute.Strategy],
    processes: int = 0,
    runner: pipeline.Runner = pipeline.LOCAL,
    overwrite: bool = False,
) -> None:
    """Annotates documents file by file with a model that finds entities, and prints counts.

    Returns nothing. Each input file gives an output file of its name in `output_dir`, and
    `manifest.json` has the model, the settings, and the counts of each file. Files that are
    complete are kept by a later run, which may have more input files. An input that cannot be read
    is named and left out. On machines of one kind, the bytes of an output depend on its input and
    the settings alone.

    Args:
      settings: the model, and the form of the outputs.
      inputs: paths of files and folders, and globs.
      output_dir: the path of the folder.
      strategy: where one process computes, or a function that makes it; several compute on the CPU.
      processes: the number of processes; 0: one a core, but one alone where there is a GPU.
      runner: where a Beam pipeline annotates; the local one: in processes of this machine.
      overwrite: True to replace the files of an earlier run, also of an interrupted one.

    Raises:
      UsageError: the form cannot be written file by file, or not compressed, or the model finds no
        entities.
      UserError: there is no such model or input; two inputs have one name, or one a name that is
        too long; the folder has files with another model or other settings, or of another version
        of tfbio; a process died, memory ran out, or the pipeline's job failed.
      DataError: no input was good.
      OSError: an output cannot be written.
      RuntimeError: anything else has failed at an input; the message names it.
    """
    path_checks.require_output("output_dir", output_dir, may_be_remote=True)
    _check_form(settings.form, settings.compress)
    known = predict.facts_of(settings.model)
    if known is not None and known.new_text != "documents":
        raise UsageError(
            f"--output_dir is for models that find entities, and --model={settings.model} takes "
            f"{known.new_text}: give --output."
        )
    jobs = _jobs(inputs, output_dir, settings)
    with storage.only_writer(output_dir):
        folder = AnnotationFolder(output_dir, overwrite)
        run = _Run(folder, settings, jobs)
        folder.check_outputs(run.left, overwrite)
        if run.left:
            loading = Loading(settings.model, run.overrides())
            try:
                if runner.is_local:
                    _compute(loading, run, processes, strategy)
                else:
                    _compute_elsewhere(loading, run, folder, runner)
            finally:
                storage.remove_half_written(output_dir)  # by processes that were killed
        else:
            run.nothing_is_left()
        run.finish()


def _check_form(form: str, compress: bool) -> None:
    """Raises UsageError if the outputs cannot have a form."""
    if form not in annotated_file.ENDINGS:
        raise UsageError(
            f"--format={form} writes a folder for all documents: give --output, or with "
            f"--output_dir one of {', '.join(annotated_file.ENDINGS)}."
        )
    if compress and form not in annotated_file.COMPRESSIBLE:
        raise UsageError(
            f"--gzip goes with --format={' or '.join(annotated_file.COMPRESSIBLE)}, not {form}."
        )


def _jobs(inputs: Sequence[str], output_dir: str, settings: AnnotationSettings) -> list[Job]:
    """Returns what there is to do for each input file, in the order of their names.

    Raises:
      UserError: there is no such file, the output would lie beside it, two have one name, or a
        name is too long.
    """
    jobs: dict[str, Job] = {}
    for path in _inputs(inputs, output_dir):
        if path == STDIN:
            raise UsageError("--input=- has no name for a file in --output_dir: give --output.")
        name = annotated_file.output_name(path, settings.form, settings.compress)
        if name in jobs:
            raise UserError(
                f"--input: {jobs[name].path} and {path} would both become {name}: annotate them "
                "into two folders."
            )
        # Its longest names: of the output, and of the note that it is done.
        made = (name, f"file-{os.path.basename(path)}.json")
        if (excess := max(len(os.fsencode(each)) for each in made) - _MOST_BYTES) > 0:
            raise UserError(
                f"--input: the name of {messages.cut(os.path.basename(path), 100)} is {excess} "
                "byte(s) too long for the files that are made of it: rename the file, or give a "
                "link with a shorter name."
            )
        output = str(file_paths.at(output_dir, name))
        size = annotated_file.UNKNOWN
        with contextlib.suppress(OSError):  # such as a link to nothing, which `problem_of` names
            size = storage.size(path)
        jobs[name] = Job(path, size, output, settings.form, settings.compress)
    return list(jobs.values())


def _inputs(inputs: Sequence[str], output_dir: str) -> list[str]:
    """Lists the input files, but for what annotations have written there.

    Raises:
      UserError: there is no such file, or the output would lie beside it.
    """
    paths = document_formats.find_files(inputs)
    folder = os.path.realpath(output_dir)
    written = (folder, os.path.join(folder, work_folder.WORK))
    inside = [path for path in paths if os.path.dirname(os.path.realpath(path)) in written]
    # Before the first run, what is in the folder is somebody else's.
    is_first = not any(
        file_paths.at(output_dir, name).exists() for name in (MANIFEST, work_folder.WORK)
    )
    named = [path for path in inside if is_first or path in inputs]
    if named or len(inside) == len(paths):
        path = (named or inside)[0]
        raise UserError(f"--output_dir={output_dir} holds the input {path}: give another one.")
    return annotation_folder.without_annotations(
        [path for path in paths if path not in inside], inputs
    )


class _Run:
    """The run of an annotation, which hears of its progress: an `annotation_processes.Listener`.

    Args:
      folder: the output folder.
      settings: the model, and the form of the outputs.
      jobs: all files.

    Attributes:
      left: the files that are not done, the largest first, so that processes end together.
    """

    def __init__(self, folder: AnnotationFolder, settings: AnnotationSettings, jobs: Sequence[Job]):
        self._folder, self._jobs = folder, jobs
        # Those that are known before the model is loaded, and count also if nothing is left.
        self._settings: dict[str, Any] = {
            "model": file_paths.absolute(settings.model),
            "form": settings.form,
            "compress": settings.compress,
            "set": list(settings.overrides),
        }
        folder.check(self._settings)
        self.left: list[Job] = []
        self._bad: list[AnnotatedFile] = []  # by their beginnings
        done = 0
        for job in jobs:
            if folder.is_done(job):
                done += 1
            elif problem := document_formats.problem_of(job.path):
                self._bad.append(annotated_file.bad(job, problem))
            else:
                self.left.append(job)
        if len(self._bad) == len(jobs):
            raise DataError(f"no input can be read: {self._bad[0].problem}")
        if self.left:  # else nothing of these versions is added to what others wrote
            splitter = " ".join(splitters.resolve("auto"))
            folder.check({"sentence_splitter": splitter, "tfbio": tfbio.__version__})
        self.left.sort(key=lambda job: -job.bytes)
        if done and self.left:
            print(f"{done:,} of {len(jobs):,} files are complete and are kept", flush=True)
        self._progress = AnnotationProgress(self.left, done + len(self._bad))
        self._agreed: ModelFacts | None = None
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._deaths: list[str] = []
        self._missing = {job.name for job in self.left}
        self._cores = 1

    def overrides(self) -> tuple[str, ...]:
        """Returns the settings with which the model is loaded."""
        # "auto" chose it in the run that began the folder, perhaps on another machine.
        before = self._folder.settings.get("precision")
        return (*self._settings["set"], *([f"run.precision={before}"] if before else []))

    def uses(self, cores: int) -> None:
        """Notes the number of cores, 0 if it is not known."""
        self._cores = cores

    def nothing_is_left(self) -> None:
        """Notes the files that cannot be read, where all others are done.

        Raises:
          UserError: another model annotated them.
        """
        from tfbio.weights import fine_tuned

        trial = fine_tuned.find_trial(self._settings["model"], say=lambda line: None)
        facts = dataclasses.asdict(ModelFacts.of(trial, precision=""))
        # These are of the next files, of which there are none.
        for name in ("precision", "bfloat16_products", "sentence_splitter", "tfbio"):
            del facts[name]
        self._folder.check(facts)
        print(f"{self._folder.path} is complete", flush=True)
        if self._bad:
            self._folder.begin(self._folder.settings)
            for note in self._bad:
                self._folder.add(note)

    def ready(self, facts: ModelFacts) -> str:
        """See `annotation_processes.Listener`."""
        if self._agreed is None:
            settings = {**self._settings, **dataclasses.asdict(facts)}
            self._folder.check(settings)
            self._folder.begin(settings)
            for note in self._bad:
                self._tell(note)
            self._progress.start()
            self._agreed = facts
        return self._agreed.precision

    def progress(self, job: Job, documents: int) -> None:
        """See `annotation_processes.Listener`."""
        self._progress.at(job, documents)

    def done(self, job: Job, note: AnnotatedFile, made_before: bool = False) -> None:
        """See `annotation_processes.Listener`."""
        self._missing.discard(job.name)
        self._tell(note)
        if made_before:  # not in the time of this run, so its speed knows nothing of it
            self._progress.finished(job, 0)
            return
        for step, seconds in note.seconds.items():
            self._seconds[step] += seconds
        self._progress.finished(job, note.output.records if note.output else 0)

    def died(self, job: Job | None, code: int | None) -> None:
        """See `annotation_processes.Listener`."""
        where = f"at {job.path}" if job else "while it loaded the model"
        self._deaths.append(f"a process died {where} (exit code {code})")
        print(f"{self._deaths[-1]}: the others go on", flush=True)
        if job:
            self._progress.lost(job)

    def _tell(self, note: AnnotatedFile) -> None:
        """Keeps the note on a file, and prints its problems."""
        self._folder.add(note)
        for problem in annotation_folder.problems([note]):
            print(f"left out: {problem}", flush=True)

    def finish(self) -> None:
        """Writes the manifest, and prints counts and times.

        Raises:
          UserError: files are missing, as processes died.
          DataError: no input was good.
        """
        self._progress.close()
        if self._deaths and self._missing:
            raise UserError(
                f"{self._deaths[0]}; -9 says that memory ran out: run the same command again, "
                "without --overwrite and perhaps with fewer --processes; it continues. Where a "
                "process dies at the same file again, leave that out of --input."
            )
        notes = [self._folder.notes[job.name] for job in self._jobs]
        if not any(note.output for note in notes):
            raise DataError(f"no input can be read: {notes[0].problem}")
        manifest = self._folder.finish()
        if not self.left:
            for problem in manifest.problems:
                print(f"left out: {problem}", flush=True)
        self._report(manifest)

    def _report(self, manifest: Manifest) -> None:
        counts = manifest.counts
        if documents := self._progress.documents:
            elapsed = self._progress.elapsed
            print(step_times.report(self._seconds, documents, elapsed, self._cores))
        entities = Counter(counts["entities"])
        by_type = f": {messages.counted(entities)}" if entities else ""
        print(
            f"{counts['documents']:,} document(s) of {counts['input_files']:,} file(s) "
            f"({counts['bad_input_files']:,} left out), {entities.total():,} entities{by_type}; "
            f"see {self._folder.path}",
            flush=True,
        )


def _compute(
    loading: Loading,
    run: _Run,
    processes: int,
    strategy: tf.distribute.Strategy | Callable[[], tf.distribute.Strategy],
) -> None:
    """Annotates what is left, in this process or in several others."""
    predict.tell_splitter()
    cores = joblib.cpu_count()
    if not processes:
        processes = 1 if glob.glob("/dev/nvidia[0-9]*") else cores
    processes = min(processes, len(run.left))
    threads = max(1, cores // processes)
    run.uses(min(cores, processes * threads))  # there may be more processes than cores
    if processes == 1:
        annotation_processes.in_this_process(loading, run.left, run, strategy)
    else:
        print(f"{processes} processes with {threads} thread(s) each", flush=True)
        annotation_processes.in_processes(loading, run.left, run, processes, threads)


def _compute_elsewhere(
    loading: Loading, run: _Run, folder: AnnotationFolder, runner: pipeline.Runner
) -> None:
    """Annotates what is left on a Beam pipeline."""
    # Imported late: its workers import it too, and few need Beam.
    from tfbio.runs import annotation_pipeline

    predict.tell_splitter()
    run.uses(annotation_pipeline.in_pipeline(loading, run.left, run, str(folder.work), runner))
