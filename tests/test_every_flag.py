"""Every flag of every command, by its type, and flags that do not go together.

A mistake ends in a sentence: the last line on stderr, of at most 300 characters, which begins with
"error: " and names the flag or the file; no traceback; exit code 2 where the command line is wrong
by itself and 1 where the files are; TensorFlow is not imported. The commands are those that call
`cli.run`, and their flags those that they define, so that new ones are covered.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run_files import write_settings
from tfbio.base.document_records import Document
from tfbio.base.manifests import MANIFEST, Manifest, write_manifest
from tfbio.base.shards import write_shard

ROOT = Path(__file__).resolve().parents[1]

# The flags without which a command does not begin; the paths are those of `make_files`.

BASE = {
    "run_pretraining.py": ["--examples=folder", "--model_dir=new"],
    "run_finetuning.py": [
        "--task=ner",
        "--data_dir=task",
        "--init_checkpoint=folder",
        "--output_dir=new",
    ],
    "run_finetuning.py --mode=predict": [
        "--mode=predict",
        "--model=model",
        "--input=text.txt",
        "--output=new.jsonl",
    ],
    "run_finetuning.py --mode=predict, by file": [
        "--mode=predict",
        "--model=model",
        "--input=text.txt",
        "--output_dir=new",
    ],
    "tfbio.convert": ["--from=folder", "--to=new"],
    "tfbio.report": ["--finetuning=folder", "--output=new"],
    "tfbio.serve": ["--model=model", "--port=0"],
    "tfbio.reporting.test_sets": ["--test_set=gad=folder", "--output=new"],
    "tfbio.blurb_submission": ["--finetuning=folder", "--output=new"],
    "data_prep.documents": ["--input=pubmed.xml", "--output=new"],
    "data_prep.examples": ["--documents=documents", "--vocab=vocab.txt", "--output=new"],
    "data_prep.vocabulary": ["--documents=documents", "--output=new/vocab.txt"],
    "data_prep.fertility": ["--documents=documents", "--vocab=vocab.txt"],
    "data_prep.corpus_report": ["--documents=documents", "--output=new"],
    "data_prep.sentence_roles": ["--documents=documents", "--output=new"],
    "data_prep.corpora.bigbio_tasks": ["--input=folder", "--output=new"],
    "data_prep.corpora.blurb": ["ddi", "--input=folder", "--output=new", "--index=folder"],
    "data_prep.corpora.i2b2_notes": ["--input=folder", "--output=new", "--year=2012"],
    "scripts/tpu_check.py": ["--hparams=settings.json", f"--compiler={sys.executable}"],
    "scripts/compare_budgets.py": [],
    "scripts/compare_families.py": [],
    "benchmarks.sentences": [],
}
# Compares with a recording of another program, in TensorFlow, which it imports at once.
NOT_WALKED = {"scripts/parity.py"}
# Text that is no path. Any other text that stands for nothing must be refused.
FREE = {"tpu", "tpu_zone", "gcp_project", "exclude_publication_types", "note_categories"}
# Names on the hub, and words for a model card.
FREE |= {"license", "base_model", "datasets", "hardware", "push"}
# Paths that need not be there.
OUTPUTS = {"output", "output_dir", "model_dir", "to", "results"}
# Paths that are read after the input, of which the walk has none for their commands.
AFTER_INPUT = {"baseline", "dev_documents", "index"}

# Flags that do not go together, and words of the sentence that says so.
PAIRS = [
    ("run_pretraining.py", "--estimate_for=v100", "--estimate_for goes with --dry_run"),
    ("run_pretraining.py", "--tpu_zone=x", "--tpu_zone goes with --tpu"),
    ("run_pretraining.py", "--gcp_project=x", "--gcp_project goes with --tpu"),
    ("run_pretraining.py", "--tpu=local --strategy=mirrored", "--strategy does not go with --tpu"),
    ("run_pretraining.py", "--tpu=local --cpu_devices=2", "--cpu_devices does not go with --tpu"),
    ("run_pretraining.py", "--cpu_devices=2 --strategy=one_device", "--cpu_devices=2: expected 1"),
    ("run_pretraining.py", "--cpu_devices=2 --strategy=multi_worker", "expected 1, or more with"),
    ("run_pretraining.py", "--tpu=pod", "--model_dir=new: the machines of --tpu=pod"),
    ("run_pretraining.py", "--tpu=pod --profile_steps=1,2", "and not those of --tpu=pod"),
    ("run_pretraining.py", "--profile_steps=2,1", "--profile_steps=2,1: expected FIRST,LAST"),
    (
        "run_pretraining.py",
        "--set=untied_generator=false --set=untied_generator_embeddings=true",
        "untied_generator_embeddings goes with untied_generator",
    ),
    (
        "run_pretraining.py",
        "--set=mask_unit=word --set=mask_with_replacement=true",
        "it goes with mask_unit = token",
    ),
    (
        "run_pretraining.py",
        "--set=random_token_prob=0.1 --set=mask_with_replacement=true",
        "mask_with_replacement does not go with random_token_prob",
    ),
    (
        "run_pretraining.py",
        "--set=mask_prob=0.2 --set=final_mask_prob=0.1",
        "final_mask_prob must be 0, or at least mask_prob",
    ),
    (
        "run_pretraining.py",
        "--set=mask_token_prob=0.8 --set=random_token_prob=0.3",
        "at most 1 together",
    ),
    (
        "run_pretraining.py",
        "--set=sentence_pair_head=true --set=objective=electra",
        "sentence_pair_head goes with objective = mlm",
    ),
    (
        "run_pretraining.py",
        "--set=sentence_pair_loss=true --set=objective=mlm",
        "sentence_pair_loss goes with sentence_pair_head = true",
    ),
    ("run_pretraining.py", "--teacher=folder", "--teacher=folder goes with a loss of distillation"),
    (
        "run_pretraining.py",
        "--set=objective=mlm --set=distillation.kl_weight=2",
        "--teacher is missing: the settings have a loss of distillation",
    ),
    (
        "run_pretraining.py",
        "--set=distillation.cosine_weight=1",
        "distillation goes with objective = mlm and without sentence_pair_loss",
    ),
    (
        "run_pretraining.py",
        "--set=generator_warmup_steps=5 --set=objective=mlm",
        "generator_warmup_steps needs a generator",
    ),
    (
        "run_pretraining.py",
        "--set=generator_warmup_steps=10 --set=num_train_steps=10",
        "must be less than num_train_steps 10",
    ),
    (
        "run_pretraining.py",
        "--set=run.stop_at_step=11 --set=num_train_steps=10",
        "run.stop_at_step 11 must be at most num_train_steps 10",
    ),
    (
        "run_pretraining.py",
        "--set=encoder.hidden_size=250 --set=encoder.num_attention_heads=4",
        "must be a multiple of",
    ),
    (
        "run_pretraining.py",
        "--set=optimizer=lamb --set=adam_bias_correction=true",
        "adam_bias_correction goes with optimizer = adamw",
    ),
    (
        "run_pretraining.py",
        "--set=lamb_bias_correction=false",
        "lamb_bias_correction = false goes with optimizer = lamb",
    ),
    (
        "run_pretraining.py",
        "--set=max_gradient_norm=0 --set=gradient_clip_groups=8",
        "gradient_clip_groups are clipped: set max_gradient_norm above 0",
    ),
    (
        "run_pretraining.py",
        "--set=corpus_switch_steps=[5] --set=final_sequence_length=512",
        "corpus_switch_steps does not go with final_sequence_length",
    ),
    ("run_pretraining.py", "--set=sequence_length=1024", "needs encoder.max_position_embeddings"),
    ("run_finetuning.py", "--output=new.jsonl", "--output does not go with --mode=train"),
    ("run_finetuning.py", "--format=brat", "--format does not go with --mode=train"),
    ("run_finetuning.py", "--estimate_for=v100", "--estimate_for goes with --dry_run"),
    ("run_finetuning.py", "--dry_run --sweep=learning_rate=1,2", "--dry_run goes without --sweep"),
    (
        "run_finetuning.py",
        '--dry_run --hparams={"sweep":{"learning_rate":[1,2]}}',
        "give --set learning_rate=VALUE",
    ),
    ("run_finetuning.py", '--hparams={"sweep":{"seed":1}}', "sweep.seed must list the values"),
    (
        "run_finetuning.py",
        "--stop_as=model --set=num_train_epochs=3",
        "--stop_as sets num_train_epochs: leave out its --set",
    ),
    ("run_finetuning.py", "--sweep=seed=1 --sweep=seed=2", "--sweep seed=... is given twice"),
    ("run_finetuning.py", "--sweep=num_trials=1,2", "--sweep num_trials=...: give --seeds=N"),
    (
        "run_finetuning.py",
        "--sweep=learning_rate=1,2 --set=learning_rate=3",
        "learning_rate has a --sweep, and a --set",
    ),
    ("run_finetuning.py", "--seeds=2 --set=num_trials=3", "num_trials has a --set, and --seeds"),
    ("run_finetuning.py", "--set=early_stopping_patience=2", "it goes with eval_every_steps"),
    ("run_finetuning.py", "--set=gradient_clip_groups=8", "it goes with loss_reduction = sum"),
    ("run_pretraining.py", "--set=gradient_clip_groups=5", "must divide train_batch_size 128"),
    (
        "run_finetuning.py",
        "--set=gradient_clip_groups=5 --set=loss_reduction=sum",
        "must divide train_batch_size 32",
    ),
    (
        "run_finetuning.py",
        "--set=classification.pooling=entity_start --set=classification.entity_markers=false",
        "needs classification.entity_markers to be true",
    ),
    (
        "run_finetuning.py",
        "--set=regression.text_head=tanh --set=regression.pooling=mean",
        "goes with pooling first",
    ),
    (
        "run_finetuning.py",
        "--set=classification.pooling=mean",
        'classification.pooling "mean" is for tasks of classification, and this is one of tag',
    ),
    ("run_finetuning.py --mode=predict", "--task=gad", "--task does not go with --mode=predict"),
    (
        "run_finetuning.py --mode=predict",
        "--strategy=multi_worker",
        "--mode=predict runs on one machine",
    ),
    ("run_finetuning.py --mode=predict", "--seeds=2", "--seeds does not go with --mode=predict"),
    ("run_finetuning.py --mode=predict", "--keep_weights=all", "--keep_weights does not go with"),
    ("run_finetuning.py --mode=predict", "--sweep=seed=1,2", "--sweep does not go with --mode"),
    ("run_finetuning.py --mode=predict", "--dry_run", "--dry_run does not go with --mode=predict"),
    ("run_finetuning.py --mode=predict", "--from_scratch", "--from_scratch does not go with"),
    (
        "run_finetuning.py --mode=predict",
        "--output_dir=new",
        "--output and --output_dir: give one of them",
    ),
    ("run_finetuning.py --mode=predict", "--processes=2", "--processes goes with --output_dir"),
    ("run_finetuning.py --mode=predict", "--gzip", "--gzip goes with --output_dir"),
    ("run_finetuning.py", "--processes=2", "--processes does not go with --mode=train"),
    (
        "run_finetuning.py --mode=predict, by file",
        "--processes=2 --cpu_devices=2",
        "--cpu_devices does not go with --processes=2",
    ),
    (
        "run_finetuning.py --mode=predict, by file",
        "--format=brat",
        "--format=brat writes a folder for all documents",
    ),
    (
        "run_finetuning.py --mode=predict, by file",
        "--gzip --format=html",
        "--gzip goes with --format=jsonl or pubtator, not html",
    ),
    ("tfbio.convert", "--max_sequence_length=64", "goes with --format=saved_model"),
    ("tfbio.convert", "--precision=bfloat16", "--precision=bfloat16 goes with --format=saved_mod"),
    ("tfbio.convert", "--set=seed=1", "go with --format=tfbio"),
    ("tfbio.convert", "--private", "--private goes with --push"),
    ("tfbio.convert", "--format=onnx --push=me/model", "--push goes with --format=hugging_face"),
    ("tfbio.convert", "--push=model", "--push=model: expected OWNER/NAME"),
    ("tfbio.convert", "--base_model=a/b/c", "is no name of a repository on the hub"),
    ("tfbio.convert", "--license=Apache", "--license=Apache: expected one of the hub's identif"),
    ("tfbio.convert", "--hparams=settings.json", "go with --format=tfbio"),
    ("data_prep.examples", "--packing --objective=next_sentence", "--packing cannot be had with"),
    ("data_prep.vocabulary", "--kind=byte_bpe", "does not suit --kind=byte_bpe"),
    (
        "data_prep.vocabulary",
        "--kind=byte_bpe --output=vocab.json --lower_case",
        "--lower_case does not go with --kind=byte_bpe",
    ),
    (
        "data_prep.corpora.i2b2_2010",
        "--dev_documents=file --dev_fraction=0.2",
        "--dev_fraction does not go with --dev_documents",
    ),
    (
        "data_prep.corpora.share_clefe",
        "--dev_documents=file --dev_fraction=0.1",
        "--dev_fraction does not go with --dev_documents",
    ),
    ("data_prep.corpora.i2b2_notes", "--dev_fraction=1", "above 0 and below 1"),
    ("data_prep.corpora.i2b2_2010", "--concepts --entities=marker", "does not go with --concepts"),
    ("scripts/tpu_check.py", "--draws=2", "--draws goes without --hparams"),
]


def commands():
    """Every command that calls `cli.run`."""
    found = []
    for path in sorted(ROOT.glob("**/*.py")):
        name = path.relative_to(ROOT)
        text = path.read_text(encoding="utf-8") if name.parts[0][0] not in "._t" else ""
        if name.parts[0] == "tfbio":
            text = path.read_text(encoding="utf-8")
        if re.search(r"^    cli\.run\(", text, re.MULTILINE) and str(name) not in NOT_WALKED:
            module = len(name.parts) > 1 and name.parts[0] != "scripts"
            found.append(".".join(name.with_suffix("").parts) if module else str(name))
    return found


def make_files(folder):
    """What the values of flags stand for."""
    (folder / "folder").mkdir()
    (folder / "file").write_text("x")
    (folder / "text.txt").write_text("Aspirin helps.")
    (folder / "settings.json").write_text("{}")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
    (folder / "pubmed.xml").write_text(
        "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>A "
        "title.</ArticleTitle></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"
    )
    (folder / "model").mkdir()
    write_settings(folder / "model", task_type="tagging", task="ner")
    (folder / "task").mkdir()
    for split in ("train", "dev", "test"):
        (folder / "task" / f"{split}.tsv").write_text(f"Aspirin\tB-Drug\n{split}\tO\n\n")
    (folder / "documents").mkdir()
    document = Document("pmid:1", "pubmed.xml", "A title.", ["A sentence."], [""])
    shard = write_shard(
        folder / "documents" / "documents-00000-of-00001.tfrecord", [document.serialize()]
    )
    write_manifest(
        folder / "documents" / MANIFEST,
        Manifest("documents", {}, {"documents": 1}, [shard]),
    )


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """How every command line ended."""
    files = tmp_path_factory.mktemp("walk")
    make_files(files)
    base = {name: BASE.get(name) for name in [*commands(), *BASE]}
    lines = {name: [] for name in base}
    for name, given, _ in PAIRS:
        lines[name].append(given.split(" "))
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "flag_walk.py")],
        input=json.dumps({"files": str(files), "base": base, "lines": lines}),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def last_line(ended):
    return (ended["err"].splitlines() or [""])[-1]


def what_is_wrong(ended, without=""):
    """Says why the end of a command line is none that a user should see; "" if it is all right.

    Args:
      ended: how the command line ended.
      without: the last line on stderr of the command without the flag that is tried.
    """
    line, kind = last_line(ended), ended["kind"]
    if "Traceback" in ended["err"] or ended["code"] not in (None, 0, 1, 2):
        return "a traceback, or another exit code"
    if ended["code"] and not (line.startswith("error: ") and len(line) <= 300):
        return "no sentence"
    if kind == "help":
        return what_is_wrong_with_help(ended)
    if kind == "base":
        return "" if ended["code"] in (0, 1) else "the base of this command is refused"
    if kind in ("unknown", "line"):
        is_named = kind == "line" or ended["name"] in line
        return "" if ended["code"] == 2 and is_named else "not refused"
    return what_is_wrong_with_a_flag(ended, without)


def what_is_wrong_with_help(ended):
    """Says what the text of --help lacks; "" for nothing."""
    if ended["code"] or ended["begun"]:
        return "--help is no failure"
    # A boolean flag is shown as --[no]NAME.
    shown = set(re.findall(r"^ +(?:-\w,)?--(?:\[no\])?(\w+):", ended["out"], re.MULTILINE))
    missing = [one for one in ended["names"] if one not in shown]
    return f"its text lacks --{missing[0]}" if missing else ""


def what_is_wrong_with_a_flag(ended, without):
    """Says what is wrong about the end of a command line with a value of a flag; see above."""
    line, kind, name = last_line(ended), ended["kind"], ended["name"]
    value = (ended["args"] or [""])[-1].partition("=")[2]
    tried = [arg.partition("=")[2] for arg in ended["args"] if arg.startswith(f"--{name}=")]
    named = f"--{name}" in line or any(one in line for one in tried) or line == without
    if ended["code"] and not named:
        return "the sentence names neither the flag nor its value"
    if (
        ended["args"][-1].startswith((f"--{name}=", f"--no{name}"))
        and ended["args"][-2:-1]
        and (ended["args"][-2].partition("=")[0] == f"--{name}")
    ):
        twice = ended["code"] == 2 and "given twice" in line
        return "" if twice or kind == "list" else "a second value is not refused"
    bad = {
        "integer": value not in ("-1", "0"),
        "number": value in ("", "x", "NaN", "inf") or "/" in value or value.isalpha(),
        "boolean": value != "0",
        "choice": True,
        "text": value == "",
        "list": False,
    }
    if bad[kind] and not (ended["code"] == 2 and f"--{name}" in line):
        return "a value of another type is not refused"
    is_path = kind in ("text", "list") and name not in FREE | OUTPUTS
    # What is wrong without the flag, too, refuses no path.
    refused = ended["code"] and (line != without or name in AFTER_INPUT)
    if is_path and value == "missing/path" and not refused:
        return "a path that is not there is not refused before the work begins"
    return ""


def last_lines_of_bases(walked):
    """The last line on stderr of each command without the flag that is tried."""
    return {x["command"]: last_line(x) for x in walked if x["kind"] == "base"}


def test_every_flag_of_every_command(walked):
    base = last_lines_of_bases(walked)
    wrong = [
        f"{ended['command']} {' '.join(ended['args'])}: {why}: {last_line(ended)}"
        for ended in walked
        if (why := what_is_wrong(ended, base[ended["command"]]))
    ]
    assert not wrong, "\n".join(wrong)
    assert len(walked) > 1000 and len({ended["command"] for ended in walked}) >= len(commands())


def test_tfbio_help_finds_every_flag(walked):
    """Looks for its meaning, and for the command that has it."""
    # Every name or meaning has an e.
    command = [sys.executable, "-m", "tfbio.help", "e"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = set()
    for entry in ended.stdout.split("\n\n"):
        lines = re.match(r"--(\w+)=.*\n    for ((?:.*,\n)*.*)", entry)
        for asked in re.split(r",\s+", lines[2]) if lines else ():
            found.add((asked.removeprefix("python ").removeprefix("-m "), lines[1]))
    expected = {
        (x["command"].partition(" ")[0], name)
        for x in walked
        if x["kind"] == "help" and not x["command"].startswith(("scripts/", "benchmarks."))
        for name in x["names"]
    }
    assert len(expected) > 150
    assert not sorted(expected - found)


def test_an_output_of_the_wrong_kind_is_refused_before_the_work_begins(walked):
    """A file in place of a folder, or a folder in place of a file; the sentence names it."""
    base = last_lines_of_bases(walked)
    outputs = {(x["command"], x["name"]) for x in walked if x.get("name") in OUTPUTS}
    assert len(outputs) > 20
    for command, name in outputs:
        tried = [f"--{name}=file", f"--{name}=folder"]
        ended = [
            x
            for x in walked
            if x["command"] == command and x["args"][-1:] and x["args"][-1] in tried
        ]
        names_it = rf"--{name}\b|cannot write to (.*/)?(file|folder):"
        refused = [last_line(x) for x in ended if x["code"] and last_line(x) != base[command]]
        assert len(ended) == 2
        assert any(re.search(names_it, line) for line in refused), (command, name, refused)


def test_what_the_walk_gives_a_command_is_enough_to_begin(walked):
    """Else its other flags would not be looked at."""
    begun = {ended["command"] for ended in walked if ended["kind"] == "base" and ended["begun"]}
    expected = {name for name in BASE if "corpora" not in name}
    assert begun >= expected - {
        "tfbio.report",
        "tfbio.reporting.test_sets",
        "tfbio.blurb_submission",
    }


@pytest.mark.parametrize(("command", "given", "words"), PAIRS)
def test_flags_that_do_not_go_together(walked, command, given, words):
    assert len(PAIRS) >= 25
    (ended,) = (
        ended
        for ended in walked
        if ended["kind"] == "line"
        and ended["command"] == command
        and ended["args"][-len(given.split(" ")) :] == given.split(" ")
    )
    assert ended["code"] == 2 and words in last_line(ended), last_line(ended)
    assert not ended["begun"]


def test_a_bad_flag_is_found_by_the_walk():
    """So that the rules are not those of nothing."""
    good = {"command": "x", "kind": "integer", "name": "n", "begun": "", "args": ["--n=x"]}
    line = "error: --n=x: expected an integer."
    assert not what_is_wrong(good | {"code": 2, "err": line})
    for change in (
        {"code": 1, "err": f"Traceback (most recent call last):\n{line}"},
        {"code": 1, "err": line},
        {"code": 2, "err": "error: expected an integer."},
        {"code": 2, "err": line + "x" * 300},
        {"code": 0, "err": "", "begun": "import tensorflow"},
        {"code": 0, "err": "", "kind": "text", "args": ["--n=missing/path"]},
        {"code": 0, "err": "", "args": ["--n=1", "--n=2"]},
        {"code": 0, "err": "", "kind": "help", "names": ["n"], "out": "  --m: A number.\n"},
    ):
        assert what_is_wrong(good | change), change
    base = "error: folder holds no file."
    gone = good | {"kind": "text", "args": ["--n=missing/path"], "code": 1, "err": base}
    assert what_is_wrong(gone, base)
    assert not what_is_wrong(gone | {"name": "index"}, base)
    shown = {"names": ["n", "m"], "out": "  --n: A number.\n  --[no]m: Whether.\n"}
    assert not what_is_wrong(good | shown | {"kind": "help", "code": 0, "err": ""})
