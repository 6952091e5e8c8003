"""The page of coloured entities, read with Python's parser of HTML and shown in Chromium."""

import base64
import hashlib
import html
import json
import os
import random
import re
import subprocess
import weakref

import pytest

from tests import html_pages, reference
from tests.tfbio.formats.conftest import EMPTY, odd, written
from tfbio.formats.annotated_documents import Document, Entity, Passage, joined

EVIL = "\"></mark><script>document.title = 'taken'</script><img src=x onerror=alert(1)>"


def annotated(name, parts, *mentions):
    """A document of (kind, text) parts, one a line, and entities of (type, mention, score)."""
    places = [sum(len(text) + 1 for _, text in parts[:n]) for n in range(len(parts))]
    document = joined(name, [(at, *part) for at, part in zip(places, parts, strict=True)])
    entities = []
    for kind, mention, score in mentions:
        start = document.text.index(mention)
        entities.append(Entity(kind, start, start + len(mention), score))
    return document, sorted(entities, key=lambda entity: entity.start)


NESTED = annotated(
    "nested",
    [("title", "familial breast and ovarian cancer syndrome"), ("abstract", "The BRCA1 gene.")],
    ("Disease", "familial breast and ovarian cancer", 0.95),
    ("Disease", "breast", 0.3),
    ("Disease", "ovarian cancer syndrome", 0.8),
    ("Disease", "syndrome\nThe", 0.6),  # in both passages
    ("Gene", "BRCA1 gene", 0.999),
    ("Gene", "BRCA1", 0.5),
    ("Chemical", "BRCA1", None),
)
HOSTILE = annotated(
    EVIL,
    [("title", f"A {EVIL} & &amp; 'b'"), ("heading", "</h3></article>"), ("", " \n x ")],
    ("Gene", EVIL, 0.7),
    ('T"<i>&ype\n', "</h3>", 0.2),
    ("Gene", "x", 0.1),
)
# Arabic, Hebrew, marks that turn the text around and are never closed, astral characters.
TURNED = annotated(
    "42",
    [
        ("title", "\u0625\u0645\u0627\u062a\u064a\u0646\u064a\u0628 (Imatinib) \u064a\u062b\u0628"),
        ("abstract", "\u05d0\u05e1\u05e4 \u202easpirin \u200f\u2067x"),
        ("abstract", "\U0001d6fc-MSH\x85\x0c\x1b\ufeff\U0001f9ec\t\te\u0301"),
    ],
    ("Chemical", "Imatinib", 0.99),
    ("Chemical", "aspirin", 0.9),
    ("Chemical", "\U0001d6fc-MSH", 0.5),
    ("Gene", "\U0001f9ec", 1.0),
)
LONG = annotated("long", [("", "A" * 500 + " b")], ("Type" * 40, "A" * 300, 0.5))
CASES = [NESTED, HOSTILE, TURNED, odd(), EMPTY, LONG]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return written(tmp_path_factory.mktemp("html") / "page.html", "html", CASES)


def check(page, cases):
    """The page has the texts, and each entity where it is, with its type."""
    for own, (document, entities) in zip(page.articles, cases, strict=True):
        assert own.text == document.text
        expected = [(x.type, x.start, x.end, document.text[x.start : x.end]) for x in entities]
        assert sorted(own.entities()) == sorted(expected), document.id


def test_texts_and_entities_are_those_of_the_documents(page, tmp_path, ncbi_gold):
    check(html_pages.Page(page), CASES)
    check(html_pages.Page(written(tmp_path / "ncbi.html", "html", ncbi_gold)), ncbi_gold)


def test_entities_may_nest_and_cross_in_any_way(tmp_path):
    chance, cases = random.Random(0), []
    for number in range(300):
        length = chance.randrange(1, 30)
        text = "".join(chance.choice("ab \n\r<&\u05d0\U0001d6fc") for _ in range(length))
        edges = sorted(
            chance.sample(range(length + 1), chance.randrange(2 * min(3, length // 2 + 1)))
        )
        passages = [
            Passage(a, b, chance.choice(["", "title", "heading"]))
            for a, b in zip(edges[::2], edges[1::2], strict=False)
        ]
        spans = [sorted(chance.sample(range(length + 1), 2)) for _ in range(chance.randrange(6))]
        entities = [Entity(chance.choice("XYZ"), *span, chance.random()) for span in spans]
        cases.append((Document(str(number), text, tuple(passages)), entities))
    for own, (document, entities) in zip(
        html_pages.Page(written(tmp_path / "page.html", "html", cases)).articles, cases, strict=True
    ):
        assert own.text == document.text
        for number, entity in enumerate(entities, start=1):
            attributes, parts = own.marks[str(number)]
            assert attributes["data-type"] == entity.type, number
            assert not attributes["class"].endswith(" cut"), number
            covered = [at for start, text in parts for at in range(start, start + len(text))]
            assert covered == [*range(entity.start, entity.end)], (document, entity)


def test_characters_that_html_lacks_are_replaced_one_by_one(tmp_path):
    text = "a\0b\ud800c\r\r\nd"
    document = Document("x", text, (Passage(0, len(text), ""),))
    page = written(tmp_path / "a.html", "html", [(document, [])])
    assert html_pages.Page(page).articles[0].text == "a\ufffdb\ufffdc\r\r\nd"
    assert "\r" not in page  # which a browser would take for a line feed


def test_an_inner_entity_s_title_tells_of_those_around_it(page):
    marks = html_pages.Page(page).articles[0].marks
    titles = [attributes["title"] for attributes, _ in marks.values()]
    outer = "Disease, score 0.9500, characters 0 to 34"
    assert titles[0] == outer
    assert titles[1] == f"Disease, score 0.3000, characters 9 to 15\n{outer}"
    gene = "Gene, score 0.9990, characters 48 to 58"
    assert titles[-1].split("\n") == [
        "Chemical, characters 48 to 53",
        "Gene, score 0.5000, characters 48 to 53",
        gene,
    ]
    # "ovarian cancer syndrome" is cut where the entity before it ends.
    assert [text for _, text in marks["3"][1]] == ["ovarian cancer", " syndrome"]
    shades = [attributes["class"].split()[1] for attributes, _ in marks.values()]
    assert shades == ["s3", "s0", "s2", "s1", "s4", "s1", "s4"]


def test_headings_are_titles_and_ids_are_linked_where_they_are_pubmed_s(tmp_path):
    title, plain = [("title", "A"), ("heading", "B"), ("", "C")], [("", "A")]
    cases = [
        (annotated("9949209", title), "https://pubmed.ncbi.nlm.nih.gov/9949209/"),
        (annotated("9949209", plain), None),  # 9949209.txt
        (annotated("PMC2994229", title), None),
        (annotated("123456789", title), None),
        (annotated("\u0661", title), None),
        (annotated("javascript:alert(1)", title), None),
    ]
    page = html_pages.Page(written(tmp_path / "a.html", "html", [own for own, _ in cases]))
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert links == [link for _, link in cases if link]
    assert page.articles[0].tags == ["h2", "h3", "p"] and page.articles[1].tags == ["p"]
    assert page.articles[0].name == "PMID 9949209: 0 entities"
    # Without a title the id is the heading, so that each document has one.
    assert [tag for tag, own in page.elements if own.get("class") == "id"][:2] == ["p", "h2"]
    directions = {
        own.get("dir") for tag, own in page.elements if tag in ("h3", "p") and not own.get("class")
    }
    assert directions == {"auto"}


def test_the_page_stands_alone(page):
    read = html_pages.Page(page)
    links = {
        value
        for _, attributes in read.elements
        for name, value in attributes.items()
        if name in ("href", "src", "srcset", "data", "action", "style", "background", "poster")
    }
    assert links == {"https://pubmed.ncbi.nlm.nih.gov/42/"}
    names = {name for _, attributes in read.elements for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    assert not {"script", "img", "link", "iframe", "object"} & {tag for tag, _ in read.elements}
    assert not re.search(r"url\(|@import|@font-face|https?:|</", read.style)
    metas = [attributes for tag, attributes in read.elements if tag == "meta"]
    (policy,) = (x["content"] for x in metas if x.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(read.style.encode()).digest()).decode()
    assert policy.split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert {"charset": "utf-8"} in metas
    assert "width=device-width, initial-scale=1" in [x.get("content") for x in metas]


def test_the_legend_counts_entities_by_type(page, tmp_path):
    read = html_pages.Page(page)
    lines = [line.split() for line in read.legend.strip().split("\n")]
    assert " ".join(lines[0]) == "6 documents, 18 entities"
    counts = {
        line[0]: line[-1] for line in lines if line and line[0] in ("Chemical", "Disease", "Gene")
    }
    assert counts == {"Chemical": "7", "Disease": "4", "Gene": "5"}
    assert [*counts] == ["Chemical", "Gene", "Disease"]  # by their numbers
    boxes = [own["id"] for tag, own in read.elements if tag == "input"]
    classes = {own["class"].split()[0] for tag, own in read.elements if tag == "mark"}
    assert sorted(classes) == sorted(box for box in boxes if re.fullmatch(r"t\d+", box))
    # A type has one colour, whichever comes first in the text.
    swapped = annotated("1", [("", "a b")], ("Gene", "a", 1.0), ("Chemical", "b", 1.0))
    pages = [written(tmp_path / "a.html", "html", [own]) for own in (TURNED, swapped)]
    found = []
    for text in pages:
        own = html_pages.Page(text)
        colors = html_pages.colors(own.style)["light"]
        marks = (attributes for article in own.articles for attributes, _ in article.marks.values())
        found.append({x["data-type"]: colors[x["class"].split()[0], "s4"] for x in marks})
    assert found[0] == found[1] and len(set(found[0].values())) == 2


def test_documents_are_not_held_in_memory(tmp_path):
    alive = []

    def documents():
        for number in range(20):
            document = Document(str(number), "A gene.", (Passage(0, 7, ""),))
            alive.append(weakref.ref(document))
            yield document, [Entity("X", 2, 6, 0.5)]
            del document
            assert sum(one() is not None for one in alive) <= 1, number

    text = written(tmp_path / "a.html", "html", documents())
    assert len(html_pages.Page(text).articles) == 20
    assert os.listdir(tmp_path) == ["a.html"]


def test_an_earlier_page_stays_where_there_is_no_room_for_a_new_one(tmp_path, largest_file):
    (tmp_path / "a.html").write_text("old")
    document = Document("1", "x" * 100_000, (Passage(0, 100_000, ""),))
    with largest_file(50_000), pytest.raises(OSError) as error:
        written(tmp_path / "a.html", "html", [(document, [])])
    assert error.value.filename == str(tmp_path / "a.html")
    assert os.listdir(tmp_path) == ["a.html"] and (tmp_path / "a.html").read_text() == "old"


# Looks at the page in a frame as wide as a phone.
PROBE = """<!DOCTYPE html><meta charset="utf-8">
<iframe id="frame" src="page.html" style="width:360px;height:800px;border:0"></iframe>
<pre id="out"></pre>
<script>
onload = () => {
  const page = frame.contentDocument, view = frame.contentWindow, found = {};
  const all = (name) => [...page.querySelectorAll(name)];
  const look = (mark) => [
    view.getComputedStyle(mark).backgroundColor,
    view.getComputedStyle(mark, "::after").content];
  found.title = page.title;
  found.texts = all(".text").map((text) => text.textContent);
  // Those out of sight have no layout else.
  all("article").forEach((article) => article.style.contentVisibility = "visible");
  found.width = page.documentElement.scrollWidth;
  found.directions = all("article:nth-of-type(3) .text > *").map(
    (block) => view.getComputedStyle(block).direction);
  const mark = page.querySelector("mark"), box = page.getElementById(mark.classList[0]);
  const states = [look(mark)];
  for (const input of [box, box, page.getElementById("scores"), page.getElementById("names")]) {
    input.click();
    states.push(look(mark));
  }
  found.states = states;
  const script = page.createElement("script");
  script.textContent = "window.ran = true";
  page.body.append(script);
  found.ran = Boolean(view.ran);
  out.textContent = JSON.stringify(found);
};
</script>"""


def test_a_browser_shows_it(page, tmp_path):
    browser = reference.browser()
    (tmp_path / "page.html").write_bytes(page.encode())
    (tmp_path / "probe.html").write_text(PROBE)
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
        + [
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            f"file://{tmp_path}/probe.html",
        ],
        capture_output=True,
        timeout=120,
    )
    dumped = re.search(r'<pre id="out">(.+?)</pre>', done.stdout.decode(), re.DOTALL)
    assert dumped, done.stderr.decode()[-2000:]
    found = json.loads(html.unescape(dumped[1]))
    assert found["title"] == "6 documents, 18 entities"
    assert found["texts"] == [document.text for document, _ in CASES]
    assert found["width"] <= 360
    assert found["directions"] == ["rtl", "rtl", "ltr"]
    # The first entity has a type, which is switched off and on; then its score, then that alone.
    sheet = html_pages.colors(html_pages.Page(page).style)["light"]
    shown = f"rgb{tuple(bytes.fromhex(sheet['t0', 's3'][1:]))}"
    assert found["states"] == [
        [shown, '"Disease"'],
        ["rgba(0, 0, 0, 0)", "none"],
        [shown, '"Disease"'],
        [shown, '"Disease 0.95"'],
        [shown, '"0.95"'],
    ]
    assert not found["ran"]
