import errno
import fcntl
import json
import os
import re
import socket
import subprocess
import sys
import threading

import pytest

from tfbio.base import errors, file_paths, messages, storage


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    """A folder on this machine, or in a store whose objects are in this process's memory."""
    if request.param == "local":
        yield str(tmp_path)
    else:
        yield f"memory://{request.node.name.partition('[')[0]}"
        storage.remove_folder("memory://")


def test_a_file_appears_whole_or_not_at_all(folder):
    path = f"{folder}/a/b.bin"
    file_paths.at(folder, "a").mkdir(parents=True)
    with storage.written_whole(path) as stream:
        stream.write(b"first")
        assert not file_paths.at(path).exists()
    assert file_paths.at(path).read_bytes() == b"first" and storage.size(path) == 5
    with pytest.raises(KeyError), storage.written_whole(path) as stream:
        stream.write(b"second")
        raise KeyError
    assert file_paths.at(path).read_bytes() == b"first"
    assert [file.name for file in file_paths.at(folder, "a").iterdir()] == ["b.bin"]
    with storage.open_for_parts(path) as stream:
        stream.seek(2)
        assert stream.read(2) == b"rs"


def test_links_and_permissions_stay(tmp_path):
    file, link = tmp_path / "of" / "a.bin", tmp_path / "link.bin"
    file.parent.mkdir()
    link.symlink_to("of/a.bin")  # there is none yet
    for content in (b"first", b"second"):
        with storage.written_whole(link) as stream:
            stream.write(content)
        assert link.is_symlink() and file.read_bytes() == content
        file.chmod(0o600)
    assert file.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_pipe_is_written_to_as_it_is(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    storage.write_text(pipe, "text")
    reader.join(timeout=30)
    assert read == [b"text"] and pipe.is_fifo()
    storage.write_text("/dev/null", "text")
    assert os.path.exists("/dev/null") and not os.path.isfile("/dev/null")


def test_what_a_killed_writer_left_half_written_goes(tmp_path):
    program = (
        "import os, sys\n"
        "from tfbio.base import storage\n"
        "with storage.only_writer(sys.argv[1]), storage.written_whole(sys.argv[2]) as stream:\n"
        "    stream.write(b'half')\n"
        "    stream.flush()\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "out").mkdir()
    for output, file in (("out", "out/a.json"), ("b.json", "b.json")):
        words = [sys.executable, "-c", program, str(tmp_path / output), str(tmp_path / file)]
        assert subprocess.run(words, check=False).returncode == -9, file
    for name in ("b.json.tmp", "out/own.tmp", "c.json.0123456789abcdef0123456789abcdef.tmp"):
        (tmp_path / name).touch()  # of others
    assert len(list(tmp_path.rglob("*.tmp"))) == 5
    for output in ("out", "b.json"):
        with storage.only_writer(tmp_path / output):
            assert not list(tmp_path.rglob(f"{output}*/a.json.*"))
    left = sorted(path.name for path in tmp_path.rglob("*.tmp"))
    assert left == ["b.json.tmp", "c.json.0123456789abcdef0123456789abcdef.tmp", "own.tmp"]


def test_what_another_process_is_writing_stays(tmp_path):
    """As quickstart's folder, in which an annotation is being written."""
    (tmp_path / "out").mkdir()
    with storage.written_whole(tmp_path / "out" / "a.json") as stream:
        stream.write(b"half")
        program = (
            "import sys\n"
            "from tfbio.base import storage\n"
            "with storage.only_writer(sys.argv[1]): pass\n"
        )
        words = [sys.executable, "-c", program, str(tmp_path / "out")]
        subprocess.run(words, check=True)
        assert len(list(tmp_path.rglob("*.tmp"))) == 1
    assert (tmp_path / "out" / "a.json").read_bytes() == b"half"


def test_a_full_disk_has_a_name(tmp_path):
    with pytest.raises(OSError) as error, storage.written_whole(tmp_path / "x"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert messages.of_os_error(error.value) == (
        f"{tmp_path}/x cannot be written: No space left on device; make room, and run the same "
        "command again."
    )
    with pytest.raises(OSError) as error, storage.written_whole(tmp_path / "x"):
        raise OSError(errno.EIO, "of another file")
    assert error.value.filename is None


def test_files_are_found_and_removed(folder):
    for name in ("a/1.xml", "a/b/2.xml", "3.txt"):
        file_paths.at(folder, name).parent.mkdir(parents=True, exist_ok=True)
        file_paths.at(folder, name).write_bytes(b"")
    (path,) = storage.find(f"{folder}/*/*.xml")
    assert path.endswith("/a/1.xml") and file_paths.at(path).is_file()
    assert len(storage.find(f"{folder}/**/*.xml")) == 2
    for _ in range(2):
        storage.remove_folder(f"{folder}/a")
        assert storage.find(f"{folder}/**/*.xml") == []
    assert file_paths.at(folder, "3.txt").exists()


@pytest.fixture
def holder(tmp_path):
    """Starts a process that writes to a path until it is told to end; gives the process."""
    program = (
        "import sys\n"
        "from tfbio.base import storage\n"
        "with storage.only_writer(sys.argv[1]):\n"
        "    print('writing', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    started = []

    def start(path):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "writing\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def write_nothing(path):
    with storage.only_writer(path):
        pass


def test_a_second_writer_is_refused_and_told_who_is_the_first(holder, tmp_path):
    first = holder(tmp_path / "out" / "documents")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for spelling in ("out/documents", "out/../out/documents/", "link/documents"):
        with pytest.raises(errors.UserError) as error:
            write_nothing(f"{tmp_path}/{spelling}")
        assert len(str(error.value)) - len(str(tmp_path)) <= 300
        who = rf"process {first.pid} on {re.escape(socket.gethostname())} since 20\d\d-\S+ \S+ \("
        assert re.search(
            rf"{spelling} is being written by {who}.*python.* -c .*\): wait", str(error.value)
        )
    write_nothing(tmp_path / "out" / "examples")  # another folder
    first.communicate("")
    assert first.returncode == 0
    # It has left nothing, also not the folder that it made for the lock.
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_a_writer_that_was_killed_keeps_nobody_out(holder, tmp_path):
    first = holder(tmp_path / "documents")
    first.kill()
    first.wait()
    lock = tmp_path / ".documents.lock"
    assert json.loads(lock.read_text())["pid"] == first.pid
    write_nothing(tmp_path / "documents")
    assert list(tmp_path.iterdir()) == []
    # Whatever it says: its number is now that of a process which lives, or is one of another host.
    for pid, host in ((os.getpid(), socket.gethostname()), (1, "elsewhere")):
        note = {"pid": pid, "host": host, "command": "x", "since": "2020-01-01"}
        lock.write_text(json.dumps(note) + " " * 500)
        with storage.only_writer(tmp_path / "documents"):
            assert json.loads(lock.read_text())["command"] != "x"  # nothing of it remains
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_says_nothing_is_one_nevertheless(holder, tmp_path):
    holder(tmp_path / "x")
    for text in ("", "[1]", '{"pid": 1}'):
        (tmp_path / ".x.lock").write_text(text)
        with pytest.raises(errors.UserError, match="x is being written by another process: wait"):
            write_nothing(tmp_path / "x")


def test_a_lock_that_its_owner_removed_is_taken_anew(tmp_path, monkeypatch):
    # Between opening the file and locking it: what was opened has no name any more.
    locks, flock = [], fcntl.flock

    def after_the_owner_ended(descriptor, operation):
        if not locks:
            (tmp_path / ".x.lock").unlink()
        locks.append(descriptor)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", after_the_owner_ended)
    with storage.only_writer(tmp_path / "x"):
        assert len(locks) == 2 and (tmp_path / ".x.lock").exists()


def test_the_lock_goes_with_an_error(tmp_path):
    with pytest.raises(KeyError), storage.only_writer(tmp_path / "a" / "b" / "c"):
        (tmp_path / "a" / "kept").write_text("")
        raise KeyError
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]


def test_places_where_no_lock_can_be(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        write_nothing(tmp_path / "file" / "x" / "y")
    with storage.only_writer("memory://x"):
        assert list(tmp_path.iterdir()) == [tmp_path / "file"]

    def none(*_):
        raise OSError(errno.ENOSYS, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    write_nothing(tmp_path / "x")
    assert "has no locks" in capsys.readouterr().err


def test_a_mounted_folder_has_its_lock_inside(tmp_path, monkeypatch):
    (tmp_path / "mounted").mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and access(path, mode))
    with storage.only_writer(tmp_path / "mounted"):
        assert [path.name for path in (tmp_path / "mounted").iterdir()] == [".lock"]
    assert list((tmp_path / "mounted").iterdir()) == []
    # Of what can only be read, finished output is reused.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with storage.only_writer(tmp_path / "mounted"):
        assert list((tmp_path / "mounted").iterdir()) == []


def test_what_is_left_of_an_unfinished_folder_is_removed(tmp_path):
    left = tmp_path / "out.unfinished" / "variables"
    left.mkdir(parents=True)
    for path in (tmp_path / "out", f"{tmp_path}/out/"):
        assert storage.unfinished_folder(path) == str(left.parent)
        assert not list(tmp_path.iterdir())


def test_a_temporary_folder_in_use_is_not_removed(tmp_path):
    """A run of another command, whose output has a similar name, removes what was abandoned."""
    with storage.temporary_folder(tmp_path / "run.brat") as folder:
        for path in (tmp_path / "run", tmp_path):
            storage.remove_half_written(path)
            assert os.path.isdir(folder)
    assert not list(tmp_path.iterdir())
    abandoned = tmp_path / os.path.basename(folder)
    (abandoned / "in").mkdir(parents=True)
    storage.remove_half_written(tmp_path / "run")
    assert not abandoned.exists()


def test_a_temporary_folder_may_be_renamed(tmp_path):
    with storage.temporary_folder(tmp_path / "out") as folder:
        os.rename(folder, tmp_path / "out")
    assert (tmp_path / "out").is_dir()


def test_a_temporary_folder_is_on_the_file_system_of_the_folder(tmp_path):
    """In it, since beside it there may be another one, and it may be forbidden to write there."""
    real = tmp_path / "disk" / "out"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    with storage.temporary_folder(tmp_path / "link") as folder:
        assert os.path.dirname(folder) == str(real)
    assert not list(real.iterdir())
    (real / os.path.basename(folder)).mkdir()
    storage.remove_half_written(real)
    assert not list(real.iterdir())


@pytest.fixture
def bucket():
    """Four files in a store whose objects are in this process's memory."""
    folder = "memory://bucket"
    for name in ("a/1.xml", "a/2.xml", "b/3.xml", "a/c/4.xml"):
        file_paths.at(folder, name).write_bytes(b"")
    yield folder
    storage.remove_folder("memory://")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a/*.xml", ["1.xml", "2.xml"]),
        ("a/*", ["1.xml", "2.xml"]),
        ("*/[13].x?l", ["1.xml", "3.xml"]),
        ("a/**", ["1.xml", "2.xml", "4.xml"]),
        ("b/3.xml", ["3.xml"]),
        ("a", []),
        ("gone/*", []),
        ("gone", []),
    ],
)
def test_files_are_found_by_listings_alone(bucket, monkeypatch, pattern, names):
    """So no file is left out for a request that fails."""
    files = type(file_paths.address(bucket).fs)
    monkeypatch.setattr(files, "isfile", lambda *_: False)
    found = storage.find(f"{bucket}/{pattern}")
    assert sorted(path.rpartition("/")[2] for path in found) == names


def test_a_folder_in_its_own_list_is_not_below_itself(bucket, monkeypatch):
    """As gcsfs lists a folder that the console of a cloud has made."""
    files = type(file_paths.address(bucket).fs)
    ls = files.ls

    def with_itself(self, path, **flags):
        return [{"name": path, "type": "directory"}, *ls(self, path, **flags)]

    monkeypatch.setattr(files, "ls", with_itself)
    assert [path[-8:] for path in storage.find(f"{bucket}/a/*/*.xml")] == ["/c/4.xml"]


@pytest.mark.parametrize("pattern", ["a/*.xml", "*/*.xml", "b/3.xml"])
def test_a_listing_that_fails_is_an_error(bucket, monkeypatch, pattern):
    files = type(file_paths.address(bucket).fs)

    def fail(*_, **__):
        raise OSError(errno.EIO, "the store does not answer")

    for name in ("ls", "info"):
        monkeypatch.setattr(files, name, fail)
    with pytest.raises(OSError, match="does not answer"):
        storage.find(f"{bucket}/{pattern}")
