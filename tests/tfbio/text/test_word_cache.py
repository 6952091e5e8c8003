import random
import threading

import numpy as np
import pytest

from tfbio.text import word_cache

MARKS = ".,()"


def ids_of(word):
    """The numbers of a word's characters; of a space none."""
    return [ord(character) for character in word if character != " "]


def expected(texts):
    return [ids_of(text) for text in texts]


def encode(table, texts):
    ids, offsets = table([text.encode() for text in texts])
    assert ids.dtype == np.int32 and offsets.dtype == np.int64
    assert offsets[0] == 0 and offsets[-1] == len(ids)
    return [ids[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]


def test_words_are_what_stands_between_spaces_and_marks():
    asked = []

    def ask(word):
        asked.append(word)
        return ids_of(word)

    table = word_cache.WordCache(ask, MARKS)
    texts = ["", "a bc (d.e), ", " a", "a", "  ", "a bc"]
    assert encode(table, texts) == expected(texts)
    # Each once, with the space before it.
    assert asked == ["a", " bc", " ", "(", "d", ".", "e", ")", ",", " a"]
    assert encode(table, []) == []
    plain = word_cache.WordCache(ask, is_plain=lambda text: "  " not in text)
    asked.clear()
    assert encode(plain, ["a  b", "a b"]) == expected(["a  b", "a b"])
    assert asked == ["a  b", "a", " b"]


def test_words_that_do_not_fit_a_place():
    """Too long, too many ids, characters of several bytes, and words that differ in a zero."""
    short, many = "b" * 7, "c" * 8
    texts = [f"{short} {many} {'d' * 31} {'d' * 32}", "x\0 x \0x x\0\0", "é\u4e2d\U0001f600 é"]
    table = word_cache.WordCache(ids_of, MARKS)
    for _ in range(3):
        assert encode(table, texts) == expected(texts)


def test_a_full_table_goes_on_asking(monkeypatch):
    monkeypatch.setattr(word_cache, "_MOST_WORDS", 50)
    rng = random.Random(0)
    texts = [" ".join(str(rng.randrange(300)) for _ in range(20)) for _ in range(100)]
    table = word_cache.WordCache(ids_of, MARKS)
    for _ in range(2):
        assert encode(table, texts) == expected(texts)


def test_words_of_one_place_are_kept_apart():
    """So many that thousands meet at the same place."""
    texts = [" ".join(map(str, range(n, n + 1000))) for n in range(0, 100_000, 1000)]
    table = word_cache.WordCache(ids_of, MARKS)
    for _ in range(2):
        assert encode(table, texts) == expected(texts)


@pytest.mark.parametrize("ids_a_byte", [3, 40])
def test_more_ids_than_bytes(ids_a_byte):
    table = word_cache.WordCache(lambda word: list(range(ids_a_byte)))
    for _ in range(2):
        assert (
            encode(table, ["a b", "c"] * 50) == [list(range(ids_a_byte)) * n for n in (2, 1)] * 50
        )


def test_threads_share_a_table():
    table = word_cache.WordCache(ids_of, MARKS)
    texts = [" ".join(map(str, range(n, n + 50))) for n in range(2000)]
    wrong = []

    def work(seed):
        mine = random.Random(seed).sample(texts, len(texts))
        if encode(table, mine) != expected(mine):
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
