"""Files that are no checkpoints of TensorFlow 1."""

import pytest
import tensorflow as tf

from tests.tensorflow1 import make
from tfbio.weights import tensorflow1_weights
from tfbio.weights.tensorflow1_checkpoint import TensorFlow1Error


def test_a_file_that_is_no_checkpoint_is_named(tmp_path):
    model, _ = make()
    path = tmp_path / "model.ckpt"
    path.write_text("no checkpoint")
    with pytest.raises(TensorFlow1Error, match="model.ckpt is no checkpoint"):
        tensorflow1_weights.load(str(path), model)
    tf.train.Checkpoint(model=model).write(str(path))
    with pytest.raises(TensorFlow1Error, match="holds no electra/embeddings/word_embeddings"):
        tensorflow1_weights.load(str(path), model)
