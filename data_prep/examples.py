"""Stage 3: documents and a vocabulary in, pretraining examples out.

    python -m data_prep.examples --documents=out/documents --vocab=out/vocab.txt \\
        --output=out/examples_128 --sequence_length=128

Writes `train-*.tfrecord` and `heldout-*.tfrecord` with `input_ids`, `input_mask` and
`segment_ids` of fixed length, the format of the original ELECTRA code, with a copy of the
vocabulary and a `manifest.json`. Nothing is masked: that is drawn anew at every training step.
The order is shuffled over the whole corpus. A second run reuses finished output, and an
interrupted run continues. Next: `python run_pretraining.py --help`.
"""

from __future__ import annotations

import array
import dataclasses
import functools
import hashlib
import math
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from data_prep import pipeline
from tfbio import cli, records, tokenization

if TYPE_CHECKING:
    import tokenizers

# The odds of the original, google-research/electra's build_pretraining_dataset.py.
_SINGLE_SEGMENT = 0.1
_SHORT = 0.05

# An example on its way to its shard: where it stands there, its ids with [CLS] and [SEP] but
# without padding, and the length of its first segment with its [CLS] and [SEP].
Row = tuple[bytes, bytes, int]


def build_examples(
    sentences: Iterable[Sequence[int]], max_length: int, rng: random.Random
) -> Iterator[tuple[list[int], list[int]]]:
    """Builds the examples of one document, as ELECTRA's ExampleBuilder does.

    Sentences are gathered until they reach a target length, which is `max_length`, or in one
    example of twenty a random length, then shared out to two segments, or one in one of ten.

    One thing differs: the original draws a target length after each example and carries the last
    one over to the next document; here the first is drawn anew, from the same odds, so that a
    document's examples depend on nothing but the document and `rng`.

    Args:
      sentences: token ids of the document's sentences, in order.
      max_length: length of an example with its special tokens.
      rng: where the random draws come from; only `rng.random()` is used, whose sequence Python
        promises not to change.

    Yields:
      The token ids of the first and of the second segment (which may be empty), without special
      tokens.
    """

    def target() -> int:
        if rng.random() < _SHORT:
            return 5 + int(rng.random() * (max_length - 4))
        return max_length

    gathered: list[Sequence[int]] = []
    length, target_length = 0, target()
    for sentence in sentences:
        gathered.append(sentence)
        length += len(sentence)
        if length >= target_length:
            yield _segments(gathered, max_length, target_length, rng)
            gathered, length, target_length = [], 0, target()
    if length:
        yield _segments(gathered, max_length, target_length, rng)


def _segments(
    sentences: Iterable[Sequence[int]], max_length: int, target_length: int, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Shares sentences out to two segments, and cuts them to fit."""
    first_target = 100_000 if rng.random() < _SINGLE_SEGMENT else (target_length - 3) // 2
    first: list[int] = []
    second: list[int] = []
    for sentence in sentences:
        # To the first segment while it is empty, or stays below its target, or, at even odds,
        # the one sentence that takes it past its target.
        if (
            not first
            or len(first) + len(sentence) < first_target
            or (not second and len(first) < first_target and rng.random() < 0.5)
        ):
            first += sentence
        else:
            second += sentence
    first = first[: max_length - 2]
    second = second[: max(0, max_length - len(first) - 3)]
    return first, second


def make_examples(
    documents: str | os.PathLike,
    vocab: str | os.PathLike,
    output: str | os.PathLike,
    *,
    sequence_length: int = 128,
    lower_case: bool = True,
    held_out_fraction: float = 0.05,
    shards: int = 16,
    seed: int = 0,
    overwrite: bool = False,
    workers: int = 0,
    runner: str = "local",
    beam_args: Sequence[str] = (),
) -> records.Manifest:
    """Runs the stage; the arguments are the command's flags.

    Returns:
      The manifest of the folder `output`.

    Raises:
      VocabularyError: `vocab` is not a BERT vocabulary.
      DataError: `documents` is not a whole folder of documents, or `output` holds examples that
        were made with other settings.
    """
    tokens = tokenization.read_vocab(vocab)
    source = records.read_manifest(documents, "documents")
    settings = {
        "documents_sha256": records.sha256_of(Path(documents) / records.MANIFEST),
        "vocab_sha256": records.sha256_of(vocab),
        "vocab_size": len(tokens),
        "sequence_length": sequence_length,
        "lower_case": lower_case,
        "held_out_fraction": held_out_fraction,
        "shards": shards,
        "seed": seed,
    }
    manifest = pipeline.finished(Path(output) / records.MANIFEST, "examples", settings, overwrite)
    if manifest is not None:
        pipeline.say(f"{output} is complete and is reused.")
        return manifest
    records.verify(documents, source, full=True)

    work = pipeline.open_work(output, settings, overwrite)
    held_out_shards = math.ceil(shards * held_out_fraction)
    parts = [("train", index, shards) for index in range(shards)]
    parts += [("heldout", index, held_out_shards) for index in range(held_out_shards)]

    def build(pipeline_: Any) -> None:
        import apache_beam as beam

        rows = (
            pipeline_
            | beam.Create(source.shards)
            | beam.Reshuffle()
            | "Build"
            >> beam.FlatMap(
                _read_shard,
                documents=str(documents),
                work=str(work),
                vocab=str(vocab),
                max_length=sequence_length,
                lower_case=lower_case,
                held_out_fraction=held_out_fraction,
                shards={"train": shards, "heldout": held_out_shards},
                seed=seed,
            )
        )
        # Every shard is written, even one that no example falls into.
        seeds = pipeline_ | "Shards" >> beam.Create([(part, None) for part in parts])
        _ = (
            (rows, seeds)
            | beam.Flatten()
            | beam.GroupByKey()
            | "Write"
            >> beam.Map(
                _write_shard,
                output=str(output),
                max_length=sequence_length,
                padding=tokens[tokenization.PAD],
            )
        )

    steps = {"documents": len(source.shards), "train": shards, "heldout": held_out_shards}
    pipeline.run(build, runner, workers, beam_args, work, steps)

    counts: Counter[str] = Counter()
    for step in pipeline.read_steps(work, "documents"):
        counts.update(step["counts"])
    written = [
        records.Shard(**step["shard"])
        for split in ("train", "heldout")
        for step in pipeline.read_steps(work, split)
    ]
    for shard in written:
        counts[f"{shard.split}_examples"] += shard.records
    examples = sum(shard.records for shard in written)
    real = counts["tokens"] + counts["special_tokens"]
    totals = dict(counts) | {
        "examples": examples,
        "padding_share": round(1 - real / max(1, examples * sequence_length), 6),
        "unknown_share": round(counts["unknown_tokens"] / max(1, counts["tokens"]), 6),
    }
    records.write_text(Path(output) / "vocab.txt", "".join(f"{token}\n" for token in tokens))
    manifest = records.Manifest("examples", settings, totals, written)
    pipeline.close_work(output, manifest)
    return manifest


def _read_shard(
    shard: records.Shard,
    documents: str,
    work: str,
    vocab: str,
    max_length: int,
    lower_case: bool,
    held_out_fraction: float,
    shards: dict[str, int],
    seed: int,
) -> Iterator[tuple[tuple[str, int, int], Row]]:
    """Yields ((split, index, number of shards), row) for the examples of a shard of documents."""
    tokenizer = _tokenizer(vocab, lower_case)
    cls, sep, unk = map(
        tokenizer.token_to_id, (tokenization.CLS, tokenization.SEP, tokenization.UNK)
    )
    counts: Counter[str] = Counter()
    for document in records.read_documents(documents, [shard]):
        split = "heldout" if records.is_held_out(document.article, held_out_fraction) else "train"
        counts["documents"] += 1
        counts[f"{split}_documents"] += 1
        texts = [document.title, *document.sentences]
        encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        rng = random.Random(_digest(seed, document.id))
        examples = build_examples((encoding.ids for encoding in encoded), max_length, rng)
        for number, (first, second) in enumerate(examples):
            ids = [cls, *first, sep]
            if second:
                ids += [*second, sep]
            counts["tokens"] += len(first) + len(second)
            counts["special_tokens"] += 3 if second else 2
            counts["unknown_tokens"] += first.count(unk) + second.count(unk)
            place = _digest(seed, document.id, number)
            index = int.from_bytes(place[:8], "big") % shards[split]
            row = (place, array.array("i", ids).tobytes(), len(first) + 2)
            yield (split, index, shards[split]), row
    pipeline.write_step(work, shard.file, {"counts": counts})


@functools.cache
def _tokenizer(vocab: str, lower_case: bool) -> tokenizers.Tokenizer:
    """Made once in each worker process."""
    return tokenization.wordpiece(tokenization.read_vocab(vocab), lower_case)


def _digest(*parts: object) -> bytes:
    """16 bytes that depend on the parts alone: the seed of draws, or a place in the shuffle."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).digest()[:16]


def _write_shard(
    group: tuple[tuple[str, int, int], Iterable[Row | None]],
    output: str,
    max_length: int,
    padding: int,
) -> None:
    """Writes one shard in the order of the shuffle, unless it is there already."""
    (split, index, count), rows = group
    file = records.shard_name(split, index, count)
    if pipeline.shard_is_done(output, file):
        return
    ordered = sorted(row for row in rows if row is not None)
    serialized = (_serialize(row, max_length, padding) for row in ordered)
    written = records.write_shard(Path(output) / file, serialized, split)
    step = {"shard": dataclasses.asdict(written)}
    pipeline.write_step(Path(output) / pipeline.WORK, file, step)


def _serialize(row: Row, max_length: int, padding: int) -> bytes:
    """An example as the original ELECTRA code writes it."""
    _, packed, first = row
    ids = array.array("i", packed).tolist()
    rest = max_length - len(ids)
    return records.serialize_example(
        {
            "input_ids": ids + [padding] * rest,
            "input_mask": [1] * len(ids) + [0] * rest,
            "segment_ids": [0] * first + [1] * (len(ids) - first) + [0] * rest,
        }
    )


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("documents", None, "Folder of documents to read.", required=True)
    flags.DEFINE_string("vocab", None, "The vocab.txt to encode with.", required=True)
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    flags.DEFINE_integer("sequence_length", 128, "Tokens in an example.", lower_bound=8)
    flags.DEFINE_bool("lower_case", True, "Lower-case the text and strip accents (uncased).")
    flags.DEFINE_float(
        "held_out_fraction",
        0.05,
        "Share of the articles, chosen by a hash of their id, kept out of training.",
        lower_bound=0.0,
        upper_bound=0.5,
    )
    flags.DEFINE_integer("shards", 16, "Number of training files to write.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Seed of the segments' lengths and of the shuffle.")
    pipeline.define_common_flags()


def main(argv: list[str]) -> None:
    """The command."""
    flag = flags.FLAGS
    manifest = make_examples(
        flag.documents,
        flag.vocab,
        flag.output,
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
        f"{counts['padding_share']:.1%} padding"
    )


if __name__ == "__main__":
    # By its own name: Beam's workers import the functions that they are told to call.
    from data_prep import examples

    cli.run(examples.main, examples.define_flags, pipeline.leave_beam_flags)
