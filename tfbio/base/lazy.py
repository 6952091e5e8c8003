"""TensorFlow for modules that commands import before they need it.

The import takes seconds, which --help and mistakes should not. So modules whose classes say what a
command can do, such as the task types, take TensorFlow from here:

  from tfbio.base.lazy import tensorflow as tf

It is imported when a function of theirs first uses it; modules of layers, whose classes need it,
import it themselves.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any


class _Lazy:
    """Stands in for a module, which it imports when an attribute of it is first used."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import tensorflow
else:
    tensorflow = _Lazy("tensorflow")
