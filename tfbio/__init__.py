"""tfbio pretrains encoders on PubMed and PMC, and measures them on BLURB and BLUE."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from tfbio.api.loading import load as load
    from tfbio.api.loading import read as read

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"] or os.path.basename((sys.argv or [""])[0]) in (
    "run_pretraining.py",
    "run_finetuning.py",
    "tfbio",
):
    # Importing a command can take seconds. Ctrl-C ends it without a traceback even then, and so
    # does the lack of a package of one of the extras; later tfbio/base/cli.py does both. Python
    # calls this for exceptions that nothing else has caught.
    def _end(
        error_type: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ModuleNotFoundError):
            from tfbio.base import extras

            module = error.name or ""
            if module.partition(".")[0] in extras.EXTRA_OF:
                print(f"error: {extras.not_installed(module)}", file=sys.stderr, flush=True)
                os._exit(1)
        if not issubclass(error_type, KeyboardInterrupt):
            sys.__excepthook__(error_type, error, trace)
            return
        print("interrupted: nothing was begun", file=sys.stderr, flush=True)
        os._exit(130)

    sys.excepthook = _end

# TensorFlow reads both once, when it is imported. It then brings tf_keras, and not Keras 3 with
# matplotlib and scikit-learn, which take seconds.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
# TensorFlow takes oneDNN's matrix products by itself only on CPUs with VNNI, bfloat16 or AMX; they
# are faster on an older AMD, too.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def __getattr__(name: str) -> Any:
    """Returns `load` or `read` of `tfbio.api.loading`, which is imported when one is first used."""
    if name not in ("load", "read"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tfbio.api import loading

    return getattr(loading, name)
