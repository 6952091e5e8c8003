import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfbio.base import cli, ctrl_c

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = r'''"""Says hello.

    python hello.py --name=World
"""
from absl import flags
from tfbio.base import cli, errors

def define_flags():
    flags.DEFINE_string("name", "World", "Whom to greet.")
    flags.DEFINE_float("volume", 1.0, "How loud.")
    flags.DEFINE_integer("times", 1, "How often.", lower_bound=1)
    flags.DEFINE_enum("language", "English", ["English", "Latin"], "In what language.")
    cli.define_list("guests", ["nobody"], "Who else.")
    cli.define_list("colours", [], "Of which.", choices=["red", "blue"], may_be_empty=True)
    flags.DEFINE_bool("bow", False, "Whether to bow.")
    flags.DEFINE_string("output", None, "The folder to write to.", required=True)

def main(argv):
    cli.no_arguments(argv)
    if flags.FLAGS.name == "Nobody":
        raise errors.UserError("nobody is here: give another --name.")
    if flags.FLAGS.name == "Interrupted":
        raise errors.Interrupted("the machine was taken away: run it again.")
    if flags.FLAGS.name == "Control-C":
        raise KeyboardInterrupt
    if flags.FLAGS.name == "Torch":
        import torch_that_is_not_there
    if flags.FLAGS.name == "Broken":
        raise ImportError("libx.so: cannot open shared object file", name="torch")
    if flags.FLAGS.name == "Long":
        raise errors.UserError("a" * 200 + "\x1b[31m\n\n" + "b" * 300 + ": the end.")
    if flags.FLAGS.name == "Many":
        print("line\n" * 1_000_000)
    if flags.FLAGS.name == "Bug":
        raise ZeroDivisionError
    if flags.FLAGS.name.startswith("Open "):
        open(flags.FLAGS.name.removeprefix("Open "), "w").close()
    if flags.FLAGS.name == "Cycle":
        import gc
        class Node:
            def __del__(self):
                print("found")
        for _ in range(2):
            node = Node()
            node.itself = node
            del node
            [[] for _ in range(10_000)]
    if flags.FLAGS.name == "Full":
        open("/dev/full", "w", buffering=1).write("line" + chr(10))
    print("Hello,", flags.FLAGS.name)
    if flags.FLAGS.bow:
        print(flags.FLAGS.guests, flags.FLAGS.colours)

if __name__ == "__main__":
    cli.run(main, define_flags, settings=["rate", "run.speed"])
'''


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "hello.py"
    path.write_text(SCRIPT)

    def run(*flags):
        return subprocess.run(
            [sys.executable, str(path), "--output=x", *flags],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )

    run.path = str(path)
    return run


def test_a_command_runs(script):
    assert script("--name=you").stdout == "Hello, you\n"


def test_help_shows_the_docstring_and_the_flags(script):
    said = script("--help").stdout
    assert "python hello.py --name=World" in said and "Whom to greet." in said


@pytest.mark.parametrize(
    ("flag", "code", "said"),
    [
        ("--name=Nobody", 1, "error: nobody is here: give another --name.\n"),
        ("--name=Interrupted", 75, "error: the machine was taken away: run it again.\n"),
        (
            "--name=Control-C",
            130,
            f"interrupted: {ctrl_c.INTERRUPTED}\n",
        ),
        ("you", 2, "error: 'you' is not a flag: write --name=value; --help lists the flags.\n"),
    ],
)
def test_what_users_do_wrong_is_one_sentence(script, flag, code, said):
    done = script(flag)
    assert (done.returncode, done.stderr, done.stdout) == (code, said, "")


def test_help_is_no_failure(script):
    for flag in ("--help", "--helpshort", "--helpfull"):
        done = script(flag)
        assert (done.returncode, done.stderr) == (0, "") and "Whom to greet." in done.stdout, flag


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--nmae=you", "--nmae is no flag of this command: did you mean --name?"),
        ("--qqqq", "--qqqq is no flag of this command: --help lists the flags."),
        ("--rate=1", "--rate is a setting and no flag: give --set rate=VALUE."),
        ("--speed=1", "--speed is a setting and no flag: give --set run.speed=VALUE."),
        ("--name=", "--name= is empty: give a value, or leave the flag out."),
        ("--name", "Missing value for flag --name: see --help."),
        ("--output=y", "--output is given twice, as x and as y: give it once."),
        ("--times=x", "--times=x: expected a positive integer."),
        ("--times=0", "--times=0: expected a positive integer."),
        ("--times=9999999999", "--times=9999999999: expected a whole number below 2147483648."),
        ("--volume=loud", "--volume=loud: expected a number."),
        ("--volume=nan", "--volume=nan: expected a number that is finite."),
        ("--volume=-1e999", "--volume=-inf: expected a number that is finite."),
        ("--language=Greek", "--language=Greek: expected one of English, Latin."),
        ("--guests=", "--guests= is empty: give a value, or leave the flag out."),
        ("--guests=Ann,,Bob", "--guests=Ann,,Bob: one of its values is empty."),
        ("--colours=red,pink", "--colours=pink: expected one of red, blue."),
        ("--bow=deep", "--bow=deep: expected true or false."),
        (
            "--flagfile=nowhere",
            "Unable to open flagfile: [Errno 2] No such file or directory: 'nowhere': see --help.",
        ),
    ],
)
def test_a_bad_flag_is_one_sentence(script, flag, said):
    done = script(flag)
    assert (done.returncode, done.stderr, done.stdout) == (2, f"error: {said}\n", "")


def test_a_list_takes_commas_and_repetition(script, tmp_path):
    assert script("--bow").stdout.endswith("\n['nobody'] []\n")
    there = tmp_path / "Smith, John"
    there.touch()
    done = script("--bow", "--guests=Ann, Bob", "--guests", "Cy", f"--guests={there}", "--colours=")
    assert done.stdout.endswith(f"\n['Ann', 'Bob', 'Cy', '{there}'] []\n")
    assert script("--bow", f"--guests=me={there}").stdout.endswith(f"['me={there}'] []\n")
    done = script("--bow", "--colours=red,blue", "--colours=red", '--guests={"a": 1, "b": 2}')
    assert done.stdout.endswith("""\n['{"a": 1, "b": 2}'] ['red', 'blue', 'red']\n""")


def test_garbage_is_not_looked_for_at_start_and_end(script):
    """TensorFlow has 350,000 objects, which Python would look at again and again."""
    assert script("--name=Cycle").stdout == "Hello, Cycle\n"


def test_a_missing_flag_is_one_sentence(script):
    command = [sys.executable, script.path]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "error: --output is missing: the folder to write to.\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Torch", "the package torch_that_is_not_there is not installed: install it with pip"),
        ("Broken", "the package torch cannot be used as it is installed: libx.so: cannot open"),
        ("Open /", "/ cannot be used: Is a directory."),
        ("Open /nowhere/x", "/nowhere/x cannot be used: No such file or directory."),
        ("Open " + "x" * 300, " cannot be used: File name too long."),
        ("Full", "the output cannot be written: No space left on device; make room, and run"),
        ("Long", ": the end."),
    ],
)
def test_what_the_system_refuses_is_one_sentence(script, name, said):
    done = script(f"--name={name}")
    assert done.returncode == 1 and said in done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert len(done.stderr) <= 301 and "\x1b" not in done.stderr


def test_a_reader_that_ends_early_is_no_traceback(script):
    command = f"{sys.executable} {script.path} --name=Many --output=x | head -1"
    done = subprocess.run(
        ["bash", "-c", command],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stderr.startswith("error: what reads") and done.stderr.count("\n") == 1


def test_a_mistake_in_the_program_keeps_its_traceback(script):
    """For whoever mends it."""
    done = script("--name=Bug")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr.splitlines()[-1]


def test_what_tensorflow_says_of_a_file_is_a_sentence():
    tf = pytest.importorskip("tensorflow")

    def read():
        tf.io.read_file("/nowhere/x").numpy()

    assert cli.exit_code(read) == 1


def test_a_disk_that_is_full_for_tensorflow_is_a_sentence(capsys):
    tf = pytest.importorskip("tensorflow")
    assert cli.exit_code(lambda: tf.io.write_file("/dev/full", "x")) == 1
    assert capsys.readouterr().err == (
        "error: /dev/full cannot be written: No space left on device; make room, and run the same "
        "command again.\n"
    )


@pytest.mark.parametrize("module", ["botocore.exceptions", "gcsfs.retry", "google.auth.exceptions"])
@pytest.mark.parametrize("base", [Exception, OSError])
def test_an_error_of_an_object_stores_package_is_a_sentence(module, base, capsys):
    error = type("NoCredentialsError", (base,), {"__module__": module})

    def find():
        raise error("Unable to locate\ncredentials")

    assert cli.exit_code(find) == 1
    assert capsys.readouterr().err == (
        "error: an object store cannot be used now (Unable to locate credentials): check its "
        "credentials and the network, and run the same command again.\n"
    )


def test_an_error_of_protobuf_is_not_one_of_an_object_store():
    from google.protobuf.message import DecodeError

    def parse():
        raise DecodeError("x")

    with pytest.raises(DecodeError):
        cli.exit_code(parse)


def test_an_error_of_tensorflow_that_is_no_file_is_raised():
    tf = pytest.importorskip("tensorflow")
    with pytest.raises(tf.errors.InvalidArgumentError):
        cli.exit_code(lambda: tf.reshape(tf.zeros([3]), [2]))
