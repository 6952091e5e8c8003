"""Our weights under Hugging Face's names, for the tests that compare with it."""

import numpy as np


def hugging_face_state(encoder) -> dict:
    """What an `ElectraModel` of the same shape loads: name -> torch tensor."""
    import torch

    state = {
        "embeddings.word_embeddings.weight": encoder.embeddings.word,
        "embeddings.position_embeddings.weight": encoder.embeddings.position,
        "embeddings.token_type_embeddings.weight": encoder.embeddings.segment,
        **norm("embeddings.LayerNorm", encoder.embeddings.layer_norm),
    }
    if encoder.projection is not None:
        state.update(dense("embeddings_project", encoder.projection))
    for i, layer in enumerate(encoder.transformer_layers):
        prefix = f"encoder.layer.{i}"
        kernels = np.split(layer.query_key_value.kernel.numpy(), 3, axis=1)
        biases = np.split(layer.query_key_value.bias.numpy(), 3)
        for part, kernel, bias in zip(("query", "key", "value"), kernels, biases, strict=True):
            state[f"{prefix}.attention.self.{part}.weight"] = kernel.T
            state[f"{prefix}.attention.self.{part}.bias"] = bias
        state.update(dense(f"{prefix}.attention.output.dense", layer.attention_output))
        state.update(norm(f"{prefix}.attention.output.LayerNorm", layer.attention_norm))
        state.update(dense(f"{prefix}.intermediate.dense", layer.intermediate))
        state.update(dense(f"{prefix}.output.dense", layer.output_dense))
        state.update(norm(f"{prefix}.output.LayerNorm", layer.output_norm))
    return {name: torch.tensor(np.array(value)) for name, value in state.items()}


def dense(name, layer):
    return {f"{name}.weight": layer.kernel.numpy().T, f"{name}.bias": layer.bias}


def norm(name, layer):
    return {f"{name}.weight": layer.gamma, f"{name}.bias": layer.beta}
