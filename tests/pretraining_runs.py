"""Settings of a small pretraining run, and what is read of the folder of one."""

import contextlib
import dataclasses
import os

import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tfbio.base.manifests import read_manifest
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretrainer import Pretrainer
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_run import PretrainingRun
from tfbio.runs import pretraining, pretraining_data, pretraining_folder
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.text.vocabularies import find_vocabulary


def small_settings(examples_folder):
    """Those of eight steps, with a small encoder of the examples' vocabulary."""
    words = read_manifest(examples_folder, "examples").settings["vocab_size"]
    return PretrainingConfig(
        encoder=EncoderConfig(
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
        train_batch_size=16,
        num_train_steps=8,
        num_warmup_steps=2,
        learning_rate=1e-3,
        run=PretrainingRun(
            steps_per_loop=2, save_checkpoints_steps=4, eval_every_steps=4, num_eval_batches=2
        ),
    )


def of_one_layer(settings):
    """Returns the settings with an encoder of one layer, which is half as much to trace."""
    encoder = dataclasses.replace(settings.encoder, num_hidden_layers=1)
    return dataclasses.replace(settings, encoder=encoder)


def model_at_start(settings, examples_folder, init_checkpoint, strategy):
    """Returns the model of a run that starts from a checkpoint, before its first step.

    Args:
      settings: of the run.
      examples_folder: its examples.
      init_checkpoint: what it starts from.
      strategy: where the model is made.
    """
    data = pretraining_data.find_data(settings, [str(examples_folder)])
    of_run = pretraining_folder.settings_of(settings, data, init_checkpoint)
    pretraining._check_start(of_run, data, init_checkpoint)
    tokenizer = load_fast_tokenizer(find_vocabulary(examples_folder), of_run["lower_case"])
    made = Pretrainer(settings, tokenizer, strategy)
    pretraining._initialize(made, pretraining_data.word_counts(*data[0]), init_checkpoint)
    return made.model


def weights(folder):
    """Reads a run's newest checkpoint: model and optimizer, by name."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(folder))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.startswith(("model/", "optimizer/")) and "OBJECT_GRAPH" not in name
    }


def scalars(folder, part):
    """The curves of a part of the logs: by name, steps and values."""
    events = EventAccumulator(os.path.join(folder, "logs", part)).Reload()
    return {
        tag: [(e.step, tf.make_ndarray(e.tensor_proto).item()) for e in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


@contextlib.contextmanager
def eagerly():
    """Runs `tf.function`s without tracing them, which is quicker where there are a few steps."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)
