"""Hugging Face's pretraining at a budget: its loss, and how it goes on."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch

from scripts import train_hugging_face
from scripts.budget_arms import ARMS, ENCODERS, flags
from scripts.hugging_face_batches import Blocks, Rows
from tfbio.base import config
from tfbio.base.errors import UserError
from tfbio.objectives.pretraining_config import PretrainingConfig

CHANGES = {
    "sequence_length": 64,
    "encoder.hidden_dropout_prob": 0.1,
    "run.save_checkpoints_steps": 3,
    "run.num_eval_batches": 2,
}
STEPS = 8


def options_of(**changes):
    settings = ARMS["hugging_face_mlm"].settings(2000, STEPS, 4, 2e-2, seed=1)
    return flags(
        ENCODERS["1x64"] | settings | CHANGES | {"encoder.hidden_dropout_prob": 0.1} | changes
    )


def settings_of(**changes):
    options = options_of(**changes)
    return config.load(PretrainingConfig, "", options.replace("--set ", "").split())


@pytest.fixture(scope="module")
def texts(documents_folder, packed_folder):
    """Both kinds of what is read."""
    return {
        "blocks": Blocks(str(documents_folder), str(packed_folder)),
        "rows": Rows(str(packed_folder)),
    }


@pytest.fixture(scope="module")
def make(texts):
    """Makes a run in a folder."""

    def make(folder, kind="blocks", attention="sdpa", **changes):
        of = texts[kind]
        return train_hugging_face.Run(settings_of(**changes), of, str(folder), attention=attention)

    return make


@pytest.fixture(scope="module")
def trained(make, tmp_path_factory):
    """Runs without an interruption."""
    runs = {}
    for kind in ("blocks", "rows"):
        runs[kind] = make(tmp_path_factory.mktemp("hugging_face") / kind, kind)
        runs[kind].train()
    return runs


def test_the_loss_is_that_of_transformers_with_both_kinds_of_attention(trained, make, tmp_path):
    trainer, other = trained["blocks"].trainer, make(tmp_path, attention="eager").trainer
    other.load_state_dict(trainer.state_dict())
    trainer.eval(), other.eval()
    (batch,) = trained["blocks"].texts.held_out(4, 1)
    ids, masked = batch["input_ids"], trainer.hide(batch, seed=0, step=0)
    counted = torch.zeros_like(ids).scatter(1, masked.positions, masked.weights.long())
    with torch.no_grad():
        theirs = trainer.model(masked.input_ids, labels=ids.masked_fill(counted == 0, -100)).loss
        torch.testing.assert_close(trainer.masked_loss(batch, masked), theirs, rtol=1e-6, atol=0)
        torch.testing.assert_close(other.masked_loss(batch, masked), theirs, rtol=1e-5, atol=0)
    assert counted.sum() == pytest.approx(0.15 * ids.numel(), abs=4)
    kinds = [each.model.config._attn_implementation for each in (trainer, other)]
    assert kinds == ["sdpa", "eager"]


def test_the_held_out_loss_is_without_dropout(trained):
    trainer, texts = trained["blocks"].trainer, trained["blocks"].texts
    losses = []
    trainer.eval()
    with torch.no_grad():
        for number, batch in enumerate(texts.held_out(4, CHANGES["run.num_eval_batches"])):
            masked = trainer.hide(batch, train_hugging_face._HELD_OUT_SEED, number)
            losses.append(trainer.masked_loss(batch, masked).item())
    trainer.train()
    assert len(losses) == 2
    assert trainer.held_out_loss(texts) == pytest.approx(np.mean(losses), rel=1e-6)
    assert trainer.training  # the next step has it again


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_loss_on_rows_is_that_of_each_document_alone(
    trained, make, tmp_path, attention, precision
):
    trainer = make(tmp_path, "rows", attention, **{"run.precision": precision}).trainer
    trainer.load_state_dict(trained["rows"].trainer.state_dict())
    trainer.eval()
    (batch,) = trained["rows"].texts.held_out(4, 1)
    masked = trainer.hide(batch, seed=0, step=0)
    labels = torch.full_like(batch["input_ids"], -100)
    for row, (places, weights) in enumerate(zip(masked.positions, masked.weights, strict=True)):
        hidden = places[weights > 0]
        labels[row, hidden] = batch["input_ids"][row, hidden]
    total, words, documents = 0.0, 0, 0
    is_bfloat16 = precision == "bfloat16"
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16):
        for row, positions in enumerate(batch["position_ids"]):
            starts = (positions == 0) & (batch["input_ids"][row] != trainer.pad_id)
            starts = starts.nonzero().ravel().tolist()
            ends = [*starts[1:], int((batch["input_ids"][row] != trainer.pad_id).sum())]
            for start, end in zip(starts, ends, strict=True):
                own = labels[row : row + 1, start:end]
                documents += 1
                if (count := int((own >= 0).sum())) == 0:
                    continue
                output = trainer.model(
                    masked.input_ids[row : row + 1, start:end],
                    token_type_ids=batch["token_type_ids"][row : row + 1, start:end],
                    labels=own,
                )
                total, words = total + output.loss.item() * count, words + count
        loss = trainer.masked_loss(batch, masked).item()
    assert documents > 4  # some share a row
    assert loss == pytest.approx(total / words, rel=2e-3 if is_bfloat16 else 1e-5)


@pytest.mark.parametrize("kind", ["blocks", "rows"])
def test_a_run_that_was_killed_goes_on_to_the_same_weights(trained, make, tmp_path, kind):
    folder, whole = tmp_path / "stopped", trained[kind]
    make(folder, kind, **{"run.stop_at_step": 5}).train()
    before = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert before["step"] == 5 and not (folder / "result.json").exists()
    make(folder, kind).train()
    for name, value in whole.trainer.state_dict().items():
        after = torch.load(folder / "checkpoint.pt", weights_only=True)["model"][name]
        torch.testing.assert_close(after, value, rtol=0, atol=0)
    one, other = (
        json.loads((path / "result.json").read_text()) for path in (whole.model_dir, folder)
    )
    assert one["held_out"] == other["held_out"] and one["steps"] == STEPS
    # It has learnt something: all words alike have a loss of log(2000) = 7.60.
    assert one["held_out"]["loss"] < 7.4
    make(folder, kind, **{"run.stop_at_step": 5}).train()  # it is beyond
    others = "rows" if kind == "blocks" else "blocks"
    for other in ({"learning_rate": 1e-3}, {"attention": "eager"}, {"kind": others}):
        with pytest.raises(UserError, match="a run of other settings"):
            make(folder, **{"kind": kind} | other)


def test_a_run_goes_on_with_its_examples_wherever_they_lie(packed_folder, trained, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(packed_folder, copy)
    folder = trained["rows"].model_dir
    train_hugging_face.Run(settings_of(), Rows(str(copy)), str(folder))
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["shards"][0]["sha256"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="a run of other settings"):
        train_hugging_face.Run(settings_of(), Rows(str(copy)), str(folder))


def test_a_complete_run_is_complete_for_its_own_settings_alone(trained, monkeypatch, capsys):
    run = trained["rows"]
    command = f"_ --rows --examples={run.texts.examples} --model_dir={run.model_dir} "
    threads = torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", (command + options_of()).split())
    train_hugging_face.main()
    assert capsys.readouterr().out == f"{run.model_dir} is complete.\n"
    monkeypatch.setattr(sys, "argv", (command + options_of(seed=7)).split())
    with pytest.raises(UserError, match="a run of other settings"):
        train_hugging_face.main()
    torch.set_num_threads(threads)
