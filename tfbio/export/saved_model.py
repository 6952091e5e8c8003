r"""A model as a SavedModel that takes strings, for TensorFlow Serving or for TensorFlow alone.

  python -m tfbio.convert --from=out/bc5cdr_chem --to=out/serving --format=saved_model

The model is in `out/serving/1`: TensorFlow Serving wants a folder for each version, and --to is the
--model_base_path (or `base_path`) that it is given. It needs nothing of tfbio and no other file,
and can be moved:

  import tensorflow as tf, tensorflow_text  # which has the operations that cut words
  model = tf.saved_model.load("out/serving/1")
  model.signatures["serving_default"](text=tf.constant(["IL-2 works."]))

Texts are strings in UTF-8. The first dimension of all inputs and outputs is the batch. Places in a
text are counted in Unicode characters and not in bytes, as Python does. What does not fit into
max_sequence_length is cut at its end, and `truncated`, bool [batch], says of which texts. Lists are
padded to the longest of the batch: places with -1, strings with "".

The signature serving_default of

- an encoder: `text` -> `sequence_output` float32 [batch, length, hidden], `cls_embedding` and
  `mean_embedding` (over all tokens, with [CLS] and [SEP]) float32 [batch, hidden], `input_ids` and
  `input_mask` int32 [batch, length]. Its second signature, `ids`, has `input_ids`, `input_mask` and
  `segment_ids` as inputs;
- a model that labels texts: `text`, of pairs also `text_pair` -> `probabilities` float32 [batch,
  labels] and `labels`, string, their names; of one class also `label` string [batch], of several
  labels `predicted` bool [batch, labels]; of scores only `score` float32 [batch]. A model from
  elsewhere, of which it is not known, has a second signature `pairs` for them;
- a model that tags words: `text`, one sentence -> of words `word_start`, `word_end` int32 and
  `tags` string [batch, words], `word_count` int32 [batch]; of entities `entity_start`,
  `entity_end`, `entity_type`, `entity_text` [batch, entities] and `entity_count`. `--mode=predict`
  parts documents into sentences, and sees long ones in several windows; here what does not fit has
  the tag "";
- a model that answers questions: `question`, `context` -> `answer` string [batch], "" for none,
  `start` and `end` int32 [batch], `score` float32 [batch], the sum of the two logits, and
  `null_odds`, by how much no answer scores higher. A context that is too long is seen in several
  windows by `--mode=predict`, and here is cut.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfbio.models.encoder import Encoder
from tfbio.task_types.serving.served_task import (
    TEXTS,
    Function,
    SavedModelError,
    ServedTask,
    close,
    rows,
    serving_function,
)
from tfbio.text import tokenization, vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.text.in_graph import tokenization as graph_tokenization
from tfbio.weights import checkpoints, fine_tuned

# Of the folder in which a server finds the model.
VERSION = "1"


def write(source: str, target: str, max_sequence_length: int = 0) -> str:
    """Writes a SavedModel, loads it, and compares it with the model; returns its folder.

    Args:
      source: the `--from` of `convert`.
      target: a new folder, in which the model is called `VERSION`.
      max_sequence_length: the most tokens of a text, with [CLS] and [SEP]; 0: as many as a trial
        was trained with, or as the encoder has positions for.

    Raises:
      CheckpointError: there is no model in `source`.
      SavedModelError: it cannot be written, or gives other outputs when it is loaded.
    """
    with tempfile.TemporaryDirectory() as assets:
        return _write(source, target, max_sequence_length, Path(assets))


def _write(source: str, target: str, max_sequence_length: int, assets: Path) -> str:
    """`write`, with a folder for the files that go into the graph."""
    tuned = fine_tuned.read(source) if fine_tuned.is_one(source) else None
    if tuned:
        source, settings, config = tuned.folder, tuned.settings, tuned.model.encoder.config
        usual = settings["sequence_length"]
    else:
        settings = checkpoints.read_settings(source)
        config = checkpoints.read_encoder_config(source)
        usual = config.max_sequence_length
    # As an ordinary file, where there is only a tokenizer.json.
    vocab_file = vocabularies.find_vocabulary(checkpoints.run_of(source))
    vocab_file = vocabularies.copy_vocabulary(vocab_file, assets)
    length = max_sequence_length or usual
    if not 8 <= length <= config.max_sequence_length:
        raise SavedModelError(
            f"--max_sequence_length={length} must be at least 8 and at most "
            f"{config.max_sequence_length}, the positions of the encoder in {source}."
        )
    unfinished = f"{target.rstrip('/')}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    folder = os.path.join(unfinished, VERSION)
    tokenizer = graph_tokenization.load(vocab_file, settings["lower_case"])
    if tuned:
        served = _served(tuned, tokenizer, vocab_file, length)
        model, functions, compare = tuned.model, served.functions(), served.compare
    else:
        encode = load_fast_tokenizer(vocab_file, settings["lower_case"])
        model = Encoder(config)
        checkpoints.restore_encoder(source, model)
        functions = _encoder_functions(model, tokenizer, encode, length)

        def compare(signature: Function) -> bool:
            return _same_encoder(signature, model, encode, length)

    root = tf.Module()
    # Not the layers, of which Keras would save far more than what is needed.
    root.weights, root.tokenizer = list(model.variables), tokenizer
    tf.saved_model.save(root, folder, signatures=functions)
    loaded = tf.saved_model.load(folder)
    if not compare(loaded.signatures["serving_default"]):
        shutil.rmtree(unfinished)
        raise SavedModelError(
            f"the SavedModel of {source} gives other outputs than the model: nothing is kept of "
            f"--to={target}."
        )
    os.rename(unfinished, target)
    return os.path.join(target, VERSION)


def _served(
    tuned: fine_tuned.FineTuned, tokenizer: tf.Module, vocab_file: Path, length: int
) -> ServedTask:
    """Returns the graph of a fine-tuned model."""
    known, segments = tuned.settings["trained_on"], tuned.model.encoder.config.type_vocab_size
    task_type = fine_tuned.task_type_of(tuned.settings)
    lower_case = tuned.settings["lower_case"]
    return task_type.served(
        task_type,
        tuned.model,
        known,
        tuned.calibration,
        tokenizer,
        tokenization.load_tokenizer(vocab_file, lower_case, segments=segments),
        length,
        tuned.folder,
    )


# --- Encoders ------------------------------------------------------------------------------------


def _encoder_functions(
    model: Encoder, tokenizer: tf.Module, encode: Encoder, length: int
) -> dict[str, Function]:
    """The signatures of an encoder."""

    def outputs(ids: tf.Tensor, mask: tf.Tensor, segments: tf.Tensor) -> dict[str, tf.Tensor]:
        hidden = model(ids, mask, segments)
        weights = tf.cast(mask, tf.float32)[:, :, tf.newaxis]
        total = tf.maximum(tf.reduce_sum(weights, axis=1), 1.0)
        return {
            "sequence_output": hidden,
            "cls_embedding": hidden[:, 0],
            "mean_embedding": tf.reduce_sum(hidden * weights, axis=1) / total,
        }

    def of_text(text: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens = tokenizer(text)
        batch = rows(encode, tokens[:, : length - 2])
        ids, mask = batch["input_ids"], tf.minimum(batch["document_ids"], 1)
        return {
            **outputs(ids, mask, batch["segment_ids"]),
            "input_ids": ids,
            "input_mask": mask,
            "truncated": tokens.row_lengths() > length - 2,
        }

    def of_ids(input_ids, input_mask, segment_ids) -> dict[str, tf.Tensor]:
        return outputs(input_ids, input_mask, segment_ids)

    names = ("input_ids", "input_mask", "segment_ids")
    specs = [tf.TensorSpec([None, None], tf.int32, name) for name in names]
    return {
        "serving_default": serving_function(of_text, ["text"]),
        "ids": tf.function(of_ids, input_signature=specs, autograph=False),
    }


def _same_encoder(signature: Function, model: Encoder, encode: Encoder, length: int) -> bool:
    """Whether a signature gives what `encode` and the model do."""
    found = {name: x.numpy() for name, x in signature(text=tf.constant(TEXTS)).items()}
    ids, offsets = encode(TEXTS)
    same = True
    for row, own in enumerate(np.split(ids, offsets[1:-1])):
        own = tf.constant([[encode.cls_id, *own[: length - 2], encode.sep_id]], tf.int32)
        count = own.shape[1]
        hidden = model(own, tf.ones_like(own), tf.zeros_like(own))[0].numpy()
        same &= found["input_mask"][row].sum() == count
        same &= np.array_equal(found["input_ids"][row, :count], own[0])
        same &= close(found["sequence_output"][row, :count], hidden)
        same &= close(found["mean_embedding"][row], hidden.mean(axis=0))
    return same
