"""Tests what a process of an annotation says; `test_annotation.py` starts the processes."""

import collections
import errno
import multiprocessing
import os
import struct
import types

import pytest

from tfbio.runs import annotation_processes
from tfbio.runs.annotation_processes import Loading


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


@pytest.fixture
def work(monkeypatch):
    """Works here on what a pipe brings; returns the exit code, and what was sent before."""
    codes = []

    def end(code):
        codes.append(code)
        raise SystemExit(code)

    monkeypatch.setattr(annotation_processes.os, "_exit", end)
    monkeypatch.setattr(annotation_processes, "_end_with_parent", lambda: None)
    for name in ("CUDA_VISIBLE_DEVICES", "TF_NUM_INTRAOP_THREADS"):
        monkeypatch.setenv(name, "")  # which the work changes

    def run(load, *received):
        monkeypatch.setattr(annotation_processes, "_load", load)
        ours, theirs = multiprocessing.Pipe()
        for each in received:
            ours.send(each)
        with ours, theirs:
            if not received:
                ours.close()
            with pytest.raises(SystemExit):
                annotation_processes._work(theirs, Loading("model", ()), threads=1)
            sent = []
            while received and ours.poll():
                sent.append(ours.recv())
        return codes[0], sent

    return run


def test_a_broken_pipe_of_the_work_is_no_end_of_the_queue(work):
    """As that of a program that writes the output of an annotation."""

    def fail(*_):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe", "out/a.jsonl")

    for load in (fail, lambda *_: types.SimpleNamespace(annotate=fail)):
        code, (*_, (kind, error)) = work(load, "a.xml", "the end")
        assert (code, kind) == (1, "failed")
        assert str(error) == "[Errno 32] Broken pipe: 'out/a.jsonl'"


def test_a_process_ends_with_its_queue(work):
    annotator = types.SimpleNamespace(annotate=lambda job, done: done(3))
    assert work(lambda *_: annotator)[0] == 0
