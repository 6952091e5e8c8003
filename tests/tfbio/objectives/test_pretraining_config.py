"""Settings of pretraining: what the papers say, and what follows from the settings."""

import dataclasses
import re
from pathlib import Path

import pytest

from tfbio.base.config import ConfigError, load
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import pretraining_cost

HPARAMS = Path(__file__).parents[3] / "hparams"


@pytest.mark.parametrize(
    "name, encoder, rest",
    [
        # ELECTRA, Table 6.
        (
            "small",
            (30522, 128, 256, 12, 4, 1024),
            (0.25, 0.15, 50.0, 128, 0, 128, 1_000_000, 5e-4, 10_000, 1),
        ),
        (
            "large",
            (30522, 1024, 1024, 24, 16, 4096),
            (0.25, 0.25, 50.0, 512, 0, 2048, 400_000, 2e-4, 10_000, 1),
        ),
        # BioELECTRA P, section 4.1 and appendix A: batch 512, a tenth of the steps at length 512,
        # the 8 cores of a TPU v3-8.
        (
            "base",
            (28895, 768, 768, 12, 12, 3072),
            (0.33333, 0.15, 50.0, 128, 512, 512, 1_000_000, 2e-4, 10_000, 8),
        ),
        # The same as the authors' code has it, whose runs have one length.
        (
            "base_phase2",
            (28895, 768, 768, 12, 12, 3072),
            (0.33333, 0.15, 50.0, 512, 0, 512, 100_000, 2e-4, 10_000, 8),
        ),
    ],
)
def test_published_values(name, encoder, rest):
    settings = load(PretrainingConfig, str(HPARAMS / f"{name}.json"))
    shape = settings.encoder
    assert encoder == (
        shape.vocab_size,
        shape.embedding_size,
        shape.hidden_size,
        shape.num_hidden_layers,
        shape.num_attention_heads,
        shape.intermediate_size,
    )
    assert rest == (
        settings.generator_hidden_fraction,
        settings.mask_prob,
        settings.discriminator_weight,
        settings.sequence_length,
        settings.final_sequence_length,
        settings.train_batch_size,
        settings.num_train_steps,
        settings.learning_rate,
        settings.num_warmup_steps,
        settings.gradient_clip_groups,
    )
    assert (shape.hidden_dropout_prob, shape.attention_probs_dropout_prob) == (0.1, 0.1)
    assert (settings.adam_beta_1, settings.adam_beta_2, settings.adam_epsilon) == (0.9, 0.999, 1e-6)
    assert settings.weight_decay_rate == 0.01
    # As the original code draws and replaces.
    assert settings.mask_with_replacement
    assert (settings.mask_token_prob, settings.random_token_prob) == (0.85, 0.0)
    said = " ".join((HPARAMS / f"{path}.json").read_text() for path in {name, name.split("_")[0]})
    assert "drawn with replacement, as the original code does" in said


@pytest.mark.parametrize(
    ("name", "masking", "optimizer", "steps"),
    [
        # Gu et al. (2020), sections 2.3 and 6.1: 10 % of the steps are the warm-up.
        (
            "pubmedbert",
            ("mlm", "word", False, 0.15, 0.0, 0.8, 0.1),
            ("adamw", "triangular", 6e-4, 6_250, 0.999, False, False, 1.0),
            (512, 8192, 62_500, 62_500),
        ),
        (
            "pubmedbert_word_pieces",
            ("mlm", "token", False, 0.15, 0.0, 0.8, 0.1),
            ("adamw", "triangular", 6e-4, 6_250, 0.999, False, False, 1.0),
            (512, 8192, 62_500, 62_500),
        ),
        (
            "pubmedbert_adversarial",
            ("mlm", "word", False, 0.15, 0.0, 0.8, 0.1),
            ("adamw", "triangular", 6e-4, 6_250, 0.999, False, False, 1.0),
            (512, 8192, 62_500, 62_500),
        ),
        # Alrowili and Vijay-Shanker (2021), sections 3.1 to 3.3.
        (
            "biom_electra_base",
            ("electra", "token", True, 0.15, 0.0, 0.85, 0.0),
            ("adamw", "linear", 2e-4, 10_000, 0.999, False, False, 1.0),
            (512, 1024, 500_000, 500_000),
        ),
        (
            "biom_electra_large",
            ("electra", "token", True, 0.25, 0.0, 0.85, 0.0),
            ("adamw", "linear", 2e-4, 10_000, 0.999, False, False, 1.0),
            (512, 4096, 434_000, 434_000),
        ),
        (
            "biom_bert_large",
            ("mlm", "token", True, 0.15, 0.0, 0.85, 0.0),
            ("adamw", "linear", 2e-4, 10_000, 0.999, False, False, 1.0),
            (512, 4096, 700_000, 690_000),
        ),
        (
            "biom_albert",
            ("mlm", "ngram", False, 0.15, 0.0, 0.8, 0.1),
            ("lamb", "linear", 1.76e-3, 3_125, 0.999, False, False, 1.0),
            (512, 8192, 264_000, 264_000),
        ),
        # Lewis et al. (2020), section 5.1: 5 % of the steps are the warm-up.
        (
            "biolm_base",
            ("mlm", "token", False, 0.15, 0.0, 0.8, 0.1),
            ("adamw", "triangular", 6e-4, 25_000, 0.98, True, True, 0.0),
            (512, 8192, 500_000, 500_000),
        ),
        (
            "biolm_large",
            ("mlm", "token", False, 0.15, 0.0, 0.8, 0.1),
            ("adamw", "triangular", 4e-4, 25_000, 0.98, True, True, 0.0),
            (512, 8192, 500_000, 500_000),
        ),
        # Section 7.1: 50k steps of distillation, and the same without.
        *(
            (
                f"biolm_base_{name}",
                ("mlm", "token", False, 0.15, 0.0, 0.8, 0.1),
                ("adamw", "triangular", 5e-4, 2_500, 0.98, True, True, 0.0),
                (512, 8192, 50_000, 50_000),
            )
            for name in ("distilled", "distilled_aligned", "control")
        ),
    ],
)
def test_values_of_pubmedbert_biom_and_biolm(name, masking, optimizer, steps):
    settings = load(PretrainingConfig, str(HPARAMS / f"{name}.json"))
    assert masking == (
        settings.objective,
        settings.mask_unit,
        settings.mask_with_replacement,
        settings.mask_prob,
        settings.final_mask_prob,
        settings.mask_token_prob,
        settings.random_token_prob,
    )
    correction = settings.adam_bias_correction
    if settings.optimizer == "lamb":
        correction = settings.lamb_bias_correction
    assert optimizer == (
        settings.optimizer,
        settings.schedule,
        settings.learning_rate,
        settings.num_warmup_steps,
        settings.adam_beta_2,
        correction,
        settings.decay_all,
        settings.max_gradient_norm,
    )
    assert (settings.adam_beta_1, settings.adam_epsilon, settings.weight_decay_rate) == (
        0.9,
        1e-6,
        0.01,
    )
    assert steps == (
        settings.sequence_length,
        settings.train_batch_size,
        settings.num_train_steps,
        settings.last_step,
    )


def test_adversarial_pretraining_has_the_settings_of_its_authors_code():
    """The defaults of alum/adv_masked_lm_task.py, and the weight of alum/alum_train.sh."""
    plain, own = (
        dataclasses.asdict(load(PretrainingConfig, str(HPARAMS / f"{name}.json")))
        for name in ("pubmedbert", "pubmedbert_adversarial")
    )
    assert {name for name in plain if plain[name] != own[name]} == {"comment", "adversarial"}
    code = {"noise_deviation": 1e-5, "step_size": 1e-3, "epsilon": 1e-6}
    assert own["adversarial"] == {"weight": 10.0, **code}
    assert dataclasses.asdict(PretrainingConfig().adversarial) == {"weight": 0.0, **code}


def test_both_phases_have_the_same_model():
    first, second = (
        dataclasses.asdict(load(PretrainingConfig, str(HPARAMS / f"{name}.json")))
        for name in ("base", "base_phase2")
    )
    differing = {name for name in first if first[name] != second[name]}
    lengths = {"sequence_length", "final_sequence_length"}
    assert differing == {"comment", "num_train_steps", *lengths}


def test_the_base_generator_is_the_papers():
    # 12 layers, hidden 256, feed-forward 1024, 4 heads.
    settings = load(PretrainingConfig, str(HPARAMS / "base.json"))
    generator = settings.generator
    assert (generator.num_hidden_layers, generator.hidden_size) == (12, 256)
    assert (generator.intermediate_size, generator.num_attention_heads) == (1024, 4)
    assert settings.phases() == [(128, 0, 900_000), (512, 900_000, 1_000_000)]


@pytest.mark.parametrize(
    ("stop", "phases"),
    [
        (800_000, [(128, 0, 800_000)]),
        (900_000, [(128, 0, 900_000)]),
        (950_000, [(128, 0, 900_000), (512, 900_000, 950_000)]),
    ],
)
def test_a_run_that_stops_early_has_the_phases_of_the_whole(stop, phases):
    settings = load(PretrainingConfig, str(HPARAMS / "base.json"), [f"run.stop_at_step={stop}"])
    assert settings.phases() == phases
    assert (settings.last_step, settings.num_train_steps) == (stop, 1_000_000)


def test_a_generator_may_be_of_any_shape():
    settings = load(
        PretrainingConfig,
        "",
        ["generator_intermediate_size=96", "generator_num_attention_heads=2"],
    )
    assert settings.generator.intermediate_size == 96
    assert settings.generator.num_attention_heads == 2
    own = dataclasses.replace(settings, untied_generator_embeddings=True)
    assert own.generator.embedding_size == own.generator.hidden_size == 64
    assert dataclasses.replace(own, generator_embedding_size=24).generator.embedding_size == 24


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (
            ["encoder.hidden_size=800", "encoder.num_attention_heads=8"],
            "hidden_size (200) must be a multiple of num_attention_heads (3)",
        ),
        (["generator_hidden_fraction=0.001"], "hidden_size must be at least 1, not 0"),
        (["generator_intermediate_size=2000000000"], "it would have more than 10 billion"),
        (
            [
                "untied_generator_embeddings=true",
                "generator_embedding_size=2000000000",
            ],
            "of which embedding_size is the largest",
        ),
    ],
)
def test_sizes_that_no_generator_has_are_blamed_on_its_own_settings(flags, reason):
    """Refuses them with the settings, before a run reads its examples."""
    with pytest.raises(ConfigError) as caught:
        load(PretrainingConfig, "", flags)
    message = str(caught.value)
    assert "the generator cannot have these sizes: " in message and reason in message
    assert "encoder" not in message
    for name in ("hidden_fraction", "num_attention_heads", "intermediate_size", "embedding_size"):
        assert f"generator_{name}" in message
    # Where there is no generator, its sizes do not matter.
    load(PretrainingConfig, "", [*flags, "objective=mlm"])


def test_positions_before_the_first_hold_no_token():
    settings = load(
        PretrainingConfig,
        "",
        [
            "encoder.max_position_embeddings=514",
            "encoder.position_offset=2",
            "sequence_length=512",
        ],
    )
    assert settings.encoder.max_sequence_length == 512


def test_as_many_words_are_scored_as_in_the_original_code():
    """int((mask_prob + 0.005) * max_seq_length), of the largest rate where it grows."""
    settings = PretrainingConfig(mask_prob=0.15)
    assert [settings.max_predictions(length) for length in (64, 128, 512)] == [9, 19, 79]
    growing = PretrainingConfig(mask_prob=0.05, final_mask_prob=0.25)
    assert growing.max_predictions(128) == 32
    assert PretrainingConfig(mask_prob=1.0).max_predictions(128) == 128


def test_at_least_one_word_is_scored():
    """Holds of a small share, and of short examples, where the original code has 0."""
    assert PretrainingConfig(mask_prob=0.001).max_predictions(128) == 1
    assert PretrainingConfig(mask_prob=0.15).max_predictions(5) == 1


def test_a_run_may_go_from_one_corpus_to_the_next():
    flags = ["num_train_steps=328000", "corpus_switch_steps=[264000]", "sequence_length=512"]
    settings = load(PretrainingConfig, "", flags)
    assert settings.phases() == [(512, 0, 264_000), (512, 264_000, 328_000)]
    assert settings.phase_names() == ["512", "512 from step 264000"]
    # One that stops early has no step of a corpus behind that.
    for stop, ends in ((300_000, (264_000, 300_000)), (100_000, (100_000, 100_000))):
        stopped = load(PretrainingConfig, "", [*flags, f"run.stop_at_step={stop}"])
        assert stopped.phases() == [(512, 0, ends[0]), (512, *ends)]
    assert PretrainingConfig().phase_names() == ["128"]
    two = load(PretrainingConfig, "", ["final_sequence_length=512"])
    assert two.phase_names() == ["128", "512"]
    # A tenth of ten steps is 0.9999999999999998 in the computer's numbers.
    short = ["final_sequence_length=512", "num_train_steps=10", "final_phase_fraction=0.9"]
    assert load(PretrainingConfig, "", short).phases() == [(128, 0, 1), (512, 1, 10)]


@pytest.mark.parametrize("flags", [["num_train_steps=4"], ["final_phase_fraction=0"]])
def test_a_phase_without_a_step_is_refused(flags):
    """But only at the beginning of a run: the settings of a finished one can be read."""
    long = ["final_sequence_length=512"]
    settings = load(PretrainingConfig, "", [*long, *flags])
    with pytest.raises(ConfigError, match="one of the two phases has none of .* steps: give more"):
        settings.require_steps_in_all()
    settings = load(PretrainingConfig, "", [*long, "num_train_steps=5"])
    settings.require_steps_in_all()
    assert len(settings.phases()) == 2


def test_a_share_without_log_odds_starts_no_bias():
    """Refuses what a run would fail of after it has read all examples."""
    flags = ["mask_prob=1", "frequency_biases=true"]
    with pytest.raises(ConfigError, match="frequency_biases does not go with mask_prob = 1"):
        load(PretrainingConfig, "", flags)
    load(PretrainingConfig, "", [*flags, "objective=mlm"])  # has no such bias


def test_a_warm_up_that_takes_all_steps_is_warned_of():
    """Says so in a dry run, too, and counts from the end of the steps of the generator alone."""
    flags = ["num_warmup_steps=10", "num_train_steps=20"]
    assert not load(PretrainingConfig, "", flags).warmup_warning
    for more in (["num_train_steps=10"], ["generator_warmup_steps=10"]):
        settings = load(PretrainingConfig, "", [*flags, *more])
        warning = "warning: num_warmup_steps 10 takes all 10 steps of the learning rate"
        assert settings.warmup_warning.startswith(warning)
        assert f"\n{settings.warmup_warning}\n" in pretraining_cost.report(settings)


def test_averages_of_a_part_that_waits_are_not_corrected():
    """The corrections count all steps, and those of a waiting part have no gradients."""
    flags = ["generator_warmup_steps=10", "optimizer=lamb"]
    with pytest.raises(ConfigError, match="lamb_bias_correction does not go with generator_warm"):
        load(PretrainingConfig, "", flags)
    load(PretrainingConfig, "", [*flags, "lamb_bias_correction=false"])
    with pytest.raises(ConfigError, match="adam_bias_correction does not go with generator_warm"):
        load(PretrainingConfig, "", [flags[0], "adam_bias_correction=true"])


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["corpus_switch_steps=5"], "must be a list of whole numbers, such as [1000,2000], not 5"),
        (["corpus_switch_steps=5,6"], 'such as [1000,2000], not "5,6"'),
        (["corpus_switch_steps=[1.5]"], "corpus_switch_steps must be a whole number, not 1.5"),
        (["corpus_switch_steps=[0]"], "in ascending order, from 1 to 999999, not [0]"),
        (["corpus_switch_steps=[5,5]"], "in ascending order, from 1 to 999999, not [5, 5]"),
        (["corpus_switch_steps=[10]", "num_train_steps=10"], "from 1 to 9, not [10]"),
        (["run.keep_checkpoints_at=[11]", "num_train_steps=10"], "from 1 to 10, not [11]"),
        (["final_sequence_length=1024"], "of 1024 tokens needs encoder.max_position_embeddings of"),
        (
            ["final_sequence_length=128"],
            "final_sequence_length 128 is sequence_length",
        ),
        (
            ["corpus_switch_steps=[5]", "final_sequence_length=512"],
            "corpus_switch_steps does not go with final_sequence_length",
        ),
    ],
)
def test_steps_ascend_within_the_run(flags, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        load(PretrainingConfig, "", flags)
