"""Checkpoints of a small model, and the newest one of a run."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfbio.base.errors import UserError
from tfbio.training import checkpointing
from tfbio.training.checkpointing import Checkpointer, CheckpointError
from tfbio.training.optimization import Adam


@pytest.fixture
def make():
    """A layer and its optimizer, with all their variables."""

    def pair():
        layer = keras.layers.Dense(2)
        layer.build([None, 3])
        optimizer = Adam(0.1)
        optimizer._create_all_weights(layer.trainable_variables)
        return layer, optimizer

    return pair


def step(layer, optimizer):
    gradients = [tf.ones_like(variable) for variable in layer.trainable_variables]
    optimizer.apply_gradients(zip(gradients, layer.trainable_variables, strict=True))


def test_what_was_saved_is_restored(make, tmp_path):
    layer, optimizer = make()
    saves = Checkpointer(layer, optimizer, str(tmp_path), keep=2)
    for _ in range(3):
        step(layer, optimizer)
        saves.save()
    saves.save()  # is saved already
    names = sorted(path.name for path in tmp_path.glob("ckpt-*.index"))
    assert names == ["ckpt-2.index", "ckpt-3.index"]
    other = make()
    Checkpointer(*other, str(tmp_path), keep=2, writes=False).restore(str(tmp_path / "ckpt-3"))
    pairs = zip(
        [*layer.variables, *optimizer.variables()],
        [*other[0].variables, *other[1].variables()],
        strict=True,
    )
    for one, two in pairs:
        np.testing.assert_array_equal(one, two)


def test_checkpoints_of_some_steps_are_kept_for_good(make, tmp_path):
    layer, optimizer = make()
    saves = Checkpointer(layer, optimizer, str(tmp_path), keep=1, keep_at=(2, 4))
    expected = {}
    for number in range(1, 6):
        step(layer, optimizer)
        saves.save()
        expected[number] = layer.kernel.numpy()
    names = sorted(path.name for path in tmp_path.glob("*.index"))
    assert names == ["ckpt-5.index", "kept-2.index", "kept-4.index"]
    assert checkpointing.find_newest(str(tmp_path)) == f"{tmp_path}/ckpt-5"
    for number in (2, 4):
        other = make()
        restored = Checkpointer(*other, str(tmp_path), keep=1, writes=False)
        restored.restore(f"{tmp_path}/kept-{number}")
        np.testing.assert_array_equal(other[0].kernel, expected[number])
        assert int(other[1].iterations.numpy()) == number


def test_a_step_that_was_saved_before_it_was_to_be_kept_is_kept(make, tmp_path):
    layer, optimizer = make()
    step(layer, optimizer)
    Checkpointer(layer, optimizer, str(tmp_path), keep=1).save()
    other = make()
    again = Checkpointer(*other, str(tmp_path), keep=1, keep_at=(1,))
    again.restore(f"{tmp_path}/ckpt-1")
    step(*other)
    again.save()
    names = sorted(path.name for path in tmp_path.glob("*.index"))
    assert names == ["ckpt-2.index", "kept-1.index"]


def test_a_checkpoint_for_good_is_of_the_run_that_is_there_now(make, tmp_path):
    """Replaces one of a run before, all of which but that was removed to start anew."""
    for rate in (0.5, 0.25):
        layer, optimizer = make()
        optimizer.learning_rate = rate
        step(layer, optimizer)
        Checkpointer(layer, optimizer, str(tmp_path), keep=1, keep_at=(1,)).save()
        for path in (*tmp_path.glob("ckpt-1.*"), tmp_path / "checkpoint"):
            path.unlink()
        kept = tf.train.load_checkpoint(f"{tmp_path}/kept-1")
        (name,) = (
            x for x in kept.get_variable_to_shape_map() if x.startswith("model/kernel/.ATTRIBUTES")
        )
        np.testing.assert_array_equal(kept.get_tensor(name), layer.kernel)


def test_who_does_not_write_saves_nothing(make, tmp_path):
    Checkpointer(*make(), str(tmp_path), keep=1, writes=False).save()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("writes", [True, False])
def test_weights_that_are_not_finite_are_not_saved(writes, make, tmp_path):
    """Ends a process that does not write, too: it would wait for the one that does."""
    layer, optimizer = make()
    layer.bias.assign([np.nan, 0.0])
    with pytest.raises(UserError, match="bias:0 is not finite at step 0: nothing of it is saved"):
        Checkpointer(layer, optimizer, str(tmp_path), keep=1, writes=writes).save()
    assert not list(tmp_path.iterdir())


def test_the_newest_whole_checkpoint_is_found(tmp_path, capsys):
    folder = str(tmp_path)
    assert checkpointing.find_newest(folder) is None
    values = tf.Variable(tf.range(1000.0))
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(values=values), folder, 3)
    for step in (1, 2, 3):
        manager.save(step)
    assert checkpointing.find_newest(folder) == f"{folder}/ckpt-3"

    data = tmp_path / "ckpt-3.data-00000-of-00001"
    whole = data.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:500] + b"x" + whole[501:], b""):
        data.write_bytes(broken)
        with pytest.raises(CheckpointError, match=r"ckpt-3 is damaged .*continues from .*ckpt-2"):
            checkpointing.find_newest(folder)

    for path in tmp_path.glob("ckpt-3.*"):
        path.unlink()
    assert checkpointing.find_newest(folder) == f"{folder}/ckpt-2"
    assert "ckpt-3 is gone" in capsys.readouterr().out
    assert tf.train.latest_checkpoint(folder) == f"{folder}/ckpt-2"
    # The older ones are not forgotten: not as something to fall back on, nor as something to sweep.
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(values=values), folder, 3)
    manager.save(4)
    assert [path[-1] for path in manager.checkpoints] == ["1", "2", "4"]
    for text in ("", "what?"):
        (tmp_path / "checkpoint").write_text(text)
        with pytest.raises(CheckpointError, match="newest checkpoint, is missing") as raised:
            checkpointing.find_newest(folder)
        assert f"or remove {folder} to start anew" in str(raised.value)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-4"')
    for path in tmp_path.glob("ckpt-*"):
        path.unlink()
    with pytest.raises(CheckpointError, match="there is no older checkpoint"):
        checkpointing.find_newest(folder)


def test_a_folder_whose_name_tensorflow_takes_for_a_pattern_is_not_called_damaged(
    tmp_path, monkeypatch
):
    folder = tmp_path / "run[v2]"
    values = tf.train.Checkpoint(values=tf.Variable(7.0))
    tf.train.CheckpointManager(values, str(folder), 3).save(1)
    with pytest.raises(UserError, match=r"run\[v2\]/ckpt-1: TensorFlow takes .*rename the folder"):
        checkpointing.find_newest(str(folder))
    # As the remedy says; and in the folder itself, whose name TensorFlow does not see.
    monkeypatch.chdir(folder)
    assert checkpointing.find_newest(".") == "./ckpt-1"
    folder.rename(tmp_path / "run")
    assert checkpointing.find_newest(f"{tmp_path}/run") == f"{tmp_path}/run/ckpt-1"


def test_a_run_that_was_killed_before_it_noted_its_first_checkpoint_has_it(tmp_path):
    folder = str(tmp_path)
    values = tf.Variable(tf.range(1000.0))
    tf.train.CheckpointManager(tf.train.Checkpoint(values=values), folder, 3).save(1)
    written = tf.train.get_checkpoint_state(folder)
    (tmp_path / "checkpoint").unlink()
    assert checkpointing.find_newest(folder, repair=False) == f"{folder}/ckpt-1"
    assert not (tmp_path / "checkpoint").exists()
    assert checkpointing.find_newest(folder) == f"{folder}/ckpt-1"
    repaired = tf.train.get_checkpoint_state(folder)
    assert repaired.all_model_checkpoint_paths == written.all_model_checkpoint_paths
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(values=values), folder, 3)
    manager.save(2)
    assert [path[-1] for path in manager.checkpoints] == ["1", "2"]


def test_of_several_checkpoints_without_their_list_none_is_taken(tmp_path):
    """Guesses at none by its name: a listing has 9 behind 10."""
    values = tf.Variable(tf.range(10.0))
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(values=values), str(tmp_path), 3)
    for number in (9, 10):
        manager.save(number)
    (tmp_path / "checkpoint").unlink()
    with pytest.raises(CheckpointError, match="newest checkpoint, is missing"):
        checkpointing.find_newest(str(tmp_path))


def test_what_a_killed_run_left_of_a_checkpoint_goes(tmp_path):
    for name in ("ckpt-2_temp", "kept-5_temp"):
        (tmp_path / name).mkdir()
    part = "part-00000-of-00001.data-00000-of-00001.tempstate1"
    names = (f"ckpt-2_temp/{part}", f"kept-5_temp/{part}", "checkpoint.tmp0a")
    for name in (*names, "ckpt-1.index", "checkpoint", "own.txt"):
        (tmp_path / name).touch()
    checkpointing.remove_half_written(str(tmp_path))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["checkpoint", "ckpt-1.index", "own.txt"]
