import io
import sys

from data_prep.running import progress, work_folder


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_line_in_a_log_and_a_bar_on_a_terminal(tmp_path, capsys, monkeypatch):
    def work():
        with progress.shown(tmp_path, {"read": 2, "write": "*.made"}):
            for name in ("read-1", "read-2", "write-1"):
                work_folder.write_step(tmp_path, name, {})
            for name in ("1.made", "2.made", "3.made"):
                (tmp_path / name).touch()

    work()
    assert capsys.readouterr().err == "progress: read 2/2, write 1/3\n"
    monkeypatch.setattr(sys, "stderr", Terminal())
    work()
    shown = sys.stderr.getvalue()
    assert "read 2/2, write 1/3" in shown and "3/5" in shown and "progress:" not in shown
