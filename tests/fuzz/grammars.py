"""Mutations that know the grammar: of XML, of JSON, and of lines with columns."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st
from lxml import etree

from tests.fuzz import damage

MANY = 70_000  # more than 16 bits count
DEEP = 100_000  # more than any parser's stack

# Stands for a piece of the file's text that lxml cannot hold as it is.
_HOLE = "\ue000{}\ue001"
XML_PIECES = (
    *("&nbsp;", "&eacute;", "&undeclared;", "&#x2028;", "&#160;", "&amp;lt;", "&#0;", "&#xD800;"),
    *("<![CDATA[<p>]]>", "<!-- - -->", "<?pi x?>", "<i>", "</i>", "]]>", "&", "<", "\0"),
    "<i>" * 3_000 + "</i>" * 3_000,
)
DOCTYPES = (
    '<!DOCTYPE x SYSTEM "x.dtd">',
    "<!DOCTYPE x []>",
    '<!DOCTYPE x [<!ENTITY nbsp "&#160;">]>',
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>',
    '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
    '<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>',
    '<!DOCTYPE x [<!ATTLIST PMID Version CDATA "7">]>',
)


# --- XML -----------------------------------------------------------------------------------------


@st.composite
def xml_elements(
    draw: st.DrawFn, seed: etree._Element, ids: Sequence[str] = (), well_formed: bool = False
) -> bytes:
    """Draws an element with one to three mutations in it, as text.

    Args:
      draw: Hypothesis's.
      seed: the element.
      ids: tags whose text is an identifier, which becomes odd more often than others.
      well_formed: whether the text must be well-formed XML without entities.
    """
    root = copy.deepcopy(seed)
    pieces: dict[str, str] = {}
    for _ in range(draw(st.integers(1, 3))):
        _mutate_xml(draw, root, ids, pieces, well_formed)
    data = etree.tostring(root, encoding="unicode", with_tail=False)
    for hole, piece in pieces.items():
        data = data.replace(hole, piece)
    return data.encode("utf-8", "surrogatepass")


class _Place(NamedTuple):
    """Says where to mutate XML.

    Attributes:
      draw: Hypothesis's.
      element: the element to mutate; not the root.
      elements: all elements, the root first.
      ids: tags whose text is an identifier.
      pieces: text that lxml cannot hold, by the hole that stands for it.
    """

    draw: st.DrawFn
    element: etree._Element
    elements: Sequence[etree._Element]
    ids: Sequence[str]
    pieces: dict[str, str]

    def inner(self) -> Sequence[etree._Element]:
        """Returns the elements but for the root."""
        return self.elements[1:]

    def odd(self) -> str:
        """Draws an odd text."""
        return self.draw(st.sampled_from([x for x in damage.ODD_TEXTS if "\0" not in x]))

    def hole(self, piece: str) -> str:
        """Returns what stands for a piece in lxml's text."""
        hole = _HOLE.format(len(self.pieces))
        self.pieces[hole] = piece
        return hole


def _drop(at: _Place) -> None:
    at.element.getparent().remove(at.element)


def _repeat(at: _Place) -> None:
    parent = at.element.getparent()
    parent.insert(parent.index(at.element), copy.deepcopy(at.element))


def _swap(at: _Place) -> None:
    other = at.draw(st.sampled_from(at.inner()))
    at.element.tag, other.tag = other.tag, at.element.tag


def _nest(at: _Place) -> None:
    new = etree.Element(at.element.tag, at.element.attrib)
    at.element.getparent().replace(at.element, new)
    new.append(at.element)


def _unwrap(at: _Place) -> None:
    parent = at.element.getparent()
    for child in list(at.element):
        parent.insert(parent.index(at.element), child)


def _rename(at: _Place) -> None:
    at.element.tag = at.draw(st.sampled_from(sorted({x.tag for x in at.elements} | {"b", "x"})))


def _change_text(at: _Place) -> None:
    at.element.text = at.odd()


def _change_tail(at: _Place) -> None:
    at.element.tail = at.odd()


def _change_attribute(at: _Place) -> None:
    if at.element.attrib and at.draw(st.booleans()):
        del at.element.attrib[at.draw(st.sampled_from(sorted(at.element.attrib)))]
    else:
        names = ["Version", "Type", "id", *at.element.attrib]
        at.element.set(at.draw(st.sampled_from(names)), at.odd())


def _change_id(at: _Place) -> None:
    named = [x for x in at.elements if x.tag in at.ids] or at.inner()
    at.draw(st.sampled_from(named)).text = at.odd()


def _insert_piece(at: _Place) -> None:
    hole = at.hole(at.draw(st.sampled_from(XML_PIECES)))
    if at.draw(st.booleans()):
        at.element.text = (at.element.text or "") + hole
    else:
        at.element.tail = hole + (at.element.tail or "")


def _repeat_many_times(at: _Place) -> None:
    text = etree.tostring(at.element, encoding="unicode", with_tail=False)
    if len(text) <= 100:
        at.element.tail = at.hole(text * MANY) + (at.element.tail or "")


_OF_TREES = [_drop, _repeat, _swap, _nest, _unwrap, _rename]
_OF_TREES += [_change_text, _change_tail, _change_attribute]


def _mutate_xml(draw, root, ids, pieces, well_formed) -> None:
    elements = [x for x in root.iter() if isinstance(x.tag, str)]
    if not elements[1:]:
        return
    mutations = list(_OF_TREES)
    if ids:
        mutations += [_change_id] * 2
    if not well_formed:
        mutations += [_insert_piece, _insert_piece, _repeat_many_times]
    mutate = draw(st.sampled_from(mutations))
    mutate(_Place(draw, draw(st.sampled_from(elements[1:])), elements, ids, pieces))


def with_prolog(contents: st.SearchStrategy) -> st.SearchStrategy:
    """Draws files of XML with a declaration or a DOCTYPE that few have."""
    prologs = ["", *DOCTYPES, '<?xml version="1.1"?>', '<?xml version="1.0" encoding="klingon"?>']
    prologs += ['<?xml version="1.0" encoding="utf-16"?>', "<!-- -->" * 10, " ", "\n" * 100]
    return st.builds(
        lambda prolog, data: prolog.encode() + data, st.sampled_from(prologs), contents
    )


def small(element: etree._Element, most: int = 2) -> etree._Element:
    """Copies an element, so that no element in it has more than `most` children of one tag."""
    copied = copy.deepcopy(element)
    for parent in list(copied.iter()):
        seen: dict[object, int] = {}
        for child in list(parent):
            seen[child.tag] = seen.get(child.tag, 0) + 1
            if seen[child.tag] > most or not isinstance(child.tag, str):
                parent.remove(child)
    copied.tail = None
    return copied


# --- JSON ----------------------------------------------------------------------------------------

JSON_PIECES = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-1", "0", "1", "1e30", "2000000000", "9" * 400),
    *(
        '""',
        '"x"',
        '"\\ud800"',
        '"\\u0000"',
        "null",
        "true",
        "[]",
        "{}",
        "[[]]",
        '{"x": 1}',
        "[1, 2]",
    ),
    *(
        '["x"]',
        f'"{"x" * 400}"',
        '{"a": 1, "a": 2}',
        "0.5",
        '"1"',
        "'x'",
        "undefined",
        '"\n"',
        "[1,]",
    ),
)
DEEP_PIECES = ("[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP)


@st.composite
def json_files(draw: st.DrawFn, seed: object, deep: bool = True, keep: Sequence[str] = ()) -> bytes:
    """Draws a JSON value with one to three mutations in it, as a file.

    Args:
      draw: Hypothesis's.
      seed: the value.
      deep: whether values may be nested as deep as `DEEP`.
      keep: keys that stay as they are, with all in them.
    """
    value = copy.deepcopy(seed)
    pieces: dict[str, str] = {}
    for _ in range(draw(st.integers(1, 3))):
        value = _mutate_json(draw, value, pieces, deep, keep)
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    for hole, piece in pieces.items():
        escaped = json.dumps(hole)[1:-1]
        for shown in (f'"{hole}": 0', f'"{escaped}": 0', f'"{hole}"', f'"{escaped}"'):
            text = text.replace(shown, piece)
    return text.encode("utf-8", "surrogatepass")


def _places(value: object, keep: Sequence[str]) -> list[tuple[object, object]]:
    """Returns the container and key of each value within a value."""
    places, left = [], [value]
    while left:
        container = left.pop()
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, inner in items:
            if key in keep:
                continue
            places.append((container, key))
            if isinstance(inner, (dict, list)):
                left.append(inner)
    return places


def _mutate_json(draw, value, pieces, deep, keep) -> object:
    hole = _HOLE.format(len(pieces))
    places = _places(value, keep) if isinstance(value, (dict, list)) else []
    kind = draw(st.sampled_from(["piece", "type", "type", "drop", "twice", "key", "nest", "whole"]))
    if not places or kind == "whole":
        pieces[hole] = draw(st.sampled_from(JSON_PIECES + DEEP_PIECES * deep))
        return hole
    container, key = draw(st.sampled_from(places))
    if kind == "type":
        # Lists and objects are what readers go into.
        inner = [x for x in places if isinstance(x[0][x[1]], (dict, list))]
        container, key = draw(st.sampled_from(inner or places))
        container[key] = draw(st.sampled_from([1, 0.5, True, None, "x", [], {}, [1], {"x": 1}]))
    elif kind == "piece":
        pieces[hole] = draw(st.sampled_from(JSON_PIECES + DEEP_PIECES[:1] * deep))
        container[key] = hole
    elif kind == "drop":
        del container[key]
    elif kind == "twice" and isinstance(container, dict):
        pieces[hole] = f"{json.dumps(key)}: {draw(st.sampled_from(JSON_PIECES))}"
        container[hole] = 0
    elif kind == "twice":
        container.insert(key, copy.deepcopy(container[key]))
    elif kind == "key" and isinstance(container, dict):
        container[draw(st.sampled_from(damage.ODD_TEXTS + ("\ud800",)))] = container.pop(key)
    else:
        container[key] = [container[key]] if draw(st.booleans()) else {"x": container[key]}
    return value


# --- Lines with columns --------------------------------------------------------------------------


@st.composite
def lines(draw: st.DrawFn, seed: str, cells: Sequence[str] = (), separator: str = "\t") -> bytes:
    """Draws lines of columns with one to four mutations in them, as a file.

    Args:
      draw: Hypothesis's.
      seed: the lines.
      cells: what may come in a cell's place, beside odd texts.
      separator: between columns.
    """
    rows = [line.split(separator) for line in seed.split("\n")]
    values = st.sampled_from([*cells, *damage.ODD_TEXTS] + ["\ud800"])
    for _ in range(draw(st.integers(1, 4))):
        _mutate_rows(draw, rows, values)
    text = "\n".join(separator.join(row) for row in rows)
    return text.encode("utf-8", "surrogatepass")


def _mutate_rows(draw, rows, values) -> None:
    kinds = ["drop", "repeat", "swap", "blank", *["cell"] * 3, "less", "more", "columns", "join"]
    kind = draw(st.sampled_from(kinds))
    at = draw(st.integers(0, len(rows) - 1)) if rows else 0
    if not rows or kind == "blank":
        rows.insert(at, [draw(st.sampled_from(["", " ", "\t", "#", "-DOCSTART-", "\x0c"]))])
        return
    row = rows[at] = list(rows[at])
    column = draw(st.integers(0, len(row) - 1)) if row else 0
    if kind == "drop":
        del rows[at]
    elif kind == "repeat":
        rows.insert(at, row)
    elif kind == "swap":
        other = draw(st.integers(0, len(rows) - 1))
        rows[at], rows[other] = rows[other], rows[at]
    elif kind == "cell" and row:
        row[column] = draw(values)
    elif kind == "less" and row:
        del row[column]
    elif kind == "more":
        row.insert(column, draw(values))
    elif kind == "columns":
        row.reverse()
    elif at + 1 < len(rows):
        row += rows.pop(at + 1)


def numbers_changed(seed: str) -> st.SearchStrategy:
    """Draws a text in which one of its numbers is another."""
    places = [match.span() for match in re.finditer(r"\d+", seed)]
    others = st.sampled_from(["0", "1", "-1", "900", "2000000000", "1e5", "", "9" * 30, "\u0663"])
    return st.builds(
        lambda span, other: (seed[: span[0]] + other + seed[span[1] :]).encode(),
        st.sampled_from(places),
        others,
    )


def words_changed(seed: str, words: Sequence[str]) -> st.SearchStrategy:
    """Draws a text in which a word, with the punctuation in it, is another, or one of `words`."""
    places = [match.span() for match in re.finditer(r"[\w.:@$&/-]+", seed)]
    others = st.sampled_from([*words, *sorted({seed[slice(*span)] for span in places})])
    return st.builds(
        lambda span, other: (seed[: span[0]] + other + seed[span[1] :]).encode(),
        st.sampled_from(places),
        others,
    )
