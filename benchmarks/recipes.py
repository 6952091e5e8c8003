r"""Prints the tables of docs/recipes.md: the papers' recipes side by side, and what they cost.

    python -m benchmarks.recipes
    python -m benchmarks.recipes --table=costs

Nothing is trained: values and sources are those of the files in `hparams/`, and costs those of
`run_pretraining.py --dry_run`. The tables:

  values  what tells one recipe from another. A value in italics is open: the paper does not give
          it, or not beyond doubt; `sources` in the file says where it is from.
  open    the other settings of each recipe that are open.
  costs   hours on TPUs at the usual share of their peak, in parentheses the least hours; and in how
          many parts a core works on its examples, where they do not fit as a whole.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable

from benchmarks.child_process import ROOT
from benchmarks.command import markdown_table, print_tables, run
from tfbio.base import config
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.planning import pretraining_cost, pretraining_cost_on_tpu

HPARAMS = ROOT / "hparams"
# Those of biomedical papers, in the order of docs/recipes.md.
RECIPES = (
    *("base", "base_phase2", "base_phase2_200k", "bioelectra_pmc", "bioelectra_pmc_2m"),
    *("bioelectra_from_electra", "bioelectra_wikipedia"),
    *("pubmedbert", "pubmedbert_word_pieces"),
    *("pubmedbert_from_bert", "pubmedbert_from_bert_word_pieces"),
    *("pubmedbert_pmc", "pubmedbert_pmc_100k", "pubmedbert_adversarial", "pubmedbert_without_nsp"),
    *("biom_electra_base", "biom_electra_large", "biom_bert_large"),
    *("biom_albert", "biom_albert_pmc"),
    *("biolm_base_pm", "biolm_base_pm_voc", "biolm_base_pm_m3", "biolm_base"),
    *("biolm_large_pm_m3", "biolm_large"),
    *("biolm_base_distilled", "biolm_base_distilled_aligned", "biolm_base_control"),
    *("biomegatron_345m_cased", "biomegatron_345m_uncased"),
    *("biomegatron_345m_cased_from_megatron", "biomegatron_345m_uncased_from_megatron"),
    *("biomegatron_345m_bio_30k", "biomegatron_345m_bio_50k"),
    *("biomegatron_800m_cased", "biomegatron_800m_uncased"),
    "biomegatron_1_2b_uncased_from_megatron",
)
# Those that the papers trained on.
TPUS = ("tpu-v3-8", "tpu-v3-32", "tpu-v3-512")
# The columns of the first table: headings and settings.
COLUMNS = {
    "vocabulary": ("encoder.vocab_size",),
    "layers": ("encoder.num_hidden_layers",),
    "hidden": ("encoder.hidden_size",),
    "length": ("sequence_length", "final_sequence_length"),
    "masked": ("mask_prob",),
    "mask unit": ("mask_unit",),
    "batch": ("train_batch_size",),
    "steps": ("num_train_steps",),
    "learning rate": ("learning_rate",),
    "warm-up": ("num_warmup_steps",),
}
_DEFAULTS = {"mask_unit": "token"}
_OPEN = re.compile(r"\b(open|ours)\b")


def read(name: str) -> tuple[dict, dict[str, str]]:
    """Reads a recipe's file: its settings by their names, groups flat, and their sources."""
    values = json.loads((HPARAMS / f"{name}.json").read_text(encoding="utf-8"))
    sources = values.pop("sources")
    flat: dict[str, object] = {}
    for key, value in values.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        flat |= {f"{key}.{each}" if each else key: number for each, number in inner}
    return flat, sources


def values() -> list[str]:
    """Returns the lines of the table of values."""
    rows = []
    for name in RECIPES:
        settings, sources = read(name)
        cells = []
        for keys in COLUMNS.values():
            texts = [_cell(key, settings, sources) for key in keys]
            cells.append(", then ".join(text for text in texts if text))
        rows.append([f"`{name}`", *cells])
    return markdown_table(["recipe", *COLUMNS], rows)


def _cell(key: str, settings: dict, sources: dict[str, str]) -> str:
    """Returns the text of a setting, in italics if it is open; "" if there is none."""
    value = settings.get(key, _DEFAULTS.get(key, ""))
    text = f"{value:,}" if isinstance(value, int) else f"{value}"
    if key == "learning_rate":
        text = f"{value:.3g}" if value >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")
    return f"*{text}*" if _OPEN.search(sources.get(key, "")) else text


def open_settings() -> list[str]:
    """Returns the lines of the table of the settings that are open, but for those of `values`."""
    shown = {key for keys in COLUMNS.values() for key in keys}
    recipes: dict[tuple[str, ...], list[str]] = {}
    for name in RECIPES:
        _, sources = read(name)
        found = tuple(
            key for key, source in sources.items() if key not in shown and _OPEN.search(source)
        )
        recipes.setdefault(found, []).append(f"`{name}`")
    rows = [
        [", ".join(names), ", ".join(f"`{key}`" for key in keys) or "none"]
        for keys, names in recipes.items()
    ]
    return markdown_table(["recipe", "also open"], rows)


def costs() -> list[str]:
    """Returns the lines of the table of costs."""
    rows = []
    for name in RECIPES:
        settings = config.load(PretrainingConfig, str(HPARAMS / f"{name}.json"))
        ratio = pretraining_cost.computational_ratio(settings.last_step, settings.train_batch_size)
        row = [f"`{name}`", f"{objective_cost.parameters(settings).all / 1e6:.1f} M"]
        rows.append([*row, f"{ratio:.2f}", *(_hours(settings, tpu) for tpu in TPUS)])
    heads = ["recipe", "parameters", "C", *(tpu[4:] for tpu in TPUS)]
    return markdown_table(heads, rows, right=range(1, len(heads)))


def _hours(settings: PretrainingConfig, tpu: str) -> str:
    """Returns what a run takes on a TPU; groups of examples become as many as fit its cores."""
    if settings.gradient_clip_groups > 1:
        settings = dataclasses.replace(settings, gradient_clip_groups=1)
    hours = 24 * pretraining_cost.days(settings, tpu)
    least = 24 * (pretraining_cost_on_tpu.least_days(settings, tpu) or 0)
    parts = pretraining_cost.parts_that_fit(settings, tpu)
    note = {None: ", too large", 1: ""}.get(parts, f", {parts} parts")
    return f"{_number(hours)} ({_number(least)}){note}"


def _number(hours: float) -> str:
    """Returns hours with two digits at least."""
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"


TABLES: dict[str, Callable[[], list[str]]] = {
    "values": values,
    "open": open_settings,
    "costs": costs,
}


def main() -> None:
    """Prints the tables that the command line asks for."""
    print_tables(__doc__, TABLES)


if __name__ == "__main__":
    run(main)
