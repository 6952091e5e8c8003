"""Makes pretraining examples of documents, with a vocabulary: the third stage.

    python -m data_prep.examples --documents=out/documents --vocab=out/vocab.txt \\
        --output=out/examples_128 --sequence_length=128

Writes `train-*.tfrecord` and `heldout-*.tfrecord` (the format is
`example_records.ExampleFormat`), with a copy of the vocabulary and a `manifest.json`. `--objective`
says what an example is: `data_prep/sentences/segments.py` has them all. With `--packing`, several
documents share an example, no text is lost, and hardly any token is padding. Nothing is masked:
masks are drawn anew at every training step.

The order is shuffled over the whole corpus, and all training shards hold equally many examples, or
one more. A second run reuses finished output, and an interrupted run continues. Next:
`python run_pretraining.py --help`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from absl import flags

from data_prep.running import command, pipeline, progress, work_folder
from data_prep.sentences import example_rows, example_shards, packing
from data_prep.sentences.example_rows import OBJECTIVES, PACKED_OBJECTIVES, SPLITS
from tfbio.base import cli, errors, file_paths, messages, storage
from tfbio.base.example_records import ExampleFormat
from tfbio.base.manifests import MANIFEST, Manifest, read_manifest, verify
from tfbio.base.shards import Shard
from tfbio.text import vocabularies

if TYPE_CHECKING:
    import apache_beam as beam

# How many bytes of documents go into a training shard unless --shards is given.
_SHARD_BYTES = 32 << 20


@dataclasses.dataclass(frozen=True)
class ExampleSettings:
    """The settings of the third stage, the making of examples, beside documents and vocabulary.

    Attributes:
      objective: the pretraining objective that the examples are for: "electra", "next_sentence",
        "sentence_order" or "full_sentences" (`example_rows.OBJECTIVES`).
      packing: True to put several documents into an example.
      sequence_length: the tokens in an example, with special tokens and padding.
      lower_case: True to lower-case the text and strip accents, with a WordPiece vocabulary;
        byte-level BPE ignores it.
      held_out_fraction: the share (0 to 1) of the articles that is kept out of training.
      shards: the number of training shards to write; 0: one for each 32 MiB of documents, and at
        least 16.
      seed: the seed of the segments' lengths and of the shuffle.

    Raises:
      UsageError: `packing` with an objective other than "electra" or "full_sentences".
    """

    objective: str = "electra"
    packing: bool = False
    sequence_length: int = 128
    lower_case: bool = True
    held_out_fraction: float = command.HELD_OUT_FRACTION
    shards: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.packing and self.objective not in PACKED_OBJECTIVES:
            raise errors.UsageError(
                f"--packing cannot be had with --objective={self.objective}, whose label belongs "
                "to a whole example: leave it out, or take "
                f"{' or '.join(PACKED_OBJECTIVES)}."
            )


_DEFAULTS = ExampleSettings()


def make_examples(
    documents: str | os.PathLike,
    vocab: str | os.PathLike,
    output: str | os.PathLike,
    settings: ExampleSettings = _DEFAULTS,
    *,
    overwrite: bool = False,
    runner: pipeline.Runner = pipeline.LOCAL,
) -> Manifest:
    """Makes pretraining examples of documents: the whole third stage of data preparation.

    Writes `train-*.tfrecord`, `heldout-*.tfrecord`, a copy of the vocabulary and `manifest.json`.
    Finished examples with the same settings are reused, and an interrupted run is continued.

    Args:
      documents: the folder of documents.
      vocab: the path of the vocabulary to encode with: vocab.txt, *.model or vocab.json.
      output: the folder to write to.
      settings: the settings that the examples depend on.
      overwrite: True to replace finished examples, whatever their settings.
      runner: where the Beam pipeline runs.

    Returns:
      The `Manifest` of the folder `output`, of kind "examples". Its `shards` have the split "train"
      or "heldout". Its `counts` has ints for "examples", "train_examples", "heldout_examples",
      "documents", "train_documents", "heldout_documents", "pieces" (parts of documents in
      examples), "tokens", "special_tokens", "unknown_tokens", "document_tokens" and
      "dropped_tokens"; and floats for the shares (0 to 1) "padding_share", "unknown_share" and
      "dropped_share", and for "documents_in_an_example", a mean.

    Raises:
      VocabularyError: `vocab` is not a vocabulary.
      UsageError: `vocab` is a WordPiece vocabulary of cased text and the text is to be lower-cased,
        or the other way round.
      DataError: `documents` is not a whole folder of documents; `output` holds examples that were
        made with other settings, or cannot be written; or a shard is not to be seen yet.
      UserError: Beam does not know one of the runner's flags, or a worker process died.
      OSError: the operating system refused something, such as room on the disk.
      RuntimeError: a worker of the local runner failed for another reason.
    """
    # The workers' current folder may be another.
    documents, vocab, output = map(file_paths.absolute, (documents, vocab, output))
    files = vocabularies.vocabulary_files(vocab)
    # If one is missing, loading the vocabulary says so.
    vocab_sha256 = vocabularies.sha256_of(vocab) if all(file.is_file() for file in files) else ""
    tokenizer = example_rows.load_tokenizer(vocab, vocab_sha256, settings.lower_case)
    source = read_manifest(documents, "documents")
    described = {
        "documents_sha256": storage.sha256_of(file_paths.at(documents, MANIFEST)),
        "vocab_sha256": vocab_sha256,
        "vocab_size": tokenizer.vocab_size,
        "objective": settings.objective,
        "packing": settings.packing,
        "documents_per_example": (
            packing.most_pieces(settings.sequence_length) if settings.packing else 1
        ),
        "sequence_length": settings.sequence_length,
        # Byte-level BPE keeps all bytes.
        "lower_case": settings.lower_case and tokenizer.kind != "byte_bpe",
        "held_out_fraction": settings.held_out_fraction,
        "shards": settings.shards or _shards_for(source),
        "seed": settings.seed,
    }
    manifest = work_folder.finished(
        file_paths.at(output, MANIFEST), "examples", described, overwrite
    )
    if manifest is not None:
        messages.say(f"{output} is complete and is reused.")
        return manifest
    work_folder.check_unfinished(output, "examples")
    verify(documents, source, full=True)

    if not work_folder.is_stages(output) and not overwrite:
        _check_vocabulary(vocab, output)
    pipeline.check_reachable(runner)
    work = work_folder.open_work(output, "examples", described, overwrite)
    job = _job(str(vocab), described)
    add_steps = functools.partial(
        _add_steps,
        shards=source.shards,
        documents=str(documents),
        work=str(work),
        job=job,
    )
    steps = {"documents": len(source.shards), **job.shards}
    pipeline.run(add_steps, runner, progress.shown(work, steps))
    notes = {name: work_folder.read_all_steps(work, name, n) for name, n in steps.items()}
    # Of examples that these replace, another vocabulary may be there.
    own = vocabularies.contents(vocab)
    for name in {*vocabularies.NAMES, "merges.txt"} - own.keys():
        file_paths.at(output, name).unlink(missing_ok=True)
    vocabularies.copy_vocabulary(vocab, output)
    written = [Shard(**note["shard"]) for split in SPLITS for note in notes[split]]
    counts = _counts(notes["documents"], written, settings.sequence_length)
    manifest = Manifest("examples", described, counts, written)
    work_folder.close_work(output, manifest)
    return manifest


def _check_vocabulary(vocab: str | os.PathLike, output: str | os.PathLike) -> None:
    """Checks that no vocabulary but the examples' is where theirs will be; returns nothing.

    Raises:
      DataError: there is one.
    """
    own = vocabularies.contents(vocab)
    for name in (*vocabularies.NAMES, "merges.txt"):
        path = file_paths.at(output, name)
        if path.exists() and path.read_bytes() != own.get(name):
            raise errors.DataError(
                f"{path} is there, and is another vocabulary than --vocab={vocab}: give another "
                "--output, or add --overwrite to replace it."
            )


def _shards_for(source: Manifest) -> int:
    """Returns how many training shards to write for some documents."""
    return max(16, math.ceil(sum(shard.bytes for shard in source.shards) / _SHARD_BYTES))


def _job(vocab: str, settings: dict[str, Any]) -> example_rows.Job:
    """Returns the workers' job, from the settings in the manifest."""
    shards, fraction = settings["shards"], settings["held_out_fraction"]
    return example_rows.Job(
        vocab=vocab,
        vocab_sha256=settings["vocab_sha256"],
        lower_case=settings["lower_case"],
        objective=settings["objective"],
        packing=settings["packing"],
        form=ExampleFormat.of(settings),
        held_out_fraction=fraction,
        shards={"train": shards, "heldout": math.ceil(shards * fraction)},
        seed=settings["seed"],
    )


def _add_steps(
    root: beam.Pipeline,
    shards: list[Shard],
    documents: str,
    work: str,
    job: example_rows.Job,
) -> None:
    """Adds the steps to a pipeline: documents to rows, rows to shards; see `example_shards`."""
    import apache_beam as beam

    # A shard is written even if no rows come to it.
    no_rows: list[tuple[example_shards.Part, example_shards.Place]] = [
        ((split, i), ("", 0, 0)) for split in SPLITS for i in range(job.shards[split])
    ]
    placed = (
        root
        | "Documents" >> beam.Create(shards)
        | "Spread documents" >> beam.Reshuffle()
        | "Build" >> beam.Map(example_shards.build, documents, work, job)
        | "By split" >> beam.FlatMap(lambda built: [(split, built) for split in SPLITS])
        | "Gather sizes" >> beam.GroupByKey()
        | "Deal" >> beam.FlatMapTuple(example_shards.deal)
        | "Spread deals" >> beam.Reshuffle()
        | "Place rows" >> beam.FlatMap(example_shards.place, job)
    )
    _ = (
        (placed, root | "Shards" >> beam.Create(no_rows))
        | beam.Flatten()
        | "Gather shards" >> beam.GroupByKey()
        | "Write" >> beam.Map(example_shards.write, work, job)
    )


def _counts(
    built: list[dict[str, Any]], written: list[Shard], sequence_length: int
) -> dict[str, Any]:
    """Returns the counts of the manifest: sums over the workers' notes, and shares.

    Args:
      built: the notes on the shards of documents.
      written: the shards of examples.
      sequence_length: tokens in an example.
    """
    counts: Counter[str] = Counter()
    for note in built:
        counts.update(note["counts"])
    for split in SPLITS:
        counts[f"{split}_examples"] = sum(s.records for s in written if s.split == split)
    examples = sum(shard.records for shard in written)
    real = counts["tokens"] + counts["special_tokens"]
    return dict(counts) | {
        "examples": examples,
        "padding_share": round(1 - real / max(1, examples * sequence_length), 6),
        "unknown_share": round(counts["unknown_tokens"] / max(1, counts["tokens"]), 6),
        "dropped_share": round(counts["dropped_tokens"] / max(1, counts["document_tokens"]), 6),
        "documents_in_an_example": round(counts["pieces"] / max(1, examples), 3),
    }


def define_flags() -> None:
    """Defines the absl flags of the command that makes pretraining examples, and returns nothing.

    They are `--documents`, `--vocab`, `--output`, one for each setting of `ExampleSettings`, and
    those of `command.define_common_flags`.
    """
    flags.DEFINE_string("documents", None, "Folder of documents to read.", required=True)
    flags.DEFINE_string(
        "vocab", None, "vocab.txt, *.model or vocab.json to encode with.", required=True
    )
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    flags.DEFINE_enum(
        "objective",
        _DEFAULTS.objective,
        OBJECTIVES,
        "What examples are made for: electra; next_sentence (BERT); sentence_order (ALBERT); "
        "full_sentences (RoBERTa, and BERT without sentence pairs).",
    )
    flags.DEFINE_bool(
        "packing",
        _DEFAULTS.packing,
        "Pack several documents into an example, without loss of text or room, each kept to "
        "itself; with electra or full_sentences.",
    )
    flags.DEFINE_integer(
        "sequence_length",
        _DEFAULTS.sequence_length,
        "Tokens in an example.",
        lower_bound=8,
        upper_bound=65535,  # the lengths of segments have two bytes
    )
    flags.DEFINE_bool(
        "lower_case",
        _DEFAULTS.lower_case,
        "Lower-case the text and strip accents (uncased); byte-level BPE ignores it.",
    )
    flags.DEFINE_float(
        "held_out_fraction",
        _DEFAULTS.held_out_fraction,
        "Share of the articles, chosen by a hash of their id, kept out of training, which measures "
        "its loss on them.",
        lower_bound=0.0,
        upper_bound=0.5,
    )
    flags.DEFINE_integer(
        "shards",
        _DEFAULTS.shards,
        "Training files to write; 0: one for each 32 MiB of documents, and at least 16. A worker "
        "holds one in memory.",
        lower_bound=0,
        upper_bound=99999,  # of which names have five digits
    )
    flags.DEFINE_integer(
        "seed", _DEFAULTS.seed, "Seed of the segments' lengths and of the shuffle."
    )
    command.define_common_flags()


def main(argv: list[str]) -> None:
    """Runs the command `python -m data_prep.examples`, the third stage of data preparation.

    Makes the pretraining examples that the flags ask for, prints their counts, and returns nothing.

    Args:
      argv: the program's name and Beam's flags.

    Raises:
      UserError: `--packing` does not go with the objective, the examples cannot be made, as
        `make_examples` says, or another process writes to `--output`.
      OSError: the operating system refused something, such as room on the disk.
    """
    flag = flags.FLAGS
    with storage.only_writer(flag.output):
        manifest = make_examples(
            flag.documents,
            flag.vocab,
            flag.output,
            ExampleSettings(
                objective=flag.objective,
                packing=flag.packing,
                sequence_length=flag.sequence_length,
                lower_case=flag.lower_case,
                held_out_fraction=flag.held_out_fraction,
                shards=flag.shards,
                seed=flag.seed,
            ),
            overwrite=flag.overwrite,
            runner=command.runner(argv),
        )
    counts = manifest.counts
    messages.say(
        f"{counts.get('train_examples', 0):,} training and {counts.get('heldout_examples', 0):,} "
        f"held-out examples of {counts.get('documents', 0):,} documents in {flag.output}: "
        f"{counts.get('tokens', 0):,} tokens, {counts['unknown_share']:.3%} of them unknown; "
        f"{counts['padding_share']:.1%} padding, {counts['dropped_share']:.1%} of the text dropped"
    )


if __name__ == "__main__":
    # By its own name: Beam's workers import the functions that they are told to call.
    from data_prep import examples

    cli.run(examples.main, examples.define_flags, command.leave_beam_flags)
