"""The phases of a pretraining run: how long its examples are, and which corpus they are of."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from tfbio.base.config import require
from tfbio.base.messages import shown
from tfbio.objectives.pretraining_run import PretrainingRun


class Phase(NamedTuple):
    """A phase of a pretraining run.

    Attributes:
      sequence_length: tokens of an example.
      start: the number of its first step, from 0.
      end: the number of the first step behind it.
    """

    sequence_length: int
    start: int
    end: int

    @property
    def steps(self) -> int:
        """Counts its steps, an int."""
        return self.end - self.start


class PretrainingPhases:
    """The phases that follow from the settings of a pretraining run; a base of `PretrainingConfig`.

    A phase reads one folder of examples, of one sequence length. A second one begins where the
    examples become longer (`final_sequence_length`), or at each step of `corpus_switch_steps`.

    Attributes:
      sequence_length, final_sequence_length, final_phase_fraction, corpus_switch_steps,
      num_train_steps, run: the settings of `PretrainingConfig`.
    """

    sequence_length: int
    final_sequence_length: int
    final_phase_fraction: float
    corpus_switch_steps: tuple[int, ...]
    num_train_steps: int
    run: PretrainingRun

    @property
    def last_step(self) -> int:
        """The step at which a run of these settings ends, an int; see `run.stop_at_step`."""
        return self.run.stop_at_step or self.num_train_steps

    def phases(self) -> list[Phase]:
        """Lists each `Phase` until `last_step`."""
        length, last = self.sequence_length, self.last_step
        if not self.final_sequence_length:
            # The corpora behind the last step have a folder, too, and no step.
            steps = [min(x, last) for x in (0, *self.corpus_switch_steps, self.num_train_steps)]
            return [Phase(length, *both) for both in itertools.pairwise(steps)]
        if self.run.stop_at_step and last <= self._switch:
            return [Phase(length, 0, last)]
        long = Phase(self.final_sequence_length, self._switch, last)
        return [Phase(length, 0, self._switch), long]

    @property
    def _switch(self) -> int:
        """The step at which the last phase begins."""
        return round(self.num_train_steps * (1 - self.final_phase_fraction))

    def phase_names(self) -> list[str]:
        """Names the phases of the settings: "128", or "128 from step 264000" for a later corpus."""
        later = [f"{self.sequence_length} from step {step}" for step in self.corpus_switch_steps]
        lengths = [str(phase.sequence_length) for phase in self.phases()]
        return [*lengths[: len(lengths) - len(later)], *later]

    def check_phases(self) -> None:
        """Checks that the steps of the settings lie within the run, and returns nothing.

        Raises:
          ConfigError: they do not, or settings of phases do not go together.
        """
        require(
            self.run.stop_at_step <= self.num_train_steps,
            f"run.stop_at_step {self.run.stop_at_step} must be at most num_train_steps "
            f"{self.num_train_steps}",
        )
        require(
            self.final_sequence_length != self.sequence_length,
            f"final_sequence_length {self.final_sequence_length} is sequence_length: set it to 0 "
            "for a run without a last phase",
        )
        steps = self.num_train_steps
        _require_steps("run.keep_checkpoints_at", self.run.keep_checkpoints_at, steps)
        _require_steps("corpus_switch_steps", self.corpus_switch_steps, steps - 1)
        require(
            not (self.corpus_switch_steps and self.final_sequence_length),
            "corpus_switch_steps does not go with final_sequence_length: train the last phase as a "
            "run of its own, with --init_checkpoint",
        )

    def require_steps_in_all(self) -> None:
        """Checks that each phase of a run that begins has a step, and returns nothing.

        A short run, to see whether a long one works, would else not try its long examples.

        Raises:
          ConfigError: one of the two phases has none.
        """
        require(
            not self.final_sequence_length or 0 < self._switch < self.num_train_steps,
            f"with final_phase_fraction {self.final_phase_fraction} one of the two phases has none "
            f"of {self.num_train_steps} steps: give more num_train_steps, another fraction, or "
            "final_sequence_length=0 for one phase",
        )


def _require_steps(name: str, steps: Sequence[int], last: int) -> None:
    """Raises a ConfigError unless the steps of a setting ascend, from 1 to `last` at most."""
    ascend = all(first < second for first, second in itertools.pairwise((0, *steps, last + 1)))
    require(
        ascend, f"{name} must be steps in ascending order, from 1 to {last}, not {shown(steps)}"
    )
