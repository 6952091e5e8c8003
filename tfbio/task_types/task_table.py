"""The tasks to fine-tune on: what they read, their labels, their score, and BioELECTRA's settings.

A new task is one entry in `TASKS`.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Sequence
from functools import partial

from tfbio.base.errors import UsageError
from tfbio.formats import bioasq_factoid, clinical_sts, hoc, squad, tagged_words
from tfbio.formats.bioasq_factoid import with_known_places
from tfbio.formats.label_sets import HALLMARKS, I2B2_CONCEPTS, I2B2_EVENTS, I2B2_PHI
from tfbio.formats.splits import hold_out
from tfbio.formats.tables import read_table
from tfbio.formats.tagged_words import read_bio
from tfbio.formats.task_examples import LabelledText, Question
from tfbio.task_types import entity_metrics
from tfbio.task_types.answer_metrics import score_answers, score_factoids
from tfbio.task_types.entity_metrics import score_entities, score_words
from tfbio.task_types.label_metrics import score_classes, score_hallmarks, score_relations
from tfbio.task_types.own_data import OWN, of_own_data
from tfbio.task_types.similarity_metrics import score_similarity
from tfbio.task_types.tag_schemes import bio_tags
from tfbio.task_types.task import SQUAD_SETTINGS, Task

# bio-lm's section 5.2 for sequence labelling, and its scripts' length: batches of 32, the best
# weights of every 500 steps on the development set, one learning rate for all layers.
_BIO_LM = {
    "eval_every_steps": 500,
    "learning_rate": 1e-5,
    "sequence_length": 512,
    "num_train_epochs": 20.0,
    "layerwise_lr_decay": 1.0,
}


def _span_task(name: str, read: Callable[[str], list[Question]]) -> Task:
    """Returns a `Task` of questions that are answered by a span, in SQuAD's format.

    It has `SQUAD_SETTINGS`, SQuAD's score, and holds out a tenth of "train" without a "dev" file.
    """
    return Task(
        name,
        "question_answering",
        (),
        read,
        score_answers,
        SQUAD_SETTINGS,
        hold_out=hold_out,
    )


def _swapped(examples: list[LabelledText]) -> list[LabelledText]:
    """Returns the pairs, and behind them each with its texts exchanged and "-swapped" after its id.

    BioELECTRA's authors' code does so for BIOSSES.
    """
    return examples + [
        dataclasses.replace(x, id=f"{x.id}-swapped", text=x.pair, pair=x.text) for x in examples
    ]


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
        bio_tags([""]),
        partial(read_bio, types=types),
        score_entities,
        settings,
        made_by,
        entity_type=entity_type,
    )


def _typed_entities(
    name: str, types: tuple[str, ...], made_by: str, **settings: float | int
) -> Task:
    read = partial(tagged_words.read, types=types)
    score = partial(score_entities, types=types)
    return Task(name, "tagging", bio_tags(types), read, score, settings, made_by)


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
        partial(score_relations, negative=negative),
        settings,
        made_by,
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
        _entities("bc4chemd", ("Chemical",), "Chemical", "", **_BIO_LM),
        _entities("linnaeus", ("Species",), "Species", "", **_BIO_LM),
        _entities("species_800", ("Species",), "Species", "", **_BIO_LM),
        _typed_entities(
            "i2b2_2010_ner",
            I2B2_CONCEPTS,
            "python -m data_prep.corpora.i2b2_2010 --concepts",
            **_BIO_LM,
        ),
        _typed_entities(
            "i2b2_2012",
            I2B2_EVENTS,
            "python -m data_prep.corpora.i2b2_notes --year=2012",
            **_BIO_LM,
        ),
        _typed_entities(
            "i2b2_2014", I2B2_PHI, "python -m data_prep.corpora.i2b2_notes --year=2014", **_BIO_LM
        ),
        Task(
            name="ebm_pico",
            task_type="tagging",
            labels=("O", "I-PAR", "I-INT", "I-OUT"),
            read=partial(tagged_words.read, types=entity_metrics.PICO_ELEMENTS, scheme="IO"),
            score=score_words,
            settings={"sequence_length": 256, "num_train_epochs": 3.0},
            made_by="python -m data_prep.corpora.blurb ebm_pico",
        ),
        _relations(
            "chemprot",
            ("false", "CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"),
            "false",
            None,
            "python -m data_prep.corpora.blurb chemprot",
            learning_rate=1e-4,
            sequence_length=256,
        ),
        _relations(
            "ddi",
            ("DDI-false", "DDI-advise", "DDI-effect", "DDI-int", "DDI-mechanism"),
            "DDI-false",
            None,
            "python -m data_prep.corpora.blurb ddi",
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
            **{
                **_BIO_LM,
                "train_batch_size": 16,
                "num_train_epochs": 10.0,
                "eval_every_steps": 200,
            },
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
            task_type="regression",
            labels=(),
            read=partial(
                read_table,
                columns=("id", "text", "pair", "score"),
                header=("pair_id", "sent1", "sent2", "score"),
                score_range=(0.0, 4.0),
            ),
            score=score_similarity,
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
            task_type="regression",
            labels=(),
            read=clinical_sts.read,
            score=score_similarity,
            settings={"learning_rate": 5e-5, "num_train_epochs": 10.0},
            made_by="python -m data_prep.corpora.clinical_sts",
        ),
        Task(
            name="hoc",
            task_type="multilabel",
            labels=HALLMARKS,
            read=hoc.read,
            score=score_hallmarks,
            settings={},
            made_by="python -m data_prep.corpora.blurb hoc",
        ),
        Task(
            name="mednli",
            task_type="classification",
            labels=("contradiction", "entailment", "neutral"),
            read=partial(
                read_table,
                columns=("id", "text", "pair", "label"),
                header=("index", "sentence1", "sentence2", "label"),
                labels=("contradiction", "entailment", "neutral"),
            ),
            score=score_classes,
            settings={"learning_rate": 1e-4},
            made_by="python -m data_prep.corpora.mednli",
        ),
        *(
            Task(
                name=name,
                task_type="classification",
                labels=labels,
                read=partial(read_table, columns=("id", "text", "context", "label"), labels=labels),
                score=score_classes,
                settings={"sequence_length": 512, "num_train_epochs": 20.0, "num_trials": 10},
                made_by=f"python -m data_prep.corpora.blurb {name}",
            )
            for name, labels in (("pubmedqa", ("yes", "no", "maybe")), ("bioasq", ("yes", "no")))
        ),
        _span_task("squad_v1", squad.read_answered),
        _span_task("squad_v2", partial(squad.read, known=True)),
        Task(
            name="bioasq_factoid",
            task_type="question_answering",
            labels=(),
            read=bioasq_factoid.read,
            score=score_factoids,
            # BioM's (Table 4, base models), as for SQuAD.
            settings={
                "learning_rate": 2e-5,
                "train_batch_size": 24,
                "sequence_length": 384,
                "num_train_epochs": 4.0,
            },
            augment=with_known_places,
            hold_out=hold_out,
        ),
        Task(
            name="sentence_roles",
            task_type="classification",
            labels=("background", "objective", "methods", "results", "conclusions"),
            read=partial(
                read_table,
                columns=("document", "label", "text"),
                header=("id", "label", "sentence"),
                labels=("background", "objective", "methods", "results", "conclusions"),
            ),
            score=score_classes,
            settings={},
            made_by="python -m data_prep.sentence_roles",
        ),
    )
}


def find(name: str, data_dir: str, negative: str = "") -> Task:
    """Looks a task up by its name in the table of tasks, or makes that of the user's own data.

    Args:
      name: one of `TASKS`, or of `OWN` for data of the user's own.
      data_dir: folder with its files; the labels of the user's own data are read there.
      negative: for `--task=relation` the label that says that there is no relation; "" for one
        with a usual name.

    Returns:
      The `Task`.

    Raises:
      UsageError: there is no such task, and the message names the nearest; or `negative` is given
        for another task than "relation".
      TaskFileError: the training file of the user's own data is missing, or cannot be read.
      TaskError: it has too few labels, or it is not clear which is the negative one.
    """
    if negative and name != "relation":
        raise UsageError("--negative_label goes with --task=relation, for relations of your own.")
    if name in OWN:
        return of_own_data(name, data_dir, negative)
    if name not in TASKS:
        nearest = difflib.get_close_matches(name, [*TASKS, *OWN], n=1, cutoff=0.0)[0]
        raise UsageError(f"--task={name}: there is no such task; the nearest is {nearest!r}.")
    return TASKS[name]
