"""The report, on folders made by hand, whose scores can be worked out on paper."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfbio import published, report, results

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
    # One of two, and one of two. Of the labels one has the F1 1, one 0.
    "chemprot": (
        "f1",
        0.5,
        {"macro_f1": 0.5},
        [HEADER, "1\tCPR:3\tCPR:3\ta", "2\tfalse\tCPR:4\tb", "3\tCPR:4\tfalse\tc"],
    ),
    # Documents: one right, two predicted, two true.
    "hoc": (
        "micro_f1",
        0.5,
        {"macro_f1": 0.1},
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
        scores = {"task": task, "metric": metric, "init": init, "trials": trials}
        (path / "scores.json").write_text(json.dumps(scores))
        return str(path)

    return folder


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(results, "SAMPLES", 100)


def read_csv(folder):
    with open(folder / "report.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_figures_are_those_of_the_runs(write, tmp_path):
    for task in RUNS:
        write(task)
    path = report.write_report([f"{tmp_path}/ours/*"], str(tmp_path / "report"))
    names = ["report.csv", "report.md", "report.png", "report.tex"]
    assert sorted(file.name for file in path.parent.iterdir()) == names
    assert (path.parent / "report.png").read_bytes().startswith(b"\x89PNG")
    rows = read_csv(path.parent)
    for task, (metric, value, others, _) in RUNS.items():
        for name, figure in {metric: value, **others}.items():
            (row,) = (
                x for x in rows if (x["model"], x["task"], x["metric"]) == ("ours", task, name)
            )
            both = [100 * figure, 100.0]
            assert float(row["figure"]) == pytest.approx(np.mean(both))
            assert float(row["median"]) == pytest.approx(np.mean(both))
            # Of two numbers the sample's deviation is their difference / sqrt(2).
            assert float(row["std"]) == pytest.approx((100 - 100 * figure) / np.sqrt(2))
            assert [float(x) for x in row["values"].split()] == pytest.approx(both)
            assert row["seeds"] == "2" and row["source"] == f"{tmp_path}/ours/{task}"
            if name == metric:
                assert float(row["low"]) <= float(row["figure"]) <= float(row["high"])
    assert {"model": "BioBERT", "data_set": "BC5-chem", "figure": "92.85"}.items() <= next(
        row for row in rows if row["model"] == "BioBERT"
    ).items()
    text = path.read_text(encoding="utf-8")
    assert (
        "| ours | 70.00 |  |  |  |  | 83.33 | 75.00 |  |  | 90.00 | 75.00 |  | 87.50 |  |" in text
    )
    assert (
        "- ours has no BLURB score: BC5-disease, NCBI-disease, BC2GM, JNLPBA, DDI, GAD, PubMedQA "
        "missing." in text
    )
    assert "| bio-lm large | 86.6 | 76.2 |  |\n| ours | 55.00 | 75.00 | 75.00 |" in text
    assert "## BLUE" not in text


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
    assert "| model | sentence_roles |\n| --- | ---: |\n| ours | 75.00 |" in text
    assert "| sentence_roles | random weights | accuracy | 50.00 |  | 50.00 | 1 |" in text
    assert (output / "pretraining.png").read_bytes().startswith(b"\x89PNG")


def test_runs_are_compared_with_the_baseline_of_their_task(write, tmp_path):
    for task in ("hoc", "bioasq"):
        write(task, perfect=(True, True))
    base = write("bioasq", "random weights", (False,))
    path = report.write_report([f"{tmp_path}/*/*"], str(tmp_path / "report"), [f"scratch={base}"])
    rows = {(row["model"], row["data_set"]): row for row in read_csv(path.parent)}
    assert "random weights" not in {model for model, _ in rows}
    assert rows["ours", "BioASQ"]["baseline"] == "scratch"
    assert float(rows["ours", "BioASQ"]["difference"]) == 25
    assert 0 < float(rows["ours", "BioASQ"]["p"]) <= 1
    assert not rows["ours", "HoC"]["baseline"] and not rows["scratch", "BioASQ"]["baseline"]
    assert "| 100.00 to 100.00 | scratch | +25.00 |" in path.read_text("utf-8")
    with pytest.raises(report.ReportError, match="more than one --baseline"):
        report.write_report([base], str(tmp_path / "report"), [base, f"{tmp_path}/ours/bioasq"])


def test_data_of_ones_own_have_columns_of_their_own(write, tmp_path):
    """Two data sets under one --task, with one model."""
    for data_set in ("roles", "notes"):
        path = Path(write("sentence_roles", name=data_set))
        scores = json.loads((path / "scores.json").read_text())
        (path / "scores.json").write_text(json.dumps(scores | {"task": "classification"}))
        settings = {"data_set": data_set, "trained_on": {"kind": "classification"}}
        (path / "config.json").write_text(json.dumps(settings))
    pattern = f"{tmp_path}/*/sentence_roles"
    path = report.write_report([pattern], str(tmp_path / "report"))
    assert "| model | notes (classification) | roles (classification) |" in path.read_text()
    rows = read_csv(path.parent)
    assert [row["data_set"] for row in rows] == ["notes (classification)", "roles (classification)"]


def test_the_blurb_score_needs_all_13():
    figures = dict(next(x for x in published.MODELS if x.name == "PubMedBERT").figures)
    runs = {
        title_task[1]: results.Run(
            "", "ours", title_task[1], title_task[2],
            [{title_task[2]: float(figures[title_task[0]]) / 100}], [],
        )
        for title_task in published.BLURB
    }  # fmt: skip
    table = report.score_table("BLURB", published.BLURB, {"ours": runs})
    assert table.rows[-1] == ["ours", *figures.values(), "81.10"]
    assert not any("missing" in note for note in table.notes)


def test_latex_has_what_latex_needs(write, tmp_path):
    name = r"[a] 100%_b & {c} #1 $x^2 ~\d"
    folder = write("bioasq")
    path = report.write_report([f"{name}={folder}"], str(tmp_path / "report"))
    text = (path.parent / "report.tex").read_text("utf-8")
    plain = text.partition("\n")[2]
    for command in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}"):
        assert command in plain
        plain = plain.replace(command, "")
    plain = re.sub(r"\\[&%$#_{}]", "", plain)
    assert not re.search(r"[%$#_^~]", plain)
    depth = np.cumsum([(x == "{") - (x == "}") for x in plain])
    assert depth.min() == 0 and depth[-1] == 0
    opened = re.findall(r"\\begin\{(.*?)\}", plain)
    assert len(opened) == 6 and sorted(opened) == sorted(re.findall(r"\\end\{(.*?)\}", plain))
    for table in plain.split(r"\begin{tabular}")[1:]:
        columns = re.match(r"\{([lr]+)\}", table)[1]
        rows = [line for line in table.split("\n") if line.endswith(r" \\")]
        assert len(rows) > 1
        assert {row.count("&") for row in rows} == {len(columns) - 1}
        # A bracket there would be an argument of the line before.
        assert not any(row.startswith("[") for row in rows)
    assert r"\_b \& \{c\} \#1 \$x" in text


def test_what_does_not_fit_together_is_refused(write, tmp_path):
    one, other = write("bioasq"), write("bioasq", name="other")
    output = str(tmp_path / "report")
    with pytest.raises(report.ReportError, match=r"both bioasq of 'ours'.*'NAME=.*other"):
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
