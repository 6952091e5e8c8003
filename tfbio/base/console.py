"""The commands of the console command `tfbio`, one line each.

`tfbio pretrain ...` runs a module as `python -m` does; `tfbio/__main__.py` does that. This module
also puts these names into the texts of a command that was called so: a text that tells the readers
of a checkout to type `python run_pretraining.py` tells others to type `tfbio pretrain`.
"""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

from absl import flags


class Command(NamedTuple):
    """A command of `tfbio`.

    Attributes:
      module: its module, which runs as `python -m MODULE`.
      summary: the line for `tfbio --help`.
      flags: flags of the module that make it this command.
    """

    module: str
    summary: str
    flags: tuple[str, ...] = ()


# In the order of the data.
COMMANDS = {
    "quickstart": Command("tfbio.quickstart", "writes a corpus and articles to begin with"),
    "documents": Command("data_prep.documents", "makes documents from PubMed, PMC and other text"),
    "corpus_report": Command("data_prep.corpus_report", "reports the content of documents"),
    "vocabulary": Command("data_prep.vocabulary", "learns a vocabulary from documents"),
    "fertility": Command("data_prep.fertility", "compares vocabularies, in tokens per word"),
    "examples": Command("data_prep.examples", "makes pretraining examples from documents"),
    "sentence_roles": Command("data_prep.sentence_roles", "makes a demo task from documents"),
    "data": Command("data_prep.corpora.blurb", "makes a task's files from the released corpus"),
    "pretrain": Command("run_pretraining", "pretrains an encoder on examples"),
    "finetune": Command("run_finetuning", "fine-tunes an encoder on a task, and scores it"),
    "predict": Command(
        "run_finetuning", "annotates new text with a fine-tuned model", ("--mode=predict",)
    ),
    "convert": Command("tfbio.convert", "converts a model to another format"),
    "report": Command("tfbio.report", "writes tables and plots of finished runs"),
    "serve": Command("tfbio.serve", "answers over HTTP with what a model predicts"),
    "blurb_submission": Command("tfbio.blurb_submission", "writes predictions for BLURB"),
    "help": Command("tfbio.help", "finds flags and settings by a word"),
}


def _typed(command: Command) -> str:
    """Returns the pattern of a command as it is typed without `tfbio`."""
    module = re.escape(command.module)
    if "." in module:
        return rf"(?:python -m |(?<![\w./])){module}(?!\.?\w)"
    return " ".join([rf"(?:python )?{module}\.py", *command.flags])


# Those with flags first: they are longer.
_TYPED = sorted(
    ((re.compile(_typed(command)), f"tfbio {name}") for name, command in COMMANDS.items()),
    key=lambda pair: "--" not in pair[0].pattern,
)


def renamed(text: str) -> str:
    """Returns a text with the names of the commands that the user types.

    Args:
      text: a text for the user, with commands such as `python run_pretraining.py`.

    Returns:
      The text with `tfbio pretrain` and so on instead, if `tfbio` has started this process; else
      the text itself.
    """
    if not sys.argv[0].startswith("tfbio "):
        return text
    for typed, name in _TYPED:
        text = typed.sub(name, text)
    return text


def rename_help() -> None:
    """Puts the names that the user types into the text of `--help`, see `renamed`."""
    main = sys.modules["__main__"]
    main.__doc__ = renamed(main.__doc__ or "")
    for name in flags.FLAGS:
        flags.FLAGS[name].help = renamed(flags.FLAGS[name].help or "")
