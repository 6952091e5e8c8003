"""Several labels: the scores of the authors' code. (The rest: see test_classification.py.)"""

from types import SimpleNamespace

import numpy as np
import pytest

from tfbio.task_types import own_data, types
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.multilabel import MultiLabel


def test_outputs_of_absence_count_in_the_authors_scores():
    settings = FinetuningConfig(multilabel=MultiLabel.Settings(absent_outputs=True))
    task_type = types.make("multilabel", ("a", "b"), settings)
    examples = [SimpleNamespace(label=own) for own in (("a",), ("b",), ())]
    # Absence and presence of a, then of b; a's contradict each other in the first example.
    outputs = [
        np.array(row) for row in ([0.9, 0.9, 0.9, 0.1], [0.9, 0.1, 0.1, 0.9], [0.9, 0.1, 0.1, 0.1])
    ]
    predicted = task_type.predictions(outputs, None, examples)
    assert predicted == [("a",), ("b",), ()]
    score = own_data.own_score("multilabel", task_type.labels)
    scores = task_type.more_scores(score, examples, predicted, None, outputs)
    # Columns: a absent 2 of 3 right and all found; b absent 1 of 1 right, one of two found.
    precision, recall = (1 + 2 / 3 + 1 + 1) / 4, (1 + 1 + 1 + 1 / 2) / 4
    assert scores["bioelectra_code_precision"] == pytest.approx(precision)
    assert scores["bioelectra_code_recall"] == pytest.approx(recall)
    f1 = 2 * precision * recall / (precision + recall)
    assert scores["bioelectra_code_f1"] == pytest.approx(f1)
