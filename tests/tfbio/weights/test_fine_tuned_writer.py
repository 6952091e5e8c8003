"""Fine-tuned models written for `transformers` and back, against what it computes itself."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from tests.fine_tuned import FAMILIES, SHAPE, TAGS, load, make, make_cased, their_logits
from tfbio.base.errors import UserError
from tfbio.export import conversion
from tfbio.models.task_model import TaskModel
from tfbio.runs import finetuning
from tfbio.task_types import task_table, types
from tfbio.task_types.classification import Classification
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.question_answering import QuestionAnswering
from tfbio.task_types.regression import Regression
from tfbio.weights import fine_tuned, fine_tuned_elsewhere, fine_tuned_writer

HEADS = {
    "ForTokenClassification": {"labels": TAGS},
    "ForSequenceClassification": {
        "labels": ["no", "yes", "maybe"],
        "problem_type": "multi_label_classification",
    },
    "ForQuestionAnswering": {},
}


def batch(family=""):
    """Ids, mask and segments, int64 [3, 12], of rows of three lengths."""
    rng = np.random.default_rng(0)
    mask = (np.arange(12) < np.array([[12], [7], [10]])).astype(np.int64)
    ids = rng.integers(5, SHAPE["vocab_size"], mask.shape) * mask
    ids[:, 0] = 2
    segments = rng.integers(0, FAMILIES.get(family, {}).get("type_vocab_size", 2), mask.shape)
    return ids, mask, segments * mask


def our_logits(model, ids, mask, segments):
    rows, length = ids.shape
    arrays = {
        "input_ids": ids,
        "segment_ids": segments,
        "document_ids": mask * np.arange(1, rows + 1)[:, None],
        "position_ids": mask * np.arange(length),
        "first": np.arange(rows) * length,
    }
    found = model({name: tf.constant(x, tf.int32) for name, x in arrays.items()}).numpy()
    return found[mask.reshape(-1) == 1] if model.of_tokens else found


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", FAMILIES)
def test_comes_back_as_it_was(family, head, tmp_path):
    before, trial = make(tmp_path / "a", family + head, **HEADS[head]), tmp_path / "trial"
    make_cased(tmp_path / "a")
    conversion.to_tfbio(str(tmp_path / "a"), str(trial))
    expected = their_logits(before, *batch(family))
    assert np.abs(expected).max() > 0.1
    for folder in (trial, trial / "trial_0"):
        ours = our_logits(fine_tuned.read(str(folder)).model, *batch(family))
        np.testing.assert_allclose(ours, expected, atol=1e-5)

    # By way of a trial, and at once.
    for source, target in ((trial / "trial_0", tmp_path / "b"), (tmp_path / "a", tmp_path / "c")):
        conversion.to_hugging_face(str(source), str(target))
        assert fine_tuned.read_settings(str(target)).lower_case is False
        tensors, again = (load_file(x / "model.safetensors") for x in (tmp_path / "a", target))
        assert tensors.keys() == again.keys()
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(again[name], tensor, err_msg=name)
        after = load(target)
        np.testing.assert_array_equal(their_logits(after, *batch(family)), expected)
        one, other = before.config.to_dict(), after.config.to_dict()
        differing = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
        # Some that `transformers` does not look at (any more).
        more = {"null_threshold", "words", "pairs", "position_embedding_type"}
        more |= set(QuestionAnswering.kept_settings)
        assert differing <= {"_name_or_path", "transformers_version", *more}


@pytest.mark.parametrize(
    ("task_type", "known"),
    [
        ("tagging", {"words": "blanks", "entity_type": "X"}),
        ("token_multilabel", {"words": "blanks"}),
        ("classification", {"pairs": True}),
        ("multilabel", {"pairs": False}),
        ("regression", {"pairs": True}),
    ],
)
def test_words_pairs_and_length_come_back(task_type, known, make_trial, tmp_path):
    labels = {"tagging": ["O", "B", "I"], "regression": []}.get(task_type, ["x", "y"])
    trial, settings = make_trial(task_type, labels, known, common={"sequence_length": 24})
    assert settings.encoder.max_sequence_length > 24
    conversion.to_hugging_face(trial, str(tmp_path / "converted"))
    after = fine_tuned.read_settings(str(tmp_path / "converted"))
    assert after.sequence_length == 24
    for name in fine_tuned_elsewhere.KEPT:
        assert getattr(after.trained_on, name) == getattr(settings.trained_on, name), name
    said = json.loads((tmp_path / "converted" / "tokenizer_config.json").read_text())
    assert said["model_max_length"] == 24
    config = tmp_path / "converted" / "config.json"
    (name,) = known.keys() & fine_tuned_elsewhere.KEPT.keys()
    config.write_text(json.dumps(json.loads(config.read_text()) | {name: "commas"}))
    with pytest.raises(UserError, match=f'config.json has {name} = "commas": expected '):
        fine_tuned.read_settings(str(tmp_path / "converted"))


def test_electras_head_for_answers_does_not_go_out(make_trial, tmp_path):
    trial, _ = make_trial("question_answering", [], {"pairs": False}, head="electra")
    with pytest.raises(UserError, match="head electra, .*: no class of `transformers` has"):
        conversion.to_hugging_face(trial, str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_logits_that_differ_are_refused(tmp_path, monkeypatch):
    """Changes one weight by little, the head's too: each change is refused."""
    make(tmp_path / "a", "BertForSequenceClassification", ["a", "b", "c"])
    true_write = fine_tuned_writer.write_hugging_face
    for name in ("bert.pooler.dense.bias", "classifier.bias", "bert.embeddings.LayerNorm.bias"):

        def wrong(folder, tuned, name=name):
            true_write(folder, tuned)
            path = Path(folder, "model.safetensors")
            tensors = load_file(path)
            save_file(tensors | {name: tensors[name] + 1e-4}, path)

        monkeypatch.setattr(fine_tuned_writer, "write_hugging_face", wrong)
        with pytest.raises(conversion.ConversionError, match="gives other outputs, by"):
            conversion.to_hugging_face(str(tmp_path / "a"), str(tmp_path / "b"))
        assert not (tmp_path / "b").exists(), name


LABELLED = "text\tlabel\nIt works .\tyes\nIt is not in the cell .\tno\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "init, text_head, architecture",
    [
        ("BertModel", "tanh", "BertForSequenceClassification"),
        ("BertModel", "gelu", "ElectraForSequenceClassification"),
        ("BertModel", "linear", "ElectraForSequenceClassification"),
        ("ElectraForPreTraining", "gelu", "ElectraForSequenceClassification"),
        ("ElectraForPreTraining", "tanh", None),
        ("MegatronBertModel", "tanh", "MegatronBertForSequenceClassification"),
    ],
)
def test_what_is_trained_here_computes_the_same_there(init, text_head, architecture, cpu, tmp_path):
    make(tmp_path / "init", init)
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(LABELLED)
    finetuning.finetune(
        finetuning.Run(
            FinetuningConfig(
                sequence_length=16,
                train_batch_size=2,
                num_trials=1,
                learning_rate=1e-2,
                classification=Classification.Settings(text_head=text_head),
            ),
            task=task_table.find("classification", str(tmp_path)),
            data_dir=str(tmp_path),
            init_checkpoint=str(tmp_path / "init"),
            output_dir=str(tmp_path / "out"),
            strategy=cpu,
        )
    )
    trial, folder = str(tmp_path / "out" / "trial_0"), str(tmp_path / "converted")
    if architecture is None:
        with pytest.raises(UserError, match="text_head tanh, .* an encoder of electra: no class"):
            conversion.to_hugging_face(trial, folder)
        return
    conversion.to_hugging_face(trial, folder)
    theirs, ours = load(folder), fine_tuned.read(trial).model
    assert type(theirs).__name__ == architecture
    logits = our_logits(ours, *batch())
    np.testing.assert_allclose(their_logits(theirs, *batch()), logits, atol=1e-5)
    assert theirs.config.id2label == {0: "no", 1: "yes"}
    if text_head == "tanh":  # trained, from what was there
        start = load_file(tmp_path / "init" / "model.safetensors")["pooler.dense.weight"].T
        moved = np.abs(ours.pooler.kernel - start)
        assert 1e-3 < moved.mean() < 0.1 < np.abs(start).mean()


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"text_head": "lstm"}, "head lstm and pooling first: that form has only"),
        ({"text_head": "mlp", "mlp_layers": 2}, "head mlp and pooling first: that form has only"),
    ],
    ids=["lstm", "mlp"],
)
def test_layers_on_texts_are_read_back_and_refused(changes, said, make_trial, tmp_path):
    trial, settings = make_trial("regression", [], {"pairs": False}, scale=2.0, **changes)
    head = Regression(settings=settings.regression).head_config(0.0)
    written = TaskModel(settings.encoder, head)
    tf.train.Checkpoint(model=written).read(f"{trial}/model").assert_consumed()
    # Other programs know no scale: it becomes a part of the last layer.
    expected = 2.0 * our_logits(written, *batch())
    assert np.ptp(expected) > 1e-3
    found = our_logits(fine_tuned.read(trial).model, *batch())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(fine_tuned.FineTunedError, match=said):
        conversion.to_hugging_face(trial, str(tmp_path / "no"))
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    "task_type, labels, known, changes",
    [
        ("tagging", ["O", "B", "I"], {"words": "blanks"}, {"segment": 1, "label_all_tokens": True}),
        ("question_answering", [], {"pairs": False}, {}),
    ],
    ids=["tagging", "question_answering"],
)
def test_an_mlp_on_tokens_is_read_back_and_refused(
    task_type, labels, known, changes, make_trial, tmp_path
):
    changes = {**changes, "head": "mlp", "mlp_layers": 2, "mlp_size": 24}
    trial, settings = make_trial(task_type, labels, known, **changes)
    made = types.make(task_type, labels, settings)
    written = TaskModel(settings.encoder, made.head_config(0.0))
    tf.train.Checkpoint(model=written).read(f"{trial}/model").assert_consumed()
    ids, mask, segments = batch()
    # Other programs give all tokens of a sentence segment 0: here it has the weights of segment 1.
    theirs = segments if task_type == "question_answering" else np.zeros_like(segments)
    expected = our_logits(written, ids, mask, theirs if theirs.any() else np.ones_like(segments))
    assert np.ptp(expected) > 1e-3
    found = our_logits(fine_tuned.read(trial).model, ids, mask, theirs)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(fine_tuned.FineTunedError, match="head mlp and pooling first: that form"):
        conversion.to_hugging_face(trial, str(tmp_path / "no"))
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("threshold", [-2.5, None])
def test_the_threshold_for_no_answer_goes_out_and_comes_back(threshold, tmp_path):
    make(tmp_path / "a", "BertForQuestionAnswering")
    path = tmp_path / "a" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"null_threshold": threshold}))
    conversion.to_tfbio(str(tmp_path / "a"), str(tmp_path / "run"))
    scores = json.loads((tmp_path / "run" / "trial_0" / "scores.json").read_text())
    assert scores["calibration"] == {"null_threshold": threshold}
    conversion.to_hugging_face(str(tmp_path / "run"), str(tmp_path / "b"))
    content = json.loads((tmp_path / "b" / "config.json").read_text())
    assert content["null_threshold"] == threshold
    for name in ("a", "run", "b"):
        assert fine_tuned.read(str(tmp_path / name)).calibration == threshold


def test_the_limits_of_answers_go_out_and_come_back(make_trial, tmp_path):
    """The threshold was learnt with them."""
    limits = {"max_query_length": 9, "doc_stride": 7, "n_best_size": 3, "max_answer_length": 5}
    trial, _ = make_trial("question_answering", [], {"pairs": False}, calibration=1.5, **limits)
    converted = tmp_path / "converted"
    conversion.to_hugging_face(trial, str(converted))
    settings = fine_tuned.read_settings(str(converted)).question_answering
    assert dataclasses.asdict(settings).items() > limits.items()
    # Of a model that says nothing they are the defaults.
    path = converted / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({x: y for x, y in content.items() if x not in limits}))
    settings = fine_tuned.read_settings(str(converted)).question_answering
    assert settings == QuestionAnswering.Settings()
    for wrong in ("no", 0, None, [7]):
        path.write_text(json.dumps(content | {"max_answer_length": wrong}))
        said = r"config\.json: question_answering\.max_answer_length must be "
        with pytest.raises(fine_tuned.FineTunedError, match=said):
            fine_tuned.read_settings(str(converted))
