"""spaCy's sentence model, run only where a sentence can begin: it says the same."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import spacy

from data_prep.sentences import senter, splitters


def test_the_model_says_what_spacy_says(split, texts):
    # spaCy itself, text by text, with the tokenizer's one more rule. Of what it says, only the
    # boundaries after a sentence-ending character are asked for.
    nlp = spacy.load("biosenter")
    rules = [*nlp.Defaults.suffixes, r"(?<=[a-z0-9][A-Z])\."]
    nlp.tokenizer.suffix_search = spacy.util.compile_suffix_regex(rules).search
    boundaries = in_mid_air = 0
    for text, parts in zip(texts, split(texts), strict=True):
        ends = {0, len(text)}
        for sentence in nlp(text).sents:
            before = text[max(0, sentence.start_char - 6) : sentence.start_char]
            ends |= {sentence.start_char} if set(before) & set(".?!…") else set()
            in_mid_air += not set(before) & set(".?!…") and sentence.start > 0
        expected = [text[a:b].strip() for a, b in itertools.pairwise(sorted(ends))]
        assert parts == [part for part in expected if part], text
        boundaries += len(parts) - 1
    assert boundaries > 1000
    assert in_mid_air < boundaries / 200


def test_words_are_tokenized_as_spacy_does(texts):
    nlp = spacy.load("biosenter")
    rules = [*nlp.Defaults.suffixes, r"(?<=[a-z0-9][A-Z])\."]
    nlp.tokenizer.suffix_search = spacy.util.compile_suffix_regex(rules).search
    words = " ".join([*nlp.tokenizer.rules, *texts])
    expected = [(token.idx, token.text) for token in nlp.tokenizer(words)]
    assert len(expected) > 50_000
    senter.Senter(nlp)  # changes the tokenizer
    nlp.tokenizer.rules = nlp.tokenizer.rules  # spaCy forgets the words it has seen
    assert [(token.idx, token.text) for token in nlp.tokenizer(words)] == expected


def test_a_model_of_another_language_is_left_to_spacy():
    biosenter = spacy.load("biosenter")
    for language, can_read in (("en", True), ("de", False)):
        nlp = spacy.blank(language)
        nlp.add_pipe("senter", source=biosenter)
        assert senter.can_read(nlp) is can_read


def test_threads_share_a_splitter(texts, monkeypatch):
    monkeypatch.setattr(senter, "_AT_ONCE", 2000)
    shares = [texts[i::4] for i in range(4)]
    expected = [list(splitters.load("biosenter")(share)) for share in shares]
    split = splitters.load("biosenter")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda share: list(split(share)), shares)) == expected


def test_a_near_tie_is_decided_by_the_words_around_it(texts, monkeypatch):
    # With every score a near tie, all are computed anew by spaCy from the words around.
    texts = texts[::10]
    expected = list(splitters.load("biosenter")(texts))
    scores = []
    by_rows, alone = senter.Senter._score, senter.Senter._score_alone

    def noisy(self, x):
        scores.append(by_rows(self, x))
        return np.zeros(len(x), np.float32)

    def recorded(self, *arguments):
        scores.append(np.array([alone(self, *arguments)]))
        return scores[-1][0]

    monkeypatch.setattr(senter.Senter, "_score", noisy)
    monkeypatch.setattr(senter.Senter, "_score_alone", recorded)
    assert list(splitters.load("biosenter")(texts)) == expected
    half = sum(map(len, scores)) // 2
    together = np.concatenate(scores)
    assert half > 100
    # They are nearer to each other than what is called a near tie.
    np.testing.assert_allclose(together[:half], together[half:], atol=senter._NEAR_TIE / 10)


def test_what_was_learnt_is_forgotten_in_time(split, texts, monkeypatch):
    expected = list(split(texts))
    monkeypatch.setattr(senter, "_AT_ONCE", 20_000)
    monkeypatch.setattr(senter, "_MOST_TOKENS", 3000)
    small = splitters.load("biosenter")
    assert list(small(texts)) == expected
    read = small.__self__
    assert len(read._known) < 4000 < len(split.__self__._known)
    # What spaCy keeps does not grow with the texts either.
    assert (
        len(read._nlp.vocab.strings)
        < len(splitters.load("biosenter").__self__._nlp.vocab.strings) + 100
    )
