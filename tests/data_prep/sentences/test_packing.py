import itertools
import random
from collections import Counter

import pytest

from data_prep.sentences import packing
from tests.data_prep.sentences.pieces import size


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("max_length", [128, 512])
def test_packing_loses_no_text_and_little_room(bounds, ids, max_length, pairs):
    document_of = {end: number for number, own in enumerate(bounds) for end in own[1:]}
    ends = sorted(document_of)
    examples = list(packing.pack(bounds, max_length, random.Random(0), pairs))
    taken = Counter()
    cuts = singles = several = parted = places = 0
    for pieces in examples:
        documents = set()
        for piece in pieces:
            # One run of text of one document, parted at the end of a sentence.
            (start, middle), (after, end) = piece.first[0], (piece.second or piece.first)[0]
            assert len(piece.first) == 1 and len(piece.second) <= 1
            assert not piece.second or (middle == after and middle in document_of)
            inside = [e for e in ends if start < e < end]
            documents.add(document_of[next(e for e in ends if e >= end)])
            taken.update(range(start, end))
            cuts += end not in document_of
            several += bool(inside)
            singles += bool(inside) and not piece.second
            parted += bool(piece.second)
            whole = any(own[0] == start and own[-1] == end for own in bounds)
            assert size(piece)[1] >= packing.smallest_piece(max_length) or whole
        assert len(documents) == len(pieces) <= packing.most_pieces(max_length)
        assert sum(size(piece)[0] for piece in pieces) <= max_length
        places += sum(size(piece)[0] for piece in pieces)
    assert taken == Counter(range(len(ids) - 2))
    assert 1 - places / (len(examples) * max_length) < 0.02
    pieces = sum(map(len, examples))
    # Cutting each example off where it is full would cut one piece of every example.
    assert cuts < 0.1 * pieces
    assert (0.05 < singles / several < 0.16) if pairs else not parted


def test_packing_takes_documents_of_any_size():
    for lengths in ([1], [5000], [3, 700, 2, 2, 900], [20] * 40, [1] * 100):
        ends = list(itertools.accumulate(lengths, initial=0))
        documents = [[a, b] for a, b in itertools.pairwise(ends)]
        for max_length in (8, 64, 128):
            examples = list(packing.pack(documents, max_length, random.Random(0)))
            taken = sorted(span for pieces in examples for p in pieces for span in p.first)
            assert [i for a, b in taken for i in range(a, b)] == list(range(ends[-1])), (
                lengths,
                max_length,
            )
            for pieces in examples:
                assert sum(size(piece)[0] for piece in pieces) <= max_length, lengths


def test_the_sentence_in_the_middle_goes_to_either_side_at_even_odds():
    ends = Counter()
    for seed in range(4000):
        ((piece,),) = packing.pack([[0, 10, 20, 30]], 128, random.Random(seed))
        ends[piece.first[0][1]] += 1
    # A tenth has one segment: 1800, 1800 and 400, with standard deviations of 31 and 19.
    assert abs(ends[10] - 1800) < 120 and abs(ends[20] - 1800) < 120
    assert abs(ends[30] - 400) < 80
