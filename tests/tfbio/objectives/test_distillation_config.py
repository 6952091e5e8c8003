"""The settings of distillation: which go together, and the teacher's sizes."""

import dataclasses
import re
from pathlib import Path

import pytest

from tests import reference
from tfbio.base.config import ConfigError, load
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig

HPARAMS = Path(__file__).parents[3] / "hparams"
MLM = ("objective=mlm", "distillation.kl_weight=2")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["distillation.kl_weight=2"], "goes with objective = mlm and without sentence_pair_loss"),
        (
            [*MLM, "sentence_pair_head=true", "sentence_pair_loss=true"],
            "goes with objective = mlm and without sentence_pair_loss",
        ),
        ([*MLM, "adversarial.weight=1"], "without sentence_pair_loss and adversarial.weight"),
        (["distillation.mlm_weight=5"], "distillation.mlm_weight goes with distillation.kl_weight"),
        ([*MLM, "distillation.temperature=0"], "distillation.temperature must be above 0, not 0"),
        ([*MLM, "distillation.kl_positions=x"], "kl_positions must be masked or all, not "),
        ([*MLM, "distillation.cosine_weight=-1"], "cosine_weight must be at least 0, not -1"),
    ],
)
def test_settings_that_do_not_go_together(flags, sentence):
    with pytest.raises(ConfigError, match=sentence):
        load(PretrainingConfig, "", flags)


def test_sizes_that_are_not_set_are_those_of_the_teacher():
    settings = load(PretrainingConfig, "", [*MLM, "distillation.teacher_hidden_size=1024"])
    large = EncoderConfig(
        embedding_size=512,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    )
    sizes = ("embedding_size", "hidden_size", "num_hidden_layers", "intermediate_size")
    found = settings.distillation.with_sizes_of(large, "large").teacher(settings.encoder)
    assert [getattr(found, name) for name in sizes] == [512, 1024, 24, 4096]
    # Before, those of the student, but for the one that is set.
    found = settings.distillation.teacher(settings.encoder)
    assert [getattr(found, name) for name in sizes] == [128, 1024, 12, 1024]
    base = dataclasses.replace(large, hidden_size=768)
    with pytest.raises(
        ConfigError, match="teacher_hidden_size is 1024, but that of --teacher=base"
    ):
        settings.distillation.with_sizes_of(base, "base")


def test_the_flag_goes_with_the_losses():
    plain, taught = (load(PretrainingConfig, "", flags).distillation for flags in ([], MLM))
    plain.check_flag("")
    taught.check_flag("large")
    with pytest.raises(ConfigError, match="--teacher is missing: the settings have a loss"):
        taught.check_flag("")
    with pytest.raises(ConfigError, match="--teacher=large goes with a loss of distillation"):
        plain.check_flag("large")


def recipe(name):
    return load(PretrainingConfig, str(HPARAMS / f"{name}.json"))


def test_the_recipes_are_bio_lms():
    """The numbers are those that the paper prints, and the models those of its recipes."""
    text = re.sub(r"\s+", " ", reference.paper("bio_lm.txt"))
    said = (
        r"MLM = (?P<mlm>[\d.]+)\).*KL = (?P<kl>[\d.]+)\).*cos = (?P<cosine>[\d.]+)\)"
        r".*temperature of (?P<temperature>[\d.]+) to smooth"
    )
    printed = {name: float(x) for name, x in re.search(said, text).groupdict().items()}
    assert printed == {"mlm": 5.0, "kl": 2.0, "cosine": 1.0, "temperature": 2.0}
    base, large = recipe("biolm_base"), recipe("biolm_large").encoder
    for name in ("distilled", "distilled_aligned", "control"):
        settings = recipe(f"biolm_base_{name}")
        weights = settings.distillation
        assert settings.encoder == base.encoder, name
        assert weights.cosine_weight == (printed["cosine"] if "aligned" in name else 0)
        if name == "control":
            assert not weights.has_teacher, name
            continue
        assert (weights.mlm_weight, weights.kl_weight) == (printed["mlm"], printed["kl"]), name
        assert weights.temperature == printed["temperature"], name
        teacher = weights.teacher(settings.encoder)
        heads = large.num_attention_heads
        assert dataclasses.replace(teacher, num_attention_heads=heads) == large, name
