"""Windows of a question's context, and the tokens of its answer."""

import numpy as np

from tfbio.formats.task_examples import Question
from tfbio.task_types import question_windows
from tfbio.task_types.question_windows import answer_tokens


def question(context, *found, text="What?", name="q"):
    return Question(name, text, context, found, tuple(context.find(x) for x in found))


def test_windows_overlap_and_every_token_is_owned_once():
    rng = np.random.default_rng(0)
    for _ in range(300):
        room, count = int(rng.integers(2, 400)), int(rng.integers(0, 900))
        found = question_windows.windows(count, room)
        assert found[0][0] == 0 and found[-1][1] == count
        assert not [(first, end) for first, end in found if not (end - first <= room)]
        own = question_windows.most_context(count, found)
        owned = [i for span, mask in zip(found, own, strict=True) for i in np.arange(*span)[mask]]
        assert sorted(owned) == list(range(count))
        for (first, end), (next_first, next_end) in zip(found, found[1:], strict=False):
            assert first < next_first < end < next_end or room == 2
            assert end - next_first >= room // 2 or next_first - first == 128


def test_windows_may_begin_every_so_many_tokens():
    assert question_windows.windows(20, 10, 4) == [(0, 10), (4, 14), (8, 18), (12, 20)]
    assert question_windows.windows(20, 10, 99) == [(0, 10), (10, 20)]  # and leave no token out


def test_a_token_is_owned_where_it_has_most_around_it():
    # The example in `run_squad.py`: "bought" is in the windows B and C.
    text = "the man went to the store and bought a gallon of milk"
    words = text.split()
    found = [(0, 5), (3, 8), (6, 11)]
    _, b, c = question_windows.most_context(len(words), found)
    bought = words.index("bought")
    assert not b[bought - 3] and c[bought - 6]
    # "to" has one word after it in A, none before it in B; "the" none in A, one in B.
    assert not b[0] and b[1]


def test_the_answer_is_all_tokens_with_a_character_of_it():
    offsets = np.array([[0, 5], [6, 14], [14, 16]], np.int32)  # "Japan japanese##is"
    assert answer_tokens(question("Japan Japaneseis", "Japanese"), offsets) == (
        1,
        1,
    )
    assert answer_tokens(question("Japan Japaneseis", "panese"), offsets) == (
        1,
        1,
    )
    assert answer_tokens(question("Japan Japaneseis", "eseis"), offsets) == (
        1,
        2,
    )
    # The first one whose place is known; and none.
    assert answer_tokens(question("Japan Japaneseis", "China", "Japan"), offsets) == (0, 0)
    assert answer_tokens(question("Japan Japaneseis", "China"), offsets) is None
    assert answer_tokens(question("Japan Japaneseis"), offsets) is None
