"""The files that weights come in: safetensors and its index, and PyTorch's."""

import io
import json
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from tests.fuzz import damage, grammars, harness
from tfbio.weights import weight_files

NAME, INDEX = "model.safetensors", "model.safetensors.index.json"
TENSORS = {
    "bert.embeddings.LayerNorm.gamma": np.arange(4, dtype=np.float32),
    "bert.encoder.weight": np.ones((2, 3), np.float16),
    "bert.position_ids": np.zeros((1, 2), np.int64),
}
WHOLE = save(TENSORS, {"format": "pt"})
(LENGTH,) = struct.unpack("<Q", WHOLE[:8])
HEADER, NUMBERS = json.loads(WHOLE[8 : 8 + LENGTH]), WHOLE[8 + LENGTH :]
WEIGHT_MAP = {"metadata": {"total_size": 44}, "weight_map": {name: NAME for name in TENSORS}}


def reads(folder):
    """All tensors are read, finite and in no more bytes than the files have, or refused."""
    tensors = weight_files.open_all(str(folder))
    size = sum(path.stat().st_size for path in folder.iterdir())
    for name, tensor in tensors.items():
        assert isinstance(name, str)
        # float16 is read as float32.
        assert np.prod(tensor.shape, dtype=object) * 4 <= 4 * size
        try:
            value = tensor.read()
        except weight_files.WeightFileError as error:
            # Under the name that it has there, which may be an older one.
            assert name.rpartition(".")[0] in str(error)
            assert "NaN" in str(error) or "float" in str(error)
            continue
        assert value.shape == tensor.shape and np.isfinite(value).all()
    return tensors


def framed(header, length=0, numbers=NUMBERS):
    """A safetensors file with this header, whose length is off by `length`."""
    return struct.pack("<Q", max(0, len(header) + length)) + header + numbers


@given(grammars.json_files(HEADER), st.sampled_from([0, 0, 0, 1, -1, -(10**9), 10**6, 2**62]))
def test_mutated_headers(header, length):
    harness.judge(reads, {NAME: framed(header, length)})


@given(
    grammars.numbers_changed(json.dumps(HEADER)),
    st.sampled_from([NUMBERS, NUMBERS[:-1], b"", NUMBERS * 2]),
)
def test_other_offsets(header, numbers):
    harness.judge(reads, {NAME: framed(header, 0, numbers)})


@given(damage.damaged(st.just(WHOLE)))
def test_damaged_files(data):
    harness.judge(reads, {NAME: data})


@given(grammars.json_files(WEIGHT_MAP))
def test_mutated_indices(data):
    harness.judge(reads, {INDEX: data, NAME: WHOLE})
    harness.judge(reads, {INDEX: data, "model-1.safetensors": WHOLE})


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=4),
    st.sampled_from(["F32", "F16", "BF16", "F64", "I8"]),
)
def test_numbers(values, kind):
    data = np.array(values, np.float32).tobytes()
    size = {"F32": 4, "F64": 8, "I8": 1}.get(kind, 2)
    header = {"a": {"dtype": kind, "shape": [len(data) // size], "data_offsets": [0, len(data)]}}
    harness.judge(reads, {NAME: framed(json.dumps(header).encode(), 0, data)})


def _pytorch():
    import torch

    stream = io.BytesIO()
    torch.save({"a.weight": torch.ones(2, 3), "b": torch.zeros(4, dtype=torch.int64)}, stream)
    return stream.getvalue()


def test_damaged_pytorch_files():
    seed = _pytorch()

    @given(damage.damaged(st.just(seed)))
    def damaged(data):
        harness.judge(reads, {"pytorch_model.bin": data})

    damaged()


NOT_WEIGHTS = (
    *(b"", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", b"<!DOCTYPE html><html>"),
    *(b" <?xml version='1.0'?>", b"{}", b"PK\3\4", b"\x80\x02"),
)


@given(
    st.sampled_from([NAME, "pytorch_model.bin", INDEX, "pytorch_model.bin.index.json"]),
    st.sampled_from(NOT_WEIGHTS),
)
@harness.few
def test_what_is_no_weights(name, data):
    harness.judge(reads, {name: data})


@given(st.data())
@harness.few
def test_shards(data):
    """Some tensors in each of several files, in none, or in two of them under an old name."""
    names = data.draw(st.lists(st.sampled_from(["a", "b", "../a", "x\0", ""]), max_size=3))
    listed = [x and f"model-{x}.safetensors" if "/" not in x else x for x in names]
    files = {}
    for name in data.draw(st.lists(st.sampled_from(["a", "b"]), max_size=2)):
        kept = data.draw(st.sampled_from([TENSORS, {"LayerNorm.weight": np.zeros(2, np.float32)}]))
        files[f"model-{name}.safetensors"] = save(kept)
    weight_map = {str(number): name for number, name in enumerate(listed)}
    files[INDEX] = json.dumps({"weight_map": weight_map}).encode()
    harness.judge(hashes, files)


def hashes(folder):
    """Files that are read have a hash, of which another follows where one byte is another."""
    reads(folder)
    before = weight_files.sha256_of(str(folder))
    paths = weight_files._files(str(folder))
    if not paths:
        return  # an index without tensors
    path = paths[0]
    path.write_bytes(path.read_bytes() + b"x")
    assert weight_files.sha256_of(str(folder)) != before


def _states():
    import torch

    plain = torch.ones(2, 3)
    return [
        *([plain], plain, 7, "x", {}, {1: plain}, {"a": 7}, {"a": [plain]}),
        *({"a": plain.to_sparse()}, {"a": plain[:1].expand(1000, 3)}, {"a": plain.T}),
        *({"a": plain.bfloat16()}, {"a": plain.double()}, {"a": plain.bool()}),
        *({"a": plain * float("nan")}, {"a": plain.to("meta")}, {"a": plain + 1j}),
        {"LayerNorm.gamma": plain, "LayerNorm.weight": plain},
    ]


def test_pytorch_states():
    import torch

    for state in _states():
        for is_zip in (True, False):
            stream = io.BytesIO()
            torch.save(state, stream, _use_new_zipfile_serialization=is_zip)
            harness.judge(reads, {"pytorch_model.bin": stream.getvalue()})


def test_a_zip_that_unpacks_to_more():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(1_000_000))
    harness.judge(reads, {"pytorch_model.bin": stream.getvalue()})


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
