"""Shows the two entities of a relation in its text: as dummies, or between markers."""

from __future__ import annotations

from tfbio.formats import relations


def mask(
    text: str,
    first: tuple[int, int, str],
    second: tuple[int, int, str],
    overlap: str,
    entities: str = "dummy",
) -> str:
    """Shows the two entities of a corpus's relation as dummies, `@GENE$`, or between markers.

    Where the two overlap, one dummy stands for both, and markers may stand in each other.

    Args:
      text: the sentence.
      first: the entity that begins first: `(start, end, dummy)`, its first character, the one
        behind its last, and its dummy.
      second: the other entity.
      overlap: the dummy for both together, such as "@CHEM-GENE$".
      entities: "dummy", or "marker" for markers about both, `[S1] aspirin [E1]`, instead.

    Returns:
      The sentence, a str that shows them so.
    """
    if entities == "marker":
        return relations.mark(text, first[:2], second[:2])
    (start, end, dummy), (second_start, second_end, second_dummy) = first, second
    if end > second_start:
        return text[:start] + overlap + text[max(end, second_end) :]
    return text[:start] + dummy + text[end:second_start] + second_dummy + text[second_end:]
