"""Errors as a line for a user."""

import pytest

from tfbio.base import messages


@pytest.mark.parametrize(
    ("message", "line"),
    [("\n it ended\nat 0x1", "it ended"), ("", "ValueError"), ("\n", "ValueError")],
)
def test_an_error_without_a_message_gives_its_class(message, line):
    assert messages.first_line(ValueError(message)) == line
