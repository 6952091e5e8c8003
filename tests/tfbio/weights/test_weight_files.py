"""Weights in other people's files: what is read of them, and what is refused in one sentence."""

import json
import os
import pickle
import resource
import shutil
import struct
import sys
import zipfile

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers

from tfbio.base.errors import UserError
from tfbio.export import conversion
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.runs import finetuning, pretraining
from tfbio.task_types import task_table
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.text import special_tokens
from tfbio.training import checkpointing
from tfbio.weights import checkpoint_settings, checkpoint_weights, weight_files

SHAPE = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 16,
}
NAME = "encoder.layer.1.output.dense.weight"


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(5)
    return transformers.BertModel(transformers.BertConfig(**SHAPE))


@pytest.fixture
def folder(model, tmp_path):
    """A BERT as `save_pretrained` writes it."""
    path = tmp_path / "bert"
    model.save_pretrained(path)
    (path / "vocab.txt").write_text("[PAD]\n", encoding="utf-8")
    return path


@pytest.fixture
def bin_folder(model, folder):
    """The same with the weights in PyTorch's form alone."""
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def read(folder):
    """All weights of the encoder in a folder, in order."""
    encoder = Encoder(checkpoint_settings.read_encoder_config(str(folder)))
    checkpoint_weights.restore_encoder(str(folder), encoder)
    return [variable.numpy() for variable in encoder.variables]


def refusal(folder):
    """The sentence that refuses a folder; no weight has changed, and no memory was taken."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    encoder = Encoder(EncoderConfig(embedding_size=24, **SHAPE))
    old = [variable.numpy() for variable in encoder.variables]
    with pytest.raises(UserError) as error:
        checkpoint_settings.read_encoder_config(str(folder))
        checkpoint_weights.restore_encoder(str(folder), encoder)
    for variable, value in zip(encoder.variables, old, strict=True):
        np.testing.assert_array_equal(variable, value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KB
    sentence = str(error.value)
    assert str(folder) in sentence and "\n" not in sentence and sentence.endswith(".")
    return sentence


def write_safetensors(path, header, data, length=None):
    """A file by its parts, for what no library writes."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", length or len(header)) + header + data)


# --- What is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", ["safetensors", "bin", "old bin", "safetensors shards", "shards"])
def test_all_forms_give_what_transformers_reads(form, dtype, model, folder):
    state = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    rounded = {name: tensor.float().numpy() for name, tensor in state.items()}
    (folder / "model.safetensors").unlink()
    names = sorted(state)
    shards = [names[::2], names[1::2]]
    if form == "safetensors":
        safetensors.torch.save_file(state, folder / "model.safetensors")
    elif form.endswith("bin"):
        zipped = form == "bin"
        path = folder / "pytorch_model.bin"
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
    else:
        stem, suffix = "pytorch_model", "bin"
        if form == "safetensors shards":
            stem, suffix = "model", "safetensors"
        weight_map = {}
        for number, members in enumerate(shards, start=1):
            file = f"{stem}-{number:05d}-of-00002.{suffix}"
            part = {name: state[name] for name in members}
            if suffix == "bin":
                torch.save(part, folder / file)
            else:
                safetensors.torch.save_file(part, folder / file, {"format": "pt"})
            weight_map |= dict.fromkeys(members, file)
        index = {"metadata": {}, "weight_map": weight_map}
        (folder / f"{stem}.{suffix}.index.json").write_text(json.dumps(index))
    tensors = weight_files.open_all(str(folder))
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        name: value.shape for name, value in rounded.items()
    }
    for name, tensor in tensors.items():
        value = tensor.read()
        assert value.dtype == np.float32, name
        np.testing.assert_array_equal(value, rounded[name])
    theirs = transformers.BertModel.from_pretrained(folder, dtype=torch.float32).state_dict()
    found = read(folder)
    np.testing.assert_array_equal(found[0], theirs["embeddings.word_embeddings.weight"])
    np.testing.assert_array_equal(found[-4], theirs[NAME].T)


def test_safetensors_is_preferred(model, folder):
    expected = read(folder)
    state = {name: tensor + 1.0 for name, tensor in model.state_dict().items()}
    torch.save(state, folder / "pytorch_model.bin")
    for one, other in zip(read(folder), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_numbers_that_are_no_weights_are_left_alone(model, folder):
    """Old checkpoints have the positions, in integers."""
    state = model.state_dict() | {"embeddings.position_ids": torch.arange(16)}
    safetensors.torch.save_file(state, folder / "model.safetensors")
    assert len(read(folder)) == len(
        Encoder(checkpoint_settings.read_encoder_config(str(folder))).variables
    )


def test_the_hash_tells_the_shards_apart(model, folder):
    before = weight_files.sha256_of(str(folder))
    os.rename(folder / "model.safetensors", folder / "a.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict.fromkeys(model.state_dict(), "a.safetensors")})
    )
    assert weight_files.sha256_of(str(folder)) == before
    data = bytearray((folder / "a.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "a.safetensors").write_bytes(data)
    assert weight_files.sha256_of(str(folder)) != before


# --- Files that are refused ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "is empty: get it again"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 440473133\n",
            "is a pointer of Git LFS, not the weights: run `git lfs pull`",
        ),
        (b"\n<!DOCTYPE html>\n<html class=''>", "is a web page, not the weights"),
        (b"<html><body>404</body></html>", "is a web page, not the weights"),
        (b"abc", "damaged"),
        (b"\0" * 5000, "damaged"),
    ],
    ids=["empty", "lfs", "doctype", "html", "short", "zeros"],
)
def test_what_is_no_file_of_weights_is_named(name, content, words, folder):
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(content)
    assert words in refusal(folder)


def test_damaged_safetensors(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "model.safetensors cannot be read" in refusal(folder)
    path.write_bytes(whole + b"\0" * 100)
    assert "model.safetensors cannot be read" in refusal(folder)
    write_safetensors(path, b"{}", b"", length=2**40)
    assert f"a header of {2**40} bytes is no model's" in refusal(folder)
    write_safetensors(path, b"[" * 10**6, b"")
    assert "model.safetensors cannot be read" in refusal(folder)
    for shape in ([2, 3], [10**12, 10**12]):
        tensor = {"dtype": "F32", "shape": shape, "data_offsets": [0, 8]}
        write_safetensors(path, {"a": tensor}, b"\0" * 8)
        assert "model.safetensors cannot be read" in refusal(folder), shape


def test_names_that_are_there_twice(model, folder):
    path = folder / "model.safetensors"
    tensor = b'"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}'
    write_safetensors(path, b"{" + tensor + b"," + tensor + b"}", b"\0" * 8)
    assert "it has a tensor twice" in refusal(folder)
    state = dict(model.state_dict())
    state["embeddings.LayerNorm.gamma"] = state["embeddings.LayerNorm.weight"].clone()
    safetensors.torch.save_file(state, path)
    assert "a tensor embeddings.LayerNorm.weight, which was there before" in refusal(folder)
    del state["embeddings.LayerNorm.gamma"]
    safetensors.torch.save_file(state, folder / "a.safetensors")
    os.rename(folder / "a.safetensors", folder / "b.safetensors")
    safetensors.torch.save_file({NAME: state[NAME]}, folder / "a.safetensors")
    path.unlink()
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {NAME: "a.safetensors", "x": "b.safetensors"}})
    )
    assert f"b.safetensors has a tensor {NAME}, which was there before" in refusal(folder)


def test_numbers_that_are_not_finite_or_of_another_kind(model, folder):
    path = folder / "model.safetensors"
    state = dict(model.state_dict())
    for value in (np.nan, -np.inf):
        tensor = state[NAME].clone()
        tensor[3, 4] = value
        safetensors.torch.save_file({**state, NAME: tensor}, path)
        assert f"NaN or infinite numbers in {NAME}" in refusal(folder), value
    for kind, called in ((torch.int8, "I8"), (torch.float64, "F64"), (torch.float8_e4m3fn, "F8")):
        safetensors.torch.save_file({**state, NAME: state[NAME].to(kind)}, path)
        assert f"has {NAME} in {called}" in refusal(folder), kind
    path.unlink()
    torch.save({**state, NAME: state[NAME].double()}, folder / "pytorch_model.bin")
    assert f"has {NAME} in float64" in refusal(folder)


def test_shards_are_files_beside_their_index(folder, tmp_path):
    os.rename(folder / "model.safetensors", tmp_path / "elsewhere.safetensors")
    index = folder / "model.safetensors.index.json"
    for name in ("../elsewhere.safetensors", str(tmp_path / "elsewhere.safetensors"), "..", 5):
        index.write_text(json.dumps({"weight_map": {NAME: name}}))
        assert "index.json names" in refusal(folder), name
    index.write_text(json.dumps({"weight_map": {NAME: "a.safetensors"}}))
    assert "names 'a.safetensors', but there is no such" in refusal(folder)
    (folder / "a.bin").write_bytes(b"x")
    index.write_text(json.dumps({"weight_map": {NAME: "a.bin"}}))
    assert "names 'a.bin', but there is no such .safetensors file" in refusal(folder)
    for text in ("<html>", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": [1]}}'):
        index.write_text(text)
        assert "is no index of weights" in refusal(folder), text


# --- PyTorch's files ------------------------------------------------------------------------------


class Touches:
    """A pickle of it makes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("form", ["zip", "old", "pickle"])
def test_code_in_a_pickle_does_not_run(form, model, bin_folder, tmp_path):
    proof, path = tmp_path / "it ran", bin_folder / "pytorch_model.bin"
    content = {**model.state_dict(), "extra": Touches(proof)}
    if form == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "zip")
    assert "holds other things than tensors, which could be code" in refusal(bin_folder)
    assert not proof.exists()
    torch.load(path, weights_only=False) if form != "pickle" else pickle.loads(path.read_bytes())
    assert proof.exists()  # so it is code that was not run


def test_damaged_pytorch_files(model, bin_folder):
    path = bin_folder / "pytorch_model.bin"
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:80] + b"\xff" * 60 + whole[140:]):
        path.write_bytes(broken)
        assert "pytorch_model.bin is damaged" in refusal(bin_folder)
    torch.save(model.state_dict(), path, _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "pytorch_model.bin is damaged" in refusal(bin_folder)
    torch.save([1, 2], path)
    assert "is no dictionary of tensors" in refusal(bin_folder)


def test_files_that_would_grow_are_refused(model, bin_folder):
    path, name = bin_folder / "pytorch_model.bin", "embeddings.word_embeddings.weight"
    # One number, shown a thousand billion times.
    view = torch.zeros(1).expand(10**6, 10**6)
    torch.save({**model.state_dict(), name: view}, path)
    assert f"has {name} not as it is" in refusal(bin_folder)
    torch.save({name: torch.zeros(10**6, 10**6, device="meta")}, path)
    assert f"has {name} not as it is" in refusal(bin_folder)
    # 64 MB of zeros in a few kilobytes.
    torch.save(model.state_dict(), path)
    with zipfile.ZipFile(path) as archive:
        members = {member.filename: archive.read(member) for member in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        with archive.open("bert/data/0", "w") as stream:
            for _ in range(64):
                stream.write(bytes(1 << 20))
    assert "would unpack to" in refusal(bin_folder)


def test_without_pytorch_the_remedy_is_named(bin_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "needs PyTorch: run `pip install torch`, or save the model as" in refusal(bin_folder)
    monkeypatch.undo()
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    assert "is not safe to read with PyTorch 2.5.1+cpu" in refusal(bin_folder)


# --- A config.json that is not that of the weights ------------------------------------------------


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"vocab_size": 51}, r"word_embeddings.weight has shape (50, 24)"),
        ({"max_position_embeddings": 8}, r"position_embeddings.weight has shape (16, 24)"),
        ({"hidden_size": 20}, r"word_embeddings.weight has shape (50, 24)"),
        ({"intermediate_size": 40}, r"intermediate.dense.weight has shape (48, 24)"),
        ({"num_hidden_layers": 3}, r"lacks encoder.layer.2.attention.self.query.weight"),
        (
            {"hidden_size": 10**9, "num_attention_heads": 1},
            "more than 10 billion parameters: look at its sizes, of which hidden_size is the "
            "largest, 1000000000.",
        ),
        ({"num_hidden_layers": 10**9}, "of which num_hidden_layers is the largest, 1000000000"),
        ({"hidden_size": 10**12}, "hidden_size must be below 2**31, not 1000000000000."),
        ({"vocab_size": 10**4000}, "vocab_size must be below 2**31, not 10000000"),
        ({"vocab_size": 10**7}, "a larger encoder than the weights beside it"),
        ({"num_hidden_layers": 10**5}, "a larger encoder than the weights beside it"),
        ({"num_attention_heads": 5}, "(24) must be a multiple of num_attention_heads (5)"),
        ({"num_attention_heads": 0}, "/config.json: num_attention_heads must be at least 1"),
        ({"hidden_size": "24"}, 'hidden_size must be a whole number, not "24"'),
        ({"hidden_size": -24}, "must be at least 1"),
        ({"hidden_size": None}, "must be a whole number, not null"),
        ({"hidden_size": 24.5}, "must be a whole number"),
        ({"hidden_dropout_prob": "NaN"}, "hidden_dropout_prob must be a number"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_settings_that_are_not_those_of_the_weights(changes, words, folder):
    path = folder / "config.json"
    settings = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps(settings))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError) as error:
        read(folder)
    assert words in str(error.value) and str(folder) in str(error.value)
    assert len(str(error.value)) <= 300
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KB


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "is not valid JSON"),
        ("<!doctype html>", "is not valid JSON"),
        ("[" * 10**5, "cannot be read (it is nested too deeply)"),
        ('{"model_type": "bert", "vocab_size": ' + "1" * 5000 + "}", "cannot be read (Exceeds the"),
        ("5", "holds no JSON object"),
        ("[1]", "holds no JSON object"),
        ('{"encoder": 3}', "is missing; give the folder of a run of this version"),
        ('{"model_type": "bert"}', "lacks vocab_size"),
        ('{"model_type": ["bert"], "hidden_size": 3}', 'has model_type = ["bert"]: give a model'),
    ],
    ids=["cut", "html", "deep", "long", "number", "list", "encoder", "sizes", "type"],
)
def test_a_file_that_holds_no_settings(text, words, folder):
    (folder / "config.json").write_text(text)
    assert words in refusal(folder)
    (folder / "config.json").write_bytes(b"\xff\xfe")
    assert "cannot be read (it is not text in UTF-8)" in refusal(folder)


# --- Every way in ---------------------------------------------------------------------------------


POINTER = b"version https://git-lfs.github.com/spec/v1\n"


def test_fine_tuning_starts_from_no_such_files(folder, cpu, tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("Give\tO\nIL-2\tB\n")

    def finetune(**more):
        finetuning.finetune(
            finetuning.Run(
                FinetuningConfig(sequence_length=8, num_trials=1, num_train_epochs=1.0),
                task=task_table.find("ner", str(tmp_path)),
                data_dir=str(tmp_path),
                init_checkpoint=str(folder),
                output_dir=str(tmp_path / "out"),
                strategy=cpu,
                **more,
            )
        )

    (folder / "vocab.txt").write_text("\n".join(special_tokens.SPECIAL_TOKENS) + "\n")
    (folder / "model.safetensors").write_bytes(POINTER)
    with pytest.raises(UserError, match="model.safetensors is a pointer of Git LFS"):
        finetune()
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="model.safetensors is missing"):
        finetune()
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"hidden_size": 10**9, "num_attention_heads": 1}
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match="more than 10 billion parameters"):
        finetune(from_scratch=True)
    assert not (tmp_path / "out").exists()


def test_pretraining_starts_from_no_such_files(pretrained, examples_folder, cpu, tmp_path):
    source = tmp_path / "source"
    conversion.to_hugging_face(pretrained, str(source))
    settings = conversion.read_model(pretrained)[0]

    def refused(words):
        with pytest.raises(UserError, match=words):
            pretraining.pretrain(
                settings, [str(examples_folder)], str(tmp_path / "new"), cpu, str(source)
            )
        assert not (tmp_path / "new").exists()

    whole = (source / "model.safetensors").read_bytes()
    (source / "model.safetensors").write_bytes(whole[:-1])
    refused("source/model.safetensors cannot be read")
    (source / "model.safetensors").write_bytes(whole)
    whole_config = (source / "config.json").read_text()
    (source / "config.json").write_text(
        whole_config.replace('"hidden_size": 48', '"hidden_size": "48"')
    )
    refused("source/config.json: .*hidden_size must be a whole number")
    (source / "config.json").write_text(whole_config)
    (source / "generator" / "model.safetensors").write_bytes(POINTER)
    refused("generator/model.safetensors is a pointer of Git LFS")


def test_our_own_runs_are_read_as_carefully(pretrained, tmp_path):
    source, target = tmp_path / "run", tmp_path / "converted"
    shutil.copytree(pretrained, source)
    settings = json.loads((source / "config.json").read_text())

    def refused(words):
        for convert_to in (conversion.to_hugging_face, conversion.to_original_electra):
            with pytest.raises(UserError, match=words):
                convert_to(str(source), str(target))
            assert not target.exists()

    for name, value, words in (
        ("hidden_size", 10**9, "10 billion .* of which encoder.hidden_size is the largest"),
        ("hidden_size", 2**13, "a larger encoder than the weights beside it"),
        ("num_hidden_layers", 10**5, "a larger encoder than the weights beside it"),
        ("hidden_size", "48", "hidden_size must be a whole number"),
        ("num_hidden_layers", 3, "does not fit the settings"),
    ):
        changed = {**settings, "encoder": {**settings["encoder"], name: value}}
        (source / "config.json").write_text(json.dumps(changed))
        refused(words)
    (source / "config.json").write_text(json.dumps(settings))
    encoder = Encoder(checkpoint_settings.read_encoder_config(str(source)))
    before = [variable.numpy() for variable in encoder.variables]
    (data,) = source.glob("ckpt-2.data-*")
    whole = data.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[: len(whole) // 10], b""):
        data.write_bytes(broken)
        refused("ckpt-2 is damaged|a larger encoder than the weights beside it")
        with pytest.raises(
            checkpointing.CheckpointError, match="ckpt-2 is damaged or not complete"
        ):
            checkpoint_weights.restore_encoder(str(source), encoder)
    data.unlink()
    refused("ckpt-2 is damaged|a larger encoder than the weights beside it")
    with pytest.raises(checkpointing.CheckpointError, match="ckpt-2 is damaged or not complete"):
        checkpoint_weights.restore_encoder(str(source), encoder)
    for variable, value in zip(encoder.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)
