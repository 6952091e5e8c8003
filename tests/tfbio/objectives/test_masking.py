"""What is hidden, how much of it, and that it depends on the seed alone."""

import contextlib
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tfbio.models import randomness, target
from tfbio.objectives import masking
from tfbio.objectives.pretraining_config import MASK_UNITS, PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun

PAD, CLS, SEP, MASK, WORDS, VOCABULARY = 0, 2, 3, 4, 5, 1000
# Tokens from here on continue a word.
CONTINUE = 600
BEGINS_WORD = np.arange(VOCABULARY) < CONTINUE
LENGTH, ROWS = 128, 512
LIMIT = 19


@pytest.fixture(scope="module")
def batch():
    """[CLS] words [SEP] words [SEP] padding, of 5 to 128 tokens; int32 [512, 128] twice."""
    random = np.random.default_rng(0)
    ids = np.full([ROWS, LENGTH], PAD, np.int32)
    mask = np.zeros_like(ids)
    for row in range(ROWS):
        tokens = 5 + row % (LENGTH - 4)
        ids[row, :tokens] = random.integers(WORDS, VOCABULARY, tokens)
        ids[row, [0, tokens // 2, tokens - 1]] = CLS, SEP, SEP
        mask[row, :tokens] = 1
    return tf.constant(ids), tf.constant(mask)


def hide(batch, seed=(0, 1), mask_prob=0.15, mask_token_prob=0.85, **options):
    return masking.mask_tokens(
        *batch,
        masking.Masking(
            mask_id=MASK,
            special_ids=[CLS, SEP, PAD],
            mask_token_prob=mask_token_prob,
            vocab_size=VOCABULARY,
            begins_word=BEGINS_WORD,
            **options,
        ),
        limit=PretrainingConfig(mask_prob=mask_prob).max_predictions(batch[0].shape[1]),
        mask_prob=mask_prob,
        seed=tf.constant(seed),
    )


def hidden_places(masked):
    """bool [B, L]."""
    places = np.zeros(masked.input_ids.shape, bool)
    rows = np.arange(len(places))[:, np.newaxis]
    np.logical_or.at(places, (rows, masked.positions.numpy()), masked.weights.numpy() > 0)
    return places


def targets(batch):
    """Counts the tokens of each row that `mask_prob` asks for, without a limit; int [B]."""
    tokens = batch[1].numpy().sum(axis=1)
    return np.maximum(np.round(tokens.astype(np.float32) * np.float32(0.15)), 1).astype(int)


def words_of(ids):
    """For one row (its number of word at each place, or -1 at a special token)."""
    numbers, number, inside = [], -1, False
    for id_ in ids:
        if id_ in (PAD, CLS, SEP):
            inside = False
            numbers.append(-1)
            continue
        number += not inside or id_ < CONTINUE
        inside = True
        numbers.append(number)
    return np.array(numbers)


@pytest.mark.parametrize("unit", ["token", "span"])
def test_counts_are_exact_and_no_token_is_hidden_twice(batch, unit):
    masked = hide(batch, unit=unit)
    assert masked.positions.shape == [ROWS, LIMIT]
    np.testing.assert_array_equal(masked.weights.numpy().sum(axis=1), targets(batch))
    for positions, weights in zip(masked.positions.numpy(), masked.weights.numpy(), strict=True):
        hidden = positions[weights > 0]
        assert len(set(hidden)) == len(hidden)
        assert (positions[weights == 0] == 0).all()


@pytest.mark.parametrize(("length", "asked", "hidden"), [(64, 10, 9), (128, 19, 19), (512, 77, 77)])
def test_whole_examples_have_the_limit_of_the_original_code(length, asked, hidden):
    """int((0.15 + 0.005) * length), as docs/pretraining.md says."""
    ids = np.full([2, length], WORDS, np.int32)
    whole = tf.constant(ids), tf.ones_like(ids)
    assert (targets(whole) == asked).all()
    assert (hide(whole).weights.numpy().sum(axis=1) == hidden).all()


@pytest.mark.parametrize("unit", MASK_UNITS)
def test_special_tokens_are_never_hidden_and_nothing_else_changes(batch, unit):
    ids = batch[0].numpy()
    for seed in range(5):
        masked = hide(batch, (7, seed), mask_prob=0.5, mask_token_prob=1.0, unit=unit)
        changed = masked.input_ids.numpy() != ids
        assert (ids[changed] >= WORDS).all(), seed
        assert (masked.input_ids.numpy()[changed] == MASK).all(), seed
        assert changed.sum() == masked.weights.numpy().sum() > 0, seed
        np.testing.assert_array_equal(changed, hidden_places(masked))
        expected = np.take_along_axis(ids, masked.positions.numpy(), axis=1)
        np.testing.assert_array_equal(masked.ids, expected)


def test_every_word_is_hidden_equally_often(batch):
    """A chi-squared test over the positions of one row, over 4,000 draws."""
    from scipy import stats

    words = 60
    ids = np.full([500, LENGTH], PAD, np.int32)
    ids[:, : words + 2] = [CLS, *range(WORDS, WORDS + words), SEP]
    row = tf.constant(ids), tf.constant((ids != PAD).astype(np.int32))
    counts = np.zeros(LENGTH)
    for seed in range(8):
        masked = hide(row, (3, seed))
        hidden = masked.positions.numpy()[masked.weights.numpy() > 0]
        counts += np.bincount(hidden, minlength=LENGTH)
    assert counts[words + 1 :].sum() == counts[0] == 0
    assert stats.chisquare(counts[1 : words + 1]).pvalue > 1e-4


def test_the_share_that_becomes_mask(batch):
    masked = hide(batch)
    hidden = masked.weights.numpy() > 0
    now = np.take_along_axis(masked.input_ids.numpy(), masked.positions.numpy(), axis=1)
    became, kept = now[hidden] == MASK, now[hidden] == masked.ids.numpy()[hidden]
    assert (became | kept).all()
    assert abs(became.mean() - 0.85) < 4 * np.sqrt(0.85 * 0.15 / hidden.sum())


def test_the_shares_of_bert(batch):
    """80 % become [MASK], 10 % any word (Devlin et al., 2019, section 3.1), all as often."""
    from scipy import stats

    now, were = [], []
    for seed in range(20):
        masked = hide(batch, (5, seed), mask_token_prob=0.8, random_token_prob=0.1)
        hidden = masked.weights.numpy() > 0
        ids = np.take_along_axis(masked.input_ids.numpy(), masked.positions.numpy(), axis=1)
        now.append(ids[hidden])
        were.append(masked.ids.numpy()[hidden])
    now, were = np.concatenate(now), np.concatenate(were)
    is_random = (now != MASK) & (now != were)
    for share, marked in ((0.8, now == MASK), (0.1, is_random), (0.1, now == were)):
        assert abs(marked.mean() - share) < 4 * np.sqrt(share * (1 - share) / len(now)) + 2e-4
    others = np.delete(np.arange(VOCABULARY), MASK)
    counts = np.bincount(now[is_random], minlength=VOCABULARY)[others]
    assert stats.chisquare(counts).pvalue > 1e-4


def test_words_are_hidden_whole(batch):
    ids = batch[0].numpy()
    shares = []
    for seed in range(3):
        places = hidden_places(hide(batch, (9, seed), unit="word"))
        for row, (row_ids, hidden) in enumerate(zip(ids, places, strict=True)):
            words = words_of(row_ids)
            assert not np.intersect1d(words[hidden], words[~hidden & (words >= 0)]).size, (
                seed,
                row,
            )
            assert hidden.sum() <= targets(batch)[row]
        shares.append(places.sum() / targets(batch).sum())
    assert np.mean(shares) > 0.97


def test_every_whole_word_is_drawn_equally_often():
    """Words of one to three tokens, of which the first drawn fits: the order is uniform."""
    from scipy import stats

    lengths = np.tile([1, 2, 3], 12)
    row = [CLS]
    for length in lengths:
        row += [WORDS] + [CONTINUE] * (length - 1)
    ids = np.tile(np.array([*row, SEP], np.int32), (2000, 1))
    batch = tf.constant(ids), tf.ones_like(ids)
    words = words_of(ids[0])
    # Three tokens are hidden: where the first word has three, it alone.
    masked = hide(batch, mask_prob=3 / ids.shape[1], unit="word")
    hidden = [np.unique(words[places]) for places in hidden_places(masked)]
    alone = [h[0] for h in hidden if len(h) == 1 and lengths[h[0]] == 3]
    assert abs(len(alone) / len(hidden) - 1 / 3) < 4 * np.sqrt(2 / 9 / len(hidden))
    counts = np.bincount(alone, minlength=len(lengths))[lengths == 3]
    assert stats.chisquare(counts).pvalue > 1e-4


def test_spans_have_spanberts_lengths():
    """Geometric with p = 0.2, at most 10 words; mean 3.8 (Joshi et al., 2020, section 3.1)."""
    from scipy import stats

    # Long rows of words of one or two tokens, of which few are hidden: the first span is whole.
    random = np.random.default_rng(3)
    ids = random.integers(WORDS, CONTINUE, [3000, 400]).astype(np.int32)
    ids[:, 1::3] = CONTINUE
    ids[:, [0, 200, 399]] = CLS, SEP, SEP
    batch = tf.constant(ids), tf.ones_like(ids)
    found = []
    for row_ids, hidden in zip(
        ids, hidden_places(hide(batch, mask_prob=0.1, unit="span")), strict=True
    ):
        words = words_of(row_ids)
        starts = np.flatnonzero(hidden & ~np.roll(hidden, 1))
        ends = np.flatnonzero(hidden & ~np.roll(hidden, -1))
        whole = [
            (a, b)
            for a, b in zip(starts, ends, strict=True)
            # At a text's end a span is cut; so are those that one could not tell from it.
            if not set(range(b, b + 25)) & {200, 399, 400}
        ]
        found += [words[b] - words[a] + 1 for a, b in whole]
        # Spans begin with words, and stay in one text.
        assert not [a for a in starts if not (row_ids[a] < CONTINUE or words[a] != words[a - 1])]
    found = np.array(found)
    # SpanBERT's figure 2: geometric, 0.2, cut at 10, mean 3.8.
    share = 0.8 ** np.arange(10)
    expected = share / share.sum()
    drawn = masking._lengths(tf.random.stateless_uniform([100_000], [1, 2]), "span").numpy()
    counts = np.bincount(drawn, minlength=11)
    assert counts[0] == 0 and len(counts) == 11
    assert stats.chisquare(counts[1:], expected * len(drawn)).pvalue > 1e-3
    # Two spans side by side look like one, and one per row is cut: so not exactly.
    lengths = np.bincount(np.minimum(found, 11), minlength=12)[1:11] / len(found)
    assert stats.spearmanr(lengths, expected).statistic > 0.95


def test_a_span_has_one_fate():
    """Joshi et al. (2020), section 3.1: all its tokens are replaced in the same way."""
    ids = np.tile(np.arange(WORDS, WORDS + 100, dtype=np.int32), [50, 1])
    fates = []
    batch = tf.constant(ids), tf.ones_like(ids)
    # A seed with which no random word is [MASK].
    masked = hide(batch, (0, 2), mask_token_prob=0.8, random_token_prob=0.1, unit="span")
    shown = masked.input_ids.numpy()
    for row, places in zip(shown, hidden_places(masked), strict=True):
        (hidden,) = np.nonzero(places)
        for span in np.split(hidden, 1 + np.nonzero(np.diff(hidden) > 1)[0]):
            one = np.where(row[span] == MASK, 2, row[span] != ids[0, span])
            fates.append(int(one[0]) if len(set(one.tolist())) == 1 else None)
    assert None not in fates
    assert 0.7 < np.mean([fate == 2 for fate in fates]) < 0.9 and fates.count(0) and fates.count(1)


def test_a_span_stays_within_its_text():
    """Of [CLS] a [SEP] b1 b2 ... [SEP], a span that begins with a does not go on to b1."""
    row = [CLS, 5, SEP, *range(6, 46), SEP]
    ids = np.tile(np.array(row, np.int32), (8000, 1))
    places = hidden_places(hide((tf.constant(ids), tf.ones_like(ids)), mask_prob=0.1, unit="span"))
    assert (places.sum(axis=1) == 4).all()
    with_a = places[places[:, 1]]
    assert len(with_a) > 200
    assert with_a[:, 3].mean() < 0.2  # by a span of its own; four in five spans have two words


def test_ngrams_have_alberts_lengths():
    """p(n) is proportional to 1/n, up to 3 (Lan et al., 2020, section 4.1)."""
    drawn = masking._lengths(tf.random.stateless_uniform([100_000], [1, 2]), "ngram").numpy()
    shares = np.bincount(drawn, minlength=5) / len(drawn)
    np.testing.assert_allclose(shares, [0, 6 / 11, 3 / 11, 2 / 11, 0], atol=0.01)


def ngrams_by_albert(row, count, ngrams):
    """Masks n-grams one after the other as ALBERT's create_masked_lm_predictions does.

    Takes a row of ids, how many tokens are to be hidden, and (the first word's number, the number
    of words) of each n-gram in the order in which they are drawn. Gives the places that are hidden.
    """
    numbers, specials = words_of(row), np.cumsum(np.isin(row, (PAD, CLS, SEP)))
    hidden = set()
    for first, words in ngrams:
        for n in range(words, 0, -1):
            places = np.flatnonzero((numbers >= first) & (numbers < first + n))
            # An n-gram is cut short where its text ends.
            places = places[specials[places] == specials[places[0]]]
            if len(hidden) + len(places) <= count:
                hidden |= set() if hidden & set(places) else set(places)
                break
    return hidden


@pytest.mark.parametrize("mask_prob", [0.15, 0.4])
def test_ngrams_are_those_that_albert_masks_of_the_same_draws(batch, mask_prob):
    ids = batch[0].numpy()
    masked = hide(batch, (11, 2), mask_prob=mask_prob, unit="ngram")
    # The draws of `mask_tokens`: the order of the words, and the lengths of the n-grams.
    seed = randomness.split(tf.constant((11, 2)), 3)[0]
    scores = randomness.global_uniform(ids.shape, seed).numpy()
    rounds = min(LENGTH, 2 * masked.positions.shape[1])
    draw = randomness.global_uniform([ROWS, rounds], randomness.fold_in(seed, 1)).numpy()
    lengths = 1 + (draw >= 6 / 11).astype(int) + (draw >= 9 / 11)
    tokens, hidden = batch[1].numpy().sum(axis=1).astype(np.float32), 0
    counts = np.maximum(np.round(tokens * np.float32(mask_prob)), 1).astype(int)
    counts = np.minimum(counts, masked.positions.shape[1])
    for row, found in enumerate(hidden_places(masked)):
        numbers = words_of(ids[row])
        begins = np.flatnonzero((numbers >= 0) & (np.diff(numbers, prepend=-1) != 0))
        order = begins[np.argsort(-scores[row, begins])][:rounds]
        ngrams = zip(numbers[order], lengths[row], strict=False)
        expected = ngrams_by_albert(ids[row], counts[row], ngrams)
        assert set(np.flatnonzero(found)) == expected, row
        hidden += len(expected)
    # Few words are passed over, so nearly as many tokens are hidden as were asked for.
    assert 0.97 < hidden / counts.sum() <= 1


def hidden_by_megatron(words, count, random):
    """Masks n-grams as Megatron-LM's create_masked_lm_predictions does, with draws of its own.

    Takes the places of each word of a text, and the most places that are hidden. An n-gram that is
    too long for what is left is shortened, and one that meets a hidden word is passed over.
    """
    hidden = set()
    for first in random.permutation(len(words)):
        drawn = random.choice([1, 2, 3], p=[6 / 11, 3 / 11, 2 / 11])
        ngrams = (sum(words[first : first + n], []) for n in range(drawn, 0, -1))
        places = next((x for x in ngrams if len(hidden) + len(x) <= count), [])
        if not hidden & set(places):
            hidden |= set(places)
        if len(hidden) == count:
            break
    return hidden


def test_ngrams_are_hidden_as_often_as_by_megatron():
    """Rows of one text, so that none of Megatron-LM's n-grams goes on after a [SEP]."""
    from scipy import stats

    lengths = np.tile([1, 1, 1, 2, 1, 4], 10)
    row = [CLS, *(WORDS if i == 0 else CONTINUE for n in lengths for i in range(n)), WORDS, SEP]
    ids = np.tile(np.array(row, np.int32), (2000, 1))
    # 15 % of the 103 tokens, and of the 100 that Megatron-LM counts: 15 in both.
    assert ids.shape[1] == 103
    found = hidden_places(hide((tf.constant(ids), tf.ones_like(ids)), unit="ngram"))
    numbers, random = words_of(row), np.random.default_rng(0)
    words = [list(np.flatnonzero(numbers == n)) for n in range(numbers.max() + 1)]
    expected = np.zeros_like(found)
    for places in expected:
        places[list(hidden_by_megatron(words, 15, random))] = True
    # How often each place is hidden; 5 deviations of the difference of two shares.
    share = (found.mean(axis=0) + expected.mean(axis=0)) / 2
    deviation = np.sqrt(share * (1 - share) * 2 / len(ids))
    assert (abs(found.mean(axis=0) - expected.mean(axis=0)) <= 5 * deviation).all()
    # Of each row: how many tokens are hidden, and in how many stretches.
    starts = [(places & ~np.roll(places, 1, axis=1)).sum(axis=1) for places in (found, expected)]
    for ours, theirs in ((found.sum(axis=1), expected.sum(axis=1)), starts):
        counts = np.array([np.bincount(each, minlength=16) for each in (ours, theirs)])
        often = counts.sum(axis=0) >= 20
        counts = np.column_stack([counts[:, often], counts[:, ~often].sum(axis=1)])
        assert stats.chi2_contingency(counts[:, counts.any(axis=0)]).pvalue > 1e-4


def test_the_original_codes_draw_hides_some_twice(batch):
    masked = hide(batch, with_replacement=True)
    hidden = masked.weights.numpy() > 0
    np.testing.assert_array_equal(hidden.sum(axis=1), targets(batch))
    ids = batch[0].numpy()
    places, expected = [], []
    for row in range(ROWS):
        positions = masked.positions.numpy()[row][hidden[row]]
        assert (ids[row, positions] >= WORDS).all()
        places.append(len(set(positions)))
        words = int((ids[row] >= WORDS).sum())
        # How many of `words` are there among n draws with replacement.
        expected.append(words * (1 - (1 - 1 / words) ** len(positions)))
    assert abs(np.sum(places) / np.sum(expected) - 1) < 0.01
    assert np.sum(places) < 0.95 * hidden.sum()
    # What is drawn twice, and becomes [MASK] once, is [MASK].
    changed = masked.input_ids.numpy() != ids
    assert (masked.input_ids.numpy()[changed] == MASK).all()


@pytest.mark.parametrize("form", [contextlib.nullcontext, target.mesh])
def test_ids_for_one_place_are_averaged_as_the_original_code_does(form):
    ids = tf.constant([[2, 10, 11, 12], [2, 20, 21, 22]])
    positions = tf.constant([[1, 1, 3, 0], [2, 2, 2, 1]])
    new = tf.constant([[100, 201, 5, 7], [10, 10, 11, 50]])
    changed = tf.constant([[True, True, True, False], [True, True, True, False]])
    with form():
        replaced = masking.replace_tokens(ids, positions, new, changed)
    np.testing.assert_array_equal(replaced, [[2, 150, 11, 5], [2, 20, 10, 22]])


def test_the_share_grows_in_stages():
    settings = PretrainingConfig(mask_prob=0.05, final_mask_prob=0.25, num_train_steps=1000)
    steps = [0, 199, 200, 400, 600, 800, 999]

    def shares_of(settings):
        return [float(masking.scheduled_prob(settings, tf.constant(n, tf.int64))) for n in steps]

    shares = shares_of(settings)
    np.testing.assert_allclose(shares, [0.05, 0.05, 0.1, 0.15, 0.2, 0.25, 0.25], rtol=1e-6)
    # A run that stops early, and may continue, masks as the whole.
    stopped = dataclasses.replace(settings, run=PretrainingRun(stop_at_step=300))
    assert shares_of(stopped) == shares
    constant = PretrainingConfig(mask_prob=0.2)
    assert float(masking.scheduled_prob(constant, tf.constant(5, tf.int64))) == np.float32(0.2)


@pytest.mark.parametrize(
    "options",
    [{"unit": unit} for unit in MASK_UNITS]
    + [{"with_replacement": True}, {"mask_token_prob": 0.8, "random_token_prob": 0.1}],
    ids=str,
)
def test_compiles_under_xla_to_the_same_masks(batch, options):
    rows = [part[:64] for part in batch]
    plain = hide(rows, **options)
    compiled = tf.function(lambda *rows: hide(rows, **options), jit_compile=True)(*rows)
    for name, values in plain._asdict().items():
        np.testing.assert_array_equal(getattr(compiled, name), values, err_msg=name)


def test_a_function_of_the_seed(batch):
    np.testing.assert_array_equal(hide(batch).positions, hide(batch).positions)
    first, second = hide(batch), hide(batch, (0, 2))
    differ = first.positions.numpy() != second.positions.numpy()
    assert differ[first.weights.numpy() > 0].mean() > 0.9


@pytest.mark.parametrize("unit", MASK_UNITS)
def test_the_same_masks_on_any_number_of_replicas(batch, two_devices, unit):
    single = hide(batch, unit=unit)
    dataset = tf.data.Dataset.from_tensors(batch).unbatch().batch(ROWS)
    distributed = two_devices.experimental_distribute_dataset(dataset)
    both = two_devices.run(lambda *parts: hide(parts, unit=unit), args=next(iter(distributed)))
    for name, whole in single._asdict().items():
        joined = tf.concat(two_devices.experimental_local_results(getattr(both, name)), axis=0)
        np.testing.assert_array_equal(joined, whole, err_msg=name)


def test_special_tokens_are_not_hidden_within_a_packed_example():
    random = np.random.default_rng(1)
    ids = random.integers(WORDS, VOCABULARY, [ROWS, LENGTH]).astype(np.int32)
    ids[:, [0, 40, 77]] = CLS
    ids[:, [20, 39, 60, 76, LENGTH - 1]] = SEP
    masked = hide((tf.constant(ids), tf.ones_like(ids)))
    real = masked.weights.numpy() > 0
    assert real.sum() == 19 * ROWS
    assert not np.isin(masked.ids.numpy()[real], [CLS, SEP]).any()
    kept = masked.input_ids.numpy()
    for special in (CLS, SEP):
        np.testing.assert_array_equal(kept == special, ids == special)
