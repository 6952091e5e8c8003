"""Puts pages from outside docs/ into the site, and mends the links of all pages: a hook of mkdocs.

Links are written for Git hosts, relative to the file that has them. In the site `README.md` is the
page `index.md`, a notebook is the page that is made of it, and a file of the source has no page:
there a link to it leaves its text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parents[2]
# Files from outside docs/, and their pages.
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tests/data/README.md": "test_data.md",
}
_FILES = {page: file for file, page in _PAGES.items()}
# [text](path) and ![text](path), perhaps with an anchor; not https://... and not #anchor.
_LINK = re.compile(r"(!?\[[^\]]*\])\((?!\w+:)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from outside docs/."""
    for file, page in _PAGES.items():
        text = (_ROOT / file).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Returns a page's text as the site needs it."""
    uri = page.file.src_uri
    text = for_site(markdown, _FILES.get(uri, f"docs/{uri}"))
    # Git hosts want `a\|b` in a table's cell, where Python's Markdown wants `a|b`.
    return re.sub(r"`[^`\n]+`", lambda code: code[0].replace("\\|", "|"), text)


def for_site(text: str, file: str) -> str:
    """Returns Markdown with its links as the site has them.

    Args:
      text: the Markdown.
      file: where it stands in the repository.
    """
    return _LINK.sub(lambda link: _mended(link, file), text)


def _mended(link: re.Match, file: str) -> str:
    """Returns a link as the page of its file has it."""
    text, path, anchor = link.groups()
    target = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
    if (page := _page_of(target)) is not None:
        folder = posixpath.dirname(_page_of(file) or "")
        return f"{text}({posixpath.relpath(page, folder or '.')}{anchor or ''})"
    # One that leads nowhere stays, and fails the build.
    return text.lstrip("!")[1:-1] if (_ROOT / target).exists() else link[0]


def _page_of(file: str) -> str | None:
    """Returns the page or picture of a file of the repository, by its path in the site; or None."""
    if file in _PAGES or not file.startswith("docs/"):
        return _PAGES.get(file)
    return re.sub(r"\.ipynb$", ".md", file.removeprefix("docs/"))
