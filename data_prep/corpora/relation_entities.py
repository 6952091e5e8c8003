"""Shows the two entities of a relation in its text: as dummies, or between markers."""

from __future__ import annotations

from absl import flags

from tfbio.formats import relations


def mask(
    text: str,
    first: tuple[int, int, str],
    second: tuple[int, int, str],
    overlap: str,
    entities: str = "dummy",
) -> str:
    """Returns the text with two mentions as dummies, or as one where they overlap, or with markers.

    Args:
      text: the sentence.
      first: the mention that starts first: (start, end, dummy).
      second: the other mention.
      overlap: the dummy for both together.
      entities: "dummy", or "marker" for markers about both, `[S1] aspirin [E1]`, instead.
    """
    if entities == "marker":
        return relations.mark(text, first[:2], second[:2])
    (start, end, dummy), (second_start, second_end, second_dummy) = first, second
    if end > second_start:
        return text[:start] + overlap + text[max(end, second_end) :]
    return text[:start] + dummy + text[end:second_start] + second_dummy + text[second_end:]


def define_flag() -> None:
    """Defines `--entities`, "dummy" or "marker", in absl's `flags.FLAGS`; returns nothing."""
    flags.DEFINE_enum(
        "entities",
        "dummy",
        ["dummy", "marker"],
        "BLURB's dummies, @GENE$; or the text with markers, [S1] p53 [E1], which fine-tuning can "
        "also leave out.",
    )
