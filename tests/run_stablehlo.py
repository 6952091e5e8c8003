"""Runs steps of a StableHLO program with JAX on CPUs, in float32.

    python tests/run_stablehlo.py PROGRAM ARGUMENTS.npz RESULTS.npz

For an environment with JAX, which is not that of TensorFlow. The tests that call it compare what
was compiled for a TPU with TensorFlow's step.

ARGUMENTS has `replicas`, []: on so many CPU devices the program runs, which share the all-reduces;
`rows_I` for argument I that is rows of the batch, [steps, rows of all replicas, ...];
`variable_I` for argument I that is a variable; and `result_of`, [results], for each result the
argument whose next value it is. RESULTS has the results as `step_S_result_R`.
"""

import os
import sys
from operator import itemgetter

import numpy as np


def main(program: str, arguments: str, results: str) -> None:
    """Does what the module says."""
    given = dict(np.load(arguments))
    replicas = int(given["replicas"])
    os.environ["JAX_PLATFORMS"] = "cpu"
    # Three steps take less time than making them fast would.
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={replicas} --xla_backend_optimization_level=0"
    )
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_enable_x64", True)
    devices = jax.devices("cpu")
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, 1
    ids = np.array([[device.id] for device in devices])
    options.device_assignment = xla_client.DeviceAssignment.create(ids)
    with mlir.make_ir_context(), open(program, encoding="utf-8") as text:
        module = ir.Module.parse(text.read())
        executable = devices[0].client.compile_and_load(
            module, xla_client.DeviceList(tuple(devices)), options
        )
    mesh = Mesh(np.array(devices), "replicas")
    divided = NamedSharding(mesh, PartitionSpec("replicas"))
    same = NamedSharding(mesh, PartitionSpec())
    rows = {int(name[5:]): values for name, values in given.items() if name.startswith("rows_")}
    variables = {int(name[9:]): v for name, v in given.items() if name.startswith("variable_")}
    found = {}
    for step in range(len(next(iter(rows.values())))):
        placed = [(number, values[step], divided) for number, values in rows.items()]
        placed += [(number, values, same) for number, values in variables.items()]
        placed = [
            jax.device_put(values, where) for _, values, where in sorted(placed, key=itemgetter(0))
        ]
        outputs = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        for number, copies in enumerate(outputs):
            value = np.asarray(copies[0])
            for copy in copies[1:]:
                np.testing.assert_array_equal(np.asarray(copy), value)
            found[f"step_{step}_result_{number}"] = value
            variables[int(given["result_of"][number])] = value
    np.savez(results, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
