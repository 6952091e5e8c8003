"""Across rooms: each task whose data is at hand is trained, scored, predicted; keeps all labels."""

import contextlib
import dataclasses
import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from data_prep.corpora import corpus_splits, pubmedqa
from tests import reference
from tests.blurb_files import FOLDERS, first_lines
from tfbio.base import config
from tfbio.formats.splits import find_split
from tfbio.runs import finetuning
from tfbio.task_types import answers, task_table, types
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.tagging import Tagging
from tfbio.task_types.task import SPLITS
from tfbio.text import tokenization

# Half of SQuAD v2.0's development set, and questions of v1.1's.
SQUAD = {"squad_v1": "xquad.en.json.gz", "squad_v2": "cs224n_half_dev-v2.0.json.gz"}
LINES = {"train": 1500, "dev": 500, "test": 500}  # with each label in those of train
# Of the sets that cannot be shared, and of BioASQ: made-up lines in the form of their files.
MADE_UP = {
    "share_clefe": ("", "Pt\tO\nhas\tO\nfever\tB\n\n"),
    "bc4chemd": ("", "Inventol\tB-Chemical\nacid\tI-Chemical\nhelps\tO\n\n"),
    "linnaeus": ("", "Mus\tB-Species\nmusculus\tI-Species\nran\tO\n\n"),
    "species_800": ("", "Mus\tB\nmusculus\tI\nran\tO\n\n"),
    "i2b2_2010_ner": ("", "Inventol\tB-treatment\nfor\tO\nfever\tB-problem\n\n"),
    "i2b2_2012": ("", "Fever\tB-PROBLEM\nsince\tO\nadmission\tB-OCCURRENCE\n\n"),
    "i2b2_2014": ("", "Mr.\tO\nDoe\tB-PATIENT\nof\tO\nSpaceport\tB-LOCATION-OTHER\n\n"),
    "euadr": (
        "index\tsentence\tlabel\n",
        "0\t@GENE$ causes @DISEASE$.\t1\n1\t@GENE$ and @DISEASE$.\t0\n",
    ),
    "i2b2_2010_re": (
        "index\tsentence\tlabel\n",
        "1\t@treatment$ for @problem$\tTrAP\n2\t@test$ and @problem$\tfalse\n",
    ),
    "clinical_sts": (
        "index\tgenre\tsentence1\tsentence2\tscore\n",
        "1\tg\tThe pt walks.\tPatient is walking.\t4.5\n2\tg\tThe pt walks.\tNo fever.\t0.5\n",
    ),
    "mednli": (
        "index\tsentence1\tsentence2\tlabel\n",
        "1\tPt has fever.\tHe is febrile.\tentailment\n"
        "2\tPt has fever.\tHe is well.\tcontradiction\n"
        "3\tPt has fever.\tHe is old.\tneutral\n",
    ),
    "bioasq_factoid": (
        json.dumps(
            {
                "questions": [
                    {
                        "id": str(number),
                        "type": "factoid",
                        "body": "Which drug reverses opioids?",
                        "exact_answer": [["naloxone"]],
                        "snippets": [{"text": "Naloxone reverses opioids."}, {"text": "It does."}],
                    }
                    for number in range(20)
                ]
            }
        ),
    ),
    "bioasq": ("", "1\tIs it safe?\tIt is.\tyes\n2\tIs it good?\t\tno\n"),
}


@pytest.fixture(scope="module")
def data_of(tmp_path_factory):
    def make(name):
        folder = tmp_path_factory.mktemp(name)
        if name in MADE_UP:
            for split in SPLITS:
                ending = "json" if name == "bioasq_factoid" else "tsv"
                (folder / f"{split}.{ending}").write_text("".join(MADE_UP[name]), encoding="utf-8")
            return str(folder)
        if name in SQUAD:
            with gzip.open(
                reference.corpus(f"squad/{SQUAD[name]}"), "rt", encoding="utf-8"
            ) as file:
                articles = json.load(file)["data"]
            for split, article in (("train-v2.0", 0), ("dev-v2.0", 1)):
                paragraphs = articles[article]["paragraphs"][:10]
                text = json.dumps({"data": [{"paragraphs": paragraphs}]})
                (folder / f"{split}.json").write_text(text, encoding="utf-8")
            return str(folder)
        if name == "pubmedqa":
            splits = pubmedqa.read_examples(reference.corpus("pubmedqa/ori_pqal.json.gz"), 0)
            corpus_splits.write(str(folder), splits, True)
            return str(folder)
        for split in SPLITS:
            read = "dev" if name == "ebm_pico" and split == "train" else split
            path = find_split(str(reference.corpus(FOLDERS[name])), read)
            tagged = task_table.TASKS[name].task_type == "tagging"
            first_lines(path, folder / f"{split}.tsv", LINES[split], whole_sentences=tagged)
        return str(folder)

    return make


@pytest.fixture
def run(shallow_encoder, cpu, tmp_path):
    """Fine-tunes into the folder `out`."""

    def finetune(settings, task, folder):
        return finetuning.finetune(
            finetuning.Run(
                settings,
                task=task,
                data_dir=folder,
                init_checkpoint=shallow_encoder,
                output_dir=str(tmp_path / "out"),
                strategy=cpu,
            )
        )

    return finetune


def read_predictions(trial, task_type, test):
    if task_type == "question_answering":
        found = json.loads((trial / "test_predictions.json").read_text(encoding="utf-8"))
        if "questions" in found:
            # All answers of a question, as those of its first context.
            best = {x["id"]: [text for (text,) in x["exact_answer"]] for x in found["questions"]}
            texts = [best.pop(x.question_id, []) for x in test]
        else:
            texts = [[found[x.id]] for x in test]
        return [
            answers.Answers((*own,), (1.0, 0.9, 0.8, 0.7, 0.6)[: len(own)], 0.0) for own in texts
        ]
    path = trial / "test_predictions.tsv"
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    if task_type != "tagging":
        return [line.split("\t")[2] for line in lines[1:]]
    sentences, tags = [], []
    for line in lines:
        if line:
            tags.append(line.split("\t")[2])
        else:
            sentences.append(tuple(tags))
            tags = []
    return sentences


# One of each task type, of which the others' programs differ in the number of labels. To trace one
# takes longer than its steps.
TRACED = ("ncbi_disease", "chemprot", "biosses", "hoc", "squad_v2")


@contextlib.contextmanager
def operation_by_operation(wanted):
    """Traces no program within the block if `wanted`."""
    tf.config.run_functions_eagerly(wanted)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted([*FOLDERS, *SQUAD, *MADE_UP, "pubmedqa"]))
def test_trains_scores_and_predicts(name, data_of, run, tmp_path):
    task, folder = task_table.TASKS[name], data_of(name)
    changes = {"sequence_length": 64, "num_trials": 1, "train_batch_size": 8}
    settings = dataclasses.replace(
        config.load(FinetuningConfig, defaults=task.settings),
        **changes,
        max_train_examples=24,
        num_train_epochs=1.0,
    )
    with operation_by_operation(name not in TRACED):
        scores = run(settings, task, folder)
    assert np.isfinite(scores["mean"]) and scores["metric"] in scores["trials"][0]["dev"]
    trial = tmp_path / "out" / "trial_0"
    assert json.loads((trial / "scores.json").read_text())["test"] == scores["trials"][0]["test"]
    test = task.read(find_split(folder, "test"))
    predicted = read_predictions(trial, task.task_type, test)
    assert len(predicted) == len(test)
    # The score once more, from the file that was written.
    if task.task_type == "regression":
        predicted = [float(number) for number in predicted]
    if task.task_type == "multilabel":
        predicted = [tuple(filter(None, labels.split("|"))) for labels in predicted]
        hallmarks = task.read(str(trial / "test_hallmarks.tsv"))
        assert [x.label for x in hallmarks] == predicted
    assert task.score(test, predicted) == pytest.approx(scores["trials"][0]["test"])


def raw_labels(path, task):
    """The labels of a file, read without the task's reader, one a line or word."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    if task.task_type == "tagging":
        return [row[1] for row in rows if len(row) == 2]
    if task.name in ("gad", "biosses", "hoc"):  # the others have no header
        rows = rows[1:]
    return [row[0] if task.name == "hoc" else row[-1] for row in rows]


def written(label, task):
    """A label as the files have it."""
    if task.name == "hoc":
        return ",".join(f"{i}_{int(name in label)}" for i, name in enumerate(task.labels))
    return label


def gold_fed_back(task, examples, tokenizer, length):
    """The predictions of a model that is sure of the targets."""
    task_type = types.make(task.task_type, task.labels, FinetuningConfig())
    sure = {
        "tagging": lambda target: np.maximum(target, 0),
        "classification": lambda target: np.eye(len(task.labels))[target],
        "multilabel": lambda target: target,
        "regression": lambda target: target[None],
    }[task.task_type]
    features = task_type.features(examples, tokenizer, length)
    assert features.lengths.max() <= length
    if features.per_token:
        targets = features.per_token["targets"].values
    else:
        targets = features.per_window["targets"]
    return task_type.predictions([sure(x) for x in targets], features, examples)


# Windows of 16 tokens divide nearly every sentence, which takes long with many.
LENGTHS = {"train": (64,), "dev": (32,), "test": (16, 128)}
ALL_FILES = [(name, split) for name in sorted(FOLDERS) for split in SPLITS]


@pytest.mark.parametrize("name, split", [x for x in ALL_FILES if x != ("ebm_pico", "train")])
def test_gold_fed_back_scores_100_against_the_raw_file(name, split):
    """However short the windows of a sentence; the labels are counted in the file itself."""
    task = task_table.TASKS[name]
    path = find_split(str(reference.corpus(FOLDERS[name])), split)
    examples = task.read(path)
    tagged, raw = task.task_type == "tagging", raw_labels(path, task)
    if task.task_type == "regression":
        np.testing.assert_allclose([x.label for x in examples], np.float32(raw))
    else:
        labels = (
            [tag for x in examples for tag in x.tags] if tagged else [x.label for x in examples]
        )
        assert [written(label, task) for label in labels] == raw
    if split == "train":  # the longest ones, which are divided most
        size = (lambda x: len(x.words)) if tagged else (lambda x: len(x.text + x.pair))
        examples = sorted(examples, key=size)[-1000:]
    tokenizer = tokenization.load_tokenizer(reference.PUBMEDBERT)
    for length in LENGTHS[split] if tagged else (16,):
        predicted = gold_fed_back(task, examples, tokenizer, length)
        assert next(iter(task.score(examples, predicted).values())) == pytest.approx(1.0), length
        if task.task_type == "regression":
            np.testing.assert_allclose(predicted, [x.label for x in examples], rtol=1e-6)
        else:
            assert list(predicted) == [x.tags if tagged else x.label for x in examples], length


LABELLED = [
    x
    for x in sorted([*MADE_UP, "pubmedqa"])
    if task_table.TASKS[x].task_type != "question_answering"
]


@pytest.mark.parametrize("name", LABELLED)
def test_gold_fed_back_scores_100_for_the_others_too(name, data_of):
    task = task_table.TASKS[name]
    tokenizer = tokenization.load_tokenizer(reference.PUBMEDBERT)
    for split, examples in task.examples(data_of(name)).items():
        for length in (8, 16, 128):
            predicted = gold_fed_back(task, examples, tokenizer, length)
            scores = task.score(examples, predicted)
            assert next(iter(scores.values())) == pytest.approx(1.0), (split, length)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "scheme", "label_all_tokens"), [("lstm", "IO", True), ("crf", "BIOUL", False)]
)
def test_heads_and_schemes_are_scored_in_bio(
    head, scheme, label_all_tokens, data_of, run, tmp_path
):
    task, folder = task_table.TASKS["ncbi_disease"], data_of("ncbi_disease")
    settings = FinetuningConfig(
        sequence_length=64,
        train_batch_size=8,
        num_trials=1,
        max_train_examples=32,
        num_train_epochs=6.0,
        learning_rate=5e-3,
        tagging=Tagging.Settings(head=head, scheme=scheme, label_all_tokens=label_all_tokens),
    )
    scores = run(settings, task, folder)
    test = task.read(find_split(folder, "test"))
    predicted = read_predictions(tmp_path / "out" / "trial_0", task.task_type, test)
    assert {tag for tags in predicted for tag in tags} <= {"O", "B", "I"}
    kept = scores["trials"][0]["test"]
    of_words = {name: value for name, value in kept.items() if not name.startswith("token_")}
    assert task.score(test, predicted) == pytest.approx(of_words)
    # A model that learns all tokens is scored over them, too.
    assert (len(kept) == 2 * len(of_words)) == label_all_tokens


def test_every_task_is_here():
    assert {*FOLDERS, *SQUAD, *MADE_UP, "pubmedqa", "sentence_roles"} == task_table.TASKS.keys()
