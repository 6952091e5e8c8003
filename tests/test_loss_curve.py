"""`benchmarks.loss_curve`: a tiny run of tfbio against itself in bfloat16."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks import loss_curve
from tests.test_startup import TINY

ROOT = Path(__file__).resolve().parents[1]
STEPS = 24


def test_the_losses_of_both_formats_are_a_table(examples_folder):
    """At first they are the same but for rounding; the two formats are not one."""
    command = [sys.executable, "-m", "benchmarks.loss_curve", f"--examples={examples_folder}"]
    command += ["--against=bfloat16", f"--steps={STEPS}", "--batch_size=2", "--seeds=1", *TINY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    header, _, *rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    for name in ("tfbio_float32", "tfbio_bfloat16", "difference"):
        assert f"generator_loss, {name}" in header and f"discriminator_loss, {name}" in header
    cells = [[x.strip() for x in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == [f"{n} to {n + 1}" for n in range(1, STEPS, 2)] + ["all"]
    for _, *values in cells:
        for one, other, difference in (map(float, values[:3]), map(float, values[3:])):
            assert 0 < one < 12 and abs(one - other) < 0.05
            assert abs(one - other - difference) < 2e-4
    assert any(float(row[3]) or float(row[6]) for row in cells)
    assert re.search(r"generator_loss is [+-]\d\.\d\d% from tfbio_bfloat16's", done.stdout)


# Of two engines the steps and both losses of two seeds.
LOSSES = np.array([[[9, 4.0, 0.5], [9, 6.0, 0.7]], [[9, 3.0, 0.4], [9, 4.0, 0.4]]])


def test_cells_have_the_standard_error_over_the_seeds():
    """The deviation of 4 and 6 is the root of 2, and the error 1."""
    generator = ["5.0000 ± 1.0000", "3.5000 ± 0.5000", "+1.5000 ± 0.5000"]
    discriminator = ["0.6000 ± 0.1000", "0.4000 ± 0.0000", "+0.2000 ± 0.1000"]
    assert loss_curve.cells(LOSSES) == generator + discriminator
    one_seed = ["4.0000", "3.0000", "+1.0000", "0.5000", "0.4000", "+0.1000"]
    assert loss_curve.cells(LOSSES[:, :1]) == one_seed


def test_the_ratio_is_of_the_first_engine_to_the_other(capsys):
    curves = np.repeat(LOSSES[:, :, None], loss_curve.POINTS, axis=2)
    curves[:, :, :-1, 1] = 1  # earlier
    flags = argparse.Namespace(
        hparams="small.json", set=[], batch_size=2, seeds=2, against="hugging_face"
    )
    loss_curve.print_table(curves, flags, 64)
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "At the end tfbio's generator_loss is +42.86% from hugging_face's."
