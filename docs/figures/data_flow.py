"""Draws docs/figures/data_flow.svg, the data flow in README.md.

    python docs/figures/data_flow.py              # the SVG
    python docs/figures/data_flow.py flow.png     # another form, to look at

The colours keep their contrast on light and on dark pages, and the background stays transparent.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
# Text becomes outlines, which look the same without our fonts; the salt gives the same file again.
matplotlib.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "tfbio"})

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.patches import FancyBboxPatch  # noqa: E402

DATA, STAGE, ARROW = "#2f6f9f", "#3f7f4f", "#8a8a8a"
WIDTH, HEIGHT, ACROSS, DOWN = 1.85, 0.72, 0.5, 0.42  # inches
MARGIN = 0.05

# Name: (column, row, title, command or files, colour).
BOXES = {
    "xml": (0, 1, "PubMed, PMC", "XML", DATA),
    "documents": (1, 1, "Documents", "data_prep.documents", STAGE),
    "vocabulary": (2, 0, "Vocabulary", "data_prep.vocabulary", STAGE),
    "examples": (2, 1, "Examples", "data_prep.examples", STAGE),
    "pretraining": (3, 1, "Pretraining", "run_pretraining.py", STAGE),
    "tasks": (4, 2, "Task files", "data_prep.corpora", DATA),
    "finetuning": (4, 1, "Fine-tuning", "run_finetuning.py", STAGE),
    "scores": (5, 0, "Scores", "tfbio.report", DATA),
    "annotations": (5, 1, "Annotations", "--mode=predict", DATA),
    "exports": (5, 2, "Exports", "tfbio.convert", DATA),
}
ARROWS = [
    ("xml", "documents"),
    ("documents", "vocabulary"),
    ("documents", "examples"),
    ("vocabulary", "examples"),
    ("examples", "pretraining"),
    ("pretraining", "finetuning"),
    ("tasks", "finetuning"),
    ("finetuning", "scores"),
    ("finetuning", "annotations"),
    ("finetuning", "exports"),
]


def center(name: str) -> tuple[float, float]:
    column, row = BOXES[name][:2]
    return column * (WIDTH + ACROSS), -row * (HEIGHT + DOWN)


def draw(path: Path) -> None:
    (right, _), (_, bottom) = center("scores"), center("exports")
    across, down = WIDTH / 2 + MARGIN, HEIGHT / 2 + MARGIN
    left, right, bottom, top = -across, right + across, bottom - down, down
    figure = plt.figure(figsize=(right - left, top - bottom))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(left, right), ylim=(bottom, top))
    for one, other in ARROWS:
        (x, y), (to_x, to_y) = center(one), center(other)
        if x == to_x:
            step = HEIGHT / 2 if to_y > y else -HEIGHT / 2
            start, end = (x, y + step), (to_x, to_y - step)
        else:
            start, end = (x + WIDTH / 2, y), (to_x - WIDTH / 2, to_y)
        axes.annotate(
            "",
            xy=end,
            xytext=start,
            arrowprops={"arrowstyle": "-|>", "color": ARROW, "lw": 1.8, "shrinkA": 2, "shrinkB": 2},
        )
    for name, (_, _, title, below, color) in BOXES.items():
        x, y = center(name)
        axes.add_patch(
            FancyBboxPatch(
                (x - WIDTH / 2, y - HEIGHT / 2),
                WIDTH,
                HEIGHT,
                boxstyle="round,pad=0,rounding_size=0.1",
                facecolor=color,
                edgecolor="none",
            )
        )
        style = {"ha": "center", "va": "center", "color": "white"}
        axes.text(x, y + 0.14, title, fontsize=12, fontweight="bold", family="sans-serif", **style)
        axes.text(x, y - 0.16, below, fontsize=9, family="monospace", **style)
    axes.set_axis_off()
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, transparent=True, metadata=metadata)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".svg"))
