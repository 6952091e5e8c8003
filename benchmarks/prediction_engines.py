"""The engines that `benchmarks.prediction` compares, with the options that are tried of each.

An engine finds the spans of the entities in texts. tfbio and spaCy get whole texts; Hugging Face's
pipeline and ONNX Runtime get their sentences, as tfbio has split them before the clock starts.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import best_options
from benchmarks.prediction_data import Span, Texts
from benchmarks.shared_engine import Annotate, SharedEngine

_CORES = len(os.sched_getaffinity(0))
# Texts that each option is tried on, how often, and texts before that do not count.
_TRIED, _TURNS, _WARM_UP = 100, 3, 8


@dataclasses.dataclass(frozen=True)
class Options:
    """Says in which form an engine computes; each heeds some of them, see `Engine`."""

    batch_size: int = 8
    threads: int = _CORES
    processes: int = 1
    by_length: bool = False
    attention: str = "sdpa"
    autocast: bool = False
    compiled: bool = False


class Engine(NamedTuple):
    """An engine.

    Attributes:
      make: makes it in one process, of the folder, the precision and options.
      changes: the options to try, in their order, for a precision.
      heeds: the options that make a difference to it. `threads` are also those of each process, if
        there are several, of any engine.
      start: the options to start from.
    """

    make: Callable[[Path, str, Options], Annotate]
    changes: Callable[[str], list[dict[str, Any]]]
    heeds: tuple[str, ...]
    start: Options = Options()


def words(engine: str, options: dict[str, Any]) -> str:
    """Says in words those options that an engine heeds.

    Args:
      engine: its name in `ENGINES`.
      options: the values of the options' fields.

    Returns:
      The size of batches and the threads, and the others where they differ from the standard ones.
    """
    own = Options(**options)
    said = {
        "batch_size": f"batches of {own.batch_size}",
        "threads": f"threads={own.threads}",
        "processes": f"processes={own.processes}" * (own.processes > 1),
        "by_length": "by length" * own.by_length,
        "attention": "eager" * (own.attention == "eager"),
        "autocast": "autocast" * own.autocast,
        "compiled": "torch.compile" * own.compiled,
    }
    return ", ".join(filter(None, map(said.get, ENGINES[engine].heeds))) or "standard"


# Each process with one thread.
_IN_PROCESSES = [{"processes": _CORES, "threads": 1}] if _CORES > 1 else []


# --- tfbio ---------------------------------------------------------------------------------------


def _tfbio(folder: Path, precision: str, options: Options) -> Annotate:
    """Makes tfbio's engine, `tfbio.load`."""
    import tfbio

    model = tfbio.load(
        (folder / "model.path").read_text(encoding="utf-8"), {"run.precision": precision}
    )

    def annotate(texts: Texts) -> list[list[Span]]:
        return [[(x.start, x.end) for x in found] for found in model(texts.texts)]

    return annotate


# --- Hugging Face's pipeline ---------------------------------------------------------------------


def _pipeline(folder: Path, precision: str, options: Options) -> Annotate:
    """Makes Hugging Face's pipeline. bfloat16 is that of the weights, or of autocast."""
    import torch
    import transformers

    best_options.keep_memory()
    halved = precision == "bfloat16" and not options.autocast
    model = transformers.AutoModelForTokenClassification.from_pretrained(
        folder / "transformers",
        attn_implementation=options.attention,
        dtype=torch.bfloat16 if halved else torch.float32,
    ).eval()
    if options.compiled:
        best_options.allow_recompilation()
        model.forward = torch.compile(model.forward, dynamic=True)
    pipeline = transformers.pipeline(
        "token-classification",
        model=model,
        tokenizer=transformers.AutoTokenizer.from_pretrained(folder / "transformers"),
        aggregation_strategy="first",
        device="cpu",
    )

    def spans(sentences: Sequence[str]) -> list[list[Span]]:
        torch.set_num_threads(options.threads)  # of the process, which may have several pipelines
        with torch.autocast("cpu", torch.bfloat16, enabled=options.autocast):
            found = pipeline([*sentences], batch_size=options.batch_size)
        return [[(x["start"], x["end"]) for x in each] for each in found]

    return _of_sentences(spans, options.by_length)


def _pipeline_changes(precision: str) -> list[dict[str, Any]]:
    return [
        {"by_length": True},
        *({"batch_size": size} for size in (1, 4, 16, 32, 64)),
        {"attention": "eager"},
        *([{"autocast": True}] if precision == "bfloat16" else []),
        *([{"threads": _CORES // 2}] if _CORES > 1 else []),
        *_IN_PROCESSES,
        # Last, since it may end the process. What is faster without need not be so with it.
        {"compiled": True},
        {"compiled": True, "attention": "eager"},
        *({"compiled": True, "autocast": x} for x in (True, False) if precision == "bfloat16"),
        *({"compiled": True, "batch_size": size} for size in (8, 16, 32)),
        {"compiled": True, "processes": 1, "threads": _CORES},
    ]


# --- ONNX Runtime --------------------------------------------------------------------------------


def _onnx(folder: Path, precision: str, options: Options) -> Annotate:
    """Makes ONNX Runtime's engine: the client of docs/checkpoints.md, for batches."""
    import onnxruntime
    import tokenizers

    from tfbio.text.word_cutters import CUTTERS

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx", settings)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "onnx" / "tokenizer.json"))
    tokenizer.enable_padding()
    config = json.loads((folder / "onnx" / "config.json").read_text(encoding="utf-8"))
    labels = {int(number): label for number, label in config["id2label"].items()}
    names = [each.name for each in session.get_inputs()]
    words_of = CUTTERS[config["words"]].pre_tokenize_str

    def spans(sentences: Sequence[str]) -> list[list[Span]]:
        found = []
        for first in range(0, len(sentences), options.batch_size):
            cut = [words_of(x) for x in sentences[first : first + options.batch_size]]
            rows = tokenizer.encode_batch(
                [[x for x, _ in own] for own in cut], is_pretokenized=True
            )
            columns = {
                "input_ids": [row.ids for row in rows],
                "attention_mask": [row.attention_mask for row in rows],
                "token_type_ids": [row.type_ids for row in rows],
            }
            (logits,) = session.run(None, {name: np.array(columns[name]) for name in names})
            for row, own, best in zip(rows, cut, logits.argmax(axis=-1), strict=True):
                tags, seen = [], -1
                for number, label in zip(row.word_ids, best, strict=True):
                    if number is not None and number > seen:  # a word's first token
                        seen = number
                        tags.append(labels[label])
                found.append(spans_of(tags, [span for _, span in own]))
        return found

    return _of_sentences(spans, options.by_length)


def _onnx_changes(precision: str) -> list[dict[str, Any]]:
    sizes = [{"batch_size": size} for size in (1, 16, 32, 64)]
    fewer = [{"threads": _CORES // 2}] if _CORES > 1 else []
    return [{"by_length": True}, *sizes, *fewer, *_IN_PROCESSES]


def spans_of(tags: Sequence[str], words: Sequence[Span]) -> list[Span]:
    """Joins the spans of words to those of entities, by their BIO tags.

    An I that continues no entity of its type begins one.
    """
    spans: list[Span] = []
    before = "O"
    for tag, (start, end) in zip(tags, words, strict=True):
        if tag[0] == "I" and before != "O" and before[1:] == tag[1:]:
            spans[-1] = (spans[-1][0], end)
        elif tag != "O":
            spans.append((start, end))
        before = tag
    return spans


def _of_sentences(spans: Callable[[Sequence[str]], list[list[Span]]], by_length: bool) -> Annotate:
    """Makes an engine of a function that finds the spans in sentences."""

    def annotate(texts: Texts) -> list[list[Span]]:
        places = [
            (number, start, text[start:end])
            for number, text in enumerate(texts.texts)
            for start, end in texts.sentences[number]
        ]
        if by_length:
            places.sort(key=lambda place: len(place[2]))
        found: list[list[Span]] = [[] for _ in texts.texts]
        own = spans([sentence for _, _, sentence in places])
        for (number, start, _), each in zip(places, own, strict=True):
            found[number] += [(start + first, start + end) for first, end in each]
        return [sorted(each) for each in found]

    return annotate


# --- spaCy ---------------------------------------------------------------------------------------


def _spacy(folder: Path, precision: str, options: Options) -> Annotate:
    """Makes spaCy's engine, of the model that `spacy_ner` trained."""
    import spacy

    nlp = spacy.load(folder / "spacy")

    def annotate(texts: Texts) -> list[list[Span]]:
        read = nlp.pipe(texts.texts, batch_size=options.batch_size)
        return [[(x.start_char, x.end_char) for x in doc.ents] for doc in read]

    return annotate


def _spacy_changes(precision: str) -> list[dict[str, Any]]:
    return [*({"batch_size": size} for size in (32, 128)), *_IN_PROCESSES]


_OF_BATCHES = ("batch_size", "threads", "processes", "by_length")
ENGINES = {
    "tfbio": Engine(_tfbio, lambda precision: _IN_PROCESSES, ("processes",)),
    "Hugging Face": Engine(
        _pipeline, _pipeline_changes, (*_OF_BATCHES, "attention", "autocast", "compiled")
    ),
    "ONNX Runtime": Engine(_onnx, _onnx_changes, _OF_BATCHES),
    "spaCy": Engine(_spacy, _spacy_changes, ("batch_size", "processes"), Options(threads=1)),
}


def make(name: str, folder: Path, precision: str, options: Options) -> Annotate:
    """Makes an engine, in as many processes as the options say.

    Args:
      name: its key in `ENGINES`.
      folder: with the models.
      precision: "float32" or "bfloat16".
      options: the form in which it computes.
    """
    own = functools.partial(ENGINES[name].make, folder, precision, options)
    if options.processes == 1:
        return own()
    return SharedEngine(own, options.processes, options.threads)


def search(
    engine: str, folder: Path, precision: str, texts: Texts, compiles: bool
) -> Iterator[best_options.Tried]:
    """Tries an engine's options, and yields the texts per second of each.

    Args:
      engine: its name in `ENGINES`.
      folder: with the models.
      precision: "float32" or "bfloat16".
      texts: of which some are annotated, once before the clock starts.
      compiles: whether torch.compile is tried.
    """
    own, some = ENGINES[engine], texts.spread(_TRIED)

    def measured(options: Options) -> Callable[[int], float]:
        annotate = make(engine, folder, precision, options)
        annotate(some if options.compiled else texts.first(_WARM_UP))

        def measure(turn: int) -> float:
            start = time.perf_counter()
            annotate(some)
            return len(some.texts) / (time.perf_counter() - start)

        return measure

    changes = [each for each in own.changes(precision) if compiles or "compiled" not in each]
    yield from best_options.search(own.start, changes, measured, _TURNS)
