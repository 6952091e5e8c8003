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
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfbio.base.cli import UserError
from tfbio.formats.task_examples import LabelledText, Question, TaggedSentence
from tfbio.models.batches import ENTITY_POOLINGS, NO_TARGET
from tfbio.models.encoder import Encoder
from tfbio.task_types import answers, kinds, packing, words
from tfbio.text import tokenization, vocabularies
from tfbio.text.fast_tokenizer import load_fast_tokenizer
from tfbio.text.in_graph import tokenization as graph_tokenization
from tfbio.text.in_graph import words as graph_words
from tfbio.weights import checkpoints, fine_tuned

# Of the folder in which a server finds the model.
VERSION = "1"
# By how much outputs may differ after loading.
TOLERANCE = 1e-5

_TEXTS = (
    "IL-2 works.",
    "No",
    "Aspirin (0.5 mg/kg) inhibits COX-1 in Crohn's disease, p < 10\u207b\u00b2.",
    "Na\u00efve \u03b2-cells\u2014\u65e5\u672c\u8a9e; e\u0301 [MASK] \x07 \U0001d6fc.",
    "It was not significant. " * 200,
)

Function = Callable[..., dict[str, tf.Tensor]]


class SavedModelError(UserError):
    """A model that cannot be written as a SavedModel."""


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
        task = _Task(tuned, tokenizer, vocab_file, length)
        model, functions, compare = task.model, task.functions(), task.compare
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


def _function(function: Function, names: Sequence[str]) -> Function:
    """A graph of strings [batch] with these names."""
    specs = [tf.TensorSpec([None], tf.string, name) for name in names]
    return tf.function(function, input_signature=specs, autograph=False)


def _rows(
    encode: Encoder | tokenization.Tokenizer, *parts: tf.RaggedTensor
) -> dict[str, tf.Tensor]:
    """What `tokenization.Tokenizer.join` makes of texts or pairs, padded to the longest.

    Args:
      encode: knows the special tokens; of pairs a `Tokenizer`.
      parts: int32 ragged [batch, tokens], one or two.

    Returns:
      What `packing.fill` makes of such rows, but for targets.
    """
    count = tf.cast(parts[0].nrows(), tf.int32)

    def column(token: int) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_tensor(tf.fill([count, 1], token))

    sep = column(encode.sep_id)
    columns, has_segments = [column(encode.cls_id), parts[0], sep], False
    if len(parts) == 2:
        columns += [sep] * (encode.special_tokens(pair=True) - 3) + [parts[1], sep]
        has_segments = encode.kind != "byte_bpe" and encode.segments > 1
    ids = tf.concat(columns, axis=1)
    input_ids = ids.to_tensor(encode.pad_id)
    length = tf.shape(input_ids)[1]
    mask = tf.sequence_mask(ids.row_lengths(), length, tf.int32)
    place = tf.range(length)[tf.newaxis]
    in_second = place >= tf.cast(parts[0].row_lengths(), tf.int32)[:, tf.newaxis] + 2
    return {
        "input_ids": input_ids,
        "segment_ids": mask * tf.cast(in_second & has_segments, tf.int32),
        "position_ids": mask * place,
        "document_ids": mask * tf.range(1, count + 1)[:, tf.newaxis],
        "first": length * tf.range(count),
    }


def _cut(tokens: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """The first tokens of each text; `lengths` int64 [texts], how many at most."""
    place = tf.ragged.range(tokens.row_lengths()).values
    kept = place < tf.gather(lengths, tokens.value_rowids())
    values = tf.boolean_mask(tokens.values, kept)
    return tf.RaggedTensor.from_row_lengths(values, tf.minimum(tokens.row_lengths(), lengths))


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
        rows = _rows(encode, tokens[:, : length - 2])
        ids, mask = rows["input_ids"], tf.minimum(rows["document_ids"], 1)
        return {
            **outputs(ids, mask, rows["segment_ids"]),
            "input_ids": ids,
            "input_mask": mask,
            "truncated": tokens.row_lengths() > length - 2,
        }

    def of_ids(input_ids, input_mask, segment_ids) -> dict[str, tf.Tensor]:
        return outputs(input_ids, input_mask, segment_ids)

    names = ("input_ids", "input_mask", "segment_ids")
    specs = [tf.TensorSpec([None, None], tf.int32, name) for name in names]
    return {
        "serving_default": _function(of_text, ["text"]),
        "ids": tf.function(of_ids, input_signature=specs, autograph=False),
    }


def _same_encoder(signature: Function, model: Encoder, encode: Encoder, length: int) -> bool:
    """Whether a signature gives what `encode` and the model do."""
    found = {name: x.numpy() for name, x in signature(text=tf.constant(_TEXTS)).items()}
    ids, offsets = encode(_TEXTS)
    same = True
    for row, own in enumerate(np.split(ids, offsets[1:-1])):
        own = tf.constant([[encode.cls_id, *own[: length - 2], encode.sep_id]], tf.int32)
        count = own.shape[1]
        hidden = model(own, tf.ones_like(own), tf.zeros_like(own))[0].numpy()
        same &= found["input_mask"][row].sum() == count
        same &= np.array_equal(found["input_ids"][row, :count], own[0])
        same &= _close(found["sequence_output"][row, :count], hidden)
        same &= _close(found["mean_embedding"][row], hidden.mean(axis=0))
    return same


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    return np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)


# --- Fine-tuned models ---------------------------------------------------------------------------


class _Task:
    """A fine-tuned model: its graph, and what it must give.

    Args:
      tuned: the model.
      tokenizer: see `graph_tokenization.load`.
      vocab_file: of which it is.
      length: the most tokens.

    Raises:
      SavedModelError: the model sees texts in a way that the graph cannot.
    """

    def __init__(
        self, tuned: fine_tuned.FineTuned, tokenizer: tf.Module, vocab_file: Path, length: int
    ):
        config = fine_tuned.finetuning_config(tuned.settings)
        self.known = tuned.settings["trained_on"]
        markers = self.known.get("markers") or not config.entity_markers
        if markers or config.pooling in ENTITY_POOLINGS:
            raise SavedModelError(
                f"{tuned.folder} sees relations by markers of their entities (pooling "
                f"{config.pooling}, entity_markers {str(config.entity_markers).lower()}): a "
                "SavedModel takes texts as they are; --mode=predict of run_finetuning.py is the "
                "way to use it."
            )
        self.tokenizer, self.length = tokenizer, length
        self.kind = kinds.make(self.known["kind"], self.known["labels"], config)
        self.model, self.null_threshold = tuned.model, tuned.null_threshold
        segments = self.model.encoder.config.type_vocab_size
        self.encode = tokenization.load_tokenizer(
            vocab_file, tuned.settings["lower_case"], segments=segments
        )

    def functions(self) -> dict[str, Function]:
        """The signature."""
        if self.known["kind"] == "tagging":
            function = _function(self._tag, ["text"])
        elif self.known["kind"] == "spans":
            function = _function(self._answer, ["question", "context"])
        elif self.known["pairs"]:
            function = _function(self._label, ["text", "text_pair"])
        else:
            function = _function(self._label, ["text"])
            if self.known["pairs"] is None:  # not known of a model from elsewhere
                pairs = _function(self._label, ["text", "text_pair"])
                return {"serving_default": function, "pairs": pairs}
        return {"serving_default": function}

    def _outputs(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        return self.kind.outputs(self.model(batch), batch)

    def _tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """string [texts] -> int32 ragged [texts, tokens], as fine-tuning has them."""
        return self.tokenizer.with_places(texts)[0]

    # Texts.

    def _label(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        tokens = [self._tokens(x) for x in (text, text_pair) if x is not None]
        room = self.length - self.encode.special_tokens(pair=len(tokens) == 2)
        parts = _cut_pair(*tokens, room) if len(tokens) == 2 else [tokens[0][:, :room]]
        outputs = self._outputs(_rows(self.encode, *parts))
        if self.known["kind"] == "multilabel":
            outputs = self.kind.present(outputs)
        truncated = sum(x.row_lengths() for x in tokens) > room
        if self.known["kind"] == "regression":
            return {"score": outputs[:, 0], "truncated": truncated}
        labels = tf.constant(self.kind.labels)
        found = {
            "probabilities": outputs,
            "labels": tf.tile(labels[tf.newaxis], [tf.shape(outputs)[0], 1]),
            "truncated": truncated,
        }
        if self.known["kind"] == "multilabel":
            return {**found, "predicted": outputs > 0.5}
        return {**found, "label": tf.gather(labels, tf.argmax(outputs, axis=-1))}

    # Words.

    def _tag(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        found, room = graph_words.of_texts(text, self.known["words"]), self.length - 2
        count = tf.size(text, tf.int64)
        ids = graph_words.tokens(self._tokens, found.words, self.encode.unk_id)
        # By text; a word that alone is too long is cut.
        ids = tf.RaggedTensor.from_value_rowids(ids[:, :room], found.text, count)
        tokens = ids.merge_dims(1, 2)
        batch = _rows(self.encode, tokens[:, :room])
        lengths = ids.values.row_lengths()
        starts = tf.cumsum(lengths) - lengths - tf.gather(tokens.row_starts(), found.text)
        seen = starts < room
        width = tf.shape(batch["input_ids"], tf.int64)[1]
        places = found.text * width + 1 + tf.where(seen, starts, 0)
        batch["targets"] = self._targets(batch, tf.boolean_mask(places, seen))
        letters, types, names = self._bio()
        best = tf.gather(self._outputs(batch), places)
        inside = seen & (tf.gather(letters, best) != "O")
        kind = tf.where(inside, tf.gather(types, best), "")
        # The rule of `tag_schemes.entities`, by which an I goes on with its type or begins.
        before = tf.concat([[""], kind], axis=0)[:-1]
        same = tf.concat([[-1], found.text], axis=0)[:-1] == found.text
        in_before = tf.concat([[False], inside], axis=0)[:-1]
        goes_on = inside & in_before & same & (before == kind)
        goes_on &= tf.gather(letters, best) == "I"
        begins = inside & ~goes_on
        tags = tf.gather(letters, best)
        if self.kind.scheme == "IO":
            tags = tf.where(begins, "B", tags)
        tags = tf.where(seen, tags + tf.where(inside, kind, ""), "")

        number = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        own = tf.boolean_mask(number, inside)
        entity_end = tf.math.segment_max(tf.boolean_mask(found.end, inside), own)
        entity_text = tf.boolean_mask(found.text, begins)
        entity_start = tf.boolean_mask(found.start, begins)
        names = tf.gather(names, tf.boolean_mask(best, begins))
        mentions = tf.strings.substr(
            tf.gather(text, entity_text), entity_start, entity_end - entity_start, "UTF8_CHAR"
        )

        def listed(values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
            ragged = tf.RaggedTensor.from_value_rowids(values, rows, count)
            return ragged.to_tensor("" if values.dtype == tf.string else -1)

        def counted(rows: tf.Tensor) -> tf.Tensor:
            return tf.math.bincount(tf.cast(rows, tf.int32), minlength=tf.size(text))

        return {
            "tags": listed(tags, found.text),
            "word_start": listed(found.start, found.text),
            "word_end": listed(found.end, found.text),
            "word_count": counted(found.text),
            "entity_start": listed(entity_start, entity_text),
            "entity_end": listed(entity_end, entity_text),
            "entity_type": listed(names, entity_text),
            "entity_text": listed(mentions, entity_text),
            "entity_count": counted(entity_text),
            "truncated": tokens.row_lengths() > room,
        }

    def _targets(self, batch: dict[str, tf.Tensor], places: tf.Tensor) -> tf.Tensor:
        """Where tokens have tags, for a CRF: 0; elsewhere NO_TARGET. int32 [batch, length]."""
        shape = tf.shape(batch["input_ids"])
        if self.kind.label_all_tokens:
            ids = batch["input_ids"]
            has = (batch["position_ids"] > 0) & (ids != self.encode.sep_id)
        else:
            size = tf.cast(tf.reduce_prod(shape), tf.int64)
            ones = tf.ones_like(places, tf.int32)
            has = tf.reshape(tf.scatter_nd(places[:, tf.newaxis], ones, [size]), shape) > 0
        return tf.where(has, 0, NO_TARGET)

    def _bio(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """For each label O, B or I; the rest of it, "-Chemical" or ""; and the entities' type."""
        labels = self.kind.labels
        letters = [{"U": "B", "L": "I"}.get(label[0], label[0]) for label in labels]
        names = [label[2:] or self.known.get("entity_type") or "Entity" for label in labels]
        types = [label[1:] for label in labels]
        return tf.constant(letters), tf.constant(types), tf.constant(names)

    # Answers.

    def _answer(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        special = self.encode.special_tokens(pair=True)
        asked = self._tokens(question)[:, : self.kind.question_room(self.length, special)]
        ids, starts, ends = self.tokenizer.with_places(context)
        room = self.length - special - asked.row_lengths()
        shown = _cut(ids, room)
        batch = _rows(self.encode, asked, shown)
        count, length = tf.unstack(tf.shape(batch["input_ids"]))
        logits = self._outputs(batch)
        logits = tf.reshape(logits, [count, length, logits.shape[-1]])
        there = batch["document_ids"][:, :, tf.newaxis] > 0
        # `answers._spans`, of one window: starts [count, starts, 1], and ends, of BERT's head
        # [count, 1, ends], of ELECTRA's [count, starts, ends].
        rules = self.kind.rules
        by_side = tf.transpose(tf.where(there, logits, -np.inf), [0, 2, 1])
        width = tf.minimum(rules.beam_size or rules.n_best, length)
        start_scores, starts_at = tf.math.top_k(by_side[:, 0], width)
        of_ends = by_side[:, 2 : 2 + width] if rules.beam_size else by_side[:, 1:2]
        end_scores, ends_at = tf.math.top_k(of_ends, width)
        if rules.beam_size:
            start_scores -= tf.reduce_logsumexp(by_side[:, 0], axis=-1, keepdims=True)
        before = tf.cast(asked.row_lengths(), tf.int32)[:, tf.newaxis, tf.newaxis] + special - 1
        start, end = starts_at[:, :, tf.newaxis] - before, ends_at - before
        limit = tf.cast(shown.row_lengths(), tf.int32)[:, tf.newaxis, tf.newaxis]
        limit = tf.minimum(start + rules.max_tokens, limit)
        fits = (start >= 0) & (end >= start) & (end < limit)
        scores = tf.where(fits, start_scores[:, :, tf.newaxis] + end_scores, -np.inf)
        pairs = tf.stack([start + tf.zeros_like(end), end + tf.zeros_like(start)], axis=-1)
        scores, pairs = tf.reshape(scores, [count, -1]), tf.reshape(pairs, [count, -1, 2])
        best, score = tf.argmax(scores, axis=1), tf.reduce_max(scores, axis=1)
        has_one = score > -np.inf
        start, end = tf.unstack(tf.gather(pairs, best, batch_dims=1), axis=-1)

        def place(ragged: tf.RaggedTensor, token: tf.Tensor) -> tf.Tensor:
            padded = tf.pad(ragged.to_tensor(), [[0, 0], [0, 1]])
            return tf.gather(padded, tf.where(has_one, token, 0), batch_dims=1)

        start, end = place(starts, start), place(ends, end)
        end += graph_words.marks_after(context, end)
        score = tf.where(has_one, score, 0.0)
        if rules.beam_size:
            null_odds = logits[:, 0, 1]
        else:
            null_odds = tf.where(has_one, tf.reduce_sum(logits[:, 0], axis=-1) - score, 0.0)
        if self.null_threshold is not None:
            has_one &= null_odds <= self.null_threshold
        text = tf.strings.substr(context, start, end - start, "UTF8_CHAR")
        return {
            "answer": tf.where(has_one, text, ""),
            "start": tf.where(has_one, start, -1),
            "end": tf.where(has_one, end, -1),
            "score": score,
            "null_odds": null_odds,
            "truncated": ids.row_lengths() > room,
        }

    # What it must give.

    def compare(self, signature: Function) -> bool:
        """Whether a signature gives what the model does, with the other tokenizer before it."""
        if self.known["kind"] == "tagging":
            return self._same_tags(signature)
        if self.known["kind"] == "spans":
            return self._same_answers(signature)
        pairs = [*_TEXTS[1:], _TEXTS[0]] if self.known["pairs"] else [""] * len(_TEXTS)
        label = {"regression": 0.0, "multilabel": ()}.get(self.known["kind"])
        label = self.kind.labels[0] if label is None else label
        examples = [
            LabelledText("", text, label, pair) for text, pair in zip(_TEXTS, pairs, strict=True)
        ]
        inputs = {"text": tf.constant(_TEXTS)}
        if self.known["pairs"]:
            inputs["text_pair"] = tf.constant(pairs)
        found = signature(**inputs)
        expected = np.array(self._expected(examples)[1])
        if self.known["kind"] == "regression":
            return _close(found["score"].numpy(), expected[:, 0])
        if self.known["kind"] == "multilabel":
            expected = self.kind.present(expected)
        return _close(found["probabilities"].numpy(), expected)

    def _same_tags(self, signature: Function) -> bool:
        examples, texts = [], []
        for text in _TEXTS:
            own = tuple(text[start:end] for start, end in words.spans(text, self.known["words"]))
            examples.append(TaggedSentence("", own, ("O",) * len(own)))
            texts.append(text)
        found = signature(text=tf.constant(texts))
        tags, counts = found["tags"].numpy(), found["word_count"].numpy()
        same = True
        for row, example in enumerate(examples):
            same &= counts[row] == len(example.words)
            if not found["truncated"][row]:
                (expected,), _ = self._expected([example])
                same &= [tag.decode() for tag in tags[row, : counts[row]]] == list(expected)
        return bool(same)

    def _same_answers(self, signature: Function) -> bool:
        found = signature(question=tf.constant([_TEXTS[1]] * len(_TEXTS)), context=_TEXTS)
        same = True
        for row, context in enumerate(_TEXTS):
            if not found["truncated"][row]:
                question = Question("", _TEXTS[1], context, (), ())
                predicted, _ = self._expected([question])
                (expected,) = answers.with_threshold(predicted, self.null_threshold)
                same &= found["answer"][row].numpy().decode() == expected.best
                same &= _close(found["null_odds"][row].numpy(), expected.null_odds)
        return bool(same)

    def _expected(self, examples: list) -> tuple[list, list]:
        """What is predicted of examples, and the outputs of their pieces, without the graph."""
        pieces = self.kind.pieces(examples, self.encode, self.length)
        number = len(pieces.input_ids)
        packer = packing.Packer(pieces, number, 1, self.encode.pad_id, self.length)
        (part,) = packer.batch(np.arange(number))
        batch = {name: tf.constant(array) for name, array in part.arrays.items()}
        outputs = self._outputs(batch).numpy()
        if self.kind.of_tokens:
            rows = outputs.reshape(number, self.length, *outputs.shape[1:])
            outputs = [row[:n] for row, n in zip(rows, pieces.lengths, strict=True)]
        return self.kind.predictions(list(outputs), pieces, examples), list(outputs)


def _cut_pair(
    first: tf.RaggedTensor, second: tf.RaggedTensor, room: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """`classification._cut`."""
    lengths = first.row_lengths(), second.row_lengths()
    over = tf.maximum(lengths[0] + lengths[1] - room, 0)
    difference = lengths[0] - lengths[1]
    from_longer = tf.minimum(over, tf.abs(difference))
    rest = over - from_longer
    from_first = tf.where(difference > 0, from_longer, tf.zeros_like(from_longer))
    from_second = from_longer - from_first + rest - rest // 2
    from_first += rest // 2
    return _cut(first, lengths[0] - from_first), _cut(second, lengths[1] - from_second)
