"""Fine-tuning on real labelled sentences, with a small encoder that was pretrained a little."""

import contextlib
import dataclasses
import json
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from data_prep import examples as pretraining_examples
from data_prep.running import pipeline
from tests.pretraining_runs import eagerly
from tests.tfbio.runs.conftest import SETTINGS
from tfbio.base.errors import UserError
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.head_config import HeadConfig
from tfbio.models.task_model import TaskModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.reporting import curves
from tfbio.runs import finetuning, finetuning_data, predict, pretraining
from tfbio.runs.trial import DivergedError
from tfbio.task_types import packing, task_table
from tfbio.task_types.classification import Classification
from tfbio.task_types.common_settings import FinetuningRun
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.question_answering import QuestionAnswering
from tfbio.task_types.task import SPLITS
from tfbio.text import tokenization
from tfbio.training import checkpointing
from tfbio.weights import checkpoint_settings

pytestmark = pytest.mark.usefixtures("finetuning_traced_once")


@pytest.fixture(scope="module")
def finished(run, tmp_path_factory):
    """The folder of an undisturbed run with the seeds 0 and 1."""
    folder = tmp_path_factory.mktemp("finetuned") / "out"
    run(folder)
    return folder


def weights(trial):
    reader = tf.train.load_checkpoint(str(trial / "model"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if "OBJECT_GRAPH" not in name and name != "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
    }


def assert_same_weights(one, other):
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys() and len(one) > 10
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


# --- The run -----------------------------------------------------------------------------------


def test_writes_what_the_docstring_says(finished, roles_folder):
    scores = json.loads((finished / "scores.json").read_text())
    assert (scores["task"], scores["metric"]) == ("sentence_roles", "accuracy")
    assert [trial["seed"] for trial in scores["trials"]] == [0, 1]
    values = [trial["test"]["accuracy"] for trial in scores["trials"]]
    assert scores["mean"] == pytest.approx(np.mean(values))
    assert scores["std"] == pytest.approx(np.std(values, ddof=1))
    settings = json.loads((finished / "config.json").read_text())
    assert settings["learning_rate"] == 1e-3 and settings["task"] == "sentence_roles"
    test_set = task_table.TASKS["sentence_roles"].examples(roles_folder)["test"]
    for trial in scores["trials"]:
        folder = finished / f"trial_{trial['seed']}"
        text = (folder / "test_predictions.tsv").read_text(encoding="utf-8")
        rows = [row.split("\t") for row in text.split("\n")[1:-1]]
        assert [(row[0], row[1], *row[3:]) for row in rows] == [
            (x.id, x.label, x.text, x.document) for x in test_set
        ]
        assert (folder / "dev_predictions.tsv").is_file()
        right = np.mean([label == predicted for _, label, predicted, *_ in rows])
        assert trial["test"]["accuracy"] == pytest.approx(right)
        assert os.listdir(finished / "logs" / f"trial_{trial['seed']}")
    assert not list(finished.glob("*.unfinished")) and not list(finished.glob("*.tmp"))
    number = len(task_table.TASKS["sentence_roles"].examples(roles_folder)["dev"])
    assert scores["examples"] == {"dev": [number] * 2, "test": [len(test_set)] * 2}


def test_a_run_may_be_scored_on_some_examples(finished, run, roles_folder, tmp_path, capsys):
    """The same ones for every seed, with the predictions that a run on all has for them."""
    fewer = dataclasses.replace(SETTINGS, max_dev_examples=5, max_test_examples=9)
    scores = run(tmp_path / "out", fewer)
    said = capsys.readouterr().out
    every = task_table.TASKS["sentence_roles"].examples(roles_folder)
    counts = {split: [n, len(every[split])] for split, n in (("dev", 5), ("test", 9))}
    assert scores["examples"] == counts
    assert scores == json.loads((tmp_path / "out" / "scores.json").read_text())
    assert f"9 of {counts['test'][1]} test examples are used (max_test_examples)." in said
    assert "seed 1, test: 9 texts: " in said
    for split, (number, total) in counts.items():
        chosen = []
        for trial in ("trial_0", "trial_1"):
            rows, of_all = (
                (folder / trial / f"{split}_predictions.tsv").read_text().split("\n")[1:-1]
                for folder in (tmp_path / "out", finished)
            )
            assert len(rows) == number and len(of_all) == total, split
            assert rows == [row for row in of_all if row in set(rows)], split
            chosen.append([row.split("\t")[0] for row in rows])
        assert chosen[0] == chosen[1] and chosen[0] != [x.id for x in every[split]][:number]
        right = np.mean([row.split("\t")[1] == row.split("\t")[2] for row in rows])
        assert scores["trials"][1][split]["accuracy"] == pytest.approx(right)
    with pytest.raises(UserError, match="holds a run with max_test_examples = 9, now it is 0"):
        run(tmp_path / "out", dataclasses.replace(fewer, max_test_examples=0))
    with pytest.raises(UserError, match="max_dev_examples must be at least 0, not -1"):
        dataclasses.replace(fewer, max_dev_examples=-1)


def test_the_folder_of_another_task_is_named(finished, run, roles_folder):
    task = dataclasses.replace(task_table.TASKS["sentence_roles"], name="classification")
    message = "holds a run of --task=sentence_roles, and now it is classification: give another"
    with pytest.raises(UserError, match=message):
        run(finished, task=task)


def test_many_unknown_tokens_are_told_and_none_known_refused(
    run, roles_folder, tmp_path, monkeypatch, capsys
):
    """As with a tokenizer that was saved without its words."""
    shares = iter([0.009, 0.25, 1.0])
    monkeypatch.setattr(finetuning_data, "unknown_share", lambda *_: next(shares))
    one = dataclasses.replace(SETTINGS, num_trials=1, max_train_examples=16)
    run(tmp_path / "few", one)
    assert "are unknown to the vocabulary" not in capsys.readouterr().out
    run(tmp_path / "many", one)
    assert "warning: 25.0% of the training set's tokens are unknown" in capsys.readouterr().out
    with pytest.raises(UserError, match="no word of the training set is known to .*vocab.txt"):
        run(tmp_path / "all", one)


def test_mean_standard_deviation_and_median(finished, run, tmp_path, capsys):
    folder = tmp_path / "out"
    shutil.copytree(finished, folder)
    shutil.copytree(folder / "trial_0", folder / "trial_2")
    for seed, accuracy in enumerate((0.5, 0.9, 0.55)):
        path = folder / f"trial_{seed}" / "scores.json"
        scores = json.loads(path.read_text())
        scores["test"]["accuracy"] = accuracy
        path.write_text(json.dumps(scores))
    scores = run(folder, dataclasses.replace(SETTINGS, num_trials=3))
    # (0.5 + 0.9 + 0.55) / 3; the squares of the differences sum up to 0.095.
    assert scores["mean"] == pytest.approx(0.65)
    assert scores["std"] == pytest.approx(np.sqrt(0.095 / 2))
    assert scores["median"] == 0.55
    assert "test accuracy 0.6500 ± 0.2179, median 0.5500, over 3 seed(s)" in capsys.readouterr().out


def test_a_trial_does_not_depend_on_those_before_it(finished, run, tmp_path):
    check_alone(finished, run, SETTINGS, tmp_path / "alone")


@pytest.mark.slow
def test_nor_where_shapes_are_fixed(run, tmp_path):
    """Dropout is drawn by the shape: the shapes are no trial's own."""
    settings = dataclasses.replace(SETTINGS, run=FinetuningRun(fixed_shapes="always"))
    run(tmp_path / "both", settings)
    check_alone(tmp_path / "both", run, settings, tmp_path / "alone")


def check_alone(finished, run, settings, folder):
    scores = run(folder, dataclasses.replace(settings, seed=1, num_trials=1))
    assert scores["std"] is None
    assert_same_weights(finished / "trial_1", folder / "trial_1")
    before = json.loads((finished / "trial_1" / "scores.json").read_text())
    assert scores["trials"][0]["test"] == before["test"]


@pytest.mark.slow
def test_a_run_with_fixed_shapes_scores_as_one_without(run, tmp_path):
    """Losses and predictions without dropout; and both predict the same of new text."""
    found = {}
    for choice in ("always", "never"):
        settings = dataclasses.replace(
            SETTINGS,
            num_trials=1,
            eval_every_steps=2,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            run=FinetuningRun(fixed_shapes=choice, predict_train=True),
        )
        (trial,) = run(tmp_path / choice, settings)["trials"]
        written = {
            path.name: path.read_text() for path in (tmp_path / choice / "trial_0").glob("*.tsv")
        }
        scores = {name: trial[name] for name in ("step", "evaluations", "train", "dev", "test")}
        table, output = tmp_path / "new.tsv", tmp_path / f"{choice}.jsonl"
        table.write_text("text\nWe measured doses.\nAspirin was effective in all patients.\n")
        overrides = [f"run.fixed_shapes={choice}"]
        predict.predict(
            str(tmp_path / choice),
            [str(table)],
            str(output),
            strategy=tf.distribute.get_strategy(),
            overrides=overrides,
        )
        lines = [json.loads(line) for line in output.read_text().splitlines()]
        found[choice] = written, scores, lines
    written, scores, lines = found["always"]
    assert len(written) == 3 and len(lines) == 2
    assert written == found["never"][0]
    assert scores == found["never"][1]
    for line, other in zip(lines, found["never"][2], strict=True):
        assert line["label"] == other["label"]
        assert line["probabilities"] == pytest.approx(other["probabilities"], abs=1e-4)


def test_an_interrupted_run_continues_with_the_trial_that_is_missing(
    finished, run, tmp_path, capsys
):
    folder = tmp_path / "out"
    shutil.copytree(finished, folder)
    (folder / "trial_1").rename(folder / "trial_1.unfinished")
    (folder / "scores.json").unlink()
    kept = (folder / "trial_0" / "scores.json").stat().st_mtime_ns
    run(folder, dataclasses.replace(SETTINGS, run=FinetuningRun(predict_train=True)))
    said = capsys.readouterr().out
    assert re.search(r"trial_0 is complete and is reused", said) and "of 1 seed(s)" in said
    assert f"{folder}/trial_0/train_predictions.tsv is missing, and run.predict_train" in said
    assert "trial_1/train_predictions.tsv is missing" not in said
    assert (folder / "trial_1" / "train_predictions.tsv").exists()
    assert re.search(r", from \S+, on 1 device\(s\) in float32", said)
    assert (folder / "trial_0" / "scores.json").stat().st_mtime_ns == kept
    assert_same_weights(finished / "trial_1", folder / "trial_1")
    assert not (folder / "trial_1.unfinished").exists()


def test_in_bfloat16_too_a_trial_that_is_missing_ends_with_the_same_bits(
    finished, run, bfloat16, tmp_path, capsys
):
    """The fixture `bfloat16` sets Keras' policy back."""
    settings = dataclasses.replace(SETTINGS, num_trials=1, run=FinetuningRun(precision="bfloat16"))
    run(tmp_path / "whole", settings)
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    (tmp_path / "again" / "trial_0").rename(tmp_path / "again" / "trial_0.unfinished")
    (tmp_path / "again" / "scores.json").unlink()
    run(tmp_path / "again", settings)
    assert capsys.readouterr().out.count("in bfloat16") == 2
    assert_same_weights(tmp_path / "whole" / "trial_0", tmp_path / "again" / "trial_0")
    predicted = [
        (tmp_path / name / "trial_0" / "test_predictions.tsv").read_text()
        for name in ("whole", "again")
    ]
    assert predicted[0] == predicted[1]
    # The seed is one of the run in float32: the weights would be the same if this one were, too.
    one, other = (weights(x / "trial_0") for x in (finished, tmp_path / "whole"))
    assert not all(np.array_equal(value, other[name]) for name, value in one.items())


def test_a_finished_run_is_only_summed_up_again(finished, run, capsys):
    before = (finished / "scores.json").read_bytes()
    run(finished)
    assert capsys.readouterr().out.count("is reused") == 2
    assert (finished / "scores.json").read_bytes() == before


def test_a_run_keeps_what_predicting_needs(finished):
    settings = json.loads((finished / "config.json").read_text())
    assert settings["trained_on"] == {
        "task_type": "classification",
        "labels": list(task_table.TASKS["sentence_roles"].labels),
        "new_text": "texts",
        "pairs": False,
        "markers": False,
        "entity_type": "",
        "words": "",
    }


def test_other_settings_are_refused_and_replace_when_told_to(finished, run, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(finished, folder)
    other = dataclasses.replace(SETTINGS, learning_rate=2e-3, num_trials=1)
    with pytest.raises(UserError, match=r"learning_rate = 0\.001, now it is 0\.002.*--overwrite"):
        run(folder, other)
    with pytest.raises(UserError, match="from_scratch"):
        run(folder, from_scratch=True)
    assert (folder / "trial_0" / "scores.json").exists()
    with eagerly():
        scores = run(folder, other, overwrite=True)
    assert len(scores["trials"]) == 1 and not (folder / "trial_1").exists()


def test_random_weights_give_another_run(finished, run, tmp_path):
    scores = run(tmp_path / "out", from_scratch=True)
    assert scores["init"] == "random weights"
    one, other = weights(finished / "trial_0"), weights(tmp_path / "out" / "trial_0")
    assert one.keys() == other.keys()
    assert any(np.abs(one[name] - other[name]).max() > 1e-3 for name in one)


# --- Choosing the weights ----------------------------------------------------------------------


def scripted(values, test_set):
    """The task with scores on the development set that were written down before; and a log.

    The accuracy is as it is.
    """
    left, scored = iter(values), []
    task = task_table.TASKS["sentence_roles"]

    def score(examples, predicted):
        scored.append("test" if examples == test_set else "dev")
        written = next(left) if scored[-1] == "dev" else 0.25
        return {"written": written, **task.score(examples, predicted)}

    return dataclasses.replace(task, score=score), scored


def accuracy_of_saved(trial, pretrained, test_set):
    """What the saved weights do on the test set, padded and in one batch."""
    task = task_table.TASKS["sentence_roles"]
    tokenizer = tokenization.load_tokenizer(f"{pretrained}/vocab.txt")
    task_type = Classification(task.labels)
    model = TaskModel(
        checkpoint_settings.read_encoder_config(pretrained), HeadConfig(len(task.labels), False)
    )
    tf.train.Checkpoint(model=model).read(str(trial / "model")).assert_consumed()
    features = task_type.features(test_set, tokenizer, 32)
    count = len(test_set)
    (part,) = packing.Packer(features, count, 1, 0, padded_length=32).batch(np.arange(count))
    logits = model({name: tf.constant(array) for name, array in part.arrays.items()}).numpy()
    right = [
        task.labels[best] == x.label for best, x in zip(logits.argmax(1), test_set, strict=True)
    ]
    return np.mean(right)


@pytest.mark.slow
def test_the_best_weights_are_scored_once_on_the_test_set(
    run, roles_folder, pretrained, tmp_path, capsys
):
    test_set = task_table.TASKS["sentence_roles"].examples(roles_folder)["test"]
    # The best is at step 4; two evaluations that are no better end the trial at step 8 of 12.
    task, scored = scripted([0.1, 0.5, 0.3, 0.5, 0.5], test_set)
    settings = dataclasses.replace(
        SETTINGS, num_train_epochs=3.0, num_trials=1, eval_every_steps=2, early_stopping_patience=2
    )
    out = tmp_path / "out"
    (scores,) = run(out, settings, task=task)["trials"]
    assert scored == ["dev"] * 5 + ["test"]  # four evaluations, then the weights that were kept
    assert scores["step"] == 4
    values = {each["step"]: each["written"] for each in scores["evaluations"]}
    assert values == {2: 0.1, 4: 0.5, 6: 0.3, 8: 0.5}
    assert scores["dev"] == {k: v for k, v in scores["evaluations"][1].items() if k != "step"}
    assert scores["test"]["accuracy"] == accuracy_of_saved(out / "trial_0", pretrained, test_set)
    logs = out / "logs" / "trial_0"
    logged = curves.read(logs / "dev")["written"]
    assert dict(logged[:4]) == pytest.approx(values)
    assert curves.read(logs / "test")["written"] == [(4, 0.25)]
    assert curves.read(logs / "train")["loss"][-1][0] == 8
    assert "seed 0 | step 6 | dev written 0.3000" in capsys.readouterr().out

    # The same up to there, without ever looking.
    plain = dataclasses.replace(settings, eval_every_steps=1, early_stopping_patience=4)
    task, _ = scripted([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0], test_set)
    run(tmp_path / "other", plain, task=task)
    assert_same_weights(out / "trial_0", tmp_path / "other" / "trial_0")


@pytest.mark.slow
def test_evaluations_change_nothing_where_the_last_is_the_best(
    finished, run, roles_folder, tmp_path
):
    test_set = task_table.TASKS["sentence_roles"].examples(roles_folder)["test"]
    task, _ = scripted([0.1, 0.2, 0.2], test_set)
    settings = dataclasses.replace(SETTINGS, num_trials=1, eval_every_steps=3)
    (scores,) = run(tmp_path / "out", settings, task=task)["trials"]
    assert [each["step"] for each in scores["evaluations"]] == [3, 4]
    assert_same_weights(finished / "trial_0", tmp_path / "out" / "trial_0")
    before = json.loads((finished / "trial_0" / "scores.json").read_text())
    assert (before["step"], before["evaluations"]) == (4, [])
    for split in ("dev", "test"):
        assert before[split].items() <= scores[split].items()


def test_starts_from_the_encoder_of_a_trial(finished, run, tmp_path):
    """And, for labels, with a new head."""
    # So slow that next to nothing is learnt.
    slow = dataclasses.replace(SETTINGS, seed=7, num_trials=1, learning_rate=1e-8)
    trial = finished / "trial_1"
    with eagerly():
        scores = run(tmp_path / "out", slow, init_checkpoint=f"{trial}/")
    assert scores["init"] == str(trial)
    for name in ("vocab.txt", "config.json"):
        assert (tmp_path / "out" / name).is_file()
    before, after = weights(trial), weights(tmp_path / "out" / "trial_7")
    for name, value in before.items():
        same = np.allclose(value, after[name], atol=1e-5)
        assert same == ("model/head/" not in name), name
    with pytest.raises(UserError, match="out holds no checkpoint.*trial_SEED"):
        run(tmp_path / "other", slow, init_checkpoint=str(finished))


# --- Mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixed_shapes", "epochs", "save_every"),
    [("never", 0.02, 1000), ("always", 0.02, 1000), ("never", 0.1, 1)],
)
def test_an_update_that_is_not_finite_gives_no_score(
    run, tmp_path, fixed_shapes, epochs, save_every
):
    """The loss of its step is, and no step comes after, or a checkpoint is due before it."""
    settings = dataclasses.replace(
        SETTINGS,
        run=FinetuningRun(
            fixed_shapes=fixed_shapes, save_checkpoints_steps=save_every, steps_per_loop=1
        ),
        num_train_epochs=epochs,
        # Whose last rate is not 0, as that of the linear schedule is.
        schedule="slanted_triangular",
        learning_rate=1e30,
        weight_decay_rate=1e30,
    )
    out = tmp_path / "out"
    diverges = pytest.raises(
        DivergedError, match="seed 0: .* is not finite at step 1: .*learning_rate"
    )
    # Fixed shapes are in a graph, whose loop takes many steps.
    with diverges, eagerly() if fixed_shapes == "never" else contextlib.nullcontext():
        run(out, settings)
    assert not list(out.rglob("scores.json")) and not list(out.rglob("model*"))
    # The loss of the step before it is logged, and finite.
    (point,) = curves.read(out / "logs" / "trial_0" / "train")["loss"]
    assert np.isfinite(point).all()


def test_a_checkpoint_of_another_shape_is_named(run, pretrained, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(pretrained, model)
    settings = json.loads((model / "config.json").read_text())
    settings["encoder"]["hidden_size"] = 64
    (model / "config.json").write_text(json.dumps(settings))
    with pytest.raises(checkpointing.CheckpointError, match="does not fit an encoder"):
        run(tmp_path / "out", init_checkpoint=str(model))
    assert not (tmp_path / "out" / "scores.json").exists()


# --- Vocabularies of other kinds ---------------------------------------------------------------


@pytest.fixture(scope="module", params=["byte_bpe", "albert"])
def other_run(request, documents_folder, vocabulary_of_kind, cpu, tmp_path_factory):
    """A pretraining run with another vocabulary than WordPiece's, with its files' names."""
    kind, folder = request.param, tmp_path_factory.mktemp("other")
    examples, model = folder / "examples", str(folder / "model")
    made = pretraining_examples.ExampleSettings(
        "full_sentences", sequence_length=64, held_out_fraction=0.2, shards=1
    )
    vocab = str(vocabulary_of_kind[kind])
    runner = pipeline.Runner(workers=1)
    pretraining_examples.make_examples(documents_folder, vocab, examples, made, runner=runner)
    settings = PretrainingConfig(
        objective="mlm",
        encoder=EncoderConfig(1500, 48, 48, 1, 4, 96, 64),
        sequence_length=64,
        train_batch_size=8,
        num_train_steps=2,
        run=PretrainingRun(num_eval_batches=1),
    )
    with eagerly():
        pretraining.pretrain(settings, [str(examples)], model, cpu)
    names = {"byte_bpe": {"vocab.json", "merges.txt"}, "albert": {"vocab.model"}}
    return model, names[kind]


TAGGED = "Give\tO\nIL-2\tB\nreceptor\tI\n.\tO\n\n"
PAIRS = "text\tpair\tlabel\nIt works .\tIt does .\tyes\nIt works .\tIt fails .\tno\n"
MARKED = "text\tlabel\n[S1] Abc [E1] cuts [S2] Def [E2]\tyes\n[S1] A [E1] or [S2] D [E2]\tno\n"
ASKED = {"id": "1", "question": "What works?"}
ASKED["answers"] = [{"text": "Aspirin", "answer_start": 3}]
ASKED = json.dumps({"data": [{"paragraphs": [{"context": "An Aspirin works.", "qas": [ASKED]}]}]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "given", "expected"),
    [
        ("ner", TAGGED, ("new.txt", "Give IL-2 receptor ."), '"IL-2 receptor"'),
        ("classification", PAIRS, ("new.tsv", PAIRS.replace("label", "note")), '"no"'),
        ("classification", MARKED, ("new.tsv", MARKED.replace("label", "note")), '"no"'),
        ("qa", ASKED, ("new.json", ASKED), '"Aspirin"'),
    ],
    ids=["tagging", "pairs", "markers", "question_answering"],
)
def test_other_vocabularies_are_trained_on_and_predicted_with(
    name, text, given, expected, other_run, cpu, tmp_path
):
    model, files = other_run
    for split in SPLITS:
        (tmp_path / f"{split}{'.json' if name == 'qa' else '.tsv'}").write_text(text)
    settings = FinetuningConfig(
        sequence_length=32,
        train_batch_size=2,
        num_trials=1,
        num_train_epochs=60.0,
        learning_rate=2e-3,
        classification=Classification.Settings(
            pooling="entity_start" if text == MARKED else "first"
        ),
    )
    scores = finetuning.finetune(
        finetuning.Run(
            settings,
            task=task_table.find(name, str(tmp_path)),
            data_dir=str(tmp_path),
            init_checkpoint=model,
            output_dir=str(tmp_path / "out"),
            strategy=cpu,
        )
    )
    assert scores["mean"] == 1.0
    found = {path.name for path in (tmp_path / "out").glob("*") if path.is_file()}
    assert found == {"config.json", "scores.json", *files}
    (tmp_path / given[0]).write_text(given[1])
    inputs, output = [str(tmp_path / given[0])], str(tmp_path / "found")
    predict.predict(str(tmp_path / "out"), inputs, output, strategy=cpu)
    assert expected in (tmp_path / "found").read_text()


def test_electras_head_learns_answers_and_goes_on_from_there(pretrained, cpu, tmp_path, capsys):
    asked = json.loads(ASKED)
    paragraph = asked["data"][0]["paragraphs"][0]
    paragraph["qas"].append({"id": "2", "question": "Who fails to?", "answers": []})
    for split in SPLITS:
        (tmp_path / f"{split}.json").write_text(json.dumps(asked))
    settings = FinetuningConfig(
        sequence_length=32,
        train_batch_size=2,
        num_trials=1,
        num_train_epochs=60.0,
        learning_rate=2e-3,
        question_answering=QuestionAnswering.Settings(head="electra", beam_size=5),
    )

    def run(name, settings, start):
        return finetuning.finetune(
            finetuning.Run(
                settings,
                task=task_table.TASKS["squad_v2"],
                data_dir=str(tmp_path),
                init_checkpoint=start,
                output_dir=str(tmp_path / name),
                strategy=cpu,
            )
        )

    assert run("electra", settings, pretrained)["mean"] == 1.0
    predict.predict(
        str(tmp_path / "electra"), [str(tmp_path / "dev.json")], str(tmp_path / "a"), strategy=cpu
    )
    assert json.loads((tmp_path / "a").read_text()) == {"1": "Aspirin", "2": ""}
    # A step of a tiny rate changes nothing: the head is the trial's.
    trial = str(tmp_path / "electra" / "trial_0")
    still = dataclasses.replace(settings, num_train_epochs=1.0, learning_rate=1e-9)
    other = dataclasses.replace(still, question_answering=QuestionAnswering.Settings())
    with eagerly():
        assert run("again", still, trial)["mean"] == 1.0
        capsys.readouterr()
        run("bert", other, trial)
    assert "has question_answering.head electra: the head starts anew." in capsys.readouterr().out
