"""Which precision a run computes in, by its settings and its devices."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
import tf_keras as keras

from tests import forked
from tfbio.base.errors import UserError
from tfbio.training import cpu_bfloat16
from tfbio.training.precision import SMALLEST_HIDDEN_SIZE, set_precision

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def policy_afterwards():
    before = keras.mixed_precision.global_policy()
    yield
    keras.mixed_precision.set_global_policy(before)


@pytest.fixture
def of_cpu(monkeypatch):
    """Makes this machine's CPU one with or without instructions, which are faster or not."""

    def make(has_instructions, is_faster):
        monkeypatch.setattr(cpu_bfloat16, "has_instructions", lambda: has_instructions)
        monkeypatch.setattr(cpu_bfloat16, "is_faster", lambda: is_faster)

    return make


@pytest.mark.parametrize(
    ("precision", "policy"), [("float32", "float32"), ("bfloat16", "mixed_bfloat16")]
)
def test_a_setting_is_followed(precision, policy, cpu, of_cpu):
    of_cpu(True, precision == "float32")  # the other one would be chosen
    chosen = set_precision(precision, cpu, 768, begun_in="float32")
    assert str(chosen) == f"{precision} (run.precision)"
    assert keras.mixed_precision.global_policy().name == policy


@pytest.mark.parametrize(
    ("cuts_off", "faster"), [(False, "faster"), (True, "faster and more exact")]
)
def test_bfloat16_on_a_cpu_without_it_is_met_with_advice(
    cuts_off, faster, cpu, of_cpu, monkeypatch
):
    of_cpu(False, False)
    monkeypatch.setattr(cpu_bfloat16, "cuts_off_products", lambda: cuts_off)
    chosen = set_precision("bfloat16", cpu, 768)
    assert str(chosen) == f"bfloat16 (run.precision; float32 is {faster} on this CPU)"
    assert keras.mixed_precision.global_policy().name == "mixed_bfloat16"


@pytest.mark.parametrize(("precision", "begun_in"), [("bfloat16", ""), ("auto", "bfloat16")])
def test_bfloat16_that_would_end_the_process_is_refused(
    precision, begun_in, cpu, of_cpu, monkeypatch
):
    """On a CPU with AVX-512 that oneDNN may not use."""
    of_cpu(True, False)
    monkeypatch.setattr(cpu_bfloat16, "ends_process", lambda: True)
    with pytest.raises(UserError, match=r"ONEDNN_MAX_CPU_ISA .* --set run.precision=float32"):
        set_precision(precision, cpu, 768, begun_in)
    assert set_precision("float32", cpu, 768, begun_in).name == "float32"
    assert set_precision("auto", cpu, 768).name == "float32"


@pytest.mark.parametrize(
    ("has_instructions", "is_faster", "hidden_size", "expected"),
    [
        (True, True, 256, "bfloat16, which this CPU multiplies faster"),
        (True, False, 256, "float32, as this CPU multiplies bfloat16 no faster"),
        (False, True, 256, "float32, as this CPU has no bfloat16"),
        (True, True, 255, "float32, as bfloat16 gains little below a hidden_size of 256"),
    ],
)
def test_auto_takes_the_faster_one_on_a_cpu(
    has_instructions, is_faster, hidden_size, expected, cpu, of_cpu
):
    of_cpu(has_instructions, is_faster)
    assert str(set_precision("auto", cpu, hidden_size)) == expected
    in_bfloat16 = keras.mixed_precision.global_policy().compute_dtype == "bfloat16"
    assert in_bfloat16 == expected.startswith("bfloat16")


@pytest.mark.parametrize(("is_faster", "began"), [(True, "float32"), (False, "bfloat16")])
def test_a_run_continues_in_the_precision_it_began_in(is_faster, began, cpu, of_cpu):
    of_cpu(True, is_faster)
    chosen = set_precision("auto", cpu, 768, begun_in=began)
    assert chosen.name == began
    here = "bfloat16" if is_faster else "float32"
    assert f"a new one would compute here in {here}" in chosen.reason
    assert f"in which the run began (a new one would compute here in {here}" in chosen.reason
    assert set_precision("auto", cpu, 768, begun_in=here).reason.count("began") == 0


def test_the_answer_of_this_cpu_does_not_change(cpu, monkeypatch):
    """It is measured once, so all models of a process have one."""
    first = set_precision("auto", cpu, SMALLEST_HIDDEN_SIZE)
    assert cpu_bfloat16.has_instructions() or first.name == "float32"
    gains = iter([2.0, 1.0])
    monkeypatch.setattr(cpu_bfloat16, "has_instructions", lambda: True)
    monkeypatch.setattr(cpu_bfloat16, "measured_gain", lambda: next(gains))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    cpu_bfloat16.is_faster.cache_clear()
    try:
        names = [set_precision("auto", cpu, SMALLEST_HIDDEN_SIZE).name for _ in range(3)]
    finally:
        cpu_bfloat16.is_faster.cache_clear()
    assert names == ["bfloat16"] * 3


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ([(8, 0), (9, 0)], "bfloat16, which this GPU multiplies faster"),
        ([(8, 0), (7, 0)], "float32, as this GPU has no bfloat16"),
    ],
)
def test_gpus_that_have_bfloat16_take_it(capabilities, expected, cpu, monkeypatch, of_cpu):
    of_cpu(True, True)  # which no longer counts
    gpus = [f"gpu:{number}" for number in range(len(capabilities))]
    details = dict(zip(gpus, capabilities, strict=True))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: gpus)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"compute_capability": details[gpu]},
    )
    assert str(set_precision("auto", cpu, 8)) == expected
    of_cpu(False, False)  # nor do the CPU's instructions for a setting
    monkeypatch.setattr(cpu_bfloat16, "ends_process", lambda: True)
    assert str(set_precision("bfloat16", cpu, 8)) == "bfloat16 (run.precision)"


@pytest.fixture
def gpu(monkeypatch):
    """Returns a function that puts a GPU into this machine, of a compute capability."""

    def put(capability):
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["gpu:0"])
        details = {"compute_capability": capability}
        monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)

    return put


def test_a_run_that_continues_on_a_gpu_stays_in_its_precision(cpu, gpu):
    gpu((8, 0))
    chosen = set_precision("auto", cpu, 768, begun_in="float32")
    assert str(chosen) == (
        "float32, in which the run began (a new one would compute here in bfloat16, which this GPU "
        "multiplies faster)"
    )
    assert keras.mixed_precision.global_policy().name == "float32"
    assert "began" not in str(set_precision("auto", cpu, 768, begun_in="bfloat16"))


def test_a_gpu_without_bfloat16_says_that_a_run_began_in_it(cpu, gpu):
    gpu((7, 0))
    said = "float32, as this GPU has no bfloat16"
    began = f"{said}, in which the run began"
    assert str(set_precision("auto", cpu, 768, begun_in="bfloat16")) == began
    assert str(set_precision("auto", cpu, 768, begun_in="float32")) == said


PROGRAM = """
import json, os
import tensorflow as tf
from tfbio.training import cpu_bfloat16, distribution, precision
from tfbio.training.precision import set_precision
strategy = distribution.make_strategy(strategy="multi_worker")
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
for slower in ([], [1]):  # workers
    cpu_bfloat16.has_instructions = lambda: True
    cpu_bfloat16.is_faster = lambda: index not in slower
    print(set_precision("auto", strategy, 256).name)
tf.config.list_physical_devices = lambda kind=None: ["gpu:0"]
for older in ([], [1]):
    precision._gpus_have_bfloat16 = lambda: index not in older
    print(set_precision("auto", strategy, 256).name)
"""


def test_workers_choose_the_same(tmp_path):
    """All take bfloat16 if it is faster for each of them, or each has a GPU that has it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    processes = [
        forked.Popen(
            [sys.executable, tmp_path / "program.py"],
            cwd=ROOT,
            env=os.environ
            | {
                "TF_CONFIG": json.dumps(
                    {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                )
            },
            stdout=subprocess.PIPE,
        )
        for index in range(2)
    ]
    for process in processes:
        with process:
            assert process.stdout.read().split() == ["bfloat16", "float32"] * 2
            assert process.wait() == 0
