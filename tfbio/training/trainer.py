"""The training loop: takes steps, evaluates and saves on the way, and ends where it is told to."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Sequence

import tensorflow as tf

from tfbio.base.errors import UserError
from tfbio.training.best_weights import BestWeights
from tfbio.training.checkpointing import Checkpointer
from tfbio.training.preemption import Preemption
from tfbio.training.profile import Profile
from tfbio.training.summaries import Summaries

# Figures by name, each a number or a tensor [].
Figures = dict[str, float | tf.Tensor]

# What TensorFlow and XLA say of memory, but not of a full disk, which gives the same error.
_OF_MEMORY = re.compile(r"\bOOM\b|\bmemory\b|\ballocat", re.IGNORECASE)


@contextlib.contextmanager
def naming_remedy(remedy: str) -> Iterator[None]:
    """Turns an error of a `with` block into a sentence where the memory of a device ran out.

    Args:
      remedy: the sentence's end, such as "give a smaller train_batch_size".

    Yields:
      None, once.

    Raises:
      UserError: memory ran out. Any other error passes unchanged.
    """
    try:
        yield
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        text = str(error)
        is_of_files = "No space left on device" in text or "quota exceeded" in text
        if isinstance(error, MemoryError) or (_OF_MEMORY.search(text) and not is_of_files):
            raise UserError(f"memory ran out: {remedy}.") from error
        raise


@dataclasses.dataclass(kw_only=True)
class Trainer:
    """The training loop of pretraining and fine-tuning; it knows neither a loss nor a metric.

    Attributes:
      steps_per_loop: steps in one call of the device, after which figures are logged.
      eval_every: steps between two evaluations.
      save_every: steps between two checkpoints.
      checkpointer: saves the checkpoints.
      preemption: says when the process is to end.
      profile: traces some of the steps.
      curves: writes the figures of training.
      eval_curves: writes the figures of evaluations.
      on_trained: called with the figures of each loop of steps before they are written; may change
        them, or raise.
      on_evaluated: called with the figures of each evaluation before they are written.
      best: keeps the weights of the best evaluation, and may end the training; None: neither.
      save_at: steps at which a loop ends and a checkpoint is saved besides.
    """

    steps_per_loop: int
    eval_every: int
    save_every: int
    checkpointer: Checkpointer
    preemption: Preemption
    profile: Profile
    curves: Summaries
    eval_curves: Summaries
    on_trained: Callable[[Figures], None]
    on_evaluated: Callable[[Figures], None]
    best: BestWeights | None = None
    save_at: Collection[int] = ()

    def fit(
        self,
        step: int,
        until: int,
        train: Callable[[int], Figures],
        evaluate: Callable[[], Figures] | None,
        stops: Sequence[int] = (),
    ) -> int:
        """Trains from `step` to `until`, and evaluates and saves checkpoints on the way.

        It takes fewer steps if the process is told to end, or if evaluations get no better: see
        `best`. It then ends between two loops of steps; saving is left to the caller.

        Args:
          step: the steps done so far.
          until: the last step; evaluated in any case.
          train: called with a number of steps, takes them and returns their figures: by name a
            number or a tensor [].
          evaluate: returns the figures of the current weights; None: nothing is evaluated.
          stops: steps at which a loop must end.

        Returns:
          The steps done, an int.

        Raises:
          NotFiniteError: a weight is not finite when a checkpoint is due. Errors of `train`,
            `evaluate`, `on_trained` and `on_evaluated` pass unchanged.
        """
        while step < until and not self.preemption.sent:
            if self.best and self.best.gave_up:
                break
            before, step = step, self._end_of_loop(step, until, stops)
            self.profile.start_at(before)
            figures = train(step - before)
            self.profile.stop_at(step)
            self.on_trained(figures)
            self.curves.write(step, figures)
            if evaluate and (step % self.eval_every == 0 or step == until):
                figures = evaluate()
                if self.best:
                    self.best.update(step, figures)
                self.on_evaluated(figures)
                self.eval_curves.write(step, figures)
            # Last, so that a run which is killed does not lack the evaluation of a saved step.
            if step // self.save_every > before // self.save_every or step in self.save_at:
                self.checkpointer.save()
        return step

    def _end_of_loop(self, step: int, until: int, stops: Sequence[int]) -> int:
        """Returns the first step after `step` at which a loop ends."""
        nexts = ((step // every + 1) * every for every in (self.eval_every, self.save_every))
        ends = (step + self.steps_per_loop, *nexts, until, *stops, *self.profile.borders)
        ends += tuple(self.save_at)
        return min(end for end in ends if end > step)
