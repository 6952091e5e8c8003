import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy

from benchmarks import sentences as benchmark
from data_prep.readers import input_files, pubmed
from data_prep.sentences import senter, splitters
from tests import reference
from tfbio.base import cli

TEXT = "We saw S. aureus in Fig. 2. It grew at 37.5 degrees (p < 0.05)."


@pytest.fixture(scope="module")
def texts():
    """Sections of real abstracts: 200 of the seventies, 200 recent ones."""
    result = []
    for path in input_files.shipped_files(".xml.gz"):
        sections = (text for c in pubmed.read_citations(path) for *_, text in c.sections)
        result += itertools.islice(sections, 200)
    return result


@pytest.fixture(scope="module")
def split():
    return splitters.load("biosenter")


@pytest.mark.parametrize("name", ["auto", "scispacy"])
def test_abbreviations_do_not_end_sentences(name):
    name, version = splitters.resolve(name)
    assert version
    split = splitters.load(name)
    assert list(split([TEXT, "", "One."])) == [
        ["We saw S. aureus in Fig. 2.", "It grew at 37.5 degrees (p < 0.05)."],
        [],
        ["One."],
    ]


@pytest.mark.parametrize("name", ["auto", "scispacy"])
def test_no_text_is_lost(name, texts):
    texts = texts[::10]
    split = list(splitters.load(splitters.resolve(name)[0])(texts))
    assert len(split) == len(texts) == 40
    for text, parts in zip(texts, split, strict=True):
        assert "".join(parts).replace(" ", "") == text.replace(" ", "")
        assert all(part and part == part.strip() for part in parts)


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
        assert parts == [part for part in expected if part]
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


def test_what_stands_after_the_period_belongs_to_the_sentence(split):
    sentences_ = [
        'Its homology was designated the "death domain."',
        "Another domain of the receptor was then found.1,2",
        "However, it did not bind to the high affinity IL-2R.",
        "These results suggest a role in NF-kappaB.",
    ]
    assert list(split([" ".join(sentences_)])) == [sentences_]


def test_a_boundary_depends_on_its_text_alone(split, texts):
    texts = texts[::3]
    together = list(split(texts))
    assert list(split(texts[::-1])) == together[::-1]
    assert [parts for text in texts for parts in split([text])] == together
    fresh = splitters.load("biosenter")
    assert [parts for text in texts[::-1] for parts in fresh([text])] == together[::-1]


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


@pytest.mark.parametrize("name", ["biosenter", "scispacy"])
def test_a_long_text_is_split_like_a_short_one(name, texts, monkeypatch):
    monkeypatch.setattr(splitters, "_PIECE", 2000)
    parts = [text for text in texts[200:260] if text[-1] == "." and text[0].isupper()]
    long = " ".join(parts)
    assert len(long) > 5 * splitters._PIECE
    split = splitters.load(name)
    (result,) = split([long])
    assert " ".join(result) == long
    apart = {sentence for some in split(parts) for sentence in some}
    assert len(apart & set(result)) / len(apart) > 0.97


@pytest.mark.parametrize("name", ["biosenter", "scispacy"])
@pytest.mark.parametrize(
    "text", ["x" * 5000, "ab " * 2000, "(" * 500 + "a. B" * 500, "A" * 999 + ".5"]
)
def test_what_is_no_language_is_not_lost(name, text, monkeypatch):
    monkeypatch.setattr(splitters, "_PIECE", 1000)
    (result,) = splitters.load(name)([text])
    assert "".join(result).replace(" ", "") == text.replace(" ", "")


def test_a_text_of_a_million_characters_is_split(split, texts):
    long = " ".join(texts)
    long *= 1_000_000 // len(long) + 1
    (result,) = split([long])
    assert "".join(result).replace(" ", "") == long.replace(" ", "")
    assert len(result) > 5000


@pytest.mark.parametrize(
    "text", ["", " ", ".", ". .", "\n", "A.\nB.\tC.  D.", "\0 A. B \0", "…?!\u2009"]
)
def test_odd_texts_are_not_lost(split, text):
    before, result, after = split([TEXT, text, TEXT])
    assert "".join("".join(result).split()) == "".join(text.split())
    assert len(before) == len(after) == 2


def test_the_default_is_the_best_on_gold():
    corpus = benchmark.genia(reference.corpus("jnlpba").parent)
    corpus = corpus._replace(documents=corpus.documents[::24])
    assert sum(map(len, corpus.documents)) > 700
    default = splitters.load(splitters.resolve("auto")[0])
    *_, ours = benchmark.score(corpus, default)
    *_, plain = benchmark.score(corpus, benchmark.plain("biosenter"))
    *_, rules = benchmark.score(corpus, benchmark.plain("scispacy"))
    assert ours > plain > rules > 0.98


def test_boundaries_are_counted_without_white_space():
    assert benchmark.boundaries(["A b.", "C.", "D e f."]) == {3, 5}
    assert benchmark.boundaries([]) == benchmark.boundaries(["One."]) == set()
    corpus = benchmark.Corpus("made up", [["A b.", "C.", "D."]], "hand")
    result = benchmark.score(corpus, lambda texts: [["A  b. C.", "D", "."]])
    assert result == pytest.approx((1 / 2, 1 / 2, 1 / 2))


def test_tokens_are_put_together():
    tokens = ["The", "``", "A", "''", "(", "B", ")", "of", "5", "%", ",", "say", "[", "2", "]", "."]
    assert benchmark.detokenize(tokens) == 'The "A" (B) of 5%, say [2].'


def test_the_model_is_preferred_to_the_rules():
    assert splitters.resolve("auto")[0] == "biosenter"


def test_what_is_not_installed_is_named():
    with pytest.raises(cli.UserError, match="en_core_sci_xxl: no such package is installed"):
        splitters.resolve("en_core_sci_xxl")


def test_what_is_no_pipeline_is_named():
    with pytest.raises(cli.UserError, match="lxml: it is not a spaCy pipeline"):
        splitters.load("lxml")
