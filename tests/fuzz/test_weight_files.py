"""The files that weights come in: safetensors and its index, and PyTorch's."""

import io
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from tests.fuzz import damage, grammars, harness
from tfbio import weight_files

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
    torch = pytest.importorskip("torch")
    stream = io.BytesIO()
    torch.save({"a.weight": torch.ones(2, 3), "b": torch.zeros(4, dtype=torch.int64)}, stream)
    return stream.getvalue()


def test_damaged_pytorch_files():
    seed = _pytorch()

    @given(damage.damaged(st.just(seed)))
    def damaged(data):
        harness.judge(reads, {"pytorch_model.bin": data})

    damaged()


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
