"""The official scores of the benchmarks; those of questions are in `answer_scores`.

Each function returns `Scores`: figures in [0, 1] (correlations in [-1, 1]), the headline first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

import numpy as np

from tfbio.task_types import tag_schemes
from tfbio.task_types.scores import (
    PREDICTED,
    RIGHT,
    TRUE,
    Figure,
    ScoreError,
    Scores,
    check_lengths,
    count,
    mean,
)

PICO_ELEMENTS = ("PAR", "INT", "OUT")


def _micro(counts: np.ndarray) -> dict[str, tuple[np.ndarray, Figure]]:
    """Micro-averaged "f1", "precision" and "recall" of counts [N, T, 3], of any draw of the N."""
    counts = counts.sum(axis=1)
    return {
        "f1": (counts, lambda units, times: float(_f1(times @ units))),
        "precision": (counts, lambda units, times: float(_precision_and_recall(times @ units)[0])),
        "recall": (counts, lambda units, times: float(_precision_and_recall(times @ units)[1])),
    }


def _macro_f1(units: np.ndarray, times: np.ndarray) -> float:
    """The mean over types of their F1, from counts [N, T, 3]; 0 without a type."""
    f1 = _f1(np.tensordot(times, units, 1))
    return float(f1.mean()) if len(f1) else 0.0


def _pearson(units: np.ndarray, times: np.ndarray) -> float:
    """Pearson's correlation of pairs, [N, 2]; 0 where one side does not vary."""
    units = units[times > 0]
    times = times[times > 0]
    if (np.ptp(units, axis=0) == 0).any():
        return 0.0
    x, y = (units - times @ units / times.sum()).T
    # Each side by itself: a product of two tiny variances would be 0.
    norm = np.sqrt(times @ (x * x)) * np.sqrt(times @ (y * y))
    return float(np.clip((times * x) @ y / norm, -1, 1))


def entity_scores(
    truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], types: Sequence[str] = ()
) -> Scores:
    """Computes the scores of named entity recognition: type, start and end must be right.

    Args:
      truth: BIO tags of each sentence's words.
      predicted: predicted BIO tags of the same words.
      types: entity types to score, whether they occur or not.

    Returns:
      "f1", "precision", "recall" over all entities by the rule of `conlleval`; the same as
      "strict_f1", ... without the entities that do not start with B (seqeval's strict mode). Both
      agree where every I continues an entity of its type; where only the truth is so, the strict
      recall is never higher, while precision and F1 can be. With several types also "f1_TYPE" of
      each by the first rule.

    Raises:
      ScoreError: a tag is not of the BIO scheme, the lengths differ, or there is no sentence.
    """
    _check_words(truth, predicted)

    def counts(strict: bool) -> tuple[np.ndarray, list[str]]:
        true_sets, predicted_sets = (
            [tag_schemes.entities(tags, strict) for tags in sentences]
            for sentences in (truth, predicted)
        )
        names = {item[0] for items in (*true_sets, *predicted_sets) for item in items}
        ordered = sorted(names.union(types))
        return count(true_sets, predicted_sets, ordered), ordered

    by_type, names = counts(strict=False)
    strict = Scores(_micro(counts(strict=True)[0]))
    others = {f"strict_{name}": x for name, x in strict.items()}
    if len(names) > 1:
        others |= _f1_by_type(by_type, names)
    return Scores(_micro(by_type), others)


def item_scores(
    truth: Sequence[Set[tuple]], predicted: Sequence[Set[tuple]], types: Sequence[str]
) -> Scores:
    """Computes the scores of sets of items, such as spans that may overlap.

    Args:
      truth, predicted: the items of each example: tuples that begin with their type.
      types: all types.

    Returns:
      "f1", "precision", "recall" over all items; with several types also "f1_TYPE" of each.

    Raises:
      ScoreError: a type is unknown, the lengths differ, or there is no example.
    """
    counts = count(truth, predicted, types)
    return Scores(_micro(counts), _f1_by_type(counts, types) if len(types) > 1 else {})


def words(tags: Sequence[str | Collection[str]]) -> set[tuple[str, int]]:
    """Returns pairs (element, number of the word from 0), of each word's tag or set of elements."""
    return {
        (element, word)
        for word, tag in enumerate(tags)
        for element in (_element(tag) if isinstance(tag, str) else tag)
    }


def word_scores(
    truth: Sequence[Sequence[str | Collection[str]]],
    predicted: Sequence[Sequence[str | Collection[str]]],
    elements: Sequence[str] = PICO_ELEMENTS,
) -> Scores:
    """Computes the scores of EBM-PICO, word by word (BLURB, section 4.2 and Table 3).

    Each element is scored by itself over the words of all documents, as the corpus's own script
    does (`vanilla_tokens`), so that a word may be of several elements.

    Args:
      truth, predicted: each sentence's words, each as a tag ("O", "I-PAR") or as a set of
        elements ({"PAR", "INT"}, none for O).
      elements: their names.

    Returns:
      "macro_f1", the mean over the elements, and "f1_ELEMENT" of each; "accuracy", the share of
      words whose elements are right, with those of none (BioELECTRA's code reports both:
      `finetune/tagging/tagging_metrics.py:AccuracyScorer`).

    Raises:
      ScoreError: an element is unknown, the lengths differ, or there is no sentence.
    """
    _check_words(truth, predicted)
    found, true = (
        [[words([tag]) for tag in tags] for tags in sentences] for sentences in (predicted, truth)
    )
    right = [a == b for pair in zip(true, found, strict=True) for a, b in zip(*pair, strict=True)]
    counts = count([words(x) for x in truth], [words(x) for x in predicted], elements)
    others = _f1_by_type(counts, elements) | {"accuracy": float(np.mean(right)) if right else 0.0}
    return Scores({"macro_f1": (counts, _macro_f1)}, others)


def relation_scores(
    truth: Sequence[str],
    predicted: Sequence[str],
    negative: str | Collection[str],
    types: Sequence[str] = (),
) -> Scores:
    """Computes the scores of relation extraction, in which pairs without a relation do not count.

    Args:
      truth, predicted: the label of each example.
      negative: the label or labels that say that there is no relation.
      types: labels to score one by one, whether they occur or not.

    Returns:
      "f1", "precision", "recall" over all other labels together (BLURB, Table 3; for GAD, which
      has one such label, its F1), and "macro_f1", the mean over those of them that occur (bio-lm's
      ChemProt). With `types` also "f1_LABEL", "precision_LABEL" and "recall_LABEL" of each.

    Raises:
      ScoreError: the lengths differ, or there is no example.
    """
    negatives = {negative} if isinstance(negative, str) else set(negative)
    names = sorted((set(truth) | set(predicted)) - negatives)
    counts = _label_counts(
        [{x} - negatives for x in truth], [{x} - negatives for x in predicted], names
    )
    # Not of draws, which may lack a label.
    others = {"macro_f1": _macro_f1(counts, np.ones(len(counts)))}
    totals = dict(zip(names, counts.sum(axis=0), strict=True))
    for name in types:
        own = totals.get(name, np.zeros(3, np.int64))
        precision, recall = map(float, _precision_and_recall(own))
        others |= {f"f1_{name}": float(_f1(own)), f"precision_{name}": precision}
        others[f"recall_{name}"] = recall
    return Scores(_micro(counts), others)


def accuracy_and_macro_f1(
    truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str] | None = None
) -> Scores:
    """Computes the scores of classification (MedNLI, PubMedQA, BioASQ yes/no).

    Args:
      truth, predicted: the label of each example.
      labels: those to average over; by default all that occur (of BioASQ always yes and no).

    Returns:
      "accuracy", the share of right labels, and "macro_f1", the mean of the labels' F1.

    Raises:
      ScoreError: the lengths differ, or there is no example.
    """
    from sklearn import metrics

    check_lengths(truth, predicted)
    right = np.array([true == found for true, found in zip(truth, predicted, strict=True)])
    f1 = metrics.f1_score(truth, predicted, labels=labels, average="macro", zero_division=0.0)
    return Scores({"accuracy": (right, mean)}, {"macro_f1": float(f1)})


def label_scores(
    truth: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]
) -> Scores:
    """Computes the scores of multi-label classification.

    Args:
      truth, predicted: the labels of each example.
      labels: all labels.

    Returns:
      "f1", "precision", "recall" over examples x labels; "macro_f1", the mean of the labels' F1.

    Raises:
      ScoreError: a label is unknown, the lengths differ, or there is no example.
    """
    counts = _label_counts(truth, predicted, labels)
    return Scores(_micro(counts) | {"macro_f1": (counts, _macro_f1)})


def by_document(
    document_ids: Sequence[str], label_sets: Sequence[Collection[str]]
) -> dict[str, set[str]]:
    """Returns document id -> the labels of any of its sentences, in the order of first sight.

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
    """Computes the scores of Hallmarks of Cancer, by each of the definitions that papers use.

    Args:
      document_ids: the document of each sentence.
      truth, predicted: the labels of each sentence.
      labels: all labels.

    Returns:
      "micro_f1": over documents x labels. BLURB (section 4.5, "average micro F1 across the ten
        cancer hallmarks") and BioELECTRA (Table 1, "Micro F1") are read so, as LinkBERT's code for
        BLURB does: what to set beside their 82.32 and 83.50.
      "macro_f1": the mean of the labels' F1 over documents (bio-lm, Table 1).
      "blue_f1": BLUE's `eval_hoc.py`: F of the mean over documents of precision (0 where nothing
        is predicted) and of recall. Documents without a true label are left out: BLUE's data has
        none, and its script would divide by 0.
      "bioelectra_f1": F of the mean over labels of precision and of recall, over documents.
      "bioelectra_code_f1": that of BioELECTRA's code; whether its 83.50 is that cannot be told.

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
    drawable = {"micro_f1": _micro(documents)["f1"], "macro_f1": (documents, _macro_f1)}
    others = {
        "blue_f1": _f1_of_means(labelled),
        "bioelectra_f1": _f1_of_means(documents.sum(axis=0)),
        "bioelectra_code_f1": bioelectra_label_scores(truth, predicted, labels)["f1"],
    }
    return Scores(drawable, others)


def bioelectra_label_scores(
    truth: Sequence[Collection[str]],
    predicted: Sequence[Collection[str]],
    labels: Sequence[str],
    absent: np.ndarray | None = None,
) -> dict[str, float]:
    """Computes the scores of multi-label classification as BioELECTRA's published code does (HoC).

    Each example counts by itself, and the absence of a label is a label of its own
    (`finetune/classification/classification_metrics.py:F1Scorer` of github.com/kamalkraj/electra).

    Args:
      truth, predicted: the labels of each example.
      labels: all labels.
      absent: bool [examples, labels], which labels are predicted to be absent; by default those
        that are not predicted. A model with an output of its own for absence may predict both.

    Returns:
      "f1", the harmonic mean of "precision" and "recall": means over labels and their absence.

    Raises:
      ScoreError: a label is unknown, the lengths differ, or there is no example.
    """
    present = _label_counts(truth, predicted, labels).sum(axis=0)
    if absent is None:
        absent = np.array([[label not in own for label in labels] for own in predicted])
    truly = np.array([[label not in own for label in labels] for own in truth])
    counts = np.stack([(absent & truly).sum(0), absent.sum(0), truly.sum(0)], axis=1)
    counts = np.concatenate([present, counts])
    precision, recall = (float(x.mean()) for x in _precision_and_recall(counts))
    return {"f1": _f1_of_means(counts), "precision": precision, "recall": recall}


def correlation_scores(truth: Sequence[float], predicted: Sequence[float]) -> Scores:
    """Computes the scores of sentence similarity (BIOSSES, ClinicalSTS).

    Where all predictions, or all true values, are the same, a correlation is undefined. It is then
    given as 0: such a model tells nothing, and the mean over seeds stays a number.

    Returns:
      "pearson" and "spearman", in [-1, 1].

    Raises:
      ScoreError: a value is NaN or infinite (the first is named), lengths differ, or no example.
    """
    from scipy import stats

    check_lengths(truth, predicted)
    for name, values in (("true value", truth), ("prediction", predicted)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ScoreError(f"example {bad[0]}: the {name} is {values[bad[0]]}, no finite number.")
    pairs = np.column_stack([truth, predicted])
    # Spearman's is Pearson's of the ranks; no draw has those of the whole.
    ranks = stats.rankdata(pairs, axis=0)
    return Scores(
        {"pearson": (pairs, _pearson)}, {"spearman": _pearson(ranks, np.ones(len(ranks)))}
    )


def _check_words(truth: Sequence[Sequence], predicted: Sequence[Sequence]) -> None:
    check_lengths(truth, predicted)
    for sentence, (true, found) in enumerate(zip(truth, predicted, strict=True)):
        if len(true) != len(found):
            message = f"there are {len(true)} words and {len(found)} predictions"
            raise ScoreError(f"sentence {sentence}: {message}.")


def _element(tag: str) -> tuple[str, ...]:
    return () if tag == "O" else (tag.removeprefix("B-").removeprefix("I-"),)


def _label_counts(
    truth: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]
) -> np.ndarray:
    """Counts of label sets; int64 [N, labels, 3]."""
    true_sets, predicted_sets = (
        [{(label,) for label in one} for one in sets] for sets in (truth, predicted)
    )
    return count(true_sets, predicted_sets, labels)


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Quotients, 0 where the denominator is."""
    return np.where(denominator == 0, 0.0, numerator / np.maximum(denominator, 1))


def _precision_and_recall(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    right = counts[..., RIGHT]
    return _ratio(right, counts[..., PREDICTED]), _ratio(right, counts[..., TRUE])


def _f1(counts: np.ndarray) -> np.ndarray:
    """F1 of counts [..., 3]: 2 right / (predicted + true), which is 2PR / (P + R)."""
    return _ratio(2 * counts[..., RIGHT], counts[..., PREDICTED] + counts[..., TRUE])


def _f1_of_means(counts: np.ndarray) -> float:
    """F of the mean precision and the mean recall of counts [M, 3]; 0 where M is 0."""
    if not counts.any():
        return 0.0
    precision, recall = (values.mean() for values in _precision_and_recall(counts))
    return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0


def _f1_by_type(counts: np.ndarray, types: Sequence[str]) -> dict[str, float]:
    """ "f1_TYPE" of counts [N, T, 3]."""
    return {f"f1_{name}": float(x) for name, x in zip(types, _f1(counts.sum(axis=0)), strict=True)}
