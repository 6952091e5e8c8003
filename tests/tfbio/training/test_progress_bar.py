"""Progress is shown as a line or as a bar."""

import io

from tfbio.training import progress_bar


def test_a_count_is_a_line_every_ten_seconds_without_a_terminal(monkeypatch, capsys):
    clock = iter([100.0, 109.9, 111.0, 120.9, 121.0, 150.0])
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: next(clock))
    with progress_bar.Count("seed 0", 1200, "steps") as count:
        for done in (0, 0, 10, 21, 1200):
            count.at(done, "loss 0.500" * (done > 0))
        assert count.done == 1200
    assert capsys.readouterr().out == (
        "seed 0 | 0/1,200 steps\n"
        "seed 0 | 21/1,200 steps | loss 0.500 | 1.0 steps/s | 0:19:39 left\n"
        "seed 0 | 1,200/1,200 steps | loss 0.500 | 24.0 steps/s | 0:00:00 left\n"
    )


def test_a_count_is_a_bar_on_a_terminal(monkeypatch, capsys):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(progress_bar.sys, "stderr", terminal)
    for total in (3, None):
        with progress_bar.Count("prediction", total, "texts") as count:
            for done in range(4):
                count.at(done, "loss 0.5")
    assert "3/3" in terminal.getvalue() and "loss 0.5" in terminal.getvalue()
    assert terminal.getvalue().count("prediction:") == terminal.getvalue().count("/3")
    assert not capsys.readouterr().out


def test_the_time_that_is_left_is_told_by_what_was_done_since_the_start(monkeypatch, capsys):
    """Leaves out what another process has done, such as the steps of a trial that continues."""
    clock = iter([100.0, 120.0])
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: next(clock))
    with progress_bar.Count("seed 0", 1200, "steps", first=600) as count:
        count.at(620)
    assert capsys.readouterr().out == "seed 0 | 620/1,200 steps | 1.0 steps/s | 0:09:40 left\n"
