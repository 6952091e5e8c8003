"""Tagging: no tag is lost in windows. (Of all corpora: see test_every_task.py.)"""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tfbio.base.config import ConfigError
from tfbio.formats import tagged_words
from tfbio.formats.splits import find_split
from tfbio.formats.task_examples import TaggedSentence
from tfbio.models.head_config import NO_TARGET
from tfbio.task_types import entity_metrics, tagging, task_table, types
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.tagging import Tagging
from tfbio.text import tokenization

Settings = tagging.Tagging.Settings
CORPORA = ("bc5cdr_chem", "bc5cdr_disease", "ncbi_disease", "bc2gm", "jnlpba")


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.load_tokenizer(reference.PUBMEDBERT)


def test_the_first_token_of_a_word_has_its_tag(tokenizer):
    task_type = tagging.Tagging(("O", "B", "I"))
    sentence = TaggedSentence("s", ("Naloxone", "\u200b", "reverses"), ("B", "O", "I"))
    features = task_type.features([sentence], tokenizer, 32)
    tokens = [e.tokens for e in tokenizer.encode(sentence.words)]
    assert tokens[1] == []  # a word of nothing that is printed is [UNK]
    expected = ["[CLS]", *tokens[0], "[UNK]", *tokens[2], "[SEP]"]
    assert [*map(tokenizer.backend.id_to_token, features.input_ids[0])] == expected
    rest = [[NO_TARGET] * (len(own) - 1) for own in (tokens[0], tokens[2])]
    assert features.per_token["targets"].values[0].tolist() == [-1, 1, *rest[0], 0, 2, *rest[1], -1]


# --- Schemes and sub-tokens ----------------------------------------------------------------------

#        the word alone, two words, three; two entities that touch; another type
BIO = "O  B  O  B  I  O  B  I  I  B  I  B-x B-y I-y O"
IO = " O  I  O  I  I  O  I  I  I  I  I  I-x I-y I-y O"
BIOUL = "O U  O  B  L  O  B  I  L  B  L  U-x B-y L-y O"
# F1 of the gold tags of the test sets, in the order of CORPORA: IO cannot part what touches.
IO_F1 = dict(zip(CORPORA, (0.9969, 0.9908, 0.9922, 0.9817, 0.9835), strict=True))
LABELS = ("O", "B", "I", "B-x", "I-x", "B-y", "I-y")


@pytest.mark.parametrize(("scheme", "expected"), [("BIO", BIO), ("IO", IO), ("BIOUL", BIOUL)])
def test_tags_are_turned_into_the_scheme_and_back(scheme, expected, tokenizer):
    task_type = tagging.Tagging(LABELS, Settings(scheme=scheme))
    assert set(task_type.labels) >= set(expected.split()) and task_type.labels[0] == "O"
    assert (
        len(task_type.labels) == {"BIO": 7, "IO": 4, "BIOUL": 13}[scheme] == task_type.num_outputs
    )
    words = tuple(f"word{n}" for n in range(15))
    sentence = TaggedSentence("s", words, tuple(BIO.split()))
    # In windows of few tokens, too: a window's end must not make an I an L.
    for length in (128, 8):
        features = task_type.features([sentence], tokenizer, length)
        found = [
            task_type.labels[t]
            for own in features.per_token["targets"].values
            for t in own[own != NO_TARGET]
        ]
        assert found == expected.split(), length
        (back,) = task_type.predictions(features.per_token["targets"].values, features, [sentence])
        # IO makes one entity of two of the same type that touch.
        touch = BIO.replace("I  I  B  I", "I  I  I  I") if scheme == "IO" else BIO
        assert list(back) == touch.split(), length


def test_invalid_bioul_is_turned_tag_by_tag(tokenizer):
    task_type = tagging.Tagging(("O", "B-x", "I-x"), Settings(scheme="BIOUL"))
    predicted = ["I-x", "L-x", "L-x", "O", "B-x", "O", "U-x", "I-x", "L-x", "B-x", "B-x"]
    sentence = TaggedSentence("s", ("w",) * 11, ("O",) * 11)
    features = task_type.features([sentence], tokenizer, 32)
    outputs = np.full(features.input_ids[0].shape, task_type.labels.index("O"))
    outputs[features.words[0]] = [task_type.labels.index(tag) for tag in predicted]
    (found,) = task_type.predictions([outputs], features, [sentence])
    assert list(found) == ["I-x", "I-x", "I-x", "O", "B-x", "O", "B-x", "I-x", "I-x", "B-x", "B-x"]


def test_other_schemes_need_bio():
    with pytest.raises(ConfigError, match="tagging.scheme IO .* this one has O, I-PAR: leave it"):
        tagging.Tagging(("O", "I-PAR"), Settings(scheme="IO"))
    assert tagging.Tagging(("O", "I-PAR")).labels == ("O", "I-PAR")


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [("BIO", "B I I I I O O"), ("IO", "I I I I I O O"), ("BIOUL", "B I I I L O O")],
)
def test_all_tokens_of_a_word_go_on_with_its_tag(scheme, expected, tokenizer):
    task_type = tagging.Tagging(("O", "B", "I"), Settings(scheme=scheme, label_all_tokens=True))
    words = ("xylazolid", "zzqx", "qqz")
    counts = [len(e.tokens) for e in tokenizer.encode(words)]
    sentence = TaggedSentence("s", words, ("B", "I", "O"))
    features = task_type.features([sentence], tokenizer, 32)
    names = expected.split()
    expected = names[:1] + names[1:2] * (counts[0] + counts[1] - 2) + names[4:5] + ["O"] * counts[2]
    found = [task_type.labels[target] for target in features.per_token["targets"].values[0][1:-1]]
    assert min(counts) > 1 and found == expected
    assert features.per_token["targets"].values[0][[0, -1]].tolist() == [NO_TARGET, NO_TARGET]
    # What is predicted for the others does not count.
    outputs = np.full_like(features.per_token["targets"].values[0], task_type.labels.index("O"))
    firsts = 1 + np.cumsum([0, *counts[:-1]])
    outputs[firsts] = features.per_token["targets"].values[0][firsts]
    assert task_type.predictions([outputs], features, [sentence]) == [("B", "I", "O")]


@pytest.mark.parametrize("scheme", ["BIOUL", "IO"])
@pytest.mark.parametrize("corpus", CORPORA)
def test_what_a_scheme_loses_of_the_gold_tags(tokenizer, corpus, scheme):
    """Counted in the tags themselves: IO has what stands between other tags as one entity."""
    folder = reference.corpus(f"{corpus}/blurb")
    sentences = tagged_words.read(find_split(str(folder), "test"))
    task_type = tagging.Tagging(("O", "B", "I"), Settings(scheme=scheme, label_all_tokens=True))
    features = task_type.features(sentences, tokenizer, 128)
    predicted = task_type.predictions(features.per_token["targets"].values, features, sentences)
    f1 = entity_metrics.entity_scores([sentence.tags for sentence in sentences], predicted)["f1"]
    runs = " ".join("".join(x.tags).replace("O", " ") for x in sentences).split()
    whole = sum(run.count("B") == 1 for run in runs)
    entities = sum(run.count("B") for run in runs)
    expected = 2 * whole / (len(runs) + entities) if scheme == "IO" else 1.0
    assert f1 == pytest.approx(expected)
    assert round(f1, 4) == (IO_F1[corpus] if scheme == "IO" else 1.0)


@pytest.mark.parametrize("task_type", ["byte_bpe", "unigram"])
def test_no_tag_is_lost_with_other_vocabularies(vocabulary_of_kind, task_type):
    """In windows of 16 tokens, of which these vocabularies' words take many."""
    path = find_split(str(reference.corpus("bc5cdr_chem/blurb")), "dev")
    sentences = tagged_words.read(path)[:400]
    other = tokenization.load_tokenizer(vocabulary_of_kind[task_type], task_type != "byte_bpe")
    learnt = tagging.Tagging(("O", "B", "I"), Settings(label_all_tokens=True))
    features = learnt.features(sentences, other, 16)
    assert len(features.input_ids) > 3 * len(sentences) and features.lengths.max() == 16
    predicted = learnt.predictions(features.per_token["targets"].values, features, sentences)
    assert predicted == [sentence.tags for sentence in sentences]
    gold = [sentence.tags for sentence in sentences]
    assert entity_metrics.entity_scores(gold, predicted)["f1"] == 1.0
    # The words are in the windows, with the space before each.
    both = zip(features.input_ids, features.words, strict=True)
    ids = np.concatenate([own[firsts] for own, firsts in both])
    words = [word for sentence in sentences for word in sentence.words]
    assert ids.tolist() == [own[0] for own in other.encode_words(words)]


# --- Losses --------------------------------------------------------------------------------------


def test_the_loss_is_that_of_the_tokens_with_targets():
    task_type = tagging.Tagging(("O", "B", "I"))
    logits = tf.random.stateless_normal([6, 3], [0, 1])
    targets = tf.constant([[-1, 0, 2], [1, -1, -1]])
    losses, weights = task_type.losses(logits, {"targets": targets})
    assert weights.numpy().tolist() == [0, 1, 1, 1, 0, 0]
    probabilities = tf.nn.softmax(logits).numpy()
    expected = -np.log([probabilities[1, 0], probabilities[2, 2], probabilities[3, 1]])
    np.testing.assert_allclose(losses.numpy()[1:4], expected, rtol=1e-5)
    assert losses.numpy()[[0, 4, 5]].tolist() == [0, 0, 0]


# --- The authors' scores --------------------------------------------------------------------------


def test_words_behind_an_early_cut_do_not_count_in_the_authors_scores(vocab_file):
    tokenizer = tokenization.load_tokenizer(vocab_file, True)
    labels = ("O", "B", "I")
    task_type = types.make(
        "tagging", labels, FinetuningConfig(tagging=Tagging.Settings(early_cut=True))
    )
    long = ("B", "O", *["B"] * 10)
    examples = [
        TaggedSentence("1", ("the",) * 12, long),
        TaggedSentence("2", ("of", "a"), ("O", "B")),
    ]
    features = task_type.features(examples, tokenizer, 18)
    assert task_type.kept(features, 2).tolist() == [3, 2]
    # All B of the kept words are found, with a wrong one in the second sentence.
    outputs = [np.array([0, 1, 0, 1, 0]), np.array([0, 1, 1, 0])]
    predicted = task_type.predictions(outputs, features, examples)
    score = task_table.TASKS["bc5cdr_chem"].score
    assert score(examples, predicted)["recall"] == pytest.approx(3 / 12)
    scores = task_type.more_scores(score, examples, predicted, features, outputs)
    assert scores["bioelectra_code_precision"] == pytest.approx(3 / 4)
    assert scores["bioelectra_code_recall"] == 1
    assert scores["bioelectra_code_f1"] == pytest.approx(6 / 7)
    whole = types.make("tagging", labels, FinetuningConfig())
    assert not whole.more_scores(score, examples, predicted, features, outputs)
