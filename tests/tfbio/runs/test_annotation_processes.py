"""Tests what a process of an annotation says; `test_annotation.py` starts the processes."""

import collections
import multiprocessing
import os
import struct
import types

import pytest

from tfbio.runs import annotation_processes


@pytest.mark.parametrize("sent", [b"", struct.pack("!i", 1000) + b"the beginning of a note"])
def test_a_process_that_dies_within_a_message_loses_its_file_alone(sent):
    ours, theirs = multiprocessing.Pipe()
    os.write(theirs.fileno(), sent)
    theirs.close()
    died = []
    worker = types.SimpleNamespace(pipe=ours, job="a.xml", exit_code=lambda: -9)
    listener = types.SimpleNamespace(died=lambda *what: died.append(what))
    with ours:
        assert not annotation_processes._hear(worker, collections.deque(), listener)
    assert died == [("a.xml", -9)]
