"""Describes the annotation of one file: the work, and the note of what was done.

These pass between processes, so they need no TensorFlow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any, Self

import tfbio
from data_prep.sentences import splitters
from tfbio.base import file_paths, json_files
from tfbio.base.errors import UserError
from tfbio.base.shards import Shard

# The ending of an output file in each form; "brat" has a folder for all documents instead.
ENDINGS = {
    "jsonl": ".jsonl",
    "bioc": ".xml",
    "pubtator": ".pubtator",
    "html": ".html",
    "bigbio": ".jsonl",
}
# The forms that are written as lines, which can be compressed while they are written.
COMPRESSIBLE = ("jsonl", "pubtator")

# The endings of input files that an output's name does not keep; any may be followed by .gz.
_INPUT_ENDINGS = (".tar", ".tgz", ".nxml", ".xml", ".txt", ".pubtator", ".json", ".parquet")

# The size of an input file that cannot be looked at.
UNKNOWN = -1


class OutOfMemory(UserError):
    """The error of a file at which memory ran out; its message names the file and the remedy."""


@dataclasses.dataclass(frozen=True)
class AnnotationSettings:
    """The settings on which the bytes of annotated files depend, beside the files.

    Attributes:
      model: the path of a fine-tuned model, see `predict.predict`.
      form: the form of the outputs, a key of `ENDINGS`.
      compress: True to compress them with gzip; only for `COMPRESSIBLE` forms.
      overrides: "name=value" each, for settings of the run such as run.eval_batch_size.
    """

    model: str
    form: str = "jsonl"
    compress: bool = False
    overrides: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Job:
    """The annotation of one file.

    Attributes:
      path: the path of the input file.
      bytes: its size when the run began; `UNKNOWN` for a link to nothing, or if a disk failed.
      output: the path of the output file.
      form: the form of the output, a key of `ENDINGS`.
      compress: True to compress the output with gzip.
    """

    path: str
    bytes: int
    output: str
    form: str
    compress: bool

    @property
    def name(self) -> str:
        """The base name of the input file, which no other input of the annotation has."""
        return os.path.basename(self.path)


@dataclasses.dataclass(frozen=True)
class ModelFacts:
    """The facts that tell whether two processes annotate with the same model, and alike.

    Attributes:
      weights_sha256: see `checkpoint_source.sha256_of_weights`.
      precision: "float32" or "bfloat16".
      sentence_splitter: the package that splits sentences, and its version: "biosenter 1.0".
      vocab_sha256: see `vocabularies.sha256_of`.
      lower_case: True if the model reads lower-case text.
      labels: those of the model's outputs, in their order: "O, B-Chemical, I-Chemical".
      words: the rule by which sentences are cut into words, see `words.spans`.
      entity_type: the type of entities whose labels name none.
      sequence_length: the tokens of the longest sentence that is read at once, as the model says.
      bfloat16_products: "rounded", or "cut off", see `cpu_bfloat16.cuts_off_products`; "" in
        float32 and on a GPU.
      tfbio: the version of tfbio.
    """

    weights_sha256: str
    precision: str
    sentence_splitter: str
    vocab_sha256: str
    lower_case: bool
    labels: str
    words: str
    entity_type: str
    sequence_length: int
    bfloat16_products: str
    tfbio: str

    @classmethod
    def of(cls, trial: str, precision: str, on_gpu: bool = False) -> ModelFacts:
        """Returns the facts of a model on this machine; it need not be loaded.

        Args:
          trial: the path of the folder with its weights, see `fine_tuned.find_trial`.
          precision: "float32" or "bfloat16".
          on_gpu: True if a GPU computes.

        Raises:
          UserError: the folder has no model that can be used.
        """
        from tfbio.text import vocabularies
        from tfbio.training import cpu_bfloat16
        from tfbio.weights import checkpoint_source, fine_tuned

        settings = fine_tuned.read_settings(trial)
        vocabulary = vocabularies.find_vocabulary(checkpoint_source.run_of(trial))
        products = ""
        if precision == "bfloat16" and not on_gpu:
            products = "cut off" if cpu_bfloat16.cuts_off_products() else "rounded"
        return cls(
            weights_sha256=checkpoint_source.sha256_of_weights(trial),
            precision=precision,
            sentence_splitter=" ".join(splitters.resolve("auto")),
            vocab_sha256=vocabularies.sha256_of(vocabulary),
            lower_case=settings.lower_case,
            labels=", ".join(settings.trained_on.labels),
            words=settings.trained_on.words,
            entity_type=settings.trained_on.entity_type,
            sequence_length=settings.sequence_length,
            bfloat16_products=products,
            tfbio=tfbio.__version__,
        )


@dataclasses.dataclass(frozen=True)
class AnnotatedFile:
    """The note on the annotation of one file, which says what was read and written.

    Attributes:
      input: the base name of the input file.
      bytes: its size.
      output: the output file with its size, hash and number of documents; None if there is none.
      entities: the number of entities by type.
      left_out: a sentence for each article of the file that could not be read.
      problem: a sentence on why the file was left out; "" if it was not.
      seconds: the seconds of each step, by the names in `step_times.STEPS`. They tell of a run, and
        nothing of the output, so no manifest has them.
      path: the absolute path of the input file; "" in notes of earlier versions.
    """

    added = {"seconds": {}, "path": ""}

    input: str
    bytes: int
    output: Shard | None
    entities: dict[str, int]
    left_out: list[str]
    problem: str = ""
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    path: str = ""

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self | None:
        """Returns the note of an annotated file, None for a damaged one.

        Args:
          content: the fields of the note, name -> value, and perhaps more.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        own = {name: value for name, value in content.items() if name in names}
        with contextlib.suppress(json_files.SchemaError):
            return json_files.parse(cls, own, "the note", "its file is annotated again")
        return None


def bad(job: Job, problem: str) -> AnnotatedFile:
    """Returns the note on a file that is left out of an annotation.

    Args:
      job: the file.
      problem: a sentence that says why.
    """
    path = file_paths.absolute(job.path)
    return AnnotatedFile(job.name, max(0, job.bytes), None, {}, [], problem, path=path)


def output_name(path: str, form: str, compress: bool) -> str:
    """Returns the base name of the output for an input file of an annotation.

    `pubmed26n0001.xml.gz` becomes `pubmed26n0001.jsonl`.

    Args:
      path: the path of the input file.
      form: the form of the output, a key of `ENDINGS`.
      compress: True to append ".gz".
    """
    name = os.path.basename(path)
    stem = name[:-3] if name.lower().endswith(".gz") else name
    beginning, ending = os.path.splitext(stem)
    stem = beginning if ending.lower() in _INPUT_ENDINGS else stem
    return stem + ENDINGS[form] + ".gz" * compress
