"""A pretraining run that goes from one corpus to the next, and checkpoints that it keeps."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from data_prep import examples
from data_prep.running import pipeline
from tests.pretraining_runs import weights
from tfbio.base.errors import DataError, UserError
from tfbio.base.manifests import MANIFEST, read_manifest, write_manifest
from tfbio.export import conversion
from tfbio.planning import pretraining_cost
from tfbio.runs import pretraining, pretraining_data
from tfbio.weights import same_model

BORDER, KEPT = 3, 5


@pytest.fixture(scope="module")
def folders(documents_folder, examples_folder, tmp_path_factory):
    """Returns the folders of two corpora: the examples of 64 tokens, and others as long."""
    folder = tmp_path_factory.mktemp("corpora") / "other"
    vocab = examples_folder / "vocab.txt"
    made = examples.ExampleSettings(sequence_length=64, held_out_fraction=0.5, shards=2)
    runner = pipeline.Runner(workers=1)
    examples.make_examples(documents_folder, vocab, folder, made, runner=runner)
    return [str(examples_folder), str(folder)]


@pytest.fixture(scope="module")
def changing(shallow):
    """Returns the settings of a run of two corpora that saves after every loop of steps."""
    run = dataclasses.replace(
        shallow.run,
        save_checkpoints_steps=1,
        keep_checkpoint_max=8,
        keep_checkpoints_at=(BORDER, KEPT),
    )
    return dataclasses.replace(shallow, objective="mlm", corpus_switch_steps=(BORDER,), run=run)


@pytest.fixture(scope="module")
def finished(changing, folders, cpu, tmp_path_factory):
    """Returns the folder of an undisturbed run, and the examples that it read."""
    folder, read = str(tmp_path_factory.mktemp("changing") / "model"), []
    with pytest.MonkeyPatch.context() as patch:
        spy_on_examples(patch, read)
        pretraining.pretrain(changing, folders, folder, cpu)
    return folder, read


def spy_on_examples(patch, read):
    """Appends the folder, the first and the last step to `read` when examples are read."""
    training_dataset = pretraining_data.training_dataset

    def spy(folder, manifest, batch_size, seed, first_step, last_step, *context):
        read.append((folder, first_step, last_step))
        arguments = (folder, manifest, batch_size, seed, first_step, last_step)
        return training_dataset(*arguments, *context)

    patch.setattr(pretraining_data, "training_dataset", spy)


def damage(folder, shard):
    """Changes a bit of a shard."""
    data = bytearray((folder / shard.file).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / shard.file).write_bytes(data)


def test_a_shard_that_is_damaged_after_the_run_began_is_named(shallow, folders, cpu, tmp_path):
    folder, model_dir = tmp_path / "examples", str(tmp_path / "model")
    shutil.copytree(folders[0], folder)
    (shard, *_) = read_manifest(folder, "examples").shards_of("heldout")

    def train(stop):
        run = dataclasses.replace(shallow.run, stop_at_step=stop, num_eval_batches=1_000)
        settings = dataclasses.replace(shallow, objective="mlm", run=run)
        pretraining.pretrain(settings, [str(folder)], model_dir, cpu)

    train(stop=2)
    damage(folder, shard)
    with pytest.raises(DataError, match=f"{shard.file} is damaged"):
        train(stop=4)


def test_the_corpus_changes_and_all_else_goes_on(finished, changing, folders, cpu, tmp_path):
    folder, read = finished
    first, second = folders
    assert read == [(first, 0, 3), (second, 0, 5)]
    alone, one = str(tmp_path / "alone"), dataclasses.replace(changing, corpus_switch_steps=())
    pretraining.pretrain(one, folders[:1], alone, cpu)
    for step, same in ((BORDER, True), (KEPT, False)):
        expected, found = (
            tf.train.load_checkpoint(f"{path}/kept-{step}") for path in (alone, folder)
        )
        equal = [
            np.array_equal(expected.get_tensor(name), found.get_tensor(name))
            for name in found.get_variable_to_shape_map()
            if name.startswith(("model/", "optimizer/")) and "OBJECT_GRAPH" not in name
        ]
        assert len(equal) > 50 and all(equal) == same, step
    data = json.loads(Path(folder, "config.json").read_text())["data"]
    assert list(data) == ["64", "64 from step 3"]
    assert data["64"] != data["64 from step 3"]


@pytest.mark.parametrize("step", [2, KEPT])
def test_a_run_that_stopped_continues_across_the_border(
    step, finished, changing, folders, cpu, tmp_path, monkeypatch
):
    folder, read = str(tmp_path / "model"), []
    shutil.copytree(finished[0], folder)
    for path in Path(folder).glob("ckpt-*.index"):
        if int(path.stem[5:]) > step:
            for file in Path(folder).glob(f"{path.stem}.*"):
                file.unlink()
    Path(folder, "checkpoint").write_text(f'model_checkpoint_path: "ckpt-{step}"\n')
    spy_on_examples(monkeypatch, read)
    pretraining.pretrain(changing, folders, folder, cpu)
    first, second = folders
    assert read == ([(first, 2, 3), (second, 0, 5)] if step == 2 else [(second, 2, 5)])
    expected, continued = weights(finished[0]), weights(folder)
    assert expected.keys() == continued.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(continued[name], value, err_msg=name)


def test_a_later_corpus_that_was_not_read_yet_is_read_where_a_run_goes_on(
    finished, changing, folders, cpu, tmp_path, monkeypatch
):
    """After `run.stop_at_step`, whose command found the first corpus alone."""
    folder, other, read = str(tmp_path / "model"), tmp_path / "other", []
    shutil.copytree(finished[0], folder)
    config = Path(folder, "config.json")
    settings = json.loads(config.read_text())
    del settings["data"]["64 from step 3"]
    config.write_text(json.dumps(settings))
    shutil.copytree(folders[1], other)
    damage(other, read_manifest(other, "examples").shards_of("train")[-1])
    verify = pretraining.verify

    def spy(folder, *arguments, **changes):
        read.append(folder)
        verify(folder, *arguments, **changes)

    monkeypatch.setattr(pretraining, "verify", spy)
    with pytest.raises(DataError, match="is damaged"):
        pretraining.pretrain(changing, [folders[0], str(other)], folder, cpu)
    assert read == [str(other)]


def test_commands_take_a_kept_checkpoint_by_its_name(finished, changing, tmp_path):
    folder, _ = finished
    kept = f"{folder}/kept-{KEPT}"
    settings = json.loads(Path(folder, "config.json").read_text())
    same_model.require_same_model(kept, settings)
    conversion.to_hugging_face(kept, str(tmp_path / "converted"))
    tensors = safetensors.numpy.load_file(tmp_path / "converted" / "model.safetensors")
    (found,) = (x for name, x in tensors.items() if name.endswith("word_embeddings.weight"))
    reader = tf.train.load_checkpoint(f"{folder}/ckpt-{KEPT}")
    shapes = reader.get_variable_to_shape_map()
    names = [x for x in shapes if x.startswith("model/encoder/") and "OPTIMIZER_SLOT" not in x]
    (name,) = (x for x in names if shapes[x] == list(found.shape))
    np.testing.assert_array_equal(found, reader.get_tensor(name))
    card = (tmp_path / "converted" / "README.md").read_text()
    assert "5 of 8 steps of 16 examples." in card


def test_each_corpus_has_its_examples(changing, folders, cpu, tmp_path):
    with pytest.raises(UserError, match=r"gives 1 of length 64, and the settings have 2 phase"):
        pretraining_data.find_data(changing, folders[:1])
    one = dataclasses.replace(changing, corpus_switch_steps=())
    with pytest.raises(UserError, match=r"gives 2 of length 64, and the settings have 1 phase"):
        pretraining_data.find_data(one, folders)
    data = pretraining_data.find_data(changing, folders)
    assert [folder for folder, _ in data] == folders
    report = pretraining_cost.report(changing, "v100", data).splitlines()
    places = [number for number, line in enumerate(report) if "steps at length 64" in line]
    assert [report[place].split()[0] for place in places] == ["3", "5"]
    assert [report[place + 1].strip().partition(":")[0] for place in places] == folders


def test_another_border_is_another_run(finished, changing, folders, cpu):
    other = dataclasses.replace(changing, corpus_switch_steps=(4,))
    with pytest.raises(UserError, match="holds a run with corpus_switch_steps = "):
        pretraining.pretrain(other, folders, finished[0], cpu)


@pytest.mark.parametrize(("step", "corpus", "place"), [(2, 0, 2), (3, 1, 0), (7, 1, 4)])
def test_the_batch_of_a_step_is_of_its_corpus(step, corpus, place, changing, folders, tmp_path):
    data = pretraining_data.find_data(changing, folders)
    path = pretraining._save_batch(changing, data, step, str(tmp_path))
    size, seed = changing.train_batch_size, changing.seed
    dataset = pretraining_data.training_dataset(*data[corpus], size, seed, 0, 5)
    expected = list(dataset.as_numpy_iterator())[place]
    np.testing.assert_array_equal(np.load(path)["input_ids"], expected["input_ids"])


@pytest.mark.parametrize(
    ("split", "words"),
    [("train", "is damaged"), ("heldout", "has 4 held-out examples, fewer than one batch of 16")],
)
def test_a_later_corpus_that_cannot_be_read_is_refused_at_the_start(
    split, words, changing, folders, cpu, tmp_path
):
    """Not at its first step, which a run may come to after weeks."""
    other, model_dir = tmp_path / "other", tmp_path / "model"
    shutil.copytree(folders[1], other)
    manifest = read_manifest(other, "examples")
    shard = manifest.shards_of(split)[-1]
    if split == "train":
        damage(other, shard)
    else:
        others = [each for each in manifest.shards if each.split != split]
        few = dataclasses.replace(shard, records=4)
        write_manifest(other / MANIFEST, dataclasses.replace(manifest, shards=[*others, few]))
    with pytest.raises(DataError, match=words):
        pretraining.pretrain(changing, [folders[0], str(other)], str(model_dir), cpu)
    assert not model_dir.exists()
