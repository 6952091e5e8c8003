"""One answer to everything, against figures worked out from the counts of labels, and sklearn's."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from data_prep.corpora import corpus_splits, pubmedqa
from tests import reference
from tfbio.formats.splits import find_split
from tfbio.formats.task_examples import LabelledText, Question, TaggedSentence
from tfbio.task_types import task_table, types


def of(task, dev, test):
    task = task_table.TASKS[task]
    return types.TYPES[task.task_type].one_answer(task.score, dev, test)


def texts(labels):
    return [LabelledText(str(i), "a", x, document=str(i)) for i, x in enumerate(labels)]


def split(folder, task, name):
    return task_table.TASKS[task].read(find_split(str(reference.corpus(folder)), name))


@pytest.mark.parametrize(
    ("task", "folder", "answer", "figure"),
    [
        # 281 of 534 are positive.
        ("gad", "gad/blurb", "1", 200 * 281 / (534 + 281)),
        # As in the tests of IQVIA's evaluators: see test_blurb_submission.py.
        ("chemprot", "chemprot/blurb", "CPR:4", 17.26),
        ("ddi", "ddi2013/blurb", "DDI-effect", 10.75),
    ],
)
def test_of_relations_it_is_the_most_frequent_one(task, folder, answer, figure):
    dev, test = (split(folder, task, name) for name in ("dev", "test"))
    found, scores = of(task, dev, test)
    assert found == f"{answer} for every text"
    assert 100 * scores["f1"] == pytest.approx(figure, abs=0.005)


def test_of_answers_it_is_the_most_frequent_one(tmp_path):
    """276 of PubMedQA's 500 are yes."""
    source = reference.corpus("pubmedqa/ori_pqal.json.gz")
    corpus_splits.write(str(tmp_path), pubmedqa.read_examples(source), True)
    examples = task_table.TASKS["pubmedqa"].examples(str(tmp_path))
    found, scores = of("pubmedqa", examples["dev"], examples["test"])
    assert (found, scores["accuracy"]) == ("yes for every text", 276 / 500)


def test_of_hallmarks_it_is_the_one_that_scores_highest():
    dev, test = (split("hoc/blurb", "hoc", name) for name in ("dev", "test"))
    found, scores = of("hoc", dev, test)
    names = task_table.TASKS["hoc"].labels
    best = names.index(found.removesuffix(" for every text"))
    figures = []
    for examples in (dev, test):
        truth = {}
        for x in examples:
            row = truth.setdefault(x.document, np.zeros(len(names), int))
            row |= np.array([name in x.label for name in names])
        truth = np.stack([*truth.values()])
        of_each = [np.tile(np.eye(len(names), dtype=int)[i], (len(truth), 1)) for i in range(10)]
        figures.append([f1_score(truth, one, average="micro") for one in of_each])
    assert best == np.argmax(figures[0])
    assert scores["micro_f1"] == pytest.approx(figures[1][best])


def test_eu_adrs_ten_folds_are_about_what_is_published():
    """Of how many texts how many are positive in BioBERT's folds; bio-lm reports 85.0."""
    counts = [(37, 27), (37, 27), (36, 26), *[(35, 26)] * 7]
    values = []
    for size, positive in counts:
        examples = texts(["1"] * positive + ["0"] * (size - positive))
        answer, scores = of("euadr", examples, examples)
        assert answer == "1 for every text", size
        values.append(100 * scores["f1"])
    assert f"{np.mean(values):.1f}" == "84.9"
    assert values == pytest.approx([200 * n / (size + n) for size, n in counts])


def test_the_label_is_that_of_the_development_set():
    answer, scores = of("bioasq", texts(["no", "no", "yes"]), texts(["yes", "yes", "yes", "no"]))
    assert (answer, scores["accuracy"]) == ("no for every text", 0.25)
    # What says that there is no relation is never right.
    answer, scores = of("chemprot", texts(["false"] * 5 + ["CPR:3"]), texts(["CPR:3", "false"]))
    assert answer == "CPR:3 for every text" and scores["f1"] == pytest.approx(2 / 3)
    assert of("hoc", texts([(), ()]), texts([(), ()]))[0] == "no label"


def test_what_has_no_labels_to_choose_from():
    sentence = TaggedSentence("1", ("aspirin", "helps"), ("B", "O"))
    assert of("bc5cdr_chem", [], [sentence])[1]["f1"] == 0
    pairs = texts([1.0, 2.0, 4.0])
    assert of("biosses", pairs, pairs)[1]["pearson"] == 0
    asked = [Question(str(i), "?", "", ("IL-2",) * (i > 0), (-1,) * (i > 0)) for i in range(4)]
    answer, scores = of("squad_v2", [], asked)
    assert (answer, scores["f1"]) == ("no answer", 0.25)
