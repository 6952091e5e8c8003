"""The settings of checkpoints, and the mistakes in them that are named."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.hugging_face import save_model, small_model
from tests.run_files import write_pretraining_settings
from tests.tfbio.weights.conftest import SETTINGS, SHAPE
from tfbio.base.errors import UserError
from tfbio.base.json_files import SchemaError
from tfbio.models.encoder import Encoder
from tfbio.objectives.electra import Electra
from tfbio.training.checkpointing import CheckpointError
from tfbio.weights import checkpoint_settings, checkpoint_weights, fine_tuned, weight_names


def test_what_is_missing_is_named(saved, tmp_path):
    _, folder = saved
    (folder / "checkpoint").unlink()
    (folder / "ckpt-40.index").touch()
    with pytest.raises(CheckpointError, match="which names the newest checkpoint, is missing"):
        checkpoint_weights.restore_encoder(str(folder), Encoder(SHAPE))
    (folder / "ckpt-30.index").unlink()
    (folder / "ckpt-40.index").unlink()
    with pytest.raises(CheckpointError, match="holds no checkpoint: run run_pretraining.py first"):
        checkpoint_weights.restore_encoder(str(folder), Encoder(SHAPE))
    with pytest.raises(CheckpointError, match="nowhere holds no config.json"):
        checkpoint_settings.read_settings(str(folder / "nowhere"))
    (folder / "config.json").write_text(json.dumps({"task": "x"}))
    with pytest.raises(CheckpointError, match="names no encoder"):
        checkpoint_settings.read_settings(str(folder))
    write_pretraining_settings(folder, SETTINGS)
    settings = json.loads((folder / "config.json").read_text())
    for changed, words in (
        ({"lower_case": None}, "lower_case must be true or false, not null; give the folder of a"),
        ({"encoder": {}}, "encoder.vocab_size is missing; give the folder of a run"),
        ({"family": "xlnet"}, "family must be .*, not 'xlnet'; give the folder of a run"),
    ):
        (folder / "config.json").write_text(json.dumps(settings | changed))
        with pytest.raises(SchemaError, match=words):
            checkpoint_settings.read_settings(str(folder))
    (folder / "config.json").write_text("{")
    with pytest.raises(SchemaError, match="not valid JSON .*: give the folder of a run"):
        checkpoint_settings.read_settings(str(folder))


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "model.safetensors.index.json"])
def test_an_old_model_that_does_not_say_its_family_is_told_where_to(weights, tmp_path):
    """As SciBERT's folders."""
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 24}))
    with pytest.raises(CheckpointError, match="names no encoder"):
        checkpoint_settings.read_settings(str(tmp_path))
    (tmp_path / weights).touch()
    said = r'config\.json has no model_type, .*: add "model_type": "bert" \(or "roberta", .* file'
    with pytest.raises(CheckpointError, match=said):
        checkpoint_settings.read_settings(str(tmp_path))


SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
NUMBERS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "layer_norm_eps",
    "hidden_act",
)
OF_LABELS = ("architectures", "id2label", "problem_type")
READ = {
    "RobertaForSequenceClassification": (*SIZES, *NUMBERS, *OF_LABELS, "model_type")
    + ("pad_token_id", "position_embedding_type", "is_decoder", "add_cross_attention"),
    "AlbertForMaskedLM": ("embedding_size", "num_hidden_groups", "inner_group_num"),
    "bert_config.json": (*SIZES[1:], *NUMBERS, "num_hidden_groups", "inner_group_num"),
    "run": ("lower_case", "objective", "generator_layers_fraction", "uniform_generator"),
}
# What may be so.
ALLOWED = [(name, None) for name in OF_LABELS]


@pytest.fixture(scope="module")
def with_settings(tmp_path_factory):
    """The file of settings of a model, by the keys of `READ`; each is made once."""
    folders = {}

    def make(name):
        if name in folders:
            return folders[name]
        folder = tmp_path_factory.mktemp("model")
        path = folders[name] = folder / "config.json"
        if name == "bert_config.json":
            path = folders[name] = folder / name
            # Whose heads are known without the file.
            changes = {"embedding_size": 64, "hidden_size": 64, "num_attention_heads": 1}
            shape = dataclasses.replace(SHAPE, **changes)
            named = weight_names.of_encoder(Encoder(shape), "bert")
            parts = [np.split(variable, len(names), axis=-1) for variable, names in named]
            tensors = dict(zip(sum((x.names for x in named), []), sum(parts, []), strict=True))
            prefix, slices = str(folder / "bert_model.ckpt"), [""] * len(tensors)
            tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=list(tensors),
                shape_and_slices=slices,
                tensors=list(tensors.values()),
            )
            (folder / "vocab.txt").write_text("[PAD]\nthe\n")
            path.write_text(json.dumps(dataclasses.asdict(shape)))
        elif name == "run":
            write_pretraining_settings(folder, SETTINGS)
            tf.train.Checkpoint(model=Electra(SETTINGS)).write(str(folder / "ckpt-30"))
            (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-30"\n')
        else:
            save_model(small_model(name), folder)
        return path

    return make


def read_all(folder):
    """All settings that are read of a model, whatever it is."""
    settings = checkpoint_settings.read_settings(folder)
    checkpoint_settings.read_encoder_config(folder)
    if fine_tuned.is_one(folder):
        fine_tuned.read_settings(folder)
        fine_tuned.read_calibration(folder)
    elif "objective" in settings:
        checkpoint_settings.pretraining_config(settings, folder)


@pytest.mark.parametrize("name, key", [(name, key) for name in READ for key in READ[name]])
def test_settings_of_the_wrong_kind_are_named(name, key, with_settings):
    path = with_settings(name)
    settings = json.loads(path.read_text())
    read_all(str(path.parent))
    try:
        for value in ("x", None, [1], {"a": 1}, -5):
            path.write_text(json.dumps({**settings, key: value}))
            if (key, value) in ALLOWED:
                read_all(str(path.parent))
                continue
            with pytest.raises(UserError) as error:
                read_all(str(path.parent))
            said = str(error.value)
            assert str(path) in said and key in said and "\n" not in said, value
            assert said.endswith(".") and not said.endswith(".."), value
        path.write_text(json.dumps({x: y for x, y in settings.items() if x != key}))
        if key in (*SIZES[:-1], "embedding_size", "lower_case", "model_type"):
            if name == "bert_config.json":
                read_all(str(path.parent))  # the tensors tell it
                return
            with pytest.raises(UserError, match=key):
                read_all(str(path.parent))
    finally:
        path.write_text(json.dumps(settings))
