"""The flags that say where to compute: which of them go together."""

import subprocess
import sys

import pytest

from tfbio.base import device_flags
from tfbio.base.errors import UsageError


@pytest.mark.parametrize(
    "flags",
    [
        ("", "auto", 1),
        ("", "auto", 2),
        ("", "mirrored", 2),
        ("", "multi_worker", 1),
        ("local", "auto", 1),
        ("pod", "auto", 1, "europe-west4-a", "project"),
        ("", "auto", 1, "", "", "2x4"),
        ("", "auto", 1024),
        ("", "auto", 1, "", "", "1x1024"),
    ],
)
def test_flags_that_go_together(flags):
    device_flags.check(*flags)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("", "some", 1), "--strategy=some: expected one of auto, one_device, mirrored"),
        (("", "auto", 1, "europe-west4-a"), "--tpu_zone goes with --tpu"),
        (("", "auto", 1, "", "project"), "--gcp_project goes with --tpu"),
        (
            ("local", "auto", 1, "europe-west4-a"),
            "--tpu_zone finds a TPU by its name, and --tpu=lo",
        ),
        (("grpc://[::1]:1", "auto", 1, "", "project"), "--gcp_project finds a TPU by its name"),
        (("", "auto", 2_000_000_000), "--cpu_devices=2000000000: expected 1024 at most"),
        (("", "auto", 1, "", "", "9999x9999"), "--mesh=9999x9999 has 99980001 devices: expected"),
        (("local", "mirrored", 1), "--strategy does not go with --tpu=local"),
        (("local", "auto", 2), "--cpu_devices does not go with --tpu=local"),
        (("", "auto", 0), "--cpu_devices=0: expected 1"),
        (("", "one_device", 2), "--cpu_devices=2: expected 1, or more with"),
        (("", "multi_worker", 2), "--cpu_devices=2: expected 1, or more with"),
        (("", "auto", 1, "", "", "4"), "--mesh=4 is not DATAxMODEL, such as 2x4"),
        (("", "auto", 1, "", "", "0x2"), "--mesh=0x2 is not DATAxMODEL"),
        (("", "auto", 1, "", "", ""), "--mesh= is not DATAxMODEL"),
        (("local", "auto", 1, "", "", "1x2"), "--tpu does not go with --mesh=1x2"),
        (("", "mirrored", 1, "", "", "1x2"), "--strategy does not go with --mesh=1x2"),
        (("", "auto", 2, "", "", "1x2"), "--cpu_devices does not go with --mesh=1x2"),
    ],
)
def test_flags_that_do_not_go_together_are_named(flags, words):
    with pytest.raises(UsageError, match=words):
        device_flags.check(*flags)


def test_help_shows_them_as_flags_of_the_command():
    script = (
        "from tfbio.base import cli, device_flags\n"
        "cli.run(lambda argv: None, device_flags.define)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, text=True)
    assert ended.returncode == 0
    for name in ("tpu", "tpu_zone", "gcp_project", "strategy", "cpu_devices", "mesh"):
        assert f"--{name}:" in ended.stdout or f"--[no]{name}" in ended.stdout


def test_a_mesh_has_parts_of_the_examples_and_of_the_model():
    shape = device_flags.parse_mesh("2x4")
    assert (shape.data, shape.model, shape.devices, str(shape)) == (2, 4, 8, "2x4")
