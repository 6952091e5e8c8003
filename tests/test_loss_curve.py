"""`benchmarks.loss_curve`: a tiny run of tfbio against itself in bfloat16."""

import re
import subprocess
import sys
from pathlib import Path

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
