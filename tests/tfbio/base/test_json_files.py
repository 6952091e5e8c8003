"""JSON files whose keys are the fields of a dataclass."""

import dataclasses
import json
from typing import Any

import pytest

from tfbio.base import json_files
from tfbio.base.config import require
from tfbio.base.json_files import SchemaError


@dataclasses.dataclass(frozen=True)
class Inner:
    share: float
    names: list[str]

    def __post_init__(self):
        require(0 <= self.share <= 1, f"share must be from 0 to 1, not {self.share}")


@dataclasses.dataclass(frozen=True)
class Base:
    count: int = 3
    is_new: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class File(Base):
    inner: Inner
    rows: list[Inner]
    scores: dict[str, float]
    threshold: float | None
    more: Any
    pair: tuple[int, ...] = ()


VALUE = File(
    inner=Inner(0.5, ["a"]),
    rows=[Inner(1.0, [])],
    scores={"f1": 0.25},
    threshold=None,
    more={"x": [1, None]},
    pair=(1, 2),
)


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "file.json"
    json_files.write(path, VALUE)
    assert list(json.loads(path.read_text())) == [x.name for x in dataclasses.fields(File)]
    assert json_files.read(File, path, "run it again") == VALUE


def test_a_whole_number_is_a_number_too():
    content = dataclasses.asdict(VALUE) | {"threshold": 2, "scores": {"f1": 1}, "pair": [1]}
    read = json_files.parse(File, content, "file.json", "run it again")
    assert read.threshold == 2.0 and type(read.threshold) is float
    assert type(read.scores["f1"]) is float and read.pair == (1,)


def changed(path, value):
    """The content of a file with another value at a path of keys; `...` takes the key out."""
    content = json.loads(json.dumps(dataclasses.asdict(VALUE)))
    *above, key = path
    inner = content
    for name in above:
        inner = inner[name]
    if value is ...:
        del inner[key]
    else:
        inner[key] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["count"], ..., "count is missing"),
        (["inner", "names"], ..., "inner.names is missing"),
        (["other"], 1, "other is no key of this file"),
        (["count"], 1.5, "count must be a whole number, not 1.5"),
        (["count"], True, "count must be a whole number, not true"),
        (["is_new"], 1, "is_new must be true or false, not 1"),
        (["inner"], [], "inner must be an object, not []"),
        (["inner", "share"], "x", 'inner.share must be a number, not "x"'),
        (["inner", "share"], 2, "share must be from 0 to 1, not 2.0"),
        (["inner", "names"], "ab", 'inner.names must be a list, not "ab"'),
        (["inner", "names", 0], None, "inner.names[0] must be text, not null"),
        (["rows", 0, "share"], None, "rows[0].share must be a number, not null"),
        (["scores"], [], "scores must be an object, not []"),
        (["scores", "f1"], "x", 'scores.f1 must be a number, not "x"'),
        (["threshold"], "x", 'threshold must be a number, not "x"'),
    ],
)
def test_a_wrong_key_or_value_is_named_with_the_remedy(path, value, message, tmp_path):
    file = tmp_path / "file.json"
    file.write_text(json.dumps(changed(path, value)))
    with pytest.raises(SchemaError) as caught:
        json_files.read(File, file, "run it again")
    assert str(caught.value) == f"{file}: {message}; run it again."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[]", "holds no JSON object: run"),
        (b"{", "is not valid JSON .*: run"),
        (b"\xff", r"cannot be read \(it is not text in UTF-8\): run"),
        (b'{"a":' * 100_000, r"cannot be read \(it is nested too deeply\): run"),
    ],
)
def test_what_is_no_json_object_is_said(text, message, tmp_path):
    (tmp_path / "file.json").write_bytes(text)
    with pytest.raises(SchemaError, match=f"file.json {message} it again.$"):
        json_files.read(File, tmp_path / "file.json", "run it again")


@dataclasses.dataclass(frozen=True)
class Grown(Base):
    """A file that has more keys than in an older version."""

    added = {"inner": Inner(0.5, ["a"]), "is_large": False}

    inner: Inner = Inner(1.0, [])
    is_large: bool = True


def test_a_key_that_was_added_has_the_value_of_older_versions():
    old = {"count": 1, "is_new": True}
    read = json_files.parse(Grown, old, "file.json", "run it again")
    assert read == Grown(1, True, Inner(0.5, ["a"]), False)
    new = dataclasses.asdict(Grown())
    assert json_files.parse(Grown, new, "file.json", "run it again") == Grown()
    with pytest.raises(SchemaError, match="is_large must be true or false, not 1"):
        json_files.parse(Grown, old | {"is_large": 1}, "file.json", "run it again")
    # The other keys are needed, in the groups that were added as well.
    for content, name in (({"count": 1}, "is_new"), (old | {"inner": {"share": 1}}, "inner.names")):
        with pytest.raises(SchemaError, match=f"{name} is missing"):
            json_files.parse(Grown, content, "file.json", "run it again")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(SchemaError, match="^there is no .*nothing.json: run it again.$"):
        json_files.read(File, tmp_path / "nothing.json", "run it again")


def test_a_dataclass_is_extended():
    base = Base(5, True)
    more = dataclasses.asdict(VALUE) | {"inner": VALUE.inner, "rows": VALUE.rows}
    more = {name: value for name, value in more.items() if name not in ("count", "is_new")}
    assert json_files.extended(File, base, **more) == dataclasses.replace(
        VALUE, count=5, is_new=True
    )
