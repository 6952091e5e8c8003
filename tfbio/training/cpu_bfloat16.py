"""Tells whether this machine's CPU multiplies bfloat16 faster than float32, for `precision`.

It asks the CPU's flags, and then measures a product, since the flags do not tell all: a virtual
machine may imitate the instructions, and oneDNN, which multiplies for TensorFlow, may be told not
to use them.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from pathlib import Path

from tfbio.base.lazy import tensorflow as tf

# Linux' names of the instructions of x86 that multiply bfloat16.
_INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}
# Values of oneDNN's variable ONEDNN_MAX_CPU_ISA without AVX-512. With them TensorFlow 2.20 cannot
# multiply bfloat16 on a CPU that has AVX-512, and the process ends.
_WITHOUT_AVX512 = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2")
# By how much bfloat16 must be faster. AMD's CPUs with such instructions reach 1.7 and more, Intel's
# with AMX 4.5, others at most 1.1, so that noise hardly changes the answer.
_LEAST_GAIN = 1.2
# A measurement that says no is made again, so often in all. One on a CPU that multiplies bfloat16
# 1.8 times as fast once said no, and so would have changed the results of a run.
_MEASUREMENTS = 3
# How long a measurement takes; it measures each product once at least.
_SECONDS = 0.25
# Of the product; the rows are for one thread, and a CPU with more than 64 is as busy with 64 times.
_ROWS, _SIZE, _MOST_THREADS = 256, 512, 64


def has_instructions(cpuinfo: str = "/proc/cpuinfo") -> bool:
    """Returns True if the CPU has instructions for bfloat16, AVX512-BF16 or AMX.

    Args:
      cpuinfo: the path of the file in which Linux lists the CPU's flags. Where there is no such
        file, as on other systems, or no x86, the result is False.
    """
    return not _INSTRUCTIONS.isdisjoint(_flags(cpuinfo))


def cuts_off_products(cpuinfo: str = "/proc/cpuinfo") -> bool:
    """Returns True if TensorFlow cuts matrix products in bfloat16 off instead of rounding them.

    TensorFlow 2.20 does so on x86 without AVX-512, where oneDNN has no bfloat16. Each product is
    then about 0.3 % too small.

    Args:
      cpuinfo: the path of the file in which Linux lists the CPU's flags. Where there is no such
        file, as on other systems, or no x86, the result is False.
    """
    flags = _flags(cpuinfo)
    return bool(flags) and "avx512f" not in flags


def _flags(cpuinfo: str) -> set[str]:
    """Returns the flags of an x86 CPU in a file of Linux; none if there is no such file."""
    try:
        lines = Path(cpuinfo).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    line = next((line for line in lines if line.startswith("flags")), "")
    return set(line.partition(":")[2].split())


def may_use_avx512() -> bool:
    """Returns True if the environment does not keep oneDNN from AVX-512 (ONEDNN_MAX_CPU_ISA)."""
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", ""))
    return limit.upper() not in _WITHOUT_AVX512


def ends_process(cpuinfo: str = "/proc/cpuinfo") -> bool:
    """Returns True if a matrix product in bfloat16 would end the process, by SIGSEGV.

    TensorFlow 2.20 does so on a CPU with AVX-512 that oneDNN is told not to use.

    Args:
      cpuinfo: the path of the file in which Linux lists the CPU's flags. Where there is no such
        file, as on other systems, or no x86, the result is False.
    """
    return "avx512f" in _flags(cpuinfo) and not may_use_avx512()


@functools.cache
def is_faster() -> bool:
    """Returns True if TensorFlow multiplies bfloat16 faster than float32 on the CPU.

    The result holds for the process. Call it after the threads of TensorFlow are set.
    """
    return may_use_avx512() and any(measured_gain() >= _LEAST_GAIN for _ in range(_MEASUREMENTS))


def measured_gain() -> float:
    """Measures how many times as fast TensorFlow multiplies bfloat16 as float32 on the CPU.

    It takes the CPU time of both in turn, which other work of the machine changes little, and of
    each the median: on a virtual machine a product now and then seems to take almost none.

    Returns:
      The ratio, a float: 2 if bfloat16 takes half the time.
    """
    end = time.perf_counter() + _SECONDS
    threads = tf.config.threading.get_intra_op_parallelism_threads() or os.cpu_count() or 1
    rows = _ROWS * min(threads, _MOST_THREADS)
    taken: dict[tf.DType, list[float]] = {tf.float32: [], tf.bfloat16: []}
    with tf.device("/cpu:0"):
        pairs = {
            dtype: (tf.fill([rows, _SIZE], tf.cast(0.5, dtype)), tf.eye(_SIZE, dtype=dtype))
            for dtype in taken
        }
        for pair in pairs.values():
            tf.matmul(*pair)  # the first one makes the kernel
        while not taken[tf.bfloat16] or time.perf_counter() < end:
            for dtype, pair in pairs.items():
                start = time.process_time()
                tf.matmul(*pair)
                taken[dtype].append(time.process_time() - start)
    return statistics.median(taken[tf.float32]) / statistics.median(taken[tf.bfloat16])
