import concurrent.futures

import pytest

from benchmarks import sentences as benchmark
from data_prep.sentences import splitters
from tests import reference
from tfbio.base import errors

TEXT = "We saw S. aureus in Fig. 2. It grew at 37.5 degrees (p < 0.05)."


@pytest.mark.parametrize("name", ["auto", "scispacy", "pysbd"])
def test_abbreviations_do_not_end_sentences(name):
    name, version = splitters.resolve(name)
    assert version
    split = splitters.load(name)
    assert list(split([TEXT, "", "One."])) == [
        ["We saw S. aureus in Fig. 2.", "It grew at 37.5 degrees (p < 0.05)."],
        [],
        ["One."],
    ]


@pytest.mark.parametrize("name", ["auto", "scispacy", "pysbd"])
def test_no_text_is_lost(name, texts):
    texts = texts[::10]
    split = list(splitters.load(splitters.resolve(name)[0])(texts))
    assert len(split) == len(texts) == 40
    for text, parts in zip(texts, split, strict=True):
        assert "".join(parts).replace(" ", "") == text.replace(" ", "")
        assert not [part for part in parts if not (part and part == part.strip())]


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


@pytest.mark.parametrize("name", ["biosenter", "scispacy", "pysbd"])
def test_a_long_text_is_split_like_a_short_one(name, texts, monkeypatch):
    monkeypatch.setattr(splitters, "_PIECE", splitters._PIECE_OF_RULES)
    parts = [text for text in texts[200:260] if text[-1] == "." and text[0].isupper()]
    long = " ".join(parts)
    assert len(long) > 5 * splitters._PIECE
    split = splitters.load(name)
    (result,) = split([long])
    assert " ".join(result) == long
    apart = {sentence for some in split(parts) for sentence in some}
    assert len(apart & set(result)) / len(apart) > 0.97


@pytest.mark.parametrize("name", ["biosenter", "scispacy", "pysbd"])
@pytest.mark.parametrize(
    "text", ["x" * 5000, "ab " * 2000, "(" * 500 + "a. B" * 500, "A" * 999 + ".5"]
)
def test_what_is_no_language_is_not_lost(name, text, monkeypatch):
    monkeypatch.setattr(splitters, "_PIECE", 1000)
    monkeypatch.setattr(splitters, "_PIECE_OF_RULES", 1000)
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


def test_without_spacy_the_rules_are_those_of_scispacy(texts):
    """pysbd's page: scispaCy runs the same rules, and moves their boundaries to spaCy's tokens."""
    texts = texts[::4]
    theirs = list(splitters.load("scispacy")(texts))
    ours = list(splitters.load("pysbd")(texts))
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    assert same / len(texts) >= 0.98 and sum(map(len, theirs)) > 200


def test_the_rules_do_not_end_a_sentence_at_the_end_of_a_line():
    text = "Aspirin inhibits\nplatelet\tfunction. It\r\nhelps."
    (result,) = splitters.load("pysbd")([text])
    assert result == ["Aspirin inhibits\nplatelet\tfunction.", "It\r\nhelps."]


def test_threads_share_the_rules(texts):
    """As on a Beam runner, whose processes have several threads."""
    texts = texts[:300]
    split = splitters.load("pysbd")
    expected = list(split(texts))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: list(split(texts)), range(4)))
    assert found == [expected] * 4


@pytest.mark.parametrize("text", ["o.\u222f.\U0001f600...", "a. o.\u222f.\U0001f600... b."])
def test_no_text_is_twice_in_its_sentences(text):
    """The rules use U+222F themselves, and say of such a text that a sentence ends twice."""
    (result,) = splitters.load("pysbd")([text])
    assert "".join(result).replace(" ", "") == text.replace(" ", "")


def test_what_is_not_installed_is_named():
    with pytest.raises(errors.UserError, match="en_core_sci_xxl: no such package is installed"):
        splitters.resolve("en_core_sci_xxl")


@pytest.mark.parametrize("name", ["lxml", "spacy", "numpy", "absl-py"])
def test_what_is_no_pipeline_is_named(name):
    """Packages without `load`, with one that takes other arguments, and one of another name."""
    assert splitters.resolve(name)[0] == name
    with pytest.raises(errors.UserError, match=f"={name}: it is not a spaCy pipeline .") as error:
        splitters.load(name)
    assert len(str(error.value)) <= 300
