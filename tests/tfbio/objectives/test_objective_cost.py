"""The counts of parameters and FLOPs, against a model that is made and PyTorch's count."""

import dataclasses
from pathlib import Path

import pytest

from tfbio.base import config
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.layers import count_parameters
from tfbio.objectives import objective_cost
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig

ROOT = Path(__file__).parents[3]

SHAPE = EncoderConfig(
    vocab_size=300,
    embedding_size=32,
    hidden_size=64,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=112,
    max_position_embeddings=48,
)
WIDE = dataclasses.replace(SHAPE, embedding_size=64)


def settings(**options):
    options = {"encoder": SHAPE, "generator_hidden_fraction": 0.5} | options
    return PretrainingConfig(sequence_length=40, **options)


def recipe(name):
    return config.load(PretrainingConfig, str(ROOT / "hparams" / f"{name}.json"))


OPTIONS = {
    "small": {},
    "no projection": {"encoder": WIDE},
    "fewer layers": {"generator_layers_fraction": 0.34},
    "own embeddings": {"untied_generator_embeddings": True},
    "one encoder": {"untied_generator": False},
    "no generator": {"uniform_generator": True},
    "mlm": {"objective": "mlm"},
    "mlm, no projection": {"objective": "mlm", "encoder": WIDE, "uniform_generator": True},
    "growing rate": {"objective": "mlm", "final_mask_prob": 0.25},
    "one layer": {
        "objective": "mlm",
        "encoder": dataclasses.replace(SHAPE, share_layers=True),
        "sentence_pair_head": True,
    },
    "sentence pairs": {
        "objective": "mlm",
        "encoder": dataclasses.replace(SHAPE, share_layers=True),
        "sentence_pair_head": True,
        "sentence_pair_loss": True,
    },
    "one layer, as large as the embeddings": {
        "objective": "mlm",
        "encoder": dataclasses.replace(WIDE, share_layers=True),
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_parameters_are_those_of_the_model(options):
    made = settings(**options)
    counted = objective_cost.parameters(made)
    model = MaskedLanguageModel(made) if made.objective == "mlm" else Electra(made)
    assert counted.encoder == count_parameters(model.encoder)
    assert counted.all == count_parameters(model)
    own = set()
    if made.objective == "electra" and not made.uniform_generator:
        layers = (model.generator, model.generator_head)
        own = {v.ref() for layer in layers for v in layer.trainable_variables}
        own -= {v.ref() for v in model.encoder.trainable_variables}
    assert counted.generator == sum(v.deref().shape.num_elements() for v in own)


# The models of `transformers` with the heads of pretraining, and the published numbers of their
# parameters, in millions.
PUBLISHED = {
    "pubmedbert": ("Bert", {}, 108.9),
    "pubmedbert_word_pieces": ("Bert", {}, 108.9),
    "pubmedbert, BERT's vocabulary": ("Bert", {"vocab_size": 30522}, 110.1),
    "biolm_base": ("Roberta", {}, 124.7),
    "biolm_large": ("Roberta", {}, 355.4),
    "biom_albert": ("Albert", {}, 223.2),
}


@pytest.mark.parametrize(("family", "changes", "millions"), PUBLISHED.values(), ids=PUBLISHED)
def test_recipes_have_as_many_parameters_as_their_papers_models(family, changes, millions, request):
    import torch
    import transformers

    made = recipe(request.node.callspec.id.split(",")[0])
    encoder = dataclasses.replace(made.encoder, **changes)
    made = dataclasses.replace(made, encoder=encoder)
    settings = dataclasses.asdict(encoder)
    for name in ("initializer_range", "position_offset", "share_layers"):
        del settings[name]
    with torch.device("meta"):  # counts without memory
        peer = getattr(transformers, f"{family}Config")(**settings)
        head = "ForMaskedLM" if family == "Roberta" else "ForPreTraining"
        model = getattr(transformers, family + head)(peer)
    assert objective_cost.parameters(made).all == model.num_parameters()
    assert round(model.num_parameters() / 1e6, 1) == millions


def hugging_face_flops(shape, length, positions, head):
    """Counts with PyTorch one example's forward and backward pass; words at some positions."""
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    settings = dataclasses.asdict(shape)
    for name in ("initializer_range", "position_offset", "share_layers"):
        del settings[name]
    make = transformers.AlbertConfig if shape.share_layers else transformers.ElectraConfig
    peer = make(**settings, attn_implementation="eager")
    ids = torch.ones([1, length], dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        if shape.share_layers:
            model = transformers.AlbertForPreTraining(peer)
            hidden = model.albert.encoder(model.albert.embeddings(ids)).last_hidden_state
            scores = model.predictions(hidden[:, :positions])
            if head == "words and pairs":
                pooled = model.albert.pooler_activation(model.albert.pooler(hidden[:, 0]))
                scores = scores.sum() + model.sop_classifier(pooled).sum()
        elif head == "words":
            model = transformers.ElectraForMaskedLM(peer)
            rows = model.electra(ids).last_hidden_state[:, :positions]
            scores = model.generator_lm_head(model.generator_predictions(rows))
        else:
            scores = transformers.ElectraForPreTraining(peer)(ids).logits
        scores.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_flops_are_what_pytorch_counts_in_hugging_face(options):
    made = settings(**options)
    positions = made.max_predictions(40)
    shapes = [(made.encoder, "tokens")]
    if made.objective == "mlm":
        head = "words and pairs" if made.sentence_pair_loss else "words"
        shapes = [(made.encoder, head)]
    elif not made.uniform_generator:
        shapes.append((made.generator, "words"))
    expected = sum(hugging_face_flops(shape, 40, positions, head=head) for shape, head in shapes)
    assert objective_cost.example_flops(made, 40) == expected


def test_flops_of_the_published_sizes():
    """As counted before, with another program: 9.0, 45 and 78 GFLOP an example."""
    small, base = recipe("small"), recipe("base")
    assert objective_cost.example_flops(small, 128) == pytest.approx(9.0e9, rel=0.01)
    assert objective_cost.example_flops(small, 512) == pytest.approx(45e9, rel=0.01)
    assert objective_cost.example_flops(base, 128) == pytest.approx(78e9, rel=0.01)


def test_a_run_is_the_sum_of_its_steps():
    made = dataclasses.replace(settings(), final_sequence_length=48, num_train_steps=100)
    short, long = (128 * objective_cost.example_flops(made, length) for length in (40, 48))
    assert objective_cost.run_flops(made) == 90 * short + 10 * long
    assert objective_cost.run_flops(made, 0, 7) == 7 * short
    assert objective_cost.run_flops(made, 88, 93) == 2 * short + 3 * long
    assert objective_cost.run_flops(made, 95) == 5 * long


def test_a_generator_that_learns_alone_takes_no_backward_pass_of_the_discriminator():
    made = settings(num_train_steps=100, generator_warmup_steps=30)
    step = 128 * objective_cost.example_flops(made, 40)
    # All but the generator, forward and backward: the latter is two thirds.
    discriminator = 128 * objective_cost.example_flops(settings(uniform_generator=True), 40)
    alone = step - discriminator * 2 // 3
    assert objective_cost.run_flops(made) == 30 * alone + 70 * step
    assert objective_cost.run_flops(made, 28, 33) == 2 * alone + 3 * step
    assert objective_cost.run_flops(made, 50, 60) == 10 * step
