"""Tests where predictions take oneDNN's forms; what these compute is tested with the layers."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf

from tfbio.models import target
from tfbio.training import cpu_bfloat16, onednn
from tfbio.training.precision import own_policy, set_precision


@pytest.fixture(autouse=True)
def _machine(monkeypatch):
    """An x86 CPU with AVX-512, and TensorFlow with oneDNN; Keras' policy is put back."""
    monkeypatch.setattr(onednn.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(onednn._pywrap_util_port, "IsMklEnabled", lambda: True)
    monkeypatch.setattr(cpu_bfloat16, "cuts_off_products", lambda: False)
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    with own_policy():
        yield


def takes_it(strategy, precision="float32"):
    """Returns if graphs take oneDNN's form."""
    set_precision(precision, strategy, 64)
    form = onednn.form_of_prediction(strategy)
    set_precision("float32", strategy, 64)  # which counts no more
    found = set()
    for _ in range(2):  # one form serves several graphs
        with form():
            found.add(target.is_onednn_prediction())
        assert not target.is_onednn_prediction()
    (only,) = found
    return only


def test_only_the_thread_that_asks_has_it():
    with target.onednn_prediction(), ThreadPoolExecutor(1) as other:
        assert target.is_onednn_prediction()
        assert not other.submit(target.is_onednn_prediction).result()


def test_the_form_for_a_tpu_is_another(cpu):
    target.set_tpu(True)
    try:
        assert not takes_it(cpu)
    finally:
        target.set_tpu(False)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_one_cpu_takes_it(cpu, precision):
    assert takes_it(cpu, precision)


def test_other_devices_have_their_own_form():
    several, gpu = tf.distribute.get_strategy(), tf.distribute.OneDeviceStrategy("/gpu:0")
    for strategy in (several, gpu):
        assert onednn.form_of_prediction(strategy) is contextlib.nullcontext


def test_other_processors_have_none(cpu, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(onednn.platform, "machine", lambda: "aarch64")
        assert not takes_it(cpu)
    with monkeypatch.context() as patch:
        patch.setattr(onednn._pywrap_util_port, "IsMklEnabled", lambda: False)
        assert not takes_it(cpu)


def test_bfloat16_needs_avx512(cpu, monkeypatch):
    """Without, oneDNN has no LayerNorm in bfloat16, and TensorFlow ends with an error."""
    with monkeypatch.context() as patch:
        patch.setattr(cpu_bfloat16, "cuts_off_products", lambda: True)
        assert not takes_it(cpu, "bfloat16")
        assert takes_it(cpu, "float32")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "avx2")
    # As on a CPU that has no AVX-512 to be kept from; on another it is refused.
    monkeypatch.setattr(cpu_bfloat16, "ends_process", lambda: False)
    assert not takes_it(cpu, "bfloat16")
    assert takes_it(cpu, "float32")
