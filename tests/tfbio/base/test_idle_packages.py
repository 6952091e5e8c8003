"""A command splits sentences without PyTorch, which spaCy imports wherever it is installed."""

import importlib.util
import subprocess
import sys

from tfbio.base import idle_packages

COMMAND = """
import sys
from tfbio.base import cli

def main(argv):
    from data_prep.sentences import splitters

    print(*splitters.load("biosenter")(["It grew in Fig. 2. We saw it."]))
    print("torch" in sys.modules, "tensorflow" in sys.modules, "spacy" in sys.modules)
    import torch

    print(torch.ones(2).sum().item())

cli.run(main)
"""


def test_a_command_splits_sentences_without_torch_and_may_import_it_later():
    ended = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True)
    assert ended.stdout.splitlines() == [
        "['It grew in Fig. 2.', 'We saw it.']",
        "False False True",
        "2.0",
    ], ended.stderr


def test_nothing_is_left_out_of_other_processes():
    assert importlib.util.find_spec("torch")
    with idle_packages.left_out():  # of this process, which is no command
        assert importlib.util.find_spec("torch")
