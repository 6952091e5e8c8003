"""The packages that come with tfbio's extras, and the remedy where one is not installed."""

from __future__ import annotations

import importlib.util

from tfbio.base.errors import UserError

# The extra of each module that not every installation has; setup.cfg has the names of the packages.
EXTRA_OF = {
    "apache_beam": "data",
    "biosenter": "data",
    "numba": "data",
    "pubmed_parser": "data",
    "pyarrow": "data",
    "scispacy": "data",
    "spacy": "data",
    "srsly": "data",
    "thinc": "data",
    "punkt": "chemprot",
    "matplotlib": "report",
    "gcsfs": "gcs",
    "s3fs": "s3",
    "official": "model-garden",
    "fastapi": "serve",
    "prometheus_client": "serve",
    "pydantic": "serve",
    "pydantic_core": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "onnxruntime": "onnx",
    "tf2onnx": "onnx",
}


def remedy(extra: str) -> str:
    """Returns the words (str) that say how to install one of tfbio's extras, such as "data"."""
    return f"`pip install 'tfbio[{extra}]'` installs it"


def not_installed(module: str) -> str:
    """Returns the sentence (str) for a package that cannot be imported.

    Args:
      module: the module, such as "apache_beam.options".
    """
    package = module.partition(".")[0]
    if package in EXTRA_OF:
        return f"the package {package} is not installed: {remedy(EXTRA_OF[package])}."
    return f"the package {package} is not installed: install it with pip, and try again."


def require(*modules: str) -> None:
    """Checks that packages are installed, before the work that needs them; imports nothing of them.

    Returns nothing.

    Args:
      *modules: the names of their modules, without a dot, such as "matplotlib".

    Raises:
      UserError: one is not installed; the sentence is that of `not_installed`.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UserError(not_installed(module))
