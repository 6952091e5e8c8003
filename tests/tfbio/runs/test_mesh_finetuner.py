"""Fine-tuning on a mesh of devices against the same steps undivided, in a process of four."""

import json
import sys
from pathlib import Path

import pytest

from tests import forked, task_types

ROOT = Path(__file__).resolve().parents[3]
# Heads with loops, which DTensor does not divide; `finetuning_checks` refuses them.
REFUSED = {"tagging_crf", "tagging_lstm", "text_lstm", "question_answering_electra"}
COMPUTED = [name for name in task_types.TASK_TYPES if name not in REFUSED]


@pytest.fixture(scope="module")
def differences(vocab_file):
    """Returns what tests/mesh_finetuning.py prints."""
    command = [sys.executable, "tests/mesh_finetuning.py", "2x2", str(vocab_file), *COMPUTED]
    done = forked.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPUTED)
def test_losses_outputs_and_weights_equal_the_undivided_ones(name, differences):
    loss, outputs, weights = differences[name]
    assert loss < 1e-6
    # Three steps at a rate of 3e-3 turn the last bits of a gradient into these.
    assert outputs < 1e-5
    assert weights < 2e-6
