"""Fine-tuning against the numbers recorded from the code of BioELECTRA's authors.

TFBIO_RECORDING names another folder of the recording's layout.
"""

import dataclasses
import functools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.parity import SHARED
from tfbio import kinds, optimization, task_files, tensorflow1, tokenization, weight_names
from tfbio.config import EncoderConfig, FinetuningConfig
from tfbio.finetuner import Finetuner
from tfbio.packing import NO_TARGET
from tfbio.task_files import LabelledText, TaggedSentence

FOLDER = Path(os.environ.get("TFBIO_RECORDING", SHARED / "parity" / "finetuning_tf1_tiny"))
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"there is no recording at {FOLDER}")

KINDS = {
    "classification": ("classification", ("id", "text", "label"), None),
    "pair": ("classification", ("text", "pair", "label"), ("sentence1", "sentence2", "label")),
    "yesno": ("classification", ("id", "text", "pair", "label"), None),
    "multilabel": ("multilabel", ("label", "text", "id"), ("labels", "sentence", "index")),
    "regression": (
        "regression",
        ("id", "text", "pair", "score"),
        ("index", "sentence1", "sentence2", "score"),
    ),
    "tagging": ("tagging", (), None),
    "tagging_words": ("tagging", (), None),
}
# What the authors' code does, and is not our default.
SETTINGS = {
    "tagging": {"tagging_segment": 1, "tagging_dropout": False, "tagging_early_cut": True},
    "multilabel": {"absent_outputs": True},
    "regression": {"score_scale": 4.0},
}
STEPS = 4


class FromStepZero(optimization.WarmupLinearDecay):
    """In the recording step k has the rate of k; in the code that of k or of k + 1, by chance."""

    def __call__(self, step):
        return super().__call__(step - 1)


class Recorded:
    """What was recorded of a kind of task, and a `Finetuner` that is to do the same."""

    def __init__(self, name: str, monkeypatch, encoder_changes: dict | None = None, **changes):
        told = json.loads((FOLDER / "config.json").read_text())
        self.name, self.own = name, told["kinds"][name]
        self.arrays = np.load(FOLDER / f"{name}.npz")
        kind, self.columns, self.header = KINDS[name]
        given = self.own["all_settings"]
        numbers = self.own.get("label_ids") or {}
        self.labels = sorted(numbers, key=numbers.__getitem__)
        if kind == "multilabel":
            self.labels = [label.removesuffix("_1") for label in self.labels[1::2]]
        settings = {
            "sequence_length": given["max_seq_length"],
            "train_batch_size": given["train_batch_size"],
            "learning_rate": given["learning_rate"],
            "warmup_proportion": given["warmup_proportion"],
            "layerwise_lr_decay": given["layerwise_lr_decay"],
            "weight_decay_rate": given["weight_decay_rate"],
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "loss_reduction": "sum",
        }
        self.config = FinetuningConfig(**settings | SETTINGS.get(kind, {}) | changes)
        encoder = EncoderConfig(
            vocab_size=given["vocab_size"],
            embedding_size=given["embedding_size"] or told["model"]["hidden_size"],
            **told["model"],
            **(encoder_changes or {}),
        )
        self.tokenizer = tokenization.load_tokenizer(FOLDER / "vocab.txt", given["do_lower_case"])
        self.kind = kinds.make(kind, self.labels, self.config)
        monkeypatch.setitem(optimization.SCHEDULES, "linear", FromStepZero)
        self.finetuner = Finetuner(
            self.config,
            encoder,
            self.kind,
            self.tokenizer.pad_id,
            self.own["num_train_steps_given"],
            tf.distribute.get_strategy(),
        )
        model = self.finetuner.model
        tensorflow1.restore_encoder(str(FOLDER / "pretrained.ckpt-0"), model.encoder)
        for variable, part in ((model.head.kernel, "kernel"), (model.head.bias, "bias")):
            variable.assign(self[f"init/{self.head}/{part}"])
        examples = self.examples()
        self.dev = self.pieces(examples)
        self.train = self.dev
        if kind == "regression":
            swapped = [dataclasses.replace(x, text=x.pair, pair=x.text) for x in examples]
            self.train = self.pieces(examples + swapped)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @property
    def head(self) -> str:
        return f"task_specific/{self.own['task']}//dense"

    def examples(self) -> list:
        path = str(FOLDER / self.own["examples_file"])
        if self.kind.of_tokens:
            sentences = [block.splitlines() for block in Path(path).read_text().split("\n\n")]
            return [_sentence(lines) for lines in sentences if lines]
        examples = task_files.read_table(path, self.columns, self.header)
        if self.name != "multilabel":
            return examples
        return [dataclasses.replace(x, label=_present(x.label)) for x in examples]

    def pieces(self, examples: list[LabelledText | TaggedSentence]):
        return self.kind.pieces(examples, self.tokenizer, self.config.sequence_length)

    def logits(self, pieces, chosen) -> np.ndarray:
        (part,) = self.finetuner._packer(pieces, len(chosen)).batch(chosen)
        logits = self.finetuner.model({k: tf.constant(v) for k, v in part.arrays.items()}).numpy()
        if not self.kind.of_tokens:
            return logits
        # In the recording a row has the logits of its words, in their order.
        found = []
        for number, piece in enumerate(chosen):
            found.append(logits[part.arrays["first"][number] + pieces.words[piece]])
        return found

    def take(self, step: int) -> float:
        """Takes a step and returns its loss."""
        losses = []

        def log(step: int, loss: float, rate: float) -> None:
            losses.append(loss)

        self.finetuner.train(self.train, self["batches"][step], 0, log)
        return losses[0]

    def named(self) -> list[tuple[tf.Variable, list[str]]]:
        """The variables of the model with their names in the recording."""
        model = self.finetuner.model
        return [
            *weight_names.of_encoder(model.encoder, "electra"),
            (model.head.kernel, [f"{self.head}/kernel"]),
            (model.head.bias, [f"{self.head}/bias"]),
        ]


def _sentence(lines: list[str]) -> TaggedSentence:
    words, tags = zip(*(line.split("\t") for line in lines), strict=True)
    if any(tag[0] == "B" for tag in tags):
        # The authors' code reads the tags as spans: an I after O begins one.
        before = ("O", *tags)
        tags = [
            f"B{tag[1:]}" if tag[0] == "I" and last == "O" else tag
            for tag, last in zip(tags, before, strict=False)
        ]
    return TaggedSentence("", words, tuple(tags))


def _present(labels: str) -> tuple[str, ...]:
    return tuple(name[:-2] for name in labels.split(",") if name.endswith("_1"))


@pytest.fixture
def recorded(monkeypatch):
    return functools.partial(Recorded, monkeypatch=monkeypatch)


each_kind = pytest.mark.parametrize("name", KINDS)


@each_kind
def test_features(recorded, name):
    check_features(recorded(name))


def check_features(found: Recorded) -> None:
    for split, pieces in (("features", found.train), ("dev_features", found.dev)):
        for number, ids in enumerate(pieces.input_ids):
            real = found[f"{split}/input_mask"][number].sum()
            assert len(ids) == real
            np.testing.assert_array_equal(ids, found[f"{split}/input_ids"][number][:real])
            segments = pieces.segment_ids[number]
            np.testing.assert_array_equal(segments, found[f"{split}/segment_ids"][number][:real])
            target = pieces.targets[number]
            if found.kind.of_tokens:
                kept = int(found[f"{split}/labels_mask"][number].sum())
                places = found[f"{split}/labeled_positions"][number][:kept]
                np.testing.assert_array_equal(np.flatnonzero(target != NO_TARGET), places)
                np.testing.assert_array_equal(
                    target[places], found[f"{split}/labels"][number][:kept]
                )
            elif found.name == "multilabel":
                np.testing.assert_array_equal(target, found[f"{split}/label_ids"][number][1::2])
            else:
                label = "targets" if found.name == "regression" else "label_ids"
                np.testing.assert_array_equal(target, found[f"{split}/{label}"][number])


@each_kind
def test_logits_and_predictions(recorded, name):
    found = recorded(name)
    check_logits(found, "eval0")
    for step in range(STEPS):
        check_logits(found, f"step{step}", found["batches"][step])
        found.take(step)
    check_logits(found, "eval4")


def check_logits(found: Recorded, when: str, chosen: np.ndarray | None = None) -> None:
    """Compares the logits, and what is predicted, of the development set or of a batch."""
    pieces = found.dev if chosen is None else found.train
    chosen = np.arange(len(found.dev.input_ids)) if chosen is None else chosen
    logits = found.logits(pieces, chosen)
    expected = found[f"{when}/{'predictions' if found.name == 'regression' else 'logits'}"]
    for own, row in zip(logits, expected, strict=True):
        row = row[: len(own)] if found.kind.of_tokens else np.reshape(row, own.shape)
        np.testing.assert_allclose(own, row, rtol=0, atol=1e-5)
    predicted = found.finetuner.predict(pieces)
    for piece, row in zip(chosen, found[f"{when}/predictions"], strict=True):
        own = predicted[piece]
        if found.kind.of_tokens:
            words = pieces.words[piece]
            np.testing.assert_array_equal(own[words], row[: len(words)])
        elif found.name == "multilabel":
            np.testing.assert_array_equal(own > 0.5, row[1::2] > 0.5)
        elif found.name == "regression":
            np.testing.assert_allclose(own[0] / found.config.score_scale, row, atol=1e-5)
        else:
            assert own.argmax() == row


@each_kind
def test_losses_rates_and_weights_of_four_steps(recorded, name):
    check_steps(recorded(name))


def check_steps(found: Recorded) -> None:
    finetuner, share = found.finetuner, found.finetuner._multipliers()
    for step in range(STEPS):
        rate = finetuner.optimizer.learning_rate(finetuner.optimizer.iterations)
        np.testing.assert_allclose(rate, found[f"step{step}/base_learning_rate"], rtol=1e-6)
        for variable, names in found.named():
            for each in names:
                expected = found[f"step{step}/lr/{each}"]
                np.testing.assert_allclose(rate * share(variable), expected, rtol=1e-6)
        np.testing.assert_allclose(found.take(step), found[f"step{step}/loss"], rtol=1e-5)
    reader = tf.train.load_checkpoint(str(FOLDER / f"{found.name}.ckpt-4"))
    for variable, names in found.named():
        expected = np.concatenate([reader.get_tensor(each) for each in names], axis=-1)
        np.testing.assert_allclose(variable, expected, rtol=0, atol=5e-7, err_msg=str(names))


@each_kind
def test_gradients_before_clipping(recorded, name):
    check_gradients(recorded(name))


def check_gradients(found: Recorded) -> None:
    """Compares each variable's gradient, by the norm of its error to its own norm.

    The bias of the attention's keys has a gradient that is 0 but for rounding: to the global norm.
    """
    (part,) = found.finetuner._packer(found.train, 4).batch(found["batches"][0])
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    _, gradients = found.finetuner._gradients(batch, tf.constant([0, 0]))
    variables = found.finetuner.model.trainable_variables
    own = {v.ref(): tf.convert_to_tensor(g) for v, g in zip(variables, gradients, strict=True)}
    for variable, names in found.named():
        parts = np.split(own[variable.ref()].numpy(), len(names), axis=-1)
        for name, part in zip(names, parts, strict=True):
            expected = found[f"step0/grad/{name}"]
            is_zero = name.endswith("self/key/bias")
            norm = found["step0/global_norm"] if is_zero else np.linalg.norm(expected)
            assert np.linalg.norm(part - expected) < 3e-6 * norm, name


@pytest.mark.parametrize(
    "check, name, mistake",
    [
        (check_features, "tagging", {"tagging_segment": 0}),
        (check_features, "tagging", {"tagging_early_cut": False}),
        (check_features, "regression", {"score_scale": 1.0}),
        (check_gradients, "pair", {"encoder_changes": {"hidden_act": "gelu_new"}}),
        (check_gradients, "pair", {"encoder_changes": {"layer_norm_eps": 1e-6}}),
        (check_steps, "classification", {"loss_reduction": "mean"}),
        (check_steps, "classification", {"weight_decay_rate": 0.0}),
        (check_steps, "classification", {"layerwise_lr_exponent": "electra"}),
        (check_steps, "classification", {"adam_bias_correction": True}),
        (check_steps, "classification", {"max_gradient_norm": 2.0}),
    ],
)
def test_mistakes_are_found(check, name, mistake, recorded):
    check(recorded(name))
    with pytest.raises(AssertionError):
        check(recorded(name, **mistake))
