"""Small models with all their heads, as a run, `transformers` and TensorFlow 1 keep them."""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
from pathlib import Path

import tensorflow as tf
import tf_keras as keras

from data_prep.sentences import vocabulary_training
from tests.run_files import write_pretraining_settings, write_settings
from tfbio.export import conversion
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.objectives.electra import Electra
from tfbio.objectives.masked_language_model import MaskedLanguageModel
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types.classification import Classification
from tfbio.text import special_tokens, vocabularies
from tfbio.training import optimization
from tfbio.weights import checkpoint_source, tensorflow1_weights

WORDS = 60
SHAPE = EncoderConfig(
    vocab_size=WORDS,
    embedding_size=8,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=12,
)
BYTES = 300
SETTINGS = {
    "electra": PretrainingConfig(
        encoder=SHAPE,
        sequence_length=12,
        generator_hidden_fraction=0.5,
        generator_layers_fraction=0.5,
    ),
    "tied": PretrainingConfig(encoder=SHAPE, sequence_length=12, untied_generator=False),
    "uniform": PretrainingConfig(encoder=SHAPE, sequence_length=12, uniform_generator=True),
    "own_embeddings": PretrainingConfig(
        encoder=SHAPE,
        sequence_length=12,
        generator_hidden_fraction=0.5,
        untied_generator_embeddings=True,
    ),
    "bert": PretrainingConfig(
        encoder=SHAPE, sequence_length=12, objective="mlm", sentence_pair_head=True
    ),
    "roberta": PretrainingConfig(
        encoder=dataclasses.replace(
            SHAPE, vocab_size=BYTES, position_offset=2, type_vocab_size=1, hidden_act="gelu"
        ),
        sequence_length=8,
        objective="mlm",
    ),
    "albert": PretrainingConfig(
        encoder=dataclasses.replace(SHAPE, share_layers=True, embedding_size=4),
        sequence_length=12,
        objective="mlm",
        sentence_pair_head=True,
    ),
}
# What the original code had: ELECTRA, and ALBERT without the classifier of pairs.
ORIGINALS = ("electra", "tied", "uniform", "own_embeddings")


def _vocabulary(folder: Path, name: str) -> Path:
    """Writes a vocabulary of the kind that the family has; returns its file."""
    if name == "roberta":
        vocab, merges = vocabulary_training.train_byte_bpe(
            ["aspirin and ibuprofen interact"] * 9, BYTES
        )
        tokens = json.loads(vocab)
        # As many as wanted: some merges are never made in so short a text.
        for number in range(len(tokens), BYTES):
            tokens[f"x{number}"] = number
        (folder / "vocab.json").write_text(json.dumps(tokens), encoding="utf-8")
        (folder / "merges.txt").write_text(merges, encoding="utf-8")
        return folder / "vocab.json"
    words = [f"t{n}" for n in range(WORDS - len(special_tokens.SPECIAL_TOKENS))]
    text = "".join(f"{token}\n" for token in [*special_tokens.SPECIAL_TOKENS, *words])
    (folder / "vocab.txt").write_text(text)
    return folder / "vocab.txt"


def _run(folder: Path, name: str) -> Electra | MaskedLanguageModel:
    """Writes what a run leaves, with two checkpoints."""
    settings = SETTINGS[name]
    folder.mkdir()
    vocab_file = _vocabulary(folder, name)
    tf.random.set_seed(0)
    model = (Electra if settings.objective == "electra" else MaskedLanguageModel)(settings)
    optimizer = optimization.Adam(optimization.WarmupLinearDecay(0.0, 1, 0))
    optimizer._create_all_weights(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    manager = tf.train.CheckpointManager(checkpoint, str(folder), 2)
    for step in (1, 2):
        manager.save(checkpoint_number=step)
    sha256 = vocabularies.sha256_of(vocab_file)
    write_pretraining_settings(folder, settings, vocab_sha256=sha256)
    return model


def _trial(folder: Path, name: str) -> None:
    """Writes what fine-tuning leaves of a trial, with the pooler that its head had."""
    (folder / "trial_0").mkdir(parents=True)
    _vocabulary(folder, name)
    shape = SETTINGS[name].encoder
    pooler = keras.layers.Dense(shape.hidden_size)
    pooler.build([None, shape.hidden_size])
    tree = tf.train.Checkpoint(encoder=Encoder(shape), pooler=pooler)
    tf.train.Checkpoint(model=tree).write(str(folder / "trial_0" / checkpoint_source.TRIAL_WEIGHTS))
    write_settings(folder, encoder=shape, classification=Classification.Settings(text_head="tanh"))


def _files(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@functools.cache
def folders() -> dict[str, dict[str, bytes]]:
    """Form and model -> the files."""
    result = {}
    for name in SETTINGS:
        with tempfile.TemporaryDirectory() as made:
            run, other = Path(made, "run"), Path(made, "other")
            model = _run(run, name)
            result[f"run-{name}"] = _files(run)
            conversion.to_hugging_face(str(run), str(other))
            result[f"hugging_face-{name}"] = _files(other)
            if name in ORIGINALS:
                conversion.to_original_electra(str(run), f"{made}/original")
            elif name == "albert":
                Path(made, "original").mkdir()
                model.sentence_pair_head = None
                tensorflow1_weights.write(f"{made}/original/model.ckpt-best", model)
                _vocabulary(Path(made, "original"), name)
            else:
                continue
            shape = dataclasses.asdict(SETTINGS[name].encoder)
            path = "albert_config.json" if name == "albert" else "bert_config.json"
            Path(made, "original", path).write_text(json.dumps(shape))
            result[f"tensorflow1-{name}"] = _files(Path(made, "original"))
    for name in ("electra", "bert"):
        with tempfile.TemporaryDirectory() as made:
            _trial(Path(made), name)
            result[f"trial-{name}"] = _files(Path(made))
    return result
