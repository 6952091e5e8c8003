"""Reads BERTs in the files of Megatron-LM (`.pt`) and NeMo (`.nemo`), in which BioMegatron is.

The names and the order of the numbers are those of `convert_megatron_bert_checkpoint.py` of
`transformers` and of NeMo's `MegatronBertModel`. Like other weights from elsewhere, the files may
come from anyone: see `weight_files`. `export.conversion_of_megatron` makes models of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from tfbio.base import messages
from tfbio.base.errors import UserError
from tfbio.text import vocabularies
from tfbio.weights import weight_files
from tfbio.weights.hugging_face_settings import class_name

# The ends of the names of such files.
_SUFFIXES = (".pt", ".nemo")
_FAMILY = "megatron-bert"
# Characters of a name or a value in a message.
_MOST_NAMED = 80
# The sizes of a `.nemo` that are no model's: numbers do not shrink, and settings are short.
_MOST_UNPACKED, _MOST_SETTINGS_BYTES, _MOST_VOCABULARY_BYTES = 20, 10**6, 10**8
# The scopes of weights: in Megatron-LM -> in `transformers`.
_SCOPES = {
    "language_model.embedding.word_embeddings": "bert.embeddings.word_embeddings",
    "language_model.embedding.position_embeddings": "bert.embeddings.position_embeddings",
    "language_model.embedding.tokentype_embeddings": "bert.embeddings.token_type_embeddings",
    "language_model.encoder.final_layernorm": "bert.encoder.ln",
    "language_model.pooler.dense": "bert.pooler.dense",
    "lm_head.dense": "cls.predictions.transform.dense",
    "lm_head.layernorm": "cls.predictions.transform.LayerNorm",
    "lm_head": "cls.predictions",  # the bias of the scores
    "binary_head": "cls.seq_relationship",
}
# What reading a damaged tar raises.
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, RecursionError)
_LAYER = "language_model.encoder.layers."
# In a layer; its query, key and value are one tensor in Megatron-LM.
_LAYER_SCOPES = {
    "input_layernorm": "attention.ln",
    "attention.dense": "attention.output.dense",
    "post_attention_layernorm": "ln",
    "mlp.dense_h_to_4h": "intermediate.dense",
    "mlp.dense_4h_to_h": "output.dense",
}
_JOINED = "attention.query_key_value"
# The names by which the state of numpy's random numbers, which is beside the weights, is an array;
# of numpy 1 and 2.
_NUMPY = (
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",
    "numpy.ndarray",
    "numpy.dtype",
)
# The settings of both programs of which an `Encoder` supports one value.
_REQUIRED = {
    "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 1,
    "model_parallel_size": 1,
    "apply_residual_connection_post_layernorm": False,
    "transformer_block_type": "pre_ln",
    "position_embedding_type": "learned_absolute",
    "normalization": "layernorm",
    "activation": "gelu",
}

# A setting of `transformers` that is a number -> its names in older and newer versions of both
# programs, and their default.
_NUMBERS = {
    "layer_norm_eps": (("layernorm_epsilon", "norm_epsilon"), 1e-5),
    "hidden_dropout_prob": (("hidden_dropout",), 0.1),
    "attention_probs_dropout_prob": (("attention_dropout",), 0.1),
    "initializer_range": (("init_method_std",), 0.02),
}


class MegatronError(UserError):
    """An error for a file of Megatron-LM or NeMo that cannot be used."""


class _Ignored:
    """Stands for an array of numpy in a file, and runs nothing of numpy, which trusts pickles."""

    def __init__(self, *_: object) -> None:
        """Takes what would make the array."""

    def __setstate__(self, state: object) -> None:
        """Takes the array's numbers, which nobody needs."""


class _Content(NamedTuple):
    """Holds what a file of Megatron-LM or NeMo has.

    Attributes:
      tensors: its tensors, by their names in Megatron-LM.
      settings: the settings of its training, by their names there.
      version: the version of the order in which query, key and value are joined.
    """

    tensors: dict[str, weight_files.Tensor]
    settings: dict
    version: float


def is_one(path: str) -> bool:
    """Returns True if `path` is a file whose name ends as those of Megatron-LM and NeMo do."""
    return path.endswith(_SUFFIXES) and os.path.isfile(path)


def write_folder(path: str, folder: str) -> None:
    """Writes the model in a file of Megatron-LM or NeMo as a folder of a model of `transformers`.

    Returns nothing. The folder gets `config.json`, `model.safetensors` and the vocabulary. That is
    in a `.nemo`, or else beside the file. The number of heads is hidden_size / 64 if the file does
    not say otherwise. The activation is the exact gelu, as `transformers` has it, where the file's
    settings do not ask for OpenAI's; Megatron-LM's fused one differs from it by at most 0.0005.

    Args:
      path: the path of the file, on a local disk.
      folder: the folder, which must exist.

    Raises:
      MegatronError: the file is damaged, or of another model, or a part of one.
      WeightFileError: the weights are damaged, or are no tensors, which could be code.
      VocabularyError: there is no vocabulary.
      OSError: the folder cannot be written.
    """
    import safetensors.numpy

    content = _read_nemo(path, folder) if path.endswith(".nemo") else _read_megatron(path)
    for name, value in _REQUIRED.items():
        given = content.settings.get(name)
        if given is not None and str(given).lower() != str(value).lower():
            given = str(given)[:_MOST_NAMED]
            raise MegatronError(f"{path} has {name} = {given}: only {value} can be used.")
    shape = _shape(path, content)
    values = dict(_values(path, content, shape))
    head = "ForPreTraining" if "cls.seq_relationship.weight" in values else "ForMaskedLM"
    shape |= {"model_type": _FAMILY, "architectures": [class_name(_FAMILY, head)]}
    if not any(Path(folder, name).is_file() for name in vocabularies.NAMES):
        beside = os.path.dirname(path) or "."
        vocabularies.copy_vocabulary(vocabularies.find_vocabulary(beside), folder)
    safetensors.numpy.save_file(
        values, os.path.join(folder, weight_files.NAMES[0]), metadata={"format": "pt"}
    )
    Path(folder, "config.json").write_text(json.dumps(shape), encoding="utf-8")


def _read_megatron(path: str) -> _Content:
    """Reads a checkpoint of Megatron-LM, a dictionary with `model`.

    Raises:
      MegatronError: the dictionary is another one.
      WeightFileError: see `weight_files.read_pytorch`.
    """
    # Its arguments are attributes of an object, which runs nothing.
    ignored = [(_Ignored, name) for name in _NUMPY]
    state = weight_files.read_pytorch(Path(path), allowed=[argparse.Namespace, *ignored])
    if not isinstance(state.get("model"), dict):
        raise MegatronError(f"{path} has no model: give a checkpoint of Megatron-LM's BERT.")
    settings, version = state.get("args"), state.get("checkpoint_version", 0)
    settings = vars(settings) if isinstance(settings, argparse.Namespace) else {}
    if not isinstance(version, int | float):
        version = repr(version)[:_MOST_NAMED]
        raise MegatronError(f"{path} has checkpoint_version = {version}: it must be a number.")
    return _Content(_tensors(path, state["model"]), settings, version)


def _read_nemo(path: str, folder: str) -> _Content:
    """Reads a file of NeMo, a tar of settings, weights and the vocabulary, which goes to a folder.

    Raises:
      MegatronError: the tar is damaged, or lacks settings or weights.
      WeightFileError: see `weight_files.read_pytorch`.
    """
    import yaml

    weights = Path(folder, "model_weights.ckpt")
    try:
        with tarfile.open(path) as archive:
            members = _members(path, archive)
            config = _one(path, members, "model_config.yaml", _MOST_SETTINGS_BYTES)
            settings = yaml.safe_load(_stream(archive, config).read())
            settings = settings if isinstance(settings, dict) else {}
            tokenizer = settings.get("tokenizer")
            name = tokenizer.get("vocab_file") if isinstance(tokenizer, dict) else None
            if isinstance(name, str) and name.startswith("nemo:"):
                own = _one(path, members, name.removeprefix("nemo:"), _MOST_VOCABULARY_BYTES)
                Path(folder, "vocab.txt").write_bytes(_stream(archive, own).read())
            member = _one(path, members, weights.name, _MOST_UNPACKED * os.path.getsize(path))
            with open(weights, "wb") as stream:
                shutil.copyfileobj(_stream(archive, member), stream)
    except _DAMAGED + (yaml.YAMLError,) as error:
        raise MegatronError(
            f"{path} is damaged or not complete ({messages.first_line(error)}): get it again."
        ) from error
    try:
        tensors = _tensors(path, weight_files.read_pytorch(weights))
    except weight_files.WeightFileError as error:
        problem = str(error).replace(str(weights), f"{path}: {weights.name}")
        raise weight_files.WeightFileError(problem) from error
    return _Content(tensors, settings, 0 if settings.get("megatron_legacy") else 2)


def _members(path: str, archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Returns the files in a tar.

    Raises:
      MegatronError: they would unpack to far more bytes than it has.
    """
    members, unpacked, most = [], 0, _MOST_UNPACKED * os.path.getsize(path)
    for member in archive:
        unpacked += member.size
        if unpacked > most:  # before the next one is looked for, behind these bytes
            raise MegatronError(
                f"{path} would unpack to more than {most} bytes: NeMo writes no such file, get "
                "the model from another source."
            )
        members += [member] if member.isfile() else []
    return members


def _one(path: str, members: list[tarfile.TarInfo], name: str, most: int) -> tarfile.TarInfo:
    """Returns the only file of this name in a tar, which may be in a folder there.

    Raises:
      MegatronError: there is none, or there are several, or it has more bytes than `most`.
    """
    found = [each for each in members if os.path.basename(each.name) == os.path.basename(name)]
    if len(found) != 1 or found[0].size > most:
        raise MegatronError(
            f"{path} has {len(found)} files {name[:_MOST_NAMED]}, not a single one: "
            "give NeMo's file of a BERT that is not divided over devices."
        )
    return found[0]


def _stream(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    """Opens a file of a tar, one of `_members`."""
    stream = archive.extractfile(member)
    assert stream is not None  # as it is for a folder
    return stream


def _tensors(path: str, state: dict) -> dict[str, weight_files.Tensor]:
    """Opens the tensors of a dictionary, in which there may be others, by their names in NeMo."""

    def flat(inner: dict, scope: str) -> Iterator[tuple[str, object]]:
        for name, value in inner.items():
            if isinstance(value, dict):
                yield from flat(value, f"{scope}{name}.")
            elif isinstance(name, str):
                yield re.sub(r"^(model\.)?(module\.)?", "", scope + name), value

    named = {}
    for name, value in flat(state, ""):
        # Of an older and of a newer version.
        name = name.replace("language_model.transformer.", "language_model.encoder.")
        named[name.replace(".self_attention.", ".attention.")] = value
    return weight_files.as_tensors(Path(path), named)


def _shape(path: str, content: _Content) -> dict:
    """Returns the settings of the model by their names in `transformers`.

    Raises:
      MegatronError: a tensor that tells them is missing, or a setting has another type.
    """

    def rows(name: str) -> tuple[int, ...]:
        if name not in content.tensors or not content.tensors[name].shape:
            raise MegatronError(f"{path} lacks {name}: it is of another model than a BERT.")
        return content.tensors[name].shape

    embedding = "language_model.embedding"
    words = rows(f"{embedding}.word_embeddings.weight")
    layers = {
        int(name.removeprefix(_LAYER).partition(".")[0])
        for name in content.tensors
        if re.match(rf"{re.escape(_LAYER)}\d{{1,6}}\.", name)
    }
    settings = content.settings
    shape = {
        "vocab_size": words[0],
        "hidden_size": words[-1],
        "num_hidden_layers": max(layers, default=-1) + 1,
        "num_attention_heads": settings.get("num_attention_heads", max(1, words[-1] // 64)),
        "intermediate_size": rows(f"{_LAYER}0.mlp.dense_h_to_4h.weight")[0],
        "max_position_embeddings": rows(f"{embedding}.position_embeddings.weight")[0],
        "type_vocab_size": rows(f"{embedding}.tokentype_embeddings.weight")[0],
        "hidden_act": "gelu_new" if settings.get("openai_gelu") else "gelu",
        "pad_token_id": 0,
    }
    heads, size = shape["num_attention_heads"], shape["hidden_size"]
    if type(heads) is not int or heads < 1 or size % heads:
        raise MegatronError(
            f"{path} has num_attention_heads = {repr(heads)[:_MOST_NAMED]}: it must be a number "
            f"that divides {size}."
        )
    for setting, (names, default) in _NUMBERS.items():
        name = next((each for each in names if each in settings), names[0])
        value = settings.get(name, default)
        if type(value) not in (int, float):
            raise MegatronError(f"{path} has a {name} that is no number such as {default}.")
        shape[setting] = float(value)
    return shape


def _values(path: str, content: _Content, shape: dict) -> Iterator[tuple[str, np.ndarray]]:
    """Reads the weights by their names in `transformers`, float32.

    Raises:
      MegatronError: a tensor is of another model, or is a part of one.
      WeightFileError: numbers are not finite, or of another type.
    """
    for name, tensor in content.tensors.items():
        scope, _, kind = name.rpartition(".")
        if scope in _SCOPES:
            yield f"{_SCOPES[scope]}.{kind}", tensor.read()
            continue
        number, _, part = scope.removeprefix(_LAYER).partition(".")
        prefix = f"bert.encoder.layer.{number}"
        if scope.startswith(_LAYER) and part in _LAYER_SCOPES:
            yield f"{prefix}.{_LAYER_SCOPES[part]}.{kind}", tensor.read()
        elif scope.startswith(_LAYER) and part == _JOINED:
            if tensor.shape[0] != 3 * shape["hidden_size"]:
                raise MegatronError(
                    f"{path} has {name} of shape {tensor.shape}, a part of a model: give a file of "
                    "a BERT that is not divided over devices."
                )
            parts = _split(tensor.read(), shape["num_attention_heads"], content.version)
            for own, value in zip(("query", "key", "value"), parts, strict=True):
                yield f"{prefix}.attention.self.{own}.{kind}", value
        elif "word_embeddings" not in name:  # once more, for the head
            name = name[:_MOST_NAMED]
            raise MegatronError(f"{path} has {name}, which a BERT of Megatron-LM's has not.")


def _split(joined: np.ndarray, heads: int, version: float) -> np.ndarray:
    """Splits the weights of query, key and value, as `fix_query_key_value_ordering` does.

    Args:
      joined: float32 [3 * hidden, ...], in the order of a version: 0 has [3, heads, head_size], 1
        has [heads, head_size, 3], and 2 and later ones have [heads, 3, head_size].
      heads: the number of heads.
      version: `checkpoint_version` of Megatron-LM.

    Returns:
      float32 [3, hidden, ...].
    """
    rest = joined.shape[1:]
    if version == 1:
        ordered = np.moveaxis(joined.reshape(heads, -1, 3, *rest), 2, 0)
    elif version >= 2:
        ordered = np.moveaxis(joined.reshape(heads, 3, -1, *rest), 1, 0)
    else:
        ordered = joined
    return np.ascontiguousarray(ordered).reshape(3, -1, *rest)
