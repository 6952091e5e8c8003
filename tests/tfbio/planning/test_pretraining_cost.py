"""The estimates of a pretraining run: memory, days, and the text of --dry_run."""

import dataclasses

import pytest

from tests.tfbio.objectives.test_objective_cost import SHAPE, recipe, settings
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest
from tfbio.objectives import objective_cost
from tfbio.objectives.adversarial_config import AdversarialSettings
from tfbio.objectives.distillation_config import DistillationConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.planning import pretraining_cost
from tfbio.reporting import published_tables
from tfbio.training import devices


def test_parts_of_a_batch_take_the_memory_of_one_and_of_the_sum():
    """The sum of the gradients, beside those of a part."""
    device, made = devices.DEVICES["t4"], settings(train_batch_size=64)
    run = dataclasses.replace(made.run, gradient_accumulation_steps=4)
    parted = dataclasses.replace(made, run=run)
    quarter = dataclasses.replace(made, train_batch_size=16)
    of_parts, of_quarter, of_all = (
        pretraining_cost.memory(each, device, "float32") for each in (parted, quarter, made)
    )
    assert of_parts == of_quarter + 4 * objective_cost.parameters(made).all < of_all


def test_groups_of_a_device_take_the_memory_of_one():
    made = settings(train_batch_size=64)
    grouped = dataclasses.replace(made, gradient_clip_groups=8)
    for name, groups_of_a_device in (("t4", 8), ("tpu-v4-8", 2), ("tpu-v3-8", 1)):
        run = dataclasses.replace(made.run, gradient_accumulation_steps=groups_of_a_device)
        parted = dataclasses.replace(made, run=run)
        assert pretraining_cost.needed_memory(grouped, name) == pretraining_cost.needed_memory(
            parted, name
        )
    # Of eight groups of eight examples none has sixteen parts.
    assert pretraining_cost.parts_that_fit(grouped, "t4") == 1
    too_many = PretrainingRun(gradient_accumulation_steps=16)
    odd = dataclasses.replace(grouped, run=too_many)
    assert pretraining_cost.parts_that_fit(odd, "t4") is None


def test_bioelectra_took_five_days():
    """Kanakarajan et al. (2021), appendix A: 1 M steps in 5 days on a TPU v3-8."""
    assert pretraining_cost.days(recipe("base"), "tpu-v3-8") == pytest.approx(5, rel=0.11)


def test_days_follow_the_precision():
    base = recipe("base")
    half = dataclasses.replace(base, run=PretrainingRun(precision="bfloat16"))
    single = dataclasses.replace(base, run=PretrainingRun(precision="float32"))
    assert pretraining_cost.days(single, "a100") == 2 * pretraining_cost.days(half, "a100")
    for device in ("a100", "tpu-v4-8"):  # which have bfloat16
        assert pretraining_cost.days(base, device) == pretraining_cost.days(half, device)
    assert pretraining_cost.days(base, "v100") == pretraining_cost.days(single, "v100")


# Models of which BioM prints another C than steps and batch give; the table's notes say so.
OTHER_C = {"PubMedBERT Base": 0.512, "PubMedBERT Base+": 0.512, "BioM-ELECTRA Large": 1.736}


def test_bioms_table_has_these_ratios():
    """Alrowili and Vijay-Shanker (2021), Table 1: every model with steps and a batch."""
    rows = {}
    for cell in published_tables.cells("biom"):
        if cell.table == 1:
            rows.setdefault(cell.row, {})[cell.column] = cell
    rows = {name: row for name, row in rows.items() if "C" in row}
    assert len(rows) == 13
    for name, row in rows.items():
        steps = row["Steps"].value.upper().replace(" ", "")
        steps = float(steps[:-1]) * {"K": 1e3, "M": 1e6}[steps[-1]]
        ratio = pretraining_cost.computational_ratio(int(steps), int(row["Batch"].value))
        assert ratio == pytest.approx(OTHER_C.get(name, ratio))
        assert (f"{ratio:.2f}x" != row["C"].value) == (name in OTHER_C) == bool(row["C"].note)
        assert abs(ratio - float(row["C"].value[:-1])) < 0.013


def test_memory_follows_the_batch_and_the_devices():
    made = settings(train_batch_size=64)
    one, two = (devices.Device(count, 1e12, 1e12, 1e9) for count in (1, 2))
    parameters = 16 * objective_cost.parameters(made).all
    activations = pretraining_cost.memory(made, one, "float32") - parameters
    assert pretraining_cost.memory(made, two, "float32") - parameters == activations / 2
    assert pretraining_cost.memory(made, one, "bfloat16") - parameters == activations / 2
    longer = dataclasses.replace(made, final_sequence_length=48)
    assert pretraining_cost.memory(longer, one, "float32") - parameters > activations


@pytest.mark.parametrize(("name", "size"), [("a100", 1000), ("v100", 192), ("tpu-v3-8", 3000)])
def test_no_fewer_parts_fit_than_are_named(name, size):
    made = dataclasses.replace(recipe("pubmedbert"), train_batch_size=size)
    parts, count = pretraining_cost.parts_that_fit(made, name), devices.DEVICES[name].count
    for fewer in range(1, parts + 1):
        run = PretrainingRun(gradient_accumulation_steps=fewer)
        needed = pretraining_cost.needed_memory(dataclasses.replace(made, run=run), name)
        fits = size % (count * fewer) == 0 and needed <= devices.DEVICES[name].memory
        assert fits == (fewer == parts), fewer


def test_what_is_too_much_is_said_with_its_remedy():
    made = dataclasses.replace(recipe("large"), train_batch_size=4096)
    (row,) = [
        line
        for line in pretraining_cost.report(made, "tpu-v3-8").splitlines()
        if "too much" in line
    ]
    parts = pretraining_cost.parts_that_fit(made, "tpu-v3-8")
    assert parts > 1 and row.endswith(f"fits with run.gradient_accumulation_steps={parts}")

    def fits(parts):
        run = PretrainingRun(gradient_accumulation_steps=parts)
        needed = pretraining_cost.needed_memory(dataclasses.replace(made, run=run), "tpu-v3-8")
        return needed <= devices.DEVICES["tpu-v3-8"].memory

    assert fits(parts) and not fits(parts // 2)
    assert pretraining_cost.parts_that_fit(recipe("small"), "tpu-v3-8") == 1


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_adversarial_step_keeps_the_activations_of_two_passes(precision):
    plain = settings(objective="mlm", train_batch_size=64)
    adversarial = dataclasses.replace(plain, adversarial=AdversarialSettings(weight=1.0))
    one, parameters = devices.Device(1, 1e12, 1e12, 1e9), 16 * objective_cost.parameters(plain).all
    once, twice = (
        pretraining_cost.memory(x, one, precision) - parameters for x in (plain, adversarial)
    )
    assert twice == 2 * once


def test_a_teacher_takes_the_memory_of_its_weights_and_its_scores():
    alone = settings(objective="mlm", train_batch_size=64)
    sizes = {"teacher_hidden_size": 48, "teacher_intermediate_size": 96}
    taught = dataclasses.replace(alone, distillation=DistillationConfig(kl_weight=2.0, **sizes))
    one = devices.Device(1, 1e12, 1e12, 1e9)
    less, more = (pretraining_cost.memory(x, one, "float32") for x in (alone, taught))
    # In float32, at the masked positions.
    scores = 4 * 64 * alone.max_predictions(40) * SHAPE.vocab_size
    assert more - less == 4 * objective_cost.teacher_parameters(taught) + scores
    report = pretraining_cost.report(recipe("biolm_base_distilled"), "a100")
    assert "355.4 M in the teacher" in report.splitlines()[0]  # RoBERTa-large


def test_memory_of_the_generator_where_its_scores_are_many():
    """The larger of the two models counts; its scores are in float32 at any precision."""
    made = settings(train_batch_size=64, encoder=dataclasses.replace(SHAPE, vocab_size=30_000))
    one, parameters = devices.Device(1, 1e12, 1e12, 1e9), 16 * objective_cost.parameters(made).all
    scores = 2 * 4 * 64 * made.max_predictions(40) * 30_000
    single, half = (
        pretraining_cost.memory(made, one, x) - parameters for x in ("float32", "bfloat16")
    )
    assert scores < half
    assert single - scores == 2 * (half - scores)


def test_a_report_says_what_the_numbers_are(examples_folder):
    manifest = read_manifest(examples_folder, "examples")
    made = dataclasses.replace(
        settings(),
        sequence_length=64,
        encoder=dataclasses.replace(SHAPE, max_position_embeddings=64),
    )
    made = dataclasses.replace(made, num_train_steps=1000, train_batch_size=16)
    text = pretraining_cost.report(made, "tpu-v3-8", [(str(examples_folder), manifest)])
    train = manifest.counts["train_examples"]
    everything = manifest.counts["tokens"] + manifest.counts["special_tokens"]
    tokens = 16_000 * everything / manifest.counts["examples"]
    for words in (
        f"{objective_cost.parameters(made).all / 1e3:.1f} k trained",
        "1,000 steps of 16 examples",
        "FLOP, 1.6e-05 of ELECTRA-base++'s examples (C)",
        f"{train:,} training examples, {16_000 / train:,.3g} epochs, {tokens:,.3g} tokens",
    ):
        assert words in text
    (row,) = [line for line in text.splitlines() if line.startswith("tpu-v3-8")]
    assert "bfloat16" in row and "v100" not in text
    assert not [name for name in devices.DEVICES if name not in pretraining_cost.report(made)]
    with pytest.raises(UserError, match="--estimate_for=tpu: expected one of tpu-v2-8, tpu-v3-8"):
        pretraining_cost.report(made, "tpu")


def test_the_report_says_if_the_generator_learns_alone():
    alone = settings(num_train_steps=100, generator_warmup_steps=30)
    assert "in the first 30 the generator learns alone" in pretraining_cost.report(alone, "v100")
    assert "alone" not in pretraining_cost.report(settings(uniform_generator=True), "v100")


V2, V3 = (2 * devices.DEVICES[f"tpu-{name}-8"].bfloat16 for name in ("v2", "v3"))  # of a chip
PHASES = {"sequence_length": 128, "final_sequence_length": 512}
ONLY_512 = {"sequence_length": 512}
BERT = {"objective": "mlm", "encoder": recipe("base").encoder}


@pytest.mark.parametrize(
    ("options", "days", "peak", "share"),
    [
        # You et al. (2020): as many examples as a million steps of 512.
        (
            {**BERT, **PHASES, "encoder": recipe("large").encoder},
            76 / 1440,
            1024 * V3,
            devices.SHARE_OF_PEAK,
        ),
        # Devlin et al. (2019), appendix A.2.
        ({**BERT, **PHASES, "train_batch_size": 256}, 4, 16 * V2, 0.096),
        # Clark et al. (2020), tables 1 and 6.
        ({**ONLY_512, "train_batch_size": 256, "num_train_steps": 766_000}, 4, 16 * V3, 0.099),
        # Gu et al. (2020), section 3.1; lengths are not said.
        (
            {**BERT, **ONLY_512, "train_batch_size": 8192, "num_train_steps": 62_500},
            5,
            16 * 125e12,
            0.18,
        ),
        # Kanakarajan et al. (2021), appendix A.
        (PHASES, 5, 4 * V3, 0.25),
    ],
    ids=["BERT-large, LAMB", "BERT-base", "ELECTRA-base", "PubMedBERT", "BioELECTRA"],
)
def test_shares_of_peak_of_published_runs(options, days, peak, share):
    """Those in docs/benchmarks.md; the first is what `SHARE_OF_PEAK` stands for."""
    made = dataclasses.replace(recipe("base"), **{"final_sequence_length": 0, **options})
    assert objective_cost.run_flops(made) / (days * 86400 * peak) == pytest.approx(share, rel=0.02)


def test_a_batch_that_does_not_divide_by_the_parts_is_said():
    made = settings(train_batch_size=128)
    for parts, said in ((3, True), (32, True), (16, False)):
        run = dataclasses.replace(made.run, gradient_accumulation_steps=parts)
        report = pretraining_cost.report(dataclasses.replace(made, run=run), "tpu-v3-8")
        pieces = f"does not divide by 8 devices with all their parts ({8 * parts} pieces)"
        assert (pieces in report) == said, parts
