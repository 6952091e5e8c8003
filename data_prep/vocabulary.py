"""Learns a vocabulary from documents: the second stage.

    python -m data_prep.vocabulary --documents=out/documents --output=out/vocab.txt --size=30522
    python -m data_prep.vocabulary --documents=out/documents --output=out/30k.model \\
        --kind=unigram --size=30000
    python -m data_prep.vocabulary --documents=out/documents --output=out/bpe/vocab.json \\
        --kind=byte_bpe --size=50000

Reads the folder that `python -m data_prep.documents` wrote, and learns the tokens of its text:

- wordpiece, as in BERT and ELECTRA: `vocab.txt`, one token a line, the special tokens first;
- unigram and bpe, SentencePiece's, as in ALBERT: `*.model`, and `*.vocab` to look at;
- byte_bpe, as in RoBERTa: `vocab.json`, with `merges.txt` beside it.

The same documents and flags give the same bytes on every machine. Memory grows with the text, so
the command learns from a sample of the documents unless there are few. `<name>.manifest.json` keeps
the settings, so that a second run can reuse the vocabulary.
Next: `python -m data_prep.fertility --help`, `python -m data_prep.examples --help`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from absl import flags

from data_prep.running import command, work_folder
from data_prep.sentences import vocabulary_training
from tfbio.base import cli, errors, file_paths, json_files, messages, storage
from tfbio.base.document_records import read_documents
from tfbio.base.errors import DataError
from tfbio.base.held_out import hash_fraction
from tfbio.base.manifests import MANIFEST, Manifest, read_manifest, write_manifest
from tfbio.base.shards import Shard
from tfbio.text.fast_tokenizer import load_fast_tokenizer

# The kinds of vocabularies, with the ends of their files' names, by which they are loaded.
_KINDS = {"wordpiece": ".txt", "unigram": ".model", "bpe": ".model", "byte_bpe": ".json"}


def make_vocabulary(
    documents: str | os.PathLike,
    output: str | os.PathLike,
    *,
    kind: str = "wordpiece",
    size: int = 30522,
    lower_case: bool | None = None,
    sample_documents: int = 100_000,
    overwrite: bool = False,
) -> Manifest:
    """Makes a vocabulary from documents: the whole second stage of data preparation.

    Writes `vocab.txt`, `*.model` with `*.vocab`, or `vocab.json` with `merges.txt`; and beside it
    `<name>.manifest.json`. A finished vocabulary with the same settings is reused.

    Args:
      documents: the folder of documents.
      output: the path of the vocabulary's file. Its name ends in ".txt" for "wordpiece", ".model"
        for "unigram" and "bpe", ".json" for "byte_bpe".
      kind: "wordpiece", "unigram", "bpe" or "byte_bpe".
      size: the number of tokens.
      lower_case: True to lower-case text first; None: True, but False for "byte_bpe".
      sample_documents: about how many documents to learn from; 0: all.
      overwrite: True to replace finished output, whatever its settings.

    Returns:
      The `Manifest`, of kind "vocabulary": its settings, the files as shards, and in `counts` the
      ints "tokens" (the vocabulary's size, less than `size` if the text has too few) and
      "documents" (those it was learnt from).

    Raises:
      UsageError: the end of the name of `output`, or `lower_case`, does not go with `kind`.
      UserError: `size` leaves no room for the characters, or is more than a SentencePiece model's
        text has.
      DataError: `documents` is not a whole folder of documents; `output` has other settings, is
        another command's file, or cannot be written.
      KeyError: `kind` is none of the four.
    """
    output = file_paths.at(output)
    _check_arguments(output, kind, lower_case)
    lower_case = kind != "byte_bpe" if lower_case is None else lower_case
    source = read_manifest(documents, "documents")
    settings = {
        "documents_sha256": storage.sha256_of(file_paths.at(documents, MANIFEST)),
        "kind": kind,
        "size": size,
        "lower_case": lower_case,
        "sample_documents": sample_documents,
    }
    manifest_path = output.with_name(f"{output.stem}.manifest.json")
    _check_manifest(manifest_path, output.name)
    manifest = work_folder.finished(manifest_path, "vocabulary", settings, overwrite)
    if manifest is not None:
        messages.say(f"{output} is complete and is reused.")
        return manifest

    sample = _Sample(documents, source, sample_documents)
    files = _learn(output, sample, kind, size, lower_case)
    _write(files, manifest_path, overwrite)
    counts = {
        "tokens": load_fast_tokenizer(output).vocab_size,
        "documents": sample.documents,
    }
    shards = [
        Shard(path.name, counts["tokens"], len(content), hashlib.sha256(content).hexdigest())
        for path, content in files.items()
    ]
    manifest = Manifest("vocabulary", settings, counts, shards)
    write_manifest(manifest_path, manifest)
    return manifest


def _check_manifest(path: Path, name: str) -> None:
    """Refuses a manifest of another vocabulary, which has the same name but for its end."""
    shards = json_files.read_object_or_empty(path).get("shards")
    names = [shard.get("file") for shard in shards or [] if isinstance(shard, dict)]
    if names and name not in names:
        raise DataError(
            f"{path} is that of {names[0]}: give --output another name or another folder."
        )


def _check_arguments(output: Path, kind: str, lower_case: bool | None) -> None:
    """Checks that the name of the output and `lower_case` suit the kind of vocabulary."""
    if output.suffix != _KINDS[kind]:
        raise errors.UsageError(
            f"--output={output} does not suit --kind={kind}: the name must end in {_KINDS[kind]}."
        )
    if kind == "byte_bpe" and lower_case:
        raise errors.UsageError(
            "--lower_case does not go with --kind=byte_bpe, which keeps all bytes."
        )


class _Sample:
    """Texts of a sample of documents, read as often as they are asked for.

    Attributes:
      documents: how many documents the last reading had.
    """

    def __init__(self, folder: str | os.PathLike, source: Manifest, sample_documents: int):
        self.documents = 0
        self._folder, self._shards = folder, source.shards
        self._total = source.counts.get("documents", 0)
        is_part = 0 < sample_documents < self._total
        self._share = sample_documents / self._total if is_part else 1.0

    def texts(self) -> Iterator[str]:
        """Yields the title and the sentences of each document of the sample, showing progress."""
        from tqdm import tqdm

        self.documents = 0
        every = read_documents(self._folder, self._shards)
        for document in tqdm(every, "vocabulary", self._total, disable=None, unit=" documents"):
            # A document's id alone decides whether it is in the sample.
            if hash_fraction(f"vocabulary {document.id}") < self._share:
                self.documents += 1
                yield document.title
                yield from document.sentences


def _learn(
    output: Path, sample: _Sample, kind: str, size: int, lower_case: bool
) -> dict[Path, bytes]:
    """Learns a vocabulary; returns the content of its files."""
    if kind == "wordpiece":
        tokens = vocabulary_training.train_wordpiece(sample.texts, size, lower_case)
        return {output: "".join(f"{token}\n" for token in tokens).encode()}
    if kind == "byte_bpe":
        vocab, merges = vocabulary_training.train_byte_bpe(sample.texts(), size)
        return {output: vocab.encode(), output.with_name("merges.txt"): merges.encode()}
    model, vocab = vocabulary_training.train_sentencepiece(sample.texts(), kind, size, lower_case)
    return {output: model, output.with_suffix(".vocab"): vocab.encode()}


def _write(files: Mapping[Path, bytes], manifest_path: Path, overwrite: bool) -> None:
    """Writes the files of a vocabulary, after it has removed an earlier manifest.

    Raises:
      DataError: a file exists that this command did not write, or one cannot be written.
    """
    # A run that was killed before its last step leaves the same bytes without a manifest.
    foreign = [path for path in files if path.exists() and path.read_bytes() != files[path]]
    if foreign and not manifest_path.exists() and not overwrite:
        raise DataError(
            f"{foreign[0]} exists, but not {manifest_path.name}, so it is not this command's: add "
            "--overwrite to replace it, or give another --output."
        )
    output = next(iter(files))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        manifest_path.unlink(missing_ok=True)
        for path in (*files, manifest_path):
            storage.remove_half_written(path)
        for path, content in files.items():
            with storage.written_whole(path) as stream:
                stream.write(content)
    except OSError as error:
        raise DataError(f"cannot write {output}: {messages.reason(error)}.") from error


def define_flags() -> None:
    """Defines the absl flags of the command that makes a vocabulary, and returns nothing.

    They are `--documents`, `--output`, `--kind`, `--size`, `--lower_case`, `--sample_documents` and
    `--overwrite`.
    """
    flags.DEFINE_string("documents", None, "Folder of documents to learn from.", required=True)
    flags.DEFINE_string(
        "output",
        None,
        "The vocab.txt (wordpiece), *.model (unigram, bpe) or vocab.json (byte_bpe) to write.",
        required=True,
    )
    flags.DEFINE_enum("kind", "wordpiece", list(_KINDS), "What the text is cut into, and how.")
    flags.DEFINE_integer("size", 30522, "Number of tokens.", lower_bound=1)
    flags.DEFINE_bool(
        "lower_case",
        None,
        "Uncased: wordpiece lower-cases the text and strips accents, a unigram or bpe model folds "
        "case itself. Default: yes, but byte_bpe keeps every byte.",
    )
    flags.DEFINE_integer(
        "sample_documents",
        100_000,
        "Learn from about so many documents, drawn by a hash of their ids; 0: from all. Memory: "
        "unigram takes 20 bytes for each byte of text (3 GB for 100,000 abstracts), bpe 8, the "
        "others only what the different words take.",
        lower_bound=0,
    )
    command.define_common_flags(runs_beam=False)


def main(argv: list[str]) -> None:
    """Runs the command `python -m data_prep.vocabulary`, the second stage of data preparation.

    Learns the vocabulary that the flags ask for, prints its size, and returns nothing.

    Args:
      argv: the program's name alone.

    Raises:
      UserError: there is another argument, the vocabulary cannot be made, as `make_vocabulary`
        says, or another process writes to `--output`.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    with storage.only_writer(flag.output):
        manifest = make_vocabulary(
            flag.documents,
            flag.output,
            kind=flag.kind,
            size=flag.size,
            lower_case=flag.lower_case,
            sample_documents=flag.sample_documents,
            overwrite=flag.overwrite,
        )
    counts = manifest.counts
    messages.say(
        f"{counts['tokens']:,} tokens in {flag.output}, learnt from {counts['documents']:,} "
        "documents"
    )
    if missing := max(flag.size - counts["tokens"], 0):
        messages.say(
            f"--size={flag.size} asked for {missing:,} more, but no two tokens that could be "
            "joined stand together twice in these documents. Learn from more documents, or give "
            f"pretraining --set encoder.vocab_size={counts['tokens']}."
        )


if __name__ == "__main__":
    cli.run(main, define_flags)
