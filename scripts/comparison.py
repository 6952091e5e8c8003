"""Runs the commands of a comparison of encoders and keeps their scores, so that it can go on.

`compare_families.py` and `compare_budgets.py` say what is compared.
"""

from __future__ import annotations

import abc
import hashlib
import json
import os
import re
import resource
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote

from absl import flags

from scripts import commands, score_files
from scripts.commands import ROOT
from scripts.families import FINETUNING, SMALL_FINETUNING, TASKS, TRIALS
from tfbio.base import cli, errors, storage
from tfbio.base.manifests import Manifest, read_manifest
from tfbio.task_types import task_table
from tfbio.training import cpu_bfloat16


def define_flags(output: str) -> None:
    """Defines the flags that all comparisons have.

    Args:
      output: the default of --output.
    """
    flags.DEFINE_string("output", output, "Folder of all output.")
    flags.DEFINE_string(
        "results", None, "File of the scores, such as another machine's, to continue; scores.jsonl."
    )
    flags.DEFINE_string(
        "documents", None, "Other documents: a folder that data_prep.documents wrote."
    )
    cli.define_list(
        "task_data",
        [],
        f"TASK=FOLDER: the data of a further task to fine-tune on: {', '.join(list(TASKS)[1:])}.",
    )


class Comparison(abc.ABC):
    """The runs in a folder, and the scores that are there.

    A subclass says what is run, and writes its report.

    Args:
      folder: the folder of all output.
      documents: the folder of other documents; "": those of the shipped files are made.
      task_data: TASK=FOLDER for each further task to fine-tune on.
      results: the file of the scores; "": scores.jsonl in `folder`.
      small: True to try the commands.
      precision: `run.precision` of fine-tuning, on all machines.

    Raises:
      UsageError: a task is not known, or is given twice.
      UserError: a folder or file is not what it should be.
    """

    # Of the data, what all scores depend on: the names in the file of the scores, and those in the
    # manifest of the examples.
    DATA: Mapping[str, str] = {"documents": "documents_sha256"}

    def __init__(
        self,
        folder: str,
        documents: str = "",
        task_data: Sequence[str] = (),
        results: str = "",
        small: bool = False,
        precision: str = "bfloat16",
    ) -> None:
        # The commands run in the folder of this checkout.
        self.folder, self.small, self.precision = os.path.abspath(folder), small, precision
        self.makes_documents = not documents
        if documents:
            read_manifest(documents, "documents")
        self.documents = os.path.abspath(documents or f"{folder}/documents")
        self.data = {"sentence_roles": f"{self.folder}/sentence_roles"}
        for pair in task_data:
            task, _, data = pair.partition("=")
            if task not in TASKS or task in self.data or not data:
                raise errors.UsageError(
                    f"--task_data={pair} is not TASK=FOLDER, TASK one of "
                    f"{', '.join(list(TASKS)[1:])}, each once."
                )
            if not os.path.isdir(data):
                raise errors.UserError(f"--task_data={pair}: {data} is no folder.")
            self.data[task] = os.path.abspath(data)
        self.scores = score_files.path_of(folder, results)
        self.records = score_files.read(self.scores)

    @abc.abstractmethod
    def report(self) -> None:
        """Writes the report."""

    def settings_of_all(self) -> dict[str, object]:
        """Returns the settings that all scores have in common, most by the names of flags."""
        cuts_off = bool(rounding(self.precision))
        return {"small": self.small, "precision": self.precision, "cuts_off_products": cuts_off}

    def prepare(self, examples: Sequence[tuple[str, str]]) -> None:
        """Makes documents, vocabulary, labelled sentences and examples.

        Args:
          examples: the name of each folder of examples, and the flags that make it; one at least.

        Raises:
          UserError: the scores that are there are another comparison's, or a command failed.
        """
        score_files.check(self.scores, self.records, self.settings_of_all())
        if self.makes_documents:
            small = " --max_articles=600 --workers=1" if self.small else ""
            python(f"-m data_prep.documents --output={quote(self.documents)}{small}")
        documents, vocabulary = quote(self.documents), quote(f"{self.folder}/vocab.txt")
        size = 1500 if self.small else 8192
        python(
            f"-m data_prep.vocabulary --documents={documents} --output={vocabulary} --size={size}"
        )
        python(
            f"-m data_prep.sentence_roles --documents={documents} "
            f"--output={quote(self.data['sentence_roles'])}"
        )
        for name, options in examples:
            python(
                f"-m data_prep.examples --documents={documents} --vocab={vocabulary} "
                f"--output={quote(self.examples(name))} {options} "
                "--sequence_length=128" + (" --workers=1" if self.small else "")
            )
        made_of = self.manifest(examples[0][0]).settings
        common = self.settings_of_all() | {name: made_of[key] for name, key in self.DATA.items()}
        score_files.begin(self.scores, self.records, common)

    def examples(self, name: str) -> str:
        """Returns the path of a folder of examples.

        Args:
          name: its name in `prepare`.
        """
        return f"{self.folder}/examples_{name}"

    def manifest(self, name: str) -> Manifest:
        """Returns the manifest of a folder of examples.

        Args:
          name: its name in `prepare`.
        """
        return read_manifest(self.examples(name), "examples")

    def digest_of_finetuning(self, task: str, start: str) -> str:
        """Returns a short hash of what a fine-tuned encoder's score depends on.

        Args:
          task: the task.
          start: the short hash of what fine-tuning starts from.
        """
        files = task_table.TASKS[task].files(self.data[task])
        content = {split: storage.sha256_of(path) for split, path in files.items()}
        return short_hash([start, self._finetuning(task), content, *rounding(self.precision)])

    def finetune(
        self, key: Mapping[str, object], digest: str, init_checkpoint: str, name: str
    ) -> None:
        """Fine-tunes with each seed, and keeps the scores on the test set.

        Args:
          key: names the run, with its "task", and "start" "random" for random weights.
          digest: `digest_of_finetuning`.
          init_checkpoint: the folder of the pretrained encoder.
          name: of the folder of output, in that of the task.
        """
        task = str(key["task"])
        output = f"{self.folder}/finetuned/{task}/{name}"
        python(
            f"run_finetuning.py --task={task} --data_dir={quote(self.data[task])} "
            f"--init_checkpoint={quote(init_checkpoint)} --output_dir={quote(output)} "
            f"{self._finetuning(task)} "
            f"--set num_trials={TRIALS}" + (" --from_scratch" if key["start"] == "random" else "")
        )
        scores = json.loads(Path(ROOT, output, "scores.json").read_text(encoding="utf-8"))
        metric = scores["metric"]
        values = [trial["test"][metric] for trial in scores["trials"]]
        self.add(key, digest, metric=metric, scores=values)

    def cpu_time_of_step(
        self,
        command: Callable[[dict[str, object], str], str],
        settings: dict[str, object],
        name: str,
        lengths: tuple[int, int],
        compiled: bool = False,
    ) -> float:
        """Measures the CPU time of a step: that of a run, less that of a shorter one, for a step.

        Args:
          command: makes the command of a run of its settings and its folder.
          settings: the settings of a run, by their names.
          name: begins the names of the runs' folders.
          lengths: the steps of the two runs, the shorter one first.
          compiled: True to run the shorter one once before, since what is compiled stays in
            PyTorch's cache.

        Returns:
          CPU seconds.

        Raises:
          UserError: a command failed, or the longer run took no more CPU time than the shorter one.
        """
        short, long = lengths
        # Neither run comes to its end. Where a run evaluates as it stops, both do.
        settings = settings | {
            "num_train_steps": 2 * long,
            "num_warmup_steps": long,
            "run.eval_every_steps": 2 * long,
            "run.save_checkpoints_steps": 2 * long,
            "run.num_eval_batches": 1,
        }
        seconds = {}
        for steps in (*([short] if compiled else []), short, long):
            model_dir = f"{self.folder}/cost/{name}_{steps}"
            storage.remove_folder(model_dir)
            before = cpu_seconds()
            python(command(settings | {"run.stop_at_step": steps}, model_dir))
            seconds[steps] = cpu_seconds() - before
        per_step = (seconds[long] - seconds[short]) / (long - short)
        if self.small:  # so few steps say nothing
            return max(1e-3, per_step)
        if per_step <= 0:
            raise errors.UserError(
                f"{long} steps took no more CPU time than {short}: run the command again while the "
                "machine does nothing else."
            )
        return per_step

    def other_processor(self) -> str:
        """Says that the CPU times that are there are another processor's; "" if they are not."""
        own = processor()
        others = {x["processor"] for x in self.records if x["stage"] == "cost"} - {own}
        if not others:
            return ""
        return (
            f"{self.scores} has CPU times of {', '.join(sorted(others))}, with which those of "
            f"{own} cannot be compared"
        )

    def found(self, key: Mapping[str, object], digest: str) -> dict | None:
        """Returns the record of a run, or None.

        Args:
          key: names the run.
          digest: the short hash of what its result depends on.

        Raises:
          UserError: the run had other settings or documents.
        """
        for record in self.records:
            if key.items() <= record.items():
                if record["settings"] != digest:
                    raise errors.UserError(
                        f"{self.scores} has a score of other settings or documents, or of a CPU "
                        f"that rounds bfloat16 otherwise, for {json.dumps(key)}: give another "
                        "--results and --output."
                    )
                return record
        return None

    def add(self, key: Mapping[str, object], digest: str, **figures: object) -> dict:
        """Keeps a record, writes the report anew, and returns the record.

        Args:
          key: names the run.
          digest: the short hash of what its result depends on.
          **figures: the result.
        """
        record = {**key, **figures, "settings": digest}
        self.records.append(record)
        self.scores.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(record) + "\n" for record in self.records]
        storage.write_text(self.scores, "".join(lines))
        self.report()
        return record

    def _finetuning(self, task: str) -> str:
        """Returns the flags of the settings of fine-tuning."""
        precision = f"--set run.precision={self.precision}"
        small = [SMALL_FINETUNING] if self.small else []
        return " ".join([FINETUNING, precision, TASKS[task], *small])


def short_hash(settings: object) -> str:
    """Returns 16 hexadecimal digits that stand for settings.

    Args:
      settings: what JSON can hold.
    """
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def rounding(precision: str) -> list[str]:
    """Returns what scores depend on beside their settings: how this CPU rounds products.

    Args:
      precision: "float32", or what begins with "bfloat16".

    Returns:
      Nothing for most CPUs, for which scores go together.
    """
    cut_off = precision.startswith("bfloat16") and cpu_bfloat16.cuts_off_products()
    return ["products are cut off"] if cut_off else []


def diverged(model_dir: str) -> bool:
    """Returns True if too many steps of a pretraining run were skipped, so that it ended."""
    # Such a run keeps the last one's batch.
    return any(Path(ROOT, model_dir).glob("skipped_step_*.npz"))


def python(command: str) -> None:
    """Prints a command, and runs it with this Python in the project's folder.

    Args:
      command: what follows `python`.

    Raises:
      UserError: it failed.
      KeyboardInterrupt: it was interrupted.
    """
    print(f"\npython {command}", flush=True)
    if code := commands.run(command):
        raise errors.UserError(f"this command ended with exit code {code}: {command}")


def cpu_seconds() -> float:
    """Returns the CPU time of all commands so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def processor() -> str:
    """Returns the cores that this process may use, and the processor's name, family and so on."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    first, _, _ = text.partition("\n\n")
    known = dict(re.findall(r"^(.*?)\s*: (.*)$", first, re.MULTILINE))
    # Clouds hide the number in the name, as in "AMD EPYC".
    which = [f"{x} {known[x]}" for x in ("cpu family", "model", "stepping") if x in known]
    name = " ".join([known.get("model name", "an unknown processor"), *which])
    return f"{len(os.sched_getaffinity(0))} cores of {name}"
