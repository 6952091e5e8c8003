r"""Writes a model as a SavedModel that takes strings, for TensorFlow Serving or TensorFlow alone.

  python -m tfbio.convert --from=out/bc5cdr_chem --to=out/serving --format=saved_model

The model is in `out/serving/1`, since TensorFlow Serving expects a folder for each version. --to
is its --model_base_path (or `base_path`). The model needs neither tfbio nor another file, and can
be moved:

  import tensorflow as tf, tensorflow_text  # tensorflow_text has the operations that cut words
  model = tf.saved_model.load("out/serving/1")
  model.signatures["serving_default"](text=tf.constant(["IL-2 works."]))

Texts are strings in UTF-8. The first dimension of all inputs and outputs is the batch. Offsets
count Unicode characters, as in Python, not bytes. A text that does not fit into max_sequence_length
is cut at its end, and `truncated`, bool [batch], marks it. Lists are padded to the longest of the
batch: offsets with -1, strings with "".

It computes in float32. With --precision=bfloat16 its encoder multiplies in bfloat16, which is worth
it on CPUs with AVX512-BF16 or AMX, and not on others; weights, heads and outputs stay float32.

The signature serving_default of

- an encoder: `text` -> `sequence_output` float32 [batch, length, hidden], `cls_embedding` and
  `mean_embedding` (over all tokens, with [CLS] and [SEP]) float32 [batch, hidden], `input_ids` and
  `input_mask` int32 [batch, length]. Its second signature, `ids`, has `input_ids`, `input_mask` and
  `segment_ids` as inputs;
- a model that labels texts: `text`, of pairs also `text_pair` -> `probabilities` float32 [batch,
  labels] and `labels`, string, their names; of one class also `label` string [batch], of several
  labels `predicted` bool [batch, labels]; of scores only `score` float32 [batch]. A model from
  elsewhere, whose files do not tell whether it takes pairs, has a second signature `pairs`;
- a model that tags words: `text`, one sentence -> of words `word_start`, `word_end` int32 and
  `tags` string [batch, words], `word_count` int32 [batch]; of entities `entity_start`,
  `entity_end`, `entity_type`, `entity_text`, `entity_score` (float32, padded with -1) [batch,
  entities] and `entity_count`. `--mode=predict` parts documents into sentences, and sees long ones
  in several windows; here what does not fit has the tag "";
- a model that gives words any number of labels: `text`, one sentence -> of words and entities the
  same but for scores, and for tags `probabilities` float32 [batch, words, labels], 0 for what does
  not fit, and `labels`, string [batch, labels], their names;
- a model that answers questions: `question`, `context` -> `answer` string [batch], "" for none,
  `start` and `end` int32 [batch], `score` float32 [batch], the sum of the two logits, and
  `null_odds`, the score of no answer minus that of the answer. Of ELECTRA's head `score` is the sum
  of the logarithms of both probabilities, and `null_odds` the logit of no answer. `--mode=predict`
  reads a context that is too long in several windows; here it is cut.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfbio.base import storage
from tfbio.models.encoder import Encoder
from tfbio.models.encoder_config import EncoderConfig
from tfbio.models.initial_weights import restored_weights
from tfbio.models.task_model import TaskModel
from tfbio.task_types.serving.input_rows import rows
from tfbio.task_types.serving.served_task import (
    TEXTS,
    Function,
    SavedModelError,
    ServedTask,
    close,
    serving_function,
)
from tfbio.text import tokenization, vocabularies
from tfbio.text.fast_tokenizer import FastTokenizer, load_fast_tokenizer
from tfbio.text.in_graph import tokenization as graph_tokenization
from tfbio.training import precision as training_precision
from tfbio.weights import checkpoint_settings, checkpoint_source, checkpoint_weights, fine_tuned

# The name of the folder in which a server finds the model.
_VERSION = "1"


class _Graph(NamedTuple):
    """A model as a graph that takes strings.

    Attributes:
      model: an encoder or a fine-tuned model, with its weights.
      functions: the signatures, "serving_default" first.
      compare: returns True if a "serving_default" gives what the model does without the graph.
    """

    model: Encoder | TaskModel
    functions: dict[str, Function]
    compare: Callable[[Function], bool]


def write(
    source: str, target: str, max_sequence_length: int = 0, precision: str = "float32"
) -> str:
    """Writes a model as a SavedModel for TensorFlow Serving, loads it, and compares the outputs.

    Keras' global policy is afterwards as before.

    Args:
      source: the path of a run, a trial, a model of `transformers` or a TensorFlow 1 checkpoint, as
        `--from` of `tfbio.convert`.
      target: a new folder, in which the model gets the folder "1".
      max_sequence_length: the most tokens of a text, with [CLS] and [SEP]; 0: as many as a trial
        was trained with, or as the encoder has positions for.
      precision: what its encoder computes in, "float32" or "bfloat16"; weights and outputs are
        float32 with either.

    Returns:
      The folder of the SavedModel, `target`/1. The module lists its signatures.

    Raises:
      CheckpointError: there is no model in `source`.
      SavedModelError: `max_sequence_length` is below 8 or more than the encoder has positions for,
        the model cannot be written, or it gives other outputs when it is loaded.
      UserError: the settings, the vocabulary or the weights of `source` cannot be read.
      OSError: the folder cannot be written.
    """
    with tempfile.TemporaryDirectory() as assets, training_precision.own_policy():
        return _write(source, target, max_sequence_length, precision, Path(assets))


def _write(source: str, target: str, max_sequence_length: int, precision: str, assets: Path) -> str:
    """Does what `write` does, but for Keras' policy; `assets` is for files that go into the graph.

    Raises:
      UserError: as `write`.
    """
    if fine_tuned.is_one(source):
        source = fine_tuned.find_trial(source)
        settings = fine_tuned.read_settings(source)
        config, lower_case = settings.encoder, settings.lower_case
        usual = settings.sequence_length
    else:
        lower_case = checkpoint_settings.read_settings(source)["lower_case"]
        config = checkpoint_settings.read_encoder_config(source)
        usual = config.max_sequence_length
    # A tokenizer.json becomes an ordinary vocabulary file.
    vocab_file = vocabularies.find_vocabulary(checkpoint_source.run_of(source))
    vocab_file = vocabularies.copy_vocabulary(vocab_file, assets)
    length = max_sequence_length or usual
    if not 8 <= length <= config.max_sequence_length:
        raise SavedModelError(
            f"--max_sequence_length={length} must be at least 8 and at most "
            f"{config.max_sequence_length}, the positions of the encoder in {source}."
        )
    tokenizer = graph_tokenization.load(vocab_file, lower_case)
    read = functools.partial(_read, source, tokenizer, vocab_file, lower_case, length)
    _set_precision("float32", config)
    model, functions, compare = read()
    is_same = True
    if precision != "float32":
        # How bfloat16 rounds depends on the shape of a batch, and on what the graph joins. So the
        # graph is compared with the model in float32, and the loaded one with the graph.
        is_same = compare(functions["serving_default"])
        _set_precision(precision, config)
        model, functions, _ = read()
        compare = functools.partial(_same_outputs, functions["serving_default"])
    unfinished = storage.unfinished_folder(target)
    folder = os.path.join(unfinished, _VERSION)
    root = tf.Module()
    # Not the layers, of which Keras would save far more than is needed.
    root.weights, root.tokenizer = list(model.variables), tokenizer
    tf.saved_model.save(root, folder, signatures=functions)
    loaded = tf.saved_model.load(folder)
    if not (is_same and compare(loaded.signatures["serving_default"])):
        shutil.rmtree(unfinished)
        raise SavedModelError(
            f"the SavedModel of {source} gives other outputs than the model: nothing is kept of "
            f"--to={target}."
        )
    os.rename(unfinished, target)
    return os.path.join(target, _VERSION)


def _set_precision(precision: str, config: EncoderConfig) -> None:
    """Sets what the layers compute in that are made from now on, and their graphs."""
    strategy = tf.distribute.get_strategy()
    training_precision.set_precision(precision, strategy, config.hidden_size)


def _read(
    source: str, tokenizer: tf.Module, vocab_file: Path, lower_case: bool, length: int
) -> _Graph:
    """Reads a model, and returns its graph for texts of at most `length` tokens, not yet traced."""
    if fine_tuned.is_one(source):
        tuned = fine_tuned.read(source)
        served = _served(tuned, tokenizer, vocab_file, length)
        return _Graph(tuned.model, served.functions(), served.compare)
    encode = load_fast_tokenizer(vocab_file, lower_case)
    with restored_weights():
        model = Encoder(checkpoint_settings.read_encoder_config(source))
    checkpoint_weights.restore_encoder(source, model)

    def compare(signature: Function) -> bool:
        return _same_encoder(signature, model, encode, length)

    return _Graph(model, _encoder_functions(model, tokenizer, encode, length), compare)


def _same_outputs(function: Function, signature: tf.types.experimental.ConcreteFunction) -> bool:
    """Returns True if a signature gives for `TEXTS` what the function does that it was saved from.

    Args:
      function: a `tf.function`.
      signature: the same after loading.
    """
    _, names = signature.structured_input_signature
    inputs = {name: tf.constant(TEXTS) for name in names}
    found = {name: values.numpy() for name, values in signature(**inputs).items()}

    def same(name: str, expected: np.ndarray) -> bool:
        if expected.dtype != np.float32:
            return np.array_equal(found[name], expected)
        return found[name].shape == expected.shape and close(found[name], expected)

    return all(same(name, values.numpy()) for name, values in function(**inputs).items())


def _served(
    tuned: fine_tuned.FineTuned, tokenizer: tf.Module, vocab_file: Path, length: int
) -> ServedTask:
    """Returns the graph of a fine-tuned model, for texts of at most `length` tokens."""
    known, segments = tuned.settings.trained_on, tuned.model.encoder.config.type_vocab_size
    task_type = fine_tuned.task_type_of(tuned.settings)
    lower_case = tuned.settings.lower_case
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
    model: Encoder, tokenizer: tf.Module, encode: FastTokenizer, length: int
) -> dict[str, Function]:
    """Returns the signatures of an encoder.

    Args:
      model: the encoder.
      tokenizer: the tokenizer in the graph.
      encode: the tokenizer outside of the graph.
      length: the most tokens of a text.
    """

    def outputs(ids: tf.Tensor, mask: tf.Tensor, segments: tf.Tensor) -> dict[str, tf.Tensor]:
        hidden = tf.cast(model(ids, mask, segments), tf.float32)
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

    def of_ids(
        input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return outputs(input_ids, input_mask, segment_ids)

    names = ("input_ids", "input_mask", "segment_ids")
    specs = [tf.TensorSpec([None, None], tf.int32, name) for name in names]
    return {
        "serving_default": serving_function(of_text, ["text"]),
        "ids": tf.function(of_ids, input_signature=specs, autograph=False),
    }


def _same_encoder(signature: Function, model: Encoder, encode: FastTokenizer, length: int) -> bool:
    """Returns True if a signature gives the outputs of `encode` and the model."""
    outputs = {name: x.numpy() for name, x in signature(text=tf.constant(TEXTS)).items()}
    ids, offsets = encode(TEXTS)
    same = True
    for row, own in enumerate(np.split(ids, offsets[1:-1])):
        own = tf.constant([[encode.cls_id, *own[: length - 2], encode.sep_id]], tf.int32)
        count = own.shape[1]
        hidden = model(own, tf.ones_like(own), tf.zeros_like(own))[0].numpy()
        same &= outputs["input_mask"][row].sum() == count
        same &= np.array_equal(outputs["input_ids"][row, :count], own[0])
        same &= close(outputs["sequence_output"][row, :count], hidden)
        same &= close(outputs["mean_embedding"][row], hidden.mean(axis=0))
    return same
