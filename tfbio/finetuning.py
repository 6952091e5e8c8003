"""Fine-tuning: a head on a pretrained encoder, trained and scored once for each seed.

`finetune` is what `run_finetuning.py` calls. All trials use one model and one graph: a trial
starts by giving every variable its first value again. Everything random is keyed by the trial's
seed and the step, so a trial gives the same scores whether others ran before it or not.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import math
import os
import shutil
import statistics
import time

import numpy as np
import tensorflow as tf
import tf_keras as keras
import tqdm

from tfbio import checkpoints, distribution, optimization, randomness, records, tokenization
from tfbio.cli import UserError
from tfbio.config import ConfigError, EncoderConfig, FinetuningConfig
from tfbio.encoder import Encoder
from tfbio.tasks import SPLITS, Example, Task, find

# The second number of the seeds, so that no two purposes share a stream of random numbers.
DROPOUT_STREAM, ORDER_STREAM, SUBSET_STREAM = 0, 1, 2
# Steps between two log lines, and two points of the curves.
LOG_EVERY = 50
# Settings that do not tell one trial from another: with others, finished trials stay valid.
NOT_IN_A_TRIAL = ("comment", "run", "seed", "num_trials", "init_checkpoint")


class Classifier(keras.layers.Layer):
    """An encoder and a dense layer on one vector for the text.

    With `pooling` "first" the head is the original ELECTRA code's
    (finetune/classification/classification_tasks.py): the output for [CLS] as it is, without
    BERT's tanh layer, then dropout, then a dense layer. "mean" takes the mean over all tokens.
    """

    def __init__(
        self,
        encoder_config: EncoderConfig,
        num_labels: int,
        dropout_prob: float,
        pooling: str = "first",
    ):
        super().__init__(name="classifier")
        self.encoder = Encoder(encoder_config)
        self.dropout_prob, self.pooling = dropout_prob, pooling
        # Logits are float32 whatever the encoder computes in.
        self.head = keras.layers.Dense(num_labels, name="head", dtype="float32")
        self.head.build([None, encoder_config.hidden_size])

    def call(self, batch: dict[str, tf.Tensor], seed: tf.Tensor | None = None) -> tf.Tensor:
        """Scores a batch.

        Args:
          batch: `input_ids`, `input_mask` and `segment_ids`, int32 [batch, length] each.
          seed: int32 [2], keys all dropout; None for evaluation.

        Returns:
          float32 [batch, num_labels], the logits.
        """
        encoder_seed = head_seed = None
        if seed is not None:
            encoder_seed, head_seed = randomness.split(seed, 2)
        output = self.encoder(
            batch["input_ids"], batch["input_mask"], batch["segment_ids"], seed=encoder_seed
        )
        output = tf.cast(output, tf.float32)
        if self.pooling == "mean":
            mask = tf.cast(batch["input_mask"], tf.float32)[:, :, tf.newaxis]
            pooled = tf.reduce_sum(output * mask, axis=1) / tf.reduce_sum(mask, axis=1)
        else:
            pooled = output[:, 0]
        return self.head(randomness.dropout(pooled, self.dropout_prob, head_seed))


def layer_multiplier(depth: int, num_layers: int, decay: float, exponent: str) -> float:
    """The share of the learning rate that an encoder's variable gets; the head gets all of it.

    With n layers, the original ELECTRA code (model/optimization.py, `_get_layer_lrs`) gives layer
    i, 0 the lowest, decay^(n+1-i), and the embeddings decay^(n+2). BioELECTRA's fork shifts the
    exponent by one: decay^(n-i) and decay^(n+1).

    Args:
      depth: 0 for the embeddings, 1 to `num_layers` for the layers, from below.
      num_layers: layers of the encoder.
      decay: in (0, 1].
      exponent: "electra" or "bioelectra".
    """
    return decay ** (num_layers + {"electra": 2, "bioelectra": 1}[exponent] - depth)


def encode(texts: list[str], tokenizer, vocab: dict[str, int], length: int) -> dict:
    """Encodes each text as [CLS] text [SEP], cut where it is too long, padded where too short.

    Returns:
      `input_ids`, `input_mask` and `segment_ids`, int32 arrays [texts, length], and `lengths`,
      [texts], the tokens that each text has uncut, with [CLS] and [SEP].
    """
    cls_id, sep_id, pad_id = (
        vocab[token] for token in (tokenization.CLS, tokenization.SEP, tokenization.PAD)
    )
    ids = np.full([len(texts), length], pad_id, np.int32)
    mask = np.zeros([len(texts), length], np.int32)
    lengths = np.zeros([len(texts)], np.int32)
    for row, encoding in enumerate(tokenizer.encode_batch(texts, add_special_tokens=False)):
        tokens = [cls_id, *encoding.ids[: length - 2], sep_id]
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
        lengths[row] = len(encoding.ids) + 2
    return {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": np.zeros_like(ids),
        "lengths": lengths,
    }


def training_order(num_examples: int, num_used: int, num_steps: int, batch_size: int, seed: int):
    """The examples of every step: a function of its arguments alone.

    Each epoch is a new permutation; the next one follows without a gap, so every batch is full.

    Args:
      num_examples: in the training set.
      num_used: draw so many of them by the seed; 0 for all.
      num_steps: batches.
      batch_size: examples in a batch.
      seed: of the trial.

    Returns:
      int64 array [num_steps * batch_size] of indices.
    """
    used = np.arange(num_examples)
    if 0 < num_used < num_examples:
        generator = np.random.default_rng([seed, SUBSET_STREAM])
        used = generator.choice(used, num_used, replace=False)
    needed = num_steps * batch_size
    generator = np.random.default_rng([seed, ORDER_STREAM])
    epochs = [generator.permutation(used) for _ in range(math.ceil(needed / len(used)))]
    return np.concatenate(epochs)[:needed]


class Finetuner:
    """One model and its graph, which run trial after trial."""

    def __init__(
        self,
        config: FinetuningConfig,
        encoder_config: EncoderConfig,
        num_labels: int,
        num_steps: int,
        strategy: tf.distribute.Strategy,
    ):
        self.config, self.strategy, self.num_steps = config, strategy, num_steps
        self.arguments = (
            dataclasses.replace(
                encoder_config,
                hidden_dropout_prob=config.hidden_dropout_prob,
                attention_probs_dropout_prob=config.attention_probs_dropout_prob,
            ),
            num_labels,
            config.hidden_dropout_prob,
            config.pooling,
        )
        with strategy.scope():
            self.model = Classifier(*self.arguments)
            self.optimizer = optimization.Adam(
                optimization.WarmupLinearDecay(
                    config.learning_rate, num_steps, int(num_steps * config.warmup_proportion)
                ),
                beta_1=config.adam_beta_1,
                beta_2=config.adam_beta_2,
                epsilon=config.adam_epsilon,
                weight_decay_rate=config.weight_decay_rate,
                lr_multiplier=self._multipliers(),
            )
            # Now, and not in the first step: a graph that makes variables does not run on several
            # devices.
            self.optimizer._create_all_weights(self.model.trainable_variables)

    def _multipliers(self):
        """A function from a variable to its share of the learning rate."""
        encoder, config = self.model.encoder, self.config
        shares = {}
        for variable in self.model.trainable_variables:
            share = 1.0
            if any(variable is own for own in encoder.trainable_variables):
                share = layer_multiplier(
                    encoder.layer_depth(variable),
                    len(encoder.transformer_layers),
                    config.layerwise_lr_decay,
                    config.layerwise_lr_exponent,
                )
            # The optimizer sees the copy of each replica.
            for copy in (variable, *self.strategy.experimental_local_results(variable)):
                shares[copy.ref()] = share
        return lambda variable: shares[variable.ref()]

    def initialize(self, seed: int, init_checkpoint: str) -> None:
        """Gives every variable its value at the start of a trial.

        Args:
          seed: of the trial; draws the head's weights, and the encoder's where it starts so.
          init_checkpoint: folder with the encoder's weights; "" for random ones.
        """
        keras.utils.set_random_seed(seed)
        fresh = Classifier(*self.arguments)
        for variable, value in zip(self.model.variables, fresh.variables, strict=True):
            variable.assign(value.numpy())
        if init_checkpoint:
            checkpoints.restore_encoder(init_checkpoint, self.model.encoder)
        for variable in self.optimizer.variables():
            variable.assign(tf.zeros_like(variable))

    def train(self, features: dict[str, np.ndarray], order: np.ndarray, seed: int, log) -> None:
        """Trains on the examples of `order`.

        Args:
          features: `input_ids`, `input_mask`, `segment_ids` [examples, length], `label` [examples].
          order: see `training_order`.
          seed: of the trial.
          log: called as log(step, loss, learning rate) every `LOG_EVERY` steps and at the end.

        Raises:
          UserError: if the loss is no longer a number.
        """
        dataset = self._batches(features, order, self.config.train_batch_size)
        total = tf.Variable(0.0)
        steps_in_total = 0
        for step, batch in enumerate(dataset, start=1):
            total.assign_add(self._train_step(batch, tf.constant(seed)))
            steps_in_total += 1
            if step % LOG_EVERY == 0 or step == self.num_steps:
                loss = float(total.numpy()) / steps_in_total
                if not math.isfinite(loss):
                    raise UserError(
                        f"the loss is {loss} at step {step} of seed {seed}: try a lower "
                        "learning_rate, or a higher warmup_proportion."
                    )
                log(step, loss, float(self.optimizer.learning_rate(self.optimizer.iterations)))
                total.assign(0.0)
                steps_in_total = 0

    @tf.function
    def _train_step(self, batch: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        losses = self.strategy.run(self._replica_train_step, args=(batch, seed))
        return self.strategy.reduce("SUM", losses, axis=None)

    def _replica_train_step(self, batch: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        step_seed = randomness.fold_in(tf.stack([seed, DROPOUT_STREAM]), self.optimizer.iterations)
        with tf.GradientTape() as tape:
            logits = self.model(batch, seed=step_seed)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
            loss = tf.reduce_sum(losses) / self.config.train_batch_size
        variables = self.model.trainable_variables
        norm = optimization.apply_clipped(
            self.optimizer, tape.gradient(loss, variables), variables, self.config.max_gradient_norm
        )
        # A step that changed nothing must not pass for one that did.
        return tf.where(tf.math.is_finite(norm), loss, norm)

    def predict(self, features: dict[str, np.ndarray]) -> np.ndarray:
        """int64 array [examples], the best label of each."""
        count, batch_size = len(features["input_ids"]), self.config.run.eval_batch_size
        # The last batch is filled with the last example: shapes stay static.
        padded = math.ceil(count / batch_size) * batch_size
        order = np.minimum(np.arange(padded), count - 1)
        predicted = np.zeros([count], np.int64)
        for batch in self._batches(features, order, batch_size):
            index, best = self._predict_step(batch)
            predicted[index.numpy()] = best.numpy()
        return predicted

    @tf.function
    def _predict_step(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        def replica_step(batch):
            return batch["index"], tf.argmax(self.model(batch), axis=-1)

        index, best = self.strategy.run(replica_step, args=(batch,))
        return self.strategy.gather(index, axis=0), self.strategy.gather(best, axis=0)

    def _batches(self, features: dict[str, np.ndarray], order: np.ndarray, batch_size: int):
        """Batches of the examples of `order`, of static shape, with their `index`."""
        tensors = {name: tf.constant(values) for name, values in features.items()}
        dataset = tf.data.Dataset.from_tensor_slices(order)
        dataset = dataset.batch(batch_size, drop_remainder=True)
        dataset = dataset.map(
            lambda index: {
                "index": index,
                **{name: tf.gather(values, index) for name, values in tensors.items()},
            }
        )
        return self.strategy.experimental_distribute_dataset(dataset.prefetch(4))


def finetune(
    config: FinetuningConfig,
    *,
    task_name: str,
    data_dir: str,
    init_checkpoint: str,
    output_dir: str,
    strategy: tf.distribute.Strategy,
    from_scratch: bool = False,
    overwrite: bool = False,
) -> dict:
    """Runs every trial that `output_dir` does not hold yet, and sums them up.

    Writes into `output_dir`: `config.json`, `vocab.txt`; for each trial `trial_SEED/` with
    `scores.json`, `test_predictions.tsv` and the weights (`model.index`, `model.data-*`), which
    appears when the trial is complete; `scores.json`; TensorBoard logs in `logs/`.

    Args:
      config: all settings.
      task_name: one of `tasks.TASKS`.
      data_dir: folder with the task's files.
      init_checkpoint: the model folder of a pretraining run.
      output_dir: made if need be.
      strategy: where to compute; the batches must divide by its replicas.
      from_scratch: take only the encoder's shape and the vocabulary from `init_checkpoint`.
      overwrite: remove what a run with other settings left in `output_dir`.

    Returns:
      What `scores.json` holds: task, metric, init, trials, and mean and standard deviation of the
      metric on the test set over the trials (None for a single trial).

    Raises:
      UserError: the task, its data, the checkpoint or the settings cannot be used, or
        `output_dir` holds a run with other settings.
    """
    task = find(task_name)
    examples = {split: task.examples(data_dir, split) for split in SPLITS}
    pretrained = checkpoints.read_settings(init_checkpoint)
    encoder_config = checkpoints.read_encoder_config(init_checkpoint)
    found = tokenization.find_vocabulary(init_checkpoint)
    if found.suffix != ".txt":
        raise UserError(
            f"{init_checkpoint} was pretrained with {found.name}: fine-tuning takes WordPiece's "
            "vocab.txt only."
        )
    vocab = tokenization.read_vocab(found)
    _check(config, encoder_config, vocab, init_checkpoint, strategy)
    settings = {
        **dataclasses.asdict(config),
        "task": task.name,
        "data_sha256": {
            split: records.sha256_of(os.path.join(data_dir, f"{split}.tsv")) for split in SPLITS
        },
        "init_checkpoint": init_checkpoint,
        "from_scratch": from_scratch,
        "weights_sha256": "" if from_scratch else _weights_sha256(init_checkpoint),
        "encoder": dataclasses.asdict(encoder_config),
        "lower_case": pretrained["lower_case"],
        "vocab_sha256": records.sha256_of(found),
    }
    _prepare_output_dir(output_dir, settings, overwrite)
    tokenization.copy_vocabulary(found, output_dir)

    seeds = range(config.seed, config.seed + config.num_trials)
    missing = [seed for seed in seeds if not os.path.isdir(_trial_dir(output_dir, seed))]
    for seed in seeds:
        if seed not in missing:
            print(f"{_trial_dir(output_dir, seed)} is complete and is reused.", flush=True)
    if missing:
        distribution.set_precision(config.run.precision, strategy)
        tokenizer = tokenization.wordpiece(vocab, pretrained["lower_case"])
        features = _features(config, task, examples, tokenizer, vocab)
        num_used = min(config.max_train_examples or math.inf, len(examples["train"]))
        num_steps = max(1, int(num_used * config.num_train_epochs / config.train_batch_size))
        finetuner = Finetuner(config, encoder_config, len(task.labels), num_steps, strategy)
        print(
            f"{task.name}: {num_steps} steps of {config.train_batch_size} examples for each of "
            f"{len(missing)} seed(s), from "
            f"{'random weights' if from_scratch else init_checkpoint}.",
            flush=True,
        )
        for seed in missing:
            finetuner.initialize(seed, "" if from_scratch else init_checkpoint)
            _run_trial(finetuner, task, examples, features, output_dir, seed)
    return _sum_up(task, settings, output_dir, seeds)


def _check(
    config: FinetuningConfig,
    encoder_config: EncoderConfig,
    vocab: dict[str, int],
    init_checkpoint: str,
    strategy: tf.distribute.Strategy,
) -> None:
    """Raises a UserError if the settings, the encoder and the devices do not fit together."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        raise UserError(
            "--strategy=multi_worker: fine-tuning runs on one machine; give mirrored or one_device."
        )
    if config.sequence_length > encoder_config.max_position_embeddings:
        raise ConfigError(
            f"sequence_length {config.sequence_length} is more than the "
            f"{encoder_config.max_position_embeddings} positions of the encoder in "
            f"{init_checkpoint}."
        )
    if len(vocab) > encoder_config.vocab_size:
        raise checkpoints.CheckpointError(
            f"{init_checkpoint}/vocab.txt has {len(vocab)} tokens, but the encoder was made for "
            f"{encoder_config.vocab_size}: it is not the vocabulary it was trained with."
        )
    replicas = strategy.num_replicas_in_sync
    for name, size in (
        ("train_batch_size", config.train_batch_size),
        ("run.eval_batch_size", config.run.eval_batch_size),
    ):
        if size % replicas:
            raise ConfigError(f"{name} {size} does not divide by {replicas} devices.")


def _weights_sha256(folder: str) -> str:
    """Tells one checkpoint from another: the hash of its index, which has every tensor's."""
    path = tf.train.latest_checkpoint(folder)
    if path is None:
        raise checkpoints.CheckpointError(
            f"{folder} holds no checkpoint: run run_pretraining.py first."
        )
    return records.sha256_of(f"{path}.index")


def _prepare_output_dir(output_dir: str, settings: dict, overwrite: bool) -> None:
    """Writes `config.json`, unless the folder holds trials with other settings."""
    path = os.path.join(output_dir, "config.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            before = json.load(file)
        differing = [
            name
            for name, value in settings.items()
            if name not in NOT_IN_A_TRIAL and before.get(name) != value
        ]
        if differing and not overwrite:
            name = differing[0]
            raise UserError(
                f"{output_dir} holds a run with {name} = {before.get(name)}, now it is "
                f"{settings[name]}: give another --output_dir, or --overwrite to replace it."
            )
        if differing:
            # The scores first: nothing may sum up trials that are no longer there.
            for pattern in ("scores.json", "trial_*", "logs"):
                for old in glob.glob(os.path.join(glob.escape(output_dir), pattern)):
                    shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)
    os.makedirs(output_dir, exist_ok=True)
    records.write_text(path, json.dumps(settings, indent=2) + "\n")


def _features(
    config: FinetuningConfig,
    task: Task,
    examples: dict[str, list[Example]],
    tokenizer,
    vocab: dict[str, int],
) -> dict[str, dict[str, np.ndarray]]:
    """The arrays of each split; those of dev and test are no longer than their longest text."""
    label_ids = {label: number for number, label in enumerate(task.labels)}
    features, cut = {}, 0
    for split, members in examples.items():
        texts = [example.text for example in members]
        features[split] = encode(texts, tokenizer, vocab, config.sequence_length)
        features[split]["label"] = np.array([label_ids[x.label] for x in members], np.int32)
        cut += int((features[split].pop("lengths") > config.sequence_length).sum())
    if cut:
        count = sum(map(len, examples.values()))
        print(
            f"{cut} of {count} texts are longer than sequence_length = {config.sequence_length} "
            "tokens and are cut there.",
            flush=True,
        )
    # One length for both, so that one graph serves both.
    longest = max(int(features[split]["input_mask"].sum(1).max()) for split in ("dev", "test"))
    for split in ("dev", "test"):
        for name in ("input_ids", "input_mask", "segment_ids"):
            features[split][name] = features[split][name][:, :longest]
    return features


def _run_trial(
    finetuner: Finetuner,
    task: Task,
    examples: dict[str, list[Example]],
    features: dict[str, dict[str, np.ndarray]],
    output_dir: str,
    seed: int,
) -> None:
    """Trains and scores one trial, whose folder appears when all of it is written."""
    config, start = finetuner.config, time.time()
    logs = os.path.join(output_dir, "logs", f"trial_{seed}")
    shutil.rmtree(logs, ignore_errors=True)  # of a trial that was interrupted
    writer = tf.summary.create_file_writer(logs)
    order = training_order(
        len(examples["train"]),
        config.max_train_examples,
        finetuner.num_steps,
        config.train_batch_size,
        seed,
    )
    bar = tqdm.tqdm(total=finetuner.num_steps, desc=f"seed {seed}", unit="step", disable=None)

    def log(step: int, loss: float, learning_rate: float) -> None:
        with writer.as_default(step):
            tf.summary.scalar("loss", loss)
            tf.summary.scalar("learning_rate", learning_rate)
        if bar.disable and (step % (10 * LOG_EVERY) == 0 or step == finetuner.num_steps):
            print(f"seed {seed} | step {step}/{finetuner.num_steps} | loss {loss:.3f}", flush=True)
        bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
        bar.update(step - bar.n)

    with bar:
        finetuner.train(features["train"], order, seed, log)
    scores = {"seed": seed}
    for split in ("dev", "test"):
        truth = [example.label for example in examples[split]]
        predicted = [task.labels[number] for number in finetuner.predict(features[split])]
        scores[split] = task.score(truth, predicted)
        with writer.as_default(finetuner.num_steps):
            for name, value in scores[split].items():
                tf.summary.scalar(f"{split}_{name}", value)
    writer.close()
    scores["seconds"] = round(time.time() - start, 1)

    unfinished = _trial_dir(output_dir, seed) + ".unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    rows = ["id\tlabel\tpredicted\tsentence"]
    for example, label in zip(examples["test"], predicted, strict=True):
        rows.append(f"{example.id}\t{example.label}\t{label}\t{example.text}")
    records.write_text(os.path.join(unfinished, "test_predictions.tsv"), "\n".join(rows) + "\n")
    tf.train.Checkpoint(model=finetuner.model).write(os.path.join(unfinished, "model"))
    records.write_text(os.path.join(unfinished, "scores.json"), json.dumps(scores, indent=2) + "\n")
    os.rename(unfinished, _trial_dir(output_dir, seed))
    figures = ", ".join(
        f"{split} {task.metric} {scores[split][task.metric]:.4f}" for split in ("dev", "test")
    )
    print(f"seed {seed}: {figures} ({scores['seconds']:.0f} s)", flush=True)


def _trial_dir(output_dir: str, seed: int) -> str:
    return os.path.join(output_dir, f"trial_{seed}")


def _sum_up(task: Task, settings: dict, output_dir: str, seeds: range) -> dict:
    """Writes `scores.json` from the trials' and prints the mean."""
    trials = []
    for seed in seeds:
        with open(os.path.join(_trial_dir(output_dir, seed), "scores.json")) as file:
            trials.append(json.load(file))
    values = [trial["test"][task.metric] for trial in trials]
    scores = {
        "task": task.name,
        "metric": task.metric,
        "init": "random weights" if settings["from_scratch"] else settings["init_checkpoint"],
        "trials": trials,
        "mean": statistics.fmean(values),
        # Of the sample (n - 1); a single trial has none.
        "std": statistics.stdev(values) if len(values) > 1 else None,
    }
    path = os.path.join(output_dir, "scores.json")
    records.write_text(path, json.dumps(scores, indent=2) + "\n")
    spread = "" if scores["std"] is None else f" ± {scores['std']:.4f}"
    print(
        f"{task.name}: test {task.metric} {scores['mean']:.4f}{spread} over {len(trials)} "
        f"seed(s); see {path}"
    )
    return scores
