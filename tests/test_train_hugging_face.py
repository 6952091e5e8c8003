"""Hugging Face's pretraining at a budget: its blocks, its loss, and how it goes on."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers

from scripts import train_hugging_face
from scripts.budget_arms import ARMS, ENCODERS, flags
from tfbio.base import config
from tfbio.base.document_records import read_documents
from tfbio.base.errors import UserError
from tfbio.base.held_out import is_held_out
from tfbio.objectives.pretraining_config import PretrainingConfig

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
def make(documents_folder, examples_folder):
    """Makes a run in a folder."""

    def make(folder, attention="sdpa", **changes):
        data = str(documents_folder), str(examples_folder)
        return train_hugging_face.Run(
            settings_of(**changes), *data, str(folder), attention=attention
        )

    return make


@pytest.fixture(scope="module")
def trained(make, tmp_path_factory):
    """A run without an interruption."""
    run = make(tmp_path_factory.mktemp("hugging_face") / "whole")
    run.train()
    return run


def test_blocks_are_whole_documents_in_a_row(documents_folder, examples_folder, tmp_path):
    """As `transformers` tokenizes them; those of an article are all in one split."""
    vocab = str(examples_folder / "vocab.txt")
    tokenizer = transformers.BertTokenizer(vocab, do_lower_case=True)
    expected = {"train": [], "heldout": []}
    for document in read_documents(documents_folder):
        split = "heldout" if is_held_out(document.article, 0.2) else "train"
        expected[split] += tokenizer(" ".join([document.title, *document.sentences])).input_ids
    of = str(documents_folder), str(examples_folder)
    for split, ids in expected.items():
        blocks = train_hugging_face.read_blocks(*of, split)
        assert blocks.shape == (len(ids) // 64, 64) and len(blocks) > 20
        assert blocks.ravel().tolist() == ids[: blocks.size]
    others = tmp_path / "documents"
    shutil.copytree(documents_folder, others)
    with open(others / "manifest.json", "a") as stream:
        stream.write("\n")
    with pytest.raises(UserError, match="was made of other documents"):
        train_hugging_face.read_blocks(str(others), of[1], "train")


def test_each_epoch_has_each_block_once_and_begins_anywhere():
    blocks = np.arange(10)[:, None]
    data = train_hugging_face.batches(blocks, 3, seed=0, first_step=0)
    whole = [next(data).ravel().tolist() for _ in range(6)]
    for epoch in (whole[:3], whole[3:]):
        assert len({row for batch in epoch for row in batch}) == 9
    assert whole[:3] != whole[3:]
    later = train_hugging_face.batches(blocks, 3, seed=0, first_step=4)
    assert [next(later).ravel().tolist() for _ in range(2)] == whole[4:]


def test_the_loss_is_that_of_transformers_with_both_kinds_of_attention(trained, make, tmp_path):
    trainer, other = trained.trainer, make(tmp_path, attention="eager").trainer
    other.load_state_dict(trainer.state_dict())
    trainer.eval(), other.eval()
    blocks = train_hugging_face.read_blocks(trained.documents, trained.examples, "heldout")
    ids = torch.from_numpy(blocks[:4])
    masked = trainer.hide(ids, seed=0, step=0)
    counted = torch.zeros_like(ids).scatter(1, masked.positions, masked.weights.long())
    with torch.no_grad():
        theirs = trainer.model(masked.input_ids, labels=ids.masked_fill(counted == 0, -100)).loss
        torch.testing.assert_close(trainer.masked_loss(ids, masked), theirs, rtol=1e-6, atol=0)
        torch.testing.assert_close(other.masked_loss(ids, masked), theirs, rtol=1e-5, atol=0)
    assert counted.sum() == pytest.approx(0.15 * ids.numel(), abs=4)
    kinds = [each.model.config._attn_implementation for each in (trainer, other)]
    assert kinds == ["sdpa", "eager"]


def test_a_run_that_was_killed_goes_on_to_the_same_weights(trained, make, tmp_path):
    folder = tmp_path / "stopped"
    make(folder, **{"run.stop_at_step": 5}).train()
    before = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert before["step"] == 5 and not (folder / "result.json").exists()
    make(folder).train()
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
    for other in ({"learning_rate": 1e-3}, {"attention": "eager"}):
        with pytest.raises(UserError, match="a run of other settings"):
            make(folder, **other)
