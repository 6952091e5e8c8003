import gzip
import io
import os
import tarfile
import zipfile

import pytest

from data_prep.corpora import released_files
from tests.data_prep.locked_folders import refuse_locked


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
    result = released_files.find(tmp_path, PATTERN)
    assert {key: file.text() for key, file in result.items()} == {
        "a/1.txt": "one\n",
        "b.txt": "two\n",
    }
    if len(files) == 1:
        (name,) = files
        assert released_files.find(tmp_path / name, PATTERN).keys() == result.keys()


def damaged(data):
    return data[:60] + bytes([data[60] ^ 255]) + data[61:]


def locked(data):
    """Returns a zip archive that says that its only member needs a password."""
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
    monkeypatch.setattr(released_files, "MAX_FILE_BYTES", 60_000)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(released_files.CorpusError, match=message):
        released_files.find(tmp_path, PATTERN)


def test_archives_of_archives_have_an_end(tmp_path):
    data = zipped({"b.txt": b""})
    for _ in range(released_files.MAX_ARCHIVE_DEPTH):
        data = zipped({"y.zip": data})
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(released_files.CorpusError, match="too deep"):
        released_files.find(tmp_path, PATTERN)


def test_a_link_in_an_archive_is_not_followed(tmp_path):
    link = tarfile.TarInfo("b.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.addfile(link)
    with pytest.raises(released_files.CorpusError, match="holds no file"):
        released_files.find(tmp_path, PATTERN)


def test_a_missing_release_is_named(tmp_path):
    with pytest.raises(released_files.CorpusError, match="none does not exist"):
        released_files.find(tmp_path / "none", PATTERN)


def test_rows_are_counted_and_text_is_utf_8():
    file = released_files.File("f.tsv", "\ufeff1\ta\tb\r\n2\tc\u2028\td\n".encode())
    assert list(file.rows(3)) == [(1, ["1", "a", "b"]), (2, ["2", "c\u2028", "d"])]
    assert list(file.rows(2)) == [(1, ["1", "a\tb"]), (2, ["2", "c\u2028\td"])]
    with pytest.raises(released_files.CorpusError, match=r"f\.tsv, line 1: expected 4 .* found 3"):
        list(file.rows(4))
    with pytest.raises(released_files.CorpusError, match=r"f\.tsv is not text in UTF-8"):
        _ = released_files.File("f.tsv", b"\xff\xfe").text()
    for data in (b"{", b"[" * 100_000):
        with pytest.raises(released_files.CorpusError, match=r"f\.json is not JSON"):
            _ = released_files.File("f.json", data).json()


def test_folders_behind_links_are_read_and_locked_ones_named(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/1.txt").write_bytes(b"one\n")
    (tmp_path / "r").mkdir()
    (tmp_path / "r/b.txt").write_bytes(b"two\n")
    (tmp_path / "r/a").symlink_to(tmp_path / "elsewhere")
    assert released_files.find(tmp_path / "r", PATTERN).keys() == {"a/1.txt", "b.txt"}
    (tmp_path / "r/locked").mkdir()
    monkeypatch.setattr(os, "scandir", refuse_locked(os.scandir))
    with pytest.raises(released_files.CorpusError, match="r/locked cannot be listed: Permission"):
        released_files.find(tmp_path / "r", PATTERN)
