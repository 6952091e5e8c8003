"""Two logical CPU devices, and real examples, for the tests of the models."""

import pytest
import tensorflow as tf

from data_prep import sentence_roles
from tfbio import config, pretraining, records

# Before anything else starts TensorFlow: devices cannot be divided later.
CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.config.threading.set_inter_op_parallelism_threads(1)


@pytest.fixture(scope="session")
def two_devices():
    """A strategy with two replicas, as on a machine with two GPUs."""
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


@pytest.fixture(scope="session")
def cpu():
    return tf.distribute.OneDeviceStrategy("/cpu:0")


@pytest.fixture(scope="session")
def pretrained(examples_folder, cpu, tmp_path_factory):
    """The folder of a pretraining run of two steps."""
    words = records.read_manifest(examples_folder, "examples").settings["vocab_size"]
    settings = config.PretrainingConfig(
        encoder=config.EncoderConfig(
            vocab_size=words,
            embedding_size=32,
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=96,
            max_position_embeddings=64,
        ),
        generator_hidden_fraction=0.5,
        sequence_length=64,
        train_batch_size=8,
        num_train_steps=2,
        num_warmup_steps=1,
        run=config.PretrainingRun(num_eval_batches=1),
    )
    folder = str(tmp_path_factory.mktemp("pretrained") / "model")
    pretraining.pretrain(settings, [str(examples_folder)], folder, cpu)
    return folder


@pytest.fixture(scope="session")
def sentences(documents_folder):
    """Of real abstracts, the first 1,000."""
    manifest = records.read_manifest(documents_folder, "documents")
    found = []
    for shard in manifest.shards:
        for record in records.read_shard(documents_folder, shard):
            found += [text.decode() for text in records.parse_example(record)["sentences"]]
    return found[:1000]


@pytest.fixture(scope="session")
def roles_folder(documents_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles") / "sentence_roles"
    sentence_roles.make_sentence_roles(documents_folder, folder, held_out_fraction=0.3)
    return str(folder)
