"""Lists the FLOP/s, memory and bandwidth of devices with their sources, and measures a CPU's."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
import time

from tfbio.base.lazy import tensorflow as tf

# The share of a device's peak that a whole run reaches, with all that is not a matrix product.
# Calibrated on BERT-large by You et al. (2020), "Large Batch Optimization for Deep Learning:
# Training BERT in 76 minutes": 8,599 steps on 1,024 chips of TPU v3, batch 65,536 at length 128 and
# 32,768 at 512, as many examples of each as BERT's million steps of 512 have. It is the fastest of
# the published runs; docs/benchmarks.md compares others.
SHARE_OF_PEAK = 0.28

# Bytes that a device keeps for each parameter in float32: weight, gradient, Adam's two averages.
BYTES_OF_PARAMETER = 4 * 4

# How long the peak of CPUs is measured, after a tenth of a second to get ready.
_SECONDS = 0.3


@dataclasses.dataclass(frozen=True)
class Device:
    """One kind of devices, TPUs or GPUs, in `DEVICES`: their speed, memory and bandwidth.

    All figures but `count` are those of one device.

    Attributes:
      count: the number of devices that each take a part of the batch.
      bfloat16: FLOP/s of dense products in bfloat16, the most that the vendor states.
      float32: FLOP/s of dense products in float32, as TensorFlow multiplies them by default.
      memory: the bytes of memory that a program may take.
      bandwidth: bytes a second of memory.
      interconnect: bytes a second to and from the other devices.
      on_chip: bytes of a TPU's on-chip memory that arrays can stay in.
    """

    count: int
    bfloat16: float
    float32: float
    memory: float
    bandwidth: float = math.inf
    interconnect: float = math.inf
    on_chip: float = 0.0


# A TPU multiplies float32 numbers in bfloat16, an NVIDIA GPU since Ampere in TF32; Volta and Turing
# have no bfloat16 but in float32. The core of a TPU is a device up to v3, a chip from v4. Sources,
# per chip: cloud.google.com/tpu/docs/v2 (45 TFLOP/s, 16 GiB at 700 GB/s), v3 (123, 32 at 900), v4
# (275, 32 at 1,200), v5e (197, 16 at 819), v5p (459, 95 at 2,765), v6e (918, 32 at 1,640); their
# interconnects 4 x 496 and 4 x 656 Gbit/s (Jouppi et al., 2020, "A Domain-Specific Supercomputer
# for Training Deep Neural Networks", Table 3), 2,400, 1,600, 4,800 and 3,584 Gbit/s (the same
# pages); on-chip memory from jax 0.10.2, jax/_src/pallas/mosaic/tpu_info.py, without the 16 MiB a
# core that the compiler works in (xla_tpu_scoped_vmem_limit_kib). NVIDIA's data sheets of V100
# SXM2, T4, A100 SXM, H100 SXM and H200 SXM, without sparsity, and of each the version with the
# least memory. Of a TPU's GiB a part is not for programs: libtpu 0.0.52 says so where one takes
# more ("exceeds available HBM (15.48G)"; of v5e 15.75G, of v6e 31.24G, of v5p 95.73G).
DEVICES = {
    "tpu-v2-8": Device(8, 22.5e12, 22.5e12, 7.48 * 2**30, 350e9, 124e9),
    "tpu-v3-8": Device(8, 61.5e12, 61.5e12, 15.48 * 2**30, 450e9, 164e9),
    "tpu-v3-32": Device(32, 61.5e12, 61.5e12, 15.48 * 2**30, 450e9, 164e9),
    "tpu-v3-512": Device(512, 61.5e12, 61.5e12, 15.48 * 2**30, 450e9, 164e9),
    "tpu-v4-8": Device(4, 275e12, 275e12, 30.75 * 2**30, 1200e9, 300e9, 128 * 2**20),
    "tpu-v5e-8": Device(8, 197e12, 197e12, 15.75 * 2**30, 819e9, 200e9, 112 * 2**20),
    "tpu-v5p-8": Device(4, 459e12, 459e12, 95.73 * 2**30, 2765e9, 600e9, 96 * 2**20),
    "tpu-v6e-8": Device(8, 918e12, 918e12, 31.24 * 2**30, 1640e9, 448e9, 112 * 2**20),
    "t4": Device(1, 8.1e12, 8.1e12, 16e9, 320e9),
    "v100": Device(1, 15.7e12, 15.7e12, 16e9, 900e9),
    "a100": Device(1, 312e12, 156e12, 40e9, 1555e9),
    "h100": Device(1, 989e12, 494e12, 80e9, 3350e9),
    "h200": Device(1, 989e12, 494e12, 141e9, 4800e9),
}
# TPUs of one host: fine-tuning uses no others. A slice of v3 has 8 cores a host.
ON_ONE_HOST = tuple(name for name in DEVICES if name not in ("tpu-v3-32", "tpu-v3-512"))
# Names of devices that multiply bfloat16 numbers as such. A run does not look here but asks the
# device itself, see `precision.set_precision`.
HAVE_BFLOAT16 = ("tpu", "a100", "h100", "h200")


def peak(strategy: tf.distribute.Strategy, precision: str) -> float | None:
    """Returns the FLOP/s of matrix products that all devices of a run can do together.

    GPUs are known by their name, a TPU by the variable TPU_ACCELERATOR_TYPE, such as "v3-8", which
    Google sets on some machines; see `DEVICES`. The peak of a CPU is measured.

    Args:
      strategy: where the run computes.
      precision: "float32" or "bfloat16".

    Returns:
      FLOP/s; None if the devices are not known, and for CPUs of several machines.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        name = f"tpu-{os.environ.get('TPU_ACCELERATOR_TYPE', '')}"
        device = DEVICES.get(name.replace("v5litepod", "v5e"))
        return None if device is None else device.count * getattr(device, precision)
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        words = re.split("[^a-z0-9]+", details.get("device_name", "").lower())
        device = next((DEVICES[word] for word in words if word in DEVICES), None)
        if device is None:
            return None
        # To TensorFlow a mesh is one replica.
        mesh = getattr(strategy, "mesh", None)
        count = mesh.shape.devices if mesh else strategy.num_replicas_in_sync
        return count * getattr(device, precision)
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return None  # the other machines' may be faster or slower
    return _peak_of_cpus(precision)


@functools.cache
def _peak_of_cpus(precision: str) -> float:
    """Measures the peak of the CPU devices once in a process, whose devices do not change."""
    return measured_peak(precision)


def measured_peak(precision: str = "float32") -> float:
    """Measures the FLOP/s of matrix products on all CPU devices together.

    It does as many products at a time as the process may do operations: with `run.parallel_parts`
    each is on one core. It takes the best of many tries. Other work of the machine in the meantime
    lowers the result.

    Args:
      precision: "float32" or "bfloat16", of the matrices.

    Returns:
      FLOP/s, a float.
    """
    size = 1024
    devices = tf.config.list_logical_devices("CPU")
    at_once = max(len(devices), tf.config.threading.get_inter_op_parallelism_threads())

    @tf.function
    def multiply(matrices: list[tf.Tensor]) -> list[tf.Tensor]:
        corners = []
        for number, matrix in enumerate(matrices):  # which are multiplied at the same time
            with tf.device(devices[number % len(devices)].name):
                corners.append(tf.matmul(matrix, matrix)[0, 0])
        return corners

    # Different ones: TensorFlow computes equal products once.
    matrices = [
        tf.cast(tf.random.stateless_uniform([size, size], [0, number]), precision)
        for number in range(at_once)
    ]
    multiply(matrices)
    shortest, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        for corner in multiply(matrices):
            corner.numpy()
        shortest = min(shortest, time.perf_counter() - start)
    return at_once * 2 * size**3 / shortest
