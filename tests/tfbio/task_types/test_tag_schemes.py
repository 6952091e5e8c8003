"""Entities from tags, worked by hand. (Schemes of tagging: see test_tagging.py.)"""

from tfbio.task_types import tag_schemes


def test_entities_of_a_sentence():
    tags = ["I-a", "I-a", "O", "B-a", "I-b", "B-b", "I-b"]
    assert tag_schemes.entities(tags) == {("a", 0, 1), ("a", 3, 3), ("b", 4, 4), ("b", 5, 6)}
    assert tag_schemes.entities(tags, strict=True) == {("a", 3, 3), ("b", 5, 6)}
    assert tag_schemes.entities(("B", "I", "B")) == {("_", 0, 1), ("_", 2, 2)}
    assert tag_schemes.entities([]) == set()
