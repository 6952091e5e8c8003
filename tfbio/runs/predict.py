"""Uses a fine-tuned model on new text: predicts entities, labels or answers.

`run_finetuning.py --mode=predict` calls `predict`. Inputs, output and format are checked before
TensorFlow is imported, which takes seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from data_prep.sentences import splitters
from tfbio.base import extras, file_paths, json_files, nearby_folders, run_folders, storage
from tfbio.base.errors import UsageError, UserError
from tfbio.runs import prediction_io
from tfbio.task_types import trained_on, types
from tfbio.task_types.trained_on import TrainedOn
from tfbio.text import hugging_face_tokenizer

if TYPE_CHECKING:
    import tensorflow as tf


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
    """Predicts for new text with a fine-tuned model, writes a file, and prints counts.

    Returns nothing. A model that tags words takes the documents of `document_formats.read`, and
    writes their entities in one of `annotation_formats.FORMATS`. One that labels texts takes tables
    (`tables.read_unlabelled_table`), and writes JSON lines: id, label, and the probability of each
    label; a score has no probability. One that answers questions takes files in SQuAD's form, and
    writes SQuAD's predictions: a JSON object with the answer to each id, "" for none. If `output`
    ends in .jsonl, these are JSON lines: id, answer; its probability among the best `n_best_size`,
    null where there is none; and null_odds, the score of "no answer" less that of the answer.

    Args:
      model: the path of the folder of a trial; of the `output_dir` of a run: then its best trial on
        the development set; or of a fine-tuned model of Hugging Face's, see `fine_tuned`.
      inputs: paths of files and folders, and globs; "-" is standard input.
      output: the path of a file; for "brat" of a folder.
      strategy: where to compute; or a function that makes it, called after the checks.
      form: the form of the output, "jsonl", "bioc", "pubtator", "brat", "html" or "bigbio";
        "jsonl" where there are no entities.
      overrides: "name=value" each, for settings of the run such as run.eval_batch_size.
      overwrite: True to replace `output`.

    Raises:
      UsageError: `output` is "-", or ends in .gz.
      UserError: there is no such model, it does not go with the inputs or the form, an input cannot
        be read, or `output` exists already.
    """
    _check_output(output, form, overwrite)
    with storage.only_writer(output):
        _check_output(output, form, overwrite)  # another process may have written it meanwhile
        _predict(model, inputs, output, strategy, form, overrides)


def _predict(
    model: str,
    inputs: Sequence[str],
    output: str,
    strategy: tf.distribute.Strategy | Callable[[], tf.distribute.Strategy],
    form: str,
    overrides: Sequence[str],
) -> None:
    """Reads the inputs, loads the model, and writes its predictions; see `predict`."""
    start = time.monotonic()
    known = facts_of(model)
    text = prediction_io.read(known, inputs, output, form) if known else None
    print(f"loading {model} ...", flush=True)
    # Imported late: TensorFlow takes seconds, and mistakes should not.
    from tfbio.runs.predictor import Predictor
    from tfbio.weights import fine_tuned

    trial = fine_tuned.find_trial(model)
    settings = fine_tuned.read_settings(trial)
    known = settings.trained_on
    text = text or prediction_io.read(known, inputs, output, form)
    strategy = strategy() if callable(strategy) else strategy
    predictor = Predictor(trial, settings, strategy, overrides)
    print(f"predicting in {predictor.precision}.", flush=True)
    if known.new_text == "documents":
        tell_splitter()
    prediction_io.FORMS[known.new_text].write(predictor, text, output, form)
    seconds = time.monotonic() - start
    print(f"{len(text.files)} file(s) read; see {output} ({seconds:.0f} s)", flush=True)


def tell_splitter() -> None:
    """Prints which package splits sentences for a prediction, if it is not the best one.

    Returns nothing.
    """
    name, version = splitters.resolve("auto")
    if name == splitters.ALWAYS_INSTALLED:
        best, remedy = splitters.BEST_FIRST[0], extras.remedy("data")
        print(f"{name} {version} splits sentences; {best} makes fewer errors: {remedy}", flush=True)


def _check_output(output: str, form: str, overwrite: bool) -> None:
    """Raises UserError if nothing can be written to `output`."""
    if output == "-":
        raise UsageError("--output=-: give a file; standard output shows how far this is.")
    if output.endswith(".gz"):
        raise UsageError(
            f"--output={output}: it would not be compressed. Give --output_dir and --gzip for "
            "compressed files, or a name without .gz."
        )
    if os.path.lexists(output) and not overwrite:
        raise UserError(f"{output} is there already: give another --output, or --overwrite.")
    if os.path.lexists(output) and os.path.isdir(output) != (form == "brat"):
        expected = "a folder" if form == "brat" else "a file"
        raise UserError(f"{output}: --format={form} writes {expected}, which this is not.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise UserError(f"--output: the folder of {output} does not exist.")


def facts_of(model: str) -> TrainedOn | None:
    """Reads the facts on which a prediction's model was trained, without importing TensorFlow.

    Args:
      model: see `predict`.

    Returns:
      Of Hugging Face's model `new_text` alone; None if only `fine_tuned.find_trial` can tell.

    Raises:
      UserError: there is no such folder, or a `config.json` cannot be read.
    """
    folder = run_folders.chosen(run_folders.followed(model))
    meant = nearby_folders.model_meant(folder if os.path.exists(folder) else model, takes_runs=True)
    if meant or not os.path.isdir(folder):
        remedy = (
            "give the --output_dir of a finished run_finetuning.py run, a trial_SEED in it, or a "
            "fine-tuned model of Hugging Face's"
        )
        raise UserError(f"--model={model} holds no trial of a fine-tuned model: {meant or remedy}.")
    if "model_type" in json_files.read_object_or_empty(file_paths.at(folder, run_folders.CONFIG)):
        architecture = hugging_face_tokenizer.read_architecture(folder)
        for each in types.TYPES.values():
            if architecture.endswith(each.hugging_face_class):
                return TrainedOn("", [], each.new_text)
        return None
    for run in (folder, os.path.dirname(folder)):
        if os.path.isfile(os.path.join(run, run_folders.CONFIG)):
            return trained_on.read_trained_on(run)
    return None
