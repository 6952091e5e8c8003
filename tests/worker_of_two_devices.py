"""A worker with two CPU devices, where others have two GPUs: runs the script that it is given.

TensorFlow takes all GPUs of a worker, but only one CPU device.
"""

import runpy
import sys
from pathlib import Path

from tensorflow.python.distribute import collective_all_reduce_strategy

# In place of its own folder, whose `tfbio` is that of the tests.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from tfbio.training import distribution  # noqa: E402

one_device = distribution._set_up_cpu
distribution._set_up_cpu = lambda _, parallel_parts: one_device(2, parallel_parts)


def local_devices(extended, resolver, worker_device):
    return tuple(f"{worker_device}/device:CPU:{number}" for number in range(2)), "CPU"


extended = collective_all_reduce_strategy.CollectiveAllReduceExtended
extended._initialize_local_devices = local_devices
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
