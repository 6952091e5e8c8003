"""Reads a recording of the authors' fine-tuning code, and sets tfbio up to do the same.

`parity.py` compares the two.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfbio.base import config
from tfbio.formats import squad
from tfbio.formats.task_examples import LabelledText, TaggedSentence
from tfbio.models.encoder_config import EncoderConfig
from tfbio.runs.finetuner import Finetuner
from tfbio.task_types import packing, types
from tfbio.task_types.features import Features
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.inference import make_model
from tfbio.task_types.protocols import PROTOCOLS, find_protocol
from tfbio.task_types.question_answering import QuestionAnswering
from tfbio.text import tokenization
from tfbio.training import optimization
from tfbio.weights import tensorflow1_weights, weight_names


class Columns(NamedTuple):
    """The task type of a recorded data set, and the fields in the columns of its file."""

    task_type: str
    names: tuple[str, ...] = ()


class Written(TypedDict):
    """Holds what the authors' scorer wrote of each question, by its id."""

    null_odds: dict[str, float]
    predictions: dict[str, str]


KINDS = {
    "classification": Columns("classification", ("id", "text", "label")),
    "pair": Columns("classification", ("text", "pair", "label")),
    "yesno": Columns("classification", ("id", "text", "pair", "label")),
    "multilabel": Columns("multilabel", ("label", "text", "id")),
    "regression": Columns("regression", ("id", "text", "pair", "label")),
    "tagging": Columns("tagging"),
    "tagging_words": Columns("tagging"),
    "qa": Columns("question_answering"),
}
# The names of tasks: the authors' -> ours, where they differ.
TASKS = {
    "clinicalsts": "clinical_sts",
    "i2b2": "i2b2_2010_re",
    "ncbi": "ncbi_disease",
    "pico": "ebm_pico",
    "squad": "squad_v2",
    "squadv1": "squad_v1",
}
SHAPE = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
GIVEN = (
    "train_batch_size",
    "learning_rate",
    "warmup_proportion",
    "layerwise_lr_decay",
    "weight_decay_rate",
)
# Settings of question answering.
GIVEN_OF_ANSWERS = (
    "beam_size",
    "n_best_size",
    "max_answer_length",
    "max_query_length",
    "doc_stride",
)
# The names of the layers of `SpanHead` in the authors' code, in their order.
SPAN_HEAD = ("dense", "qa_hidden", "dense_1", "dense_2", "dense_3")


class FromStepZero(optimization.WarmupLinearDecay):
    """A schedule in which step k has the rate of k, as in the recording.

    In the authors' code it is the rate of k or of k + 1, by chance.
    """

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate of a step, float32 []."""
        return super().__call__(step - 1)


class Recorded:
    """Holds the recording of one data set, and a `Finetuner` that should do the same.

    Args:
      folder: the recording.
      name: a key of `KINDS`.
      encoder_changes: changes to the shape of the encoder, to plant a mistake.
      of_type: changes to the settings of the task type, to plant a mistake.
      changes: changes to the other settings, to plant a mistake.

    Attributes:
      examples: those of the development set, which are those of training.
      train: the windows of the rows that are not padding.
      dev: those of evaluation.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        encoder_changes: dict | None = None,
        of_type: dict | None = None,
        **changes: object,
    ):
        recorded = json.loads((folder / "config.json").read_text())
        self.folder, self.name, self.own = folder, name, recorded["kinds"][name]
        self._answers = recorded.get("qa_answers", {})
        self.arrays = np.load(folder / f"{name}.npz")
        self.steps = self.own["steps_run"]
        given = self.own["all_settings"]
        numbers = self.own.get("label_ids") or {}
        labels = sorted(numbers, key=numbers.__getitem__)
        task_type, self.columns = KINDS[name]
        if task_type == "multilabel":
            labels = [label.removesuffix("_1") for label in labels[1::2]]
        settings = self._settings(given) | changes
        changed = dataclasses.replace(settings[task_type], **(of_type or {}))
        self.config = FinetuningConfig(**settings | {task_type: changed})
        hidden_size = recorded["model"]["hidden_size"]
        encoder = EncoderConfig(
            vocab_size=given["vocab_size"],
            embedding_size=given["embedding_size"] or hidden_size,
            **{setting: recorded["model"][setting] for setting in SHAPE},
            **(encoder_changes or {}),
        )
        self.tokenizer = tokenization.load_tokenizer(folder / "vocab.txt", given["do_lower_case"])
        self.task_type = types.make(task_type, labels, self.config)
        self.finetuner = Finetuner(
            self.config,
            encoder,
            self.task_type,
            self.tokenizer.pad_id,
            self.own["num_train_steps_given"],
            tf.distribute.get_strategy(),
        )
        optimizer = self.finetuner.optimizer
        optimizer.learning_rate = FromStepZero(**optimizer.learning_rate.get_config())
        model = self.finetuner.model
        tensorflow1_weights.restore_encoder(self.checkpoint("pretrained"), model.encoder)
        for variable, names in self.named():
            if f"init/{names[0]}" in self.arrays:
                variable.assign(self[f"init/{names[0]}"])
        self.examples = examples = self._examples()
        self.dev = self.train = self.features(examples)
        if task_type == "regression" and len(self.rows("features")) == 2 * len(examples):
            # double_unordered
            swapped = [dataclasses.replace(x, text=x.pair, pair=x.text) for x in examples]
            self.train = self.features(examples + swapped)

    def __getitem__(self, name: str) -> np.ndarray:
        """Returns an array of the recording."""
        return self.arrays[name]

    @property
    def task(self) -> str:
        """Returns our name of the task."""
        return TASKS.get(self.own["task"], self.own["task"].replace("-", "_"))

    def _settings(self, given: dict) -> dict:
        """Returns the settings of fine-tuning that do as the recording did."""
        if self.name == "qa":
            # The authors published no settings for question answering.
            own = {name: given[name] for name in GIVEN_OF_ANSWERS} | {"head": "electra"}
            # The recorded length may be more than a window holds; no question is so long.
            longest = given["max_seq_length"] - 5
            own["max_query_length"] = min(own["max_query_length"], longest)
            settings = _shared_settings() | {
                "question_answering": QuestionAnswering.Settings(**own)
            }
        else:
            path = find_protocol("authors", self.task)
            settings = vars(config.load(FinetuningConfig, path))
        if self.name.startswith("tagging"):
            # A mistake of the authors' code, which --hparams=authors leaves out.
            early = dataclasses.replace(settings["tagging"], early_cut=True)
            settings = {**settings, "tagging": early}
        return {
            **settings,
            "gradient_clip_groups": 1,  # one core
            **{name: given[name] for name in GIVEN},
            "sequence_length": given["max_seq_length"],
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }

    def checkpoint(self, name: str) -> str:
        """Returns the prefix of the checkpoint with this name."""
        (index,) = self.folder.glob(f"{name}.ckpt-*.index")
        return str(index.with_suffix(""))

    def rows(self, split: str) -> np.ndarray:
        """Returns the rows of a split without those that pad the last batch, int64 [rows]."""
        return np.flatnonzero(self[f"{split}/task_id"] == 0)

    def written(self, when: str) -> Written:
        """Returns what the authors' scorer wrote of each question at a time, such as "eval0"."""
        return self._answers[f"after_{when.removeprefix('eval')}_steps"]

    def _examples(self) -> list:
        """Reads the examples."""
        if self.name == "qa":
            return squad.read(str(self.folder / self.own["examples_file"]))
        text = (self.folder / self.own["examples_file"]).read_text(encoding="utf-8")
        if self.name.startswith("tagging"):
            sentences = [block.split("\n") for block in text.split("\n\n")]
            return [_sentence([x for x in lines if x]) for lines in sentences if any(lines)]
        rows = [line.split("\t") for line in text.split("\n") if line]
        rows = rows[len(rows) - self.own["raw_examples"] :]  # without a header
        named = [{"id": "", **dict(zip(self.columns, row, strict=True))} for row in rows]
        readers: dict[str, Callable[[str], object]]
        readers = {"multilabel": _present, "regression": float}
        read = readers.get(self.name, str)
        return [LabelledText(**{**row, "label": read(row["label"])}) for row in named]

    def features(self, examples: list) -> Features:
        """Makes the features of examples."""
        return self.task_type.features(examples, self.tokenizer, self.config.sequence_length)

    @contextlib.contextmanager
    def in_float64(self) -> Iterator[None]:
        """Gives the `Finetuner`, within the block, a float64 model with the same weights."""
        finetuner = self.finetuner
        model, before = finetuner.model, keras.mixed_precision.global_policy()
        keras.mixed_precision.set_global_policy("float64")
        try:
            self.finetuner.model = make_model(finetuner.encoder_config, self.task_type, self.config)
            self.finetuner.model.set_weights(model.get_weights())
            yield
        finally:
            keras.mixed_precision.set_global_policy(before)
            self.finetuner.model = model

    @property
    def head(self) -> str:
        """Returns the scope of the head; it ends with two slashes, or one for questions."""
        (kernel,) = (x for x in self.arrays if re.fullmatch("init/.*/dense/kernel", x))
        return kernel.removeprefix("init/").removesuffix("dense/kernel")

    def named(self) -> list[tuple[tf.Variable, list[str]]]:
        """Returns the variables of the model with their names in the recording."""
        head, encoder = self.finetuner.model.head, self.finetuner.model.encoder
        layers = [(head, "dense")]
        if self.name == "qa":
            own = (
                head.start,
                head.end_hidden,
                head.end,
                head.no_answer_hidden,
                head.no_answer,
            )
            layers = list(zip(own, SPAN_HEAD, strict=True))
        return [
            *weight_names.of_encoder(encoder, "electra"),
            *(
                (getattr(layer, part), [f"{self.head}{name}/{part}"])
                for layer, name in layers
                for part in ("kernel", "bias")
            ),
        ]

    def has_zero_gradient(self, name: str) -> bool:
        """Returns True if a gradient is 0 but for rounding: a softmax ignores what all get."""
        of_head = [f"{self.head}{own}/bias" for own in ("dense", "dense_1")]
        return name.endswith("self/key/bias") or (self.name == "qa" and name in of_head)

    def part(self, features: Features, chosen: np.ndarray) -> packing.Part:
        """Packs windows, by their numbers in `features`, into one part of a batch."""
        (part,) = self.finetuner._packer(features, len(chosen)).batch(chosen)
        return part

    def batch(self, step: int) -> np.ndarray:
        """Returns the rows of a step without padding, int64 [rows], sorted."""
        return np.intersect1d(self["batches"][step], self.rows("features"))

    def first_places(self) -> np.ndarray:
        """Returns the places of the first step's rows in its recorded arrays, int64 [rows]."""
        order = self["batches"][0]
        return np.array([np.flatnonzero(order == row)[0] for row in self.batch(0)])

    def take(self, step: int) -> float:
        """Takes a step and returns its loss."""
        parts = [self.part(self.train, self.batch(step))]
        finetuner = self.finetuner
        return float(finetuner._train_step(finetuner._distribute(parts), tf.constant(0)))


def tensors(part: packing.Part) -> dict[str, tf.Tensor]:
    """Returns the arrays of a part as tensors, as a model takes them."""
    return {name: tf.constant(array) for name, array in part.arrays.items()}


def of_windows(outputs: np.ndarray, part: packing.Part, features: Features) -> list[np.ndarray]:
    """Divides the outputs of all windows in one part by window.

    Args:
      outputs: [tokens of the part, ...].
      part: all windows of `features`.
      features: the windows.

    Returns:
      [tokens, ...] for each window.
    """
    firsts = part.arrays["first"]
    return [outputs[i : i + n] for i, n in zip(firsts, features.lengths, strict=True)]


def _shared_settings() -> dict:
    """Reads the settings that all configurations of the authors have in common."""
    first, *others = (
        vars(config.load(FinetuningConfig, str(path)))
        for path in (PROTOCOLS / "authors").glob("*.json")
    )
    return {x: v for x, v in first.items() if all(own[x] == v for own in others)}


def _sentence(lines: list[str]) -> TaggedSentence:
    """Makes an example of the lines of a sentence, a word and its tag in each."""
    words, tags = zip(*((line.split()[0], line.split()[-1]) for line in lines), strict=True)
    if any(tag[0] == "B" for tag in tags):
        tags = _as_spans(tags)
    return TaggedSentence("", words, tags)


def _as_spans(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the tags that the authors' code writes after it has read tags as spans.

    An I after O begins a span. An I of another type does not, and gives the whole span its type.
    """
    written, start = list(tags), 0
    for number, (tag, after) in enumerate(zip(tags, (*tags[1:], "O"), strict=True)):
        if tag[0] == "B" or (tag != "O" and (number == 0 or tags[number - 1] == "O")):
            start = number
        if tag != "O" and after[0] != "I":
            for place in range(start, number + 1):
                written[place] = ("B" if place == start else "I") + tag[1:]
    return tuple(written)


def _present(labels: str) -> tuple[str, ...]:
    """Returns the labels that an example has, of a text such as "a_1,b_0"."""
    return tuple(name[:-2] for name in labels.split(",") if name.endswith("_1"))
