"""Fine-tunes each type of task without a mesh and on one, and prints how far both differ as JSON.

  python tests/mesh_finetuning.py MESH VOCABULARY TYPE ...

TYPE is one of `tests.task_types.TASK_TYPES`. In a process of its own, since TensorFlow's devices
cannot be divided twice.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

# In place of its own folder, whose `tfbio` is that of the tests.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import tensorflow as tf  # noqa: E402

from tfbio.models.encoder_config import EncoderConfig  # noqa: E402
from tfbio.runs import mesh_finetuner  # noqa: E402
from tfbio.training import distribution  # noqa: E402

# Of the tests' folder itself: installed packages bring a package `tests`.
_spec = importlib.util.spec_from_file_location(
    "task_types", Path(__file__).with_name("task_types.py")
)
task_types = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(task_types)

SENTENCES = [
    "The patients had two tumours in the colon and were treated with cisplatin .",
    "Aspirin prevents clots in people at risk of a stroke .",
    "Cells of the line were grown in plates for three days .",
    "The protein binds to p53 and prevents the cell from dying .",
    "Treatment with carboplatin caused nausea in most of the people .",
    "A mutation of the gene causes a rare disease of the blood .",
    "We compared two groups of mice that were fed as usual .",
    "There was no change of the blood pressure after ten weeks .",
]


def main(mesh, vocabulary, *names):
    """Prints for each type the largest difference of a loss, an output and a weight."""
    strategy = distribution.make_strategy(mesh=mesh)
    words = len(Path(vocabulary).read_text(encoding="utf-8").splitlines())
    shape = EncoderConfig(
        vocab_size=words,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    found = {}
    for name in names:
        results = []
        for make, place in (
            (task_types.finetuner.Finetuner, tf.distribute.OneDeviceStrategy("/cpu:0")),
            (mesh_finetuner.MeshFinetuner, strategy),
        ):
            task_types.finetuner.Finetuner, before = make, task_types.finetuner.Finetuner
            try:
                made, features = task_types.make_finetuner(
                    name, place, shape, vocabulary, SENTENCES
                )
                made.initialize(0, "")
                order = np.tile(np.arange(8), 3)
                losses = [loss for _, loss, _ in task_types.train(made, features, order)]
                outputs = made.predict(features)
                weights = [variable.numpy() for variable in made.model.variables]
                results.append((losses, outputs, weights))
            finally:
                task_types.finetuner.Finetuner = before
        found[name] = [
            max(float(np.abs(np.subtract(a, b)).max()) for a, b in zip(*each, strict=True))
            for each in zip(*results, strict=True)
        ]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
