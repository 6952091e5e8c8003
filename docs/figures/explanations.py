"""Draws the figures of docs/masking.md, packing.md and replaced_token_detection.md.

    python docs/figures/explanations.py              # the SVGs, beside this file
    python docs/figures/explanations.py /tmp png     # in another folder and form, to look at

The masks are those that tfbio draws. As in data_flow.py, the colours keep their contrast on light
and on dark pages.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
matplotlib.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "tfbio"})

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from matplotlib.patches import FancyBboxPatch  # noqa: E402

from tfbio.objectives import masking  # noqa: E402

TOKEN, MASKED, SECOND, THIRD, PADDING = "#2f6f9f", "#b3541e", "#3f7f4f", "#7d5ba6", "#8a8a8a"
LABEL = "#808080"  # beside the boxes, on the page itself

WORDS = ["im", "##atin", "##ib", "inhibits", "bcr", "-", "abl", "in", "leuk", "##aemia"]
SENTENCE = ["[CLS]", *WORDS, "[SEP]"]


class Drawing:
    """A figure whose places are in inches."""

    def __init__(self, width: float, height: float):
        self.figure = plt.figure(figsize=(width, height))
        self.axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()

    def box(self, x, y, text, color, *, width=0.86, height=0.36, size=11):
        """Draws a box with its left upper corner at (x, y), and white text in its middle."""
        self.axes.add_patch(
            FancyBboxPatch(
                (x + 0.02, y + 0.02),
                width - 0.04,
                height - 0.04,
                boxstyle="round,pad=0,rounding_size=0.05",
                facecolor=color,
                edgecolor="none",
            )
        )
        self.axes.text(
            x + width / 2, y + height / 2, text, color="white", size=size, ha="center", va="center"
        )

    def label(self, x, y, text, *, ha="left", size=11):
        """Writes on the page itself."""
        self.axes.text(x, y, text, color=LABEL, size=size, ha=ha, va="center", weight="bold")

    def arrow(self, start, end):
        """Draws an arrow."""
        style = {"arrowstyle": "-|>", "color": PADDING, "lw": 1.8, "shrinkA": 2, "shrinkB": 2}
        self.axes.annotate("", xy=end, xytext=start, arrowprops=style)

    def save(self, path: Path):
        """Writes the file."""
        metadata = {"Date": None} if path.suffix == ".svg" else None
        self.figure.savefig(path, transparent=True, metadata=metadata)
        plt.close(self.figure)


def masked(unit: str, step: int) -> set[int]:
    """Returns the positions of `SENTENCE` that a step masks, 30 % of its tokens."""
    chosen = masking.Masking(
        mask_id=len(SENTENCE),
        special_ids=[0, len(SENTENCE) - 1],
        mask_token_prob=1.0,
        unit=unit,
        begins_word=np.array([not token.startswith("##") for token in [*SENTENCE, "[MASK]"]]),
    )
    batch = masking.mask_tokens(
        tf.range(len(SENTENCE))[tf.newaxis],
        tf.ones([1, len(SENTENCE)], tf.int32),
        chosen,
        limit=4,
        mask_prob=0.3,
        seed=tf.constant([0, step]),
    )
    return {
        int(x) for x, weight in zip(batch.positions[0], batch.weights[0], strict=True) if weight
    }


def draw_masking() -> Drawing:
    """Draws one sentence as two steps and other units mask it."""
    rows = [("token", 1), ("token", 2), ("word", 1), ("span", 2), ("ngram", 3)]
    drawing = Drawing(12.0, 0.5 * len(rows))
    for number, (unit, step) in enumerate(rows):
        y = 0.5 * number + 0.07
        drawing.label(0.05, y + 0.18, f"{unit}, step {step}")
        hidden = masked(unit, step)
        for place, token in enumerate(SENTENCE):
            text, color = ("[MASK]", MASKED) if place in hidden else (token, TOKEN)
            drawing.box(1.6 + 0.86 * place, y, text, color)
    return drawing


TEXTS = [("A", 7, TOKEN), ("B", 3, SECOND), ("C", 5, THIRD)]


def draw_packing() -> Drawing:
    """Draws three texts padded, and packed with the tokens that see each other."""
    cell, small = 0.41, 0.25
    drawing = Drawing(12.0, 4.3)
    drawing.label(0.05, 0.2, "padded: a row for each text")
    for row, (name, tokens, color) in enumerate(TEXTS):
        for place in range(8):
            text, shade = (f"{name}{place}", color) if place < tokens else ("", PADDING)
            x, y = 0.05 + cell * place, 0.4 + cell * row
            drawing.box(x, y, text, shade, width=cell, height=cell, size=9)
    drawing.label(0.05, 2.2, "packed: one row, positions begin anew")
    packed = [(f"{name}{i}", color) for name, tokens, color in TEXTS for i in range(tokens)]
    left, top = 6.6, 0.4
    drawing.label(left, 0.2, "packed: which token (row) sees which (column)")
    for i, (name, color) in enumerate(packed):
        drawing.box(0.05 + cell * i, 2.4, name, color, width=cell, height=cell, size=9)
        for j, (other, _) in enumerate(packed):
            if name[0] == other[0]:
                place = (left + small * j, top + small * i)
                drawing.box(*place, "", color, width=small, height=small)
    edge = small * len(packed)
    drawing.axes.plot(
        [left, left + edge, left + edge, left, left],
        [top, top, top + edge, top + edge, top],
        color=PADDING,
        lw=1,
    )
    return drawing


def draw_replaced_token_detection() -> Drawing:
    """Draws ELECTRA's two models and what goes through them."""
    drawing = Drawing(12.0, 4.2)
    text = ["imatinib", "inhibits", "the", "kinase"]
    seen = ["imatinib", "[MASK]", "the", "[MASK]"]
    filled = ["imatinib", "activates", "the", "kinase"]
    found = ["original", "replaced", "original", "original"]
    columns = [("text", 0.05, text), ("masked", 2.2, seen), ("filled in", 6.1, filled)]
    for title, x, tokens in [*columns, ("labels", 10.4, found)]:
        drawing.label(x + 0.75, 0.25, title, ha="center")
        for row, token in enumerate(tokens):
            changed = token in ("[MASK]", "activates", "replaced")
            place = (x, 0.55 + 0.6 * row)
            drawing.box(*place, token, MASKED if changed else TOKEN, width=1.5, height=0.5)
    for x, name, note in (
        (4.0, "generator", "small; dropped later"),
        (8.1, "discriminator", "kept"),
    ):
        drawing.box(x, 0.55, name, SECOND, width=1.8, height=2.3, size=13)
        drawing.label(x + 0.9, 3.1, note, ha="center", size=10)
    for start, end in ((1.55, 2.2), (3.7, 4.0), (5.8, 6.1), (7.6, 8.1), (9.9, 10.4)):
        drawing.arrow((start, 1.7), (end, 1.7))
    drawing.label(4.9, 3.65, "loss: which token stood here?", ha="center", size=10)
    drawing.label(4.9, 3.95, "at the masked positions", ha="center", size=10)
    drawing.label(9.0, 3.65, "loss: replaced or original?", ha="center", size=10)
    drawing.label(9.0, 3.95, "at every position", ha="center", size=10)
    return drawing


def main(folder: Path, form: str) -> None:
    """Writes the figures."""
    draw_masking().save(folder / f"masking.{form}")
    draw_packing().save(folder / f"packing.{form}")
    draw_replaced_token_detection().save(folder / f"replaced_token_detection.{form}")


if __name__ == "__main__":
    main(*([Path(sys.argv[1]), sys.argv[2]] if sys.argv[2:] else [Path(__file__).parent, "svg"]))
