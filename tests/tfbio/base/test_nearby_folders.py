"""Tests that the folder that was meant is named where a path leads one level too high."""

import os

import pytest

from tfbio.base.nearby_folders import below, model_meant

HASH = "1a2b3c"
# What each program leaves: files of a folder, the path that was given, and the end of the sentence.
CASES = {
    "the hub's cache": (
        [f"models--org--name/snapshots/{HASH}/model.safetensors", "models--org--name/blobs/x"],
        "models--org--name",
        f"the model is in FOLDER/models--org--name/snapshots/{HASH}: give that folder",
    ),
    "snapshots of it": (
        [f"snapshots/{x}/pytorch_model.bin" for x in "ab"],
        "snapshots",
        "the model may be in FOLDER/snapshots/a, FOLDER/snapshots/b: give one of these folders",
    ),
    "the Trainer of transformers": (
        ["out/runs/x", "out/checkpoint-500/model.safetensors"],
        "out",
        "the model is in FOLDER/out/checkpoint-500: give that folder",
    ),
    "shards": (
        ["a/b/model-00001-of-00002.safetensors", "a/b/model.safetensors.index.json"],
        "a",
        "the model is in FOLDER/a/b: give that folder",
    ),
    "a pretraining run": (
        ["out/model/ckpt-10.index", "out/model/logs/train/x.index", "out/examples/x"],
        "out",
        "the model is in FOLDER/out/model: give that folder",
    ),
    "BERT's archive": (
        ["uncased_L-2/bert_model.ckpt.index", "uncased_L-2.zip"],
        "",
        "the model is in FOLDER/uncased_L-2: give that folder",
    ),
    "a fine-tuning run as an encoder": (
        [
            *(f"out/trial_{x}/model.index" for x in range(5)),
            "out/trial_5.checkpoints/ckpt-1.index",
            "out/trial_5.unfinished/model.index",
        ],
        "out",
        "the model may be in FOLDER/out/trial_0, FOLDER/out/trial_1, FOLDER/out/trial_2, "
        "...: give one of these folders",
    ),
    "a file of a checkpoint": (
        ["x/bert_model.ckpt.index", "x/bert_model.ckpt.data-00000-of-00001"],
        "x/bert_model.ckpt.data-00000-of-00001",
        "it is one file of a checkpoint: give FOLDER/x/bert_model.ckpt",
    ),
    "a file of transformers": (
        ["x/model.safetensors", "x/config.json"],
        "x/config.json",
        "it is one file of a model: give its folder, FOLDER/x",
    ),
    "a model": (["x/model.safetensors", "x/onnx/model.safetensors"], "x", ""),
    "a SavedModel": (["x/saved_model.pb", "x/variables/variables.index"], "x", ""),
    "no model": (["x/model.txt", "x/a/b/c/model.safetensors"], "x", ""),
}


def make(folder, files):
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


@pytest.mark.parametrize("case", CASES)
def test_the_folder_below_is_named(case, tmp_path):
    files, given, expected = CASES[case]
    make(tmp_path, files)
    found = model_meant(os.path.join(tmp_path, given).rstrip("/"))
    assert found.replace(str(tmp_path), "FOLDER") == expected


def test_of_several_snapshots_the_cache_says_which(tmp_path):
    make(tmp_path, [f"snapshots/{x}/model.safetensors" for x in "ab"] + ["refs/main"])
    (tmp_path / "refs/main").write_text("b")
    assert model_meant(str(tmp_path)) == f"the model is in {tmp_path}/snapshots/b: give that folder"


def test_a_fine_tuning_run_is_a_model_where_runs_are_taken(tmp_path):
    make(tmp_path, ["out/trial_0/scores.json", "out/trial_0/model.index"])
    assert not model_meant(str(tmp_path / "out"), takes_runs=True)
    assert model_meant(str(tmp_path), takes_runs=True).endswith("/out: give that folder")


def test_a_name_of_the_hub_is_met_with_its_download(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    said = "if this is a name of the Hugging Face hub, `hf download org/name --local-dir=FOLDER`"
    assert model_meant("org/name").startswith(said)
    assert model_meant("/org/name") == model_meant("../name") == model_meant("name") == ""
    make(tmp_path, [f"models--org--name/{x}" for x in (f"snapshots/{HASH}/model.safetensors",)])
    (tmp_path / "models--org--name/refs").mkdir()
    (tmp_path / "models--org--name/refs/main").write_text(f"{HASH}\n")
    snapshot = tmp_path / "models--org--name/snapshots" / HASH
    assert model_meant("org/name") == (
        f"the model of this name is in the hub's cache: give {snapshot}"
    )


def test_the_nearest_folders_alone(tmp_path):
    make(tmp_path, ["b/x", "a/x", "c/d/x", ".hidden/x"])
    found = below(str(tmp_path), lambda folder: os.path.exists(os.path.join(folder, "x")))
    assert found == [str(tmp_path / "a"), str(tmp_path / "b")]
