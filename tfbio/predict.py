"""A fine-tuned model on new text: entities with their characters, or labels with probabilities.

`predict` is what `run_finetuning.py --mode=predict` calls.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import tensorflow as tf

from data_prep import sentences
from tfbio import (
    annotation_formats,
    answers,
    checkpoints,
    distribution,
    fine_tuned,
    finetuning,
    kinds,
    predictions,
    records,
    storage,
    task_files,
    tokenization,
    words,
)
from tfbio.annotation_formats import Document
from tfbio.cli import UserError
from tfbio.fine_tuned import find_trial, finetuning_config, restore
from tfbio.finetuner import Finetuner
from tfbio.predictions import Entity
from tfbio.task_files import Example, LabelledText, Question, TaggedSentence

# Documents that are in memory at once; of PubMed's they have some 10,000 sentences.
_AT_ONCE = 1000


def predict(
    model: str,
    inputs: Sequence[str],
    output: str,
    *,
    strategy: tf.distribute.Strategy,
    form: str = "jsonl",
    overrides: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Writes what a model finds in texts.

    A model that tags words takes the documents of `annotation_formats.read`, and writes their
    entities in one of `annotation_formats.FORMATS`. One that labels texts takes tables
    (`task_files.read_unlabelled_table`), and writes JSON lines: id, label, and the probability of
    each label; a score has none. One that answers questions takes files in SQuAD's form, and writes
    SQuAD's predictions: a JSON object with the answer to each id, "" for none. If `output` ends in
    .jsonl, these are JSON lines: id, answer; its probability among the best `answers.N_BEST`, null
    where there is none; and null_odds, by how much no answer scores higher.

    Args:
      model: the folder of a trial; the `output_dir` of a run: then its best trial on the
        development set; or a fine-tuned model of Hugging Face's, see `fine_tuned`.
      inputs: files, folders and globs.
      output: a file; for "brat" a folder.
      strategy: where to compute.
      form: of the output.
      overrides: "name=value" each, for settings of the run such as run.eval_batch_size.
      overwrite: replace what is at `output`.

    Raises:
      UserError: there is no such model, it does not go with the inputs or the form, an input cannot
        be read, or there is something at `output`.
    """
    if os.path.lexists(output) and not overwrite:
        raise UserError(f"{output} is there already: give another --output, or --overwrite.")
    if os.path.lexists(output) and os.path.isdir(output) != (form == "brat"):
        kind = "a folder" if form == "brat" else "a file"
        raise UserError(f"{output}: --format={form} writes {kind}, which this is not.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise UserError(f"--output: the folder of {output} does not exist.")
    trial = find_trial(model)
    settings = fine_tuned.read_settings(trial)
    if settings["trained_on"]["kind"] == "tagging":
        files = annotation_formats.find_files(inputs)
        if form == "brat":
            _check_brat(files, output)
        documents = (document for path in files for document in annotation_formats.read(path))
        predictor = Predictor(trial, settings, strategy, overrides)
        counts = Counts()
        annotation_formats.write(output, form, counts.of(predictor.annotate(documents)))
        counts.report()
    elif form != "jsonl":
        raise UserError(f"--format={form} is for entities: this model's output is JSON.")
    elif settings["trained_on"]["kind"] == "spans":
        files = annotation_formats.find_files(inputs, (".json",))
        questions = [question for path in files for question in task_files.read_squad(path)]
        for name, count in Counter(question.id for question in questions).items():
            if count > 1:
                raise UserError(f"{count} questions have the id {name}: an answer would be lost.")
        predictor = Predictor(trial, settings, strategy, overrides)
        found = list(zip(questions, predictor.answer(questions), strict=True))
        if output.endswith(".jsonl"):
            lines = (
                {
                    "id": question.id,
                    "answer": own.best,
                    "probability": round(own.probabilities[0], 6) if own.texts else None,
                    "null_odds": round(own.null_odds, 6),
                }
                for question, own in found
            )
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        else:
            by_id = {question.id: own.best for question, own in found}
            text = json.dumps(by_id, indent=2, ensure_ascii=False) + "\n"
        records.write_text(output, text)
    else:
        files, examples = _read_tables(inputs, settings["trained_on"]["pairs"])
        predictor = Predictor(trial, settings, strategy, overrides)
        with storage.written_whole(output) as stream:
            for record in predictor.label(examples):
                stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    print(f"{len(files)} file(s) read; see {output}", flush=True)


class Counts:
    """Counts documents and entities while they are written."""

    def __init__(self) -> None:
        self.documents, self.entities = 0, Counter[str]()
        self._ids, self._again = set[str](), Counter[str]()

    def of(self, annotated: annotation_formats.Annotated) -> annotation_formats.Annotated:
        """Yields what it is given."""
        for document, entities in annotated:
            self.documents += 1
            self.entities.update(entity.type for entity in entities)
            if document.id in self._ids:
                self._again[document.id] += 1
            self._ids.add(document.id)
            yield document, entities

    def report(self) -> None:
        """Prints the counts, and the ids that several documents have."""
        by_type = ", ".join(f"{count} {name}" for name, count in self.entities.most_common())
        found = f" ({by_type})" if by_type else ""
        print(f"{self.documents} document(s), {self.entities.total()} entities{found}")
        if self._again:
            names = ", ".join([*self._again][:5]) + ", ..." * (len(self._again) > 5)
            print(
                f"{self._again.total()} document(s) have the id of one before ({names}); all are "
                "written, in brat's files with _2, _3 and so on behind the id."
            )


def _check_brat(files: list[str], output: str) -> None:
    """Raises UserError if brat's files might replace an input."""
    for path in files:
        if os.path.dirname(os.path.realpath(path)) == os.path.realpath(output):
            raise UserError(
                f"--output={output} holds the input {path}, which --format=brat would replace: "
                "give another folder."
            )


def _read_tables(inputs: Sequence[str], pairs: bool | None) -> tuple[list[str], list[LabelledText]]:
    """The files, and their texts, which are pairs or not; None: nothing is known of that."""
    columns = {True: "text and pair", False: "text", None: "text, perhaps pair"}[pairs]
    remedy = (
        "This model labels whole texts: give tab-separated tables (.tsv) whose first line names "
        f"the columns, {columns} and perhaps id."
    )
    try:
        files = annotation_formats.find_files(inputs, (".tsv",))
    except UserError as error:
        raise UserError(f"{error} {remedy}") from error
    examples = [text for path in files for text in task_files.read_unlabelled_table(path)]
    for example in examples:
        if pairs not in (None, bool(example.pair)):
            found = "two texts" if example.pair else "one text"
            raise UserError(f"{example.where[0]}, line {example.where[1]}: {found}. {remedy}")
    return files, examples


class Predictor:
    """A fine-tuned model in memory.

    Args:
      trial: the folder with its weights, see `fine_tuned.find_trial`.
      settings: of the run, see `fine_tuned.read_settings`.
      strategy: where to compute.
      overrides: "name=value" each.

    Raises:
      UserError: a setting, the vocabulary or the weights cannot be used.
    """

    def __init__(
        self,
        trial: str,
        settings: dict,
        strategy: tf.distribute.Strategy,
        overrides: Sequence[str] = (),
    ):
        encoder = checkpoints.read_encoder_config(trial)
        self.config = finetuning_config(settings, overrides)
        self.known = settings["trained_on"]
        # A model from elsewhere with tags without a type says no more.
        self.entity_type = self.known.get("entity_type") or "Entity"
        self.null_threshold = fine_tuned.read_null_threshold(trial)
        vocabulary = tokenization.find_vocabulary(checkpoints.run_of(trial))
        self.tokenizer = finetuning.load_tokenizer(
            vocabulary, encoder, settings["lower_case"], self.config, self.known
        )
        self.kind = kinds.make(self.known["kind"], self.known["labels"], self.config)
        finetuning.check(self.config, encoder, self.tokenizer, trial, strategy)
        distribution.set_precision(self.config.run.precision, strategy)
        distribution.optimize_for(self.config.run.optimize_for, strategy)
        pad_id = self.tokenizer.pad_id
        self.finetuner = Finetuner(self.config, encoder, self.kind, pad_id, 1, strategy)
        restore(trial, self.finetuner.model)

    def annotate(self, documents: Iterable[Document]) -> Iterator[tuple[Document, list[Entity]]]:
        """Each document and its entities, in the order of their starts."""
        splitter = sentences.load(sentences.resolve("auto")[0])
        documents = iter(documents)
        while batch := list(islice(documents, _AT_ONCE)):
            numbers, found = [], []
            for number, sentence, places in words_of(batch, splitter, self.known["words"]):
                numbers.append(number)
                found.append((sentence, places))
            entities: list[list[Entity]] = [[] for _ in batch]
            tagged = self._tags([sentence for sentence, _ in found])
            for number, (_, places), (tags, shares) in zip(numbers, found, tagged, strict=True):
                entities[number] += predictions.entities(tags, places, self.entity_type, shares)
            yield from zip(batch, entities, strict=True)

    def label(self, examples: Sequence[LabelledText]) -> Iterator[dict]:
        """What `predict` writes of each text."""
        # A place holder, so that they can be encoded as those that have a label.
        label = {"regression": 0.0, "multilabel": ()}.get(self.known["kind"])
        examples = [
            dataclasses.replace(x, label=self.kind.labels[0] if label is None else label)
            for x in examples
        ]
        for example, predicted, output in zip(examples, *self._outputs(examples), strict=True):
            record = {"id": example.id, "label": predicted}
            if self.kind.labels:
                pairs = zip(self.kind.labels, output, strict=True)
                record["probabilities"] = {name: round(float(p), 6) for name, p in pairs}
            yield record

    def answer(self, questions: Sequence[Question]) -> list[answers.Answers]:
        """The answers to each question; no text where none is given."""
        return answers.with_threshold(self._outputs(questions)[0], self.null_threshold)

    def _tags(self, sentences: Sequence[TaggedSentence]) -> list[tuple[Sequence[str], list[float]]]:
        """The tags of each sentence, and how probable each is."""
        if not sentences:
            return []
        pieces = self.kind.pieces(sentences, self.tokenizer, self.config.sequence_length)
        outputs = self.finetuner.predict(pieces, with_probabilities=True)
        tags = self.kind.predictions([own[:, 0].astype(int) for own in outputs], pieces, sentences)
        shares = self.kind.of_words([own[:, 1] for own in outputs], pieces, sentences)
        return list(zip(tags, shares, strict=True))

    def _outputs(self, examples: Sequence[Example]) -> tuple[list, list]:
        """What is predicted of each example, and the outputs of the pieces."""
        if not examples:
            return [], []
        length = self.config.sequence_length
        pieces = self.kind.pieces(examples, self.tokenizer, length)
        outputs = self.finetuner.predict(pieces)
        return self.kind.predictions(outputs, pieces, examples), outputs


def words_of(
    documents: Sequence[Document], splitter: sentences.Splitter, rule: str
) -> Iterator[tuple[int, TaggedSentence, list[tuple[int, int]]]]:
    """The sentences of documents, in order, their tags all O.

    Args:
      documents: some.
      splitter: see `data_prep.sentences.load`.
      rule: see `words.spans`.

    Yields:
      The number of the document, the sentence, and for each word its first character in the
      document's text and the one behind its last.
    """
    passages = [(number, p) for number, document in enumerate(documents) for p in document.passages]
    texts = (documents[number].text[p.start : p.end] for number, p in passages)
    for (number, passage), parts in zip(passages, splitter(texts), strict=True):
        text, start = documents[number].text, passage.start
        for part in parts:
            # Nothing but white space is left out between the parts.
            start = text.index(part, start)
            places = [(start + a, start + b) for a, b in words.spans(part, rule)]
            start += len(part)
            if places:
                own = tuple(text[a:b] for a, b in places)
                yield number, TaggedSentence("", own, ("O",) * len(own)), places
