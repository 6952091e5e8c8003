"""Words of raw text are those of the corpora: counted in the corpora's own files."""

import re

import pytest

from tests import reference
from tfbio.formats import tagged_words
from tfbio.formats.splits import find_split
from tfbio.runs import document_formats
from tfbio.task_types import words

CORPORA = {
    "bc5cdr_chem": "punctuation",
    "bc5cdr_disease": "punctuation",
    "ncbi_disease": "punctuation",
    "bc2gm": "punctuation",
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
    "text, by_punctuation, by_blanks",
    [
        (
            "IL-2 (0.05 mg/kg).",
            "IL - 2 ( 0 . 05 mg / kg ) .",
            "IL-2 ( 0.05 mg/kg ) .",
        ),
        (
            "Crohn's, e.g. 1,000 (5%): why?",
            "Crohn ' s , e . g . 1 , 000 ( 5 % ) : why ?",
            "Crohn 's , e.g. 1,000 ( 5 % ) : why ?",
        ),
        ("CD4+ vs. 2:1.", "CD4 + vs . 2 : 1 .", "CD4+ vs. 2:1 ."),
        ("\U0001d6fc\u2010MSH\u00a0caf\u00e9\r\n\te\u0301.", None, None),
    ],
    ids=str,
)
def test_words_by_hand(text, by_punctuation, by_blanks):
    expected = {"punctuation": by_punctuation, "blanks": by_blanks}
    if by_blanks is None:
        # A mathematical alpha, a hyphen that is not ASCII's, a no-break space, a combining accent.
        expected["punctuation"] = "\U0001d6fc \u2010 MSH caf\u00e9 e\u0301 ."
        expected["blanks"] = "\U0001d6fc\u2010MSH caf\u00e9 e\u0301 ."
    for rule, listed in expected.items():
        assert split(text, rule) == listed.split(" "), rule


@pytest.mark.parametrize("rule", ["punctuation", "blanks"])
def test_no_character_is_lost_but_white_space(rule):
    odd = "".join(map(chr, range(33, 0x3000))) + " a.b, c: 's ''s's. x'.')"
    assert "".join(split(odd, rule)) == re.sub(r"\s", "", odd)


@pytest.mark.parametrize("corpus", CORPORA)
def test_the_rule_is_told_by_the_corpus(corpus):
    sentences = sentences_of(corpus)
    assert words.rule_of(sentences) == CORPORA[corpus]


@pytest.mark.parametrize("corpus", [name for name in CORPORA if name not in ("jnlpba", "ebm_pico")])
def test_words_that_are_parted_at_punctuation_come_out_the_same(corpus):
    for sentence in sentences_of(corpus):
        assert tuple(split(" ".join(sentence.words), "punctuation")) == sentence.words


def test_the_raw_text_of_ncbi_has_its_words():
    """All 24,497 of the test set: the documents and the sentences stand in another order."""
    folder = reference.corpus("ncbi_disease")
    pubtator = str(folder / "pubtator" / "NCBIdisease_Test.PubTator")
    raw = {}
    for document in document_formats.read(pubtator):
        squeezed = "".join(document.text.split())
        raw[squeezed[:40]] = squeezed, bounds(split(document.text, "punctuation"))
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
