"""Words of raw text are those of the corpora: counted in the corpora's own files."""

import re

import pytest

from data_prep.corpora import clinical_notes, published_sentences
from tests import reference
from tfbio.formats import tagged_words
from tfbio.formats.splits import find_split
from tfbio.formats.task_examples import TaggedSentence
from tfbio.runs import document_formats
from tfbio.task_types import words

CORPORA = {
    "bc5cdr_chem": "symbols",
    "bc5cdr_disease": "symbols",
    "ncbi_disease": "symbols",
    "bc2gm": "symbols",
    "jnlpba": "blanks",
    "ebm_pico": "blanks",
}


def sentences_of(corpus):
    path = find_split(str(reference.corpus(f"{corpus}/blurb")), "test")
    scheme = "IO" if corpus == "ebm_pico" else "BIO"
    return tagged_words.read(path, scheme=scheme)


def split(text, rule):
    return [text[start:end] for start, end in words.spans(text, rule)]


def bounds(sentence):
    """Where words begin and end when white space is not counted."""
    ends, found = 0, set()
    for word in sentence:
        found.add((ends, ends + len(word)))
        ends += len(word)
    return found


@pytest.mark.parametrize(
    "text, by_symbols, by_punctuation, by_blanks",
    [
        (
            "IL-2 (0.05 mg/kg).",
            "IL - 2 ( 0 . 05 mg / kg ) .",
            "IL - 2 ( 0 . 05 mg / kg ) .",
            "IL-2 ( 0.05 mg/kg ) .",
        ),
        (
            "Crohn's, e.g. 1,000 (5%): why?",
            "Crohn ' s , e . g . 1 , 000 ( 5 % ) : why ?",
            "Crohn ' s , e . g . 1 , 000 ( 5 % ) : why ?",
            "Crohn 's , e.g. 1,000 ( 5 % ) : why ?",
        ),
        ("CD4+ vs. 2:1.", "CD4 + vs . 2 : 1 .", "CD4 + vs . 2 : 1 .", "CD4+ vs. 2:1 ."),
        (
            "Fluad\u00ae 5\u00b12",
            "Fluad \u00ae 5 \u00b1 2",
            "Fluad\u00ae 5\u00b12",
            "Fluad\u00ae 5\u00b12",
        ),
        # A mathematical alpha, a hyphen that is not ASCII's, a no-break space, a combining accent.
        (
            "\U0001d6fc\u2010MSH\u00a0caf\u00e9\r\n\te\u0301.",
            "\U0001d6fc \u2010 MSH caf\u00e9 e\u0301 .",
            "\U0001d6fc \u2010 MSH caf\u00e9 e\u0301 .",
            "\U0001d6fc\u2010MSH caf\u00e9 e\u0301 .",
        ),
    ],
    ids=str,
)
def test_words_by_hand(text, by_symbols, by_punctuation, by_blanks):
    listed = {"symbols": by_symbols, "punctuation": by_punctuation, "blanks": by_blanks}
    for rule, expected in listed.items():
        assert split(text, rule) == expected.split(" "), rule


def test_symbols_are_the_words_of_the_converters():
    """The published files' words, and those of clinical notes, in which symbols stand alone."""
    text = "Fluad\u00ae (5\u00b12\u00b0) \u2265 90 %, x\u2192y \u22123 \u00b5g/\u03bcl a_b \u20ac5."
    expected = split(text, "symbols")
    assert {"\u00ae", "\u00b1", "\u00b0", "_"} <= set(expected)
    rows = published_sentences.tagged(text, [], "1", "", [])
    assert [word for word, _ in filter(any, rows)] == expected
    assert clinical_notes.WORD.findall(text) == expected


@pytest.mark.parametrize("rule", ["symbols", "punctuation", "blanks"])
def test_no_character_is_lost_but_white_space(rule):
    odd = "".join(map(chr, range(33, 0x3000))) + " a.b, c: 's ''s's. x'.')"
    assert "".join(split(odd, rule)) == re.sub(r"\s", "", odd)


@pytest.mark.parametrize("corpus", CORPORA)
def test_the_rule_is_told_by_the_corpus(corpus):
    sentences = sentences_of(corpus)
    assert words.rule_of(sentences) == CORPORA[corpus]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Fluad \u00ae was", "symbols"),
        ("Fluad was", "symbols"),
        ("Fluad\u00ae was", "punctuation"),
        ("Fluad \u00ae was 5\u00b12", "punctuation"),
        ("IL-2 \u00ae was", "blanks"),
    ],
)
def test_symbols_decide_between_two_rules(text, rule):
    """One word of many suffices, since symbols are rare."""
    sentence = TaggedSentence("1", tuple(text.split()), ("O",) * len(text.split()))
    plain = TaggedSentence("2", ("a",) * 10, ("O",) * 10)
    assert words.rule_of([sentence, *[plain] * (2 if rule == "blanks" else 100)]) == rule


def test_prediction_ends_an_entity_where_training_does():
    text = "Fluad\u00ae was given."
    rows = published_sentences.tagged(text, [(0, 5)], "1", "", [])
    trained = TaggedSentence("1", *zip(*filter(any, rows), strict=True))
    rule = words.rule_of([trained])
    assert trained.tags == ("B", *"O" * 4)
    assert split(text, rule) == list(trained.words)


@pytest.mark.parametrize("corpus", [name for name in CORPORA if name not in ("jnlpba", "ebm_pico")])
def test_words_that_are_parted_at_punctuation_come_out_the_same(corpus):
    for sentence in sentences_of(corpus):
        assert tuple(split(" ".join(sentence.words), "symbols")) == sentence.words


def test_the_raw_text_of_ncbi_has_its_words():
    """All 24,497 of the test set: the documents and the sentences stand in another order."""
    folder = reference.corpus("ncbi_disease")
    pubtator = str(folder / "pubtator" / "NCBIdisease_Test.PubTator")
    raw = {}
    for document in document_formats.read(pubtator):
        squeezed = "".join(document.text.split())
        raw[squeezed[:40]] = squeezed, bounds(split(document.text, "symbols"))
    assert len(raw) == 100
    document, seen = [], 0
    for sentence in sentences_of("ncbi_disease"):
        document += sentence.words
        joined = "".join(document)
        squeezed, expected = raw.get(joined[:40], ("", None))
        if joined == squeezed:
            assert bounds(document) == expected
            seen += len(document)
            document = []
    assert seen == 24497 and not document


@pytest.mark.parametrize(
    "corpus, rule, sentences, share",
    [
        ("jnlpba", "blanks", 0.998, 0.9998),
        ("ebm_pico", "blanks", 0.982, 0.998),
        ("jnlpba", "punctuation", 0.293, 0.934),
        ("ebm_pico", "punctuation", 0.501, 0.953),
    ],
)
def test_words_that_are_parted_at_blanks(corpus, rule, sentences, share):
    """With the usual blanks around punctuation taken out, as far as that can be guessed."""
    same, right, count = 0, 0, 0
    examples = sentences_of(corpus)
    for example in examples:
        text = re.sub(r" ([,.;:?!%)\]]|'s\b)", r"\1", " ".join(example.words))
        text = re.sub(r"([(\[]) ", r"\1", text)
        gold, found = bounds(example.words), bounds(split(text, rule))
        same += gold == found
        right += len(gold & found)
        count += len(gold)
    assert same / len(examples) == pytest.approx(sentences, abs=6e-4)
    assert right / count == pytest.approx(share, abs=6e-4)
