import itertools
import random
from collections import Counter

import pytest

from data_prep import segments
from tfbio import records, tokenization


class OriginalBuilder:
    """ExampleBuilder of google-research/electra's build_pretraining_dataset.py, on token ids.

    Its code, but that the random draws come from `rng`, and that `randint` is spelt out.
    """

    def __init__(self, max_length, rng):
        self._current_sentences = []
        self._current_length = 0
        self._max_length = max_length
        self._target_length = max_length
        self._rng = rng

    def add_line(self, bert_tokids):
        if (not bert_tokids) and self._current_length != 0:  # empty lines separate docs
            return self._create_example()
        self._current_sentences.append(bert_tokids)
        self._current_length += len(bert_tokids)
        if self._current_length >= self._target_length:
            return self._create_example()
        return None

    def _create_example(self):
        # small chance to only have one segment as in classification tasks
        if self._rng.random() < 0.1:
            first_segment_target_length = 100000
        else:
            # -3 due to not yet having [CLS]/[SEP] tokens in the input text
            first_segment_target_length = (self._target_length - 3) // 2

        first_segment = []
        second_segment = []
        for sentence in self._current_sentences:
            # the sentence goes to the first segment if (1) the first segment is
            # empty, (2) the sentence doesn't put the first segment over length or
            # (3) 50% of the time when it does put the first segment over length
            if (
                len(first_segment) == 0
                or len(first_segment) + len(sentence) < first_segment_target_length
                or (
                    len(second_segment) == 0
                    and len(first_segment) < first_segment_target_length
                    and self._rng.random() < 0.5
                )
            ):
                first_segment += sentence
            else:
                second_segment += sentence

        # trim to max_length while accounting for not-yet-added [CLS]/[SEP] tokens
        first_segment = first_segment[: self._max_length - 2]
        second_segment = second_segment[: max(0, self._max_length - len(first_segment) - 3)]

        # prepare to start building the next example
        self._current_sentences = []
        self._current_length = 0
        # small chance for random-length instead of max_length-length example
        if self._rng.random() < 0.05:
            self._target_length = 5 + int(self._rng.random() * (self._max_length - 4))
        else:
            self._target_length = self._max_length
        return first_segment, second_segment


def truncate_seq_pair(tokens_a, tokens_b, max_num_tokens, rng):
    """Of google-research/bert's create_pretraining_data.py; ALBERT's is the same."""
    while True:
        total_length = len(tokens_a) + len(tokens_b)
        if total_length <= max_num_tokens:
            break
        trunc_tokens = tokens_a if len(tokens_a) > len(tokens_b) else tokens_b
        assert len(trunc_tokens) >= 1
        # We want to sometimes truncate from the front and sometimes from the
        # back to add more randomness and avoid biases.
        if rng.random() < 0.5:
            del trunc_tokens[0]
        else:
            trunc_tokens.pop()


def create_instances_from_document(all_documents, document_index, max_seq_length, rng, albert):
    """Of the same file, on token ids, and with ALBERT's changes to it where `albert`.

    Its code, but that `randint` is spelt out, that the other document is drawn at once instead of
    until it is another one, and that ALBERT's lone sentence is cut in two.
    """

    def randint(low, high):
        return low + int(rng.random() * (high - low + 1))

    document = all_documents[document_index]
    # Account for [CLS], [SEP], [SEP]
    max_num_tokens = max_seq_length - 3
    target_seq_length = max_num_tokens
    if rng.random() < 0.1:
        target_seq_length = randint(2, max_num_tokens)

    instances = []
    current_chunk = []
    current_length = 0
    i = 0
    while i < len(document):
        segment = document[i]
        current_chunk.append(segment)
        current_length += len(segment)
        if i == len(document) - 1 or current_length >= target_seq_length:
            if current_chunk:
                # `a_end` is how many segments from `current_chunk` go into the `A`
                # (first) sentence.
                a_end = 1
                if len(current_chunk) >= 2:
                    a_end = randint(1, len(current_chunk) - 1)
                tokens_a = []
                for j in range(a_end):
                    tokens_a.extend(current_chunk[j])
                tokens_b = []
                # Random next
                is_random_next = False
                if albert:
                    for j in range(a_end, len(current_chunk)):
                        tokens_b.extend(current_chunk[j])
                    if len(current_chunk) == 1:
                        half = len(tokens_a) // 2
                        tokens_a, tokens_b = tokens_a[:half], tokens_a[half:]
                        if not half:
                            break
                    if rng.random() < 0.5:
                        is_random_next = True
                        tokens_a, tokens_b = tokens_b, tokens_a
                elif len(current_chunk) == 1 or rng.random() < 0.5:
                    is_random_next = True
                    target_b_length = target_seq_length - len(tokens_a)
                    away = randint(1, len(all_documents) - 1)
                    random_document = all_documents[(document_index + away) % len(all_documents)]
                    random_start = randint(0, len(random_document) - 1)
                    for j in range(random_start, len(random_document)):
                        tokens_b.extend(random_document[j])
                        if len(tokens_b) >= target_b_length:
                            break
                    # We didn't actually use these segments so we "put them back" so
                    # they don't go to waste.
                    num_unused_segments = len(current_chunk) - a_end
                    i -= num_unused_segments
                # Actual next
                else:
                    for j in range(a_end, len(current_chunk)):
                        tokens_b.extend(current_chunk[j])
                truncate_seq_pair(tokens_a, tokens_b, max_num_tokens, rng)
                instances.append((tokens_a, tokens_b, int(is_random_next)))
            current_chunk = []
            current_length = 0
        i += 1
    return instances


@pytest.fixture(scope="module")
def sentences(documents_folder, vocab_file):
    """For each document the ids of its title and sentences."""
    tokenizer = tokenization.wordpiece(tokenization.read_vocab(vocab_file))
    return [
        [ids for text in (d.title, *d.sentences) if (ids := tokenizer.encode(text).ids)]
        for d in records.read_documents(documents_folder)
    ]


@pytest.fixture(scope="module")
def ids(sentences):
    """All ids in a row, and the two special tokens."""
    return [i for document in sentences for sentence in document for i in sentence] + ["C", "S"]


@pytest.fixture(scope="module")
def bounds(sentences):
    """For each document, where its sentences are in `ids`."""
    lengths = (len(sentence) for document in sentences for sentence in document)
    ends = iter(list(itertools.accumulate(lengths, initial=0)))
    last, found = next(ends), []
    for document in sentences:
        found.append([last, *itertools.islice(ends, len(document))])
        last = found[-1][-1]
    return found


def tokens_of(spans, ids):
    return [token for start, end in spans for token in ids[start : end or None]]


def size(piece):
    """Places that a piece takes, and how many of them are text."""
    text = sum(end - start for start, end in piece.first + piece.second)
    return text + (3 if piece.second else 2), text


@pytest.mark.parametrize("max_length", [32, 128, 512])
def test_electra_is_the_original(sentences, bounds, ids, max_length):
    several = 0
    for seed, (document, own) in enumerate(zip(sentences, bounds, strict=True)):
        # The first target is full length, as the original's is, when its draw is not below 5 %.
        if random.Random(seed).random() < 0.05:
            continue
        rng = random.Random(seed)
        rng.random()
        original = OriginalBuilder(max_length, rng)
        expected = [original.add_line(list(sentence)) for sentence in (*document, [])]
        ours = [
            (tokens_of(piece.first, ids), tokens_of(piece.second, ids))
            for piece in segments.electra(own, max_length, random.Random(seed))
        ]
        assert ours == [example for example in expected if example and any(example)]
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
def test_pairs_are_those_of_the_original(sentences, bounds, ids, max_length, albert):
    labels = Counter()
    for index, own in enumerate(bounds):
        rng = random.Random(index)
        expected = create_instances_from_document(sentences, index, max_length, rng, albert)
        rng = random.Random(index)
        if albert:
            pieces = segments.sentence_order(own, max_length, rng)
        else:
            pieces = segments.next_sentence(bounds, index, max_length, rng)
        ours = [(tokens_of(p.first, ids), tokens_of(p.second, ids), p.label) for p in pieces]
        assert ours == expected
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


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("max_length", [128, 512])
def test_packing_loses_no_text_and_little_room(bounds, ids, max_length, pairs):
    document_of = {end: number for number, own in enumerate(bounds) for end in own[1:]}
    ends = sorted(document_of)
    examples = list(segments.pack(bounds, max_length, random.Random(0), pairs))
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
            assert size(piece)[1] >= segments.smallest_piece(max_length) or whole
        assert len(documents) == len(pieces) <= segments.most_pieces(max_length)
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
            examples = list(segments.pack(documents, max_length, random.Random(0)))
            taken = sorted(span for pieces in examples for p in pieces for span in p.first)
            assert [i for a, b in taken for i in range(a, b)] == list(range(ends[-1]))
            for pieces in examples:
                assert sum(size(piece)[0] for piece in pieces) <= max_length
