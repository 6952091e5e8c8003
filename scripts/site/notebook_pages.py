"""Makes a page of the site of every notebook in docs/: a hook of mkdocs.

Code becomes a block of code, and the output that the file has stands below it. A table stays HTML.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page beside each notebook, which readers can download."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = file.src_uri.removesuffix("ipynb") + "md"
        files.append(File.generated(config, page, content=as_markdown(file.content_string)))
    return files


def as_markdown(notebook: str) -> str:
    """Returns the Markdown of a notebook's JSON, in version 4 of its format."""
    return "\n\n".join(
        part
        for cell in json.loads(notebook)["cells"]
        for part in ([_text(cell["source"])] if cell["cell_type"] == "markdown" else _code(cell))
    )


def _code(cell: dict[str, Any]) -> list[str]:
    """Returns the blocks of a cell of code and of its output."""
    code = _block("python", _text(cell["source"]))
    return [code, *filter(None, map(_output, cell["outputs"]))]


def _output(output: dict[str, Any]) -> str:
    """Returns an output as HTML if it has that form, else as text."""
    if output["output_type"] == "stream":
        return _block("text", re.sub(r"\x1b\[[\d;]*m", "", _text(output["text"])))
    data = output.get("data", {})
    if "text/html" in data:
        # Tables of pandas get the look of the site's. A blank line would end the HTML for Markdown.
        page = re.sub(r"<style scoped>.*?</style>", "", _text(data["text/html"]), flags=re.DOTALL)
        page = re.sub(r' (border="1"|class="dataframe"|style="text-align: right;")', "", page)
        return re.sub(r"\n\s*\n", "\n", page).strip()
    return _block("text", _text(data["text/plain"])) if "text/plain" in data else ""


def _text(lines: str | list[str]) -> str:
    """Returns a text of a notebook, which may be a list of lines."""
    return "".join(lines)


def _block(language: str, text: str) -> str:
    """Returns a block of code."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`{3,}", text))])
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
