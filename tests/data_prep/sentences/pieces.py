"""Measures the pieces of examples."""


def tokens_of(spans, ids):
    return [token for start, end in spans for token in ids[start : end or None]]


def size(piece):
    """Places that a piece takes, and how many of them are text."""
    text = sum(end - start for start, end in piece.first + piece.second)
    return text + (3 if piece.second else 2), text
