"""Keeps what is complete in the output folder of an annotation, so that a later run continues it.

While a run works, `.work/` in the folder has its settings, and a note for each file that is done:
`data_prep.running.work_folder` writes these for data preparation, too. At the end `manifest.json`
takes over the notes. A run with more input files adds theirs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from data_prep.running import work_folder
from tfbio.base import file_paths, json_files, manifests, messages, storage
from tfbio.base.errors import DataError, UserError
from tfbio.base.manifests import MANIFEST, Manifest
from tfbio.runs.annotated_file import UNKNOWN, AnnotatedFile, Job

KIND = "annotations"
# The step in the working folder with the settings, and with the run's token: a str of no other run,
# so that a cluster's job can tell when another one has begun.
SETTINGS, TOKEN = "settings", "token"
# The step with the note that a worker of a cluster's job writes on a file, for the command.
MADE = "made-"
# The path of the model is for readers: the hash of its weights tells models apart.
_NOT_COMPARED = ("model",)


class AnnotationFolder:
    """The output folder of an annotation, with the notes on the files that are complete.

    Args:
      path: the path of the folder, which need not exist. Nobody else may be writing there.
      overwrite: True to replace what an earlier run has written: it does not count, and `begin`
        removes it.

    Attributes:
      path: as given.
      work: the path of the working folder.
      settings: the settings of the run that wrote the folder, by name; {} if it is new.
      notes: an `AnnotatedFile` for each input file that is done, by its name.

    Raises:
      DataError: the folder has the manifest of other data or a damaged one, or unfinished output of
        data preparation.
    """

    def __init__(self, path: str, overwrite: bool = False):
        self.path = path
        self.settings: dict[str, Any] = {}
        self.notes: dict[str, AnnotatedFile] = {}
        self.work = file_paths.at(path, work_folder.WORK)
        self.is_begun = self.work.is_dir()
        # Also what is replaced must be an annotation's; but then it may be damaged.
        damage = contextlib.suppress(DataError) if overwrite else contextlib.nullcontext()
        if file_paths.at(path, MANIFEST).exists():
            if overwrite:
                work_folder.finished(file_paths.at(path, MANIFEST), KIND, {}, overwrite)
            with damage:
                self._read_manifest()
        # They are newer than the manifest, to which a run adds files.
        if self.is_begun:
            work_folder.check_unfinished(path, KIND)
            with damage:
                self._read_work()
        self._overwrite = overwrite
        self._replaced: list[str] = []
        if overwrite:
            notes = [*self.notes.values(), *self._made()]
            self._replaced = [note.output.file for note in notes if note.output]
            self.settings, self.notes, self.is_begun = {}, {}, False

    def _read_manifest(self) -> None:
        path = file_paths.at(self.path, MANIFEST)
        manifest = manifests.load_manifest(path, KIND)
        shards = {shard.file: shard for shard in manifest.shards}
        self.settings = manifest.settings
        try:
            for name, own in manifest.counts["inputs"].items():
                shard = shards.get(own.pop("file"))
                self.notes[name] = AnnotatedFile(input=name, output=shard, **own)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path} does not say what was annotated: {error}. Give --overwrite to replace it."
            ) from error

    def _read_work(self) -> None:
        for path in work_folder.step_files(self.work, "file-"):
            # A damaged one does not count, so that its file is made again.
            if note := AnnotatedFile.from_json(json_files.read_object_or_empty(path)):
                self.notes[note.input] = note
        path = self.work / f"{SETTINGS}.json"
        if noted := json_files.read_object_or_empty(path):
            for name in ("kind", TOKEN):
                noted.pop(name, None)
            self.settings = noted
        elif path.exists():
            raise DataError(
                f"{path} is damaged, and nothing else says with which model the files beside it "
                "were annotated: give --overwrite to replace them."
            )

    def _made(self) -> Iterator[AnnotatedFile]:
        """Yields the notes of Beam's workers, of which a command that was killed has not heard."""
        for path in work_folder.step_files(self.work, MADE) if self.is_begun else ():
            if note := AnnotatedFile.from_json(json_files.read_object_or_empty(path)):
                yield note

    def _remove(self) -> None:
        """Removes the output of earlier runs, the manifest first."""
        file_paths.at(self.path, MANIFEST).unlink(missing_ok=True)
        for name in self._replaced:
            file_paths.at(self.path, name).unlink(missing_ok=True)
        storage.remove_folder(self.work)

    def check(self, settings: dict[str, Any]) -> None:
        """Checks that an annotation has the settings of the files in the folder; returns nothing.

        Args:
          settings: the settings that are known, by name.

        Raises:
          UserError: the folder has files with other settings.
        """
        for name, value in settings.items():
            before = self.settings.get(name, value)
            if before != value and name not in _NOT_COMPARED:
                raise UserError(
                    f"{self.path} has annotations with {name}={messages.shown(before)}, not "
                    f"{messages.shown(value)}: give another --output_dir, or --overwrite to "
                    "replace them."
                )

    def is_done(self, job: Job) -> bool:
        """Returns True if a file is annotated already, and has not changed since.

        Args:
          job: the file and its output.

        Raises:
          UserError: the annotation is that of another file with the same name.
        """
        note = self.notes.get(job.name)
        # A file left out is tried again: the disk or a missing package may have been the reason.
        if note is None or note.output is None:
            return False
        # A file that is no longer at the noted path was moved. Notes of earlier versions have none.
        if os.path.exists(note.path) and os.path.realpath(note.path) != os.path.realpath(job.path):
            raise UserError(
                f"{job.output} is the annotation of {note.path}, and would become that of "
                f"{job.path}: give another --output_dir, or --overwrite."
            )
        # A file that cannot be looked at may come back as it was.
        if job.bytes not in (note.bytes, UNKNOWN):
            return False
        try:
            return storage.size(job.output) == note.output.bytes
        except OSError:
            return False

    def check_outputs(self, jobs: Iterable[Job], overwrite: bool) -> None:
        """Checks that no file of somebody else is in the way of an annotation; returns nothing.

        Args:
          jobs: the files that are not done.
          overwrite: True if such files may be replaced.

        Raises:
          UserError: there is such a file, or an output is that of another input.
        """
        owners = {note.output.file: name for name, note in self.notes.items() if note.output}
        for job in jobs:
            owner = owners.get(os.path.basename(job.output), job.name)
            if owner != job.name:
                raise UserError(
                    f"{job.output} is the annotation of {owner}, and would become that of "
                    f"{job.name}: give another --output_dir, or --overwrite."
                )
        if self.is_begun or overwrite:
            return
        for job in jobs:
            if job.name not in self.notes and file_paths.at(job.output).exists():
                raise UserError(
                    f"{job.output} is there already, and no annotation of this command's: give "
                    "another --output_dir, or --overwrite."
                )

    def begin(self, settings: dict[str, Any]) -> None:
        """Notes the settings of an annotation, before its first file is written; returns nothing.

        It first removes what the annotation replaces. Call it when the model is loaded, so that a
        command that can make nothing removes nothing.

        Args:
          settings: all settings, by name.

        Raises:
          OSError: the folder cannot be written.
        """
        if self._overwrite:
            self._remove()
        self.settings = settings
        self.work.mkdir(parents=True, exist_ok=True)
        more = {"kind": KIND, TOKEN: uuid.uuid4().hex}
        work_folder.write_step(self.work, SETTINGS, settings | more)

    def add(self, note: AnnotatedFile) -> None:
        """Notes that a file is done, and returns nothing.

        Args:
          note: the note on the file, whose output is complete. Without one, that of an earlier run
            is removed: the file has changed, and cannot be read any more.

        Raises:
          OSError: the note cannot be written.
        """
        before = self.notes.get(note.input)
        if note.output is None and before and before.output:
            file_paths.at(self.path, before.output.file).unlink(missing_ok=True)
        self.notes[note.input] = note
        work_folder.write_step(self.work, f"file-{note.input}", dataclasses.asdict(note))

    def finish(self) -> Manifest:
        """Writes the manifest of an annotation, and removes the working folder.

        Returns:
          The `Manifest`, of kind "annotations". Its `counts` has "input_files", "bad_input_files",
          "documents", "entities" (by type), and under "inputs" for each input file its "path",
          "bytes", "entities", "left_out", "problem" and the name of its output, "file".

        Raises:
          OSError: the folder cannot be written.
        """
        notes = [self.notes[name] for name in sorted(self.notes)]
        entities: Counter[str] = Counter()
        inputs = {}
        for note in notes:
            entities.update(note.entities)
            own = dataclasses.asdict(note)
            del own["input"], own["output"], own["seconds"]
            inputs[note.input] = own | {"file": note.output.file if note.output else ""}
        shards = [note.output for note in notes if note.output]
        counts = {
            "input_files": len(notes),
            "bad_input_files": len(notes) - len(shards),
            "documents": sum(shard.records for shard in shards),
            "entities": dict(entities),
            "inputs": inputs,
        }
        manifest = Manifest(KIND, self.settings, counts, shards, problems(notes))
        work_folder.close_work(self.path, manifest)
        self.is_begun = False
        return manifest


def is_annotations(folder: str) -> bool:
    """Returns True if an annotation has written into a folder, complete or not.

    Args:
      folder: the path of the folder.
    """
    manifest = file_paths.at(folder, MANIFEST)
    settings = file_paths.at(folder, work_folder.WORK, f"{SETTINGS}.json")
    return any(
        json_files.read_object_or_empty(path).get("kind") == KIND for path in (manifest, settings)
    )


def without_annotations(paths: list[str], inputs: Sequence[str]) -> list[str]:
    """Leaves out input files that annotations have written, and prints a line for their folder.

    Args:
      paths: the paths of the input files.
      inputs: what they were found by: paths of files and folders, and globs. A folder of
        annotations that is named here stays.

    Returns:
      A list of the other paths.

    Raises:
      UserError: there are no others.
    """
    named = {os.path.realpath(each) for item in inputs for each in (item, os.path.dirname(item))}
    outputs = set()
    for folder in sorted({os.path.dirname(path) for path in paths}):
        if os.path.realpath(folder) not in named and is_annotations(folder):
            outputs.add(folder)
            print(
                f"left out: the files in {folder}, which are annotations: name that folder in "
                "--input to annotate them",
                flush=True,
            )
    left = [path for path in paths if os.path.dirname(path) not in outputs]
    if not left:
        raise UserError(
            f"--input gives only the files in {min(outputs)}, which are annotations: name that "
            "folder in --input to annotate them, or give other files."
        )
    return left


def problems(notes: Sequence[AnnotatedFile]) -> list[str]:
    """Returns a sentence for each input of an annotation that was left out, a file or an article.

    Args:
      notes: the notes on the files.
    """
    return [text for note in notes for text in (note.problem, *note.left_out) if text]
