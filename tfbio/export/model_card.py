"""Writes the model card of a converted model: README.md, whose header the Hugging Face hub reads.

The card tells what the run's files tell: its settings, the counts of its data, its scores. What
they cannot tell, such as the licence, comes from the user (`Publication`), or the card says that it
is not known. `hparams.json` beside it has all settings of the run.

`huggingface_hub` makes the header. Its template is not used: no run can fill in most of its
headings, and it needs Jinja.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

import tfbio
from tfbio.base import file_paths, storage
from tfbio.base.config import BaseSettings
from tfbio.export import card_usage, reproduction
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types import finetuning_files
from tfbio.task_types.finetuning_config import FinetuningConfig, RunConfig
from tfbio.task_types.finetuning_files import TrialScores
from tfbio.weights import checkpoint_settings, checkpoint_source, fine_tuned

# The end of a class's name -> the hub's word for what it is for.
_PIPELINES = {
    "ForPreTraining": "feature-extraction",
    "ForMaskedLM": "fill-mask",
    "ForTokenClassification": "token-classification",
    "ForSequenceClassification": "text-classification",
    "ForQuestionAnswering": "question-answering",
}
# The counts of data preparation -> their names in a card.
_COUNTS = {
    "documents": "documents",
    "train_examples": "training examples",
    "heldout_examples": "held-out examples",
    "tokens": "tokens without special ones and padding",
    "unknown_share": "share of unknown tokens",
    "padding_share": "share of padding",
}


@dataclasses.dataclass(frozen=True)
class Publication:
    """The facts about a model that its user knows, and that its run's files do not tell.

    Attributes:
      license: the hub's identifier of the licence, such as "apache-2.0"; "" if it is not known.
      base_model: the name on the hub of the model that training started from; "".
      datasets: the names on the hub of the data sets that it was trained on; ().
      hardware: the devices that it was trained on, such as "1 NVIDIA H100"; "".
      co2_grams: the emissions of training, in grams of CO2 equivalents; None.
    """

    license: str = ""
    base_model: str = ""
    datasets: tuple[str, ...] = ()
    hardware: str = ""
    co2_grams: float | None = None


NOTHING_SAID = Publication()


def can_be_of(source: str) -> bool:
    """Returns True if a model can have a model card, that is, if it was trained here.

    A card of any other model would have nothing to tell.

    Args:
      source: the path of a pretraining run (its `--model_dir`), a trial, or a model from elsewhere;
        a pretraining run must have taken a step.

    Raises:
      UserError: the settings of the model cannot be read, or a run has no checkpoint.
    """
    settings = checkpoint_settings.read_settings(source)
    if "trained_on" in settings:
        return bool(settings["task"])
    return "vocab_sha256" in settings and _step(source) > 0


def write(folder: str | os.PathLike, source: str, publication: Publication = NOTHING_SAID) -> None:
    """Writes the model card of a converted model, README.md, if the model was trained here.

    The card has a header for the Hugging Face hub and, in Markdown, the settings that are not the
    defaults, the data, the scores of a trial on dev and test, and how to load the model. Beside it
    comes `hparams.json`, all settings of the run, which `--hparams` takes. Returns nothing.

    Args:
      folder: the folder of the model, which `hugging_face_weights.write` wrote.
      source: the `--model_dir` or the trial that it was made from.
      publication: further facts.

    Raises:
      UserError: the settings, the scores or the checkpoint of `source` cannot be read.
      OSError: `config.json` in `folder` cannot be read, or the card cannot be written.
    """
    if not can_be_of(source):
        return
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        shape = json.load(file)
    (architecture,) = shape["architectures"]
    pipeline = next(_PIPELINES[end] for end in _PIPELINES if architecture.endswith(end))
    if fine_tuned.is_one(source):
        run, scores = fine_tuned.read_settings(source), finetuning_files.read_trial(source)
        name = f"{run.task}, seed {scores.seed}"
        header = _header(pipeline, run.task, publication, "fine-tuning")
        header.metrics, header.model_name = list(scores.test), name
        header.eval_results = _results(pipeline, run.task, scores, publication)
        parts = _of_trial(source, run, scores)
        hparams = reproduction.of_trial(run, scores.seed)
        warning = fine_tuned.task_type_of(run).pipeline_warning()
    else:
        settings = checkpoint_settings.read_settings(source)
        objective: str = settings["objective"]
        header = _header(pipeline, objective, publication, "pre-training")
        names = {"electra": "ELECTRA's discriminator", "mlm": "Masked language model"}
        name = names.get(objective, objective)
        parts = _of_run(source, settings)
        hparams = reproduction.of_pretraining(checkpoint_settings.pretraining_config(settings))
        warning = ""
    lines = ["---", header.to_yaml(), "---", "", f"# {name}", ""]
    lines += [f"Made by tfbio {tfbio.__version__}.", *parts]
    lines += [*card_usage.lines(folder, shape), *(["", warning] if warning else [])]
    lines += _not_known(publication)
    storage.write_text(Path(folder, reproduction.FILE), json.dumps(hparams, indent=2) + "\n")
    card = ModelCard("\n".join(lines) + "\n")
    storage.write_text(Path(folder, "README.md"), str(card))


def _header(pipeline: str, tag: str, publication: Publication, training_type: str) -> ModelCardData:
    """Returns the card's header without scores.

    Args:
      pipeline: the hub's word for what the model is for.
      tag: the task, or the objective of pretraining.
      publication: facts from the user.
      training_type: the hub's word for the training, "pre-training" or "fine-tuning".
    """
    # The hub has the hardware among the emissions (its specification, modelcard.md).
    emissions = {"emissions": publication.co2_grams, "hardware_used": publication.hardware}
    emissions = {name: value for name, value in emissions.items() if value not in (None, "")}
    more: dict[str, Any] = {}
    if emissions:
        more["co2_eq_emissions"] = {**emissions, "training_type": training_type}
    return ModelCardData(
        library_name="transformers",
        pipeline_tag=pipeline,
        tags=["tfbio", "biomedical", tag],
        license=publication.license or None,
        base_model=publication.base_model or None,
        datasets=list(publication.datasets) or None,
        **more,
    )


def _results(
    pipeline: str, task: str, scores: TrialScores, publication: Publication
) -> list[EvalResult]:
    """Returns the scores of a trial on its test set.

    The hub links the data set of a score by its name there, which is known if one was named.
    """
    named = publication.datasets
    return [
        EvalResult(
            task_type=pipeline,
            dataset_type=named[0] if len(named) == 1 else task,
            dataset_name=task,
            dataset_split="test",
            metric_type=metric,
            metric_name=metric,
            metric_value=value,
        )
        for metric, value in scores.test.items()
    ]


def _not_known(publication: Publication) -> Iterator[str]:
    """Yields the lines on what the header does not say, because nobody told."""
    yield from ["", "## Licence", ""]
    if publication.license:
        yield f"The licence is `{publication.license}`."
    else:
        yield (
            "The header names none: whoever publishes the model chooses it, by a line "
            "`license: ...`."
        )
    missing = [
        words
        for words, value in (
            ("the data sets (`datasets`)", publication.datasets),
            ("the model that training started from (`base_model`)", publication.base_model),
            ("the hardware", publication.hardware),
            ("the emissions of CO2", publication.co2_grams is not None),
        )
        if not value
    ]
    if missing:
        yield from ["", "## Not stated", ""]
        yield f"The header does not name {_listed(missing)}: the run's files do not tell."


def _listed(words: list[str]) -> str:
    """Joins words by commas and, before the last, "and"."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if words[1:] else words[0]


def _of_run(source: str, settings: dict) -> Iterator[str]:
    """Yields the lines on pretraining."""
    config = checkpoint_settings.pretraining_config(settings)
    steps = _step(source)
    yield from ["", "## Pretraining", ""]
    yield f"{steps:,} of {config.num_train_steps:,} steps of {config.train_batch_size:,} examples."
    data, seen = settings["data"], 0.0
    for phase, name in zip(config.phases(), config.phase_names(), strict=True):
        done = max(0, min(steps, phase.end) - phase.start)
        here = done * config.train_batch_size * phase.sequence_length
        counts = data.get(name, {})
        # Examples of the original ELECTRA code come without counts.
        seen += here * (1 - counts["padding_share"]) if "padding_share" in counts else float("nan")
    if seen == seen:
        yield f"So it saw {seen:,.3g} tokens, padding not counted."
    yield from _recipe(config, PretrainingConfig())
    for phase, counts in data.items():
        known = {name: counts[name] for name in _COUNTS if name in counts}
        if known:
            yield from ["", f"## Examples of length {phase}", ""]
            yield from _table(
                ("what", "count"), [(_COUNTS[k], _number(v)) for k, v in known.items()]
            )
    yield from ["", f"The SHA-256 of the vocabulary is `{settings['vocab_sha256']}`."]
    if settings["init_checkpoint"]:
        yield f"The weights at the start were those of `{_base(settings['init_checkpoint'])}`."
    if settings.get("teacher"):
        yield f"It also learnt from the teacher `{_base(settings['teacher'])}`."


def _step(source: str) -> int:
    """Returns the step of a run's newest checkpoint."""
    return int(checkpoint_source.newest_weights(source).rpartition("-")[2])


def _of_trial(source: str, settings: RunConfig, scores: TrialScores) -> Iterator[str]:
    """Yields the lines on fine-tuning."""
    start = _base(settings.init_checkpoint)
    yield from ["", "## Fine-tuning", ""]
    if settings.from_scratch:
        yield f"On `{settings.task}`, from random weights in the shape of `{start}`."
    else:
        yield f"On `{settings.task}`, from the encoder of `{start}`."
    yield f"The weights are those after step {scores.step:,}, of seed {scores.seed}."
    yield from _recipe(settings, FinetuningConfig())
    yield from ["", "## Data", ""]
    hashes = [(split, f"`{value}`") for split, value in settings.data_sha256.items()]
    yield from _table(("split", "SHA-256 of the file"), hashes)
    yield from ["", "## Scores", ""]
    rows = [
        # Of questions, dev lacks some figures where each question has an answer.
        (metric, f"{scores.dev[metric]:.4f}" if metric in scores.dev else "", f"{value:.4f}")
        for metric, value in scores.test.items()
    ]
    yield from _table((f"of seed {scores.seed}", "dev", "test"), rows)
    folder = checkpoint_source.run_of(source)
    # A run that has not ended has trials, and no scores of its own yet.
    if not file_paths.at(folder, finetuning_files.SCORES).is_file():
        return
    run = finetuning_files.read_scores(folder)
    if len(run.trials) > 1:
        yield from [
            "",
            f"Over {len(run.trials)} seeds, {run.metric} on test is {run.mean:.4f} ± "
            f"{run.std:.4f} (mean, standard deviation), the median {run.median:.4f}.",
        ]


def _recipe(
    config: PretrainingConfig | FinetuningConfig, default: PretrainingConfig | FinetuningConfig
) -> Iterator[str]:
    """Yields a table of the settings that are not the defaults of this version."""
    rows = list(_differing(config, default))
    yield from ["", "## Recipe", ""]
    if config.comment:
        yield from [config.comment, ""]
    command = f"run_{'finetuning' if isinstance(default, FinetuningConfig) else 'pretraining'}.py"
    if not rows:
        yield f"All settings are the defaults of `{command}`."
        return
    yield f"`{reproduction.FILE}` has all settings: give it as `--hparams` of `{command}`."
    yield from [f"Settings that are not the defaults of `{command}`:", ""]
    yield from _table(("setting", "value", "default"), rows)


def _differing(
    config: BaseSettings, default: BaseSettings, prefix: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yields name, value and default of each setting of learning that is not the default."""
    for field in dataclasses.fields(default):
        value, usual = getattr(config, field.name), getattr(default, field.name)
        if field.name in ("comment", "run") or value == usual:
            continue
        if isinstance(value, BaseSettings):
            yield from _differing(value, usual, f"{prefix}{field.name}.")
        else:
            yield f"`{prefix}{field.name}`", json.dumps(value), json.dumps(usual)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yields the lines of a table."""
    for row in (header, ("---",) * len(header), *rows):
        yield f"| {' | '.join(row)} |"


def _number(value: int | float) -> str:
    """Returns a count with commas, or a share with four digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _base(path: str) -> str:
    """Returns the last part of a path. The others belong to a machine, and not to a card."""
    return os.path.basename(path.rstrip("/"))
