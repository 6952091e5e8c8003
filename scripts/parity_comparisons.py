"""Compares features, logits, gradients, steps and scores of fine-tuning with a recording.

`parity_answers.py` has what only question answering has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import tensorflow as tf

from scripts import parity_answers
from scripts.parity_differences import Difference, Largest, relative
from scripts.parity_recording import Recorded, of_windows, tensors
from tfbio.models.head_config import NO_TARGET
from tfbio.task_types import own_data, task_table
from tfbio.task_types.features import Features
from tfbio.task_types.sentence_windows import WordFeatures

# The metrics of each data set: recorded name -> our name; and the factor of the recorded values.
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


def compare(recorded: Recorded) -> list[Difference]:
    """Takes the recorded steps, and compares all quantities before, in and after them.

    Args:
      recorded: a recording, whose model is trained here.

    Returns:
      The largest difference of each quantity. If the number of windows differs, that of the
      features alone.
    """
    largest = Largest()
    for _ in comparisons(recorded, largest):
        pass
    return list(largest.differences.values())


def comparisons(recorded: Recorded, largest: Largest) -> Iterator[None]:
    """Compares one quantity after another, as `compare` does, and yields after each.

    Args:
      recorded: a recording, whose model is trained here.
      largest: gets the differences.
    """
    _compare_features(recorded, largest)
    yield
    if any(
        len(recorded.rows(split)) != len(features.input_ids)
        for split, features in (("features", recorded.train), ("dev_features", recorded.dev))
    ):
        return  # the rest would compare other texts
    dev, rows = recorded.dev, recorded.rows("dev_features")
    compare_outputs = parity_answers.compare_outputs if recorded.name == "qa" else _compare_outputs
    compare_outputs(recorded, largest, "eval0", dev, rows)
    yield
    _compare_metrics(recorded, largest, "eval0")
    yield
    compare_outputs(recorded, largest, "step0", recorded.train, recorded.batch(0))
    yield
    _compare_first_step(recorded, largest)
    yield
    for step in range(recorded.steps):
        _compare_step(recorded, largest, step)
        yield
    reader = tf.train.load_checkpoint(recorded.checkpoint(recorded.name))
    for variable, names in recorded.named():
        expected = np.concatenate([reader.get_tensor(each) for each in names], axis=-1)
        error = np.abs(variable.numpy() - expected).max()
        largest.add(f"weights after {recorded.steps} steps", error, 5e-7, names[0])
        # The outputs and scores below are compared at the recorded weights.
        variable.assign(expected)
    yield
    compare_outputs(recorded, largest, f"eval{recorded.steps}", dev, rows)
    yield
    _compare_metrics(recorded, largest, f"eval{recorded.steps}")
    yield


def _compare_features(recorded: Recorded, largest: Largest) -> None:
    """Counts the arrays of the features that differ, with the padding of each row."""
    for split, features in (("features", recorded.train), ("dev_features", recorded.dev)):
        rows = recorded.rows(split)
        largest.add(
            "features", abs(len(rows) - len(features.input_ids)), 0, f"{split}: their number"
        )
        # The answers' positions in the development set are recorded as 0.
        with_targets = split == "features" or recorded.name != "qa"
        if features.per_token:
            targets = features.per_token["targets"].values
        else:
            targets = features.per_window["targets"]
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
                if name == "labels":  # the recording keeps the labels of cut words
                    expected = expected[: len(values)]
                values = np.asarray(values)
                missing = expected.size - values.size
                padded = np.pad(values, (0, max(0, missing))) if values.ndim else values
                differs = not np.array_equal(padded, expected)
                largest.add("features", float(differs), 0, f"{split}, row {row}: {name}")


def _targets(recorded: Recorded, target: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the targets of a window, by their names in the recording."""
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
    recorded: Recorded, largest: Largest, when: str, features: Features, chosen: np.ndarray
) -> None:
    """Compares the logits and predictions of the development set or of a batch.

    Args:
      recorded: the recording.
      largest: gets the differences.
      when: the time in the recording: "step0", or "eval0" and the like.
      features: windows.
      chosen: int64 [windows], the numbers of the windows to compare.
    """
    part = recorded.part(features, chosen)
    batch = tensors(part)
    logits = recorded.finetuner.model(batch)
    rows = recorded.first_places() if when == "step0" else chosen
    name = "predictions" if recorded.name == "regression" else "logits"
    outputs = recorded.task_type.outputs(logits, batch).numpy()
    for number, (window, row) in enumerate(zip(chosen, rows, strict=True)):
        expected = recorded[f"{when}/{name}"][row]
        # In the recording a row has the logits of its words, in their order.
        own = slice(number, number + 1)
        if recorded.task_type.of_tokens:
            words = cast(WordFeatures, features).words[window]
            own = part.arrays["first"][number] + words
            expected = expected[: len(own)]
        error = np.abs(logits.numpy()[own].reshape(expected.shape) - expected)
        where = f"{when}, row {row}"
        largest.add("logits", error.max(initial=0.0), 1e-5, where)
        predicted = recorded[f"{when}/predictions"][row]
        wrong = _wrong(recorded, outputs[own], predicted, expected)
        largest.add("predictions", wrong, 0, where)


def _wrong(
    recorded: Recorded, outputs: np.ndarray, predicted: np.ndarray, logits: np.ndarray
) -> int:
    """Counts the predictions that differ, except where the logits are equal to 1e-5."""
    if recorded.name == "regression":
        return int(abs(outputs[0, 0] / recorded.task_type.settings.scale - predicted) > 1e-5)
    if recorded.name == "multilabel":
        unsure = np.abs(logits) < 1e-5
        return int(((outputs[0] > 0.5) != (predicted > 0.5))[~unsure].sum())
    ours = outputs if recorded.task_type.of_tokens else outputs.argmax(axis=-1)
    predicted = np.atleast_1d(predicted)[: len(ours)]
    logits = logits.reshape(len(ours), -1)
    gap = np.take_along_axis(logits, predicted[:, None], 1) - np.take_along_axis(
        logits, ours[:, None].astype(int), 1
    )
    return int((np.abs(gap) > 1e-5).sum())


def _compare_metrics(recorded: Recorded, largest: Largest, when: str) -> None:
    """Compares all scores of the development set with those of the authors' scorer."""
    own = parity_answers.scores(recorded, when) if recorded.name == "qa" else _scores(recorded)
    prefix = f"{when}/metric/"
    for name in (x.removeprefix(prefix) for x in recorded.arrays if x.startswith(prefix)):
        value, expected = own.get(name, np.nan), float(recorded[prefix + name])
        if name.endswith("_thresh"):  # one of the null odds, or 0
            largest.add("null odds", abs(value - expected), 1e-4, f"{when}: {name}")
        else:
            error = relative(value, expected)
            largest.add("metrics, relative", error, 1e-4, f"{when}: {name}")


def _scores(recorded: Recorded) -> dict[str, float]:
    """Scores the development set as a run does, and returns the scores by their recorded names."""
    task_type, features, examples = recorded.task_type, recorded.dev, recorded.examples
    part = recorded.part(features, np.arange(len(features.input_ids)))
    batch = tensors(part)
    logits = recorded.finetuner.model(batch)
    outputs = task_type.outputs(logits, batch).numpy()
    if task_type.of_tokens:
        outputs = of_windows(outputs, part, features)
    predicted = task_type.predictions(outputs, features, examples)
    score = task_table.TASKS[recorded.task].score
    if recorded.name == "multilabel":  # the labels are numbers in the recording
        score = own_data.own_score("multilabel", task_type.labels)
    own_scores = dict(score(examples, predicted))
    own_scores |= task_type.more_scores(score, examples, predicted, features, outputs)
    names, scale = METRICS[recorded.name]
    scores = {name: scale * own_scores.get(own, np.nan) for name, own in names.items()}
    losses, weights = task_type.losses(logits, batch)
    scores["loss"] = float(tf.reduce_sum(losses) / tf.reduce_sum(weights))
    if task_type.of_tokens:
        scores["loss"] *= 2  # the authors' scorer adds the loss of each sentence twice
    if recorded.name == "regression":
        truth = [example.label for example in examples]
        scores["mse"] = float(
            np.mean(np.square(np.subtract(truth, predicted) / recorded.task_type.settings.scale))
        )
    return scores


def _compare_first_step(recorded: Recorded, largest: Largest) -> None:
    """Compares the last layer's output, and each variable's gradient before clipping.

    Gradients are computed in float64, so that the difference is the recording's rounding alone. An
    error is divided by the norm of the variable's gradient, or by the norm of all gradients if this
    one is 0 but for rounding. The errors of training's float32 gradients are divided by the norm of
    all.
    """
    part = recorded.part(recorded.train, recorded.batch(0))
    batch = tensors(part)
    document_ids = batch["document_ids"]
    output = recorded.finetuner.model.encoder(
        batch["input_ids"],
        tf.cast(document_ids > 0, tf.int32),
        batch["segment_ids"],
        document_ids,
        batch["position_ids"],
    )
    output = output.numpy().reshape(-1, output.shape[-1])
    rows = recorded.first_places()
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
        both = (
            tf.convert_to_tensor(own[number[variable.ref()]]).numpy() for own in (trained, precise)
        )
        parts = (np.split(gradient, len(names), axis=-1) for gradient in both)
        for name, in_training, gradient in zip(names, *parts, strict=True):
            expected = recorded[f"step0/grad/{name}"]
            norm = norm_of_all if recorded.has_zero_gradient(name) else np.linalg.norm(expected)
            error = float(np.linalg.norm(gradient - expected) / norm)
            largest.add("gradients, each to its norm", error, 3e-6, name)
            error = float(np.linalg.norm(in_training - expected) / norm_of_all)
            largest.add("gradients, float32, to all", error, 3e-6, name)


def _compare_step(recorded: Recorded, largest: Largest, step: int) -> None:
    """Takes a step, and compares its learning rates and its loss."""
    finetuner, share = recorded.finetuner, recorded.finetuner._multipliers()
    rate = finetuner.optimizer.learning_rate(finetuner.optimizer.iterations)
    for variable, names in recorded.named():
        for name in names:
            expected = float(recorded[f"step{step}/lr/{name}"])
            error = relative(rate * share(variable), expected)
            largest.add("rates, relative", error, 1e-6, f"step {step}: {name}")
    error = relative(recorded.take(step), float(recorded[f"step{step}/loss"]))
    largest.add("losses, relative", error, 1e-5, f"step {step}")
