"""Stage 3: documents and a vocabulary in, pretraining examples out.

    python -m data_prep.examples --documents=out/documents --vocab=out/vocab.txt \\
        --output=out/examples_128 --sequence_length=128

Writes `train-*.tfrecord` and `heldout-*.tfrecord` (the format is
`example_records.ExampleFormat`), with a copy of the vocabulary and a `manifest.json`. What an
example is, `--objective` says: `data_prep/sentences/segments.py` has them all. With `--packing`,
several documents share an example, and no text is lost and next to no room. Nothing is masked:
that is drawn anew at every training step.

The order is shuffled over the whole corpus, and all training shards hold equally many examples, or
one more. A second run reuses finished output, and an interrupted run continues. Next:
`python run_pretraining.py --help`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np
from absl import flags

from data_prep.running import pipeline
from data_prep.sentences import segments
from tfbio.base import cli, storage
from tfbio.base.document_records import article_of, is_held_out
from tfbio.base.example_codec import bytes_features
from tfbio.base.example_records import ExampleFormat
from tfbio.base.manifests import MANIFEST, Manifest, read_manifest, verify
from tfbio.base.shards import Shard, read_shard, shard_name, write_shard
from tfbio.text import vocabularies
from tfbio.text.fast_tokenizer import FastTokenizer, load_fast_tokenizer

if TYPE_CHECKING:
    import apache_beam as beam

OBJECTIVES = ("electra", "next_sentence", "sentence_order", "full_sentences")
PACKED_OBJECTIVES = ("electra", "full_sentences")
SPLITS = ("train", "heldout")

# Documents are worked on together until they have so many bytes: about a million tokens.
# Twice as many take twice the memory, a quarter as many pack a little worse.
CHUNK = 4_000_000
# How many bytes of documents go into a training shard unless --shards is given.
SHARD = 32 << 20


class Document(NamedTuple):
    """Of a document what examples are made of."""

    id: str
    texts: list[bytes]  # its title and its sentences, in UTF-8


class Settings(NamedTuple):
    """What the workers must know."""

    vocab: str
    vocab_sha256: str
    lower_case: bool
    objective: str
    packing: bool
    form: ExampleFormat
    held_out_fraction: float
    shards: dict[str, int]  # by split
    seed: int


def make_examples(
    documents: str | os.PathLike,
    vocab: str | os.PathLike,
    output: str | os.PathLike,
    *,
    objective: str = "electra",
    packing: bool = False,
    sequence_length: int = 128,
    lower_case: bool = True,
    held_out_fraction: float = 0.05,
    shards: int = 0,
    seed: int = 0,
    overwrite: bool = False,
    workers: int = 0,
    runner: str = "local",
    beam_args: Sequence[str] = (),
) -> Manifest:
    """Runs the stage; the arguments are the command's flags.

    Returns:
      The manifest of the folder `output`.

    Raises:
      VocabularyError: `vocab` is not a vocabulary.
      DataError: `documents` is not a whole folder of documents, or `output` holds examples that
        were made with other settings.
      UserError: the objective cannot be packed.
    """
    if packing and objective not in PACKED_OBJECTIVES:
        raise cli.UsageError(
            f"--packing cannot be had with --objective={objective}, whose label belongs to a whole "
            f"example: leave it out, or take {' or '.join(PACKED_OBJECTIVES)}."
        )
    # The workers' current folder may be another.
    documents, vocab, output = map(storage.absolute, (documents, vocab, output))
    files = vocabularies.vocabulary_files(vocab)
    # Where one is missing, loading the vocabulary says so.
    vocab_sha256 = vocabularies.sha256_of(vocab) if all(file.is_file() for file in files) else ""
    encoder = _encoder(vocab, vocab_sha256, lower_case)
    source = read_manifest(documents, "documents")
    if not shards:
        shards = max(16, math.ceil(sum(shard.bytes for shard in source.shards) / SHARD))
    settings = {
        "documents_sha256": storage.sha256_of(storage.at(documents, MANIFEST)),
        "vocab_sha256": vocab_sha256,
        "vocab_size": encoder.vocab_size,
        "objective": objective,
        "packing": packing,
        "documents_per_example": segments.most_pieces(sequence_length) if packing else 1,
        "sequence_length": sequence_length,
        "lower_case": lower_case,
        "held_out_fraction": held_out_fraction,
        "shards": shards,
        "seed": seed,
    }
    manifest = pipeline.finished(storage.at(output, MANIFEST), "examples", settings, overwrite)
    if manifest is not None:
        pipeline.say(f"{output} is complete and is reused.")
        return manifest
    verify(documents, source, full=True)

    work = pipeline.open_work(output, settings, overwrite)
    worker_settings = Settings(
        vocab=str(vocab),
        vocab_sha256=vocab_sha256,
        lower_case=lower_case,
        objective=objective,
        packing=packing,
        form=ExampleFormat.of(settings),
        held_out_fraction=held_out_fraction,
        shards={"train": shards, "heldout": math.ceil(shards * held_out_fraction)},
        seed=seed,
    )
    # A shard is written even if no rows come to it.
    no_rows = [
        ((split, i), ("", [])) for split in SPLITS for i in range(worker_settings.shards[split])
    ]

    def build(pipeline_: beam.Pipeline) -> None:
        import apache_beam as beam

        placed = (
            pipeline_
            | "Documents" >> beam.Create(source.shards)
            | "Spread documents" >> beam.Reshuffle()
            | "Build" >> beam.Map(_build, str(documents), str(work), worker_settings)
            | "By split" >> beam.FlatMap(lambda built: [(split, built) for split in SPLITS])
            | "Gather sizes" >> beam.GroupByKey()
            | "Deal" >> beam.FlatMapTuple(_deal)
            | "Spread deals" >> beam.Reshuffle()
            | "Place rows" >> beam.FlatMap(_place, worker_settings)
        )
        _ = (
            (placed, pipeline_ | "Shards" >> beam.Create(no_rows))
            | beam.Flatten()
            | "Gather shards" >> beam.GroupByKey()
            | "Write" >> beam.Map(_write, str(output), worker_settings)
        )

    steps = {"documents": len(source.shards), **worker_settings.shards}
    pipeline.run(build, runner, workers, beam_args, work, steps)

    counts: Counter[str] = Counter()
    for step in pipeline.read_steps(work, "documents"):
        counts.update(step["counts"])
    written = [
        Shard(**step["shard"]) for split in SPLITS for step in pipeline.read_steps(work, split)
    ]
    for split in SPLITS:
        counts[f"{split}_examples"] = sum(s.records for s in written if s.split == split)
    examples = sum(shard.records for shard in written)
    real = counts["tokens"] + counts["special_tokens"]
    totals = dict(counts) | {
        "examples": examples,
        "padding_share": round(1 - real / max(1, examples * sequence_length), 6),
        "unknown_share": round(counts["unknown_tokens"] / max(1, counts["tokens"]), 6),
        "dropped_share": round(counts["dropped_tokens"] / max(1, counts["document_tokens"]), 6),
        "documents_in_an_example": round(counts["pieces"] / max(1, examples), 3),
    }
    vocabularies.copy_vocabulary(vocab, output)
    manifest = Manifest("examples", settings, totals, written)
    pipeline.close_work(output, manifest)
    return manifest


@functools.lru_cache(maxsize=2)
def _encoder(vocab: str, sha256: str, lower_case: bool) -> FastTokenizer:
    """Made once in each worker process; another run may find another file at the same path."""
    return load_fast_tokenizer(vocab, lower_case)


# --- Documents to rows -------------------------------------------------------------------------
#
# A shard of documents becomes one file of examples as NumPy rows in the working folder. To which
# shards the rows go, they need not know: a chunk of n rows, in an order drawn for it, is dealt out
# like cards to the shards, beginning where the chunk before it ended. Rows that will go to the
# same shard stand together. Beam groups by shard where the rows are, not the rows themselves:
# those would stay in the memory of the local runner.

Built = tuple[str, list[list[int]]]  # name of a shard of documents; for each chunk [train, heldout]


def _build(shard: Shard, documents: str, work: str, settings: Settings) -> Built:
    """Writes the rows of a shard of documents, unless they are there already."""
    path = storage.at(work, f"{shard.file}.rows")
    done = _done(path, work, shard.file)
    if done is not None:
        return shard.file, done
    counts: Counter[str] = Counter()
    chunks = []
    digest = hashlib.sha256()
    with storage.written_whole(path) as stream, pipeline.rare_garbage_collection():
        for chunk in _chunks(documents, shard):
            rows = build_rows(chunk, settings, counts)
            chunks.append([len(rows[split]) for split in SPLITS])
            for split in SPLITS:
                data = _dealt(rows[split], settings, split, chunk[0].id).tobytes()
                stream.write(data)
                digest.update(data)
    note = {"counts": counts, "chunks": chunks, "sha256": digest.hexdigest()}
    pipeline.write_step(work, shard.file, note)
    return shard.file, chunks


def _done(path: Path, work: str, name: str) -> list[list[int]] | None:
    """The chunks that an interrupted run already built, if they are still as it wrote them."""
    step = pipeline.read_step(work, name)
    if step and path.is_file() and storage.sha256_of(path) == step["sha256"]:
        return step["chunks"]
    return None


def _chunks(documents: str, shard: Shard) -> Iterator[list[Document]]:
    """The documents of a shard, so many at a time that memory holds them, however large it is."""
    chunk, size = [], 0
    for record in read_shard(documents, shard):
        id_, title, sentences = bytes_features(record, ("id", "title", "sentences"))
        texts = title + sentences
        chunk.append(Document(id_[0].decode(), texts))
        size += sum(map(len, texts))
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def build_rows(
    documents: Sequence[Document], settings: Settings, counts: Counter[str]
) -> dict[str, np.ndarray]:
    """Makes the examples of some documents.

    Args:
      documents: what is packed together, and takes second segments from each other.
      settings: how examples are made.
      counts: what is counted is added here.

    Returns:
      By split, an array of `settings.form.row_type`, in no order.
    """
    encoder = _encoder(settings.vocab, settings.vocab_sha256, settings.lower_case)
    ids, offsets = encoder([text for document in documents for text in document.texts])
    bounds = _bounds(offsets, [len(document.texts) for document in documents])
    # See segments.CLS and SEP.
    ids = np.concatenate([ids, np.array([encoder.cls_id, encoder.sep_id], np.int32)])
    used = np.zeros(len(ids), bool)
    by_split: dict[str, list[tuple[str, segments.Bounds]]] = {split: [] for split in SPLITS}
    for document, own in zip(documents, bounds, strict=True):
        if len(own) > 1:
            article = article_of(document.id)
            held_out = is_held_out(article, settings.held_out_fraction)
            by_split["heldout" if held_out else "train"].append((document.id, own))
    rows = {}
    for split, chosen in by_split.items():
        examples = list(_examples(chosen, split, settings)) if chosen else []
        rows[split] = lay_out(examples, ids, used, settings.form, encoder.pad_id)
        padding, special, unknown = (
            sum(int(np.count_nonzero(rows[split]["input_ids"] == id_)) for id_ in those)
            for those in ([encoder.pad_id], [encoder.cls_id, encoder.sep_id], [encoder.unk_id])
        )
        counts[f"{split}_documents"] += len(chosen)
        counts["pieces"] += sum(map(len, examples))
        counts["tokens"] += rows[split]["input_ids"].size - padding - special
        counts["special_tokens"] += special
        counts["unknown_tokens"] += unknown
    counts["documents"] += len(documents)
    counts["document_tokens"] += len(ids) - 2
    counts["dropped_tokens"] += int(np.count_nonzero(~used[:-2]))
    return rows


def _bounds(offsets: np.ndarray, texts: Sequence[int]) -> list[list[int]]:
    """For each document where its sentences begin and end among all ids, leaving out empty ones.

    Args:
      offsets: int64 [texts + 1], where each text of all documents begins and ends.
      texts: how many texts each document has.
    """
    filled = np.diff(offsets) > 0
    limits = [*offsets[:-1][filled].tolist(), int(offsets[-1])]
    before = np.concatenate([[0], np.cumsum(filled)])  # filled texts before each text
    ends = before[list(accumulate(texts, initial=0))].tolist()
    return [limits[a : b + 1] for a, b in zip(ends, ends[1:], strict=False)]


def _examples(
    documents: Sequence[tuple[str, segments.Bounds]], split: str, settings: Settings
) -> Iterator[list[segments.Piece]]:
    """Yields the pieces of each example of a chunk; all draws depend on the seed and the chunk."""
    length = settings.form.sequence_length
    rng = random.Random(_key(settings.seed, split, documents[0][0]))
    bounds = [bounds for _, bounds in documents]
    if settings.packing:
        yield from segments.pack(bounds, length, rng, pairs=settings.objective == "electra")
    elif settings.objective == "full_sentences":
        yield from ([piece] for piece in segments.full_sentences(bounds, length))
    else:
        for index, own in enumerate(bounds):
            if settings.objective == "electra":
                pieces = segments.electra(own, length, rng)
            elif settings.objective == "sentence_order":
                pieces = segments.sentence_order(own, length, rng)
            else:
                pieces = segments.next_sentence(bounds, index, length, rng)
            yield from ([piece] for piece in pieces)


def lay_out(
    examples: Sequence[Sequence[segments.Piece]],
    ids: np.ndarray,
    used: np.ndarray,
    form: ExampleFormat,
    pad_id: int,
) -> np.ndarray:
    """Writes examples out as rows.

    Args:
      examples: the pieces of each.
      ids: int32, what the pieces are spans of, [CLS] and [SEP] at its end.
      used: bool [ids], set where an id is in an example.
      form: how a row looks.
      pad_id: what stands after the last token.

    Returns:
      An array of `form.row_type`.
    """
    spans: list[segments.Span] = []
    segment_of: list[int] = []  # for each span its segment; those of an example follow each other
    for number, pieces in enumerate(examples):
        segment = number * 2 * form.documents
        for first, second, _ in pieces:
            spans += (segments.CLS, *first, segments.SEP)
            segment_of += [segment] * (len(first) + 2)
            if second:
                spans += (*second, segments.SEP)
                segment_of += [segment + 1] * (len(second) + 1)
            segment += 2
    input_ids = np.full((len(examples), form.sequence_length), pad_id, form.id_type)
    segment_lengths = np.zeros((len(examples), 2 * form.documents), np.uint16)
    spans = np.fromiter(chain.from_iterable(spans), np.int64, 2 * len(spans)).reshape(-1, 2)
    segment_of = np.array(segment_of, np.int64)
    _copy_spans(spans, segment_of, ids, used, input_ids, segment_lengths)
    rows = np.zeros(len(examples), form.row_type)
    rows["input_ids"] = input_ids
    rows["segment_lengths"] = segment_lengths
    if form.labelled:
        rows["label"] = [pieces[0].label for pieces in examples]
    return rows


@numba.njit
def _copy_spans(spans, segment_of, ids, used, input_ids, segment_lengths):
    """Copies spans of `ids` to the rows of their segments; counts and marks what was copied."""
    row = at = -1
    for span in range(len(spans)):
        its_row, segment = divmod(segment_of[span], segment_lengths.shape[1])
        if its_row != row:
            row, at = its_row, 0
        begin, end = spans[span]
        segment_lengths[row, segment] += end - begin
        for place in range(begin, end):
            input_ids[row, at] = ids[place]
            used[place] = True
            at += 1


# --- Rows to shards ----------------------------------------------------------------------------


def _dealt(rows: np.ndarray, settings: Settings, split: str, name: str) -> np.ndarray:
    """Rows in an order drawn for them, those together that will go to the same shard."""
    hands = max(1, settings.shards[split])
    order = _order(_key(settings.seed, split, name), len(rows))
    return rows[np.concatenate([order[hand::hands] for hand in range(hands)])]


class Deal(NamedTuple):
    """The rows of one split in one file of rows, which are to be dealt to the shards."""

    split: str
    name: str
    chunks: list[list[int]]
    dealt: int  # rows of the split in the files before


def _deal(split: str, built: Iterable[Built]) -> Iterator[Deal]:
    """Says of every file of rows how many the files before it, by name, have."""
    dealt = 0
    for name, chunks in sorted(built):
        yield Deal(split, name, chunks, dealt)
        dealt += sum(sizes[SPLITS.index(split)] for sizes in chunks)


Part = tuple[str, int]  # a split, and the number of a shard in it
Place = tuple[str, list[tuple[int, int]]]  # a file of rows; where rows begin in it, and how many


def _place(deal: Deal, settings: Settings) -> Iterator[tuple[Part, Place]]:
    """Says for every shard where the rows are in this file that come to it."""
    hands = settings.shards[deal.split]
    runs: list[list[tuple[int, int]]] = [[] for _ in range(hands)]
    begin, dealt = 0, deal.dealt
    for sizes in deal.chunks:
        for split, size in zip(SPLITS, sizes, strict=True):
            if split == deal.split and size:
                least, more = divmod(size, hands)
                for hand in range(min(size, hands)):
                    first = begin + hand * least + min(hand, more)
                    runs[(dealt + hand) % hands].append((first, least + (hand < more)))
                dealt += size
            begin += size
    for index, own in enumerate(runs):
        if own:
            yield (deal.split, index), (deal.name, own)


def _write(shard: tuple[Part, Iterable[Place]], output: str, settings: Settings) -> None:
    """Writes one shard in an order drawn for it, unless it is there already."""
    (split, index), places = shard
    file = shard_name(split, index, settings.shards[split])
    if pipeline.shard_is_done(output, file):
        return
    work = storage.at(output, pipeline.WORK)
    row_type = settings.form.row_type
    blocks = [np.zeros(0, row_type)]
    for name, runs in sorted(places):
        if not runs:
            continue
        with storage.open_for_parts(work / f"{name}.rows") as stream:
            for begin, count in runs:
                stream.seek(begin * row_type.itemsize)
                blocks.append(np.frombuffer(stream.read(count * row_type.itemsize), row_type))
    rows = np.concatenate(blocks)
    rows = rows[_order(_key(settings.seed, split, index, "order"), len(rows))]
    written = write_shard(storage.at(output, file), settings.form.serialize(rows), split)
    pipeline.write_step(work, file, {"shard": dataclasses.asdict(written)})


def _key(*parts: object) -> int:
    """64 bits that depend on the parts alone."""
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big")


def _order(key: int, count: int) -> np.ndarray:
    """A permutation of 0 to `count - 1` that depends on the key alone, whatever NumPy's version.

    SplitMix64 (Steele, Lea and Flood, 2014) started at the key gives a number for each place; they
    are sorted.
    """
    with np.errstate(over="ignore"):
        numbers = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        numbers ^= numbers >> np.uint64(31)
    return np.argsort(numbers, kind="stable")


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("documents", None, "Folder of documents to read.", required=True)
    flags.DEFINE_string(
        "vocab", None, "vocab.txt, *.model or vocab.json to encode with.", required=True
    )
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    flags.DEFINE_enum(
        "objective",
        "electra",
        OBJECTIVES,
        "What examples are made for: electra; next_sentence (BERT); sentence_order (ALBERT); "
        "full_sentences (RoBERTa, and BERT without sentence pairs).",
    )
    flags.DEFINE_bool(
        "packing",
        False,
        "Pack several documents into an example, without loss of text or room, each kept to "
        "itself; with electra or full_sentences.",
    )
    flags.DEFINE_integer("sequence_length", 128, "Tokens in an example.", lower_bound=8)
    flags.DEFINE_bool("lower_case", True, "Lower-case the text and strip accents (uncased).")
    flags.DEFINE_float(
        "held_out_fraction",
        0.05,
        "Share of the articles, chosen by a hash of their id, kept out of training.",
        lower_bound=0.0,
        upper_bound=0.5,
    )
    flags.DEFINE_integer(
        "shards",
        0,
        "Training files to write; 0: one for each 32 MiB of documents, and at least 16. A worker "
        "holds one in memory.",
        lower_bound=0,
    )
    flags.DEFINE_integer("seed", 0, "Seed of the segments' lengths and of the shuffle.")
    pipeline.define_common_flags()


def main(argv: list[str]) -> None:
    """The command."""
    flag = flags.FLAGS
    with storage.only_writer(flag.output):
        manifest = make_examples(
            flag.documents,
            flag.vocab,
            flag.output,
            objective=flag.objective,
            packing=flag.packing,
            sequence_length=flag.sequence_length,
            lower_case=flag.lower_case,
            held_out_fraction=flag.held_out_fraction,
            shards=flag.shards,
            seed=flag.seed,
            overwrite=flag.overwrite,
            workers=flag.workers,
            runner=flag.runner,
            beam_args=argv[1:],
        )
    counts = manifest.counts
    pipeline.say(
        f"{counts.get('train_examples', 0):,} training and {counts.get('heldout_examples', 0):,} "
        f"held-out examples of {counts.get('documents', 0):,} documents in {flag.output}: "
        f"{counts.get('tokens', 0):,} tokens, {counts['unknown_share']:.3%} of them unknown; "
        f"{counts['padding_share']:.1%} padding, {counts['dropped_share']:.1%} of the text dropped"
    )


if __name__ == "__main__":
    # By its own name: Beam's workers import the functions that they are told to call.
    from data_prep import examples

    cli.run(examples.main, examples.define_flags, pipeline.leave_beam_flags)
