"""A task to fine-tune on: what it reads, its labels and its score."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tfbio.base.cli import UserError
from tfbio.formats import task_files
from tfbio.formats.label_sets import HALLMARKS
from tfbio.formats.splits import check_splits, find_split, hold_out
from tfbio.formats.task_examples import (
    Example,
    LabelledText,
    Question,
    TaggedSentence,
    TaskFileError,
)
from tfbio.task_types import answer_scores, answers, metrics
from tfbio.task_types.scores import Scores

SPLITS = ("train", "dev", "test")


class TaskError(UserError):
    """A task that does not exist."""


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A labelled task, equal to itself alone.

    Attributes:
      name: what `--task` calls it.
      task_type: "tagging", "classification", "regression", "multilabel" or "question_answering".
      labels: all labels, in the order of the model's outputs.
      read: path of a split's file -> its examples.
      score: (examples, predictions) -> figures by name, the one that sums the task up first. What
        a run is scored with, and the draws of `tfbio.report`.
      settings: what BioELECTRA fine-tuned with (its paper's Table 7, which
        `hparams/finetuning/bioelectra/` has with sources), and of the sets that only bio-lm has,
        bio-lm, where `FinetuningConfig`'s defaults are others.
      made_by: the command that makes the files, if one does.
      augment: of the training examples: these, and others that are made from them; or fewer.
      hold_out: the training examples -> these and those of "dev", where that has no file.
      entity_type: of the entities whose tags name no type (B, I); PubTator's name, if it has one.
    """

    name: str
    task_type: str
    labels: tuple[str, ...]
    read: Callable[[str], list]
    score: Callable[[Sequence, Sequence], Scores]
    settings: Mapping[str, float | int]
    made_by: str = ""
    augment: Callable[[list], list] | None = None
    hold_out: Callable[[list], tuple[list, list]] | None = None
    entity_type: str = "Entity"

    def files(self, data_dir: str) -> dict[str, str]:
        """The file of each split; none of "dev" where it is held out of "train".

        Raises:
          TaskFileError: a file is missing.
        """
        paths = {}
        for split in SPLITS:
            optional = split == "dev" and self.hold_out is not None
            try:
                paths[split] = find_split(data_dir, split, optional)
            except TaskFileError as error:
                if not self.made_by:
                    raise
                raise TaskFileError(f"{error} `{self.made_by}` makes them.") from error
        return {split: path for split, path in paths.items() if path}

    def examples(self, data_dir: str) -> dict[str, list[Example]]:
        """The examples of each split, in the order of its file.

        Raises:
          TaskFileError: a file is missing, or a line of it cannot be used.
        """
        examples = {split: self.read(path) for split, path in self.files(data_dir).items()}
        if self.hold_out is not None and "dev" not in examples:
            train, dev = self.hold_out(examples["train"])
            examples = {"train": train, "dev": dev, "test": examples["test"]}
        check_splits(examples)
        return examples


@dataclasses.dataclass(frozen=True)
class OwnTask:
    """Tells how a task type learns from data of the user's own: `--task=NAME --data_dir=FOLDER`.

    Attributes:
      name: what `--task` calls it.
      read: (path, all labels) -> the examples of a file; None: they may have any labels.
      score: all labels -> `Task.score`, for which the data need not be at hand.
      labels: the labels in use, sorted -> all labels, in the order of the model's outputs.
      fewest: the fewest labels from which something can be learnt.
      has_negative: whether one of the labels says that there is none of the others; it is first.
      settings, hold_out: see `Task`.
    """

    name: str
    read: Callable[..., list]
    score: Callable[[tuple[str, ...]], Callable[[Sequence, Sequence], Scores]]
    labels: Callable[[tuple[str, ...]], tuple[str, ...]] = tuple
    fewest: int = 0
    has_negative: bool = False
    settings: Mapping[str, float | int] = dataclasses.field(default_factory=dict)
    hold_out: Callable[[list], tuple[list, list]] | None = None


# --- Reading, where a task's files need more than a reader ---------------------------------------


def read_entities(path: str, types: tuple[str, ...] | None) -> list[TaggedSentence]:
    """Sentences whose tags are B, I and O alone, as BLURB's are."""
    return [
        dataclasses.replace(sentence, tags=tuple(tag[0] for tag in sentence.tags))
        for sentence in task_files.read_tagged_words(path, types)
    ]


def swapped(examples: list[LabelledText]) -> list[LabelledText]:
    """The pairs, and each with its texts exchanged (BioELECTRA's authors' code, for BIOSSES)."""
    return examples + [
        dataclasses.replace(x, id=f"{x.id}-swapped", text=x.pair, pair=x.text) for x in examples
    ]


def placed(questions: list[Question]) -> list[Question]:
    """Those of whose answers one is known to stand in the context; says how many are not."""
    placed = [x for x in questions if max(x.answer_starts, default=-1) >= 0]
    if len(placed) < len(questions):
        print(
            f"{len(questions) - len(placed)} of {len(questions)} contexts to train on do not have "
            "the answer word for word, and are left out."
        )
    if not placed:
        raise TaskFileError(
            f"{questions[0].where[0]}: no context has the answer to its question word for word."
        )
    return placed


# --- Scores --------------------------------------------------------------------------------------


def _labels(examples: Sequence[LabelledText]) -> list:
    return [example.label for example in examples]


def score_entities(
    sentences: Sequence[TaggedSentence], predicted: Sequence, types: Sequence[str] = ()
) -> Scores:
    return metrics.entity_scores([sentence.tags for sentence in sentences], predicted, types)


def score_words(sentences: Sequence[TaggedSentence], predicted: Sequence) -> Scores:
    return metrics.word_scores([sentence.tags for sentence in sentences], predicted)


def score_relations(
    examples: Sequence[LabelledText],
    predicted: Sequence[str],
    negative: str,
    types: Sequence[str] = (),
) -> Scores:
    return metrics.relation_scores(_labels(examples), predicted, negative, types)


def score_classes(examples: Sequence[LabelledText], predicted: Sequence[str]) -> Scores:
    return metrics.accuracy_and_macro_f1(_labels(examples), predicted)


def score_similarity(examples: Sequence[LabelledText], predicted: Sequence[float]) -> Scores:
    return metrics.correlation_scores(_labels(examples), predicted)


def score_label_sets(
    examples: Sequence[LabelledText], predicted: Sequence[Sequence[str]], labels: Sequence[str]
) -> Scores:
    return metrics.label_scores(_labels(examples), predicted, labels)


def score_hallmarks(examples: Sequence[LabelledText], predicted: Sequence[Sequence[str]]) -> Scores:
    documents = [example.document for example in examples]
    return metrics.hoc_scores(documents, _labels(examples), predicted, HALLMARKS)


def score_answers(questions: Sequence[Question], predicted: Sequence[answers.Answers]) -> Scores:
    return answer_scores.squad_scores([x.answers for x in questions], [x.best for x in predicted])


def score_factoids(questions: Sequence[Question], predicted: Sequence[answers.Answers]) -> Scores:
    gold = {question.question_id: question.answers for question in questions}
    best = answers.merged(questions, predicted)
    return answer_scores.bioasq_factoid_scores([gold[name] for name in best], list(best.values()))


# --- Parts of tasks that several have ------------------------------------------------------------


def bio_tags(types: Sequence[str]) -> tuple[str, ...]:
    """Returns all tags; where tags have no type, the type is ""."""
    return ("O", *(f"{letter}-{name}".rstrip("-") for name in types for letter in "BI"))


# BioM's (Table 4, base models); ELECTRA's and BERT's sequence_length.
SQUAD_SETTINGS = {"learning_rate": 1e-4, "sequence_length": 384, "num_train_epochs": 3.0}


def span_task(name: str) -> Task:
    """Returns a task of questions that are answered by a span, in SQuAD's format."""
    return Task(
        name,
        "question_answering",
        (),
        task_files.read_squad,
        score_answers,
        SQUAD_SETTINGS,
        hold_out=hold_out,
    )
