"""Every recipe of a paper's arm: its values as the papers' tables have them, its sources, its cost.

A small run of each family continues.

The values are typed here from the papers, and not read from `hparams/`: a paper's own, and those
that an arm changes. Where a paper is silent, they are those of the code that it names.
"""

import dataclasses
import functools
import json
import re
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from benchmarks import recipes
from data_prep import examples
from data_prep.running import pipeline
from tests import traced_once
from tfbio.base.config import load
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.planning import pretraining_cost, pretraining_cost_on_tpu
from tfbio.runs import pretraining
from tfbio.training.devices import DEVICES

ROOT = Path(__file__).parents[1]
HPARAMS = ROOT / "hparams"

BASE = {
    "encoder.hidden_size": 768,
    "encoder.embedding_size": 768,
    "encoder.num_hidden_layers": 12,
    "encoder.num_attention_heads": 12,
    "encoder.intermediate_size": 3072,
}
LARGE = {
    "encoder.hidden_size": 1024,
    "encoder.embedding_size": 1024,
    "encoder.num_hidden_layers": 24,
    "encoder.num_attention_heads": 16,
    "encoder.intermediate_size": 4096,
}
DROPOUT = {"encoder.hidden_dropout_prob": 0.1, "encoder.attention_probs_dropout_prob": 0.1}
ADAM = {
    "weight_decay_rate": 0.01,
    "adam_beta_1": 0.9,
    "adam_beta_2": 0.999,
    "adam_epsilon": 1e-6,
    "max_gradient_norm": 1.0,
}
BERTS_MASKS = {"mask_prob": 0.15, "mask_token_prob": 0.8, "random_token_prob": 0.1}

# Gu et al. (2020), sections 2.3 and 6.1.
PUBMEDBERT = {
    **BASE,
    **DROPOUT,
    **ADAM,
    **BERTS_MASKS,
    "objective": "mlm",
    "sentence_pair_head": True,
    "sentence_pair_loss": True,
    "encoder.vocab_size": 28_895,
    "mask_unit": "word",
    "sequence_length": 512,
    "train_batch_size": 8192,
    "num_train_steps": 62_500,
    "optimizer": "adamw",
    "learning_rate": 6e-4,
    "num_warmup_steps": 6_250,  # 10 % of the steps
    "schedule": "triangular",
    "adam_bias_correction": False,
}
# Kanakarajan et al. (2021), Table 5 and appendix A; masks and weights of the losses of the code.
BIOELECTRA = {
    **BASE,
    **DROPOUT,
    **ADAM,
    "encoder.vocab_size": 28_895,
    "generator_hidden_fraction": 0.33333,
    "generator_layers_fraction": 1.0,
    "generator_weight": 1.0,
    "discriminator_weight": 50.0,
    "mask_prob": 0.15,
    "mask_token_prob": 0.85,
    "random_token_prob": 0.0,
    "mask_with_replacement": True,
    "sequence_length": 128,
    "final_sequence_length": 512,
    "final_phase_fraction": 0.1,
    "train_batch_size": 512,
    "num_train_steps": 1_000_000,
    "learning_rate": 2e-4,
    "num_warmup_steps": 10_000,
    "gradient_clip_groups": 8,  # the cores of a TPU v3-8
}
PHASE_2 = {
    "sequence_length": 512,
    "final_sequence_length": None,
    "final_phase_fraction": None,
    "num_train_steps": 100_000,
}
# Lewis et al. (2020), sections 4.1 and 5.1; RoBERTa's encoder.
BIOLM_BASE = {
    **BASE,
    **DROPOUT,
    **ADAM,
    **BERTS_MASKS,
    "objective": "mlm",
    "encoder.vocab_size": 50_265,
    "encoder.max_position_embeddings": 514,
    "encoder.type_vocab_size": 1,
    "encoder.layer_norm_eps": 1e-5,
    "encoder.position_offset": 2,
    "mask_unit": "token",
    "sequence_length": 512,
    "train_batch_size": 8192,
    "num_train_steps": 500_000,
    "optimizer": "adamw",
    "learning_rate": 6e-4,
    "num_warmup_steps": 25_000,  # 5 % of the steps
    "schedule": "triangular",
    "adam_beta_2": 0.98,
    "adam_bias_correction": True,
    "decay_all": True,
    "max_gradient_norm": 0.0,
}
BIOLM_LARGE = {**BIOLM_BASE, **LARGE, "learning_rate": 4e-4}
# Alrowili and Vijay-Shanker (2021), section 3.1; what it does not name is ALBERT-xxlarge's.
BIOM_ALBERT = {
    **ADAM,
    **BERTS_MASKS,
    "objective": "mlm",
    "sentence_pair_head": True,
    "sentence_pair_loss": True,
    "encoder.vocab_size": 30_000,
    "encoder.embedding_size": 128,
    "encoder.hidden_size": 4096,
    "encoder.num_hidden_layers": 12,
    "encoder.num_attention_heads": 64,
    "encoder.intermediate_size": 16_384,
    "encoder.hidden_dropout_prob": 0.0,
    "encoder.attention_probs_dropout_prob": 0.0,
    "encoder.initializer_range": 0.01,
    "encoder.hidden_act": "gelu_new",
    "encoder.share_layers": True,
    "mask_unit": "ngram",
    "sequence_length": 512,
    "train_batch_size": 8192,
    "num_train_steps": 264_000,
    "optimizer": "lamb",
    "learning_rate": 1.76e-3,
    "num_warmup_steps": 3_125,
    "lamb_bias_correction": False,
}
# Shin et al. (2020), section 3, of Megatron-LM's BERT: Shoeybi et al. (2020), section 4.2 and Table
# 4, and its code; the batch and the steps of BioM's Table 1.
BIOMEGATRON = {
    **LARGE,
    **DROPOUT,
    **ADAM,
    **BERTS_MASKS,
    "objective": "mlm",
    "sentence_pair_head": True,
    "sentence_pair_loss": True,
    "encoder.vocab_size": 28_996,  # BERT's cased vocabulary
    "encoder.scaled_initializer": True,
    "encoder.layer_norm_eps": 1e-5,
    "encoder.hidden_act": "gelu",
    "encoder.layer_norm_first": True,
    "mask_unit": "ngram",
    "sequence_length": 512,
    "train_batch_size": 512,
    "num_train_steps": 800_000,
    "optimizer": "adamw",
    "learning_rate": 1e-4,
    "num_warmup_steps": 10_000,
    "schedule": "triangular",
    "adam_epsilon": 1e-8,
    "adam_bias_correction": True,
}
UNCASED = {"encoder.vocab_size": 30_522}
# Of no paper: 0.83 and 1.18 billion parameters.
BIOMEGATRON_800M = {
    **BIOMEGATRON,
    "encoder.hidden_size": 1280,
    "encoder.embedding_size": 1280,
    "encoder.num_hidden_layers": 40,
    "encoder.num_attention_heads": 20,
    "encoder.intermediate_size": 5120,
}
BIOMEGATRON_1_2B = {
    **BIOMEGATRON,
    "encoder.vocab_size": 30_592,
    "encoder.hidden_size": 1536,
    "encoder.embedding_size": 1536,
    "encoder.num_hidden_layers": 40,
    "encoder.num_attention_heads": 16,
    "encoder.intermediate_size": 6144,
    # BioMegatron, Table 5.
    "num_train_steps": 500_000,
    "run.keep_checkpoints_at": [1_000, 10_000, 100_000, 200_000, 300_000, 400_000],
}

# By the file: the paper's values, and what the arm changes; None: the arm lacks the setting.
ARMS = {
    # PubMedBERT, Table 7: the vocabulary and what is masked together.
    "pubmedbert": (PUBMEDBERT, {}),
    "pubmedbert_word_pieces": (PUBMEDBERT, {"mask_unit": "token"}),
    "pubmedbert_from_bert": (PUBMEDBERT, {"encoder.vocab_size": 30_522}),
    "pubmedbert_from_bert_word_pieces": (
        PUBMEDBERT,
        {"encoder.vocab_size": 30_522, "mask_unit": "token"},
    ),
    # PubMedBERT, Table 8: PMC, and 60 % more steps.
    "pubmedbert_pmc": (PUBMEDBERT, {}),
    "pubmedbert_pmc_100k": (
        PUBMEDBERT,
        {"num_train_steps": 100_000, "num_warmup_steps": 10_000},
    ),
    # Of no paper.
    "pubmedbert_without_nsp": (
        PUBMEDBERT,
        {"sentence_pair_head": None, "sentence_pair_loss": None},
    ),
    # BioELECTRA, sections 4.1 and 5, and the second runs of the authors' code.
    "base": (BIOELECTRA, {}),
    "base_phase2": (BIOELECTRA, PHASE_2),
    "base_phase2_200k": (
        BIOELECTRA,
        {**PHASE_2, "num_train_steps": 200_000, "learning_rate": 1e-4},
    ),
    "bioelectra_pmc": (BIOELECTRA, {}),
    "bioelectra_pmc_2m": (BIOELECTRA, {"num_train_steps": 2_000_000}),
    "bioelectra_wikipedia": (BIOELECTRA, {"encoder.vocab_size": 30_522}),
    "bioelectra_from_electra": (
        BIOELECTRA,
        {"encoder.vocab_size": 30_522, "num_train_steps": 200_000},
    ),
    # bio-lm, Table 3, rows 2 to 5, 7 and 8: size and vocabulary; corpora are no settings.
    "biolm_base_pm": (BIOLM_BASE, {}),
    "biolm_base_pm_voc": (BIOLM_BASE, {}),
    "biolm_base_pm_m3": (BIOLM_BASE, {}),
    "biolm_base": (BIOLM_BASE, {}),
    "biolm_large_pm_m3": (BIOLM_LARGE, {}),
    "biolm_large": (BIOLM_LARGE, {}),
    # BioM, Tables 1 and 2.
    "biom_albert": (BIOM_ALBERT, {}),
    "biom_albert_pmc": (
        BIOM_ALBERT,
        {
            "num_train_steps": 328_000,
            "corpus_switch_steps": [264_000],
            "run.keep_checkpoints_at": [215_000, 264_000],
        },
    ),
    # BioMegatron, section 3: four scenarios, two vocabularies, and the larger ones.
    "biomegatron_345m_cased": (BIOMEGATRON, {}),
    "biomegatron_345m_uncased": (BIOMEGATRON, UNCASED),
    # Megatron-LM's tables of tokens are padded to a multiple of 128.
    "biomegatron_345m_cased_from_megatron": (BIOMEGATRON, {"encoder.vocab_size": 29_056}),
    "biomegatron_345m_uncased_from_megatron": (BIOMEGATRON, {"encoder.vocab_size": 30_592}),
    "biomegatron_345m_bio_30k": (BIOMEGATRON, {"encoder.vocab_size": 30_000}),
    "biomegatron_345m_bio_50k": (BIOMEGATRON, {"encoder.vocab_size": 50_000}),
    "biomegatron_800m_cased": (BIOMEGATRON_800M, {}),
    "biomegatron_800m_uncased": (BIOMEGATRON_800M, UNCASED),
    "biomegatron_1_2b_uncased_from_megatron": (BIOMEGATRON_1_2B, {}),
}
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


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_has_the_papers_values_and_no_others(name):
    paper, changes = ARMS[name]
    expected = {key: value for key, value in {**paper, **changes}.items() if value is not None}
    assert read(name)[0] == expected


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
        assert length in [phase_length for phase_length, _ in each.phases()]
    rows = set()
    for path in (ROOT / "benchmarks" / "tpu").glob("*.json"):
        result = json.loads(path.read_text())
        made = load(PretrainingConfig, json.dumps(result["settings"]))
        found = (result["tpu"], result["length"], result["batch_per_core"])
        if found == ("v3-8", length, batch) and shape_of(made) == shape_of(settings):
            estimated = pretraining_cost_on_tpu.memory(made, DEVICES["tpu-v3-8"]) / 1e9
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


# --- A run of each family ------------------------------------------------------------------------

SMALL = {
    "encoder.embedding_size": 16,
    "encoder.hidden_size": 16,
    "encoder.num_hidden_layers": 1,
    "encoder.num_attention_heads": 2,
    "encoder.intermediate_size": 32,
    "sequence_length": 64,
    "train_batch_size": 8,
    "num_train_steps": 12,
    "num_warmup_steps": 2,
    "run.steps_per_loop": 4,
    "run.save_checkpoints_steps": 4,
    "run.eval_every_steps": 100,
}
# ELECTRA's runs are killed in tests/test_run_pretraining.py, by signals.
OBJECTIVES = {
    "pubmedbert": "next_sentence",
    "pubmedbert_without_nsp": "next_sentence",
    "biom_albert": "sentence_order",
    "biolm_base": "full_sentences",
    "biomegatron_345m_cased": "sentence_order",
}


@pytest.fixture(scope="module")
def folder_of(documents_folder, vocab_file, tmp_path_factory):
    """Makes examples of 64 tokens for an objective, once."""

    @functools.cache
    def make(objective):
        folder = tmp_path_factory.mktemp(objective) / "examples_64"
        made = examples.ExampleSettings(
            objective, sequence_length=64, held_out_fraction=0.2, shards=2
        )
        runner = pipeline.Runner(workers=1)
        examples.make_examples(documents_folder, vocab_file, folder, made, runner=runner)
        return folder

    return make


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_recipe_at_a_small_size_continues_and_ends_with_the_same_bits(
    name, folder_of, tmp_path, monkeypatch
):
    """From what a process leaves that is killed before its last steps."""
    folder = folder_of(OBJECTIVES[name])
    words = len((folder / "vocab.txt").read_text().splitlines())
    changes = [f"{key}={value}" for key, value in SMALL.items()]
    path = str(HPARAMS / f"{name}.json")
    settings = load(PretrainingConfig, path, [*changes, f"encoder.vocab_size={words}"])
    # Both runs have the same graphs.
    monkeypatch.setattr(pretraining, "Pretrainer", traced_once.pretrainers())
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    pretraining.pretrain(settings, [str(folder)], str(undisturbed), strategy)

    files = [undisturbed / f"ckpt-12.{end}" for end in ("index", "data-00000-of-00001")]
    shutil.copytree(undisturbed, killed, ignore=lambda *_: [path.name for path in files])
    (killed / "checkpoint").write_text('model_checkpoint_path: "ckpt-8"\n')
    pretraining.pretrain(settings, [str(folder)], str(killed), strategy)
    for file in files:
        assert (killed / file.name).read_bytes() == file.read_bytes()
