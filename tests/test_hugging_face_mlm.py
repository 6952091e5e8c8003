"""The steps of `transformers` that benchmarks compare with: both take the same loss."""

from types import SimpleNamespace

import pytest
import torch

from benchmarks.hugging_face_mlm import HuggingFaceMaskedLanguageModel
from tfbio.base import config
from tfbio.objectives.pretraining_config import PretrainingConfig

SPECIAL = SimpleNamespace(cls_id=2, sep_id=3, pad_id=0, mask_id=4)
SIZE = {
    "vocab_size": 50,
    "hidden_size": 16,
    "embedding_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
PAIRS = {"sentence_pair_head": "true", "sentence_pair_loss": "true"}
FAMILIES = {
    "bert": PAIRS,
    "albert": PAIRS | {"encoder.share_layers": "true"},
    "roberta": {"encoder.position_offset": 2, "encoder.type_vocab_size": 1},
}


def small_step(**changes):
    """A BERT of this size with other settings, and its optimizer."""
    changes = {f"encoder.{name}": value for name, value in SIZE.items()} | changes
    settings = ["sequence_length=16", *(f"{name}={value}" for name, value in changes.items())]
    own = config.load(PretrainingConfig, '{"objective": "mlm"}', settings)
    return HuggingFaceMaskedLanguageModel(own, SPECIAL)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_of_words_on_masked_positions_gives_the_loss_of_transformers(family):
    changes = {f"encoder.{name}": value for name, value in SIZE.items()} | FAMILIES[family]
    changes |= {"sequence_length": 16, "num_warmup_steps": 0, "learning_rate": 5e-3}
    settings = config.load(
        PretrainingConfig, '{"objective": "mlm"}', [f"{x}={y}" for x, y in changes.items()]
    )
    torch.manual_seed(0)
    model = HuggingFaceMaskedLanguageModel(settings, SPECIAL)
    ids = torch.randint(5, 50, (4, 16))
    ids[:, 0], ids[:, 12] = SPECIAL.cls_id, SPECIAL.sep_id
    mask = (torch.arange(16) < 13).long().expand(4, -1)
    ids = ids * mask
    batch = [ids, mask]
    if family != "roberta":
        batch += [(torch.arange(16) > 6).long().expand(4, -1), torch.tensor([0, 1, 1, 0])]
    masked = model.mask(ids, mask)
    words, pairs = model.losses(*batch, masked=masked)
    loss = words if pairs is None else words + pairs
    own = model.own_loss(*batch, masked=masked)
    torch.testing.assert_close(own, loss, rtol=1e-6, atol=0)
    assert (pairs is None) == (family == "roberta")
    # Both steps learn these masks by heart.
    whole = [*batch, *[None] * (4 - len(batch)), masked]
    for trained in (model.loss, model.own_loss):
        for _ in range(10):
            model.update(trained(*whole))
        later = model.own_loss(*whole)
        assert later < loss - 0.1, trained
        loss = later


def test_the_learning_rate_is_that_of_bert():
    """A warm-up that is multiplied by the decay, from the first step on."""
    model = small_step(learning_rate=0.5, num_warmup_steps=4, num_train_steps=10)
    rates = []
    for _ in range(10):
        rates.append(model.optimizer.param_groups[0]["lr"])
        model._update()
    assert [rates[0], rates[3], rates[7]] == pytest.approx([0.5 * 0.9 / 4, 0.5 * 0.6, 0.5 * 0.2])
    assert rates[9] == 0


def test_layer_norms_and_biases_do_not_decay():
    model = small_step(weight_decay_rate=0.03)
    names = {id(each): name for name, each in model.named_parameters()}
    groups = {
        group["weight_decay"]: {names[id(each)] for each in group["params"]}
        for group in model.optimizer.param_groups
    }
    assert groups.keys() == {0.03, 0.0} and groups[0.03] | groups[0.0] == set(names.values())
    assert groups[0.0] == {x for x in names.values() if "LayerNorm" in x or x.endswith("bias")}
    (all_decay,) = small_step(decay_all="true").optimizer.param_groups
    assert len(all_decay["params"]) == len(names) and all_decay["weight_decay"] > 0


@pytest.mark.parametrize("correction, done", [("false", 1e6), ("true", 0)])
def test_only_where_it_is_asked_for_is_adams_bias_corrected(correction, done):
    """After a million steps AdamW's correction is a factor of 1."""
    model = small_step(adam_bias_correction=correction)
    states = [model.optimizer.state[each] for each in model.parameters()]
    assert {float(state["step"]) for state in states} == {done}


def test_so_many_words_are_hidden_shown_and_replaced():
    model = small_step(mask_prob=0.15, mask_token_prob=0.8, random_token_prob=0.1)
    torch.manual_seed(0)
    ids = torch.randint(5, 50, (400, 64))
    ids[:, 0], ids[:, 20:30] = SPECIAL.cls_id, SPECIAL.sep_id
    mask = torch.ones_like(ids)
    ids[200:, 40:], mask[200:, 40:] = SPECIAL.pad_id, 0
    masked = model.mask(ids, mask)
    # 15 % of 64 tokens, of which there is room for 9, and of 40.
    assert masked.weights.sum(1).tolist() == [9.0] * 200 + [6.0] * 200
    counted = masked.weights > 0
    before = ids.gather(1, masked.positions)[counted]
    after = masked.input_ids.gather(1, masked.positions)[counted]
    assert before.min() >= 5  # no special token
    # Of 3,000 words: a standard deviation of 0.7 % at most. One random word in 50 is the same one.
    hidden, kept = after == SPECIAL.mask_id, after == before
    assert hidden.float().mean().item() == pytest.approx(0.8 + 0.1 / 50, abs=0.03)
    assert kept.float().mean().item() == pytest.approx(0.1 + 0.1 / 50, abs=0.03)
    assert after[~hidden & ~kept].unique().numel() > 40
    elsewhere = torch.ones_like(ids).scatter(1, masked.positions, 1 - counted.long()).bool()
    assert torch.equal(masked.input_ids[elsewhere], ids[elsewhere])
    # Each row has places of its own.
    assert masked.positions[0].tolist() != masked.positions[1].tolist()
