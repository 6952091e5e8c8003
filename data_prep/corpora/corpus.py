"""What the corpora share: files are found as they were released, and splits are written.

A release is read where it lies: a folder, an archive, or a folder of archives (of archives).
Nothing is unpacked to the disk.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from absl import flags
from lxml import etree

from data_prep.running import left_out, pipeline
from tfbio.base import cli, storage
from tfbio.base.document_records import hash_fraction
from tfbio.base.shards import DataError
from tfbio.formats import markup, relations

SPLITS = ("train", "dev", "test")

# What is held out for development where a release has no split for it, and nothing else is asked.
DEV_FRACTION = 0.1

ARCHIVES = (".zip", ".tar", ".tgz", ".gz")
MAX_ARCHIVE_DEPTH = 3
MAX_FILE_BYTES = 1 << 28  # far more than any file of these corpora has

# RuntimeError: zipfile's, where a password or another kind of compression is needed.
_UNREADABLE = (OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile, tarfile.TarError)

_BREAKS = str.maketrans("\t\n\r", "   ")
# Half of a pair of surrogates, which JSON can hold, is no character.
_HALVES = re.compile("[\ud800-\udfff]")

# What of a release is in no split: (id, path of its file, reason) each.
LeftOut = list[tuple[str, str, str]]


class CorpusError(DataError):
    """A corpus that is not as its makers released it."""


def parse_xml(path: str, data: bytes) -> etree._Element:
    """An XML document; raises a CorpusError, with the path, if it is none, or declares entities."""
    try:
        with markup.faults():
            # Before the rest is parsed: entities in attributes are expanded, whatever is asked for.
            markup.check_no_entities(markup.first_element(io.BytesIO(data)))
            unknown: Counter[str] = Counter()
            source = markup.Entities(io.BytesIO(data), unknown)
            root = etree.parse(source, etree.XMLParser(**markup.SAFE)).getroot()
    except markup.BadFile as error:
        raise CorpusError(f"{path}: {error}") from error
    if unknown:
        raise CorpusError(f"{path} uses the entity &{min(unknown)};, which it does not declare.")
    return root


class File(NamedTuple):
    """A file's content, and the path by which errors call it."""

    path: str
    data: bytes

    def text(self) -> str:
        """Its text, with line ends of any system made line feeds."""
        try:
            text = self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CorpusError(f"{self.path} is not text in UTF-8: {error.reason}.") from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def xml(self) -> etree._Element:
        """It as an XML document; raises a CorpusError if it is none, or declares entities."""
        return parse_xml(self.path, self.data)

    def rows(self, columns: int) -> Iterator[tuple[int, list[str]]]:
        """The number and the tab-separated columns of each line; the last may hold tabs itself."""
        for number, line in enumerate(self.text().removesuffix("\n").split("\n"), start=1):
            row = line.split("\t", columns - 1)
            if len(row) != columns:
                raise CorpusError(
                    f"{self.path}, line {number}: expected {columns} tab-separated columns, "
                    f"found {len(row)}."
                )
            yield number, row

    def json(self) -> Any:
        """What it says, as Python's objects."""
        try:
            return json.loads(self.text())
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{self.path} is not JSON ({error}).") from error


# --- Reading -----------------------------------------------------------------------------------


def find(source: str | os.PathLike, pattern: str) -> dict[str, File]:
    """The files of a release, by that end of their path which the pattern stands for.

    Raises:
      CorpusError: there is none, or two that differ; an archive is damaged, or not harmless.
    """
    source = Path(source)
    if not source.exists():
        raise CorpusError(f"{source} does not exist: give the corpus as it was released.")
    paths = sorted(source.rglob("*")) if source.is_dir() else [source]
    wanted = re.compile(rf"(?<![^/])(?:{pattern})\Z")
    found: dict[str, File] = {}
    for path in paths:
        if not path.is_file():
            continue
        try:
            with open(path, "rb") as stream:
                for key, file in _wanted_files(path.as_posix(), stream, wanted):
                    if found.setdefault(key, file).data != file.data:
                        raise CorpusError(f"{found[key].path} and {file.path} differ: give one.")
        except _UNREADABLE as error:
            raise CorpusError(
                f"{path} is damaged or cut short ({error}): fetch it again."
            ) from error
    if not found:
        raise CorpusError(f"{source} holds no file of the corpus: give the corpus as released.")
    return found


def _wanted_files(
    name: str, stream: BinaryIO, wanted: re.Pattern[str], depth: int = 0
) -> Iterator[tuple[str, File]]:
    """The wanted files that a file is or holds, each after its key."""
    if match := wanted.search(name):
        data = stream.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise CorpusError(f"{name} is longer than {MAX_FILE_BYTES:,} bytes, which is refused.")
        yield match[0], File(name, data)
    elif name.endswith(ARCHIVES):
        if depth == MAX_ARCHIVE_DEPTH:
            raise CorpusError(f"{name} is too deep in archives of archives, which is refused.")
        for inner, content in _members(name, stream):
            yield from _wanted_files(inner, content, wanted, depth + 1)


def _members(name: str, stream: BinaryIO) -> Iterator[tuple[str, BinaryIO]]:
    """The path and content of each file in an archive."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(stream) as archive:
            for member in archive.infolist():
                path = _path(name, member.filename)
                if not member.is_dir() and not member.filename.startswith("__MACOSX/"):
                    with archive.open(member) as content:
                        yield path, content
    elif name.endswith(".tar"):
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                path = _path(name, member.name)
                if member.isreg():
                    yield path, archive.extractfile(member)
    else:
        inner = name.removesuffix(".gz").removesuffix(".tgz")
        with gzip.open(stream) as content:
            yield inner + ".tar" * name.endswith(".tgz"), content
            while content.read(1 << 20):
                pass  # the checksum stands at the end


def _path(archive: str, member: str) -> str:
    path = PurePosixPath(member.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise CorpusError(
            f"{archive} has a member whose name leads out of it, {member!r}, which is refused."
        )
    return f"{archive}/{path}"


def read_index(folder: str | os.PathLike, name: str) -> list[str]:
    """What a list of BLURB's names: one name a line, or all in one line between commas."""
    path = Path(folder, name)
    try:
        text = File(str(path), path.read_bytes()).text()
    except OSError as error:
        raise CorpusError(
            f"{path} cannot be read ({storage.reason(error)}): give a list that can, of BLURB's "
            "with --index the folder of this corpus in `indexing` of its data_generation.tar.gz."
        ) from error
    return [item.strip() for item in text.replace(",", "\n").split("\n") if item.strip()]


def offset(text: str) -> int:
    """Reads an offset, 1 to 9 digits; returns -1 for anything else."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else -1


# --- Splits --------------------------------------------------------------------------------------


def hold_out(
    documents: Mapping[str, Collection[str]],
    fraction: float = DEV_FRACTION,
    sizes: Mapping[str, int] | None = None,
) -> set[str]:
    """Chooses the documents for development, where a release has no split for it.

    They are chosen by hashes of their names, and so the same wherever it is done. A document
    without which training would lack a label is not chosen.

    Args:
      documents: name -> the labels in it.
      fraction: of all documents, or of the sum of `sizes`; of a part of one, a whole one is held.
      sizes: name -> how many it counts for, where that is not one.

    Returns:
      Their names.
    """
    sizes = dict.fromkeys(documents, 1) if sizes is None else sizes
    # 0.1 * 70 is more than 7 in binary; what the user typed is exact.
    wanted = math.ceil(Fraction(str(fraction)) * sum(sizes.values()))
    having = Counter(label for labels in documents.values() for label in set(labels))
    held: set[str] = set()
    for name in sorted(documents, key=hash_fraction):
        labels = set(documents[name])
        if sizes[name] <= wanted and all(having[label] > 1 for label in labels):
            held.add(name)
            wanted -= sizes[name]
            having.subtract(labels)
    return held


def check_parts(documents: Collection[str], held: Collection[str], asked: str) -> None:
    """Checks that something is held out for development, and something left for training.

    Args:
      documents: names of all.
      held: of those for development.
      asked: what divided them, for the message.

    Raises:
      CorpusError: one of the two is nothing.
    """
    if not held or len(held) == len(documents):
        raise CorpusError(
            f"{asked} leaves nothing for {'training' if held else 'development'}: give another, "
            "and the whole release as --input."
        )


def with_development(
    train: Mapping[str, Sequence[tuple[str, ...]]],
    test: Mapping[str, Sequence[tuple[str, ...]]],
    dev_documents: str,
    labels_of: Callable[[Sequence[str]], Iterable[str]],
    dev_fraction: float = DEV_FRACTION,
) -> dict[str, list[tuple[str, ...]]]:
    """The rows of the three splits.

    Args:
      train: document -> its rows; those for development are taken of these.
      test: document -> its rows.
      dev_documents: file with the names of documents for development; "" for `hold_out`.
      labels_of: the labels in a row.
      dev_fraction: for `hold_out`.

    Raises:
      CorpusError: the file cannot be read, or names a document that is not there; a split has no
        document.
    """
    for split, documents in (("train", train), ("test", test)):
        if not documents:
            raise CorpusError(f"--input holds no note of the {split} set: give the whole release.")
    if dev_documents:
        held = set(read_index(*os.path.split(dev_documents)))
        if missing := sorted(held - train.keys()):
            raise CorpusError(f"{dev_documents} lists {missing[0]}, which is no note for training.")
    else:
        held = hold_out(
            {x: {y for row in rows for y in labels_of(row)} for x, rows in train.items()},
            dev_fraction,
        )
    asked = (
        f"--dev_documents={dev_documents}" if dev_documents else f"--dev_fraction={dev_fraction}"
    )
    check_parts(train, held, asked)
    return {
        "train": [row for name, rows in train.items() if name not in held for row in rows],
        "dev": [row for name, rows in train.items() if name in held for row in rows],
        "test": [row for rows in test.values() for row in rows],
    }


# --- Instances ---------------------------------------------------------------------------------


def mask(
    text: str,
    first: tuple[int, int, str],
    second: tuple[int, int, str],
    overlap: str,
    entities: str = "dummy",
) -> str:
    """The text with two mentions (start, end, dummy) made dummies, or one where they overlap.

    Args:
      first: the mention that starts first.
      entities: "dummy", or "marker" for `relations.mark` instead.
    """
    if entities == "marker":
        return relations.mark(text, first[:2], second[:2])
    (start, end, dummy), (second_start, second_end, second_dummy) = first, second
    if end > second_start:
        return text[:start] + overlap + text[max(end, second_end) :]
    return text[:start] + dummy + text[end:second_start] + second_dummy + text[second_end:]


# --- Writing -----------------------------------------------------------------------------------


def write(
    output: str | os.PathLike,
    splits: Mapping[str, Iterable[Sequence[str]]],
    overwrite: bool,
    left: Iterable[tuple[str, str, str]] = (),
) -> None:
    """Writes `train.tsv`, `dev.tsv` and `test.tsv`, or none of them.

    Tabs and line ends within a column become blanks, as BLURB has it. What of the release is in
    none of them is written as `left_out.jsonl`, and its reasons are printed.

    Raises:
      CorpusError: a file is there already, or cannot be written.
    """
    paths = {split: storage.at(output, f"{split}.tsv") for split in splits}
    there = [path for path in paths.values() if path.exists()]
    # Some, with the same bytes, are what a run left that was killed between them.
    cut_short = len(there) < len(paths)
    reasons: Counter[str] = Counter()
    try:
        with storage.only_writer(output), ExitStack() as stack:  # all appear when the block ends
            storage.at(output).mkdir(parents=True, exist_ok=True)
            for split, rows in splits.items():
                text = "".join(
                    "\t".join(column.translate(_BREAKS) for column in row) + "\n" for row in rows
                )
                content = _HALVES.sub("\ufffd", text).encode()
                path = paths[split]
                same = cut_short and path in there and path.read_bytes() == content
                if path in there and not same and not overwrite:
                    raise CorpusError(
                        f"{path} exists: add --overwrite to replace it, or give another --output."
                    )
                stream = stack.enter_context(storage.written_whole(path))
                stream.write(content)
                stream.flush()  # what the disk has no room for is known before one appears
            stream = stack.enter_context(storage.written_whole(storage.at(output, left_out.FILE)))
            for id_, path, reason in left:
                reasons[reason] += 1
                stream.write(left_out.line(id_, os.path.basename(path), reason))
            stream.flush()
    except OSError as error:
        raise CorpusError(f"cannot write to {output}: {storage.reason(error)}.") from error
    if reasons:
        text = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in reasons.most_common())
        pipeline.say(f"left out, see {left_out.FILE}: {text}")


def say_counts(
    splits: Mapping[str, Iterable[Sequence[str]]],
    labels_of: Callable[[Sequence[str]], Iterable[str]] = lambda row: row[-1:],
) -> None:
    """Prints how many instances of each label there are."""
    for split, rows in splits.items():
        counts = Counter(label for row in rows for label in labels_of(row))
        # GAD's labels are 0 and 1, and "293 1" would be read as one number.
        names = {label: f"'{label}'" if label[:1].isdigit() else label for label in counts}
        text = ", ".join(f"{counts[label]:,} {names[label]}" for label in sorted(counts))
        pipeline.say(f"{split}: {text}")


def define_flags(
    release: str, index: str = "", held_out: str = "", dev_documents: bool = False
) -> None:
    """Defines the flags of a corpus's command.

    Args:
      release: what `--input` is, for the help.
      index: the folder of BLURB's `indexing` that has its splits, where there is one.
      held_out: what is held out for development ("notes"), where the release has no split for it.
      dev_documents: whether those may be listed.
    """
    flags.DEFINE_string("input", None, f"{release}, or a folder that holds it.", required=True)
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    if index:
        text = f"Folder of the lists that make the splits: BLURB's indexing/{index}."
        flags.DEFINE_string("index", None, text, required=True)
    if held_out:
        text = f"Fraction of the {held_out} for training that is held out for development."
        flags.DEFINE_float("dev_fraction", DEV_FRACTION, text)
    if dev_documents:
        text = f"File with the names of the {held_out} for development, one a line."
        flags.DEFINE_string("dev_documents", "", f"{text} Default: --dev_fraction of them.")
    flags.DEFINE_bool("overwrite", False, "Replace files that an earlier run wrote.")


def dev_fraction() -> float:
    """Returns `--dev_fraction`.

    Raises:
      UsageError: it is not between 0 and 1, or --dev_documents says it all.
    """
    flag = flags.FLAGS
    if not 0 < flag.dev_fraction < 1:
        raise cli.UsageError(
            f"--dev_fraction={flag.dev_fraction}: expected a number above 0 and below 1, as in 0.2."
        )
    if "dev_documents" in flag and flag.dev_documents and flag["dev_fraction"].present:
        raise cli.UsageError(
            "--dev_fraction does not go with --dev_documents, which lists what is held out."
        )
    return flag.dev_fraction


def define_entities_flag() -> None:
    """Defines how a corpus of relations shows the two entities."""
    flags.DEFINE_enum(
        "entities",
        "dummy",
        ["dummy", "marker"],
        "BLURB's dummies, @GENE$; or the text with markers, [S1] p53 [E1], which fine-tuning can "
        "also leave out.",
    )
