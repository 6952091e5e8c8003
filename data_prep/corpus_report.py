"""Reports the content of a corpus, and the texts left out of it: one page of Markdown with plots.

    python -m data_prep.corpus_report --documents=out/documents --output=out/corpus_report
    python -m data_prep.corpus_report --documents=out/documents --vocab=out/vocab.txt \\
        --output=out/corpus_report

Writes report.md and report.png: articles in, articles left out and why, documents, sentences,
words, words of a document, and, with a vocabulary, tokens per word.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from data_prep.selection import articles, texts
from data_prep.sentences import checked_tokenizer
from tfbio.base import batched, cli, errors, file_paths, messages, path_checks, storage
from tfbio.base.document_records import read_documents
from tfbio.base.manifests import Manifest, read_manifest

# Documents that are encoded in one call.
_BATCH = 1000

ABSTRACTS, BODIES = "abstracts", "full texts"
# The kinds of documents that are no articles', as the report calls them.
_OTHERS = {
    texts.PAGE: "pages of Wikipedia",
    texts.NOTE: "clinical notes",
    texts.PLAIN: "plain texts",
}


def measure(
    documents: str | os.PathLike, vocab: str = "", lower_case: bool = True
) -> dict[str, Any]:
    """Counts the words, sentences and tokens of a corpus, for its report.

    Shows its progress on stderr.

    Args:
      documents: the folder of documents.
      vocab: the path of a vocabulary to count tokens with; "" to count none.
      lower_case: for a WordPiece vocabulary, True to lower-case text and strip accents first.

    Returns:
      A dictionary of four items. "words" and "sentences" are dictionaries with the keys "abstracts"
      (`ABSTRACTS`, which has other abstracts too), "full texts" (`BODIES`), "pages of Wikipedia",
      "clinical notes" and "plain texts"; each value is an
      int64 array [documents of the kind], the number of words or sentences of each document in
      order. Words are runs without white space; those of titles count, but titles are no sentences.
      "tokens" is the number of tokens of all documents, "unknown" the number of unknown tokens
      among them; both are ints, 0 without `vocab`.

    Raises:
      DataError: `documents` is not a whole folder of documents, or one of its shards is damaged.
      VocabularyError: the vocabulary cannot be used.
      UsageError: a WordPiece vocabulary is one of cased text and `lower_case` is True, or the other
        way round.
    """
    from tqdm import tqdm

    tokenizer = checked_tokenizer.load(vocab, lower_case) if vocab else None
    manifest = read_manifest(documents, "documents")
    kinds = (ABSTRACTS, BODIES, *_OTHERS.values())
    words: dict[str, list[int]] = {kind: [] for kind in kinds}
    sentences: dict[str, list[int]] = {kind: [] for kind in kinds}
    tokens = unknown = 0
    every = read_documents(documents, manifest.shards)
    total = manifest.counts.get("documents")
    shown = tqdm(every, "documents", total, disable=None, unit=" documents")
    for batch in batched.by_number(shown, _BATCH):
        for document in batch:
            kind = _kind(document.id)
            parts = (document.title, *document.sentences)
            words[kind].append(sum(len(text.split()) for text in parts))
            sentences[kind].append(len(document.sentences))
        if tokenizer:
            every_text = [text for d in batch for text in (d.title, *d.sentences)]
            ids, _ = tokenizer(every_text)
            tokens += len(ids)
            unknown += int((ids == tokenizer.unk_id).sum())
    return {
        "words": {kind: np.array(values, np.int64) for kind, values in words.items()},
        "sentences": {kind: np.array(values, np.int64) for kind, values in sentences.items()},
        "tokens": tokens,
        "unknown": unknown,
    }


def _kind(document_id: str) -> str:
    """Returns the report's name for the kind of a document."""
    for kind, prefix in texts.PREFIXES.items():
        if document_id.startswith(prefix):
            return _OTHERS[kind]
    return BODIES if document_id.endswith(articles.BODY_SUFFIX) else ABSTRACTS


def _write_report(
    documents: str | os.PathLike,
    output: str | os.PathLike,
    *,
    vocab: str = "",
    lower_case: bool = True,
) -> Path:
    """Writes report.md and report.png.

    Args:
      documents: the folder of documents.
      output: the folder to write to; it is made if it does not exist.
      vocab: the path of a vocabulary for the tokens per word, or "".
      lower_case: for a WordPiece vocabulary, True to lower-case text and strip accents first.

    Returns:
      The path of report.md.

    Raises:
      UserError: the folder `output` cannot be made.
      DataError: `documents` is not a whole folder of documents.
      VocabularyError: the vocabulary cannot be used.
      UsageError: as for `measure`.
      OSError: a file cannot be written.
    """
    manifest = read_manifest(documents, "documents")
    measured = measure(documents, vocab, lower_case)
    try:
        file_paths.at(output).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.UserError(f"cannot write to {output}: {messages.reason(error)}.") from error
    _plot(manifest.counts, measured, file_paths.at(output, "report.png"))
    path = file_paths.at(output, "report.md")
    storage.write_text(path, "\n".join(_lines(manifest, measured, vocab)) + "\n")
    return path


def _lines(manifest: Manifest, measured: dict[str, Any], vocab: str) -> Iterator[str]:
    counts = manifest.counts
    left_out: dict[str, int] = counts["left_out"]
    read = {
        "PubMed citations": counts.get("citation", 0),
        "abstracts of full texts": counts.get("abstract", 0),
        "bodies of full texts": counts.get("body", 0),
    }
    others = {name: counts.get(kind, 0) for kind, name in _OTHERS.items()}
    read |= {name: number for name, number in others.items() if number}
    yield "# Corpus"
    yield ""
    yield (
        f"{counts['input_files']:,} input files, {counts.get('bad_input_files', 0):,} of them bad "
        f"(and {counts.get('bad_parts', 0):,} bad articles in the others)."
    )
    yield ""
    yield "| texts | |"
    yield "|---|--:|"
    for name, number in read.items():
        yield f"| {name} | {number:,} |"
    if other := counts.get("other_abstract", 0):
        yield f"| other abstracts | {other:,} |"
    for name, number in sorted(left_out.items(), key=lambda item: (-item[1], item[0])):
        yield f"| - {name.replace('_', ' ')} | {number:,} |"
    yield f"| = documents | {counts.get('documents', 0):,} |"
    yield ""
    yield "| documents | number | words | words each: mean | median | 90 % below | sentences |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for kind, words in measured["words"].items():
        if len(words):
            middle, high = np.percentile(words, [50, 90])
            yield (
                f"| {kind} | {len(words):,} | {words.sum():,} | {words.mean():.1f} "
                f"| {middle:.0f} | {high:.0f} | {measured['sentences'][kind].sum():,} |"
            )
    yield ""
    yield "Words are runs without white space; titles are counted in, but are no sentences."
    by_category: Counter[str] = Counter(counts.get("words_by_category"))
    if by_category:
        yield ""
        yield f"Words of clinical notes by category: {messages.counted(by_category)}."
    total = sum(int(words.sum()) for words in measured["words"].values())
    if measured["tokens"]:
        yield ""
        yield (
            f"Tokens per word with {os.path.basename(vocab)}: {measured['tokens'] / total:.3f} "
            f"({measured['tokens']:,} tokens, "
            f"{measured['unknown'] / measured['tokens']:.4%} unknown)."
        )
    yield ""
    yield "![words of a document, and texts left out](report.png)"
    yield ""
    yield "Settings: " + ", ".join(f"{name}={value}" for name, value in manifest.settings.items())
    if manifest.problems:
        yield ""
        yield "## Input that could not be used"
        yield ""
        yield from (f"- {problem}" for problem in manifest.problems)


def _plot(counts: dict[str, Any], measured: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.8), layout="constrained")
    words_axis, sentences_axis, reasons_axis = figure.subplots(1, 3)
    for axis, name in ((words_axis, "words"), (sentences_axis, "sentences")):
        arrays = {kind: array for kind, array in measured[name].items() if len(array)}
        most = max((int(array.max()) for array in arrays.values()), default=1)
        bins = np.geomspace(1, max(most, 2), 40)
        for kind, array in arrays.items():
            axis.hist(np.maximum(array, 1), bins, label=f"{len(array):,} {kind}", alpha=0.7)
        axis.set(xscale="log", xlabel=f"{name} of a document", ylabel="documents")
        axis.legend()
    reasons = Counter(counts["left_out"]).most_common()[::-1] or [("none", 0)]
    names = [name.replace("_", " ") for name, _ in reasons]
    bars = reasons_axis.barh(names, [number for _, number in reasons])
    reasons_axis.bar_label(bars, [f"{number:,}" for _, number in reasons], padding=2)
    reasons_axis.set(title="texts left out", xlabel="texts")
    reasons_axis.margins(x=0.2)
    with storage.written_whole(path) as stream:
        figure.savefig(stream, format="png", dpi=120)


def define_flags() -> None:
    """Defines the absl flags of the corpus report's command, and returns nothing.

    They are `--documents`, `--output`, `--vocab` and `--lower_case`.
    """
    flags.DEFINE_string("documents", None, "Folder of documents to read.", required=True)
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)
    flags.DEFINE_string("vocab", "", "A vocabulary, for the tokens per word.")
    flags.DEFINE_bool("lower_case", True, "Lower-case the text and strip accents (uncased).")


def main(argv: list[str]) -> None:
    """Runs the command `python -m data_prep.corpus_report`, which reports the content of a corpus.

    Writes report.md and report.png into the folder `--output`, prints the path of report.md, and
    returns nothing.

    Args:
      argv: the program's name alone.

    Raises:
      UserError: there is another argument; `--output` is a file or cannot be made, or another
        process writes to it; the documents are missing or damaged; or the vocabulary cannot be
        used.
      OSError: a file cannot be written.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    path_checks.require_output("output", flag.output, may_be_remote=True)
    with storage.only_writer(flag.output):
        path = _write_report(
            flag.documents, flag.output, vocab=flag.vocab, lower_case=flag.lower_case
        )
    messages.say(str(path))


if __name__ == "__main__":
    cli.run(main, define_flags)
