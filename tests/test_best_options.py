"""The search for a peer's best options, and the processes that benchmarks keep."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import best_options
from benchmarks.best_options import Tried
from benchmarks.engine_process import Engine
from tfbio.base.errors import UserError

ROOT = Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Form:
    """Options of an engine that is made up."""

    size: int = 1
    fused: bool = False


def rate(form):
    """The larger the faster up to 4, and no faster when fused, which 8 cannot be."""
    if form.size == 8:
        raise ValueError("too large|\nfor this machine")
    return form.size * (0.5 if form.fused else 1.0)


def steady(form):
    """An engine on a machine whose speed never changes; one that is too large fails later."""
    return lambda turn: rate(form)


def test_each_change_that_is_faster_is_kept():
    changes = [{"size": 2}, {"fused": True}, {"size": 2}, {"size": 8}, {"size": 4}]
    tried = list(best_options.search(Form(), changes, steady, turns=2))
    # The second {"size": 2} changes nothing.
    assert [(own.options["size"], own.options["fused"], own.rate) for own in tried] == [
        *((1, False, 1.0), (2, False, 2.0), (2, True, 1.0), (8, False, 0.0), (4, False, 4.0))
    ]
    assert tried[3].problem == "ValueError: too large|"
    assert best_options.best_of(tried) == tried[-1]
    lines = best_options.table(tried, lambda options: f"size {options['size']}", "texts/s")
    assert lines[0] == "| options | texts/s |"
    assert lines[-2:] == ["| size 8 | ValueError: too large\\| |", "| size 4 | **4.0** |"]


def test_a_machine_that_slows_down_changes_nothing():
    """It halves its speed with each engine, by more than the options differ."""
    speed = 16.0

    def slower(form):
        nonlocal speed
        speed /= 2
        return lambda turn: speed * rate(form)

    changes = [{"size": 2}, {"fused": True}, {"size": 3}]
    tried = list(best_options.search(Form(), changes, slower, turns=3))
    assert [own.rate for own in tried] == [8.0, 16.0, 8.0, 24.0]
    assert best_options.best_of(tried).options == {"size": 3, "fused": False}


def test_both_have_the_same_work_and_either_is_measured_first():
    measured = []

    def make(form):
        return lambda turn: measured.append((form.size, turn)) or form.size

    list(best_options.search(Form(), [{"size": 2}], make, turns=3))
    assert measured[3:] == [(2, 0), (1, 0), (1, 1), (2, 1), (2, 2), (1, 2)]


def test_the_first_options_need_not_work():
    tried = list(best_options.search(Form(8), [{"fused": True}, {"size": 2}], steady, turns=1))
    assert [own.rate for own in tried] == [0.0, 0.0, 2.0]
    assert [bool(own.problem) for own in tried] == [True, True, False]


def test_a_search_compiles_as_often_as_it_needs(monkeypatch):
    torch = pytest.importorskip("torch")
    # What is tested changes it for the whole process.
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 8)
    compiled = []

    def compiler(graph, inputs):
        compiled.append(graph)
        return graph.forward

    def compile_for_sizes():
        compiled.clear()
        torch._dynamo.reset()
        twice = torch.compile(lambda values: 2 * values, backend=compiler, dynamic=False)
        for size in range(2, 14):
            twice(torch.ones(size))
        return len(compiled)

    assert compile_for_sizes() == 8
    best_options.allow_recompilation()
    assert compile_for_sizes() == 12


def test_medians_and_ratios_are_those_of_the_rounds():
    assert best_options.medians([[1, 10], [3, 30], [2, 90]]) == [2, 30]
    assert best_options.ratios([3.0, 1.0], [2.0, 4.0]) == "1.50, 0.25"


@pytest.fixture
def made_up(tmp_path):
    """Starts a program as an engine."""

    def start(program):
        (tmp_path / "made_up.py").write_text(program)
        return Engine("made_up", "--x=3", root=tmp_path)

    return start


def test_an_engine_answers_until_it_ends(made_up):
    engine = made_up(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    if request == 0: sys.exit(7)\n"
        "    print(json.dumps([sys.argv[1], request * 2]), flush=True)\n"
    )
    assert [engine.ask(1), engine.ask(5)] == [["--x=3", 2], ["--x=3", 10]]
    with pytest.raises(UserError, match="an engine ended with exit code 7"):
        engine.ask(0)
    engine.end()


def test_what_a_process_has_tried_before_it_dies_counts(made_up, capsys):
    tell = 'print(\'[{"size": %d}, %s, ""]\', flush=True)\n'
    program = tell % (1, 3.5) + tell % (2, 3.0)
    tried = best_options.found_by(made_up(program), "it")
    assert tried == [Tried({"size": 1}, 3.5), Tried({"size": 2}, 3.0)]
    assert "it: {'size': 1}: 3.5 a second" in capsys.readouterr().err
    died = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    tried = best_options.found_by(made_up(program + died), "it")
    assert best_options.best_of(tried) == Tried({"size": 1}, 3.5)
    assert len(tried) == 3 and "exit code -11" in tried[2].problem
    with pytest.raises(UserError, match="it: no options work"):
        best_options.found_by(made_up("import sys\nsys.exit(1)\n"), "it")


MEMORY = """
from benchmarks.best_options import peak_memory
before = peak_memory()
taken = bytearray(300 << 20)
taken[::4096] = b"x" * len(taken[::4096])
most = peak_memory()
del taken
print(before, most, peak_memory())
"""


def test_each_engine_is_first_in_its_turn():
    names = ["a", "b", "c"]
    orders = [best_options.rotated(names, number) for number in range(4)]
    assert orders == [[*"abc"], [*"bca"], [*"cab"], [*"abc"]]


def test_memory_is_the_most_that_the_process_has_had():
    """It is that of the process alone: this one, which starts it, has as much as can be."""
    own = bytearray(1 << 30)
    own[::4096] = b"x" * len(own[::4096])
    root = Path(__file__).parents[1]
    told = subprocess.run([sys.executable, "-c", MEMORY], cwd=root, check=True, capture_output=True)
    before, most, after = map(float, told.stdout.split())
    assert 290 < most - before < 310
    assert after == pytest.approx(most, abs=1)  # Linux counts in parts, for each thread
    assert before < 500 < len(own) >> 20


ALLOCATES = """
import resource
from benchmarks import best_options
{}
page_faults = []
for _ in range(3):
    bytearray(b"x") * 80_000_000
    page_faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(page_faults[-1] - page_faults[0])
"""


def test_memory_that_is_kept_needs_no_new_pages():
    faults = [
        int(subprocess.check_output([sys.executable, "-c", ALLOCATES.format(line)], cwd=ROOT))
        for line in ("", "best_options.keep_memory()")
    ]
    # Two arrays of 80 MB: 39,000 pages of 4 KiB, or 76 of 2 MiB where the kernel gives these.
    assert faults[0] > 70 and faults[1] < faults[0] / 10
