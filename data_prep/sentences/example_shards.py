"""Builds rows of examples from shards of documents, and deals them to the shards of examples.

These are the steps of the pipeline of `data_prep.examples`. A shard of documents becomes one file
of rows in the working folder. Rows need not know to which shards they go: a chunk of n rows, in an
order drawn for it, is dealt to the shards like cards, beginning where the chunk before it ended.
Rows of a file that will go to the same shard stand together, so that each shard reads one part of
the file. Beam groups by shard where the rows are, not the rows themselves: those would stay in the
memory of the local runner.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data_prep.running import same_versions, work_folder
from data_prep.running.garbage_collection import rare_garbage_collection
from data_prep.sentences import example_rows
from data_prep.sentences.example_rows import SPLITS, Job
from tfbio.base import file_paths, split_mix, storage
from tfbio.base.shards import Shard, shard_name, write_shard

# The name of a shard of documents; for each chunk [train, heldout] rows.
Built = tuple[str, list[list[int]]]


def build(shard: Shard, documents: str, work: str, job: Job) -> Built:
    """Writes the examples of a shard of documents as a file of rows, unless it is there already.

    The rows go to the file `SHARD.rows` in the working folder, and their counts to the step's note.
    Later steps deal them to the shards of examples.

    Args:
      shard: the shard of documents.
      documents: the folder of the documents.
      work: the working folder.
      job: how to make examples.

    Returns:
      A pair: the name of the shard's file, and for each chunk of documents a list `[train,
      heldout]`, the number of rows in each split.

    Raises:
      DataError: the shard is missing, damaged or cut short, or this worker has another version of
        tfbio.
      VocabularyError: `job.vocab` is not a vocabulary.
      OSError: the rows cannot be written.
    """
    path = file_paths.at(work, f"{shard.file}.rows")
    done = _done(path, work, shard.file)
    if done is not None:
        return shard.file, done
    same_versions.check_tfbio(job.tfbio_version)
    counts: Counter[str] = Counter()
    chunks: list[list[int]] = []
    # The rows of each split by the shard that they go to, counted from the one of the first row.
    hands: dict[str, list[list[np.ndarray]]] = {
        split: [[] for _ in range(_hands(job, split))] for split in SPLITS
    }
    with rare_garbage_collection():
        for chunk in example_rows.chunks(documents, shard):
            rows = example_rows.build_rows(chunk, job, counts)
            for index, split in enumerate(SPLITS):
                dealt = sum(sizes[index] for sizes in chunks)
                key = example_rows.key(job.seed, split, chunk[0].id)
                _deal_out(rows[split], hands[split], dealt, key)
            chunks.append([len(rows[split]) for split in SPLITS])
    digest = hashlib.sha256()
    with storage.written_whole(path) as stream:
        for block in itertools.chain.from_iterable(itertools.chain(*hands.values())):
            data = block.tobytes()
            stream.write(data)
            digest.update(data)
    note = {"counts": counts, "dealt_chunks": chunks, "sha256": digest.hexdigest()}
    work_folder.write_step(work, shard.file, note)
    return shard.file, chunks


def _done(path: Path, work: str, name: str) -> list[list[int]] | None:
    """Returns the chunks that an interrupted run built, if their file has not changed since."""
    step = work_folder.read_step(work, name)
    if step and path.is_file() and storage.sha256_of(path) == step["sha256"]:
        return step.get("dealt_chunks")
    return None


def _hands(job: Job, split: str) -> int:
    """Returns among how many shards of examples the rows of a split are dealt."""
    return max(1, job.shards[split])


def _deal_out(rows: np.ndarray, hands: list[list[np.ndarray]], dealt: int, key: int) -> None:
    """Deals the rows of a chunk, in an order drawn for them, to the hands after `dealt` rows."""
    order = _order(key, len(rows))
    for hand in range(min(len(rows), len(hands))):
        hands[(dealt + hand) % len(hands)].append(rows[order[hand :: len(hands)]])


class Deal(NamedTuple):
    """The examples of one split in one file of rows, to be dealt to the shards of examples.

    Attributes:
      split: the split of the rows, "train" or "heldout".
      name: the name of the shard of documents; its rows are in the file `NAME.rows`.
      chunks: for each chunk of the file `[train, heldout]`, the number of rows in each split.
      dealt: the number of rows of the split in the files before this one, which decides the shard
        that gets the first row.
    """

    split: str
    name: str
    chunks: list[list[int]]
    dealt: int


def deal(split: str, built: Iterable[Built]) -> Iterator[Deal]:
    """Decides at which shard the dealing of each file's rows to the shards of examples begins.

    Each deal begins with the shard after the one where the file before it ended.

    Args:
      split: the split whose rows are dealt, "train" or "heldout".
      built: for each file its name and its numbers of rows, as `build` returns them.

    Yields:
      A `Deal` for each file of rows, in the order of the files' names.
    """
    dealt = 0
    for name, chunks in sorted(built):
        yield Deal(split, name, chunks, dealt)
        dealt += sum(sizes[SPLITS.index(split)] for sizes in chunks)


Part = tuple[str, int]  # a split, and the number of a shard in it
Place = tuple[str, int, int]  # a file of rows; the first of some rows in it, and how many


def place(deal: Deal, job: Job) -> Iterator[tuple[Part, Place]]:
    """Computes which shards of examples get which of a file's rows, when they are dealt.

    Args:
      deal: the file.
      job: how many shards there are.

    Yields:
      `((split, shard), (name, first, count))` of ints and strings: the split and the number of a
      shard in it, from 0; the name of the shard of documents whose file of rows it is, the first
      row for the shard in the file, and how many there are. A shard without rows is left out.
    """
    index, hands = SPLITS.index(deal.split), _hands(job, deal.split)
    # The splits before this one come first in the file.
    first = sum(sum(sizes[:index]) for sizes in deal.chunks)
    size = sum(sizes[index] for sizes in deal.chunks)
    least, more = divmod(size, hands)
    # Each chunk goes on where the one before it ended, so all of them are dealt as one.
    for hand in range(min(size, hands)):
        count = least + (hand < more)
        yield (deal.split, (deal.dealt + hand) % hands), (deal.name, first, count)
        first += count


def write(shard: tuple[Part, Iterable[Place]], work: str, job: Job) -> None:
    """Writes one shard of examples in an order drawn for it, unless it is there already.

    It writes the TFRecord file into the output folder and a note into the working folder, and
    returns nothing.

    Args:
      shard: `((split, number), places)`: the split and the number of the shard, and for each file
        of rows its name, the first of its rows and their number, as `place` yields them.
      work: the working folder.
      job: how many shards there are, and the form of a row.

    Raises:
      DataError: another run has begun in the output folder, or this worker has another version of
        tfbio.
      OSError: a file of rows cannot be read, or the shard cannot be written.
    """
    same_versions.check_tfbio(job.tfbio_version)
    (split, index), places = shard
    file = shard_name(split, index, job.shards[split])
    if work_folder.shard_is_done(work, file):
        return
    row_type = job.form.row_type
    blocks = [np.zeros(0, row_type)]
    for name, first, count in sorted(places):
        if not count:
            continue
        with storage.open_for_parts(file_paths.at(work, f"{name}.rows")) as stream:
            stream.seek(first * row_type.itemsize)
            blocks.append(np.frombuffer(stream.read(count * row_type.itemsize), row_type))
    rows = np.concatenate(blocks)
    rows = rows[_order(example_rows.key(job.seed, split, index, "order"), len(rows))]
    records = work_folder.unless_replaced(work, job.form.serialize(rows))
    written = write_shard(work_folder.output_of(work) / file, records, split)
    work_folder.write_step(work, file, {"shard": dataclasses.asdict(written)})


def _order(key: int, count: int) -> np.ndarray:
    """Returns a permutation of 0 to `count - 1` that is the same in every version of NumPy.

    It depends on the key alone: SplitMix64 gives a number for each place, and they are sorted.

    Returns:
      int64 [count].
    """
    return np.argsort(split_mix.numbers(key, count), kind="stable")
