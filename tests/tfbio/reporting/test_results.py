"""Runs, on folders made by hand; intervals and p-values against scipy."""

import collections
import dataclasses
import json
import re

import numpy as np
import pytest
from scipy import stats

from tests.run_files import write_scores, write_settings
from tests.tfbio.reporting.runs_by_hand import run_of, texts
from tfbio.base.errors import UserError
from tfbio.base.json_files import SchemaError
from tfbio.formats.label_sets import HALLMARKS
from tfbio.formats.task_examples import LabelledText, Question, TaggedSentence
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.reporting import results
from tfbio.task_types import answers, metrics, prediction_files, similarity_metrics, task_table

GENERATOR = np.random.default_rng(0)


def pick(values, size):
    return [values[i] for i in GENERATOR.integers(len(values), size=size)]


def some(values):
    return tuple(value for value in values if GENERATOR.random() < 0.3)


def sentences(tags):
    return [TaggedSentence(str(i), ("w",) * 8, tuple(own)) for i, own in enumerate(tags)]


def tags(labels):
    return [tuple(pick(labels, 8)) for _ in range(30)]


PICO = ("O", "I-PAR", "I-INT", "I-OUT")
RELATIONS = task_table.TASKS["chemprot"].labels

ANSWERS = ("yes", "no", "maybe")
PHRASES = ("IL-2", "the IL-2 gene", "T cells", "a gene", "IL-2 of T cells")


def questions(size, contexts):
    """Of which some have no answer where each has one context."""
    gold = [(() if contexts == 1 and i % 4 == 0 else tuple(pick(PHRASES, 2))) for i in range(size)]
    return [
        Question(f"q{i}_{k}", "?", "", own, (-1,) * len(own), f"q{i}" if contexts > 1 else "")
        for i, own in enumerate(gold)
        for k in range(contexts)
    ]


def answered(size):
    found = []
    for _ in range(size):
        texts = tuple(dict.fromkeys(pick(PHRASES, 3)))
        shares = np.sort(GENERATOR.random(len(texts)))[::-1]
        found.append(answers.Answers(texts, tuple((shares / shares.sum()).tolist()), 0.5))
    return [own if GENERATOR.random() < 0.8 else answers.Answers((), (), 2.5) for own in found]


# Task, metric, examples, and the predictions of two seeds.
CASES = {
    "bc2gm": ("f1", sentences(tags("OBI")), [tags("OBI") for _ in "01"]),
    "ebm_pico": ("macro_f1", sentences(tags(PICO)), [tags(PICO) for _ in "01"]),
    "chemprot": ("f1", texts(pick(RELATIONS, 30)), [pick(RELATIONS, 30) for _ in "01"]),
    "hoc": (
        "micro_f1",
        texts(some(HALLMARKS) for _ in range(30)),
        [[some(HALLMARKS) for _ in range(30)] for _ in "01"],
    ),
    "pubmedqa": ("accuracy", texts(pick(ANSWERS, 30)), [pick(ANSWERS, 30) for _ in "01"]),
    "biosses": (
        "pearson",
        texts(GENERATOR.normal(size=30).tolist()),
        GENERATOR.normal(size=(2, 30)).tolist(),
    ),
    "squad_v2": ("f1", questions(30, 1), [answered(30) for _ in "01"]),
    "bioasq_factoid": ("mrr", questions(15, 2), [answered(30) for _ in "01"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_draws_score_is_that_of_the_drawn_examples(name):
    task, (metric, examples, predicted) = task_table.TASKS[name], CASES[name]
    # Of a document or question several examples.
    units, field = {"hoc": (10, "document"), "bioasq_factoid": (15, "question_id")}.get(
        name, (30, "")
    )
    rows = np.random.default_rng(1).integers(units, size=units)
    each = 30 // units
    places = [(each * i + k, f"copy {n}") for n, i in enumerate(rows) for k in range(each)]
    # One that is drawn twice counts as two.
    sample = [
        dataclasses.replace(examples[i], **({field: copy} if field else {})) for i, copy in places
    ]
    for own in predicted:
        scores = task.score(examples, own)
        assert scores.size == units and next(iter(scores)) == metric
        expected = task.score(sample, [own[i] for i, _ in places])
        for one in scores.drawable:
            assert scores.drawn(one, np.bincount(rows, minlength=units)) == pytest.approx(
                expected[one], abs=1e-12
            )
            assert scores.drawn(one, np.ones(units)) == scores[one]


def test_the_interval_of_one_seeds_accuracy_is_that_of_the_binomial_distribution():
    run = run_of([[1] * 170 + [0] * 30])
    exact = stats.binom.ppf([0.025, 0.975], 200, 0.85) / 200
    # An accuracy is a multiple of 1 / 200.
    assert run.interval() == pytest.approx(exact, abs=1 / 200 + 1e-9)


def test_the_interval_over_seeds_is_that_of_scipy():
    generator = np.random.default_rng(3)
    right = generator.random((5, 300)) < np.linspace(0.5, 1, 300)
    expected = stats.bootstrap(
        (right.mean(axis=0),), np.mean, method="percentile", random_state=0
    ).confidence_interval
    # The ends of 10,000 draws have a standard error of 0.0005.
    assert run_of(right).interval() == pytest.approx(expected, abs=0.002)


def test_the_interval_of_correlations_is_that_of_scipy():
    generator = np.random.default_rng(4)
    true = generator.normal(size=100)
    found = true + generator.normal(size=(2, 100))

    def mean(x, y, z):
        return np.corrcoef([x, y, z])[0, 1:].mean()

    expected = stats.bootstrap(
        (true, *found), mean, paired=True, vectorized=False, method="percentile",
        n_resamples=3000, random_state=0,
    ).confidence_interval  # fmt: skip
    scores = [similarity_metrics.correlation_scores(true, own) for own in found]
    run = results.Run("a", "a", "biosses", "pearson", scores, texts(true.tolist()), scores)
    # The ends of 3,000 draws have a standard error of 0.003.
    assert run.interval() == pytest.approx(tuple(expected), abs=0.012)


@pytest.mark.parametrize("gain", [0.0, 0.05])
def test_the_p_value_is_that_of_a_permutation_test(gain):
    generator = np.random.default_rng(5)
    base = generator.random((3, 400)) < 0.7
    better = generator.random((4, 400)) < 0.7 + gain
    expected = stats.permutation_test(
        (better.mean(axis=0), base.mean(axis=0)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        random_state=0,
    ).pvalue
    found = results.p_value(run_of(better), run_of(base))
    assert found == pytest.approx(expected, abs=0.02)


def test_the_p_value_is_of_a_difference_to_either_side(monkeypatch):
    monkeypatch.setattr(results, "SAMPLES", 200)
    one, other = run_of([[1] * 70 + [0] * 30]), run_of([[1] * 60 + [0] * 40])
    assert results.p_value(one, other) == results.p_value(other, one) == 2 / 201
    assert results.p_value(one, run_of([[0] * 30 + [1] * 70])) == 1


def test_only_runs_of_the_same_test_data_are_compared():
    one = run_of([[1, 0, 1]])
    other = run_of([[1, 0, 1]], "b", texts(["yes", "yes", "no"]))
    with pytest.raises(results.ResultsError, match="a and b were tested on different data"):
        results.p_value(one, other)


def test_runs_of_the_same_examples_in_another_form_are_compared(monkeypatch):
    """Markers stand for dummies; ids, documents and blanks do not count either."""
    monkeypatch.setattr(results, "SAMPLES", 50)
    dummies, markers = (
        [LabelledText(name + str(i), text, label, document=name) for i, label in enumerate("abb")]
        for name, text in (
            ("x", "@CHEMICAL$ inhibits @GENE$."),
            ("y", "[S1] aspirin [E1]  inhibits [S2] COX-1 [E2]. "),
        )
    )
    assert dummies != markers
    right, wrong = [[1, 1, 1]], [[1, 0, 0]]
    one, base = run_of(right, "a", markers), run_of(wrong, "b", dummies)
    expected = results.p_value(run_of(right, "a", dummies), base)
    assert 0 < results.figures(one, "accuracy", base)["p"] == expected <= 1


def test_runs_of_the_same_examples_in_another_order_have_no_p(monkeypatch):
    monkeypatch.setattr(results, "SAMPLES", 50)
    examples = [LabelledText(str(i), f"text {i}", "yes") for i in range(4)]
    one = run_of([[1, 1, 1, 0]], "a", examples[::-1])
    base = run_of([[1, 0, 1, 0]], "b", examples)
    assert results.p_value(one, base) is None
    row = results.figures(one, "accuracy", base)
    assert (row["baseline"], row["difference"]) == ("b", 25) and "p" not in row
    # Nor where draws are of two documents, and not of the four examples.
    scores = metrics.Scores({"accuracy": (np.array([0.5, 1.0]), metrics.mean)})
    assert results.p_value(dataclasses.replace(base, scores=[scores]), base) is None


def test_the_figures_of_a_run_are_percentages_with_the_samples_deviation(monkeypatch):
    monkeypatch.setattr(results, "SAMPLES", 50)
    one, base = run_of([[1, 1, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]]), run_of([[0, 1, 0, 1]], "b")
    row = results.figures(one, "accuracy", base)
    assert (row["figure"], row["median"], row["std"]) == (75, 75, 25)
    assert row["values"] == "75.0 50.0 100.0" and row["seeds"] == 3
    assert row["low"] <= 75 <= row["high"]
    assert (row["baseline"], row["difference"]) == ("b", 25) and 0 < row["p"] <= 1
    assert not {"std", "p"} & results.figures(base, "accuracy", base).keys()


@pytest.fixture
def write(tmp_path):
    """Writes a folder of a run on the roles of sentences; predictions are "m" or "r" letters."""

    def run(name, *predicted, truth="mmrr", task="sentence_roles"):
        names = {"m": "methods", "r": "results"}
        trials = []
        for seed, letters in enumerate(predicted):
            folder = tmp_path / name / f"trial_{seed}"
            folder.mkdir(parents=True)
            rows = [f"d\t{names[a]}\t{names[b]}\ttext" for a, b in zip(truth, letters, strict=True)]
            text = "\n".join(["id\tlabel\tpredicted\ttext", *rows]) + "\n"
            (folder / "test_predictions.tsv").write_text(text)
            right = sum(a == b for a, b in zip(truth, letters, strict=True))
            trials.append({"seed": seed, "test": {"accuracy": right / len(truth)}})
        write_scores(tmp_path / name, trials, task=task, metric="accuracy")
        return tmp_path / name

    return run


def test_reads_a_run(write):
    run = results.read(write("one", "mmrm", "mmrr"))
    assert (run.name, run.task, run.scores[0].size) == ("model", "sentence_roles", 4)
    assert run.values().tolist() == [0.75, 1.0]
    assert run.drawn(np.array([3, 3, 0, 0])) == (0.5 + 1.0) / 2


def test_one_answer_is_chosen_on_the_development_set(write):
    folder = write("one", "mmrm", "mmrr", truth="mmrr")
    assert results.read(folder).trivial.folder == "methods for every text"
    dev = folder / "trial_0" / "dev_predictions.tsv"
    dev.write_text("id\tlabel\tpredicted\ttext\n" + 2 * "d\tresults\tmethods\ttext\n")
    run = results.read(folder).trivial
    assert (run.folder, run.mean()) == ("results for every text", 0.5)


def test_the_number_that_a_test_set_was_cut_to_is_said(write):
    folder = write("one", "mmrm")
    scores = json.loads((folder / "scores.json").read_text())
    for of, aside in ((1000, "4 of 1,000 test examples"), (4, "")):
        examples = {"dev": [4, 4], "test": [4, of]}
        (folder / "scores.json").write_text(json.dumps(scores | {"examples": examples}))
        run = results.read(folder)
        assert (run.match.aside, run.part_of) == (aside, aside and "sentence_roles")


def test_predictions_of_another_run_are_refused(write):
    folder = write("one", "mmrm", "mmrr")
    file = folder / "trial_0" / "test_predictions.tsv"
    file.write_text(file.read_text().replace("results\tresults", "results\tmethods"))
    message = r"trial_0/test_predictions.tsv gives the accuracy 0.500000, but .* says 0.750000"
    with pytest.raises(results.ResultsError, match=message):
        results.read(folder)
    file.write_text(
        (folder / "trial_1" / "test_predictions.tsv").read_text().replace("\nd\t", "\ne\t")
    )
    with pytest.raises(results.ResultsError, match="different data"):
        results.read(folder)
    file.unlink()
    with pytest.raises(
        TaskFileError, match=r"predictions\.tsv cannot be read: No such file or dir"
    ):
        results.read(folder)
    (folder / "scores.json").unlink()
    with pytest.raises(SchemaError, match=r"^there is no .*/one/scores\.json: give the"):
        results.read(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"task": "hoc"}'])
def test_a_folder_without_scores_is_named(text, tmp_path):
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(SchemaError, match=rf"{re.escape(str(tmp_path))}.*--output_dir"):
        results.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": ...}, "scores.json: metric is missing; give the --output_dir of a"),
        ({"trials": []}, "scores.json: trials must have the test accuracy of each trial; "),
        ({"metric": "f1"}, "scores.json: trials must have the test f1 of each trial; give the"),
        (
            {"examples": {"dev": [4, 4]}},
            "scores.json: examples must have .* for dev and test; give",
        ),
        ({"mean": "0.5"}, 'scores.json: mean must be a number, not "0.5"; give the'),
    ],
)
def test_a_wrong_key_of_the_scores_is_named(change, message, write):
    path = write("one", "mmrm") / "scores.json"
    scores = json.loads(path.read_text()) | change
    path.write_text(json.dumps({x: value for x, value in scores.items() if value is not ...}))
    with pytest.raises(SchemaError, match=message):
        results.read(path.parent)


def words(text):
    return [x for x in text.lower().replace("-", "").split() if x not in ("a", "the")]


def word_f1(gold, found):
    if not gold or not found:
        return float(not gold and not found)
    common = sum(min(found.count(x), gold.count(x)) for x in set(found))
    return 2 * common / (len(gold) + len(found))


def squad_by_question(asked, predicted):
    """Figure -> its value for each question, float64 [questions]."""
    f1, exact = [], []
    for question, own in zip(asked, predicted, strict=True):
        best = words(own.texts[0] if own.texts else "")
        options = [words(x) for x in question.answers] or [[]]
        f1.append(max(word_f1(x, best) for x in options))
        exact.append(float(best in options))
    return {"f1": np.array(f1), "exact_match": np.array(exact)}


def factoids_by_question(asked, predicted):
    """The same of questions on two contexts each, whose answers' probabilities are summed up."""
    ranks = []
    for question, *both in zip(asked[::2], predicted[::2], predicted[1::2], strict=True):
        totals = collections.Counter()
        for own in both:
            for text, share in zip(own.texts, own.probabilities, strict=True):
                totals[text] += share
        order = sorted(totals, key=totals.get, reverse=True)[:5]
        right = [1 / n for n, text in enumerate(order, 1) if text in question.answers]
        ranks.append(max(right, default=0.0))
    ranks = np.array(ranks)
    return {
        "mrr": ranks,
        "strict_accuracy": (ranks == 1).astype(float),
        "lenient_accuracy": (ranks > 0).astype(float),
    }


# Task -> contexts of a question, and its figures for each question.
OF_QUESTIONS = {"squad_v2": (1, squad_by_question), "bioasq_factoid": (2, factoids_by_question)}


@pytest.mark.parametrize("task", OF_QUESTIONS)
def test_answers_in_spans_have_intervals_and_a_paired_test_of_every_figure(task, tmp_path):
    """Files of two runs; intervals by scipy over each question's own figures, p by a permutation
    test."""
    contexts, by_question = OF_QUESTIONS[task]
    asked = questions(120, contexts)
    ours, theirs = [[answered(len(asked)) for _ in range(2)] for _ in range(2)]
    # One run finds more of what is right.
    for own in ours:
        for i, question in enumerate(asked):
            if question.answers and i % 5 < 2:
                own[i] = answers.Answers(question.answers[:1], (1.0,), -1.0)

    def write(name, seeds):
        trials = []
        for seed, found in enumerate(seeds):
            trial = tmp_path / name / f"trial_{seed}"
            trial.mkdir(parents=True)
            prediction_files.write_answers(str(trial), "test", asked, found)
            trials.append({"seed": seed, "test": dict(task_table.TASKS[task].score(asked, found))})
        metric = next(iter(trials[0]["test"]))
        write_scores(tmp_path / name, trials, task=task, metric=metric)
        return results.read(tmp_path / name)

    one, other = write("ours", ours), write("theirs", theirs)
    values = [[by_question(asked, found) for found in seeds] for seeds in (ours, theirs)]
    for metric in values[0][0]:
        mine, base = (np.mean([x[metric] for x in seeds], axis=0) for seeds in values)
        row = results.figures(one, metric, other)
        assert row["figure"] == pytest.approx(100 * mine.mean())
        assert row["difference"] == pytest.approx(100 * (mine - base).mean())
        expected = stats.bootstrap(
            (mine,), np.mean, method="percentile", random_state=0
        ).confidence_interval
        # An end of 10,000 draws has a standard error of some 0.1 points.
        assert (row["low"], row["high"]) == pytest.approx([100 * x for x in expected], abs=0.6)
        expected = stats.permutation_test(
            (mine, base), lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples", vectorized=True, random_state=0,
        ).pvalue  # fmt: skip
        assert row["p"] == pytest.approx(expected, abs=0.02)


def test_data_of_ones_own_are_read_with_their_path(write):
    folder = write("one", "mmrm", task="classification")
    write_settings(folder, labels="mr", data_set="/x/roles", data_sha256={"test": "ab"})
    run = results.read(folder)
    assert (run.task, run.data_set) == ("classification", "/x/roles")
    assert run.drawn(np.array([3, 0])) == 0.5
    assert "ab" in run.data
    (folder / "config.json").write_text("[]")
    with pytest.raises(SchemaError, match=r"config\.json holds no JSON object: give the"):
        results.read(folder)


def test_patterns_leave_out_what_is_not_finished(write, tmp_path, capsys, monkeypatch):
    write("a1", "mmrm"), write("a2", "mmrr"), write("lr=1", "mmrr")
    (tmp_path / "a3").mkdir()
    (tmp_path / "a4.txt").write_text("no folder")
    monkeypatch.chdir(tmp_path)
    assert [run.folder for run in results.find("a*")] == ["a1", "a2"]
    assert capsys.readouterr().out == "Left out, with no scores.json: a3.\n"
    assert [(run.name, run.folder) for run in results.find("mine=a[12]")] == [
        ("mine", "a1"),
        ("mine", "a2"),
    ]
    assert [run.name for run in results.find("lr=*")] == ["model"]
    assert [(run.name, run.folder) for run in results.find("x=lr=1")] == [("x", "lr=1")]
    # As one names the combinations of a sweep.
    assert [(run.name, run.folder) for run in results.find("lr=3=lr=1")] == [("lr=3", "lr=1")]
    assert [(run.name, run.folder) for run in results.find("lr=3=a[1]")] == [("lr=3", "a1")]
    for missing in ("a3", "b*", "nowhere"):
        with pytest.raises(UserError, match=f"{re.escape(missing)}.*--output_dir"):
            results.find(missing)


def test_the_chosen_run_of_a_sweep_is_read(write, tmp_path):
    write("sweep/rate=1", "mmrm")
    (tmp_path / "sweep" / "sweep.json").write_text('{"chosen": "rate=1"}')
    assert results.read(tmp_path / "sweep").folder == str(tmp_path / "sweep" / "rate=1")
    (run,) = results.find(str(tmp_path / "swee*"))
    assert run.folder == str(tmp_path / "sweep" / "rate=1")


def test_a_run_from_a_trial_has_the_name_of_what_that_began_with(write, tmp_path):
    squad = tmp_path / "squad"
    (squad / "trial_3").mkdir(parents=True)
    write_settings(squad, init="out/bioelectra/")
    folder = write("one", "mmrm")
    scores = json.loads((folder / "scores.json").read_text())
    (tmp_path / "best").symlink_to(squad / "trial_3")
    for init in (squad / "trial_3", tmp_path / "best"):
        (folder / "scores.json").write_text(json.dumps(scores | {"init": str(init)}))
        assert results.read(folder).name == "bioelectra"


@pytest.mark.parametrize(
    "init", ["out/biobert/bert_model.ckpt", "out/biobert/model.ckpt-1000", "out/biobert/ckpt-7"]
)
def test_a_checkpoint_has_the_name_of_its_folder(init, write):
    """Google's checkpoints are all called alike."""
    folder = write("one", "mmrm")
    scores = json.loads((folder / "scores.json").read_text())
    (folder / "scores.json").write_text(json.dumps({**scores, "init": init}))
    assert results.read(folder).name == "biobert"


@pytest.mark.parametrize(
    ("init", "name"),
    [
        ("out/a/kept-1000", "a/kept-1000"),
        ("gs://out/b/kept-1000/", "b/kept-1000"),
        (".", "here"),
        ("gs://out/b", "b"),
        ("random weights", "random weights"),
    ],
)
def test_no_two_models_are_called_alike(init, name, write, tmp_path, monkeypatch):
    """The checkpoints of two runs that keep the same steps; and the current folder has a name."""
    folder = write("one", "mmrm")
    scores = json.loads((folder / "scores.json").read_text())
    (folder / "scores.json").write_text(json.dumps({**scores, "init": init}))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert results.read(folder).name == name
