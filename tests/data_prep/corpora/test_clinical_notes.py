"""Mentions at characters become tags of words; cases worked by hand."""

import random
import re
from collections import Counter

import pytest

from data_prep.corpora import clinical_notes
from tfbio.formats import tagged_words
from tfbio.task_types import tag_schemes


def made(text, *mentions, **settings):
    """Returns the words and tags of a text, | between sentences, and the counts."""
    counts = Counter()
    result = [clinical_notes.Mention(kind, tuple(parts)) for kind, *parts in mentions]
    rows = clinical_notes.tagged("n", text, result, counts, [], **settings)
    assert rows[:2] == [("-DOCSTART- (n)",), ("",)] and rows[-1] == ("",)
    cells = ["|" if row == ("",) else "/".join(row) for row in rows[2:-1]]
    return " ".join(cells), {what for what, count in counts.items() if count} - {
        clinical_notes.MENTIONS
    }


@pytest.mark.parametrize(
    ("text", "mentions", "expected", "counted"),
    [
        ("No fever.", [("x", (3, 8))], "No/O fever/B-x ./O", set()),
        ("No fever.", [("", (3, 8))], "No/O fever/B ./O", set()),
        ("a-b_c 1.5", [], "a/O -/O b/O _/O c/O 1/O ./O 5/O", set()),
        ("chest pain", [("x", (0, 10))], "chest/B-x pain/I-x", set()),
        # Next to each other, of one kind and of two.
        ("chest pain", [("x", (0, 5)), ("x", (6, 10))], "chest/B-x pain/B-x", set()),
        ("chest pain", [("x", (0, 5)), ("y", (6, 10))], "chest/B-x pain/B-y", set()),
        # Within a word.
        ("afebrile", [("x", (1, 8))], "afebrile/B-x", {clinical_notes.CUT}),
        ("nonfevers here", [("x", (3, 11))], "nonfevers/B-x here/I-x", {clinical_notes.CUT}),
        # In parts: with a gap, and without.
        (
            "left and right atrium",
            [("x", (0, 4), (15, 21))],
            "left/B-x and/O right/O atrium/B-x",
            {clinical_notes.IN_PARTS},
        ),
        ("left atrium", [("x", (0, 4), (5, 11))], "left/B-x atrium/I-x", set()),
        ("left atrium", [("x", (5, 11), (0, 4))], "left/B-x atrium/I-x", set()),
        # Two that share a word: the later one has it.
        (
            "left and right atrium",
            [("x", (0, 4), (15, 21)), ("x", (9, 21))],
            "left/B-x and/O right/B-x atrium/I-x",
            {clinical_notes.IN_PARTS, clinical_notes.OVERLAPPED},
        ),
        ("a b c", [("x", (0, 5)), ("y", (2, 3))], "a/B-x b/B-y c/B-x", {clinical_notes.OVERLAPPED}),
        ("a b c", [("y", (2, 3)), ("x", (0, 5))], "a/B-x b/I-x c/I-x", {clinical_notes.OVERLAPPED}),
        # What is left of a mention behind a later one is no part of that.
        ("a b c", [("x", (0, 5)), ("x", (2, 3))], "a/B-x b/B-x c/B-x", {clinical_notes.OVERLAPPED}),
        (
            "a b c",
            [("x", (0, 1), (4, 5)), ("x", (2, 3))],
            "a/B-x b/B-x c/B-x",
            {clinical_notes.IN_PARTS},
        ),
        # Sentences.
        ("No pain.\nNo fever.", [], "No/O pain/O ./O | No/O fever/O ./O", set()),
        ("\n\na\n\n\nb\n", [], "a/O | b/O", set()),
        ("chest\npain\nno", [("x", (0, 10))], "chest/B-x pain/I-x | no/O", {clinical_notes.JOINED}),
        # The parts are of two sentences, which stay two.
        ("a\nb", [("x", (0, 1), (2, 3))], "a/B-x | b/B-x", set()),
        # Nothing to tag.
        ("a  b", [("x", (1, 3))], "a/O b/O", {clinical_notes.WORDLESS}),
        ("a b", [("x", (7, 9))], "a/O b/O", {clinical_notes.WORDLESS}),
    ],
)
def test_tags(text, mentions, expected, counted):
    assert made(text, *mentions) == (expected, counted)


def test_words_and_sentences_may_be_others():
    text = "b.i.d. x\ny  z"
    word, end = re.compile(r"\S+"), re.compile(r"  ")
    assert made(text, word=word, sentence_end=end)[0] == "b.i.d./O x/O y/O | z/O"


def test_every_mention_is_found_again_or_counted(tmp_path):
    """Mentions drawn at random are what the reader and the scorer find, but for those counted."""
    numbers, whole = random.Random(0), 0
    for case in range(300):
        text = "".join(numbers.choice("ab. \n") for _ in range(40))
        spans = [(i, i + numbers.randint(1, 8)) for i in numbers.sample(range(33), 3)]
        mentions = [clinical_notes.Mention("x", (tuple(span),)) for span in spans]
        counts = Counter()
        rows = clinical_notes.tagged("n", text, mentions, counts, [])
        assert counts[clinical_notes.MENTIONS] == 3, case
        path = tmp_path / f"{case}.tsv"
        path.write_text("".join("\t".join(row) + "\n" for row in rows))
        if not any(len(row) == 2 for row in rows):
            continue
        sentences = tagged_words.read(str(path))
        words = [match.span() for match in clinical_notes.WORD.finditer(text)]
        assert sum(len(x.words) for x in sentences) == len(words), case
        result, before = set(), 0
        for sentence in sentences:
            for _, first, last in tag_schemes.entities(sentence.tags, strict=True):
                result.add((words[before + first][0], words[before + last][1]))
            before += len(sentence.words)
        # What each would be alone: from its first word to its last.
        alone = set()
        for start, end in spans:
            inside = [word for word in words if word[1] > start and word[0] < end]
            if inside:
                alone.add((inside[0][0], inside[-1][1]))
        if not counts[clinical_notes.OVERLAPPED]:
            assert result == alone, case
            whole += 1
    assert whole > 100


def test_what_does_not_fit_is_said(capsys):
    clinical_notes.say(
        Counter({clinical_notes.MENTIONS: 1200, clinical_notes.CUT: 3, clinical_notes.JOINED: 0})
    )
    assert capsys.readouterr().out == (
        "3 of 1,200 mentions begin or end within a word: the whole word is tagged.\n"
    )


def test_mentions_without_a_word_are_named():
    left = []
    result = [
        clinical_notes.Mention("x", ((0, 1),)),
        clinical_notes.Mention("y", ((0, 3),)),
        clinical_notes.Mention("z", ((1, 2), (3, 4))),
    ]
    clinical_notes.tagged("n", "a b c", result, Counter(), left)
    assert left == [("n.0-1", "n", "overwritten"), ("n.1-4", "n", "no_word")]
