"""Which strategy the flags give; the TPU itself is replaced at its edge."""

import collections
import functools
import os
import shlex
import socket
import sys
import urllib.error
from pathlib import Path

import google.auth.exceptions
import numpy as np
import pytest
import requests
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.data.ops import multi_device_iterator_ops

from tests import emulated_tpu, forked
from tfbio.base.device_flags import MeshShape
from tfbio.base.errors import Interrupted, UserError
from tfbio.base.manifests import read_manifest
from tfbio.models import target
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.runs import pretraining_data
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.training import distribution
from tfbio.training.mesh import MeshStrategy
from tfbio.weights import checkpoint_settings

ROOT = Path(__file__).parents[3]


def test_the_cpu_where_there_is_nothing_else():
    strategy = distribution.make_strategy()
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
    assert strategy.num_replicas_in_sync == 1


def test_mirrored_takes_all_logical_devices():
    strategy = distribution.make_strategy(strategy="mirrored")
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    assert strategy.num_replicas_in_sync == 2


BOTH_GPUS = ["/device:GPU:0", "/device:GPU:1"]


@pytest.mark.parametrize(
    ("gpus", "strategy", "expected"),
    [
        (BOTH_GPUS[:1], "auto", ("OneDeviceStrategy", "/gpu:0")),
        (BOTH_GPUS[:1], "mirrored", ("MirroredStrategy", BOTH_GPUS[:1])),
        (BOTH_GPUS, "auto", ("MirroredStrategy", BOTH_GPUS)),
        (BOTH_GPUS, "one_device", ("OneDeviceStrategy", "/gpu:0")),
    ],
)
def test_gpus_are_taken_where_there_are_some(gpus, strategy, expected, monkeypatch):
    """No GPU is at hand, so TensorFlow's answer is made up, and what is asked of it recorded."""
    found, made = [tf.config.LogicalDevice(name, "GPU") for name in gpus], []
    for name in ("list_physical_devices", "list_logical_devices"):
        monkeypatch.setattr(tf.config, name, lambda kind: found * (kind == "GPU"))
    for name in ("OneDeviceStrategy", "MirroredStrategy"):
        record = functools.partial(lambda name, devices: made.append((name, devices)), name)
        monkeypatch.setattr(tf.distribute, name, record)
    distribution.make_strategy(strategy=strategy)
    assert made == [expected]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", "1 0 1"),
        ("parallel_parts=2", "2 1 1"),
        ("cpu_devices=2", "2 1 2"),
        ("cpu_devices=2, parallel_parts=3", "3 1 2"),
        ("mesh='1x2'", "2 1 2"),
    ],
)
def test_the_cpu_does_as_many_operations_at_a_time_as_there_are_parts(options, expected, tmp_path):
    """Prints the operations at a time, the threads of each (0: all cores), and the devices."""
    program = tmp_path / "program.py"
    program.write_text(
        "import tensorflow as tf\n"
        "from tfbio.training import distribution\n"
        f"distribution.make_strategy({options})\n"
        "threads = tf.config.threading\n"
        "at_once = threads.get_inter_op_parallelism_threads()\n"
        "devices = tf.config.list_logical_devices('CPU')\n"
        "print(at_once, threads.get_intra_op_parallelism_threads(), len(devices))\n"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = forked.run([sys.executable, program], cwd=ROOT, env=env)
    assert done.stdout.splitlines()[-1] == expected, done.stderr


def test_mirrored_on_one_cpu_is_warned_of(capsys):
    distribution.warn_of_cpu(tf.distribute.MirroredStrategy(["/cpu:0"]))
    warning = "warning: no GPU is visible, so --strategy=mirrored trains on the CPU.\n"
    assert capsys.readouterr().out == warning
    distribution.warn_of_cpu(tf.distribute.OneDeviceStrategy("/cpu:0"))
    distribution.warn_of_cpu(tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]))
    assert not capsys.readouterr().out


def test_devices_are_named():
    two = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    assert distribution.devices_of(two) == "2 device(s)"
    assert distribution.devices_of(MeshStrategy(MeshShape(1, 2))) == "a mesh of 1x2 devices"


@pytest.mark.parametrize(
    "make, kinds",
    [
        (lambda: tf.distribute.OneDeviceStrategy("/cpu:0"), ["", "CPU"]),
        (lambda: tf.distribute.OneDeviceStrategy("/gpu:0"), ["", "GPU"]),
        (lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]), []),
        (tf.distribute.get_strategy, []),
        (lambda: MeshStrategy(MeshShape(1, 2)), []),
    ],
    ids=["cpu", "gpu", "several_devices", "default", "mesh"],
)
def test_one_device_of_a_kind_is_told_from_several(make, kinds):
    strategy = make()
    found = [kind for kind in ("", "CPU", "GPU") if distribution.is_one_device(strategy, kind)]
    assert found == kinds


def test_an_unknown_strategy_is_named():
    with pytest.raises(UserError, match="--strategy=mirored: expected one of auto, one_device"):
        distribution.make_strategy(strategy="mirored")


@pytest.mark.parametrize(
    ("strategy", "devices"), [("auto", 0), ("one_device", 2), ("multi_worker", 2)]
)
def test_devices_that_do_not_go_with_the_strategy_are_refused(strategy, devices):
    with pytest.raises(UserError, match=f"--cpu_devices={devices}: expected 1, or more with"):
        distribution.make_strategy(strategy=strategy, cpu_devices=devices)


def test_a_tpu_is_resolved_connected_and_initialised_in_this_order(monkeypatch, capsys):
    calls = []
    server = socket.create_server(("localhost", 0))
    addresses = {"worker": [f"localhost:{server.getsockname()[1]}"]}

    class Resolver:
        def __init__(self, *flags):
            calls.append(("resolve", *flags))

        def cluster_spec(self):
            return tf.train.ClusterSpec(addresses)

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", Resolver)
    for module, name in (
        (tf.config, "experimental_connect_to_cluster"),
        (tf.tpu.experimental, "initialize_tpu_system"),
        (tf.distribute, "TPUStrategy"),
    ):
        monkeypatch.setattr(
            module, name, lambda resolver, name=name: calls.append((name, type(resolver)))
        )
    with server:
        distribution.make_strategy(tpu="my-tpu", tpu_zone="europe-west4-a", gcp_project="mine")
    assert calls == [
        ("resolve", "my-tpu", "europe-west4-a", "mine"),
        ("experimental_connect_to_cluster", Resolver),
        ("initialize_tpu_system", Resolver),
        ("TPUStrategy", Resolver),
    ]
    assert capsys.readouterr().out == "waiting for the TPU my-tpu ...\n"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("Please provide a TPU Name to connect to.\nMore."),
        RuntimeError('TPU "none" is not yet ready; state: "CREATING"'),
        urllib.error.URLError("Name or service not known"),
        requests.exceptions.ConnectionError("Connection aborted."),
        google.auth.exceptions.DefaultCredentialsError("no credentials"),
        tf.errors.NotFoundError(
            None,
            None,
            "TPUs not found in the cluster. Failed in initialization: No OpKernel was registered "
            "to support Op 'ConfigureDistributedTPU' used by {{node ConfigureDistributedTPU}} ",
        ),
        TimeoutError(),
    ],
)
def test_a_tpu_that_is_not_there_is_named(monkeypatch, error):
    def refuse(*flags):
        raise error

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", refuse)
    with pytest.raises(UserError, match=r"^--tpu=none: no such TPU can be reached \(") as raised:
        distribution.make_strategy(tpu="none")
    words = getattr(error, "reason", str(error)).partition("\n")[0].partition(". ")[0]
    assert str(raised.value).endswith(f"({words or 'TimeoutError'}).")


def test_what_does_not_answer_is_not_waited_for(monkeypatch):
    """A TPU's address where nobody listens; a metadata server that says nothing."""
    monkeypatch.setattr(distribution, "TPU_TIMEOUT", 0.5)
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
        monkeypatch.setenv("GCE_METADATA_HOST", address)
        with pytest.raises(UserError, match=r"--tpu=my-tpu: no such TPU .*\(timed out\)"):
            distribution.make_strategy(tpu="my-tpu")
    with pytest.raises(UserError, match=f"--tpu=grpc://{address}: no such TPU .*refused"):
        distribution.make_strategy(tpu=f"grpc://{address}")
    assert socket.getdefaulttimeout() is None


@pytest.mark.parametrize("flag", ["tpu_zone", "gcp_project"])
def test_where_a_tpu_is_says_nothing_without_one(flag):
    with pytest.raises(UserError, match=f"--{flag} goes with --tpu"):
        distribution.make_strategy(**{flag: "europe-west4-a"})


@pytest.fixture
def pod():
    """A TPU of two hosts with four cores each; what they read is put on a CPU device each."""
    strategy = emulated_tpu.make_strategy(8)
    hosts = [device.name for device in tf.config.list_logical_devices("CPU")]
    strategy.extended._device_input_worker_devices = collections.OrderedDict(
        (host, [host] * 4) for host in hosts
    )
    return strategy


def test_the_replicas_of_a_pod_have_the_rows_of_the_global_batch_in_order(examples_folder, pod):
    """As many of each host as of the others, whatever files they are in; from a later step, too."""
    folder = str(examples_folder)
    manifest = read_manifest(folder, "examples")
    for first in (0, 5):
        order = (folder, manifest, 16, 0, first, 12)
        distributed = distribution.distribute_dataset(
            pod, lambda context, order=order: pretraining_data.training_dataset(*order, context)
        )
        spec = distributed.element_spec["input_ids"]
        assert [core.shape for core in spec._component_specs] == [[2, 64]] * 8
        whole = list(pretraining_data.training_dataset(*order))
        steps = list(distributed)
        assert len(steps) == len(whole) >= 12 - first
        for found, expected in zip(steps, whole, strict=True):
            for name, values in expected.items():
                rows = pod.experimental_local_results(found[name])
                np.testing.assert_array_equal(np.concatenate(rows), values, name)


def test_the_hosts_of_a_pod_need_no_python(examples_folder, pod, monkeypatch):
    """Remote hosts run a graph, and nothing in it calls this process."""
    folder = str(examples_folder)
    manifest = read_manifest(folder, "examples")
    datasets = []

    def on_hosts(of_host, options):
        datasets.append(of_host(tf.distribute.InputContext(2, 1, 8)))

    monkeypatch.setattr(pod, "distribute_datasets_from_function", on_hosts)
    for make_dataset in (
        lambda context: pretraining_data.training_dataset(folder, manifest, 16, 0, 0, 5, context),
        lambda context: pretraining_data.held_out_dataset(folder, manifest, 16, context),
    ):
        distribution.distribute_dataset(pod, make_dataset)
    for dataset in datasets:
        graph = graph_pb2.GraphDef.FromString(dataset._as_serialized_graph().numpy())
        nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
        kinds = {node.op for node in nodes}
        assert not [
            name for name in ("TFRecord", "ParseExample") if not any(name in kind for kind in kinds)
        ]
        assert not [kind for kind in kinds if "Py" in kind or "Generator" in kind]


def test_a_step_on_a_tpu_takes_no_other_shape(pod, pretrained, examples_folder, monkeypatch):
    """Without the option TensorFlow lets the TPU pad what has another shape."""
    settings = checkpoint_settings.pretraining_config(checkpoint_settings.read_settings(pretrained))
    vocabulary = load_fast_tokenizer(f"{pretrained}/vocab.txt", lower_case=True)
    trainer = Pretrainer(settings, vocabulary, pod)
    asked = []
    monkeypatch.setattr(
        pod.extended, "tpu_run", lambda step, args, kwargs, options: asked.append(options)
    )
    batches = iter([{}, {}])
    loop = trainer.make_loop(generator_alone=False)
    tf.function(lambda: loop.python_function(batches, tf.constant(1)))()
    tf.function(lambda: trainer.eval_step.python_function(batches), autograph=False)()
    assert [options.experimental_enable_dynamic_batch_size for options in asked] == [False, False]


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.UnavailableError(None, None, "Socket closed\nMore."),
        tf.errors.AbortedError(None, None, "The TPU worker was restarted"),
        tf.errors.CancelledError(None, None, "RPC was cancelled"),
        tf.errors.DeadlineExceededError(None, None, "no heartbeat"),
        tf.errors.InvalidArgumentError(None, None, "Unable to find a context_id matching 7"),
    ],
)
def test_a_tpu_that_is_lost_ends_with_the_command_that_goes_on(
    pod, cpu, monkeypatch, error, capsys
):
    # The line of an error would be cut.
    monkeypatch.setattr(sys, "orig_argv", ["python", "run.py", "--hparams={'a': 1}", "x" * 400])
    with pytest.raises(Interrupted) as raised, distribution.interruptions(pod):
        raise error
    said = str(raised.value)
    assert str(error).splitlines()[0] in said and "\n" not in said
    assert capsys.readouterr().out == f"{shlex.join(sys.orig_argv)}\n"
    assert raised.value.exit_code == 75
    with pytest.raises(type(error)), distribution.interruptions(cpu):
        raise error


def test_an_error_of_a_tpu_that_will_come_again_is_not_an_interruption(pod):
    error = tf.errors.InvalidArgumentError(None, None, "Incompatible shapes")
    with pytest.raises(tf.errors.InvalidArgumentError), distribution.interruptions(pod):
        raise error


@pytest.mark.parametrize(
    "value",
    [
        "{",
        "{}",
        '"host1:2222"',
        '{"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 3}}',
    ],
)
def test_a_wrong_tf_config_is_named(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(UserError, match="the variable TF_CONFIG must name all workers"):
        distribution.make_strategy(strategy="multi_worker")


def test_each_replica_on_a_cpu_has_its_rows_in_order(cpu, two_devices, monkeypatch):
    """Without TensorFlow's iterator for devices, whose end can be long to wait for."""
    monkeypatch.delattr(multi_device_iterator_ops, "OwnedMultiDeviceIterator")
    batches = np.arange(24, dtype=np.int32).reshape(3, 4, 2)
    dataset = tf.data.Dataset.from_tensor_slices({"ids": batches})
    assert distribution.distribute_dataset(cpu, lambda _: dataset) is dataset

    def rows_of(context: tf.distribute.InputContext) -> tf.data.Dataset:
        rows = 4 // context.num_input_pipelines
        first = context.input_pipeline_id * rows
        return dataset.map(lambda batch: {"ids": batch["ids"][first : first + rows]})

    distributed = distribution.distribute_dataset(two_devices, rows_of)
    found = [two_devices.experimental_local_results(batch["ids"]) for batch in distributed]
    assert [rows.shape for rows in found[0]] == [(2, 2), (2, 2)]
    np.testing.assert_array_equal(tf.reshape(found, batches.shape), batches)


@pytest.mark.parametrize(
    ("device", "on_cpu", "on_tpu"), [("auto", 0, 1), ("cpu", 0, 0), ("tpu", 1, 1)]
)
def test_which_form_of_the_step(device, on_cpu, on_tpu, cpu):
    try:
        for strategy, expected in ((cpu, on_cpu), (emulated_tpu.make_strategy(2), on_tpu)):
            distribution.optimize_for(device, strategy)
            assert target.is_tpu() == bool(expected)
    finally:
        target.set_tpu(False)


class Workers(tf.distribute.MultiWorkerMirroredStrategy):
    """Two of them, of which the other one has zeros."""

    num_replicas_in_sync = 2

    def __init__(self):
        """Without other machines."""

    def run(self, function):
        return function()

    def gather(self, value, axis):
        return tf.concat([value, tf.zeros_like(value)], axis)


def test_all_workers_go_on_at_one_step(cpu):
    for strategy, step in ((cpu, 40), (Workers(), 0)):
        distribution.require_same_step(strategy, step, "--model_dir=out")
    words = r"^--model_dir=out: the workers found checkpoints of different steps there \(0, 40; 0"
    with pytest.raises(UserError, match=words):
        distribution.require_same_step(Workers(), 40, "--model_dir=out")
    assert distribution.of_all_workers(cpu, [2, 1]) == [(2, 1)]
    assert distribution.of_all_workers(Workers(), [2, 1]) == [(0, 0), (2, 1)]
