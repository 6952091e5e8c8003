"""Kills a pretraining run again and again, and compares it with an undisturbed run.

    python scripts/kill_and_resume.py --examples=demo/examples --kills=20
    python scripts/kill_and_resume.py --hparams=biom_bert_large --set=encoder.hidden_size=32 ...

Trains a model of a recipe, by default a small one, twice: once undisturbed, and once with so many
kills at random moments, one in three by SIGTERM, on which the run saves first, the others by
SIGKILL. Every weight, every number of the optimizer and every logged figure of training and
evaluation must be the same, bit for bit. If not, the script prints the differences and ends with
exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def train(command: list[str]) -> None:
    """Runs a command to its end; exits if it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stderr}")


def train_and_kill(command: list[str], sent: signal.Signals, lines: int, seconds: float) -> int:
    """Kills a run some time after it has printed so many lines of progress.

    Args:
      command: the run.
      sent: the signal.
      lines: lines of progress to wait for.
      seconds: to wait after them.

    Returns:
      The last step that it printed; 0 if the run was over before.
    """
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None  # as asked above
    said = []
    for line in process.stdout:
        said.append(line)
        lines -= line.startswith("step ")
        if lines == 0:
            time.sleep(seconds)
            process.send_signal(sent)
            lines = -1  # once
    code = process.wait()
    steps = [line.split()[1].split("/") for line in said if line.startswith("step ")]
    if code == 0 or (steps and steps[-1][0] == steps[-1][1]):
        return 0
    wanted = 128 + sent if sent == signal.SIGTERM else -sent
    if code != wanted:
        sys.exit(f"after {sent.name} the exit code is {code}, not {wanted}")
    if sent == signal.SIGTERM and "which is saved" not in said[-1]:
        sys.exit("after SIGTERM it did not say that it saved")
    return int(steps[-1][0])


def saved(model_dir: Path, step: int) -> dict:
    """Reads the weights and the optimizer's state at a step, by name."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(model_dir / f"ckpt-{step}"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.startswith(("model/", "optimizer/"))  # not how often it was saved
    }


def logged(model_dir: Path) -> set[tuple[int, str, float]]:
    """Reads (step, name, value) of all logged figures except those of speed."""
    import tensorflow as tf

    figures = set()
    for file in sorted((model_dir / "logs").rglob("*tfevents*")):
        with contextlib.suppress(tf.errors.DataLossError):  # where it was killed as it wrote
            for event in tf.compat.v1.train.summary_iterator(str(file)):
                for value in event.summary.value:
                    if "per_second" not in value.tag and value.tag != "share_of_peak":
                        number = tf.make_ndarray(value.tensor).item()
                        figures.add((event.step, f"{file.parent.name} {value.tag}", number))
    return figures


def _bits(array: np.ndarray) -> tuple[object, ...]:
    """Returns what two arrays have in common that are the same bit for bit."""
    return array.dtype, array.shape, array.tobytes()


def main() -> None:
    """Trains both runs and compares them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--examples", action="append", required=True, help="as for run_pretraining.py; repeatable"
    )
    parser.add_argument("--hparams", default="quickstart", help="a recipe, which --set may shrink")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    parser.add_argument(
        "--set", action="append", default=[], help="a setting, as for run_pretraining.py"
    )
    parser.add_argument("--teacher", help="as for run_pretraining.py")
    parser.add_argument("--init_checkpoint", help="as for run_pretraining.py")
    flags = parser.parse_args()

    from tfbio.base.manifests import read_manifest

    words = read_manifest(flags.examples[0], "examples").settings["vocab_size"]
    command = [sys.executable, "run_pretraining.py", f"--hparams={flags.hparams}"]
    command += [f"--examples={folder}" for folder in flags.examples]
    for name in ("teacher", "init_checkpoint"):
        if given := getattr(flags, name):
            command.append(f"--{name}={given}")
    command.append(f"--set=encoder.vocab_size={words}")
    command += ["--set=encoder.hidden_dropout_prob=0.1", f"--set=num_train_steps={flags.steps}"]
    command += ["--set=run.stop_at_step=0", "--set=run.keep_checkpoints_at=[]"]
    command += [f"--set={setting}" for setting in flags.set]
    command += ["--set=run.steps_per_loop=10", "--set=run.save_checkpoints_steps=20"]
    command += ["--set=run.eval_every_steps=100", "--set=run.num_eval_batches=2"]
    command += ["--set=run.keep_checkpoint_max=2"]
    rng = random.Random(flags.seed)
    with tempfile.TemporaryDirectory() as temporary:
        alone, killed = Path(temporary, "alone"), Path(temporary, "killed")
        train([*command, f"--model_dir={alone}"])
        for number in range(flags.kills):
            sent = signal.SIGTERM if number % 3 == 1 else signal.SIGKILL
            lines, seconds = rng.randrange(1, 6), rng.random()
            step = train_and_kill([*command, f"--model_dir={killed}"], sent, lines, seconds)
            if not step:
                sys.exit(f"the run was over after {number} kills: give more --steps")
            print(f"{sent.name} after step {step}", flush=True)
        train([*command, f"--model_dir={killed}"])

        expected, resumed = saved(alone, flags.steps), saved(killed, flags.steps)
        if not expected or expected.keys() != resumed.keys():
            sys.exit("the checkpoints do not hold the same arrays")
        other = [name for name in expected if _bits(expected[name]) != _bits(resumed[name])]
        print(f"{len(expected) - len(other)} of {len(expected)} arrays are the same, bit for bit")
        others = logged(alone) ^ logged(killed)
        if not logged(alone):
            sys.exit("nothing was logged")
        print(f"{len(logged(alone))} logged numbers, {len(others)} differences")
        if other or others:
            sys.exit(f"different: {', '.join([*other, *map(str, sorted(others))][:10])}")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
