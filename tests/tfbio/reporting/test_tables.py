"""Tables as LaTeX and Markdown. (The rest: see tests/tfbio/test_report.py.)"""

from tfbio.reporting.tables import Table, latex, markdown


def test_latex_has_minus_signs_in_numbers_and_intervals():
    cells = ["BC5-chem", "-0.50", "-1.25 to -0.10", "-1.25 to 0.10", "0.10 to 1.25", "+0.50"]
    table = Table("Our runs", ["data set", "a", "b", "c", "d", "e"], [cells], 0, ["From -1 to 1."])
    row = "BC5-chem & $-$0.50 & $-$1.25 to $-$0.10 & $-$1.25 to 0.10 & 0.10 to 1.25 & +0.50"
    assert rf"{row} \\" in latex(table).split("\n")
    assert r"\caption{Our runs. From -1 to 1.}" in latex(table)


def test_markdown_has_a_column_for_each_heading():
    """A bar, as in the name of a folder, would begin another one."""
    lines = markdown(Table("Our runs", ["data set", "a|b"], [["x|y", "1"]], 0, [])).split("\n")
    assert lines[2:5] == ["| data set | a\\|b |", "| --- | ---: |", "| x\\|y | 1 |"]
