"""Decides which articles are held out of pretraining, from their ids alone."""

from __future__ import annotations

import hashlib


def is_held_out(article: str, fraction: float) -> bool:
    """Returns True if an article is held out of pretraining, which depends on its id alone.

    Pretraining's held-out text and the test articles of tasks made from the same documents are
    chosen by this one rule, so that no model is pretrained on the text that it is tested on.

    Args:
      article: the id of an article, such as "pmid:123".
      fraction: the share of articles to hold out, 0 to 1.
    """
    return hash_fraction(f"held-out {article}") < fraction


def hash_fraction(text: str) -> float:
    """Hashes a text to a float in [0, 1), so that a share of texts can be held out on any machine.

    It is the first 48 bits of the SHA-256 of the text in UTF-8, divided by 2**48.
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48
