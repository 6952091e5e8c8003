"""Pretraining runs whose gradients or weights are not finite."""

import dataclasses

import numpy as np
import pytest
import tf_keras as keras

from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest
from tfbio.runs import pretraining, pretraining_data

pytestmark = pytest.mark.usefixtures("pretraining_traced_once")


@pytest.fixture
def policy_afterwards():
    before = keras.mixed_precision.global_policy()
    yield
    keras.mixed_precision.set_global_policy(before)


# Of these the first update makes the weights infinite, and all later ones are skipped. On two
# devices the objective is the smaller one to trace.
MAD = {"learning_rate": 3e38, "num_warmup_steps": 1, "num_train_steps": 100}
DEVICES = {"cpu": {}, "two_devices": {"objective": "mlm"}}


@pytest.mark.parametrize(
    ("devices", "optimizer"), [("cpu", "adamw"), ("two_devices", "adamw"), ("two_devices", "lamb")]
)
def test_steps_that_are_not_finite_are_counted_and_end_the_run(
    shallow, examples_folder, devices, optimizer, request, tmp_path, capsys
):
    strategy = request.getfixturevalue(devices)
    run = dataclasses.replace(shallow.run, max_skipped_steps=3)
    mad = dataclasses.replace(shallow, optimizer=optimizer, run=run, **MAD, **DEVICES[devices])
    with pytest.raises(UserError, match="3 steps gave gradients that are not finite") as raised:
        pretraining.pretrain(mad, [str(examples_folder)], str(tmp_path / "model"), strategy)
    assert "warning: 2 of the last 2 steps were skipped" in capsys.readouterr().out
    (saved,) = (tmp_path / "model").glob("skipped_step_*.npz")
    remedy = (
        "try, with another --model_dir, a lower learning_rate or a longer warm-up; if they are few "
        "among many, the same command goes on, and counts anew."
    )
    assert str(raised.value).endswith(f"in {saved}: {remedy}")
    step = int(saved.stem.rsplit("_", 1)[1])
    manifest = read_manifest(examples_folder, "examples")
    dataset = pretraining_data.training_dataset(
        str(examples_folder), manifest, mad.train_batch_size, mad.seed, 0, step + 1
    )
    expected = next(dataset.skip(step).as_numpy_iterator())
    batch = np.load(saved)
    assert set(batch) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(batch[name], values)


def test_float32_is_named_where_it_may_help(
    shallow, examples_folder, cpu, policy_afterwards, tmp_path
):
    run = dataclasses.replace(shallow.run, max_skipped_steps=1, precision="bfloat16")
    mad = dataclasses.replace(shallow, run=run, **MAD, objective="mlm")
    with pytest.raises(UserError, match="try run.precision=float32 or, with another"):
        pretraining.pretrain(mad, [str(examples_folder)], str(tmp_path / "model"), cpu)


@pytest.mark.parametrize("devices", DEVICES)
def test_weights_that_are_not_finite_are_not_saved(
    shallow, examples_folder, devices, request, tmp_path
):
    """The first update makes them so; the second, which is the last, is skipped."""
    run = dataclasses.replace(shallow.run, stop_at_step=2)
    mad = dataclasses.replace(shallow, run=run, **MAD, **DEVICES[devices])
    folder = tmp_path / "model"
    with pytest.raises(UserError, match="is not finite at step 2: nothing of it is saved"):
        pretraining.pretrain(
            mad, [str(examples_folder)], str(folder), request.getfixturevalue(devices)
        )
    assert not list(folder.glob("ckpt*")) and not (folder / "checkpoint").exists()
