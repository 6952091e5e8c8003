"""SQuAD's and BioASQ's scores, worked by hand and by the official script's steps."""

import random
import string

import pytest

from tfbio.task_types import answer_metrics


@pytest.mark.parametrize(
    "answers, predicted, f1, exact_match",
    [
        (["The cat"], "cat", 1, 1),
        (["cat"], "  A  CAT. ", 1, 1),
        (["cats"], "cat", 0, 0),
        # Punctuation goes without a blank, before articles: "a.m." is "am", "a." an article.
        (["10 a.m."], "10 am", 1, 1),
        (["vitamin a."], "vitamin", 1, 1),
        (["IL-2"], "IL2", 1, 1),
        (["IL-2"], "IL 2", 0, 0),
        # Only whole words are articles, and each leaves a blank.
        (["theta"], "ta", 0, 0),
        (["lithe"], "li", 0, 0),
        (["1–the–2"], "1– –2", 1, 1),
        # Only ASCII punctuation goes: a dash of two bytes stays.
        (["1–2"], "12", 0, 0),
        (["“IL2”"], "IL2", 0, 0),
        (["naïve T cells"], "naïve t-cells", 2 / 5, 0),
        (["ＤＮＡ"], "ｄｎａ", 1, 1),
        # 2 words in common of 3 and 4: 2 * 2 / 7. A word counts as often as it is in both.
        (["one two three"], "two three four five", 4 / 7, 0),
        (["x x"], "x x x", 4 / 5, 0),
        (["x y"], "y x", 1, 0),
        # The best answer counts, for each figure by itself.
        (["x y z", "x"], "x y", 4 / 5, 0),
        (["wrong", "right"], "right", 1, 1),
        # No answer is right only where there is none.
        (["x"], "", 0, 0),
        ([], "", 1, 1),
        ([], "x", 0, 0),
        ([], "the", 1, 1),
        # An answer of which nothing is left does not count beside another.
        (["The", "cat"], "a", 0, 0),
        (["The"], "a", 1, 1),
    ],
)
def test_squad_scores_of_one_question(answers, predicted, f1, exact_match):
    scores = answer_metrics.squad_scores([answers], [predicted])
    assert scores["f1"] == pytest.approx(f1)
    assert scores["exact_match"] == exact_match


def test_squad_scores_by_the_steps_of_the_official_script():
    """A second implementation, letter by letter, on random words of awkward texts."""

    def words(text):
        kept = "".join(x for x in text.lower() if x not in set(string.punctuation))
        kept = "".join(x if x.isalnum() or x == "_" else f" {x} " for x in kept)
        return [x for x in kept.split() if x not in ("a", "an", "the")]

    def f1(answer, predicted):
        left, common = words(predicted), 0
        for word in words(answer):
            if word in left:
                left.remove(word)
                common += 1
        if common == 0:
            return 0.0
        precision, recall = common / len(words(predicted)), common / len(words(answer))
        return 2 * precision * recall / (precision + recall)

    generator = random.Random(6)
    pieces = ["the", "A", "an", "x.", "x", "Y", "y-z", "(yz)", "'s", "thé", "\t", "the-a", "a,"]
    for _ in range(1000):
        texts = [" ".join(generator.choices(pieces, k=generator.randint(1, 5))) for _ in range(4)]
        answers = [text for text in texts[:3] if words(text)]
        if not answers:
            continue
        scores = answer_metrics.squad_scores([answers], [texts[3]])
        assert scores["f1"] == pytest.approx(max(f1(x, texts[3]) for x in answers))
        assert scores["exact_match"] == any(words(x) == words(texts[3]) for x in answers)


def test_squad_scores_of_questions_with_and_without_answers():
    answers = [["x y"], ["z"], [], []]
    # F1 of the four: 2 * 1 / (2 + 1) = 2/3, 1, 1, 0; exact: 0, 1, 1, 0.
    scores = answer_metrics.squad_scores(answers, ["x", "z", "", "x"])
    assert scores == pytest.approx(
        {"f1": 2 / 3, "exact_match": 1 / 2}
        | {"has_answer_f1": 5 / 6, "has_answer_exact_match": 1 / 2}
        | {"no_answer_f1": 1 / 2, "no_answer_exact_match": 1 / 2}
    )
    assert set(answer_metrics.squad_scores(answers[:2], ["x", "z"])) == {"f1", "exact_match"}
    assert "has_answer_f1" not in answer_metrics.squad_scores([[]], [""])


def test_bioasq_factoid_scores_of_a_hand_worked_case():
    synonyms = [["TP53", "p53"], ["insulin"], ["BRCA1"], ["MDM2"], ["EGFR"], ["x"]]
    predicted = [
        ["P53", "mdm2"],  # right at once, but for case
        ["glucagon", "leptin", "Insulin"],  # third
        ["BRCA-1", " brca1", "BRCA1."],  # nothing but case is ignored
        ["a", "b", "c", "d", "MDM2"],  # the fifth still counts
        ["a", "b", "c", "d", "e", "EGFR"],  # the sixth does not
        [],
    ]
    scores = answer_metrics.bioasq_factoid_scores(synonyms, predicted)
    assert scores == pytest.approx(
        {"mrr": (1 + 1 / 3 + 1 / 5) / 6, "strict_accuracy": 1 / 6, "lenient_accuracy": 3 / 6}
    )


def test_a_right_answer_given_twice_counts_where_it_comes_first():
    scores = answer_metrics.bioasq_factoid_scores([["x", "y"]], [["z", "y", "x"]])
    assert scores == {"mrr": 1 / 2, "strict_accuracy": 0, "lenient_accuracy": 1}
