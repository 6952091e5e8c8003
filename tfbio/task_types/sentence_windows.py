"""Divides sentences of words into windows of tokens, and leads from tokens back to words.

A sentence that is longer than the limit is seen in windows that overlap; each of its words has its
target in one of them, in that where it has more words on its nearer side. So no word is lost, in
training or in the score. Types of tasks whose words have labels make their features here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tfbio.formats.task_examples import TaggedSentence
from tfbio.task_types.features import Features, PerToken
from tfbio.text.tokenization import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordFeatures(Features):
    """The windows of sentences as features, with what leads from their tokens to the words.

    Attributes:
      input_ids, segment_ids, example, per_token, per_window, positions: see `features.Features`;
        `example` has the sentence of each window.
      words: int64 [words] for each window, the first tokens, counted from [CLS] as 0, of the words
        that have targets in it.
    """

    words: list[np.ndarray]


class Window(NamedTuple):
    """The words `first` to `end` of a sentence, `end` exclusive, that one of its windows shows.

    Attributes:
      first, end: its first word and the one behind its last, counted from 0.
      own, own_end: the first word that has its target in it, and the one behind the last.
    """

    first: int
    end: int
    own: int
    own_end: int


def windows(counts: Sequence[int], room: int) -> list[Window]:
    """Divides a sentence's words into windows, of which each repeats a quarter of the last.

    A sentence that fits is one window.

    Args:
      counts: the tokens of each word, at least 1 and at most `room`.
      room: tokens that a window holds, without [CLS] and [SEP].

    Returns:
      The windows in order, together with all words; each word has its target in one of them.

    Raises:
      IndexError: the sentence has no word.
    """
    ends = np.cumsum(counts)  # tokens up to and with each word

    def last_that_fits(first: int) -> int:
        before = ends[first] - counts[first]
        return int(np.searchsorted(ends, before + room, side="right"))

    spans = [(0, last_that_fits(0))]
    while spans[-1][1] < len(counts):
        first, end = spans[-1]
        # Back by a quarter of the room, and on by one word at least.
        back = ends[end - 1] - room // 4
        next_first = max(first + 1, int(np.searchsorted(ends, back, side="right")))
        # At the next word, where that is so long that nothing would be gained.
        while last_that_fits(next_first) <= end:
            next_first += 1
        spans.append((next_first, last_that_fits(next_first)))
    divided, own = [], 0
    for number, (first, end) in enumerate(spans):
        own_end = len(counts)
        if number + 1 < len(spans):
            own_end = (spans[number + 1][0] + end + 1) // 2  # the middle of what both have
        divided.append(Window(first, end, own, own_end))
        own = own_end
    return divided


def kept_by_electra(counts: Sequence[int], length: int) -> int:
    """Computes how many words of a sentence the original ELECTRA code keeps in its only window.

    It stops at the first word before which there are so many tokens that they, the number of all
    the sentence's words, [CLS] and [SEP] among them, and 1 are more than `length`
    (finetune/tagging/tagging_tasks.py, `TaggingTask.featurize`). That is a mistake, which cuts much
    too early: to be sure that all words fit, it takes one token for each.

    Args:
      counts: the tokens of each word.
      length: the most tokens of a sentence, with [CLS] and [SEP].

    Returns:
      The number of words, an int from 0 to all; their tokens fit into `length`.
    """
    before = 1 + np.cumsum([0, *counts])  # tokens before each word and [SEP], with [CLS]
    stops = before + len(counts) + 2 + 1 > length
    kept = int(stops.argmax()) if stops[:-1].any() else len(counts)
    # A last word of many tokens might not fit.
    return min(kept, int(np.searchsorted(before[1:] + 1, length, side="right")))


def encode(
    sentences: Sequence[TaggedSentence],
    targets_of: Callable[[TaggedSentence, list[int]], np.ndarray],
    padding: float,
    tokenizer: Tokenizer,
    length: int,
    choose: Callable[[Sequence[int], int], list[Window]] = windows,
) -> WordFeatures:
    """Encodes sentences, for task types whose words have labels, as windows [CLS] tokens [SEP].

    Args:
      sentences: examples, each of at least one word.
      targets_of: (sentence, the tokens of each word) -> the targets of its tokens, [tokens, ...].
      padding: the target of a token that has none.
      tokenizer: the tokenizer of the encoder.
      length: the most tokens of a window, with [CLS] and [SEP].
      choose: (the tokens of each word, room) -> the windows of a sentence.

    Returns:
      Features of the windows, those of one sentence after those of another: int32 [tokens] of ids
      and of segments for each, `per_token["targets"]` [tokens, ...] of the dtype that `targets_of`
      gives them, and `words`, the first tokens of the words that have targets.

    Raises:
      IndexError: a sentence has no word, and `choose` is `windows`.
    """
    room = length - tokenizer.special_tokens(pair=False)
    words = list({word for sentence in sentences for word in sentence.words})
    # One that alone fills a window is cut.
    encoded = (ids[:room] for ids in tokenizer.encode_words(words))
    tokens = dict(zip(words, encoded, strict=True))
    input_ids, segment_ids, targets, example, firsts = [], [], [], [], []
    for number, sentence in enumerate(sentences):
        counts = [len(tokens[word]) for word in sentence.words]
        starts = np.cumsum([0, *counts])  # of each word, and the end
        ids = [token for word in sentence.words for token in tokens[word]]
        all_targets = targets_of(sentence, counts)
        for window in choose(counts, room):
            start, end = starts[window.first], starts[window.end]
            own, own_end = starts[window.own], starts[window.own_end]
            own_ids, segments = tokenizer.join(ids[start:end])
            input_ids.append(own_ids)
            segment_ids.append(segments)
            shape = [end - start + 2, *all_targets.shape[1:]]
            targets.append(np.full(shape, padding, all_targets.dtype))
            targets[-1][1 + own - start : 1 + own_end - start] = all_targets[own:own_end]
            firsts.append(1 + starts[window.own : window.own_end] - start)
            example.append(number)
    return WordFeatures(
        input_ids,
        segment_ids,
        np.array(example, np.int64),
        per_token={"targets": PerToken(targets, padding)},
        words=firsts,
    )


def at_words(outputs: Sequence[np.ndarray], features: WordFeatures, count: int) -> list[list]:
    """Leads from windows back to sentences: returns the outputs at each word's first token.

    Args:
      outputs: [tokens, ...] for each window.
      features: of the sentences, as `encode` returns them.
      count: how many sentences there are.

    Returns:
      A list for each sentence with a Python number, or for [tokens, n] a list of n, for each word
      that has a target.
    """
    words: list[list] = [[] for _ in range(count)]
    for own, places, number in zip(outputs, features.words, features.example, strict=True):
        words[number] += own[places].tolist()
    return words
