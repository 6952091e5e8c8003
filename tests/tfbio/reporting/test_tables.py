"""Tables as LaTeX. (The rest: see tests/tfbio/test_report.py.)"""

from tfbio.reporting.tables import Table, latex


def test_latex_has_minus_signs_in_numbers_and_intervals():
    cells = ["BC5-chem", "-0.50", "-1.25 to -0.10", "-1.25 to 0.10", "0.10 to 1.25", "+0.50"]
    table = Table("Our runs", ["data set", "a", "b", "c", "d", "e"], [cells], 0, ["From -1 to 1."])
    row = "BC5-chem & $-$0.50 & $-$1.25 to $-$0.10 & $-$1.25 to 0.10 & 0.10 to 1.25 & +0.50"
    assert rf"{row} \\" in latex(table).split("\n")
    assert r"\caption{Our runs. From -1 to 1.}" in latex(table)
