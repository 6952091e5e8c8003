"""Whole models: what is read of one form is written in another, with the same outputs."""

import dataclasses
import json
import re
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import tf_keras as keras
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from tests.fuzz import damage, grammars, harness, models
from tfbio.base import config
from tfbio.export import conversion
from tfbio.models import encoder
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.text import vocabularies
from tfbio.training import checkpointing
from tfbio.weights import (
    checkpoint_settings,
    checkpoint_source,
    checkpoint_weights,
    hugging_face_settings,
    same_model,
    tensorflow1_checkpoint,
    tensorflow1_settings,
)

WORDS = ("0", "-1", "3", "16", "2000000000", "true", "null", '""', "gelu_new", "ckpt-1", "ckpt-9")
WORDS += ("electra", "mlm", "bert", "roberta", "albert", "model_type", "1e30", "0.25", "[]", "{}")


def to_hugging_face(folder):
    """A model goes out as `transformers` has it, or is refused."""
    conversion.to_hugging_face(_source(folder), str(folder / "out"))
    hugging_face_settings.read_pretraining_settings(str(folder / "out"))


def to_run(folder):
    """A model goes out as a run, from which pretraining starts, or is refused."""
    conversion.to_tfbio(_source(folder), str(folder / "out"))
    assert checkpointing.find_newest(str(folder / "out"))


def to_original(folder):
    """A model goes out as the original ELECTRA code has it, or is refused."""
    conversion.to_original_electra(_source(folder), str(folder / "out"))
    assert tensorflow1_checkpoint.has_state(str(folder / "out"))


def goes_on(folder):
    """A run goes on from TensorFlow 1's state, or it is refused."""
    source = _source(folder)
    if not tensorflow1_checkpoint.has_state(source):
        return None
    settings = config.build(PretrainingConfig, tensorflow1_settings.read_run(source), source)
    step = conversion.to_tfbio_with_optimizer(source, str(folder / "run"), settings)
    assert checkpointing.find_newest(str(folder / "run")).endswith(f"ckpt-{step}")
    return step


def tunes(folder):
    """Fine-tuning starts from the encoder, also with more tokens, and a pooler; or is refused."""
    source = _source(folder)
    shape = checkpoint_settings.read_encoder_config(source)
    if shape.hidden_size * shape.num_hidden_layers > 10_000 or shape.vocab_size > 10_000:
        return shape  # allowed by the weights beside it, but not fast
    own = encoder.Encoder(shape)
    checkpoint_weights.restore_encoder(source, own)
    wider = encoder.Encoder(dataclasses.replace(shape, vocab_size=shape.vocab_size + 2))
    checkpoint_weights.restore_encoder(source, wider, new_tokens=2)
    for one, other in zip(own.variables, wider.variables, strict=True):
        np.testing.assert_array_equal(one, other[: one.shape[0]])
    pooler = keras.layers.Dense(shape.hidden_size)
    pooler.build([None, shape.hidden_size])
    checkpoint_weights.restore_pooler(source, pooler)
    assert all(np.isfinite(x.numpy()).all() for x in (*own.variables, *pooler.variables))
    return shape


def pretrains(folder):
    """Pretraining starts from the weights, if they are of the model wanted; or they are refused."""
    source = _source(folder)
    said = json.loads((folder / "wanted.json").read_text())
    vocab = vocabularies.find_vocabulary(checkpoint_source.run_of(source))
    sha = said.get("vocab_sha256") or vocabularies.sha256_of(vocab)
    own = {"lower_case": True, "vocab_sha256": sha}
    config = dataclasses.replace(models.SETTINGS[said["name"]], **said["settings"])
    same_model.require_same_model(source, dataclasses.asdict(config) | own)
    checkpoint_settings.require_weights(source, config.encoder)
    model = (Electra if config.objective == "electra" else MaskedLanguageModel)(config)
    checkpoint_weights.restore_model(source, model)
    assert all(np.isfinite(x.numpy()).all() for x in model.variables)


def continues(folder):
    """A run goes on from its newest checkpoint that is there, which it then lists as such."""
    source = _source(folder)
    checkpointing.remove_half_written(source)
    assert not list(Path(source).glob("*_temp")) + list(Path(source).glob("checkpoint.tmp*"))
    newest = checkpointing.find_newest(source)
    if newest is not None:
        assert checkpoint_source.newest_weights(source) == newest
    return newest


def _source(folder):
    """The model in a folder, whose name says its form, or what a file says of where in it."""
    (inner,) = (path for path in folder.iterdir() if "-" in path.name)
    within = folder / "within"
    return f"{inner}/{within.read_text()}" if within.exists() else str(inner)


SOME = hypothesis.settings(max_examples=hypothesis.settings.default.max_examples // 6)
CHECKS = {
    "run": (to_hugging_face, to_original, tunes, pretrains, continues),
    "hugging_face": (to_run, tunes, pretrains),
    "tensorflow1": (to_run, to_hugging_face, to_original, goes_on, tunes, pretrains),
    "trial": (tunes,),
}
# Form -> what may be given in place of the folder: the prefix of a checkpoint, or a trial.
WITHIN = {
    "run": ["", "", "ckpt-1", "ckpt-2"],
    "hugging_face": [""],
    "tensorflow1": ["", "model.ckpt-0", "model.ckpt-best"],
    "trial": ["trial_0", "trial_0/model"],
}
# What folders happen to lack, or to say: names that are no longer there, (name, new name), and
# (file, old, new).
EDITS = {
    "run": [
        *(("ckpt-2.index",), ("ckpt-1.index", "ckpt-2.index"), ("checkpoint",)),
        ("checkpoint", "ckpt-1.index", "ckpt-2.index"),
        *((("config.json", "true", "1"),), (("config.json", '"electra"', '"x"'),)),
        (("config.json", '"lower_case": true', '"lower_case": 1'),),
        *((("config.json", ": 8", ": 6"),), (("config.json", '_steps": ', '_steps": 1e9'),)),
    ],
    "hugging_face": [
        ("generator/config.json",),
        *((("config.json", '"electra"', '"xlnet"'),), (("config.json", ": 60", ": 61"),)),
        *((("generator/config.json", x, y),) for x, y in ((": 60", ": 61"), (": 4", ": 80"))),
        (("config.json", '"pad_token_id": 1', '"pad_token_id": -1'),),
    ],
    "tensorflow1": [
        ("bert_config.json", "albert_config.json"),
        *((("bert_config.json", x, y),) for x, y in (('"gelu"', '"relu"'), (": 8", ": 6"))),
        (("bert_config.json", '"num_attention_heads": 2', '"x": 2'),),
        (("bert_config.json", "config.json"), ("config.json", '"hidden_size"', '"x"')),
    ],
    "trial": [("trial_0/model.index",), (("config.json", '"tanh"', '"gelu"'),)],
}


def _edited(files, edit):
    for change in edit:
        if isinstance(change, str):
            files.pop(change, None)
        elif len(change) == 2:
            files |= {change[1]: files.pop(change[0])} if change[0] in files else {}
        elif change[0] in files:
            path, old, new = change
            files[path] = files[path].replace(old.encode(), new.encode(), 1)


@st.composite
def weights(draw, data):
    """A file of safetensors, whose tensors have other names, shapes or numbers."""
    tensors = load(data)
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(tensors)))
        value = tensors[name]
        kind = draw(st.sampled_from(["drop", "name", "twice", "prefix", "shape", "type", "number"]))
        if kind == "drop":
            del tensors[name]
        elif kind == "name":
            tensors[draw(st.sampled_from(["x", "LayerNorm.gamma", name + "_"]))] = tensors.pop(name)
        elif kind == "twice":  # the head that scores words, as older files have it
            words = next((x for x in tensors if x.endswith("word_embeddings.weight")), name)
            head = draw(
                st.sampled_from([x.decoder for x in hugging_face_settings.FAMILIES.values()])
            )
            tensors[f"{head}.weight"] = tensors[words] + np.float32(draw(st.integers(0, 1)))
        elif kind == "prefix":  # an encoder alone has none
            tensors = {x.partition(".")[2] or x: y for x, y in tensors.items()}
        elif kind == "shape":
            tensors[name] = draw(st.sampled_from([value.T, value[:1], value.ravel()])).copy()
        elif kind == "type":
            tensors[name] = value.astype(draw(st.sampled_from([np.float16, np.float64, np.int8])))
        else:
            changed = value.copy()
            changed.flat[0] = draw(st.sampled_from([np.nan, np.inf, 1e30, 0.5]))
            tensors[name] = changed
        if not tensors:
            break
    return save({name: np.ascontiguousarray(x) for name, x in tensors.items()})


@st.composite
def mutated(draw, form, check):
    """Draws the files of a model: one is missing, from another model, or mutated."""
    folders = models.folders()
    name = draw(st.sampled_from(sorted(x for x in folders if x.startswith(form))))
    files = dict(folders[name])
    if draw(st.integers(0, 2)) == 0:
        _edited(files, draw(st.sampled_from(EDITS[form])))
    whole = {*files.values(), *(data for folder in folders.values() for data in folder.values())}
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(sorted(files)))
        _change(draw, form, files, path, whole)
        if not files:
            break
    if check is continues and draw(st.booleans()):  # what TensorFlow leaves when it is killed
        files |= {"ckpt-3_temp/part-00000-of-00001": b"x", "checkpoint.tmp01": b""}
    result = {f"{name}/{path}": data for path, data in files.items()}
    if check is pretrains:
        result["wanted.json"] = _wanted(draw, name)
    if within := draw(st.sampled_from(WITHIN[form])):
        result["within"] = within.encode()
    return result


def _change(draw, form, files, path, whole):
    """Removes a file, replaces or mutates it, or gives a checkpoint another number."""
    kind = draw(st.sampled_from(["drop", "other", "copy", *["grammar"] * 4, "damage"]))
    if kind == "drop":
        del files[path]
    elif kind == "other":  # of the same form
        folders = models.folders()
        other = folders[draw(st.sampled_from(sorted(x for x in folders if x.startswith(form))))]
        path = draw(st.sampled_from(sorted(other)))
        files[path] = other[path]
    elif kind == "copy":  # a checkpoint with a higher number
        number = draw(st.sampled_from(["-3", "-1000", "-x"]))
        for old in list(files):
            files[re.sub(r"(?<=ckpt)-\w+", number, old)] = files[old]
    elif kind == "damage" or files[path] not in whole:  # changed before
        files[path] = draw(damage.damaged(st.just(files[path])))
    elif (content := _by_grammar(path, files[path])) is not None:
        files[path] = draw(content)


def _by_grammar(path, content):
    """Returns a strategy for mutations of a file's content; None if its grammar is not known."""
    if path.endswith(".safetensors"):
        return weights(content)
    if path.endswith(("config.json", "checkpoint")):
        return grammars.words_changed(content.decode(), WORDS)
    if path.endswith(".json"):
        return grammars.json_files(json.loads(content))
    if path.endswith(".txt"):
        return grammars.lines(content.decode())
    return None


def _wanted(draw, name):
    """Draws the settings of a pretraining run that starts from a model, as a file."""
    wanted = draw(st.sampled_from([name.partition("-")[2]] * 3 + sorted(models.SETTINGS)))
    changed = draw(st.sampled_from([{}, {}, {"sequence_length": 8}]))
    config = models.SETTINGS[wanted]
    if config.has_generator and config.untied_generator and draw(st.booleans()):
        changed = changed | {"generator_warmup_steps": 5}
    return json.dumps({"name": wanted, "settings": changed}).encode()


@pytest.mark.parametrize("form, check", [(x, check) for x in CHECKS for check in CHECKS[x]])
@given(st.data())
@SOME
def test_mutated_models(form, check, data):
    harness.judge(check, data.draw(mutated(form, check)))


@pytest.mark.parametrize("form, edit", [(form, edit) for form in EDITS for edit in EDITS[form]])
def test_edits(form, edit):
    name = next(x for x in models.folders() if x.startswith(form))
    files = dict(models.folders()[name])
    _edited(files, edit)
    harness.judge(tunes, {f"{name}/{path}": data for path, data in files.items()})


def test_without_pooler():
    files = dict(models.folders()["hugging_face-bert"])
    tensors = {x: y for x, y in load(files["model.safetensors"]).items() if "pooler" not in x}
    files["model.safetensors"] = save(tensors)
    harness.judge(tunes, {f"hugging_face-bert/{path}": data for path, data in files.items()})


@given(st.data())
@SOME
def test_other_models_wanted(data):
    folders = models.folders()
    runs = sorted(x for x in folders if x.startswith(("run-", "hugging_face-", "tensorflow1-")))
    name = data.draw(st.sampled_from(runs))
    wanted = data.draw(st.sampled_from(sorted(models.SETTINGS)))
    changed = {}
    if models.SETTINGS[wanted].has_generator and models.SETTINGS[wanted].untied_generator:
        changed = data.draw(st.sampled_from([{}, {"generator_warmup_steps": 5}]))
    said = {"name": wanted, "settings": changed, "vocab_sha256": data.draw(st.sampled_from("  0"))}
    said["vocab_sha256"] = said["vocab_sha256"].strip()
    files = {f"{name}/{path}": content for path, content in folders[name].items()}
    harness.judge(pretrains, files | {"wanted.json": json.dumps(said).encode()})


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
