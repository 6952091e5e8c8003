"""Compares fine-tuning with what was recorded from the code of BioELECTRA's authors.

    make parity RECORDING=FOLDER

FOLDER has the layout of a recording: `config.json`, `vocab.txt`, `pretrained.ckpt-*`, and for each
kind of task its examples, `KIND.npz` and `KIND.ckpt-*`. For each kind the largest difference of
each quantity is printed beside its limit. The exit code is 1 if any is above. The settings are
those of `--hparams=authors`, with the recording's own shape, lengths, rates and steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import flags
from tokenizers import normalizers, pre_tokenizers

from tfbio.base import cli, config
from tfbio.formats import task_files
from tfbio.formats.task_examples import LabelledText, Question, TaggedSentence
from tfbio.models.batches import NO_TARGET
from tfbio.models.encoder_config import EncoderConfig
from tfbio.runs.finetuner import Finetuner
from tfbio.task_types import answer_scores, answers, own_data, packing, tasks, types
from tfbio.task_types.finetuning_config import PROTOCOLS, find_protocol
from tfbio.task_types.inference import make_model
from tfbio.task_types.question_answering import QuestionAnswering
from tfbio.task_types.types import FinetuningConfig
from tfbio.text import tokenization
from tfbio.training import optimization
from tfbio.weights import tensorflow1, weight_names

FLAGS = flags.FLAGS


class Columns(NamedTuple):
    """What the rows of a recorded file are, and the kind of task that they are of."""

    task_type: str
    names: tuple[str, ...] = ()


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
# What the authors call the tasks that we call otherwise.
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
# Of answers.
GIVEN_OF_ANSWERS = (
    "beam_size",
    "n_best_size",
    "max_answer_length",
    "max_query_length",
    "doc_stride",
)
# What the code calls the layers of `SpanHead`, in their order.
SPAN_HEAD = ("dense", "qa_hidden", "dense_1", "dense_2", "dense_3")
# Below this a logit is of a masked token, which is no answer's.
MASKED = -500.0


# The recorded metrics: the names of ours, and by what theirs are multiplied.
METRICS = {
    "classification": ({"precision": "precision", "recall": "recall", "f1": "f1"}, 1.0),
    "pair": ({"accuracy": "accuracy"}, 100.0),
    "yesno": ({"accuracy": "accuracy"}, 100.0),
    "multilabel": (
        {name: f"bioelectra_code_{name}" for name in ("precision", "recall", "f1")},
        1.0,
    ),
    "regression": ({"pearson": "pearson", "spearman": "spearman"}, 100.0),
    "tagging": (
        {name: f"bioelectra_code_{name}" for name in ("precision", "recall", "f1")},
        100.0,
    ),
    "tagging_words": (
        {"accuracy": "bioelectra_code_accuracy", "f1_macro": "bioelectra_code_macro_f1"},
        1.0,
    ),
}


class Difference(NamedTuple):
    """The largest difference of a quantity, where it was, and the most that it may be."""

    quantity: str
    value: float
    limit: float
    where: str

    @property
    def is_small(self) -> bool:
        return bool(self.value <= self.limit)  # NaN is not


class FromStepZero(optimization.WarmupLinearDecay):
    """In the recording step k has the rate of k; in the code that of k or of k + 1, by chance."""

    def __call__(self, step):
        return super().__call__(step - 1)


class Recorded:
    """What was recorded of a kind of task, and a `Finetuner` that is to do the same.

    Args:
      folder: of the recording.
      name: of `KINDS`.
      encoder_changes: to the shape of the encoder, to plant a mistake.
      of_type: changes to the settings of the task type, to plant a mistake.
      changes: to the other settings, to plant a mistake.

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
        **changes,
    ):
        told = json.loads((folder / "config.json").read_text())
        self.folder, self.name, self.own = folder, name, told["kinds"][name]
        self._answers = told.get("qa_answers", {})
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
        hidden_size = told["model"]["hidden_size"]
        encoder = EncoderConfig(
            vocab_size=given["vocab_size"],
            embedding_size=given["embedding_size"] or hidden_size,
            **{setting: told["model"][setting] for setting in SHAPE},
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
        tensorflow1.restore_encoder(self._checkpoint("pretrained"), model.encoder)
        for variable, names in self.named():
            if f"init/{names[0]}" in self.arrays:
                variable.assign(self[f"init/{names[0]}"])
        self.examples = examples = self._examples()
        self.dev = self.train = self.features(examples)
        if task_type == "regression" and len(self._rows("features")) == 2 * len(examples):
            # double_unordered
            swapped = [dataclasses.replace(x, text=x.pair, pair=x.text) for x in examples]
            self.train = self.features(examples + swapped)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @property
    def task(self) -> str:
        """Returns our name of the task."""
        return TASKS.get(self.own["task"], self.own["task"].replace("-", "_"))

    def _settings(self, given: dict) -> dict:
        if self.name == "qa":
            # The authors have no configuration for answers; their code's head has no other form.
            own = {name: given[name] for name in GIVEN_OF_ANSWERS} | {"head": "electra"}
            # Theirs may be more than a window holds, where no question is so long.
            longest = given["max_seq_length"] - 5
            own["max_query_length"] = min(own["max_query_length"], longest)
            settings = _shared_settings() | {
                "question_answering": QuestionAnswering.Settings(**own)
            }
        else:
            path = find_protocol("authors", self.task)
            settings = vars(config.load(FinetuningConfig, path))
        if self.name.startswith("tagging"):
            # A mistake of that code, which is no part of --hparams=authors.
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

    def _checkpoint(self, name: str) -> str:
        (index,) = self.folder.glob(f"{name}.ckpt-*.index")
        return str(index.with_suffix(""))

    def _rows(self, split: str) -> np.ndarray:
        """The rows that are not padding, which fills the last batch."""
        return np.flatnonzero(self[f"{split}/task_id"] == 0)

    def written(self, when: str) -> dict[str, dict[str, object]]:
        """Reads what the authors' scorer wrote of each question, as of "eval0"."""
        return self._answers[f"after_{when.removeprefix('eval')}_steps"]

    def _examples(self) -> list:
        if self.name == "qa":
            return task_files.read_squad(str(self.folder / self.own["examples_file"]))
        text = (self.folder / self.own["examples_file"]).read_text(encoding="utf-8")
        if self.name.startswith("tagging"):
            sentences = [block.split("\n") for block in text.split("\n\n")]
            return [_sentence([x for x in lines if x]) for lines in sentences if any(lines)]
        rows = [line.split("\t") for line in text.split("\n") if line]
        rows = rows[len(rows) - self.own["raw_examples"] :]  # without a header
        named = [{"id": "", **dict(zip(self.columns, row, strict=True))} for row in rows]
        read = {"multilabel": _present, "regression": float}.get(self.name, str)
        return [LabelledText(**{**row, "label": read(row["label"])}) for row in named]

    def features(self, examples: list) -> packing.Features:
        return self.task_type.features(examples, self.tokenizer, self.config.sequence_length)

    @contextlib.contextmanager
    def in_float64(self) -> Iterator[None]:
        """Gives the `Finetuner` a model of the same weights that computes in float64."""
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
        """The scope of the head; in the recording it ends with two slashes but for answers."""
        (kernel,) = (x for x in self.arrays if re.fullmatch("init/.*/dense/kernel", x))
        return kernel.removeprefix("init/").removesuffix("dense/kernel")

    def named(self) -> list[tuple[tf.Variable, list[str]]]:
        """The variables of the model with their names in the recording."""
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
        """Returns whether a gradient is 0 but for rounding: a softmax ignores what all get."""
        of_head = [f"{self.head}{own}/bias" for own in ("dense", "dense_1")]
        return name.endswith("self/key/bias") or (self.name == "qa" and name in of_head)

    def part(self, features: packing.Features, chosen: np.ndarray) -> packing.Part:
        (part,) = self.finetuner._packer(features, len(chosen)).batch(chosen)
        return part

    def batch(self, step: int) -> np.ndarray:
        """The rows of a step that are not padding."""
        return np.intersect1d(self["batches"][step], self._rows("features"))

    def take(self, step: int) -> float:
        """Takes a step and returns its loss."""
        parts = [self.part(self.train, self.batch(step))]
        finetuner = self.finetuner
        return float(finetuner._train_step(finetuner._distribute(parts), tf.constant(0)))


def _shared_settings() -> dict:
    """Reads what all configurations of the authors have in common."""
    first, *others = (
        vars(config.load(FinetuningConfig, str(path)))
        for path in (PROTOCOLS / "authors").glob("*.json")
    )
    return {x: v for x, v in first.items() if all(own[x] == v for own in others)}


def _sentence(lines: list[str]) -> TaggedSentence:
    words, tags = zip(*((line.split()[0], line.split()[-1]) for line in lines), strict=True)
    if any(tag[0] == "B" for tag in tags):
        tags = _as_spans(tags)
    return TaggedSentence("", words, tuple(tags))


def _as_spans(tags: tuple[str, ...]) -> list[str]:
    """Tags as the authors' code reads and writes them again, as spans.

    An I after O begins one; an I of another type does not, and gives the whole its type.
    """
    written, start = list(tags), 0
    for number, (tag, after) in enumerate(zip(tags, (*tags[1:], "O"), strict=True)):
        if tag[0] == "B" or (tag != "O" and (number == 0 or tags[number - 1] == "O")):
            start = number
        if tag != "O" and after[0] != "I":
            for place in range(start, number + 1):
                written[place] = ("B" if place == start else "I") + tag[1:]
    return written


def _present(labels: str) -> tuple[str, ...]:
    return tuple(name[:-2] for name in labels.split(",") if name.endswith("_1"))


# --- What is compared ----------------------------------------------------------------------------


class Largest:
    """Keeps the largest difference of each quantity."""

    def __init__(self):
        self.found: dict[str, Difference] = {}

    def add(self, quantity: str, value: float, limit: float, where: str) -> None:
        before = self.found.get(quantity)
        # NaN is larger than all.
        if before is None or not value <= before.value and not np.isnan(before.value):
            self.found[quantity] = Difference(quantity, float(value), limit, where)


def compare(recorded: Recorded) -> list[Difference]:
    """Takes the recorded steps and returns the largest difference of each quantity."""
    largest = Largest()
    _compare_features(recorded, largest)
    if any(
        len(recorded._rows(split)) != len(features.input_ids)
        for split, features in (("features", recorded.train), ("dev_features", recorded.dev))
    ):
        return list(largest.found.values())  # the rest would be of other texts
    dev, rows = recorded.dev, recorded._rows("dev_features")
    compare_outputs = _compare_spans if recorded.name == "qa" else _compare_outputs
    compare_outputs(recorded, largest, "eval0", dev, rows)
    _compare_metrics(recorded, largest, "eval0")
    compare_outputs(recorded, largest, "step0", recorded.train, recorded.batch(0))
    _compare_first_step(recorded, largest)
    for step in range(recorded.steps):
        _compare_step(recorded, largest, step)
    reader = tf.train.load_checkpoint(recorded._checkpoint(recorded.name))
    for variable, names in recorded.named():
        expected = np.concatenate([reader.get_tensor(each) for each in names], axis=-1)
        error = np.abs(variable.numpy() - expected).max()
        largest.add(f"weights after {recorded.steps} steps", error, 5e-7, names[0])
        # What follows is compared at the recorded weights.
        variable.assign(expected)
    compare_outputs(recorded, largest, f"eval{recorded.steps}", dev, rows)
    _compare_metrics(recorded, largest, f"eval{recorded.steps}")
    return list(largest.found.values())


def _compare_features(recorded: Recorded, largest: Largest) -> None:
    """Counts the arrays of the features that differ, with the padding of each row."""
    for split, features in (("features", recorded.train), ("dev_features", recorded.dev)):
        rows = recorded._rows(split)
        largest.add(
            "features", abs(len(rows) - len(features.input_ids)), 0, f"{split}: their number"
        )
        if features.per_token:
            targets = features.per_token["targets"].values
        else:
            targets = features.per_window["targets"]
        # Of answers, the positions in the development set are 0.
        with_targets = split == "features" or recorded.name != "qa"
        for row, ids, segments, target in zip(
            rows, features.input_ids, features.segment_ids, targets, strict=False
        ):
            own = {
                "input_ids": ids,
                "segment_ids": segments,
                "input_mask": np.ones(len(ids)),
                **(_targets(recorded, target) if with_targets else {}),
            }
            for name, values in own.items():
                expected = recorded[f"{split}/{name}"][row]
                if name == "labels":  # those of cut words stay in the recording
                    expected = expected[: len(values)]
                values = np.asarray(values)
                missing = expected.size - values.size
                padded = np.pad(values, (0, max(0, missing))) if values.ndim else values
                differs = not np.array_equal(padded, expected)
                largest.add("features", float(differs), 0, f"{split}, row {row}: {name}")


def _targets(recorded: Recorded, target: np.ndarray) -> dict[str, np.ndarray]:
    """The targets of a window, by their names in the recording."""
    if recorded.name == "qa":
        names = ("start_positions", "end_positions", "is_impossible")
        return dict(zip(names, target, strict=True))
    if recorded.task_type.of_tokens:
        places = np.flatnonzero(target != NO_TARGET)
        return {
            "labels": target[places],
            "labels_mask": np.ones(len(places)),
            "labeled_positions": places,
        }
    if recorded.name == "multilabel":
        return {"label_ids": np.stack([1 - target, target], axis=-1).ravel()}
    return {"targets" if recorded.name == "regression" else "label_ids": target}


def _compare_outputs(
    recorded: Recorded, largest: Largest, when: str, features: packing.Features, chosen: np.ndarray
) -> None:
    """Compares the logits, and what is predicted, of the development set or of a batch."""
    part = recorded.part(features, chosen)
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    logits = recorded.finetuner.model(batch)
    rows = _places(recorded, 0) if when == "step0" else chosen
    name = "predictions" if recorded.name == "regression" else "logits"
    outputs = recorded.task_type.outputs(logits, batch).numpy()
    for number, (window, row) in enumerate(zip(chosen, rows, strict=True)):
        expected = recorded[f"{when}/{name}"][row]
        # In the recording a row has the logits of its words, in their order.
        own = slice(number, number + 1)
        if recorded.task_type.of_tokens:
            own = part.arrays["first"][number] + features.words[window]
            expected = expected[: len(own)]
        error = np.abs(logits.numpy()[own].reshape(expected.shape) - expected)
        where = f"{when}, row {row}"
        largest.add("logits", error.max(initial=0.0), 1e-5, where)
        predicted = recorded[f"{when}/predictions"][row]
        wrong = _wrong(recorded, outputs[own], predicted, expected)
        largest.add("predictions", wrong, 0, where)


def _compare_spans(
    recorded: Recorded, largest: Largest, when: str, features: packing.Features, chosen: np.ndarray
) -> None:
    """Does what `_compare_outputs` does for answers.

    Logits are compared to 1e-4: those of masked tokens are rounded at 1,000. So are predictions,
    the answers and null odds of the whole development set.
    """
    part = recorded.part(features, chosen)
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    model, in_training = recorded.finetuner.model, when == "step0"
    outputs = model(batch).numpy()
    trained = model(batch, seed=tf.constant([0, 0])) if in_training else None
    rows = _places(recorded, 0) if in_training else chosen
    for number, (window, row) in enumerate(zip(chosen, rows, strict=True)):
        first, length = part.arrays["first"][number], features.lengths[window]
        own = outputs[first : first + length]
        where = f"{when}, row {row}"

        def add(name: str, found: np.ndarray, row: int = row, where: str = where) -> None:
            expected = recorded[f"{when}/{name}"][row]
            error = np.abs(found - expected[: found.size] if found.ndim else found - expected)
            largest.add("logits", error.max(), 1e-4, f"{where}: {name}")

        add("start_logits", own[:, 0])
        add("answerable_logit", own[0, 1])
        if trained is not None:
            add("end_logits", trained.end.numpy()[first : first + length])
            continue
        errors = _beam_errors(recorded, when, row, own)
        largest.add("logits", max(errors, default=0.0), 1e-4, f"{where}: beam")
    if not in_training:
        _compare_answers(recorded, largest, when)


def _beam_errors(recorded: Recorded, when: str, row: int, outputs: np.ndarray) -> list[float]:
    """Differences of the beam's scores, but for those of masked tokens.

    A place that is recorded among the best must have the recorded score here, and so must the
    score at its rank: equal ones may change places.

    Args:
      recorded: what was recorded.
      when: "eval0" or the like.
      row: of the recorded arrays.
      outputs: float32 [tokens, 2 + beam_size], see `SpanHead`.
    """
    starts, ends = (
        (recorded[f"{when}/{side}_top_index"][row], recorded[f"{when}/{side}_top_log_probs"][row])
        for side in ("start", "end")
    )
    own = outputs[:, 0] - tf.reduce_logsumexp(outputs[:, 0]).numpy()
    ranked, errors = np.argsort(-own, kind="stable"), []
    for number, (place, score) in enumerate(zip(*starts, strict=True)):
        if score < MASKED:
            continue
        errors += [abs(own[place] - score), abs(own[ranked[number]] - score)]
        followed = np.flatnonzero(ranked[: len(starts[0])] == place)
        if not followed.size:  # another as good was followed, or the score differs
            continue
        column = outputs[:, 2 + followed[0]]
        best = -np.sort(-column)
        for rank, (end, value) in enumerate(zip(ends[0][number], ends[1][number], strict=True)):
            if value > MASKED:
                errors += [abs(column[end] - value), abs(best[rank] - value)]
    return errors


def _compare_answers(recorded: Recorded, largest: Largest, when: str) -> None:
    """Compares the answers to the questions of the development set, and their null odds."""
    told = recorded.written(when)
    for question, own in zip(recorded.examples, _predicted(recorded), strict=True):
        error = abs(own.null_odds - told["null_odds"][question.id])
        largest.add("null odds", error, 1e-4, f"{when}: {question.id}")
        theirs = _as_they_write(recorded, question, own)
        wrong = told["predictions"][question.id] not in theirs
        largest.add("predictions", float(wrong), 0, f"{when}: {question.id}")


def _as_they_write(recorded: Recorded, question: Question, predicted: answers.Answers) -> set[str]:
    """Lists what their scorer may write: the best answer, or others that are as good."""
    shares = zip(predicted.texts, predicted.probabilities, strict=True)
    best = [text for text, share in shares if share > predicted.probabilities[0] - 1e-5]
    return {x for text in best for x in _whole_words(recorded, question, text)}


def _whole_words(recorded: Recorded, question: Question, text: str) -> set[str]:
    """Gives what their scorer writes for a part of the context, wherever that stands.

    It looks for the answer's tokens in the tokens of its words, and gives the words as a whole
    where it does not find them, as with [UNK] (`finetune/qa/qa_metrics.py:get_final_text`).
    """
    (encoded,), context = recorded.tokenizer.encode([question.context]), question.context
    lower_case = recorded.own["all_settings"]["do_lower_case"]
    normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    found = set()
    for match in re.finditer(f"(?={re.escape(text)})", context):
        start, end = match.start(), match.start() + len(text)
        spans = zip(encoded.tokens, encoded.offsets, strict=True)
        tokens = " ".join(token for token, (a, b) in spans if a < end and b > start)
        tokens = tokens.replace(" ##", "").replace("##", "")
        words = (m for m in re.finditer(r"\S+", context) if m.start() < end and m.end() > start)
        whole = " ".join(word[0] for word in words)
        parts = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(whole))
        split = " ".join(part for part, _ in parts)
        # The characters of both but for blanks, which are taken to be the same.
        places, split_places = ([i for i, x in enumerate(y) if x != " "] for y in (whole, split))
        first = split.find(tokens)
        if first >= 0 and len(places) == len(split_places):
            last = split_places.index(first + len(tokens) - 1)
            whole = whole[places[split_places.index(first)] : places[last] + 1]
        found.add(whole)
    return found


def _places(recorded: Recorded, step: int) -> np.ndarray:
    """Where the rows of `Recorded.batch` stand in the recorded arrays of a step."""
    order = recorded["batches"][step]
    return np.array([np.flatnonzero(order == row)[0] for row in recorded.batch(step)])


def _wrong(
    recorded: Recorded, outputs: np.ndarray, predicted: np.ndarray, logits: np.ndarray
) -> int:
    """Counts the predictions that differ, but for those whose logits are equal to 1e-5."""
    if recorded.name == "regression":
        return int(abs(outputs[0, 0] / recorded.config.regression.scale - predicted) > 1e-5)
    if recorded.name == "multilabel":
        unsure = np.abs(logits) < 1e-5
        return int(((outputs[0] > 0.5) != (predicted > 0.5))[~unsure].sum())
    found = outputs if recorded.task_type.of_tokens else outputs.argmax(axis=-1)
    predicted = np.atleast_1d(predicted)[: len(found)]
    logits = logits.reshape(len(found), -1)
    gap = np.take_along_axis(logits, predicted[:, None], 1) - np.take_along_axis(
        logits, found[:, None].astype(int), 1
    )
    return int((np.abs(gap) > 1e-5).sum())


def _compare_metrics(recorded: Recorded, largest: Largest, when: str) -> None:
    """Compares the scores of the development set with those of the authors' scorer, all of them."""
    own = _scores_of_answers(recorded, when) if recorded.name == "qa" else _scores(recorded)
    prefix = f"{when}/metric/"
    for name in (x.removeprefix(prefix) for x in recorded.arrays if x.startswith(prefix)):
        value, expected = own.get(name, np.nan), float(recorded[prefix + name])
        if name.endswith("_thresh"):  # which is one of the null odds, or 0
            largest.add("null odds", abs(value - expected), 1e-4, f"{when}: {name}")
        else:
            error = _relative(value, expected)
            largest.add("metrics, relative", error, 1e-4, f"{when}: {name}")


def _scores(recorded: Recorded) -> dict[str, float]:
    """Scores the development set as a run does, under the names of the recording."""
    task_type, features, examples = recorded.task_type, recorded.dev, recorded.examples
    part = recorded.part(features, np.arange(len(features.input_ids)))
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    logits = recorded.finetuner.model(batch)
    outputs = task_type.outputs(logits, batch).numpy()
    if task_type.of_tokens:
        outputs = _of_pieces(outputs, part, features)
    predicted = task_type.predictions(outputs, features, examples)
    score = tasks.TASKS[recorded.task].score
    if recorded.name == "multilabel":  # whose labels are numbers in the recording
        score = own_data.own_score("multilabel", task_type.labels)
    found = dict(score(examples, predicted))
    theirs = task_type.authors_scores(score, examples, predicted, features, outputs)
    found |= {f"bioelectra_code_{name}": value for name, value in theirs.items()}
    names, scale = METRICS[recorded.name]
    scores = {name: scale * found.get(own, np.nan) for name, own in names.items()}
    losses, weights = task_type.losses(logits, batch)
    scores["loss"] = float(tf.reduce_sum(losses) / tf.reduce_sum(weights))
    if task_type.of_tokens:
        scores["loss"] *= 2  # their scorer adds each sentence's twice
    if recorded.name == "regression":
        truth = [example.label for example in examples]
        scores["mse"] = float(
            np.mean(np.square(np.subtract(truth, predicted) / recorded.config.regression.scale))
        )
    return scores


def _of_pieces(
    outputs: np.ndarray, part: packing.Part, features: packing.Features
) -> list[np.ndarray]:
    """The outputs of the tokens of each window, from those of all windows in one batch."""
    firsts = part.arrays["first"]
    return [outputs[i : i + n] for i, n in zip(firsts, features.lengths, strict=True)]


def _predicted(recorded: Recorded) -> list[answers.Answers]:
    """The answers to the questions of the development set, with the weights of the moment."""
    features = recorded.dev
    part = recorded.part(features, np.arange(len(features.input_ids)))
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    outputs = _of_pieces(recorded.finetuner.model(batch).numpy(), part, features)
    return recorded.task_type.predictions(outputs, features, recorded.examples)


def _scores_of_answers(recorded: Recorded, when: str) -> dict[str, float]:
    """SQuAD's figures at the threshold of the recording, and at the best one, in percent.

    Scored is what their scorer writes, which may be more than the answer.
    """
    questions, theirs = recorded.examples, recorded.written(when)["predictions"]
    predicted = [
        own._replace(texts=(theirs[question.id],), probabilities=(1.0,))
        if theirs[question.id] in _as_they_write(recorded, question, own)
        else own
        for question, own in zip(questions, _predicted(recorded), strict=True)
    ]
    gold = [question.answers for question in questions]

    def scores(threshold: float | None) -> dict[str, float]:
        given = answers.with_threshold(predicted, threshold)
        return answer_scores.squad_scores(gold, [own.best for own in given])

    found = scores(recorded.own["all_settings"]["qa_na_threshold"])
    figures = {"f1": "f1", "exact": "exact_match"}
    own = {name: 100.0 * found[figure] for name, figure in figures.items()}
    own["total"] = len(questions)
    for prefix, group, count in (
        ("HasAns", "has_answer", sum(map(bool, gold))),
        ("NoAns", "no_answer", len(gold) - sum(map(bool, gold))),
    ):
        own[f"{prefix}_total"] = count
        for name, figure in figures.items():
            # Without a question of the other group it is the whole.
            value = found.get(f"{group}_{figure}", found[figure])
            own[f"{prefix}_{name}"] = 100.0 * value
    for name, figure in figures.items():
        best = answers.null_threshold(questions, predicted, figure)
        own[f"best_{name}"] = 100.0 * scores(best)[figure]
        # Where no answer at all is best it is 0 there, whatever the odds.
        odds = [answer.null_odds for answer in predicted]
        own[f"best_{name}_thresh"] = 0.0 if best is None or best < min(odds) else best
    return own


def _compare_first_step(recorded: Recorded, largest: Largest) -> None:
    """Compares the last layer's output, and each variable's gradient before clipping.

    Gradients are computed in float64, so that what is seen is the recording's rounding and not the
    sum of two. The error of each is judged by the variable's own norm; that of one which is 0 but
    for rounding by the norm of all. Those of training, in float32, are judged by the norm of all.
    """
    part = recorded.part(recorded.train, recorded.batch(0))
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    document_ids = batch["document_ids"]
    output = recorded.finetuner.model.encoder(
        batch["input_ids"],
        tf.cast(document_ids > 0, tf.int32),
        batch["segment_ids"],
        document_ids,
        batch["position_ids"],
    )
    output = output.numpy().reshape(-1, output.shape[-1])
    rows = _places(recorded, 0)
    for window, row, first in zip(recorded.batch(0), rows, part.arrays["first"], strict=True):
        length = len(recorded.train.input_ids[window])
        expected = recorded["step0/sequence_output"][row][:length]
        error = np.abs(output[first : first + length] - expected).max()
        largest.add("sequence output", error, 1e-5, f"row {row}")
    _, trained = recorded.finetuner._gradients(batch, tf.constant([0, 0]))
    with recorded.in_float64():
        _, precise = recorded.finetuner._gradients(batch, tf.constant([0, 0]))
    variables = recorded.finetuner.model.trainable_variables
    number = {variable.ref(): i for i, variable in enumerate(variables)}
    norm_of_all = recorded["step0/global_norm"]
    for variable, names in recorded.named():
        both = (own[number[variable.ref()]] for own in (trained, precise))
        both = (tf.convert_to_tensor(gradient).numpy() for gradient in both)
        parts = (np.split(gradient, len(names), axis=-1) for gradient in both)
        for name, in_training, gradient in zip(names, *parts, strict=True):
            expected = recorded[f"step0/grad/{name}"]
            norm = norm_of_all if recorded.has_zero_gradient(name) else np.linalg.norm(expected)
            error = np.linalg.norm(gradient - expected) / norm
            largest.add("gradients, each to its norm", error, 3e-6, name)
            error = np.linalg.norm(in_training - expected) / norm_of_all
            largest.add("gradients, float32, to all", error, 3e-6, name)


def _compare_step(recorded: Recorded, largest: Largest, step: int) -> None:
    """Compares the rates and the loss of a step, which is taken."""
    finetuner, share = recorded.finetuner, recorded.finetuner._multipliers()
    rate = finetuner.optimizer.learning_rate(finetuner.optimizer.iterations)
    for variable, names in recorded.named():
        for name in names:
            expected = recorded[f"step{step}/lr/{name}"]
            error = _relative(rate * share(variable), expected)
            largest.add("rates, relative", error, 1e-6, f"step {step}: {name}")
    error = _relative(recorded.take(step), recorded[f"step{step}/loss"])
    largest.add("losses, relative", error, 1e-5, f"step {step}")


def _relative(value: float, expected: float) -> float:
    return float(abs(value - expected) / max(abs(expected), 1e-30))


# --- The command ---------------------------------------------------------------------------------


def find_kinds(folder: Path, wanted: Sequence[str] = ()) -> list[str]:
    """Returns the kinds that a recording has; or those of them that are wanted.

    Raises:
      UsageError: one that is wanted is not there.
      UserError: the folder is no recording, or has a kind that is unknown.
    """
    try:
        found = list(json.loads((folder / "config.json").read_text())["kinds"])
    except (OSError, ValueError, KeyError) as error:
        raise cli.UserError(
            f"--recording={folder}: expected the folder of a recording, with a config.json that "
            f"lists its kinds: {error!r}."
        ) from error
    unknown = sorted(set(found) - set(KINDS))
    if unknown:
        raise cli.UserError(
            f"--recording={folder}: config.json has the kind {unknown[0]!r}; the kinds are "
            f"{', '.join(KINDS)}."
        )
    for task_type in wanted:
        if task_type not in found:
            raise cli.UsageError(
                f"--kind={task_type}: the recording has no such kind; it has {', '.join(found)}."
            )
    return [task_type for task_type in KINDS if task_type in (wanted or found)]


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("recording", "", "Folder of the recording.")
    flags.DEFINE_multi_string("task_type", [], "Only this kind. May be repeated.")


def main(argv: list[str]) -> None:
    """Prints the differences of each kind, and ends with exit code 1 if one is above its limit."""
    cli.no_arguments(argv)
    tf.get_logger().setLevel("ERROR")  # each kind has graphs of its own, which is no mistake
    folder = Path(FLAGS.recording)
    worse = []
    for name in find_kinds(folder, FLAGS.task_type):
        print(name, flush=True)
        for found in compare(Recorded(folder, name)):
            mark = "" if found.is_small else "  ABOVE"
            print(
                f"  {found.quantity:<28}{found.value:>9.2g}  limit {found.limit:<7g}"
                f"{mark}  ({found.where})",
                flush=True,
            )
            worse += [] if found.is_small else [f"{name}: {found.quantity}"]
    print(f"{len(worse)} above their limits: {'; '.join(worse)}" if worse else "All as recorded.")
    if worse:
        sys.exit(1)


if __name__ == "__main__":
    cli.run(main, define_flags)
