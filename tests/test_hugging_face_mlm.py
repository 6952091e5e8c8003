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
