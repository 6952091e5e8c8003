"""Outside of `tfbio/task_types` no module asks which task type it has.

The test reads the syntax trees. A type is told by its name as a literal, by `isinstance` and the
like on a type or on the examples of one, or by a flag of the types.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfbio.formats.task_examples import Example
from tfbio.task_types import types
from tfbio.task_types.task_type import TaskType

ROOT = Path(__file__).resolve().parents[1]
ROOM = ROOT / "tfbio" / "task_types"
MODULES = [
    path
    for folder in ("tfbio", "data_prep")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ROOM not in path.parents
] + sorted(ROOT.glob("run_*.py"))


def subclasses(base: type) -> set[type]:
    """Returns a class with all that are derived from it."""
    return {base}.union(*map(subclasses, base.__subclasses__()))


NAMES = set(types.TYPES)
CLASSES = {each.__name__ for base in (TaskType, Example) for each in subclasses(base)}
FLAGS = {
    name
    for each in subclasses(TaskType)
    for name, value in vars(each).items()
    if isinstance(value, bool)
}


def name_of(node: ast.expr) -> str:
    """Returns the last part of a dotted name; "" for another expression."""
    return getattr(node, "attr", getattr(node, "id", ""))


def classes_in(node: ast.AST) -> set[str]:
    """Returns the names of types and of examples that an expression or a pattern mentions."""
    return {name_of(each) for each in ast.walk(node)} & CLASSES


def told_by(node: ast.AST) -> list[str]:
    """Returns the literals, classes and flags by which a node tells one type from another."""
    match node:
        case ast.Constant(value=str(value)):
            return [value] if value in NAMES | FLAGS else []
        case ast.Attribute(attr=name):
            return [f".{name}"] if name in FLAGS else []
        case ast.Call(func=function, args=[_, which]):
            asks = name_of(function) in ("isinstance", "issubclass")
            return sorted(classes_in(which)) if asks else []
        case ast.Compare(left=left, comparators=others):
            return sorted(CLASSES & {name_of(each) for each in (left, *others)})
        case ast.MatchClass(cls=which):
            return sorted(classes_in(which))
    return []


def violations(source: str, knows_flags: bool = False) -> Iterator[str]:
    """Yields the line, and by what it tells one type from another, for each such place.

    Args:
      source: of a module.
      knows_flags: whether a name as a flag of the types has is allowed.
    """
    tree = ast.parse(source)
    # Only a whole literal is a type's name, and not a part of a message.
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        for name in told_by(node) if id(node) not in parts else ():
            if not (knows_flags and name.lstrip(".") in FLAGS):
                yield f"line {node.lineno}: {name}"


def violations_in(path: Path) -> list[str]:
    """Returns the violations in a module.

    The room of models stands below that of the types and cannot import them: its `of_tokens` is
    the shape of a model's own outputs.
    """
    return list(violations(path.read_text(), ROOT / "tfbio" / "models" in path.parents))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_asks_which_type_it_has(path):
    assert violations_in(path) == []


def test_every_type_has_a_name_examples_and_flags_to_look_for():
    assert len(NAMES) == len(types.TYPES) >= 5
    assert {"Tagging", "Classification", "TaggedSentence", "LabelledText", "Question"} <= CLASSES
    assert "of_tokens" in FLAGS


@pytest.mark.parametrize(
    "source",
    [
        *(f"if task.task_type == {name!r}:\n    pass\n" for name in sorted(NAMES)),
        "kinds = {'regression': 1}\n",
        "def f(x: Literal['tagging']): ...\n",
        "if isinstance(example, TaggedSentence):\n    pass\n",
        "if isinstance(example, (str, task_examples.Question)):\n    pass\n",
        "if isinstance(example, str | LabelledText):\n    pass\n",
        "if issubclass(task_type, tagging.Tagging):\n    pass\n",
        "if type(task_type) is MultiLabel:\n    pass\n",
        "match example:\n    case TaggedSentence(words=words):\n        pass\n",
        "count = 1 if task_type.of_tokens else 2\n",
        "shares = task_type.has_probabilities and 1\n",
        "count = getattr(task_type, 'of_tokens')\n",
    ],
)
def test_a_planted_question_is_seen(source):
    assert len(list(violations(f"import os\n\n\n{source}"))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "raise ValueError('for tasks of regression, and this is one of tagging')\n",
        "print(f'{count} {name}tagging')\n",
        "label = LabelledText('1', 'text', 'yes')\n",
        "if isinstance(example.label, float):\n    pass\n",
        "def read(path) -> list[Question]: ...\n",
        "task_type = types.TYPES[name]\n",
    ],
)
def test_other_words_and_uses_are_allowed(source):
    assert list(violations(source)) == []


def test_a_module_is_read_from_its_file(tmp_path):
    planted = tmp_path / "planted.py"
    planted.write_text("import os\n\nif task_type.name == 'tagging':\n    pass\n")
    assert violations_in(planted) == ["line 3: tagging"]
