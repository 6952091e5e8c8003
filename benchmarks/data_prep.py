"""Measures how fast the corpus is made, against other tools on the same input, in one run.

    python -m benchmarks.data_prep --vocab=pubmedbert_uncased.txt

Prints Markdown tables: articles per core-second from XML to sentence-split documents, against
`pubmed_parser` followed by scispaCy's `pysbd_sentencizer`, each used as its README shows; tokens
per core-second from documents to examples, against the original ELECTRA script's way, a tokenizer
and an example builder in plain Python; what a second core adds; the memory of the largest process.

A core-second is a second of processor time, of a command with all of its worker processes. A
command takes a while to start, whatever its input: so each of ours is run on a small and on a
large input, and its rate is of the difference. The peers are timed without their imports, too.
The machine may be shared: rounds alternate, medians and their ratios are what to read.

Without --vocab a vocabulary is learnt first. It takes about 15 minutes.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.annotation import articles_of
from benchmarks.child_process import ROOT, Cost, cost_of
from benchmarks.command import Parser, count, require, run


def stage(name: str, *flags: str) -> list[str]:
    return [sys.executable, "-m", f"data_prep.{name}", "--overwrite", *flags]


# --- The peers, each run in a process of its own -------------------------------------------------


def peer_documents(path: str) -> tuple[int, float]:
    """Runs pubmed_parser, then scispaCy's rules: articles with an abstract, processor seconds."""
    import pubmed_parser
    import scispacy.custom_sentence_segmenter  # noqa: F401  (registers the component)
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("pysbd_sentencizer")
    start = time.process_time()
    articles = 0
    for article in pubmed_parser.parse_medline_xml(path):
        if article["abstract"]:
            sentences = [sentence.text for sentence in nlp(article["abstract"]).sents]
            articles += bool(sentences)
    return articles, time.process_time() - start


def peer_examples(documents: str, vocab: str, output: str) -> tuple[int, float]:
    """Runs the original ELECTRA script's way: tokens in the documents' text, processor seconds.

    Its input is text, a sentence a line and an empty line after each document, read as it does.
    """
    import tensorflow as tf
    from official.nlp.tools.tokenization import FullTokenizer

    from tfbio.base.document_records import read_documents

    tokenizer = FullTokenizer(vocab)  # the BERT authors' own, which ELECTRA's repository copies
    text_file = f"{output}/documents.txt"
    with open(text_file, "w", encoding="utf-8") as stream:
        for document in read_documents(documents):
            stream.write("\n".join([document.title, *document.sentences]) + "\n\n")
    length, rng = 128, random.Random(0)
    cls, sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    writers = [tf.io.TFRecordWriter(f"{output}/{n}.tfrecord") for n in range(16)]
    start = time.process_time()

    def write(sentences: list[list[int]], target: int) -> None:
        """Shares sentences out to two segments, as lists of ids, and writes them."""
        wanted = math.inf if rng.random() < 0.1 else (target - 3) // 2
        segments: list[list[int]] = [list(sentences[0]), []]
        for sentence in sentences[1:]:
            fits = len(segments[0]) + len(sentence) < wanted
            may_pass = not segments[1] and len(segments[0]) < wanted
            segments[not (fits or (may_pass and rng.random() < 0.5))].extend(sentence)
        one = [cls, *segments[0][: length - 2], sep]
        room = max(0, length - len(one) - 1)
        two = [*segments[1][:room], sep] if segments[1] and room else []
        rest = [0] * (length - len(one) - len(two))
        example = tf.train.Example()
        for name, values in (
            ("input_ids", one + two + rest),
            ("input_mask", [1] * (len(one) + len(two)) + rest),
            ("segment_ids", [0] * len(one) + [1] * len(two) + rest),
        ):
            example.features.feature[name].int64_list.value.extend(values)
        rng.choice(writers).write(example.SerializeToString())

    tokens = 0
    waiting: list[list[int]] = []
    target = length
    with tf.io.gfile.GFile(text_file) as lines:
        for line in lines:
            line = line.strip()
            if line:
                waiting.append(tokenizer.convert_tokens_to_ids(tokenizer.tokenize(line)))
                tokens += len(waiting[-1])
            if waiting and (not line or sum(map(len, waiting)) >= target):
                write(waiting, target)
                waiting = []
                target = rng.randint(5, length) if rng.random() < 0.05 else length
    for writer in writers:
        writer.close()
    return tokens, time.process_time() - start


def run_peer(name: str, *arguments: str) -> tuple[int, float]:
    command = [sys.executable, "-m", "benchmarks.data_prep", "--peer", name, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    units, seconds = json.loads(done.stdout.splitlines()[-1])
    return units, seconds


# --- Inputs --------------------------------------------------------------------------------------


def divide_xml(paths: list[str], folder: Path, citations: int) -> list[Path]:
    """Writes PubMed files anew as files of so many citations each, as there are 1,200 of PubMed."""
    written: list[Path] = []
    for path in paths:
        articles = articles_of(path)
        while len(part := list(itertools.islice(articles, citations))) == citations:
            target = folder / f"pubmed30n{len(written):04d}.xml.gz"
            text = f"<PubmedArticleSet>{''.join(part)}</PubmedArticleSet>"
            target.write_bytes(gzip.compress(text.encode(), 6))
            written.append(target)
    return written


# --- The comparison ------------------------------------------------------------------------------


def compare(
    title: str,
    unit: str,
    ours: Callable[[str, int], tuple[float, Cost]],
    peer: Callable[[], float],
    rounds: int,
) -> None:
    """Prints a table of rates.

    Args:
      title: what is compared.
      unit: what is counted.
      ours: (size of the input, workers) -> (units in it, what the command took).
      peer: -> units per core-second.
      rounds: how often everything is done.
    """
    one: list[float] = []
    two: list[float] = []
    theirs, speedups, startups, memory = [], [], [], []
    for _ in range(rounds):
        theirs.append(peer())
        walls = []
        for workers, rates in ((1, one), (2, two)):
            (few, small), (many, large) = ours("small", workers), ours("large", workers)
            rates.append((many - few) / (large.cpu - small.cpu))
            walls.append(large.wall - small.wall)
            startups.append(small.cpu - few / rates[-1])
            memory.append(large.megabytes)
        speedups.append(walls[0] / walls[1])
    median = statistics.median
    print(f"\n## {title}\n")
    print(f"| | {unit} per core-second, median of {rounds} | ratio |")
    print("|---|--:|--:|")
    print(f"| peer | {median(theirs):,.0f} | 1 |")
    print(f"| tfbio, one worker | {median(one):,.0f} | {median(one) / median(theirs):.2f} |")
    print(f"| tfbio, two workers | {median(two):,.0f} | {median(two) / median(theirs):.2f} |")
    print(
        f"\nTwo workers are {median(speedups):.2f} times as fast as one by the clock. A run begins "
        f"with {median(startups):.0f} core-seconds that do not depend on its input. Its largest "
        f"process had {max(memory):,.0f} MiB.",
        flush=True,
    )


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--vocab", help="vocab.txt to encode with; default: learnt here")
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--peer", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        name, *rest = arguments.peer
        peers: dict[str, Callable[..., tuple[int, float]]]
        peers = {"documents": peer_documents, "examples": peer_examples}
        print(json.dumps(peers[name](*rest)))
        return

    require("pubmed_parser", "spacy", "scispacy", "official=tf-models-official")
    from data_prep.readers import input_files
    from tfbio.base.manifests import read_manifest

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shipped = input_files.shipped_files(".xml.gz")
        (folder / "xml").mkdir()
        files = divide_xml(shipped, folder / "xml", citations=500)
        # One file in ten, from both, for what must be small.
        sample = files[::10]

        def documents(size: str, workers: int) -> tuple[int, Cost]:
            paths = ",".join(map(str, files if size == "large" else sample))
            output = folder / f"documents_{size}"
            cost = cost_of(
                stage("documents", f"--input={paths}", f"--output={output}", f"--workers={workers}")
            )
            return read_manifest(output, "documents").counts["documents"], cost

        def documents_peer() -> float:
            results = [run_peer("documents", str(path)) for path in sample]
            return sum(n for n, _ in results) / sum(seconds for _, seconds in results)

        compare("XML to documents", "articles", documents, documents_peer, arguments.rounds)

        vocab = arguments.vocab or str(folder / "vocab.txt")
        made, few = folder / "documents_whole", folder / "documents_small"
        cost_of(stage("documents", f"--input={','.join(shipped)}", f"--output={made}"))
        if not arguments.vocab:
            cost_of(stage("vocabulary", f"--documents={made}", f"--output={vocab}"))

        def examples(size: str, workers: int, *flags: str) -> tuple[int, Cost]:
            # Text of its own, whose words are new, and not more copies of the same.
            source = made if size == "large" else few
            output = folder / "examples"
            cost = cost_of(
                stage(
                    "examples",
                    f"--documents={source}",
                    f"--vocab={vocab}",
                    f"--output={output}",
                    f"--workers={workers}",
                    *flags,
                )
            )
            counts = read_manifest(output, "examples").counts
            return counts["tokens"] + counts["dropped_tokens"], cost

        def examples_peer() -> float:
            (folder / "peer").mkdir(exist_ok=True)
            tokens, seconds = run_peer("examples", str(few), vocab, str(folder / "peer"))
            return tokens / seconds

        compare(
            "Documents to examples of 128 tokens",
            "tokens",
            examples,
            examples_peer,
            arguments.rounds,
        )


if __name__ == "__main__":
    run(main)
