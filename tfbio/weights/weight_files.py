"""The files that others keep weights in: safetensors, and PyTorch's `pytorch_model.bin`.

Such files may come from anyone. Reading one runs no code of its own, and takes no more memory than
its size allows: a pickle is for PyTorch's weights-only loader alone, and shapes are known before a
number is read. What is empty, damaged, not complete or something else is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import ml_dtypes  # noqa: F401  numpy's bfloat16, which safetensors asks numpy for
import numpy as np
import safetensors

from tfbio.base import storage
from tfbio.base.cli import UserError

# What `save_pretrained` calls them, the first first; an index names the shards of large models.
NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
# A header has about 100 bytes for each tensor. safetensors itself reads up to 100 MB, which takes
# more than 1 GB of memory.
MOST_HEADER_BYTES = 10_000_000
FLOATS = ("float32", "float16", "bfloat16")
# Before it, a file could make the weights-only loader run code (CVE-2025-32434).
FIRST_SAFE_TORCH = (2, 6)


class WeightFileError(UserError):
    """A file of weights that is missing, damaged, or not to be trusted."""


class Tensor(NamedTuple):
    """A tensor that is in a file.

    Attributes:
      path: the file.
      shape: as it is there.
      read: gives its numbers, float32, each exactly; it raises a WeightFileError if one is not
        finite, or if they are of another kind than `FLOATS`.
    """

    path: Path
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def find(folder: str) -> Path:
    """The file with the weights, or the index of several: safetensors where there are both kinds.

    Raises:
      WeightFileError: there is none.
    """
    for name in NAMES:
        path = storage.at(folder, name)
        if path.is_file():
            return path
    raise WeightFileError(
        f"{storage.at(folder, NAMES[0])} is missing: save the model with save_pretrained(folder), "
        "which writes it."
    )


def sha256_of(folder: str) -> str:
    """Tells the weights in a folder from others: SHA-256 of the file, or of that of each shard."""
    hashes = [storage.sha256_of(path) for path in _files(folder)]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def open_all(folder: str) -> dict[str, Tensor]:
    """The tensors in a folder, by name; none is read yet.

    Raises:
      WeightFileError: there is no file, one cannot be used, or two tensors have one name.
    """
    tensors = {}
    for path in _files(folder):
        _refuse_what_is_no_weights(path)
        opened = (_open_safetensors if path.suffix == ".safetensors" else _open_pytorch)(path)
        for name, tensor in opened.items():
            # Checkpoints that were made from TensorFlow's call a LayerNorm's weight and bias so.
            name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
            name = name.replace("LayerNorm.beta", "LayerNorm.bias")
            if name in tensors:
                raise WeightFileError(
                    f"{path} has a tensor {name}, which was there before: which one is meant is "
                    "not known; save the model again with save_pretrained."
                )
            tensors[name] = tensor
    return tensors


def _files(folder: str) -> list[Path]:
    """The file with the weights, or all shards."""
    path = find(folder)
    if storage.is_remote(path):
        raise WeightFileError(f"{path} is not on this machine: copy its folder to a local disk.")
    if path.suffix != ".json":
        return [path]
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()
        names = sorted(set(names))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightFileError(
            f"{path} is no index of weights, a JSON object with a weight_map: get it again."
        ) from error
    suffix = Path(path.name.removesuffix(".index.json")).suffix
    for name in names:
        if not isinstance(name, str) or os.path.basename(name) != name or "\0" in name:
            raise WeightFileError(
                f"{path} names {name!r}, which is no file beside it: the index is refused, get the "
                "model from its source again."
            )
        if not name.endswith(suffix) or not (path.parent / name).is_file():
            raise WeightFileError(
                f"{path} names {name!r}, but there is no such {suffix} file beside it: get all "
                "files of the model."
            )
    return [path.parent / name for name in names]


def _refuse_what_is_no_weights(path: Path) -> None:
    """What is often found under the name of a file of weights, by how it begins."""
    try:
        with open(path, "rb") as stream:
            beginning = stream.read(500)
    except OSError as error:
        raise WeightFileError(
            f"{path} cannot be read ({storage.reason(error)}): look at its permissions."
        ) from error
    if not beginning:
        raise WeightFileError(f"{path} is empty: get it again.")
    if beginning.startswith(b"version https://git-lfs.github.com/"):
        raise WeightFileError(
            f"{path} is a pointer of Git LFS, not the weights: run `git lfs pull` in its folder."
        )
    if re.match(rb"\s*<(!doctype|!--|html|\?xml)", beginning, re.IGNORECASE):
        raise WeightFileError(
            f"{path} is a web page, not the weights: download the file itself (on Hugging Face's "
            "hub, the address with /resolve/ in place of /blob/)."
        )


def _open_safetensors(path: Path) -> dict[str, Tensor]:
    damaged = "it is damaged or not complete: get it again, or save the model again"
    try:
        _check_header(path)
        # It compares the header with the size of the file, and offsets with shapes.
        file = safetensors.safe_open(path, framework="np")
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  no dict
        found = {name: (tuple(x.get_shape()), x.get_dtype()) for name, x in parts.items()}
    except (OSError, ValueError, RecursionError, safetensors.SafetensorError) as error:
        raise WeightFileError(
            f"{path} cannot be read ({storage.reason(error)}): {damaged}."
        ) from error

    def reader(name: str, kind: str) -> Callable[[], np.ndarray]:
        kind = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(kind, kind)
        return lambda: _checked(path, name, kind, lambda: file.get_tensor(name))

    return {name: Tensor(path, shape, reader(name, kind)) for name, (shape, kind) in found.items()}


def _check_header(path: Path) -> None:
    """Checks what safetensors does not; raises a ValueError.

    The header is a JSON object; before it is its length, 8 bytes, the lowest first.
    """

    def no_name_twice(pairs: list[tuple[str, object]]) -> dict:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise ValueError("it has a tensor twice")
        return dict(pairs)

    with open(path, "rb") as stream:
        length = stream.read(8)
        if len(length) < 8:
            raise ValueError("it ends before its header")
        (length,) = struct.unpack("<Q", length)
        if length > MOST_HEADER_BYTES:
            raise ValueError(f"a header of {length} bytes is no model's")
        json.loads(stream.read(length), object_pairs_hook=no_name_twice)


def _open_pytorch(path: Path) -> dict[str, Tensor]:
    try:
        import torch
    except ImportError as error:
        raise WeightFileError(
            f"{path} needs PyTorch: run `pip install torch`, or save the model as safetensors."
        ) from error
    version = tuple(int(number) for number in torch.__version__.split(".")[:2])
    if version < FIRST_SAFE_TORCH:
        raise WeightFileError(
            f"{path} is not safe to read with PyTorch {torch.__version__}: run `pip install "
            "'torch>=2.6'`, or save the model as safetensors."
        )
    is_zip = _is_whole_zip(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # As a view of the file, if it is a zip: what is not there takes no memory.
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    # Bytes that someone made up lead to errors of every kind.
    except Exception as error:
        raise WeightFileError(
            f"{path} is damaged, or holds other things than tensors, which could be code and are "
            "not read: get it again, or save the model as safetensors where you trust it."
        ) from error
    if not isinstance(state, dict):
        raise WeightFileError(f"{path} is no dictionary of tensors: save model.state_dict().")

    def reader(name: str, tensor: torch.Tensor) -> Callable[[], np.ndarray]:
        kind = str(tensor.dtype).removeprefix("torch.")
        return lambda: _checked(path, name, kind, lambda: tensor.detach().float().numpy())

    tensors = {}
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            continue
        is_plain = tensor.layout == torch.strided and tensor.device.type == "cpu"
        # A view may show a few numbers as often as it says.
        if not is_plain or tensor.nbytes > tensor.untyped_storage().nbytes():
            raise WeightFileError(
                f"{path} has {name} not as it is, but as a view or without its numbers: save the "
                "model as safetensors."
            )
        tensors[name] = Tensor(path, tuple(tensor.shape), reader(name, tensor))
    return tensors


def _is_whole_zip(path: Path) -> bool:
    """Whether a `.bin` is PyTorch's zip of today, which is not compressed, and not its old form."""
    with open(path, "rb") as stream:
        if stream.read(4) != b"PK\3\4":
            return False
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    # Of bytes that someone made up, too.
    except Exception as error:
        raise WeightFileError(
            f"{path} is damaged or not complete: get it again, or save the model again."
        ) from error
    if unpacked > os.path.getsize(path):
        raise WeightFileError(
            f"{path} would unpack to {unpacked} bytes, more than it has: PyTorch writes no such "
            "file, get the model from another source."
        )
    return True


def _checked(path: Path, name: str, kind: str, read: Callable[[], np.ndarray]) -> np.ndarray:
    if kind not in FLOATS:
        raise WeightFileError(
            f"{path} has {name} in {kind}: save the model in {', '.join(FLOATS[:-1])} or "
            f"{FLOATS[-1]}."
        )
    value = read().astype(np.float32, copy=False)
    if not np.isfinite(value).all():
        raise WeightFileError(
            f"{path} has NaN or infinite numbers in {name}: its training went wrong, or it is "
            "damaged; take another checkpoint."
        )
    return value
