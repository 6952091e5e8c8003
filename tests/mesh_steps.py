"""Takes the same steps without a mesh and on several, and prints what each gives as JSON.

  python tests/mesh_steps.py DEVICES SETTINGS MESH ...

In a process of its own, since TensorFlow's devices cannot be divided twice.
"""

import contextlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

# In place of its own folder, whose `tfbio` is that of the tests.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import tensorflow as tf  # noqa: E402
from tensorflow.experimental import dtensor  # noqa: E402

from tfbio.base import config, device_flags  # noqa: E402
from tfbio.models import target  # noqa: E402
from tfbio.objectives.mesh_pretrainer import MeshPretrainer  # noqa: E402
from tfbio.objectives.pretrainer import Pretrainer  # noqa: E402
from tfbio.objectives.pretraining_config import PretrainingConfig  # noqa: E402
from tfbio.training import distribution, precision  # noqa: E402
from tfbio.training.mesh import MeshStrategy  # noqa: E402

STEPS, ROWS, LENGTH, WORDS = 8, 8, 16, 62
SMALL = {
    "encoder": {
        "vocab_size": WORDS,  # which 4 devices do not divide
        "embedding_size": 16,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 32,
        "max_position_embeddings": LENGTH,
        "layer_norm_first": True,
    },
    "objective": "mlm",
    "sentence_pair_head": True,
    "sentence_pair_loss": True,
    "sequence_length": LENGTH,
    "train_batch_size": ROWS,
    "num_train_steps": 100,
    "num_warmup_steps": 2,
    "learning_rate": 1e-3,
    "max_gradient_norm": 0.5,
    "seed": 3,
}
TOKENS = SimpleNamespace(cls_id=2, sep_id=3, pad_id=0, mask_id=4, begins_word=[True] * WORDS)


def batches(count, with_labels):
    """Yields batches of pairs of segments, always the same; one row is padded."""
    draw = np.random.default_rng(1)
    for _ in range(count):
        ids = draw.integers(5, WORDS, (ROWS, LENGTH))
        mask = np.ones_like(ids)
        mask[3, 10:] = 0
        segments = np.broadcast_to(np.arange(LENGTH) > 8, ids.shape)
        arrays = {"input_ids": ids * mask, "input_mask": mask, "segment_ids": segments * mask}
        if with_labels:
            arrays["label"] = draw.integers(0, 2, ROWS)
        yield {name: tf.constant(array, tf.int32) for name, array in arrays.items()}


def steps_of(pretrainer):
    """Trains and evaluates; returns the figures of each step, and those of the evaluation."""
    examples = list(batches(STEPS + 2, pretrainer.config.sentence_pair_loss))
    held_out = {name: tf.stack([x[name] for x in examples[STEPS:]]) for name in examples[0]}
    pretrainer.eval_dataset = tf.data.Dataset.from_tensor_slices(held_out)
    trained = {name: tf.stack([x[name] for x in examples[:STEPS]]) for name in examples[0]}
    pretrainer.train_dataset = tf.data.Dataset.from_tensor_slices(trained)
    figures = [pretrainer.train(1) for _ in range(STEPS)]
    read = [{name: float(value) for name, value in each.items()} for each in figures]
    return read, {name: float(value) for name, value in pretrainer.evaluate().items()}


def largest_difference(one, other):
    """Returns the largest difference of the values of two lists of variables."""
    pairs = zip(one, other, strict=True)
    return max(float(np.abs(a.numpy() - b.numpy()).max()) for a, b in pairs)


def numbers_of(variables):
    """Returns how many numbers of the variables each device has."""
    parts = [dtensor.unpack(variable.read_value()) for variable in variables]
    return [sum(int(tf.size(part)) for part in own) for own in zip(*parts, strict=True)]


def main(devices, settings, *meshes):
    """Prints what the steps give without a mesh and on each."""
    strategy = distribution.make_strategy(mesh=f"1x{devices}")
    settings = config.load(PretrainingConfig, json.dumps(SMALL), json.loads(settings))
    precision.set_precision(settings.run.precision, strategy, settings.encoder.hidden_size)
    whole = Pretrainer(settings, TOKENS, strategy)
    # The same random numbers for dropout. Without it, all others are the same.
    drops = settings.encoder.hidden_dropout_prob or settings.encoder.attention_probs_dropout_prob
    with target.mesh() if drops else contextlib.nullcontext():
        steps, evaluation = steps_of(whole)
    found = {"settings": SMALL, "whole": {"steps": steps, "evaluation": evaluation}}
    for text in meshes:
        pretrainer = MeshPretrainer(settings, TOKENS, MeshStrategy(device_flags.parse_mesh(text)))
        pretrainer.spread()
        steps, evaluation = steps_of(pretrainer)
        pretrainer.collect()
        own = pretrainer.on_mesh
        found[text] = {
            "steps": steps,
            "evaluation": evaluation,
            "weights": largest_difference(whole.model.variables, pretrainer.model.variables),
            "averages": largest_difference(
                whole.optimizer.variables(), pretrainer.optimizer.variables()
            ),
            "parameters": numbers_of(own.model.variables),
            # But for the first, the number of steps.
            "slots": numbers_of(own.optimizer.variables()[1:]),
            "parts": {
                variable.name: [list(part.shape) for part in dtensor.unpack(variable.read_value())]
                for variable in [*own.model.variables, *own.optimizer.variables()]
            },
            "shapes": {
                variable.name: list(variable.shape)
                for variable in [*own.model.variables, *own.optimizer.variables()]
            },
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
