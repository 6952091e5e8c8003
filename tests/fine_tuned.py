"""Fine-tuned models of `transformers` with random weights, and what they compute."""

import json
from pathlib import Path

import numpy as np

from tfbio.text import special_tokens

WORDS = "the a of in and is not works cell drug il - 2 . ( ) , ##s ##ed protein binds give it"
VOCABULARY = [*special_tokens.SPECIAL_TOKENS, *WORDS.split()]
SHAPE = {
    "vocab_size": len(VOCABULARY) + 3,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
# What the classes of a family need besides.
FAMILIES = {
    "Bert": {},
    "Electra": {"embedding_size": 12},
    # Padding is token 0 in the vocabulary above.
    "Roberta": {
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-3,
    },
    "Albert": {"embedding_size": 12},
    "MegatronBert": {},
}
TAGS = ["B-Drug", "O", "I-Drug", "B-Gene", "I-Gene"]


def make(folder, architecture, labels=(), **settings):
    """A model with random weights, none of them 0 or 1, saved as a user does."""
    import torch
    import transformers

    torch.manual_seed(5)
    family = architecture.partition("For")[0].removesuffix("Model")
    if labels:
        settings["id2label"] = dict(enumerate(labels))
        settings["label2id"] = {label: number for number, label in enumerate(labels)}
    shape = SHAPE | FAMILIES[family] | settings
    model_class = getattr(transformers, architecture)
    model = model_class(getattr(transformers, f"{family}Config")(**shape))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    Path(folder, "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return model.eval()


def make_cased(folder) -> None:
    """Gives the vocabulary of a saved model capital letters: text is to be read as it is."""
    path, capitals = Path(folder, "vocab.txt"), {"give": "Give", "it": "It", "il": "IL"}
    tokens = path.read_text(encoding="utf-8").split("\n")
    path.write_text("\n".join(capitals.get(x, x) for x in tokens), encoding="utf-8")


def load(folder):
    """As a user does; no weight may be missing, left over, or of another shape."""
    import transformers

    architecture = json.loads(Path(folder, "config.json").read_text())["architectures"][0]
    model, found = getattr(transformers, architecture).from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(found.values()), found
    return model.eval()


def their_logits(model, ids, mask, segments):
    """[tokens without padding, outputs] or [texts, outputs]."""
    import torch

    with torch.no_grad():
        found = model(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            token_type_ids=torch.tensor(segments),
        )
    if "start_logits" in found:
        return np.stack([found.start_logits, found.end_logits], axis=-1)[mask == 1]
    logits = found.logits.numpy()
    return logits[mask == 1] if logits.ndim == 3 else logits
