"""Test scores that papers report, in percent and as printed, and the BLURB score.

The papers:

  Gu et al. (2021), "Domain-specific language model pretraining for biomedical natural language
    processing": BLURB, PubMedBERT
  Kanakarajan et al. (2021), "BioELECTRA: pretrained biomedical text encoder using discriminators"
  Alrowili and Vijay-Shanker (2021), "BioM-Transformers"
  Shin et al. (2020), "BioMegatron: larger biomedical domain language model"
  Lewis et al. (2020), "Pretrained language models for biomedical and clinical tasks": bio-lm
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple


class Column(NamedTuple):
    """A column of published scores, and of ours beside them: a data set and its metric.

    Attributes:
      title: the heading, such as "BC5-chem".
      task: `--task`; of folds such as "gad, ten folds", see `grouping.by_test_set`.
      metric: the name of the figure in scores.json, such as "f1".
      type: BLURB's task type, such as "NER"; "" for other columns.
      of_others: True if the figure is the median over all folds but the first, instead of a mean.
    """

    title: str
    task: str
    metric: str
    type: str = ""
    of_others: bool = False


# The data sets and their metrics: Gu et al., Table 3.
BLURB = (
    Column("BC5-chem", "bc5cdr_chem", "f1", "NER"),
    Column("BC5-disease", "bc5cdr_disease", "f1", "NER"),
    Column("NCBI-disease", "ncbi_disease", "f1", "NER"),
    Column("BC2GM", "bc2gm", "f1", "NER"),
    Column("JNLPBA", "jnlpba", "f1", "NER"),
    Column("EBM PICO", "ebm_pico", "macro_f1", "PICO"),
    Column("ChemProt", "chemprot", "f1", "relation extraction"),
    Column("DDI", "ddi", "f1", "relation extraction"),
    Column("GAD", "gad", "f1", "relation extraction"),
    Column("BIOSSES", "biosses", "pearson", "sentence similarity"),
    Column("HoC", "hoc", "micro_f1", "document classification"),
    Column("PubMedQA", "pubmedqa", "accuracy", "question answering"),
    Column("BioASQ", "bioasq", "accuracy", "question answering"),
)
# Of BLUE, what BioELECTRA was measured on: Kanakarajan et al., Tables 1 and 3.
BLUE = (
    Column("MedNLI", "mednli", "accuracy"),
    Column("i2b2-2010", "i2b2_2010_re", "f1"),
    Column("ShARe/CLEFE", "share_clefe", "f1"),
    Column("ClinicalSTS", "clinical_sts", "pearson"),
)
# bio-lm's macro F1 of HoC and ChemProt (Lewis et al., Table 1) is no figure of BLURB's.
OTHERS = (
    Column("HoC, macro F1", "hoc", "macro_f1"),
    Column("ChemProt, macro F1", "chemprot", "macro_f1"),
    Column("BC4CHEMD", "bc4chemd", "f1"),
    Column("LINNAEUS", "linnaeus", "f1"),
    Column("Species-800", "species_800", "f1"),
    Column("EU-ADR, ten folds", "euadr, ten folds", "f1"),
    # bio-lm's figures (Lewis et al., 5.2). BLURB's GAD is the first fold alone.
    Column("EU-ADR, median of folds 2 to 10", "euadr, ten folds", "f1", of_others=True),
    Column("GAD, ten folds", "gad, ten folds", "f1"),
    Column("GAD, median of folds 2 to 10", "gad, ten folds", "f1", of_others=True),
    Column("i2b2-2010, entities", "i2b2_2010_ner", "f1"),
    Column("i2b2-2012", "i2b2_2012", "f1"),
    Column("i2b2-2014", "i2b2_2014", "f1"),
    Column("SQuAD v2.0", "squad_v2", "f1"),
    Column("BioASQ factoid, MRR", "bioasq_factoid", "mrr"),
    Column("BioASQ factoid, strict", "bioasq_factoid", "strict_accuracy"),
    Column("BioASQ factoid, lenient", "bioasq_factoid", "lenient_accuracy"),
)


@dataclasses.dataclass(frozen=True)
class Model:
    """A published model: the scores that a paper's table prints for it.

    Attributes:
      name: the model's name, as in the paper.
      source: the paper and the table, as text.
      figures: title of a `Column` -> score in percent, as text as it is printed.
      blurb_score: BLURB's score in percent, as text as it is printed; "" if it is not.
      note: a sentence on how the scores differ from the others; "" if they do not.
    """

    name: str
    source: str
    figures: Mapping[str, str]
    blurb_score: str = ""
    note: str = ""


def blurb_score(figures: Mapping[str, float]) -> float:
    """Computes the BLURB score as published (Gu et al., section 4) from the scores of 13 data sets.

    It is the mean over BLURB's six task types of the mean over the data sets of each.

    Args:
      figures: title of each column of `BLURB` -> score, in any unit.

    Returns:
      The BLURB score, a float in the same unit.

    Raises:
      KeyError: the score of a data set is missing.
    """
    types = {column.type: [] for column in BLURB}
    for column in BLURB:
        types[column.type].append(figures[column.title])
    return statistics.fmean(map(statistics.fmean, types.values()))


def _row(columns: tuple[Column, ...], figures: str) -> dict[str, str]:
    return dict(zip((column.title for column in columns), figures.split(), strict=True))


_blurb, _blue = partial(_row, BLURB), partial(_row, BLUE)
# What BioM and BioMegatron have of BLURB: three of the entities, and ChemProt.
_four = partial(_row, (*BLURB[:3], BLURB[6]))
_biom = partial(_row, (*BLURB[:3], BLURB[6], *OTHERS[12:14]))

GU = "Gu et al. (2021), Table 6"
BIOELECTRA_BLUE = "Kanakarajan et al. (2021), Table 3"
_BIOELECTRA = "Kanakarajan et al. (2021), Table 4"
_BIOM = "Alrowili and Vijay-Shanker (2021), Table 2"
# So says the caption of BioM's Table 2.
_BIOMEGATRON_NOTE = "Entities are scored by sub-tokens; ChemProt is processed in another way."
# Its sections 2.2 and the caption of Table 2.
_BIO_LM_NOTE = (
    "Medians over 5 seeds, of GAD and EU-ADR over nine folds, by what the tenth says when to stop; "
    "splits need not be those of BLURB and BLUE."
)

# fmt: off
MODELS = (
    Model("BioBERT", GU, _blurb(
        "92.85 84.70 89.13 83.82 79.35 73.18 76.14 80.88 80.94 89.52 81.54 60.24 84.14"), "80.29"),
    Model("SciBERT", GU, _blurb(
        "92.49 84.54 88.10 83.36 79.45 73.12 75.24 81.06 80.90 86.25 80.66 57.38 78.86"), "78.80"),
    Model("ClinicalBERT", GU, _blurb(
        "90.80 83.04 86.32 81.71 78.59 72.06 72.04 78.20 78.40 91.23 80.74 49.08 68.50"), "77.19"),
    Model("BlueBERT", GU, _blurb(
        "91.19 83.69 88.04 81.87 78.68 72.54 71.46 77.78 77.24 85.38 80.48 48.44 68.71"), "76.19"),
    Model("PubMedBERT", GU, _blurb(
        "93.33 85.62 87.82 84.52 80.06 73.38 77.24 82.36 82.34 92.30 82.32 55.84 87.56"), "81.10"),
    Model("BioBERT", BIOELECTRA_BLUE, _blue("82.63 72.81 80.73 85.91")),
    Model("ClinicalBERT", BIOELECTRA_BLUE, _blue("82.70 74.82 82.15 85.63")),
    Model("BlueBERT P", BIOELECTRA_BLUE, _blue("82.2 74.4 75.4 86.03")),
    Model("BlueBERT P+M", BIOELECTRA_BLUE, _blue("84 76.4 77.1 84.57")),
    Model("PubMedBERT", BIOELECTRA_BLUE, _blue("83.82 75.14 74.45 86.72")),
    Model("PubMedBERT P+F", BIOELECTRA_BLUE, _blue("84.17 73.93 74.77 86.16")),
    # The paper's text says 82.40; 82.47 is what the figures give.
    Model("BioELECTRA P", _BIOELECTRA, _blurb(
        "93.60 85.84 89.38 84.69 80.17 74.26 78.20 82.76 83.70 92.49 83.50 64.02 88.57")
        | _blue("86.27 76.50 83.71 89.07"), "82.47"),
    Model("BioELECTRA P+F", _BIOELECTRA, _blurb(
        "93.51 85.55 88.43 84.61 79.98 73.88 77.76 83.53 84.18 93.80 82.79 63.80 91.42")
        | _blue("86.34 75.73 83.15 88.34"), "82.72"),
    Model("BioELECTRA P+F LT", _BIOELECTRA, _blurb(
        "93.75 85.32 88.73 84.68 80.10 73.86 76.76 82.34 85.67 91.45 83.20 62.21 91.50")
        | _blue("85.36 76.17 83.52 89.02"), "82.24"),
    Model("BioELECTRA W+P", _BIOELECTRA, _blurb(
        "93.03 84.66 88.45 83.90 79.63 73.33 77.06 79.68 83.16 88.65 82.30 61.20 90.01")
        | _blue("83.53 75.48 83.02 88.46"), "80.96"),
    Model("BioM-ELECTRA base", _BIOM, _biom("93.1 85.2 88.4 77.6 84.4 52.3")),
    Model("BioM-ELECTRA large", _BIOM, _biom("93.8 85.9 89.0 78.6 88.3 54.1")),
    Model("BioM-BERT large", _BIOM, _biom("92.4 84.5 88.6 80.0 87.3 53.4")),
    Model("BioM-ALBERT xxlarge", _BIOM, _biom("93.5 85.2 88.7 79.3 87.0 56.9")),
    Model("BioMegatron 345m, 30k", "Shin et al. (2020), Table 1", _four("92.9 87.0 87.1 75.1"),
          note=_BIOMEGATRON_NOTE),
    Model("BioMegatron 345m, uncased", "Shin et al. (2020), Table 2",
          _row(OTHERS[13:], "52.5 46.2 62.6")),
    Model("bio-lm large", "Lewis et al. (2020), Table 2",
          _row(BLURB[:5], "93.7 85.2 89.0 88.0 81.0") | _row(BLURB[7:8], "82.1")
          | _row(BLUE[:2], "88.5 78.6") | _row(OTHERS[:5], "86.6 76.2 93.7 88.4 81.1")
          | _row((OTHERS[6], *OTHERS[8:12]), "85.0 81.1 89.7 80.8 96.3"), note=_BIO_LM_NOTE),
)
# fmt: on
