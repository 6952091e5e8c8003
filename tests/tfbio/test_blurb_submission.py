"""Submissions to BLURB: read as IQVIA's evaluators read them, against the corpora themselves.

The schemas' patterns, the numbers of the sentences and the figures of one answer to all are those
of <https://github.com/iqvianlp/IQVIA-NLP-LLM-Benchmarking-Pipeline>, commit c03a2a2: the folder
tools/bionlp_benchmarking, and tools/example_mapping/resources, which lists ids of the test sets.
"""

import gzip
import io
import json
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest
import seqeval.metrics
from scipy.stats import pearsonr
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from data_prep.corpora import abstract_mentions, corpus_splits, pubmedqa
from tests import reference
from tests.blurb_files import FOLDERS
from tests.run_files import write_scores
from tfbio import blurb_submission
from tfbio.formats.splits import find_split
from tfbio.formats.task_examples import LabelledText, TaggedSentence
from tfbio.formats.task_file_errors import TaskFileError
from tfbio.reporting import blurb_ids, results
from tfbio.task_types import task_table, types

ROOT = Path(__file__).parents[2]
BIO = {"O", "B", "I"}
RELATIONS = {"CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"}
INTERACTIONS = {"DDI-int", "DDI-advise", "DDI-effect", "DDI-mechanism"}
PICO = ["I-PAR", "I-INT", "I-OUT"]
# In the order of the numbers in the corpus's loader, where 7 is none.
HALLMARKS = ["GS", "TPI", "RI", "CE", "CD", "IM", "GI", "A", "PS", "ID"]
# Task -> dataset_name, pattern of the ids, and what a prediction, or each of its parts, may be.
SCHEMAS = {
    "bc5cdr_chem": ("BC5-chem", "^[0-9]+$", BIO),
    "bc5cdr_disease": ("BC5-disease", "^[0-9]+$", BIO),
    "ncbi_disease": ("NCBI-disease", "^[0-9]+$", BIO),
    "bc2gm": ("BC2GM", "^[0-9]+$", BIO),
    "jnlpba": ("JNLPBA", "^[0-9]+$", BIO),
    "ebm_pico": ("EBM PICO", "^[0-9]+$", {"O", *PICO}),
    "chemprot": ("ChemProt", r"^[0-9]+\.T[0-9]+\.T[0-9]+$", {"false", *RELATIONS}),
    "ddi": ("DDI", "^.+_T[0-9]+_T[0-9]+$", {"DDI-false", *INTERACTIONS}),
    "gad": ("GAD", "^[0-9]+$", {"0", "1"}),
    "biosses": ("BIOSSES", "^[0-9]+$", None),
    "hoc": ("HoC", "^[0-9]+_[0-9]+$", set(HALLMARKS)),
    "pubmedqa": ("PubmedQA", "^[0-9]{7,8}$", {"yes", "no", "maybe"}),
    "bioasq": ("BioASQ", "^[a-f0-9]{24}$", {"yes", "no"}),
}
LISTS = {"tagging", "multilabel"}


def check_schema(task, content):
    name, pattern, allowed = SCHEMAS[task]
    assert content.keys() == {"dataset_name", "model_name", "predictions"}
    assert content["dataset_name"] == name and isinstance(content["model_name"], str)
    for key, value in content["predictions"].items():
        assert re.search(pattern, key), value
        if allowed is None:
            assert 0 <= value <= 4
        else:
            assert isinstance(value, list) == (task_table.TASKS[task].task_type in LISTS)
            assert set(value if isinstance(value, list) else [value]) <= allowed
        if allowed is BIO:
            # The evaluator lengthens the last entity by an I, and fails where there is none.
            assert ("O", "I") not in zip(["O", *value], value, strict=False)


def lines(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


# --- What is true, by the ids of the evaluators ---------------------------------------------------


def true_sentences(path):
    """Blocks of lines, counted; the line that begins a document is one."""
    blocks = "\n".join(lines(path)).strip("\n").split("\n\n")
    blocks = ["x\tO" if block.startswith("-DOCSTART-") else block for block in blocks]
    tags = [[line.split("\t")[1] for line in block.split("\n")] for block in blocks]
    return {str(i): own for i, own in enumerate(tags)}


def true_abstracts(path):
    found, pmid = defaultdict(list), ""
    for line in lines(path):
        if line.startswith("-DOCSTART-"):
            pmid = re.sub(r"\D", "", line)
        elif line:
            found[pmid].append(line.split("\t")[1])
    return found


def true_chemprot():
    """The pairs of one sentence follow each other: the sentence is that of the abstract."""
    with zipfile.ZipFile(reference.corpus("chemprot/original/chemprot_test_gs.zip")) as archive:
        (texts, mentions) = (
            io.TextIOWrapper(archive.open(name), encoding="utf-8").read().split("\n")[:-1]
            for part in ("abstracts", "entities")
            for name in archive.namelist()
            if name.endswith(f"_{part}_gs.tsv") and "__MACOSX" not in name
        )
    texts = dict(line.split("\t", 1) for line in texts)
    places = {
        (pmid, name): (int(a), int(b))
        for pmid, name, _, a, b, _ in (line.split("\t") for line in mentions)
    }
    found, number, before = {}, 5974, None
    for line in lines(reference.corpus("chemprot/blurb/test.tsv.gz")):
        id_, masked, label = line.split("\t")
        pmid, *pair = id_.split(".")
        spans = sorted(places[pmid, name] for name in pair)
        if "@CHEM-GENE$" in masked:
            spans = [(spans[0][0], max(end for _, end in spans))]
        parts = re.split(r"@CHEM-GENE\$|@CHEMICAL\$|@GENE\$", masked)
        own = [texts[pmid][a:b] for a, b in spans]
        sentence = "".join(x for two in zip(parts, [*own, ""], strict=True) for x in two)
        number += (pmid, sentence) != before
        before = (pmid, sentence)
        found[".".join([str(number), *pair])] = label
    return found


def true_ddi():
    """From the XML, by BLURB's list of its files."""
    listed = reference.corpus("ddi2013/blurb/index/test_files.tsv").read_text().splitlines()
    found, number = {}, 3789
    with zipfile.ZipFile(reference.corpus("ddi2013/original/DDICorpus-2013.zip")) as archive:
        for name in listed:
            place = name.replace("test_dataset", "Test/Test for DDI Extraction task")
            for sentence in ElementTree.fromstring(archive.read(f"DDICorpus/{place}")):
                number += sentence.find("pair") is not None
                for pair in sentence.iterfind("pair"):
                    drugs = (pair.get(e).rpartition(".e")[2] for e in ("e1", "e2"))
                    label = pair.get("type", "false") if pair.get("ddi") == "true" else "false"
                    found["_T".join([str(number), *drugs])] = f"DDI-{label}"
    return found


def true_hallmarks():
    """From the corpus: the numbers of BLURB's columns are those of the names in their order."""
    abbreviations = ["IM", "ID", "CE", "RI", "GS", "GI", "A", "CD", "PS", "TPI"]
    found = {}
    for line in lines(reference.corpus("hoc/blurb/test.tsv.gz"))[1:]:
        flags, _, id_ = line.split("\t")
        held = [x for x, flag in zip(abbreviations, flags.split(","), strict=True) if "_1" in flag]
        found[id_.replace("_s", "_")] = held
    return found


def truth(task, path):
    if task in ("chemprot", "ddi"):
        return (true_chemprot if task == "chemprot" else true_ddi)()
    if task == "hoc":
        return true_hallmarks()
    if task_table.TASKS[task].task_type == "tagging":
        return (true_abstracts if task == "ebm_pico" else true_sentences)(path)
    rows = [line.split("\t") for line in lines(path)]
    rows = [row for row in rows if row[0] not in ("index", "pair_id")]
    return {row[0]: float(row[-1]) if task == "biosses" else row[-1] for row in rows}


# --- The evaluators -------------------------------------------------------------------------------


def score(task, true, found):
    """The evaluators' figure, not rounded."""
    if task == "ebm_pico":
        pairs = [(true[key], found.get(key, ["O"] * len(true[key]))) for key in true]
        y_true, y_pred = ([tag for own in side for tag in own] for side in zip(*pairs, strict=True))
        return f1_score(y_true, y_pred, average="macro", labels=PICO)
    if task == "hoc":
        documents = []
        for labels in (true, found):
            sets = defaultdict(set)
            for key, own in labels.items():
                sets[key.split("_")[0]].update(own)
            documents.append(sets)
        encode = MultiLabelBinarizer(classes=HALLMARKS).fit_transform
        y_true, y_pred = (encode([sets[key] for key in documents[0]]) for sets in documents)
        return f1_score(y_true, y_pred, average="macro", zero_division=0.0)
    if task_table.TASKS[task].task_type == "tagging":
        typed = [
            [
                [tag if tag == "O" else f"{tag}-x" for tag in labels.get(key, ["O"] * len(own))]
                for key, own in true.items()
            ]
            for labels in (true, found)
        ]
        return seqeval.metrics.f1_score(*typed)
    if task in ("chemprot", "ddi"):
        labels = sorted(RELATIONS if task == "chemprot" else INTERACTIONS)
        negative = "false" if task == "chemprot" else "DDI-false"
        y_pred = [found.get(key, negative) for key in true]
        return f1_score([*true.values()], y_pred, average="micro", labels=labels)
    y_true, y_pred = [*true.values()], [found[key] for key in true]
    if task == "biosses":
        return pearsonr(y_true, y_pred).statistic
    return f1_score(y_true, y_pred, average="micro")  # of all classes: the accuracy


# The same figure in scores.json; of the others it is the accuracy.
OURS = dict.fromkeys(SCHEMAS, "f1") | {"ebm_pico": "macro_f1", "hoc": "macro_f1"}
OURS |= {"biosses": "pearson"}
for name in ("gad", "pubmedqa", "bioasq"):
    del OURS[name]


# --- Runs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def test_file(tmp_path_factory):
    """The file of a test set."""

    def find(task):
        folder = tmp_path_factory.mktemp(task)
        if task == "pubmedqa":
            source = reference.corpus("pubmedqa/ori_pqal.json.gz")
            corpus_splits.write(str(folder), pubmedqa.read_examples(source), True)
        elif task == "bioasq":  # cannot be shared
            rows = [f"{i:024x}\tIs it?\tIt is.\t{'no' if i % 3 else 'yes'}\n" for i in range(140)]
            (folder / "test.tsv").write_text("".join(rows))
        else:
            folder = reference.corpus(FOLDERS[task])
        return Path(find_split(str(folder), "test"))

    return find


def write_run(folder, task, examples, of_seeds, dev):
    """What a run leaves: for each seed its predictions; `dev` are their scores."""
    task, trials = task_table.TASKS[task], []
    metric = "pearson" if task.task_type == "regression" else "f1"
    for seed, predicted in enumerate(of_seeds):
        trial = folder / f"trial_{seed}"
        trial.mkdir(parents=True)
        task_type = types.TYPES[task.task_type]
        task_type.write_predictions(str(trial), "test", examples, predicted, task.entity_type)
        is_score = task.task_type == "regression"
        test = dict(task.score(examples, predicted)) if is_score else {metric: 0.5}
        trials.append({"seed": seed, "dev": {metric: dev[seed]}, "test": test})
    write_scores(folder, trials, task=task.name, metric=metric, init="work/SuperBERT")
    return results.Run(str(folder), "SuperBERT", task.name, metric, [], [])


def gold(examples):
    return [x.tags if hasattr(x, "tags") else x.label for x in examples]


def with_mistakes(task, examples):
    """Every third example has what is true of the one before."""
    true = gold(examples)
    if task_table.TASKS[task].task_type != "tagging":
        return [true[i - 1] if i % 3 == 0 else own for i, own in enumerate(true)]
    # A word in the middle loses its tag, so that an I may continue nothing.
    cut = [(*own[: len(own) // 2], "O", *own[len(own) // 2 + 1 :]) for own in true]
    return [cut[i] if i % 3 == 0 else own for i, own in enumerate(true)]


# These are as NCBI-disease, only larger.
SLOW = ("bc5cdr_chem", "bc5cdr_disease", "bc2gm")
TASKS = [pytest.param(x, marks=[pytest.mark.slow] * (x in SLOW)) for x in SCHEMAS]


@pytest.mark.parametrize("task", TASKS)
def test_the_evaluators_find_every_prediction(task, test_file, tmp_path, capsys):
    path = test_file(task)
    examples = task_table.TASKS[task].read(str(path))
    mistaken = with_mistakes(task, examples)
    run = write_run(tmp_path / task, task, examples, [gold(examples), mistaken], (0.5, 0.4))
    best, other = blurb_submission.submission(run), blurb_submission.submission(run, 1)
    assert "not the test set" not in capsys.readouterr().out
    true = truth(task, path)
    for content in (best, other):
        check_schema(task, content)
        assert content["model_name"] == "SuperBERT"
    # The lines that begin a document are sentences of one word there, which is nothing.
    beginnings = [key for key in true if key not in best["predictions"]]
    assert len(beginnings) == (404 if task == "jnlpba" else 0)
    assert best["predictions"] | {key: ["O"] for key in beginnings} == true
    found = score(task, true, other["predictions"])
    assert 0 < found < 0.999
    if task in OURS:
        assert found == pytest.approx(task_table.TASKS[task].score(examples, mistaken)[OURS[task]])
    else:
        right = [a == b for a, b in zip(gold(examples), mistaken, strict=True)]
        assert found == pytest.approx(sum(right) / len(right))
    # All answers alike, and the figures that the evaluators' own tests expect.
    if task == "chemprot":
        assert [*true][0].startswith("5975.") and [*true][-1].startswith("9043.")
        figures = {"CPR:3": 6.92, "CPR:4": 17.26, "CPR:5": 1.86, "CPR:6": 3.05, "CPR:9": 6.7}
    elif task == "ddi":
        assert [*true][0] == "3790_T0_T1"
        figures = {"DDI-effect": 10.75, "DDI-int": 2.87, "DDI-mechanism": 9.02, "DDI-advise": 6.6}
    else:
        return
    for label, figure in figures.items():
        assert 100 * score(task, true, dict.fromkeys(best["predictions"], label)) == (
            pytest.approx(figure, abs=0.005)
        )


def test_hallmarks_are_abbreviated_as_the_evaluator_does(test_file, tmp_path):
    """Each alone, for every sentence that has any: what the evaluator's own tests expect."""
    examples = task_table.TASKS["hoc"].read(str(test_file("hoc")))
    true = true_hallmarks()
    figures = (2.86, 2.23, 1.4, 1.13, 3.98, 3.26, 3.39, 1.35, 4.96, 0.84)
    figures = dict(zip(HALLMARKS, figures, strict=True))
    names = task_table.TASKS["hoc"].labels
    seeds = [[(name,) if x.label else () for x in examples] for name in names]
    run = write_run(tmp_path / "hoc", "hoc", examples, seeds, [0.0] * len(names))
    seen = set()
    for seed in range(len(names)):
        found = blurb_submission.submission(run, seed)["predictions"]
        (label,) = {label for labels in found.values() for label in labels}
        assert 100 * score("hoc", true, found) == pytest.approx(figures[label], abs=0.005), seed
        seen.add(label)
    assert seen == set(HALLMARKS)


@pytest.fixture
def biosses(tmp_path):
    """Runs with made-up pairs."""

    def write(name="biosses", pairs=20, ids="{}"):
        examples = [LabelledText(ids.format(i), "a", i / 10, "b") for i in range(1, pairs + 1)]
        shifted = [example.label * 4 - 1 for example in examples]
        write_run(tmp_path / name, "biosses", examples, [gold(examples), shifted], (0.1, 0.2))
        return str(tmp_path / name)

    return write


def test_a_score_is_brought_within_its_range(biosses, capsys):
    run = results.read(biosses())
    found = blurb_submission.submission(run)["predictions"]
    # Of these made-up pairs it is said that they are not BLURB's.
    said = capsys.readouterr().out
    assert "as BLURB's scripts make it: 20 test examples, not the published ones.\n" in said
    assert found["1"] == 0.0 and found["10"] == 3.0 and found["20"] == 4.0


def test_what_makes_no_submission_is_refused(biosses, tmp_path):
    write = blurb_submission.write_submission
    output = tmp_path / "submission"
    with pytest.raises(blurb_submission.SubmissionError, match="has 19 examples.* has 20"):
        write([biosses("short", 19)], str(output))
    with pytest.raises(blurb_submission.SubmissionError, match="number 1 is 'pair 1'"):
        write([biosses("named", ids="pair {}")], str(output))
    with pytest.raises(blurb_submission.SubmissionError, match="one of them stands twice"):
        write([biosses("twice", ids="1")], str(output))
    one = biosses()
    with pytest.raises(blurb_submission.SubmissionError, match="--seed=7: .* seeds 0, 1"):
        write([one], str(output), 7)
    with pytest.raises(blurb_submission.SubmissionError, match="are both biosses: leave one"):
        write([one, biosses("again")], str(output))
    assert not output.exists()


def test_a_file_of_another_model_is_not_zipped_with_them(biosses, tmp_path):
    output, other = tmp_path / "submission", tmp_path / "submission" / "PubmedQA.json"
    output.mkdir()
    run = f"ours={biosses()}"
    other.write_text('{"model_name": "theirs"}')
    with pytest.raises(blurb_submission.SubmissionError, match="PubmedQA.json is of theirs, and"):
        blurb_submission.write_submission([run], str(output))
    assert list(output.iterdir()) == [other]
    other.write_text('{"model_name": "ours"}')
    assert list(blurb_submission.write_submission([run], str(output))) == ["biosses"]


def test_a_submission_is_of_one_model_and_of_blurb(tmp_path, monkeypatch, capsys):
    """A stand-in for `results.find`, which calls each run as its task."""
    monkeypatch.setattr(results, "find", lambda x: [results.Run(x, x, x, "f1", [], [])])
    with pytest.raises(blurb_submission.SubmissionError, match=r"several models \(gad, hoc\)"):
        blurb_submission.write_submission(["hoc", "mednli", "gad"], str(tmp_path))
    assert capsys.readouterr().out == "Left out, not of BLURB: mednli.\n"
    with pytest.raises(blurb_submission.SubmissionError, match="none of these runs"):
        blurb_submission.write_submission(["mednli"], str(tmp_path))


def test_predictions_on_the_files_that_tfbio_writes_are_found_too(test_file, tmp_path):
    """The sentences are known by their numbers, so they must be in BLURB's order."""
    rows = abstract_mentions.read_ncbi_disease(reference.corpus("ncbi_disease/pubtator"), [])
    corpus_splits.write(tmp_path / "data", rows, False)
    path = find_split(str(tmp_path / "data"), "test")
    examples = task_table.TASKS["ncbi_disease"].read(path)
    run = write_run(tmp_path / "run", "ncbi_disease", examples, [gold(examples)], [0.5])
    found = blurb_submission.submission(run)["predictions"]
    assert found == true_sentences(test_file("ncbi_disease"))

    run = write_run(tmp_path / "other", "ncbi_disease", examples[::-1], [gold(examples)[::-1]], [0])
    with pytest.raises(blurb_submission.SubmissionError, match="in another order than BLURB's"):
        blurb_submission.submission(run)


def test_runs_that_do_not_say_where_sentences_stand_are_refused(tmp_path, monkeypatch):
    """As of files without EBM-PICO's lines for its abstracts."""
    monkeypatch.setitem(blurb_ids.SIZES, "ebm_pico", 1)
    sentence = TaggedSentence("3", ("pain", "."), ("I-OUT", "O"))
    run = write_run(tmp_path, "ebm_pico", [sentence], [[sentence.tags]], [0.5])
    with pytest.raises(blurb_submission.SubmissionError, match="which abstract .* line 3 is"):
        blurb_submission.submission(run)
    places = tmp_path / "trial_0" / "test_entities.jsonl"
    places.write_text(2 * places.read_text())
    with pytest.raises(blurb_submission.SubmissionError, match="2 sentences and .*tsv 1: fine"):
        blurb_submission.submission(run)
    places.unlink()
    with pytest.raises(TaskFileError, match="entities.jsonl cannot be read"):
        blurb_submission.submission(run)


def test_the_command(biosses, tmp_path, fails_in_one_sentence):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "tfbio.blurb_submission", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    output, one = tmp_path / "submission", biosses()
    done = run(f"--finetuning=Ada={one}", f"--output={output}", "--seed=0")
    assert done.stdout.splitlines()[-1] == f"{output}/BIOSSES.json", done.stderr
    assert "No run of BC5-chem, BC5-disease, " in done.stdout
    # The same folder, spelt in another way, is the same run.
    blurb_submission.write_submission([one, f"{one}/"], str(tmp_path / "again"), 0)
    content = json.loads((output / "BIOSSES.json").read_text())
    assert (content["dataset_name"], content["model_name"]) == ("BIOSSES", "Ada")
    assert content["predictions"]["20"] == 2.0
    done = run(f"--finetuning={tmp_path}/nowhere", f"--output={output}")
    assert "no finished run is there" in fails_in_one_sentence(done)
