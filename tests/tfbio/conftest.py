"""Two logical CPU devices, and real examples, for the tests of the models."""

import pytest
import tensorflow as tf

# Before anything else starts TensorFlow: devices cannot be divided later.
CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.config.threading.set_inter_op_parallelism_threads(1)


@pytest.fixture(scope="session")
def two_devices():
    """A strategy with two replicas, as on a machine with two GPUs."""
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
