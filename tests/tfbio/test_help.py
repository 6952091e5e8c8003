"""`tfbio.help` finds settings and flags by a word, with default, range, meaning and recipes."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_every_flag import commands
from tfbio import help as tfbio_help
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types.finetuning_config import FinetuningConfig

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = (
    "import sys\nfrom tfbio import help\nfrom tfbio.base import cli\n"
    "for word in sys.argv[1:]:\n"
    "    print('=====', cli.exit_code(lambda: help.main(['', *word.split()])))\n"
    "assert 'tensorflow' not in sys.modules\n"
)


@pytest.fixture(scope="module")
def printed():
    """Returns what is printed for some words: the exit codes, stdout of each, and stderr."""
    words = ["e", "--learning-rate", "learning rate decay", "tagging.scheme", "init_checkpoint"]
    words.append("tagging.mlp_layers")
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words, "lerning_rat", " "],
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert ended.returncode == 0, ended.stderr
    *outputs, _ = re.split(r"===== \d+\n", ended.stdout)
    codes = list(map(int, re.findall(r"===== (\d+)", ended.stdout)))
    return dict(zip(words, outputs, strict=False)), codes, ended.stderr.splitlines()


def blocks(text):
    """The entries: a list of (first line, the other lines as one text)."""
    entries = [entry.partition("\n") for entry in text.strip().split("\n\n")]
    return [(first, " ".join(rest.split())) for first, _, rest in entries]


def fields_of(config_class, prefix=""):
    for field in dataclasses.fields(config_class):
        if dataclasses.is_dataclass(field.default):
            yield from fields_of(type(field.default), f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, field


@pytest.mark.parametrize(
    "config_class, command",
    [(PretrainingConfig, "run_pretraining.py"), (FinetuningConfig, "run_finetuning.py")],
)
def test_every_setting_of_every_group_is_there(config_class, command, printed):
    everything = dict(
        (first.partition(" (")[0], (first, rest))
        for first, rest in blocks(printed[0]["e"])
        if rest.startswith(f"for python {command} ")
    )
    lacking = []
    for name, field in fields_of(config_class):
        default = field.default if isinstance(field.default, str) else json.dumps(field.default)
        first, rest = everything.get(f"--set {name}={default}", ("", ""))
        meaning = " ".join(field.metadata["meaning"].split())
        if str(field.metadata["limits"]) not in first or "(" not in first or meaning not in rest:
            lacking.append(name)
    assert not lacking


def test_a_setting_has_the_values_of_the_recipes(printed):
    found = blocks(printed[0]["--learning-rate"])
    (first, rest), (second, of_finetuning) = found[:2]
    assert first == "--set learning_rate=0.0005 (above 0)"
    recipe = json.loads((ROOT / "hparams" / "quickstart.json").read_text())
    assert f"{recipe['learning_rate']} in quickstart" in rest
    base = json.loads((ROOT / "hparams" / "base.json").read_text())
    assert f"{base['learning_rate']} in base, " in rest and " others; " in rest
    # A search of several values, as PubMedBERT's.
    search = json.loads(next((ROOT / "hparams/finetuning/pubmedbert").glob("*.json")).read_text())
    tried = " or ".join(map(json.dumps, search["sweep"]["learning_rate"]))
    # A search within a group, and a file that is of no protocol.
    (layers,) = blocks(printed[0]["tagging.mlp_layers"])
    assert layers[1].endswith("Recipes: 1 or 2 in biomegatron.")
    assert " in sentence_roles" in of_finetuning
    assert second == "--set learning_rate=0.0002 (above 0)"
    assert f"{tried} in pubmedbert" in of_finetuning


def test_several_words_must_all_be_there(printed):
    assert blocks(printed[0]["learning rate decay"])[0][0].startswith(
        "--set layerwise_lr_decay=0.8"
    )


def test_a_text_has_its_choices(printed):
    (first, _), *_ = blocks(printed[0]["tagging.scheme"])
    assert first.startswith("--set tagging.scheme=") and "bioul" in first.lower()


def test_a_flag_of_two_commands_has_the_meaning_of_each(printed):
    flags = [rest for first, rest in blocks(printed[0]["init_checkpoint"]) if first[:3] == "--i"]
    assert flags[0].startswith("for python run_pretraining.py Another run's --model_dir")
    assert flags[1].startswith("for python run_finetuning.py To fine-tune: the --model_dir of a")


def test_nothing_found_names_the_nearest(printed):
    _, codes, errors = printed
    assert codes == [0, 0, 0, 0, 0, 0, 2, 2]
    assert errors == [
        "error: no setting or flag has 'lerning_rat' in its name or meaning; the nearest name is "
        "learning_rate.",
        "error: give a word to look for, such as learning_rate.",
    ]


def test_every_command_is_asked():
    installed = {name.removesuffix(".py") for name in commands() if "/" not in name}
    assert set(tfbio_help.COMMANDS) == {x for x in installed if not x.startswith("benchmarks.")}
