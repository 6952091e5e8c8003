"""TensorFlow is imported when it is first used."""

import subprocess
import sys


def run(code):
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


def test_tensorflow_is_imported_by_its_first_use():
    code = (
        "import sys\n"
        "from tfbio.base.lazy import tensorflow as tf\n"
        "print('tensorflow' in sys.modules)\n"
        "print(tf.constant(2).numpy(), 'tensorflow' in sys.modules)\n"
    )
    assert run(code) == ["False", "2", "True"]


def test_the_task_types_are_known_without_it():
    code = (
        "import sys\n"
        "from tfbio.task_types import own_data, types\n"
        "print(len(types.TYPES), len(own_data.OWN), 'tensorflow' in sys.modules)\n"
    )
    count, own, imported = run(code)
    assert int(count) >= 5 and int(own) >= 7 and imported == "False"
