"""The published sizes are those of the papers, and of BLURB's files as the tasks read them."""

import pytest

from data_prep.corpora import published_counts
from tests import reference

# Gu et al. (2021), Table 3, has other figures for these.
OTHERS = {"ddi": "22233\t5559\t5716", "gad": "4261\t534\t535"}
NAMES = {
    "bc5cdr_chem": "BC5-chem",
    "bc5cdr_disease": "BC5-disease",
    "ncbi_disease": "NCBI-disease",
    "ebm_pico": "EBM PICO",
    "chemprot": "ChemProt",
    "hoc": "HoC",
    "pubmedqa": "PubMedQA",
    "bioasq": "BioASQ",
}


def test_the_sizes_are_those_of_bioelectras_table():
    """In the paper's text the figures of a column stand below each other."""
    text = reference.paper("bioelectra.txt")
    for task, (_, counts) in published_counts.PUBLISHED.items():
        for number in counts:
            assert f"\n{number}\n" in text, (task, number)


def test_blurbs_own_table_differs_where_the_comment_says_so():
    text = reference.paper("pubmedbert_blurb.txt")
    for task, (_, counts) in published_counts.PUBLISHED.items():
        row = "\t".join(map(str, counts))
        name = NAMES.get(task, task.upper())
        ours = any(line.startswith(f"{name}\t") and row in line for line in text.split("\n"))
        assert ours == (task not in OTHERS), task
        assert task in OTHERS and OTHERS[task] in text or ours


ROWS = {
    "bc5cdr_disease": [("x", "B"), ("y", "I"), ("",), ("z", "B")],
    "ebm_pico": [("-DOCSTART- (1)",), ("",), ("x", "I-PAR"), ("y", "O")],
    "gad": [("index", "sentence", "label"), ("0", "x", "1")],
    "hoc": [("labels", "sentence", "index"), ("0_0", "x", "7_s0"), ("0_0", "y", "7_s1")],
    "ddi": [("id", "x", "DDI-false")],
}


@pytest.mark.parametrize(
    "task, expected",
    [("bc5cdr_disease", 2), ("ebm_pico", 1), ("gad", 1), ("hoc", 1), ("ddi", 1)],
)
def test_each_unit_is_counted(task, expected):
    assert published_counts.count(task, ROWS[task]) == expected


def test_a_difference_is_said_with_its_reason_if_there_is_one():
    sizes = {"train": 4182, "dev": 4246, "test": 4423}
    splits = {split: [("x", "B")] * size for split, size in sizes.items()}
    said, wrong = published_counts.compare("bc5cdr_disease", splits)
    assert wrong == said[2:]
    assert said[0] == f"train: 4,182 mentions, as published ({published_counts.SOURCE})"
    assert said[1].startswith("dev: 4,246 mentions, 2 more than the published 4,244 (")
    assert said[1].endswith(
        'the end of a sentence parts "St. Anthony\'s fire" twice, and both count'
    )
    assert "1 fewer than the published 4,424" in said[2]
    assert said[2].endswith("the reason is not known")
    # The size of BLURB's own file is not wrong, nor is the published one.
    splits["test"] = [("x", "B")] * 4424
    assert published_counts.compare("bc5cdr_disease", splits)[1] == []
    splits["dev"] = splits["dev"][:4244]
    assert published_counts.compare("bc5cdr_disease", splits)[1] == []
