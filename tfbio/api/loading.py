"""Loads models and reads documents in Python; `import tfbio` offers `load` and `read`.

  import tfbio

  model = tfbio.load("out/bc5cdr_chem")
  model("Imatinib inhibits BCR-ABL.")

The commands use the same objects: `runs.predictor.Predictor` predicts, and `runs.document_formats`
reads documents. docs/python.md is the manual. TensorFlow is imported when a model is loaded.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbio.api import changed_settings, model_paths, results, streams
from tfbio.base import batched, run_folders
from tfbio.base.errors import UserError
from tfbio.formats import annotation_formats
from tfbio.formats.annotated_documents import Document

if TYPE_CHECKING:
    import tensorflow as tf

    from tfbio.models.encoder import Encoder
    from tfbio.runs.predictor import Predictor

# Texts that are read, and then computed together.
_BATCH_SIZE = 256
# For each pooling, the vectors of a text's tokens, [tokens, size], to the result.
_POOLINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "cls": lambda vectors: vectors[0].copy(),
    "mean": lambda vectors: vectors.mean(axis=0),
    "tokens": lambda vectors: vectors.copy(),  # the batch is not kept
}


def load(path: str | os.PathLike, settings: Mapping[str, Any] | None = None) -> Model:
    """Loads a model to use it in Python.

    Args:
      path: the `--output_dir` of a fine-tuning run, whose best trial is taken, or one of its
        trials; the `--model_dir` of a pretraining run; a folder of Hugging Face's with a fine-tuned
        model or an encoder; or the prefix or folder of a TensorFlow 1 checkpoint.
      settings: changed settings of a run, name -> value, such as `{"run.precision": "float32"}` or
        `{"run.eval_batch_size": 8}`. An encoder without a head takes those of `run` alone.

    Returns:
      A `Model`.

    Raises:
      UserError: `path` has no such model, it cannot be read, or there is no such setting for it.

    Examples:
      >>> model = tfbio.load("out/bc5cdr_chem")
      >>> for entity in model("Imatinib inhibits BCR-ABL."):
      ...     print(entity.text, entity.label, entity.start, entity.end)
      Imatinib Chemical 0 8
    """
    with changed_settings.named_as_in_python():
        return Model(os.fspath(path), dict(settings or {}))


def read(paths: str | os.PathLike | Iterable[str | os.PathLike]) -> Iterator[Document]:
    """Reads the documents of files in Python, one by one, for a model that finds entities.

    Warns of each article of a set that cannot be read, and leaves it out.

    Args:
      paths: a file, a folder or a glob, or several: PubMed's and PMC's XML, BioC, PubTator,
        BigBio's schema kb or plain text, each perhaps with .gz.

    Returns:
      An iterator of a `Document` for each, with its id, text and passages.

    Raises:
      UserError: there is no such file; while iterating, a file is not in its format.

    Examples:
      >>> [(document.id, document.text) for document in tfbio.read("pubmed.xml")]
      [('1', 'Imatinib inhibits BCR-ABL.')]
    """
    from tfbio.runs import document_formats

    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    try:
        files = document_formats.find_files([os.fspath(path) for path in several])
    except UserError as error:
        raise UserError(f"tfbio.read: {str(error).removeprefix('--input: ')}") from error
    return _documents_of(files)


def _documents_of(files: Sequence[str]) -> Iterator[Document]:
    """Yields the documents of files, and warns of those that are left out."""
    from tfbio.runs import document_formats

    left_out: list[str] = []
    for path in files:
        yield from document_formats.read(path, left_out)
        for sentence in left_out:
            warnings.warn(f"left out: {sentence}", stacklevel=2)
        left_out.clear()


class Model:
    """A model in memory, which `load` makes.

    Call it with one input, and it returns one result. Call it with a list or another object that
    has a length, and it returns a list of results. Call it with a generator, and it returns a
    generator, which reads and computes `batch_size` inputs at a time.

    | model of | input | result |
    |---|---|---|
    | words | a text, or a `Document` of `read` | a list of `Entity` |
    | texts | a text, or a tuple of two where it labels pairs | a `Label`, or a score (float) |
    | questions | a tuple (question, context) | an `Answer` |

    Models can be pickled, by their path and settings, and called from several threads, which take
    turns.

    Args:
      path: see `load`.
      settings: see `load`.

    Attributes:
      path: the folder or checkpoint of the weights, absolute; of a fine-tuning run the trial.
      settings: the changed settings.
      predictor: the `Predictor`, as the command has it; None for an encoder without a head.
      encoder: the `Encoder`.
      tokenizer: the `tokenization.Tokenizer`.
      max_length: the most tokens of a text that `embed` reads, with [CLS] and [SEP].
      precision: what it computes in, "float32" or "bfloat16".

    Raises:
      UserError: see `load`.
    """

    def __init__(self, path: str, settings: Mapping[str, Any]):
        given, path = path, run_folders.chosen(run_folders.followed(path))
        model_paths.require_model(path, given)
        # TensorFlow reads it when it is imported. It calls a missing GPU an error.
        if "tensorflow" not in sys.modules:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        from tfbio.training import onednn, precision
        from tfbio.weights import fine_tuned

        self.settings = settings
        self.predictor: Predictor | None = None
        self._strategy = _one_device()
        with streams.LOCK, precision.own_policy():
            if fine_tuned.is_one(path):
                self.path = fine_tuned.find_trial(path, say=lambda line: None)
                self._load_fine_tuned()
            else:
                self.path = path
                self._load_encoder()
            self._vectors = _graph_of(self.encoder, onednn.form_of_prediction(self._strategy))
        self.max_length = self.encoder.config.max_sequence_length

    @property
    def predicts(self) -> str:
        """The results of a call: "entities", "labels" (also scores) or "answers".

        "" for an encoder without a head.
        """
        return results.PREDICTIONS[self.predictor.known.new_text] if self.predictor else ""

    def __reduce__(self) -> tuple[Callable, tuple]:
        return _load_again, (self.path, self.settings, self.precision)

    def __repr__(self) -> str:
        return f"tfbio.load({self.path!r})"

    def _load_fine_tuned(self) -> None:
        from tfbio.runs.predictor import Predictor
        from tfbio.weights import fine_tuned

        settings = fine_tuned.read_settings(self.path)
        overrides = changed_settings.overrides(self.settings)
        self.predictor = Predictor(self.path, settings, self._strategy, overrides)
        self.encoder = self.predictor.inference.model.encoder
        self.tokenizer = self.predictor.tokenizer
        self._run = self.predictor.config.run
        self.precision = self.predictor.precision.name

    def _load_encoder(self) -> None:
        from tfbio.base import config
        from tfbio.models.encoder import Encoder
        from tfbio.models.initial_weights import restored_weights
        from tfbio.task_types.finetuning_config import FinetuningConfig
        from tfbio.text import tokenization, vocabularies
        from tfbio.training import distribution, precision
        from tfbio.weights import checkpoint_settings, checkpoint_source, checkpoint_weights

        overrides = changed_settings.overrides(self.settings)
        self._run = config.load(FinetuningConfig, "", overrides).run
        changed_settings.require_run_settings(self.settings, self.path)
        shape = checkpoint_settings.read_encoder_config(self.path)
        lower_case = checkpoint_settings.read_settings(self.path)["lower_case"]
        vocabulary = vocabularies.find_vocabulary(checkpoint_source.run_of(self.path))
        self.tokenizer = tokenization.load_tokenizer(
            vocabulary, lower_case, segments=shape.type_vocab_size
        )
        if self.tokenizer.vocab_size > shape.vocab_size:
            raise UserError(
                f"{vocabulary} has {self.tokenizer.vocab_size} tokens, but the encoder was made for"
                f" {shape.vocab_size}: it is not the one it was trained with."
            )
        self.precision = precision.set_precision(
            self._run.precision, self._strategy, shape.hidden_size
        ).name
        distribution.optimize_for(self._run.optimize_for, self._strategy)
        with self._strategy.scope(), restored_weights():
            self.encoder = Encoder(shape)
        checkpoint_weights.restore_encoder(self.path, self.encoder)

    def __call__(
        self, inputs: Any, *, batch_size: int = _BATCH_SIZE, show_progress: bool = False
    ) -> Any:
        """Predicts with this model: entities, labels, scores or answers.

        Args:
          inputs: one input as the table above has it, or several.
          batch_size: how many inputs are read, and then computed together. How many windows of them
            the device takes at a time is the setting run.eval_batch_size.
          show_progress: True to show a bar on stderr.

        Returns:
          The result for one input; a list for several with a length; otherwise a generator.

        Raises:
          TypeError: an input is no text, pair or document, as the model needs it.
          UserError: the model is an encoder without a head.

        Examples:
          >>> texts = ["Imatinib inhibits BCR-ABL.", "No drug was given."]
          >>> [[entity.text for entity in entities] for entities in model(texts)]
          [['Imatinib'], []]
        """
        if self.predictor is None:
            raise UserError(
                f"{self.path} holds an encoder without a head for a task: .embed(texts) gives its "
                "vectors; fine-tune it with run_finetuning.py, and load the --output_dir."
            )
        compute = functools.partial(results.PREDICT[self.predictor.known.new_text], self.predictor)
        return streams.each(inputs, compute, batch_size, show_progress)

    def embed(
        self,
        texts: Any,
        pooling: str = "cls",
        *,
        batch_size: int = _BATCH_SIZE,
        show_progress: bool = False,
    ) -> Any:
        """Computes vectors of texts with this model's encoder, in its last layer.

        A text with more tokens than `max_length` is cut.

        Args:
          texts: a text or a `Document`, or several.
          pooling: "cls" for the vector of [CLS], "mean" for the mean over all tokens, or "tokens"
            for the vector of each; [CLS] and [SEP] are tokens, too.
          batch_size: how many texts are read, and then computed together.
          show_progress: True to show a bar on stderr.

        Returns:
          For one text float32 [size], with "tokens" [tokens, size]. For several with a length
          [texts, size], with "tokens" a list. Otherwise a generator.

        Raises:
          TypeError: an input is no text or document.
          UserError: there is no such pooling.

        Examples:
          >>> model.embed(["Imatinib inhibits BCR-ABL.", "No drug was given."], "mean").shape
          (2, 4)
        """
        if pooling not in _POOLINGS:
            raise UserError(f'pooling="{pooling}": it must be one of {", ".join(_POOLINGS)}.')

        def compute(items: Sequence) -> list[np.ndarray]:
            return self._embed([streams.text_of(x) for x in items], _POOLINGS[pooling])

        found = streams.each(texts, compute, batch_size, show_progress)
        if not isinstance(found, list) or pooling == "tokens":
            return found
        return np.stack(found) if found else np.zeros([0, self.encoder.config.hidden_size], "f4")

    def _embed(self, texts: Sequence[str], pool: Callable) -> list[np.ndarray]:
        """Returns the pooled vectors of texts, those of about one length in a batch."""
        rows = [
            self.tokenizer.join(encoding.ids[: self.max_length - 2])[0]
            for encoding in self.tokenizer.encode(texts)
        ]
        order = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
        found: list[np.ndarray] = [np.empty(0)] * len(rows)
        for chosen in batched.by_number(order, self._run.eval_batch_size):
            ids = np.full([len(chosen), len(rows[chosen[0]])], self.tokenizer.pad_id, np.int32)
            mask = np.zeros_like(ids)
            for row, number in enumerate(chosen):
                ids[row, : len(rows[number])] = rows[number]
                mask[row, : len(rows[number])] = 1
            for number, vectors in zip(chosen, self._vectors(ids, mask).numpy(), strict=True):
                found[number] = pool(vectors[: len(rows[number])])
        return found

    def write(
        self,
        documents: Iterable,
        path: str | os.PathLike,
        format: str = "jsonl",
        *,
        batch_size: int = _BATCH_SIZE,
        show_progress: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Writes documents with the entities that this model finds, and returns nothing.

        The file is that of `run_finetuning.py --mode=predict`.

        Args:
          documents: several texts or `Document`s, as `read` returns them.
          path: the file, which appears when it is complete, in place of an earlier one; for "brat"
            a folder.
          format: "jsonl", "bioc" (JSON if the path ends in .json, else XML), "pubtator", "brat",
            "html" or "bigbio" (.parquet is Parquet, .json a JSON list, any other JSON lines).
          batch_size: see `__call__`.
          show_progress: see `__call__`.
          overwrite: True to let "brat" remove all pairs of .txt and .ann that are in the folder,
            also those that were annotated by hand.

        Raises:
          UserError: the model finds no entities, there is no such format, it cannot hold a text,
            the path ends in .gz, or a folder for "brat" has a .txt or .ann.
          OSError: the path cannot be written.

        Examples:
          >>> model.write(tfbio.read("pubmed.xml"), "entities.html", format="html")
        """
        streams.check_output(os.fspath(path), format, overwrite)
        if self.predictor is None or self.predicts != "entities":
            raise UserError(f"{self.path} holds no model that finds entities in documents.")
        if isinstance(documents, (str, Document)):
            documents = [documents]
        annotate = functools.partial(results.annotate, self.predictor)
        numbered = (streams.document_of(x, str(number)) for number, x in enumerate(documents))
        annotated = streams.each(numbered, annotate, batch_size, show_progress)
        annotation_formats.write(os.fspath(path), format, annotated)


def _load_again(path: str, settings: Mapping[str, Any], precision: str) -> Model:
    """Loads a pickled model in the precision that it had, which "auto" may not choose anew."""
    model = Model(path, {**settings, "run.precision": precision})
    model.settings = settings
    return model


def _one_device() -> tf.distribute.Strategy:
    """Returns the strategy for the first GPU, or else the CPU."""
    import tensorflow as tf

    from tfbio.training import distribution

    try:
        return distribution.make_strategy(strategy="one_device")
    except RuntimeError:  # TensorFlow has started, with the threads that its user chose
        has_gpu = bool(tf.config.list_logical_devices("GPU"))
        return tf.distribute.OneDeviceStrategy("/gpu:0" if has_gpu else "/cpu:0")


def _graph_of(encoder: Encoder, form: Callable) -> Callable[[np.ndarray, np.ndarray], tf.Tensor]:
    """Returns a function of ids and mask, int32 [texts, length], that computes the last layer."""
    import tensorflow as tf

    from tfbio.models import target

    specs = None if target.is_tpu() else 2 * [tf.TensorSpec([None, None], tf.int32)]  # any shape

    @tf.function(input_signature=specs, autograph=False)
    def vectors(ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        with form():
            return tf.cast(encoder(ids, mask, tf.zeros_like(ids)), tf.float32)

    return vectors
