"""Checks every module of `tfbio` and `data_prep` by its text and its syntax tree."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(path for room in ("tfbio", "data_prep") for path in (ROOT / room).rglob("*.py"))
MOST_LINES = 400
# What one module does for all others.
ONLY_IN = {
    "signal": "tfbio/base/signals.py",
    "CheckpointManager": "tfbio/training/checkpointing.py",
    "create_file_writer": "tfbio/training/summaries.py",
    "GradientTape": "tfbio/training/gradients.py",
}


def mistakes(path: str, text: str) -> Iterator[str]:
    """Yields what is wrong with a module.

    Args:
      path: of the module, from the root of the repository.
      text: its source.
    """
    if (lines := text.count("\n")) > MOST_LINES:
        yield f"{path} has {lines} lines, more than {MOST_LINES}: split it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Nonlocal):
            yield f"{path}:{node.lineno} has nonlocal: a class holds what changes"
        if not isinstance(node, ast.Attribute) or path == ONLY_IN.get(node.attr):
            continue
        if node.attr == "signal" and ast.unparse(node) != "signal.signal":
            continue
        # Layers that compute their gradients themselves have tapes of their own.
        if node.attr == "GradientTape" and path.startswith("tfbio/models/"):
            continue
        if node.attr in ONLY_IN:
            yield f"{path}:{node.lineno} has {node.attr}, which {ONLY_IN[node.attr]} has for all"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_keeps_to_them(path):
    assert not list(mistakes(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "planted, words",
    [
        ("\n" * 401, "has 401 lines"),
        ("def f():\n    n = 0\n\n    def g():\n        nonlocal n\n", "x.py:5 has nonlocal"),
        ("import signal\nsignal.signal(2, print)\n", "x.py:2 has signal, which"),
        ("import tensorflow as tf\nwith tf.GradientTape() as tape:\n    pass\n", "GradientTape"),
        ("tf.train.CheckpointManager(None, '', 1)\n", "which tfbio/training/checkpointing.py has"),
        ("make = tf.summary.create_file_writer\n", "which tfbio/training/summaries.py has"),
    ],
)
def test_a_mistake_is_found(planted, words):
    (said,) = mistakes("tfbio/runs/x.py", planted)
    assert words in said
