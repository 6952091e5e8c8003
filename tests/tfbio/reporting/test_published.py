"""The published figures against the papers' text, and the BLURB score against printed ones."""

import re
from collections import Counter

import pytest

from tests import reference
from tfbio.reporting import published, published_tables

BLURB_MODELS = [model for model in published.MODELS if model.blurb_score]
SHORT = {"P", "P+F", "P+F LT", "W+P"}
GU = published_tables.source("pubmedbert", 6)
BIOELECTRA_BLUE = published_tables.source("bioelectra", 3)


def model(name, source=""):
    (found,) = (x for x in published.MODELS if x.name == name and source in x.source)
    return found


def numbers(line):
    return re.findall(r"\d+\.\d+", line)


@pytest.mark.parametrize("own", BLURB_MODELS, ids=lambda own: own.name)
def test_the_blurb_score_of_a_models_13_figures_is_the_printed_one(own):
    figures = {title: float(figure) for title, figure in own.figures.items()}
    score = published.blurb_score(figures)
    # 82.2452 is printed as 82.24.
    assert own.blurb_score == ("82.24" if own.name == "BioELECTRA P+F LT" else f"{score:.2f}")
    assert abs(score - float(own.blurb_score)) < 0.01


def test_of_bioelectras_two_scores_that_of_the_text_does_not_follow_from_its_figures():
    assert "82.40%" in reference.paper("bioelectra.txt")
    figures = model("BioELECTRA P").figures
    score = published.blurb_score({title: float(figure) for title, figure in figures.items()})
    assert score - 82.40 > 0.07


def test_a_missing_data_set_is_no_zero():
    figures = dict.fromkeys(model("BioBERT", GU).figures, 80.0)
    assert published.blurb_score(figures) == 80
    del figures["GAD"]
    with pytest.raises(KeyError, match="GAD"):
        published.blurb_score(figures)


def test_blurbs_paper_has_these_figures():
    """Also of the models that are not in our table: the score is what the definition gives."""
    text = reference.paper("pubmedbert_blurb.txt")
    rows = {}
    for line in text[: text.index("Table 6. Comparison")].splitlines()[-16:]:
        if len(numbers(line)) == 9:
            rows[line.split("\t")[0]] = numbers(line)
    titles = [column.title for column in published.BLURB]
    assert list(rows) == [*titles, "BLURB score"]
    for place, name in {
        3: "BioBERT",
        4: "SciBERT",
        6: "ClinicalBERT",
        7: "BlueBERT",
        8: "PubMedBERT",
    }.items():
        own = model(name, GU)
        assert own.figures == {title: rows[title][place] for title in titles}, name
        assert own.blurb_score == rows["BLURB score"][place], name
    for place, printed in enumerate(rows["BLURB score"]):
        score = published.blurb_score({title: float(rows[title][place]) for title in titles})
        assert abs(score - float(printed)) < 0.01


def test_the_collected_table_has_these_figures():
    text = (reference.PAPERS / "collected_scores.md").read_text()
    lines = text[text.index("## Published test scores") :].splitlines()
    header, _, *rows = ([x.strip() for x in line.split("|")[1:-1]] for line in lines if "|" in line)
    assert len(rows) == 18
    for title, *figures in rows:
        for name, figure in zip(header[1:], figures, strict=True):
            name = f"BioELECTRA {name}" if name in SHORT else name
            found = [x.blurb_score for x in BLURB_MODELS if x.name == name]
            if title != "BLURB score":
                found = [x.figures.get(title, "") for x in published.MODELS if x.name == name]
            assert "".join(found) == figure, (title, name)


def test_bioelectras_paper_has_these_figures():
    text = reference.paper("bioelectra.txt")
    blue = [column.title for column in published.BLUE]
    for own in published.MODELS:
        if own.source == BIOELECTRA_BLUE:
            assert list(own.figures) == blue
            assert "\n".join(own.figures.values()) in text
    for own in (model(f"BioELECTRA {name}") for name in SHORT):
        figures = list(own.figures.values())
        assert "\n".join(figures[:13]) in text
        assert "\n".join(figures[13:]) in text


def test_bioms_paper_has_these_figures():
    lines = reference.paper("biom_transformers.txt").splitlines()
    for name, start in {
        "BioM-ELECTRA base": "BioM-ELECTRA _B",
        "BioM-ELECTRA large": "BioM-ELECTRAL\t",
        "BioM-BERT large": "690K",
        "BioM-ALBERT xxlarge": "264K",
    }.items():
        (line,) = (x for x in lines if x.startswith(start) and len(numbers(x)) == 7)
        assert list(model(name).figures.values()) == numbers(line)[1:]
        assert list(model(name).figures)[3:5] == ["ChemProt", "SQuAD v2.0"]


def test_biomegatrons_paper_has_these_figures():
    lines = reference.paper("biomegatron.txt").splitlines()
    found = [numbers(line) for line in lines if line.startswith("BioMegatron 345m Bio-vocab-30k")]
    figures = model("BioMegatron 345m, 30k").figures
    assert list(figures.values()) == [f1 for _, _, f1 in found[:4]]
    (strict, lenient, mrr), *_ = (
        numbers(line) for line in lines if line.startswith("BioMegatron 345m BERT-uncased")
    )
    assert model("BioMegatron 345m, uncased").figures == {
        "BioASQ factoid, MRR": mrr,
        "BioASQ factoid, strict": strict,
        "BioASQ factoid, lenient": lenient,
    }


def test_bio_lms_paper_has_these_figures():
    names = {
        "BC5-chem": "BC5CDR-C.",
        "BC5-disease": "BC5CDR-D.",
        "LINNAEUS": "LINNEAEUS",
        "HoC, BLUE's F1": "HOC",
        "DDI": "DDI-2013",
        "GAD, median of folds 2 to 10": "GAD",
        "EU-ADR, median of folds 2 to 10": "EU-ADR",
        "i2b2-2010": "I2B2-2010-RE",
        "i2b2-2010, entities": "I2B2-2010",
        "i2b2-2012": "I2B2-2012",
        "i2b2-2014": "I2B2-2014",
    }
    lines = reference.paper("bio_lm.txt").splitlines()
    # The names of the data sets end in numbers, too, but without a point.
    rows = {line.split(" ")[0]: numbers(line) for line in lines if len(numbers(line)) == 8}
    figures = model("bio-lm large").figures
    assert len(figures) == 18
    for title, figure in figures.items():
        assert figure == rows[names.get(title, title)][-1], title


@pytest.mark.parametrize(
    ("paper", "tables"),
    [
        # Table 4 repeats BioELECTRA P of Tables 2 and 3, and BioELECTRA P+F of Table 3.
        ("bioelectra", {2: 5, 3: 6, 4: 4}),
        # Tables 7 to 12 have the standard PubMedBERT once each.
        ("pubmedbert", {6: 9, 7: 3, 8: 2, 9: 1, 10: 1, 11: 2, 12: 6}),
        ("biom", {2: 18}),
        # Table 2 has rows 1, 6 and 8 of Table 3.
        ("bio_lm", {2: 8, 3: 5, 5: 2, 6: 3}),
        # Table 1 calls PubMedBERT's vocabulary by two names.
        ("biomegatron", {1: 6, 2: 5, 4: 3, 5: 7, 6: 2, 7: 7}),
    ],
)
def test_a_paper_has_these_models(paper, tables):
    models = published.models_of(paper)
    assert Counter(int(model.source.split("Table ")[1]) for model in models) == tables
    assert len({(own.name, own.source) for own in models}) == len(models)


def test_a_paper_has_the_models_that_we_chose():
    papers = [published.models_of(paper) for paper in published_tables.PAPERS]
    scores = [(own.figures, own.blurb_score) for models in papers for own in models]
    assert not [own for own in published.MODELS if (own.figures, own.blurb_score) not in scores]


# Typed from the pages that the file names. The authors' table has the scores of three models.
OF_AUTHORS = """
PubmedBERT-base 81.10 55.8 87.5
BioLinkBERT-base 83.39 70.2 91.4
BioLinkBERT-large 84.30 72.2 94.8
"""
LISTED = {
    "BC5-chem": 94.04,
    "NCBI-disease": 88.76,
    "BC2GM": 85.18,
    "JNLPBA": 80.06,
    "ChemProt": 79.98,
    "DDI": 83.35,
    "GAD": 84.9,
    "HoC": 84.87,
}


def test_newer_models_have_the_figures_of_their_pages():
    newer = {own.name: own for own in published.NEWER}
    assert list(newer) == [
        *("BioLinkBERT base (2022)", "BioLinkBERT large (2022)", "BioGPT (2022)"),
    ]
    for line in OF_AUTHORS.strip().splitlines()[1:]:
        name, score, *questions = line.split()
        own = newer[f"{name.replace('-', ' ')} (2022)"]
        assert own.blurb_score == score, name
        assert [own.figures[title] for title in ("PubMedQA", "BioASQ")] == questions, name
    large = newer["BioLinkBERT large (2022)"]
    assert {title: float(large.figures[title]) for title in large.notes} == LISTED
    assert newer["BioGPT (2022)"].figures == {"PubMedQA": "78.2"}
    # The authors' row of PubMedBERT is that of BLURB's paper, cut to one digit: so the scores are
    # of the same tasks.
    pubmedbert = model("PubMedBERT", GU)
    cut = [pubmedbert.figures[title][:4] for title in ("PubMedQA", "BioASQ")]
    assert [pubmedbert.blurb_score, *cut] == OF_AUTHORS.split()[1:4]


def test_newer_models_are_told_apart():
    titles = {column.title for column in published.BLURB}
    names = {own.name for own in published.MODELS}
    for own in published.NEWER:
        assert own.figures.keys() <= titles and own.notes.keys() <= own.figures.keys(), own.name
        assert own.name not in names and own.name.endswith(" (2022)"), own.name
        assert own.note.startswith("Later than the five papers") and "(2022), " in own.source


def test_variants_of_a_model_stand_beside_it():
    models = {own.name: own for own in published.models_of("pubmedbert")}
    assert models["PubMedBERT (BIOUL)"].figures == {
        "BC5-chem": "93.37",
        "BC5-disease": "85.59",
        "JNLPBA": "79.98",
    }
    assert models["PubMedBERT (+ adversarial)"].blurb_score == "80.68"
    assert "PubMedBERT (PubMed, Whole Word)" not in models
    best = {own.name: own for own in published.models_of("bio_lm")}["best of bio-lm's paper"]
    # Printed as 87.2*.
    assert best.figures["HoC, BLUE's F1"] == "87.2"


def test_every_column_is_named_once():
    columns = published.BLURB + published.BLUE + published.OTHERS
    titles = [column.title for column in columns]
    assert len(set(titles)) == len({column[1:] for column in columns}) == len(columns)
    assert {title for own in published.MODELS for title in own.figures} <= set(titles)


def test_models_of_the_default_report_have_the_notes_on_their_scores():
    models = {(x.name, x.source): x for x in published.MODELS}
    (large,) = [x for (name, _), x in models.items() if name == "bio-lm large"]
    assert "eval_hoc.py" in large.notes["HoC, BLUE's F1"]
    (of_pubmed,) = [x for (name, _), x in models.items() if name == "BioELECTRA P"]
    assert "82.47" in of_pubmed.notes["BLURB score"]
