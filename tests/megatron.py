"""Writes models of `transformers` as Megatron-LM and NeMo do, for tests that read their files."""

import argparse
import io
import random
import re
import tarfile

import numpy as np
import torch
import yaml

# The names of `transformers` -> those of Megatron-LM, which are read from right to left.
RENAMED = (
    (r"^bert\.embeddings\.token_type_", "language_model.embedding.tokentype_"),
    (r"^bert\.embeddings\.", "language_model.embedding."),
    (r"^bert\.encoder\.ln\.", "language_model.transformer.final_layernorm."),
    (r"^bert\.encoder\.layer\.", "language_model.transformer.layers."),
    (r"^bert\.pooler\.", "language_model.pooler."),
    (r"^cls\.predictions\.transform\.LayerNorm\.", "lm_head.layernorm."),
    (r"^cls\.predictions\.transform\.", "lm_head."),
    (r"^cls\.predictions\.", "lm_head."),
    (r"^cls\.seq_relationship\.", "binary_head."),
    (r"\.attention\.ln\.", ".input_layernorm."),
    (r"(layers\.\d+)\.ln\.", r"\1.post_attention_layernorm."),
    (r"\.attention\.output\.dense\.", ".attention.dense."),
    (r"\.intermediate\.dense\.", ".mlp.dense_h_to_4h."),
    (r"(layers\.\d+)\.output\.dense\.", r"\1.mlp.dense_4h_to_h."),
)
PARTS = ("query", "key", "value")


def joined(parts, heads, version):
    """Joins query, key and value row by row, in the order of a version."""
    size = len(parts[0]) // heads
    orders = {
        0: [(p, h, i) for p in range(3) for h in range(heads) for i in range(size)],
        1: [(p, h, i) for h in range(heads) for i in range(size) for p in range(3)],
        2: [(p, h, i) for h in range(heads) for p in range(3) for i in range(size)],
    }
    return torch.stack([parts[p][h * size + i] for p, h, i in orders[version]])


def flat_state(model, version):
    """The weights of a model of `transformers` by their names in Megatron-LM."""
    left = {name: x.detach().clone() for name, x in model.named_parameters()}
    for layer in range(model.config.num_hidden_layers):
        for kind in ("weight", "bias"):
            prefix = f"bert.encoder.layer.{layer}.attention"
            parts = [left.pop(f"{prefix}.self.{part}.{kind}") for part in PARTS]
            heads = model.config.num_attention_heads
            left[f"{prefix}.query_key_value.{kind}"] = joined(parts, heads, version)
    state = {}
    for name, tensor in left.items():
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        state[name] = tensor
    return state


def nested(state):
    """Nests by the modules that Megatron-LM saves one by one."""
    result = {}
    modules = ("language_model.embedding.word_embeddings", "language_model.transformer", "lm_head")
    modules += ("language_model.embedding.position_embeddings", "language_model.pooler")
    modules += ("language_model.embedding.tokentype_embeddings", "binary_head")
    for name, tensor in state.items():
        module = next(module for module in modules if name.startswith(f"{module}."))
        inner = result
        for part in module.split("."):
            inner = inner.setdefault(part, {})
        inner[name.removeprefix(f"{module}.")] = tensor
    return result


def rng_state():
    """The state of all random numbers, as Megatron-LM's `get_rng_state` saves it."""
    return {
        "random_rng_state": random.getstate(),
        "np_rng_state": np.random.get_state(),
        "torch_rng_state": torch.get_rng_state(),
        "cuda_rng_state": torch.get_rng_state(),
        "rng_tracker_states": {"model-parallel-rng": torch.get_rng_state()},
    }


def write_megatron(folder, model, version):
    settings = argparse.Namespace(
        num_attention_heads=model.config.num_attention_heads,
        layernorm_epsilon=model.config.layer_norm_eps,
        tensor_model_parallel_size=1,
        apply_residual_connection_post_layernorm=False,
    )
    state = {"model": nested(flat_state(model, version)), "args": settings, "iteration": 7}
    state["rng_state"] = [rng_state()]
    if version:
        state["checkpoint_version"] = float(version)
    path = folder / "model_optim_rng.pt"
    torch.save(state, path)
    return path


def write_nemo(folder, model, version, weights=None, settings=None):
    """Writes the tar; the vocabulary moves into it."""
    if weights is None:
        state = flat_state(model, version)
        weights = {
            "model."
            + name.replace(".transformer.", ".encoder.").replace(
                ".attention.", ".self_attention."
            ): tensor.half()
            for name, tensor in state.items()
        }
    config = {
        "num_attention_heads": model.config.num_attention_heads,
        "layernorm_epsilon": model.config.layer_norm_eps,
        "megatron_legacy": version == 0,
        "transformer_block_type": "pre_ln",
        "tokenizer": {"type": "BertWordPieceCase", "vocab_file": "nemo:ab12_vocab.txt"},
        **(settings or {}),
    }
    stream = io.BytesIO()
    torch.save(weights, stream)
    files = {
        "./model_config.yaml": yaml.safe_dump(config).encode(),
        "./ab12_vocab.txt": (folder / "vocab.txt").read_bytes(),
        "./model_weights.ckpt": stream.getvalue(),
    }
    (folder / "vocab.txt").unlink()
    path = folder / "BioMegatron.nemo"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
