"""Settings of small runs, and what the tests of several modules of runs need."""

import io

import pytest

from data_prep.sentences import splitters
from tests import traced_once
from tests.pretraining_runs import of_one_layer, small_settings
from tfbio.runs import finetuning, mesh_finetuner, pretraining
from tfbio.task_types import task_table
from tfbio.task_types.finetuning_config import FinetuningConfig

SETTINGS = FinetuningConfig(
    sequence_length=32,
    train_batch_size=16,
    num_train_epochs=1.0,
    max_train_examples=64,
    learning_rate=1e-3,
    num_trials=2,
)


@pytest.fixture(scope="session")
def pretrained(pretrained_layer):
    return pretrained_layer


@pytest.fixture(scope="module")
def run(roles_folder, pretrained, cpu):
    """Fine-tunes into a folder."""

    def finetune(output_dir, settings=SETTINGS, **changes):
        arguments = {
            "task": task_table.TASKS["sentence_roles"],
            "data_dir": roles_folder,
            "init_checkpoint": pretrained,
            "output_dir": str(output_dir),
            "strategy": cpu,
        }
        return finetuning.finetune(finetuning.Run(settings, **{**arguments, **changes}))

    return finetune


@pytest.fixture(scope="module")
def splitter():
    return splitters.load("biosenter")


@pytest.fixture
def pipe(monkeypatch):
    """Makes some bytes the standard input."""
    return lambda data: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.fixture(scope="module")
def settings(examples_folder):
    """Returns the settings of a small pretraining run."""
    return small_settings(examples_folder)


@pytest.fixture(scope="module")
def shallow(settings):
    """Returns settings of one layer, where the encoder does not matter."""
    return of_one_layer(settings)


@pytest.fixture(scope="module")
def pretraining_traced_once():
    """Pretraining runs of a file that have the same graphs trace them once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretraining, "Pretrainer", traced_once.pretrainers())
        yield


@pytest.fixture(scope="module")
def finetuning_traced_once():
    """Fine-tuning runs of a file that have the same graphs trace them once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mesh_finetuner, "Finetuner", traced_once.finetuners())
        yield
