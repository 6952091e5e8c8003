"""Scores of tagged words: entities, and EBM-PICO's words."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial

import numpy as np

from tfbio.task_types import tag_schemes
from tfbio.task_types.metrics import (
    ScoreError,
    Scores,
    by_type,
    check_lengths,
    count,
    macro_f1,
    micro,
    of_examples,
)

PICO_ELEMENTS = ("PAR", "INT", "OUT")


def entity_scores(
    truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], types: Sequence[str] = ()
) -> Scores:
    """Computes the entity metrics of BIO tags, in which type, start and end must be right.

    Args:
      truth: BIO tags of each sentence's words.
      predicted: predicted BIO tags of the same words.
      types: entity types to score, whether they occur or not.

    Returns:
      `Scores` in [0, 1]: "f1", "precision", "recall" over all entities by the rule of `conlleval`;
      the same as "strict_f1", ... without the entities that do not start with B (seqeval's strict
      mode). Both agree where every I continues an entity of its type; where only the truth is so,
      the strict recall is never higher, while precision and F1 can be. With several types also
      "f1_TYPE", "precision_TYPE" and "recall_TYPE" of each by the first rule.

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

    lenient, names = counts(strict=False)
    strict = Scores(micro(counts(strict=True)[0]))
    others = {f"strict_{name}": x for name, x in strict.items()}
    if len(names) > 1:
        others |= by_type(lenient.sum(axis=0), names)
    return Scores(micro(lenient), others)


def item_scores(
    truth: Sequence[Set[tuple]], predicted: Sequence[Set[tuple]], types: Sequence[str]
) -> Scores:
    """Computes entity metrics from sets of items, such as spans that may overlap.

    Args:
      truth, predicted: the items of each example: tuples that begin with their type.
      types: all types.

    Returns:
      `Scores` in [0, 1]: "f1", "precision", "recall" over all items; with several types also
      "f1_TYPE", "precision_TYPE" and "recall_TYPE" of each.

    Raises:
      ScoreError: a type is unknown, the lengths differ, or there is no example.
    """
    counts = count(truth, predicted, types)
    others = by_type(counts.sum(axis=0), types) if len(types) > 1 else {}
    return Scores(micro(counts), others)


def word_scores(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """Computes EBM-PICO's entity metrics, word by word (BLURB, section 4.2 and Table 3).

    Each element is scored by itself over the words of all documents, as the corpus's script does
    (`vanilla_tokens`).

    Args:
      truth, predicted: the tags of each sentence's words, "O" or such as "I-PAR".

    Returns:
      `Scores` in [0, 1]: "macro_f1", the mean over the elements, and "f1_ELEMENT",
      "precision_ELEMENT" and "recall_ELEMENT" of each; "accuracy", the share of words whose
      element is right, with those of none (BioELECTRA's code reports it and "macro_f1":
      `finetune/tagging/tagging_metrics.py:AccuracyScorer`).

    Raises:
      ScoreError: an element is unknown, the lengths differ, or there is no sentence.
    """
    _check_words(truth, predicted)
    true, found = (
        [[_element(tag) for tag in tags] for tags in sentences] for sentences in (truth, predicted)
    )
    right = [a == b for pair in zip(true, found, strict=True) for a, b in zip(*pair, strict=True)]
    counts = count([_words(x) for x in true], [_words(x) for x in found], PICO_ELEMENTS)
    others = by_type(counts.sum(axis=0), PICO_ELEMENTS)
    others["accuracy"] = float(np.mean(right)) if right else 0.0
    return Scores({"macro_f1": (counts, macro_f1)}, others)


def _check_words(truth: Sequence[Sequence], predicted: Sequence[Sequence]) -> None:
    check_lengths(truth, predicted)
    for sentence, (true, found) in enumerate(zip(truth, predicted, strict=True)):
        if len(true) != len(found):
            message = f"there are {len(true)} words and {len(found)} predictions"
            raise ScoreError(f"sentence {sentence}: {message}.")


def _element(tag: str) -> str | None:
    return None if tag == "O" else tag.removeprefix("B-").removeprefix("I-")


def _words(elements: Sequence[str | None]) -> set[tuple[str, int]]:
    """Returns pairs (element, number of the word from 0)."""
    return {(element, word) for word, element in enumerate(elements) if element is not None}


# `Task.score` of named entity recognition, perhaps with `types`, and of EBM-PICO, word by word.
score_entities = partial(of_examples, entity_scores, field="tags")
score_words = partial(of_examples, word_scores, field="tags")
