"""Names real PMC files, and makes short ones as text."""

import gzip
import re
import xml.parsers.expat

from data_prep.readers import pmc, pmc_article

SHIPPED = (
    "1471-2180-11-174.nxml",
    "1472-6831-8-11.nxml",
    "6605965a.nxml",
    "ehp-116-1694.nxml",
    "mds526.nxml",
    "pntd.0002065.nxml",
    "pone.0000217.nxml",
    "pone.0046493.nxml",
)
KEPT = ("elife-00666.xml.gz", "elife02935.xml.gz")


def content(path):
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def read_one(path):
    (article,) = pmc.read_articles(path)
    assert isinstance(article, pmc_article.FullText), article
    return article


def words(paragraphs, kind):
    return [word for p in paragraphs if p.kind == kind for word in p.text.split()]


def read_independently(data):
    """Reads the words of the body's paragraphs and of its captions, from expat's events."""
    beside = {"fig", "table-wrap", "supplementary-material", "media"}
    out = {"table", "fn", "table-wrap-foot", "label", "tex-math", "permissions", "object-id"}
    apart = {"p", "list", "list-item", "disp-quote", "boxed-text", "caption", "title", "fig"}
    apart |= {"disp-formula"}
    opened, parts = [], {"paragraph": [], "caption": []}

    def start(tag, _=None):
        opened.append(tag)
        if tag in apart:
            parts["paragraph"].append(" ")
            parts["caption"].append(" ")

    def end(tag):
        start(tag)
        del opened[-2:]

    def characters(text):
        if opened[1:2] in (["body"], ["floats-group"]) and out.isdisjoint(opened):
            if not beside.isdisjoint(opened):
                parts["caption"].append(text)
            elif "p" in opened:
                parts["paragraph"].append(text)

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.Parse(data, True)
    # The same words under every supplement are left out on purpose.
    texts = {
        kind: re.sub(r"Click here for (additional data )?file\.?", "", "".join(part))
        for kind, part in parts.items()
    }
    return {kind: text.split() for kind, text in texts.items()}


def article(body="", *, ids='<article-id pub-id-type="pmc">1</article-id>', more="", attributes=""):
    return (
        f'<article xmlns:xlink="x" xmlns:mml="http://www.w3.org/1998/Math/MathML" {attributes}>'
        f"<front><article-meta>{ids}<title-group><article-title>A title</article-title>"
        f"</title-group>{more}</article-meta></front><body>{body}</body>"
    )


def read(tmp_path, body="", after="", **settings):
    path = tmp_path / "article.nxml"
    path.write_text(article(body, **settings) + after + "</article>", encoding="utf-8")
    return read_one(path)
