"""Measures into how many tokens vocabularies cut a word: a table like BioMegatron's Table 3.

    python -m data_prep.fertility --vocab=out/vocab.txt,out/30k.model --documents=out/documents
    python -m data_prep.fertility --vocab=a/vocab.txt,b/vocab.json \\
        --mentions=BC5CDR-chem/train.tsv,BC5CDR-disease/train.tsv --output=fertility.md

For each vocabulary (`python -m data_prep.vocabulary` makes them) and each text, it prints the
tokens per word (fertility), the share of the words that stay in one token, and the share of the
tokens that are unknown. The text under the table says what counts as a word.

BioMegatron (Shin et al., 2020) does not define a word. For PubMedBERT's vocabulary it prints
1.654 (BC5-chem) and 1.236 (BC5-disease); inside the mentions of BLURB's training files it is 1.459
and 1.144 here. No other way to count that was tried gives both of its figures: nearest, with 1.626
and 1.177, is to count only words that have a letter or digit, and the tokens of all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from absl import flags

from data_prep.sentences import checked_tokenizer
from tfbio.base import cli, errors, messages, path_checks, storage
from tfbio.base.document_records import read_documents
from tfbio.base.manifests import read_manifest
from tfbio.formats import text_files
from tfbio.text.fast_tokenizer import FastTokenizer

_DEFINITION = """\
A word of documents is a run between whitespace in a title or a sentence, with the punctuation
that touches it ("(p<0.05)," is one word). A word of a benchmark file is one of its lines, as its
authors cut the text ("(", "p", "<" are three); those whose tag is not O are inside of mentions.
Every occurrence counts. A word is encoded as it stands in a text, after a space."""


class Fertility(NamedTuple):
    """The fertility of a vocabulary on a text, and two more numbers on how it cuts the words.

    Attributes:
      tokens_per_word: the fertility, the mean number of tokens of a word.
      whole: the share (0 to 1) of the words that are one token, and not the unknown one.
      unknown: the share (0 to 1) of the tokens that are unknown.
    """

    tokens_per_word: float
    whole: float
    unknown: float


def measure(tokenizer: FastTokenizer, words: Counter[str]) -> Fertility:
    """Measures the fertility of a vocabulary: into how many tokens it cuts the words of a text.

    Args:
      tokenizer: the tokenizer of the vocabulary.
      words: for each word the number of its occurrences, by which it is weighted.

    Returns:
      A `Fertility` of three floats: `tokens_per_word`, the mean number of tokens of a word;
      `whole`, the share (0 to 1) of the words that are one token; `unknown`, the share of unknown
      tokens.

    Raises:
      UserError: there are no words.
    """
    if not words:
        raise errors.UserError(
            "there are no words to measure: the documents or the file are empty."
        )
    tokens = whole = unknown = 0
    for word, count in words.items():
        ids = _inside(tokenizer, word)
        tokens += count * len(ids)
        unknown += count * ids.count(tokenizer.unk_id)
        whole += count * (len(ids) == 1 and ids[0] != tokenizer.unk_id)
    return Fertility(tokens / words.total(), whole / words.total(), unknown / max(1, tokens))


def _inside(tokenizer: FastTokenizer, word: str) -> list[int]:
    """Returns the ids of a word that is not the first of its text.

    Only byte-level BPE gives it other ids than the first word, as its tokens have the space before.
    """
    ids, _ = tokenizer([f" {word}" if tokenizer.kind == "byte_bpe" else word])
    return ids.tolist()


def document_words(folder: str | os.PathLike) -> Counter[str]:
    """Counts the words of a folder of documents, for measuring fertility on them.

    Shows its progress on stderr.

    Args:
      folder: the folder of documents.

    Returns:
      For each word, a run of characters between white space in a title or sentence, the number of
      its occurrences.

    Raises:
      DataError: it is no whole folder of documents, or a document in it is damaged.
    """
    from tqdm import tqdm

    manifest = read_manifest(folder, "documents")
    words: Counter[str] = Counter()
    every = read_documents(folder, manifest.shards)
    total = manifest.counts.get("documents")
    for document in tqdm(every, "words", total, disable=None, unit=" documents"):
        words.update(document.title.split())
        for sentence in document.sentences:
            words.update(sentence.split())
    return words


def mention_words(path: str | os.PathLike) -> tuple[Counter[str], Counter[str]]:
    """Counts the words of a file of tagged words, for measuring fertility on them.

    Args:
      path: a file (also gzipped) of one word and its tag a line, a tab between; the tag is the last
        column, and "O" outside of mentions. Empty lines separate sentences.

    Returns:
      Two counters, with the number of occurrences of each word: of all words, and of those inside
      of mentions (words that never are have no entry).

    Raises:
      UserError: the file cannot be read, is empty or not in UTF-8, a line has no tag, or no word is
        inside a mention.
    """
    every: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for number, line in enumerate(text_files.read_lines(os.fspath(path)), 1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            continue
        word, *columns = line.split("\t")
        if not word or not columns or not columns[-1]:
            raise errors.UserError(
                f"{path}, line {number}: a word, a tab and its tag were expected."
            )
        every[word] += 1
        inside[word] += columns[-1] != "O"
    inside = +inside  # without words that never are
    if not inside:
        raise errors.UserError(f"--mentions: {path} has no word inside of a mention.")
    return every, inside


def report(
    vocabularies: Sequence[str],
    lower_case: bool = True,
    documents: str | None = None,
    mentions: Sequence[str] = (),
) -> str:
    """Makes the fertility report: a Markdown table of how vocabularies cut the words of texts.

    Args:
      vocabularies: the paths of the vocabularies.
      lower_case: True if the `vocab.txt` are of lower-cased text.
      documents: a folder of documents to measure; None: none.
      mentions: the paths of files of tagged words to measure.

    Returns:
      The table as a string, with the definition of a word below it. It has a row for each
      vocabulary and text (a file of mentions is two texts: all words, and those inside of
      mentions). The columns are vocabulary, kind, size, text, words, tokens per word, words kept
      whole, and tokens unknown.

    Raises:
      UsageError: there is neither `documents` nor `mentions`, or a WordPiece vocabulary is one of
        cased text and `lower_case` is True, or the other way round.
      VocabularyError: a vocabulary cannot be used.
      DataError: `documents` is no whole folder of documents.
      UserError: a file of `mentions` cannot be used, or there are no words to measure.
    """
    # The documents take longest and come last: before that, unreadable files are named.
    tokenizers = {path: checked_tokenizer.load(path, lower_case) for path in vocabularies}
    of_mentions: dict[str, Counter[str]] = {}
    for path in mentions:
        every, inside = mention_words(path)
        of_mentions |= {f"{path}: all words": every, f"{path}: inside mentions": inside}
    texts = {f"documents {documents}": document_words(documents)} if documents else {}
    texts |= of_mentions
    if not texts:
        raise errors.UsageError(
            "there is nothing to measure: give --documents or --mentions, or both."
        )
    columns = ("vocabulary", "kind", "size", "text", "words")
    lines = [
        _row((*columns, "tokens per word", "words kept whole", "tokens unknown")),
        _row(("---", "---", "---:", "---", "---:", "---:", "---:", "---:")),
    ]
    for path, tokenizer in tokenizers.items():
        for name, words in texts.items():
            fertility = measure(tokenizer, words)
            lines.append(
                _row(
                    (
                        path,
                        tokenizer.kind,
                        f"{tokenizer.vocab_size:,}",
                        name,
                        f"{words.total():,}",
                        f"{fertility.tokens_per_word:.3f}",
                        f"{fertility.whole:.1%}",
                        f"{fertility.unknown:.2%}",
                    )
                )
            )
    return "\n".join([*lines, "", _DEFINITION, ""])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def define_flags() -> None:
    """Defines the absl flags of the command that measures fertility, and returns nothing.

    They are `--vocab`, `--lower_case`, `--documents`, `--mentions` and `--output`.
    """
    cli.define_list(
        "vocab", None, "Vocabularies: vocab.txt, *.model, or vocab.json.", required=True
    )
    flags.DEFINE_bool("lower_case", True, "Whether all vocab.txt are of lower-cased text.")
    flags.DEFINE_string("documents", None, "Folder of documents to measure.")
    cli.define_list("mentions", [], "Files of tagged words to measure: word, tab, tag.")
    flags.DEFINE_string("output", None, "File to write the table to, besides printing it.")


def main(argv: list[str]) -> None:
    """Runs the command `python -m data_prep.fertility`, which compares vocabularies.

    Prints the table, writes it to the file `--output` if given, and returns nothing.

    Args:
      argv: the program's name alone.

    Raises:
      UserError: there is another argument, there is nothing to measure, a vocabulary or text cannot
        be used, or the output cannot be written or is a folder.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    if flag.output:
        path_checks.require_output("output", flag.output, is_folder=False, may_be_remote=True)
    text = report(flag.vocab, flag.lower_case, flag.documents, flag.mentions)
    messages.say(text.rstrip("\n"))
    if flag.output:
        try:
            with storage.only_writer(flag.output):
                storage.write_text(flag.output, text)
        except OSError as error:
            reason = messages.reason(error)
            raise errors.UserError(f"cannot write {flag.output}: {reason}.") from error


if __name__ == "__main__":
    cli.run(main, define_flags)
