"""What a person watches of a run: progress, warnings, and how it ends early."""

import contextlib
import datetime
import io
import signal
import sys
import time
from collections.abc import Callable, Iterator

import tensorflow as tf
import tqdm

from tfbio import cli, objective_cost
from tfbio.pretraining_config import PretrainingConfig

# Seconds between two lines of progress, where there is no terminal.
SHOW_EVERY = 10.0
# A discriminator of this AUC or less cannot tell replaced tokens from others; 0.5 is chance.
CHANCE_AUC = 0.52


class Progress:
    """A bar on a terminal, a line for every loop of steps elsewhere; warnings on both.

    Args:
      config: the run's settings.
      global_step: int64 [], the steps done so far.
      frequencies_loss: the loss of predicting hidden tokens by how often each word occurs.
      peak: FLOP/s of all devices together, see `distribution.peak`; None: not known.
      silent: only the figures that are logged, as for all workers but one.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        global_step: tf.Variable,
        frequencies_loss: float,
        peak: float | None = None,
        silent: bool = False,
    ):
        self.config, self.peak, self.silent = config, peak, silent
        self.total, self.batch_size = config.num_train_steps, config.train_batch_size
        self.num_warmup_steps = config.generator_warmup_steps + config.num_warmup_steps
        # Without a generator that learns, its loss never changes.
        self.learns_words = config.objective == "mlm" or not config.uniform_generator
        self.global_step, self.frequencies_loss = global_step, frequencies_loss
        self.skipped_steps = 0
        self.bar = None

    def start(self) -> None:
        """Starts the clock at the current step."""
        self.step = self.first_step = int(self.global_step.numpy())
        self.start_time = self.time = time.time()
        # orbit's lines are caught on sys.stdout, see `without_orbit_lines`; this is the real one.
        self.stream = sys.stdout
        if sys.stderr.isatty() and not self.silent:
            self.bar = tqdm.tqdm(total=self.total, initial=self.step, unit="step")

    def trained(self, output: dict) -> None:
        """After a loop of steps."""
        now, step = time.time(), int(self.global_step.numpy())
        seconds, steps = now - self.time, step - self.step
        output["examples_per_second"] = steps * self.batch_size / seconds
        output["tokens_per_second"] = output.pop("tokens") / seconds
        if self.peak:
            flops = objective_cost.run_flops(self.config, self.step, step)
            output["share_of_peak"] = flops / (seconds * self.peak)
        self.time, self.step = now, step
        skipped = int(output["skipped_steps"])
        if skipped > self.skipped_steps:
            self._print(
                f"warning: {skipped - self.skipped_steps} of the last {steps} steps were skipped, "
                "as their gradients were not finite."
            )
        self.skipped_steps = skipped
        figures = (
            f"{_figures(output)} | {output['examples_per_second']:,.1f} examples/s | "
            f"{output['tokens_per_second']:,.0f} tokens/s"
        )
        if self.peak:
            figures += f" | {100 * output['share_of_peak']:.0f} % of peak"
        if self.bar:
            self.bar.set_postfix_str(figures, refresh=False)
            self.bar.update(steps)
            return
        rate = (step - self.first_step) / (now - self.start_time)
        left = datetime.timedelta(seconds=round((self.total - step) / rate))
        self._print(f"step {step}/{self.total} | {figures} | {left} left")

    def evaluated(self, output: dict) -> None:
        """After an evaluation."""
        step = int(self.global_step.numpy())
        self._print(f"held-out at step {step}: {_figures(output)}")
        if step > self.num_warmup_steps:
            self._warn_of_collapse(output)
        self.time = time.time()

    def _warn_of_collapse(self, output: dict) -> None:
        who, loss = "model", output["loss"]
        if "generator_loss" in output:
            who, loss = "generator", output["generator_loss"]
            auc = output["discriminator_auc"]
            if auc <= CHANCE_AUC:
                self._print(
                    "warning: the discriminator cannot tell replaced tokens from others "
                    f"(AUC {auc:.3f})."
                )
        # Not a number is no better, either.
        if self.learns_words and not loss < self.frequencies_loss:
            self._print(
                f"warning: the {who} knows no more than how often each word occurs "
                f"(its loss {loss:.3f}, that of the frequencies {self.frequencies_loss:.3f})."
            )

    def close(self) -> None:
        """Ends the bar."""
        if self.bar:
            self.bar.close()

    def _print(self, line: str) -> None:
        if self.bar:
            self.bar.write(line, file=self.stream)
        elif not self.silent:
            print(line, file=self.stream, flush=True)


class Count:
    """Shows how far something has come: a bar on a terminal, else a line every ten seconds.

    Args:
      name: of what is done.
      total: when it is done; None: nothing is shown.
      unit: of what is counted, in the plural.

    Attributes:
      done: how many are done.
    """

    def __init__(self, name: str, total: int | None, unit: str):
        self.name, self.total, self.unit, self.done = name, total, unit, 0
        self._start = self._shown = time.monotonic()
        self.bar = None
        if total is not None and sys.stderr.isatty():
            self.bar = tqdm.tqdm(total=total, desc=name, unit=f" {unit}")

    def __enter__(self) -> "Count":
        return self

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.close()

    def at(self, done: int, figures: str = "") -> None:
        """Shows that `done` are done, if it is time to, with further figures."""
        self.done, now = done, time.monotonic()
        if self.bar is not None:
            if figures:
                self.bar.set_postfix_str(figures, refresh=False)
            self.bar.update(done - self.bar.n)
        elif self.total is not None and now - self._shown >= SHOW_EVERY:
            self._shown = now
            parts = [f"{self.name} | {done:,}/{self.total:,} {self.unit}", figures]
            if done:
                rate = done / (now - self._start)
                left = datetime.timedelta(seconds=round((self.total - done) / rate))
                parts += [f"{rate:,.1f} {self.unit}/s", f"{left} left"]
            print(" | ".join(filter(None, parts)), flush=True)


class Preemption:
    """Notes within its `with` block that the process was sent SIGTERM or Ctrl-C, and lets it go on.

    So the run of a preempted machine, or one that a user ends, can be saved where it is, after the
    current loop of steps. A loop should take less than the machine is given to end, usually 30
    seconds: see `run.steps_per_loop`. A second Ctrl-C ends the process at once. Of several workers,
    all end where one was sent a signal, in the same place.

    Args:
      strategy: of the run.
      saved: tells what is saved, for the second Ctrl-C.

    Attributes:
      signal: what was sent last; SIGTERM if nothing was.
    """

    def __init__(self, strategy: tf.distribute.Strategy, saved: Callable[[], str]):
        self._strategy, self._sent, self.signal = strategy, False, signal.SIGTERM
        self._several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._answers = cli.answering_ctrl_c(
            lambda: "Ctrl-C: the run is saved after this loop of steps; again ends it at once",
            saved,
        )

    def __enter__(self) -> "Preemption":
        signals = [signal.SIGTERM]
        # A shell starts so what it does not wait for.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signals.append(signal.SIGINT)
        self._before = {each: signal.signal(each, self._note) for each in signals}
        self._answers.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._answers.__exit__(*error)
        for each, handler in self._before.items():
            signal.signal(each, handler)

    @property
    def sent(self) -> bool:
        """Whether the process, or any worker's, is to end; all workers must ask equally often."""
        if self._several:
            # Asked anew each time: a signal that comes while the others answer counts then.
            return bool(self._over_workers(tf.constant(float(self._sent))))
        return self._sent

    @tf.function
    def _over_workers(self, value: tf.Tensor) -> tf.Tensor:
        values = self._strategy.run(lambda: tf.identity(value))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)

    def _note(self, number: int, _) -> None:
        self._sent, self.signal = True, signal.Signals(number)


class Profile:
    """Writes a trace of some steps for TensorBoard (`plugins/profile` in a folder of logs).

    Loops of steps must end at `borders`. An evaluation between two of the steps is in the trace.

    Args:
      folder: where TensorBoard looks for logs.
      steps: the first and the last, counted from 1; None: no trace.
    """

    def __init__(self, folder: str, steps: tuple[int, int] | None):
        self._folder, self._running = folder, False
        self.borders = (steps[0] - 1, steps[1]) if steps else ()

    def start_at(self, step: int) -> None:
        """Starts the trace after `step` if that is where it begins."""
        if step == min(self.borders, default=None):
            tf.profiler.experimental.start(self._folder)
            self._running = True

    def stop_at(self, step: int) -> None:
        """Writes the trace after `step` if that is where it ends."""
        if step == max(self.borders, default=None):
            self.close()

    def close(self) -> None:
        """Writes what was traced, if a run ends before the last step of its trace."""
        if self._running:
            tf.profiler.experimental.stop()
            self._running = False


def _figures(output: dict) -> str:
    """The few that say how it goes."""
    names = ("loss", "accuracy", "generator_accuracy", "discriminator_auc")
    found = {name.replace("_", " ").replace("auc", "AUC"): output.get(name) for name in names}
    return " | ".join(f"{name} {value:.3f}" for name, value in found.items() if value is not None)


@contextlib.contextmanager
def without_orbit_lines() -> Iterator[None]:
    """orbit prints each of its log lines to stdout as well; `Progress` says the same, shorter."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
