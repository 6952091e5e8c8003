"""Reads the page that `--format=html` writes, with Python's parser of HTML."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

VOID = ("meta", "input")


@dataclasses.dataclass
class Article:
    """A document of the page.

    Attributes:
      name: the line with its id.
      text: the text content of its element of the class "text".
      tags: the elements in the text but `mark`, in their order.
      marks: for each entity, by its number, the attributes of the last of its marks, behind which
        alone the type's name stands, and [start, text] of each of them.
    """

    name: str = ""
    text: str = ""
    tags: list[str] = dataclasses.field(default_factory=list)
    marks: dict[str, tuple[dict, list]] = dataclasses.field(default_factory=dict)

    def entities(self) -> list[tuple[str, int, int, str]]:
        """Type, start, end and text of each entity, whose marks must lie one behind another."""
        found = []
        for attributes, parts in self.marks.values():
            assert not attributes["class"].endswith(" cut")
            place = parts[0][0]
            for start, text in parts:
                assert start == place, text
                place = start + len(text)
            found.append((attributes["data-type"], parts[0][0], place))
        return [(kind, start, end, self.text[start:end]) for kind, start, end in found]


class Page(HTMLParser):
    """The page.

    Attributes:
      articles: its documents.
      elements: (tag, attributes) of every element, in their order.
      legend: the text of the element that stands before the documents.
      style: the style sheet.
    """

    def __init__(self, text: str):
        super().__init__()
        self.articles, self.elements, self.legend, self.style = [], [], "", ""
        self._open = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag == "article":
            self.articles.append(Article())
        if tag == "mark":
            own = self.articles[-1]
            before = own.marks.get(attributes["data-entity"])
            assert before is None or before[0]["class"].endswith(" cut")
            parts = [*(before[1] if before else []), [len(own.text), ""]]
            own.marks[attributes["data-entity"]] = (attributes, parts)
        elif self._inside("text"):
            self.articles[-1].tags.append(tag)
        if tag not in VOID:
            self._open.append((tag, attributes))

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag  # each ends inside the one around it

    def handle_data(self, data):
        if self._inside("text"):
            own = self.articles[-1]
            own.text += data
            for tag, attributes in self._open:
                if tag == "mark":
                    own.marks[attributes["data-entity"]][1][-1][1] += data
        elif self._inside("id"):
            self.articles[-1].name += data
        elif any(tag == "style" for tag, _ in self._open):
            self.style += data
        elif any(tag == "header" for tag, _ in self._open):
            self.legend += data

    def _inside(self, name: str) -> bool:
        return any(attributes.get("class") == name for _, attributes in self._open)


def colors(style: str) -> dict[str, dict[tuple[str, ...], str]]:
    """The colours of a style sheet for "light" and "dark".

    The keys are (variable,), (class, shade) for a background and (class, "line").
    """
    light, dark = style.split("@media screen and (prefers-color-scheme:dark)")
    found = {}
    for scheme, rules in (("light", light), ("dark", dark)):
        own = {(name,): color for name, color in re.findall(r"--(\w+):(#\w{6})", rules)}
        for name, shade, color in re.findall(r"\.(\w+)\.(s\d)\{background:(#\w{6})\}", rules):
            own[name, shade] = color
        for name, color in re.findall(
            r"\.(\w+)\{border-bottom-style:\w+;border-color:(#\w+)", rules
        ):
            own[name, "line"] = color
        found[scheme] = own
    return found
