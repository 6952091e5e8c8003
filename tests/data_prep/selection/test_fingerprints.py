"""Fingerprints against plain Python: sets of word tuples, and real abstracts."""

import itertools

import numpy as np
import pytest

from data_prep.readers import input_files, pubmed
from data_prep.selection import fingerprints

SAME = [
    ("IL-2", "IL - 2"),
    ("(IL)2", "il 2"),
    ("``5 mg/kg''", "5 mg / kg"),
    ("p<0.05", "( P = 0 . 05 )"),
    ("naïve café", "NAIVE CAFE"),
    ("nai\u0308ve", "naïve"),
    ("TNF-α and NF-κB", "TNF-alpha and NF-kappa B"),
    ("TNFα", "TNF - alpha"),
    ("Μάϊος ΑΣ", "μάιος ας"),
    ("CO₂, x² and ﬁbre", "CO2 x2 and fibre"),
    ("Straße", "STRASSE"),
    ("meta\u00adbolism", "metabolism"),
    ("well‐known—and ‘quoted’", "well - known and ' quoted '"),
    ("µg", "μg"),
]
DIFFERENT = [
    ("IL-2", "IL-3"),
    ("TNF-α", "TNF-β"),
    ("10 mg", "01 mg"),
    ("a b", "b a"),
    ("ab", "a b"),
    ("細胞", "細菌"),
    ("", "a"),
]


@pytest.fixture(scope="module")
def abstracts():
    """Returns 1,500 real abstracts, old and recent."""
    texts = []
    for path in input_files.shipped_files(".xml.gz"):
        result = (c for c in pubmed.read_citations(path) if c.sections)
        texts += [" ".join(t for *_, t in c.sections) for c in itertools.islice(result, 750)]
    return texts


@pytest.mark.parametrize("one, other", SAME)
def test_setting_and_tokenisation_do_not_matter(one, other):
    assert fingerprints.words(one).tolist() == fingerprints.words(other).tolist()


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_other_words_have_other_hashes(one, other):
    assert fingerprints.words(one).tolist() != fingerprints.words(other).tolist()


def test_the_lowest_bit_marks_words_of_two_letters():
    words = fingerprints.words("p53 is 5 a CD-4 ab1 12 x")
    assert (words & np.uint64(1)).tolist() == [0, 1, 0, 0, 1, 0, 1, 0, 0]


def test_every_word_of_real_text_has_a_hash_of_its_own(abstracts):
    from_words, hashes = [], []
    for text in abstracts:
        if text.isascii():  # there a word is plainly this
            from_words += "".join(c if c.isalnum() else " " for c in text.lower()).split()
            hashes += fingerprints.words(text).tolist()
    assert len(from_words) == len(hashes) > 100_000
    assert (
        len(set(from_words)) == len(set(hashes)) == len(set(zip(from_words, hashes, strict=True)))
    )


def test_forgetting_words_changes_nothing(abstracts, monkeypatch):
    before = [fingerprints.words(text) for text in abstracts[:20]]
    monkeypatch.setattr(fingerprints, "_REMEMBERED", 10)
    after = [fingerprints.words(text) for text in abstracts[:20]]
    assert all(map(np.array_equal, before, after))


@pytest.mark.parametrize("n", [1, 2, 5, 13])
def test_ngrams_are_equal_where_the_words_are(abstracts, n):
    for text in (*abstracts[:20], "", "one two three four five"):
        words = fingerprints.words(text)
        tuples = [tuple(words[i : i + n].tolist()) for i in range(len(words) - n + 1)]
        grams = fingerprints.ngrams(words, n).tolist()
        assert len(grams) == len(tuples), text
        assert len(set(grams)) == len(set(tuples)) == len(set(zip(grams, tuples, strict=True))), (
            text
        )


def test_ngrams_do_not_depend_on_their_place():
    words = fingerprints.words("one two three four five six seven " * 40)
    grams = fingerprints.ngrams(words, 5)
    assert np.array_equal(grams[:-7], grams[7:])


def test_signatures_estimate_the_similarity_of_sets(abstracts):
    """Against Jaccard similarities of Python sets; the errors are those of a binomial."""
    rng = np.random.default_rng(0)
    errors = []
    for text in abstracts[:300]:
        words = fingerprints.words(text)
        if words.size < 60:
            continue
        other = words.copy()
        changed = rng.random(words.size) < rng.choice([0.01, 0.03, 0.06, 0.12])
        other[changed] = rng.integers(0, 2**63, changed.sum(), dtype=np.uint64)
        sets = [{tuple(w[i : i + 5]) for i in range(len(w) - 4)} for w in map(list, (words, other))]
        exact = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        estimate = np.mean(fingerprints.signature(words) == fingerprints.signature(other))
        errors.append((estimate - exact) / max(np.sqrt(exact * (1 - exact) / 128), 0.01))
    # Without bias, and not wider than independent permutations would make it: 5 standard errors.
    assert len(errors) > 200
    assert abs(np.mean(errors)) < 5 / np.sqrt(len(errors))
    assert np.std(errors) < 1 + 5 / np.sqrt(2 * len(errors))


def test_short_texts_have_no_signature():
    words = fingerprints.words("No abstract available.")
    assert fingerprints.signature(words).shape == (0,)
    assert fingerprints.band_keys(fingerprints.signature(words)).shape == (0,)
    assert fingerprints.text_hash(words) == fingerprints.text_hash(
        fingerprints.words("no abstract available")
    )


def test_long_texts_have_the_signature_of_their_parts_together(abstracts):
    words = fingerprints.words(" ".join(abstracts[:40]))
    parts = [words[i : i + 304] for i in range(0, words.size, 300)]
    least = np.minimum.reduce([fingerprints.signature(p) for p in parts if p.size > 4])
    assert words.size > 4000
    assert np.array_equal(fingerprints.signature(words), least)


def test_all_is_the_same_in_another_process_with_another_hash_seed(said_in_new_processes):
    program = (
        "from data_prep.selection import fingerprints as f\n"
        "w = f.words('Effects of TNF-α and IL-2 on naïve T cells, in vitro: a study.')\n"
        "s = f.signature(w)\n"
        "print(w.tolist(), s.tolist(), f.band_keys(s).tolist(), f.text_hash(w))\n"
    )
    said = said_in_new_processes(program)
    assert len(said) == 1
    # Other machines and versions must agree too: numbers noted once.
    numbers = said.pop()
    assert fingerprints.text_hash(fingerprints.words("IL-2")) == NOTED, numbers


NOTED = 16009316465500191827
