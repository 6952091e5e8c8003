"""Models whose test scores papers report, in percent and as printed, and the BLURB score.

The scores are in `published_tables.json`. `MODELS` are those that the report shows by default,
`models_of` gives all of a paper. `NEWER` are models of later papers, whose scores are in
`newer_models.json` and were not read in a paper's table.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tfbio.reporting import published_tables
from tfbio.reporting.published_tables import Cell, DataSet


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
OTHERS = (
    # What bio-lm's code computes (biolm/utils_classification.py); its Table 1 has "Macro-F1".
    Column("HoC, BLUE's F1", "hoc", "blue_f1"),
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
    Column("SQuAD v1.1", "squad_v1", "f1"),
    Column("SQuAD v2.0", "squad_v2", "f1"),
    Column("BioASQ factoid, MRR", "bioasq_factoid", "mrr"),
    Column("BioASQ factoid, strict", "bioasq_factoid", "strict_accuracy"),
    Column("BioASQ factoid, lenient", "bioasq_factoid", "lenient_accuracy"),
)
_NEWER = Path(__file__).with_name("newer_models.json")
_OF_NEWER = "Later than the five papers, and not read in the tables of a paper."
_TITLES = {(x.task, x.metric, x.of_others): x.title for x in (*BLURB, *BLUE, *OTHERS)}


@dataclasses.dataclass(frozen=True)
class Model:
    """A published model: the scores that a paper's table prints for it.

    Attributes:
      name: the model's name, as in the paper.
      source: the paper and the table, as text.
      figures: title of a `Column` -> score in percent, as text as it is printed.
      blurb_score: BLURB's score in percent, as text as it is printed; "" if it is not.
      means: the name of a group of bio-lm's tasks, or "All" -> the mean score that is printed.
      note: a sentence on how the scores differ from the others; "" if they do not.
      notes: title of a `Column`, "BLURB score" or the name of a mean -> the note on this score.
    """

    name: str
    source: str
    figures: Mapping[str, str]
    blurb_score: str = ""
    means: Mapping[str, str] = dataclasses.field(default_factory=dict)
    note: str = ""
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)


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
    types: dict[str, list[float]] = {column.type: [] for column in BLURB}
    for column in BLURB:
        types[column.type].append(figures[column.title])
    return statistics.fmean(map(statistics.fmean, types.values()))


def title_of(data_set: DataSet) -> str:
    """Returns the title of the `Column` of a published data set and its metric; "" for none."""
    task = f"{data_set.task}, ten folds" if data_set.folds else data_set.task
    return _TITLES.get((task, data_set.metric, bool(data_set.folds)), "")


def models_of(paper: str) -> list[Model]:
    """Returns all models of a paper's tables of results, with every score that has a `Column`.

    A model that repeats scores of another one is left out, as tables of variants print the standard
    model anew.

    Args:
      paper: one of `published_tables.PAPERS`.

    Returns:
      A list of `Model`s, in the order of the tables, with the notes on their
      scores.

    Raises:
      KeyError: there is no such paper.
    """
    groups: dict[tuple[int, str], list[Cell]] = {}
    for cell in published_tables.cells(paper):
        if cell.score:
            groups.setdefault((cell.table, cell.model), []).append(cell)
    models = [_model(name, of) for (_, name), of in groups.items()]
    scores = [_scores_of(model) for model in models]
    return [
        model
        for place, (model, own) in enumerate(zip(models, scores, strict=True))
        if own and not any(own <= x for x in scores[:place]) and not any(own < x for x in scores)
    ]


def _scores_of(model: Model) -> set[tuple[str, str]]:
    return {*model.figures.items(), *model.means.items()}


def _name(cell: Cell) -> str:
    return title_of(cell.data_set) or cell.data_set.mean


def _model(name: str, cells: Sequence[Cell]) -> Model:
    """Makes the `Model` called `name` from all its scores in one table."""
    paper, table = cells[0].paper, cells[0].table
    figures = {title_of(x.data_set): x.score for x in cells if title_of(x.data_set)}
    means = {x.data_set.mean: x.score for x in cells if x.data_set.mean}
    return Model(
        name,
        published_tables.source(paper, table),
        figures,
        means.pop("BLURB score", ""),
        means,
        published_tables.note(paper, table),
        {_name(x): x.note for x in cells if x.note},
    )


def _newer() -> tuple[Model, ...]:
    """Reads the models of later papers, which the report tells apart from the others by a note."""
    models = []
    for one in json.loads(_NEWER.read_text(encoding="utf-8")):
        notes = {title: text for text, of in one.pop("notes", {}).items() for title in of}
        models.append(Model(**one, notes=notes, note=_OF_NEWER))
    return tuple(models)


def _chosen(name: str, paper: str, table: int, printed: str) -> Model:
    """Makes the `Model` called `name` that a table calls `printed`."""
    cells = [x for x in published_tables.cells(paper) if (x.table, x.model) == (table, printed)]
    return _model(name, [cell for cell in cells if cell.score])


# Name, paper, table, and the model as it is printed.
MODELS = tuple(
    _chosen(*which)
    for which in (
        ("BioBERT", "pubmedbert", 6, "BioBERT cased"),
        ("SciBERT", "pubmedbert", 6, "SciBERT uncased"),
        ("ClinicalBERT", "pubmedbert", 6, "ClinicalBERT cased"),
        ("BlueBERT", "pubmedbert", 6, "BlueBERT cased"),
        ("PubMedBERT", "pubmedbert", 6, "PubMedBERT uncased"),
        ("BioBERT", "bioelectra", 3, "BioBERT cased (P)"),
        ("ClinicalBERT", "bioelectra", 3, "ClinicalBERT cased (W+P+M)"),
        ("BlueBERT P", "bioelectra", 3, "BlueBERT cased (P)"),
        ("BlueBERT P+M", "bioelectra", 3, "BlueBERT cased (P+M)"),
        ("PubMedBERT", "bioelectra", 3, "PubMedBERT uncased (P)"),
        ("PubMedBERT P+F", "bioelectra", 3, "PubMedBERT uncased (P+F)"),
        ("BioELECTRA P", "bioelectra", 4, "BioELECTRA P"),
        ("BioELECTRA P+F", "bioelectra", 4, "BioELECTRA P+F"),
        ("BioELECTRA P+F LT", "bioelectra", 4, "BioELECTRA P+F (LT)"),
        ("BioELECTRA W+P", "bioelectra", 4, "BioELECTRA W+P"),
        ("BioM-ELECTRA base", "biom", 2, "BioM-ELECTRA B"),
        ("BioM-ELECTRA large", "biom", 2, "BioM-ELECTRA L"),
        ("BioM-BERT large", "biom", 2, "BioM-BERT L 690K"),
        ("BioM-ALBERT xxlarge", "biom", 2, "BioM-ALBERT xxlarge 264K"),
        ("BioMegatron 345m, 30k", "biomegatron", 1, "BioMegatron (345m, Bio-vocab-30k)"),
        ("BioMegatron 345m, uncased", "biomegatron", 2, "BioMegatron (345m, BERT-uncased)"),
        ("bio-lm large", "bio_lm", 2, "bio-lm large"),
    )
)

# Beside those of `MODELS`, after them.
NEWER = _newer()
