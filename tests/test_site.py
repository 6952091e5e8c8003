"""The documentation site is built, strictly, with all pages, and loads nothing from elsewhere."""

import html
import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

from tests.test_every_flag import commands
from tfbio.base import config, console
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.task_types.finetuning_config import FinetuningConfig

ROOT = Path(__file__).resolve().parents[1]
# Elements that a browser loads by themselves, and the attribute with the address.
LOADED = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "script", "source", "video"), "src"),
    **{"link": "href", "object": "data"},
}
ELSEWHERE = re.compile(r"(?:\w+:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={folder}"]
    built = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert built.returncode == 0, built.stderr
    return folder


class Resources(HTMLParser):
    """Collects what a browser loads with a page from another place than the site."""

    def __init__(self, page: str):
        super().__init__()
        self.elsewhere, self._in_style = [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self._in_style = tag == "style"
        address = attributes.get(LOADED.get(tag, ""), "") or ""
        if tag == "link" and attributes.get("rel") == "canonical":
            return
        addresses = [address, *(attributes.get("srcset") or "").split(",")]
        self.elsewhere += [x for x in addresses if ELSEWHERE.match(x.strip())]
        self.elsewhere += in_style(attributes.get("style") or "")
        if attributes.get("srcdoc"):
            self.elsewhere += Resources(attributes["srcdoc"]).elsewhere

    def handle_data(self, data):
        if self._in_style:
            self.elsewhere += in_style(data)


def in_style(text: str) -> list[str]:
    """Returns the addresses in other places that a style sheet loads."""
    named = re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""", text)
    return [address for address in named if ELSEWHERE.match(address)]


@pytest.mark.parametrize(
    "page",
    [
        '<link rel="stylesheet" href="https://fonts.example/css">',
        '<script src="//cdn.example/x.js"></script>',
        '<img src="http://x.example/x.png">',
        "<style>@import 'https://x.example/x.css';</style>",
        '<p style="background: url(https://x.example/x.png)">',
        '<iframe srcdoc="&lt;img src=https://x.example/x.png&gt;"></iframe>',
    ],
)
def test_what_is_loaded_from_elsewhere_is_noticed(page):
    assert len(Resources(page).elsewhere) == 1
    assert not Resources('<a href="https://x.example">x</a><img src="../x.png">').elsewhere


def test_nothing_is_loaded_from_elsewhere(site):
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    sheets = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    assert len(pages) > 20 and len(sheets) >= 3
    found = {path: Resources(text).elsewhere for path, text in pages.items()}
    found |= {path: in_style(text) for path, text in sheets.items()}
    assert not {str(path.relative_to(site)): x for path, x in found.items() if x}


def test_every_page_of_the_manual_is_in_the_site(site):
    """Looks for each page in the built site; that it is in `nav` the strict build checks."""
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("")
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        text = (site / name / "index.html").read_text(encoding="utf-8")
        assert '<h1 id="' in text and title.split("`")[0] in text, name
    assert "<h1" in (site / "index.html").read_text(encoding="utf-8")


def cells(page: str, name: str) -> list[str]:
    """Returns the cells of the row of a flag or setting, with code in backticks."""
    (row,) = (x for x in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL) if f">{name}</code>" in x)
    texts = re.findall(r"<td>(.*?)</td>", re.sub(r"</?code>", "`", row), re.DOTALL)
    return [html.unescape(text) for text in texts]


def test_the_reference_has_every_command_and_setting(site):
    pages = {
        path.parent.name: path.read_text(encoding="utf-8")
        for path in site.glob("reference/*/*.html")
    }
    code = {name: set(re.findall(r"<code>([^<]*)</code>", text)) for name, text in pages.items()}
    everywhere = set().union(*code.values())
    for command in commands():
        typed = f"python {command}" if command.endswith(".py") else f"python -m {command}"
        assert typed in everywhere
    assert code["pretraining"] >= {*config.names(PretrainingConfig), "--model_dir", "--[no]dry_run"}
    assert code["finetuning"] >= {*config.names(FinetuningConfig), "--sweep", "--format"}
    assert code["data_preparation"] >= {"--shard_megabytes", "--sequence_length", "--vocab"}
    # A command that takes no flags, such as help, has no section.
    with_flags = {command.removesuffix(".py") for command in commands()}
    named = {f"tfbio {name}" for name, x in console.COMMANDS.items() if x.module in with_flags}
    assert len(named) >= 12 and everywhere >= named
    # A default, a range and choices.
    row = cells(pages["data_preparation"], "--shard_megabytes")
    assert row[:3] == ["`--shard_megabytes`", "`2.0`", "number >= 0.001"]
    row = cells(pages["pretraining"], "objective")
    assert row[:3] == ["`objective`", "`electra`", "electra or mlm"]
    row = cells(pages["pretraining"], "--strategy")
    assert row[1:3] == ["`auto`", "`auto`, `one_device`, `mirrored`, `multi_worker`"]


NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_page_with_its_output(path, site):
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    page = (site / "tutorials" / path.stem / "index.html").read_text(encoding="utf-8")
    shown = squeezed(html.unescape(re.sub(r"<[^>]*>", "", page)))
    for cell in cells:
        assert squeezed(cell.source) in shown
        for output in cell.outputs:
            assert output.output_type != "error" and "Traceback" not in str(output)
            # Nothing of the machine that it ran on.
            assert not re.search(r"/(?:home|root|tmp|work)/", str(output))
            assert squeezed(output.get("text", "")) in shown
            as_html = output.get("data", {}).get("text/html", "")
            for part in re.findall(r"<td>.*?</td>|<iframe .*?>", as_html, re.DOTALL):
                assert squeezed(part) in squeezed(page)


def squeezed(text: str) -> str:
    """Returns a text without blanks."""
    return "".join(text.split())


def test_the_reference_of_python_has_examples(site):
    text = re.sub(r"<[^>]*>", "", (site / "api" / "index.html").read_text(encoding="utf-8"))
    for words in ("tfbio.load", "tfbio.read", "__call__", "embed", "write", "Entity", "Passage"):
        assert words in text
    assert text.count("&gt;&gt;&gt; ") >= 8 and "Imatinib Chemical 0 8" in text


def hook(name: str):
    """Returns a module of scripts/site, as mkdocs loads it."""
    path = ROOT / "scripts" / "site" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("file", "link", "mended"),
    [
        ("docs/design.md", "[a](tpu.md#b)", "[a](tpu.md#b)"),
        ("docs/development.md", "[a](../README.md#b)", "[a](index.md#b)"),
        ("docs/tutorials/x.md", "[a](../../CONTRIBUTING.md)", "[a](../contributing.md)"),
        ("README.md", "![a b](docs/figures/x.svg)", "![a b](figures/x.svg)"),
        ("tests/data/README.md", "[a](../../docs/tutorials/x.ipynb)", "[a](tutorials/x.md)"),
        ("docs/design.md", "see [the `flags`](../setup.cfg).", "see the `flags`."),
        (
            "docs/design.md",
            "[a](../no.md) [b](https://x.y/z.md)",
            "[a](../no.md) [b](https://x.y/z.md)",
        ),
    ],
)
def test_links_lead_to_the_pages_of_the_site(file, link, mended):
    assert hook("repository_pages").for_site(link, file) == mended
