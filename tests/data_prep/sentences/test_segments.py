"""Compares `segments.py` with the same rules on lists of tokens.

The references read the rules of ELECTRA, BERT and ALBERT off their authors' code and say them in
the plainest way. They know nothing of spans, but draw from `rng` in the same order, so that the
examples must be equal, token by token.
"""

import itertools
import math
import random
from collections import Counter

import pytest

from data_prep.sentences import segments
from tests.data_prep.sentences.pieces import size, tokens_of


def until(target, sentences):
    """Returns the fewest sentences, from the first on, that have so many tokens; all if none do."""
    totals = itertools.accumulate(map(len, sentences))
    return sentences[: next((n for n, total in enumerate(totals, 1) if total >= target), None)]


def joined(sentences):
    return list(itertools.chain.from_iterable(sentences))


def electra_examples(sentences, max_length, rng):
    """Applies ELECTRA's build_pretraining_dataset.py: [(first segment, second segment)].

    Its odds: one example of twenty aims at a random length of 5 or more, one of ten has a single
    segment.
    """
    examples = []
    while sentences:
        aims_low = rng.random() < 0.05
        target = 5 + math.floor(rng.random() * (max_length - 4)) if aims_low else max_length
        gathered = until(target, sentences)
        sentences = sentences[len(gathered) :]
        wanted = math.inf if rng.random() < 0.1 else (target - 3) // 2  # of the first segment
        sides = first, second = [], []
        for sentence in gathered:
            if not first or len(first) + len(sentence) < wanted:
                side = 0
            elif second or len(first) >= wanted:
                side = 1
            else:  # the sentence across the middle
                side = int(rng.random() >= 0.5)
            sides[side].extend(sentence)
        del first[max_length - 2 :]
        del second[max(max_length - 3 - len(first), 0) :]
        examples.append((first, second))
    return examples


def pair_examples(documents, index, max_length, rng, albert):
    """Applies BERT's create_pretraining_data.py, or ALBERT's: [(first, second, label)].

    But for what `segments.py` says it does otherwise: BERT's other document is never the same one,
    and ALBERT's lone sentence is cut in two.
    """

    def one_of(choices):
        return choices[math.floor(rng.random() * len(choices))]

    room = max_length - 3
    target = one_of(range(2, room + 1)) if rng.random() < 0.1 else room
    others = documents[index + 1 :] + documents[:index]
    sentences, examples = documents[index], []
    while sentences:
        gathered = until(target, sentences)
        lone = len(gathered) == 1
        parting = 1 if lone else one_of(range(1, len(gathered)))
        pair = [joined(gathered[:parting]), joined(gathered[parting:])]
        if albert:
            if lone:
                middle = len(pair[0]) // 2
                pair = [pair[0][:middle], pair[0][middle:]]
            label = int(all(pair) and rng.random() < 0.5)
            if label:
                pair.reverse()
        else:
            label = int(lone or rng.random() < 0.5)
            if label:
                other = one_of(others)
                begin = one_of(range(len(other)))
                pair[1] = joined(until(target - len(pair[0]), other[begin:]))
                gathered = gathered[:parting]  # the others are still to be used
        sentences = sentences[len(gathered) :]
        while sum(map(len, pair)) > room:
            longer = max(reversed(pair), key=len)  # the second of two that are equal
            longer.pop(0 if rng.random() < 0.5 else -1)
        if all(pair):  # a lone token makes no pair
            examples.append((*pair, label))
    return examples


@pytest.mark.parametrize("max_length", [32, 128, 512])
def test_electra_keeps_to_the_rules(sentences, bounds, ids, max_length):
    several = 0
    for seed, (document, own) in enumerate(zip(sentences, bounds, strict=True)):
        ours = [
            (tokens_of(piece.first, ids), tokens_of(piece.second, ids))
            for piece in segments.electra(own, max_length, random.Random(seed))
        ]
        assert ours == electra_examples(document, max_length, random.Random(seed))
        several += len(ours) > 1
    assert several > (10 if max_length < 512 else 0)


def test_electras_odds_are_those_of_the_original():
    # Sentences of one token, so that an example is as long as its target lets it be: 98 tokens of
    # one segment, or 97 of two.
    firsts = []
    for seed in range(4000):
        piece = next(segments.electra(range(501), 100, random.Random(seed)))
        firsts.append([sum(b - a for a, b in spans) for spans in (piece.first, piece.second)])
    full = [(first, second) for first, second in firsts if first + second >= 97]
    assert 0.04 < 1 - len(full) / len(firsts) < 0.06
    assert 0.085 < sum(not second for _, second in full) / len(full) < 0.115
    assert {first for first, _ in full} == {46, 47, 48, 98}  # targets of 98, 99, 100; single
    assert 2 <= min(first + second for first, second in firsts) < 10


@pytest.mark.parametrize("max_length", [32, 128, 512])
@pytest.mark.parametrize("albert", [False, True])
def test_pairs_keep_to_the_rules(sentences, bounds, ids, max_length, albert):
    labels = Counter()
    for index, own in enumerate(bounds):
        rng = random.Random(index)
        expected = pair_examples(sentences, index, max_length, rng, albert)
        rng = random.Random(index)
        if albert:
            pieces = segments.sentence_order(own, max_length, rng)
        else:
            pieces = segments.next_sentence(bounds, index, max_length, rng)
        ours = [(tokens_of(p.first, ids), tokens_of(p.second, ids), p.label) for p in pieces]
        assert ours == expected, index
        labels.update(label for _, _, label in ours)
    # BERT's odds are not even: a lone sentence always gets a random one.
    share = labels[1] / labels.total()
    assert 0.45 < share < 0.55 if albert else share > 0.5


def test_a_document_without_another_gets_true_pairs(ids):
    pieces = list(segments.next_sentence([[0, 30, 60, 70]], 0, 64, random.Random(1)))
    assert pieces and not any(piece.label for piece in pieces)
    for piece in pieces:
        assert piece.first[-1][1] <= piece.second[0][0]


@pytest.mark.parametrize("max_length", [32, 128, 512])
def test_full_sentences_lose_nothing_and_cross_documents(bounds, ids, max_length):
    starts = {start: number for number, own in enumerate(bounds) for start in own[:-1]}
    begins = {own[0] for own in bounds}
    pieces = list(segments.full_sentences(bounds, max_length))
    text = [span for piece in pieces for span in piece.first if span != segments.SEP]
    assert tokens_of(text, ids) == ids[:-2]
    crossing = 0
    for piece, following in itertools.zip_longest(pieces, pieces[1:]):
        assert not piece.second and size(piece)[0] <= max_length
        for before, span in itertools.pairwise(piece.first):
            # A separator stands before the first sentence of a document, and only there.
            if span != segments.SEP:
                assert (before == segments.SEP) == (span[0] in begins)
        crossing += segments.SEP in piece.first
        if following is not None:
            # What follows would not have fitted, or is the rest of a sentence too long for any.
            start = following.first[0][0]
            if start in starts:
                own = bounds[starts[start]]
                sentence = own[own.index(start) + 1] - start
                assert size(piece)[0] + sentence + (start in begins) > max_length
            else:
                assert size(piece)[0] == max_length
    assert crossing > 20


def test_no_separator_stands_before_the_first_document():
    (piece,) = segments.full_sentences([[0, 5, 9], [9, 12]], 32)
    assert piece.first == [(0, 9), segments.SEP, (9, 12)]
