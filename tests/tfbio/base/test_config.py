"""Settings: what is refused and how, and that hparams/ holds what the papers say."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from tfbio.base import config
from tfbio.base.config import ConfigError, load
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.runs import finetuner
from tfbio.task_types import tasks, types
from tfbio.task_types.finetuning_config import find_protocol
from tfbio.task_types.types import FinetuningConfig

HPARAMS = Path(__file__).parents[3] / "hparams"
FILES = [
    *((path, PretrainingConfig) for path in sorted(HPARAMS.glob("*.json"))),
    *((path, FinetuningConfig) for path in sorted(HPARAMS.glob("finetuning/**/*.json"))),
]


@pytest.mark.parametrize("path, kind", FILES, ids=[path.stem for path, _ in FILES])
def test_every_file_loads_and_says_where_it_is_from(path, kind):
    assert load(kind, str(path)).comment


def test_all_sizes_are_there():
    names = {path.stem for path, kind in FILES if kind is PretrainingConfig}
    assert names >= {"quickstart", "small", "base", "large"}


def test_no_settings_are_the_defaults():
    assert load(PretrainingConfig) == PretrainingConfig()
    assert load(FinetuningConfig) == FinetuningConfig()


@pytest.mark.parametrize(
    "name, encoder, rest",
    [
        # ELECTRA, Table 6.
        (
            "small",
            (30522, 128, 256, 12, 4, 1024),
            (0.25, 0.15, 50.0, 128, 0, 128, 1_000_000, 5e-4, 10_000, 1),
        ),
        (
            "large",
            (30522, 1024, 1024, 24, 16, 4096),
            (0.25, 0.25, 50.0, 512, 0, 2048, 400_000, 2e-4, 10_000, 1),
        ),
        # BioELECTRA P, section 4.1 and appendix A: batch 512, a tenth of the steps at length 512,
        # the 8 cores of a TPU v3-8.
        (
            "base",
            (28895, 768, 768, 12, 12, 3072),
            (0.33333, 0.15, 50.0, 128, 512, 512, 1_000_000, 2e-4, 10_000, 8),
        ),
        # The same as the authors' code has it, whose runs have one length.
        (
            "base_phase2",
            (28895, 768, 768, 12, 12, 3072),
            (0.33333, 0.15, 50.0, 512, 0, 512, 100_000, 2e-4, 10_000, 8),
        ),
    ],
)
def test_published_values(name, encoder, rest):
    settings = load(PretrainingConfig, str(HPARAMS / f"{name}.json"))
    shape = settings.encoder
    assert encoder == (
        shape.vocab_size,
        shape.embedding_size,
        shape.hidden_size,
        shape.num_hidden_layers,
        shape.num_attention_heads,
        shape.intermediate_size,
    )
    assert rest == (
        settings.generator_hidden_fraction,
        settings.mask_prob,
        settings.discriminator_weight,
        settings.sequence_length,
        settings.final_sequence_length,
        settings.train_batch_size,
        settings.num_train_steps,
        settings.learning_rate,
        settings.num_warmup_steps,
        settings.gradient_clip_groups,
    )
    assert (shape.hidden_dropout_prob, shape.attention_probs_dropout_prob) == (0.1, 0.1)
    assert (settings.adam_beta_1, settings.adam_beta_2, settings.adam_epsilon) == (0.9, 0.999, 1e-6)
    assert settings.weight_decay_rate == 0.01
    # As the original code draws and replaces.
    assert settings.mask_with_replacement
    assert (settings.mask_token_prob, settings.random_token_prob) == (0.85, 0.0)
    said = " ".join((HPARAMS / f"{path}.json").read_text() for path in {name, name.split("_")[0]})
    assert "drawn with replacement, as the original code does" in said


def test_both_phases_have_the_same_model():
    first, second = (
        dataclasses.asdict(load(PretrainingConfig, str(HPARAMS / f"{name}.json")))
        for name in ("base", "base_phase2")
    )
    differing = {name for name in first if first[name] != second[name]}
    lengths = {"sequence_length", "final_sequence_length"}
    assert differing == {"comment", "num_train_steps", *lengths}


def test_the_base_generator_is_the_papers():
    # 12 layers, hidden 256, feed-forward 1024, 4 heads.
    settings = load(PretrainingConfig, str(HPARAMS / "base.json"))
    generator = settings.generator
    assert (generator.num_hidden_layers, generator.hidden_size) == (12, 256)
    assert (generator.intermediate_size, generator.num_attention_heads) == (1024, 4)
    assert settings.phases() == [(128, 900_000), (512, 1_000_000)]


def test_a_generator_may_be_of_any_shape():
    settings = load(
        PretrainingConfig,
        "",
        ["generator_intermediate_size=96", "generator_num_attention_heads=2"],
    )
    assert settings.generator.intermediate_size == 96
    assert settings.generator.num_attention_heads == 2
    own = dataclasses.replace(settings, untied_generator_embeddings=True)
    assert own.generator.embedding_size == own.generator.hidden_size == 64
    assert dataclasses.replace(own, generator_embedding_size=24).generator.embedding_size == 24


def test_positions_before_the_first_hold_no_token():
    settings = load(
        PretrainingConfig,
        "",
        [
            "encoder.max_position_embeddings=514",
            "encoder.position_offset=2",
            "sequence_length=512",
        ],
    )
    assert settings.encoder.max_sequence_length == 512


def test_as_many_words_are_scored_as_in_the_original_code():
    """int((mask_prob + 0.005) * max_seq_length), of the largest rate where it grows."""
    settings = PretrainingConfig(mask_prob=0.15)
    assert [settings.max_predictions(length) for length in (5, 64, 128, 512)] == [0, 9, 19, 79]
    growing = PretrainingConfig(mask_prob=0.05, final_mask_prob=0.25)
    assert growing.max_predictions(128) == 32
    assert PretrainingConfig(mask_prob=1.0).max_predictions(128) == 128


def test_fine_tuning_defaults_are_bioelectras():
    settings = FinetuningConfig()
    assert (settings.learning_rate, settings.train_batch_size) == (2e-4, 32)
    assert (settings.num_train_epochs, settings.num_trials) == (5.0, 5)
    assert (settings.layerwise_lr_decay, settings.layerwise_lr_exponent) == (0.8, "bioelectra")
    assert (settings.warmup_proportion, settings.weight_decay_rate) == (0.1, 0.0)
    assert (settings.hidden_dropout_prob, settings.attention_probs_dropout_prob) == (0.1, 0.1)


@pytest.mark.parametrize(
    "changes, words",
    [
        (["schedule=cosine"], 'schedule must be linear or slanted_triangular, not "cosine"'),
        (["eval_every_steps=-1"], "eval_every_steps must be at least 0, not -1"),
        (["early_stopping_patience=2"], "it goes with eval_every_steps"),
        (
            ["question_answering.head=roberta"],
            'question_answering.head must be bert or electra, not "roberta"',
        ),
        (["question_answering.beam_size=5"], "beam_size goes with question_answering.head = ele"),
        (["question_answering.n_best_size=0"], "n_best_size must be at least 1, not 0"),
        (["question_answering.doc_stride=-1"], "doc_stride must be at least 0, not -1"),
        (
            ["regression.text_head=relu"],
            'regression.text_head must be linear, tanh or gelu, not "relu"',
        ),
        (["regression.pooling=mention"], "regression.pooling must be first or mean, not"),
        (
            ["multilabel.text_head=tanh", "multilabel.pooling=mean"],
            "multilabel.text_head tanh .*: it goes with pooling first, not mean",
        ),
        (["tagging.schem=IO"], "unknown setting 'tagging.schem'; the nearest is 'tagging.scheme'"),
        (["scheme=IO"], "unknown setting 'scheme'; the nearest is 'tagging.scheme'"),
        (["tagging_scheme=IO"], "unknown setting 'tagging_scheme'; .* is 'tagging.scheme'"),
        (["tagging=IO"], 'tagging is a group of settings, not "IO"'),
    ],
)
def test_a_mistake_in_how_to_train_is_named(changes, words):
    with pytest.raises(ConfigError, match=words):
        load(FinetuningConfig, "", changes)


def test_a_question_leaves_room_for_a_context():
    settings = load(FinetuningConfig, "", ["question_answering.max_query_length=124"])
    words = "max_query_length 124 leaves no room .*: give 123 or less"
    with pytest.raises(ConfigError, match=words):
        types.make("question_answering", (), settings)


@pytest.mark.parametrize(
    "change, task_type, words",
    [
        ("tagging.scheme=IO", "classification", 'tagging.scheme "IO" is for tasks of tagging, '),
        ("multilabel.text_head=tanh", "tagging", 'multilabel.text_head "tanh" is for tasks of'),
        ("regression.scale=2", "multilabel", "regression.scale 2.0 is for tasks of regression"),
    ],
)
def test_settings_of_another_task_type_are_refused(change, task_type, words):
    settings = load(FinetuningConfig, "", [change])
    with pytest.raises(ConfigError, match=f"{words}.*this is one of {task_type}: leave it at"):
        types.make(task_type, ["O", "B", "I"], settings)


def test_the_settings_of_a_run_are_those_of_its_task_type():
    settings = types.settings_of("tagging", FinetuningConfig())
    assert settings["tagging"]["scheme"] == "BIO" and settings["seed"] == 0
    assert settings.keys() & types.TYPES.keys() == {"tagging"}
    assert load(FinetuningConfig, json.dumps(settings)) == FinetuningConfig()


@pytest.mark.parametrize("name", types.TYPES)
def test_the_group_of_a_task_type_has_its_name(name):
    task_type = types.TYPES[name]
    assert task_type.Settings.group == f"{name}." and task_type.name == name
    assert getattr(FinetuningConfig(), name) == task_type.Settings()


@pytest.mark.parametrize(
    "hparams, overrides, words",
    [
        ('{"lerning_rate": 1}', [], ["'lerning_rate'", "nearest is 'learning_rate'"]),
        ('{"encoder": {"hiden_size": 1}}', [], ["'encoder.hiden_size'", "'encoder.hidden_size'"]),
        ('{"hidden_size": 64}', [], ["'hidden_size'", "'encoder.hidden_size'"]),
        ("", ["jit_compile=true"], ["'jit_compile'", "'run.jit_compile'"]),
        ('{"learning_rate": "fast"}', [], ["learning_rate must be a number", '"fast"']),
        ('{"num_train_steps": 1.5}', [], ["num_train_steps must be a whole number", "1.5"]),
        ('{"num_train_steps": true}', [], ["num_train_steps must be a whole number"]),
        ('{"run": {"jit_compile": 1}}', [], ["run.jit_compile must be true or false"]),
        ('{"encoder": 3}', [], ["encoder is a group of settings"]),
        ('{"mask_prob": 1.5}', [], ["mask_prob must be above 0 and at most 1, not 1.5"]),
        ('{"sequence_length": 1024}', [], ["1024", "encoder.max_position_embeddings"]),
        (
            '{"encoder": {"max_position_embeddings": 514, "position_offset": 2}}',
            ["sequence_length=513"],
            ["513", "encoder.max_position_embeddings of at least 515 (it is 514)"],
        ),
        ('{"encoder": {"hidden_size": 250}}', [], ["250", "multiple"]),
        ('{"encoder": {"hidden_act": "relu"}}', [], ["must be gelu or gelu_new", '"relu"']),
        ('{"encoder": {"layer_norm_eps": 0}}', [], ["encoder.layer_norm_eps", "above 0"]),
        ('{"encoder": {"position_offset": 512}}', [], ["encoder.position_offset", "(512)"]),
        ('{"sentence_pair_head": true}', [], ["goes with objective = mlm"]),
        ('{"generator_embedding_size": 8}', [], ["goes with untied_generator_embeddings"]),
        (
            '{"generator_intermediate_size": -1}',
            [],
            ["generator_intermediate_size must be at least 0, not -1"],
        ),
        ('{"seed": 1', [], ["not valid JSON"]),
        ("[1]", [], ["no such file"]),
        ("no/such/file.json", [], ["no/such/file.json", "no such file"]),
        ("", ["learning_rate"], ["--set learning_rate", "name=value"]),
        ("", ["seed.x=1"], ["seed"]),
        ("", ["run.precision=half"], ["run.precision must be", '"half"']),
        ("", ["run.optimize_for=gpu"], ["run.optimize_for must be", "cpu or tpu", '"gpu"']),
        ("", ["generator_warmup_steps=-1"], ["generator_warmup_steps must be at least 0, not -1"]),
        ("", ["generator_warmup_steps=1000000"], ["must be less than num_train_steps 1000000"]),
        *(
            ("", ["generator_warmup_steps=9", other], ["needs a generator with layers of its own"])
            for other in ("objective=mlm", "untied_generator=false", "uniform_generator=true")
        ),
    ],
)
def test_a_mistake_is_named(hparams, overrides, words):
    with pytest.raises(ConfigError) as caught:
        load(PretrainingConfig, hparams, overrides)
    for word in words:
        assert word in str(caught.value)


def test_a_file_with_a_mistake_is_named(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"num_trails": 3}')
    with pytest.raises(ConfigError, match=r"mine\.json: .*'num_trails'.*'num_trials'"):
        load(FinetuningConfig, str(path))


def test_overrides_win_over_the_file_and_later_over_earlier():
    settings = load(
        PretrainingConfig,
        str(HPARAMS / "small.json"),
        ["encoder.hidden_size=64", "seed=1", "seed=2", "run.precision=bfloat16", "mask_prob=1"],
    )
    assert (settings.encoder.hidden_size, settings.encoder.num_attention_heads) == (64, 4)
    assert (settings.seed, settings.run.precision, settings.mask_prob) == (2, "bfloat16", 1.0)


def test_whole_numbers_may_be_written_with_an_exponent():
    settings = load(PretrainingConfig, '{"num_train_steps": 1e6, "learning_rate": 1}')
    assert settings.num_train_steps == 1_000_000
    assert isinstance(settings.num_train_steps, int)
    assert isinstance(settings.learning_rate, float)


def test_what_is_written_can_be_read_again():
    settings = dataclasses.replace(
        PretrainingConfig(), seed=3, encoder=PretrainingConfig().generator
    )
    written = json.dumps(dataclasses.asdict(settings))
    assert load(PretrainingConfig, written) == settings
    assert json.loads(written)["seed"] == 3


def test_the_description_names_every_setting():
    text = config.describe(PretrainingConfig)
    for line in (
        "learning_rate = 0.0005 (above 0)",
        "encoder.hidden_size = 256 (at least 1)",
        'objective = "electra" (electra or mlm)',
        "run.jit_compile = false",
    ):
        assert f"  {line}\n      " in text


# --- Protocols -----------------------------------------------------------------------------------

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


@pytest.mark.parametrize("name", AUTHORS)
@pytest.mark.parametrize(
    "protocol, table, trials", [("bioelectra", TABLE_7, 5), ("authors", AUTHORS, 1)]
)
def test_the_settings_of_a_protocol_are_those_that_were_published(protocol, table, trials, name):
    task = tasks.TASKS[name]
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
    without = load(FinetuningConfig, "", (), tasks.TASKS[name].settings)
    assert without == dataclasses.replace(paper, comment="")


@pytest.mark.parametrize("protocol", SETTINGS_OF)
def test_each_layer_has_the_learning_rate_of_the_authors_code(protocol):
    """Their model/optimization.py, `_get_layer_lrs`: from below 0 the embeddings, 13 the head."""
    for name in AUTHORS:
        settings = load(FinetuningConfig, find_protocol(protocol, name))
        decay = settings.layerwise_lr_decay
        found = [
            finetuner.layer_multiplier(depth, 12, decay, settings.layerwise_lr_exponent)
            for depth in range(13)
        ]
        assert found == pytest.approx([decay ** (12 + 1 - depth) for depth in range(13)])


# --- Sources -------------------------------------------------------------------------------------

PUBLISHED = [path for path, _ in FILES if path.stem not in ("quickstart", "sentence_roles")]


def names_of(values, prefix=""):
    """All settings of an object, a dot reaching into a group."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from names_of(value, f"{prefix}{name}.")
        else:
            yield prefix + name


@pytest.mark.parametrize("path", PUBLISHED, ids=[f"{x.parent.name}/{x.stem}" for x in PUBLISHED])
def test_every_setting_has_a_source_and_every_source_a_setting(path):
    values = json.loads(path.read_text())
    sources = values.pop("sources")
    del values["comment"]
    assert list(sources) == list(names_of(values))


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


@pytest.mark.parametrize(
    "values, said",
    [
        ({"sources": {"learning_rate": "Table 7"}}, 'sources has "learning_rate", which is no'),
        ({"seed": 1, "sources": {"run.pack": "x"}}, 'sources has "run.pack", which is no'),
        ({"seed": 1, "sources": {"seed.x": "x"}}, 'sources has "seed.x", which is no'),
        ({"seed": 1, "sources": {"seed": ""}}, 'in a text where "seed" is from, not ""'),
        ({"seed": 1, "sources": {"seed": 7}}, 'in a text where "seed" is from, not 7'),
        ({"sources": "Table 7"}, 'sources must be texts by the names.*not "Table 7"'),
        ({"run": {"sources": {}}}, "unknown setting 'run.sources'"),
    ],
)
def test_mistakes_in_sources_are_named(values, said):
    with pytest.raises(ConfigError, match=f"--hparams: .*{said}") as raised:
        load(FinetuningConfig, json.dumps(values))
    assert len(str(raised.value)) < 300


def test_sources_change_nothing():
    values = {"run": {"pack": False}, "seed": 1}
    sources = {"run.pack": "here", "run": "here, too", "seed": "open"}
    assert load(FinetuningConfig, json.dumps({**values, "sources": sources})) == load(
        FinetuningConfig, json.dumps(values)
    )
    with pytest.raises(ConfigError, match="unknown setting 'sources'"):
        load(FinetuningConfig, "", ["sources=x"])


def test_a_protocol_is_found_by_its_name(tmp_path, monkeypatch):
    for protocol in SETTINGS_OF:
        names = {path.stem for path in (HPARAMS / "finetuning" / protocol).iterdir()}
        assert names == AUTHORS.keys()
    for path in ("", "{}", "some/file.json"):
        assert find_protocol(path, "hoc") == path
    with pytest.raises(ConfigError, match="--hparams=paper: no such .* are authors, bioelectra"):
        find_protocol("paper", "hoc")
    for name in ("linnaeus", "ner"):
        said = f"has no settings for {name}, but for bc2gm, .*share"
        with pytest.raises(ConfigError, match=said) as raised:
            find_protocol("bioelectra", name)
        assert len(str(raised.value)) < 300
    (tmp_path / "authors").touch()
    monkeypatch.chdir(tmp_path)
    assert find_protocol("authors", "hoc") == "authors"


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"gradient_clip_groups": 3, "loss_reduction": "sum"}, "must divide train_batch_size 32"),
        ({"gradient_clip_groups": 8}, "goes with loss_reduction = sum"),
        ({"loss_reduction": "max"}, 'loss_reduction must be mean or sum, not "max"'),
        ({"regression": {"scale": 0.0}}, "regression.scale must be above 0, not 0.0"),
        ({"tagging": {"segment": -1}}, "tagging.segment must be at least 0, not -1"),
    ],
)
def test_mistakes_in_the_authors_settings_are_named(settings, said):
    with pytest.raises(ConfigError, match=said):
        load(FinetuningConfig, json.dumps(settings))


# --- Numbers -------------------------------------------------------------------------------------


def fields_of(config_class, prefix=""):
    """Every setting of a class and its groups: name for --set, type and field."""
    for field in dataclasses.fields(config_class):
        name = prefix + field.name
        if dataclasses.is_dataclass(field.default):
            yield from fields_of(type(field.default), f"{name}.")
        else:
            yield name, type(field.default), field


CONFIGS = (PretrainingConfig, FinetuningConfig)
EVERY = [(each, *field) for each in CONFIGS for field in fields_of(each)]
NUMBERS = [x for x in EVERY if x[2] in (int, float)]
CHOICES = [x for x in EVERY if x[3].metadata["limits"].choices]


def ids(every):
    return [f"{each.__name__}-{name}" for each, name, *_ in every]


def outside(limits, expected):
    """Values that are just out of range, and the bound that a message names."""
    step = 1 if expected is int else 1e-6
    for bound in (limits.above, limits.at_least):
        if bound is not None:
            yield expected(bound) - step, str(limits)
    for bound in (limits.below, limits.at_most):
        if bound is not None:
            yield expected(bound) + step, str(limits)
    for bound in (limits.above, limits.below):
        if bound is not None:
            yield expected(bound), str(limits)
    if limits.below is None and limits.at_most is None:
        large = [(2**31, "below 2**31")] if expected is int else [(1e39, "finite in float32")]
        yield from large if expected is int else [*large, (float("inf"), large[0][1])]
    if expected is float:
        yield float("nan"), str(limits)


def test_every_setting_is_in_the_lists():
    assert {name for *_, name in ((x[1],) for x in EVERY)} >= {
        "learning_rate",
        "encoder.hidden_size",
        "run.pack",
        "run.num_eval_batches",
        "tagging.segment",
        "classification.entity_markers",
        "regression.scale",
        "multilabel.pooling",
        "question_answering.doc_stride",
    }
    assert len(NUMBERS) > 70 and len(CHOICES) > 15
    for each in CONFIGS:
        assert [x[1] for x in EVERY if x[0] is each] == config.names(each)


@pytest.mark.parametrize("each, name, expected, field", EVERY, ids=ids(EVERY))
def test_every_setting_says_what_it_means_and_takes(each, name, expected, field):
    limits, meaning = field.metadata["limits"], field.metadata["meaning"]
    assert meaning.strip() == meaning and len(meaning) > 5 and meaning[-1] in ".)"
    assert limits.allow(field.default)
    # Every text but the comment is one of some choices, and every number has a lower bound.
    assert bool(limits.choices) == (expected is str and name != "comment")
    lower = limits.above is not None or limits.at_least is not None
    assert lower == (expected in (int, float))
    line = f"  {name} = {json.dumps(field.default)}" + (f" ({limits})" if str(limits) else "")
    described = config.describe(each)
    assert f"\n{line}\n" in f"\n{described}"
    assert " ".join(meaning.split()) in " ".join(described.split())


@pytest.mark.parametrize("each, name, expected, field", NUMBERS, ids=ids(NUMBERS))
def test_no_number_is_out_of_its_range(each, name, expected, field):
    limits = field.metadata["limits"]
    tried = list(outside(limits, expected))
    assert len(tried) >= 2
    for value, bound in tried:
        assert value >= 2**31 or not limits.allow(value)
        with pytest.raises(ConfigError) as caught:
            load(each, "", [f"{name}={json.dumps(value)}"])
        assert f"{name} must be {bound}, not {json.dumps(value)}" in str(caught.value)
    for bound in (limits.at_least, limits.at_most):
        assert bound is None or limits.allow(bound)


@pytest.mark.parametrize("each, name, expected, field", CHOICES, ids=ids(CHOICES))
def test_a_text_is_one_of_its_choices(each, name, expected, field):
    limits = field.metadata["limits"]
    for value in ("", "x", field.default.upper() + "_", field.default + " "):
        with pytest.raises(ConfigError) as caught:
            load(each, json.dumps(nested(name, value)))
        assert f"{name} must be {limits}, not {json.dumps(value)}" in str(caught.value)
    assert all(map(limits.allow, limits.choices)) and len(limits.choices) > 1


def nested(name, value):
    """{"run": {"pack": ...}} of "run.pack"."""
    for key in reversed(name.split(".")):
        value = {key: value}
    return value


@pytest.mark.parametrize(
    "limits, said",
    [
        ({"above": 0}, "above 0"),
        ({"at_least": 1}, "at least 1"),
        ({"at_least": 0, "below": 1}, "at least 0 and below 1"),
        ({"above": 0, "at_most": 1}, "above 0 and at most 1"),
        ({"choices": ("a", "b")}, "a or b"),
        ({"choices": ("a", "b", "c")}, "a, b or c"),
        ({}, ""),
    ],
)
def test_limits_in_words(limits, said):
    assert str(config.Limits(**limits)) == said


@pytest.mark.parametrize(
    "overrides, words",
    [
        (["weight_decay_rate=NaN"], "weight_decay_rate must be at least 0, not NaN"),
        (["learning_rate=Infinity"], "learning_rate must be finite in float32, not Infinity"),
        (["num_train_steps=1e30"], "num_train_steps must be below .*, not 1000"),
        (["adam_beta_2=1"], "adam_beta_2 must be at least 0 and below 1, not 1.0"),
        (["encoder.hidden_size=1e8"], "10 billion .* of which encoder.hidden_size is the"),
        (["encoder.share_layers=true", "encoder.num_hidden_layers=1e30"], "must be below 2"),
        (["seed=1" + 3000 * "0"], "seed must be below .*, not 1000*\\.\\.\\."),
        (["seed=1" + 5000 * "0"], 'seed must be a whole number, not "1000*\\.\\.\\.'),
    ],
)
def test_a_number_out_of_range_is_named(overrides, words):
    with pytest.raises(ConfigError, match=words) as caught:
        load(PretrainingConfig, "", overrides)
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    "content, words",
    [
        (b'{"seed": 1, "seed": 2}', "'seed' is there twice"),
        (b'{"run": {"precision": "auto", "precision": "float32"}}', "'precision' is there twice"),
        (b'{"comment": "\xff"}', "cannot be read as text"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"seed": ' + b"1" * 5000 + b"}", "is not valid JSON: Exceeds the limit"),
    ],
)
def test_a_file_that_is_no_settings_is_named(content, words, tmp_path):
    (tmp_path / "settings.json").write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        load(PretrainingConfig, str(tmp_path / "settings.json"))
    assert "settings.json" in str(caught.value) and len(str(caught.value)) < 300
