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
    """The `UserError` for data that make no task: too few labels, or no clear negative label."""


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A labelled task, equal to itself alone.

    Attributes:
      name: what `--task` calls it.
      task_type: "tagging", "classification", "regression", "multilabel", "question_answering" or
        "token_multilabel".
      labels: all labels, in the order of the model's outputs.
      read: path of a split's file -> its examples.
      score: (examples, predictions) -> figures by name, the one that sums the task up first. What
        a run is scored with, and the draws of `tfbio.report`.
      settings: what BioELECTRA fine-tuned with (its paper's Table 7, which
        `hparams/finetuning/bioelectra/` has with sources), and of the sets that only bio-lm has,
        bio-lm, where `FinetuningConfig`'s defaults are others.
      made_by: the command that makes the files, if one does.
      augment: the training examples -> these, and others that are made from them; or fewer. None
        for no change.
      hold_out: the training examples -> these and those of "dev", where that has no file. None
        where "dev" must have a file.
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
        """Finds the file of each split in a folder.

        Returns:
          split ("train", "dev", "test") -> path; without "dev" if that must be held out.

        Raises:
          TaskFileError: a split's file is missing, or there are several for it.
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
        """Reads the examples of each split.

        Returns:
          split ("train", "dev", "test") -> its examples, in the order of its file.

        Raises:
          TaskFileError: a split's file is missing, or there are several; a line cannot be used; two
            examples of a split have one id; "train" lacks a label of another split, or has too few
            questions to hold out "dev".
        """
        examples = {split: self.read(path) for split, path in self.files(data_dir).items()}
        if self.hold_out is not None and "dev" not in examples:
            train, dev = self.hold_out(examples["train"])
            examples = {"train": train, "dev": dev, "test": examples["test"]}
        check_splits(examples)
        return examples


@dataclasses.dataclass(frozen=True)
class OwnTask:
    """A form of the user's own data that a task type learns from: `--task=NAME --data_dir=FOLDER`.

    Attributes:
      name: what `--task` calls it.
      read: (path, all labels) -> the examples of a file; None: they may have any labels.
      score: all labels -> `Task.score`, (examples, predictions) -> `Scores`, for which the data
        need not be at hand.
      labels: the labels in use, sorted -> all labels, in the order of the model's outputs.
      fewest: the fewest labels from which something can be learnt.
      has_negative: True if one of the labels says that there is none of the others; it is first.
      settings: name -> value, where `FinetuningConfig`'s defaults are others.
      hold_out: the training examples -> these and those of "dev", where that has no file; or None.
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
    """Reads sentences whose tags are B, I and O alone, as BLURB's are.

    Args:
      path: a file with a word and its BIO tag a line.
      types: the types of entities that the file may have, which are dropped; None for any.

    Raises:
      TaskFileError: the file cannot be read, or a line is not so.
    """
    return [
        dataclasses.replace(sentence, tags=tuple(tag[0] for tag in sentence.tags))
        for sentence in task_files.read_tagged_words(path, types)
    ]


def swapped(examples: list[LabelledText]) -> list[LabelledText]:
    """Returns the pairs, and behind them each with its texts exchanged and "-swapped" after its id.

    BioELECTRA's authors' code does so for BIOSSES.
    """
    return examples + [
        dataclasses.replace(x, id=f"{x.id}-swapped", text=x.pair, pair=x.text) for x in examples
    ]


def placed(questions: list[Question]) -> list[Question]:
    """Returns the questions that have an answer whose place in the context is known.

    It prints how many are left out.

    Raises:
      TaskFileError: no question has one.
    """
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
    """Returns the `Scores` "f1", "precision" and "recall" of entities, and "strict_f1", ....

    Args:
      sentences: with their BIO tags.
      predicted: BIO tags of each sentence's words.
      types: entity types to score, of which several also have "f1_TYPE".

    Raises:
      ScoreError: a tag is not of the BIO scheme, the lengths differ, or there is no sentence.
    """
    return metrics.entity_scores([sentence.tags for sentence in sentences], predicted, types)


def score_words(sentences: Sequence[TaggedSentence], predicted: Sequence) -> Scores:
    """Returns the `Scores` of EBM-PICO's tags.

    Args:
      sentences: with their tags, O or I-ELEMENT.
      predicted: tags of each sentence's words.

    Returns:
      "macro_f1", "f1_PAR", "f1_INT" and "f1_OUT", and "accuracy" of words.

    Raises:
      ScoreError: an element is unknown, the lengths differ, or there is no sentence.
    """
    return metrics.word_scores([sentence.tags for sentence in sentences], predicted)


def score_relations(
    examples: Sequence[LabelledText],
    predicted: Sequence[str],
    negative: str,
    types: Sequence[str] = (),
) -> Scores:
    """Returns the `Scores` "f1", "precision", "recall" and "macro_f1" of all classes but one.

    Args:
      examples: with their classes.
      predicted: the class of each.
      negative: the class left out, which says that there is no relation.
      types: classes that also have "f1_LABEL", "precision_LABEL" and "recall_LABEL".

    Raises:
      ScoreError: the lengths differ, or there is no example.
    """
    return metrics.relation_scores(_labels(examples), predicted, negative, types)


def score_classes(examples: Sequence[LabelledText], predicted: Sequence[str]) -> Scores:
    """Returns the `Scores` "accuracy" and "macro_f1" of the predicted class of each example.

    Raises:
      ScoreError: the lengths differ, or there is no example.
    """
    return metrics.accuracy_and_macro_f1(_labels(examples), predicted)


def score_similarity(examples: Sequence[LabelledText], predicted: Sequence[float]) -> Scores:
    """Returns the `Scores` "pearson" and "spearman", in [-1, 1], of a number for each example.

    Raises:
      ScoreError: a number is NaN or infinite, the lengths differ, or there is no example.
    """
    return metrics.correlation_scores(_labels(examples), predicted)


def score_label_sets(
    examples: Sequence[LabelledText], predicted: Sequence[Sequence[str]], labels: Sequence[str]
) -> Scores:
    """Returns the `Scores` "f1", "precision" and "recall" over examples x labels, and "macro_f1".

    Args:
      examples: with their labels.
      predicted: the labels of each.
      labels: all labels.

    Raises:
      ScoreError: a label is unknown, the lengths differ, or there is no example.
    """
    return metrics.label_scores(_labels(examples), predicted, labels)


def score_hallmarks(examples: Sequence[LabelledText], predicted: Sequence[Sequence[str]]) -> Scores:
    """Returns the `Scores` of HoC's sentences, by document.

    Args:
      examples: sentences with their `HALLMARKS` and their document.
      predicted: the hallmarks of each.

    Returns:
      "micro_f1", "macro_f1", "blue_f1", "bioelectra_f1" and "bioelectra_code_f1", which
      `metrics.hoc_scores` defines.

    Raises:
      ScoreError: a label is no hallmark, the lengths differ, or there is no sentence.
    """
    documents = [example.document for example in examples]
    return metrics.hoc_scores(documents, _labels(examples), predicted, HALLMARKS)


def score_answers(questions: Sequence[Question], predicted: Sequence[answers.Answers]) -> Scores:
    """Returns SQuAD's `Scores` "f1" and "exact_match" of the best answer to each question.

    Where some questions have no answer, also "has_answer_..." and "no_answer_..." of both.

    Raises:
      ScoreError: the lengths differ, or there is no question.
    """
    return answer_scores.squad_scores([x.answers for x in questions], [x.best for x in predicted])


def score_factoids(questions: Sequence[Question], predicted: Sequence[answers.Answers]) -> Scores:
    """Returns the `Scores` of BioASQ's answers, merged over the contexts of each question.

    Args:
      questions: one for each context, with `question_id`.
      predicted: the answers in each context.

    Returns:
      "mrr", "strict_accuracy" and "lenient_accuracy", over the questions.

    Raises:
      ScoreError: there is no question.
      ValueError: the lengths differ.
    """
    gold = {question.question_id: question.answers for question in questions}
    best = answers.merged(questions, predicted)
    return answer_scores.bioasq_factoid_scores([gold[name] for name in best], list(best.values()))


# --- Parts of tasks that several have ------------------------------------------------------------


def bio_tags(types: Sequence[str]) -> tuple[str, ...]:
    """Returns all BIO tags: ("O", "B-TYPE", "I-TYPE", ...); B and I alone for the type ""."""
    return ("O", *(f"{letter}-{name}".rstrip("-") for name in types for letter in "BI"))


# BioM's (Table 4, base models); ELECTRA's and BERT's sequence_length.
SQUAD_SETTINGS = {"learning_rate": 1e-4, "sequence_length": 384, "num_train_epochs": 3.0}


def span_task(name: str) -> Task:
    """Returns a `Task` of questions that are answered by a span, in SQuAD's format.

    It has `SQUAD_SETTINGS`, SQuAD's score, and holds out a tenth of "train" without a "dev" file.
    """
    return Task(
        name,
        "question_answering",
        (),
        task_files.read_squad,
        score_answers,
        SQUAD_SETTINGS,
        hold_out=hold_out,
    )
