"""Lists what `compare_budgets.py` compares: ways to pretrain one encoder in the same CPU time.

Encoder, vocabulary and documents are the same for all, and so are warm-up and the grid of batches
and learning rates. No dropout: a budget is a few epochs.
"""

from __future__ import annotations

import dataclasses
import json


def _size(layers: int, hidden: int) -> dict[str, int]:
    """Returns the settings of an encoder with heads of 64."""
    return {
        "encoder.num_hidden_layers": layers,
        "encoder.hidden_size": hidden,
        "encoder.embedding_size": hidden,
        "encoder.num_attention_heads": hidden // 64,
        "encoder.intermediate_size": 4 * hidden,
    }


# Settings of `run_pretraining.py`, which Hugging Face's loop takes, too.
ENCODERS = {f"{x}x{y}": _size(x, y) for x, y in ((1, 64), (2, 128), (4, 128), (4, 256))}
ENCODER, SMALL = "4x256", "1x64"  # the one that is compared, and one to try the commands
COMMON = {
    "encoder.max_position_embeddings": 128,
    "encoder.hidden_dropout_prob": 0.0,
    "encoder.attention_probs_dropout_prob": 0.0,
    "sequence_length": 128,
}
# BERT's masks (Devlin et al., 2019, section 3.1), and Adam as PyTorch has it.
MASKED_TOKENS = {
    "objective": "mlm",
    "mask_prob": 0.15,
    "mask_token_prob": 0.8,
    "random_token_prob": 0.1,
    "adam_bias_correction": True,
}
# Those of hparams/quickstart.json, with which a discriminator learns in minutes. With the paper's
# weight of 50 and a generator of its own it had not begun to after 24 million tokens.
REPLACED_TOKENS = {
    "objective": "electra",
    "untied_generator": False,
    "discriminator_weight": 5.0,
    "frequency_biases": True,
    "mask_prob": 0.3,
}
WARM_UP = 0.1  # of the steps
BATCHES = (32, 16)
# The first is that of the runs that measure a step's time.
LEARNING_RATES = (5e-4, 1e-3, 2e-3, 2.5e-4)


@dataclasses.dataclass(frozen=True)
class Arm:
    """A way to pretrain.

    Attributes:
      title: its name in the tables.
      command: what follows `python`, without the flags that all arms have; `{documents}` stands for
        the folder of documents.
      forms: forms of the step to choose the cheapest from, each with its further flags. All use
        all cores.
      objective: settings of the objective, by their names.
    """

    title: str
    command: str
    forms: dict[str, str]
    objective: dict[str, object]

    def settings(
        self, vocab_size: int, steps: int, batch: int, learning_rate: float, seed: int
    ) -> dict[str, object]:
        """Returns the settings of a run beside the encoder's size, by their names.

        Args:
          vocab_size: words of the vocabulary.
          steps: steps of the run.
          batch: examples of a step.
          learning_rate: the highest learning rate.
          seed: the seed of all that is random.
        """
        return COMMON | {
            **self.objective,
            "encoder.vocab_size": vocab_size,
            "train_batch_size": batch,
            "num_train_steps": steps,
            "num_warmup_steps": round(WARM_UP * steps),
            "learning_rate": learning_rate,
            "seed": seed,
            "run.eval_every_steps": steps,
            "run.save_checkpoints_steps": max(1, steps // 10),
            "run.keep_checkpoint_max": 1,
        }


def flags(settings: dict[str, object]) -> str:
    """Returns settings as `--set` takes them.

    Args:
      settings: the value for each name.
    """
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in settings.items()
    }
    return " ".join(f"--set {name}={text}" for name, text in texts.items())


_TFBIO = "run_pretraining.py"
_TFBIO_FORMS = {
    form: flags({"run.parallel_parts": 2, "run.precision": form})
    for form in ("float32", "bfloat16")
}
_HUGGING_FACE_FORMS = {
    form + name: flags({"run.precision": form}) + flag
    for form in ("float32", "bfloat16")
    for name, flag in (("", ""), (", eager", " --attention=eager"), (", compiled", " --compile"))
}

ARMS = {
    "tfbio_electra": Arm("tfbio, ELECTRA", _TFBIO, _TFBIO_FORMS, REPLACED_TOKENS),
    "tfbio_mlm": Arm("tfbio, masked tokens", _TFBIO, _TFBIO_FORMS, MASKED_TOKENS),
    "hugging_face_mlm": Arm(
        "Hugging Face, masked tokens",
        "-m scripts.train_hugging_face --documents={documents}",
        _HUGGING_FACE_FORMS,
        MASKED_TOKENS,
    ),
    # What remains of the difference where both engines read the same rows.
    "hugging_face_rows": Arm(
        "Hugging Face, tfbio's rows",
        "-m scripts.train_hugging_face --rows",
        _HUGGING_FACE_FORMS,
        MASKED_TOKENS,
    ),
}
