"""A task to fine-tune on: what it reads, its labels and its score."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tfbio.formats.splits import NearbyError, check_splits, find_split
from tfbio.formats.task_examples import Example, Question
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.task_types.metrics import Scores

SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A task to fine-tune on: its task type, labels, reader, score and settings.

    It is equal to itself alone.

    Attributes:
      name: what `--task` calls it.
      task_type: "tagging", "classification", "regression", "multilabel", "question_answering" or
        "token_multilabel".
      labels: all labels, in the order of the model's outputs.
      read: path of a split's file -> its examples.
      score: (examples, predictions) -> figures by name, the one that sums the task up first. What
        a run is scored with, and the draws of `tfbio.report`.
      settings: name -> value: what BioELECTRA fine-tuned with (its paper's Table 7, which
        `hparams/finetuning/bioelectra/` has with sources), and of the sets that only bio-lm has,
        bio-lm, where `FinetuningConfig`'s defaults are others.
      made_by: the command that makes the files, "" if none does.
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
        """Finds the file of each of the task's splits in a folder.

        Args:
          data_dir: the path of the folder.

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
                if not self.made_by or isinstance(error, NearbyError):
                    raise
                raise TaskFileError(f"{error} `{self.made_by}` makes them.") from error
        return {split: path for split, path in paths.items() if path}

    def examples(self, data_dir: str) -> dict[str, list[Example]]:
        """Reads the examples of each of the task's splits, and checks them against each other.

        Args:
          data_dir: the path of the folder with the files.

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
        _tell_unanswered(examples)
        return examples


def _tell_unanswered(examples: Mapping[str, Sequence[Example]]) -> None:
    """Prints how many questions of BioASQ have no gold answer, so that they count as wrong.

    BioASQ releases its test batches without answers first, to be answered and submitted.
    """
    for split in examples.keys() - {"train"}:
        answered: dict[str, bool] = {}
        for question in examples[split]:
            if isinstance(question, Question) and question.question_id:
                answered[question.question_id] = bool(question.answers)
        missing = sum(not has_answers for has_answers in answered.values())
        if missing:
            print(
                f"{examples[split][0].where[0]}: {missing} of {len(answered)} questions have no "
                "exact_answer, and count as wrong: scores need BioASQ's files with gold answers."
            )


# BioM's (Table 4, base models); ELECTRA's and BERT's sequence_length.
SQUAD_SETTINGS = {"learning_rate": 1e-4, "sequence_length": 384, "num_train_epochs": 3.0}
