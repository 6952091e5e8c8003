"""Shows a pretraining run's progress: a bar or lines of figures, and warnings of a collapse."""

from __future__ import annotations

import datetime
import sys
import time

import tensorflow as tf
import tqdm

from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig

# A discriminator of this AUC or less cannot tell replaced tokens from others; 0.5 is chance.
_CHANCE_AUC = 0.52
# Without tqdm's own time and rate: a step of the last phase may take longer than those before.
_BAR_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


class Progress:
    """The display of a pretraining run's progress, a bar on a terminal, else a line for each loop.

    It prints warnings of skipped steps and of a collapse on both.

    Args:
      config: the run's settings.
      global_step: int64 [], the steps done so far.
      frequencies_loss: the loss of predicting masked tokens by how often each word occurs.
      peak: FLOP/s of all devices together, see `devices.peak`; None: not known.
      silent: True to show nothing and only compute the figures that are logged, as all workers but
        one do.

    Attributes:
      config, global_step, frequencies_loss, peak, silent: the arguments.
      total: the steps of the run.
      batch_size: the examples of a step.
      num_warmup_steps: the steps before which no collapse is warned of.
      learns_words: True if a model or a generator learns to predict words.
      skipped_steps: the steps that were skipped so far.
      bar: the bar of tqdm, or None.
      step, first_step: the step of the last call, and that of `start`.
      time, start_time: the same in seconds of `time.monotonic`.
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
        self.total, self.batch_size = config.last_step, config.train_batch_size
        self.num_warmup_steps = config.generator_warmup_steps + config.num_warmup_steps
        # Without a generator that learns, its loss never changes.
        self.learns_words = config.objective == "mlm" or not config.uniform_generator
        self.global_step, self.frequencies_loss = global_step, frequencies_loss
        self.skipped_steps = 0
        self.bar = None

    def start(self) -> None:
        """Starts the clock of a pretraining run and, on a terminal, its bar; returns nothing.

        It notes the current step, and must be called first.
        """
        self.step = self.first_step = int(self.global_step.numpy())
        self.start_time = self.time = time.monotonic()
        if sys.stderr.isatty() and not self.silent:
            self.bar = tqdm.tqdm(
                total=self.total, initial=self.step, unit="step", bar_format=_BAR_FORMAT
            )

    def trained(self, output: dict) -> None:
        """Shows the progress of a pretraining run after a loop of steps, and adds figures of speed.

        Returns nothing.

        Args:
          output: the figures by name, numbers, with `tokens` and `skipped_steps`; changed in place.
            `tokens` becomes `tokens_per_second`, and there are `steps_per_second`,
            `examples_per_second` and, where the peak is known, `share_of_peak`, a fraction. A share
            above 1 is left out: the peak was measured while the machine had other work.
        """
        now, step = time.monotonic(), int(self.global_step.numpy())
        seconds, steps = now - self.time, step - self.step
        output["steps_per_second"] = steps / seconds
        output["examples_per_second"] = steps * self.batch_size / seconds
        output["tokens_per_second"] = output.pop("tokens") / seconds
        if self.peak:
            flops = objective_cost.run_flops(self.config, self.step, step)
            share = flops / (seconds * self.peak)
            if share <= 1:
                output["share_of_peak"] = share
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
        if "share_of_peak" in output:
            figures += f" | {100 * output['share_of_peak']:.0f} % of peak"
        # By FLOPs, as a step of the last phase may take several times as long as one of the first.
        done = objective_cost.run_flops(self.config, self.first_step, step)
        to_do = objective_cost.run_flops(self.config, step)
        left = datetime.timedelta(seconds=round((now - self.start_time) * to_do / done))
        figures += f" | {left} left"
        if self.bar:
            self.bar.set_postfix_str(figures, refresh=False)
            self.bar.update(steps)
            return
        self._print(f"step {step}/{self.total} | {figures}")

    def evaluated(self, output: dict) -> None:
        """Prints a pretraining run's held-out figures, and after the warm-up warns of a collapse.

        Returns nothing.

        Args:
          output: the figures by name, numbers: `loss`; of a model with a sentence-pair loss
            `mlm_loss`; and of an ELECTRA `generator_loss` and `discriminator_auc`. They stay as
            they are.
        """
        step = int(self.global_step.numpy())
        self._print(f"held-out at step {step}: {_figures(output)}")
        if step > self.num_warmup_steps:
            self._warn_of_collapse(output)
        self.time = time.monotonic()

    def _warn_of_collapse(self, output: dict) -> None:
        # The loss of the words alone, where that of sentence pairs is in "loss", too.
        who, loss = "model", output.get("mlm_loss", output["loss"])
        if "generator_loss" in output:
            who, loss = "generator", output["generator_loss"]
            auc = output["discriminator_auc"]
            if auc <= _CHANCE_AUC:
                self._print(
                    "warning: the discriminator cannot tell replaced tokens from others "
                    f"(AUC {auc:.3f})."
                )
        # A loss that is not a number is no better.
        if self.learns_words and not loss < self.frequencies_loss:
            self._print(
                f"warning: the {who} knows no more than how often each word occurs "
                f"(its loss {loss:.3f}, that of the frequencies {self.frequencies_loss:.3f})."
            )

    def close(self) -> None:
        """Ends the bar of a pretraining run, if there is one; returns nothing."""
        if self.bar:
            self.bar.close()

    def _print(self, line: str) -> None:
        if self.bar:
            self.bar.write(line)
        elif not self.silent:
            print(line, flush=True)


def _figures(output: dict) -> str:
    """Formats the losses, accuracies and the AUC among the figures."""
    of_pairs = "sentence_pair_balanced_accuracy"
    names = ("loss", "accuracy", "generator_accuracy", "discriminator_auc", of_pairs)
    values = {name.replace("_", " ").replace("auc", "AUC"): output.get(name) for name in names}
    return " | ".join(f"{name} {value:.3f}" for name, value in values.items() if value is not None)
