"""Reuses a stage's finished output, and keeps the finished parts of an interrupted run.

A stage writes into its output folder. While it runs, `.work/` in that folder holds its settings and
the working folder, which has one small file for each finished step. A run that finds a `.work/`
with its own settings, and of its own version of tfbio, continues it; any other starts anew. The
manifest is written last, then `.work/` is removed.

The working folder's name is a hash of the settings: the job of a killed run, which lives on in a
cluster, leaves nothing there that the next run, of other settings, would take for its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import tfbio
from data_prep.running import left_out
from tfbio.base import file_paths, messages, storage
from tfbio.base.errors import DataError
from tfbio.base.manifests import MANIFEST, Manifest, load_manifest, verify, write_manifest
from tfbio.base.shards import Shard

WORK = ".work"

# The file in it that has the settings of the run that has begun last.
_SETTINGS = "settings.json"

# The names of the stages' shards.
_SHARD = re.compile(r"(documents|train|heldout)-\d{5}(-of)?-\d{5}\.tfrecord")


def finished(
    manifest_path: str | os.PathLike, kind: str, settings: dict[str, Any], overwrite: bool
) -> Manifest | None:
    """Returns the manifest of output that a stage finished before with the same settings.

    So the stage reuses it, and opens no working folder.

    Args:
      manifest_path: the path where the stage writes its manifest.
      kind: the name of the output, such as "documents".
      settings: what the output depends on, by name; values that JSON can hold.
      overwrite: True: replace finished output, whatever its settings.

    Returns:
      The `Manifest`; None if there is work to do: no manifest exists, or `overwrite` is True.

    Raises:
      DataError: the output has other settings, or some of it is damaged; or, also with `overwrite`,
        it is another stage's.
    """
    path = file_paths.at(manifest_path)
    if not path.exists():
        return None
    if overwrite:
        present = kind
        with suppress(OSError, ValueError, AttributeError, RecursionError):  # it is replaced
            present = json.loads(path.read_text(encoding="utf-8")).get("kind", kind)
        if present != kind:
            raise DataError(
                f"{path.parent} holds {present}, which {kind} do not replace: give another "
                "--output."
            )
        return None
    manifest = load_manifest(path, kind)
    for name, value in _as_json(settings).items():
        before = manifest.settings.get(name)
        if before != value:
            raise DataError(
                f"{path.parent} holds {kind} made with {name}={_brief(before)}, not "
                f"{_brief(value)}: add --overwrite to replace them, or give another --output."
            )
    verify(path.parent, manifest)
    if path.name == MANIFEST:
        # The run may have been killed after it wrote the manifest.
        _remove_leftovers(path.parent)
    return manifest


def open_work(
    folder: str | os.PathLike, kind: str, settings: dict[str, Any], overwrite: bool
) -> Path:
    """Opens a stage's working folder: an interrupted run's with the same settings, or a new one.

    A run of another version of tfbio is not continued.

    Before it makes a new one it removes an earlier run's output: the manifest first, so that the
    folder never looks finished with another run's shards in it.

    Args:
      folder: the path of the output folder.
      kind: the name of the output, such as "documents".
      settings: what the output depends on, by name; values that JSON can hold.
      overwrite: True: replace finished output, and files that no stage is known to have written.

    Returns:
      The path of the working folder, which exists: `.work/HASH` in `folder`.

    Raises:
      DataError: the output folder cannot be written, holds the unfinished output of another stage,
        or, without `overwrite`, has files of these names that no stage is known to have written.
    """
    folder = file_paths.at(folder)
    check_unfinished(folder, kind)
    check_free(folder, _own_files(folder), overwrite)
    # Another version may read the rest of the input by other rules.
    described = {**_as_json(settings), "kind": kind, "tfbio": tfbio.__version__}
    replaced = overwrite and (folder / MANIFEST).exists()
    text = json.dumps(described, sort_keys=True)
    work = folder / WORK / _work_name(hashlib.sha256(text.encode()).hexdigest())
    resumes = not replaced and _noted(folder) == described and work.is_dir()
    try:
        if not resumes:
            (folder / MANIFEST).unlink(missing_ok=True)
            # From here on an earlier run's job writes no more shards: see `unless_replaced`.
            (folder / WORK / _SETTINGS).unlink(missing_ok=True)
            _remove_output(folder)
            storage.remove_folder(folder / WORK)
        work.mkdir(parents=True, exist_ok=True)
        storage.write_text(folder / WORK / _SETTINGS, text)
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {messages.reason(error)}.") from error
    return work


def _work_name(sha256: str) -> str:
    """Returns the name of the working folder of a run whose file of settings has a SHA-256."""
    return sha256[:16]


def output_of(work: str | os.PathLike) -> Path:
    """Returns the path of the output folder in which a stage's working folder lies.

    Args:
      work: the path of the working folder, from `open_work`.
    """
    return file_paths.at(work).parent.parent


def unless_replaced(work: str | os.PathLike, records: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the records of a shard of the output, and ends with an error if a later run has begun.

    The job of a killed run lives on in a cluster. Only a shard whose last record it has read before
    the later run begins still gets its name, until the later run writes that shard.

    Args:
      work: the path of the working folder of the job's own run.
      records: the bytes of each record.

    Yields:
      The records, unchanged.

    Raises:
      DataError: another run has begun in the output folder, or its own has ended.
    """
    yield from records
    begun = ""
    with suppress(OSError):
        begun = _work_name(storage.sha256_of(file_paths.at(work).parent / _SETTINGS))
    if begun != file_paths.at(work).name:
        raise DataError(
            f"another command has begun in {output_of(work)}, or this machine does not see it: "
            "this job ends."
        )


def check_unfinished(folder: str | os.PathLike, kind: str) -> None:
    """Checks that no other stage's unfinished output is in a folder; returns nothing.

    Args:
      folder: the path of the output folder.
      kind: the name of the output that is to be written there.

    Raises:
      DataError: the folder holds unfinished output of another kind.
    """
    present = _noted(folder).get("kind", kind)
    if present != kind:
        raise DataError(
            f"{folder} holds unfinished {present}, which {kind} do not replace: give another "
            "folder, or remove this one."
        )


def _noted(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the settings of a stage's unfinished output, among them its "kind".

    {} if there is none, or its note is damaged, so that the stage starts anew.
    """
    with suppress(OSError, ValueError):
        noted = json.loads(file_paths.at(folder, WORK, _SETTINGS).read_text(encoding="utf-8"))
        return noted if isinstance(noted, dict) else {}
    return {}


def check_free(folder: Path, files: Iterable[Path], overwrite: bool) -> None:
    """Checks that no file that a stage did not write is in the way; returns nothing.

    Args:
      folder: the output folder.
      files: the files that the stage may replace in it.
      overwrite: True if it may replace them whoever wrote them.

    Raises:
      DataError: one of the files is there, and no stage is known to have written in the folder.
    """
    if overwrite or is_stages(folder):
        return
    for file in sorted(files):
        if file.exists():
            raise DataError(
                f"{file} is there, and not of this command: give another --output, or add "
                "--overwrite to replace it."
            )


def is_stages(folder: str | os.PathLike) -> bool:
    """Returns True if a stage has written in a folder: it has a manifest, or a working folder."""
    return any(file_paths.at(folder, name).exists() for name in (MANIFEST, WORK))


def _own_files(folder: Path) -> list[Path]:
    """Returns the paths of the files in a folder that have the names of a stage's."""
    files = folder.iterdir() if folder.is_dir() else ()
    return [file for file in files if _SHARD.fullmatch(file.name) or file.name == left_out.FILE]


def _remove_output(folder: Path) -> None:
    for file in _own_files(folder):
        file.unlink()


def close_work(folder: str | os.PathLike, manifest: Manifest | None) -> None:
    """Ends a stage: writes its manifest, and removes its working folder; returns nothing.

    Args:
      folder: the path of the output folder.
      manifest: the manifest to write, which describes the output; None: the stage failed, so none
        is written, what it has written is removed, and so is the folder if it is empty.

    Raises:
      OSError: the manifest cannot be written.
    """
    folder = file_paths.at(folder)
    if manifest is not None:
        write_manifest(folder / MANIFEST, manifest)
    else:
        _remove_output(folder)
    _remove_leftovers(folder)
    if manifest is None and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _remove_leftovers(folder: Path) -> None:
    for pattern in ("*.tfrecord.*.tmp", "*.json.*.tmp", "*.jsonl.*.tmp"):
        for leftover in folder.glob(pattern):
            leftover.unlink(missing_ok=True)
    storage.remove_folder(folder / WORK)


def write_step(work: str | os.PathLike, name: str, content: dict[str, Any]) -> None:
    """Notes in a stage's working folder that a step is finished, in `<name>.json`.

    It returns nothing.

    Args:
      work: the path of the working folder.
      name: the name of the step.
      content: its note for later steps, as JSON can hold it.

    Raises:
      OSError: the file cannot be written.
    """
    storage.write_text(file_paths.at(work, f"{name}.json"), json.dumps(content, sort_keys=True))


def read_step(work: str | os.PathLike, name: str) -> dict[str, Any] | None:
    """Returns the note of a finished step from a stage's working folder.

    Args:
      work: the path of the working folder.
      name: the name of the step.

    Returns:
      The dict that `write_step` got, or None if the step is not finished.

    Raises:
      ValueError: the note is no JSON.
    """
    try:
        return json.loads(file_paths.at(work, f"{name}.json").read_text(encoding="utf-8"))
    except OSError:
        return None


def remove_step(work: str | os.PathLike, name: str) -> None:
    """Removes the note of a finished step from a stage's working folder, if it is there.

    It returns nothing.

    Args:
      work: the path of the working folder.
      name: the name of the step.

    Raises:
      OSError: the note cannot be removed.
    """
    file_paths.at(work, f"{name}.json").unlink(missing_ok=True)


def read_steps(work: str | os.PathLike, prefix: str) -> list[dict[str, Any]]:
    """Returns the notes of several finished steps from a stage's working folder.

    Args:
      work: the path of the working folder.
      prefix: the beginning of the steps' names.

    Returns:
      A list of the dicts that `write_step` got, in order of name; [] if there are none.

    Raises:
      ValueError: a note is no JSON.
      OSError: a note cannot be read.
    """
    return [json.loads(path.read_text(encoding="utf-8")) for path in step_files(work, prefix)]


def read_all_steps(work: str | os.PathLike, prefix: str, count: int) -> list[dict[str, Any]]:
    """Returns the notes of all steps of a kind, once the pipeline that they are of has ended.

    Args:
      work: the path of the working folder.
      prefix: the beginning of the steps' names.
      count: how many steps there were to finish.

    Returns:
      A list of the `count` dicts that `write_step` got, in order of name.

    Raises:
      DataError: another number of notes is to be seen.
      ValueError: a note is no JSON.
      OSError: a note cannot be read.
    """
    steps = read_steps(work, prefix)
    if len(steps) != count:
        # A shared file system may show other machines' files late.
        raise DataError(
            f"{len(steps)} of {count} {prefix} steps are to be seen in {output_of(work)}: run the "
            "same command again; it continues."
        )
    return steps


def shard_is_done(work: str | os.PathLike, shard_file: str) -> bool:
    """Returns True if the working folder notes a shard as finished, and it has not changed since.

    A shard that was noted without a hash has no records and no file: it is done, too.

    Args:
      work: the path of the working folder, which lies in the shard's folder.
      shard_file: the name of the shard's file, and of its step.
    """
    try:
        step = read_step(work, shard_file)
        if step is None:
            return False
        written = Shard(**step["shard"]).sha256
        return not written or storage.sha256_of(output_of(work) / shard_file) == written
    except (OSError, ValueError, KeyError, TypeError):
        return False


def step_files(work: str | os.PathLike, prefix: str) -> list[Path]:
    """Returns the paths of the notes of finished steps in a stage's working folder.

    Args:
      work: the path of the working folder.
      prefix: the beginning of the steps' names.

    Returns:
      A list of the paths of `<name>.json`, in order of name; [] if there are none.
    """
    return sorted(file_paths.at(work).glob(f"{prefix}*.json"))


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(settings))


def _brief(value: Any) -> str:
    return messages.cut(value if isinstance(value, str) else json.dumps(value), 200)
