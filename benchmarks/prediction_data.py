"""Prepares the texts and the models of `benchmarks.prediction`, in a folder.

| in the folder | |
|---|---|
| `abstracts.json` | `Texts`: abstracts of PubMed |
| `test.json` | `Texts`: the sentences of a test set, with their entities |
| `tagged/` | `train.tsv`, `dev.tsv` and `test.tsv`, unpacked |
| `model/` | MiniLM, fine-tuned by tfbio, if no other model was given |
| `transformers/`, `onnx/` | the fine-tuned model as `tfbio convert` writes it |
| `spacy/` | a spaCy model of scispaCy's architecture |
| `flags.json` | what the models were made with, see `kept_folder` |
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.child_process import ROOT, run_tfbio
from benchmarks.command import find_minilm
from tfbio.base.errors import UserError
from tfbio.formats import tagged_words
from tfbio.formats.task_examples import TaggedSentence

SPLITS = ("train", "dev", "test")
MODELS = ("model", "transformers", "onnx", "spacy")
Span = tuple[int, int]  # the first character, and the one after the last


class Texts(NamedTuple):
    """Texts to annotate.

    Attributes:
      texts: each as a whole.
      sentences: for each text the spans of its sentences.
      entities: for each text the spans of its entities; empty where they are not known.
    """

    texts: list[str]
    sentences: list[list[Span]]
    entities: list[list[Span]]

    def first(self, number: int) -> Texts:
        """Returns the first texts alone."""
        return self.part(slice(number))

    def spread(self, number: int) -> Texts:
        """Returns so many texts from all parts: the first are from another year than the last."""
        step = max(1, len(self.texts) // number)
        return self.part(slice(0, step * number, step))

    def part(self, chosen: slice) -> Texts:
        """Returns a part of the texts."""
        return Texts(self.texts[chosen], self.sentences[chosen], self.entities[chosen])


def read(folder: Path, name: str) -> Texts:
    """Reads "abstracts" or "test" of a prepared folder."""
    columns = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return Texts(columns[0], *([[*map(tuple, row)] for row in rows] for rows in columns[1:]))


def write(folder: Path, name: str, texts: Texts) -> None:
    """Writes what `read` reads."""
    (folder / f"{name}.json").write_text(json.dumps(texts), encoding="utf-8")


def of_tagged(sentences: Sequence[TaggedSentence]) -> Texts:
    """Makes texts of tagged sentences, whose words are joined by blanks, with their entities."""
    joined = [text_of(sentence) for sentence in sentences]
    texts = [text for text, _ in joined]
    return Texts(texts, [[(0, len(text))] for text in texts], [spans for _, spans in joined])


def text_of(sentence: TaggedSentence) -> tuple[str, list[Span]]:
    """Joins the words of a tagged sentence by blanks; returns the text and its entities' spans."""
    start, spans = 0, []
    for word, tag in zip(sentence.words, sentence.tags, strict=True):
        if tag[0] == "B":
            spans.append((start, start + len(word)))
        elif tag[0] == "I":
            spans[-1] = (spans[-1][0], start + len(word))
        start += len(word) + 1
    return " ".join(sentence.words), spans


def f1(found: Sequence[Sequence[Span]], expected: Sequence[Sequence[Span]]) -> float:
    """Computes the F1 of entities, in percent: a span counts if both of its ends are right."""
    pairs = [(set(a), set(b)) for a, b in zip(found, expected, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    return 200 * right / max(1, sum(len(a) + len(b) for a, b in pairs))


def unpack(data_dir: Path, folder: Path) -> None:
    """Puts `train.tsv`, `dev.tsv` and `test.tsv` into `tagged/`, from files with or without .gz.

    Raises:
      UserError: one is not there.
    """
    (folder / "tagged").mkdir(exist_ok=True)
    for split in SPLITS:
        plain, packed = data_dir / f"{split}.tsv", data_dir / f"{split}.tsv.gz"
        if not plain.exists() and not packed.exists():
            raise UserError(f"--data_dir={data_dir} has no {split}.tsv, nor {split}.tsv.gz.")
        content = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
        (folder / "tagged" / f"{split}.tsv").write_bytes(content)


def prepare(folder: Path, model: str, abstracts: int, test_sentences: int) -> str:
    """Makes what the folder still lacks, but for spaCy's model.

    Args:
      folder: which `unpack` filled.
      model: a fine-tuned model; "" to fine-tune one.
      abstracts: how many to read.
      test_sentences: how many of the test set's sentences to take; 0 for all.

    Returns:
      The path of the fine-tuned model.
    """
    from benchmarks import every_way

    if not model:
        model = str(folder / "model")
        if not (folder / "model" / "scores.json").exists():
            _finetune(folder)
    for name in ("transformers", "onnx"):
        if not (folder / name).exists():
            run_tfbio("convert", f"--from={model}", f"--to={folder / name}", f"--format={name}")
    articles = every_way.read_articles(every_way.load_tagger(model), abstracts)
    sentences: list[list[Span]] = [[] for _ in articles.texts]
    for each in articles.sentences:
        sentences[each.text_number].append((each.start, each.start + len(each.text)))
    write(folder, "abstracts", Texts(articles.texts, sentences, [[] for _ in sentences]))
    tagged = tagged_words.read_bio(str(folder / "tagged" / "test.tsv"), None)
    write(folder, "test", of_tagged(tagged[: test_sentences or None]))
    return model


def _finetune(folder: Path) -> None:
    """Fine-tunes MiniLM with the settings of the quick start."""
    unfinished = folder / "model"
    shutil.rmtree(unfinished, ignore_errors=True)
    hparams = ROOT / "hparams" / "finetuning" / "quickstart" / "ncbi_disease.json"
    own = ["--task=bc5cdr_chem", f"--data_dir={folder / 'tagged'}", f"--hparams={hparams}"]
    run_tfbio("finetune", *own, f"--init_checkpoint={find_minilm()}", f"--output_dir={unfinished}")
