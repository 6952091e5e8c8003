"""Reads, writes and checks the manifest of a folder of data.

A folder of data holds shards and `manifest.json`, which is written last. The manifest lists every
shard with its size, number of records and SHA-256, and the settings that made them. A folder
without a manifest is unfinished, and is never read.
"""

from __future__ import annotations

import dataclasses
import json
import os
import typing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfbio.base import file_paths, messages, storage
from tfbio.base.errors import DataError
from tfbio.base.shards import Shard

MANIFEST = "manifest.json"

# The command that makes each kind of data, which errors name as the remedy.
COMMANDS = {
    "documents": "python -m data_prep.documents",
    "vocabulary": "python -m data_prep.vocabulary",
    "examples": "python -m data_prep.examples",
    "sentence_roles": "python -m data_prep.sentence_roles",
    "annotations": "python run_finetuning.py --mode=predict --output_dir",
}


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The content of a `manifest.json`, on the data that a finished command wrote.

    Attributes:
      kind: the kind of data, a key of `COMMANDS`: "documents", "vocabulary", "examples",
        "sentence_roles" or "annotations".
      settings: the settings of the command, by their names, with values as JSON has them.
      counts: the numbers that it counted, such as that of documents, by their names (int or float;
        for the texts left out a dict of them).
      shards: the files, each a `Shard` (file, records, bytes, sha256, split), in order.
      problems: a sentence for each input that was left out because it was damaged.
    """

    kind: str
    settings: dict[str, Any]
    counts: dict[str, Any]
    shards: list[Shard]
    problems: list[str] = dataclasses.field(default_factory=list)

    def shards_of(self, split: str) -> list[Shard]:
        """Returns the manifest's shards of a split, such as "train", in order; [] if none."""
        return [shard for shard in self.shards if shard.split == split]


def read_manifest(folder: str | os.PathLike, kind: str) -> Manifest:
    """Reads the manifest of a folder of data, and checks that all its files exist.

    Args:
      folder: the folder that a command wrote.
      kind: the expected kind of data: "documents", "examples" or "sentence_roles".

    Returns:
      The `Manifest`.

    Raises:
      DataError: there is no such folder or no manifest, it cannot be read, the data are of another
        kind, or a file is missing or of another size. The SHA-256 is not checked.
    """
    folder = file_paths.at(folder)
    remedy = f"make it with `{COMMANDS[kind]}`"
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder} with {kind}: {remedy}.")
    if not (folder / MANIFEST).is_file():
        raise DataError(
            f"{folder} has no {MANIFEST}, so it holds no finished {kind}: {remedy}, "
            "or run the command that was interrupted again."
        )
    manifest = load_manifest(folder / MANIFEST, kind)
    verify(folder, manifest)
    return manifest


def load_manifest(path: str | os.PathLike, kind: str) -> Manifest:
    """Reads a manifest, without looking at the files that it lists.

    Args:
      path: the path of the manifest.
      kind: the expected kind of data, a key of `COMMANDS`, such as "documents" or "annotations".

    Returns:
      The `Manifest`.

    Raises:
      DataError: the file is missing or no manifest, or is of another kind.
    """
    try:
        content = json.loads(file_paths.at(path).read_text(encoding="utf-8"))
        shards = [Shard(**shard) for shard in content.pop("shards")]
        manifest = Manifest(**content, shards=shards)
        _check_types(manifest)
        for shard in shards:
            _check_types(shard)
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ) as error:
        raise DataError(
            f"{path} is not a manifest that this version can read: {messages.reason(error)}. Make "
            f"the data again with `{COMMANDS[kind]}` and --overwrite."
        ) from error
    if manifest.kind != kind:
        raise DataError(
            f"{path} describes {manifest.kind}, but {kind} were expected: give the folder that "
            f"`{COMMANDS[kind]}` wrote."
        )
    return manifest


def _check_types(value: Manifest | Shard) -> None:
    """Raises a ValueError if a field has another type than it is declared with."""
    for name, hint in typing.get_type_hints(type(value)).items():
        expected = typing.get_origin(hint) or hint
        if type(getattr(value, name)) is not expected:
            raise ValueError(f"{name} is {getattr(value, name)!r:.60}, not {expected.__name__}")


def write_manifest(path: str | os.PathLike, manifest: Manifest) -> None:
    """Writes a manifest as JSON, whole or not at all; returns nothing.

    Args:
      path: the path of the manifest; its folder must exist.
      manifest: the content.

    Raises:
      OSError: the file cannot be written.
      TypeError: JSON has no such value as one of `settings` or `counts`.
    """
    storage.write_text(
        path, json.dumps(dataclasses.asdict(manifest), indent=1, sort_keys=True) + "\n"
    )


def verify(folder: str | os.PathLike, manifest: Manifest, full: bool = False) -> None:
    """Checks that the shards that a manifest lists are in its folder and whole; returns nothing.

    Args:
      folder: the folder.
      manifest: its manifest.
      full: whether to check the SHA-256 of each shard, too, and not only its size. A shard
        without one in the manifest passes.

    Raises:
      DataError: a shard is missing, of another size or damaged; the message names the first one.
    """
    remedy = f"make it again with `{COMMANDS[manifest.kind]} --overwrite`"

    def check(shard: Shard) -> None:
        path = file_paths.at(folder, shard.file)
        if not path.is_file():
            raise DataError(f"{path} is missing, although the manifest names it: {remedy}.")
        size = path.stat().st_size
        if size != shard.bytes:
            raise DataError(f"{path} has {size} bytes instead of {shard.bytes}: {remedy}.")
        # Examples of the original ELECTRA code come without hashes.
        if full and shard.sha256 and storage.sha256_of(path) != shard.sha256:
            raise DataError(f"{path} is damaged (its SHA-256 differs): {remedy}.")

    # Threads, because hashing releases the interpreter's lock and remote file systems are slow.
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(check, manifest.shards):
            pass
