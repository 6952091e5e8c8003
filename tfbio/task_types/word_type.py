"""Holds what the task types share that label the words of sentences, and so find mentions."""

from __future__ import annotations

import abc
import collections
from collections.abc import Sequence
from typing import Any

from tfbio.formats.task_examples import TaggedSentence
from tfbio.task_types import outcomes, prediction_files, words
from tfbio.task_types.metrics import Scores
from tfbio.task_types.outcomes import Mention, Outcome
from tfbio.task_types.task_type import Score, TaskType


class WordType(TaskType):
    """The base class of task types whose predictions are a tag for each word, O for no mention."""

    of_tokens = True
    new_text = "documents"
    hugging_face_class = "ForTokenClassification"

    @classmethod
    @abc.abstractmethod
    def mentions(cls, tags: Sequence[str]) -> set[Mention]:
        """Returns the mentions of a sentence, by the tag of each word."""

    @classmethod
    def outcomes(
        cls, examples: Sequence[TaggedSentence], predicted: Sequence, entity_type: str
    ) -> collections.Counter[Outcome]:
        """Counts the outcomes of the mentions in each sentence, see `outcomes.of_mentions`."""
        truth = [cls.mentions(sentence.tags) for sentence in examples]
        return outcomes.of_mentions(truth, [cls.mentions(tags) for tags in predicted], entity_type)

    @classmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        """Returns "O for every word", and its scores on `test`; a ScoreError if that is empty."""
        return "O for every word", score(test, [("O",) * len(example.words) for example in test])

    @classmethod
    def content(cls, example: TaggedSentence) -> tuple[list[str], list[str]]:
        """Returns a sentence's words, and their tags, to compare test sets."""
        return list(example.words), list(example.tags)

    @classmethod
    def describe(cls, examples: Sequence[TaggedSentence], predicted: Sequence) -> str:
        """Returns "N sentences of M documents with E entities, P predicted"; M where known."""
        true, found = (
            sum(len(cls.mentions(tags)) for tags in own)
            for own in ((sentence.tags for sentence in examples), predicted)
        )
        documents = len({sentence.document for sentence in examples} - {""})
        place = f" of {documents:,} documents" if documents else ""
        return f"{len(examples):,} sentences{place} with {true:,} entities, {found:,} predicted"

    @classmethod
    def write_predictions(
        cls, folder: str, split: str, examples: Sequence, predicted: Sequence, entity_type: str
    ) -> None:
        """Writes `SPLIT_predictions.tsv`: each word with its tag and the predicted one."""
        prediction_files.write_words(folder, split, examples, predicted)

    @classmethod
    def read_predictions(cls, path: str) -> tuple[list[TaggedSentence], list[tuple[str, ...]]]:
        """Reads the sentences and their predicted tags; raises a TaskFileError if it cannot."""
        return prediction_files.read_words(path)

    @classmethod
    def learnt_from(cls, examples: Sequence[TaggedSentence], entity_type: str) -> dict[str, Any]:
        """Returns "markers" (False), and "words", the rule that `words.rule_of` tells."""
        return {"markers": False, "words": words.rule_of(examples)}
