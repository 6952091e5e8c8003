"""run_finetuning.py as a user types it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*flags):
    return subprocess.run(
        [sys.executable, "run_finetuning.py", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_help_teaches_and_does_not_import_tensorflow():
    done = run("--help")
    assert "python run_finetuning.py --task=bc5cdr_chem" in done.stdout
    for setting in (
        "learning_rate = 0.0002 (above 0)\n",
        'tagging.scheme = "BIO" (BIO, IO or BIOUL)\n',
        "--from_scratch",
    ):
        assert setting in done.stdout
    for folder in (ROOT / "hparams" / "finetuning").iterdir():
        if folder.is_dir():  # a protocol
            assert f"--hparams={folder.name} " in done.stdout
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "run_finetuning.py", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stderr
    assert "absl.app" in loaded and "tensorflow" not in loaded


ALL = ("--data_dir=no", "--init_checkpoint=no", "--output_dir=no")
PREDICT = ("--model=no", "--input=no", "--output=no")


@pytest.mark.parametrize(
    "flags, words",
    [
        ([], ["--task is missing"]),
        (["--task=sentence_roles"], ["--data_dir is missing"]),
        (["--task=sentence_roles", *ALL[:2]], ["--output_dir is missing"]),
        (["--task=sentence_roles", *ALL, "extra"], ["'extra'"]),
        (["--task=roles", *ALL], ["--task=roles", "'sentence_roles'"]),
        (
            ["--task=sentence_roles", *ALL],
            ["no: there is no such folder", "python -m data_prep.sentence_roles"],
        ),
        (["--task=sentence_roles", *ALL, "--set", "learning_rat=1"], ["'learning_rate'"]),
        (["--task=sentence_roles", *ALL, "--hparams=no.json"], ["no.json", "no such file"]),
        (
            ["--task=gad", *ALL, "--hparams=paper"],
            ["no such", "are authors, bioelectra, biolm, ", ", pubmedbert, quickstart."],
        ),
        (
            ["--task=sentence_roles", *ALL, "--hparams=bioelectra"],
            ["no settings for sentence_roles, but for bc2gm, ", ", share_clefe."],
        ),
        (["--task=sentence_roles", *ALL, "--sweep", "learning_rate"], ["name=value,value"]),
        (
            ["--task=sentence_roles", *ALL, "--sweep", "learning_rat=1,2"],
            ["--sweep learning_rat=1: unknown setting", "'learning_rate'"],
        ),
        (["--task=sentence_roles", *ALL, "--strategy=fast"], ["--strategy=fast", "mirrored"]),
        (["--task=sentence_roles", *ALL, "--tpu_zone=x"], ["--tpu_zone goes with --tpu"]),
        (["--mode=predict", *PREDICT, "--gcp_project=x"], ["--gcp_project goes with --tpu"]),
        (["--task=sentence_roles", *ALL, "--output=no"], ["--output does not go", "train"]),
        (["--task=sentence_roles", *ALL, "--estimate_for=t4"], ["goes with --dry_run"]),
        (["--task=sentence_roles", *ALL[:2], "--dry_run"], ["no: there is no such"]),
        (
            ["--task=sentence_roles", *ALL[:2], "--dry_run", "--sweep", "learning_rate=1e-4,1e-5"],
            ["--dry_run goes without --sweep"],
        ),
        (["--mode=predict", *PREDICT, "--dry_run"], ["--dry_run does not go", "predict"]),
        (["--mode=predict"], ["--model is missing"]),
        (["--mode=predict", "--model=no", "--input=no"], ["--output is missing"]),
        (["--mode=predict", *PREDICT, "--task=gad"], ["--task does not go", "predict"]),
        (["--mode=predict", *PREDICT], ["no holds no trial of a fine-tuned model"]),
    ],
)
def test_a_mistake_is_one_sentence(flags, words, fails_in_one_sentence):
    line = fails_in_one_sentence(run(*flags))
    for word in words:
        assert word in line
    assert not (ROOT / "no").exists()


def test_a_dry_run_estimates_and_writes_nothing(tmp_path):
    done = run(
        f"--output_dir={tmp_path}/out",
        "--task=bc5cdr_chem",
        "--data_dir=tests/data/corpora/bc5cdr_chem/blurb",
        "--init_checkpoint=tests/data/corpora/tiny_checkpoints/keras_bert_tf1",
        "--dry_run",
        "--estimate_for=tpu-v3-8",
        "--set=sequence_length=16",
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
    assert "train: 4,560 examples" in done.stdout and "tpu-v3-8" in done.stdout
    # Of words, as `zcat train.tsv.gz | cut -f2 | sort | uniq -c` counts them.
    assert "\nlabel bias: 0.0640 (7,103 of other labels to 111,067 of O)\n" in done.stdout
