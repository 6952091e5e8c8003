"""Makes the `tf.distribute` strategy of a run: on a TPU, GPUs, or the CPU."""

import contextlib
import shlex
import socket
import sys
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from tfbio.base import device_flags, messages
from tfbio.base.errors import Interrupted, UsageError, UserError
from tfbio.models import target
from tfbio.training.mesh import MeshStrategy

# For `strategy.run`: a TPU pads a batch whose shape is not known. This makes it fail instead; other
# devices take no notice.
STATIC_SHAPES = tf.distribute.RunOptions(experimental_enable_dynamic_batch_size=False)

# Seconds within which Google's services, and each host of a TPU, must answer a connection.
TPU_TIMEOUT = 20

# The errors that TensorFlow raises when a TPU, or another worker, is gone.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
# Words of the InvalidArgumentError when a host was started anew between two calls to it.
_RESTARTED = ("Unable to find a context_id", "Unable to find the relevant tensor remote_handle")


def make_strategy(
    tpu: str = "",
    strategy: str = "auto",
    cpu_devices: int = 1,
    parallel_parts: int = 1,
    tpu_zone: str = "",
    gcp_project: str = "",
    mesh: str | None = None,
) -> tf.distribute.Strategy:
    """Makes the strategy of distribution that `--tpu`, `--strategy` and `--cpu_devices` ask for.

    Without a GPU it first sets TensorFlow's threads and divides the CPU.

    Args:
      tpu: a TPU's name, its grpc:// address, or "local"; "" for none.
      strategy: "one_device": the first GPU, or the CPU; "mirrored": all GPUs of this machine (all
        logical CPUs where there is none); "multi_worker": all machines that TF_CONFIG names;
        "auto": mirrored where there are several GPUs or CPU devices, one_device otherwise.
      cpu_devices: where there is no GPU, divide the CPU into so many devices, of one thread each.
      parallel_parts: the operations that run at a time on such a CPU (`run.parallel_parts`).
      tpu_zone: the zone of a named TPU; "": that of this machine.
      gcp_project: the project of a named TPU; "": that of this machine.
      mesh: `--mesh`, the shape of a mesh of devices that share one model; None: there is none.

    Returns:
      A TPUStrategy, MultiWorkerMirroredStrategy, MirroredStrategy, MeshStrategy or
      OneDeviceStrategy.

    Raises:
      UsageError: the strategy's name is not one of these or does not go with the other flags,
        TF_CONFIG does not name the workers, or the mesh has more devices than there are.
      UserError: the TPU cannot be reached.
      RuntimeError: TensorFlow has already started with other threads or devices of the CPU.
    """
    device_flags.check(tpu, strategy, cpu_devices, tpu_zone, gcp_project, mesh)
    if tpu:
        return _connect_to_tpu(tpu, tpu_zone, gcp_project)
    if not tf.config.list_physical_devices("GPU"):
        in_mesh = device_flags.parse_mesh(mesh).devices if mesh else 1
        _set_up_cpu(max(cpu_devices, in_mesh), parallel_parts)
    if mesh:
        return MeshStrategy(device_flags.parse_mesh(mesh))
    if strategy == "multi_worker":
        # Before anything asks for the logical devices, which starts TensorFlow.
        try:
            if not tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec().jobs:
                raise ValueError("it names none")
            workers = tf.distribute.MultiWorkerMirroredStrategy()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
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


def warn_of_cpu(strategy: tf.distribute.Strategy) -> None:
    """Prints a warning if a strategy was to train on all GPUs and has one CPU; returns nothing.

    Args:
      strategy: the result of `make_strategy`. With several CPU devices, which are asked for by
        `--cpu_devices`, there is no warning.
    """
    if not isinstance(strategy, tf.distribute.MirroredStrategy):
        return
    devices = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    if [device.device_type for device in devices] == ["CPU"]:
        messages.say("warning: no GPU is visible, so --strategy=mirrored trains on the CPU.")


def devices_of(strategy: tf.distribute.Strategy) -> str:
    """Names the devices of a distribution strategy, "2 device(s)" or "a mesh of 2x4 devices"."""
    if isinstance(strategy, MeshStrategy):
        return f"a mesh of {strategy.mesh.shape} devices"
    return f"{strategy.num_replicas_in_sync} device(s)"


def _connect_to_tpu(name: str, zone: str, project: str) -> tf.distribute.TPUStrategy:
    """Looks a TPU up, and claims it.

    Raises:
      UserError: the TPU cannot be reached.
    """
    print(f"waiting for the TPU {name} ...", flush=True)
    timeout = socket.getdefaulttimeout()
    # TensorFlow and Google's libraries ask without one, and would wait for minutes or for ever.
    socket.setdefaulttimeout(TPU_TIMEOUT)
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            name, zone or None, project or None
        )
        for addresses in resolver.cluster_spec().as_dict().values():
            for address in addresses:
                host, port = address.rsplit(":", 1)
                socket.create_connection((host, int(port))).close()
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    # Any exception: those of Google's libraries have nothing in common.
    except Exception as error:
        raise UserError(f"--tpu={name}: no such TPU can be reached ({_reason(error)}).") from error
    finally:
        socket.setdefaulttimeout(timeout)
    return tf.distribute.TPUStrategy(resolver)


@contextlib.contextmanager
def interruptions(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Raises `Interrupted` if a distribution strategy loses its TPU or a worker in a `with` block.

    The error says how to go on. TensorFlow's `PreemptionCheckpointHandler` is not used: it must be
    called for every step, while here a graph has a loop of steps, and it saves and ends in another
    way. On SIGTERM `preemption.Preemption` saves a run; a lost TPU cannot be saved any more.

    Args:
      strategy: where the run computes.

    Yields:
      Nothing.

    Raises:
      Interrupted: the TPU or another worker is lost. All other errors of the block pass unchanged.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if not isinstance(error, _LOST) and not any(words in str(error) for words in _RESTARTED):
            raise
        if isinstance(strategy, tf.distribute.TPUStrategy):
            # Whole, on a line of its own: that of an error is cut.
            messages.say(shlex.join(sys.orig_argv))
            raise Interrupted(
                f"the TPU was lost ({_reason(error)}): when there is one again, the same command, "
                "which is printed above, continues from the newest checkpoint."
            ) from error
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            raise Interrupted(
                "this worker cannot go on without the others: start all of them again with the "
                f"same command, and they continue from the newest checkpoint ({_reason(error)})."
            ) from error
        raise


def _reason(error: Exception) -> str:
    """Returns the first sentence of an error's message, without the operating system's number."""
    cause = getattr(error, "reason", error)  # urllib's errors have a reason
    said = getattr(cause, "strerror", None) or messages.first_line(cause)
    return said.partition(". ")[0]  # TensorFlow's next ones name operations and attributes


def _set_up_cpu(devices: int, parallel_parts: int) -> None:
    """Divides the CPU, so that a repeated run gives the same bits and is fast.

    One device does one operation at a time, on all cores. It is faster to do several operations, of
    one thread each, where parts of a batch do not wait for each other.
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
    strategy: tf.distribute.Strategy,
    make_dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset],
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """Distributes a data set, so that every replica gets its rows of each global batch.

    The first replica gets the first rows.

    Args:
      strategy: where the run computes.
      make_dataset: makes the data set of one host, which has the rows of that host's replicas of
        each global batch, in static shapes. The hosts of a TPU run it, without Python.

    Returns:
      Batches for `strategy.run`, each of the structure and dtypes that `make_dataset` gives. On one
      CPU device it is `make_dataset`'s data set, of shapes [rows, ...]; otherwise a
      `tf.distribute.DistributedDataset`, of which each replica gets [rows / replicas, ...].
    """
    # For copies to devices TensorFlow starts a thread that tunes them, whatever the options of the
    # dataset say, and that does not always notice that it is to end: freeing the iterator then
    # waited for it, for a minute (seen with 2.20). On CPUs there is nothing to copy.
    devices = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    on_cpus = all(device.device_type == "CPU" for device in devices)
    on_hosts = isinstance(
        strategy, (tf.distribute.TPUStrategy, tf.distribute.MultiWorkerMirroredStrategy)
    )
    if not on_hosts and (not on_cpus or strategy.num_replicas_in_sync == 1):
        dataset = make_dataset(tf.distribute.InputContext())
        return dataset if on_cpus else strategy.experimental_distribute_dataset(dataset)

    # TensorFlow's ways for several hosts, to divide the files or the batches, lose the order of the
    # examples, or the static shapes.
    def of_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
        replicas = context.num_replicas_in_sync // context.num_input_pipelines

        def parts(rows: tf.Tensor) -> tf.Tensor:
            return tf.reshape(rows, [replicas, rows.shape[0] // replicas, *rows.shape[1:]])

        dataset = make_dataset(context).map(lambda batch: tf.nest.map_structure(parts, batch))
        return dataset.unbatch().prefetch(2 * replicas)

    options = None
    if not on_hosts:
        options = tf.distribute.InputOptions(
            experimental_fetch_to_device=False,
            experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
        )
    return strategy.distribute_datasets_from_function(of_host, options)


def optimize_for(device: str, strategy: tf.distribute.Strategy) -> None:
    """Chooses by the distribution strategy, or a setting, if steps are traced for a TPU.

    The choice holds for all later steps, and `models.target` keeps it. Returns nothing.

    Args:
      device: "cpu" (also for GPUs), "tpu", or "auto" for "tpu" if the strategy is a TPU's and "cpu"
        otherwise; see `pretraining_run.PretrainingRun.optimize_for`.
      strategy: where the run computes.
    """
    on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    target.set_tpu(device == "tpu" or device == "auto" and on_tpu)


def all_results(
    strategy: tf.distribute.Strategy, values: tf.Tensor | tf.distribute.DistributedValues
) -> list[tf.Tensor]:
    """Collects the values that each replica of a strategy computed, those of other workers too.

    All workers must call it equally often.

    Args:
      strategy: where the run computes.
      values: [n, ...] of each replica, of one shape and any dtype.

    Returns:
      A list of one tensor [n, ...] for each replica, in the order of the replicas.
    """
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return tf.split(strategy.gather(values, axis=0), strategy.num_replicas_in_sync)
    return list(strategy.experimental_local_results(values))


def of_all_workers(
    strategy: tf.distribute.Strategy, values: Sequence[int]
) -> list[tuple[int, ...]]:
    """Collects whole numbers that each worker of a strategy has; each must call it, with its own.

    Args:
      strategy: where the run computes.
      values: as many numbers as those of every other worker, at least one.

    Returns:
      The different ones, sorted: a single tuple if all workers have the same, or there is only one.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return [tuple(values)]
    own = strategy.run(lambda: tf.constant(values, tf.int64))
    return sorted({tuple(each.numpy().tolist()) for each in all_results(strategy, own)})


def require_same_step(strategy: tf.distribute.Strategy, step: int, folder: str) -> None:
    """Checks that all workers of a strategy go on at one step; each must call it, with its own.

    Returns nothing.

    Args:
      strategy: where the run computes.
      step: the step of the checkpoint that this worker found; 0 for none.
      folder: the flag of the folder with the checkpoints, such as "--model_dir=out/model".

    Raises:
      UserError: they do not, which all workers say.
    """
    steps = [own for (own,) in of_all_workers(strategy, [step])]
    if len(steps) > 1:
        raise UserError(
            f"{folder}: the workers found checkpoints of different steps there "
            f"({', '.join(map(str, steps))}; 0 is none): give one folder that all workers share."
        )


def is_one_device(strategy: tf.distribute.Strategy, kind: str = "") -> bool:
    """Returns True if a strategy computes on one device of this process.

    A mesh of devices is none, though its strategy has one.

    Args:
      strategy: the strategy to compute with.
      kind: "CPU" or "GPU" for a device of that kind; "" for any.
    """
    return type(strategy) is tf.distribute.OneDeviceStrategy and (
        kind in strategy.extended.worker_devices[0].upper()
    )


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Waits until every worker of the strategy is here, and returns nothing; one alone goes on."""
    of_all_workers(strategy, [0])
