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
from matplotlib.figure import Figure

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


@pytest.fixture
def own_data(write):
    """Writes a run of `--task=classification` on data in a folder of the user's."""

    def folder(data_dir, name, **settings):
        path = Path(write("sentence_roles", name=name))
        scores = json.loads((path / "scores.json").read_text())
        (path / "scores.json").write_text(json.dumps(scores | {"task": "classification"}))
        known = {"data_set": data_dir, "trained_on": {"kind": "classification"}}
        (path / "config.json").write_text(json.dumps(known | settings))
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
    rows = read_csv(path.parent)
    assert [(row["data_set"], row["model"]) for row in rows] == [
        (names[0], "ours"),
        (names[1], "ours"),
        (names[1], "base"),
        (names[2], "ours"),
    ]
    # The baseline's data are known by what is in them.
    assert [row["baseline"] for row in rows] == ["", "base", "", ""]
    assert r"my\_50\% (classification)" in (path.parent / "report.tex").read_text()


def test_a_run_of_before_has_its_column(own_data, write, tmp_path):
    """Without the name of its data, or with its name alone."""
    own_data("/x/roles", "new")
    own_data("roles", "name alone")
    path = Path(own_data("", "old"))
    (path / "config.json").unlink()
    report.write_report(
        [f"{tmp_path}/new/*", f"b={tmp_path}/name alone/*", f"c={path}"], str(tmp_path / "report")
    )
    rows = read_csv(tmp_path / "report")
    assert [row["model"] for row in rows] == ["ours", "b", "c"]
    assert rows[0]["data_set"] == "x/roles (classification)"
    assert re.fullmatch(r"roles \w{6} \(classification\)", rows[1]["data_set"])
    assert rows[2]["data_set"] == "classification"


def test_answers_in_spans_have_intervals_of_both_figures(tmp_path):
    """Three of four questions found in one run, two in the other."""
    for name, found in (("ours", "abxd"), ("base", "axxd")):
        trial = tmp_path / name / "trial_0"
        trial.mkdir(parents=True)
        lines = [
            {"id": gold, "question": "?", "gold": [f"{gold} word"], "null_odds": 0.0}
            | {"predicted": [{"text": f"{text} word", "probability": 1.0}]}
            for gold, text in zip("bcde", found.translate(str.maketrans("abd", "bce")), strict=True)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (trial / "test_answers.jsonl").write_text(text)
        right = sum(line["gold"][0] == line["predicted"][0]["text"] for line in lines)
        test = {"f1": (right + (4 - right) / 2) / 4, "exact_match": right / 4}
        scores = {"task": "squad_v2", "metric": "f1", "init": name}
        scores["trials"] = [{"seed": 0, "test": test}]
        (tmp_path / name / "scores.json").write_text(json.dumps(scores))
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
        assert len(rows) > 1
        assert {row.count("&") for row in rows} == {len(columns) - 1}
        # There they would be an argument of the line before.
        assert not any(row.startswith(("[", "*")) for row in rows)
    assert r"\_b \& \{c\} \#1 \$" in text and r"my\_data \& 50\% (classification)" in text
    if shutil.which("pdflatex"):
        (output / "main.tex").write_text(DOCUMENT)
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main"]
        done = subprocess.run(command, cwd=output, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout


def test_the_chart_shows_names_as_they_are(write, tmp_path):
    """Between dollars there would be a formula, and this is none."""
    run = f"$\\frac$={write('bioasq')}"
    assert report.write_report([run], str(tmp_path / "report")).with_name("report.png").exists()


@pytest.mark.parametrize("panels", [1, 2, 5])
def test_the_caption_of_the_scores_is_inside_of_the_picture(panels, tmp_path, monkeypatch):
    drawn = []
    save = Figure.savefig

    def savefig(figure, *arguments, **options):
        drawn.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)
    columns = [(f"task {number}", "", "", 1) for number in range(panels)]
    figures = [
        {"data_set": title, "model": "ours", "figure": 80.0, "values": "79.0 81.0"}
        for title, *_ in columns
    ]
    report._draw_scores(columns, figures, tmp_path / "report.png")
    (figure,) = drawn
    caption = figure._supxlabel.get_window_extent()
    assert "published" in figure._supxlabel.get_text()
    assert caption.x0 >= 0 and caption.x1 <= figure.bbox.x1 and caption.y0 >= 0


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
