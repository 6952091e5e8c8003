"""Compiles StableHLO for a TPU that is not there. Runs in another environment, with JAX.

  .venv-tpu/bin/python scripts/tpu_compiler.py v3:2x2 step.mlir step.hlo
  .venv-tpu/bin/python scripts/tpu_compiler.py v3:2x2 step.mlir step.hlo --partitions=4

The second has two replicas of four cores, over which XLA divides the program as the attributes of
its arguments say.

Writes the optimized program of one core to the last file and prints one JSON object: the seconds of
compiling, the bytes of code, arguments, results and temporaries; or {"error": ...} if the compiler
refuses, mostly for lack of memory. `scripts/tpu_check.py` calls it, with the version of libtpu
that its results are named after: libtpu and JAX need another NumPy than tfbio.
"""

import argparse
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

# Nothing looks for a TPU, neither here nor by the metadata server of a cloud.
os.environ.update(JAX_PLATFORMS="cpu", TPU_WORKER_HOSTNAMES="localhost", TPU_SKIP_MDS_QUERY="1")
# The compiler writes the program here: not every version of jaxlib can read what it returns.
_FOLDER = tempfile.TemporaryDirectory()
os.environ["XLA_FLAGS"] = f"--xla_dump_to={_FOLDER.name} --xla_dump_hlo_as_text"
# Other compilations may run at the same time.
os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"


def require_libtpu(version: str) -> None:
    """Ends the process with a sentence on stderr if another version of libtpu is installed.

    Args:
      version: the version that is expected; "": any.
    """
    try:
        installed = importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        installed = "missing"
    if version not in ("", installed):
        sys.exit(
            f"libtpu is {installed}, expected {version}, whose results others are compared with: "
            "`make tpu-check` sets it up."
        )


def compile_for(topology: str, path: str, hlo_path: str, partitions: int = 1) -> dict:
    """Compiles a program for all devices of a topology, one replica on each or on several.

    Args:
      topology: chips of libtpu's topology, such as v3:2x2.
      path: the program, StableHLO as text.
      hlo_path: the file to write the optimized program to.
      partitions: the devices that each replica is divided over.

    Returns:
      The figures that are printed.
    """
    # Here, so that --help needs no JAX.
    import numpy as np
    from jax._src.interpreters import mlir as jax_mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    name, _, chip = topology.partition(",")
    chip_name = {"chip_config_name": chip} if chip else {}
    devices = topologies.get_topology_desc(platform="tpu", topology_name=name, **chip_name).devices
    replicas = len(devices) // partitions
    with open(path, encoding="utf-8") as file, jax_mlir.make_ir_context():
        module = ir.Module.parse(file.read())
        for name, count in (("num_replicas", replicas), ("num_partitions", partitions)):
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count)
            module.operation.attributes[f"mhlo.{name}"] = number
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, partitions
    if partitions > 1:
        options.executable_build_options.use_spmd_partitioning = True
        # The attributes are those of GSPMD, not of its successor.
        options.executable_build_options.use_shardy_partitioner = False
    ids = np.array([device.id for device in devices]).reshape(replicas, partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(ids)
    start = time.time()
    try:
        compiled = devices[0].client.compile(module, xla_client.DeviceList(tuple(devices)), options)
    except Exception as error:  # of several types, by version
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return {"error": " ".join(str(error).split())[:500]}
    (program,) = Path(_FOLDER.name).glob("*.after_optimizations.txt")
    shutil.copy(program, hlo_path)
    memory = compiled.get_compiled_memory_stats()
    return {
        "devices": len(devices),
        "seconds": round(time.time() - start, 1),
        "code_bytes": memory.generated_code_size_in_bytes,
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "alias_bytes": memory.alias_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("topology", help="chips of libtpu's topology, such as v3:2x2")
    parser.add_argument("path", help="the program, StableHLO as text")
    parser.add_argument("hlo_path", help="the file to write the optimized program to")
    parser.add_argument(
        "--partitions", type=int, default=1, help="devices that each replica is divided over"
    )
    parser.add_argument("--libtpu", default="", help="refuse another version of libtpu than this")
    given = vars(parser.parse_args())
    require_libtpu(given.pop("libtpu"))
    print(json.dumps(compile_for(**given)))
