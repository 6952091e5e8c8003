"""The report, on event files as TensorFlow writes them."""

import json
import re
import time

import pytest
import tensorflow as tf

from tfbio import report


@pytest.fixture
def write(tmp_path):
    """Writes a finished pretraining run and scores.json files."""
    tags = [tag for tag, _ in report.PRETRAINING_SCALARS]

    def logs():
        for split, points in (("train", [(1, 9.0), (2, 8.5)]), ("heldout", [(2, 8.25)])):
            folder = tmp_path / "pretrained" / "logs" / split
            with tf.summary.create_file_writer(str(folder)).as_default():
                for step, value in points:
                    for tag in tags:
                        tf.summary.scalar(tag, value, step=step)
        return str(tmp_path / "pretrained")

    def scores(name, values, mean, std, task="sentence_roles"):
        trials = [
            {"seed": seed, "dev": {"accuracy": 0.5, "macro_f1": 0.4}}
            | {"test": {"accuracy": value, "macro_f1": value / 2}}
            for seed, value in enumerate(values)
        ]
        folder = tmp_path / name
        folder.mkdir()
        content = {"task": task, "metric": "accuracy", "init": name, "trials": trials}
        (folder / "scores.json").write_text(json.dumps({**content, "mean": mean, "std": std}))
        return str(folder)

    return logs, scores


def test_states_the_figures_of_the_runs(write, tmp_path):
    logs, scores = write
    runs = [scores("good", [0.70, 0.72], 0.71, 0.01), scores("poor", [0.50, 0.52], 0.51, 0.01)]
    path = report.write_report(logs(), runs, str(tmp_path / "report"))
    text = path.read_text(encoding="utf-8")
    assert "| generator loss | 8.5000 | 8.2500 |" in text
    assert "| good | 1 | 0.5000 | 0.7200 | 0.3600 |" in text
    assert "| poor | 0.5100 | 0.0100 | 2 |" in text
    assert "higher by 0.2000, which is 20.0 times the standard deviation" in text
    assert (path.parent / "report.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(file.name for file in path.parent.iterdir()) == ["report.md", "report.png"]


def test_the_spread_is_pooled_and_the_sign_is_said():
    def run(name, mean, std):
        return {"init": name, "metric": "accuracy", "mean": mean, "std": std}

    # sqrt((0.03^2 + 0.04^2) / 2) = 0.035355; 0.1 / 0.035355 = 2.83.
    sentence = report.compare(run("a", 0.5, 0.03), run("b", 0.6, 0.04))
    assert re.search(r"a against b: .* lower by 0\.1000, .* 2\.8 times .* \(0\.0354\)", sentence)
    assert "single seed" in report.compare(run("a", 0.5, None), run("b", 0.6, 0.04))
    assert "do not differ" in report.compare(run("a", 0.5, 0.0), run("b", 0.6, 0.0))


def test_steps_that_were_gone_over_again_count_once(tmp_path):
    for points in ([(1, 9.0), (2, 8.0), (3, 7.0)], [(2, 8.5), (3, 7.5), (4, 7.0)]):
        with tf.summary.create_file_writer(str(tmp_path)).as_default():
            for step, value in points:
                tf.summary.scalar("loss", value, step=step)
        time.sleep(1.1)  # the second file must have a later name
    assert report.read_curves(tmp_path)["loss"] == [(1, 9.0), (2, 8.5), (3, 7.5), (4, 7.0)]


def test_folders_without_results_are_named(write, tmp_path):
    logs, scores = write
    good = scores("good", [0.7], 0.7, None)
    with pytest.raises(report.ReportError, match=r"nowhere.*--model_dir"):
        report.write_report(str(tmp_path / "nowhere"), [good], str(tmp_path / "report"))
    with pytest.raises(report.ReportError, match=r"nowhere.scores\.json.*--output_dir"):
        report.write_report(logs(), [str(tmp_path / "nowhere")], str(tmp_path / "report"))
    (tmp_path / "good" / "scores.json").write_text("{}")
    with pytest.raises(report.ReportError, match=r"lacks init, mean"):
        report.read_scores(good)
    assert not (tmp_path / "report").exists()


def test_different_tasks_are_refused(write, tmp_path):
    logs, scores = write
    runs = [scores("one", [0.7], 0.7, None), scores("two", [0.7], 0.7, None, task="another")]
    with pytest.raises(report.ReportError, match="different tasks: another, sentence_roles"):
        report.write_report(logs(), runs, str(tmp_path / "report"))
