"""The published tables against the papers' text, against each other, and their means."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests import reference
from tests.run_files import write_scores
from tfbio import report
from tfbio.reporting import published, published_tables
from tfbio.task_types.task_table import TASKS

FILE = Path(published_tables.__file__).with_suffix(".json")
# Rows times columns; of BioM less the 3 and 19 cells with "-".
CELLS = {
    "bioelectra": {2: 14 * 6, 3: 4 * 8, 4: 19 * 4},
    "pubmedbert": {6: 14 * 9, 7: 14 * 4, 8: 14 * 3, 9: 14 * 2, 10: 6 * 2, 11: 3 * 3, 12: 7 * 2},
    "biom": {1: 14 * 5 - 3, 2: 18 * 8 - 19, 3: 3 * 3},
    "bio_lm": {2: 23 * 8, 3: 8 * 5, 4: 4, 5: 18 * 3, 6: 5 * 5},
    "biomegatron": {
        **{1: 24 * 3, 2: 5 * 3, 3: 4 * 2, 4: 3 * 3, 5: 21, 6: 2 * 3, 7: 7 * 2, 8: 6 * 2},
        9: 3 * 2,
    },
}
# Typed from the papers: paper, table, row, column, and what is printed there.
TYPED = [
    ("bioelectra", 2, "NCBI-disease", "BioBERT cased (P)", "89.13"),
    ("bioelectra", 2, "BLURB score", "BioELECTRA uncased (P)", "82.47"),
    ("bioelectra", 2, "PubMedQA", "SciBERT uncased (CS+F)", "57.38"),
    ("bioelectra", 3, "MedNLI", "BlueBERT cased (P+M)", "84"),
    ("bioelectra", 3, "ShARe/CLEFE", "PubMedBERT uncased (P+F)", "74.77"),
    ("bioelectra", 3, "ClinicalSTS", "BioELECTRA uncased (P)", "89.07"),
    ("bioelectra", 4, "BioASQ", "BioELECTRA P+F (LT)", "91.50"),
    ("bioelectra", 4, "Vocab", "BioELECTRA W+P", "General"),
    ("bioelectra", 4, "BIOSSES", "BioELECTRA P+F", "93.80"),
    ("pubmedbert", 6, "DDI", "SciBERT cased", "81.22"),
    ("pubmedbert", 6, "BIOSSES", "ClinicalBERT cased", "91.23"),
    ("pubmedbert", 6, "BLURB score", "RoBERTa cased", "76.33"),
    ("pubmedbert", 7, "HoC", "PubMed, Word Piece", "80.38"),
    ("pubmedbert", 7, "BioASQ", "Wiki + Books, Whole Word", "76.41"),
    ("pubmedbert", 8, "PubMedQA", "PubMed + PMC", "61.02"),
    ("pubmedbert", 8, "BLURB score", "PubMed + PMC (longer training)", "81.45"),
    ("pubmedbert", 9, "BIOSSES", "+ adversarial", "94.11"),
    ("pubmedbert", 9, "GAD", "PubMedBERT", "82.34"),
    ("pubmedbert", 10, "ChemProt", "Bi-LSTM", "75.40"),
    ("pubmedbert", 10, "GAD", "Linear Layer", "82.34"),
    ("pubmedbert", 11, "BC5-chem", "BIOUL", "93.37"),
    ("pubmedbert", 11, "JNLPBA", "IO", "80.01"),
    ("pubmedbert", 12, "ORIGINAL, [CLS]", "DDI", "37.00"),
    ("pubmedbert", 12, "ENTITY MARKERS, ENTITY START", "ChemProt", "77.58"),
    ("biom", 1, "ELECTRA Large", "Steps", "1.7M"),
    ("biom", 1, "BioM-ALBERT xxlarge", "C", "2.11x"),
    ("biom", 1, "SciBERT Base", "Vocabulary", "30K PMC+CS"),
    ("biom", 2, "BioM-BERT L 400K", "Chem-Prot", "79.8"),
    ("biom", 2, "ALBERT xxlarge", "QA BioASQ", "53.1"),
    ("biom", 2, "BioM-ALBERT xxlarge +64K", "QA SQuAD", "88.0"),
    ("biom", 2, "BioM-ELECTRA B", "NCBI-Dise.", "88.4"),
    ("biom", 3, "BioM-ALBERT xxlarge", "Time", "31:15"),
    ("biom", 3, "BioM-ELECTRA B", "Ratio", "0.35x"),
    ("bio_lm", 2, "EU-ADR", "SciBERT", "85.5"),
    ("bio_lm", 2, "I2B2-2014", "Ours-large", "96.3"),
    ("bio_lm", 2, "Mean (Clinical)", "RoBERTa-large", "84.0"),
    ("bio_lm", 2, "GAD", "BioMed-RoBERTa", "81.6"),
    ("bio_lm", 3, "(3) +PM+Voc.", "Classif.", "80.4"),
    ("bio_lm", 3, "(7) +PM+M3", "Seq. Lab.", "87.3"),
    ("bio_lm", 5, "LINNEAEUS", "State-of-the-Art Score", "93.5"),
    ("bio_lm", 5, "HOC", "Our best", "87.2*"),
    ("bio_lm", 5, "GAD", "State-of-the-Art Method", "Bhasuran et al. (2018)"),
    ("bio_lm", 6, "distill + align", "PubMed", "84.9"),
    ("bio_lm", 6, "+ train longer", "All", "84.8"),
    ("biomegatron", 1, "BC5CDR-disease, BioMegatron, 345m, Bio-vocab-50k", "Rec", "91.0"),
    ("biomegatron", 1, "ChemProt, BioMegatron, 800m, BERT-cased", "Prec", "80.4"),
    ("biomegatron", 1, "NCBI-disease, BioBERT, 110m, BERT-cased", "F1", "87.5"),
    ("biomegatron", 2, "BioASQ-7b-factoid, BioBERT-Large, 345m, BERT-cased", "SAcc", "42.8"),
    ("biomegatron", 3, "BERT-cased", "BC5-disease", "2.42"),
    ("biomegatron", 3, "BioMegatron-bio-50k-cased", "BC5-chem", "1.478"),
    ("biomegatron", 4, "BioMegatron-800m", "LAcc", "56.3"),
    ("biomegatron", 5, "BC5CDR-chem, 2 * 10^5 steps", "F1", "89.37"),
    ("biomegatron", 5, "ChemProt, 10^3 steps", "F1", "0.00"),
    ("biomegatron", 6, "Megatron-1.2b (general LM)", "MRR", "32.7"),
    ("biomegatron", 7, "BioMegatron-345m-ft", "SQuAD-v2.0", "77.9"),
    ("biomegatron", 7, "BERT LARGE", "SQuAD-v1.1", "90.9"),
    ("biomegatron", 8, "CLS, ChemProt", "Bias %", "0.27"),
    ("biomegatron", 8, "QA, BioASQ-7b", "# Samples", "5537"),
    ("biomegatron", 9, "BioMegatron", "#Words", "6.1 billion"),
]


def cells_of(paper, table):
    return [cell for cell in published_tables.cells(paper) if cell.table == table]


def cell_at(paper, table, row, column):
    (cell,) = (x for x in cells_of(paper, table) if (x.row, x.column) == (row, column))
    return cell


def lines_of(paper, table, by="row"):
    """Returns the cells of each row (or column) of a table, by its label."""
    lines = {}
    for cell in cells_of(paper, table):
        lines.setdefault(getattr(cell, by), []).append(cell.value)
    return lines


def scores_of(paper, table):
    """Returns the scores of each model of a table, by what they measure."""
    models = {}
    for cell in cells_of(paper, table):
        if cell.score:
            models.setdefault(cell.model, {})[cell.data_set] = cell
    return models


def by_title(scores):
    return {published.title_of(x): float(cell.score) for x, cell in scores.items() if x.task}


def test_every_table_has_all_its_cells():
    assert list(CELLS) == list(published_tables.PAPERS)
    for paper, tables in CELLS.items():
        cells = published_tables.cells(paper)
        assert Counter(cell.table for cell in cells) == tables
        assert len({(cell.table, cell.row, cell.column) for cell in cells}) == len(cells)


def test_cells_are_as_printed():
    assert {(paper, table) for paper, table, *_ in TYPED} == {
        (paper, table) for paper, tables in CELLS.items() for table in tables
    } - {("bio_lm", 4)}
    for paper, table, row, column, value in TYPED:
        assert cell_at(paper, table, row, column).value == value


# Of the texts, some have a table's rows, and some its columns, one value after the other.


def test_every_column_is_in_bioelectras_text():
    text = reference.paper("bioelectra.txt")
    for table, sizes in ((2, (5, 1, 3, 1, 1, 2, 1)), (3, (4,)), (4, (13, 1, 4))):
        for values in lines_of("bioelectra", table, by="column").values():
            values = [value for value in values if value not in ("PubMed", "General")]
            for size in sizes:
                part, values = values[:size], values[size:]
                assert "\n" + "\n".join(part) + "\n" in text, (table, size)
            assert not values, table


def test_every_row_is_in_blurbs_text():
    text = reference.paper("pubmedbert_blurb.txt")
    for table in CELLS["pubmedbert"]:
        for row, values in lines_of("pubmedbert", table).items():
            assert "\t".join([*row.split(", "), *values]) in text


@pytest.mark.parametrize(("table", "tabs", "first"), [(1, 5, 1), (2, 8, 3), (3, 3, 1)])
def test_every_row_is_in_bioms_text(table, tabs, first):
    """Reads Table 2 from its first score on: the designs have Greek letters in the text."""
    text = reference.paper("biom_transformers.txt").splitlines()
    lines = [line.split("\t")[first:] for line in text if line.count("\t") == tabs]
    rows = [[value for value in line if value != "-"] for line in lines]
    for row in lines_of("biom", table):
        cells = [x for x in cells_of("biom", table) if x.row == row]
        assert [x.value for x in cells if table != 2 or x.score] in rows, row


def test_every_row_is_in_bio_lms_text():
    text = reference.paper("bio_lm.txt")
    for table in (2, 3, 5, 6):
        for row, values in lines_of("bio_lm", table).items():
            assert " ".join([row, *values]) in text
    flat = re.sub(r"\s+", " ", text).replace("2010- RE", "2010-RE")
    for group, values in lines_of("bio_lm", 4).items():
        assert f"{group} {values[0]}" in flat


def test_every_row_is_in_biomegatrons_text():
    text = reference.paper("biomegatron.txt")
    for table in (1, 2, 3, 4, 6, 7, 8, 9):
        for row, values in lines_of("biomegatron", table).items():
            # The first of several labels stands above its rows, or beside them.
            labels = row.split(", ")[1:] or [row.replace("BERT LARGE", "BERTLARGE")]
            assert " ".join([*labels, *values]) in text, (table, row)
    # 10^3 is 103 there, and 2 * 10^5 has another sign of multiplication.
    assert re.findall(r"^(?:\d · )?10\d steps .*$", text, re.M) == [
        f"{row.split(', ')[1].replace('10^', '10').replace('*', '·')} {value}"
        for row, (value,) in lines_of("biomegatron", 5).items()
    ]


def test_every_note_is_on_a_cell():
    notes = {
        (paper, table["number"], *note[:2])
        for paper, own in json.loads(FILE.read_text(encoding="utf-8")).items()
        for table in own["tables"]
        for note in table.get("notes", ())
    }
    cells = {
        (cell.paper, cell.table, row, column)
        for paper in published_tables.PAPERS
        for cell in published_tables.cells(paper)
        for row in (cell.row, "")
        for column in (cell.column, "")
    }
    assert len(notes) > 40 and notes <= cells


def test_every_task_and_metric_is_ours():
    cells = [cell for paper in published_tables.PAPERS for cell in published_tables.cells(paper)]
    measured = {cell.data_set for cell in cells if cell.score}
    for one in measured:
        if one.mean:
            assert one == published_tables.DataSet(mean=one.mean)
        else:
            assert one.task in TASKS and one.metric
            # Of entities and relations we print the F1 alone.
            assert published.title_of(one) or one.metric in ("precision", "recall")
    # Tokens per word, label bias and words of pretraining are no scores.
    assert not any(cell.score for table in (3, 8, 9) for cell in cells_of("biomegatron", table))


@pytest.mark.parametrize(
    ("paper", "table", "models"),
    [
        ("bioelectra", 2, 6),
        ("bioelectra", 4, 4),
        ("pubmedbert", 6, 9),
        ("pubmedbert", 7, 4),
        ("pubmedbert", 8, 3),
        ("pubmedbert", 9, 2),
    ],
)
def test_the_blurb_score_is_that_of_the_cells(paper, table, models):
    mean = published_tables.DataSet(mean="BLURB score")
    found = scores_of(paper, table)
    assert len(found) == models
    for scores in found.values():
        computed = f"{published.blurb_score(by_title(scores)):.2f}"
        assert computed == scores[mean].score or computed in scores[mean].note


def test_the_f1_is_that_of_precision_and_recall():
    """BioMegatron's Table 1: to rounding."""

    def f1(precision, recall):
        return 2 * precision * recall / (precision + recall)

    rows = lines_of("biomegatron", 1)
    assert len(rows) == 24
    for values in rows.values():
        precision, recall, printed = map(float, values)
        least, most = (f1(precision + x, recall + x) + x for x in (-0.05, 0.05))
        assert least <= printed <= most


def test_the_means_of_bio_lms_groups_fit_together():
    """Counts 18 data sets: 5 clinical and 13 of PubMed, or 11 of sequence labelling."""
    for table in (3, 6):
        for clinical, pubmed, labelling, classes, every in (
            map(float, values) for values in lines_of("bio_lm", table).values()
        ):
            assert abs((5 * clinical + 13 * pubmed) / 18 - every) < 0.1, table
            assert abs((11 * labelling + 7 * classes) / 18 - every) < 0.1, table


def test_bio_lms_tables_print_the_same_models():
    def means(table, model):
        return {x.mean: cell for x, cell in scores_of("bio_lm", table)[model].items() if x.mean}

    for first, table, model in (
        ("RoBERTa-base", 3, "RoBERTa-base"),
        ("RoBERTa-large", 3, "RoBERTa-large"),
        ("bio-lm base", 3, "bio-lm base (+PM+M3+Voc.)"),
        ("bio-lm large", 3, "bio-lm large (+PM+M3+Voc.)"),
        ("bio-lm base", 6, "bio-lm base"),
        ("bio-lm large", 6, "bio-lm large"),
    ):
        for name, cell in means(table, model).items():
            other = means(2, first)[name].score
            assert cell.score == other or other in cell.note, (table, name)
    assert means(6, "bio-lm base")["Classif."].score == "81.8"
    # Table 5: those of the large model, where no mark names another one.
    large, best = (
        scores_of("bio_lm", 2)["bio-lm large"],
        scores_of("bio_lm", 5)["best of bio-lm's paper"],
    )
    for own, cell in best.items():
        if cell.score == cell.value:
            assert cell.score == large[own].score
    assert (
        "82.1 for bio-lm large, and 81.0 for bio-lm base"
        in cell_at("bio_lm", 5, "DDI-2013", "Our best").note
    )


def test_figures_from_other_papers_are_theirs_or_have_a_note():
    theirs = scores_of("pubmedbert", 6)
    for model, other in {
        "BioBERT cased (P)": "BioBERT cased",
        "SciBERT uncased (CS+F)": "SciBERT uncased",
        "ClinicalBERT cased (W+P+M)": "ClinicalBERT cased",
        "BlueBERT cased (W+P+M)": "BlueBERT cased",
        "PubMedBERT uncased (P)": "PubMedBERT uncased",
    }.items():
        own = scores_of("bioelectra", 2)[model]
        assert {x: y.score for x, y in own.items()} == {
            x: y.score for x, y in theirs[other].items()
        }
    # By the caption of BioM's Table 2.
    megatron = scores_of("biomegatron", 1)["BioMegatron (345m, Bio-vocab-50k)"]
    megatron |= scores_of("biomegatron", 2)["BioMegatron (345m, BERT-uncased)"]
    megatron |= scores_of("biomegatron", 7)["BioMegatron-345m"]
    said = {
        "RoBERTa B": theirs["RoBERTa cased"],
        "SciBERT B": theirs["SciBERT cased"],
        "BioBERT B": theirs["BioBERT cased"],
        "PubMedBERT B": theirs["PubMedBERT uncased"],
        "PubMedBERT B+": scores_of("pubmedbert", 8)["PubMedBERT (PubMed + PMC)"],
        "BioRoBERTa L": scores_of("bio_lm", 2)["bio-lm large"],
        "BioMegaTron 345m": megatron,
    }
    differ = []
    for model, others in said.items():
        for data_set, cell in scores_of("biom", 2)[model].items():
            if (
                data_set in others
                and abs(float(cell.score) - float(others[data_set].score)) > 0.051
            ):
                assert others[data_set].score in cell.note
                differ.append((model, cell.column))
    assert differ == [
        ("BioBERT B", "BC5CDR-Chem."),
        ("PubMedBERT B", "NCBI-Dise."),
        ("BioRoBERTa L", "Chem-Prot"),
    ]


@pytest.mark.parametrize(
    ("paper", "table", "of", "other", "models"),
    [
        ("biomegatron", 1, "BioBERT (110m, BERT-cased)", ("pubmedbert", 6, "BioBERT cased"), 4),
        (
            "biomegatron",
            1,
            "PubMedBERT (110m, PubMedBERT-uncased (30k))",
            ("pubmedbert", 6, "PubMedBERT uncased"),
            4,
        ),
        (
            "biomegatron",
            5,
            "Megatron-1.2b (5 * 10^5 steps)",
            ("biomegatron", 1, "BioMegatron (1.2b, BERT-uncased)"),
            3,
        ),
    ],
)
def test_where_two_tables_disagree_a_note_has_the_other_figure(paper, table, of, other, models):
    others = scores_of(*other[:2])[other[2]]
    shared = {x: y for x, y in scores_of(paper, table)[of].items() if x in others}
    assert len(shared) == models
    for data_set, cell in shared.items():
        assert cell.score != others[data_set].score and others[data_set].score in cell.note


@pytest.mark.parametrize(
    ("model", "others", "data_sets"),
    [
        ("SciBERT", ("pubmedbert", 6, "SciBERT uncased"), 7),
        ("BioBERT", ("pubmedbert", 6, "BioBERT cased"), 7),
        ("Clinical-BERT", ("pubmedbert", 6, "ClinicalBERT cased"), 7),
        ("BioBERT", ("bioelectra", 3, "BioBERT cased (P)"), 2),
        ("Clinical-BERT", ("bioelectra", 3, "ClinicalBERT cased (W+P+M)"), 2),
    ],
)
def test_where_bio_lm_and_another_paper_disagree_a_note_says_so(model, others, data_sets):
    paper, table, name = others
    theirs = scores_of(paper, table)[name]
    shared = {x: y for x, y in scores_of("bio_lm", 2)[model].items() if x in theirs}
    assert len(shared) == data_sets
    for data_set, cell in shared.items():
        assert abs(float(cell.score) - float(theirs[data_set].score)) > 0.05
        assert f"{published_tables.source(paper, table)}, have another figure" in cell.note


def test_times_of_fine_tuning_have_these_ratios():
    """BioM's Table 3: 31:15 is 3.70 times as long as 08:27, not 3.67."""
    rows = lines_of("biom", 3)

    def seconds(model):
        minutes, rest = rows[model][1].split(":")
        return 60 * int(minutes) + int(rest)

    large = seconds("BioM-ELECTRA L")
    for model, (_, _, printed) in rows.items():
        ratio = f"{seconds(model) / large:.2f}"
        cell = cell_at("biom", 3, model, "Ratio")
        assert f"{ratio}x" == printed or ratio in cell.note


# Typed from the papers: a table without scores, its header, and one of its rows.
OTHER_TABLES = {
    "bioelectra": [],
    "pubmedbert": [],
    "biom": [
        (
            "Alrowili and Vijay-Shanker (2021), Table 1: ",
            ["Model", "Steps", "Batch", "C", "Corpus", "Vocabulary"],
            ["SciBERT Base", "-", "-", "-", "Semantic Scholar", "30K PMC+CS"],
        ),
        (
            "Alrowili and Vijay-Shanker (2021), Table 3: ",
            ["Model", "H", "Time", "Ratio"],
            ["BioM-ELECTRA L", "1024", "08:27", "1.00x"],
        ),
    ],
    "bio_lm": [
        (
            "Lewis et al. (2020), Table 4: ",
            ["Task group", "Tasks in group"],
            ["Clinical", "I2B2-2010, I2B2-2012, I2B2-2014, I2B2-2010-RE, MedNLI"],
        ),
    ],
    "biomegatron": [
        (
            "Shin et al. (2020), Table 3: ",
            ["Sub-word vocabulary", "BC5-chem", "BC5-disease"],
            ["PubMedBERT-uncased (30k)", "1.654", "1.236"],
        ),
        (
            "Shin et al. (2020), Table 8: ",
            ["Task", "Dataset", "# Samples", "Bias %"],
            ["CLS", "ChemProt", "19461", "0.27"],
        ),
        (
            "Shin et al. (2020), Table 9: ",
            ["Model", "PubMed Corpus", "#Words"],
            ["BioMegatron", "abstracts + full-text-CC", "6.1 billion"],
        ),
    ],
}


@pytest.mark.parametrize("paper", OTHER_TABLES)
def test_tables_without_scores_are_as_printed(paper):
    assert list(OTHER_TABLES) == list(published_tables.PAPERS)
    tables = published_tables.tables_without_scores(paper)
    for table, (title, header, row) in zip(tables, OTHER_TABLES[paper], strict=True):
        assert table.title.startswith(title)
        assert table.header == header and row in table.rows


def test_tables_without_scores_have_their_notes():
    choices, times = published_tables.tables_without_scores("biom")
    assert (
        choices.notes[2]
        == "C of BioM-ELECTRA Large: 434,000 steps give 1.736, which is 1.74 rounded."
    )
    assert times.notes[0].startswith("3 epochs with batches of 32 and at most 128 tokens, ")
    assert times.notes[2] == "Ratio of BioM-ALBERT xxlarge: 31:15 / 08:27 is 3.70."
    _, bias, _ = published_tables.tables_without_scores("biomegatron")
    assert bias.notes[0] == "Bias %: A ratio, no percentage."


def test_a_report_prints_the_tables_without_scores_of_its_paper(drawn, tmp_path):
    (tmp_path / "run").mkdir()
    write_scores(tmp_path / "run", [{"test": {"f1": 0.5}}], task="another")
    pages = {}
    for paper in ("", "biom", "biomegatron"):
        path = report.write_report([f"{tmp_path}/run"], f"{tmp_path}/{paper}_report", paper=paper)
        pages[paper] = path.read_text("utf-8")
        html = path.with_name("report.html").read_text("utf-8")
        assert ("<td>08:27</td>" in html) == (paper == "biom")
        assert ("<td>4.5 billion</td>" in html) == (paper == "biomegatron")
        assert "08:27" not in path.with_name("report.tex").read_text("utf-8")
    title = "## Alrowili and Vijay-Shanker (2021), Table 3: Time of fine-tuning on ChemProt"
    head = "| Model | H | Time | Ratio |\n| --- | ---: | ---: | ---: |"
    assert f"{title}\n\n{head}\n| BioM-ELECTRA B | 768 | 03:01 | 0.35x |\n" in pages["biom"]
    assert pages["biom"].index("## Our runs") < pages["biom"].index(title)
    assert "Table 9: Texts of pretraining" in pages["biomegatron"]
    assert "Vijay-Shanker (2021), Table" not in pages[""] + pages["biomegatron"]
