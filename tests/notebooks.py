"""Executes the tutorials, the notebooks in docs/tutorials, as a reader does."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests import forked

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"


@dataclasses.dataclass
class Executed:
    """An executed notebook.

    Attributes:
      printed: what its cells printed, commands too.
      values: the values that were asked for.
    """

    printed: str
    values: dict[str, Any]

    def losses(self) -> list[float]:
        """Returns the losses of pretraining, in the order of the steps."""
        lines = re.findall(r"^step \d+/\d+ \| loss ([\d.]+)", self.printed, re.MULTILINE)
        return [float(loss) for loss in lines]


def make_folder(folder: Path) -> Path:
    """Returns a folder for notebooks, with nothing of the repository beside it."""
    tutorials = folder / "docs" / "tutorials"
    tutorials.mkdir(parents=True)
    # The console command of this checkout.
    command = folder / "bin" / "tfbio"
    command.parent.mkdir()
    command.write_text(forked.shell_command("tfbio"), encoding="utf-8")
    command.chmod(0o755)
    return tutorials


def execute(name: str, folder: Path, **wanted: str) -> Executed:
    """Executes a notebook, and fails if one of its cells does.

    Args:
      name: the notebook's name, without .ipynb.
      folder: of `make_folder`.
      wanted: expressions with the notebook's names, each for a value that is returned.
    """
    notebook = nbformat.read(TUTORIALS / f"{name}.ipynb", as_version=4)
    pairs = ", ".join(f"{name!r}: {expression}" for name, expression in wanted.items())
    code = f"import json as _json\nprint(_json.dumps({{{pairs}}}))"
    notebook.cells.append(nbformat.v4.new_code_cell(code))
    paths = [str(folder.parents[1] / "bin"), os.environ["PATH"]]
    modules = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {"PATH": os.pathsep.join(paths), "PYTHONPATH": os.pathsep.join(modules)}
    # Sockets in a folder, and no ports, which another process could take.
    with tempfile.TemporaryDirectory() as sockets:
        kernel = AsyncKernelManager(
            kernel_name="python3", transport="ipc", ip=os.path.join(sockets, "kernel")
        )
        place = {"metadata": {"path": str(folder)}}
        client = NotebookClient(notebook, km=kernel, timeout=1200, resources=place)
        client.execute(env=os.environ | environment)
    *cells, last = (printed_by(cell) for cell in notebook.cells if cell.cell_type == "code")
    return Executed("".join(cells), json.loads(last))


def printed_by(cell: nbformat.NotebookNode) -> str:
    """Returns what a cell printed, with lines as in a file."""
    text = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    return text.replace("\r\n", "\n")
