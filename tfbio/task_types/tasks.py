"""The tasks to fine-tune on: what they read, their labels, their score, and BioELECTRA's settings.

A new task is one entry in `TASKS`.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tfbio.base.cli import UsageError, UserError
from tfbio.formats import task_files
from tfbio.formats.label_sets import HALLMARKS, I2B2_CONCEPTS, I2B2_EVENTS, I2B2_PHI
from tfbio.formats.splits import check_splits, find_split, hold_out
from tfbio.formats.tables import read_own_table, read_table
from tfbio.formats.task_examples import (
    Example,
    LabelledText,
    Question,
    TaggedSentence,
    TaskFileError,
    labels_of,
)
from tfbio.task_types import answer_scores, answers, metrics
from tfbio.task_types.scores import Scores

SPLITS = ("train", "dev", "test")


class TaskError(UserError):
    """A task that does not exist."""


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A labelled task, equal to itself alone.

    Attributes:
      name: what `--task` calls it.
      kind: "tagging", "classification", "regression", "multilabel" or "spans".
      labels: all labels, in the order of the model's outputs.
      read: path of a split's file -> its examples.
      score: (examples, predictions) -> figures by name, the one that sums the task up first. What
        a run is scored with, and the draws of `tfbio.report`.
      settings: what BioELECTRA fine-tuned with (its paper's Table 7, which
        `hparams/finetuning/bioelectra/` has with sources), and of the sets that only bio-lm has,
        bio-lm, where `FinetuningConfig`'s defaults are others.
      made_by: the command that makes the files, if one does.
      augment: of the training examples: these, and others that are made from them; or fewer.
      hold_out: the training examples -> these and those of "dev", where that has no file.
      entity_type: of the entities whose tags name no type (B, I); PubTator's name, if it has one.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    read: Callable[[str], list]
    score: Callable[[Sequence, Sequence], Scores]
    settings: Mapping[str, float | int]
    made_by: str = ""
    augment: Callable[[list], list] | None = None
    hold_out: Callable[[list], tuple[list, list]] | None = None
    entity_type: str = "Entity"

    def files(self, data_dir: str) -> dict[str, str]:
        """The file of each split; none of "dev" where it is held out of "train".

        Raises:
          TaskFileError: a file is missing.
        """
        paths = {}
        for split in SPLITS:
            optional = split == "dev" and self.hold_out is not None
            try:
                paths[split] = find_split(data_dir, split, optional)
            except TaskFileError as error:
                if not self.made_by:
                    raise
                raise TaskFileError(f"{error} `{self.made_by}` makes them.") from error
        return {split: path for split, path in paths.items() if path}

    def examples(self, data_dir: str) -> dict[str, list[Example]]:
        """The examples of each split, in the order of its file.

        Raises:
          TaskFileError: a file is missing, or a line of it cannot be used.
        """
        examples = {split: self.read(path) for split, path in self.files(data_dir).items()}
        if "dev" not in examples:
            train, dev = self.hold_out(examples["train"])
            examples = {"train": train, "dev": dev, "test": examples["test"]}
        check_splits(examples)
        return examples


# --- Reading, where a task's files need more than a reader ---------------------------------------


def _read_entities(path: str, types: tuple[str, ...] | None) -> list[TaggedSentence]:
    """Sentences whose tags are B, I and O alone, as BLURB's are."""
    return [
        dataclasses.replace(sentence, tags=tuple(tag[0] for tag in sentence.tags))
        for sentence in task_files.read_tagged_words(path, types)
    ]


def _swapped(examples: list[LabelledText]) -> list[LabelledText]:
    """The pairs, and each with its texts exchanged (BioELECTRA's authors' code, for BIOSSES)."""
    return examples + [
        dataclasses.replace(x, id=f"{x.id}-swapped", text=x.pair, pair=x.text) for x in examples
    ]


def _placed(questions: list[Question]) -> list[Question]:
    """Those of whose answers one is known to stand in the context; says how many are not."""
    placed = [x for x in questions if max(x.answer_starts, default=-1) >= 0]
    if len(placed) < len(questions):
        print(
            f"{len(questions) - len(placed)} of {len(questions)} contexts to train on do not have "
            "the answer word for word, and are left out."
        )
    if not placed:
        raise TaskFileError(
            f"{questions[0].where[0]}: no context has the answer to its question word for word."
        )
    return placed


# --- Scores --------------------------------------------------------------------------------------


def _labels(examples: Sequence[LabelledText]) -> list:
    return [example.label for example in examples]


def _score_entities(
    sentences: Sequence[TaggedSentence], predicted: Sequence, types: Sequence[str] = ()
) -> Scores:
    return metrics.entity_scores([sentence.tags for sentence in sentences], predicted, types)


def _score_words(sentences: Sequence[TaggedSentence], predicted: Sequence) -> Scores:
    return metrics.word_scores([sentence.tags for sentence in sentences], predicted)


def _score_relations(
    examples: Sequence[LabelledText],
    predicted: Sequence[str],
    negative: str,
    types: Sequence[str] = (),
) -> Scores:
    return metrics.relation_scores(_labels(examples), predicted, negative, types)


def _score_classes(examples: Sequence[LabelledText], predicted: Sequence[str]) -> Scores:
    return metrics.accuracy_and_macro_f1(_labels(examples), predicted)


def _score_similarity(examples: Sequence[LabelledText], predicted: Sequence[float]) -> Scores:
    return metrics.correlation_scores(_labels(examples), predicted)


def _score_label_sets(
    examples: Sequence[LabelledText], predicted: Sequence[Sequence[str]], labels: Sequence[str]
) -> Scores:
    return metrics.label_scores(_labels(examples), predicted, labels)


def _score_hallmarks(
    examples: Sequence[LabelledText], predicted: Sequence[Sequence[str]]
) -> Scores:
    documents = [example.document for example in examples]
    return metrics.hoc_scores(documents, _labels(examples), predicted, HALLMARKS)


def _score_answers(questions: Sequence[Question], predicted: Sequence[answers.Answers]) -> Scores:
    return answer_scores.squad_scores([x.answers for x in questions], [x.best for x in predicted])


def _score_factoids(questions: Sequence[Question], predicted: Sequence[answers.Answers]) -> Scores:
    gold = {question.question_id: question.answers for question in questions}
    best = answers.merged(questions, predicted)
    return answer_scores.bioasq_factoid_scores([gold[name] for name in best], list(best.values()))


# --- The table -----------------------------------------------------------------------------------


# bio-lm's section 5.2 for sequence labelling, and its scripts' length: batches of 32, the best
# weights of every 500 steps on the development set, one learning rate for all layers.
BIO_LM = {
    "eval_every_steps": 500,
    "learning_rate": 1e-5,
    "sequence_length": 512,
    "num_train_epochs": 20.0,
    "layerwise_lr_decay": 1.0,
}


def _tags(types: Sequence[str]) -> tuple[str, ...]:
    """All tags; where tags have no type, the type is ""."""
    return ("O", *(f"{letter}-{name}".rstrip("-") for name in types for letter in "BI"))


def _entities(
    name: str,
    types: tuple[str, ...] | None,
    entity_type: str = "Entity",
    made_by: str = "",
    **settings: float | int,
) -> Task:
    return Task(
        name,
        "tagging",
        _tags([""]),
        partial(_read_entities, types=types),
        _score_entities,
        settings,
        made_by,
        entity_type=entity_type,
    )


def _typed_entities(
    name: str, types: tuple[str, ...], made_by: str, **settings: float | int
) -> Task:
    read = partial(task_files.read_tagged_words, types=types)
    score = partial(_score_entities, types=types)
    return Task(name, "tagging", _tags(types), read, score, settings, made_by)


def _relations(
    name: str,
    labels: Sequence[str],
    negative: str,
    header: tuple[str, ...] | None,
    made_by: str,
    **settings: float | int,
) -> Task:
    return Task(
        name,
        "classification",
        tuple(labels),
        partial(read_table, header=header, labels=labels),
        partial(_score_relations, negative=negative),
        settings,
        made_by,
    )


def _spans(name: str) -> Task:
    # BioM's settings (Table 4, base models); ELECTRA's and BERT's sequence_length.
    settings = {"learning_rate": 1e-4, "sequence_length": 384, "num_train_epochs": 3.0}
    return Task(
        name, "spans", (), task_files.read_squad, _score_answers, settings, hold_out=hold_out
    )


TASKS = {
    task.name: task
    for task in (
        _entities(
            "bc5cdr_chem", ("Chemical",), "Chemical", train_batch_size=16, sequence_length=256
        ),
        _entities(
            "bc5cdr_disease", ("Disease",), "Disease", train_batch_size=16, sequence_length=256
        ),
        _entities("ncbi_disease", ("Disease",), "Disease"),
        _entities("bc2gm", ("GENE",), "Gene", sequence_length=256),
        # Its five types are merged into one, as in BLURB.
        _entities("jnlpba", None, train_batch_size=16, sequence_length=256, num_train_epochs=3.0),
        _entities(
            "share_clefe",
            None,
            "Disorder",
            "python -m data_prep.corpora.share_clefe",
            sequence_length=512,
        ),
        _entities("bc4chemd", ("Chemical",), "Chemical", **BIO_LM),
        _entities("linnaeus", ("Species",), "Species", **BIO_LM),
        _entities("species_800", ("Species",), "Species", **BIO_LM),
        _typed_entities(
            "i2b2_2010_ner",
            I2B2_CONCEPTS,
            "python -m data_prep.corpora.i2b2_2010 --concepts",
            **BIO_LM,
        ),
        _typed_entities(
            "i2b2_2012",
            I2B2_EVENTS,
            "python -m data_prep.corpora.i2b2_notes --year=2012",
            **BIO_LM,
        ),
        _typed_entities(
            "i2b2_2014", I2B2_PHI, "python -m data_prep.corpora.i2b2_notes --year=2014", **BIO_LM
        ),
        Task(
            name="ebm_pico",
            kind="tagging",
            labels=("O", "I-PAR", "I-INT", "I-OUT"),
            read=partial(task_files.read_tagged_words, types=metrics.PICO_ELEMENTS, scheme="IO"),
            score=_score_words,
            settings={"sequence_length": 256, "num_train_epochs": 3.0},
            made_by="python -m data_prep.corpora.ebm_pico",
        ),
        _relations(
            "chemprot",
            ("false", "CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"),
            "false",
            None,
            "python -m data_prep.corpora.chemprot",
            learning_rate=1e-4,
            sequence_length=256,
        ),
        _relations(
            "ddi",
            ("DDI-false", "DDI-advise", "DDI-effect", "DDI-int", "DDI-mechanism"),
            "DDI-false",
            None,
            "python -m data_prep.corpora.ddi",
            sequence_length=256,
            num_train_epochs=3.0,
        ),
        _relations(
            "gad",
            ("0", "1"),
            "0",
            ("index", "sentence", "label"),
            "python -m data_prep.corpora.biobert_folds --dev_size=535",
        ),
        # bio-lm's section 5.2 for classification: up to 10 epochs, of which the best of every 200
        # steps is kept; after how many that are no better it stops, it does not say. The 0.002 that
        # it gives there as learning rate is none for an encoder; taken is that of the entities.
        _relations(
            "euadr",
            ("0", "1"),
            "0",
            ("index", "sentence", "label"),
            "python -m data_prep.corpora.biobert_folds",
            **{**BIO_LM, "train_batch_size": 16, "num_train_epochs": 10.0, "eval_every_steps": 200},
        ),
        _relations(
            "i2b2_2010_re",
            ("false", "PIP", "TeCP", "TeRP", "TrAP", "TrCP", "TrIP", "TrNAP", "TrWP"),
            "false",
            ("index", "sentence", "label"),
            "python -m data_prep.corpora.i2b2_2010",
        ),
        Task(
            name="biosses",
            kind="regression",
            labels=(),
            read=partial(
                read_table,
                columns=("id", "text", "pair", "score"),
                header=("pair_id", "sent1", "sent2", "score"),
                score_range=(0.0, 4.0),
            ),
            score=_score_similarity,
            settings={
                "learning_rate": 1.5e-4,
                "train_batch_size": 16,
                "num_train_epochs": 60.0,
                "num_trials": 10,
            },
            augment=_swapped,
        ),
        Task(
            name="clinical_sts",
            kind="regression",
            labels=(),
            read=task_files.read_clinical_sts,
            score=_score_similarity,
            settings={"learning_rate": 5e-5, "num_train_epochs": 10.0},
            made_by="python -m data_prep.corpora.clinical_sts",
        ),
        Task(
            name="hoc",
            kind="multilabel",
            labels=HALLMARKS,
            read=task_files.read_hoc,
            score=_score_hallmarks,
            settings={},
            made_by="python -m data_prep.corpora.hoc",
        ),
        Task(
            name="mednli",
            kind="classification",
            labels=("contradiction", "entailment", "neutral"),
            read=partial(
                read_table,
                columns=("id", "text", "pair", "label"),
                header=("index", "sentence1", "sentence2", "label"),
                labels=("contradiction", "entailment", "neutral"),
            ),
            score=_score_classes,
            settings={"learning_rate": 1e-4},
            made_by="python -m data_prep.corpora.mednli",
        ),
        *(
            Task(
                name=name,
                kind="classification",
                labels=labels,
                read=partial(read_table, columns=("id", "text", "context", "label"), labels=labels),
                score=_score_classes,
                settings={"sequence_length": 512, "num_train_epochs": 20.0, "num_trials": 10},
                made_by=f"python -m data_prep.corpora.{name}",
            )
            for name, labels in (("pubmedqa", ("yes", "no", "maybe")), ("bioasq", ("yes", "no")))
        ),
        _spans("squad_v1"),
        _spans("squad_v2"),
        Task(
            name="bioasq_factoid",
            kind="spans",
            labels=(),
            read=task_files.read_bioasq_factoid,
            score=_score_factoids,
            # BioM's (Table 4, base models), as for SQuAD.
            settings={
                "learning_rate": 2e-5,
                "train_batch_size": 24,
                "sequence_length": 384,
                "num_train_epochs": 4.0,
            },
            augment=_placed,
            hold_out=hold_out,
        ),
        Task(
            name="sentence_roles",
            kind="classification",
            labels=("background", "objective", "methods", "results", "conclusions"),
            read=partial(
                read_table,
                columns=("document", "label", "text"),
                header=("id", "label", "sentence"),
                labels=("background", "objective", "methods", "results", "conclusions"),
            ),
            score=_score_classes,
            settings={},
            made_by="python -m data_prep.sentence_roles",
        ),
    )
}


# --- Data of the user's own ----------------------------------------------------------------------


OWN = ("ner", "classification", "relation", "pair", "regression", "multilabel", "qa")
# What most data sets call it that there is no relation; DDI's is "DDI-false".
_NEGATIVE = re.compile(
    r"(?:\w+[-:])?(?:0|false|none|null|n/?a|no[-_ ]?relation|negative|other)", re.IGNORECASE
)


def of_own_data(kind: str, data_dir: str, negative: str = "") -> Task:
    """A task for files in one of the forms that `task_files` describes; labels as in training.

    Args:
      kind: one of `OWN`.
      data_dir: folder with the files.
      negative: of "relation", the label that says that there is none; "" for one with a usual name.

    Raises:
      TaskFileError: the training file is missing, or cannot be read.
      TaskError: it has too few labels, or it is not clear which is the negative one.
    """
    score = partial(own_score, kind)
    if kind == "qa":
        return _spans(kind)
    train = find_split(data_dir, "train")
    if kind == "ner":
        types = labels_of(task_files.read_tagged_words(train))
        read = partial(task_files.read_tagged_words, types=types)
        labels = _tags(types)
        return Task(kind, "tagging", labels, read, score(labels), {})
    labels = labels_of(read_own_table(train, kind))
    fewest = {"regression": 0, "multilabel": 1}.get(kind, 2)
    if len(labels) < fewest:
        raise TaskError(f"{train} has {len(labels)} labels: nothing can be learnt from it.")
    if kind == "relation":
        # The first, as in the other tasks of relations; so `own_score` knows it.
        negative = _negative_of(labels, negative, train)
        labels = (negative, *(label for label in labels if label != negative))
    read = partial(read_own_table, kind=kind, labels=labels or None)
    name = kind if kind in ("regression", "multilabel") else "classification"
    return Task(kind, name, labels, read, score(labels), {})


def _negative_of(labels: Sequence[str], wanted: str, path: str) -> str:
    """The label that says that there is no relation: the one that is wanted, or of a usual name."""
    listed = ", ".join(labels)[:120]
    if wanted and wanted not in labels:
        raise TaskError(f"--negative_label={wanted}: {path} has the labels {listed}; give one.")
    usual = [label for label in labels if _NEGATIVE.fullmatch(label)]
    if not wanted and len(usual) != 1:
        remedy = "" if usual else ", or --task=classification if there is none"
        raise TaskError(
            f"{path} has the labels {listed}, and it is not clear which says that there is no "
            f"relation: give --negative_label=LABEL{remedy}."
        )
    return wanted or usual[0]


def own_score(kind: str, labels: Sequence[str]) -> Callable[[Sequence, Sequence], Scores]:
    """`Task.score` of data of the user's own, which need not be at hand.

    Args:
      kind: one of `OWN`.
      labels: all labels, as `Task.labels` has them.
    """
    if kind == "ner":
        # Every trial has the figures of all types, found or not.
        types = [label[2:] for label in labels if label.startswith("B-")]
        return partial(_score_entities, types=types)
    if kind == "multilabel":
        return partial(_score_label_sets, labels=labels)
    if kind == "relation":
        return partial(_score_relations, negative=labels[0], types=labels[1:])
    return {"regression": _score_similarity, "qa": _score_answers}.get(kind, _score_classes)


def find(name: str, data_dir: str, negative: str = "") -> Task:
    """The task of a name.

    Args:
      name: one of `TASKS`, or of `OWN` for data of one's own.
      data_dir: folder with its files; the labels of one's own data are found there.
      negative: see `of_own_data`.

    Raises:
      UsageError: there is none; the message names the nearest. Or it is one without a `negative`.
      TaskFileError: see `of_own_data`.
    """
    if negative and name != "relation":
        raise UsageError("--negative_label goes with --task=relation, for relations of your own.")
    if name in OWN:
        return of_own_data(name, data_dir, negative)
    if name not in TASKS:
        nearest = difflib.get_close_matches(name, [*TASKS, *OWN], n=1, cutoff=0.0)[0]
        raise UsageError(f"--task={name}: there is no such task; the nearest is {nearest!r}.")
    return TASKS[name]
