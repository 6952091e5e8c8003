"""Texts, and pairs of texts, as a model sees them: for classes, scores and several labels.

What the model sees of a text or a pair, `tokenization.Tokenizer.join` says. What is too long is cut
at its end, of a pair the longer text first, as in the original BERT and ELECTRA code.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbio.base import messages
from tfbio.base.config import BaseSettings, require, setting
from tfbio.base.lazy import tensorflow as tf
from tfbio.formats import relations
from tfbio.formats.task_examples import LabelledText
from tfbio.models.head_config import HeadConfig
from tfbio.task_types import prediction_files
from tfbio.task_types.features import Features
from tfbio.task_types.mlp_settings import check_mlp
from tfbio.task_types.outcomes import Outcome, of_labels
from tfbio.task_types.serving.served_texts import ServedTexts
from tfbio.task_types.task_type import TaskType
from tfbio.text import tokenization


def encode(
    examples: Sequence[LabelledText],
    targets: list[np.ndarray],
    tokenizer: tokenization.Tokenizer,
    length: int,
) -> Features:
    """Encodes texts, or pairs of texts, as one window each, for all task types of texts.

    What is too long is cut at its end, of a pair the longer text first.

    Args:
      examples: texts, or pairs of them.
      targets: of each example, an array of any shape and dtype.
      tokenizer: the tokenizer of the encoder.
      length: the most tokens of a window, with [CLS] and [SEP].

    Returns:
      Features with a window for each example: int32 [tokens] of ids and of segments, and its target
      as given in `per_window["targets"]`.
    """
    texts = [text for example in examples for text in (example.text, example.pair)]
    encoded = [e.ids for e in tokenizer.encode(texts)]
    input_ids, segment_ids = [], []
    for example, first, second in zip(examples, encoded[::2], encoded[1::2], strict=True):
        is_pair = bool(example.pair)
        first, second = _cut(first, second, length - tokenizer.special_tokens(is_pair))
        ids, segments = tokenizer.join(first, second if is_pair else None)
        input_ids.append(ids)
        segment_ids.append(segments)
    numbers = np.arange(len(examples))
    return Features(input_ids, segment_ids, numbers, per_window={"targets": targets})


def _cut(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """Cuts the longer one until both fit together, and the second one where they are even."""
    over = len(first) + len(second) - room
    if over <= 0:
        return first, second
    difference = len(first) - len(second)
    from_longer = min(over, abs(difference))
    keep_first, keep_second = len(first), len(second)
    if difference > 0:
        keep_first -= from_longer
    else:
        keep_second -= from_longer
    rest = over - from_longer
    return first[: keep_first - rest // 2], second[: keep_second - (rest - rest // 2)]


@dataclasses.dataclass(frozen=True)
class TextSettings(BaseSettings):
    """The settings that all task types of texts have.

    Attributes:
      pooling: "first" or "mean", the vector of a text: the output for [CLS], or the mean over
        tokens.
      text_head: "linear", "tanh", "gelu", "mlp" or "lstm", the layers between the encoder and the
        last layer.
      mlp_layers, mlp_size: the layers of "mlp", and the units of each; 0 for as many as the
        encoder has.

    Raises:
      ConfigError: a value is out of its limits, or `text_head` does not go with the others.
    """

    added = {"mlp_layers": 1, "mlp_size": 0}

    pooling: str = setting(
        "first",
        "What the head sees of a text. first: the output for [CLS], as in the papers; mean: that "
        "over all tokens.",
        choices=("first", "mean"),
    )
    text_head: str = setting(
        "linear",
        "What is between the output for [CLS] and the last layer. linear: nothing, as in the "
        "original ELECTRA code; tanh: a dense layer with tanh, which is BERT's pooler and the head "
        "of RoBERTa and ALBERT; gelu: one with gelu, as Hugging Face's ELECTRA has it; mlp: layers "
        "with ReLU, on what pooling gives; lstm: a Bi-LSTM over the tokens, below pooling, which "
        "takes the last states of both directions where it is first.",
        choices=("linear", "tanh", "gelu", "mlp", "lstm"),
    )
    mlp_layers: int = setting(1, "With text_head mlp: its layers below the last one.", at_least=1)
    mlp_size: int = setting(
        0, "With text_head mlp: the units of each layer; 0: as many as the encoder has."
    )

    def check_together(self) -> None:
        """Checks that the head of texts goes with their pooling; returns nothing.

        Raises:
          ConfigError: `text_head` is "tanh" or "gelu", and `pooling` is not "first"; or a setting
            of "mlp" is changed, and `text_head` is another.
        """
        require(
            self.text_head not in ("tanh", "gelu") or self.pooling == "first",
            f"{self.group}text_head {self.text_head} is for the output for [CLS]: it goes with "
            f"pooling first, not {self.pooling}",
        )
        check_mlp(self, "text_head")


class TextType(TaskType):
    """The base class of the task types of texts: classification, regression and multilabel.

    Its examples are `LabelledText`, whose label is one cell of a table of predictions. It has the
    attributes of `TaskType`.
    """

    Settings = TextSettings
    new_text = "texts"
    served = ServedTexts
    hugging_face_class = "ForSequenceClassification"
    hugging_face_head = ""

    settings: TextSettings

    def head_config(self, dropout_prob: float) -> HeadConfig:
        """Returns the shape of a head for texts: `num_outputs`, the settings' pooling and layer.

        Args:
          dropout_prob: the probability of dropout before its last layer.
        """
        settings, has_lstm = self.settings, self.settings.text_head == "lstm"
        return HeadConfig(
            self.num_outputs,
            of_tokens=False,
            dropout_prob=dropout_prob,
            pooling=settings.pooling,
            text_layer="linear" if has_lstm else settings.text_head,
            mlp_layers=settings.mlp_layers,
            mlp_size=settings.mlp_size,
            token_layer="lstm" if has_lstm else "linear",
        )

    @classmethod
    def cell(cls, label: Any) -> str:
        """Returns a text's label, true or predicted, as the content of a cell in a table of texts.

        By default it is `str(label)`; `label_in` reads it.
        """
        return str(label)

    @classmethod
    def label_in(cls, cell: str) -> Any:
        """Reads a text's label that `cell` wrote in a table of texts; by default the cell as it is.

        Returns:
          A class (a str), a score (a float) or a tuple of labels, as the task type has them.

        Raises:
          ValueError: `cell` did not write this.
        """
        return cell

    @classmethod
    def names_of(cls, label: Any) -> tuple[str, ...]:
        """Returns a text's label, true or predicted, as names to count; by default (label,)."""
        return (label,)

    def record(self, label: Any, output: np.ndarray) -> dict[str, Any]:
        """Returns what `--mode=predict` writes of a text of any text type, beside its id.

        Args:
          label: the prediction, a class or a tuple of labels.
          output: float32 [labels], their probabilities.

        Returns:
          "label", as given, and "probabilities", label -> probability, rounded to 6 digits.

        Raises:
          ValueError: there are not as many probabilities as labels.
        """
        pairs = zip(self.labels, output, strict=True)
        return {"label": label, "probabilities": {name: round(float(p), 6) for name, p in pairs}}

    def served_outputs(self, outputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the tensors that text types give in a SavedModel, by name.

        Args:
          outputs: float32 [texts, labels], their probabilities.

        Returns:
          `probabilities`, float32 [texts, labels], and `labels`, their names, strings [texts,
          labels].
        """
        labels = tf.tile(tf.constant(self.labels)[tf.newaxis], [tf.shape(outputs)[0], 1])
        return {"probabilities": outputs, "labels": labels}

    def describe_lengths(self, features: Sequence[Features], count: int, length: int) -> str:
        """Returns a sentence on how many texts fill their one window, and may be cut; "" for none.

        Args:
          features: of each split.
          count: the texts of all splits.
          length: the most tokens of a window.
        """
        full = sum(int((own.lengths == length).sum()) for own in features)
        if not full:
            return ""
        return f"{full} of {count} texts fill sequence_length = {length}: the longer are cut."

    @classmethod
    def content(cls, example: LabelledText) -> tuple[list[str], list[str]]:
        """Returns what tells texts of test sets apart: text and pair, and the names of the labels.

        Returns:
          Two texts, the pair's "" without one, with single blanks and with dummies for a relation's
          entities; and the labels of `names_of`, sorted.
        """
        texts = (relations.with_dummies(text) for text in (example.text, example.pair))
        labels = sorted(cls.names_of(example.label))
        return [" ".join(text.split()) for text in texts], labels

    @classmethod
    def describe(cls, examples: Sequence[LabelledText], predicted: Sequence) -> str:
        """Returns "N texts: " with the counts of the texts' labels, true and predicted ones.

        It is one line. A label is counted by `names_of`; "no label" stands for none.
        """
        true, found = (
            messages.counted(Counter(name for label in labels for name in cls.names_of(label)))
            for labels in ([example.label for example in examples], predicted)
        )
        count = f"{len(examples):,} texts"
        return f"{count}: {true or 'no label'}; predicted: {found or 'no label'}"

    @classmethod
    def outcomes(
        cls, examples: Sequence[LabelledText], predicted: Sequence, entity_type: str
    ) -> Counter[Outcome]:
        """Counts the outcomes of the labels of texts, see `LabelOutcomes`; a score has none."""
        return of_labels([example.label for example in examples], predicted)

    @classmethod
    def write_predictions(
        cls, folder: str, split: str, examples: Sequence, predicted: Sequence, entity_type: str
    ) -> None:
        """Writes the predictions for texts, a line each, as the table `SPLIT_predictions.tsv`.

        Args:
          folder: the path of a trial's folder.
          split: the split in the file's name, such as "test".
          examples: the texts, with their labels.
          predicted: the predicted label of each.
          entity_type: ignored.

        Raises:
          OSError: the file cannot be written.
        """
        prediction_files.write_texts(folder, split, examples, predicted, cls.cell)

    @classmethod
    def read_predictions(cls, path: str) -> tuple[list[LabelledText], list[Any]]:
        """Reads the texts and their labels, true and predicted, in a `SPLIT_predictions.tsv`.

        Args:
          path: of the file that `write_predictions` wrote.

        Returns:
          The texts with their true labels and the number of their line, from 1 below the header, as
          id; and the predicted label of each.

        Raises:
          TaskFileError: the file cannot be read, or a line is not as it was written.
        """
        return prediction_files.read_texts(path, cls.label_in)

    @classmethod
    def settings_of_family(cls, text_head: str) -> dict[str, Any]:
        """Returns {"text_head": text_head}, the setting of text types that a family implies.

        Args:
          text_head: the family's layer on the vector of a text: "linear", "tanh" or "gelu".
        """
        return {"text_head": text_head}

    @classmethod
    def read_hugging_face(
        cls, folder: str, labels: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns what a `transformers` model of texts knows of its task, and no settings.

        Args:
          folder: ignored.
          labels: its labels, in the order of the outputs.

        Returns:
          {"labels": labels, "pairs": None}, since it is not known whether it takes pairs; and {}.
        """
        return {"labels": labels, "pairs": None}, {}
