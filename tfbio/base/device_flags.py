"""The flags that say on which devices to compute: --tpu, --strategy, --cpu_devices and others."""

from __future__ import annotations

import re
from typing import NamedTuple

from absl import flags

from tfbio.base.errors import UsageError

# The flags are those of the command that asks for them, and shown by its --help.
flags.disclaim_key_flags()

# See `distribution.make_strategy`.
_STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker")
# More parts than a CPU has cores: TensorFlow takes memory and seconds for each.
_MOST_DEVICES = 1024
_MESH = re.compile(r"(\d{1,4})x(\d{1,4})")


class MeshShape(NamedTuple):
    """The shape of a mesh of devices, which divides a batch as well as the model.

    Attributes:
      data: the parts that the examples of a batch are divided into.
      model: the parts that the model is divided into.
    """

    data: int
    model: int

    @property
    def devices(self) -> int:
        """The number of devices of the mesh, an int."""
        return self.data * self.model

    def __str__(self) -> str:
        """Returns the mesh as --mesh names it, such as "2x4"."""
        return f"{self.data}x{self.model}"


def parse_mesh(text: str) -> MeshShape:
    """Reads the shape of a mesh, such as "2x4": two parts of the examples, four of the model.

    Args:
      text: the value of --mesh.

    Returns:
      A `MeshShape`.

    Raises:
      UsageError: it is not of this form.
    """
    match = _MESH.fullmatch(text)
    if not match or not all(int(number) for number in match.groups()):
        raise UsageError(
            f"--mesh={text} is not DATAxMODEL, such as 2x4: two parts of the examples, and four "
            "devices for each, which share one model."
        )
    return MeshShape(*map(int, match.groups()))


def define() -> None:
    """Defines the absl flags that say on which devices to compute (TPU, GPUs, CPU).

    Returns nothing. The flags are the texts --tpu, --tpu_zone and --gcp_project (default ""),
    --strategy ("auto", "one_device", "mirrored" or "multi_worker", default "auto"), --mesh (default
    None, see `parse_mesh`) and the whole number --cpu_devices (at least 1, default 1).
    `distribution.make_strategy` takes their values.

    Raises:
      absl.flags.DuplicateFlagError: there is a flag of one of these names.
    """
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
        _STRATEGIES,
        "One device, all GPUs (mirrored), several machines (multi_worker, which TF_CONFIG names; "
        "not to annotate), or auto: mirrored where there are several GPUs or CPU devices.",
    )
    flags.DEFINE_integer(
        "cpu_devices",
        1,
        "Where there is no GPU: divide the CPU into so many devices of one thread each, which "
        "share every batch. Faster than 1 for a small model, such as the recipe quickstart.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "mesh",
        None,
        "DATAxMODEL, such as 2x4: divides each batch into 2 parts, and one model over the 4 "
        "devices of each part, for a model that does not fit on one (docs/scale.md). Takes GPUs, "
        "or divides the CPU where there is none.",
    )


def check(
    tpu: str,
    strategy: str,
    cpu_devices: int,
    tpu_zone: str = "",
    gcp_project: str = "",
    mesh: str | None = None,
) -> None:
    """Checks that the values of the device flags go together, and returns nothing.

    Does not import TensorFlow, which would take seconds.

    Args:
      tpu: --tpu, a name, an address or "local"; "" for none.
      strategy: --strategy.
      cpu_devices: --cpu_devices.
      tpu_zone: --tpu_zone; "" if it is not given.
      gcp_project: --gcp_project; "" if it is not given.
      mesh: --mesh; None if it is not given.

    Raises:
      UsageError: `mesh` is not of its form, or there is another of these flags beside it;
        `strategy` is not "auto", "one_device", "mirrored" or "multi_worker"; there is a
        zone or project without the name of a TPU; there is a TPU, and `strategy` is not "auto" or
        `cpu_devices` not 1; `cpu_devices` is below 1, or above 1 with "one_device" or
        "multi_worker"; there are more than 1,024 devices.
    """
    if strategy not in _STRATEGIES:
        raise UsageError(f"--strategy={strategy}: expected one of {', '.join(_STRATEGIES)}.")
    if (tpu_zone or gcp_project) and not tpu:
        flag = "tpu_zone" if tpu_zone else "gcp_project"
        raise UsageError(f"--{flag} goes with --tpu, the name of a TPU there.")
    if (tpu_zone or gcp_project) and (tpu == "local" or "://" in tpu):
        flag = "tpu_zone" if tpu_zone else "gcp_project"
        raise UsageError(f"--{flag} finds a TPU by its name, and --tpu={tpu} is none.")
    if tpu and (strategy != "auto" or cpu_devices != 1):
        flag = "cpu_devices" if strategy == "auto" else "strategy"
        raise UsageError(f"--{flag} does not go with --tpu={tpu}, which has a strategy of its own.")
    if cpu_devices < 1 or (cpu_devices > 1 and strategy in ("one_device", "multi_worker")):
        raise UsageError(
            f"--cpu_devices={cpu_devices}: expected 1, or more with --strategy=auto or mirrored."
        )
    if cpu_devices > _MOST_DEVICES:
        raise UsageError(f"--cpu_devices={cpu_devices}: expected {_MOST_DEVICES} at most.")
    if mesh is not None:
        if (devices := parse_mesh(mesh).devices) > _MOST_DEVICES:
            raise UsageError(
                f"--mesh={mesh} has {devices} devices: expected {_MOST_DEVICES} at most."
            )
        others = {"tpu": tpu, "strategy": strategy != "auto", "cpu_devices": cpu_devices > 1}
        for flag in (name for name, given in others.items() if given):
            raise UsageError(f"--{flag} does not go with --mesh={mesh}, which names all devices.")
