import pytest

from data_prep.corpora import corpus_splits, released_files
from tfbio.base.held_out import hash_fraction


def test_splits_are_written_together_or_not_at_all(tmp_path):
    output = tmp_path / "new" / "out"

    def cut_short():
        yield ("1", "a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corpus_splits.write(output, {"train": [("1", "a")], "dev": cut_short()}, overwrite=False)
    assert list(output.iterdir()) == []

    splits = {"train": [("1", "a\tb\r\nc"), ("",)], "dev": [], "test": [("2", "é")]}
    corpus_splits.write(output, splits, overwrite=False)
    made = {path.name: path.read_bytes() for path in output.iterdir()}
    assert made == {
        "train.tsv": b"1\ta b  c\n\n",
        "dev.tsv": b"",
        "test.tsv": b"2\t\xc3\xa9\n",
        "left_out.jsonl": b"",
    }
    with pytest.raises(released_files.CorpusError, match=r"train\.tsv exists: add --overwrite"):
        corpus_splits.write(output, {"train": []}, overwrite=False)
    corpus_splits.write(output, {"train": []}, overwrite=True)
    assert (output / "train.tsv").read_bytes() == b""
    with pytest.raises(released_files.CorpusError, match="cannot write to"):
        corpus_splits.write(output / "dev.tsv", {"train": []}, overwrite=True)


def test_half_of_a_surrogate_pair_is_written_as_an_unknown_character(tmp_path):
    corpus_splits.write(tmp_path, {"train": [("1", "a \ud800 b")]}, overwrite=False)
    assert (tmp_path / "train.tsv").read_text(encoding="utf-8") == "1\ta \ufffd b\n"


def test_a_run_that_was_killed_between_two_splits_is_made_again(tmp_path):
    splits = {"train": [("1", "a")], "dev": [("2", "b")], "test": [("3", "c")]}
    corpus_splits.write(tmp_path, splits, overwrite=False)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "train.tsv").unlink()  # the last to appear
    corpus_splits.write(tmp_path, splits, overwrite=False)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == made
    (tmp_path / "train.tsv").unlink()
    (tmp_path / "dev.tsv").write_text("somebody's own\n")
    with pytest.raises(released_files.CorpusError, match=r"dev\.tsv exists: add --overwrite"):
        corpus_splits.write(tmp_path, splits, overwrite=False)
    assert (tmp_path / "dev.tsv").read_text() == "somebody's own\n"


def test_a_tenth_is_held_out_and_no_label_with_it():
    documents = {f"note {i}": ["common", f"of {i // 2}"] for i in range(100)}
    held = corpus_splits.hold_out(documents)
    assert len(held) == 10 and held == corpus_splits.hold_out(dict(reversed(documents.items())))
    left = {label for name, labels in documents.items() if name not in held for label in labels}
    assert left == {label for labels in documents.values() for label in labels}
    assert corpus_splits.hold_out({"a": ["x"], "b": ["x"], "c": ["y"]}) <= {"a", "b"}
    assert corpus_splits.hold_out({"a": ["x"]}) == set()


def test_a_fraction_is_rounded_up_as_it_was_typed():
    """0.07 * 100 and 0.1 * 70 are more than 7 in binary."""
    for fraction, of, expected in ((0.07, 100, 7), (0.1, 70, 7), (0.2, 1641, 329), (0.001, 5, 1)):
        assert len(corpus_splits.hold_out({f"{i}": () for i in range(of)}, fraction)) == expected
    # What counts for several is not taken where that would be too many.
    first, second, third = sorted("abc", key=hash_fraction)
    sizes = {first: 9, second: 1, third: 2}
    assert corpus_splits.hold_out(dict.fromkeys("abc", ()), 0.25, sizes) == {second, third}


def test_a_split_without_a_note_is_refused(tmp_path):
    train = {"a": [("x", "O")], "b": [("y", "O")]}
    made = corpus_splits.with_development(train, train, "", lambda row: (), 0.5)
    assert [len(rows) for rows in made.values()] == [1, 1, 2]
    for listed, split in (("a\nb", "training"), ("", "development")):
        (tmp_path / "dev.txt").write_text(listed)
        with pytest.raises(released_files.CorpusError, match=f"dev.txt leaves nothing for {split}"):
            corpus_splits.with_development(train, train, str(tmp_path / "dev.txt"), lambda row: ())
    # A note that alone has a label stays where it is learnt from.
    with pytest.raises(released_files.CorpusError, match="=0.1 leaves nothing for development"):
        corpus_splits.with_development(train, train, "", lambda row: row[:1])


def test_what_is_held_out_is_the_same_in_every_process(said_in_new_processes):
    program = (
        "from data_prep.corpora import corpus_splits\n"
        "print(sorted(corpus_splits.hold_out({f'note {i}': {'x', 'y'} for i in range(40)})))"
    )
    assert len(said_in_new_processes(program)) == 1


def test_both_forms_of_lists_are_read(tmp_path):
    (tmp_path / "lines.tsv").write_text("a/Ethacrynic acid.xml\nb.xml\n")
    (tmp_path / "commas.tsv").write_text("1.txt,2.txt\n")
    assert corpus_splits.read_index(tmp_path, "lines.tsv") == ["a/Ethacrynic acid.xml", "b.xml"]
    assert corpus_splits.read_index(tmp_path, "commas.tsv") == ["1.txt", "2.txt"]
    with pytest.raises(released_files.CorpusError, match=r"dev\.tsv cannot be read.*--index"):
        corpus_splits.read_index(tmp_path, "dev.tsv")
