"""Answers from logits, worked by hand."""

import numpy as np
import pytest

from tfbio.formats.task_examples import Question
from tfbio.task_types import answers

CONTEXT = "one two three four"
OFFSETS = np.array([[0, 3], [4, 7], [8, 13], [14, 18]], np.int32)


def window(starts, ends, own=(True,) * 4, offsets=OFFSETS):
    """[CLS] what [SEP] one two three four [SEP]; logits of the named tokens, -9 of others."""
    logits = np.full([len(offsets) + 4, 2], -9, np.float32)
    for side, named in enumerate((starts, ends)):
        for token, logit in named.items():
            logits[token, side] = logit
    return answers.Window(logits, offsets, np.array(own))


def best(*windows):
    return answers.best_answers(CONTEXT, windows)


# --- The best spans ------------------------------------------------------------------------------


def test_spans_are_ranked_by_the_sum_of_start_and_end():
    found = best(window({3: 3, 4: 2}, {4: 4, 5: 1}))
    # one two 7, two 6, one two three 4, two three 3.
    assert found.texts[:4] == ("one two", "two", "one two three", "two three")
    likely = np.exp([7.0, 6, 4, 3])
    np.testing.assert_allclose(found.probabilities[:4], likely / likely.sum(), rtol=1e-3)
    assert found.null_odds == -18 - 7


def test_an_answer_does_not_end_before_its_start_nor_outside_of_the_context():
    found = best(window({0: 9, 1: 8, 5: 5, 7: 9}, {4: 9, 2: 9, 7: 9, 6: 1}))
    assert found.texts[0] == "three four"
    assert found.null_odds == (9 - 9) - (5 + 1)


def test_an_answer_has_at_most_30_tokens():
    context = " ".join("x" * 40)
    offsets = np.array([[2 * i, 2 * i + 1] for i in range(40)], np.int32)
    starts, ends = {3: 5, 4: 2}, {32: 2, 33: 9}
    found = answers.best_answers(context, [window(starts, ends, (True,) * 40, offsets)])
    # From token 3, 32 is the 30th; 33 the 31st, but the 30th from token 4.
    assert len(found.texts[0].split()) == 30
    assert found.null_odds == -18 - (2 + 9)


def test_a_start_counts_in_the_window_with_most_context_only():
    """An end counts in any (`run_squad.py`)."""
    one = window({3: 9}, {4: 9}, own=(False, True, True, True))
    other = window({3: 1, 4: 2}, {4: 1})
    found = best(one, other)
    assert found.texts[0] == "two" and found.null_odds == -18 - (2 + 1)
    owned = window({3: 9}, {4: 9}, own=(True, False, False, False))
    assert best(owned, other).texts[0] == "one two"


def test_no_answer_scores_the_least_of_all_windows():
    windows = [window({0: null, 3: 1}, {0: 0, 3: 1}) for null in (5, 3, 4)]
    assert best(*windows).null_odds == 3 - 2


def test_a_text_stands_once_with_its_best_score():
    context = "no no no"
    offsets = np.array([[0, 2], [3, 5], [6, 8]], np.int32)
    logits = window({3: 1, 4: 2, 5: 3}, {3: 1, 4: 1, 5: 1}, (True,) * 3, offsets)
    found = answers.best_answers(context, [logits])
    assert found.texts == ("no", "no no", "no no no")
    # no 3 + 1, no no 2 + 1, no no no 1 + 1
    likely = np.exp([4.0, 3, 2])
    np.testing.assert_allclose(found.probabilities, likely / likely.sum(), rtol=1e-5)


def test_the_20_best_tokens_start_and_end_answers():
    """Those of the question among them, as in `run_squad.py`."""
    context = " ".join("abcdefghijklmnopqrstuvwxyz")
    offsets = np.array([[2 * i, 2 * i + 1] for i in range(26)], np.int32)
    logits = np.zeros([30, 2], np.float32)
    logits[:, 0] = np.arange(30, 0, -1)  # [CLS] is first, then the question and [SEP]
    logits[:, 1] = np.where(np.arange(30) == 19, 50, 0)
    found = answers.best_answers(context, [answers.Window(logits, offsets, np.ones(26, bool))])
    # Of 20 tokens, 3 to 19 are of the context.
    ends = [text[-1] for text in found.texts[:17]]
    assert ends == ["q"] * 17 and len(found.texts) == 20
    assert [text[0] for text in found.texts[:17]] == list("abcdefghijklmnopq")


def test_ends_depend_on_starts_with_electras_head():
    """[CLS] what [SEP] one two three four [SEP]; two starts, with two ends each."""
    logits = np.full([8, 4], -20, np.float32)
    logits[:, 1] = 0.7  # "no answer"
    logits[[3, 5], 0] = 2, 1  # starts: one, then three
    logits[[4, 5], 2] = np.log([0.2, 0.1])  # ends for one: two, then three
    logits[[4, 6], 3] = np.log([0.3, 0.6])  # ends for three: two is before it, and four
    one = answers.Window(logits, OFFSETS, np.ones(4, bool))
    rules = answers.Rules(beam_size=2)
    found = answers.best_answers(CONTEXT, [one], rules)
    assert found.texts == ("three four", "one two", "one two three")
    starts = np.exp([1.0, 2, 2]) / np.exp([1.0, 2]).sum()
    both = starts * [0.6, 0.2, 0.1]
    np.testing.assert_allclose(found.probabilities, both / both.sum(), rtol=1e-5)
    assert found.null_odds == pytest.approx(0.7)
    # The least of all windows; a short answer; a start that another window has more context of.
    other = answers.Window(logits - [0, 0.2, 0, 0], OFFSETS, np.array([True, True, False, True]))
    assert answers.best_answers(CONTEXT, [one, other], rules).null_odds == pytest.approx(0.5)
    assert answers.best_answers(CONTEXT, [other], rules).texts == ("one two", "one two three")
    short = answers.best_answers(CONTEXT, [other], answers.Rules(max_tokens=2, beam_size=2))
    assert short.texts == ("one two",)
    none = answers.best_answers(CONTEXT, [other], answers.Rules(max_tokens=1, beam_size=2))
    assert none == ((), (), pytest.approx(0.5))


def test_a_blank_is_no_answer_nor_a_part_of_one():
    """Byte-level BPE makes a token with an empty range of characters of a second blank."""
    context = "the  gene"
    offsets = np.array([[0, 3], [4, 4], [5, 9]], np.int32)
    logits = window({4: 9, 5: 5}, {4: 9, 5: 8}, (True,) * 3, offsets)
    found = answers.best_answers(context, [logits])
    assert found.texts == ("gene", "the", "the  gene")
    assert found.null_odds == -18 - (9 + 8)


def test_a_context_of_nothing_has_no_answer():
    empty = answers.Window(
        np.zeros([4, 2], np.float32), np.zeros([0, 2], np.int32), np.ones(0, bool)
    )
    assert answers.best_answers(" ", [empty]) == ((), (), 0.0)
    assert answers.best_answers(" ", [empty]).best == ""


# --- BioASQ --------------------------------------------------------------------------------------


def test_the_probabilities_of_an_answer_add_up_over_contexts():
    contexts = [Question(f"a_00{i}", "?", "", (), (), "a") for i in range(3)]
    contexts.append(Question("b_000", "?", "", (), (), "b"))
    predicted = [
        answers.Answers(("BRCA1", "p53"), (0.6, 0.4), 0.0),
        answers.Answers(("P53.", "gene, "), (0.5, 0.3), 0.0),
        answers.Answers(
            ("(brca1)", "open (one", "x" * 101, "A", "B", "C", "D"), (0.2, *[0.1] * 6), 0
        ),
        answers.Answers(("only",), (1.0,), 0.0),
    ]
    # p53 0.9 (written as where it is most probable), BRCA1 0.8, gene 0.3, A, B; C is the sixth.
    assert answers.merged(contexts, predicted) == {
        "a": ("P53", "BRCA1", "gene,", "A", "B"),
        "b": ("only",),
    }


def test_electras_starts_are_compared_by_their_probability_in_their_window():
    sure, torn = np.full([2, 8, 4], -20, np.float32)
    sure[3, 0], torn[[3, 5], 0] = 1, 5
    sure[3, 2], torn[4, 2], torn[5, 3] = 0, 0, 0
    windows = [answers.Window(logits, OFFSETS, np.ones(4, bool)) for logits in (torn, sure)]
    found = answers.best_answers(CONTEXT, windows, answers.Rules(beam_size=2))
    assert found.texts[0] == "one"
    np.testing.assert_allclose(found.probabilities[:3], [0.5, 0.25, 0.25], rtol=1e-4)


def test_two_brackets_and_a_hundred_characters_are_kept_for_bioasq():
    context = Question("a_000", "?", "", (), (), "a")
    own = answers.Answers(("(A) and (B)", "x" * 100, "y" * 101), (0.5, 0.3, 0.2), 0.0)
    assert answers.merged([context], [own]) == {"a": ("(A) and (B)", "x" * 100)}
