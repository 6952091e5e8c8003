"""Runs steps of a StableHLO program with JAX on CPUs, in float32.

    python tests/run_stablehlo.py PROGRAM ARGUMENTS.npz RESULTS.npz

For an environment with JAX, which is not that of TensorFlow. The tests that call it compare what
was compiled for a TPU with TensorFlow's step.

ARGUMENTS has `replicas`, []: on so many CPU devices the program runs, which share the all-reduces;
`rows_I` for argument I that is rows of the batch, [steps, rows of all replicas, ...];
`variable_I` for argument I that is a variable; and `result_of`, [results], for each result the
argument whose next value it is. Where it has `partitions`, [], each replica is divided over so many
devices, as the attributes of the program say, and `axis_I` is the axis along which variable I is
divided. RESULTS has the results as `step_S_result_R`, undivided.
"""

import os
import sys
from operator import itemgetter

import numpy as np


def main(program: str, arguments: str, results: str) -> None:
    """Does what the module says."""
    given = dict(np.load(arguments))
    replicas, partitions = int(given["replicas"]), int(given.get("partitions", 1))
    os.environ["JAX_PLATFORMS"] = "cpu"
    # Three steps take less time than making them fast would.
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={replicas * partitions} "
        "--xla_backend_optimization_level=0"
    )
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_enable_x64", True)
    devices = jax.devices("cpu")
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, partitions
    if partitions > 1:
        options.executable_build_options.use_spmd_partitioning = True
        options.executable_build_options.use_shardy_partitioner = False
    ids = np.array([device.id for device in devices]).reshape(replicas, partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(ids)
    with mlir.make_ir_context(), open(program, encoding="utf-8") as text:
        module = ir.Module.parse(text.read())
        if partitions > 1:
            for name, count in (("num_replicas", replicas), ("num_partitions", partitions)):
                number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count)
                module.operation.attributes[f"mhlo.{name}"] = number
        executable = devices[0].client.compile_and_load(
            module, xla_client.DeviceList(tuple(devices)), options
        )
    mesh = Mesh(np.array(devices).reshape(replicas, partitions), ("replicas", "partitions"))
    divided = NamedSharding(mesh, PartitionSpec("replicas"))
    axes = {int(name[5:]): int(axis) for name, axis in given.items() if name.startswith("axis_")}

    def along(axis: int | None) -> NamedSharding:
        names = [] if axis is None else [None] * axis + ["partitions"]
        return NamedSharding(mesh, PartitionSpec(*names))

    rows = {int(name[5:]): values for name, values in given.items() if name.startswith("rows_")}
    variables = {int(name[9:]): v for name, v in given.items() if name.startswith("variable_")}
    found = {}
    for step in range(len(next(iter(rows.values())))):
        placed = [(number, values[step], divided) for number, values in rows.items()]
        placed += [(n, values, along(axes.get(n))) for n, values in variables.items()]
        placed = [
            jax.device_put(values, where) for _, values, where in sorted(placed, key=itemgetter(0))
        ]
        outputs = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        for number, copies in enumerate(outputs):
            variable = int(given["result_of"][number])
            values = _whole(copies, partitions, axes.get(variable))
            for copy in values[1:]:
                np.testing.assert_array_equal(copy, values[0])
            found[f"step_{step}_result_{number}"] = variables[variable] = values[0]
    np.savez(results, **found)


def _whole(copies: list, partitions: int, axis: int | None) -> list[np.ndarray]:
    """Puts the parts of each replica's result together; one that is not divided has copies."""
    arrays = [np.asarray(copy) for copy in copies]
    if axis is None:
        return arrays
    rows = (arrays[i : i + partitions] for i in range(0, len(arrays), partitions))
    return [np.concatenate(row, axis) for row in rows]


if __name__ == "__main__":
    main(*sys.argv[1:])
