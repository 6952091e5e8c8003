"""Opens files of weights from elsewhere: safetensors, and PyTorch's `pytorch_model.bin`.

Such files may come from anyone. Reading one runs none of its code and takes no more memory than its
size: only PyTorch's weights-only loader reads a pickle, and shapes are known before a number is
read. Files that are empty, damaged or incomplete, or that hold something else, are refused.
"""

from __future__ import annotations

import json
import os
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_dtypes  # noqa: F401  numpy's bfloat16, which safetensors asks numpy for
import numpy as np
import safetensors

from tfbio.base import file_paths, messages, storage
from tfbio.base.errors import UserError

# The names that `save_pretrained` gives, the preferred one first. An index lists the shards of
# large models.
NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
# A header has about 100 bytes for each tensor. safetensors itself reads up to 100 MB, which takes
# more than 1 GB of memory.
_MOST_HEADER_BYTES = 10_000_000
_FLOATS = ("float32", "float16", "bfloat16")
# In earlier versions a file could make the weights-only loader run code (CVE-2025-32434).
_FIRST_SAFE_TORCH = (2, 6)


class WeightFileError(UserError):
    """An error for a file of weights that is missing, damaged, or not to be trusted."""


class Tensor(NamedTuple):
    """A tensor in a file of weights from elsewhere, whose values are read when they are wanted.

    Attributes:
      path: the path of the file.
      shape: its shape in the file.
      read: takes nothing and returns its values as float32 `[*shape]`, without rounding. It raises
        a WeightFileError if a value is not finite, or if their type is not float32, float16 or
        bfloat16.
    """

    path: Path
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def find(folder: str) -> Path:
    """Finds the file of weights in a folder, or the index of several files.

    Args:
      folder: the folder of a model from elsewhere.

    Returns:
      The path of the file or of the index; that of safetensors, if PyTorch's file is there, too.

    Raises:
      WeightFileError: there is no file of weights.
    """
    for name in NAMES:
        path = file_paths.at(folder, name)
        if path.is_file():
            return path
    raise WeightFileError(
        f"{file_paths.at(folder, NAMES[0])} is missing: save the model with "
        "save_pretrained(folder), which writes it."
    )


def sha256_of(folder: str) -> str:
    """Computes a hash of the files of weights in a folder.

    Args:
      folder: the folder of a model from elsewhere, on a local disk.

    Returns:
      The SHA-256 of the file, 64 hexadecimal digits; of several shards that of their hashes, one
      after the other.

    Raises:
      WeightFileError: there is no file of weights, it is on another machine, or an index cannot be
        used.
      OSError: a file cannot be read.
    """
    return storage.joined_sha256([storage.sha256_of(path) for path in _files(folder)])


def open_all(folder: str) -> dict[str, Tensor]:
    """Opens all files of weights in a folder, without reading the values of their tensors.

    Args:
      folder: the folder of a model from elsewhere, on a local disk.

    Returns:
      The name of each tensor in `transformers` -> the `Tensor`. Names of old files that end in
      LayerNorm.gamma or LayerNorm.beta end in LayerNorm.weight or LayerNorm.bias here.

    Raises:
      WeightFileError: there is no file, one is damaged, remote or unsafe, or two tensors have the
        same name; or it is PyTorch's, and PyTorch is missing or older than 2.6.
    """
    tensors = {}
    for path in _files(folder):
        if path.suffix == ".safetensors":
            opened = _open_safetensors(path)
        else:
            opened = as_tensors(path, read_pytorch(path))
        for name, tensor in opened.items():
            # The names of a LayerNorm's weight and bias in files that were made from TensorFlow's.
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
    """Returns the file with the weights, or all shards.

    Raises:
      WeightFileError: there is no file, or the index is damaged or names another file.
    """
    path = find(folder)
    if file_paths.is_remote(path):
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


def _check_beginning(path: Path) -> None:
    """Checks that a file does not begin as a pointer of Git LFS or a web page.

    Raises:
      WeightFileError: it does, or it is empty or cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            beginning = stream.read(500)
    except OSError as error:
        raise WeightFileError(
            f"{path} cannot be read ({messages.reason(error)}): look at its permissions."
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
    """Opens the tensors in a safetensors file, by name.

    Raises:
      WeightFileError: the file is damaged.
    """
    damaged = "it is damaged or not complete: get it again, or save the model again"
    _check_beginning(path)
    try:
        _check_header(path)
        # `safe_open` compares the header with the size of the file, and offsets with shapes.
        file = safetensors.safe_open(path, framework="np")
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  no dict
        headers = {name: (tuple(x.get_shape()), x.get_dtype()) for name, x in parts.items()}
    except (OSError, ValueError, RecursionError, safetensors.SafetensorError) as error:
        raise WeightFileError(
            f"{path} cannot be read ({messages.reason(error)}): {damaged}."
        ) from error

    def reader(name: str, dtype: str) -> Callable[[], np.ndarray]:
        dtype = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(dtype, dtype)
        return lambda: _checked(path, name, dtype, lambda: file.get_tensor(name))

    return {
        name: Tensor(path, shape, reader(name, dtype)) for name, (shape, dtype) in headers.items()
    }


def _check_header(path: Path) -> None:
    """Checks what safetensors does not check: the length of the header, and names used twice.

    The header is a JSON object after its length, 8 bytes, little-endian.

    Raises:
      ValueError: the header is damaged.
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
        if length > _MOST_HEADER_BYTES:
            raise ValueError(f"a header of {length} bytes is no model's")
        json.loads(stream.read(length), object_pairs_hook=no_name_twice)


def read_pytorch(path: Path, allowed: Sequence[type | tuple[type, str]] = ()) -> dict:
    """Reads the dictionary in a file of PyTorch by its weights-only loader, which runs no code.

    Args:
      path: the path of the file, on a local disk.
      allowed: classes that the file may hold instances of, besides tensors and plain values; with
        a name, the class stands for what has this full name in the file.

    Returns:
      The dictionary; tensors are on the CPU.

    Raises:
      WeightFileError: the file is damaged or unsafe, or PyTorch is missing or older than 2.6.
    """
    _check_beginning(path)
    try:
        import torch
    except ImportError as error:
        raise WeightFileError(
            f"{path} needs PyTorch: run `pip install torch`, or save the model as safetensors."
        ) from error
    version = tuple(int(number) for number in torch.__version__.split(".")[:2])
    if version < _FIRST_SAFE_TORCH:
        raise WeightFileError(
            f"{path} is not safe to read with PyTorch {torch.__version__}: run `pip install "
            "'torch>=2.6'`, or save the model as safetensors."
        )
    is_zip = _is_whole_zip(path)
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(list(allowed)):
            warnings.simplefilter("ignore")
            # A zip is mapped into memory, so that it takes none for bytes that it lacks.
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    # Invented bytes lead to errors of every class.
    except Exception as error:
        refused = re.search(r"GLOBAL ([\w.]{1,80})", str(error))
        named = f" ({refused[1]})" if refused else ""
        raise WeightFileError(
            f"{path} is damaged, or holds other things than tensors, which could be code and are "
            f"not read{named}: get it again, or save the model as safetensors where you trust it."
        ) from error
    if not isinstance(state, dict):
        raise WeightFileError(f"{path} is no dictionary of tensors: save model.state_dict().")
    return state


def as_tensors(path: Path, state: dict) -> dict[str, Tensor]:
    """Makes a `Tensor` of each of PyTorch's in a dictionary, without reading their values.

    Args:
      path: the file that the dictionary is from, for messages.
      state: the dictionary. What is no tensor or has no text as its key is left out.

    Returns:
      The key -> the `Tensor`.

    Raises:
      WeightFileError: a tensor is a view, or has no numbers.
    """
    import torch

    def reader(name: str, tensor: torch.Tensor) -> Callable[[], np.ndarray]:
        dtype = str(tensor.dtype).removeprefix("torch.")
        return lambda: _checked(path, name, dtype, lambda: tensor.detach().float().numpy())

    tensors = {}
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            continue
        is_plain = tensor.layout == torch.strided and tensor.device.type == "cpu"
        # A view may repeat a few numbers without end.
        if not is_plain or tensor.nbytes > tensor.untyped_storage().nbytes():
            raise WeightFileError(
                f"{path} has {name} not as it is, but as a view or without its numbers: save the "
                "model as safetensors."
            )
        tensors[name] = Tensor(path, tuple(tensor.shape), reader(name, tensor))
    return tensors


def _is_whole_zip(path: Path) -> bool:
    """Returns True if a `.bin` is PyTorch's uncompressed zip, and False if it has the old format.

    Raises:
      WeightFileError: the zip is damaged, or is compressed.
    """
    with open(path, "rb") as stream:
        if stream.read(4) != b"PK\3\4":
            return False
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    # Invented bytes lead to errors of every class.
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


def _checked(path: Path, name: str, dtype: str, read: Callable[[], np.ndarray]) -> np.ndarray:
    """Reads the values of a tensor as float32, see `Tensor.read`."""
    if dtype not in _FLOATS:
        raise WeightFileError(
            f"{path} has {name} in {dtype}: save the model in {', '.join(_FLOATS[:-1])} or "
            f"{_FLOATS[-1]}."
        )
    value = read().astype(np.float32, copy=False)
    if not np.isfinite(value).all():
        raise WeightFileError(
            f"{path} has NaN or infinite numbers in {name}: its training went wrong, or it is "
            "damaged; take another checkpoint."
        )
    return value
