"""Tagging the words of sentences: named entities, and the elements of PICO.

The first token of a word has the word's tag as its target, the others have none (Devlin et al.,
2019, section 5.3). Or sub-tokens are labelled separately (BioMegatron; Shin et al., 2020, section
5.1): then the others go on with the tag, B, I, I. The prediction for a word is that for its first
token. A sentence that is longer than the limit is seen in windows, see `word_windows`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tfbio.base.cli import UserError
from tfbio.base.config import ConfigError
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats import task_files
from tfbio.formats.entities import Entity
from tfbio.formats.task_examples import TaggedSentence
from tfbio.models import crf
from tfbio.models.batches import NO_TARGET
from tfbio.task_types import predictions, tag_schemes, word_windows
from tfbio.task_types import words as word_rules
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.scores import Scores
from tfbio.task_types.serving.served_tags import ServedTags
from tfbio.task_types.task import OwnTask, bio_tags, score_entities
from tfbio.task_types.task_type import Score, TaskType
from tfbio.task_types.word_windows import Window, WordFeatures
from tfbio.text.tokenization import Tokenizer


def _read_tags(path: str, labels: Sequence[str] | None) -> list[TaggedSentence]:
    """Reads tagged words, of the types that have a B among the labels; see `OwnTask.read`."""
    entity_types = None if labels is None else [tag[2:] for tag in labels if tag[0] == "B"]
    return task_files.read_tagged_words(path, entity_types)


def _score_tags(labels: Sequence[str]) -> Score:
    """Returns entity F1; every trial has the figures of all types, predicted or not."""
    return partial(score_entities, types=[tag[2:] for tag in labels if tag.startswith("B-")])


def kept_by_electra(counts: Sequence[int], length: int) -> int:
    """How many words of a sentence the original ELECTRA code keeps.

    It stops at the first word before which there are so many tokens that they, the number of all
    the sentence's words, [CLS] and [SEP] among them, and 1 are more than `length`
    (finetune/tagging/tagging_tasks.py, `TaggingTask.featurize`). That is a mistake, which cuts much
    too early: to be sure that all words fit, it takes one token for each.

    Args:
      counts: the tokens of each word.
      length: the most tokens of a sentence, with [CLS] and [SEP].
    """
    before = 1 + np.cumsum([0, *counts])  # tokens before each word and [SEP], with [CLS]
    stops = before + len(counts) + 2 + 1 > length
    kept = int(stops.argmax()) if stops[:-1].any() else len(counts)
    # A last word of many tokens might not fit.
    return min(kept, int(np.searchsorted(before[1:] + 1, length, side="right")))


class Tagging(TaskType):
    """A tag for each word of a sentence.

    The schemes are those of Gu et al. (2021), Table 11; their text has U and L the wrong way
    round. IO cannot part entities that touch: with the gold tags as predictions, F1 on the test
    sets of BC5-chem, BC5-disease, NCBI-disease, BC2GM and JNLPBA is 0.997, 0.991, 0.992, 0.982 and
    0.983 (`tests/tfbio/task_types/test_tagging.py`).

    Args:
      labels: all tags, in BIO.
      scheme: what the model learns: "BIO", "IO" or "BIOUL".
      label_all_tokens: whether all tokens of a word have targets, or the first.
      head: of `TaskModel`.
      segment: of every token.
      early_cut: whether sentences are cut by `kept_by_electra`, and not seen in windows; words
        behind the cut have no target, and are predicted as O.

    Raises:
      ConfigError: the tags are not in BIO, and another scheme is wanted.
    """

    name = "tagging"
    settings = (
        "tagging_head",
        "tagging_scheme",
        "label_all_tokens",
        "tagging_segment",
        "tagging_dropout",
        "tagging_early_cut",
    )
    of_tokens = True
    has_probabilities = True
    new_text = "documents"
    served = ServedTags
    hugging_face_class = "ForTokenClassification"
    own_tasks = (OwnTask("ner", _read_tags, _score_tags, bio_tags),)

    def __init__(
        self,
        labels: Sequence[str],
        scheme: str = "BIO",
        label_all_tokens: bool = False,
        head: str = "linear",
        segment: int = 0,
        early_cut: bool = False,
    ):
        self.segment, self.early_cut = segment, early_cut
        self.scheme, self.label_all_tokens, self.head = scheme, label_all_tokens, head
        self.labels = tuple(labels)
        if scheme != "BIO":
            types = [label[1:] for label in labels if label[0] == "B"]
            if len(labels) != 1 + 2 * len(types):
                raise ConfigError(
                    f"tagging_scheme {scheme} needs a task with a B and an I of each type, this "
                    f"one has {', '.join(labels)}: leave it at BIO, which takes tags as they are."
                )
            letters = {"IO": "I", "BIOUL": "BIUL"}[scheme]
            self.labels = (
                "O",
                *(letter + entity_type for entity_type in types for letter in letters),
            )
        self.num_outputs = len(self.labels)

    @classmethod
    def from_settings(cls, labels: Sequence[str], config: FinetuningConfig) -> Tagging:
        return cls(
            labels,
            config.tagging_scheme,
            config.label_all_tokens,
            config.tagging_head,
            config.tagging_segment,
            config.tagging_early_cut,
        )

    def features(
        self, sentences: Sequence[TaggedSentence], tokenizer: Tokenizer, length: int
    ) -> WordFeatures:
        """Makes the windows of the sentences, in order, each as [CLS] tokens [SEP].

        Args:
          sentences: examples.
          tokenizer: see `tokenization.load_tokenizer`.
          length: the most tokens of a window, with [CLS] and [SEP].
        """

        def seen(counts: Sequence[int], room: int) -> list[Window]:
            kept = kept_by_electra(counts, length)
            return [Window(0, kept, 0, kept)]

        features = word_windows.encode(
            sentences,
            lambda sentence, counts: self._targets(sentence.tags, counts),
            NO_TARGET,
            tokenizer,
            length,
            seen if self.early_cut else word_windows.windows,
        )
        if not self.segment:
            return features
        segments = [np.full_like(own, self.segment) for own in features.segment_ids]
        return dataclasses.replace(features, segment_ids=segments)

    def _targets(self, tags: Sequence[str], counts: Sequence[int]) -> np.ndarray:
        """The targets of a sentence's tokens, int32; `counts` are the tokens of each word."""
        firsts = np.cumsum([0, *counts[:-1]])
        if self.label_all_tokens:
            firsts = np.arange(sum(counts))
            tags = [
                tag if part == 0 or tag == "O" else f"I{tag[1:]}"
                for tag, count in zip(tags, counts, strict=True)
                for part in range(count)
            ]
        targets = np.full(sum(counts), NO_TARGET, np.int32)
        targets[firsts] = [
            self.labels.index(tag) for tag in tag_schemes.in_scheme(tags, self.scheme)
        ]
        return targets

    def losses(
        self, logits: tf.Tensor | tuple[tf.Tensor, tf.Tensor], batch: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Cross-entropy at the tokens that have targets, or a CRF's, of whole sequences.

        Both are summed up and divided by the number of targets: without transitions they are equal.

        Args:
          logits: float32 [tokens, tags], and a CRF's transitions.
          batch: see `packing.fill`.

        Returns:
          The losses, float32 [tokens], of a CRF [rows]; and the weights, 0 or 1, float32 [tokens].
        """
        if self.head == "crf":
            weights = tf.cast(tf.not_equal(batch["targets"], NO_TARGET), tf.float32)
            return crf.losses(*_in_rows(logits, batch)), weights
        targets = tf.reshape(batch["targets"], [-1])
        weights = tf.cast(tf.not_equal(targets, NO_TARGET), logits.dtype)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(targets, 0), logits)
        return losses * weights, weights

    def outputs(
        self, logits: tf.Tensor | tuple[tf.Tensor, tf.Tensor], batch: dict[str, tf.Tensor]
    ) -> tf.Tensor:
        """What leaves the device: the best tag of each token, int32 [tokens].

        A CRF's are the best sequence of those that have targets.
        """
        if self.head == "crf":
            return tf.reshape(crf.decode(*_in_rows(logits, batch)), [-1])
        return tf.argmax(logits, axis=-1, output_type=tf.int32)

    def probabilities(
        self, logits: tf.Tensor | tuple[tf.Tensor, tf.Tensor], batch: dict[str, tf.Tensor]
    ) -> tf.Tensor:
        """How probable the tag of `outputs` is for each token, float32 [tokens].

        Of a CRF its marginal: over all sequences of tags.
        """
        if self.head == "crf":
            each = crf.marginals(*_in_rows(logits, batch))
            each = tf.reshape(each, [-1, each.shape[-1]])
        else:
            each = tf.nn.softmax(logits)
        return tf.gather(each, self.outputs(logits, batch), batch_dims=1)

    def kept(self, features: WordFeatures, count: int) -> np.ndarray:
        """How many words of each of `count` sentences have a tag, int64: all, or up to the cut."""
        words = [len(own) for own in features.words]
        return np.bincount(features.example, words, count).astype(np.int64)

    def predictions(
        self, outputs: list[np.ndarray], features: WordFeatures, sentences: Sequence[TaggedSentence]
    ) -> list[tuple[str, ...]]:
        """The tags of each sentence, in BIO.

        Args:
          outputs: int32 [tokens] for each window.
          features: of the sentences.
          sentences: examples.
        """
        tags = [
            tag_schemes.in_bio([self.labels[label] for label in own], self.scheme)
            for own in word_windows.at_words(outputs, features, len(sentences))
        ]
        # Only an early cut leaves words without a tag.
        return [
            (*own, *["O"] * (len(sentence.words) - len(own)))
            for own, sentence in zip(tags, sentences, strict=True)
        ]

    def entities(
        self,
        outputs: Sequence[np.ndarray],
        features: WordFeatures,
        sentences: Sequence[TaggedSentence],
        places: Sequence[Sequence[tuple[int, int]]],
        entity_type: str,
    ) -> list[list[Entity]]:
        """Finds the entities by their tags; the score is the product over the words."""
        tags = self.predictions([own[:, 0].astype(int) for own in outputs], features, sentences)
        shares = word_windows.at_words([own[:, 1] for own in outputs], features, len(sentences))
        return [
            predictions.entities(own, spans, entity_type, probable)
            for own, spans, probable in zip(tags, places, shares, strict=True)
        ]

    @classmethod
    def one_answer(cls, score: Score, dev: Sequence, test: Sequence) -> tuple[str, Scores]:
        return "O for every word", score(test, [("O",) * len(example.words) for example in test])

    def authors_scores(
        self,
        score: Score,
        examples: Sequence[TaggedSentence],
        predicted: Sequence[tuple[str, ...]],
        features: WordFeatures,
        outputs: Sequence[np.ndarray],
    ) -> dict[str, float]:
        """Scores without the words behind an early cut.

        They do not count in `finetune/tagging/tagging_metrics.py:WordLevelScorer.update`.
        """
        if not self.early_cut:
            return {}
        kept = self.kept(features, len(examples))
        sentences = [
            dataclasses.replace(x, words=x.words[:count], tags=x.tags[:count])
            for x, count in zip(examples, kept, strict=True)
        ]
        return score(sentences, [x[:count] for x, count in zip(predicted, kept, strict=True)])

    @classmethod
    def describe(cls, examples: Sequence[TaggedSentence], predicted: Sequence) -> str:
        true, found = (
            sum(len(tag_schemes.entities(tags)) for tags in own)
            for own in ((sentence.tags for sentence in examples), predicted)
        )
        documents = len({sentence.document for sentence in examples} - {""})
        place = f" of {documents:,} documents" if documents else ""
        return f"{len(examples):,} sentences{place} with {true:,} entities, {found:,} predicted"

    @classmethod
    def write_predictions(
        cls, folder: str, split: str, examples: Sequence, predicted: Sequence, entity_type: str
    ) -> None:
        """Writes `SPLIT_predictions.tsv`, and `SPLIT_entities.jsonl` with their characters."""
        predictions.write_words(folder, split, examples, predicted)
        predictions.write_entities(folder, split, examples, predicted, entity_type)

    @classmethod
    def read_predictions(cls, path: str) -> tuple[list[TaggedSentence], list[tuple[str, ...]]]:
        return predictions.read_words(path)

    @classmethod
    def learnt_from(cls, examples: Sequence[TaggedSentence], entity_type: str) -> dict[str, Any]:
        rule = word_rules.rule_of(examples)
        return {"markers": False, "entity_type": entity_type, "words": rule}

    @classmethod
    def read_hugging_face(
        cls, folder: str, labels: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Takes words as BERT's tokenizer sees them; tags without a type stay so."""
        tags, scheme = _tags_and_scheme(folder, labels)
        known = {"labels": tags, "entity_type": "", "words": "punctuation"}
        return known, {"tagging_scheme": scheme}

    def hugging_face_labels(self, known: dict[str, Any]) -> list[str]:
        """Returns the tags, with the type of the entities where they have none."""
        named = known["entity_type"]
        if not named:
            return list(self.labels)
        return [x if x == "O" or "-" in x else f"{x}-{named}" for x in self.labels]


def _tags_and_scheme(folder: str, labels: Sequence[str]) -> tuple[list[str], str]:
    """Returns the tags in BIO, and the scheme of the labels, in their order."""
    if "O" in labels and all(re.fullmatch(r"O|[BI](-.+)?", label) for label in labels):
        return list(labels), "BIO"
    types = dict.fromkeys(label[1:] for label in labels if label != "O")
    tags = ["O", *(letter + name for name in types for letter in "BI")]
    if list(Tagging(tags, "BIOUL").labels) == list(labels):
        return tags, "BIOUL"
    raise UserError(
        f"{folder}/config.json has the labels {', '.join(labels)}: tagging takes O with tags such "
        "as B-Chemical and I-Chemical; if these are such tags, name them so in id2label."
    )


def _in_rows(
    logits: tuple[tf.Tensor, tf.Tensor], batch: dict[str, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The arguments of `crf.losses` and `crf.decode`."""
    # Imported late: the layers need TensorFlow at once.
    from tfbio.models.layers import shape_of

    emissions, transitions = logits
    targets, documents = batch["targets"], batch["document_ids"]
    emissions = tf.reshape(emissions, [*shape_of(targets), emissions.shape[-1]])
    return emissions, transitions, targets, documents
