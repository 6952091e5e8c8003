"""Scores the tags of tokens, where tagging has learnt a tag for each of them.

Shin et al. (2020), section 5.1, label the tokens of an entity one by one, and find F1 up to 2
points apart from that of labels of whole entities.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfbio.formats.task_examples import TaggedSentence
from tfbio.models.head_config import NO_TARGET
from tfbio.task_types import tag_schemes
from tfbio.task_types.sentence_windows import WordFeatures


def tags_of_tokens(tags: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Returns the BIO tags of a sentence's tokens: the others of a word go on with its tag, B, I.

    Args:
      tags: the BIO tag of each word.
      counts: how many tokens each word has.
    """
    return [
        tag if part == 0 or tag == "O" else f"I{tag[1:]}"
        for tag, count in zip(tags, counts, strict=True)
        for part in range(count)
    ]


def tagged_tokens(
    outputs: Sequence[np.ndarray],
    features: WordFeatures,
    sentences: Sequence[TaggedSentence],
    labels: Sequence[str],
    scheme: str,
) -> tuple[list[TaggedSentence], list[list[str]]]:
    """Makes sentences of tokens, with true and predicted BIO tags, for the score of words.

    Each word's tokens are those in the window that has its targets, so that none counts twice. A
    word behind an early cut has none.

    Args:
      outputs: int32 [tokens] for each window, the numbers of the tags.
      features: of the sentences, with targets for all tokens of a word.
      sentences: examples, with tags in BIO.
      labels: all tags, in the order of the model's outputs.
      scheme: the tag scheme of `labels`.

    Returns:
      The sentences, whose words and tags are those of tokens; and the predicted tags of each.
    """
    true: list[list[str]] = [[] for _ in sentences]
    found: list[list[str]] = [[] for _ in sentences]
    seen = [0] * len(sentences)  # words
    windows = zip(
        outputs,
        features.words,
        features.per_token["targets"].values,
        features.example,
        strict=True,
    )
    for numbers, firsts, targets, number in windows:
        (own,) = np.nonzero(targets != NO_TARGET)
        # The next word begins where one ends.
        counts = np.diff([*firsts, own[-1] + 1]).tolist() if len(own) else []
        words = slice(seen[number], seen[number] + len(firsts))
        seen[number] = words.stop
        true[number] += tags_of_tokens(sentences[number].tags[words], counts)
        found[number] += [labels[x] for x in numbers[own]]
    tokens = [
        dataclasses.replace(x, words=tuple(tags), tags=tuple(tags))
        for x, tags in zip(sentences, true, strict=True)
    ]
    return tokens, [tag_schemes.in_bio(tags, scheme) for tags in found]
