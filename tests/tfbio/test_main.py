"""`tfbio`, the console command: the list of commands, and each command under its name."""

import re
import subprocess
import sys

import pytest

import tfbio
from tfbio.base import console

# Of what `tfbio` itself has a name for; BERT's run_squad.py is another's.
OLD_NAMES = re.compile(r"python |run_(?:pretraining|finetuning)|data_prep\.[a-z_]+(?!\.)\b")

# Packages whose import takes a large part of a second or more.
TAKE_LONG = {"tensorflow", "tf_keras", "torch", "spacy", "transformers", "sklearn"}
TAKE_LONG |= {"pandas", "matplotlib", "scipy.stats"}


def run(*arguments, start=("-m", "tfbio"), folder=None):
    return subprocess.run(
        [sys.executable, *start, *arguments], text=True, capture_output=True, cwd=folder
    )


@pytest.mark.parametrize("arguments", [(), ("--help",), ("help",)])
def test_help_lists_every_command(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    for name, command in console.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", done.stdout, re.MULTILINE)


def test_help_imports_nothing_that_takes_long():
    code = (
        "import sys; sys.argv = ['tfbio', '--help']\n"
        "from tfbio.__main__ import main; main()\n"
        "print(sorted({'tensorflow', 'numpy', 'apache_beam', 'spacy'} & set(sys.modules)))"
    )
    assert run(start=("-c", code)).stdout.endswith("\n[]\n")


def test_the_version_is_that_of_the_package():
    assert run("--version").stdout == f"tfbio {tfbio.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pretrian"], "'pretrian' is no command of tfbio: did you mean pretrain?"),
        (["corpus-reports", "--x"], "did you mean corpus_report?"),
        (["xyzzy"], "'xyzzy' is no command of tfbio: tfbio --help lists the commands."),
        (["predict", "--model=x"], "--input is missing: the files with the texts."),
        (["predict", "--mode=train"], "--mode is given twice"),
        (["finetune", "--mode=predict"], "--model is missing: the --output_dir of a finished run"),
        (["pretrain", "--model_dir=x"], "--examples is missing: the folder that tfbio examples"),
        (["report", "--learning_rate=1"], "--learning_rate is no flag of this command"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_names_of_tfbio(arguments, said, tmp_path):
    done = run(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", console.COMMANDS)
def test_the_help_of_a_command_says_what_to_type(name, tmp_path):
    start = ("-X", "importtime", "-m", "tfbio")
    done = run(name, "--help", start=start, folder=tmp_path)
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert not [line for line in lines if not line.startswith("import time:")]
    imported = {line.rpartition("| ")[2].strip() for line in lines}
    assert "absl.flags" in imported and not imported & TAKE_LONG
    # The only command with a word before its flags.
    task = "ncbi_disease " if name == "data" else ""
    assert f"tfbio {name} {task}--" in done.stdout
    assert not OLD_NAMES.findall(done.stdout)


def test_the_help_of_predict_is_about_new_text(tmp_path):
    text = run("predict", "--help", folder=tmp_path).stdout
    assert text.startswith("Uses a fine-tuned model on new text.\n\n  tfbio predict --model=")
    assert "--from_scratch    same architecture" not in text
    assert "run.eval_batch_size = 64 (at least 1)" in text and "  learning_rate" not in text
    spelt = run("--mode", "predict", "--help", start=("-m", "run_finetuning"), folder=tmp_path)
    assert spelt.stdout.startswith("Uses a fine-tuned model on new text.\n\n")


def test_the_scripts_keep_their_names(tmp_path):
    done = run("--help", start=("-m", "run_pretraining"), folder=tmp_path)
    assert "python run_pretraining.py --examples" in done.stdout
