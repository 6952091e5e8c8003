"""The tables that benchmarks print: their figures are those by hand of made-up measurements."""

import json
from types import SimpleNamespace

import pytest

from benchmarks import data_prep, finetuning, precision, sentences
from benchmarks.child_process import Cost
from tfbio.task_types import task_table


def test_rates_of_data_preparation_are_without_the_start(capsys):
    """The start takes 10 s of each clock; then one worker does 5 a core-second, and two 4."""
    costs = {
        ("small", 1): (10, Cost(10 + 2, 10 + 2, 50)),
        ("large", 1): (110, Cost(10 + 22, 10 + 22, 300)),
        ("small", 2): (10, Cost(10 + 1.5, 10 + 2.5, 50)),
        ("large", 2): (110, Cost(10 + 11.5, 10 + 27.5, 200)),
    }
    peer = iter((2.0, 100.0, 1.0))
    data_prep.compare("Title", "texts", lambda *way: costs[way], lambda: next(peer), rounds=3)
    said = capsys.readouterr().out
    assert "| | texts per core-second, median of 3 | ratio |" in said
    for row in (
        "| peer | 2 | 1 |",
        "| tfbio, one worker | 5 | 2.50 |",
        "| tfbio, two workers | 4 | 2.00 |",
    ):
        assert row in said
    assert "Two workers are 2.00 times as fast as one by the clock." in said
    assert "with 10 core-seconds" in said and "had 300 MiB" in said


def test_finetuning_is_compared_by_the_seconds_of_an_epoch(capsys, monkeypatch):
    """An epoch of 320 examples is 20 steps, and so two turns."""
    seconds = {
        "tfbio": [10.0, 12.0, 30.0],
        "tfbio_padded": [20.0, 20.0, 20.0],
        "hugging_face": [40.0, 15.0, 60.0],
    }
    monkeypatch.setattr(finetuning, "start_engines", lambda flags: {})
    monkeypatch.setattr(finetuning, "time_turns", lambda processes: seconds)
    task = task_table.TASKS["bc5cdr_chem"]
    examples = {"train": [None] * 320}
    task = SimpleNamespace(
        name=task.name, settings=task.settings, examples=lambda data_dir: examples
    )
    finetuning.compare_speed(SimpleNamespace(data_dir=""), task)
    first, *_, tfbio, padded, hugging_face = capsys.readouterr().out.splitlines()
    assert first == "bc5cdr_chem: 320 training sentences, batches of 16."
    assert tfbio == "| tfbio | 24 | 1.00 | 1.00, 1.00, 1.00 |"
    assert padded == "| tfbio_padded | 40 | 0.60 | 0.50, 0.60, 1.50 |"
    assert hugging_face == "| hugging_face | 80 | 0.50 | 0.25, 0.80, 0.50 |"


@pytest.mark.parametrize("engine", finetuning.ENGINES)
def test_both_sides_of_finetuning_have_the_settings_of_trainer(engine):
    task = task_table.TASKS["ncbi_disease"]
    own = finetuning.settings_of(task, engine, 2.5, 7)
    assert own.adam_bias_correction and own.layerwise_lr_decay == 1 and own.weight_decay_rate == 0
    assert own.train_batch_size == 16 and own.run.precision == "float32"
    assert (own.num_train_epochs, own.seed, own.num_trials) == (2.5, 7, 1)
    assert own.run.pack == (engine != "tfbio_padded")


def test_a_splitter_that_says_too_little_has_lost_recall():
    """It finds one of two boundaries, and nothing else."""
    corpus = sentences.Corpus("made up", [["A b.", "C.", "D."]], "hand")
    result = sentences.score(corpus, lambda texts: [["A b. C.", "D."]])
    assert result == pytest.approx((1, 1 / 2, 2 / 3))


def verbose(kind, name, dtype, took, event="exec"):
    """A line of oneDNN's, of so many milliseconds."""
    return f"onednn_verbose,v1,primitive,{event},cpu,{kind},{name},src:{dtype}:a,,,8x8,{took}"


KERNELS = [
    verbose("matmul", "one", "bf16", 3.5),
    verbose("inner_product", "two", "bf16", 3.0),
    verbose("matmul", "three", "bf16", 0.8),
    verbose("matmul", "four", "bf16", 0.2),
    verbose("matmul", "one", "bf16", 2.5),
    # These are no products in bfloat16, or have not run.
    verbose("matmul", "five", "f32", 100),
    verbose("reorder", "six", "bf16", 100),
    verbose("matmul", "seven", "bf16", 100, event="create:cache_miss"),
]


def test_kernels_are_told_by_their_share_of_the_time():
    assert precision.kernels(KERNELS) == "`one` 60%, `two` 30%, `three` 8%"


@pytest.mark.parametrize(
    "measured, cells",
    [
        # The median of 2, 4 and 1.5.
        (
            {"seconds": {"float32": [2, 4, 3], "bfloat16": [1, 1, 2]}},
            "3.00 | 1.00 | 2.00 | bfloat16",
        ),
        ({"seconds": {"float32": [2, 4, 3]}}, "3.00 |  |  | bfloat16"),
        (
            {"seconds": {}, "gains": [1.5, 4.0, 1.25], "took": 0.5},
            " |  | 1.50 | bfloat16, measured in 0.50 s",
        ),
    ],
)
def test_the_ratio_of_formats_says_how_much_faster_bfloat16_is(monkeypatch, measured, cells):
    said = json.dumps({"chosen": "bfloat16, as it is faster"} | measured)
    done = SimpleNamespace(stdout="\n".join([*KERNELS[:1], said, *KERNELS[1:2]]))
    monkeypatch.setattr(precision.subprocess, "run", lambda *_, **__: done)
    row = precision.row("ALL", "small_128", 3)
    assert row == f"| ALL | small_128 | {cells} | `one` 54%, `two` 46% |"
