"""Mutations that know the grammar: of XML, of JSON, and of lines with columns."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence

from hypothesis import strategies as st
from lxml import etree

from tests.fuzz import damage

MANY = 70_000  # more than 16 bits count
DEEP = 100_000  # more than any parser's stack

# What lxml cannot hold as it is: it stands for a piece of the file's text.
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
    """An element with one to three mutations in it, as text.

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


def _mutate_xml(draw, root, ids, pieces, well_formed) -> None:
    elements = [x for x in root.iter() if isinstance(x.tag, str)]
    inner = [x for x in elements if x is not root]
    if not inner:
        return
    kinds = ["drop", "repeat", "swap", "nest", "unwrap", "rename", "text", "tail", "attribute"]
    if ids:
        kinds += ["id", "id"]
    if not well_formed:
        kinds += ["piece", "piece", "many"]
    kind = draw(st.sampled_from(kinds))
    element = draw(st.sampled_from(inner))
    parent = element.getparent()
    odd = st.sampled_from([x for x in damage.ODD_TEXTS if "\0" not in x])
    if kind == "drop":
        parent.remove(element)
    elif kind == "repeat":
        parent.insert(parent.index(element), copy.deepcopy(element))
    elif kind == "swap":
        other = draw(st.sampled_from(inner))
        element.tag, other.tag = other.tag, element.tag
    elif kind == "nest":
        new = etree.Element(element.tag, element.attrib)
        parent.replace(element, new)
        new.append(element)
    elif kind == "unwrap":
        for child in list(element):
            parent.insert(parent.index(element), child)
    elif kind == "rename":
        element.tag = draw(st.sampled_from(sorted({x.tag for x in elements} | {"b", "x"})))
    elif kind == "text":
        element.text = draw(odd)
    elif kind == "tail":
        element.tail = draw(odd)
    elif kind == "attribute":
        if element.attrib and draw(st.booleans()):
            name = draw(st.sampled_from(sorted(element.attrib)))
            del element.attrib[name]
        else:
            element.set(
                draw(st.sampled_from(["Version", "Type", "id", *element.attrib])), draw(odd)
            )
    elif kind == "id":
        named = [x for x in elements if x.tag in ids] or inner
        draw(st.sampled_from(named)).text = draw(odd)
    elif kind == "piece":
        hole = _HOLE.format(len(pieces))
        pieces[hole] = draw(st.sampled_from(XML_PIECES))
        if draw(st.booleans()):
            element.text = (element.text or "") + hole
        else:
            element.tail = hole + (element.tail or "")
    else:
        text = etree.tostring(element, encoding="unicode", with_tail=False)
        if len(text) <= 100:
            hole = _HOLE.format(len(pieces))
            pieces[hole] = text * MANY
            element.tail = hole + (element.tail or "")


def with_prolog(contents: st.SearchStrategy) -> st.SearchStrategy:
    """Files of XML with a declaration or a DOCTYPE that few have."""
    prologs = ["", *DOCTYPES, '<?xml version="1.1"?>', '<?xml version="1.0" encoding="klingon"?>']
    prologs += ['<?xml version="1.0" encoding="utf-16"?>', "<!-- -->" * 10, " ", "\n" * 100]
    return st.builds(
        lambda prolog, data: prolog.encode() + data, st.sampled_from(prologs), contents
    )


def small(element: etree._Element, most: int = 2) -> etree._Element:
    """A copy of an element in which no element has more than so many children of one tag."""
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
    """A JSON value with one to three mutations in it, as a file.

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
    """(container, key) of each value within."""
    found, left = [], [value]
    while left:
        container = left.pop()
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, inner in items:
            if key in keep:
                continue
            found.append((container, key))
            if isinstance(inner, (dict, list)):
                left.append(inner)
    return found


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
    """Lines of columns with one to four mutations in them, as a file.

    Args:
      draw: Hypothesis's.
      seed: the lines.
      cells: what may come in a cell's place, beside odd texts.
      separator: between columns.
    """
    rows = [line.split(separator) for line in seed.split("\n")]
    values = st.sampled_from([*cells, *damage.ODD_TEXTS] + ["\ud800"])
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(
            st.sampled_from(
                [
                    "drop",
                    "repeat",
                    "swap",
                    "blank",
                    "cell",
                    "cell",
                    "cell",
                    "less",
                    "more",
                    "columns",
                    "join",
                ]
            )
        )
        at = draw(st.integers(0, len(rows) - 1)) if rows else 0
        if not rows or kind == "blank":
            rows.insert(at, [draw(st.sampled_from(["", " ", "\t", "#", "-DOCSTART-", "\x0c"]))])
            continue
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
    text = "\n".join(separator.join(row) for row in rows)
    return text.encode("utf-8", "surrogatepass")


def numbers_changed(seed: str) -> st.SearchStrategy:
    """A text in which one of its numbers is another."""
    places = [match.span() for match in re.finditer(r"\d+", seed)]
    others = st.sampled_from(["0", "1", "-1", "900", "2000000000", "1e5", "", "9" * 30, "\u0663"])
    return st.builds(
        lambda span, other: (seed[: span[0]] + other + seed[span[1] :]).encode(),
        st.sampled_from(places),
        others,
    )


def words_changed(seed: str, words: Sequence[str]) -> st.SearchStrategy:
    """A text in which one word, with its punctuation within, is another of these or of its own."""
    places = [match.span() for match in re.finditer(r"[\w.:@$&/-]+", seed)]
    others = st.sampled_from([*words, *sorted({seed[slice(*span)] for span in places})])
    return st.builds(
        lambda span, other: (seed[: span[0]] + other + seed[span[1] :]).encode(),
        st.sampled_from(places),
        others,
    )
