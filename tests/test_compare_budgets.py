"""The comparison at a budget: what is equal, its arithmetic, its report, its runs."""

import functools
import json
import shlex
import shutil
import statistics
import sys
from pathlib import Path

import pytest
import torch

from scripts import budgets_report, commands, compare_budgets, comparison, train_hugging_face
from scripts.budget_arms import ARMS, ENCODERS, REPLACED_TOKENS, flags
from scripts.families import HPARAMS
from tests import forked
from tfbio.base import config, errors
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.training import cpu_bfloat16


def settings_of(name):
    options = flags(ENCODERS["4x256"] | ARMS[name].settings(8192, 1000, 32, 1e-3, seed=0))
    return config.load(PretrainingConfig, "", options.replace("--set ", "").split())


def test_the_arms_differ_in_their_objective_alone():
    electra, mlm, *hugging_face = (settings_of(name) for name in ARMS)
    assert hugging_face == [mlm, mlm]
    assert (mlm.encoder.num_hidden_layers, mlm.encoder.hidden_size) == (4, 256)
    assert electra.encoder == mlm.encoder and electra.num_warmup_steps == 100
    for name in ("train_batch_size", "learning_rate", "optimizer", "schedule", "seed", "run"):
        assert getattr(electra, name) == getattr(mlm, name)
    quickstart = json.loads((HPARAMS / "quickstart.json").read_text())
    assert {name: quickstart.get(name, "electra") for name in REPLACED_TOKENS} == REPLACED_TOKENS


def test_a_budget_pays_for_so_many_steps():
    assert compare_budgets.steps_in(30, 0.5) == 3600
    assert compare_budgets.steps_in(1, 7) == 10  # fewer teach nothing
    assert compare_budgets.budgets(["30:3", "0.5:1"]) == [(30.0, 3), (0.5, 1)]
    for wrong in ("30", "30:0", "-1:1", "nan:1", "inf:1", "a:b", "1:2:3"):
        with pytest.raises(errors.UsageError, match="MINUTES:SEEDS"):
            compare_budgets.budgets([wrong])


def test_the_scores_that_are_committed_can_be_continued(tmp_path, monkeypatch):
    """Their settings and documents are those of this code: nothing that has a score runs again."""
    examples = tmp_path / "examples_packed"
    examples.mkdir()
    counts = {"tokens": 9_757_557, "examples": 79_570, "heldout_examples": 4106}
    settings = {
        "vocab_size": 8192,
        "sequence_length": 128,
        "documents_sha256": "a95dd948fb649d959ed8014862d7c699ace768ee91bb6ce2ffc8e44ed26b751f",
    }
    manifest = {"kind": "examples", "counts": counts, "settings": settings, "shards": []}
    (examples / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setattr(comparison, "python", lambda command: None)
    monkeypatch.setattr(cpu_bfloat16, "cuts_off_products", lambda: False)  # as on theirs
    results = str(HPARAMS.parent / "benchmarks" / "budgets.jsonl")
    corpora = HPARAMS.parent / "tests" / "data" / "corpora"
    data = [f"{task}={corpora / task / 'blurb'}" for task in ("bc5cdr_chem", "ncbi_disease")]
    compared = compare_budgets.BudgetComparison(str(tmp_path), task_data=data, results=results)
    compared.prepare([(compare_budgets.EXAMPLES, "")])
    monkeypatch.setattr(comparison, "python", lambda command: pytest.fail(command))

    def of(stage):
        return [record for record in compared.records if record["stage"] == stage]

    costs = {}
    for record in of("cost"):
        arm, form, batch = (record[name] for name in ("arm", "form", "batch"))
        seconds = compared._cost(arm, form, batch, record.get("turn", 0))
        assert seconds == record["cpu_seconds_per_step"]
        costs.setdefault((arm, form, batch), []).append(seconds)
    assert len(costs) >= 2
    starts = set()
    for record in of("search") + of("pretraining"):
        arm, form, batch = (record[name] for name in ("arm", "form", "batch"))
        alone, *in_turns = costs[arm, form, batch]
        cost = statistics.median(in_turns) if record["stage"] == "pretraining" else alone
        minutes = record.get("minutes", compare_budgets.SEARCH_MINUTES)
        steps, seed = compared._steps(minutes, cost), record.get("seed", 0)
        assert steps == record["steps"]
        learnt = compared._settings(arm, batch, record["learning_rate"], steps, seed)
        assert compared._digest(arm, form, learnt) == record["settings"]
        starts.add(compared._random(learnt))
        if record["stage"] == "pretraining":
            tuned = {key: record[key] for key in ("arm", "minutes", "seed")}
            for task in ("bc5cdr_chem", "ncbi_disease"):
                of_tuning = compared.digest_of_finetuning(task, record["settings"])
                assert compared.found({"task": task, **tuned}, of_tuning)
    (random,) = starts
    for task in ("bc5cdr_chem", "ncbi_disease"):
        of_tuning = compared.digest_of_finetuning(task, random)
        assert compared.found({"task": task, "start": "random"}, of_tuning)


@pytest.mark.parametrize("file, said", [("budgets", "--encoder=4x256"), ("families", "another k")])
def test_scores_of_another_encoder_are_not_continued(file, said, tmp_path, monkeypatch):
    """Nor those of the other comparison."""
    monkeypatch.setattr(comparison, "python", lambda command: pytest.fail(command))
    monkeypatch.setattr(cpu_bfloat16, "cuts_off_products", lambda: False)  # as on theirs
    compared = compare_budgets.BudgetComparison(
        str(tmp_path),
        results=str(HPARAMS.parent / "benchmarks" / f"{file}.jsonl"),
        encoder="2x128",
    )
    with pytest.raises(errors.UserError, match=f"{file}.jsonl has scores of {said}"):
        compared.run(["tfbio_mlm"], [(30.0, 1)])


def make_examples(folder):
    """Makes the manifest of packed examples, which says all that settings depend on."""
    manifest = {
        "kind": "examples",
        "counts": {"heldout_examples": 64},
        "settings": {"vocab_size": 8192, "documents_sha256": "x"},
        "shards": [],
    }
    (folder / "examples_packed").mkdir()
    (folder / "examples_packed" / "manifest.json").write_text(json.dumps(manifest))


def test_the_cheapest_form_and_the_lowest_loss_decide(tmp_path, monkeypatch):
    """The steps of a budget are by the median of the turns, and a run that diverges has lost."""
    make_examples(tmp_path)
    compared = compare_budgets.BudgetComparison(str(tmp_path))
    # The measurements of each step, those in turns after the first.
    seconds = {
        (16, "float32"): [0.9],
        (16, "bfloat16"): [0.5, 0.7, 0.4, 0.6],
        (32, "float32"): [1.0],
        (32, "bfloat16"): [1.1],
    }
    trained = {}

    def cpu_time_of_step(command, settings, name, lengths, compiled=False):
        form = "bfloat16" if "precision=bfloat16" in command(settings, "folder") else "float32"
        return seconds[settings["train_batch_size"], form].pop(0)

    def pretrain(name, form, settings, model_dir):
        trained[model_dir] = form, settings
        if settings["learning_rate"] == 1e-3:
            Path(model_dir).mkdir(parents=True)
            Path(model_dir, "skipped_step_9.npz").touch()
            raise errors.UserError("too many steps were skipped")
        return 300.0

    def held_out(name, model_dir):
        _, settings = trained[model_dir]
        best = (settings["train_batch_size"], settings["learning_rate"]) == (16, 5e-4)
        return {"loss": 4.0 if best else 5.0}

    monkeypatch.setattr(compared, "cpu_time_of_step", cpu_time_of_step)
    monkeypatch.setattr(compared, "_pretrain", pretrain)
    monkeypatch.setattr(compared, "_held_out", held_out)
    best = compared._best("tfbio_mlm")
    assert best == ("bfloat16", 16, 5e-4)
    # 5 minutes over the CPU time of each batch's cheapest form.
    assert {(form, settings["num_train_steps"]) for form, settings in trained.values()} == {
        ("bfloat16", 600),
        ("float32", 300),
    }
    assert len(trained) == 8
    diverged = [x for x in compared.records if x.get("learning_rate") == 1e-3]
    assert [x["held_out"]["loss"] for x in diverged] == [float("inf")] * 2
    assert compared._costs_in_turns({"tfbio_mlm": best}) == {"tfbio_mlm": 0.6}


@pytest.mark.parametrize("compiled, runs", [(False, [20, 100]), (True, [20, 20, 100])])
def test_a_step_costs_neither_compilation_nor_an_earlier_run(tmp_path, monkeypatch, compiled, runs):
    """The first run compiles; a run in the folder of another one would be over at once."""
    clock, ran = [0.0], []

    def run(command):
        folder, steps = command.split()
        assert not Path(folder).exists()
        Path(folder).mkdir(parents=True)
        clock[0] += 40 + 0.5 * int(steps) + (300 if compiled and not ran else 0)
        ran.append(int(steps))

    monkeypatch.setattr(comparison, "python", run)
    monkeypatch.setattr(comparison, "cpu_seconds", lambda: clock[0])
    compared = compare_budgets.BudgetComparison(str(tmp_path))

    def command(settings, model_dir):
        return f"{model_dir} {settings['run.stop_at_step']}"

    for _ in range(2):
        ran.clear()
        assert compared.cpu_time_of_step(command, {}, "x", (20, 100), compiled) == 0.5
        assert ran == runs


def test_cpu_time_of_several_processors_is_not_added(tmp_path, monkeypatch):
    compared = compare_budgets.BudgetComparison(str(tmp_path))
    monkeypatch.setattr(compared, "_command", lambda *_: "")
    monkeypatch.setattr(comparison, "python", lambda command: None)
    clock = iter(range(0, 10_000, 50))
    monkeypatch.setattr(comparison, "cpu_seconds", lambda: next(clock))
    monkeypatch.setattr(comparison, "processor", lambda: "2 cores of one")
    model_dir = str(tmp_path / "run")
    assert compared._pretrain("tfbio_mlm", "float32", {}, model_dir) == 50
    assert compared._pretrain("tfbio_mlm", "float32", {}, model_dir) == 100
    monkeypatch.setattr(comparison, "processor", lambda: "2 cores of another")
    assert compared._pretrain("tfbio_mlm", "float32", {}, model_dir) is None
    # Nor is that of a start that was killed with this command.
    ledger = Path(f"{tmp_path}/killed.cpu_seconds.json")
    ledger.write_text('[["2 cores of another", null]]')
    assert compared._pretrain("tfbio_mlm", "float32", {}, str(tmp_path / "killed")) is None


def test_a_failure_in_the_turns_is_no_cost(tmp_path, monkeypatch):
    """A median over failures would be infinite, and its budget a run of 10 steps."""

    def fail(*_):
        raise errors.UserError("the disk is full")

    compared = compare_budgets.BudgetComparison(str(tmp_path))
    monkeypatch.setattr(compared, "_settings", lambda *_, **__: {})
    monkeypatch.setattr(compared, "_digest", lambda *_: "")
    monkeypatch.setattr(compared, "cpu_time_of_step", fail)
    with pytest.raises(errors.UserError, match="the disk is full"):
        compared._cost("hugging_face_mlm", "bfloat16, compiled", 16, turn=1)
    assert not compared.records
    # In the search, the other forms count.
    assert compared._cost("hugging_face_mlm", "bfloat16, compiled", 16) == float("inf")


def test_a_score_belongs_to_the_content_of_its_task(tmp_path):
    """Other files of a task are other data, wherever they lie; a copy is the same."""

    def digest(name, tag):
        folder = tmp_path / name
        folder.mkdir()
        for split in ("train", "dev", "test"):
            (folder / f"{split}.tsv").write_text(f"Aspirin\t{tag}\n\n")
        data = [f"bc5cdr_chem={folder}"]
        compared = compare_budgets.BudgetComparison(str(tmp_path / "out"), task_data=data)
        return compared.digest_of_finetuning("bc5cdr_chem", "start")

    assert digest("own", "B") == digest("copy", "B") != digest("other", "O")


def few_examples(folder, documents):
    """Writes the manifest of examples of documents with this hash."""
    settings = {"vocab_size": 8192, "sequence_length": 128, "documents_sha256": documents}
    counts = {"tokens": 9000, "special_tokens": 10, "examples": 80, "heldout_examples": 41}
    manifest = {"kind": "examples", "counts": counts, "settings": settings, "shards": []}
    (folder / "examples_packed").mkdir(parents=True)
    (folder / "examples_packed" / "manifest.json").write_text(json.dumps(manifest))


def test_scores_belong_to_the_way_in_which_the_cpu_rounds(tmp_path, monkeypatch):
    """Tests that those in bfloat16 do, of which the two kinds of CPU have others."""
    few_examples(tmp_path, "a")
    data = tmp_path / "task"
    data.mkdir()
    for split in ("train", "dev", "test"):
        (data / f"{split}.tsv").write_text("Aspirin\tB\n\n")
    compared = compare_budgets.BudgetComparison(str(tmp_path), task_data=[f"bc5cdr_chem={data}"])
    digests = {}
    for cuts_off in (False, True):
        monkeypatch.setattr(cpu_bfloat16, "cuts_off_products", lambda value=cuts_off: value)
        digests[cuts_off] = [
            *(compared._digest("tfbio_mlm", form, {}) for form in ("float32", "bfloat16")),
            compared.digest_of_finetuning("bc5cdr_chem", "start"),
        ]
    same = [a == b for a, b in zip(*digests.values(), strict=True)]
    assert same == [True, False, False]


def _keep_digest(made, key, digest, *_):
    made[key["start"]] = digest


def test_random_weights_belong_to_their_documents(tmp_path, monkeypatch):
    """Tests that those of another vocabulary, which other documents have, are others."""
    monkeypatch.setattr(comparison.Comparison, "digest_of_finetuning", lambda self, task, x: x)
    digests = {}
    for documents in ("a", "b"):
        folder = tmp_path / documents
        few_examples(folder, documents)
        compared = compare_budgets.BudgetComparison(str(folder))
        monkeypatch.setattr(compared, "_pretrain", lambda *arguments: 1.0)
        monkeypatch.setattr(compared, "_held_out", lambda *arguments: {"loss": 1.0})
        made = digests[documents] = {}
        keep = functools.partial(_keep_digest, made)
        monkeypatch.setattr(compared, "finetune", keep)
        for arm in ("tfbio_mlm", "tfbio_electra"):
            compared._seed(arm, "bfloat16", 16, 1e-3, 1.0, 30.0, 0)
    assert digests["a"]["random"] != digests["b"]["random"]


def test_folders_are_those_of_the_caller(tmp_path, monkeypatch):
    """The commands run in the folder of the checkout."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hoc").mkdir()
    compared = compare_budgets.BudgetComparison("out", task_data=["hoc=hoc"])
    assert compared.folder == str(tmp_path / "out")
    assert compared.documents == str(tmp_path / "out" / "documents")
    roles = str(tmp_path / "out" / "sentence_roles")
    assert compared.data == {"sentence_roles": roles, "hoc": str(tmp_path / "hoc")}


def finetuned(arm, minutes, *scores):
    """Records of the scores of each seed of pretraining."""
    task = {"stage": "finetuning", "task": "sentence_roles", "metric": "accuracy"}
    if arm == "random":
        return [{**task, "arm": arm, "start": "random", "scores": scores[0]}]
    key = {**task, "arm": arm, "minutes": minutes, "start": "pretrained"}
    return [{**key, "seed": seed, "scores": each} for seed, each in enumerate(scores)]


def pretrained(arm, minutes, cpu_seconds, processor="2 cores of X"):
    return {
        "stage": "pretraining",
        "arm": arm,
        "minutes": minutes,
        "seed": 0,
        "steps": 3600,
        "batch": 16,
        "tokens": 7_000_000,
        "cpu_seconds": cpu_seconds,
        "processor": processor,
        "held_out": {"loss": 5.5},
    }


def test_the_report_says_what_is_shown_and_what_is_not(tmp_path):
    search = {"stage": "search", "arm": "tfbio_electra", "batch": 16, "steps": 600}
    cost = {"stage": "cost", "form": "bfloat16", "batch": 16, "processor": "2 cores of X"}
    records = [
        {**cost, "arm": "tfbio_electra", "cpu_seconds_per_step": 0.5},
        {**cost, "arm": "tfbio_electra", "cpu_seconds_per_step": 0.45, "turn": 1},
        {**cost, "arm": "tfbio_electra", "cpu_seconds_per_step": 0.47, "turn": 2},
        {**cost, "arm": "hugging_face_mlm", "cpu_seconds_per_step": float("inf")},
        {**search, "learning_rate": 5e-4, "held_out": {"loss": 6.5, "discriminator_auc": 0.6}},
        {**search, "learning_rate": 1e-3, "held_out": {"loss": 6.0, "discriminator_auc": 0.7}},
        {**search, "learning_rate": 2e-3, "held_out": {"loss": float("nan")}},
        pretrained("tfbio_electra", 30.0, 1860.0),
        pretrained("tfbio_electra", 30.0, 900.0, processor="2 cores of Y"),
        pretrained("hugging_face_mlm", 30.0, None),
        pretrained("tfbio_mlm", 120.0, 7260.0),
        *finetuned("random", 0, [0.5, 0.51, 0.52]),
        *finetuned("tfbio_electra", 30.0, [0.59, 0.60, 0.61], [0.62] * 3, [0.64, 0.65, 0.63]),
        *finetuned("hugging_face_mlm", 30.0, [0.5] * 3, [0.51] * 3, [0.55] * 3),
        *finetuned("hugging_face_rows", 30.0, [0.61] * 3, [0.62] * 3, [0.63] * 3),
        *finetuned("tfbio_mlm", 120.0, [0.6, 0.62, 0.64]),
    ]
    budgets_report.write(records, tmp_path)
    text = (tmp_path / "budgets.md").read_text()
    assert "| tfbio, ELECTRA | bfloat16 | 16 | 0.500 | 0.450, 0.470 |" in text
    assert "2 cores of X" in text
    assert "| Hugging Face, masked tokens | bfloat16 | 16 | it failed |  |" in text
    assert "The best is at an end of those tried for tfbio, ELECTRA (batch): a" in text
    # The best comes first, and one that is not finite last.
    rows = [line for line in text.splitlines() if line.startswith("| tfbio, ELECTRA | 16 |")]
    assert [row.split(" | ")[2] for row in rows] == ["0.001", "0.0005", "0.002"]
    assert "discriminator_auc 0.700" in rows[0] and "(learning rate)" not in text
    # The second seed ran on a faster processor, whose seconds say nothing about this one's.
    assert "| 30 | tfbio, ELECTRA | 2 | 3,600 | 16 | 7,000,000 | 31.0 | loss 5.500 |" in text
    assert "| 7,000,000 | unknown | loss 5.500 |" in text  # a start was killed
    # Means of 60, 62 and 64, and 50, 51 and 52 of fine-tuning: deviations of 2 and 1, so errors of
    # 1.155 and 0.577, and 11 points are 8.5 errors. Hugging Face: 50, 51, 55, a mean of 52 with a
    # deviation of 2.646 and an error of 1.528: 10 points from 62 are 5.2 errors, and 1 is 0.6.
    assert "| 0 | random weights | | 51.00 | 48.52 to 53.48 | | | |" in text
    assert "| 30 | tfbio, ELECTRA | 3 | 62.00 | 57.03 to 66.97 | 8.5 | 5.2 | 0.0 |" in text
    assert (
        "| 30 | Hugging Face, masked tokens | 3 | 52.00 | 45.43 to 58.57 | 0.6 |  | -6.1 |" in text
    )
    assert "| Hugging Face, tfbio's rows | 3 | 62.00 | 59.52 to 64.48 | 13.5 | 6.1 |  |" in text
    assert "| 120 | tfbio, masked tokens | 1 | 62.00 | 57.03 to 66.97 | 8.5 |  |  |" in text
    shown = "tfbio, ELECTRA (30 min); Hugging Face, tfbio's rows (30 min)"
    assert f"or more: {shown}; tfbio, masked tokens (120 min)." in text
    assert "shows nothing: Hugging Face, masked tokens (30 min)." in text
    assert "of fine-tuning alone: tfbio, masked tokens (120 min)." in text
    assert (tmp_path / "budgets.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def typed(monkeypatch):
    """Runs the commands, Hugging Face's in this process; gives those that were run.

    Data that was made is not looked at again, which takes a process each, and random weights have
    the scores of the others: their fine-tuning is that of `test_compare_families.py`. The clock of
    CPU time is set: an hour for each command, and 0.5 s more for each step.
    """
    typed, made, typed_until, clock = [], set(), [0], [0.0]
    threads = torch.get_num_threads()

    def run(command):
        typed.append(command)
        if len(typed) == typed_until[0]:
            raise KeyboardInterrupt
        words = shlex.split(command)
        options = dict(each.split("=") for each in words if each.startswith(("num", "run.stop")))
        steps = int(options.get("run.stop_at_step", 0)) or int(options.get("num_train_steps", 0))
        clock[0] += 3600 + 0.5 * steps
        if words[1].startswith("data_prep.") and words[1] in made:
            return 0
        made.add(words[1])
        if "--from_scratch" in words:
            (output,) = (each.partition("=")[2] for each in words if "--output_dir" in each)
            shutil.copytree(Path(output).with_name("hugging_face_mlm_0.1_seed_0"), output)
            return 0
        if words[1] == "scripts.train_hugging_face":
            monkeypatch.setattr(sys, "argv", words[1:])
            train_hugging_face.main()
            return 0
        return forked.run([sys.executable, *words], cwd=comparison.ROOT).returncode

    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(comparison, "cpu_seconds", lambda: clock[0])
    monkeypatch.setattr(comparison, "TRIALS", 1)
    yield typed, typed_until
    torch.set_num_threads(threads)


def test_an_interrupted_comparison_goes_on_and_repeats_nothing(typed, tmp_path, monkeypatch):
    commands, stop_at = typed

    def compare(until=0):
        commands.clear()
        stop_at[0] = until
        compared = compare_budgets.BudgetComparison(str(tmp_path), small=True)
        compared.run(["hugging_face_mlm"], [(0.1, 1)])
        return [command for command in commands if "data_prep" not in command]

    def records():
        lines = (tmp_path / "scores.jsonl").read_text().splitlines()
        return {record["stage"]: record for record in map(json.loads, lines)}

    # Documents, vocabulary, labelled sentences, examples, two runs of the cost, the search,
    # the cost again, and the run itself.
    with pytest.raises(KeyboardInterrupt):
        compare(until=10)
    assert records().keys() == {"comparison", "cost", "search"}
    model_dir = tmp_path / "pretrained" / "hugging_face_mlm_0.1_seed_0"
    own = comparison.processor()
    assert json.loads(Path(f"{model_dir}.cpu_seconds.json").read_text()) == [[own, 0.0]]
    assert records()["cost"]["cpu_seconds_per_step"] == 0.5
    pretraining, *tuning = compare()
    assert pretraining.startswith("-m scripts.train_hugging_face")
    assert [("--from_scratch" in command) for command in tuning] == [False, True]
    assert all(f"--init_checkpoint={model_dir}" in command for command in tuning)
    run = records()["pretraining"]
    result = json.loads((model_dir / "result.json").read_text())
    assert run["held_out"] == result["held_out"] and run["steps"] == 10
    # The start that was interrupted took no time.
    assert run["cpu_seconds"] == 3600 + 0.5 * 10
    assert run["processor"] == records()["cost"]["processor"]
    for name in ("hugging_face_mlm_0.1_seed_0", "hugging_face_mlm_random"):
        kept = tmp_path / "finetuned" / "sentence_roles" / name / "scores.json"
        trials = json.loads(kept.read_text())["trials"]
        assert len(trials) == 1
        start = "random" if name.endswith("random") else "pretrained"
        lines = (tmp_path / "scores.jsonl").read_text().splitlines()
        (record,) = (x for x in map(json.loads, lines) if x.get("start") == start)
        assert record["scores"] == [trial["test"]["accuracy"] for trial in trials]
    assert compare() == []
    assert "| 0.1 | Hugging Face, masked tokens | 1 |" in (tmp_path / "budgets.md").read_text()
    # Times of another processor are refused.
    monkeypatch.setattr(comparison, "processor", lambda: "4 cores of another")
    with pytest.raises(errors.UserError, match="those of 4 cores of another cannot be compared"):
        compared = compare_budgets.BudgetComparison(str(tmp_path), small=True)
        compared.run(["tfbio_mlm"], [(0.1, 1)])
    # Other settings are refused.
    text = (tmp_path / "scores.jsonl").read_text()
    digest = json.loads(text.splitlines()[2])["settings"]
    (tmp_path / "scores.jsonl").write_text(text.replace(digest, "of an earlier encoder"))
    with pytest.raises(errors.UserError, match="other settings or documents"):
        compare()
