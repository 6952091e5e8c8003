"""Settings: --hparams, as a file and as text, and --set."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.fuzz import damage, grammars, harness
from tfbio.base import config
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types.finetuning_config import FinetuningConfig
from tfbio.task_types.protocols import PROTOCOLS, find_protocol

CLASSES = (PretrainingConfig, FinetuningConfig)
FILES = [(0, name) for name in ("small", "quickstart", "large")]
FILES += [(1, f"finetuning/{name}") for name in ("sentence_roles",)]


def _names(config_class, prefix=""):
    for field in dataclasses.fields(config_class):
        if dataclasses.is_dataclass(field.default):
            yield from _names(type(field.default), f"{field.name}.")
        else:
            yield prefix + field.name


NAMES = [list(_names(config_class)) for config_class in CLASSES]
VALUES = (
    *("NaN", "Infinity", "-Infinity", "-1", "-0.5", "0", "1", "1e30", "1e999", "2147483648", "0.5"),
    *(
        "true",
        "null",
        "[]",
        "{}",
        "x",
        "",
        '"x"',
        "9" * 400,
        "[" * grammars.DEEP,
        "\ud800",
        "1_0",
        "\u0663",
    ),
)


def reads(folder):
    """Settings are numbers that training can use, or are refused."""
    given = json.loads((folder / "flags.json").read_text())
    hparams = given.get("text", "")
    if (folder / "hparams.json").exists():
        hparams = str(folder / "hparams.json")
    try:
        settings = config.load(CLASSES[given["class"]], hparams, given["set"])
    except config.ConfigError as error:
        # An inline object and an override are called by their flag.
        assert "--" in str(error) or "hparams.json" in str(error), str(error)
        raise
    if isinstance(settings, PretrainingConfig):
        # What a run makes of them.
        if settings.has_generator:
            assert settings.generator.hidden_size > 0
        phases = settings.phases()
        assert phases[0].start == 0 and phases[-1].end == settings.last_step
        assert all(phase.steps >= 0 for phase in phases)
        assert settings.max_predictions(settings.sequence_length) <= settings.sequence_length
    for name, value in _numbers(settings):
        assert math.isfinite(value) and value >= 0, (name, value)
        assert not isinstance(value, int) or value < 2**31, (name, value)
    return settings


def refuses_names_twice(folder):
    """A setting that a file has twice is refused."""
    with pytest.raises(config.ConfigError):
        config.load(PretrainingConfig, str(folder / "hparams.json"))


def _numbers(settings):
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            yield from _numbers(value)
        elif type(value) in (int, float):
            yield field.name, value


def _flags(kind, overrides=(), **more):
    return json.dumps({"class": kind, "set": list(overrides), **more}).encode()


@st.composite
def overrides(draw):
    kind = draw(st.integers(0, 1))
    names = st.one_of(
        st.sampled_from(NAMES[kind]), st.sampled_from(["x", "run", "run.x.y", "", ".", "encoder"])
    )
    equals = st.sampled_from(["=", "=", "=", "=", "", "=="])
    return kind, draw(
        st.lists(
            st.builds("{}{}{}".format, names, equals, st.sampled_from(VALUES)),
            min_size=1,
            max_size=2,
        )
    )


@given(overrides())
def test_overrides(result):
    kind, texts = result
    harness.judge(reads, {"flags.json": _flags(kind, texts)})


@st.composite
def files(draw):
    """A file of settings of the project, with mutations."""
    kind, name = draw(st.sampled_from(FILES))
    values = json.loads((ROOT / f"hparams/{name}.json").read_text())
    for setting in draw(st.lists(st.sampled_from(NAMES[kind]), max_size=3)):
        *group, key = setting.split(".")
        (values.setdefault(group[0], {}) if group else values)[key] = 1
    return kind, draw(grammars.json_files(values))


@given(files())
def test_mutated_files(result):
    kind, data = result
    harness.judge(reads, {"flags.json": _flags(kind), "hparams.json": data})


@given(files())
def test_mutated_text(result):
    kind, data = result
    text = data.decode("utf-8", "surrogatepass")
    if text.lstrip().startswith("{"):
        harness.judge(reads, {"flags.json": _flags(kind, text=text)})


@given(
    damage.damaged(
        st.sampled_from(FILES).map(lambda x: (ROOT / f"hparams/{x[1]}.json").read_bytes())
    )
)
def test_damaged_files(data):
    harness.judge(reads, {"flags.json": _flags(0), "hparams.json": data})


@given(st.sampled_from(NAMES[0]), st.sampled_from(["0.1", "1", "true"]))
def test_names_twice(name, value):
    *group, key = name.split(".")
    pair = f'"{key}": {value}'
    text = f"{{{pair}, {pair}}}"
    harness.judge(
        refuses_names_twice,
        {"hparams.json": (f'{{"{group[0]}": {text}}}' if group else text).encode()},
    )


def finds_protocols(folder):
    """A protocol gives settings that are read, for a task that it has; or it is refused."""
    hparams, task = (folder / "flags").read_text().split(" ")
    if hparams == "folder":
        hparams = str(folder)
    path = find_protocol(hparams, task)
    return config.load(FinetuningConfig, path)


PROTOCOL_NAMES = sorted(path.name for path in PROTOCOLS.iterdir() if path.is_dir())


@given(
    st.sampled_from([*PROTOCOL_NAMES, "x", "authors.json", "folder", "/", "", "_"]),
    st.sampled_from(["ncbi_disease", "gad", "x", ".."]),
)
@harness.few
def test_protocols(hparams, task):
    harness.judge(finds_protocols, {"flags": f"{hparams} {task}".encode()})


@pytest.mark.parametrize("kind", [0, 1])
def test_names(kind):
    harness.judge(names_all, {"flags.json": _flags(kind)})


def names_all(folder):
    """All settings are named, also in what --help says of them."""
    (kind,) = [json.loads((folder / "flags.json").read_text())["class"]]
    said = config.describe(CLASSES[kind])
    assert config.names(CLASSES[kind]) == NAMES[kind]
    assert all(f"  {name} = " in said for name in NAMES[kind] if name != "comment")


@pytest.mark.parametrize("case", harness.found(__file__))
def test_found(case):
    harness.rerun(case, globals())
