"""The examples of a run: their order, the number of steps, and what runs share."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from tfbio.base.errors import UserError
from tfbio.formats.task_examples import TaggedSentence
from tfbio.runs import finetuning_data
from tfbio.task_types import task_table
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.tagging import Tagging
from tfbio.text import tokenization


def test_every_epoch_is_a_new_order_of_all_examples():
    order = finetuning_data.training_order(50, 0, num_steps=10, batch_size=10, seed=3)
    first, second = order[:50], order[50:]
    assert sorted(first) == sorted(second) == list(range(50))
    assert first.tolist() != second.tolist()
    again = finetuning_data.training_order(50, 0, num_steps=10, batch_size=10, seed=3)
    np.testing.assert_array_equal(order, again)
    other = finetuning_data.training_order(50, 0, num_steps=10, batch_size=10, seed=4)
    assert order.tolist() != other.tolist()


def test_a_part_of_the_examples_is_drawn_by_the_seed():
    parts = [set(finetuning_data.training_order(100, 20, 4, 10, seed)) for seed in (0, 0, 1)]
    assert [len(part) for part in parts] == [20, 20, 20]
    assert parts[0] == parts[1] != parts[2]


def test_steps_may_be_counted_in_whole_batches():
    """BioELECTRA's authors took 300 steps for the 450 questions of PubMedQA."""
    features = SimpleNamespace(input_ids=range(450))
    settings = FinetuningConfig(train_batch_size=32, num_train_epochs=20.0)
    assert finetuning_data.count_steps(settings, features) == 281
    settings = dataclasses.replace(settings, count_whole_batches=True)
    assert finetuning_data.count_steps(settings, features) == 300


def test_epochs_of_a_step_make_that_step():
    """As --stop_as computes them: for a run of 352 examples whose best step was 200."""
    features = SimpleNamespace(input_ids=range(352))
    settings = FinetuningConfig(train_batch_size=16, num_train_epochs=10 * (200 / 220))
    assert 352 * settings.num_train_epochs / 16 < 200
    assert finetuning_data.count_steps(settings, features) == 200


def test_the_runs_of_a_sweep_share_examples_and_windows(vocab_file, tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("Give\tO\nIL-2\tB\n\nNo\tO\n")
    task, read = task_table.find("ner", str(tmp_path)), []
    task = dataclasses.replace(task, read=lambda path: read.append(path) or own(path), settings={})
    own = task_table.find("ner", str(tmp_path)).read

    def features(data="0", vocab="0", **settings):
        data_sha256, shape = (data,) * 3, FinetuningConfig(**settings)
        tokenizer = finetuning_data._tokenizer(vocab_file, vocab, True, (), 2)
        return finetuning_data._encoded(task, str(tmp_path), data_sha256, tokenizer, shape)[0]

    first = features(sequence_length=32)
    assert features(sequence_length=32) is first and len(read) == 3
    for changes in (
        {"sequence_length": 16},
        {"sequence_length": 16, "tagging": Tagging.Settings(label_all_tokens=True)},
        {"sequence_length": 16, "tagging": Tagging.Settings(scheme="IO")},
        {"vocab": "1"},
    ):
        other = features(**changes)
        assert other is not first and len(read) == 3
        first = other
    # The files were changed.
    assert features(data="1", vocab="1") is not first and len(read) == 6


def test_an_early_cut_that_leaves_nothing_is_refused(vocab_file):
    task = task_table.TASKS["bc5cdr_chem"]
    tokenizer = tokenization.load_tokenizer(vocab_file)
    examples = {"train": [TaggedSentence("1", ("the",) * 30, ("O",) * 30)]}
    config = FinetuningConfig(sequence_length=16, tagging=Tagging.Settings(early_cut=True))
    with pytest.raises(UserError, match="early_cut leaves no word .* sequence_length=16: give a"):
        finetuning_data.encode_examples(task, examples, tokenizer, config)


def test_the_share_of_unknown_tokens_is_of_words_alone():
    tokenizer = SimpleNamespace(unk_id=1, cls_id=2, sep_id=3)
    windows = [np.array([2, 7, 1, 3]), np.array([2, 1, 1, 8, 3])]
    features = SimpleNamespace(input_ids=windows)
    assert finetuning_data.unknown_share(features, tokenizer) == 3 / 5
    features = SimpleNamespace(input_ids=[np.array([2, 3])])
    assert finetuning_data.unknown_share(features, tokenizer) == 0


def test_what_a_run_reads_from_files_is_balanced(vocab_file, tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("Give\tO\nit\tO\nIL-2\tB\n\nNo\tO\n")
    task = task_table.find("ner", str(tmp_path))
    tokenizer = tokenization.load_tokenizer(vocab_file)
    settings = FinetuningConfig(sequence_length=32, minority_copies=3, minority_weight=2.0)
    features, trained = finetuning_data.encode(task, str(tmp_path), ("0",) * 3, tokenizer, settings)
    assert len(features["train"].input_ids) == 2 and trained.example.tolist() == [0, 0, 0, 1]
    assert trained.per_token["weights"].values[0].max() == 2


def test_the_same_examples_are_scored_whatever_the_seed():
    """Runs with other seeds are compared with each other."""
    examples = {"train": [], "dev": [*range(100)], "test": [*range(50)]}
    settings = [
        FinetuningConfig(seed=seed, max_dev_examples=10, max_test_examples=20) for seed in (0, 7)
    ]
    one, other = (finetuning_data.draw(examples, each) for each in settings)
    assert one == other
    assert [len(one[split]) for split in ("dev", "test")] == [10, 20]
