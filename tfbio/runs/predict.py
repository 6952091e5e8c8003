"""A fine-tuned model on new text: entities with their characters, or labels with probabilities.

`predict` is what `run_finetuning.py --mode=predict` calls. Inputs, output and format are checked
before TensorFlow is imported, which takes seconds.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tfbio.base import run_folders, storage
from tfbio.base.cli import UsageError, UserError
from tfbio.formats import annotation_formats, task_files
from tfbio.formats.annotation_formats import Annotated
from tfbio.formats.tables import read_unlabelled_table
from tfbio.formats.task_examples import LabelledText, Question
from tfbio.formats.text_files import STDIN
from tfbio.runs import prediction_inputs
from tfbio.task_types import predictions
from tfbio.text import hugging_face_tokenizer

if TYPE_CHECKING:
    import tensorflow as tf

    from tfbio.runs.predictor import Predictor


def predict(
    model: str,
    inputs: Sequence[str],
    output: str,
    *,
    strategy: tf.distribute.Strategy | Callable[[], tf.distribute.Strategy],
    form: str = "jsonl",
    overrides: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Writes what a model finds in texts, and prints how much that is.

    A model that tags words takes the documents of `prediction_inputs.read`, and writes their
    entities in one of `annotation_formats.FORMATS`. One that labels texts takes tables
    (`tables.read_unlabelled_table`), and writes JSON lines: id, label, and the probability of
    each label; a score has none. One that answers questions takes files in SQuAD's form, and writes
    SQuAD's predictions: a JSON object with the answer to each id, "" for none. If `output` ends in
    .jsonl, these are JSON lines: id, answer; its probability among the best `n_best_size`, null
    where there is none; and null_odds, by how much no answer scores higher.

    Args:
      model: the folder of a trial; the `output_dir` of a run: then its best trial on the
        development set; or a fine-tuned model of Hugging Face's, see `fine_tuned`.
      inputs: files, folders and globs; "-" is standard input.
      output: a file; for "brat" a folder.
      strategy: where to compute; or a function that makes it, called after the checks.
      form: of the output.
      overrides: "name=value" each, for settings of the run such as run.eval_batch_size.
      overwrite: replace what is at `output`.

    Raises:
      UserError: there is no such model, it does not go with the inputs or the form, an input cannot
        be read, or there is something at `output`.
    """
    _check_output(output, form, overwrite)
    with storage.only_writer(output):
        _predict(model, inputs, output, strategy, form, overrides)


def _predict(
    model: str,
    inputs: Sequence[str],
    output: str,
    strategy: tf.distribute.Strategy | Callable[[], tf.distribute.Strategy],
    form: str,
    overrides: Sequence[str],
) -> None:
    known = _trained_on(model)
    read = _read(known, inputs, output, form) if known else None
    # Imported late: TensorFlow takes seconds, and mistakes should not.
    from tfbio.runs.predictor import Predictor
    from tfbio.weights import fine_tuned

    trial = fine_tuned.find_trial(model)
    settings = fine_tuned.read_settings(trial)
    known = settings["trained_on"]
    files, texts, total = read or _read(known, inputs, output, form)
    strategy = strategy() if callable(strategy) else strategy
    predictor = Predictor(trial, settings, strategy, overrides)
    if known["kind"] == "tagging":
        counts = Counts()
        annotated = predictor.annotate(texts, total)
        annotation_formats.write(output, form, counts.of(annotated))
        counts.report()
    elif known["kind"] == "spans":
        _write_answers(output, texts, predictor)
    else:
        _write_labels(output, texts, predictor)
    print(f"{len(files)} file(s) read; see {output}", flush=True)


def _check_output(output: str, form: str, overwrite: bool) -> None:
    """Raises UserError if nothing can be written to `output`."""
    if output == "-":
        raise UsageError("--output=-: give a file; standard output shows how far this is.")
    if os.path.lexists(output) and not overwrite:
        raise UserError(f"{output} is there already: give another --output, or --overwrite.")
    if os.path.lexists(output) and os.path.isdir(output) != (form == "brat"):
        kind = "a folder" if form == "brat" else "a file"
        raise UserError(f"{output}: --format={form} writes {kind}, which this is not.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise UserError(f"--output: the folder of {output} does not exist.")


def _trained_on(model: str) -> dict:
    """What of a model's `trained_on` its `config.json` tells; nothing where that is not clear.

    Raises:
      UserError: there is no such folder, or a `config.json` cannot be read.
    """
    folder = run_folders.chosen(os.path.abspath(model))
    if not os.path.isdir(folder):
        raise UserError(
            f"--model={model} holds no trial of a fine-tuned model: give the --output_dir of a "
            "finished run_finetuning.py run, a trial_SEED in it, or a fine-tuned model of Hugging "
            "Face's."
        )
    own = storage.read_json(storage.at(folder, "config.json"))
    if "model_type" in own:
        # See `fine_tuned.HEADS`.
        heads = {"Token": "tagging", "QuestionAnswering": "spans", "Sequence": "classification"}
        architecture = hugging_face_tokenizer.read_architecture(folder)
        head = re.search(r"For(Token|QuestionAnswering|Sequence)", architecture)
        return {"kind": heads[head[1]], "pairs": None} if head else {}
    of_trial = storage.at(os.path.dirname(folder), "config.json")
    settings = own or storage.read_json(of_trial)
    known = settings.get("trained_on")
    return known if isinstance(known, dict) and "kind" in known else {}


def _read(
    known: dict, inputs: Sequence[str], output: str, form: str
) -> tuple[list[str], Iterable, int]:
    """The files, what is in them, and how many documents, texts or questions that are.

    All of them are read, so that one that cannot be is named before the model starts.
    """
    kind = known["kind"]
    if kind == "tagging":
        files = prediction_inputs.find_files(inputs)
        _check_inputs_stay(files, output, form)
        left_out: list[str] = []
        total = sum(1 for path in files for _ in prediction_inputs.read(path, left_out))
        for sentence in left_out:
            print(f"left out: {sentence}", flush=True)
        return files, (x for path in files for x in prediction_inputs.read(path)), total
    if form != "jsonl":
        raise UserError(f"--format={form} is for entities: this model's output is JSON.")
    if kind == "spans":
        files = prediction_inputs.find_files(inputs, (".json",))
        texts = [question for path in files for question in task_files.read_squad(path)]
        ids = Counter(question.id for question in texts)
        name, count = max(ids.items(), key=lambda pair: pair[1])
        if count > 1 and not output.endswith(".jsonl"):
            raise UserError(
                f"{count} questions have the id {name}: an answer would be lost; give an --output "
                "that ends in .jsonl."
            )
    else:
        files, texts = _read_tables(inputs, known["pairs"])
    _check_inputs_stay(files, output, form)
    return files, texts, len(texts)


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
    """The files, and their texts, which are pairs or not; None: nothing is known of that."""
    columns = {True: "text and pair", False: "text", None: "text, perhaps pair"}[pairs]
    remedy = (
        "This model labels whole texts: give tab-separated tables (.tsv) whose first line names "
        f"the columns, {columns} and perhaps id."
    )
    try:
        files = prediction_inputs.find_files(inputs, (".tsv",))
    except UserError as error:
        raise UserError(f"{error} {remedy}") from error
    examples = [text for path in files for text in read_unlabelled_table(path)]
    for example in examples:
        if pairs not in (None, bool(example.pair)):
            found = "two texts" if example.pair else "one text"
            raise UserError(f"{example.where[0]}, line {example.where[1]}: {found}. {remedy}")
    return files, examples


class Counts:
    """Counts documents and entities while they are written."""

    def __init__(self) -> None:
        self.documents, self.entities = 0, Counter[str]()
        self._ids, self._again = set[str](), Counter[str]()

    def of(self, annotated: Annotated) -> Annotated:
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
        found = f": {predictions.listed(self.entities)}" if self.entities else ""
        print(f"{self.documents:,} document(s), {self.entities.total():,} entities{found}")
        if self._again:
            names = ", ".join([*self._again][:5]) + ", ..." * (len(self._again) > 5)
            print(
                f"{self._again.total()} document(s) have the id of one before ({names}); all are "
                "written, in brat's files with _2, _3 and so on behind the id."
            )


def _write_labels(output: str, texts: Sequence[LabelledText], predictor: Predictor) -> None:
    """Writes and counts the labels of texts."""
    counts: Counter[str] = Counter()
    with storage.written_whole(output) as stream:
        for record in predictor.label(texts, show=True):
            label = record["label"]
            if not isinstance(label, float):
                counts.update([label] if isinstance(label, str) else label)
            stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    print(f"{len(texts):,} text(s){f': {predictions.listed(counts)}' if counts else ''}")


def _write_answers(output: str, questions: Sequence[Question], predictor: Predictor) -> None:
    """Writes and counts the answers to questions."""
    found = list(zip(questions, predictor.answer(questions, show=True), strict=True))
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
    storage.write_text(output, text)
    answered = sum(bool(own.best) for _, own in found)
    print(f"{len(questions):,} question(s), {answered:,} with an answer")
