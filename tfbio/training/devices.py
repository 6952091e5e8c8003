"""Lists the FLOP/s, memory and bandwidth of devices, with the source of each figure."""

from __future__ import annotations

import dataclasses
import math

# The share of a device's peak that a whole run reaches, with all that is not a matrix product.
# Calibrated on BERT-large by You et al. (2020), "Large Batch Optimization for Deep Learning:
# Training BERT in 76 minutes": 8,599 steps on 1,024 chips of TPU v3, batch 65,536 at length 128 and
# 32,768 at 512, as many examples of each as BERT's million steps of 512 have. It is the fastest of
# the published runs; docs/benchmarks.md compares others.
SHARE_OF_PEAK = 0.28

# Bytes that a device keeps for each parameter in float32: weight, gradient, Adam's two averages.
BYTES_OF_PARAMETER = 4 * 4


@dataclasses.dataclass(frozen=True)
class Device:
    """The capabilities of hardware of one name; all figures but `count` are those of one device.

    Attributes:
      count: devices that each take a part of the batch.
      bfloat16: FLOP/s of dense products in bfloat16, the most that the vendor states.
      float32: FLOP/s of dense products in float32, as TensorFlow multiplies them by default.
      memory: bytes.
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
# least memory.
DEVICES = {
    "tpu-v2-8": Device(8, 22.5e12, 22.5e12, 8 * 2**30, 350e9, 124e9),
    "tpu-v3-8": Device(8, 61.5e12, 61.5e12, 16 * 2**30, 450e9, 164e9),
    "tpu-v4-8": Device(4, 275e12, 275e12, 32 * 2**30, 1200e9, 300e9, 128 * 2**20),
    "tpu-v5e-8": Device(8, 197e12, 197e12, 16e9, 819e9, 200e9, 112 * 2**20),
    "tpu-v5p-8": Device(4, 459e12, 459e12, 95e9, 2765e9, 600e9, 96 * 2**20),
    "tpu-v6e-8": Device(8, 918e12, 918e12, 32e9, 1640e9, 448e9, 112 * 2**20),
    "t4": Device(1, 8.1e12, 8.1e12, 16e9, 320e9),
    "v100": Device(1, 15.7e12, 15.7e12, 16e9, 900e9),
    "a100": Device(1, 312e12, 156e12, 40e9, 1555e9),
    "h100": Device(1, 989e12, 494e12, 80e9, 3350e9),
    "h200": Device(1, 989e12, 494e12, 141e9, 4800e9),
}
# Names of devices that multiply bfloat16 numbers as such. A run does not look here but asks the
# device itself, see `distribution.set_precision`.
HAVE_BFLOAT16 = ("tpu", "a100", "h100", "h200")
