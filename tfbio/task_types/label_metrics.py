"""Scores of the labels of texts: classes, relations, label sets, and HoC's.

`entity_metrics` has those of tagged words, `similarity_metrics` those of numbers and
`answer_metrics` those of answers. Each function returns `Scores`: figures in [0, 1], the headline
first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import numpy as np

from tfbio.formats.label_sets import HALLMARKS
from tfbio.formats.task_examples import LabelledText
from tfbio.task_types import metrics
from tfbio.task_types.metrics import TRUE, Scores, check_lengths, count, mean


def relation_scores(
    truth: Sequence[str],
    predicted: Sequence[str],
    negative: str,
    types: Sequence[str] = (),
) -> Scores:
    """Computes label metrics of relation extraction, where pairs without a relation do not count.

    Args:
      truth, predicted: the label of each example.
      negative: the label that says that there is no relation.
      types: labels to score one by one, whether they occur or not.

    Returns:
      `Scores` in [0, 1]: "f1", "precision", "recall" over all other labels together (BLURB, Table
      3; for GAD, which has one such label, its F1), and "macro_f1", the mean over those of them
      that occur. With `types` also "f1_LABEL", "precision_LABEL" and
      "recall_LABEL" of each.

    Raises:
      ScoreError: the lengths differ, or there is no example.
    """
    names = sorted((set(truth) | set(predicted)) - {negative})
    counts = _label_counts(
        [{x} - {negative} for x in truth], [{x} - {negative} for x in predicted], names
    )
    # Not of draws, which may lack a label.
    others = {"macro_f1": metrics.macro_f1(counts, np.ones(len(counts)))}
    totals = dict(zip(names, counts.sum(axis=0), strict=True))
    own = [totals.get(name, np.zeros(3, np.int64)) for name in types]
    others |= metrics.by_type(np.reshape(own, [-1, 3]), types)
    return Scores(metrics.micro(counts), others)


def accuracy_and_macro_f1(truth: Sequence[str], predicted: Sequence[str]) -> Scores:
    """Computes label metrics of classification (MedNLI, PubMedQA, BioASQ yes/no).

    Args:
      truth, predicted: the label of each example.

    Returns:
      `Scores` in [0, 1]: "accuracy", the share of right labels, and "macro_f1", the mean of the
      F1 of all labels that occur.

    Raises:
      ScoreError: the lengths differ, or there is no example.
    """
    from sklearn.metrics import f1_score

    check_lengths(truth, predicted)
    right = np.array([true == found for true, found in zip(truth, predicted, strict=True)])
    f1 = f1_score(truth, predicted, average="macro", zero_division=0.0)
    return Scores({"accuracy": (right, mean)}, {"macro_f1": float(f1)})


def by_document(
    document_ids: Sequence[str], label_sets: Sequence[Collection[str]]
) -> dict[str, set[str]]:
    """Merges the labels of sentences by document, for HoC's label metrics.

    Args:
      document_ids: the document of each sentence.
      label_sets: the labels of each sentence.

    Returns:
      Document id -> the labels of any of its sentences, in the order of the first sentences.

    Raises:
      ValueError: the lengths differ.
    """
    documents: dict[str, set[str]] = {}
    for document, labels in zip(document_ids, label_sets, strict=True):
        documents.setdefault(document, set()).update(labels)
    return documents


def hoc_scores(
    document_ids: Sequence[str],
    truth: Sequence[Collection[str]],
    predicted: Sequence[Collection[str]],
    labels: Sequence[str],
) -> Scores:
    """Computes label metrics of the Hallmarks of Cancer, by each definition that papers use.

    Args:
      document_ids: the document of each sentence.
      truth, predicted: the labels of each sentence.
      labels: all labels.

    Returns:
      `Scores` in [0, 1].
      "micro_f1": over documents x labels. BLURB (section 4.5, "average micro F1 across the ten
        cancer hallmarks") and BioELECTRA (Table 1, "Micro F1") are read so, as LinkBERT's code for
        BLURB does: what to set beside their 82.32 and 83.50.
      "macro_f1": the mean of the labels' F1 over documents.
      "blue_f1": BLUE's `eval_hoc.py`, which bio-lm's code follows: F of the mean over documents of
        precision (0 where nothing is predicted) and of recall. Documents without a true label are
        left out: BLUE's data has none, and its script would divide by 0.
      "bioelectra_f1": F of the mean over labels of precision and of recall, over documents.
      "bioelectra_code_f1": that of BioELECTRA's code; whether its 83.50 is that cannot be told.
      "f1_LABEL", "precision_LABEL" and "recall_LABEL" of each label, over documents.

    Raises:
      ScoreError: a label is unknown, the lengths differ, or there is no sentence.
      ValueError: `document_ids` has another length.
    """
    check_lengths(truth, predicted)
    true_sets, predicted_sets = (
        list(by_document(document_ids, sets).values()) for sets in (truth, predicted)
    )
    documents = _label_counts(true_sets, predicted_sets, labels)
    labelled = documents.sum(axis=1)
    labelled = labelled[labelled[:, TRUE] > 0]
    drawable = {
        "micro_f1": metrics.micro(documents)["f1"],
        "macro_f1": (documents, metrics.macro_f1),
    }
    others = {
        "blue_f1": metrics.f1_of_means(labelled),
        "bioelectra_f1": metrics.f1_of_means(documents.sum(axis=0)),
        "bioelectra_code_f1": bioelectra_label_scores(truth, predicted, labels)["f1"],
    }
    return Scores(drawable, others | metrics.by_type(documents.sum(axis=0), labels))


def bioelectra_label_scores(
    truth: Sequence[Collection[str]],
    predicted: Sequence[Collection[str]],
    labels: Sequence[str],
    absent: np.ndarray | None = None,
) -> dict[str, float]:
    """Computes label metrics of "multilabel" as BioELECTRA's published code does (for HoC).

    Each example counts by itself, and the absence of a label is a label of its own
    (`finetune/classification/classification_metrics.py:F1Scorer` of github.com/kamalkraj/electra).

    Args:
      truth, predicted: the labels of each example.
      labels: all labels.
      absent: bool [examples, labels], which labels are predicted to be absent; by default those
        that are not predicted. A model with an output of its own for absence may predict both.

    Returns:
      Name -> float in [0, 1]: "precision" and "recall", means over labels and their absence, and
      "f1", the harmonic mean of the two.

    Raises:
      ScoreError: a label is unknown, the lengths differ, or there is no example.
    """
    present = _label_counts(truth, predicted, labels).sum(axis=0)
    if absent is None:
        absent = np.array([[label not in own for label in labels] for own in predicted])
    truly = np.array([[label not in own for label in labels] for own in truth])
    counts = np.stack([(absent & truly).sum(0), absent.sum(0), truly.sum(0)], axis=1)
    counts = np.concatenate([present, counts])
    precision, recall = (float(x.mean()) for x in metrics.precision_and_recall(counts))
    return {"f1": metrics.f1_of_means(counts), "precision": precision, "recall": recall}


def _label_counts(
    truth: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]
) -> np.ndarray:
    """Counts of label sets; int64 [N, labels, 3]."""
    true_sets, predicted_sets = (
        [{(label,) for label in one} for one in sets] for sets in (truth, predicted)
    )
    return count(true_sets, predicted_sets, labels)


def _labels(examples: Sequence[LabelledText]) -> list:
    return [example.label for example in examples]


# `Task.score` of relations, with `negative` and perhaps `types`, and of texts with one class each.
score_relations = partial(metrics.of_examples, relation_scores)
score_classes = partial(metrics.of_examples, accuracy_and_macro_f1)


def score_label_sets(
    examples: Sequence[LabelledText], predicted: Sequence[Sequence[str]], labels: Sequence[str]
) -> Scores:
    """Computes label metrics of texts with any number of labels, as `Task.score` of "multilabel".

    Args:
      examples: the texts, with their labels.
      predicted: the labels of each.
      labels: all labels.

    Returns:
      `Scores` in [0, 1]: "f1", "precision" and "recall" over examples x labels, "macro_f1", the
      mean of the labels' F1, and with several labels "f1_LABEL", "precision_LABEL" and
      "recall_LABEL" of each.

    Raises:
      ScoreError: a label is unknown, the lengths differ, or there is no example.
    """
    counts = _label_counts(_labels(examples), predicted, labels)
    others = metrics.by_type(counts.sum(axis=0), labels) if len(labels) > 1 else {}
    return Scores(metrics.micro(counts) | {"macro_f1": (counts, metrics.macro_f1)}, others)


def score_hallmarks(examples: Sequence[LabelledText], predicted: Sequence[Sequence[str]]) -> Scores:
    """Computes label metrics of HoC's sentences, by document, as its `Task.score`.

    Args:
      examples: sentences with their `HALLMARKS` and their document.
      predicted: the hallmarks of each.

    Returns:
      `Scores` "micro_f1", "macro_f1", "blue_f1", "bioelectra_f1", "bioelectra_code_f1" and
      those of each label in [0, 1], which `hoc_scores` defines.

    Raises:
      ScoreError: a label is no hallmark, the lengths differ, or there is no sentence.
    """
    documents = [example.document for example in examples]
    return hoc_scores(documents, _labels(examples), predicted, HALLMARKS)
