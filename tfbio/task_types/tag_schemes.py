"""Tags of words as entities, and in other schemes: BIO, IO and BIOUL."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfbio.task_types.scores import ScoreError


def entities(tags: Sequence[str], strict: bool = False) -> set[tuple[str, int, int]]:
    """The entities of one sentence.

    An I that continues no entity of its type starts one, which is the rule of `conlleval` (the
    script of CoNLL-2000 and 2003) and seqeval's default. The corpora have no such I; models predict
    it. ELECTRA's scorer does the same for a single type; with several it does not part an I-y from
    the B-x before it.

    Args:
      tags: O, B, I, B-TYPE or I-TYPE for each word.
      strict: leave out what does not start with B, which is seqeval's strict mode with IOB2.

    Returns:
      (type, first word, last word) of each; the type of a bare tag is "_", as in seqeval.

    Raises:
      ScoreError: a tag is not of the BIO scheme.
    """
    for tag in dict.fromkeys(tags):
        if not re.fullmatch(r"O|[BI](-.+)?", tag):
            raise ScoreError(f"{tag!r} is no BIO tag: expected O, B, I, B-TYPE or I-TYPE.")
    found, start = set(), 0
    # By hand: seqeval's two modes are two implementations, each several times slower.
    for word, (before, tag) in enumerate(zip(("O", *tags), (*tags, "O"), strict=True)):
        if tag[0] == "I" and before != "O" and before[1:] == tag[1:]:
            continue
        if before != "O" and (tags[start][0] == "B" or not strict):
            found.add((before[2:] or "_", start, word - 1))
        start = word
    return found


def in_scheme(tags: Sequence[str], scheme: str) -> list[str]:
    """BIO tags in another scheme."""
    if scheme == "IO":
        return [tag if tag == "O" else f"I{tag[1:]}" for tag in tags]
    if scheme == "BIOUL":
        # What ends here: a B is U then, an I is L.
        return [
            tag if tag == "O" or after == f"I{tag[1:]}" else {"B": "U", "I": "L"}[tag[0]] + tag[1:]
            for tag, after in zip(tags, (*tags[1:], "O"), strict=True)
        ]
    return list(tags)


def in_bio(tags: Sequence[str], scheme: str) -> list[str]:
    """Tags of a scheme in BIO, whether they are valid or not.

    BIOUL is turned tag by tag, U into B and L into I, and the score's rule for an I that continues
    nothing holds for those also. In IO an entity begins where its type does.
    """
    if scheme == "IO":
        pairs = zip(tags, ("O", *tags), strict=False)
        return [tag if tag in ("O", before) else f"B{tag[1:]}" for tag, before in pairs]
    if scheme == "BIOUL":
        return [{"U": "B", "L": "I"}.get(tag[0], tag[0]) + tag[1:] for tag in tags]
    return list(tags)
