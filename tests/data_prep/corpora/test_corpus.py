"""How releases are read and splits are written, whatever the corpus."""

import gzip
import io
import tarfile
import zipfile

import pytest

from data_prep.corpora import corpus
from tfbio.base.document_records import hash_fraction


def zipped(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def tarred(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


MEMBERS = {
    "r/a/1.txt": b"one\n",
    "r/b.txt": b"two\n",
    "r/sub.txt": b"not b.txt",
    "r/notes.pdf": b"%PDF",
}
PATTERN = r"a/\d\.txt|b\.txt"


@pytest.mark.parametrize(
    "files",
    [
        MEMBERS,
        {"x.zip": zipped(MEMBERS)},
        {"x.tar": tarred(MEMBERS)},
        {"x.tar.gz": gzip.compress(tarred(MEMBERS))},
        {"x.tgz": gzip.compress(tarred(MEMBERS))},
        {"x.zip": zipped({"inner/y.zip": zipped(MEMBERS)})},
        {"a/1.txt.gz": gzip.compress(b"one\n"), "r/b.txt": b"two\n"},
        MEMBERS | {"x.zip": zipped(MEMBERS)},
        MEMBERS | {"x.zip": zipped({"__MACOSX/r/b.txt": b"Mac"})},
    ],
    ids=["folder", "zip", "tar", "tar.gz", "tgz", "zip in zip", "gz", "twice", "of a Mac"],
)
def test_a_release_is_found_in_folders_and_archives(files, tmp_path):
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    found = corpus.find(tmp_path, PATTERN)
    assert {key: file.text() for key, file in found.items()} == {
        "a/1.txt": "one\n",
        "b.txt": "two\n",
    }
    if len(files) == 1:
        (name,) = files
        assert corpus.find(tmp_path / name, PATTERN).keys() == found.keys()


def damaged(data):
    return data[:60] + bytes([data[60] ^ 255]) + data[61:]


def locked(data):
    """A zip archive that says that its only member needs a password."""
    central = data.index(b"PK\1\2") + 8
    return data[:6] + b"\1" + data[7:central] + b"\1" + data[central + 1 :]


LONG = {"b.txt": b"".join(b"%d" % i for i in range(9999))}


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.zip", zipped(LONG)[:-30], r"x\.zip is damaged or cut short"),
        ("x.zip", damaged(zipped(LONG)), r"x\.zip is damaged or cut short"),
        ("x.zip", b"", r"x\.zip is damaged or cut short"),
        ("x.zip", locked(zipped(LONG)), r"x\.zip is damaged .*password"),
        ("x.tar.gz", gzip.compress(tarred(LONG))[:-500], r"x\.tar\.gz is damaged or cut short"),
        ("x.tar.gz", gzip.compress(tarred(LONG))[:-9], r"x\.tar\.gz is damaged or cut short"),
        ("x.tar.gz", damaged(gzip.compress(tarred(LONG))), r"x\.tar\.gz is damaged or cut short"),
        ("x.tar", tarred(LONG)[:900], r"x\.tar is damaged or cut short"),
        ("x.tar", b"no archive", r"x\.tar is damaged or cut short"),
        ("x.zip", zipped({"../b.txt": b""}), r"'\.\./b\.txt', which is refused"),
        ("x.zip", zipped({"a/..\\..\\b.txt": b""}), "leads out of it.*refused"),
        ("x.zip", zipped({"/etc/b.txt": b""}), "leads out of it.*refused"),
        ("x.tar.gz", gzip.compress(tarred({"a/../../b.txt": b""})), "leads out of it.*refused"),
        ("x.zip", zipped({"r/c.txt": b""}), "holds no file of the corpus"),
        ("x.zip", zipped({"p/b.txt": b"1", "q/b.txt": b"2"}), r"p/b\.txt and .*q/b\.txt differ"),
        ("b.txt", b"1" * 70_000, r"b\.txt is longer than 60,000 bytes"),
        ("b.txt.gz", gzip.compress(b"1" * 70_000), r"b\.txt is longer than 60,000 bytes"),
    ],
    # Archives hold the time at which they were made, and names of tests must not.
    ids=lambda value: "data" if isinstance(value, bytes) else None,
)
def test_what_cannot_be_read_is_named(name, data, message, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "MAX_FILE_BYTES", 60_000)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(corpus.CorpusError, match=message):
        corpus.find(tmp_path, PATTERN)


def test_archives_of_archives_have_an_end(tmp_path):
    data = zipped({"b.txt": b""})
    for _ in range(corpus.MAX_ARCHIVE_DEPTH):
        data = zipped({"y.zip": data})
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(corpus.CorpusError, match="too deep"):
        corpus.find(tmp_path, PATTERN)


def test_a_link_in_an_archive_is_not_followed(tmp_path):
    link = tarfile.TarInfo("b.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.addfile(link)
    with pytest.raises(corpus.CorpusError, match="holds no file"):
        corpus.find(tmp_path, PATTERN)


def test_a_missing_release_is_named(tmp_path):
    with pytest.raises(corpus.CorpusError, match="none does not exist"):
        corpus.find(tmp_path / "none", PATTERN)


def test_rows_are_counted_and_text_is_utf_8():
    file = corpus.File("f.tsv", "\ufeff1\ta\tb\r\n2\tc\u2028\td\n".encode())
    assert list(file.rows(3)) == [(1, ["1", "a", "b"]), (2, ["2", "c\u2028", "d"])]
    assert list(file.rows(2)) == [(1, ["1", "a\tb"]), (2, ["2", "c\u2028\td"])]
    with pytest.raises(corpus.CorpusError, match=r"f\.tsv, line 1: expected 4 .* found 3"):
        list(file.rows(4))
    with pytest.raises(corpus.CorpusError, match=r"f\.tsv is not text in UTF-8"):
        _ = corpus.File("f.tsv", b"\xff\xfe").text()
    for data in (b"{", b"[" * 100_000):
        with pytest.raises(corpus.CorpusError, match=r"f\.json is not JSON"):
            _ = corpus.File("f.json", data).json()


def test_both_forms_of_lists_are_read(tmp_path):
    (tmp_path / "lines.tsv").write_text("a/Ethacrynic acid.xml\nb.xml\n")
    (tmp_path / "commas.tsv").write_text("1.txt,2.txt\n")
    assert corpus.read_index(tmp_path, "lines.tsv") == ["a/Ethacrynic acid.xml", "b.xml"]
    assert corpus.read_index(tmp_path, "commas.tsv") == ["1.txt", "2.txt"]
    with pytest.raises(corpus.CorpusError, match=r"dev\.tsv cannot be read.*--index"):
        corpus.read_index(tmp_path, "dev.tsv")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0, 2), (3, 5), "@A$-@B$ef"),
        ((0, 3), (3, 5), "@A$@B$ef"),  # next to each other
        ((0, 4), (3, 5), "@A-B$ef"),
        ((0, 7), (3, 5), "@A-B$"),  # one within the other
        ((3, 5), (3, 5), "ab-@A-B$ef"),
    ],
)
def test_masks(first, second, expected):
    assert corpus.mask("ab-cdef", (*first, "@A$"), (*second, "@B$"), "@A-B$") == expected


def test_splits_are_written_together_or_not_at_all(tmp_path):
    output = tmp_path / "new" / "out"

    def cut_short():
        yield ("1", "a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corpus.write(output, {"train": [("1", "a")], "dev": cut_short()}, overwrite=False)
    assert list(output.iterdir()) == []

    splits = {"train": [("1", "a\tb\r\nc"), ("",)], "dev": [], "test": [("2", "é")]}
    corpus.write(output, splits, overwrite=False)
    made = {path.name: path.read_bytes() for path in output.iterdir()}
    assert made == {
        "train.tsv": b"1\ta b  c\n\n",
        "dev.tsv": b"",
        "test.tsv": b"2\t\xc3\xa9\n",
        "left_out.jsonl": b"",
    }
    with pytest.raises(corpus.CorpusError, match=r"train\.tsv exists: add --overwrite"):
        corpus.write(output, {"train": []}, overwrite=False)
    corpus.write(output, {"train": []}, overwrite=True)
    assert (output / "train.tsv").read_bytes() == b""
    with pytest.raises(corpus.CorpusError, match="cannot write to"):
        corpus.write(output / "dev.tsv", {"train": []}, overwrite=True)


def test_half_of_a_surrogate_pair_is_written_as_an_unknown_character(tmp_path):
    corpus.write(tmp_path, {"train": [("1", "a \ud800 b")]}, overwrite=False)
    assert (tmp_path / "train.tsv").read_text(encoding="utf-8") == "1\ta \ufffd b\n"


def test_a_run_that_was_killed_between_two_splits_is_made_again(tmp_path):
    splits = {"train": [("1", "a")], "dev": [("2", "b")], "test": [("3", "c")]}
    corpus.write(tmp_path, splits, overwrite=False)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "train.tsv").unlink()  # the last to appear
    corpus.write(tmp_path, splits, overwrite=False)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == made
    (tmp_path / "train.tsv").unlink()
    (tmp_path / "dev.tsv").write_text("somebody's own\n")
    with pytest.raises(corpus.CorpusError, match=r"dev\.tsv exists: add --overwrite"):
        corpus.write(tmp_path, splits, overwrite=False)
    assert (tmp_path / "dev.tsv").read_text() == "somebody's own\n"


def test_a_tenth_is_held_out_and_no_label_with_it():
    documents = {f"note {i}": ["common", f"of {i // 2}"] for i in range(100)}
    held = corpus.hold_out(documents)
    assert len(held) == 10 and held == corpus.hold_out(dict(reversed(documents.items())))
    left = {label for name, labels in documents.items() if name not in held for label in labels}
    assert left == {label for labels in documents.values() for label in labels}
    assert corpus.hold_out({"a": ["x"], "b": ["x"], "c": ["y"]}) <= {"a", "b"}
    assert corpus.hold_out({"a": ["x"]}) == set()


def test_a_fraction_is_rounded_up_as_it_was_typed():
    """0.07 * 100 and 0.1 * 70 are more than 7 in binary."""
    for fraction, of, expected in ((0.07, 100, 7), (0.1, 70, 7), (0.2, 1641, 329), (0.001, 5, 1)):
        assert len(corpus.hold_out({f"{i}": () for i in range(of)}, fraction)) == expected
    # What counts for several is not taken where that would be too many.
    first, second, third = sorted("abc", key=hash_fraction)
    sizes = {first: 9, second: 1, third: 2}
    assert corpus.hold_out(dict.fromkeys("abc", ()), 0.25, sizes) == {second, third}


def test_a_split_without_a_note_is_refused(tmp_path):
    train = {"a": [("x", "O")], "b": [("y", "O")]}
    made = corpus.with_development(train, train, "", lambda row: (), 0.5)
    assert [len(rows) for rows in made.values()] == [1, 1, 2]
    for listed, split in (("a\nb", "training"), ("", "development")):
        (tmp_path / "dev.txt").write_text(listed)
        with pytest.raises(corpus.CorpusError, match=f"dev.txt leaves nothing for {split}"):
            corpus.with_development(train, train, str(tmp_path / "dev.txt"), lambda row: ())
    # A note that alone has a label stays where it is learnt from.
    with pytest.raises(corpus.CorpusError, match="=0.1 leaves nothing for development"):
        corpus.with_development(train, train, "", lambda row: row[:1])


def test_what_is_held_out_is_the_same_in_every_process(said_in_new_processes):
    program = (
        "from data_prep.corpora import corpus\n"
        "print(sorted(corpus.hold_out({f'note {i}': {'x', 'y'} for i in range(40)})))"
    )
    assert len(said_in_new_processes(program)) == 1
