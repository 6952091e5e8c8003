"""Tests of the forms that layers choose by."""

import tensorflow as tf

from tfbio.models import target


def test_neither_a_tpu_nor_a_mesh_nor_a_gpu_is_a_cpu(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    assert target.is_cpu()
    with target.mesh():
        assert not target.is_cpu()
    target.set_tpu(True)
    try:
        assert not target.is_cpu()
    finally:
        target.set_tpu(False)
    assert target.is_cpu()
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [f"/{kind}:0"])
    assert not target.is_cpu()
