import pytest

from data_prep.corpora import relation_entities


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0, 2), (3, 5), "@A$-@B$ef"),
        ((0, 3), (3, 5), "@A$@B$ef"),  # next to each other
        ((0, 4), (3, 5), "@A-B$ef"),
        ((0, 7), (3, 5), "@A-B$"),  # one within the other
        ((3, 5), (3, 5), "ab-@A-B$ef"),
    ],
)
def test_masks(first, second, expected):
    assert relation_entities.mask("ab-cdef", (*first, "@A$"), (*second, "@B$"), "@A-B$") == expected
