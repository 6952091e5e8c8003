"""The comparison of families: what is equal, what is a family's own, its arithmetic, its runs."""

import dataclasses
import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import commands, compare_families, comparison, families_report
from scripts import scores as score_statistics
from scripts.families import COMMON, FAMILIES, HPARAMS
from tests import forked
from tfbio.base import config, errors, storage
from tfbio.base.manifests import read_manifest
from tfbio.models.encoder_cost import encoder_flops
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.reporting import curves
from tfbio.training import cpu_bfloat16

VOCABULARY, STEPS, RATE = 8192, 7000, 1e-3


def settings_of(name, **changes):
    family = FAMILIES[name]
    return family.config(family.settings(VOCABULARY, STEPS, RATE, seed=0) | changes)


def flattened(settings, prefix=""):
    """The settings by their names."""
    flat = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            flat |= flattened(value, f"{prefix}{field.name}.")
        else:
            flat[prefix + field.name] = value
    return flat


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_keeps_all_that_is_not_the_same_for_all(name):
    recipe = config.load(PretrainingConfig, str(HPARAMS / FAMILIES[name].recipe))
    before, after = flattened(recipe), flattened(settings_of(name))
    changed = {setting for setting, value in after.items() if before[setting] != value}
    size = {f"encoder.{x}" for x in ("vocab_size", "hidden_size", "embedding_size")}
    size |= {f"encoder.{x}" for x in ("num_attention_heads", "intermediate_size")}
    budget = {"num_train_steps", "num_warmup_steps", "learning_rate", "seed"}
    bookkeeping = {"run.eval_every_steps", "run.save_checkpoints_steps", "run.parallel_parts"}
    allowed = size | budget | bookkeeping | set(COMMON) | {"generator_hidden_fraction"}
    assert changed <= allowed
    own = {"objective", "mask_unit", "mask_prob", "optimizer", "schedule", "decay_all"}
    own |= {"mask_token_prob", "random_token_prob", "weight_decay_rate", "max_gradient_norm"}
    own |= {"encoder.hidden_dropout_prob", "encoder.attention_probs_dropout_prob"}
    own |= {f"adam_{x}" for x in ("beta_1", "beta_2", "epsilon", "bias_correction")}
    assert own < set(after) and not own & allowed


def test_all_have_one_size_but_for_albert():
    shapes = {name: settings_of(name).encoder for name in FAMILIES}
    for name, shape in shapes.items():
        assert shape.num_hidden_layers == 4 and shape.vocab_size == VOCABULARY, name
        if not name.startswith("biom_albert"):
            assert (shape.hidden_size, shape.embedding_size) == (256, 256)
            assert (shape.num_attention_heads, shape.intermediate_size) == (4, 1024)
    settings = [settings_of(name) for name in FAMILIES]
    assert {(x.train_batch_size, x.sequence_length, x.num_warmup_steps) for x in settings} == {
        (16, 128, 700)
    }


def test_one_albert_has_as_many_flops_and_the_other_as_many_parameters():
    flops = {name: encoder_flops(settings_of(name).encoder, 128) for name in FAMILIES}
    counts = {name: objective_cost.parameters(settings_of(name)).encoder for name in FAMILIES}
    # The embeddings of half the size are projected, which is 3 % of its FLOPs more.
    assert flops["biom_albert"] == pytest.approx(flops["pubmedbert"], rel=0.04)
    assert counts["biom_albert_wide"] == pytest.approx(counts["pubmedbert"], rel=0.01)


def test_means_and_intervals_are_those_of_students_t():
    values = [60.0, 62.0, 64.0]
    assert score_statistics.mean_and_error(values) == pytest.approx((62, 2 / math.sqrt(3)))
    # The 97.5 % quantile with 2 degrees of freedom is 4.303 in every table.
    low, high = score_statistics.interval(values)
    assert (low, high) == pytest.approx((62 - 4.303 * 1.1547, 62 + 4.303 * 1.1547), abs=1e-3)
    assert score_statistics.standard_errors_apart(values, [50.0, 50.0, 50.0]) == pytest.approx(
        12 / (2 / math.sqrt(3))
    )
    assert score_statistics.standard_errors_apart([1.0, 3.0], [5.0, 7.0]) == pytest.approx(
        -4 / math.sqrt(2)
    )
    assert all(map(math.isnan, score_statistics.interval([60.0])))
    assert math.isnan(score_statistics.standard_errors_apart([60.0], values))
    # As of models that predict one class: they are not apart.
    assert math.isnan(score_statistics.standard_errors_apart([40.0] * 3, [40.0] * 3))
    assert score_statistics.standard_errors_apart([41.0] * 3, [40.0] * 3) == math.inf


def record(stage, family="biolm", **figures):
    return {"stage": stage, "family": family, "settings": "", **figures}


TASK = {"task": "sentence_roles", "metric": "accuracy"}


def scored(family, *scores):
    """Records of the scores of each seed of pretraining, and of these encoders."""
    of_seeds = enumerate(scores)
    return [
        *(
            record("finetuning", family, seed=seed, scores=of_seed, start="pretrained", **TASK)
            for seed, of_seed in of_seeds
        ),
        *(pretrained(family, seed) for seed in range(len(scores))),
    ]


def random(encoder, scores):
    """The record of the scores of random weights."""
    key = {"stage": "finetuning", "encoder": encoder, "start": "random", "settings": ""}
    return key | TASK | {"scores": scores}


def pretrained(family, seed):
    return record(
        "pretraining",
        family,
        seed=seed,
        learning_rate=2.5e-4,
        steps=7000,
        tokens=30_000_000,
        parameters=5_290_240,
        encoder="another" if family == "biom_bert" else "small",
        held_out={"mlm_loss": 4.5 + seed, "auc": 0.75},
    )


def test_the_report_says_what_is_shown_and_what_is_not(tmp_path):
    records = [
        record("search", learning_rate=5e-4, held_out={"loss": 6.1, "auc": 0.5}),
        record("search", learning_rate=1e-3, held_out={"loss": 6.2, "auc": 0.6}),
        record("search", learning_rate=2e-3, held_out={"loss": math.inf}),
        *(
            record("search", "pubmedbert", learning_rate=rate, held_out={"loss": rate})
            for rate in (5e-4, 1e-3)
        ),
        *(
            record("cost", turn=turn, cpu_seconds_per_step=seconds, processor="2 cores of X")
            for turn, seconds in enumerate((0.6, 0.9, 0.5))
        ),
        *scored("biolm", [0.59, 0.60, 0.61], [0.62] * 3, [0.64, 0.65, 0.63]),
        *scored("pubmedbert", [0.50, 0.52, 0.51]),
        random("small", [0.5, 0.51, 0.52]),
        *scored("biom_bert", [0.60, 0.62, 0.64]),
        *scored("bioelectra", [0.51] * 3, [0.51] * 3),  # one class for all
        *scored("biom_albert", [0.40, 0.41, 0.39], [0.40, 0.42, 0.41]),
    ]
    families_report.write(records, tmp_path)
    text = (tmp_path / "comparison.md").read_text()
    assert "| bio-lm | 5.29 M | 0.0005: 6.100, 0.001: 6.200, 0.002: not finite | 3 |" in text
    # 7,000 steps of 0.6 s, the median
    assert "| 30,000,000 | 7,000 | 70 | mlm_loss 4.500, 5.500, 6.500; auc 0.750, 0.750" in text
    assert "at an end of the three for bio-lm:" in text and "2 cores of X" in text
    # Means of 60, 62 and 64, and 50, 51 and 52 of fine-tuning: deviations of 2 and 1, so errors of
    # 1.155 and 0.577, and 11 points are 8.5 errors.
    assert "| bio-lm | 3 | 62.00 | 57.03 to 66.97 | 51.00 | 8.5 |" in text
    assert "| PubMedBERT | 1 | 51.00 | 48.52 to 53.48 | 51.00 | 0.0 |" in text
    assert "BioM-BERT" not in text  # without a search and a score of random weights
    # Errors of 0 and of 1.155; what has one seed is compared with no other family.
    assert "| bio-lm | 9.5 |  |" in text and "| BioELECTRA |  | -9.5 |" in text
    assert "by 2 standard errors or more: bio-lm." in text
    assert "Pretraining harms by 2 standard errors or more: BioM-ALBERT, equal FLOPs." in text
    assert "shows nothing of: BioELECTRA; PubMedBERT." in text
    assert "over seeds of fine-tuning alone: PubMedBERT." in text
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_the_legend_of_all_families_is_inside_the_picture(tmp_path, monkeypatch):
    records = [random("small", [0.5, 0.51, 0.52]), random("another", [0.5, 0.51, 0.52])]
    for family in FAMILIES:
        records += scored(family, [0.59, 0.60, 0.61])
        records.append(
            record("cost", family, turn=0, cpu_seconds_per_step=0.6, processor="2 cores of X")
        )
    drawn = []
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure)
    )
    families_report.write(records, tmp_path)
    (figure,) = drawn
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(FAMILIES)
    of_legend, of_figure = legend.get_window_extent(), figure.bbox
    assert of_figure.x0 < of_legend.x0 < of_legend.x1 < of_figure.x1
    assert of_figure.y0 < of_legend.y0 < of_legend.y1 < of_figure.y1


@pytest.fixture
def typed(monkeypatch):
    """Runs the commands in processes of their own; gives those that were run.

    Data that was made is not looked at again, which takes a process each.
    """
    typed, made = [], set()

    def run(command):
        typed.append(command)
        if len(typed) == typed_until[0]:
            raise KeyboardInterrupt
        if command.startswith("-m data_prep.") and command in made:
            return 0
        made.add(command)
        return forked.run([sys.executable, *shlex.split(command)], cwd=comparison.ROOT).returncode

    typed_until = [0]
    monkeypatch.setattr(commands, "run", run)
    return typed, typed_until


def test_an_interrupted_comparison_goes_on_and_repeats_nothing(typed, tmp_path, monkeypatch):
    commands, stop_at = typed
    family = FAMILIES["pubmedbert"]
    family = dataclasses.replace(family, learning_rates=family.learning_rates[:2])
    monkeypatch.setitem(FAMILIES, "pubmedbert", family)

    def compare(families, seeds=1, until=0):
        commands.clear()
        stop_at[0] = until
        compare_families.FamilyComparison(str(tmp_path), small=True).run(families, seeds)
        return [command for command in commands if command.startswith("run_")]

    def stages():
        lines = (tmp_path / "scores.jsonl").read_text().splitlines()
        common, *records = (json.loads(line) for line in lines)
        assert common["stage"] == "comparison" and common["small"]
        return records

    # Documents, vocabulary, labelled sentences, examples, two runs for the time of a step, two
    # learning rates, the run itself.
    with pytest.raises(KeyboardInterrupt):
        compare(["pubmedbert"], until=9)
    assert [record["stage"] for record in stages()] == ["cost", "search", "search"]
    rest = compare(["pubmedbert"])
    assert [command.split()[0] for command in rest] == [
        "run_pretraining.py",
        *["run_finetuning.py"] * 2,
    ]
    records = stages()
    best = min(records[1:3], key=lambda record: record["held_out"]["loss"])
    assert f"learning_rate={best['learning_rate']}" in rest[0].split()
    assert "--from_scratch" in rest[2] and "--from_scratch" not in rest[1]
    (run,) = (record for record in records if record["stage"] == "pretraining")
    # At least as many tokens of text as were asked for, in batches of 8.
    counts = read_manifest(tmp_path / "examples_next_sentence", "examples").counts
    per_step = 8 * counts["tokens"] / counts["examples"]
    assert run["steps"] == math.ceil(1.01 * 20_000 / per_step) > 10
    assert run["tokens"] == round(run["steps"] * per_step) >= 20_000
    # The search took the first steps of this run, which went on from there.
    assert [record["steps"] for record in records[1:3]] == [10, 10]
    (folder,) = (word for word in rest[0].split() if word.startswith("--model_dir="))
    rate = best["learning_rate"]
    assert folder == f"--model_dir={tmp_path}/pretrained/pubmedbert_{rate:g}_seed_0"
    held_out = curves.read_run(folder.partition("=")[2])["heldout"]["loss"]
    assert [step for step, _ in held_out] == [10, run["steps"]]
    assert held_out[0][1] == best["held_out"]["loss"] != held_out[1][1]
    # The search's loss is still that of its end.
    assert compare_families._held_out(folder.partition("=")[2], 10) == best["held_out"]
    with pytest.raises(errors.UserError, match="has no evaluation after step 11: delete it"):
        compare_families._held_out(folder.partition("=")[2], 11)
    assert 0 <= run["held_out"]["sentence_pair_balanced_accuracy"] <= 1
    scores = [record for record in records if record["stage"] == "finetuning"]
    for record in scores:
        name = "pubmedbert_seed_0" if "seed" in record else "pubmedbert_random"
        folder = tmp_path / "finetuned" / "sentence_roles" / name
        kept = json.loads((folder / "scores.json").read_text())
        assert record["scores"] == [trial["test"]["accuracy"] for trial in kept["trials"]]
        assert len(record["scores"]) == 3
    assert compare(["pubmedbert"]) == []
    assert "| PubMedBERT | 1 |" in (tmp_path / "comparison.md").read_text()


COUNTS = {"tokens": 9000, "examples": 80, "heldout_examples": 41}
MADE_OF = {"vocab_size": 8192, "documents_sha256": "a", "vocab_sha256": "b"}


def make_examples(folder, objective, counts=COUNTS, settings=MADE_OF):
    """Makes the manifest of examples, which says all that settings depend on."""
    examples = folder / f"examples_{objective}"
    examples.mkdir(parents=True)
    manifest = {"kind": "examples", "counts": counts, "settings": settings, "shards": []}
    (examples / "manifest.json").write_text(json.dumps(manifest))


def test_a_score_belongs_to_the_recipe_and_to_the_precision(tmp_path, monkeypatch):
    make_examples(tmp_path / "out", "electra")
    family = FAMILIES["bioelectra"]

    def digest(precision="bfloat16", **recipe):
        recipes = tmp_path / "hparams"
        recipes.mkdir(exist_ok=True)
        content = json.loads((HPARAMS / family.recipe).read_text()) | recipe
        (recipes / family.recipe).write_text(json.dumps(content))
        monkeypatch.setattr("scripts.families.HPARAMS", recipes)
        out = str(tmp_path / "out")
        compared = compare_families.FamilyComparison(out, precision=precision)
        return compared._digest(family, compared._settings(family, 30_000, 1e-3, seed=0))

    assert digest() == digest(comment="Of the same values.")
    assert digest() != digest(mask_prob=0.5)
    # What has its default changes nothing, so that a setting can be added.
    assert digest() == digest(decay_all=False)
    assert compare_families._not_by_default(PretrainingConfig()) == {}
    assert digest() != digest(precision="float32")
    rounded = {}
    for cuts_off in (False, True):
        monkeypatch.setattr(cpu_bfloat16, "cuts_off_products", lambda value=cuts_off: value)
        rounded[cuts_off] = (digest(precision="float32"), digest())
    assert rounded[False][0] == rounded[True][0] and rounded[False][1] != rounded[True][1]


def test_families_with_the_same_encoder_share_its_random_weights(tmp_path):
    for objective in {family.examples for family in FAMILIES.values()}:
        make_examples(tmp_path, objective)
    compared = compare_families.FamilyComparison(str(tmp_path))
    shapes = {}
    for name, family in FAMILIES.items():
        for rate in family.learning_rates:
            settings = compared._settings(family, 30_000, rate, seed=0)
            shapes.setdefault(compared._encoder(family, settings), set()).add(name)
    alike = {"bioelectra", "pubmedbert", "biom_bert"}
    alone = [{name} for name in FAMILIES if name not in alike]
    assert sorted(map(sorted, shapes.values())) == sorted(map(sorted, [alike, *alone]))


def test_the_scores_of_two_machines_count_each_run_once(tmp_path):
    key = {"stage": "finetuning", "encoder": "an encoder", "start": "random", "settings": "same"}
    runs = [key | {"task": task, "scores": [0.5]} for task in ("hoc", "bc5cdr_chem")]
    of_another = [run | {"scores": [0.6]} for run in runs] + [runs[0] | {"settings": "other"}]
    cost = {"stage": "cost", "family": "biolm", "settings": "same", "processor": "one"}
    costs = [cost | {"turn": turn} for turn in range(2)] + [cost | {"turn": 0, "processor": "two"}]
    # Where steps are few, families and budgets may have the same settings.
    trained = {"stage": "pretraining", "settings": "same", "processor": "one"}
    others = [trained | {"family": name} for name in ("biom_albert", "biom_albert_wide")]
    others += [trained | {"arm": "tfbio_mlm", "minutes": minutes} for minutes in (30, 120)]
    again = [run | {"processor": "two"} for run in others]
    kept = [*runs, of_another[-1], *costs, *others]
    joined = tmp_path / "scores.jsonl"
    lines = runs + of_another + costs + others + again
    joined.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert compare_families.FamilyComparison(str(tmp_path)).records == kept


def test_the_scores_that_are_committed_can_be_continued(tmp_path, monkeypatch):
    """A change of what a score depends on makes them another comparison's."""
    counts = {  # of the documents in the shipped files, as data_prep.examples counts them
        "electra": (8_498_905, 80_284, 4099),
        "next_sentence": (13_143_347, 119_360, 5997),
        "sentence_order": (8_681_879, 87_096, 4418),
        "full_sentences": (9_757_557, 92_370, 4767),
    }
    documents = "a95dd948fb649d959ed8014862d7c699ace768ee91bb6ce2ffc8e44ed26b751f"
    vocabulary = "bb8c72d00e55c90529e018b652f92501fc91771a2a8cb7db7695664822584a71"
    for objective, (tokens, examples, held_out) in counts.items():
        make_examples(
            tmp_path,
            objective,
            {"tokens": tokens, "examples": examples, "heldout_examples": held_out},
            {"vocab_size": 8192, "documents_sha256": documents, "vocab_sha256": vocabulary},
        )
    monkeypatch.setattr(comparison, "python", lambda command: None)
    monkeypatch.setattr(cpu_bfloat16, "cuts_off_products", lambda: False)  # as on theirs
    results = str(HPARAMS.parent / "benchmarks" / "families.jsonl")
    corpora = HPARAMS.parent / "tests" / "data" / "corpora"
    data = [f"{task}={corpora / task / 'blurb'}" for task in ("bc5cdr_chem", "ncbi_disease")]
    compared = compare_families.FamilyComparison(
        str(tmp_path), task_data=data, results=results, precision="bfloat16"
    )
    compared.prepare([(objective, "") for objective in counts])
    monkeypatch.setattr(comparison, "python", lambda command: pytest.fail(command))
    trained = score_statistics.of(compared.records, "pretraining")
    assert trained
    for record in trained:
        name, seed = record["family"], record["seed"]
        family = FAMILIES[name]
        rate = compared._learning_rate(name, family)  # runs nothing
        assert rate == record["learning_rate"]
        settings = compared._settings(family, compare_families.TOKENS, rate, seed)
        digest, encoder = compared._digest(family, settings), compared._encoder(family, settings)
        assert compared.found({"stage": "pretraining", "family": name, "seed": seed}, digest)
        assert record["encoder"] == encoder and record["tokens"] >= compare_families.TOKENS
        for task in ("bc5cdr_chem", "ncbi_disease"):
            of_tuning = compared.digest_of_finetuning(task, digest)
            assert compared.found({"task": task, "family": name, "seed": seed}, of_tuning)
            of_random = compared.digest_of_finetuning(task, encoder)
            assert compared.found({"task": task, "encoder": encoder}, of_random)


@pytest.mark.parametrize(
    "given, said",
    [
        ({}, "--precision=bfloat16, .*: give --precision=bfloat16, or another --results"),
        ({"precision": "bfloat16", "small": True}, "--small=False, .*: give --small=False, or"),
    ],
)
def test_scores_of_other_flags_are_not_continued(given, said, tmp_path, monkeypatch):
    """Families that have no score yet would be compared with those that have some."""
    monkeypatch.setattr(comparison, "python", lambda command: pytest.fail(command))
    monkeypatch.setattr(cpu_bfloat16, "cuts_off_products", lambda: False)  # as on theirs
    results = str(HPARAMS.parent / "benchmarks" / "families.jsonl")
    compared = compare_families.FamilyComparison(str(tmp_path), results=results, **given)
    with pytest.raises(errors.UserError, match=f"families.jsonl has scores of {said}"):
        compared.run(["biolm"], seeds=1)


def test_scores_of_other_data_are_not_continued(tmp_path, monkeypatch):
    """Nor those without a first record, which names what to put there."""
    monkeypatch.setattr(comparison, "python", lambda command: None)
    make_examples(tmp_path, "electra")

    def prepare(lines):
        (tmp_path / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        compared = compare_families.FamilyComparison(str(tmp_path))
        compared.prepare([("electra", "")])
        return compared.records

    (first,) = prepare([])
    assert (first["documents"], first["vocabulary"]) == ("a", "b")
    score = record("cost", turn=0, processor="2 cores of X")
    # Those of two machines that are joined.
    assert prepare([first, score, first, score]) == [first, score]
    for name, of in (
        ("documents", "other documents"),
        ("vocabulary", "another vocabulary"),
        ("cuts_off_products", "a CPU that rounds bfloat16 otherwise"),
    ):
        with pytest.raises(errors.UserError, match=f"has scores of {of}, .*: give another --res"):
            prepare([first, score, first | {name: "c"}])
    with pytest.raises(errors.UserError, match="does not say .* put this line first: ") as raised:
        prepare([score])
    assert prepare([json.loads(str(raised.value).partition("first: ")[2]), score])


@pytest.mark.parametrize("diverged", [True, False])
def test_a_learning_rate_that_is_too_high_has_lost(diverged, tmp_path, monkeypatch):
    """Its run ends, and so would each further one."""
    make_examples(tmp_path, "electra")

    def run(command):
        model_dir = Path(command.partition("--model_dir=")[2].split()[0])
        model_dir.mkdir(parents=True)
        if diverged:
            (model_dir / "skipped_step_12.npz").touch()
        raise errors.UserError("this command ended with exit code 1")

    monkeypatch.setattr(comparison, "python", run)
    compared = compare_families.FamilyComparison(str(tmp_path))
    if not diverged:  # another mistake, such as a full disk
        with pytest.raises(errors.UserError, match="exit code 1"):
            compared._learning_rate("bioelectra", FAMILIES["bioelectra"])
        return
    with pytest.raises(errors.UserError, match="with each learning rate of 0.0005, 0.001"):
        compared._learning_rate("bioelectra", FAMILIES["bioelectra"])
    again = compare_families.FamilyComparison(str(tmp_path))
    assert [record["held_out"] for record in again.records] == [{"loss": math.inf}] * 3


@pytest.mark.parametrize("script", ["compare_families", "compare_budgets"])
def test_two_commands_cannot_write_the_same_scores(script, tmp_path):
    scores = tmp_path / "scores.jsonl"
    with storage.only_writer(scores):
        scores.write_text("not read yet, as the other one goes on to write it")
        command = [sys.executable, f"scripts/{script}.py", f"--output={tmp_path}"]
        done = subprocess.run(command, cwd=comparison.ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "scores.jsonl is being written by" in done.stderr
    assert list(tmp_path.iterdir()) == [scores]


def test_the_cost_of_a_step_has_neither_evaluations_nor_checkpoints(tmp_path, monkeypatch):
    """A run of 150 steps less one of 25 is 125 steps, whatever else a run of a family does."""
    make_examples(tmp_path, "full_sentences")
    clock, typed = [0.0], []

    def run(command):
        typed.append(command)
        stop_at = int(command.partition("run.stop_at_step=")[2].split()[0])
        clock[0] += 40 + 0.6 * stop_at

    monkeypatch.setattr(comparison, "python", run)
    monkeypatch.setattr(comparison, "cpu_seconds", lambda: clock[0])
    compared = compare_families.FamilyComparison(str(tmp_path))
    compared._cost("biolm", FAMILIES["biolm"], turn=0)
    (record,) = compared.records
    assert record["cpu_seconds_per_step"] == pytest.approx(0.6)
    for command in typed:
        options = dict(x.split("=") for x in command.split() if x.count("=") == 1)
        for name in ("num_train_steps", "run.eval_every_steps", "run.save_checkpoints_steps"):
            assert int(options[name]) == 300
    assert compared.other_processor() == ""
    monkeypatch.setattr(comparison, "processor", lambda: "4 cores of another")
    assert "those of 4 cores of another cannot be compared" in compared.other_processor()


@pytest.mark.parametrize("is_other", [True, False])
def test_one_that_fails_keeps_no_other_from_its_turn(is_other, tmp_path, monkeypatch, capsys):
    """On another processor no CPU times are measured, and the rest is done."""
    turns = []

    def cost(name, family, turn):
        if name == "pubmedbert":
            raise errors.UserError("this command ended with exit code 2: run_pretraining.py")

    def seed(self, name, family, rate, seed):
        turns.append((name, seed))
        if name == "biolm":
            raise errors.UserError("this command ended with exit code 137: run_pretraining.py")

    def search(name, family):
        if name == "bioelectra":
            raise errors.UserError("this command ended with exit code 1: run_pretraining.py")
        return 1e-3

    compared = compare_families.FamilyComparison(str(tmp_path))
    measured = {"stage": "cost", "family": "biolm", "turn": 0, "settings": ""}
    measured["processor"] = "another"
    if is_other:
        compared.records.append(measured | {"cpu_seconds_per_step": 0.5})
    monkeypatch.setattr(compared, "prepare", lambda examples: None)
    monkeypatch.setattr(compared, "_cost", cost)
    monkeypatch.setattr(compared, "_learning_rate", search)
    monkeypatch.setattr(compare_families.FamilyComparison, "_seed", seed)
    failed = "bioelectra in the search, biolm with seed 0, biolm with seed 1. If a command"
    failed = ": " + ("" if is_other else "pubmedbert in the measurement of its step, ") + failed
    with pytest.raises(errors.UserError, match=failed):
        compared.run(["bioelectra", "biolm", "pubmedbert"], seeds=2)
    assert turns == [("biolm", 0), ("pubmedbert", 0), ("biolm", 1), ("pubmedbert", 1)]
    said = capsys.readouterr().out
    assert ("CPU times of another, with which" in said) == is_other
    assert "exit code 1:" in said and "exit code 137" in said


def test_a_processor_is_told_by_more_than_its_name():
    text = comparison.processor()
    assert text.startswith(f"{len(os.sched_getaffinity(0))} cores of ")
    if "stepping" in Path("/proc/cpuinfo").read_text():
        assert re.search(r" cpu family \d+ model \d+ stepping \d+$", text)
