"""Keeps a fine-tuned model in memory, and predicts for documents, texts and questions.

`predict.predict` reads the inputs and writes the predictions.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from data_prep.sentences import splitters
from tfbio.base import batched
from tfbio.formats import relations
from tfbio.formats.annotated_documents import Document, Entity
from tfbio.formats.task_examples import Example, LabelledText, Question, TaggedSentence
from tfbio.models.initial_weights import restored_weights
from tfbio.runs import finetuning_checks, finetuning_data
from tfbio.runs.step_times import StepTimes
from tfbio.task_types import answers, new_text_settings, prefetching, types, words
from tfbio.task_types.features import Features
from tfbio.task_types.finetuning_config import RunConfig
from tfbio.task_types.inference import Inference
from tfbio.task_types.mesh_inference import MeshInference
from tfbio.text import vocabularies
from tfbio.training import distribution
from tfbio.training.mesh import MeshStrategy
from tfbio.training.precision import set_precision
from tfbio.training.progress_bar import Count
from tfbio.weights import checkpoint_settings, checkpoint_source, fine_tuned
from tfbio.weights.fine_tuned import config_for_new_text, restore

# Characters of the texts that are in memory at once: those of 200 abstracts of PubMed. More are not
# faster, and take more memory.
_AT_ONCE = 300_000


class _Batch(NamedTuple):
    """Documents that are computed together.

    Attributes:
      documents: the documents.
      numbers: for each sentence the number of its document among them.
      sentences: the sentences that have words.
      places: for each sentence the characters of its words, see `words_of`.
      features: the windows of the sentences; None if there are none.
    """

    documents: list[Document]
    numbers: list[int]
    sentences: list[TaggedSentence]
    places: list[list[tuple[int, int]]]
    features: Features | None


class Predictor:
    """A fine-tuned model in memory that predicts entities, labels, scores or answers.

    Args:
      trial: the path of the folder with its weights, see `fine_tuned.find_trial`.
      settings: the settings of the run, see `fine_tuned.read_settings`.
      strategy: where to compute.
      overrides: "name=value" each, for settings of the run such as run.eval_batch_size.

    Attributes:
      config: the settings, a `FinetuningConfig` with the overrides.
      known: the facts of its task, `trained_on` in `config.json`.
      entity_type: the type of entities whose tags name none.
      calibration: the number that `TaskType.calibrate` learnt, or None.
      task_type: the type of the task.
      tokenizer: the encoder's tokenizer.
      inference: the model on its devices, an `Inference`.
      precision: what it computes in, a `training.precision.Precision`.

    Raises:
      UserError: a setting, the vocabulary or the weights cannot be used.
    """

    def __init__(
        self,
        trial: str,
        settings: RunConfig,
        strategy: tf.distribute.Strategy,
        overrides: Sequence[str] = (),
    ):
        encoder = checkpoint_settings.read_encoder_config(trial)
        self.config = config_for_new_text(settings, overrides)
        new_text_settings.check(overrides)
        self.known = settings.trained_on
        # A model from elsewhere with tags without a type says no more.
        self.entity_type = self.known.entity_type or "Entity"
        self.calibration = fine_tuned.read_calibration(trial)
        vocabulary = vocabularies.find_vocabulary(checkpoint_source.run_of(trial))
        self.task_type = types.make(self.known.task_type, self.known.labels, self.config)
        self.tokenizer = finetuning_data.load_tokenizer(
            vocabulary, encoder, settings.lower_case, self.task_type, self.known
        )
        finetuning_checks.check(
            self.config, self.task_type, encoder, self.tokenizer, trial, strategy
        )
        self.precision = set_precision(self.config.run.precision, strategy, encoder.hidden_size)
        distribution.optimize_for(self.config.run.optimize_for, strategy)
        pad_id = self.tokenizer.pad_id
        with restored_weights():
            if isinstance(strategy, MeshStrategy):
                self.inference: Inference = MeshInference(
                    self.config, encoder, self.task_type, pad_id, strategy
                )
            else:
                self.inference = Inference(self.config, encoder, self.task_type, pad_id, strategy)
        restore(trial, self.inference.model)

    def annotate(
        self,
        documents: Iterable[Document],
        total: int | None = None,
        times: StepTimes | None = None,
    ) -> Iterator[tuple[Document, list[Entity]]]:
        """Predicts the entities of documents with the predictor's model, which tags words.

        Args:
          documents: any number of documents.
          total: how many, to show progress; None: it is not shown.
          times: gets the seconds of each step.

        Yields:
          A pair of each document and the list of its entities, with type, score and offsets in
          characters of its text, in the order of their starts.

        Raises:
          TypeError: the model's task type finds no entities.
        """
        with Count("prediction", total, "documents") as count:
            yield from self.annotate_batches(documents, count.at, times or StepTimes())

    def annotate_batches(
        self, documents: Iterable[Document], done: Callable[[int], None], times: StepTimes
    ) -> Iterator[tuple[Document, list[Entity]]]:
        """Does what `annotate` does, and tells the caller of its progress.

        Another thread reads, splits and tokenizes the next documents while TensorFlow computes,
        which lets other threads run. The batches depend on the documents alone.

        Args:
          documents: any number of documents.
          done: a function that is called with the number of documents that are done.
          times: gets the seconds of each step.

        Yields:
          See `annotate`.

        Raises:
          TypeError: the model's task type finds no entities.
        """
        before = 0
        done(before)
        read = times.each("reading", documents)
        batches = batched.by_size(read, lambda document: len(document.text), _AT_ONCE)
        prepare = functools.partial(self._prepare, splitter=_splitter(), times=times)
        for batch in prefetching.ahead(map(prepare, batches)):
            entities: list[list[Entity]] = [[] for _ in batch.documents]
            of_sentences = self._entities(batch, before, done, times)
            for number, own in zip(batch.numbers, of_sentences, strict=True):
                entities[number] += own
            before += len(batch.documents)
            done(before)
            yield from zip(batch.documents, entities, strict=True)

    def label(self, examples: Sequence[LabelledText], show: bool = False) -> Iterator[dict]:
        """Predicts the labels or scores of texts with the predictor's model, which labels texts.

        Args:
          examples: the texts; their labels are not looked at.
          show: True to show progress.

        Yields:
          For each text a dict of "id", a string; "label" (a class, a list or tuple of labels, or a
          score as a float); and, unless it is a score, "probabilities", a dict of each label -> a
          float.

        Raises:
          TypeError: the model's task type labels no texts.
          TaskFileError: a text lacks the markers that those have on which the model was trained.
        """
        if self.known.markers:
            relations.require_markers(examples)
        # A placeholder, as the texts of a task have labels.
        examples = [dataclasses.replace(x, label=self.task_type.placeholder) for x in examples]
        with Count("prediction", len(examples) if show else None, "texts") as count:
            for batch in batched.by_size(examples, lambda x: len(x.text + x.pair), _AT_ONCE):
                for example, predicted, output in zip(
                    batch, *self._outputs(batch, count), strict=True
                ):
                    yield {"id": example.id, **self.task_type.record(predicted, output)}

    def answer(self, questions: Sequence[Question], show: bool = False) -> list[answers.Answers]:
        """Predicts the answers to questions with the predictor's model, which answers questions.

        Args:
          questions: the questions, with their contexts.
          show: True to show progress.

        Returns:
          A list of `Answers`, one for each question: the texts of the best answers, the best first,
          their probabilities, and `null_odds`, in logits. There are no texts where the model gives
          no answer.
        """
        with Count("prediction", len(questions) if show else None, "questions") as count:
            predicted = self._outputs(questions, count)[0]
        return self.task_type.calibrated(predicted, self.calibration)

    def _prepare(
        self, documents: list[Document], splitter: splitters.Splitter, times: StepTimes
    ) -> _Batch:
        """Splits documents into sentences and words, and makes windows of tokens of them."""
        numbers, sentences, places = [], [], []
        with times.of("splitting"):
            for number, sentence, own in words_of(documents, splitter, self.known.words):
                numbers.append(number)
                sentences.append(sentence)
                places.append(own)
        features = None
        if sentences:
            with times.of("tokenizing"):
                length = self.config.sequence_length
                features = self.task_type.features(sentences, self.tokenizer, length)
        return _Batch(documents, numbers, sentences, places, features)

    def _entities(
        self, batch: _Batch, before: int, done: Callable[[int], None], times: StepTimes
    ) -> list[list[Entity]]:
        """Predicts the entities of each sentence of a batch.

        Args:
          batch: some documents.
          before: the number of documents before it.
          done: see `annotate_batches`.
          times: gets the seconds of the products, and of making entities of them.
        """
        if batch.features is None:
            return []
        windows, documents = len(batch.features.input_ids), len(batch.documents)
        with times.of("products"):
            outputs = self.inference.predict(
                batch.features,
                with_probabilities=True,
                done=lambda count: done(before + documents * count // windows),
            )
        with times.of("writing"):
            return self.task_type.entities(
                outputs, batch.features, batch.sentences, batch.places, self.entity_type
            )

    def _outputs(self, examples: Sequence[Example], count: Count) -> tuple[list, list]:
        """Returns the prediction for each example, and the outputs of the windows."""
        if not examples:
            return [], []
        length = self.config.sequence_length
        features = self.task_type.features(examples, self.tokenizer, length)
        done = _share_of(features, count, len(examples))
        outputs = self.inference.predict(features, done=done)
        return self.task_type.predictions(outputs, features, examples), outputs


def _share_of(features: Features, count: Count, examples: int) -> Callable[[int], None]:
    """Returns a function of the windows that are done, which shows the same share of examples."""
    before, total = count.done, len(features.input_ids)
    return lambda done: count.at(before + examples * done // total)


@functools.cache
def _splitter() -> splitters.Splitter:
    """Loads the sentence splitter once in a process: it takes a second."""
    return splitters.load(splitters.resolve("auto")[0])


def words_of(
    documents: Sequence[Document], splitter: splitters.Splitter, rule: str
) -> Iterator[tuple[int, TaggedSentence, list[tuple[int, int]]]]:
    """Splits new documents into the sentences and words that a `Predictor` tags; all tags are O.

    Args:
      documents: any number of documents.
      splitter: a function that splits texts into sentences, see
        `data_prep.sentences.splitters.load`.
      rule: the rule by which a text is cut into words, see `words.spans`.

    Yields:
      The number of the document, from 0; a `TaggedSentence`; and for each of its words the span
      [start, end) in the document's text, in characters. Sentences without words are passed over.
    """
    passages = [(number, p) for number, document in enumerate(documents) for p in document.passages]
    texts = (documents[number].text[p.start : p.end] for number, p in passages)
    for (number, passage), parts in zip(passages, splitter(texts), strict=True):
        text, start = documents[number].text, passage.start
        for part in parts:
            # Between the parts there is only white space.
            start = text.index(part, start)
            places = [(start + a, start + b) for a, b in words.spans(part, rule)]
            start += len(part)
            if places:
                own = tuple(text[a:b] for a, b in places)
                yield number, TaggedSentence("", own, ("O",) * len(own)), places
