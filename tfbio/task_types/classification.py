"""One of several classes for each text or pair of texts, such as relations of two entities."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tfbio.base.config import require, setting
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats import relations
from tfbio.formats.task_examples import LabelledText
from tfbio.models.head_config import ENTITY_POOLINGS
from tfbio.task_types import trivial
from tfbio.task_types.features import Features
from tfbio.task_types.label_metrics import score_classes, score_relations
from tfbio.task_types.metrics import Scores
from tfbio.task_types.own_task import OwnTask, own_table
from tfbio.task_types.task_type import Score
from tfbio.task_types.texts import TextSettings, TextType, encode
from tfbio.task_types.trained_on import TrainedOn
from tfbio.text.tokenization import Tokenizer


def _score_relations(labels: tuple[str, ...]) -> Score:
    """Returns the score of relations, of which the first label is that there is none."""
    return partial(score_relations, negative=labels[0], types=labels[1:])


class Classification(TextType):
    """The task type "classification", which gives each text or pair of texts one class of several.

    Args:
      labels: all classes, in the order of the model's outputs.
      settings: a `Classification.Settings`; None for its defaults.

    Attributes:
      labels: the classes, a tuple of strings.
      settings: the settings in use.
      num_outputs: the number of logits of a text, one for each class.
    """

    name = "classification"
    has_one_label = True
    problem_type = "single_label_classification"
    own_tasks = (
        OwnTask("classification", own_table("text", "label"), lambda _: score_classes, fewest=2),
        OwnTask(
            "relation", own_table("text", "label"), _score_relations, fewest=2, has_negative=True
        ),
        OwnTask("pair", own_table("text", "pair", "label"), lambda _: score_classes, fewest=2),
    )

    @dataclasses.dataclass(frozen=True)
    class Settings(TextSettings):
        """The settings of the task type "classification".

        Attributes:
          pooling: "first", "mean", "mention", "mention_mean" or "entity_start", the vector of a
            text.
          text_head, mlp_layers, mlp_size: see `TextSettings`.
          entity_markers: True to see relations that have markers with them.

        Raises:
          ConfigError: a value is out of its limits, or does not go with `pooling`.
        """

        group = "classification."

        pooling: str = setting(
            "first",
            "What the head sees of a text. first: the output for [CLS], as in the papers; mean: "
            "that over all tokens; of relations also mention: the maximum over the tokens of both "
            "entities; mention_mean: their mean; entity_start: the markers before them (see "
            "tfbio/formats/relations.py).",
            choices=("first", "mean", *ENTITY_POOLINGS),
        )
        entity_markers: bool = setting(
            True,
            "true: relations are read with markers of their entities; false: the original text.",
        )

        def check_together(self) -> None:
            """Checks the settings of classification against each other; returns nothing.

            Raises:
              ConfigError: `pooling` does not go with `text_head`, or needs `entity_markers`.
            """
            super().check_together()
            require(
                self.entity_markers or self.pooling != "entity_start",
                "classification.pooling entity_start needs classification.entity_markers to be "
                "true",
            )

    settings: Settings

    def __init__(self, labels: Sequence[str], settings: Settings | None = None):
        super().__init__(labels, settings)
        self.num_outputs = len(self.labels)

    @property
    def placeholder(self) -> str:
        """The first class, a string, which stands for a class that is not known."""
        return self.labels[0]

    def new_tokens(self, known: TrainedOn) -> tuple[str, ...]:
        """Returns the tokens that classification of relations adds to the vocabulary.

        Args:
          known: the facts about the task in `config.json`.

        Returns:
          The markers ("[S1]", "[E1]", "[S2]", "[E2]") if the texts have markers and
          `entity_markers` is True, else ().
        """
        return relations.MARKERS if self.settings.entity_markers and known.markers else ()

    def features(self, examples: Sequence, tokenizer: Tokenizer, length: int) -> Features:
        """Encodes texts for classification, each example as one window.

        Args:
          examples: the texts or pairs, `LabelledText`.
          tokenizer: the tokenizer of the encoder.
          length: the most tokens of a window; longer texts are cut.

        Returns:
          `Features` in the order of the examples. `per_window["targets"]` is int32 [], the number
          of the class, for each window. With pooling by entities also `positions["entities"]`,
          int64 [2, most tokens] for each window, the tokens of both entities, which ascend; the
          last one of an entity fills up its row.

        Raises:
          TaskFileError: a text lacks the markers or dummies that the settings need.
          KeyError: the label of an example is none of the classes.
        """
        numbers = {label: number for number, label in enumerate(self.labels)}
        targets = [np.array(numbers[example.label], np.int32) for example in examples]
        pooling, with_markers = self.settings.pooling, self.settings.entity_markers
        if pooling not in ENTITY_POOLINGS and with_markers:
            return encode(examples, targets, tokenizer, length)
        found = [relations.find(x, pooling, with_markers) for x in examples]
        examples = [
            dataclasses.replace(example, text=text)
            for example, (text, _) in zip(examples, found, strict=True)
        ]
        features = encode(examples, targets, tokenizer, length)
        if pooling not in ENTITY_POOLINGS:
            return features
        encoded = tokenizer.encode([text for text, _ in found])
        entities = [
            # After [CLS]; what is cut off has the place of the text's [SEP].
            [np.minimum(1 + _tokens(e.offsets, span), _end(ids, tokenizer)) for span in spans]
            for e, (_, spans), ids in zip(encoded, found, features.input_ids, strict=True)
        ]
        most = max(len(tokens) for both in entities for tokens in both)
        padded = [np.stack([_padded(tokens, most) for tokens in both]) for both in entities]
        return dataclasses.replace(features, positions={"entities": padded})

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the loss of classification, each text's cross-entropy over the classes.

        Args:
          logits: float32 [texts, classes].
          batch: the arrays of `packing.fill`, with `targets`, int32 [texts]; and `weights`, float32
            [texts], where `balanced` has made them.

        Returns:
          The losses, and their weights, 1 or those in `weights`, float32 [texts] each.
        """
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["targets"], logits)
        if "weights" in batch:
            return losses * batch["weights"], batch["weights"]
        return losses, tf.ones_like(losses)

    def outputs(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Computes the probabilities of the classes for each text.

        Args:
          logits: float32 [texts, classes].
          batch: not used.

        Returns:
          float32 [texts, classes]; each row adds up to 1.
        """
        return tf.nn.softmax(logits)

    def predictions(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[LabelledText]
    ) -> list[str]:
        """Returns the most probable class of each text, as a string.

        Args:
          outputs: the probabilities of the classes for each example, float32 [classes].
          features: not used.
          examples: not used.
        """
        return [self.labels[number] for number in np.argmax(outputs, axis=-1)]

    def served_outputs(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the tensors that a SavedModel of classification gives for texts, by name.

        Args:
          outputs: float32 [texts, classes], the probabilities.

        Returns:
          `probabilities`, float32 [texts, classes]; `labels`, the classes, strings [texts,
          classes]; and `label`, the most probable class, strings [texts].
        """
        best = tf.gather(tf.constant(self.labels), tf.argmax(outputs, axis=-1))
        return {**super().served_outputs(outputs), "label": best}

    @classmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        """Scores, for classification, the single class for all texts that does best on dev.

        Args:
          score: `Task.score`, (examples, predictions) -> `Scores`.
          dev: the development examples.
          test: the test examples.

        Returns:
          "CLASS for every text", and the `Scores` of this answer on the test set.

        Raises:
          ValueError: there are no development examples.
          ScoreError: there are no test examples.
        """
        labels = [example.label for example in dev]
        best = trivial.best_label(labels, lambda label: score(dev, [label] * len(dev)))
        return f"{best} for every text", score(test, [best] * len(test))

    @classmethod
    def learnt_from(cls, examples: Sequence[LabelledText], entity_type: str) -> dict[str, Any]:
        """Returns the facts about a classification task that its training examples tell.

        Args:
          examples: the training examples.
          entity_type: not used.

        Returns:
          Fields of `TrainedOn`: "pairs", True if an example has a second text, and "markers", True
          if a text has markers about the entities of a relation.
        """
        markers = relations.are_marked(examples)
        return {**super().learnt_from(examples, entity_type), "markers": markers}

    @classmethod
    def fits_hugging_face(cls, said: dict[str, Any], labels: Sequence[str]) -> bool:
        """Returns True if a sequence classifier of `transformers` is of the type "classification".

        Its `problem_type` is "single_label_classification"; or it has none, and more than one
        label, as `transformers` decides, too.

        Args:
          said: the content of its `config.json`.
          labels: its labels, in the order of the outputs.
        """
        if said.get("problem_type") is None:
            return len(labels) > 1
        return super().fits_hugging_face(said, labels)


def _padded(tokens: np.ndarray, most: int) -> np.ndarray:
    """Returns the tokens, int64 [n], with the last one again up to `most` of them."""
    return np.pad(tokens, (0, most - len(tokens)), "edge")


def _end(ids: np.ndarray, tokenizer: Tokenizer) -> int:
    """Returns the place of the [SEP] behind the first text of a window."""
    return int(np.argmax(ids == tokenizer.sep_id))


def _tokens(offsets: Sequence[tuple[int, int]], span: tuple[int, int]) -> np.ndarray:
    """Returns the tokens, int64, that have characters of a span; `offsets` are of the tokens."""
    starts, ends = np.array(offsets).T
    tokens = np.flatnonzero((starts < span[1]) & (ends > span[0]))
    # What has no token, since its characters are dropped, has the place of what is cut off.
    return tokens if len(tokens) else np.array([len(offsets)])
