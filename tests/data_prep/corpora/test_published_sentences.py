"""Sentences, words and tags; `test_abstract_mentions.py` compares whole published files."""

import pytest

from data_prep.corpora import published_sentences


def sentences(text, mentions=()):
    """Returns the words of each sentence, joined; "/" stands before the tag of a mention's word."""
    made, left = [[]], []
    for row in published_sentences.tagged(text, mentions, "1", "a", left):
        if row == ("",):
            made.append([])
        else:
            made[-1].append(row[0] if row[1] == "O" else f"{row[0]}/{row[1]}")
    assert not left
    return [" ".join(words) for words in made if words]


@pytest.mark.parametrize(
    "text, expected",
    [
        # Sentences of NCBI-disease, BC5CDR and BC2GM, as BLURB's files have them.
        ("Joys and F. 2 cases of it", ["Joys and F .", "2 cases of it"]),
        ("the CT. . CIN occurs. Then", ["the CT .", ". CIN occurs .", "Then"]),
        ("A title.\nAnd an abstract", ["A title .", "And an abstract"]),
        # By hand, a case for each rule.
        ("It grew (see Fig. One). It", ["It grew ( see Fig . One ) .", "It"]),
        ("It [a. B (c. D) e. F]. It", ["It [ a . B ( c . D ) e . F ] .", "It"]),
        ("In S. cerevisiae it", ["In S . cerevisiae it"]),
        ("By Anton P. Chekhov", ["By Anton P . Chekhov"]),
        ("X vs. Y, cf. Z, i. v. A.", ["X vs . Y , cf . Z , i . v . A ."]),
        ("Approx. 5 of No. 7.", ["Approx . 5 of No . 7 ."]),
        ("It ended. of course. Now", ["It ended . of course .", "Now"]),
        ("Is it?! Yes! 5", ["Is it ? !", "Yes !", "5"]),
        ("IL-2_a is 0.05", ["IL - 2 _ a is 0 . 05"]),
        (" \n ", []),
    ],
)
def test_sentences_and_words(text, expected):
    assert sentences(text) == expected


def test_a_mention_that_goes_over_the_end_of_a_sentence_is_two():
    text = "as St. Anthony's fire, then"
    assert sentences(text, [(3, 21)]) == [
        "as St/B ./I",
        "Anthony/B '/I s/I fire/I , then",
    ]


def test_a_mention_within_a_word_has_the_whole_word_and_two_that_touch_stay_two():
    assert sentences("the GSK3beta", [(4, 7)]) == ["the GSK3beta/B"]
    assert sentences("a p53 p21 b", [(2, 5), (6, 9)]) == ["a p53/B p21/B b"]
    assert sentences("a p53 p21 b", [(2, 9)]) == ["a p53/B p21/I b"]


@pytest.mark.parametrize(
    "text, mentions, tags, expected",
    [
        # Two genes in one word; the second reaches into the next word.
        ("TNFalpha rises", [(0, 3), (3, 8)], ["B", "O"], ["1.3-8"]),
        ("TNFalpha rises", [(0, 3), (3, 14)], ["B", "I"], ["1.3-14"]),
        ("TNFalpha rises", [(0, 3, "G"), (3, 8, "C")], ["B-G", "O"], ["1.3-8"]),
        # The tag of another type shows it.
        ("TNFalpha rises", [(0, 3, "G"), (3, 14, "C")], ["B-G", "B-C"], []),
        ("TNF alpha", [(0, 3), (4, 9)], ["B", "B"], []),
    ],
)
def test_a_mention_whose_word_an_earlier_one_has_is_listed(text, mentions, tags, expected):
    left = []
    rows = published_sentences.tagged(text, mentions, "1", "a.txt", left)
    assert [row[1] for row in rows[:-1]] == tags
    assert left == [(id_, "a.txt", "shares_a_word") for id_ in expected]


def test_of_mentions_that_overlap_the_longest_is_kept():
    kept = published_sentences.without_overlaps([(0, 4), (2, 8), (8, 9), (0, 4)])
    assert kept == [(2, 8), (8, 9)]
    assert published_sentences.without_overlaps([(2, 5), (0, 3)]) == [(0, 3)]
