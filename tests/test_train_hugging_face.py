"""Hugging Face's pretraining at a budget: its blocks, its loss, and how it goes on."""

import json

import numpy as np
import pytest
import torch

from scripts import train_hugging_face
from scripts.budget_arms import ARMS, ENCODERS, flags
from tfbio.base import config
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs import pretraining_data

CHANGES = {
    "sequence_length": 64,
    "encoder.hidden_dropout_prob": 0.1,
    "run.save_checkpoints_steps": 3,
    "run.num_eval_batches": 2,
}
STEPS = 8


def settings_of(**changes):
    settings = ARMS["hugging_face_mlm"].settings(2000, STEPS, 4, 2e-2, seed=1)
    options = flags(
        ENCODERS["1x64"] | settings | CHANGES | {"encoder.hidden_dropout_prob": 0.1} | changes
    )
    return config.load(PretrainingConfig, "", options.replace("--set ", "").split())


@pytest.fixture(scope="module")
def trained(examples_folder, tmp_path_factory):
    """A run without an interruption."""
    folder = tmp_path_factory.mktemp("hugging_face") / "whole"
    run = train_hugging_face.Run(settings_of(), str(examples_folder), str(folder), False)
    run.train()
    return run


def test_blocks_are_the_tokens_of_all_examples_in_a_row(examples_folder):
    manifest = read_manifest(examples_folder, "examples")
    data = pretraining_data.held_out_dataset(str(examples_folder), manifest, 1)
    tokens = np.concatenate(
        [x["input_ids"][x["input_mask"] == 1] for x in data.as_numpy_iterator()]
    )
    blocks = train_hugging_face.read_blocks(str(examples_folder), "heldout")
    assert blocks.shape == (len(tokens) // 64, 64)
    np.testing.assert_array_equal(blocks.ravel(), tokens[: blocks.size])


def test_each_epoch_has_each_block_once_and_begins_anywhere():
    blocks = np.arange(10)[:, None]
    data = train_hugging_face.batches(blocks, 3, seed=0, first_step=0)
    whole = [next(data).ravel().tolist() for _ in range(6)]
    for epoch in (whole[:3], whole[3:]):
        assert len({row for batch in epoch for row in batch}) == 9
    assert whole[:3] != whole[3:]
    later = train_hugging_face.batches(blocks, 3, seed=0, first_step=4)
    assert [next(later).ravel().tolist() for _ in range(2)] == whole[4:]


def test_the_loss_is_that_of_transformers_and_attention_is_fused(trained):
    trainer = trained.trainer
    trainer.eval()
    ids = torch.from_numpy(train_hugging_face.read_blocks(trained.examples, "heldout")[:4])
    masked = trainer.hide(ids, seed=0, step=0)
    counted = torch.zeros_like(ids).scatter(1, masked.positions, masked.weights.long())
    with torch.no_grad():
        theirs = trainer.model(masked.input_ids, labels=ids.masked_fill(counted == 0, -100)).loss
        torch.testing.assert_close(trainer.masked_loss(ids, masked), theirs, rtol=1e-6, atol=0)
    assert counted.sum() == pytest.approx(0.15 * ids.numel(), abs=4)
    assert trainer.model.config._attn_implementation == "sdpa"


def test_a_run_that_was_killed_goes_on_to_the_same_weights(trained, examples_folder, tmp_path):
    folder = tmp_path / "stopped"
    make = train_hugging_face.Run
    make(settings_of(**{"run.stop_at_step": 5}), str(examples_folder), str(folder), False).train()
    before = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert before["step"] == 5 and not (folder / "result.json").exists()
    make(settings_of(), str(examples_folder), str(folder), False).train()
    for name, value in trained.trainer.state_dict().items():
        after = torch.load(folder / "checkpoint.pt", weights_only=True)["model"][name]
        torch.testing.assert_close(after, value, rtol=0, atol=0)
    one, other = (
        json.loads((path / "result.json").read_text()) for path in (trained.model_dir, folder)
    )
    assert one["held_out"] == other["held_out"] and one["steps"] == STEPS
    assert other["cpu_seconds"] > before["cpu_seconds"]
    # It has learnt something: all words alike have a loss of log(2000) = 7.60.
    assert one["held_out"]["loss"] < 7.4
    with pytest.raises(UserError, match="a run of other settings"):
        make(settings_of(learning_rate=1e-3), str(examples_folder), str(folder), False)
