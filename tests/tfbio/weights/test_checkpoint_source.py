"""The program that wrote a folder."""

import tensorflow as tf

from tfbio.weights import checkpoint_source
from tfbio.weights.checkpoint_source import Source


def test_the_program_that_wrote_a_folder(saved, tmp_path):
    _, folder = saved
    assert checkpoint_source.source_of(str(folder)) is Source.RUN
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"model_type": "bert"}')
    assert checkpoint_source.source_of(str(tmp_path / "other")) is Source.HUGGING_FACE
    tensors = {"prefix": f"{tmp_path}/model.ckpt-1", "tensor_names": ["bert/x"]}
    tf.raw_ops.SaveV2(**tensors, shape_and_slices=[""], tensors=[tf.zeros([1])])
    assert checkpoint_source.source_of(f"{tmp_path}/model.ckpt-1") is Source.TENSORFLOW1
