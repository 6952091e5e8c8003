"""The official scores of the benchmarks, and how sure they are.

Each score is a function of the truth and the predictions, example by example, that returns figures
in [0, 1] (correlations in [-1, 1]) by name, the headline first. Those that `Scores` can give again
for any draw of the examples are made of what was counted of each, so that a draw of `bootstrap`
costs only a sum:

    scores = metrics.entity_scores(truth, predicted)
    scores.drawn("f1", times)  # how often each example was drawn
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set

import numpy as np

from tfbio.base.cli import UserError

PICO_ELEMENTS = ("PAR", "INT", "OUT")
# BioASQ lets a system give so many answers to a factoid question.
FACTOID_ANSWERS = 5

RIGHT, PREDICTED, TRUE = range(3)


class ScoreError(UserError):
    """Truth or predictions that cannot be scored."""


# From what was counted of each unit, float64 [n, ...], and how often each was drawn, float64 [n].
Figure = Callable[[np.ndarray, np.ndarray], float]


class Scores(dict[str, float]):
    """Figures by name, the first sums up; some of them again for any draw of what was scored.

    What is drawn are examples; documents or questions, where the score is over these.

    Args:
      drawable: name -> what was counted of each unit, float64 or int64 [n, ...], and the figure as
        a function of it. All have the same units.
      others: further figures.

    Attributes:
      size: units there are.
      drawable: the names of the figures that can be drawn.
    """

    def __init__(
        self,
        drawable: Mapping[str, tuple[np.ndarray, Figure]],
        others: Mapping[str, float] | None = None,
    ):
        super().__init__()
        self._parts = {name: (np.asarray(x, float), own) for name, (x, own) in drawable.items()}
        self.drawable = frozenset(self._parts)
        self.size = len(next(iter(self._parts.values()))[0])
        self.update({name: self.drawn(name, np.ones(self.size)) for name in self._parts})
        self.update(others or {})

    def drawn(self, name: str, times: np.ndarray) -> float:
        """A figure of a draw, of which float64 [size] says how often each unit is in it."""
        units, figure = self._parts[name]
        return figure(units, times)


def count(
    truth: Sequence[Set[tuple]], predicted: Sequence[Set[tuple]], types: Sequence[str]
) -> np.ndarray:
    """Counts the items of each example and type.

    Args:
      truth: N sets of items, each a tuple whose first value is its type.
      predicted: N sets of items.
      types: T names.

    Returns:
      int64 [N, T, 3]: how many items are right, predicted and true.

    Raises:
      ScoreError: an item is of none of the types, or the lengths differ.
    """
    _check_lengths(truth, predicted)
    column = {name: index for index, name in enumerate(types)}
    counts = np.zeros((len(truth), len(types), 3), np.int64)
    for example, (true, found) in enumerate(zip(truth, predicted, strict=True)):
        for kind, items in ((RIGHT, true & found), (PREDICTED, found), (TRUE, true)):
            for item in items:
                if item[0] not in column:
                    raise ScoreError(
                        f"example {example}: unknown label {item[0]!r}; the labels are "
                        f"{', '.join(types)}."
                    )
                counts[example, column[item[0]], kind] += 1
    return counts


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


def _mean(units: np.ndarray, times: np.ndarray) -> float:
    """The mean of a value of each unit, [N]."""
    return float(times @ units / times.sum())


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


def entities(tags: Sequence[str], strict: bool = False) -> set[tuple[str, int, int]]:
    """The entities of one sentence.

    An I that continues no entity of its type starts one, which is the rule of `conlleval` (the
    script of CoNLL-2000 and 2003) and seqeval's default. The corpora have no such I; models predict
    it. ELECTRA's scorer does the same for a single type; with several it does not part an I-y from
    the B-x before it.

    Args:
      tags: O, B, I, B-TYPE or I-TYPE for each word.
      strict: leave out what does not start with B, which is seqeval's strict mode with IOB2.

    Returns:
      (type, first word, last word) of each; the type of a bare tag is "_", as in seqeval.

    Raises:
      ScoreError: a tag is not of the BIO scheme.
    """
    for tag in dict.fromkeys(tags):
        if not re.fullmatch(r"O|[BI](-.+)?", tag):
            raise ScoreError(f"{tag!r} is no BIO tag: expected O, B, I, B-TYPE or I-TYPE.")
    found, start = set(), 0
    # By hand: seqeval's two modes are two implementations, each several times slower.
    for word, (before, tag) in enumerate(zip(("O", *tags), (*tags, "O"), strict=True)):
        if tag[0] == "I" and before != "O" and before[1:] == tag[1:]:
            continue
        if before != "O" and (tags[start][0] == "B" or not strict):
            found.add((before[2:] or "_", start, word - 1))
        start = word
    return found


def entity_scores(
    truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], types: Sequence[str] = ()
) -> Scores:
    """Scores of named entity recognition: an entity is right if type, start and end are.

    Args:
      truth: BIO tags of each sentence's words.
      predicted: as many.
      types: those to score, whether they occur or not.

    Returns:
      "f1", "precision", "recall" over all entities by the rule of `conlleval`; the same as
      "strict_f1", ... without the entities that do not start with B (seqeval's strict mode). Both
      agree where every I continues an entity of its type; where only the truth is so, the strict
      recall is never higher, while precision and F1 can be. With several types also "f1_TYPE" of
      each by the first rule.

    Raises:
      ScoreError: a tag is not of the BIO scheme, or the lengths differ.
    """
    _check_words(truth, predicted)

    def counts(strict: bool) -> tuple[np.ndarray, list[str]]:
        sets = [[entities(tags, strict) for tags in sentences] for sentences in (truth, predicted)]
        found = {item[0] for sentences in sets for items in sentences for item in items}
        names = sorted(found.union(types))
        return count(*sets, names), names

    by_type, names = counts(strict=False)
    strict = Scores(_micro(counts(strict=True)[0]))
    others = {f"strict_{name}": x for name, x in strict.items()}
    if len(names) > 1:
        others |= _f1_by_type(by_type, names)
    return Scores(_micro(by_type), others)


def words(tags: Sequence[str | Collection[str]]) -> set[tuple[str, int]]:
    """(element, number of the word) for each element of each word; see `word_scores`."""
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
    """Scores of EBM-PICO, word by word (BLURB, section 4.2 and Table 3).

    Each element is scored by itself over the words of all documents, as the corpus's own script
    does (`vanilla_tokens`), so that a word may be of several elements.

    Args:
      truth: each sentence's words, each as a tag ("O", "I-PAR") or as a set of elements ({"PAR",
        "INT"}, none for O).
      predicted: as many.
      elements: their names.

    Returns:
      "macro_f1", the mean over the elements, and "f1_ELEMENT" of each; "accuracy", the share of
      words whose elements are right, with those of none (BioELECTRA's code reports both:
      `finetune/tagging/tagging_metrics.py:AccuracyScorer`).

    Raises:
      ScoreError: an element is unknown, or the lengths differ.
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
    """Scores of relation extraction: a pair with no relation is nothing to be found.

    Args:
      truth: labels.
      predicted: labels.
      negative: the label or labels that say that there is no relation.
      types: labels to score one by one, whether they occur or not.

    Returns:
      "f1", "precision", "recall" over all other labels together (BLURB, Table 3; for GAD, which
      has one such label, its F1), and "macro_f1", the mean over those of them that occur (bio-lm's
      ChemProt). With `types` also "f1_LABEL", "precision_LABEL" and "recall_LABEL" of each.
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
    """Scores of classification (MedNLI, PubMedQA, BioASQ yes/no).

    Args:
      truth: labels.
      predicted: labels.
      labels: those to average over; by default all that occur. BioASQ's own macro F1 is always
        over yes and no.

    Returns:
      "accuracy", the share of right labels, and "macro_f1", the mean of the labels' F1.
    """
    from sklearn import metrics

    _check_lengths(truth, predicted)
    right = np.array([true == found for true, found in zip(truth, predicted, strict=True)])
    f1 = metrics.f1_score(truth, predicted, labels=labels, average="macro", zero_division=0.0)
    return Scores({"accuracy": (right, _mean)}, {"macro_f1": float(f1)})


def label_scores(
    truth: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]
) -> Scores:
    """Scores of multi-label classification.

    Args:
      truth: the labels of each example.
      predicted: as many.
      labels: all labels.

    Returns:
      "f1", "precision", "recall" over examples x labels; "macro_f1", the mean of the labels' F1.

    Raises:
      ScoreError: a label is unknown, or the lengths differ.
    """
    counts = _label_counts(truth, predicted, labels)
    return Scores(_micro(counts) | {"macro_f1": (counts, _macro_f1)})


def by_document(
    document_ids: Sequence[str], label_sets: Sequence[Collection[str]]
) -> dict[str, set[str]]:
    """The labels of each document: those of any of its sentences, in the order of first sight."""
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
    """Scores of Hallmarks of Cancer, by each of the definitions that papers use.

    Args:
      document_ids: the document of each sentence.
      truth: the labels of each sentence.
      predicted: the labels of each sentence.
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
      "bioelectra_code_f1": that of BioELECTRA's published code, see `bioelectra_label_scores`.
        Whether its 83.50 is that cannot be told.

    Raises:
      ScoreError: a label is unknown, or the lengths differ.
    """
    _check_lengths(truth, predicted)
    documents = _label_counts(
        *(list(by_document(document_ids, sets).values()) for sets in (truth, predicted)), labels
    )
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
    """Scores of multi-label classification as BioELECTRA's published code has them (HoC).

    Each example counts by itself, and the absence of a label is a label of its own
    (`finetune/classification/classification_metrics.py:F1Scorer` of github.com/kamalkraj/electra).

    Args:
      truth: the labels of each example.
      predicted: as many.
      labels: all labels.
      absent: bool [examples, labels], which labels are predicted to be absent; by default those
        that are not predicted. A model with an output of its own for absence may predict both.

    Returns:
      "f1", the harmonic mean of "precision" and "recall", which are means over presence and
      absence of all labels.

    Raises:
      ScoreError: a label is unknown, or the lengths differ.
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
    """Scores of sentence similarity (BIOSSES, ClinicalSTS).

    Where all predictions, or all true values, are the same, a correlation is undefined. It is then
    given as 0: such a model tells nothing, and the mean over seeds stays a number.

    Returns:
      "pearson" and "spearman", in [-1, 1].

    Raises:
      ScoreError: a value is NaN or infinite; the message names the first.
    """
    from scipy import stats

    _check_lengths(truth, predicted)
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


def squad_scores(answers: Sequence[Sequence[str]], predicted: Sequence[str]) -> Scores:
    """Scores of extractive question answering by SQuAD's official script (v2.0).

    Texts are compared without case, ASCII punctuation, articles and runs of whitespace; the best of
    a question's answers counts. The script of v1.1 differs only in answers of which that leaves
    nothing ("The"): v2.0 ignores them.

    Args:
      answers: those of each question; none where it has no answer.
      predicted: the answer to each question; "" for none.

    Returns:
      "f1" of the words and "exact_match", each a mean over the questions. Where some have no
      answer, also over those that have ("has_answer_f1", ...) and have not ("no_answer_f1", ...).
    """
    _check_lengths(answers, predicted)
    scores = np.array([_answer_scores(*pair) for pair in zip(answers, predicted, strict=True)])
    answerable = np.array([len(options) > 0 for options in answers])
    names, groups = ("f1", "exact_match"), {}
    if not answerable.all():
        groups = {"has_answer_": answerable, "no_answer_": ~answerable}
    return Scores(
        {name: (scores[:, column], _mean) for column, name in enumerate(names)},
        {
            prefix + name: float(scores[group, column].mean())
            for prefix, group in groups.items()
            if group.any()
            for column, name in enumerate(names)
        },
    )


def bioasq_factoid_scores(
    synonyms: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> Scores:
    """Scores of BioASQ's factoid questions, as its `EvaluatorTask1b` (version 5) has them.

    An answer is right if it equals a synonym but for case: nothing else is normalised.

    Args:
      synonyms: the right answers to each question.
      predicted: the answers to each question, the best first; those after the fifth do not count.

    Returns:
      "mrr", the mean over questions of 1 / rank of the first right answer (0 without one),
      "strict_accuracy", the share with a right first answer, and "lenient_accuracy", the share with
      any right answer (BioMegatron, Table 2, has the three; BioM reports "mrr").
    """
    _check_lengths(synonyms, predicted)
    reciprocal_ranks = np.zeros(len(predicted))
    for question, (right, guesses) in enumerate(zip(synonyms, predicted, strict=True)):
        accepted = {answer.lower() for answer in right}
        for rank, guess in enumerate(guesses[:FACTOID_ANSWERS], start=1):
            if guess.lower() in accepted:
                reciprocal_ranks[question] = 1 / rank
                break
    return Scores(
        {
            "mrr": (reciprocal_ranks, _mean),
            "strict_accuracy": (reciprocal_ranks == 1, _mean),
            "lenient_accuracy": (reciprocal_ranks > 0, _mean),
        }
    )


def bootstrap(
    score: Callable[[np.ndarray], float],
    size: int,
    seed: int,
    samples: int = 1000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """The percentile interval of a score (Efron and Tibshirani 1993, chapter 13).

    Args:
      score: the score of the examples of these indices, int64 [size], drawn with replacement.
      size: examples there are.
      seed: of the draws.
      samples: draws.
      confidence: the share of draws whose scores the interval holds.

    Returns:
      Its lower and upper end.
    """
    scores = [score(rows) for rows in _resamples(size, seed, samples)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(scores, [tail, 1 - tail])
    return float(low), float(high)


def paired_bootstrap(
    score: Callable[[np.ndarray], float],
    baseline: Callable[[np.ndarray], float],
    size: int,
    seed: int,
    samples: int = 10_000,
) -> float:
    """The p-value of a difference: how probable so large a one is if none is real.

    The test of Berg-Kirkpatrick et al. (2012, Figure 1): both systems are scored on the same draws
    of examples. Their differences lie around the one that was found, not around 0, so those count
    that are at least twice as large. It is one-sided (score > baseline), and never 0: what was
    found counts as one more draw (Davison and Hinkley 1997, section 4.2).

    Args:
      score: the score of the examples of these indices, int64 [size], drawn with replacement.
      baseline: the same of the system it is compared with.
      size: examples there are.
      seed: of the draws.
      samples: draws.
    """
    found = score(np.arange(size)) - baseline(np.arange(size))
    differences = [score(rows) - baseline(rows) for rows in _resamples(size, seed, samples)]
    # Equal differences must count although they are sums of rounded numbers.
    extreme = np.count_nonzero(np.array(differences) >= 2 * found - 1e-12)
    return float((extreme + 1) / (samples + 1))


def _resamples(size: int, seed: int, samples: int) -> Iterator[np.ndarray]:
    """Draws of `size` indices with replacement, int64 [size] each; of one seed always the same."""
    generator = np.random.default_rng(seed)
    return (generator.integers(size, size=size) for _ in range(samples))


def _check_lengths(truth: Sequence, predicted: Sequence) -> None:
    if len(truth) != len(predicted):
        raise ScoreError(f"there are {len(truth)} examples and {len(predicted)} predictions.")
    if len(truth) == 0:
        raise ScoreError("there is no example to score.")


def _check_words(truth: Sequence[Sequence], predicted: Sequence[Sequence]) -> None:
    _check_lengths(truth, predicted)
    for sentence, (true, found) in enumerate(zip(truth, predicted, strict=True)):
        if len(true) != len(found):
            raise ScoreError(
                f"sentence {sentence}: there are {len(true)} words and {len(found)} predictions."
            )


def _element(tag: str) -> tuple[str, ...]:
    return () if tag == "O" else (tag.removeprefix("B-").removeprefix("I-"),)


def _label_counts(
    truth: Sequence[Collection[str]], predicted: Sequence[Collection[str]], labels: Sequence[str]
) -> np.ndarray:
    """Counts of label sets; int64 [N, labels, 3]."""
    return count(*([{(x,) for x in one} for one in sets] for sets in (truth, predicted)), labels)


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


def _normalised(answer: str) -> str:
    """SQuAD's `normalize_answer`; the order of its steps matters ("a." is an article)."""
    text = answer.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _answer_scores(answers: Sequence[str], predicted: str) -> tuple[float, float]:
    """F1 and exact match of one answer against the best of those to be found."""
    options = [text for text in map(_normalised, answers) if text] or [""]
    guess = _normalised(predicted)
    return max(_word_f1(text, guess) for text in options), float(guess in options)


def _word_f1(answer: str, predicted: str) -> float:
    if not answer or not predicted:
        return float(answer == predicted)
    true, found = Counter(answer.split()), Counter(predicted.split())
    return 2 * (true & found).total() / (true.total() + found.total())
