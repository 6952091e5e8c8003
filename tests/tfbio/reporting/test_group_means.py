"""The means over bio-lm's groups of tasks, against those that the paper prints."""

import pytest

from tfbio.reporting import group_means, published, results

# Lewis et al. (2020), Table 2: means that its cells, which are rounded, do not give.
OTHERS = {("RoBERTa-base", "PubMed"): "81.2", ("bio-lm base", "Clinical"): "85.0"}


def of_table_2():
    return [x for x in published.models_of("bio_lm") if x.source == "Lewis et al. (2020), Table 2"]


def test_the_large_models_means_are_the_printed_ones():
    """Typed from the paper's Table 3, row 8, and its cells from Table 2."""
    cells = {
        "BC5-chem": 93.7, "BC5-disease": 85.2, "JNLPBA": 81.0, "NCBI-disease": 89.0,
        "BC4CHEMD": 93.7, "BC2GM": 88.0, "LINNAEUS": 88.4, "Species-800": 81.1,
        "i2b2-2010, entities": 89.7, "i2b2-2012": 80.8, "i2b2-2014": 96.3, "HoC, BLUE's F1": 86.6,
        "ChemProt": 76.2, "GAD, median of folds 2 to 10": 81.1,
        "EU-ADR, median of folds 2 to 10": 85.0, "DDI": 82.1, "i2b2-2010": 78.6, "MedNLI": 88.5,
    }  # fmt: skip
    means = {name: f"{mean:.1f}" for name, mean in group_means.group_means(cells).items()}
    assert means == {
        "Clinical": "86.8",
        "PubMed": "85.5",
        "Seq. Lab.": "87.9",
        "Classif.": "82.6",
        "All": "85.8",
    }
    (large,) = (model for model in of_table_2() if model.name == "bio-lm large")
    assert {title: float(score) for title, score in large.figures.items()} == cells


def test_every_models_means_are_those_of_its_cells():
    models = of_table_2()
    assert len(models) == 8
    for model in models:
        figures = {title: float(score) for title, score in model.figures.items()}
        for name, mean in group_means.group_means(figures).items():
            computed = f"{mean:.1f}"
            assert OTHERS.get((model.name, name), model.means[name]) == computed
            assert computed == model.means[name] or computed in model.notes[name]


def test_a_group_that_lacks_a_data_set_has_no_mean():
    figures = dict.fromkeys(group_means.groups()["Clinical"], 80.0) | {"i2b2-2012": 85.0}
    assert group_means.group_means(figures) == {"Clinical": 81}
    del figures["MedNLI"]
    assert group_means.group_means(figures) == {}


@pytest.fixture
def clinical():
    """Makes our runs of the clinical tasks, the i-th of a score of i tenths."""
    columns = {column.title: column for column in (*published.BLUE, *published.OTHERS)}
    runs = {}
    for i, title in enumerate(group_means.groups()["Clinical"]):
        task, metric = columns[title].task, columns[title].metric
        runs[task] = results.Run("", "ours", task, metric, [{metric: i / 10}], [])
    return runs


def test_our_means_stand_below_the_papers(clinical):
    table = group_means.means_table({"ours": clinical}, published.models_of("bio_lm"))
    assert table.header == ["model", "Clinical", "PubMed", "Seq. Lab.", "Classif.", "All"]
    assert table.rows[-1] == ["ours", "20.00", "", "", "", ""]
    assert table.rows[7] == ["bio-lm large", "86.8", "85.5", "87.9", "82.6", "85.8"]
    assert table.above == len(table.rows) - 1 == 8 + 5 + 3
    assert "PubMed of RoBERTa-base: The cells give 81.2 (81.154)." in table.notes
    clinical.pop("mednli")
    assert group_means.means_table({"ours": clinical}, published.models_of("bio_lm")) is None


def test_gad_and_eu_adr_count_by_the_median_of_nine_folds():
    """And the others by their mean; here the first fold is far off, and one more."""
    titles = group_means.groups()["Classif."]
    columns = {column.title: column for column in (*published.BLURB, *published.BLUE)}
    columns |= {column.title: column for column in published.OTHERS}
    runs = {}
    for title in titles:
        task, metric = columns[title].task, columns[title].metric
        values = [0.0, *[0.5] * 8, 0.9] if columns[title].of_others else [0.4, 0.6]
        runs[task] = results.Run("", "ours", task, metric, [{metric: x} for x in values], [])
    assert sum(columns[title].of_others for title in titles) == 2
    table = group_means.means_table({"ours": runs}, [])
    assert table.rows == [["ours", "", "", "", "50.00", ""]]
