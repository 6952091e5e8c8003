"""Makes what the tests read once for all processes of pytest."""

import fcntl
import os
import shutil


def folder(tmp_path_factory, name, make):
    """Returns a folder that the first process that asks for it makes; tests only read it.

    Args:
      tmp_path_factory: pytest's.
      name: the folder's.
      make: a function that makes the folder's files, given its path.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    made, complete = base / "made_once" / name, base / "made_once" / f"{name}.complete"
    made.parent.mkdir(exist_ok=True)
    with open(made.with_name(f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(made, ignore_errors=True)  # of a process that failed
            made.mkdir()
            make(made)
            complete.touch()
    return made
