"""Writes a submission to BLURB: the predictions of a model for each test set, as JSON.

  python -m tfbio.blurb_submission --finetuning='SuperBERT=out/ours/*' --output=out/submission

Each folder is the --output_dir of a run of run_finetuning.py, as for tfbio.report. Writes a file
for each of BLURB's data sets; runs of other tasks are left out. Of several seeds a file has one:
the best on the development set, or --seed.

BLURB's leaderboard takes such files, zipped, by mail, and refers to JSON schemas of its own
(<https://microsoft.github.io/BLURB/submit.html>), which were not at hand. The form here is that of
IQVIA's evaluators, which are a research group's and not the leaderboard's
(<https://github.com/iqvianlp/IQVIA-NLP-LLM-Benchmarking-Pipeline>, in
tools/bionlp_benchmarking/blurb/evaluators). They come with a schema for each data set, whose words
("Your predictions over the Test Set.") suggest that it stems from the leaderboard's; but the ids of
ChemProt, DDI and HoC are those of IQVIA's copies of the data. Compare them with Microsoft's schemas
before you send them.

A file is {"dataset_name", "model_name", "predictions": {id: prediction}}:

- BC5-chem, BC5-disease, NCBI-disease, BC2GM, JNLPBA: the number of the sentence, from 0 (where a
  line that begins a document counts as one), and O, B or I for each word;
- EBM PICO: the PMID, and O, I-PAR, I-INT or I-OUT for each word of the abstract;
- ChemProt: `N.T1.T2` with the mentions in the order of the text, and "CPR:3" or "false"; the
  sentences that have a pair are counted from 1 through training, development and test set;
- DDI: `N_T0_T1`, N counted in the same way, and "DDI-effect" or "DDI-false";
- GAD: the index, and "0" or "1";
- BIOSSES: the number of the pair, and a score from 0 to 4;
- HoC: `PMID_N` with N from 0, and a list of abbreviations of hallmarks;
- PubMedQA, BioASQ: the id of the question, and "yes", "no" or "maybe".
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from absl import flags

from tfbio.base import cli, errors, json_files, path_checks, storage
from tfbio.reporting import blurb_ids, published, results, test_sets
from tfbio.reporting.results import Run
from tfbio.task_types import finetuning_files, prediction_files, task_table, types

# --task -> "dataset_name" in the schemas, which write one of them in a way of their own.
NAMES = {column.task: column.title for column in published.BLURB} | {"pubmedqa": "PubmedQA"}

_HALLMARKS = {
    "activating invasion and metastasis": "IM",
    "avoiding immune destruction": "ID",
    "cellular energetics": "CE",
    "enabling replicative immortality": "RI",
    "evading growth suppressors": "GS",
    "genomic instability and mutation": "GI",
    "inducing angiogenesis": "A",
    "resisting cell death": "CD",
    "sustaining proliferative signaling": "PS",
    "tumor promoting inflammation": "TPI",
}


class SubmissionError(errors.UserError):
    """The `UserError` for fine-tuning runs of which no submission to BLURB can be made."""


def write_submission(
    finetuning: Sequence[str], output: str, seed: int | None = None
) -> dict[str, Path]:
    """Writes a BLURB submission: a JSON file of one model's predictions for each of its test sets.

    Prints which runs are left out, as they are not of BLURB, and which of its data sets have no
    run.

    Args:
      finetuning: output folders of fine-tuning runs, or glob patterns of them, each perhaps with
        `NAME=` before it, the model's name.
      output: the path of the folder to write to, made if need be.
      seed: the seed of the trials whose predictions are taken; None for each run's best trial on
        the development set.

    Returns:
      A dict of a task's name -> the `Path` of its file, such as "bc2gm" -> output/BC2GM.json.

    Raises:
      SubmissionError: no run is of BLURB, two are of one task, they are of several models, one has
        no trial of the seed, or one is not on BLURB's test set.
      UserError: a folder holds no results, or results that do not belong together.
    """
    runs: dict[str, Run] = {}
    for run in itertools.chain.from_iterable(map(results.find, finetuning)):
        if run.task not in NAMES:
            print(f"Left out, not of BLURB: {run.folder}.")
        elif not _is_one(runs.setdefault(run.task, run), run):
            raise SubmissionError(
                f"{runs[run.task].folder} and {run.folder} are both {run.task}: leave one."
            )
    if not runs:
        raise SubmissionError("--finetuning: none of these runs is of a task of BLURB.")
    names = sorted({run.name for run in runs.values()})
    if len(names) > 1:
        raise SubmissionError(
            f"--finetuning: the runs are of several models ({', '.join(names)}), and a submission "
            "is of one: give its runs alone, or one name to all, 'NAME=FOLDER'."
        )
    paths = {task: Path(output, f"{name.replace(' ', '-')}.json") for task, name in NAMES.items()}
    for task in NAMES.keys() - runs.keys():
        _require_same_model(paths[task], names[0])
    contents = {task: submission(run, seed) for task, run in runs.items()}
    os.makedirs(output, exist_ok=True)
    for task, content in contents.items():
        storage.write_text(paths[task], json.dumps(content) + "\n")
    if missing := [name for task, name in NAMES.items() if task not in runs]:
        print(f"No run of {', '.join(missing)}.")
    return {task: paths[task] for task in contents}


def _is_one(run: Run, other: Run) -> bool:
    """Returns True if two runs lie in one folder, which may be given twice, spelt in two ways."""
    return os.path.realpath(run.folder) == os.path.realpath(other.folder)


def _require_same_model(path: Path, name: str) -> None:
    """Raises a SubmissionError if an earlier submission wrote a file for another model."""
    other = json_files.read_object_or_empty(path).get("model_name", name)
    if other != name:
        raise SubmissionError(
            f"{path} is of {other}, and these runs are of {name}: a submission is of one model, "
            "so give another --output."
        )


def submission(run: Run, seed: int | None = None) -> dict:
    """Returns the content of a file of a BLURB submission: a run's predictions for its test set.

    Prints which trial is taken if `seed` is None.

    Args:
      run: a run on one of BLURB's tasks, as `results.read` reads it.
      seed: the seed of the trial; None for the best trial on the development set, of equals the
        first.

    Returns:
      A dict of "dataset_name", BLURB's name of the data set; "model_name", the run's; and
      "predictions", a dict of the id of an example, a string -> its class (a string), its score (a
      float from 0 to 4), or a list of strings, its tags or abbreviated hallmarks. The module's
      docstring has the ids and the labels of each data set.

    Raises:
      SubmissionError: there is no such trial, or the test set is not BLURB's.
      TaskFileError: the predictions cannot be read.
      SchemaError: the run's `scores.json` is missing, or is not as a run writes it.
      KeyError: the task is not one of BLURB's.
    """
    task_type = types.TYPES[task_table.TASKS[run.task].task_type]
    trial = _trial(run, seed)
    path = os.path.join(trial, task_type.predictions_file("test"))
    examples, predicted = task_type.read_predictions(path)
    if len(examples) != blurb_ids.SIZES[run.task]:
        raise SubmissionError(
            f"{path} has {len(examples)} examples, and BLURB's test set of {NAMES[run.task]} has "
            f"{blurb_ids.SIZES[run.task]}: fine-tune on BLURB's files."
        )
    if aside := test_sets.compare(run.task, examples).aside:
        print(f"{path}: not the test set of {NAMES[run.task]} as BLURB's scripts make it: {aside}.")
    if not blurb_ids.are_in_order(run.task, examples):
        raise SubmissionError(
            f"{path} has the sentences in another order than BLURB's test set of "
            f"{NAMES[run.task]}, whose ids are their numbers: fine-tune on BLURB's files, or on "
            "those that `tfbio data` writes now, in another --output_dir."
        )
    by_id: Mapping[str, str | float | list[str]]
    if run.task not in blurb_ids.PATTERNS:
        places = _places(os.path.join(trial, "test_entities.jsonl"), len(examples))
        of_words = _by_document if run.task == "ebm_pico" else _by_sentence
        by_id = of_words(places, predicted)
    else:
        ids = prediction_files.read_ids(path)
        try:
            keys = blurb_ids.keys(run.task, ids)
        except ValueError as error:
            raise SubmissionError(
                f"{path} does not have the ids of BLURB's test set of {NAMES[run.task]}, in its "
                f"order ({error}): fine-tune on BLURB's files."
            ) from error
        by_id = dict(zip(keys, map(_value, predicted), strict=True))
    return {"dataset_name": NAMES[run.task], "model_name": run.name, "predictions": by_id}


def _trial(run: Run, seed: int | None) -> str:
    """Returns the folder of a trial: that of a seed, or the best on the development set."""
    trials = {x.seed: x.dev for x in finetuning_files.read_scores(run.folder).trials}
    if seed is None:
        if any(run.metric not in dev for dev in trials.values()):
            raise SubmissionError(
                f"{run.folder} has trials without a dev {run.metric}: give --seed."
            )
        seed = max(trials, key=lambda one: trials[one][run.metric])
        best = trials[seed][run.metric]
        print(f"{run.task}: seed {seed}, dev {run.metric} {best:.4f}, of {len(trials)} seed(s).")
    elif seed not in trials:
        raise SubmissionError(
            f"--seed={seed}: {run.folder} has the seeds {', '.join(map(str, trials))}."
        )
    return os.path.join(run.folder, f"trial_{seed}")


def _places(path: str, count: int) -> list[tuple[int, str]]:
    """Returns for each sentence its first line in the file of the data, and its document."""
    sentences = prediction_files.read_entities(path)
    try:
        places = [(int(sentence.id), sentence.document) for sentence in sentences]
    except ValueError as error:
        raise SubmissionError(f"{path} has an id that is no number of a line: {error}.") from error
    if len(places) != count:
        raise SubmissionError(
            f"{path} has {len(places)} sentences and test_predictions.tsv {count}: fine-tune "
            "again, in another --output_dir."
        )
    return places


def _by_sentence(
    places: Sequence[tuple[int, str]], predicted: Sequence[Sequence[str]]
) -> dict[str, list[str]]:
    """Returns the tags of each sentence, by its number.

    Wherever two more lines than the one between sentences were passed over, they began a document.
    """
    by_id, number, expected = {}, 0, 1
    for (line, _), tags in zip(places, predicted, strict=True):
        number += (line - expected) // 2
        before = ("O", *tags)
        # The evaluator cannot read an I that continues nothing. An entity begins there, as for
        # conlleval.
        by_id[str(number)] = [
            "B" if tag[0] == "I" and last == "O" else tag[0]
            for last, tag in zip(before, tags, strict=False)
        ]
        number, expected = number + 1, line + len(tags) + 1
    return by_id


def _by_document(
    places: Sequence[tuple[int, str]], predicted: Sequence[Sequence[str]]
) -> dict[str, list[str]]:
    """Returns the tags of each document, by its PMID."""
    by_id: dict[str, list[str]] = {}
    for (line, document), tags in zip(places, predicted, strict=True):
        if not document:
            raise SubmissionError(
                f"the run does not say of which abstract the sentence in line {line} is: fine-tune "
                "again, on BLURB's files, in another --output_dir."
            )
        by_id.setdefault(document, []).extend(tags)
    return by_id


def _value(predicted: str | float | Sequence[str]) -> str | float | list[str]:
    if isinstance(predicted, float):
        return min(max(predicted, 0.0), 4.0)
    return predicted if isinstance(predicted, str) else [_HALLMARKS[name] for name in predicted]


def define_flags() -> None:
    """Defines the flags of `tfbio.blurb_submission`; returns nothing.

    They are --finetuning, --seed and --output.
    """
    cli.define_list(
        "finetuning",
        None,
        "Output folder of a fine-tuning run, or a pattern of such; NAME=FOLDER names the model.",
        required=True,
    )
    flags.DEFINE_integer(
        "seed", None, "Whose predictions; by default each run's best on the development set."
    )
    flags.DEFINE_string("output", None, "Folder to write to.", required=True)


def main(argv: list[str]) -> None:
    """Runs `tfbio.blurb_submission`: writes the submission, and prints the path of each file.

    Args:
      argv: the command line without its flags, a list of strings: the program alone.

    Raises:
      UserError: see `write_submission`; or there are arguments, or another process writes there.
    """
    cli.no_arguments(argv)
    flag = flags.FLAGS
    path_checks.require_output("output", flag.output)
    with storage.only_writer(flag.output):
        paths = write_submission(flag.finetuning, flag.output, flag.seed)
    for path in paths.values():
        print(path)


if __name__ == "__main__":
    cli.run(main, define_flags)
