"""Writes documents with entities as one page of HTML to look at, which needs nothing beside it.

The page has a style sheet and no script. Its Content-Security-Policy allows that sheet, by its
hash, and lets a browser load nothing. The text of a document is the text content of its element of
the class "text", character by character, but for U+0000 and lone surrogates, which HTML cannot
hold: U+FFFD stands for them.

An entity is a `mark`, and one inside another a `mark` in a `mark`. Where two entities cross, or one
goes on in the next passage, it has several `mark`s with the same `data-entity`. The type's name
comes from the style sheet and is no part of the text.
"""

from __future__ import annotations

import bisect
import collections
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence

from tfbio.base import storage
from tfbio.formats import html_parts, html_style
from tfbio.formats.annotated_documents import Annotated, Document, Entity
from tfbio.formats.html_parts import escaped

_TAGS = {"title": "h2", "heading": "h3"}
_PMID = re.compile(r"[1-9][0-9]{0,7}")


def write(path: str, annotated: Annotated) -> None:
    """Writes documents with their entities as a page of HTML, and returns nothing.

    Memory does not grow with the number of documents: they wait in a file without a name, in the
    folder of the page, until the counts of the legend above them are known.

    Args:
      path: the file, which appears when it is complete.
      annotated: each document and its entities in the order of their starts.

    Raises:
      OSError: the file cannot be written.
    """
    documents, counts = 0, collections.Counter[str]()
    with (
        storage.written_whole(path) as stream,
        tempfile.TemporaryFile(dir=os.path.dirname(stream.name) or ".") as body,
    ):
        for document, entities in annotated:
            documents += 1
            counts.update(entity.type for entity in entities)
            # A type keeps its number, as a `Counter` keeps the order in which its keys came.
            numbers = {name: number for number, name in enumerate(counts)}
            body.writelines(part.encode() for part in _article(document, entities, numbers))
        body.seek(0)
        stream.write(_head(documents, counts).encode())
        shutil.copyfileobj(body, stream)
        stream.write(b"</main>\n</body>\n</html>\n")


def _head(documents: int, counts: collections.Counter[str]) -> str:
    """Returns the page up to the first document: its policy, style sheet and legend."""
    numbers = {name: number for number, name in enumerate(counts)}
    # By rank, so that pages with the same types have the same colours.
    ranks = {name: rank for rank, name in enumerate(sorted(counts))}
    style = html_style.style([ranks[name] for name in counts])
    title = f"{_number(documents, 'document')}, {_number(counts.total(), 'entity', 'entities')}"
    types = "".join(
        f'<li><label><input type="checkbox" id="t{numbers[name]}" checked> '
        f'<span class="key t{numbers[name]} s4">{escaped(name)}</span> {count:,}</label></li>\n'
        for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    )
    least = html_style.SCORES
    scores = [f"&lt; {least[0]:g}", *(f"\u2265 {score:g}" for score in least)]
    scale = "".join(
        f'<li><span class="key any s{number}">{score}</span></li>\n'
        for number, score in enumerate(scores)
    )
    return f"""{html_parts.head(title, style)}<header>
<h1>{title}</h1>
<ul>
{types}</ul>
<ul class="scale">
<li>Score</li>
{scale}</ul>
<ul class="switches">
<li><label><input type="checkbox" id="names" checked> Types in the text</label></li>
<li><label><input type="checkbox" id="scores"> Scores in the text</label></li>
</ul>
<p class="hint">Point at an entity to see its score and the offsets of its characters.</p>
</header>
<main>
"""


def _article(
    document: Document, entities: Sequence[Entity], numbers: dict[str, int]
) -> Iterator[str]:
    """Writes a document: its id, the number of its entities, and its text with them."""
    kinds = {passage.kind for passage in document.passages}
    name = f"<bdi>{escaped(document.id)}</bdi>"
    # The id of a file or a collection may be any number; PubMed's documents have these passages.
    if _PMID.fullmatch(document.id) and kinds & {"title", "abstract"}:
        name = f'PMID <a href="https://pubmed.ncbi.nlm.nih.gov/{document.id}/">{document.id}</a>'
    heading = "p" if "title" in kinds else "h2"
    count = _number(len(entities), "entity", "entities")
    yield f'<article>\n<{heading} class="id">{name}: {count}</{heading}>\n'
    yield '<div class="text" lang="">'
    yield from _text(document, entities, numbers)
    yield "</div>\n</article>\n"


def _text(document: Document, entities: Sequence[Entity], numbers: dict[str, int]) -> Iterator[str]:
    """Writes a document's text: a block for each passage, and the entities as `mark`s."""
    tags = [(p, _TAGS.get(p.kind, "p")) for p in document.passages]
    before = {p.start: f'<{tag} dir="auto">' for p, tag in tags}
    behind = {p.end: f"</{tag}>" for p, tag in tags}
    edges = sorted({*before, *behind, 0, len(document.text)})
    opened: list[tuple[int, Entity]] = []
    for start, end, covering in _stretches(edges, entities):
        if start in before or start in behind:
            yield "</mark>" * len(opened) + behind.get(start, "") + before.get(start, "")
            opened = []
        kept = len(os.path.commonprefix([opened, covering]))
        yield "</mark>" * (len(opened) - kept)
        edge = edges[bisect.bisect_right(edges, start)]
        for depth in range(kept, len(covering)):
            yield _mark(covering[: depth + 1], edge, numbers)
        yield escaped(document.text[start:end])
        opened = covering
    yield "</mark>" * len(opened) + behind.get(len(document.text), "")


def _stretches(
    edges: Sequence[int], entities: Sequence[Entity]
) -> Iterator[tuple[int, int, list[tuple[int, Entity]]]]:
    """Cuts a text wherever a passage or an entity begins or ends.

    Yields:
      The offsets of a stretch, and the entities that cover it with their numbers: first the one
      that began first, and of those that began together the longest.
    """
    # An entity without characters would cover none.
    numbered = [(number, x) for number, x in enumerate(entities, start=1) if x.start < x.end]
    waiting = collections.deque(sorted(numbered, key=lambda pair: (pair[1].start, -pair[1].end)))
    covering: list[tuple[int, Entity]] = []
    every = sorted({*edges, *(at for _, x in numbered for at in (x.start, x.end))})
    for start, end in itertools.pairwise(every):
        covering = [pair for pair in covering if pair[1].end > start]
        while waiting and waiting[0][1].start == start:
            covering.append(waiting.popleft())
        yield start, end, covering


def _mark(covering: Sequence[tuple[int, Entity]], edge: int, numbers: dict[str, int]) -> str:
    """Returns the tag that opens the last of the entities that cover a place.

    Args:
      covering: the entities, with their numbers.
      edge: the offset at which the passage ends.
      numbers: the number of each type's class.
    """
    number, entity = covering[-1]
    # It hides the titles of those around it.
    title = "\n".join(_described(x) for _, x in reversed(covering))
    is_cut = min(edge, *(x.end for _, x in covering)) < entity.end
    score = "" if entity.score is None else f' data-score="{entity.score:.2f}"'
    return (
        f'<mark class="t{numbers[entity.type]} s{html_style.shade(entity.score)}'
        f'{" cut" if is_cut else ""}" data-entity="{number}" data-type="{escaped(entity.type)}"'
        f'{score} title="{escaped(title)}">'
    )


def _described(entity: Entity) -> str:
    score = "" if entity.score is None else f", score {entity.score:.4f}"
    return f"{entity.type}{score}, characters {entity.start} to {entity.end}"


def _number(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
