"""Small models of Hugging Face's, and our weights under its names, for tests that compare."""

import numpy as np

# What any BERT's settings say.
SHAPE = {
    "vocab_size": 60,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 16,
}
SIZES = {
    **SHAPE,
    "num_hidden_layers": 3,
    # So large that another would show.
    "layer_norm_eps": 1e-3,
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "initializer_range": 0.03,
}
OWN = {
    "Bert": {},
    "Electra": {"embedding_size": 12},
    # As published: padding is token 1, and token 0 begins a text.
    "Roberta": {"max_position_embeddings": 18, "type_vocab_size": 1},
    "Albert": {"embedding_size": 12},
    "MegatronBert": {},
}
# The first tokens of the vocabulary, in the families' orders.
FIRST_TOKENS = {
    "Roberta": ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"],
    "Albert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
}


def family_of(architecture: str) -> str:
    return next(family for family in OWN if architecture.startswith(family))


def small_model(architecture: str, **settings):
    """A model of `transformers` with random weights: no zero biases, no unit scales."""
    import torch
    import transformers

    torch.manual_seed(3)
    family = family_of(architecture)
    make = getattr(transformers, f"{family}Config")
    model = getattr(transformers, architecture)(make(**{**SIZES, **OWN[family], **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def save_model(model, folder) -> None:
    """Writes a model with a cased vocabulary, whose special tokens are where `model` says.

    Text that is lower-cased has none of its tokens.
    """
    model.save_pretrained(folder)
    family = family_of(type(model).__name__)
    tokens = FIRST_TOKENS.get(family, FIRST_TOKENS["Albert"])
    tokens = tokens + [f"T{number}" for number in range(model.config.vocab_size - len(tokens))]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")


def padded_batch(model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, mask and segments of three texts, one of which has padding; int32 [3, 9] each."""
    rng = np.random.default_rng(0)
    mask = (np.arange(9) < np.array([[9], [5], [9]])).astype(np.int32)
    ids = rng.integers(5, model.config.vocab_size, [3, 9]).astype(np.int32)
    ids = np.where(mask == 1, ids, model.config.pad_token_id).astype(np.int32)
    segments = rng.integers(0, 2, [3, 9]).astype(np.int32)
    return ids, mask, segments


def compute(model, batch) -> dict[str, np.ndarray]:
    """What `model` makes of such a batch; one kind of segments takes none."""
    import torch

    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = {
        name: torch.tensor(values, dtype=torch.long)
        for name, values in zip(names, batch, strict=True)
    }
    if model.config.type_vocab_size == 1:
        del inputs["token_type_ids"]
    with torch.no_grad():
        return {name: values.numpy() for name, values in model(**inputs).items()}


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
