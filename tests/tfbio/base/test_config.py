"""Settings: what is refused and how, and that those in hparams/ say where they are from."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from tfbio.base import config
from tfbio.base.config import ConfigError, load
from tfbio.base.limits import Limits
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types.finetuning_config import FinetuningConfig

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
    "hparams, overrides, words",
    [
        ('{"lerning_rate": 1}', [], ["'lerning_rate'", "nearest is 'learning_rate'"]),
        ('{"encoder": {"hiden_size": 1}}', [], ["'encoder.hiden_size'", "'encoder.hidden_size'"]),
        ('{"hidden_size": 64}', [], ["'hidden_size'", "'encoder.hidden_size'"]),
        ("", ["jit_compile=true"], ["'jit_compile'", "'run.jit_compile'"]),
        ("", ["lr=1e-4"], ["unknown setting 'lr'", "nearest is 'learning_rate'"]),
        ("", ["encoder.hs=64"], ["'encoder.hs'", "nearest is 'encoder.hidden_size'"]),
        ("", ["hs=64"], ["unknown setting 'hs'", "nearest is 'encoder.hidden_size'"]),
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
        ('{"adversarial": {"weight": 1}}', [], ["adversarial.weight goes with objective = mlm"]),
        ("", ["adversarial.epsilon=0"], ["adversarial.epsilon must be above 0, not 0"]),
        ("", ["adversarial.weight=-1"], ["adversarial.weight must be at least 0, not -1"]),
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


def test_a_group_keeps_what_is_not_named():
    defaults = {"run": {"precision": "float32", "steps_per_loop": 7}}
    hparams = '{"run": {"steps_per_loop": 8}, "encoder": {"hidden_size": 64, "vocab_size": 9}}'
    overrides = ['encoder={"hidden_size": 128}', "encoder.embedding_size=32"]
    settings = load(PretrainingConfig, hparams, overrides, defaults)
    assert (settings.run.precision, settings.run.steps_per_loop) == ("float32", 8)
    shape = settings.encoder
    assert (shape.hidden_size, shape.vocab_size, shape.embedding_size) == (128, 9, 32)


def test_the_settings_of_a_run_are_met_with_the_command_that_writes_them_alone(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"seed": 1, "vocab_sha256": "0"}')
    with pytest.raises(ConfigError, match=f"`tfbio convert --from={tmp_path} --to=FOLDER` writes"):
        load(PretrainingConfig, str(path))


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
        "run.jit_compile = false (true or false)",
    ):
        assert f"  {line}\n      " in text


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
    assert meaning.strip() == meaning and len(meaning) > 15 and meaning[-1] in ".)"
    # `tfbio.help` prints it without those beside it.
    assert not re.match("See |The same|Its ", meaning) and "as above" not in meaning
    assert limits.allow(field.default)
    # Every text but the comment is one of some choices, and every number has a lower bound.
    assert bool(limits.choices) == (expected is str and name != "comment")
    lower = limits.above is not None or limits.at_least is not None
    assert lower == (expected in (int, float))
    others = {bool: "true or false", str: "any text", tuple: "a list of whole numbers, such as "}
    allowed = str(limits) or others[expected]
    line = f"  {name} = {json.dumps(field.default)} ({allowed}"
    described = config.describe(each)
    assert f"\n{line}" in f"\n{described}"
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
    assert str(Limits(**limits)) == said


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
