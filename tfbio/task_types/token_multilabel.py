"""Any number of labels for each word of a sentence, such as entities that overlap or are nested.

Data of the user's own, `--task=token_multilabel`, are text files with a word and its labels a line,
a tab between the two, and an empty line between sentences. Bars separate the labels of a word; a
word without a label has O:

  BRCA1<TAB>gene|variant
  mutations<TAB>variant
  .<TAB>O

The first token of a word has the word's labels as its targets, the others have none. An entity is
words in a row that have one label, so entities of two labels may overlap, and those of one label
that touch are one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from tfbio.base.config import BaseSettings, setting
from tfbio.base.errors import UserError
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.annotated_documents import Entity
from tfbio.formats.label_sets import labels_between_bars
from tfbio.formats.task_examples import TaggedSentence
from tfbio.formats.task_file_errors import Where, is_none_of, mistake
from tfbio.formats.task_files import not_empty
from tfbio.formats.text_files import read_lines
from tfbio.models.head_config import NO_TARGET
from tfbio.task_types import entity_metrics, sentence_windows
from tfbio.task_types.metrics import Scores
from tfbio.task_types.own_task import OwnTask
from tfbio.task_types.sentence_windows import WordFeatures
from tfbio.task_types.serving.served_task import close
from tfbio.task_types.serving.served_words import SeenWords, ServedWords
from tfbio.task_types.word_type import WordType
from tfbio.text.tokenization import Tokenizer

# What a word without a label has in place of labels.
_NO_LABEL = "O"
# A word has the labels that are more probable than this.
_THRESHOLD = 0.5


@dataclasses.dataclass(frozen=True)
class LabelledSentence(TaggedSentence):
    """A token_multilabel sentence, a `TaggedSentence` whose tags are labels between bars, or O.

    Attributes:
      id, words, tags, document, where: as in `TaggedSentence`; a tag is such as "gene|variant".
    """

    def numbered_labels(self) -> Iterator[tuple[int, str]]:
        """Yields, for each of a word's several labels, the word's number from 0 and the label."""
        for number, tag in enumerate(self.tags):
            yield from ((number, label) for label in _labels_of_word(tag))


def _labels_of_word(tag: str) -> tuple[str, ...]:
    """Returns the labels in the tag of a word, such as ("gene", "variant"); () for O."""
    return () if tag == _NO_LABEL else labels_between_bars(tag)


def read_sentences(path: str, labels: Sequence[str] | None = None) -> list[LabelledSentence]:
    """Reads token_multilabel data of the user's own, a word and its labels a line.

    Args:
      path: the path of the file, in the form that this module describes.
      labels: all labels; None for any.

    Returns:
      The sentences, each with the number of its first line as its id.

    Raises:
      TaskFileError: the file cannot be read or has no sentence, or a line is not of this form, or
        has another label.
    """
    sentences: list[LabelledSentence] = []
    rows: list[tuple[str, str]] = []
    for number, line in enumerate([*read_lines(path), ""], start=1):
        if line.strip():
            rows.append(_read_line(line, (path, number), labels))
        elif rows:
            words, tags = zip(*rows, strict=True)
            first = number - len(rows)
            sentences.append(LabelledSentence(str(first), words, tags, where=(path, first)))
            rows = []
    return not_empty(path, sentences)


def _read_line(line: str, where: Where, labels: Sequence[str] | None) -> tuple[str, str]:
    """Returns the word and the tag in a line; see `read_sentences`."""
    word, tab, tag = line.partition("\t")
    if not word.strip() or not tag or "\t" in tag:
        message = "expected a word, one tab, and the word's labels with bars between them, or O"
        raise mistake(where, f"{message}, found {line!r:.60}")
    names = _labels_of_word(tag)
    for name in names:
        if name in ("", _NO_LABEL) or name != name.strip():
            message = "expected labels such as gene|variant, or O alone for a word that has none"
            raise mistake(where, f"{message}, found {tag!r:.60}")
        if labels is not None and name not in labels:
            raise mistake(where, f"the label {name!r:.60} {is_none_of(labels)}")
    if len(set(names)) < len(names):
        raise mistake(where, f"a label stands twice in {tag!r:.60}: take it out once")
    return word, tag


def runs(has: np.ndarray) -> list[tuple[int, int, int]]:
    """Finds a token_multilabel sentence's entities: the runs of words that have one label.

    Args:
      has: bool [words, labels].

    Returns:
      The number of the label, the first and the last word of each run, in the order of the first
      words, and of the labels where several begin at one.
    """
    edges = np.diff(np.pad(has, [(1, 1), (0, 0)]).astype(np.int8), axis=0)
    # By label, in which each begin has its end.
    labels, firsts = np.nonzero(edges.T == 1)
    ends = np.nonzero(edges.T == -1)[1]
    order = np.argsort(firsts, kind="stable")
    return [(int(labels[i]), int(firsts[i]), int(ends[i]) - 1) for i in order]


def entities_of(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Returns the (label, first word, last word) of each entity of a token_multilabel sentence.

    Args:
      tags: of each word, at least one, its labels between bars, or O.
    """
    of_words = [_labels_of_word(tag) for tag in tags]
    labels = sorted(set(itertools.chain.from_iterable(of_words)))
    has = np.array([[label in own for label in labels] for own in of_words], bool)
    return {(labels[label], first, last) for label, first, last in runs(has)}


def _score_entities(
    sentences: Sequence[TaggedSentence], predicted: Sequence[Sequence[str]], labels: Sequence[str]
) -> Scores:
    """Scores entities: one is right if its label and its words are those of a true entity.

    This, and not words, is what the field reports for nested entities, and what tagging reports
    for those that do not overlap, so that the two compare. See `entity_metrics.item_scores`.

    Raises:
      ScoreError: a label is unknown, the lengths differ, or there is no sentence.
    """
    truth = [entities_of(sentence.tags) for sentence in sentences]
    return entity_metrics.item_scores(truth, [entities_of(tags) for tags in predicted], labels)


class _ServedLabels(ServedWords):
    """The served form of a token_multilabel model; it has the attributes of `ServedTask`."""

    def labels(self, seen: SeenWords) -> dict[str, tf.Tensor]:
        """Returns the probabilities of the labels, their names, and the entities.

        `probabilities` are float32 [batch, words, labels], 0 for words that are cut off and -1 for
        padding; `labels` are strings [batch, labels]; the rest is as in `SeenWords.entities`.
        """
        names = tf.constant(self.task_type.labels)
        outputs = tf.gather(self.outputs(seen.batch), seen.places)
        outputs = tf.where(seen.seen[:, tf.newaxis], outputs, 0.0)
        has = outputs > _THRESHOLD
        # As `runs` does, where no run goes on in the next text.
        text, none = seen.words.text, tf.zeros_like(has[:1])
        same_text = (text[1:] == text[:-1])[:, tf.newaxis]
        begins = has & ~tf.concat([none, has[:-1] & same_text], axis=0)
        ends = has & ~tf.concat([has[1:] & same_text, none], axis=0)
        label, first = tf.unstack(tf.where(tf.transpose(begins)), axis=1)
        last = tf.where(tf.transpose(ends))[:, 1]
        order = tf.argsort(first, stable=True)
        label, first, last = (tf.gather(values, order) for values in (label, first, last))
        return {
            "probabilities": seen.listed(outputs, text),
            "labels": tf.tile(names[tf.newaxis], [tf.size(seen.text), 1]),
            **seen.entities(first, last, tf.gather(names, label)),
        }

    def same(self, served: dict[str, tf.Tensor], row: int, example: TaggedSentence) -> bool:
        """Returns True if the probabilities in a row are close to those without the graph."""
        features = self.task_type.features([example], self.encode, self.length)
        _, outputs = self.expected([example])
        (expected,) = sentence_windows.at_words(outputs, features, 1)
        return close(served["probabilities"][row, : len(expected)].numpy(), np.array(expected))


class TokenMultilabel(WordType):
    """The token_multilabel task type, any number of labels for each word; see also `TaskType`.

    Args:
      labels: all labels, in the order of the model's outputs.
      settings: a `TokenMultilabel.Settings`; None for its defaults.
    """

    name = "token_multilabel"
    served = _ServedLabels
    mentions = staticmethod(entities_of)
    # No class of `transformers` looks at it for tokens: it tells the model from one of tagging.
    problem_type = "multi_label_classification"
    own_tasks = (
        OwnTask(
            "token_multilabel",
            read_sentences,
            lambda labels: partial(_score_entities, labels=labels),
            fewest=1,
        ),
    )

    @dataclasses.dataclass(frozen=True)
    class Settings(BaseSettings):
        """The settings of the token_multilabel task type.

        Attributes:
          positive_weight: the weight in the loss of a label that a word has.

        Raises:
          ConfigError: it is not above 0.
        """

        group = "token_multilabel."

        positive_weight: float = setting(
            1.0,
            "The weight in the loss of a label that a word has, where one that it lacks has 1. "
            "Above 1 more entities are predicted, with a higher recall and a lower precision.",
            above=0,
        )

    settings: Settings

    def __init__(self, labels: Sequence[str], settings: Settings | None = None):
        super().__init__(labels, settings)
        self.num_outputs = len(self.labels)

    def features(
        self, sentences: Sequence[TaggedSentence], tokenizer: Tokenizer, length: int
    ) -> WordFeatures:
        """Makes the windows of the sentences, with int32 [tokens] of ids and of segments for each.

        The `per_token["targets"]` are int32 [tokens, labels]: at a word's first token 1 for its
        labels and 0 for the others, and `NO_TARGET` (-1) elsewhere.
        """
        return sentence_windows.encode(sentences, self._targets, NO_TARGET, tokenizer, length)

    def _targets(self, sentence: TaggedSentence, counts: Sequence[int]) -> np.ndarray:
        """Returns the targets of a sentence's tokens; `counts` are the tokens of each word."""
        targets = np.full([sum(counts), self.num_outputs], NO_TARGET, np.int32)
        firsts = np.cumsum([0, *counts[:-1]])
        of_words = [_labels_of_word(tag) for tag in sentence.tags]
        targets[firsts] = [[label in own for label in self.labels] for own in of_words]
        return targets

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the token_multilabel losses: each word's sum of the cross-entropy of each label.

        Args:
          logits: float32 [tokens, labels].
          batch: the arrays of `packing.fill`, with `targets`, int32 [rows, row_length, labels].

        Returns:
          The losses; and the weights, 1 where a token has targets, else 0; float32 [tokens] each.
        """
        targets = tf.reshape(batch["targets"], [-1, self.num_outputs])
        weights = tf.cast(tf.not_equal(targets[:, 0], NO_TARGET), logits.dtype)
        has = tf.cast(tf.maximum(targets, 0), logits.dtype)
        losses = tf.nn.weighted_cross_entropy_with_logits(
            has, logits, self.settings.positive_weight
        )
        return tf.reduce_sum(losses, axis=-1) * weights, weights

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes the probability of each label, float32 [tokens, labels], of logits like that."""
        return tf.sigmoid(logits)

    def predictions(
        self,
        outputs: Sequence[np.ndarray],
        features: WordFeatures,
        sentences: Sequence[TaggedSentence],
    ) -> list[tuple[str, ...]]:
        """Returns the tags of each sentence: the labels of each word between bars, or O.

        Args:
          outputs: float32 [tokens, labels] for each window.
          features: of the sentences.
          sentences: examples.
        """
        of_words = sentence_windows.at_words(outputs, features, len(sentences))
        return [tuple(map(self._tag, own)) for own in of_words]

    def _tag(self, probabilities: Iterable[float]) -> str:
        """Returns the labels of a word, of which each is more probable than `_THRESHOLD`."""
        pairs = zip(self.labels, probabilities, strict=True)
        return "|".join(label for label, p in pairs if p > _THRESHOLD) or _NO_LABEL

    def entities(
        self,
        outputs: Sequence[np.ndarray],
        features: WordFeatures,
        sentences: Sequence[TaggedSentence],
        places: Sequence[Sequence[tuple[int, int]]],
        entity_type: str,
    ) -> list[list[Entity]]:
        """Returns each sentence's entities, which may overlap, in the order of their first words.

        A score is the product of the label's probabilities over the words. The `outputs` are
        float32 [tokens, labels] for each window; for the other arguments see `TaskType.entities`.
        """
        of_words = sentence_windows.at_words(outputs, features, len(sentences))
        return [
            self._entities_of(np.array(own), spans)
            for own, spans in zip(of_words, places, strict=True)
        ]

    def _entities_of(self, shares: np.ndarray, spans: Sequence[tuple[int, int]]) -> list[Entity]:
        """Returns the entities of a sentence.

        Args:
          shares: float64 [words, labels], the probabilities.
          spans: the first character of each word, and the one behind its last.
        """
        return [
            Entity(
                self.labels[label],
                spans[first][0],
                spans[last][1],
                round(math.prod(shares[first : last + 1, label].tolist()), 6),
            )
            for label, first, last in runs(shares > _THRESHOLD)
        ]

    @classmethod
    def read_hugging_face(
        cls, folder: str, labels: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns a token_multilabel model's "labels" and "words" ("punctuation"); no settings.

        Raises:
          UserError: a label is O or has a bar.
        """
        for label in labels:
            if label == _NO_LABEL or "|" in label:
                raise UserError(
                    f"{folder}/config.json has the label {label!r}: {cls.name} has bars between the"
                    f" labels of a word, and {_NO_LABEL} for none; name it otherwise in id2label."
                )
        return {"labels": list(labels), "words": "punctuation"}, {}

    def pipeline_warning(self) -> str:
        """Returns a sentence (str): a token may have no label, or several."""
        return (
            f"A token has each label whose sigmoid is above {_THRESHOLD}, and may have none. The "
            "pipeline of `transformers` gives each token the one with the highest logit."
        )
