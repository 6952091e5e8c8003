"""Hugging Face's pretraining at its best: its forms compute the same, and all of them train."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
import torch

from benchmarks import hugging_face_data, pretraining
from benchmarks import hugging_face_pretraining as hugging_face
from benchmarks.best_options import Tried
from benchmarks.hugging_face_electra import HuggingFaceElectra
from benchmarks.hugging_face_mlm import HuggingFaceMaskedLanguageModel
from benchmarks.hugging_face_step import Masked
from benchmarks.pretraining_shapes import SHAPES, TRIAL
from data_prep import examples
from data_prep.running import pipeline
from tests.pretraining_runs import eagerly
from tests.test_hugging_face_mlm import SIZE, SPECIAL
from tfbio.base import config
from tfbio.objectives import objective_cost, pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text.special_tokens import SPECIAL_TOKENS
from tfbio.training import distribution
from tfbio.training.precision import own_policy

LENGTHS = (30, 200, 90, 140, 60, 129, 128, 250, 11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Encoded documents, as `pretraining_shapes.prepare` writes them."""
    path = tmp_path_factory.mktemp("encoded")
    words = [f"w{number}" for number in range(200 - len(SPECIAL_TOKENS))]
    (path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *words]) + "\n")
    rng = np.random.default_rng(0)
    texts = [np.r_[2, rng.integers(5, 200, length - 2), 3].astype(np.int32) for length in LENGTHS]
    np.save(path / "ids.npy", np.concatenate(texts))
    np.save(path / "offsets.npy", np.cumsum([0, *LENGTHS]))
    return path


def settings(**changes):
    """The settings of a small model without dropout."""
    changes = {f"encoder.{name}": value for name, value in SIZE.items()} | changes
    changes |= {"sequence_length": 16, "num_warmup_steps": 0, "learning_rate": 5e-3}
    return [f"{name}={value}" for name, value in changes.items()]


def test_blocks_are_those_of_group_texts(folder):
    """`group_texts` of run_mlm.py: joins the lists, drops the remainder, and cuts."""
    ids, offsets = (np.load(folder / f"{name}.npy") for name in ("ids", "offsets"))
    lists = [ids[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    joined = list(itertools.chain(*lists))
    total = len(joined) // 128 * 128
    expected = [joined[i : i + 128] for i in range(0, total, 128)]
    assert hugging_face_data.blocks(folder, 128).tolist() == expected


@pytest.mark.parametrize("objective", ["electra", "mlm"])
def test_no_mask_is_a_mask_without_padding(objective):
    own = config.load(PretrainingConfig, json.dumps({"objective": objective}), settings())
    kind = HuggingFaceElectra if objective == "electra" else HuggingFaceMaskedLanguageModel
    torch.manual_seed(0)
    models = {}
    for attention in ("sdpa", "eager"):
        models[attention] = kind(own, SPECIAL, attention=attention)
        assert {
            each.config._attn_implementation
            for each in models[attention].children()
            if hasattr(each, "config")
        } == {attention}
    models["eager"].load_state_dict(models["sdpa"].state_dict())
    ids = torch.randint(5, 50, (4, 16))
    losses = []
    for model, mask in itertools.product(models.values(), (None, torch.ones_like(ids))):
        torch.manual_seed(1)
        losses.append(float(model.loss(ids, mask).detach()))
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-5)


def test_several_passes_take_the_step_of_one():
    own = config.load(PretrainingConfig, '{"objective": "mlm"}', settings())
    ids = torch.randint(5, 50, (4, 16), generator=torch.Generator().manual_seed(2))
    positions = torch.arange(3).expand(4, -1)
    weights = []
    for passes in (None, 1, 2):
        torch.manual_seed(3)
        model = HuggingFaceMaskedLanguageModel(own, SPECIAL)

        def loss(ids, positions, model=model):
            masked = Masked(ids, positions, torch.ones(positions.shape))
            return model.own_loss(ids, None, masked=masked)

        if passes is None:
            model.update(loss(ids, positions))
        else:
            model.take_step(loss, [ids, positions], passes)
        weights.append(torch.cat([each.flatten() for each in model.parameters()]).detach())
    assert torch.equal(weights[0], weights[1])
    # The optimizer divides by the root of the square, so roundings of tiny gradients show.
    torch.testing.assert_close(weights[0], weights[2], rtol=0, atol=2e-4)


def test_every_form_trains_and_bfloat16_is_autocast(folder):
    """The losses of 30 steps fall from that of a guess, log(200), in both formats."""
    shape = dataclasses.replace(
        SHAPES[TRIAL], changes=(*SHAPES[TRIAL].changes, "learning_rate=0.01", "num_warmup_steps=0")
    )
    for precision, changes in [
        ("float32", {"packed": True}),
        ("bfloat16", {"packed": True, "passes": 2, "attention": "eager"}),
        ("float32", {"pad_to_longest": True}),
    ]:
        training = hugging_face.Training(
            shape, folder, precision, hugging_face.Options(1, **changes)
        )
        kinds, losses = set(), []
        model, take_step = training._model, training._model.take_step
        model.discriminator.electra.encoder.register_forward_hook(
            lambda module, inputs, output, kinds=kinds: kinds.add(
                module.layer[0].attention.self.query(output[0]).dtype
            )
        )
        model.take_step = lambda *own, take=take_step, losses=losses: losses.append(
            float(take(*own))
        )
        sequences, tokens = training.train(30)
        assert sequences == 120
        assert (tokens == 120 * 128) == bool(changes.get("packed"))
        assert kinds == {getattr(torch, precision)}
        assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.2, (precision, changes, losses)


def test_our_engine_computes_in_the_format(documents_folder, vocab_file, tmp_path, monkeypatch):
    settings = examples.ExampleSettings(sequence_length=128, packing=True)
    runner = pipeline.Runner(workers=1)
    output = tmp_path / SHAPES[TRIAL].examples
    examples.make_examples(documents_folder, vocab_file, output, settings, runner=runner)
    made = []

    class Seen(pretrainer.Pretrainer):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(pretrainer, "Pretrainer", Seen)
    # In a process of its own it chooses the threads of TensorFlow, too.
    here = tf.distribute.OneDeviceStrategy("/cpu:0")
    monkeypatch.setattr(distribution, "make_strategy", lambda **options: here)
    for precision in pretraining.PRECISIONS:
        with own_policy(), eagerly():
            train = pretraining.tfbio_engine(SHAPES[TRIAL], tmp_path, precision)
            sequences, tokens = train(2)
        assert sequences == 8 and 900 < tokens <= 8 * 128
        assert made[-1].model.discriminator_dense.compute_dtype == precision


def test_the_search_tries_every_option(folder):
    threads = torch.get_num_threads()
    tried = list(hugging_face.search(SHAPES[TRIAL], folder, "float32", compiles=False))
    torch.set_num_threads(threads)
    options = [hugging_face.Options(**each.options) for each in tried]
    assert options[0].packed and options[0].attention == "sdpa" and options[0].passes == 1
    assert {own.packed for own in options} == {True, False}
    assert {own.attention for own in options} == {"sdpa", "eager"}
    assert {own.passes for own in options} == {1, 2, 4}
    assert not any(own.compiled or own.all_positions for own in options)
    assert all(each.rate > 0 and not each.problem for each in tried)


def test_the_table_has_ratios_to_hugging_face_in_the_same_format(folder):
    row = pretraining.Row
    rows = {
        "tfbio, float32": row(None, "float32", True),
        "Hugging Face, float32": row(None, "float32", False),
        "tfbio, bfloat16": row(None, "bfloat16", False),
        "Hugging Face, bfloat16": row(None, "bfloat16", False),
        "tfbio, 6eced75": row(None, "float32", True, True),
    }
    rates = dict(zip(rows, (3.0, 2.0, 6.0, 5.0, 1.5), strict=True))
    measured = {
        name: [[x, 128 * x, 100 * x, 1e9], [1.1 * x, 128 * x, 100 * x, 2e9], [9e9, 128 * x, 1, 0]]
        for name, x in rates.items()
    }
    lines = pretraining.table(SHAPES[TRIAL], folder, rows, measured)
    assert "Peak: 2 GFLOP/s" in lines[0]
    flops = objective_cost.example_flops(SHAPES[TRIAL].config(200), 128)
    ours, before = (f"{rate * flops / 2e9:.0%}" for rate in (3.3, 1.65))
    assert ours != before
    assert lines[4] == f"| tfbio, float32 | 3.30 | 1.50 | 384 | 1.50 | {ours} | 300 | 1.50 |"
    assert lines[5] == "| Hugging Face, float32 | 2.20 | 1.00 | 256 | 1.00 |  | 200 | 1.00 |"
    assert lines[6] == "| tfbio, bfloat16 | 6.60 | 1.20 | 768 | 1.20 |  | 600 | 1.20 |"
    assert lines[8] == f"| tfbio, 6eced75 | 1.65 | 0.75 | 192 | 0.75 | {before} | 150 | 0.75 |"
    # In bfloat16 alone, what another checkout does in float32 has no peer.
    alone = {x: row for x, row in rows.items() if row.is_before or row.precision == "bfloat16"}
    turns = {x: measured[x] for x in alone}
    in_bfloat16 = pretraining.table(SHAPES[TRIAL], folder, alone, turns)
    assert in_bfloat16[6].startswith("| tfbio, 6eced75 | 1.65 |  | 192 |  | ")
    assert "tfbio, bfloat16 to tfbio, 6eced75: 4.00, 4.00, 4.00" in lines[-1]
    assert "tfbio, bfloat16 to Hugging Face, bfloat16: 1.20, 1.20, 1.20" in lines[-1]


class Asked:
    """Stands in for an engine's process."""

    def __init__(self, module, *arguments, root=None):
        """Starts nothing."""

    def ask(self, steps):
        """Trains nothing."""


@pytest.mark.parametrize("other", ["", "pad_to_longest", "all_positions"])
def test_a_share_of_the_peak_is_that_of_known_products(monkeypatch, tmp_path, other):
    """In float32, and without products of padding or of positions that are not masked."""
    monkeypatch.setattr(pretraining, "Engine", Asked)
    options = {x: x == other for x in ("pad_to_longest", "all_positions")}
    best = {precision: Tried(options, 1.0) for precision in pretraining.PRECISIONS}
    rows = pretraining.start(TRIAL, tmp_path, best, before=tmp_path)
    assert {name: row.has_flops for name, row in rows.items()} == {
        "tfbio, float32": True,
        "tfbio, bfloat16": False,
        "Hugging Face, float32": not other,
        "Hugging Face, bfloat16": False,
        f"tfbio, {pretraining.commit(tmp_path)}": True,
    }
