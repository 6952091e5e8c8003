"""The benchmarks as commands: what is wrong is said in a sentence, before anything is measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import sentence_pairs
from tfbio.base.manifests import read_manifest, verify
from tfbio.base.shards import read_shard
from tfbio.base.tf_example import parse_example

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
        ("finetuning", "--data_dir=nowhere --task=x", "x"),
        ("loss_curve", "--examples=nowhere", "nowhere"),
        ("loss_curve", "--examples=nowhere --set=seed=1", "--set seed=1: both engines know only"),
        ("pretraining", "--rounds=0", "argument --rounds: '0' is no whole number above 0"),
        ("pretraining", "--shape=x", "argument --shape: invalid choice: 'x'"),
        ("pretraining", "--folder=README.md", "README.md"),
        ("sentence_pairs", "--examples=nowhere --output=new", "nowhere"),
        ("sentence_pairs", "--examples=nowhere", "arguments are required: --output: see --help"),
        ("input_pipeline", "--examples=nowhere", "nowhere"),
        ("input_pipeline", "--hparams=nowhere.json", "nowhere.json"),
        ("data_prep", "--rounds=1e3", "argument --rounds: '1e3' is no whole number above 0"),
        ("data_prep", "--round=1", "unrecognized arguments: --round=1"),
    ],
)
def test_a_mistake_is_named(benchmark, name, arguments, words):
    _, line = benchmark(name, *arguments.split())
    assert words in line


def test_shuffled_labels_are_the_same_labels_of_other_examples(pairs_folder, tmp_path):
    manifest = read_manifest(pairs_folder, "examples")
    sentence_pairs.shuffle_labels(str(pairs_folder), manifest, str(tmp_path))
    shuffled = read_manifest(tmp_path, "examples")
    verify(str(tmp_path), shuffled, full=True)
    for split in ("train", "heldout"):
        before = sentence_pairs.labels_of(str(pairs_folder), manifest, split)
        after = sentence_pairs.labels_of(str(tmp_path), shuffled, split)
        assert sorted(before) == sorted(after) and before != after
        for old, new in zip(manifest.shards_of(split), shuffled.shards_of(split), strict=True):
            records = read_shard(pairs_folder, old), read_shard(tmp_path, new)
            for one, other in zip(*records, strict=True):
                one, other = parse_example(one), parse_example(other)
                assert one.pop("label") in ([0], [1]) and other.pop("label") in ([0], [1])
                assert one == other
