"""The entities of relations: markers, dummies, and what the model sees of them."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from data_prep.corpora import corpus_splits, ddi
from tests import reference
from tests.tfbio.task_types.test_packing import SHAPE
from tfbio.base import config
from tfbio.formats import relations
from tfbio.formats.task_examples import LabelledText
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.models import encoder as encoders
from tfbio.models.head_config import HeadConfig
from tfbio.models.task_model import TaskModel
from tfbio.runs import finetuning, predict
from tfbio.task_types import packing, task_table
from tfbio.task_types.classification import Classification
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.text import special_tokens, tokenization
from tfbio.weights import checkpoint_settings, checkpoint_weights


def example(text):
    return LabelledText("1", text, "yes", where=("train.tsv", 7))


@pytest.mark.parametrize(
    ("first", "second", "marked"),
    [
        ((0, 3), (8, 11), "[S1] Abc [E1] and [S2] Def [E2]"),
        ((0, 3), (3, 4), "[S1] Abc [E1][S2]   [E2]and Def"),  # they touch
        ((0, 7), (4, 7), "[S1] Abc [S2] and [E2] [E1] Def"),  # one in the other
        ((0, 7), (0, 3), "[S1] [S2] Abc [E2] and [E1] Def"),
        ((0, 7), (4, 11), "[S1] Abc [S2] and [E1] Def [E2]"),  # they overlap
    ],
)
def test_markers_are_set_and_taken_away(first, second, marked):
    text = "Abc and Def"
    assert relations.mark(text, first, second) == marked
    plain, spans = relations.find(example(marked), "mention", keep_markers=False)
    assert (plain, spans) == (text, [first, second])
    seen, spans = relations.find(example(marked), "mention", keep_markers=True)
    assert seen == marked
    for (start, end), (own, own_end) in zip(spans, (first, second), strict=True):
        inner = marked[start:end]
        for marker in relations.MARKERS:
            inner = inner.replace(f"{marker} ", "").replace(f" {marker}", "")
        assert inner.strip() == text[own:own_end].strip()
    seen, spans = relations.find(example(marked), "entity_start", keep_markers=True)
    assert [seen[start:end] for start, end in spans] == ["[S1]", "[S2]"]


def test_dummies_are_the_mentions():
    text = "@GENE$ in @DISEASE$."
    _, spans = relations.find(example(text), "mention", keep_markers=True)
    assert [text[start:end] for start, end in spans] == ["@GENE$", "@DISEASE$"]
    _, spans = relations.find(example("A @DRUG-DRUG$."), "mention", keep_markers=True)
    assert spans == [(2, 13), (2, 13)]


@pytest.mark.parametrize(
    ("text", "pooling", "keep_markers"),
    [
        ("No entity.", "mention", True),
        ("@A$ and @B$ and @C$", "mention", True),
        ("@A$ and @B$", "entity_start", True),
        ("@A$ and @B$", "mention", False),
        ("[S1] A [E1] and B", "mention", True),
    ],
)
def test_what_is_missing_is_named(text, pooling, keep_markers):
    with pytest.raises(TaskFileError, match=r"train\.tsv, line 7: expected \[S1\].*--entities"):
        relations.find(example(text), pooling, keep_markers)


def test_new_text_for_a_model_of_marked_texts_is_marked():
    relations.require_markers([example("[S1] A [E1] and [S2] B [E2]")])
    for text in ("A and B", "@A$ and @B$", "[S1] A [E1] and B", "[S1] [S1] A [E1] [S2] B [E2]"):
        with pytest.raises(TaskFileError, match=r"train\.tsv, line 7: expected \[S1\].*--entities"):
            relations.require_markers([example(text)])
    with pytest.raises(TaskFileError, match=r"^'A and B': expected \[S1\], "):
        relations.require_markers([LabelledText("", "A and B", "")])


def with_markers(words, folder):
    """WordPiece's tokenizer of a vocabulary of these words, with the markers."""
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    return tokenization.load_tokenizer(folder / "vocab.txt", True, relations.MARKERS)


def test_markers_take_ids_that_mean_nothing(tmp_path):
    words = [
        *special_tokens.SPECIAL_TOKENS,
        "[unused0]",
        "the",
        "gene",
        "##s",
        "[",
        "]",
        "s",
        "##1",
    ]
    text = "the [S1] GENES [E1] gene [S2] the [E2]"
    unused = [f"[unused{n}]" for n in range(1, 9)]
    for own, markers in (
        (words + unused, [5, 13, 14, 15]),
        (words, [5, 13, 14, 15]),
        ([word for word in words if "unused" not in word], [12, 13, 14, 15]),
    ):
        vocab = {word: number for number, word in enumerate(own)}
        tokenizer = with_markers(own, tmp_path)
        the, gene, s = vocab["the"], vocab["gene"], vocab["##s"]
        s1, e1, s2, e2 = markers
        assert tokenizer.encode([text])[0].ids == [the, s1, gene, s, e1, gene, s2, the, e2]
        # As many embeddings are needed as the last of these has.
        assert tokenizer.rows == max(len(own), max(markers) + 1)
        assert tokenizer.vocab_size == len(own)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    words = ["the", "gene", "##s", "binds", "a", "drug", "[", "]", "s1", ",", "mek"]
    words = [*special_tokens.SPECIAL_TOKENS, *words]
    return with_markers(words, tmp_path_factory.mktemp("vocabulary"))


TEXTS = ("the [S1] genes [E1] binds a [S2] drug [E2]", "[S1] a [S2] genes [E2] mek [E1] , the drug")


@pytest.mark.parametrize(
    ("pooling", "keep", "expected"),
    [
        # [CLS] the [S1] gene ##s [E1] binds a [S2] drug [E2]; [CLS] [S1] a [S2] gene ##s [E2] ...
        ("entity_start", True, [[{2}, {8}], [{1}, {3}]]),
        ("mention", True, [[{3, 4}, {9}], [{2, 3, 4, 5, 6, 7}, {4, 5}]]),
        # [CLS] the gene ##s binds a drug; [CLS] a gene ##s mek , the drug
        ("mention", False, [[{2, 3}, {6}], [{1, 2, 3, 4}, {2, 3}]]),
    ],
)
def test_the_tokens_of_the_entities(pooling, keep, expected, tokenizer):
    task_type = Classification(
        ("no", "yes"), Classification.Settings(pooling=pooling, entity_markers=keep)
    )
    examples = [example(text) for text in TEXTS]
    features = task_type.features(examples, tokenizer, 32)
    assert [[set(tokens) for tokens in both] for both in features.positions["entities"]] == expected
    assert len({both.shape for both in features.positions["entities"]}) == 1
    # What is cut off is seen as [SEP], the fifth token.
    cut = task_type.features(examples, tokenizer, 5)
    found = [[set(tokens) for tokens in both] for both in cut.positions["entities"]]
    assert found == [[{min(n, 4) for n in own} for own in both] for both in expected]


@pytest.mark.parametrize("pooling", ["mention", "mention_mean", "entity_start"])
def test_the_head_sees_the_entities_side_by_side(pooling, tokenizer):
    """Packed, against the encoder's outputs for each text alone."""
    task_type = Classification(("no", "yes"), Classification.Settings(pooling=pooling))
    features = task_type.features([example(text) for text in TEXTS], tokenizer, 32)
    model = TaskModel(SHAPE, HeadConfig(2, False, 0.1, pooling))
    (part,) = packing.Packer(features, 2, 1, pad_id=0).batch(np.array([1, 0]))
    assert part.arrays["input_ids"].shape[0] == 1
    batch = {name: tf.constant(values) for name, values in part.arrays.items()}
    logits = tf.function(model, jit_compile=True)(batch)
    over = np.mean if pooling == "mention_mean" else np.max
    for found, piece in zip(logits, (1, 0), strict=True):
        ids = tf.constant(features.input_ids[piece][None])
        outputs = model.encoder(ids, tf.ones_like(ids), tf.zeros_like(ids)).numpy()[0]
        vector = np.concatenate(
            [
                over(outputs[sorted(set(own))], axis=0)
                for own in features.positions["entities"][piece]
            ]
        )
        expected = vector @ model.head.kernel.numpy() + model.head.bias.numpy()
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.fixture(scope="module")
def marked():
    """The start of each split of DDI, with markers."""
    data = reference.corpus("ddi2013")
    splits = ddi.read_examples(data / "original", data / "blurb/index", [], "marker")
    return {name: rows[:64] for name, rows in splits.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "keep"), [("first", False), ("mention", False), ("entity_start", True)]
)
def test_trains_on_real_markers(pooling, keep, marked, shallow_encoder, cpu, tmp_path):
    corpus_splits.write(tmp_path / "ddi", marked, False)
    settings = config.load(FinetuningConfig, defaults=task_table.TASKS["ddi"].settings)
    settings = dataclasses.replace(
        settings,
        sequence_length=64,
        train_batch_size=8,
        num_trials=1,
        num_train_epochs=1.0,
        classification=Classification.Settings(pooling=pooling, entity_markers=keep),
    )
    scores = finetuning.finetune(
        finetuning.Run(
            settings,
            task=task_table.TASKS["ddi"],
            data_dir=str(tmp_path / "ddi"),
            init_checkpoint=shallow_encoder,
            output_dir=str(tmp_path / "out"),
            strategy=cpu,
        )
    )
    assert np.isfinite(scores["mean"])
    # The vocabulary of the tests has no tokens without a use, nor has PubMedBERT's.
    rows = json.loads((tmp_path / "out" / "config.json").read_text())["encoder"]["vocab_size"]
    assert rows - checkpoint_settings.read_encoder_config(shallow_encoder).vocab_size == (
        4 if keep else 0
    )
    # And the model is found again, with the markers.
    table = "text\n" + "".join(f"{text}\n" for _, text, _ in marked["test"])
    (tmp_path / "new.tsv").write_text(table, encoding="utf-8")
    predict.predict(
        str(tmp_path / "out"), [str(tmp_path / "new.tsv")], str(tmp_path / "found"), strategy=cpu
    )
    lines = (tmp_path / "found").read_text().splitlines()
    written = (tmp_path / "out" / "trial_0" / "test_predictions.tsv").read_text(encoding="utf-8")
    expected = [line.split("\t")[2] for line in written.split("\n")[1:-1]]
    assert [json.loads(line)["label"] for line in lines] == expected
    # Of a text without them no label is told.
    (tmp_path / "plain.tsv").write_text("text\nAspirin inhibits COX-1.\n")
    with pytest.raises(TaskFileError, match=r"plain\.tsv, line 2: expected \[S1\]"):
        predict.predict(
            str(tmp_path / "out"), [str(tmp_path / "plain.tsv")], str(tmp_path / "no"), strategy=cpu
        )


def test_new_tokens_leave_the_others_as_they_are(pretrained):
    shape = checkpoint_settings.read_encoder_config(pretrained)
    saved = encoders.Encoder(shape)
    checkpoint_weights.restore_encoder(pretrained, saved)
    larger = encoders.Encoder(dataclasses.replace(shape, vocab_size=shape.vocab_size + 4))
    new = larger.embeddings.word.numpy()[-4:]
    checkpoint_weights.restore_encoder(pretrained, larger, new_tokens=4)
    np.testing.assert_array_equal(larger.embeddings.word[-4:], new)
    np.testing.assert_array_equal(larger.embeddings.word[:-4], saved.embeddings.word)
    for one, other in zip(larger.variables, saved.variables, strict=True):
        if one is not larger.embeddings.word:
            np.testing.assert_array_equal(one, other)


def test_a_single_marker_may_be_a_reference():
    def marked(text):
        return relations.are_marked([LabelledText("1", text, "x")])

    assert marked("[S1] a [E1] and [S2] b [E2].")
    assert not marked("as shown before [S1].") and not marked("[S1] a [E1] [S2] b [E2] [S1]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@GENE$ in @DISEASE$.", "@$ in @$."),
        ("[S1] Abc [E1] and [S2] Def [E2].", "@$ and @$."),
        ("[S1] Abc [S2] and [E2] x [E1] Def", "@$ Def"),  # one in the other
        ("[S1] Abc [S2] and [E1] Def [E2].", "@$."),  # they overlap
        ("As before [S1].", "As before [S1]."),
    ],
)
def test_each_entity_becomes_the_same_dummy(text, expected):
    assert relations.with_dummies(text) == expected
