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
        (("local", "mirrored", 1), "--strategy does not go with --tpu=local"),
        (("local", "auto", 2), "--cpu_devices does not go with --tpu=local"),
        (("", "auto", 0), "--cpu_devices=0: expected 1"),
        (("", "one_device", 2), "--cpu_devices=2: expected 1, or more with"),
        (("", "multi_worker", 2), "--cpu_devices=2: expected 1, or more with"),
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
    for name in ("tpu", "tpu_zone", "gcp_project", "strategy", "cpu_devices"):
        assert f"--{name}:" in ended.stdout or f"--[no]{name}" in ended.stdout
