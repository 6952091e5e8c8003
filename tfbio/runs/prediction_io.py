"""Reads new text for a model (documents, texts or questions) and writes the predictions.

Each form reads all inputs before TensorFlow is imported, so that a mistake is named at once. A task
type says by `TaskType.new_text` which form it takes. `predict` calls both.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tfbio.base import storage
from tfbio.base.errors import UserError
from tfbio.base.messages import counted
from tfbio.formats import annotation_formats, squad
from tfbio.formats.annotated_documents import Annotated
from tfbio.formats.tables import read_unlabelled_table
from tfbio.formats.task_examples import LabelledText
from tfbio.formats.text_files import STDIN
from tfbio.runs import annotation_folder, document_formats, step_times
from tfbio.runs.step_times import StepTimes
from tfbio.task_types.trained_on import TrainedOn

if TYPE_CHECKING:
    from tfbio.runs.predictor import Predictor


class NewText(NamedTuple):
    """The new text that prediction reads as its input.

    Attributes:
      files: a list of the paths of the input files.
      items: a `Document`, `LabelledText` or `Question` each; documents can be iterated over once.
      total: how many items there are.
    """

    files: list[str]
    items: Iterable
    total: int


def read(known: TrainedOn, inputs: Sequence[str], output: str, form: str) -> NewText:
    """Reads the input of a prediction, in the form that the model takes: one of `FORMS`.

    Args:
      known: `trained_on` in the model's `config.json`; for a model from elsewhere as much of it as
        is known, at least `new_text`.
      inputs: paths of files and folders, and globs; "-" is standard input.
      output: the path of the predictions, which may be no input.
      form: the form of the output, "jsonl", "bioc", "pubtator", "brat", "html" or "bigbio".

    Returns:
      A `NewText` of the files and their contents: `Document`, `LabelledText` or `Question` each.

    Raises:
      UserError: an input cannot be read, or does not go with the model or the output.
    """
    return FORMS[known.new_text].read(known, inputs, output, form)


class Documents:
    """The input and output of a prediction of entities: documents; it has no attributes."""

    @staticmethod
    def read(known: TrainedOn, inputs: Sequence[str], output: str, form: str) -> NewText:
        """Reads the input of a prediction of entities once, to name mistakes in documents.

        Prints a line for each article that is left out.

        Args:
          known: not used.
          inputs: paths of files and folders, and globs; "-" is standard input.
          output: the path of the predictions.
          form: the form of the output; with "brat" no input may lie in the folder `output`.

        Returns:
          A `NewText` of the files, and a `Document` for each text, which are read again as they are
          iterated over.

        Raises:
          UserError: an input cannot be read, or `output` would replace it.
        """
        files = document_formats.find_files(inputs)
        files = annotation_folder.without_annotations(files, inputs)
        _check_inputs_stay(files, output, form)
        left_out: list[str] = []
        total = sum(1 for path in files for _ in document_formats.read(path, left_out))
        for sentence in left_out:
            print(f"left out: {sentence}", flush=True)
        return NewText(files, (x for path in files for x in document_formats.read(path)), total)

    @staticmethod
    def write(predictor: Predictor, text: NewText, output: str, form: str) -> None:
        """Predicts the entities of documents, writes them as the output, and prints counts.

        Returns nothing.

        Args:
          predictor: a model that tags words.
          text: the result of `read`.
          output: the path of a file; of a folder for "brat".
          form: the format, "jsonl", "bioc", "pubtator", "brat", "html" or "bigbio".

        Raises:
          FormatError: the format cannot hold a text or an id.
        """
        counts, times, start = Counts(), StepTimes(), time.monotonic()
        annotated = predictor.annotate(text.items, text.total, times)
        write = functools.partial(annotation_formats.write, output, form)
        times.writing(write, counts.of(annotated))
        if counts.documents:
            import joblib  # here, since --help need not wait for it

            cores, elapsed = joblib.cpu_count(), time.monotonic() - start
            print(step_times.report(times.seconds, counts.documents, elapsed, cores))
        counts.report()


class Texts:
    """The input and output of a prediction of labels or scores: tables; it has no attributes."""

    @staticmethod
    def read(known: TrainedOn, inputs: Sequence[str], output: str, form: str) -> NewText:
        """Reads the input of a prediction of labels or scores, tables (.tsv) of texts or pairs.

        Args:
          known: its `pairs` says whether each text must have a pair; None: either.
          inputs: paths of files and folders, and globs; "-" is standard input.
          output: the path of the predictions.
          form: the form of the output, which must be "jsonl".

        Returns:
          A `NewText` of the files, and a list of a `LabelledText` with the label "" for each row.

        Raises:
          UserError: there are no tables, one cannot be read, a text has no pair or should have
            none, texts of two tables have one id, or the output has another form or would replace
            an input.
        """
        _check_is_json(form)
        files, texts = _read_tables(inputs, known.pairs)
        _check_inputs_stay(files, output, form)
        return NewText(files, texts, len(texts))

    @staticmethod
    def write(predictor: Predictor, text: NewText, output: str, form: str) -> None:
        """Predicts labels or scores, writes the output, JSON lines of texts, and prints counts.

        Returns nothing. A line has the keys "id", "label" (a class, a list of labels, or a score)
        and, unless it is a score, "probabilities", an object of each label -> its probability.

        Args:
          predictor: a model that labels texts.
          text: the result of `read`.
          output: the path of the file.
          form: not used.
        """
        counts: Counter[str] = Counter()
        with storage.written_whole(output) as stream:
            for record in predictor.label(list(text.items), show=True):
                label = record["label"]
                if not isinstance(label, float):
                    counts.update([label] if isinstance(label, str) else label)
                stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        print(f"{text.total:,} text(s){f': {counted(counts)}' if counts else ''}")


class Questions:
    """The input and output of a prediction of answers: SQuAD's JSON; it has no attributes."""

    @staticmethod
    def read(known: TrainedOn, inputs: Sequence[str], output: str, form: str) -> NewText:
        """Reads the input of a prediction of answers, files of questions (.json) in SQuAD's form.

        Args:
          known: not used.
          inputs: paths of files and folders, and globs; "-" is standard input.
          output: the path of the predictions.
          form: the form of the output, which must be "jsonl".

        Returns:
          A `NewText` of the files, and a list of all their `Question`s.

        Raises:
          UserError: a file cannot be read, the output has another form or would replace an input,
            or two questions have one id and `output` does not end in .jsonl.
        """
        _check_is_json(form)
        files = document_formats.find_files(inputs, (".json",))
        questions = [question for path in files for question in squad.read(path)]
        ids = Counter(question.id for question in questions)
        name, count = max(ids.items(), key=lambda pair: pair[1])
        if count > 1 and not output.endswith(".jsonl"):
            raise UserError(
                f"{count} questions have the id {name}: an answer would be lost; give an --output "
                "that ends in .jsonl."
            )
        _check_inputs_stay(files, output, form)
        return NewText(files, questions, len(questions))

    @staticmethod
    def write(predictor: Predictor, text: NewText, output: str, form: str) -> None:
        """Predicts the answers to questions, writes the output, JSON, and prints counts.

        Returns nothing. The file is a JSON object, id -> answer; if `output` ends in .jsonl, a line
        of JSON for each question, with "id", "answer" ("" for none), "probability" (null for none)
        and "null_odds", see `answers.Answers`.

        Args:
          predictor: a model that answers questions.
          text: the result of `read`.
          output: the path of the file.
          form: not used.
        """
        questions = list(text.items)
        answered = list(zip(questions, predictor.answer(questions, show=True), strict=True))
        if output.endswith(".jsonl"):
            lines = (
                {
                    "id": question.id,
                    "answer": own.best,
                    "probability": round(own.probabilities[0], 6) if own.texts else None,
                    "null_odds": round(own.null_odds, 6),
                }
                for question, own in answered
            )
            contents = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        else:
            by_id = {question.id: own.best for question, own in answered}
            contents = json.dumps(by_id, indent=2, ensure_ascii=False) + "\n"
        storage.write_text(output, contents)
        count = sum(bool(own.best) for _, own in answered)
        print(f"{text.total:,} question(s), {count:,} with an answer")


FORMS: dict[str, type[Documents | Texts | Questions]] = {
    "documents": Documents,
    "texts": Texts,
    "questions": Questions,
}


def _check_is_json(form: str) -> None:
    """Raises UserError if the output is to have a form for entities."""
    if form != "jsonl":
        raise UserError(f"--format={form} is for entities: this model's output is JSON.")


def _check_inputs_stay(files: list[str], output: str, form: str) -> None:
    """Raises UserError if the output would replace an input."""
    for path in files:
        if path == STDIN:
            continue
        at = os.path.realpath(path)
        if form == "brat" and os.path.dirname(at) == os.path.realpath(output):
            raise UserError(
                f"--output={output} holds the input {path}, which --format=brat would replace: "
                "give another folder."
            )
        if at == os.path.realpath(output):
            raise UserError(f"--output={output} is an input: give another file.")


def _read_tables(inputs: Sequence[str], pairs: bool | None) -> tuple[list[str], list[LabelledText]]:
    """Reads tables of texts.

    Args:
      inputs: files, folders and globs.
      pairs: True if each text must have a pair, False if none may; None: either.

    Returns:
      The files, and their texts.

    Raises:
      UserError: there are no tables, one cannot be read, a text has no pair or should have none, or
        texts of two tables have one id.
    """
    columns = {True: "text and pair", False: "text", None: "text, perhaps pair"}[pairs]
    remedy = (
        "This model labels whole texts: give tab-separated tables (.tsv) whose first line names "
        f"the columns, {columns} and perhaps id."
    )
    try:
        files = document_formats.find_files(inputs, (".tsv",))
    except UserError as error:
        raise UserError(f"{error} {remedy}") from error
    examples = [text for path in files for text in read_unlabelled_table(path)]
    for example in examples:
        if pairs not in (None, bool(example.pair)):
            given = "two texts" if example.pair else "one text"
            raise UserError(f"{example.where[0]}, line {example.where[1]}: {given}. {remedy}")
    _require_different_ids(examples)
    return files, examples


def _require_different_ids(examples: Sequence[LabelledText]) -> None:
    """Raises UserError if texts of two files have one id, which the output would not tell apart."""
    paths: dict[str, str] = {}
    for example in examples:
        path, line = example.where
        other = paths.setdefault(example.id, path)
        if other != path:
            raise UserError(
                f"{path}, line {line}: {os.path.basename(other)} also has a text with the id "
                f"{example.id:.40}: give each text an id of its own in a column id, or predict for "
                "one file at a time."
            )


class Counts:
    """A counter of a prediction's documents and entities while they are written.

    Attributes:
      documents: the documents so far.
      entities: the entities so far, by type.
    """

    def __init__(self) -> None:
        self.documents, self.entities = 0, Counter[str]()
        self._ids, self._again = set[str](), Counter[str]()

    def of(self, annotated: Annotated) -> Annotated:
        """Counts the documents of a prediction, and their entities.

        Args:
          annotated: pairs of a document and its entities.

        Yields:
          The pairs, unchanged.
        """
        for document, entities in annotated:
            self.documents += 1
            self.entities.update(entity.type for entity in entities)
            if document.id in self._ids:
                self._again[document.id] += 1
            self._ids.add(document.id)
            yield document, entities

    def report(self) -> None:
        """Prints the counts of a prediction, and the ids that several documents have.

        Returns nothing.
        """
        by_type = f": {counted(self.entities)}" if self.entities else ""
        print(f"{self.documents:,} document(s), {self.entities.total():,} entities{by_type}")
        if self._again:
            names = ", ".join([*self._again][:5]) + ", ..." * (len(self._again) > 5)
            print(
                f"{self._again.total()} document(s) have the id of one before ({names}); all are "
                "written, in brat's files with _2, _3 and so on behind the id."
            )
