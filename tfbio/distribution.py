"""Where a run computes: a TPU, GPUs, or the CPU, as a `tf.distribute` strategy."""

import os
import re
import time

import tensorflow as tf
import tf_keras as keras

from tfbio import cost, target
from tfbio.cli import UserError

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker")


def make_strategy(
    tpu: str = "", strategy: str = "auto", cpu_devices: int = 1, parallel_parts: int = 1
) -> tf.distribute.Strategy:
    """The strategy that the flags `--tpu`, `--strategy` and `--cpu_devices` ask for.

    Args:
      tpu: a TPU's name, its grpc:// address, or "local"; "" for none.
      strategy: "one_device": the first GPU, or the CPU; "mirrored": all GPUs of this machine (all
        logical CPUs where there is none); "multi_worker": all machines that TF_CONFIG names;
        "auto": mirrored where there are several GPUs or CPU devices, one_device otherwise.
      cpu_devices: where there is no GPU, divide the CPU into so many devices, of one thread each.
      parallel_parts: so many operations at a time on such a CPU (`run.parallel_parts`).

    Raises:
      UserError: if the strategy's name is not one of these, does not go with the number of
        devices, the TPU cannot be found, or TF_CONFIG is not what it must be.
    """
    if strategy not in STRATEGIES:
        raise UserError(f"--strategy={strategy}: expected one of {', '.join(STRATEGIES)}.")
    if tpu:
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu)
            tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
        except (ValueError, tf.errors.OpError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"--tpu={tpu}: no such TPU can be reached ({reason}).") from error
        return tf.distribute.TPUStrategy(resolver)
    if cpu_devices < 1 or (cpu_devices > 1 and strategy in ("one_device", "multi_worker")):
        raise UserError(
            f"--cpu_devices={cpu_devices}: expected 1, or more with --strategy=auto or mirrored."
        )
    if not tf.config.list_physical_devices("GPU"):
        _set_up_cpu(cpu_devices, parallel_parts)
    if strategy == "multi_worker":
        # Before anything asks for the logical devices, which starts TensorFlow.
        try:
            if not tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec().jobs:
                raise ValueError("it names none")
            workers = tf.distribute.MultiWorkerMirroredStrategy()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                "--strategy=multi_worker: the variable TF_CONFIG must name all workers, and which "
                """this is, as '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": """
                f"""{{"type": "worker", "index": 0}}}}' does ({error})."""
            ) from error
        # All batches are whole. To be ready for one that is not, it would forget their shapes.
        workers.extended.experimental_enable_get_next_as_optional = False
        return workers
    gpus = tf.config.list_logical_devices("GPU")
    several = len(gpus) > 1 or (not gpus and cpu_devices > 1)
    if strategy == "mirrored" or (strategy == "auto" and several):
        devices = gpus or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")


def _set_up_cpu(devices: int, parallel_parts: int) -> None:
    """Divides the CPU, so that a run that is done again gives the same bits and is fast.

    One device does one operation at a time, on all cores. It is faster to do several, of one thread
    each, where there are parts of a batch that do not wait for each other.
    """
    at_once = max(devices, parallel_parts)
    tf.config.threading.set_inter_op_parallelism_threads(at_once)
    if at_once > 1:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    if devices > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(devices)]
        tf.config.set_logical_device_configuration(cpu, parts)


def distribute_dataset(
    strategy: tf.distribute.Strategy, dataset: tf.data.Dataset
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """Gives every replica its part of each global batch, the first replica the first rows.

    Args:
      strategy: where to.
      dataset: global batches of static shapes, which divide by the replicas.
    """
    # What TensorFlow has for copies to devices makes a thread that tunes them, whatever the options
    # of the dataset say, and that does not always notice that it is to end: freeing the iterator
    # then waited for it, for a minute (seen with 2.20). On CPUs there is nothing to copy.
    devices = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    on_cpus = all(device.device_type == "CPU" for device in devices)
    several_workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    if on_cpus and strategy.num_replicas_in_sync == 1:
        return dataset
    if not on_cpus and not several_workers:
        return strategy.experimental_distribute_dataset(dataset)

    # What TensorFlow does itself for several workers, dividing the files or the batches, loses the
    # static shapes.
    def of_pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
        replicas = context.num_replicas_in_sync // context.num_input_pipelines

        def parts(values: tf.Tensor) -> tf.Tensor:
            rows = values.shape[0] // context.num_replicas_in_sync
            first = context.input_pipeline_id * replicas * rows
            own = values[first : first + replicas * rows]
            return tf.reshape(own, [replicas, rows, *values.shape[1:]])

        return dataset.map(lambda batch: tf.nest.map_structure(parts, batch)).unbatch().prefetch(2)

    options = None
    if not several_workers:
        options = tf.distribute.InputOptions(
            experimental_fetch_to_device=False,
            experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
        )
    return strategy.distribute_datasets_from_function(of_pipeline, options)


def set_precision(precision: str, strategy: tf.distribute.Strategy) -> str:
    """Sets what Keras layers compute in; weights, losses and optimizer slots stay float32.

    Args:
      precision: "float32", "bfloat16", or "auto" for bfloat16 on a TPU and on a GPU that has it
        (NVIDIA's since Ampere, compute capability 8.0), and float32 elsewhere.
      strategy: where the run computes.

    Returns:
      "float32" or "bfloat16".
    """
    if precision == "auto":
        precision = "bfloat16" if _is_tpu(strategy) or _gpus_have_bfloat16() else "float32"
    policy = {"float32": "float32", "bfloat16": "mixed_bfloat16"}[precision]
    keras.mixed_precision.set_global_policy(policy)
    return precision


def _is_tpu(strategy: tf.distribute.Strategy) -> bool:
    return isinstance(strategy, tf.distribute.TPUStrategy)


def _gpus_have_bfloat16() -> bool:
    """Returns True if there are GPUs, and all multiply bfloat16 numbers as such."""
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    return bool(gpus) and all(each.get("compute_capability", (0,)) >= (8, 0) for each in details)


def optimize_for(device: str, strategy: tf.distribute.Strategy) -> None:
    """Chooses the form of the steps that are traced from now on.

    Args:
      device: "cpu", "tpu" or "auto", see `config.PretrainingRun.optimize_for`.
      strategy: where the run computes.
    """
    target.set_tpu(device == "tpu" or device == "auto" and _is_tpu(strategy))


def peak(strategy: tf.distribute.Strategy, precision: str) -> float | None:
    """FLOP/s that all devices of a strategy can do in matrix products, as far as it is known.

    GPUs are known by their name, a TPU by the variable TPU_ACCELERATOR_TYPE, such as "v3-8", which
    Google sets on some machines; see `cost.DEVICES`. That of a machine's CPU is measured.

    Args:
      strategy: where the run computes.
      precision: "float32" or "bfloat16".
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        name = f"tpu-{os.environ.get('TPU_ACCELERATOR_TYPE', '')}"
        device = cost.DEVICES.get(name.replace("v5litepod", "v5e"))
        return device and device.count * getattr(device, precision)
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        words = re.split("[^a-z0-9]+", details.get("device_name", "").lower())
        device = next((cost.DEVICES[word] for word in words if word in cost.DEVICES), None)
        return device and strategy.num_replicas_in_sync * getattr(device, precision)
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return None  # the other machines' may be faster or slower
    return measured_peak()


def measured_peak(seconds: float = 0.3) -> float:
    """FLOP/s of float32 matrix products on all CPU devices together: the best of many tries.

    What else the machine does in the meantime is taken from it.

    Args:
      seconds: how long it tries, after a tenth of a second to get ready.
    """
    size = 1024
    devices = tf.config.list_logical_devices("CPU")

    @tf.function
    def multiply(matrix: tf.Tensor) -> list[tf.Tensor]:
        corners = []
        for device in devices:  # which work at the same time, in one graph
            with tf.device(device.name):
                corners.append(tf.matmul(matrix, matrix)[0, 0])
        return corners

    matrix = tf.random.stateless_uniform([size, size], [0, 0])
    multiply(matrix)
    shortest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for corner in multiply(matrix):
            corner.numpy()
        shortest = min(shortest, time.perf_counter() - start)
    return len(devices) * 2 * size**3 / shortest
