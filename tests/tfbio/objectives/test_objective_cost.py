"""The counts of parameters and FLOPs, against a model that is made and PyTorch's count."""

import dataclasses
from pathlib import Path

import pytest

from tfbio.base import config
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.layers import count_parameters
from tfbio.objectives import objective_cost
from tfbio.objectives.adversarial_config import AdversarialSettings
from tfbio.objectives.distillation import Student
from tfbio.objectives.distillation_config import DistillationConfig
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
NOT_IN_TRANSFORMERS = (
    *("initializer_range", "scaled_initializer"),
    *("position_offset", "share_layers", "layer_norm_first"),
)


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
    "adversarial": {"objective": "mlm", "adversarial": AdversarialSettings(weight=1.0)},
    "adversarial, no projection": {
        "objective": "mlm",
        "encoder": WIDE,
        "adversarial": AdversarialSettings(weight=1.0),
    },
    "one layer, as large as the embeddings": {
        "objective": "mlm",
        "encoder": dataclasses.replace(WIDE, share_layers=True),
    },
    "LayerNorm first": {"encoder": dataclasses.replace(SHAPE, layer_norm_first=True)},
    "LayerNorm first, mlm": {
        "objective": "mlm",
        "encoder": dataclasses.replace(WIDE, layer_norm_first=True),
    },
    "LayerNorm first, sentence pairs": {
        "objective": "mlm",
        "encoder": dataclasses.replace(WIDE, layer_norm_first=True),
        "sentence_pair_head": True,
        "sentence_pair_loss": True,
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


# Recipes by the model of `transformers` that they pretrain, and its parameters in millions: the
# published numbers, where there are any. Models have the heads of pretraining, but for ELECTRA's
# encoder, which is alone.
PUBLISHED = {
    ("BertForPreTraining", 108.9): (
        *("pubmedbert", "pubmedbert_word_pieces", "pubmedbert_adversarial"),
        *("pubmedbert_pmc", "pubmedbert_pmc_100k"),
    ),
    ("BertForPreTraining", 110.1): ("pubmedbert_from_bert", "pubmedbert_from_bert_word_pieces"),
    ("BertForMaskedLM", 108.3): ("pubmedbert_without_nsp",),
    ("RobertaForMaskedLM", 124.7): (
        *("biolm_base", "biolm_base_pm", "biolm_base_pm_voc", "biolm_base_pm_m3"),
        *("biolm_base_distilled", "biolm_base_control"),
    ),
    # And the map of 768 states to 1,024, which learns besides.
    ("RobertaForMaskedLM", 125.5): ("biolm_base_distilled_aligned",),
    ("RobertaForMaskedLM", 355.4): ("biolm_large", "biolm_large_pm_m3"),
    ("AlbertForPreTraining", 223.2): ("biom_albert", "biom_albert_pmc"),
    # Megatron-LM's BERT, of 28,996 to 50,000 words; the two larger ones have sizes of no paper.
    ("MegatronBertForPreTraining", 334.7): (
        *("biomegatron_345m_cased", "biomegatron_345m_cased_from_megatron"),
    ),
    ("MegatronBertForPreTraining", 335.7): ("biomegatron_345m_bio_30k",),
    ("MegatronBertForPreTraining", 336.2): ("biomegatron_345m_uncased",),
    ("MegatronBertForPreTraining", 336.3): ("biomegatron_345m_uncased_from_megatron",),
    ("MegatronBertForPreTraining", 356.2): ("biomegatron_345m_bio_50k",),
    ("MegatronBertForPreTraining", 828.2): ("biomegatron_800m_cased",),
    ("MegatronBertForPreTraining", 830.1): ("biomegatron_800m_uncased",),
    ("MegatronBertForPreTraining", 1185.8): ("biomegatron_1_2b_uncased_from_megatron",),
    # 28,895 words, and 30,522 as ELECTRA-base has them: 109 M without a head.
    ("ElectraModel", 107.6): (
        *("base", "base_phase2", "base_phase2_200k", "bioelectra_pmc", "bioelectra_pmc_2m"),
        "biom_electra_base",
    ),
    ("ElectraModel", 108.9): ("bioelectra_wikipedia", "bioelectra_from_electra"),
    # ELECTRA-large's 334.1 M less the 1,627 words that it has more.
    ("ElectraModel", 332.4): ("biom_electra_large",),
    # BERT-large, cased.
    ("BertForMaskedLM", 333.6): ("biom_bert_large",),
    # ELECTRA's own: 14 M and 335 M with a head and 30,522 words; and the quick start's.
    ("ElectraModel", 13.5): ("small",),
    ("ElectraModel", 334.1): ("large",),
    ("ElectraModel", 1.5): ("quickstart",),
}


def test_every_recipe_has_its_count_of_parameters():
    counted = [name for names in PUBLISHED.values() for name in names]
    assert sorted(counted) == sorted(path.stem for path in (ROOT / "hparams").glob("*.json"))


@pytest.mark.parametrize(
    ("name", "architecture", "millions"),
    [(name, *model) for model, names in PUBLISHED.items() for name in names],
)
def test_recipes_have_as_many_parameters_as_their_papers_models(name, architecture, millions):
    import torch
    import transformers

    made = recipe(name)
    settings = dataclasses.asdict(made.encoder)
    for setting in NOT_IN_TRANSFORMERS:
        del settings[setting]
    make = getattr(transformers, architecture)
    with torch.device("meta"):  # counts without memory
        model = make(make.config_class(**settings))
    expected = model.num_parameters()
    if made.distillation.cosine_weight:
        size, taught = made.encoder.hidden_size, made.distillation.teacher_hidden_size
        expected += (size + 1) * taught
    counted = objective_cost.parameters(made)
    found = counted.encoder if made.objective == "electra" else counted.all
    assert found == expected
    assert round(expected / 1e6, 1) == millions


def hugging_face_flops(shape, length, positions, head):
    """Counts with PyTorch one example's forward and backward pass; words at some positions."""
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    settings = dataclasses.asdict(shape)
    for name in NOT_IN_TRANSFORMERS:
        del settings[name]
    is_megatron = shape.layer_norm_first and head == "words and pairs"
    make = transformers.AlbertConfig if shape.share_layers else transformers.ElectraConfig
    make = transformers.MegatronBertConfig if is_megatron else make
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
        elif is_megatron:
            model = transformers.MegatronBertForPreTraining(peer)
            output = model.bert(ids)
            scores = model.cls.predictions(output.last_hidden_state[:, :positions])
            scores = scores.sum() + model.cls.seq_relationship(output.pooler_output).sum()
        elif head == "words":
            model = transformers.ElectraForMaskedLM(peer)
            rows = model.electra(ids).last_hidden_state[:, :positions]
            scores = model.generator_lm_head(model.generator_predictions(rows))
        elif head == "words, adversarial":
            model = transformers.ElectraForMaskedLM(peer)
            embedded = model.electra.embeddings(ids)
            noise = torch.zeros_like(embedded, requires_grad=True)

            def words(embedded):
                if shape.embedding_size != shape.hidden_size:
                    embedded = model.electra.embeddings_project(embedded)
                rows = model.electra.encoder(embedded).last_hidden_state[:, :positions]
                return model.generator_lm_head(model.generator_predictions(rows)).sum()

            clean = words(embedded)
            torch.autograd.grad(words(embedded.detach() + noise), noise)
            scores = clean + words(embedded.detach())
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
        head = "words, adversarial" if made.adversarial.weight else head
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


TEACHER = dataclasses.replace(SHAPE, hidden_size=128, num_hidden_layers=4, intermediate_size=160)


def distilled(**options):
    """The settings of a student of `SHAPE`, whose teacher is `TEACHER`."""
    sizes = DistillationConfig(**options).with_sizes_of(TEACHER, "")
    return settings(objective="mlm", distillation=sizes)


@pytest.mark.parametrize(
    "options",
    [
        {"kl_weight": 2.0},
        {"kl_weight": 2.0, "cosine_weight": 1.0, "kl_positions": "all"},
        {"cosine_weight": 1.0, "cosine_positions": "masked"},
    ],
)
def test_a_teacher_costs_a_forward_pass_and_the_map_its_weights(options):
    """PyTorch's count is of both passes, of which the forward one is a third."""
    made, masked = distilled(**options), settings().max_predictions(40)
    count = {"masked": masked, "all": 40}
    kl, cosine = (made.distillation.kl_weight > 0, made.distillation.cosine_weight > 0)
    scored = count[made.distillation.kl_positions] if kl else 0
    student = hugging_face_flops(SHAPE, 40, masked, "words")
    if scored == 40:  # these besides
        student += hugging_face_flops(SHAPE, 40, 40, "words")
        student -= hugging_face_flops(SHAPE, 40, 0, "words")
    if cosine:
        student += 3 * 2 * 64 * 128 * count[made.distillation.cosine_positions]
    teacher = hugging_face_flops(TEACHER, 40, scored, "words") // 3
    assert objective_cost.example_flops(made, 40) == student + teacher
    taught_by = MaskedLanguageModel(settings(objective="mlm", encoder=TEACHER))
    assert objective_cost.teacher_parameters(made) == count_parameters(taught_by)
    assert objective_cost.parameters(made).all == count_parameters(Student(made, taught_by))


def test_bio_lms_distillation_costs_a_forward_pass_of_the_large_model_more():
    """A third of the large model's step, so the steps of its control take half as many FLOPs."""
    control, taught = recipe("biolm_base_control"), recipe("biolm_base_distilled")
    ratio = objective_cost.run_flops(taught) / objective_cost.run_flops(control)
    large = objective_cost.run_flops(recipe("biolm_large")) / 3 / 10  # of 500,000 steps
    assert objective_cost.run_flops(taught) == objective_cost.run_flops(control) + large
    assert 2.0 < ratio < 2.3
    assert (
        objective_cost.teacher_parameters(taught)
        == objective_cost.parameters(recipe("biolm_large")).all
    )
