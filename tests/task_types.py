"""A Finetuner for every type of task, with few and small examples."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tfbio.formats.task_examples import LabelledText, Question, TaggedSentence
from tfbio.models.encoder_config import EncoderConfig
from tfbio.runs import finetuner
from tfbio.task_types import types
from tfbio.task_types.common_settings import FinetuningRun
from tfbio.task_types.features import Features
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.token_multilabel import LabelledSentence
from tfbio.text import tokenization

SETTINGS = FinetuningConfig(
    sequence_length=32,
    train_batch_size=8,
    learning_rate=3e-3,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    run=FinetuningRun(eval_batch_size=16),
)


def with_fixed_shapes(settings):
    run = dataclasses.replace(settings.run, fixed_shapes="always")
    return dataclasses.replace(settings, run=run)


# For each: type of task, labels, settings of the type.
TASK_TYPES = {
    "tagging": ("tagging", ("O", "B", "I"), {}),
    "tagging_crf": ("tagging", ("O", "B", "I"), {"head": "crf"}),
    "tagging_lstm": ("tagging", ("O", "B", "I"), {"head": "lstm"}),
    "tagging_mlp": ("tagging", ("O", "B", "I"), {"head": "mlp", "mlp_layers": 2, "mlp_size": 24}),
    "classification": ("classification", ("a", "b", "c"), {}),
    "pair": ("classification", ("a", "b", "c"), {"text_head": "tanh"}),
    "mean": (
        "classification",
        ("a", "b", "c"),
        {"pooling": "mean", "text_head": "mlp", "mlp_layers": 2, "mlp_size": 24},
    ),
    "mention": ("classification", ("a", "b", "c"), {"pooling": "mention"}),
    "text_lstm": ("classification", ("a", "b", "c"), {"text_head": "lstm"}),
    "entity_start": ("classification", ("a", "b", "c"), {"pooling": "entity_start"}),
    "regression": ("regression", (), {}),
    "multilabel": ("multilabel", ("a", "b", "c"), {}),
    "question_answering": ("question_answering", (), {}),
    "question_answering_electra": (
        "question_answering",
        (),
        {"head": "electra", "beam_size": 4},
    ),
    "token_multilabel": ("token_multilabel", ("a", "b", "c"), {"positive_weight": 2.0}),
}


def make_examples(name, texts):
    """Real sentences, with labels that are made up."""
    task_type = TASK_TYPES[name][0]
    for number, text in enumerate(texts):
        words = text.split()[: 4 + number]
        if task_type == "tagging":
            tags = tuple("B" if word[0] in "tpc" else "O" for word in words)
            yield TaggedSentence(str(number), tuple(words), tags)
        elif task_type == "token_multilabel":
            tags = tuple("|".join(x for x in "abc" if x in word) or "O" for word in words)
            yield LabelledSentence(str(number), tuple(words), tags)
        elif task_type == "question_answering":
            answer = words[number % len(words)]
            context = " ".join(words)
            places = (context.index(answer),)
            if number % 5 == 4:  # there is no answer
                yield Question(str(number), "Which word?", context, (), ())
            else:
                yield Question(str(number), "Which word?", context, (answer,), places)
        else:
            if name in ("mention", "entity_start"):
                words = ["[S1]", words[0], words[1], "[E1]", *words[2:], "[S2]", words[3], "[E2]"]
            label = {"regression": number / 4, "multilabel": ("a", "c")[: number % 3]}
            label = label.get(task_type, "abc"[number % 3])
            pair = "A second sentence." if name == "pair" else ""
            yield LabelledText(str(number), " ".join(words), label, pair)


# The others take as long, and differ from these in little.
SOME = "tagging", "question_answering"
# The graph of "classification" is that of "regression", with the loss of "pair".
BY_TYPE = [
    name if name in SOME else pytest.param(name, marks=pytest.mark.slow)
    for name in TASK_TYPES
    if name != "classification"
]


def train(
    made: finetuner.Finetuner, features: Features, order: np.ndarray, seed: int = 0
) -> list[tuple[int, float, float]]:
    """Trains in loops of `run.steps_per_loop` from where a Finetuner stands.

    Args:
      made: an initialized Finetuner.
      features: to train on.
      order: int64 [steps * train_batch_size], see `Finetuner.begin`.
      seed: of the trial.

    Returns:
      The step, the loss and the learning rate at the end of each loop.
    """
    made.begin(features, order, seed)
    logged, until = [], len(order) // made.config.train_batch_size
    while (step := int(made.step.numpy())) < until:
        steps = min(made.config.run.steps_per_loop, until - step)
        figures = made.train(steps)
        logged.append((step + steps, figures["loss"], figures["learning_rate"]))
    return logged


def make_finetuner(
    name: str,
    strategy: tf.distribute.Strategy,
    shape: EncoderConfig,
    vocabulary: str,
    sentences: list[str],
    settings: FinetuningConfig = SETTINGS,
) -> tuple[finetuner.Finetuner, Features]:
    """A Finetuner for one of `TASK_TYPES`, and windows to train on.

    Args:
      name: of the type.
      strategy: where to compute.
      shape: of the encoder, which has random weights.
      vocabulary: path of the vocabulary.
      sentences: real ones.
      settings: but for those of the type.
    """
    task_type, labels, changes = TASK_TYPES[name]
    changed = types.TYPES[task_type].Settings(**changes)
    settings = dataclasses.replace(settings, **{task_type: changed})
    made = types.make(task_type, labels, settings)
    tokenizer = tokenization.load_tokenizer(vocabulary)
    long = [sentence for sentence in sentences if len(sentence.split()) > 8][:23]
    texts = make_examples(name, long)
    features = made.features(list(texts), tokenizer, settings.sequence_length)
    return finetuner.Finetuner(settings, shape, made, tokenizer.pad_id, 60, strategy), features
