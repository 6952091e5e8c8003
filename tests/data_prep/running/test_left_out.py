import json

from data_prep.running import left_out


def test_a_line_is_json_of_bounded_length_whatever_it_holds():
    line = left_out.line("5\n\u2028\udce9" * 1000, "a" * 10_000, "bad_part", "\0" * 10_000)
    assert line.isascii() and line.count(b"\n") == 1 and len(line) < 5000
    result = json.loads(line)
    assert result["id"].startswith("5\n\u2028\udce9") and len(result["id"]) == 200
    assert (len(result["file"]), len(result["message"])) == (200, 300)
    assert json.loads(left_out.line("x", "y", "z")) == {"id": "x", "file": "y", "reason": "z"}
