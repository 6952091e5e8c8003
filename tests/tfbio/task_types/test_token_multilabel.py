"""Words with any number of labels: read, learnt, scored, and through every command.

The labels are made of a real corpus: chemicals and diseases of BC5CDR, and the last word of each
mention as a label of its own, which stands inside of the others.
"""

import gzip
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests import forked, reference
from tfbio.base.errors import UserError
from tfbio.formats.splits import check_splits
from tfbio.formats.task_examples import TaggedSentence
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.models.head_config import NO_TARGET
from tfbio.runs.predict import predict as predict_here
from tfbio.task_types import packing, task_table, token_multilabel, types
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.own_data import TaskError
from tfbio.task_types.task import SPLITS
from tfbio.task_types.token_multilabel import TokenMultilabel
from tfbio.text import tokenization
from tfbio.weights import fine_tuned

ROOT = Path(__file__).resolve().parents[3]
LABELS = ("Chemical", "Disease", "Head")
TAGS = ("Chemical", "O", "Disease", "Disease|Head", "Chemical|Head|Disease", "O")
WORDS = ("Naloxone", "reverses", "acute", "pain", "hepatotoxicity", ".")


def sentence(tags=TAGS, words=WORDS):
    return token_multilabel.LabelledSentence("1", words[: len(tags)], tags)


# --- Files ---------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def write(text, name="train.txt"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_words_and_labels_are_read(write):
    path = write("BRCA1\tgene|variant\nmutations\tvariant\n\n\n.\tO\na b\tMeSH, Term\n")
    one, other = token_multilabel.read_sentences(path)
    assert (one.id, one.words, one.tags) == (
        "1",
        ("BRCA1", "mutations"),
        ("gene|variant", "variant"),
    )
    assert (other.id, other.words, other.tags) == ("5", (".", "a b"), ("O", "MeSH, Term"))
    assert [*one.numbered_labels()] == [(0, "gene"), (0, "variant"), (1, "variant")]
    assert [*other.numbered_labels()] == [(1, "MeSH, Term")]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a\tx\nb\n", r"train.txt, line 2: expected a word, one tab, .* or O, found 'b'"),
        ("a\t\n", "line 1: expected a word, one tab"),
        ("\tx\n", "line 1: expected a word, one tab"),
        ("a\tx\tO\n", "line 1: expected a word, one tab"),
        ("a x\n", "line 1: expected a word, one tab"),
        ("a\tx|\n", r"line 1: expected labels such as gene\|variant, .* found 'x\|'"),
        ("a\tx|O\n", "line 1: expected labels such as"),
        ("a\tx| y\n", "line 1: expected labels such as"),
        ("a\tO\n\nb\tx|y|x\n", r"line 3: a label stands twice in 'x\|y\|x'"),
        ("a\tx|z\n", "line 1: the label 'z' is none of 'x', 'y'"),
        ("\n", "line 1: there is no example"),
    ],
)
def test_a_mistake_names_its_line(text, message, write):
    with pytest.raises(TaskFileError, match=message):
        token_multilabel.read_sentences(write(text), ("x", "y"))


def test_a_label_that_training_lacks_names_its_line(write):
    train = token_multilabel.read_sentences(write("a\tx\n"))
    dev = token_multilabel.read_sentences(write("a\tO\nb\tx|y\n", "dev.txt"))
    with pytest.raises(TaskFileError, match="dev.txt, line 2: the label 'y' of dev has no example"):
        check_splits({"train": train, "dev": dev})


def test_own_data_are_a_task(write, tmp_path):
    for split in SPLITS:
        write("a\tx|y\nb\tx\n\nc\tO\n", f"{split}.tsv")
    task = task_table.find("token_multilabel", str(tmp_path))
    assert (task.task_type, task.labels) == ("token_multilabel", ("x", "y"))
    test = task.examples(str(tmp_path))["test"]
    scores = task.score(test, [("x|y", "O"), ("O",)])
    # x has one entity of two words, of which one is predicted.
    of_labels = {f"{metric}_{label}": value for label, value in (("x", 0.0), ("y", 1.0))
                 for metric in ("f1", "precision", "recall")}  # fmt: skip
    assert scores == {"f1": 0.5, "precision": 0.5, "recall": 0.5} | of_labels
    answer, trivial = TokenMultilabel.one_answer(task.score, test, test)
    assert answer == "O for every word" and trivial["f1"] == 0.0
    write("a\tO\n", "train.tsv")
    with pytest.raises(TaskError, match="has 0 labels"):
        task_table.find("token_multilabel", str(tmp_path))


# --- Entities ------------------------------------------------------------------------------------


def test_entities_are_words_in_a_row_with_one_label():
    assert token_multilabel.entities_of(TAGS) == {
        ("Chemical", 0, 0),
        ("Disease", 2, 4),
        ("Head", 3, 4),
        ("Chemical", 4, 4),
    }
    assert token_multilabel.entities_of(("O", "O")) == set()
    has = np.array([[0, 1], [1, 1], [1, 0], [0, 0], [1, 1]], bool)
    assert token_multilabel.runs(has) == [(1, 0, 1), (0, 1, 2), (0, 4, 4), (1, 4, 4)]


# --- Learning ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.load_tokenizer(reference.PUBMEDBERT)


@pytest.mark.parametrize("length", [32, 6])
def test_targets_are_at_the_first_tokens_and_come_back(length, tokenizer):
    task_type = TokenMultilabel(LABELS)
    examples = [sentence(), sentence(("O",), ("Aspirin",))]
    features = task_type.features(examples, tokenizer, length)
    assert (len(features.input_ids) > 2) == (length == 6)
    targets = features.per_token["targets"].values
    assert {own.shape[1:] for own in targets} == {(3,)}
    flat = np.concatenate(targets)
    assert set(flat.ravel()) == {0, 1, NO_TARGET}
    has = flat[flat[:, 0] != NO_TARGET]
    assert has.tolist() == [
        [1, 0, 0],
        [0, 0, 0],
        [0, 1, 0],
        [0, 1, 1],
        [1, 1, 1],
        [0, 0, 0],
        [0, 0, 0],
    ]
    outputs = [np.where(own == 1, 0.9, 0.2).astype(np.float32) for own in targets]
    one, other = task_type.predictions(outputs, features, examples)
    assert one == ("Chemical", "O", "Disease", "Disease|Head", "Chemical|Disease|Head", "O")
    assert other == ("O",)
    places = [[(7 * word, 7 * word + 6) for word in range(6)], [(0, 7)]]
    found, none = task_type.entities(outputs, features, examples, places, "Entity")
    assert none == [] and [tuple(entity) for entity in found] == [
        ("Chemical", 0, 6, 0.9),
        ("Disease", 14, 34, pytest.approx(0.729)),
        ("Head", 21, 34, pytest.approx(0.81)),
        ("Chemical", 28, 34, 0.9),
    ]


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_the_loss_is_the_cross_entropy_of_each_label(weight):
    settings = TokenMultilabel.Settings(positive_weight=weight)
    config = FinetuningConfig(token_multilabel=settings)
    task_type = types.make("token_multilabel", LABELS, config)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=[8, 3]).astype(np.float32)
    targets = rng.integers(0, 2, [2, 4, 3]).astype(np.int32)
    targets[0, 1:3] = targets[1, 3] = NO_TARGET
    losses, weights = task_type.losses(tf.constant(logits), {"targets": tf.constant(targets)})
    flat = targets.reshape(-1, 3)
    p = 1 / (1 + np.exp(-logits.astype(float)))
    expected = -(weight * flat * np.log(p) + (1 - flat) * np.log(1 - p)).sum(axis=1)
    has = flat[:, 0] != NO_TARGET
    assert weights.numpy().tolist() == has.astype(float).tolist() and has.sum() == 5
    np.testing.assert_allclose(losses, np.where(has, expected, 0.0), rtol=1e-5)


# --- Every command -------------------------------------------------------------------------------


def corpus(name, split):
    """The words and tags of a corpus, a line each, with empty lines between sentences."""
    path = reference.corpus(f"{name}/blurb") / f"{split}.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def labelled(split, sentences):
    """Real sentences, with labels that overlap, in the form of `token_multilabel`."""
    lines, count = [], 0
    rows = list(zip(corpus("bc5cdr_chem", split), corpus("bc5cdr_disease", split), strict=True))
    for (chemical, disease), after in zip(rows, [*rows[1:], ([""], [""])], strict=True):
        if len(chemical) == 1:
            lines.append("")
            count += 1
            if count == sentences:
                break
            continue
        assert chemical[0] == disease[0]
        names = []
        for name, row, following in (
            ("Chemical", chemical, after[0]),
            ("Disease", disease, after[1]),
        ):
            if row[1] != "O":
                names += [name, *["Head"] * (following[-1] != "I")]
        lines.append(f"{chemical[0]}\t{'|'.join(names) or 'O'}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", 400), ("dev", 60), ("test", 60)):
        (folder / f"{split}.txt").write_text(labelled(split, count), encoding="utf-8")
    return folder


def run(*arguments):
    """A command of the project, as a user types it; what it prints."""
    done = forked.run([sys.executable, *arguments], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def training(data, pretrained, output):
    return (
        "run_finetuning.py",
        "--task=token_multilabel",
        f"--data_dir={data}",
        f"--init_checkpoint={pretrained}",
        f"--output_dir={output}",
        "--seeds=2",
        *("--set", "learning_rate=5e-3", "--set", "num_train_epochs=12", "--set"),
        *("sequence_length=64", "--set", "token_multilabel.positive_weight=2"),
        *("--set", "hidden_dropout_prob=0.0"),
    )


@pytest.fixture(scope="module")
def finished(data, pretrained, tmp_path_factory):
    """A run of two trials, and what it printed."""
    folder = tmp_path_factory.mktemp("run") / "out"
    return folder, run(*training(data, pretrained, folder))


def test_a_run_learns_and_scores(finished, data):
    folder, printed = finished
    scores = json.loads((folder / "scores.json").read_text())
    assert (scores["task"], scores["metric"]) == ("token_multilabel", "f1")
    # One answer to all has 0.
    assert not [trial for trial in scores["trials"] if not (trial["test"]["f1"] > 0.2)]
    assert {"f1_Chemical", "f1_Disease", "f1_Head"} < scores["trials"][0]["test"].keys()
    assert re.search(r"seed 0, test: 60 sentences with \d+ entities, \d+ predicted", printed)
    config = json.loads((folder / "config.json").read_text())
    assert config["token_multilabel"] == {"positive_weight": 2.0}
    task = task_table.find("token_multilabel", str(data))
    examples, predicted = TokenMultilabel.read_predictions(
        str(folder / "trial_1" / "test_predictions.tsv")
    )
    gold = task.examples(str(data))["test"]
    assert [(x.words, x.tags) for x in examples] == [(x.words, x.tags) for x in gold]
    assert any("|" in tag for tags in predicted for tag in tags)
    assert task.score(gold, predicted) == pytest.approx(scores["trials"][1]["test"])


@pytest.fixture(scope="module")
def texts(data, tmp_path_factory):
    """Test sentences as documents of one sentence each, and their file."""
    sentences = token_multilabel.read_sentences(str(data / "test.txt"))
    # No two blanks in a row, and one sentence to whatever parts sentences.
    own = [" ".join(x.words).removesuffix(" .") for x in sentences if len(x.words) < 25][:20]
    folder = tmp_path_factory.mktemp("texts")
    for number, text in enumerate(own):
        (folder / f"{number:02}.txt").write_text(text, encoding="utf-8")
    return own, folder


def predict(model, texts, output, *flags):
    run(
        *("run_finetuning.py", "--mode=predict", f"--model={model}", f"--input={texts[1]}"),
        *(f"--output={output}", *flags),
    )
    return output


@pytest.fixture(scope="module")
def predicted(finished, texts, tmp_path_factory):
    """Returns the records that a trial predicts for the texts."""
    output = tmp_path_factory.mktemp("predicted") / "found.jsonl"
    predict(finished[0] / "trial_0", texts, output)
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert [record["text"] for record in records] == texts[0]
    return records


def overlapping(entities):
    return any(
        one["start"] <= other["start"] and other["end"] <= one["end"] and one is not other
        for one in entities
        for other in entities
    )


def test_entities_of_new_text_may_overlap(predicted):
    entities = [record["entities"] for record in predicted]
    assert sum(map(len, entities)) > 20 and any(map(overlapping, entities))
    for record in predicted:
        for entity in record["entities"]:
            assert entity["text"] == record["text"][entity["start"] : entity["end"]]
            assert entity["type"] in LABELS and 0 < entity["score"] <= 1
        starts = [entity["start"] for entity in record["entities"]]
        assert starts == sorted(starts)


@pytest.mark.parametrize("form", ["pubtator", "bioc", "brat"])
def test_other_forms_hold_entities_that_overlap(form, finished, predicted, texts, cpu, tmp_path):
    output = tmp_path / "out"
    predict_here(
        str(finished[0] / "trial_0"), [str(texts[1])], str(output), strategy=cpu, form=form
    )
    expected = sorted(x["type"] for record in predicted for x in record["entities"])
    if form == "brat":
        lines = [x for path in output.glob("*.ann") for x in path.read_text().splitlines()]
        found = [line.split("\t")[1].split()[0] for line in lines]
    elif form == "pubtator":
        rows = (line.split("\t") for line in output.read_text().splitlines())
        found = [row[4] for row in rows if len(row) > 4]
    else:
        found = re.findall(r'<infon key="type">(\w+)</infon>', output.read_text())
        found = [name for name in found if name in LABELS]
    assert sorted(found) == expected


def test_a_saved_model_gives_what_predict_does(finished, predicted, texts, tmp_path):
    run(
        "-m",
        "tfbio.convert",
        f"--from={finished[0] / 'trial_0'}",
        f"--to={tmp_path / 'serving'}",
        "--format=saved_model",
    )
    # By TensorFlow alone.
    import tensorflow_text  # noqa: F401

    signature = tf.saved_model.load(str(tmp_path / "serving" / "1")).signatures["serving_default"]
    served = {name: x.numpy() for name, x in signature(text=tf.constant(texts[0])).items()}
    assert not served["truncated"].any()
    assert [name.decode() for name in served["labels"][0]] == list(LABELS)
    assert served["probabilities"].shape[2] == 3
    for row, record in enumerate(predicted):
        count = served["entity_count"][row]
        names = [name.decode() for name in served["entity_type"][row, :count]]
        mentions = [name.decode() for name in served["entity_text"][row, :count]]
        starts, ends = (served[f"entity_{end}"][row, :count] for end in ("start", "end"))
        assert [*zip(names, starts, ends, mentions, strict=True)] == [
            (x["type"], x["start"], x["end"], x["text"]) for x in record["entities"]
        ]
        # The probabilities, too, of which the scores are made.
        for entity in record["entities"]:
            words = (served["word_start"][row] >= entity["start"]) & (
                served["word_end"][row] <= entity["end"]
            )
            words &= served["word_start"][row] >= 0
            shares = served["probabilities"][row, words, LABELS.index(entity["type"])]
            assert shares.prod() == pytest.approx(entity["score"], abs=1e-5), row


def test_transformers_gives_the_same_outputs_and_gives_them_back(
    finished, predicted, texts, tmp_path
):
    import torch
    import transformers

    trial, theirs, back = finished[0] / "trial_0", tmp_path / "theirs", tmp_path / "back"
    run("-m", "tfbio.convert", f"--from={trial}", f"--to={theirs}", "--format=hugging_face")
    model = transformers.AutoModelForTokenClassification.from_pretrained(theirs).eval()
    assert model.config.problem_type == "multi_label_classification"
    assert model.config.id2label == dict(enumerate(LABELS))
    tokenizer = transformers.AutoTokenizer.from_pretrained(theirs)

    tuned = fine_tuned.read(str(trial))
    task_type = types.make(
        "token_multilabel", LABELS, fine_tuned.config_for_new_text(tuned.settings)
    )
    vocabulary = tokenization.load_tokenizer(trial.parent / "vocab.txt")
    examples = [
        TaggedSentence("", (words := tuple(text.split())), ("O",) * len(words)) for text in texts[0]
    ]
    features = task_type.features(examples, vocabulary, 64)
    (part,) = packing.Packer(features, len(examples), 1, vocabulary.pad_id).batch(
        np.arange(len(examples))
    )
    batch = {name: tf.constant(array) for name, array in part.arrays.items()}
    logits = tuned.model(batch).numpy()
    for number, example in enumerate(examples):
        encoded = tokenizer(list(example.words), is_split_into_words=True, return_tensors="pt")
        assert encoded["input_ids"][0].tolist() == features.input_ids[number].tolist()
        with torch.no_grad():
            expected = model(**encoded).logits[0].numpy()
        first = part.arrays["first"][number]
        np.testing.assert_allclose(logits[first : first + len(expected)], expected, atol=1e-4)

    run("-m", "tfbio.convert", f"--from={theirs}", f"--to={back}", "--format=tfbio")
    for folder in (theirs, back):
        output = predict(folder, texts, tmp_path / f"{folder.name}.jsonl")
        found = [json.loads(line) for line in output.read_text().splitlines()]
        assert found == predicted, folder


def test_labels_that_bars_would_part_are_refused(tmp_path):
    for label in ("a|b", "O"):
        with pytest.raises(UserError, match="has the label"):
            TokenMultilabel.read_hugging_face(str(tmp_path), ["x", label])


def test_the_report_has_a_column_for_it(finished, tmp_path):
    run("-m", "tfbio.report", f"--finetuning={finished[0]}", f"--output={tmp_path / 'r'}")
    report = (tmp_path / "r" / "report.md").read_text()
    mean = json.loads((finished[0] / "scores.json").read_text())["mean"]
    assert "token_multilabel" in report and f"{100 * mean:.2f}" in report
