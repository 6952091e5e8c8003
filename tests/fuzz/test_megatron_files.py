"""Mutated files of Megatron-LM and NeMo: a model of `transformers` is written, or is refused."""

import functools
import io
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from tests.fuzz import damage, grammars, harness
from tests.hugging_face import save_model, small_model
from tfbio.weights import megatron_checkpoint


@functools.cache
def _files() -> dict[str, bytes]:
    """Returns the files in a `.nemo`, the vocabulary, and a `.pt`, by name."""
    from tests import megatron

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model = small_model("MegatronBertForPreTraining")
        save_model(model, folder)
        files = {"vocab.txt": (folder / "vocab.txt").read_bytes()}
        files["x.pt"] = megatron.write_megatron(folder, model, 1).read_bytes()
        path = megatron.write_nemo(folder, model, 2)
        files["x.nemo"] = path.read_bytes()
        with tarfile.open(path) as archive:
            for member in archive:
                files[member.name] = archive.extractfile(member).read()
    return files


def writes(folder):
    """The weights that are written are finite float32, and there is a vocabulary beside them."""
    (path,) = [x for x in folder.iterdir() if x.name.startswith("x.")]
    with tempfile.TemporaryDirectory() as made:
        megatron_checkpoint.write_folder(str(path), made)
        values = load_file(Path(made, "model.safetensors"))
        assert values and all(value.dtype == "float32" for value in values.values())
        assert Path(made, "vocab.txt").is_file() and Path(made, "config.json").is_file()


def _nemo(**changes):
    """A `.nemo` with other contents of its files; b"" leaves one out."""
    names = ("./model_config.yaml", "./ab12_vocab.txt", "./model_weights.ckpt")
    files = {Path(name).stem: (name, _files()[name]) for name in names}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for stem, (name, content) in files.items():
            content = changes.get(stem, content)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if content:
                archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize("name", ["x.pt", "x.nemo"])
@given(data=st.data())
@harness.few
def test_damaged_files(name, data):
    damaged = data.draw(damage.damaged(st.just(_files()[name])))
    harness.judge(writes, {name: damaged, "vocab.txt": _files()["vocab.txt"]})


SETTINGS = {
    "num_attention_heads": 4,
    "layernorm_epsilon": 1e-3,
    "megatron_legacy": True,
    "openai_gelu": False,
    "transformer_block_type": "pre_ln",
    "tokenizer": {"vocab_file": "nemo:ab12_vocab.txt"},
}


@given(grammars.json_files(SETTINGS))
@harness.few
def test_mutated_settings(config):
    """Every JSON file is one of YAML."""
    harness.judge(writes, {"x.nemo": _nemo(model_config=config)})


@given(damage.damaged(st.sampled_from([b"a: [1", b"\t", b"- 1"])), st.booleans())
@harness.very_few
def test_other_settings(config, without):
    changes = {"model_weights" if without else "ab12_vocab": b""}
    harness.judge(writes, {"x.nemo": _nemo(model_config=config, **changes)})
