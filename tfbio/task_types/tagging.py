"""Tagging the words of sentences: named entities, and the elements of PICO.

The first token of a word has the word's tag as its target, the others have none (Devlin et al.,
2019, section 5.3). Or sub-tokens are labelled separately (BioMegatron; Shin et al., 2020, section
5.1): then the others go on with the tag, B, I, I. The prediction for a word is that for its first
token; the tags of all tokens have further scores, see `token_scores`. A sentence that is longer
than the limit is seen in windows, see `sentence_windows`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tfbio.base.config import ConfigError, require
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats import tagged_words
from tfbio.formats.annotated_documents import Entity
from tfbio.formats.task_examples import TaggedSentence
from tfbio.models import crf
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import NO_TARGET, HeadConfig
from tfbio.task_types import prediction_files, sentence_windows, tag_schemes
from tfbio.task_types.common_settings import CommonSettings
from tfbio.task_types.entity_metrics import score_entities
from tfbio.task_types.own_task import OwnTask
from tfbio.task_types.sentence_windows import Window, WordFeatures, kept_by_electra
from tfbio.task_types.serving.served_tags import ServedTags
from tfbio.task_types.tag_schemes import bio_tags
from tfbio.task_types.tagging_settings import TaggingSettings
from tfbio.task_types.task_type import Score
from tfbio.task_types.token_scores import tagged_tokens, tags_of_tokens
from tfbio.task_types.trained_on import TrainedOn
from tfbio.task_types.word_type import WordType
from tfbio.text.tokenization import Tokenizer

if TYPE_CHECKING:
    from tfbio.models.task_model import TaskModel


def _read_tags(path: str, labels: Sequence[str] | None) -> list[TaggedSentence]:
    """Reads tagged words, of the types that have a B among the labels; see `OwnTask.read`."""
    if labels is None:
        return tagged_words.read(path)
    entity_types = [tag[2:] for tag in labels if tag[0] == "B"]
    sentences = tagged_words.read(path, entity_types)
    if len(entity_types) > 1 or not entity_types[0]:
        return sentences
    # The file may leave the only type out, which the training file has.
    typed = {tag[0]: tag for tag in labels}
    return [
        dataclasses.replace(sentence, tags=tuple(typed[tag[0]] for tag in sentence.tags))
        for sentence in sentences
    ]


def _score_tags(labels: Sequence[str]) -> Score:
    """Returns entity F1; every trial has the figures of all types, predicted or not."""
    return partial(score_entities, types=[tag[2:] for tag in labels if tag.startswith("B-")])


class Tagging(WordType):
    """The tagging task type, which gives each word one tag; see `TaskType` for its attributes.

    The schemes are those of Gu et al. (2021), Table 11; their text has U and L the wrong way
    round. IO cannot part entities that touch: with the gold tags as predictions, F1 on the test
    sets of BC5-chem, BC5-disease, NCBI-disease, BC2GM and JNLPBA is 0.997, 0.991, 0.992, 0.982 and
    0.983 (`tests/tfbio/task_types/test_tagging.py`).

    Args:
      labels: all tags, in BIO. The attribute `labels` has those of the settings' scheme.
      settings: a `TaggingSettings`; None for its defaults.

    Raises:
      ConfigError: the tags are not in BIO, and another scheme is wanted.
    """

    name = "tagging"
    Settings = TaggingSettings
    has_one_label = True
    has_probabilities = True
    served = ServedTags
    mentions = staticmethod(tag_schemes.entities)
    own_tasks = (OwnTask("ner", _read_tags, _score_tags, bio_tags, fewest=1),)

    settings: TaggingSettings

    def __init__(self, labels: Sequence[str], settings: TaggingSettings | None = None):
        super().__init__(labels, settings)
        self.labels = tag_schemes.labels_in_scheme(labels, self.settings.scheme)
        self.num_outputs = len(self.labels)

    @classmethod
    def from_settings(cls, labels: Sequence[str], config: CommonSettings) -> Self:
        """Makes the type; raises a ConfigError if a setting does not go with the others."""
        made = super().from_settings(labels, config)
        require(
            config.head_dropout_prob == 0 or made.settings.dropout,
            "head_dropout_prob is for heads with dropout, and tagging.dropout = false is for none: "
            "give one of the two.",
        )
        require(
            config.minority_weight == 1 or made.settings.head != "crf",
            "minority_weight is for the loss of each word, and tagging.head crf has that of whole "
            "sentences: leave it at 1, and give minority_copies.",
        )
        return made

    def check_encoder(self, encoder_config: EncoderConfig, folder: str) -> None:
        """Raises a ConfigError if the encoder lacks the segment that tagging gives its tokens."""
        segment, segments = self.settings.segment, encoder_config.type_vocab_size
        if segment >= segments:
            raise ConfigError(
                f"tagging.segment {segment} needs more than the {segments} segment(s) of the "
                f"encoder in {folder}."
            )

    def head_config(self, dropout_prob: float) -> HeadConfig:
        """Returns the shape of tagging's head: `num_outputs` for each token, layer and dropout."""
        return HeadConfig(
            self.num_outputs,
            of_tokens=True,
            dropout_prob=dropout_prob if self.settings.dropout else 0.0,
            mlp_layers=self.settings.mlp_layers,
            mlp_size=self.settings.mlp_size,
            token_layer=self.settings.head,
        )

    def features(
        self, sentences: Sequence[TaggedSentence], tokenizer: Tokenizer, length: int
    ) -> WordFeatures:
        """Makes tagging's windows of the sentences, in order, each as [CLS] tokens [SEP].

        Args:
          sentences: examples.
          tokenizer: the tokenizer of the encoder.
          length: the most tokens of a window, with [CLS] and [SEP].

        Returns:
          Features with int32 [tokens] of ids, of segments and of `per_token["targets"]` for each
          window; a target is the number of the tag, or NO_TARGET (-1).

        Raises:
          ValueError: a tag is not one of `labels`.
        """

        def cut_early(counts: Sequence[int], room: int) -> list[Window]:
            kept = kept_by_electra(counts, length)
            return [Window(0, kept, 0, kept)]

        features = sentence_windows.encode(
            sentences,
            lambda sentence, counts: self._targets(sentence.tags, counts),
            NO_TARGET,
            tokenizer,
            length,
            cut_early if self.settings.early_cut else sentence_windows.windows,
        )
        if not self.settings.segment:
            return features
        segments = [np.full_like(own, self.settings.segment) for own in features.segment_ids]
        return dataclasses.replace(features, segment_ids=segments)

    def _targets(self, tags: Sequence[str], counts: Sequence[int]) -> np.ndarray:
        """Returns the targets of a sentence's tokens, int32; `counts`: the tokens of each word."""
        firsts = np.cumsum([0, *counts[:-1]])
        if self.settings.label_all_tokens:
            firsts = np.arange(sum(counts))
            tags = tags_of_tokens(tags, counts)
        targets = np.full(sum(counts), NO_TARGET, np.int32)
        targets[firsts] = [
            self.labels.index(tag) for tag in tag_schemes.in_scheme(tags, self.settings.scheme)
        ]
        return targets

    def losses(self, logits: Any, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes tagging's cross-entropy at tokens with targets; a CRF's is of whole sequences.

        Both are summed up and divided by the number of targets: without transitions they are equal.

        Args:
          logits: float32 [tokens, tags]; of a CRF with its transitions, float32 [tags, tags].
          batch: the arrays of `packing.fill`, with `targets`, int32 [rows, row_length]; and
            `weights`, float32 [rows, row_length], where `balanced` has made them.

        Returns:
          The losses, float32 [tokens], of a CRF [rows]; and the weights, 0 without a target and
          else 1 or that in `weights`, float32 [tokens], of a CRF [rows, row_length].
        """
        if self.settings.head == "crf":
            weights = tf.cast(tf.not_equal(batch["targets"], NO_TARGET), tf.float32)
            return crf.losses(*_in_rows(logits, batch)), weights
        targets = tf.reshape(batch["targets"], [-1])
        weights = tf.cast(tf.not_equal(targets, NO_TARGET), logits.dtype)
        if "weights" in batch:
            weights *= tf.reshape(batch["weights"], [-1])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(targets, 0), logits)
        return losses * weights, weights

    def outputs(
        self, logits: tf.Tensor | tuple[tf.Tensor, tf.Tensor], batch: dict[str, tf.Tensor]
    ) -> tf.Tensor:
        """Computes the number of each token's best tag, int32 [tokens], from logits as in `losses`.

        A CRF's are the best sequence of those that have targets.
        """
        if self.settings.head == "crf":
            return tf.reshape(crf.decode(*_in_rows(logits, batch)), [-1])
        return tf.argmax(logits, axis=-1, output_type=tf.int32)

    def probabilities(
        self, logits: tf.Tensor | tuple[tf.Tensor, tf.Tensor], batch: dict[str, tf.Tensor]
    ) -> tf.Tensor:
        """Computes how probable each token's tag is, float32 [tokens]; of a CRF's its marginal."""
        if self.settings.head == "crf":
            each = crf.marginals(*_in_rows(logits, batch))
            each = tf.reshape(each, [-1, each.shape[-1]])
        else:
            each = tf.nn.softmax(logits)
        return tf.gather(each, self.outputs(logits, batch), batch_dims=1)

    def kept(self, features: WordFeatures, count: int) -> np.ndarray:
        """Counts the words of each sentence that get a tag in tagging: all, or those to the cut.

        They are int64 [count], in the order of the `count` sentences that `features` are of.
        """
        words = [len(own) for own in features.words]
        return np.bincount(features.example, words, count).astype(np.int64)

    def predictions(
        self,
        outputs: Sequence[np.ndarray],
        features: WordFeatures,
        sentences: Sequence[TaggedSentence],
    ) -> list[tuple[str, ...]]:
        """Returns tagging's prediction for each sentence: a tuple of the tags of all words, in BIO.

        Args:
          outputs: int32 [tokens] for each window.
          features: of the sentences.
          sentences: examples.
        """
        tags = [
            tag_schemes.in_bio([self.labels[label] for label in own], self.settings.scheme)
            for own in sentence_windows.at_words(outputs, features, len(sentences))
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
        """Returns the entities that tagging predicts; the score is the product over the words.

        Args:
          outputs: float32 [tokens, 2] for each window, the tags and their probabilities.
          features: of the sentences.
          sentences: sentences without tags.
          places: for each word of each sentence its first character, and the one behind its last.
          entity_type: the type of entities whose tags name none.
        """
        tags = self.predictions([own[:, 0].astype(int) for own in outputs], features, sentences)
        shares = sentence_windows.at_words([own[:, 1] for own in outputs], features, len(sentences))
        return [
            prediction_files.entities(own, spans, entity_type, probable)
            for own, spans, probable in zip(tags, places, shares, strict=True)
        ]

    def more_scores(
        self,
        score: Score,
        examples: Sequence[TaggedSentence],
        predicted: Sequence[tuple[str, ...]],
        features: WordFeatures,
        outputs: Sequence[np.ndarray],
    ) -> dict[str, float]:
        """Returns further scores of tagging: of tokens, and without the words behind a cut.

        With `label_all_tokens` "token_" is before the names of those of tokens (`token_scores`).
        With `early_cut` "bioelectra_code_" is before those without the words behind the cut, which
        do not count in `finetune/tagging/tagging_metrics.py:WordLevelScorer.update`.
        """
        more: dict[str, float] = {}
        if self.settings.label_all_tokens:
            own = tagged_tokens(outputs, features, examples, self.labels, self.settings.scheme)
            more |= {f"token_{name}": x for name, x in score(*own).items()}
        if self.settings.early_cut:
            kept = self.kept(features, len(examples))
            sentences = [
                dataclasses.replace(x, words=x.words[:count], tags=x.tags[:count])
                for x, count in zip(examples, kept, strict=True)
            ]
            seen = [x[:count] for x, count in zip(predicted, kept, strict=True)]
            more |= {f"bioelectra_code_{name}": x for name, x in score(sentences, seen).items()}
        return more

    @classmethod
    def write_predictions(
        cls, folder: str, split: str, examples: Sequence, predicted: Sequence, entity_type: str
    ) -> None:
        """Writes tagging's `SPLIT_predictions.tsv`, a word a line, and `SPLIT_entities.jsonl`."""
        super().write_predictions(folder, split, examples, predicted, entity_type)
        prediction_files.write_entities(folder, split, examples, predicted, entity_type)

    @classmethod
    def learnt_from(cls, examples: Sequence[TaggedSentence], entity_type: str) -> dict[str, Any]:
        """Returns the fields of `WordType`, and "entity_type" as given."""
        return super().learnt_from(examples, entity_type) | {"entity_type": entity_type}

    @classmethod
    def settings_for_new_text(cls, settings: TaggingSettings) -> TaggingSettings:
        """Returns tagging's settings without `early_cut`, for whole sentences of new text."""
        return dataclasses.replace(settings, early_cut=False)

    def portable_settings(self) -> TaggingSettings:
        """Returns tagging's settings with segment 0, all that `transformers` gives to tokens."""
        return dataclasses.replace(self.settings, segment=0)

    def copy_head(self, model: TaskModel, portable: TaskModel) -> None:
        """Copies tagging's head into `portable`, and moves its segment there to place 0."""
        super().copy_head(model, portable)
        segments = model.encoder.embeddings.segment
        segments = tf.roll(segments, -self.settings.segment, axis=0)
        portable.encoder.embeddings.segment.assign(segments)

    @classmethod
    def read_hugging_face(
        cls, folder: str, labels: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns a tagging model's "labels" in BIO, and its "scheme" as a setting.

        Of `TrainedOn` also "entity_type", "", and "words", "punctuation". Raises a UserError if the
        labels are no tags.
        """
        tags, scheme = tag_schemes.tags_and_scheme(labels, folder)
        known = {"labels": tags, "entity_type": "", "words": "punctuation"}
        return known, {"scheme": scheme}

    def hugging_face_labels(self, known: TrainedOn) -> list[str]:
        """Returns the tags, in their order, with `known.entity_type` where they have no type."""
        named = known.entity_type
        if not named:
            return list(self.labels)
        return [x if x == "O" or "-" in x else f"{x}-{named}" for x in self.labels]

    def pipeline_warning(self) -> str:
        """Returns sentences (str) on BIOUL, and on tokens that have no target; "" without both."""
        said = []
        if self.settings.scheme == "BIOUL":
            said.append(
                "The pipeline of `transformers` knows the tags B and I alone, and cuts an entity "
                "before its L: read U as B, and L as I."
            )
        if not self.settings.label_all_tokens:
            said.append(
                "Only the first token of a word has learnt its tag: read that one, which the "
                "encoding's `word_ids()` tells. The default strategy of the pipeline of "
                "`transformers` gives other entities."
            )
        return " ".join(said)


def _in_rows(
    logits: tuple[tf.Tensor, tf.Tensor], batch: dict[str, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the arguments of `crf.losses` and `crf.decode`."""
    # Imported late: the layers need TensorFlow at once.
    from tfbio.models.layers import shape_of

    emissions, transitions = logits
    targets, documents = batch["targets"], batch["document_ids"]
    emissions = tf.reshape(emissions, [*shape_of(targets), emissions.shape[-1]])
    return emissions, transitions, targets, documents
