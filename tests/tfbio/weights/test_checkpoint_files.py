"""The newest checkpoint of a run, and the program that wrote a folder."""

import pytest
import tensorflow as tf

from tfbio.weights import (
    checkpoint_files,
)
from tfbio.weights.checkpoint_files import CheckpointError, Source


def test_the_newest_whole_checkpoint_is_found(tmp_path, capsys):
    folder = str(tmp_path)
    assert checkpoint_files.find_newest(folder) is None
    values = tf.Variable(tf.range(1000.0))
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(values=values), folder, 3)
    for step in (1, 2, 3):
        manager.save(step)
    assert checkpoint_files.find_newest(folder) == f"{folder}/ckpt-3"

    data = tmp_path / "ckpt-3.data-00000-of-00001"
    whole = data.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:500] + b"x" + whole[501:], b""):
        data.write_bytes(broken)
        with pytest.raises(CheckpointError, match=r"ckpt-3 is damaged .*continues from .*ckpt-2"):
            checkpoint_files.find_newest(folder)

    for path in tmp_path.glob("ckpt-3.*"):
        path.unlink()
    assert checkpoint_files.find_newest(folder) == f"{folder}/ckpt-2"
    assert "ckpt-3 is gone" in capsys.readouterr().out
    assert tf.train.latest_checkpoint(folder) == f"{folder}/ckpt-2"
    # The older ones are not forgotten: not as something to fall back on, nor as something to sweep.
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(values=values), folder, 3)
    manager.save(4)
    assert [path[-1] for path in manager.checkpoints] == ["1", "2", "4"]
    for text in ("", "what?"):
        (tmp_path / "checkpoint").write_text(text)
        with pytest.raises(CheckpointError, match="which names the newest checkpoint, is missing"):
            checkpoint_files.find_newest(folder)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-4"')
    for path in tmp_path.glob("ckpt-*"):
        path.unlink()
    with pytest.raises(CheckpointError, match="there is no older checkpoint"):
        checkpoint_files.find_newest(folder)


def test_a_run_that_was_killed_before_it_noted_its_first_checkpoint_has_it(tmp_path):
    folder = str(tmp_path)
    values = tf.Variable(tf.range(1000.0))
    tf.train.CheckpointManager(tf.train.Checkpoint(values=values), folder, 3).save(1)
    written = tf.train.get_checkpoint_state(folder)
    (tmp_path / "checkpoint").unlink()
    assert checkpoint_files.find_newest(folder, repair=False) == f"{folder}/ckpt-1"
    assert not (tmp_path / "checkpoint").exists()
    assert checkpoint_files.find_newest(folder) == f"{folder}/ckpt-1"
    repaired = tf.train.get_checkpoint_state(folder)
    assert repaired.all_model_checkpoint_paths == written.all_model_checkpoint_paths
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(values=values), folder, 3)
    manager.save(2)
    assert [path[-1] for path in manager.checkpoints] == ["1", "2"]


def test_what_a_killed_run_left_of_a_checkpoint_goes(tmp_path):
    (tmp_path / "ckpt-2_temp").mkdir()
    names = ("ckpt-2_temp/part-00000-of-00001.data-00000-of-00001.tempstate1", "checkpoint.tmp0a")
    for name in (*names, "ckpt-1.index", "checkpoint", "own.txt"):
        (tmp_path / name).touch()
    checkpoint_files.remove_half_written(str(tmp_path))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["checkpoint", "ckpt-1.index", "own.txt"]


def test_the_program_that_wrote_a_folder(saved, tmp_path):
    _, folder = saved
    assert checkpoint_files.source_of(str(folder)) is Source.RUN
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"model_type": "bert"}')
    assert checkpoint_files.source_of(str(tmp_path / "other")) is Source.HUGGING_FACE
    tensors = {"prefix": f"{tmp_path}/model.ckpt-1", "tensor_names": ["bert/x"]}
    tf.raw_ops.SaveV2(**tensors, shape_and_slices=[""], tensors=[tf.zeros([1])])
    assert checkpoint_files.source_of(f"{tmp_path}/model.ckpt-1") is Source.TENSORFLOW1
