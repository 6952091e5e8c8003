"""The report as one page: complete, escaped, and with nothing from elsewhere."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from tests.html_pages import VOID
from tfbio.reporting import html_report
from tfbio.reporting.drawing import Drawing
from tfbio.reporting.tables import Table

EVIL = '<script>alert(1)</script> & "x" \u202e\U0001f9ec'
SVG = '<svg xmlns="http://www.w3.org/2000/svg"/>'
TABLE = Table(
    f"BLURB {EVIL}",
    ["model", EVIL],
    [["BioBERT", "92.85"], ["trivial", "0.00"], [EVIL, "93.10"]],
    2,
    ["`out/model`, at step 2.", EVIL],
)
FIGURES = [Drawing("report", f"Scores {EVIL}", SVG, 3.5), Drawing("errors_x", "Errors", SVG, 7.2)]


class Page(HTMLParser):
    """A page: its elements, the texts in each kind of them, and its rows of cells."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], {}, []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in (*VOID, "img"):
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in self.open:
            self.texts[tag][-1] += data


@pytest.fixture(scope="module")
def page():
    return Page(html_report.text(f"Report {EVIL}", [TABLE, *FIGURES, ("more", [TABLE])]))


def test_all_words_are_texts(page):
    assert page.texts["h1"] == page.texts["title"] == [f"Report {EVIL}"]
    assert page.texts["h2"] == [TABLE.title] * 2
    assert page.texts["th"] == TABLE.header * 2
    assert page.texts["td"] == [cell for row in TABLE.rows for cell in row] * 2
    assert page.texts["li"] == ["out/model, at step 2.", EVIL] * 2
    assert page.texts["code"] == ["out/model"] * 2
    assert page.texts["figcaption"] == [f"Scores {EVIL} (report.pdf)", "Errors (errors_x.pdf)"]
    assert page.texts["summary"] == ["more"]
    assert "script" not in {tag for tag, _ in page.elements}
    ours = [own.get("class") for tag, own in page.elements if tag == "tr"]
    assert ours == [None, None, None, "ours first"] * 2


def test_nothing_comes_from_elsewhere(page):
    for tag, attributes in page.elements:
        assert not {"href", "srcset", "style", "background"} & attributes.keys(), tag
        if source := attributes.get("src"):
            kind, _, content = source.partition(",")
            assert kind == "data:image/svg+xml;base64"
            assert base64.b64decode(content).decode() == SVG
    images = [own for tag, own in page.elements if tag == "img"]
    assert [(own["width"], own["alt"]) for own in images] == [
        ("336", f"Scores {EVIL}"),
        ("691", "Errors"),
    ]
    (style,) = page.texts["style"]
    assert not re.search(r"url\(|@import|https?:", style)
    (policy,) = (own["content"] for _, own in page.elements if "http-equiv" in own)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )


def test_it_is_for_phones_and_for_the_dark(page):
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in (
        page.elements
    )
    # What is broader than a phone can be moved sideways, also with the keys.
    wide = [own for _, own in page.elements if own.get("class") == "wide"]
    assert len(wide) == 4 and all(own["tabindex"] == "0" and own["aria-label"] for own in wide)
    (style,) = page.texts["style"]
    assert "@media screen and (prefers-color-scheme:dark){\n:root{--page:#15171a" in style
