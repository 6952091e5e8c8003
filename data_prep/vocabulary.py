"""Stage 2: documents in, a WordPiece vocabulary out.

    python -m data_prep.vocabulary --documents=out/documents --output=out/vocab.txt --size=30522

Reads the folder that `python -m data_prep.documents` wrote, and writes one token a line, the
special tokens first: the `vocab.txt` that BERT and ELECTRA use. `vocab.manifest.json` beside it
keeps the settings, so that a second run can tell whether there is anything to do.
Next: `python -m data_prep.examples --help`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from absl import flags

from data_prep import pipeline
from tfbio import cli, records, tokenization

# Characters beyond the most frequent thousand become [UNK], as BERT's own vocabulary does.
_ALPHABET = 1000


def train(texts: Callable[[], Iterable[str]], size: int, lower_case: bool = True) -> list[str]:
    """Learns a WordPiece vocabulary; the same texts always give the same tokens.

    Hugging Face's trainer alone does not: it numbers the characters inside of words (`##a`) in
    the order of a hash table that is seeded anew in every process, and breaks ties between equally
    frequent pairs by those numbers. Here the alphabet is counted first, and given in order.

    Args:
      texts: gives the texts to learn from; called twice.
      size: tokens in the vocabulary; fewer where the texts do not have as many.
      lower_case: whether the text is lower-cased and stripped of accents first.

    Returns:
      The tokens in order of id.

    Raises:
      UserError: `size` leaves no room for the characters.
    """
    from tokenizers import trainers

    tokenizer = tokenization.wordpiece({tokenization.UNK: 0}, lower_case)
    counts: Counter[str] = Counter()
    for text in texts():
        counts.update(tokenizer.normalizer.normalize_str(text))
    by_count = sorted(counts, key=lambda char: (-counts[char], char))
    alphabet = sorted([char for char in by_count if not char.isspace()][:_ALPHABET])
    # Punctuation always stands alone, so it has no form for the inside of a word.
    inner = [
        f"##{char}"
        for char in alphabet
        if len(tokenizer.pre_tokenizer.pre_tokenize_str(f"a{char}")) == 1
    ]
    first = [*tokenization.SPECIAL_TOKENS, *alphabet, *inner]
    if size < len(first):
        raise cli.UserError(
            f"--size={size} is too small: the special tokens and the characters of these documents "
            f"alone are {len(first)}."
        )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=first,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    vocab = tokenizer.get_vocab()
    return sorted(vocab, key=vocab.__getitem__)


def make_vocabulary(
    documents: str | os.PathLike,
    output: str | os.PathLike,
    *,
    size: int = 30522,
    lower_case: bool = True,
    overwrite: bool = False,
) -> records.Manifest:
    """Runs the stage; the arguments are the command's flags.

    Returns:
      The manifest beside `output`.

    Raises:
      DataError: `documents` is not a folder of documents, or `output` has other settings.
    """
    from tqdm import tqdm

    source = records.read_manifest(documents, "documents")
    settings = {
        "documents_sha256": records.sha256_of(Path(documents) / records.MANIFEST),
        "size": size,
        "lower_case": lower_case,
    }
    output = Path(output)
    manifest_path = output.with_name(f"{output.stem}.manifest.json")
    manifest = pipeline.finished(manifest_path, "vocabulary", settings, overwrite)
    if manifest is not None:
        pipeline.say(f"{output} is complete and is reused.")
        return manifest

    def texts() -> Iterator[str]:
        found = records.read_documents(documents, source.shards)
        total = source.counts.get("documents")
        for document in tqdm(found, "vocabulary", total, disable=None, unit=" documents"):
            yield document.title
            yield from document.sentences

    tokens = train(texts, size, lower_case)
    text = "".join(f"{token}\n" for token in tokens)
    # The same text without a manifest is what a run left that was killed before its last step.
    orphan = output.exists() and not manifest_path.exists()
    if orphan and not overwrite and output.read_bytes() != text.encode():
        raise records.DataError(
            f"{output} exists, but not {manifest_path.name}, so it is not this command's: add "
            "--overwrite to replace it, or give another --output."
        )
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        manifest_path.unlink(missing_ok=True)
        records.write_text(output, text)
        sha256, length = records.sha256_of(output), output.stat().st_size
        shard = records.Shard(output.name, len(tokens), length, sha256)
        manifest = records.Manifest("vocabulary", settings, {"tokens": len(tokens)}, [shard])
        records.write_manifest(manifest_path, manifest)
    except OSError as error:
        raise records.DataError(f"cannot write {output}: {error.strerror}.") from error
    return manifest


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("documents", None, "Folder of documents to learn from.", required=True)
    flags.DEFINE_string("output", None, "The vocab.txt to write.", required=True)
    flags.DEFINE_integer("size", 30522, "Number of tokens.", lower_bound=1)
    flags.DEFINE_bool("lower_case", True, "Lower-case the text and strip accents (uncased).")
    pipeline.define_common_flags(runs_beam=False)


def main(argv: list[str]) -> None:
    """The command."""
    cli.no_arguments(argv)
    flag = flags.FLAGS
    manifest = make_vocabulary(
        flag.documents,
        flag.output,
        size=flag.size,
        lower_case=flag.lower_case,
        overwrite=flag.overwrite,
    )
    pipeline.say(f"{manifest.counts['tokens']:,} tokens in {flag.output}")


if __name__ == "__main__":
    cli.run(main, define_flags)
