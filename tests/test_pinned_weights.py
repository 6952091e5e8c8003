"""Runs start with the weights that were recorded, and have those that were after one step.

Keras draws initial weights in the order in which layers are made. So code that makes a head
elsewhere, or a layer earlier, changes them, and every score with them, without a word. Here each
head of fine-tuning and each form of the pretraining model is made at seed 0, takes one step with
dropout, and is compared with `pinned_weights.json`. The steps of `TRACED` are those of a graph, as
in a run; the others, which are the same code, run without one, in a third of the time.

  PYTHONPATH=. python tests/test_pinned_weights.py

writes that file anew (see `write`): where a case is new, or where other weights are what is wanted.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfbio.formats.task_examples import Example, LabelledText, Question, TaggedSentence
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import ENTITY_POOLINGS
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs.finetuner import Finetuner
from tfbio.task_types import types
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.token_multilabel import LabelledSentence
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.text.tokenization import load_tokenizer

PINNED = Path(__file__).with_name("pinned_weights.json")
SEED = 0

# What `is_close` allows. Initial weights are random bits, the same ones on every CPU, and a few
# operations on each, which differ in the last bit at most; zeros are zeros.
BEFORE = {"rtol": 1e-5, "atol": 0.0}
# A step adds up thousands of products, in an order that is the CPU's own. What began at 0 is all
# update, and where its gradients nearly cancel it has no size to be relative to. Seen: a fortieth
# of this where the last bits of the weights before the step are others, less with other kernels.
AFTER = {"rtol": 1e-4, "atol": 1e-6}

SHAPE = EncoderConfig(
    vocab_size=100,
    embedding_size=16,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=32,
)
# Adam's first step is nearly the sign of a gradient. Where that is 0 but for rounding, as of the
# biases of keys, the sign is the CPU's own; and signs do not tell a loss from twice the loss. Below
# such an epsilon an update is nearly proportional to the gradient, so the rate has to be high.
STEP = {"learning_rate": 5e-2, "adam_epsilon": 1e-3}
FINETUNING = FinetuningConfig(sequence_length=32, train_batch_size=4, warmup_proportion=0.0, **STEP)
PRETRAINING = PretrainingConfig(
    encoder=SHAPE,
    generator_layers_fraction=0.5,
    sequence_length=32,
    train_batch_size=4,
    num_train_steps=10,
    num_warmup_steps=1,
    seed=SEED,
    **STEP,
)

MARKERS = ("[S1]", "[E1]", "[S2]", "[E2]")
# What is not here is cut into letters.
WORDS = "cells cox drug effect human in is it new no of on tp53 brca1 was which with and the its"
SENTENCES = (
    "[S1] aspirin [E1] inhibits [S2] cox [E2] in human cells",
    "no effect of [S1] the new drug [E1] on [S2] tp53 [E2] was seen",
    "[S1] insulin [E1] binds [S2] its receptor [E2] .",
    "cells with [S1] brca1 [E1] grow and [S2] taxol [E2] kills",
)
TAGS = (
    "B-drug O B-gene O O O",
    "O O O B-drug I-drug I-drug O B-gene O O",
    "B-drug O B-gene I-gene O",
    "O O B-gene O O B-drug O",
)
LABELS = {
    "tagging": ("O", "B-drug", "I-drug", "B-gene", "I-gene"),
    "classification": ("a", "b", "c"),
    "multilabel": ("a", "b", "c"),
    "token_multilabel": ("a", "b", "c"),
}

# For each case of fine-tuning: the type of the task, and its settings.
FINETUNED = {
    "tagging": ("tagging", {}),
    "tagging_io": ("tagging", {"scheme": "IO"}),
    "tagging_bioul": ("tagging", {"scheme": "BIOUL"}),
    "tagging_lstm": ("tagging", {"head": "lstm"}),
    "tagging_crf": ("tagging", {"head": "crf"}),
    "tagging_as_electra": (
        "tagging",
        {"label_all_tokens": True, "segment": 1, "dropout": False},
    ),
    "classification": ("classification", {}),
    "classification_tanh": ("classification", {"text_head": "tanh"}),
    "classification_gelu": ("classification", {"text_head": "gelu"}),
    "classification_mean": ("classification", {"pooling": "mean"}),
    "classification_mention": ("classification", {"pooling": "mention"}),
    "classification_entity_start": ("classification", {"pooling": "entity_start"}),
    "classification_mention_mean": ("classification", {"pooling": "mention_mean"}),
    "classification_lstm": ("classification", {"text_head": "lstm"}),
    "classification_mlp": (
        "classification",
        {"text_head": "mlp", "mlp_layers": 2, "mlp_size": 24, "pooling": "mean"},
    ),
    "regression": ("regression", {}),
    "regression_lstm": ("regression", {"text_head": "lstm", "pooling": "mean"}),
    "multilabel": ("multilabel", {}),
    "multilabel_mlp": ("multilabel", {"text_head": "mlp"}),
    "multilabel_absent": ("multilabel", {"absent_outputs": True}),
    "question_answering": ("question_answering", {}),
    "question_answering_electra": ("question_answering", {"head": "electra", "beam_size": 4}),
    "token_multilabel": ("token_multilabel", {}),
    "token_multilabel_weight": ("token_multilabel", {"positive_weight": 3.0}),
}
# For each case of pretraining: settings.
PRETRAINED = {
    "electra": {},
    "electra_own_embeddings": {"untied_generator_embeddings": True},
    "electra_tied": {"untied_generator": False},
    "electra_uniform": {"uniform_generator": True},
    "mlm": {"objective": "mlm"},
    "mlm_albert": {
        "objective": "mlm",
        "encoder": dataclasses.replace(SHAPE, share_layers=True),
        "sentence_pair_head": True,
    },
}
CASES = (*FINETUNED, *PRETRAINED)
TRACED = ("tagging", "mlm")

# Of a case: its "loss"; and by the number and name of each variable its shape, and its fingerprints
# before and after the step.
Record = dict[str, float | list]


def fingerprint(values: np.ndarray) -> list[float]:
    """Returns two numbers that tell weights from others, and from themselves in another order.

    They are the product with the cosines of 0, 1, 2, ... and the sum of the squares.
    """
    flat = np.asarray(values, np.float64).ravel()
    return [shortened(flat @ np.cos(np.arange(flat.size))), shortened(flat @ flat)]


def shortened(number: float) -> float:
    """Returns a number with as many digits as float32 has."""
    return float(f"{number:.8g}")


def write_vocabulary(folder: Path) -> str:
    """Writes a vocabulary of 100 tokens, and returns its path."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", *WORDS.split(), *letters]
    tokens += [f"##{letter}" for letter in letters]
    tokens += [f"[unused{number}]" for number in range(SHAPE.vocab_size - len(tokens))]
    path = folder / "vocab.txt"
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return str(path)


def make_examples(task_type: str, changes: dict) -> list[Example]:
    """Returns four examples of a type of task with some settings."""
    examples: list[Example] = []
    for number, (text, tags) in enumerate(zip(SENTENCES, TAGS, strict=True)):
        name = str(number)
        words = [word for word in text.split() if word not in MARKERS]
        plain = " ".join(words)
        if task_type == "tagging":
            examples.append(TaggedSentence(name, tuple(words), tuple(tags.split())))
        elif task_type == "token_multilabel":
            own = ("|".join(x for x in "abc" if x in word) or "O" for word in words)
            examples.append(LabelledSentence(name, tuple(words), tuple(own)))
        elif task_type == "question_answering":
            answer = words[number] if number < 3 else ""  # the last has none
            known = ((answer,), (plain.index(answer),)) if answer else ((), ())
            examples.append(Question(name, "which drug is it?", plain, *known))
        else:
            label = {"regression": number / 4, "multilabel": ("a", "c")[: number % 3]}
            text = text if changes.get("pooling") in ENTITY_POOLINGS else plain
            pair = "it is new." if changes.get("text_head") == "tanh" else ""  # two segments
            examples.append(LabelledText(name, text, label.get(task_type, "abca"[number]), pair))
    return examples


def finetune(name: str, vocabulary: str) -> Record:
    """Computes what is recorded of a case of fine-tuning."""
    task_type, changes = FINETUNED[name]
    changed = types.TYPES[task_type].Settings(**changes)
    settings = dataclasses.replace(FINETUNING, **{task_type: changed})
    learnt = types.make(task_type, LABELS.get(task_type, ()), settings)
    tokenizer = load_tokenizer(vocabulary, new_tokens=MARKERS)
    features = learnt.features(
        make_examples(task_type, changes), tokenizer, settings.sequence_length
    )
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    finetuner = Finetuner(settings, SHAPE, learnt, tokenizer.pad_id, 10, strategy)
    finetuner.initialize(SEED, init_checkpoint="")
    before = [variable.numpy() for variable in finetuner.model.variables]
    order = np.arange(settings.train_batch_size)
    finetuner.begin(features, order, SEED)
    loss = finetuner.train(1)["loss"]
    return record(finetuner.model.variables, before, loss)


def pretrain(name: str, vocabulary: str) -> Record:
    """Computes what is recorded of a case of pretraining."""
    settings = dataclasses.replace(PRETRAINING, **PRETRAINED[name])
    encoder = load_fast_tokenizer(vocabulary)
    trainer = Pretrainer(settings, encoder, tf.distribute.OneDeviceStrategy("/cpu:0"))
    before = [variable.numpy() for variable in trainer.model.variables]
    rows, columns = np.indices([settings.train_batch_size, settings.sequence_length])
    ids = 5 + (7 * rows + 3 * columns**2) % (SHAPE.vocab_size - 5)  # none of the special tokens
    ids[:, 0], ids[:, [15, -1]] = encoder.cls_id, encoder.sep_id
    mask = np.ones_like(ids)
    ids[-1, 16:], mask[-1, 16:] = encoder.pad_id, 0
    batch = {"input_ids": ids, "input_mask": mask, "segment_ids": (columns > 15) * mask}
    trainer.train_dataset = tf.data.Dataset.from_tensors(
        {key: values.astype(np.int32) for key, values in batch.items()}
    )
    output = trainer.train(tf.constant(1))
    return record(trainer.model.variables, before, float(output["loss"]))


def record(variables: Sequence[tf.Variable], before: list[np.ndarray], loss: float) -> Record:
    """Returns what is recorded of a step, after which the variables have their values."""
    found: Record = {"loss": shortened(loss)}
    for number, (variable, initial) in enumerate(zip(variables, before, strict=True)):
        fingerprints = fingerprint(initial), fingerprint(variable.numpy())
        found[f"{number} {variable.name}"] = [list(initial.shape), *fingerprints]
    return found


def compute(name: str) -> Record:
    """Computes what is recorded of a case."""
    tf.config.run_functions_eagerly(name not in TRACED)
    try:
        with tempfile.TemporaryDirectory() as folder:
            vocabulary = write_vocabulary(Path(folder))
            return (finetune if name in FINETUNED else pretrain)(name, vocabulary)
    finally:
        tf.config.run_functions_eagerly(False)


def write() -> None:
    """Writes `PINNED`, a variable a line; `git diff` then shows what has changed.

    Run `PYTHONPATH=. python tests/test_pinned_weights.py` from the root of the project, on a CPU.
    """
    cases = []
    for name in CASES:
        lines = [f"{json.dumps(key)}: {json.dumps(own)}" for key, own in compute(name).items()]
        cases.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    PINNED.write_text("{\n" + ",\n".join(cases) + "\n}\n", encoding="utf-8")


def is_close(pinned: list[float], found: list[float], rtol: float, atol: float) -> bool:
    """Returns whether two fingerprints are the same but for rounding.

    A product with cosines may be near 0, where large numbers cancel: what it may be off is a share
    of the values' size, the square root of the sum of their squares.
    """
    allowed = rtol * math.sqrt(pinned[1]) + atol, rtol * pinned[1] + atol
    pairs = zip(pinned, found, allowed, strict=True)
    return all(abs(own - other) <= most for own, other, most in pairs)


def read() -> dict[str, Record]:
    """Returns what is recorded, by case."""
    return json.loads(PINNED.read_text(encoding="utf-8"))


def test_every_case_is_recorded():
    assert list(read()) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_weights_before_and_after_a_step_are_those_recorded(name):
    pinned, found = read()[name], compute(name)
    pinned_loss, loss = pinned.pop("loss"), found.pop("loss")
    shapes = [{key: own[0] for key, own in each.items()} for each in (pinned, found)]
    assert shapes[0] == shapes[1]
    # The initial weights first: where they differ, so does all that follows.
    for place, tolerance in ((1, BEFORE), (2, AFTER)):
        differing = [
            f"{key}: {own[place]}, recorded {pinned[key][place]}"
            for key, own in found.items()
            if not is_close(pinned[key][place], own[place], **tolerance)
        ]
        when = ("initially", "after a step")[place - 1]
        assert not differing, f"{len(differing)} of {len(found)} variables differ {when}"
    assert loss == pytest.approx(pinned_loss, rel=AFTER["rtol"])


if __name__ == "__main__":
    write()
