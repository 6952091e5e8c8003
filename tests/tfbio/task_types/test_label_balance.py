"""Label bias by counts of the files themselves, and weighted cross-entropy by PyTorch's."""

import dataclasses
import gzip
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
import torch

from tests import reference, task_types
from tests.pretraining_runs import eagerly
from tfbio.base.config import ConfigError
from tfbio.formats.splits import find_split
from tfbio.formats.task_examples import LabelledText, Question, TaggedSentence
from tfbio.runs import finetuning_data
from tfbio.task_types import fixed_shapes, packing, task_table, types
from tfbio.task_types.common_settings import FinetuningRun
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.question_answering import QuestionAnswering
from tfbio.task_types.tagging import Tagging
from tfbio.text import tokenization

PLAIN, WEIGHTED = FinetuningConfig(), FinetuningConfig(minority_weight=3.0)
TAGS = ("O", "B", "I")
SENTENCES = [
    TaggedSentence("1", ("the", "drug", "of", "a"), ("O", "B", "O", "O")),
    TaggedSentence("2", ("of", "the"), ("O", "O")),
    TaggedSentence("3", ("naloxone", "the", "of"), ("B", "I", "O")),
]
# The majority label is not the first one.
TEXTS = [LabelledText(str(n), f"drug {n}", label) for n, label in enumerate("ybyyc")]


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.load_tokenizer(reference.PUBMEDBERT)


def make(name, labels, examples, tokenizer, settings):
    """The type of a task, and its windows to train on."""
    made = types.make(name, labels, settings)
    return made, made.balanced(made.features(examples, tokenizer, 16), settings)


# --- Weighted cross-entropy ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, labels, examples, weights",
    [
        ("tagging", TAGS, SENTENCES, [1.0, 3.0, 3.0]),
        ("classification", ("b", "c", "y"), TEXTS, [3.0, 3.0, 1.0]),
    ],
)
def test_the_mean_of_a_loss_is_torchs(name, labels, examples, weights, tokenizer):
    made, trained = make(name, labels, examples, tokenizer, WEIGHTED)
    chosen = np.arange(len(examples))
    (part,) = packing.Packer(trained, len(examples), 1, 0, 16).batch(chosen)
    batch = {key: tf.constant(array) for key, array in part.arrays.items()}
    targets = batch["targets"].numpy().ravel()
    logits = tf.random.stateless_normal([len(targets), 3], [0, 1])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses, own = made.losses(logits, batch)
        loss = tf.reduce_sum(losses) / tf.reduce_sum(own)
    theirs = torch.tensor(logits.numpy(), requires_grad=True)
    expected = torch.nn.functional.cross_entropy(
        theirs, torch.tensor(targets).long(), torch.tensor(weights), ignore_index=-1
    )
    expected.backward()
    assert float(loss) == pytest.approx(float(expected.detach()), rel=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, logits), theirs.grad, atol=1e-6)
    # Batches of fixed shapes, for TPUs, have the same.
    shapes = [fixed_shapes.Shape(4, 32)]
    fixed = fixed_shapes.FixedShapePacker(trained, shapes, 1, 0, 8).train_batch(chosen).arrays
    real = fixed["targets"] >= 0 if name == "tagging" else fixed["real"] > 0
    pairs = zip(fixed["targets"][real], fixed["weights"][real], strict=True)
    ours = zip(targets[targets >= 0], own.numpy()[targets >= 0], strict=True)
    assert Counter(pairs) == Counter(ours)


@pytest.mark.parametrize("parts", [1, 2])
def test_the_loss_of_a_step_is_torchs(parts, make_finetuner, cpu):
    """Also if the batch is divided into parts with other sums of weights."""
    settings = dataclasses.replace(
        task_types.SETTINGS,
        minority_weight=5.0,
        run=FinetuningRun(gradient_accumulation_steps=parts),
    )
    made, features = make_finetuner("tagging", cpu, settings)
    made.initialize(0, "")
    trained = made.task_type.balanced(features, settings)
    order = np.arange(settings.train_batch_size)
    (part,) = packing.Packer(features, len(order), 1, made.pad_id).batch(order)
    logits = made.model({key: tf.constant(array) for key, array in part.arrays.items()})
    expected = torch.nn.functional.cross_entropy(
        torch.tensor(logits.numpy()),
        torch.tensor(part.arrays["targets"].ravel()).long(),
        torch.tensor([1.0, 5.0, 5.0]),
        ignore_index=-1,
    )
    made.begin(trained, order, seed=0)
    with eagerly():
        assert made.train(1)["loss"] == pytest.approx(float(expected), rel=1e-5)


# --- Oversampling --------------------------------------------------------------------------------


def test_windows_with_a_minority_label_are_there_several_times(tokenizer):
    settings = FinetuningConfig(minority_copies=3)
    _, trained = make("tagging", TAGS, SENTENCES, tokenizer, settings)
    assert trained.example.tolist() == [0, 0, 0, 1, 2, 2, 2]
    for values in (trained.input_ids, trained.per_token["targets"].values, trained.words):
        assert len(values) == 7 and values[1] is values[0] is not values[3]
    assert set(trained.per_token) == {"targets"}
    _, trained = make("classification", ("b", "c", "y"), TEXTS, tokenizer, settings)
    assert trained.example.tolist() == [0, 1, 1, 1, 2, 3, 4, 4, 4]
    made, plain = make("tagging", TAGS, SENTENCES, tokenizer, FinetuningConfig())
    assert made.balanced(plain, FinetuningConfig()) is plain


def test_a_run_trains_on_the_copies_and_scores_without(tokenizer):
    task = task_table.TASKS["bc5cdr_chem"]
    settings = FinetuningConfig(minority_copies=4, train_batch_size=3, num_train_epochs=2.0)
    examples = dict.fromkeys(("train", "dev", "test"), SENTENCES)
    features, trained = finetuning_data.encode_examples(task, examples, tokenizer, settings)
    assert {split: len(own.input_ids) for split, own in features.items()} == dict.fromkeys(
        examples, 3
    )
    assert len(trained.input_ids) == 4 + 1 + 4
    assert finetuning_data.count_steps(settings, trained) == 2 * 9 // 3


@pytest.mark.parametrize("setting", ["minority_weight", "minority_copies"])
@pytest.mark.parametrize(
    "name", ["regression", "multilabel", "question_answering", "token_multilabel"]
)
def test_they_are_for_one_label_each(name, setting):
    settings = FinetuningConfig(**{setting: 2})
    with pytest.raises(ConfigError, match=f"this is one of {name}: leave them at 1"):
        types.make(name, ("a", "b"), settings)


def test_the_loss_of_a_whole_sentence_has_no_weights():
    crf = Tagging.Settings(head="crf")
    types.make("tagging", TAGS, FinetuningConfig(minority_copies=2, tagging=crf))
    with pytest.raises(ConfigError, match=r"minority_weight .* tagging.head crf has that of whole"):
        types.make("tagging", TAGS, FinetuningConfig(minority_weight=2.0, tagging=crf))


# --- Label bias ----------------------------------------------------------------------------------


def bias(name, tokenizer, path, settings=PLAIN):
    """The line for the training set of one of the tasks."""
    task = task_table.TASKS[name]
    examples = task.read(find_split(str(reference.corpus(path)), "train"))
    made = types.make(task.task_type, task.labels, settings)
    return made.describe_bias(examples, made.features(examples, tokenizer, 64))


def counted(path):
    """The last cells of the lines of a gzipped training file."""
    with gzip.open(reference.corpus(path) / "train.tsv.gz", "rt", encoding="utf-8") as lines:
        return Counter(line.rstrip("\n").split("\t")[-1] for line in lines if line.strip())


@pytest.mark.parametrize("name", ["bc5cdr_chem", "bc5cdr_disease"])
def test_the_bias_of_entities_is_that_of_the_files_words(name, tokenizer):
    tags = counted(f"{name}/blurb")
    others = tags["B"] + tags["I"]
    said = (
        f"label bias: {others / tags['O']:.4f} ({others:,} of other labels to {tags['O']:,} of O)"
    )
    assert bias(name, tokenizer, f"{name}/blurb") == said
    assert said.startswith("label bias: 0.06")


def test_the_bias_of_bc5cdr_is_the_papers(tokenizer):
    """Shin et al. (2020), Table 8: 0.08, of tokens, both sets together; they have other tokens."""
    others = majority = 0
    settings = FinetuningConfig(tagging=Tagging.Settings(label_all_tokens=True))
    for name in ("bc5cdr_chem", "bc5cdr_disease"):
        words = bias(name, tokenizer, f"{name}/blurb", settings).replace(",", "").split()
        others, majority = others + int(words[3].lstrip("(")), majority + int(words[8])
    assert round(others / majority, 2) == 0.08


def test_the_bias_of_chemprot_is_that_of_the_files_relations(tokenizer):
    """Table 8 has 0.27, of 19,461 examples; BLURB's files have others, 18,035."""
    labels = counted("chemprot/blurb")
    others = labels.total() - labels["false"]
    said = bias("chemprot", tokenizer, "chemprot/blurb")
    assert labels.total() == 18035 and said.startswith(
        f"label bias: {others / labels['false']:.4f}"
    )
    assert said.startswith("label bias: 0.29") and said.endswith("of false)")


def test_the_bias_of_answers_counts_pairs():
    def asked(question, *answers):
        return Question("", question, "", answers, (0,) * len(answers))

    made = QuestionAnswering()
    # One pair four times, in as many contexts; another question has the same answer once.
    examples = [asked("Which?", "p53", "TP53")] * 4 + [asked("Who?", "p53"), asked("Why?")]
    said = "label bias: 0.2500 (the rarest question with its answer is there 1 times, the most"
    assert made.describe_bias(examples, None) == f"{said} frequent one 4 times)"
    assert made.describe_bias([asked("Why?")], None) == ""


@pytest.mark.parametrize("name", ["regression", "multilabel", "token_multilabel"])
def test_other_types_have_none(name):
    assert types.TYPES[name](("a", "b")).describe_bias([], None) == ""
