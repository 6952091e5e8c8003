"""One input gives one result, a list a list, and a generator a generator, in batches."""

import pandas
import pytest

from tfbio.api import streams
from tfbio.base.errors import UserError
from tfbio.formats.annotated_documents import Document


def lengths(items):
    return [len(streams.text_of(x)) for x in items]


def test_a_list_gives_a_list_and_one_text_one_result():
    assert streams.each("abc", lengths, 2, False) == 3
    assert streams.each(Document("1", "ab", ()), lengths, 2, False) == 2
    assert streams.each(["a", "", "abc"], lengths, 2, False) == [1, 0, 3]
    assert streams.each([], lengths, 2, False) == []


def test_a_generator_is_read_a_batch_at_a_time():
    read, sizes = [], []

    def texts():
        for number in range(1_000_000_000):
            read.append(number)
            yield "a" * number

    def compute(items):
        sizes.append(len(items))
        return lengths(items)

    found = streams.each(texts(), compute, 3, False)
    assert read == []
    assert next(found) == 0 and len(read) == 3
    assert [next(found) for _ in range(3)] == [1, 2, 3] and len(read) == 6
    assert sizes == [3, 3]


def test_progress_is_shown_only_where_it_is_asked_for(capfd):
    streams.each(["a"] * 5, lengths, 2, False)
    assert capfd.readouterr() == ("", "")
    streams.each(["a"] * 5, lengths, 2, True)
    out, error = capfd.readouterr()
    assert out == "" and "5/5" in error


@pytest.mark.parametrize("wrong", [None, 3, float("nan"), b"text"])
def test_what_is_no_text_is_refused(wrong):
    with pytest.raises(TypeError, match="expected a text, (or several in a list|not)"):
        streams.each(wrong, lengths, 2, False)
    with pytest.raises(TypeError, match=f"expected a text, not {type(wrong).__name__} "):
        streams.each(["a", wrong], lengths, 2, False)


def test_columns_go_in_one_by_one():
    frame = pandas.DataFrame({"text": ["a", "abc"]})
    assert streams.each(frame["text"], lengths, 2, False) == [1, 3]
    with pytest.raises(TypeError, match="in a list or a column"):
        streams.each(frame, lengths, 2, False)
    # As a line of JSON is, whose keys are no texts.
    with pytest.raises(TypeError, match="in a list or a column, not dict"):
        streams.each({"id": "1", "text": "abc"}, lengths, 2, False)


def test_half_a_character_and_no_batch_are_refused():
    with pytest.raises(UserError, match="character 1 of str .* is a lone surrogate"):
        streams.each("a\ud800b", lengths, 2, False)
    with pytest.raises(UserError, match="batch_size=0"):
        streams.each(["a"], lengths, 0, False)
