"""The table of tasks: labels, settings and scores of each."""

import json
import re

import pytest

from data_prep import sentence_roles
from tests.tfbio.task_types.squad_files import squad
from tfbio.base import config
from tfbio.base.errors import UsageError
from tfbio.formats.label_sets import HALLMARKS
from tfbio.formats.task_examples import LabelledText, TaggedSentence
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.task_types import answers, entity_metrics, task_table
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.task import SPLITS

HEADER = "id\tlabel\tsentence\n"


def test_reads_what_data_prep_wrote(roles_folder):
    task = task_table.TASKS["sentence_roles"]
    assert task.labels == sentence_roles.LABELS
    for split, examples in task.examples(roles_folder).items():
        with open(f"{roles_folder}/{split}.tsv", encoding="utf-8") as file:
            lines = file.read().split("\n")[1:-1]
        assert ["\t".join((x.document, x.label, x.text)) for x in examples] == lines, split


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(UsageError, match="--task=sentense_role: .*nearest is 'sentence_roles'"):
        task_table.find("sentense_role", "")


def test_a_label_that_training_lacks_is_named(tmp_path):
    for split, label in (("train", "methods"), ("dev", "methods"), ("test", "results")):
        text = HEADER + f"1\t{label}\tWe did.\n"
        (tmp_path / f"{split}.tsv").write_text(text, encoding="utf-8")
    path = re.escape(str(tmp_path / "test.tsv"))
    with pytest.raises(TaskFileError, match=f"{path}, line 2: the label 'results'"):
        task_table.TASKS["sentence_roles"].examples(str(tmp_path))


GAD = "index\tsentence\tlabel\n"
NLI = "index\tsentence1\tsentence2\tlabel\n"
STS = "index\tsentence1\tsentence2\tscore\n"
GOOD = {
    "linnaeus": "Mus\tB-Species\nmusculus\tI-Species\nran\tO\n\nIt\tO\n",
    "i2b2_2014": "Mr.\tO\nDoe\tB-PATIENT\n",
    "ddi": "1\t@DRUG$ and @DRUG$.\tDDI-false\n2\t@DRUG$ with @DRUG$.\tDDI-int\n",
    "gad": GAD + "0\t@GENE$ causes @DISEASE$.\t1\n1\t@GENE$ and @DISEASE$.\t0\n",
    "mednli": NLI + "1\tHe runs.\tHe moves.\tentailment\n",
    "clinical_sts": STS + "1\tHe runs.\tHe moves.\t4.5\n",
}


@pytest.mark.parametrize(
    "name, split, content, line, message",
    [
        ("gad", "train", GAD + "0\tA\t0\n1\tB\t\n", 3, "expected a label"),
        ("linnaeus", "train", "Mus\tB-Species\nran\t\n", 2, "expected a tag of the scheme BIO"),
        (
            *("linnaeus", "dev", "Mus\tO\nmusculus\tI-Species\nran\tO\nMus\tB-Species\n", 2),
            "the tag 'I-Species' follows 'O'",
        ),
        ("linnaeus", "dev", "Mus\tX-Species\n", 1, "expected a tag of the scheme BIO"),
        ("gad", "test", GAD + "0\tA\t0\n\n1\tB\t1\n", 3, "the line is empty"),
        ("ddi", "train", "1\tA\tDDI-int\n2\tB\n", 2, "expected 3 tab-separated columns, found 2"),
        ("linnaeus", "test", "Mus\tO\nran\tV\tO\n", 2, "expected 2 columns"),
        ("gad", "dev", "index\tlabel\tsentence\n0\t1\tA\n", 1, "expected the header"),
        ("ddi", "dev", "1\tDDI-int\tA\n", 1, "the label 'A' is none of.* in column 2"),
        ("mednli", "test", NLI + "1\tneutral\tA\tB\n", 2, "the label 'B' is none of.* in column 2"),
        ("linnaeus", "train", "O\tMus\n", 1, "expected a tag .* in column 1"),
        ("clinical_sts", "train", STS + "1\tA\tB\tnan\n", 2, "expected a number from 0 to 5"),
        ("clinical_sts", "test", STS + "1\tA\tB\tNaN\n", 2, "expected a number from 0 to 5"),
        ("gad", "test", GAD + "0\tA\t2\n", 2, "the label '2' is none of"),
        ("mednli", "test", NLI + "1\tA\tB\tneutral\n", 2, "'neutral' of test has no example in"),
        ("i2b2_2014", "test", "A\tO\nB\tB-AGE\n", 2, "'AGE' of test has no example in train"),
    ],
)
@pytest.mark.parametrize("windows", [False, True])
def test_a_mistake_in_a_file_is_named(name, split, content, line, message, windows, tmp_path):
    """With its file and line, also where that has a byte-order mark and Windows line ends."""
    for other in SPLITS:
        text = content if other == split else GOOD[name]
        data = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() if windows else text.encode()
        (tmp_path / f"{other}.tsv").write_bytes(data)
    path = re.escape(str(tmp_path / f"{split}.tsv"))
    with pytest.raises(TaskFileError, match=f"^{path}, line {line}: .*{message}") as error:
        task_table.TASKS[name].examples(str(tmp_path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", GOOD)
def test_a_mark_and_windows_line_ends_change_nothing(name, tmp_path):
    plain, windows = tmp_path / "plain", tmp_path / "windows"
    for folder in (plain, windows):
        folder.mkdir()
        for split in SPLITS:
            text = GOOD[name].replace("\n", "\r\n") if folder == windows else GOOD[name]
            data = b"\xef\xbb\xbf" * (folder == windows) + text.encode()
            (folder / f"{split}.tsv").write_bytes(data)
    task = task_table.TASKS[name]
    assert task.examples(str(plain)) == task.examples(str(windows))


@pytest.mark.parametrize(
    "name, truth, predicted, metric, expected",
    [
        # One of two entities found, and nothing else.
        ("bc5cdr_chem", ["B", "I", "O", "B"], ["B", "I", "O", "O"], "f1", 2 / 3),
        # Words: participants 1 of 2 found, interventions right, outcomes neither true nor found.
        (
            "ebm_pico",
            ["I-PAR", "I-PAR", "I-INT", "O"],
            ["I-PAR", "O", "I-INT", "O"],
            "macro_f1",
            (2 / 3 + 1 + 0) / 3,
        ),
        # Of two relations one is found, and one that is none.
        (
            "chemprot",
            ["CPR:3", "CPR:4", "false", "false"],
            ["CPR:3", "false", "CPR:9", "false"],
            "f1",
            1 / 2,
        ),
        ("ddi", ["DDI-int", "DDI-false"], ["DDI-effect", "DDI-false"], "f1", 0.0),
        ("gad", ["1", "0", "0", "1"], ["1", "1", "0", "1"], "f1", 4 / 5),
        ("mednli", ["neutral", "entailment"], ["neutral", "neutral"], "accuracy", 1 / 2),
        ("biosses", [0.0, 1.0, 2.0], [1.0, 3.0, 5.0], "pearson", 1.0),
    ],
)
def test_the_score_is_the_benchmarks(name, truth, predicted, metric, expected):
    task = task_table.TASKS[name]
    if task.task_type == "tagging":
        examples = [TaggedSentence("1", ("w",) * len(truth), tuple(truth))]
        predicted = [tuple(predicted)]
    else:
        examples = [LabelledText(str(i), "t", x) for i, x in enumerate(truth)]
    scores = task.score(examples, predicted)
    assert next(iter(scores)) == metric
    assert scores[metric] == pytest.approx(expected)


def test_hallmarks_are_scored_by_document():
    first, second = HALLMARKS[:2]
    examples = [
        LabelledText("9_s0", "t", (first,), document="9"),
        LabelledText("9_s1", "t", (), document="9"),
        LabelledText("8_s0", "t", (second,), document="8"),
    ]
    # The wrong sentence of the right document; and one label that is not true.
    scores = task_table.TASKS["hoc"].score(examples, [(), (first,), (second, first)])
    assert next(iter(scores)) == "micro_f1" and scores["micro_f1"] == pytest.approx(4 / 5)


def test_types_of_entities_are_left_out_of_tags(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("Naloxone\tB-Chemical\nacid\tI-Chemical\nacts\tO\n\n", encoding="utf-8")
    (sentence,) = task_table.TASKS["bc5cdr_chem"].read(str(path))
    assert sentence.tags == ("B", "I", "O")
    with pytest.raises(TaskFileError, match="line 1: the type in the tag 'B-Chemical' is none"):
        task_table.TASKS["bc5cdr_disease"].read(str(path))


def test_the_settings_are_the_published_ones():
    """BioELECTRA's fine-tuning table, and bio-lm's: learning rate, batch, length, epochs, runs."""
    published = {
        "bc5cdr_chem": (2e-4, 16, 256, 5, 5),
        "bc5cdr_disease": (2e-4, 16, 256, 5, 5),
        "ncbi_disease": (2e-4, 32, 128, 5, 5),
        "bc2gm": (2e-4, 32, 256, 5, 5),
        "jnlpba": (2e-4, 16, 256, 3, 5),
        "share_clefe": (2e-4, 32, 512, 5, 5),
        "ebm_pico": (2e-4, 32, 256, 3, 5),
        "chemprot": (1e-4, 32, 256, 5, 5),
        "ddi": (2e-4, 32, 256, 3, 5),
        "gad": (2e-4, 32, 128, 5, 5),
        "i2b2_2010_re": (2e-4, 32, 128, 5, 5),
        "biosses": (1.5e-4, 16, 128, 60, 10),
        "clinical_sts": (5e-5, 32, 128, 10, 5),
        "hoc": (2e-4, 32, 128, 5, 5),
        "mednli": (1e-4, 32, 128, 5, 5),
        "pubmedqa": (2e-4, 32, 512, 20, 10),
        "bioasq": (2e-4, 32, 512, 20, 10),
        # BioM's (Table 4, base models).
        "squad_v1": (1e-4, 32, 384, 3, 5),
        "squad_v2": (1e-4, 32, 384, 3, 5),
        "bioasq_factoid": (2e-5, 24, 384, 4, 5),
    }
    # bio-lm's section 5.2, and the length of its scripts.
    bio_lm = {
        "bc4chemd": (1e-5, 32, 512, 20, 5),
        "linnaeus": (1e-5, 32, 512, 20, 5),
        "species_800": (1e-5, 32, 512, 20, 5),
        "i2b2_2010_ner": (1e-5, 32, 512, 20, 5),
        "i2b2_2012": (1e-5, 32, 512, 20, 5),
        "i2b2_2014": (1e-5, 32, 512, 20, 5),
        "euadr": (1e-5, 16, 512, 10, 5),
    }
    for name in bio_lm:
        settings = task_table.TASKS[name].settings
        assert settings["eval_every_steps"] == (200 if name == "euadr" else 500)
    assert published.keys() | bio_lm.keys() == task_table.TASKS.keys() - {"sentence_roles"}
    for name, expected in (published | bio_lm).items():
        made = config.load(FinetuningConfig, defaults=task_table.TASKS[name].settings)
        assert expected == (
            made.learning_rate,
            made.train_batch_size,
            made.sequence_length,
            made.num_train_epochs,
            made.num_trials,
        ), name
        assert made.layerwise_lr_decay == (1.0 if name in bio_lm else 0.8)
        assert made.warmup_proportion == 0.1, name
        assert (made.weight_decay_rate, made.hidden_dropout_prob) == (0.0, 0.1), name


def test_flags_come_before_the_tasks_settings():
    settings = task_table.TASKS["biosses"].settings
    made = config.load(FinetuningConfig, '{"num_trials": 2}', ["learning_rate=1e-3"], settings)
    assert (made.num_trials, made.learning_rate, made.train_batch_size) == (2, 1e-3, 16)


def test_swapped_pairs_are_added_in_training():
    task = task_table.TASKS["biosses"]
    example = LabelledText("7", "one", 2.5, pair="two")
    both = task.augment([example])
    assert [(x.text, x.pair, x.label) for x in both] == [("one", "two", 2.5), ("two", "one", 2.5)]


def test_word_level_scores_are_of_the_three_elements():
    task = task_table.TASKS["ebm_pico"]
    assert (
        tuple(label.removeprefix("I-") for label in task.labels[1:]) == entity_metrics.PICO_ELEMENTS
    )


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_squads_released_files_serve_as_they_are(version, tmp_path):
    """The development set is the test, and a tenth of training the development set."""
    answered = version == "1.1"
    squad(tmp_path / f"train-v{version}.json", 21, answered=answered)
    squad(tmp_path / f"dev-v{version}.json", 2, "d", answered)
    task = task_table.TASKS[f"squad_v{version[0]}"]
    examples = task.examples(str(tmp_path))
    assert [x.id for x in examples["test"]] == ["d0", "d0-none", "d1", "d1-none"]
    # 42 questions: the last 4, and those on their contexts.
    assert [x.id for x in examples["dev"]] == ["q19", "q19-none", "q20", "q20-none"]
    assert [x.id for x in examples["train"]][-1] == "q18-none" and len(examples["train"]) == 38
    assert task.files(str(tmp_path)).keys() == {"train", "test"}
    squad(tmp_path / "dev.json", 1, answered=answered)
    assert task.files(str(tmp_path)).keys() == {"train", "dev", "test"}
    assert len(task.examples(str(tmp_path))["train"]) == 42


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_squad_v1_refuses_questions_without_an_answer(split, tmp_path):
    for each in SPLITS:
        squad(tmp_path / f"{each}.json", 3, answered=each != split)
    path = re.escape(str(tmp_path / f"{split}.json"))
    with pytest.raises(TaskFileError, match=f"^{path}, question q0-none: .* --task=squad_v2"):
        task_table.find("squad_v1", str(tmp_path)).examples(str(tmp_path))
    assert task_table.find("squad_v2", str(tmp_path)).examples(str(tmp_path))


def test_too_few_questions_to_hold_any_out_are_named(tmp_path):
    squad(tmp_path / "train.json", 1)
    squad(tmp_path / "test.json", 1)
    with pytest.raises(TaskFileError, match=r"train\.json has too few .* add a dev\.json"):
        task_table.TASKS["squad_v2"].examples(str(tmp_path))
    with pytest.raises(TaskFileError, match="holds no file of the split 'dev'"):
        task_table.TASKS["mednli"].files(str(tmp_path))


def factoid(number, *snippets):
    snippets = [{"text": text} for text in snippets]
    return {
        "id": f"b{number}",
        "type": "factoid",
        "body": "Which?",
        "exact_answer": [["naloxone", "Narcan"]],
        "snippets": snippets,
    }


def test_factoids_are_scored_by_question_and_contexts_without_the_answer_left_out(tmp_path, capsys):
    questions = [
        factoid(number, "Naloxone it is.", "It is.", "Narcan.", "Or it.") for number in range(10)
    ]
    for split in ("train", "test"):
        path = tmp_path / f"{split}.json"
        path.write_text(json.dumps({"questions": questions}), encoding="utf-8")
    task = task_table.TASKS["bioasq_factoid"]
    examples = task.examples(str(tmp_path))
    # The contexts of a question stay together.
    assert [x.id for x in examples["dev"]] == [f"b9_00{i}" for i in range(4)]
    kept = task.augment(examples["train"])
    assert [x.id for x in kept[:3]] == ["b0_000", "b0_002", "b1_000"] and len(kept) == 18
    assert "18 of 36 contexts to train on do not have the answer" in capsys.readouterr().out
    with pytest.raises(TaskFileError, match=r"train\.json: no context has the answer"):
        task.augment(examples["train"][1:2])
    wrong, right = answers.Answers(("it",), (0.9,), 0.0), answers.Answers(("Narcan",), (0.5,), 0.0)
    scores = task.score(examples["dev"], [wrong, right, wrong, wrong])
    assert scores == {"mrr": 0.5, "strict_accuracy": 0.0, "lenient_accuracy": 1.0}
