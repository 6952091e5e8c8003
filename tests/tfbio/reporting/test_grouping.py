"""The runs of a report by data, model and task."""

import re

from tfbio.reporting import grouping, results


def test_data_of_ones_own_are_told_apart_by_the_shortest_end_of_their_path():
    def named(*sets):
        runs = [results.Run("", "m", task, "f1", [], [], (), *own) for task, *own in sets]
        return [run.task for run in grouping.by_data(runs)]

    # The same name, other data; the same data elsewhere; another kind of task; a run of before.
    assert named(
        ("ner", "/home/notes/data", "1"),
        ("ner", "/home/papers/data", "2"),
        ("ner", "/copy/data", "1"),
        ("pair", "/home/notes/data", "3"),
        ("ner", "", ""),
    ) == ["notes/data (ner)", "papers/data (ner)", "notes/data (ner)", "data (pair)", "ner"]
    assert named(("ner", "/a/x/data", "1"), ("ner", "/b/x/data", "2")) == [
        "a/x/data (ner)",
        "b/x/data (ner)",
    ]
    assert named(("ner", "/a/reports", "1"), ("ner", "/a/notes", "2")) == [
        "reports (ner)",
        "notes (ner)",
    ]
    # No path tells them apart: the files were changed.
    one, other = named(("ner", "/a/data", "1"), ("ner", "/a/data", "2"))
    assert one != other and all(re.fullmatch(r"data [0-9a-f]{6} \(ner\)", x) for x in (one, other))
    assert named(("ner", "data", "1"), ("ner", "/a/data", "2"))[1] == "a/data (ner)"
