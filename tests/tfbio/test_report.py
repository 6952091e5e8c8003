"""The report, on folders made by hand, whose scores can be worked out on paper."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.run_files import write_scores, write_settings
from tfbio import report
from tfbio.formats.task_examples import LabelledText
from tfbio.reporting import drawing, results, test_sets
from tfbio.reporting.grouping import GroupingError

ROOT = Path(__file__).parents[2]
HEADER = "id\tlabel\tpredicted\ttext"
CELL, ANGIO = "resisting cell death", "inducing angiogenesis"
# Task -> metric, its value, another value of bio-lm's, test_predictions.tsv.
RUNS = {
    # One of three predicted entities is one of the two that are true: 2 / 5.
    "bc5cdr_chem": (
        "f1",
        0.4,
        {},
        ["aspirin\tB\tB", "helps\tO\tO", "", "acetic\tB\tB", "acid\tI\tO", "burns\tO\tB", ""],
    ),
    # F1 1, 0 and 1.
    "ebm_pico": (
        "macro_f1",
        2 / 3,
        {},
        ["adults\tI-PAR\tI-PAR", "aspirin\tI-INT\tO", "pain\tI-OUT\tI-OUT", ""],
    ),
    # One of two, and one of two.
    "chemprot": (
        "f1",
        0.5,
        {},
        [HEADER, "1\tCPR:3\tCPR:3\ta", "2\tfalse\tCPR:4\tb", "3\tCPR:4\tfalse\tc"],
    ),
    # Documents: one right, two predicted, two true. The means of precision and recall are 1/4, 1/2.
    "hoc": (
        "micro_f1",
        0.5,
        {"blue_f1": 1 / 3},
        [HEADER, f"A\t{CELL}\t{CELL}\ta", f"A\t\t{ANGIO}\tb", f"B\t{ANGIO}\t\tc"],
    ),
    # Ranks that differ by 0, 1, 1 and 0: 1 - 6 * 2 / (4 * 15).
    "biosses": (
        "pearson",
        0.8,
        {},
        [HEADER + "\tpair"]
        + [f"{i}\t{i}.0\t{x}.0\ta\tb" for i, x in enumerate((0, 2, 1, 3))],
    ),
    "bioasq": (
        "accuracy",
        0.75,
        {},
        [HEADER + "\tpair"]
        + [f"{i}\tyes\t{x}\ta\tb" for i, x in enumerate(("yes", "yes", "no", "yes"))],
    ),
    "sentence_roles": (
        "accuracy",
        0.5,
        {},
        [HEADER, "1\tmethods\tmethods\ta", "2\tresults\tmethods\tb"],
    ),
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    """Writes a run of one task: the predictions above, and those of another seed, all right."""

    def folder(task, init="work/ours", perfect=(False, True), name=""):
        metric, value, others, lines = RUNS[task]
        path, trials = tmp_path / (name or Path(init).name) / task, []
        for seed, right in enumerate(perfect):
            own = lines
            if right and lines[0].startswith("id\t"):
                cells = [line.split("\t") for line in lines[1:]]
                own = [lines[0], *("\t".join([a, b, b, *rest]) for a, b, _, *rest in cells)]
            elif right:
                own = [re.sub(r"\t(\S+)\t\S+$", r"\t\1\t\1", line) for line in lines]
            (path / f"trial_{seed}").mkdir(parents=True)
            (path / f"trial_{seed}" / "test_predictions.tsv").write_text("\n".join(own) + "\n")
            test = {metric: 1.0 if right else value} | {
                other: 1.0 if right else figure for other, figure in others.items()
            }
            trials.append({"seed": seed, "test": test})
        write_scores(path, trials, task=task, metric=metric, init=init)
        return str(path)

    return folder


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(results, "SAMPLES", 100)


@pytest.fixture(autouse=True)
def pictures(monkeypatch):
    """Figures are not drawn, which takes the longest; the fixture gives what draws them."""
    real = drawing.save
    monkeypatch.setattr(
        drawing, "save", lambda figure, _, name, title: drawing.Drawing(name, title, "", 3.5)
    )

    def draw():
        monkeypatch.setattr(drawing, "save", real)
        # With few dots, in a fraction of the time.
        monkeypatch.setitem(drawing._STYLE, "figure.dpi", 40)

    return draw


@pytest.fixture(autouse=True)
def as_published(monkeypatch):
    """The few examples of a run pass for the published ones; the fixture gives what does not."""
    real = test_sets.compare
    monkeypatch.setattr(test_sets, "compare", lambda *_: test_sets.Match())
    return lambda: monkeypatch.setattr(test_sets, "compare", real)


def read_csv(folder):
    with open(folder / "report.csv", newline="") as file:
        return list(csv.DictReader(file))


def read_runs(folder):
    """The rows of report.csv that are of runs."""
    return [row for row in read_csv(folder) if row["seeds"]]


def chemical(row):
    """True if a row of errors.csv is of BC5-chem."""
    return row["data_set"] == "BC5-chem" and "Chemical" in (row["true"], row["predicted"])


def test_the_figures_are_those_of_the_runs(write, pictures, tmp_path):
    pictures()
    for task in RUNS:
        write(task)
    path = report.write_report([f"{tmp_path}/ours/*"], str(tmp_path / "report"))
    drawn = ["report", "errors_bc5_chem", "errors_ebm_pico"]
    drawn += [f"confusion_{x}" for x in ("ebm_pico", "chemprot", "hoc", "bioasq", "sentence_roles")]
    names = [f"report.{ending}" for ending in ("csv", "html", "md", "tex")] + ["errors.csv"]
    names += [f"{name}.{ending}" for name in drawn for ending in ("png", "pdf")]
    assert sorted(file.name for file in path.parent.iterdir()) == sorted(names)
    for name in drawn:
        assert f"]({name}.png)" in path.read_text(encoding="utf-8")
        assert path.with_name(f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert path.with_name(f"{name}.pdf").read_bytes().startswith(b"%PDF")
    page = path.with_name("report.html").read_text(encoding="utf-8")
    assert page.count("<img ") == len(drawn) and "<td>83.33</td>" in page
    # Of two seeds the second is all right: the chemicals are found 1 + 2 times, and once in part.
    with open(path.with_name("errors.csv"), newline="") as file:
        errors = {(x["kind"], x["length"]): x["count"] for x in csv.DictReader(file) if chemical(x)}
    assert errors == {
        **{("right", "1"): "2", ("right", "2"): "1"},
        **{("wrong boundaries", "2"): "1", ("spurious", "1"): "1"},
    }
    rows = read_csv(path.parent)
    for task, (metric, value, others, _) in RUNS.items():
        for name, figure in {metric: value, **others}.items():
            (row,) = (
                x for x in rows if (x["model"], x["task"], x["metric"]) == ("ours", task, name)
            )
            both = [100 * figure, 100.0]
            assert float(row["figure"]) == pytest.approx(np.mean(both)), (task, name)
            assert float(row["median"]) == pytest.approx(np.mean(both)), (task, name)
            # Of two numbers the sample's deviation is their difference / sqrt(2).
            assert float(row["std"]) == pytest.approx((100 - 100 * figure) / np.sqrt(2)), (
                task,
                name,
            )
            assert [float(x) for x in row["values"].split()] == pytest.approx(both), (task, name)
            assert row["seeds"] == "2" and row["source"] == f"{tmp_path}/ours/{task}", name
            if name == metric:
                assert float(row["low"]) <= float(row["figure"]) <= float(row["high"]), (task, name)
    assert {"model": "BioBERT", "data_set": "BC5-chem", "figure": "92.85"}.items() <= next(
        row for row in rows if row["model"] == "BioBERT"
    ).items()
    text = path.read_text(encoding="utf-8")
    assert "| model | BC5-chem | EBM PICO | ChemProt | BIOSSES | HoC | BioASQ |\n" in text
    assert "| ours | 70.00 | 83.33 | 75.00 | 90.00 | 75.00 | 87.50 |\n" in text
    assert "| trivial | 0.00 | 0.00 | 40.00 | 0.00 | 50.00 | 100.00 |\n" in text
    assert (
        "- ours has no BLURB score: BC5-disease, NCBI-disease, BC2GM, JNLPBA, DDI, GAD, PubMedQA "
        "missing." in text
    )
    assert "| bio-lm large | 86.6 |  |\n| trivial | " in text
    assert "| ours | 66.67 | 75.00 |" in text
    assert "## BLUE" not in text


def test_all_models_of_one_paper_stand_beside_the_runs(write, tmp_path):
    for task in ("bc5cdr_chem", "chemprot"):
        write(task)
    output = tmp_path / "report"
    path = report.write_report([f"{tmp_path}/ours/*"], str(output), paper="biom")
    text = path.read_text(encoding="utf-8")
    # Alrowili and Vijay-Shanker (2021), Table 2.
    assert "| RoBERTa B | 89.4 | 73.0 |\n" in text
    assert "| BioM-BERT L 100K |  | 78.8 |\n" in text
    assert "BioELECTRA" not in text and "bio-lm" not in text
    assert (
        "- BC5-chem of BioBERT B: Said to be from Gu et al. (2021), whose Table 6 has 92.85."
        in text
    )
    papers = [row for row in read_csv(output) if row["source"].startswith("Alrowili")]
    assert [row["data_set"] for row in papers] == ["BC5-chem"] * 14 + ["ChemProt"] * 18
    assert not [row for row in read_csv(output) if row["source"].startswith("Gu et al.")]


def test_the_mean_over_clinical_tasks_stands_beside_bio_lms(write, monkeypatch, tmp_path):
    f1, _, _, words = RUNS["bc5cdr_chem"]
    for task, entity in (
        ("i2b2_2010_ner", "problem"),
        ("i2b2_2012", "PROBLEM"),
        ("i2b2_2014", "DATE"),
    ):
        typed = [re.sub(r"\t([BI])", rf"\t\1-{entity}", line) for line in words]
        monkeypatch.setitem(RUNS, task, (f1, 0.4, {}, typed))
    pairs = [HEADER, "1\tPIP\tPIP\ta", "2\tfalse\tTeCP\tb", "3\tTeCP\tfalse\tc"]
    monkeypatch.setitem(RUNS, "i2b2_2010_re", (f1, 0.5, {}, pairs))
    texts = [f"{HEADER}\tpair", "1\tneutral\tneutral\ta\tb", "2\tneutral\tentailment\ta\tb"]
    monkeypatch.setitem(RUNS, "mednli", ("accuracy", 0.5, {}, texts))
    for task in list(RUNS)[-5:]:
        write(task, perfect=(False,))
    path = report.write_report([f"{tmp_path}/ours/*"], str(tmp_path / "report"), paper="bio_lm")
    text = path.read_text(encoding="utf-8")
    assert "| model | Clinical | PubMed | Seq. Lab. | Classif. | All |\n" in text
    # Lewis et al. (2020), Tables 3 and 6; ours is (3 x 40 + 2 x 50) / 5.
    assert "| RoBERTa-large (+PM+M3) | 85.7 | 85.1 | 87.3 | 82.1 | 85.3 |\n" in text
    assert "| bio-lm base (distilled, aligned) | 85.2 | 84.9 | 86.9 | 81.9 | 85.0 |\n" in text
    assert "| ours | 44.00 |  |  |  |  |\n" in text


def test_a_run_of_pretraining_and_what_it_was_worth(write, tmp_path):
    """The demo's report: a task of which no paper has a figure."""
    folder, scratch = write("sentence_roles"), write("sentence_roles", "random weights", (False,))
    for split in ("train", "heldout"):
        with tf.summary.create_file_writer(str(tmp_path / "model" / "logs" / split)).as_default():
            tf.summary.scalar("loss", 8.25, step=2)
    output = tmp_path / "report"
    path = report.write_report([folder], str(output), [scratch], str(tmp_path / "model"))
    text = path.read_text("utf-8")
    assert "| loss | 8.2500 | 8.2500 |" in text
    assert "## BLURB" not in text and "BioBERT" not in (output / "report.csv").read_text()
    assert (
        "| model | sentence_roles |\n| --- | ---: |\n| trivial | 50.00 |\n| ours | 75.00 |" in text
    )
    assert "| sentence_roles | random weights | accuracy | 50.00 |  | 50.00 | 1 |" in text
    assert "](pretraining.png)" in text


def test_runs_are_compared_with_the_baseline_of_their_task(write, tmp_path, capsys):
    for task in ("hoc", "bioasq"):
        write(task, perfect=(True, True))
    base = write("bioasq", "random weights", (False,))
    twice = [f"scratch={base}", f"{base}/"]  # counts once
    path = report.write_report([f"{tmp_path}/*/*"], str(tmp_path / "report"), twice)
    rows = {(row["model"], row["data_set"]): row for row in read_csv(path.parent)}
    assert "random weights" not in {model for model, _ in rows}
    assert rows["ours", "BioASQ"]["baseline"] == "scratch"
    assert float(rows["ours", "BioASQ"]["difference"]) == 25
    assert 0 < float(rows["ours", "BioASQ"]["p"]) <= 1
    assert not rows["ours", "HoC"]["baseline"] and not rows["scratch", "BioASQ"]["baseline"]
    assert "| 100.00 to 100.00 | scratch | +25.00 |" in path.read_text("utf-8")
    with pytest.raises(report.ReportError, match="more than one --baseline"):
        report.write_report([base], str(tmp_path / "report"), [base, f"{tmp_path}/ours/bioasq"])
    assert "is compared with nothing" not in capsys.readouterr().out
    report.write_report([f"{tmp_path}/ours/hoc"], str(tmp_path / "report"), [base])
    assert f"{base}, a --baseline, is compared with nothing: no run is of bioasq.\n" in (
        capsys.readouterr().out
    )


@pytest.fixture
def own_data(write):
    """Writes a run of `--task=classification` on data in a folder of the user's."""

    def folder(data_dir, name, **settings):
        path = Path(write("sentence_roles", name=name))
        scores = json.loads((path / "scores.json").read_text())
        (path / "scores.json").write_text(json.dumps(scores | {"task": "classification"}))
        write_settings(path, data_set=data_dir, **settings)
        return str(path)

    return folder


def test_data_of_ones_own_have_columns_of_their_own(own_data, tmp_path):
    """Three data sets under one --task, two of them in a folder of the same name; one model."""
    for name, data_dir in enumerate(("/x/roles/data", "/x/notes/data", "/x/my_50%")):
        own_data(data_dir, str(name), data_sha256={"test": data_dir})
    moved = own_data("/elsewhere/data", "moved", data_sha256={"test": "/x/notes/data"})
    pattern = f"{tmp_path}/*/sentence_roles"
    path = report.write_report([pattern], str(tmp_path / "report"), [f"base={moved}"])
    names = [f"{end} (classification)" for end in ("roles/data", "notes/data", "my_50%")]
    text = path.read_text()
    assert f"| model | {' | '.join(names)} |" in text
    rows = read_runs(path.parent)
    assert [(row["data_set"], row["model"]) for row in rows] == [
        (names[0], "ours"),
        (names[1], "ours"),
        (names[1], "base"),
        (names[2], "ours"),
    ]
    # The baseline's data are known by what is in them.
    assert [row["baseline"] for row in rows] == ["", "base", "", ""]
    assert r"my\_50\% (classification)" in (path.parent / "report.tex").read_text()


def test_answers_in_spans_have_intervals_of_both_figures(tmp_path):
    """Three of four questions found in one run, two in the other."""
    for name, found in (("ours", "abxd"), ("base", "axxd")):
        trial = tmp_path / name / "trial_0"
        trial.mkdir(parents=True)
        lines = [
            {"id": gold, "question_id": "", "question": "?"}
            | {"gold": [f"{gold} word"], "null_odds": 0.0}
            | {"predicted": [{"text": f"{text} word", "probability": 1.0}]}
            for gold, text in zip("bcde", found.translate(str.maketrans("abd", "bce")), strict=True)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (trial / "test_answers.jsonl").write_text(text)
        right = sum(line["gold"][0] == line["predicted"][0]["text"] for line in lines)
        test = {"f1": (right + (4 - right) / 2) / 4, "exact_match": right / 4}
        write_scores(tmp_path / name, [{"seed": 0, "test": test}], task="squad_v2", init=name)
    path = report.write_report(
        [str(tmp_path / "ours")], str(tmp_path / "report"), [str(tmp_path / "base")]
    )
    rows = {(x["model"], x["data_set"]): x for x in read_csv(path.parent) if x["seeds"]}
    f1, exact = (rows["ours", f"SQuAD v2.0{x}"] for x in ("", ", exact match"))
    assert [float(x["figure"]) for x in (f1, exact)] == [87.5, 75]
    assert [float(x["difference"]) for x in (f1, exact)] == [12.5, 25]
    for row in (f1, exact):
        assert float(row["low"]) < float(row["figure"]) <= float(row["high"])
        assert 0 < float(row["p"]) <= 1


# --- Test sets that are not the published ones, folds, and one answer to all ----------------------


def table_of(folder, title):
    """A table of report.md: its heading's names, and the rows by their first cells."""
    text = (folder / "report.md").read_text("utf-8")
    lines = text[text.index(f"## {title}\n") :].split("\n\n")[1].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return cells[0], {row[0]: row[1:] for row in cells[2:]}


def test_a_cut_test_set_stands_apart_from_published_figures(write, as_published, tmp_path):
    """Its figures are in none of BLURB's columns, nor in its score; two of them are told apart."""
    as_published()
    for task in ("bioasq", "biosses"):
        write(task)
    other = Path(write("bioasq", "work/theirs"))
    for trial in other.iterdir():
        if trial.is_dir():
            file = trial / "test_predictions.tsv"
            file.write_text(file.read_text().replace("\tb\n", "\tc\n"))
    path = report.write_report([f"{tmp_path}/ours/*", str(other)], str(tmp_path / "report"))
    text = path.read_text("utf-8")
    assert "## BLURB" not in text
    header, rows = table_of(path.parent, "Other tasks and test sets")
    cut, pairs = (
        f"{name}, 4 test examples, not the published {number}"
        for name, number in (("BioASQ", 140), ("BIOSSES", 20))
    )
    assert header[1:3] == [cut, pairs]
    assert re.fullmatch(rf"{cut} \([0-9a-f]{{4}}\)", header[3])
    assert rows["ours"] == ["87.50", "90.00", ""] and rows["theirs"] == ["", "", "87.50"]
    assert rows.keys() == {"trivial", "ours", "theirs"}
    assert f"- Not the published test sets, whose figures differ: {cut}; {pairs}; {cut} (" in text
    for row in read_runs(path.parent):
        assert row["test_set"] in (cut.partition(", ")[2], pairs.partition(", ")[2])
        assert row["task"] in ("bioasq", "biosses")


@pytest.fixture
def folds(tmp_path, monkeypatch):
    """Ten runs on made-up folds of GAD, or of EU-ADR, of ten texts each, with two seeds."""

    def write(task, model, right, numbers=range(1, 11)):
        table = {}
        for number in range(1, 11):
            labels = ["1"] * 6 + ["0"] * 4
            texts = [f"@GENE$ {number} {i} @DISEASE$" for i in range(10)]
            examples = [
                LabelledText(str(i), text, label)
                for i, (text, label) in enumerate(zip(texts, labels, strict=True))
            ]
            table[f"fold {number}"] = test_sets.describe(task, examples)
            if number not in numbers:
                continue
            folder, trials = tmp_path / model / f"{task}_{number}", []
            for seed in range(2):
                # Of the six that are positive so many are found, and nothing else.
                found = ["1" if i < right(number, seed) else "0" for i in range(10)]
                rows = ["\t".join(x) for x in zip("0123456789", labels, found, texts, strict=True)]
                (folder / f"trial_{seed}").mkdir(parents=True)
                file = folder / f"trial_{seed}" / "test_predictions.tsv"
                file.write_text("\n".join([HEADER, *rows]) + "\n")
                f1 = 2 * right(number, seed) / (right(number, seed) + 6)
                dev = {"f1": number / 20}
                trials.append({"seed": seed, "test": {"f1": f1}, "dev": dev})
            write_scores(folder, trials, task=task, init=model)
        monkeypatch.setattr(test_sets, "published", lambda: {task: table})
        return f"{tmp_path}/{model}/{task}_*"

    return write


@pytest.mark.parametrize("task", ["gad", "euadr"])
def test_ten_folds_are_one_row(task, folds, as_published, tmp_path):
    as_published()
    runs = folds(task, "ours", lambda number, seed: 6 - (number + seed) % 3)
    base = folds(task, "scratch", lambda number, seed: 2)
    path = report.write_report([runs], str(tmp_path / "report"), [base])
    f1 = [
        np.mean([200 * x / (x + 6) for x in (6 - number % 3, 6 - (number + 1) % 3)])
        for number in range(1, 11)
    ]
    name = {"gad": "GAD", "euadr": "EU-ADR"}[task]
    ten, nine = f"{name}, ten folds", f"{name}, median of folds 2 to 10"
    rows = {(row["model"], row["data_set"]): row for row in read_runs(path.parent)}
    row = rows["ours", ten]
    assert (row["folds"], row["seeds"], row["task"]) == ("10", "2", task)
    assert [float(x) for x in row["values"].split()] == pytest.approx(f1)
    assert float(row["figure"]) == pytest.approx(np.mean(f1))
    assert float(row["std"]) == pytest.approx(np.std(f1, ddof=1))
    assert float(row["median"]) == pytest.approx(np.median(f1))
    assert float(row["dev"]) == pytest.approx(100 * np.mean(np.arange(1, 11) / 20))
    assert float(row["low"]) < float(row["figure"]) < float(row["high"])
    assert float(row["difference"]) == pytest.approx(np.mean(f1) - 50) and row["p"]
    assert float(rows["ours", nine]["figure"]) == pytest.approx(np.median(f1[1:]))
    assert rows["ours", nine]["folds"] == "9" and not rows["ours", nine]["low"]
    assert float(rows["ours", nine]["std"]) == pytest.approx(np.std(f1[1:], ddof=1))
    # BLURB's GAD is the first fold.
    assert (("ours", "GAD") in rows) == (task == "gad")
    header, shown = table_of(path.parent, "Other tasks and test sets")
    assert header == ["model", ten, nine]
    assert shown["bio-lm large"] == ["", {"gad": "81.1", "euadr": "85.0"}[task]]
    # All positive: 2 * 6 / (10 + 6).
    assert shown["trivial"] == ["75.00", "75.00"]
    assert shown["ours"] == [f"{np.mean(f1):.2f}", f"{np.median(f1[1:]):.2f}"]
    header, shown = table_of(path.parent, "Our runs")
    assert shown[ten][header.index("seeds") - 1] == "10 folds x 2"
    place = header.index("median of folds 2 to 10")
    assert header[place : place + 3] == ["median of folds 2 to 10", "their mean", "their SD"]
    lines = (path.parent / "report.md").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"| {ten} | ours |"))
    assert not any(line.startswith(f"| {nine} | ours |") for line in lines)
    of_nine = (np.median(f1[1:]), np.mean(f1[1:]), np.std(f1[1:], ddof=1))
    assert line.split(" | ")[place : place + 3] == [f"{x:.2f}" for x in of_nine]


def test_some_folds_are_no_published_test_set(folds, as_published, tmp_path):
    as_published()
    runs = folds("euadr", "ours", lambda *_: 3, numbers=(2, 5))
    path = report.write_report([runs], str(tmp_path / "report"))
    header, rows = table_of(path.parent, "Other tasks and test sets")
    assert header == ["model", "EU-ADR, folds 2, 5 of 10"] and rows["ours"] == ["66.67"]
    alone = report.write_report([runs.replace("*", "5")], str(tmp_path / "report"))
    header, rows = table_of(alone.parent, "Other tasks and test sets")
    assert header == ["model", "EU-ADR, fold 5 of 10"]
    with pytest.raises(GroupingError, match="are both fold 5 of euadr of 'x'"):
        other = folds("euadr", "theirs", lambda *_: 3, numbers=(5,))
        report.write_report([f"x={runs}", f"x={other}"], str(tmp_path / "report"))


def test_no_column_is_empty_and_all_files_have_the_same_figures(write, tmp_path):
    folder = Path(write("bioasq", perfect=(False,)))
    path = report.write_report([str(folder)], str(tmp_path / "report"))
    assert table_of(path.parent, "Our runs")[0] == [
        "data set", "model", "metric", "mean", "median", "seeds", "95 % interval",
    ]  # fmt: skip
    scores = json.loads((folder / "scores.json").read_text())
    scores["trials"][0]["dev"] = {"accuracy": 0.25}
    (folder / "scores.json").write_text(json.dumps(scores))
    path = report.write_report([str(folder)], str(tmp_path / "report"))
    header, rows = table_of(path.parent, "Our runs")
    assert header.index("dev") == header.index("mean") - 1 and "25.00" in rows["BioASQ"]
    assert "a part alone" not in path.read_text()
    scores["examples"] = {"dev": [4, 1000], "test": [4, 4]}
    (folder / "scores.json").write_text(json.dumps(scores))
    path = report.write_report([str(folder)], str(tmp_path / "report"))
    assert "a part alone was scored: BioASQ, ours: 4 of 1,000.\n" in path.read_text()
    latex = (path.parent / "report.tex").read_text()
    for title in ("BLURB", "Our runs"):
        header, rows = table_of(path.parent, title)
        for name, cells in rows.items():
            assert f"{name} & {' & '.join(cells)} \\\\\n" in latex
            assert not [i for i in range(len(cells)) if not any(row[i] for row in rows.values())]
    (row,) = read_runs(path.parent)
    assert (row["dev"], row["dev_set"], row["figure"]) == ("25.0", "4 of 1,000", "75.0")
    (row,) = (row for row in read_csv(path.parent) if row["model"] == "trivial")
    assert (row["figure"], row["source"]) == ("100.0", "yes for every text")


# For a LaTeX without these two packages.
DOCUMENT = r"""\documentclass[twocolumn]{article}
\IfFileExists{booktabs.sty}{\usepackage{booktabs}}
  {\let\toprule\hline \let\midrule\hline \let\bottomrule\hline}
\IfFileExists{adjustbox.sty}{\usepackage{adjustbox}}{\newenvironment{adjustbox}[1]{}{}}
\begin{document}
\input{report}
\end{document}
"""


def test_latex_has_what_latex_needs(write, own_data, tmp_path):
    name = r"[a] 100%_b & {c} #1 $\x^2$ ~\d <e|f> ±1 --?`"
    folder = write("bioasq")
    output = tmp_path / "report"
    runs = [f"{name}={folder}", f"*={own_data('/x/my_data & 50%', 'own')}"]
    path = report.write_report(runs, str(output), [f"base_1={write('bioasq', name='base')}"])
    text = (path.parent / "report.tex").read_text("utf-8")
    plain = text.partition("\n\n")[2]
    for command in ("backslash", "asciitilde", "asciicircum", "less", "greater", "bar"):
        assert rf"\text{command}{{}}" in plain
        plain = plain.replace(rf"\text{command}{{}}", "")
    plain = re.sub(r"\\[&%$#_{}]", "", plain)
    assert not re.search(r"[%$#_^~<>|]|--|[?!]`", plain)
    depth = np.cumsum([(x == "{") - (x == "}") for x in plain])
    assert depth.min() == 0 and depth[-1] == 0
    opened = re.findall(r"\\begin\{(.*?)\}", plain)
    assert len(opened) == 9 and sorted(opened) == sorted(re.findall(r"\\end\{(.*?)\}", plain))
    for table in plain.split(r"\begin{tabular}")[1:]:
        columns = re.match(r"\{([lr]+)\}", table)[1]
        rows = [line for line in table.split("\n") if line.endswith(r" \\")]
        assert len(rows) > 1, table
        assert {row.count("&") for row in rows} == {len(columns) - 1}, table
        # There they would be an argument of the line before.
        assert not any(row.startswith(("[", "*")) for row in rows), table
    assert r"\_b \& \{c\} \#1 \$" in text and r"my\_data \& 50\% (classification)" in text
    if shutil.which("pdflatex"):
        (output / "main.tex").write_text(DOCUMENT)
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main"]
        done = subprocess.run(command, cwd=output, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout


def test_the_chart_shows_names_as_they_are(write, pictures, tmp_path):
    """Between dollars there would be a formula, and this is none."""
    pictures()
    run = f"$\\frac$={write('bioasq')}"
    assert report.write_report([run], str(tmp_path / "report")).with_name("report.png").exists()


def test_what_does_not_fit_together_is_refused(write, tmp_path):
    one, other = write("bioasq"), write("bioasq", name="other")
    output = str(tmp_path / "report")
    with pytest.raises(GroupingError, match=r"both bioasq of 'ours'.*'NAME=.*other"):
        report.write_report([one, other], output)
    file = Path(one, "trial_0", "test_predictions.tsv")
    file.write_text(file.read_text().replace("yes\tno", "yes\tyes"))
    with pytest.raises(results.ResultsError, match="not of one run"):
        report.write_report([one], output)
    assert not Path(output).exists()


def test_the_command(write, tmp_path, fails_in_one_sentence):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "tfbio.report", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    done = run(f"--finetuning={tmp_path}/nowhere", f"--output={tmp_path}/report")
    assert "nowhere: no finished run is there" in fails_in_one_sentence(done)
    done = run(f"--finetuning={write('bioasq')}", f"--output={tmp_path}/report")
    assert done.stdout.splitlines()[-1] == f"{tmp_path}/report/report.md", done.stderr
    shown = run("--help").stdout
    assert shown.index("python -m tfbio.report --finetuning=") < shown.index("--baseline:")
