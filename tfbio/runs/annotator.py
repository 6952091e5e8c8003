"""Annotates one file after another with a fine-tuned model in memory.

A process makes one `Annotator`, which loads the model, and calls it for each file:
`annotation_processes` does so in processes of this machine, `annotation_pipeline` in the workers of
a Beam pipeline. On machines of one kind its output depends on the input file, the model and the
settings alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from tfbio.base import file_paths, messages, storage
from tfbio.base.errors import UserError
from tfbio.base.shards import Shard
from tfbio.formats import annotation_formats
from tfbio.formats.annotated_documents import Annotated, Document, FormatError
from tfbio.runs import document_formats
from tfbio.runs.annotated_file import AnnotatedFile, Job, ModelFacts, OutOfMemory, bad
from tfbio.runs.prediction_io import Counts
from tfbio.runs.predictor import Predictor
from tfbio.runs.step_times import StepTimes
from tfbio.weights import fine_tuned


class Annotator:
    """A fine-tuned model in memory that annotates files.

    Args:
      model: the path of a fine-tuned model, see `predict.predict`.
      strategy: where to compute.
      overrides: "name=value" each, for settings of the run such as run.eval_batch_size.

    Attributes:
      facts: the `ModelFacts`, which say if two processes annotate with the same model, and alike.

    Raises:
      UserError: there is no such model, it finds no entities, or a setting cannot be used.
    """

    def __init__(
        self,
        model: str,
        strategy: tf.distribute.Strategy,
        overrides: Iterable[str] = (),
    ):
        trial = fine_tuned.find_trial(model, say=lambda line: None)
        settings = fine_tuned.read_settings(trial)
        if settings.trained_on.new_text != "documents":
            raise UserError(
                f"--model={model} takes {settings.trained_on.new_text}: --output_dir is for models "
                "that find entities; give --output."
            )
        self._predictor = Predictor(trial, settings, strategy, [*overrides])
        on_gpu = bool(tf.config.list_physical_devices("GPU"))
        self.facts = ModelFacts.of(trial, self._predictor.precision.name, on_gpu)

    def annotate(self, job: Job, done: Callable[[int], None]) -> AnnotatedFile:
        """Annotates one file, and writes the output whole or not at all.

        Args:
          job: the input file, and where and how to write its entities.
          done: a function that is called with the number of documents that are done.

        Returns:
          An `AnnotatedFile`; one with a problem, and without output, if the input cannot be read or
          the form cannot hold a text of it.

        Raises:
          OSError: the output cannot be written.
          OutOfMemory: memory ran out.
          RuntimeError: anything else has failed; the message names the input.
        """
        times, counts = StepTimes(), Counts()
        left_out: list[str] = []
        annotated = self._predictor.annotate_batches(_documents(job, left_out), done, times)

        def write(counted: Annotated) -> None:
            annotation_formats.write(job.output, job.form, counted, job.compress)

        try:
            times.writing(write, counts.of(annotated))
        except (_BadInput, FormatError) as error:
            return bad(job, messages.cut(str(error), 300))
        except (UserError, OSError, ImportError):  # which name what is to blame
            raise
        except (MemoryError, tf.errors.ResourceExhaustedError) as error:
            raise OutOfMemory(
                f"memory ran out at {job.path}: give --set=run.eval_batch_size=8 and another "
                "--output_dir, or leave the file out of --input and run the same command again."
            ) from error
        except Exception as error:
            raise RuntimeError(
                f"{job.path} cannot be annotated: {messages.cut(repr(error))}: leave it out of "
                "--input, and run the same command again, which continues."
            ) from error
        size, sha256 = storage.size(job.output), storage.sha256_of(job.output)
        shard = Shard(os.path.basename(job.output), counts.documents, size, sha256)
        return AnnotatedFile(
            job.name,
            job.bytes,
            shard,
            dict(counts.entities),
            left_out,
            seconds=dict(times.seconds),
            path=file_paths.absolute(job.path),
        )


class _BadInput(UserError):
    """The error of an input file that cannot be read; its message names the file."""


def _documents(job: Job, left_out: list[str]) -> Iterator[Document]:
    """Reads the documents of a file.

    Raises:
      _BadInput: the file cannot be read, which no error of writing the output is taken for.
    """
    try:
        yield from document_formats.read(job.path, left_out)
    except UserError as error:
        raise _BadInput(str(error)) from error
    except OSError as error:
        raise _BadInput(messages.of_os_error(error)) from error
