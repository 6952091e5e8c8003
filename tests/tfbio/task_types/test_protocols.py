"""Protocols: hparams/finetuning/ holds what was published, and is found by its name."""

import dataclasses
import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests import forked, reference
from tfbio.base.config import ConfigError, load
from tfbio.runs import finetuning, sweep
from tfbio.task_types import task_table, types
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.protocols import find_protocol
from tfbio.training import optimization

HPARAMS = Path(__file__).parents[3] / "hparams"
# Length, learning rate, epochs, batch: the configuration files in the authors' repository.
AUTHORS = {
    "bc2gm": (512, 2e-4, 5, 32),
    "bc5cdr_chem": (256, 2e-4, 5, 16),
    "bc5cdr_disease": (256, 1e-4, 5, 16),
    "ncbi_disease": (128, 2e-4, 5, 32),
    "jnlpba": (256, 2e-4, 5, 32),
    "share_clefe": (512, 2e-4, 5, 32),
    "ebm_pico": (256, 2e-4, 3, 32),
    "chemprot": (256, 1e-4, 5, 32),
    "ddi": (256, 5e-5, 3, 32),
    "gad": (128, 2e-4, 5, 32),
    "i2b2_2010_re": (128, 2e-4, 5, 32),
    "biosses": (128, 1.5e-4, 60, 16),
    "clinical_sts": (128, 5e-5, 10, 32),
    "hoc": (128, 2e-4, 5, 32),
    "mednli": (128, 5e-5, 3, 32),
    "pubmedqa": (512, 5e-5, 20, 32),
    "bioasq": (512, 2e-4, 20, 32),
}
# The same in the paper's Table 7, where it is another.
TABLE_7 = AUTHORS | {
    "bc2gm": (256, 2e-4, 5, 32),
    "bc5cdr_disease": (256, 2e-4, 5, 16),
    "jnlpba": (256, 2e-4, 3, 16),
    "ddi": (256, 2e-4, 3, 32),
    "mednli": (128, 1e-4, 5, 32),
    "pubmedqa": (512, 2e-4, 20, 32),
}
# The paper's Table 6, section 4.3 and appendix B; the authors' model/optimization.py and
# model/modeling.py.
IN_BOTH = {
    "layerwise_lr_decay": 0.8,
    "layerwise_lr_exponent": "bioelectra",
    "schedule": "linear",
    "warmup_proportion": 0.1,
    "weight_decay_rate": 0.0,
    "adam_beta_1": 0.9,
    "adam_beta_2": 0.999,
    "adam_epsilon": 1e-6,
    "adam_bias_correction": False,
    "max_gradient_norm": 1.0,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "eval_every_steps": 0,
}
OF_TEXTS = {"pooling": "first", "text_head": "linear"}
OF_TAGS = {
    "head": "linear",
    "scheme": "BIO",
    "label_all_tokens": False,
    "early_cut": False,  # in the authors' code true, by mistake
}
SETTINGS_OF = {
    "bioelectra": {
        "every": IN_BOTH
        | {"loss_reduction": "mean", "gradient_clip_groups": 1, "count_whole_batches": False},
        "tagging": OF_TAGS | {"segment": 0, "dropout": True},
        "classification": OF_TEXTS,
        "multilabel": OF_TEXTS | {"absent_outputs": False},
        "regression": OF_TEXTS | {"scale": 1.0},
    },
    "authors": {
        "every": IN_BOTH
        | {"loss_reduction": "sum", "gradient_clip_groups": 8, "count_whole_batches": True},
        "tagging": OF_TAGS | {"segment": 1, "dropout": False},
        "classification": OF_TEXTS,
        "multilabel": OF_TEXTS | {"absent_outputs": True},
        "regression": OF_TEXTS,
    },
}
# Of single tasks: runs, in the paper's section 4.3; of the authors' large models the decay of the
# layers, and the highest score.
OF_TASK = {
    "bioelectra": {name: {"num_trials": 10} for name in ("biosses", "pubmedqa", "bioasq")},
    "authors": {
        "mednli": {"layerwise_lr_decay": 0.9},
        "pubmedqa": {"layerwise_lr_decay": 0.9},
        "biosses": {"regression": OF_TEXTS | {"scale": 4.0}},
        "clinical_sts": {"regression": OF_TEXTS | {"scale": 5.0}},
    },
}
# What the other papers print. PubMedBERT: Gu et al. (2021), sections 5.1, 5.2 (the lengths of some
# tasks, the standard heads) and 6.2 (the rest; the epochs between 2 and 60 are ours).
_SEARCH = {
    "learning_rate": [1e-5, 3e-5, 5e-5],
    "train_batch_size": [16, 32],
    "num_train_epochs": [2, 5, 10, 20, 60],
}
_PUBMEDBERT = {
    **{f"sweep.{name}": values for name, values in _SEARCH.items()},
    "layerwise_lr_decay": 1.0,
    "schedule": "triangular",
    "warmup_proportion": 0.1,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
_PRINTED_OF_TAGS = {"num_trials": 5, "tagging.head": "linear", "tagging.scheme": "BIO"}
_PRINTED_OF_CLASSES = {
    "num_trials": 5,
    "classification.pooling": "first",
    "classification.text_head": "linear",
}
PUBMEDBERT = {
    **dict.fromkeys(
        ("bc5cdr_chem", "bc5cdr_disease", "ncbi_disease", "bc2gm", "jnlpba", "ebm_pico"),
        _PRINTED_OF_TAGS,
    ),
    "chemprot": {**_PRINTED_OF_CLASSES, "sequence_length": 256},
    "ddi": {**_PRINTED_OF_CLASSES, "sequence_length": 256},
    "gad": {**_PRINTED_OF_CLASSES, "sequence_length": 128},
    "pubmedqa": {**_PRINTED_OF_CLASSES, "sequence_length": 512, "num_trials": 10},
    "bioasq": {**_PRINTED_OF_CLASSES, "sequence_length": 512, "num_trials": 10},
    "hoc": {
        "num_trials": 5,
        "multilabel.pooling": "first",
        "multilabel.text_head": "linear",
        "multilabel.absent_outputs": False,
    },
    "biosses": {
        "num_trials": 10,
        "loss_reduction": "mean",
        "regression.pooling": "first",
        "regression.text_head": "linear",
        "regression.scale": 4.0,
    },
}
# BioM: Alrowili and Vijay-Shanker (2021), Table 4: epochs, learning rate, batch; of BioASQ factoid
# BioM-BERT has no row. The five runs are in the caption of Table 2, the tags in section 4.1.
BIOM = {
    "biom-electra-base": {
        "NER": (5, 2e-4, 48),
        "RE": (4, 1e-4, 32),
        "SQ.": (3, 1e-4, 32),
        "Bio.": (4, 2e-5, 24),
    },
    "biom-electra-large": {
        "NER": (5, 7e-5, 32),
        "RE": (4, 7e-5, 32),
        "SQ.": (3, 5e-5, 32),
        "Bio.": (4, 2e-5, 24),
    },
    "biom-bert-large": {"NER": (5, 7e-5, 32), "RE": (4, 7e-5, 32), "SQ.": (5, 5e-5, 48)},
    "biom-albert-xxlarge": {
        "NER": (4, 3e-5, 16),
        "RE": (5, 3e-5, 128),
        "SQ.": (2, 3e-5, 128),
        "Bio.": (3, 1e-5, 128),
    },
}
_BIOM_TASKS = {
    "NER": ("bc5cdr_chem", "bc5cdr_disease", "ncbi_disease"),
    "RE": ("chemprot",),
    "SQ.": ("squad_v2",),
    "Bio.": ("bioasq_factoid",),
}
# bio-lm: Lewis et al. (2020), section 5.2; of classification it prints a rate of 0.002, and its
# README.md and note 2 of BioM's section 4.1 have 2e-5. It names the epochs of four of these tasks.
_TAGGED_BY_BIOLM = (
    *("bc5cdr_chem", "bc5cdr_disease", "jnlpba", "ncbi_disease", "bc4chemd", "bc2gm", "linnaeus"),
    *("species_800", "i2b2_2010_ner", "i2b2_2012", "i2b2_2014"),
)
_CLASSIFIED_BY_BIOLM = {"train_batch_size": 16, "num_trials": 5}
BIOLM = {
    **dict.fromkeys(
        _TAGGED_BY_BIOLM,
        {
            "learning_rate": 1e-5,
            "train_batch_size": 32,
            "num_train_epochs": 20,
            "eval_every_steps": 500,
            "num_trials": 5,
        },
    ),
    **dict.fromkeys(
        ("hoc", "chemprot", "mednli", "i2b2_2010_re"),
        {**_CLASSIFIED_BY_BIOLM, "num_train_epochs": 10, "eval_every_steps": 200},
    ),
    **dict.fromkeys(("gad", "euadr", "ddi"), _CLASSIFIED_BY_BIOLM),
}
# BioMegatron: Shin et al. (2020). Table 1 has the settings of entities and relations, Table 2 those
# of questions; section 4 the tags, section 5.1 which set has labels of whole entities, and section
# 5.3 the epochs on SQuAD and BioASQ and the batch of 64 on each of 16 GPUs.
_TABLE_1 = {
    "num_train_epochs": 30,
    "head_dropout_prob": 0.5,
    "sequence_length": 128,
    "learning_rate": 5e-5,
}
_TAGGED_BY_BIOMEGATRON = {
    **_TABLE_1,
    "sweep.tagging.mlp_layers": [1, 2],
    "sweep.tagging.mlp_size": [512, 1024],
    "tagging.head": "mlp",
    "tagging.dropout": True,
    "tagging.scheme": "BIO",
    "tagging.label_all_tokens": True,
}
_TABLE_2 = {
    "question_answering.head": "mlp",
    "question_answering.mlp_layers": 2,
    "question_answering.mlp_size": 2048,
    "head_dropout_prob": 0.1,
    "sequence_length": 512,
    "learning_rate": 3e-5,
    "train_batch_size": 64 * 16,
}
BIOMEGATRON = {
    "bc5cdr_chem": _TAGGED_BY_BIOMEGATRON,
    "bc5cdr_disease": _TAGGED_BY_BIOMEGATRON,
    "ncbi_disease": {**_TAGGED_BY_BIOMEGATRON, "tagging.label_all_tokens": False},
    "chemprot": {
        **_TABLE_1,
        "sweep.classification.mlp_layers": [1, 2],
        "sweep.classification.mlp_size": [512, 1024],
        "classification.text_head": "mlp",
    },
    "squad_v1": {**_TABLE_2, "num_train_epochs": 10},
    "squad_v2": {**_TABLE_2, "num_train_epochs": 10},
    "bioasq_factoid": {**_TABLE_2, "num_train_epochs": 30},
}


def _printed_by_biom(protocol):
    for row, (epochs, rate, batch) in BIOM[protocol].items():
        for task in _BIOM_TASKS[row]:
            yield (
                task,
                {
                    "num_train_epochs": epochs,
                    "learning_rate": rate,
                    "train_batch_size": batch,
                    "num_trials": 5,
                    **({"tagging.scheme": "BIO"} if row == "NER" else {}),
                },
            )


# Protocol -> task -> what its paper prints.
PRINTED = {
    "pubmedbert": {name: {**_PUBMEDBERT, **own} for name, own in PUBMEDBERT.items()},
    "biolm": BIOLM,
    "biomegatron": BIOMEGATRON,
    **{protocol: dict(_printed_by_biom(protocol)) for protocol in BIOM},
}
# What the papers leave open, from the code that the files name: Adam's paper (Kingma and Ba, 2015);
# configure_finetuning.py and model/optimization.py of google-research/electra, of which the large
# models have another decay; optimization.py of google-research/albert, for NER run_ner.py of
# transformers; run_classification.py and run_sequence_labelling.py of facebookresearch/bio-lm; and
# for BioMegatron PyTorch's Adam.
_ADAM = {"adam_beta_1": 0.9, "adam_beta_2": 0.999, "max_gradient_norm": 1.0}
_PYTORCHS = {
    **_ADAM,
    "adam_epsilon": 1e-8,
    "adam_bias_correction": True,
    "weight_decay_rate": 0.0,
    "layerwise_lr_decay": 1.0,
}
_ELECTRAS = {
    **_ADAM,
    "adam_epsilon": 1e-6,
    "adam_bias_correction": False,
    "weight_decay_rate": 0.01,
    "layerwise_lr_decay": 0.8,
    "layerwise_lr_exponent": "electra",
    "warmup_proportion": 0.1,
    "hidden_dropout_prob": 0.1,
}
_ALBERTS = {
    **{**_ELECTRAS, "layerwise_lr_decay": 1.0, "hidden_dropout_prob": 0.0},
    "attention_probs_dropout_prob": 0.0,
    "head_dropout_prob": 0.1,
}
OPEN = {
    "pubmedbert": _PYTORCHS,
    "biolm": {
        **_PYTORCHS,
        "warmup_proportion": 0.0,
        "sequence_length": 512,
        "learning_rate": 2e-5,  # of classes
    },
    "biomegatron": _PYTORCHS,
    "biom-electra-base": _ELECTRAS,
    "biom-electra-large": {**_ELECTRAS, "layerwise_lr_decay": 0.9},
    "biom-bert-large": {**_ELECTRAS, "layerwise_lr_decay": 0.9},
    "biom-albert-xxlarge": _ALBERTS,
}


def _flat(values, prefix=""):
    """The settings of a file by name, a dot reaching into a group."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


@pytest.mark.parametrize(
    "protocol, name", [(protocol, name) for protocol, own in PRINTED.items() for name in own]
)
def test_a_file_has_what_its_paper_prints_and_calls_the_rest_open(protocol, name):
    path = find_protocol(protocol, name)
    values = json.loads(Path(path).read_text())
    sources = values.pop("sources")
    del values["comment"]
    found, printed = dict(_flat(values)), PRINTED[protocol][name]
    assert {setting: found.get(setting) for setting in printed} == printed
    assert list(sources) == list(found)
    is_open = {setting for setting, source in sources.items() if source.startswith("open")}
    assert is_open == found.keys() - printed.keys()
    by_transformers = protocol == "biom-albert-xxlarge" and "tagging" in values
    elsewhere = OPEN[protocol]
    if by_transformers:
        elsewhere = {**elsewhere, **_PYTORCHS, "warmup_proportion": 0.0}
    if protocol == "biomegatron" and found["warmup_proportion"]:
        elsewhere = {**elsewhere, "schedule": "triangular"}  # NeMo's WarmupAnnealing
    for setting in found.keys() & elsewhere.keys() - printed.keys():
        assert found[setting] == elsewhere[setting], setting


@pytest.mark.parametrize("protocol", PRINTED)
def test_the_files_of_a_protocol_are_for_tasks_and_say_it_all(protocol):
    names = {path.stem for path in (HPARAMS / "finetuning" / protocol).iterdir()}
    assert names == PRINTED[protocol].keys()
    for name in names:
        task, path = task_table.TASKS[name], find_protocol(protocol, name)
        settings = load(FinetuningConfig, path, (), task.settings)
        types.make(task.task_type, task.labels, settings)  # refuses those of another type
        swept = [text.partition("=")[0] for text in sweep.with_those_of(path, (), ())]
        for setting, value in task.settings.items():
            # A task's settings do not show through, so a file means the same for each encoder.
            assert setting in swept or setting in json.loads(Path(path).read_text()), value


def test_the_search_of_pubmedbert_is_a_sweep_of_thirty_runs():
    path = find_protocol("pubmedbert", "chemprot")
    names, found = sweep.combinations(sweep.with_those_of(path, (), ()))
    assert names == list(_SEARCH)
    runs = [load(FinetuningConfig, path, chosen) for chosen in found]
    assert len(runs) == 3 * 2 * 5
    assert {run.learning_rate for run in runs} == set(_SEARCH["learning_rate"])
    assert [run.num_train_epochs for run in runs[:5]] == _SEARCH["num_train_epochs"]


def test_the_heads_of_biomegatron_are_a_sweep_of_four_runs():
    for name, group in (("ncbi_disease", "tagging"), ("chemprot", "classification")):
        path = find_protocol("biomegatron", name)
        names, found = sweep.combinations(sweep.with_those_of(path, (), ()))
        assert names == [f"{group}.mlp_layers", f"{group}.mlp_size"], name
        heads = [getattr(load(FinetuningConfig, path, chosen), group) for chosen in found]
        sizes = [(1, 512), (1, 1024), (2, 512), (2, 1024)]
        assert [(head.mlp_layers, head.mlp_size) for head in heads] == sizes, name


@pytest.mark.parametrize("name", AUTHORS)
@pytest.mark.parametrize(
    "protocol, table, trials", [("bioelectra", TABLE_7, 5), ("authors", AUTHORS, 1)]
)
def test_the_settings_of_a_protocol_are_those_that_were_published(protocol, table, trials, name):
    task = task_table.TASKS[name]
    lengths = ("sequence_length", "learning_rate", "num_train_epochs", "train_batch_size")
    settings_of = SETTINGS_OF[protocol]
    expected = {
        **dict(zip(lengths, table[name], strict=True)),
        "num_trials": trials,
        **settings_of["every"],
        task.task_type: settings_of[task.task_type],
        **OF_TASK[protocol].get(name, {}),
    }
    path = find_protocol(protocol, name)
    values = json.loads(Path(path).read_text())
    del values["comment"], values["sources"]
    assert values == expected
    settings = load(FinetuningConfig, path, (), task.settings)
    types.make(task.task_type, task.labels, settings)
    # The file alone says it all, and nothing changes besides.
    assert settings == load(FinetuningConfig, path)
    expected["comment"] = settings.comment
    assert settings == load(FinetuningConfig, json.dumps(expected))


@pytest.mark.parametrize("name", TABLE_7)
def test_the_settings_of_a_task_are_the_papers(name):
    paper = load(FinetuningConfig, find_protocol("bioelectra", name))
    without = load(FinetuningConfig, "", (), task_table.TASKS[name].settings)
    assert without == dataclasses.replace(paper, comment="")


@pytest.mark.parametrize("protocol", SETTINGS_OF)
def test_each_layer_has_the_learning_rate_of_the_authors_code(protocol):
    """Their model/optimization.py, `_get_layer_lrs`: from below 0 the embeddings, 13 the head."""
    for name in AUTHORS:
        settings = load(FinetuningConfig, find_protocol(protocol, name))
        decay = settings.layerwise_lr_decay
        found = [
            optimization.layer_multiplier(depth, 12, decay, settings.layerwise_lr_exponent)
            for depth in range(13)
        ]
        assert found == pytest.approx([decay ** (12 + 1 - depth) for depth in range(13)]), name


@pytest.mark.parametrize("name", AUTHORS)
def test_the_sources_of_what_differs_from_task_to_task(name):
    paper, authors = (
        json.loads(Path(find_protocol(protocol, name)).read_text())["sources"]
        for protocol in ("bioelectra", "authors")
    )
    theirs = {
        "sequence_length": "max_seq_length",
        "learning_rate": "learning_rate",
        "num_train_epochs": "num_train_epochs",
        "train_batch_size": "train_batch_size",
    }
    assert {paper[setting] for setting in theirs} == {"Table 7"}
    (file,) = {authors[setting].partition(", ")[0] for setting in theirs}
    assert re.fullmatch(r"configs/base_[a-z0-9-]+\.json", file)
    assert [authors[setting] for setting in theirs] == [f"{file}, {x}" for x in theirs.values()]


def test_a_protocol_is_found_by_its_name(tmp_path, monkeypatch):
    for protocol in SETTINGS_OF:
        names = {path.stem for path in (HPARAMS / "finetuning" / protocol).iterdir()}
        assert names == AUTHORS.keys()
    for path in ("", "{}", "some/file.json"):
        assert find_protocol(path, "hoc") == path
    with pytest.raises(ConfigError, match="--hparams=paper: no such .* are authors, bioelectra, b"):
        find_protocol("paper", "hoc")
    with pytest.raises(ConfigError, match="biom-bert-large has no settings for bioasq_factoid"):
        find_protocol("biom-bert-large", "bioasq_factoid")  # no row in BioM's Table 4
    for name in ("linnaeus", "ner"):
        said = f"has no settings for {name}, but for bc2gm, .*share"
        with pytest.raises(ConfigError, match=said) as raised:
            find_protocol("bioelectra", name)
        assert len(str(raised.value)) < 300, name
    (tmp_path / "authors").touch()
    monkeypatch.chdir(tmp_path)
    assert find_protocol("authors", "hoc") == "authors"


@pytest.mark.parametrize("protocol", ["authors", "bioelectra"])
def test_a_protocol_is_found_by_its_name_wherever_the_command_runs(pretrained, tmp_path, protocol):
    changes = {"sequence_length": 64, "num_train_epochs": 0.02, "num_trials": 1}
    root = Path(finetuning.__file__).parents[2]
    done = forked.run(
        [sys.executable, str(root / "run_finetuning.py"), "--task=biosses", "--output_dir=out"]
        + [f"--data_dir={reference.corpus('biosses/blurb')}", f"--init_checkpoint={pretrained}"]
        + [f"--hparams={protocol}", *(f"--set={name}={value}" for name, value in changes.items())],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    file = root / "hparams" / "finetuning" / protocol / "biosses.json"
    wanted = {**json.loads(file.read_text()), **changes}
    wanted.pop("sources")
    head = wanted.pop("regression")
    assert len(wanted) > 8 and wanted.items() <= written.items()
    assert len(head) > 2 and head.items() <= written["regression"].items()
    assert (tmp_path / "out" / "scores.json").is_file()
