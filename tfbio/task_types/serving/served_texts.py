"""Texts, and pairs of texts, in a graph: classes, scores or several labels."""

from __future__ import annotations

import numpy as np

from tfbio.base.lazy import tensorflow as tf
from tfbio.formats.task_examples import LabelledText
from tfbio.models.head_config import ENTITY_POOLINGS
from tfbio.task_types.serving.input_rows import cut, rows
from tfbio.task_types.serving.served_task import (
    TEXTS,
    Function,
    SavedModelError,
    ServedTask,
    close,
    serving_function,
)


class ServedTexts(ServedTask):
    """The served form (SavedModel) of a model that labels or scores texts, or pairs of texts.

    The graph takes `text`, for pairs also `text_pair`. If it is not known of a model from elsewhere
    whether it takes pairs, it has a second signature for them.

    Attributes:
      task_type, model, known, calibration, tokenizer, encode, length, folder: see `ServedTask`.
    """

    def functions(self) -> dict[str, Function]:
        """Returns the graph for texts, "serving_default", and a second one for pairs, "pairs".

        The second one is there if it is not known whether the model takes pairs; if it does,
        "serving_default" is for pairs. They take strings [batch] `text`, and for pairs
        `text_pair`. They return the tensors of `TextType.served_outputs` ([batch, ...] by name),
        and `truncated`, bool [batch], True if a text is cut.

        Raises:
          SavedModelError: the model finds relations by markers.
        """
        settings = self.task_type.settings
        pooling, markers = settings.pooling, getattr(settings, "entity_markers", True)
        if self.known.markers or not markers or pooling in ENTITY_POOLINGS:
            raise SavedModelError(
                f"{self.folder} sees relations by markers of their entities (pooling {pooling}, "
                f"entity_markers {str(markers).lower()}): a SavedModel takes texts as they are; "
                "--mode=predict of run_finetuning.py is the way to use it."
            )
        if self.known.pairs:
            return {"serving_default": serving_function(self._label, ["text", "text_pair"])}
        functions = {"serving_default": serving_function(self._label, ["text"])}
        if self.known.pairs is None:  # not known of a model from elsewhere
            functions["pairs"] = serving_function(self._label, ["text", "text_pair"])
        return functions

    def _label(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        tokens = [self.tokens(x) for x in (text, text_pair) if x is not None]
        room = self.length - self.encode.special_tokens(pair=len(tokens) == 2)
        parts = _cut_pair(tokens[0], tokens[1], room) if len(tokens) == 2 else [tokens[0][:, :room]]
        outputs = self.outputs(rows(self.encode, *parts))
        truncated = sum(x.row_lengths() for x in tokens) > room
        return {**self.task_type.served_outputs(outputs), "truncated": truncated}

    def compare(self, signature: Function) -> bool:
        """Checks the served outputs for `TEXTS` against those of the model without the graph.

        Where the model takes pairs, `TEXTS` are paired.

        Args:
          signature: the "serving_default" of a model that was loaded.

        Returns:
          True if all outputs that are floats are `close`.
        """
        pairs = [*TEXTS[1:], TEXTS[0]] if self.known.pairs else [""] * len(TEXTS)
        label = self.task_type.placeholder
        examples = [
            LabelledText("", text, label, pair) for text, pair in zip(TEXTS, pairs, strict=True)
        ]
        inputs = {"text": tf.constant(TEXTS)}
        if self.known.pairs:
            inputs["text_pair"] = tf.constant(pairs)
        served = signature(**inputs)
        expected = self.task_type.served_outputs(tf.constant(np.array(self.expected(examples)[1])))
        figures = [name for name, values in expected.items() if values.dtype == tf.float32]
        return all(close(served[name].numpy(), expected[name].numpy()) for name in figures)


def _cut_pair(
    first: tf.RaggedTensor, second: tf.RaggedTensor, room: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Does in a graph what `texts._cut` does."""
    lengths = first.row_lengths(), second.row_lengths()
    over = tf.maximum(lengths[0] + lengths[1] - room, 0)
    difference = lengths[0] - lengths[1]
    from_longer = tf.minimum(over, tf.abs(difference))
    rest = over - from_longer
    from_first = tf.where(difference > 0, from_longer, tf.zeros_like(from_longer))
    from_second = from_longer - from_first + rest - rest // 2
    from_first += rest // 2
    return cut(first, lengths[0] - from_first), cut(second, lengths[1] - from_second)
