"""Every recipe of a paper's arm: its values as the papers' tables have them, its sources, its cost.

The values are typed in `recipe_values.py`, and not read from `hparams/`.
"""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from benchmarks import recipes
from tests.recipe_values import ARMS, DEFAULTS
from tfbio.base.config import load
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.planning import pretraining_cost, pretraining_cost_on_tpu
from tfbio.training.devices import DEVICES

ROOT = Path(__file__).parents[1]
HPARAMS = ROOT / "hparams"

RECIPES = sorted(path.stem for path in HPARAMS.glob("*.json"))


def flat(values, prefix=""):
    """Returns all settings of a file by their names, a dot reaching into a group."""
    found = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def read(name):
    """Returns the settings of a recipe's file by their names, and their sources."""
    values = json.loads((HPARAMS / f"{name}.json").read_text())
    sources = values.pop("sources", {})
    del values["comment"]
    return flat(values), sources


def test_all_recipes_of_the_papers_are_typed_here():
    # ELECTRA's own, and the quick start's.
    assert set(RECIPES) - set(ARMS) == {"small", "large", "quickstart"}


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_has_the_papers_values_and_no_others(name):
    paper, changes = ARMS[name]
    expected = {key: value for key, value in {**paper, **changes}.items() if value is not None}
    assert read(name)[0] == expected


@pytest.mark.parametrize("name", RECIPES)
def test_what_a_recipe_leaves_out_is_typed_too(name):
    """So a default that changes changes no recipe unseen."""
    loaded = dataclasses.asdict(load(PretrainingConfig, str(HPARAMS / f"{name}.json")))
    del loaded["comment"]
    found = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in flat(loaded).items()
        # Others of these change no result.
        if key in DEFAULTS or not key.startswith("run.")
    }
    given = {key: value for key, value in read(name)[0].items() if key in found}
    assert found == {**DEFAULTS, **given}


SOURCE = re.compile(
    r"^(open|ours)\b|\b(section|sections|Table|Tables|Appendix) \w|\.(py|yaml)\b|the published|"
    r"^the authors' checkpoint "
)


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "quickstart"])
def test_every_value_has_a_source_in_a_paper_or_in_code_or_is_open(name):
    values, sources = read(name)
    assert list(sources) == list(values)
    assert [source for source in sources.values() if not SOURCE.search(source)] == []


@pytest.mark.parametrize("source", ["BioELECTRA", "as usual", "BERT's", "table", ""])
def test_a_source_that_says_nothing_is_noticed(source):
    assert not SOURCE.search(source)


def test_an_arm_that_starts_from_weights_says_so():
    start = {name for name in ARMS if "--init_checkpoint gives" in comment(name)}
    # Table 7 and section 4.1 of the papers; Table 3 without "Voc."; the second runs; section 3.
    assert start == {
        *("pubmedbert_from_bert", "pubmedbert_from_bert_word_pieces", "bioelectra_from_electra"),
        *("biolm_base_pm", "biolm_base_pm_m3", "biolm_large_pm_m3"),
        *("base_phase2", "base_phase2_200k"),
        *("biomegatron_345m_cased_from_megatron", "biomegatron_345m_uncased_from_megatron"),
        "biomegatron_1_2b_uncased_from_megatron",
    }


def comment(name):
    """Returns the comment of a recipe's file."""
    return json.loads((HPARAMS / f"{name}.json").read_text())["comment"]


# Batches of 16 and 128 examples.
DOES_NOT_DIVIDE = {"tpu-v3-32": ["quickstart"], "tpu-v3-512": ["quickstart", "small"]}
PAPERS_TPUS = ("tpu-v3-8", "tpu-v3-32", "tpu-v3-512")


@pytest.mark.parametrize("name", RECIPES)
def test_a_dry_run_tells_what_a_recipe_costs_on_the_papers_tpus(name):
    """As `run_pretraining.py --dry_run --estimate_for=...` prints it, without TensorFlow."""
    settings = load(PretrainingConfig, str(HPARAMS / f"{name}.json"))
    for tpu in PAPERS_TPUS:
        lines = pretraining_cost.report(settings, tpu).splitlines()
        assert f"{settings.last_step:,} steps of {settings.train_batch_size:,} examples" in lines[1]
        (row,) = [line for line in lines if line.startswith(f"{tpu} ")]
        assert ("does not divide" in row) == (name in DOES_NOT_DIVIDE.get(tpu, ()))
        assert ("needs gradient_clip_groups" in row) == (
            tpu != "tpu-v3-8" and settings.gradient_clip_groups > 1
        )
        # Memory, days at the usual share of the peak, and the least days.
        found = re.search(r"bfloat16 +([\d.]+) of 17 +(\S+) +(\S+)", row)
        assert not [number for number in found.groups() if not (float(number.replace(",", "")) > 0)]


# --- docs/recipes.md -----------------------------------------------------------------------------

# Of the demo, and ELECTRA's own.
OF_NO_BIOMEDICAL_PAPER = {"quickstart", "small", "large"}


def page():
    """Returns the manual's page of recipes."""
    return (ROOT / "docs" / "recipes.md").read_text()


@pytest.mark.parametrize("table", recipes.TABLES)
def test_the_manual_has_the_tables_that_the_command_prints(table):
    said = f"run `python -m benchmarks.recipes --table={table}` and put it into docs/recipes.md"
    assert "\n\n" + "\n".join(recipes.TABLES[table]()) + "\n\n" in page(), said


def test_the_manual_has_every_recipe_of_a_paper():
    found = re.findall(r"^\|[^|]*\| `(\w+)` \|", page().split("## Compare")[0], re.MULTILINE)
    assert found == list(recipes.RECIPES)
    assert sorted(found) == sorted(set(RECIPES) - OF_NO_BIOMEDICAL_PAPER)


def test_a_value_that_is_open_is_in_italics():
    rows = {row.split(" | ")[0]: row for row in recipes.values()}
    # PubMedBERT's sequence length; bio-lm's exact number of words.
    assert "| *512* | 0.15 | word | 8,192 |" in rows["| `pubmedbert`"]
    assert "| *50,265* |" in rows["| `biolm_base`"] and "| 50,265 |" in rows["| `biolm_base_pm`"]
    opened = "\n".join(recipes.open_settings())
    assert "`biolm_base`, `biolm_large_pm_m3`, `biolm_large` | `max_gradient_norm` |" in opened


def test_costs_are_those_of_a_dry_run():
    settings = load(PretrainingConfig, str(HPARAMS / "biom_bert_large.json"))
    (row,) = [row for row in recipes.costs() if "`biom_bert_large`" in row]
    cell = row.split(" | ")[3]
    hours, least, parts = re.fullmatch(r"([\d,]+) \(([\d,]+)\), (\d+) parts", cell).groups()
    (line,) = [x for x in pretraining_cost.report(settings, "tpu-v3-8").splitlines() if "tpu-" in x]
    printed = line.split()
    days, least_days = printed[5:7]
    assert float(hours.replace(",", "")) == pytest.approx(24 * float(days), rel=0.01)
    assert float(least.replace(",", "")) == pytest.approx(24 * float(least_days), rel=0.01)
    assert printed[-1] == f"run.gradient_accumulation_steps={parts}"
    assert "| 2.76 |" in row  # BioM's Table 1: 690K steps


# The recipes that the TPU's compiler has compiled, with those that have the same step, and the
# examples of a core.
COMPILED = [
    ("base bioelectra_pmc bioelectra_pmc_2m", "v3-8", 128, 64),
    (
        "base base_phase2 base_phase2_200k bioelectra_pmc bioelectra_pmc_2m",
        *("v3-8", 512, 64),
    ),
    ("biom_electra_base", "v3-32", 512, 32),
    ("pubmedbert pubmedbert_pmc pubmedbert_pmc_100k", "v3-8", 512, 1024),
    (
        "biolm_base biolm_base_pm biolm_base_pm_voc biolm_base_pm_m3 biolm_base_control",
        *("v3-8", 512, 1024),
    ),
    ("biom_bert_large", "v3-8", 512, 512),
    ("biom_albert biom_albert_pmc", "v3-8", 512, 1024),
    ("pubmedbert_adversarial", "v3-8", 512, 1024),
    ("biolm_base_distilled", "v3-8", 512, 1024),
    ("biom_electra_large", "v3-8", 512, 512),
    ("biolm_large biolm_large_pm_m3", "v3-8", 512, 1024),
    ("biomegatron_345m_cased", "v3-8", 512, 64),
    ("biom_electra_large", "v3-512", 512, 8),
    ("biom_bert_large", "v3-512", 512, 8),
    ("biom_albert biom_albert_pmc", "v3-512", 512, 16),
    ("biom_electra_base", "v3-512", 512, 2),
    ("base bioelectra_pmc bioelectra_pmc_2m", "v3-32", 128, 16),
    ("base bioelectra_pmc bioelectra_pmc_2m", "v3-512", 128, 1),
    ("bioelectra_from_electra bioelectra_wikipedia", "v3-32", 512, 16),
    ("bioelectra_from_electra bioelectra_wikipedia", "v3-512", 512, 1),
    ("pubmedbert_adversarial", "v3-32", 512, 256),
    ("pubmedbert_adversarial", "v3-512", 512, 16),
    ("biolm_base_distilled", "v3-32", 512, 256),
    ("biolm_base_distilled", "v3-512", 512, 16),
    ("biolm_base_distilled_aligned", "v3-512", 512, 16),
]
# What a step's memory does not depend on, beside the length, which a phase has.
NUMBERS = {
    "num_train_steps": 100_000,
    "num_warmup_steps": 1_000,
    "learning_rate": 1e-4,
    "sequence_length": 512,
    "final_sequence_length": 0,
    "corpus_switch_steps": (),
    "comment": "",
    "run": PretrainingRun(),
}


@pytest.mark.parametrize(("names", "tpu", "length", "batch"), COMPILED)
def test_the_manual_says_what_the_compiler_said(names, tpu, length, batch):
    settings, *others = (
        load(PretrainingConfig, str(HPARAMS / f"{name}.json")) for name in names.split()
    )
    for other in others:
        assert dataclasses.replace(other, **NUMBERS) == dataclasses.replace(settings, **NUMBERS)
    for each in settings, *others:
        assert length in [phase.sequence_length for phase in each.phases()]
    rows = set()
    for path in (ROOT / "benchmarks" / "tpu").glob("*.json"):
        result = json.loads(path.read_text())
        made = load(PretrainingConfig, json.dumps(result["settings"]))
        found = (result["tpu"], result["length"], result["batch_per_core"])
        if found == (tpu, length, batch) and shape_of(made) == shape_of(settings):
            estimated = pretraining_cost_on_tpu.memory(made, DEVICES[f"tpu-{tpu}"]) / 1e9
            needed = result.get("needed_bytes")
            memory = f"{needed / 1e9:.2f} of 17" if needed else "does not fit 17"
            recipes_of_row = ", ".join(f"`{name}`" for name in names.split())
            sizes = f"{tpu} | {length} | {batch:,} | {result['parts']}"
            rows.add(f"| {recipes_of_row} | {sizes} | {memory} | {estimated:.2f} |\n")
    assert rows and not [row for row in rows if row not in page()]


def shape_of(settings):
    """Returns the settings that a step's memory depends on."""
    return (
        *(settings.objective, settings.encoder, settings.mask_prob, settings.optimizer),
        settings.generator if settings.has_generator else None,
        *(settings.sentence_pair_loss, settings.distillation, settings.adversarial),
    )
