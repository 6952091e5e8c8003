"""The flags that say on which devices to compute: --tpu, --strategy, --cpu_devices and others."""

from __future__ import annotations

from absl import flags

from tfbio.base.cli import UsageError

# The flags are those of the command that asks for them, and shown by its --help.
flags.disclaim_key_flags()

# See `distribution.make_strategy`.
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker")


def define() -> None:
    """Defines the flags, whose values `distribution.make_strategy` takes."""
    flags.DEFINE_string(
        "tpu",
        "",
        "Name or grpc:// address of a TPU; local: that of this machine. Default: none.",
    )
    flags.DEFINE_string("tpu_zone", "", "Zone of a named TPU. Default: this machine's.")
    flags.DEFINE_string("gcp_project", "", "Project of a named TPU. Default: this machine's.")
    flags.DEFINE_enum(
        "strategy",
        "auto",
        STRATEGIES,
        "One device, all GPUs (mirrored), several machines (multi_worker, which TF_CONFIG names; "
        "pretraining only), or auto: mirrored where there are several GPUs or CPU devices.",
    )
    flags.DEFINE_integer(
        "cpu_devices",
        1,
        "Where there is no GPU: divide the CPU into so many devices of one thread each, which "
        "share every batch. Faster than 1 for a small model, such as hparams/quickstart.json.",
        lower_bound=1,
    )


def check(
    tpu: str, strategy: str, cpu_devices: int, tpu_zone: str = "", gcp_project: str = ""
) -> None:
    """Checks that the values of the flags go together; takes no time, as TensorFlow would.

    Args:
      tpu: --tpu.
      strategy: --strategy.
      cpu_devices: --cpu_devices.
      tpu_zone: --tpu_zone.
      gcp_project: --gcp_project.

    Raises:
      UsageError: they do not go together, or one has an impossible value.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"--strategy={strategy}: expected one of {', '.join(STRATEGIES)}.")
    if (tpu_zone or gcp_project) and not tpu:
        flag = "tpu_zone" if tpu_zone else "gcp_project"
        raise UsageError(f"--{flag} goes with --tpu, the name of a TPU there.")
    if tpu and (strategy != "auto" or cpu_devices != 1):
        flag = "cpu_devices" if strategy == "auto" else "strategy"
        raise UsageError(f"--{flag} does not go with --tpu={tpu}, which has a strategy of its own.")
    if cpu_devices < 1 or (cpu_devices > 1 and strategy in ("one_device", "multi_worker")):
        raise UsageError(
            f"--cpu_devices={cpu_devices}: expected 1, or more with --strategy=auto or mirrored."
        )
