"""The benchmarks as commands: what is wrong is said in a sentence, before anything is measured."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    best_options,
    finetuning,
    finetuning_protocols,
    hugging_face_pretraining,
    kept_folder,
    pretraining_shapes,
    sentence_pairs,
)
from benchmarks.pretraining_shapes import SHAPES
from tests import forked
from tfbio.base.errors import UserError
from tfbio.base.manifests import read_manifest, verify
from tfbio.runs import pretraining_data
from tfbio.training import cpu_bfloat16

ROOT = Path(__file__).resolve().parents[1]
# Python runs this as it starts, in the processes that a benchmark starts, too.
SITE = "import sys\nfor name in {}:\n    sys.modules[name] = None\n"


@pytest.fixture
def benchmark(tmp_path, fails_in_one_sentence):
    """Runs `python -m benchmarks.NAME`, without some packages; gives the exit code and sentence."""

    def run(name, *arguments, without=()):
        (tmp_path / "sitecustomize.py").write_text(SITE.format(without))
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        line = fails_in_one_sentence(done)
        assert done.stderr.splitlines()[-1] == line and line.startswith("error: ")
        return done.returncode, line

    return run


@pytest.mark.parametrize("name", ["loss_curve", "pretraining", "finetuning", "data_prep"])
def test_a_package_that_is_missing_is_named(benchmark, examples_folder, tmp_path, name):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("Aspirin\tB-Chemical\nhelps\tO\n")
    arguments = {
        "loss_curve": [f"--examples={examples_folder}", "--steps=20", "--batch_size=1"],
        "finetuning": [f"--data_dir={tmp_path}", "--task=ner"],
    }
    package = "spacy" if name == "data_prep" else "torch"
    code, line = benchmark(name, *arguments.get(name, []), without=(package, "transformers"))
    assert code == 1 and f"the package {package} is not installed" in line
    assert f"pip install -c constraints.txt {package}" in line


@pytest.mark.parametrize(
    "name, arguments, words",
    [
        ("finetuning", "", "the following arguments are required: --data_dir: see --help"),
        ("finetuning", "--data_dir=nowhere", "nowhere"),
        ("finetuning", "--data_dir=nowhere --task=x", "--task=x"),
        ("loss_curve", "--examples=nowhere", "nowhere"),
        ("loss_curve", "--examples=nowhere --set=seed=1", "--set seed=1: both engines know only"),
        (
            "loss_curve",
            "--examples=nowhere --hparams=hparams/quickstart.json",
            "--hparams=hparams/quickstart.json: Hugging Face's engine starts from ELECTRA-small",
        ),
        ("pretraining", "--rounds=0", "argument --rounds: '0' is no whole number above 0"),
        ("pretraining", "--shape=x", "argument --shape: invalid choice: 'x'"),
        ("pretraining", "--folder=README.md", "README.md"),
        ("pretraining", "--before=docs", "--before=docs is no checkout of tfbio: give its root."),
        ("prediction", "--model=nowhere", "--model=nowhere: there is no such folder"),
        ("prediction", "--precision=x", "argument --precision: invalid choice: 'x'"),
        ("prediction", "--data_dir=docs", "--data_dir=docs has no train.tsv, nor train.tsv.gz."),
        (
            "step_profile",
            "--shape=base_128 --folder=nowhere",
            "--folder=nowhere has no examples_128: give that of `python -m benchmarks.pretraining",
        ),
        (
            "step_profile",
            "--shape=prediction --folder=nowhere",
            "--folder=nowhere has no abstracts.json: give that of `python -m benchmarks.prediction",
        ),
        ("sentence_pairs", "--examples=nowhere --output=new", "nowhere"),
        ("sentence_pairs", "--examples=nowhere", "arguments are required: --output: see --help"),
        ("input_pipeline", "--examples=nowhere", "nowhere"),
        ("input_pipeline", "--hparams=nowhere.json", "nowhere.json"),
        ("annotation", "--model=nowhere", "--model=nowhere: there is no such folder"),
        ("serving", "--model=nowhere", "--model=nowhere: there is no such folder"),
        ("finetuning_protocols", "", "give --data and --work, or --print."),
        ("finetuning_protocols", "--bogus", "unrecognized arguments: --bogus"),
        ("finetuning_protocols", "--data=a --work=b --tasks=x", "--tasks=x: 'x' is none of ncbi"),
        (
            "finetuning_protocols",
            "--data=nowhere --work=new --model=nowhere",
            "--model=nowhere: there is no such folder",
        ),
        ("data_prep", "--rounds=1e3", "argument --rounds: '1e3' is no whole number above 0"),
        ("data_prep", "--round=1", "unrecognized arguments: --round=1"),
    ],
)
def test_a_mistake_is_named(benchmark, name, arguments, words):
    _, line = benchmark(name, *arguments.split())
    assert words in line


@pytest.mark.parametrize(
    "command, name",
    [("pretraining", "documents"), ("pretraining", "vocab"), ("input_pipeline", "vocab")],
)
def test_a_folder_with_examples_of_other_flags_is_refused(benchmark, command, name, tmp_path):
    (tmp_path / "offsets.npy").touch()
    kept_folder.write_flags(tmp_path, {"documents": "", "vocab": ""} | {name: "other"})
    _, line = benchmark(command, f"--folder={tmp_path}")
    assert f"--folder={tmp_path} was made with another --{name}: give a new folder." in line


def test_prepared_examples_have_their_flags(tmp_path, monkeypatch):
    def make(folder, documents, vocab):
        (folder / "offsets.npy").touch(exist_ok=False)

    monkeypatch.setattr(pretraining_shapes, "_make", make)  # takes minutes
    folder = tmp_path / "new"
    for _ in range(2):
        pretraining_shapes.prepare(folder, "", "vocab.txt")
    with pytest.raises(UserError, match="was made with another --vocab"):
        pretraining_shapes.prepare(folder, "", "")


def test_a_folder_with_models_of_another_training_is_refused(benchmark, tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("Aspirin\tB-Chemical\nhelps\tO\n")
    folder = tmp_path / "prediction"
    (folder / "spacy").mkdir(parents=True)
    command = ["prediction", f"--folder={folder}", f"--data_dir={tmp_path}", "--spacy_epochs=3"]
    _, line = benchmark(*command)
    assert f"--folder={folder} does not say with which --model it was made" in line
    flags = {"model": "", "data_dir": str(tmp_path), "spacy_epochs": 2}
    kept_folder.write_flags(folder, flags)
    _, line = benchmark(*command)
    assert f"--folder={folder} was made with another --spacy_epochs: give a new folder." in line
    assert [each.name for each in folder.iterdir() if each.is_dir()] == ["spacy"]


def test_scores_of_another_model_or_of_other_data_are_not_continued(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(finetuning_protocols, "compare", lambda *given: ran.append(given[2]))
    monkeypatch.setattr(finetuning_protocols.task_table, "find", lambda *_: None)

    def compare(model="a", data="a", work="work"):
        flags = [f"--{x}={tmp_path / y}" for x, y in (("model", model), ("data", data))]
        flags += [f"--work={tmp_path / work}", "--tasks=hoc"]
        monkeypatch.setattr(sys, "argv", ["finetuning_protocols", *flags])
        finetuning_protocols.main()

    for name in ("a", "b", "old/scores"):
        (tmp_path / name).mkdir(parents=True)
    compare()
    compare()
    for given, name in (({"model": "b"}, "model"), ({"data": "b"}, "data")):
        with pytest.raises(UserError, match=f"--work=.*/work was made with another --{name}: give"):
            compare(**given)
    with pytest.raises(UserError, match="--work=.*/old does not say with which --model it was"):
        compare(work="old")
    assert ran == ["hoc"] * 2


def test_a_folder_keeps_the_flags_of_two_benchmarks(tmp_path):
    for flags in ({"vocab": "a"}, {"model": "b", "epochs": 1}, {"vocab": "c"}):
        kept_folder.write_flags(tmp_path, flags)
    kept_folder.check_flags(tmp_path, {"vocab": "c", "model": "b", "epochs": 1})
    with pytest.raises(UserError, match="was made with another --vocab"):
        kept_folder.check_flags(tmp_path, {"vocab": "a"})
    (tmp_path / "flags.json").write_text("{")
    with pytest.raises(UserError, match="does not say with which --vocab it was made"):
        kept_folder.check_flags(tmp_path, {"vocab": "c"})


def test_each_turn_of_finetuning_begins_with_another_engine(tmp_path):
    log = tmp_path / "log"
    engine = (
        "import sys\nprint('ready', flush=True)\nfor _ in sys.stdin:\n"
        "    open(sys.argv[1], 'a').write(sys.argv[2] + '\\n')\n    print('ready', flush=True)"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = {
        name: subprocess.Popen([sys.executable, "-c", engine, str(log), name], **pipes)
        for name in finetuning.ENGINES
    }
    seconds = finetuning.time_turns(processes)
    for process in processes.values():
        process.communicate()
    assert {name: len(own) for name, own in seconds.items()} == dict.fromkeys(
        finetuning.ENGINES, finetuning.ROUNDS
    )
    turns = log.read_text().split()
    first, second, third = finetuning.ENGINES
    assert turns[:9] == [first, second, third, second, third, first, third, first, second]
    assert len(turns) == 3 * (finetuning.TURNS_BEFORE_TIMING + finetuning.ROUNDS)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_torch_compile_is_tried_on_blocks_with_each_attention(shape):
    options = hugging_face_pretraining.Options(2, packed=not shape.pairs)
    tried = []

    def make(options):
        tried.append(options)
        # Padding to the longest is a little faster, and wins.
        return lambda turn: 1.0 + 0.1 * options.pad_to_longest

    changes = hugging_face_pretraining._changes(shape, compiles=True)
    list(best_options.search(options, changes, make, turns=1))
    compiled = [each for each in tried if each.compiled]
    assert [each.attention for each in compiled] == ["sdpa", "eager"]
    for each in compiled:
        assert each.packed == (not shape.pairs) and not each.pad_to_longest


def test_pairs_that_were_trained_with_other_steps_are_named(pairs_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sentence_pairs.subprocess, "run", lambda *_, **__: None)
    figures = {"heldout": {"mlm_loss": [(500, 6.0)], "sentence_pair_balanced_accuracy": []}}
    monkeypatch.setattr(sentence_pairs.curves, "read_run", lambda _: figures)
    flags = argparse.Namespace(batch_size=4, steps=300)
    with pytest.raises(UserError, match="has no figures at step 300: it was trained with another"):
        sentence_pairs.train(str(pairs_folder), str(tmp_path), 0, flags)


def test_the_published_scores_of_the_protocols_make_a_table(tmp_path):
    lines = []
    finetuning_protocols.print_table(finetuning_protocols.PUBLISHED, lines.append)
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        f"| {task}" for task in finetuning_protocols.TASKS
    ]
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert "\n".join(lines) in page
    lines.clear()
    finetuning_protocols.print_table(tmp_path, lines.append)
    assert all("not complete" in line for line in lines[2:])


def test_shuffled_labels_are_the_same_labels_of_other_examples(pairs_folder, tmp_path):
    manifest = read_manifest(pairs_folder, "examples")
    dealt = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        sentence_pairs.shuffle_labels(str(pairs_folder), manifest, str(folder), seed)
        shuffled = read_manifest(folder, "examples")
        verify(str(folder), shuffled, full=True)
        for split in ("train", "heldout"):
            before = sentence_pairs.read_examples(str(pairs_folder), manifest, split)
            after = sentence_pairs.read_examples(str(folder), shuffled, split)
            assert sorted(before.labels) == sorted(after.labels), (seed, split)
            assert before.labels.tolist() != after.labels.tolist(), (seed, split)
            assert set(after.labels) == {0, 1}, (seed, split)
            np.testing.assert_array_equal(before.input_ids, after.input_ids)
            np.testing.assert_array_equal(before.segment_lengths, after.segment_lengths)
            dealt.append(after.labels.tolist())
    assert dealt[:2] != dealt[2:]


def test_read_examples_are_those_of_training(pairs_folder):
    manifest = read_manifest(pairs_folder, "examples")
    ours = sentence_pairs.read_examples(str(pairs_folder), manifest, "heldout")
    (batch,) = pretraining_data.held_out_dataset(
        str(pairs_folder), manifest, len(ours.labels)
    ).as_numpy_iterator()
    np.testing.assert_array_equal(ours.input_ids, batch["input_ids"])
    np.testing.assert_array_equal(ours.labels, batch["label"])
    np.testing.assert_array_equal(ours.segment_lengths[:, 1], batch["segment_ids"].sum(axis=1))
    np.testing.assert_array_equal(ours.segment_lengths.sum(axis=1), batch["input_mask"].sum(axis=1))


def test_the_loss_of_frequencies_is_that_by_hand():
    """0 is never masked; of the others, each once more, 1 to 3 have 3/6, 2/6 and 1/6."""
    train = np.array([[0, 1, 2], [0, 0, 1]])
    heldout = np.array([[0, 1, 2], [0, 3, 0]])
    loss = sentence_pairs.frequencies_loss(train, heldout, 4, [0])
    assert loss == pytest.approx((np.log(2) + np.log(3) + np.log(6)) / 3)


def test_lengths_predict_what_they_say():
    def examples(lengths, labels):
        return sentence_pairs.Examples(
            np.zeros([len(labels), 8], int), np.array(lengths), np.array(labels)
        )

    # (3, 2) is half of label 0 and a third of label 1, (2, 3) the other way round; (4, 4) is new.
    train = examples([[3, 2], [2, 2], [3, 2], [2, 3], [2, 3]], [0, 0, 1, 1, 1])
    heldout = examples([[3, 2], [4, 4], [2, 3], [2, 3], [3, 2], [2, 2]], [0, 0, 0, 1, 1, 1])
    # Label 0 has two of three right, label 1 one of three.
    assert sentence_pairs.accuracy_of_lengths(train, heldout) == pytest.approx((2 / 3 + 1 / 3) / 2)


def test_the_interval_of_sentence_pairs_is_that_of_both_kinds_of_chance():
    """The published quantiles: 1.960 of the normal distribution, 4.303 of Student's t with 2."""
    labels = np.array([0] * 100 + [1] * 400)
    over_examples = 1.960 * 0.5 * np.sqrt(0.25 / 100 + 0.25 / 400)
    mean, half_width = sentence_pairs.interval([0.6], labels)
    assert (mean, half_width) == (0.6, pytest.approx(over_examples, rel=1e-3))
    mean, half_width = sentence_pairs.interval([0.5, 0.6, 0.7], labels)
    over_seeds = 4.303 * 0.1 / np.sqrt(3)
    assert mean == pytest.approx(0.6)
    assert half_width == pytest.approx(np.sqrt(over_examples**2 + over_seeds**2), rel=1e-3)


@pytest.mark.parametrize(
    "mean, half_width, said",
    [(0.52, 0.01, "above"), (0.52, 0.03, "may be"), (0.49, 0.03, "may be"), (0.49, 0.005, "below")],
)
def test_a_verdict_says_where_chance_lies(mean, half_width, said):
    assert sentence_pairs.verdict(mean, half_width) == f"{said} chance"


def test_formats_are_compared_by_the_product_that_auto_chooses_by():
    """Tests the line of this CPU: the ratio of both formats, and what `auto` chooses."""
    command = "-m benchmarks.precision --cpus ALL --shapes product --rounds 1"
    done = forked.run([sys.executable, *command.split()], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    *_, line = done.stdout.splitlines()
    _, cpu, step, *seconds, ratio, chosen, kernels, _ = (x.strip() for x in line.split("|"))
    assert (cpu, step, seconds) == ("ALL", "product", ["", ""]) and float(ratio) > 0
    chosen, _, took = chosen.partition(", measured in ")
    assert chosen in ("float32", "bfloat16") and re.fullmatch(r"\d+\.\d\d s", took)
    if not 1.1 < float(ratio) < 1.3:  # `auto` measures again, and asks for 1.2
        assert (chosen == "bfloat16") == (float(ratio) > 1.2)
    # oneDNN multiplies bfloat16 with AVX-512.
    assert bool(kernels) != cpu_bfloat16.cuts_off_products()
