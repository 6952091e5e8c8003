r"""Divides abstracts into sentences and words as the published files of tagged words have them.

BLURB takes BC5CDR, NCBI-disease and BC2GM from MTL-Bioinformatics-2016 (Crichton et al., 2017),
whose makers used standoff2conll (<https://github.com/spyysalo/standoff2conll>, modules `ssplit.py`,
`sspostproc.py`, `common.py` and `standoff.py`). The rules here give the same words, sentences and
tags. They are kept apart from tfbio's own sentence splitters, which make fewer errors: "St.
Anthony's fire" is two sentences here, and so two mentions of BC5CDR's development set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from data_prep.corpora import corpus_splits

# A run of letters and digits, or one other character.
_WORD = re.compile(r"[^\W_]+|\S")
# It ends after a run of marks before white space, at a line's end or at the text's.
_SENTENCE = re.compile(r"\S.*?(?:[.!?]+(?=\s)|(?=\n)|(?=\s*\Z))", re.DOTALL)

# Line feeds stand at the ends of sentences. Each rule takes one away, between its two groups.
_MARKS_ALONE = re.compile(r"()\n([.!?]+)(?=\n)")
_NO_BRACKETS, _NO_ROUND, _NO_SQUARE = r"[^\[\]()]*", r"[^()]{0,250}", r"[^\[\]]{0,250}"
_ROUND = r"(?:[^()]|\([^()]*\)){0,250}"
_SQUARE = r"(?:[^\[\]]|\[[^\[\]]*\]){0,250}"
_IN_BRACKETS = [
    re.compile(rf"(\{opening}{content})\n({content}\{closing})")
    for contents in ((_NO_BRACKETS, _NO_BRACKETS), (_NO_ROUND, _NO_SQUARE), (_ROUND, _SQUARE))
    for (opening, closing), content in zip((("(", ")"), ("[", "]")), contents, strict=True)
]
_PREPOSITIONS = (
    "of|in|by|as|on|at|to|via|for|with|that|than|from|into|upon|after|while|during|within|through|"
    "between|whereas|whether"
)
_ABBREVIATIONS = r"e\. ?g\.|i\. ?e\.|i\. ?v\.|vs\.|cf\.|Dr\.|Mr\.|Ms\.|Mrs\."
_NO_END = [
    re.compile(rule)
    for rule in (
        r"(\.)\n([a-z]{3}[a-z-]*[ .:,;])",  # before a word in lower case
        r"(\b[A-Z]\.)\n([a-z]{3,}\b)",  # "S. cerevisiae"
        r"(\b(?:[A-Z]\.|[A-Z][a-z]{3,}) [A-Z]\.)\n([A-Z][a-z]{3,}\b)",  # "Anton P. Chekhov"
        r"()\n((?:and|or|but|nor|yet) )",
        rf"()\n((?:{_PREPOSITIONS}) )",
        r"(\be\.)\n(g\.)",
        r"(\bi\.)\n(e\.)",
        r"(\bi\.)\n(v\.)",
        rf"(\b(?:{_ABBREVIATIONS}))\n()",
        r"(\b(?:[Aa]pprox\.|[Nn]o\.))\n(\d+)",
    )
]


def _breaks(text: str) -> set[int]:
    """Returns the offsets of the white space that ends a sentence; a line feed always does."""
    ends = {match.end() for match in _SENTENCE.finditer(text)}
    marked = "".join(
        ("\n" if place in ends else " ") if character.isspace() else character
        for place, character in enumerate(text)
    )
    marked = _MARKS_ALONE.sub(r"\1 \2", marked)
    for rule in _IN_BRACKETS:
        # Each time it takes away one line feed of a pair of brackets.
        before = ""
        while before != marked:
            before, marked = marked, rule.sub(r"\1 \2", marked)
    for rule in _NO_END:
        marked = rule.sub(r"\1 \2", marked)
    pairs = zip(marked, text, strict=True)
    return {place for place, pair in enumerate(pairs) if "\n" in pair}


def _shorter(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    """Returns the mention that gives way where two overlap: the shorter one, or the later one."""
    return max(first, second, key=lambda mention: (mention[0] - mention[1], mention[0]))


def without_overlaps(mentions: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leaves out of mentions that overlap the shorter ones, and of equal ones all but one.

    Args:
      mentions: the characters `(start, end)` of each mention, in the order of the release, which
        decides where three overlap.

    Returns:
      A list of the mentions that remain, in the same order.
    """
    each = [*dict.fromkeys(mentions)]
    left: set[tuple[int, int]] = set()
    for one in each:
        for other in each:
            apart = one == other or other[0] >= one[1] or other[1] <= one[0]
            if not apart and one not in left and other not in left:
                left.add(_shorter(one, other))
    return [mention for mention in each if mention not in left]


def tagged(
    text: str, mentions: Iterable[tuple], id_: str, path: str, left: corpus_splits.LeftOut
) -> list[tuple[str, ...]]:
    """Returns an abstract's words with their tags, as the published files have them.

    Of mentions that overlap the longest is kept. A mention that begins or ends within a word has
    the whole word, and of mentions that share their first word the first has it.

    Args:
      text: title and abstract, with a line feed between, or one sentence.
      mentions: the characters `(start, end)` of each mention, or `(start, end, type)`.
      id_: the abstract's id, for `left`.
      path: the path of its file, for `left`.
      left: a list that gets `("id_.start-end", path, reason)`, all str, for each mention that no
        tag begins: it overlaps a longer one, or one of another type ("overlaps"), or an earlier
        mention has its word ("shares_a_word").

    Returns:
      The lines of a file of tagged words, tuples of str: `(word, tag)` with the tag "B", "I" or
      "O", "B-TYPE" or "I-TYPE" where types are given, and `("",)` for the empty line behind each
      sentence.
    """
    types: dict[tuple[int, int], tuple[str, ...]] = {}
    overlapping = []
    for start, end, *entity_type in mentions:
        if types.setdefault((start, end), tuple(entity_type)) != tuple(entity_type):
            overlapping.append((start, end))
    kept = without_overlaps(types)
    overlapping += sorted(set(types) - set(kept))
    rows, begun = _tagged(text, [(*place, *types[place]) for place in kept])
    sharing = sorted(set(kept) - begun)
    for reason, places in (("overlaps", overlapping), ("shares_a_word", sharing)):
        left += [(f"{id_}.{start}-{end}", path, reason) for start, end in places]
    return rows


def _tagged(
    text: str, mentions: Sequence[tuple]
) -> tuple[list[tuple[str, ...]], set[tuple[int, int]]]:
    """Returns the lines, and the places of the mentions whose beginning a tag shows."""
    owners = {place: mention for mention in mentions for place in range(*mention[:2])}
    breaks = _breaks(text)
    rows: list[tuple[str, ...]] = []
    begun: set[tuple[int, int]] = set()
    end, before = 0, None
    for match in _WORD.finditer(text):
        if rows and any(place in breaks for place in range(end, match.start())):
            rows.append(("",))
            before = None
        owner = next((owners[place] for place in range(*match.span()) if place in owners), None)
        tag = "O"
        if owner is not None:
            same_type = before is not None and before[2:] == owner[2:]
            is_inside = same_type and owner[0] < match.start()
            tag = "-".join(("I" if is_inside else "B", *owner[2:]))
            if not is_inside:
                begun.add(owner[:2])
        rows.append((match[0], tag))
        end, before = match.end(), owner
    return [*rows, ("",)] if rows else [], begun
