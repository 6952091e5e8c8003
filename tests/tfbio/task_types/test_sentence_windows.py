"""Windows of sentences: no word is lost. (Of all corpora: see test_every_task.py.)"""

import numpy as np

from tfbio.task_types.sentence_windows import windows


def test_windows_own_every_word_once_and_overlap():
    rng = np.random.default_rng(0)
    for _ in range(300):
        room = int(rng.integers(4, 60))
        counts = rng.integers(1, min(room, 9) + 1, rng.integers(1, 200))
        divided = windows(counts, room)
        if counts.sum() <= room:
            assert divided == [(0, len(counts), 0, len(counts))]
        owned = [word for w in divided for word in range(w.own, w.own_end)]
        assert owned == list(range(len(counts)))
        for window in divided:
            assert window.first <= window.own < window.own_end <= window.end
            assert counts[window.first : window.end].sum() <= room
        for one, other in zip(divided, divided[1:], strict=False):
            assert one.first < other.first <= one.end < other.end


def test_a_word_is_owned_where_it_has_more_around_it():
    divided = windows([1] * 20, 8)
    assert divided[0] == (0, 8, 0, 7)  # words 6 and 7 are in both windows
    assert divided[1][:3] == (6, 14, 7)
